"""Moments: as callers write them, and as they are given back."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from pastforward.errors import UserError
from pastforward.schemas import SchemaError
from pastforward.schemas.times import micros_of, micros_of_text
from pastforward.schemas.value_fields import micros_of_numpy
from pastforward.settings import parse_duration

Moment = datetime | timedelta | str | np.datetime64 | np.timedelta64 | None
_WRITE = "write an aware datetime, a timedelta from now, or a text such as '-10m' or '2026-01-31T12:00:00Z'"
_RELATIVE = re.compile(r"[+-][\d.]+[a-z][\da-z.]*")


class Instant(datetime):
    """An aware datetime in UTC; `micros` are the microseconds since 1970 that stand in the record."""

    @classmethod
    def of(cls, micros: int) -> Instant:
        return _EPOCH + timedelta(microseconds=micros)

    @property
    def micros(self) -> int:
        """Since 1970, exactly."""
        return micros_of(self)


_EPOCH = Instant(1970, 1, 1, tzinfo=UTC)


def now_micros() -> int:
    return time.time_ns() // 1000


def micros(moment: Moment, now: int | None = None, name: str = "the time") -> int | None:
    """Microseconds of an aware datetime, a timedelta from now (minus: ago), a text, or NumPy's times. `name`: of the argument."""
    if moment is None:
        return None
    if isinstance(moment, np.timedelta64):
        moment = moment.astype("timedelta64[us]").item()
    elif isinstance(moment, np.datetime64):
        return micros_of_numpy(moment)
    if isinstance(moment, timedelta):
        return (now_micros() if now is None else now) + moment // timedelta(microseconds=1)
    if isinstance(moment, str):
        return _micros_of_text(moment, now, name)
    if isinstance(moment, datetime):
        return micros_of(moment)
    raise _no_moment(moment, name)


def _no_moment(moment: Any, name: str) -> SchemaError:
    if isinstance(moment, int | np.integer) and not isinstance(moment, bool):
        return SchemaError(
            "wrong_type",
            f"{name} is {moment}, an integer without a unit: {_WRITE}; Instant.of({moment}) are microseconds since 1970",
        )
    return SchemaError("wrong_type", f"{name}: {moment!r} is no time: {_WRITE}")


def _micros_of_text(text: str, now: int | None, name: str) -> int:
    if _RELATIVE.fullmatch(text):
        try:
            ahead = parse_duration(text[1:])
        except ValueError:
            raise SchemaError("bad_value", f"{name}: {text!r} is no time: {_WRITE}") from None
        return (now_micros() if now is None else now) + (-ahead if text[0] == "-" else ahead)
    try:
        return micros_of_text(text, name)
    except SchemaError as error:
        if "no RFC 3339 time" not in error.reason:
            raise
        raise SchemaError("bad_value", f"{name}: {text!r} is no time: {_WRITE}") from None


def seconds_of(timeout: Any, name: str = "timeout") -> float | None:
    """A time-out, as `threading` takes it, or a timedelta."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if timeout is None or (isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout >= 0):
        return timeout
    raise UserError(f"{name} is {timeout!r}: write seconds, or None to wait without end")
