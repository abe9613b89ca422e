"""Times in records: RFC 3339 text, aware datetimes and integers, within their limits."""

from __future__ import annotations

from datetime import datetime

from pastforward.columns import times
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.schemas.errors import SchemaError


def micros_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise SchemaError("bad_value", f"the time {moment.isoformat()} has no time zone: use an aware datetime")
    return times.micros_of(moment)


def check_micros(micros: int, what: str) -> int:
    if not MIN_TIME <= micros <= MAX_TIME:
        raise SchemaError("bad_value", f"{what} is {micros} microseconds since 1970, outside the years 1 to 9999")
    return micros


def micros_of_text(text: str, what: str) -> int:
    """Reads RFC 3339. Digits beyond the microsecond are cut off."""
    try:
        micros = times.micros_of_text(text)
    except ValueError as error:
        raise SchemaError("bad_value", f"{what} is {text[:40]!r}, no such moment: {error}") from None
    if micros is None:
        raise SchemaError(
            "bad_value",
            f"{what} is {text[:40]!r}, no RFC 3339 time: write 2025-01-31T12:00:00Z or integer microseconds since 1970",
        )
    return check_micros(micros, what)
