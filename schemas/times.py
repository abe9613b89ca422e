"""Times are integers: microseconds since 1970, UTC. RFC 3339 text and aware datetimes are turned into them here."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from pastforward.schemas.errors import SchemaError
from pastforward.schemas.limits import MAX_TIME, MIN_TIME

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-](?:[01]\d|2[0-3]):[0-5]\d))", re.ASCII
)


def micros_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise SchemaError("bad_value", f"the time {moment.isoformat()} has no time zone: use an aware datetime")
    return (moment - EPOCH) // _MICROSECOND


def datetime_of(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def check_micros(micros: int, what: str) -> int:
    if not MIN_TIME <= micros <= MAX_TIME:
        raise SchemaError("bad_value", f"{what} is {micros} microseconds since 1970, outside the years 1 to 9999")
    return micros


def micros_of_text(text: str, what: str) -> int:
    """Reads RFC 3339. Digits beyond the microsecond are cut off."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise SchemaError(
            "bad_value",
            f"{what} is {text[:40]!r}, no RFC 3339 time: write 2025-01-31T12:00:00Z or integer microseconds since 1970",
        )
    day, clock, fraction, offset = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{offset or '+00:00'}")
    except ValueError as error:
        raise SchemaError("bad_value", f"{what} is {text[:40]!r}, no such moment: {error}") from None
    micros = (moment - EPOCH) // _MICROSECOND + int((fraction or "0")[:6].ljust(6, "0"))
    return check_micros(micros, what)
