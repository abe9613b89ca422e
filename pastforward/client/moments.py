"""Moments as callers write them, in microseconds."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from pastforward.schemas import SchemaError
from pastforward.schemas.times import micros_of
from pastforward.schemas.value_fields import micros_of_numpy, undressed

Moment = datetime | timedelta | int | np.datetime64 | np.timedelta64 | np.integer[Any] | None


def now_micros() -> int:
    return time.time_ns() // 1000


def micros(moment: Moment, now: int | None = None) -> int | None:
    """Microseconds of a moment: an aware datetime, integer microseconds, or a timedelta from now (minus: ago); NumPy's of these too."""
    if isinstance(moment, np.timedelta64):
        moment = moment.astype("timedelta64[us]").item()
    elif isinstance(moment, np.datetime64):
        return micros_of_numpy(moment)
    moment = undressed(moment)
    if moment is None or isinstance(moment, int):
        return moment
    if isinstance(moment, timedelta):
        return (now_micros() if now is None else now) + moment // timedelta(microseconds=1)
    if not isinstance(moment, datetime):
        raise SchemaError(
            "wrong_type",
            f"{moment!r} is no time: write an aware datetime, integer microseconds, or a timedelta from now",
        )
    return micros_of(moment)
