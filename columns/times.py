"""Times are integers: microseconds since 1970, UTC. Datetimes and RFC 3339 text are turned into them and back here."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

# The years 1 to 9999, which RFC 3339 and Python can write.
MIN_TIME: Final = -62_135_596_800_000_000
MAX_TIME: Final = 253_402_300_799_999_999

# 146,000 years on either side of 1970: beyond what a record may say, and the sum of two such times does not overflow.
FARTHEST: Final = 1 << 62

# No bound: a beginning before all times, and an end after them, so that comparisons need no case of their own.
EARLIEST: Final = -(1 << 63)
LATEST: Final = (1 << 63) - 1
NEVER: Final = LATEST  # as an end

_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-](?:[01]\d|2[0-3]):[0-5]\d))", re.ASCII
)


def micros_of(moment: datetime) -> int:
    """A datetime without a zone is taken as UTC: there is no other time here."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int((moment - EPOCH) // MICROSECOND)


def datetime_of(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def micros_of_text(text: str) -> int | None:
    """Reads RFC 3339, and cuts off digits beyond the microsecond; None if it is written otherwise. Raises `ValueError` if there is no such
    moment."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, offset = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}{offset or '+00:00'}")
    return micros_of(moment) + int((fraction or "0")[:6].ljust(6, "0"))
