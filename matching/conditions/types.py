"""From a Python value to the family and the constant that the normal form compares, and back."""

from __future__ import annotations

from datetime import datetime
from math import isfinite, isnan
from typing import Any, Final, NamedTuple

import numpy as np

from pastforward.columns import dewey
from pastforward.columns.times import datetime_of, micros_of
from pastforward.matching.conditions.limits import MAX_LAT, MAX_LON
from pastforward.matching.conditions.normal_form import Constant, Family
from pastforward.matching.conditions.values import Box, Circle, Path, Point, Value

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class Instant(NamedTuple):
    """A timestamp as the kernels have it. They know moments that no datetime can hold."""

    microseconds: int


_FINER: Final = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}  # units of NumPy's times, to a microsecond


def number(value: float) -> int | float:
    """The number as the normal form writes it: an `int` where one of 64 bits is equal. Must not be NaN."""
    if isinstance(value, float) and isfinite(value) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value


def path_components(text: str) -> tuple[int, ...] | None:
    """The components of a Dewey path, however deep; None if the text is not one."""
    try:
        return dewey.parse(text, text.count(".") + 1)
    except dewey.PathError:
        return None


def path_text(components: tuple[int, ...]) -> str:
    return ".".join(map(str, components))


def is_valid_shape(shape: Point | Box | Circle) -> bool:
    """Finite; a point or a circle's centre on the globe, the radius not negative; a box not inside out. Its numbers are floats."""
    if isinstance(shape, Point):
        return abs(shape.lon) <= MAX_LON and abs(shape.lat) <= MAX_LAT
    if isinstance(shape, Circle):
        on_globe = abs(shape.lon) <= MAX_LON and abs(shape.lat) <= MAX_LAT
        return on_globe and isfinite(shape.radius_m) and shape.radius_m >= 0
    numbers = (shape.min_x, shape.min_y, shape.max_x, shape.max_y)
    return all(map(isfinite, numbers)) and shape.min_x <= shape.max_x and shape.min_y <= shape.max_y


def classify(value: object) -> tuple[Family, Constant] | None:
    """Family and constant of an attribute's value; None for what compares with nothing.

    None is the answer for NaN, an integer beyond 64 bits, a string with surrogates, an invalid path or shape, and every
    other type: such a value is present, so it satisfies `IS NOT NULL`, and nothing else. This never raises. The constant is
    of a plain type, whatever subclass of it or scalar of NumPy the value is.
    """
    if isinstance(value, bool):
        return Family.BOOLEAN, value
    if isinstance(value, int):
        return (Family.NUMBER, int.__int__(value)) if INT64_MIN <= value <= INT64_MAX else None
    if isinstance(value, float):
        return None if isnan(value) else (Family.NUMBER, number(float.__float__(value)))
    if isinstance(value, str):
        return (Family.STRING, str.__str__(value)) if is_encodable(value) else None
    if isinstance(value, datetime):
        # NaT of pandas is a datetime, and not equal to itself
        return (Family.TIMESTAMP, micros_of(value)) if value == value else None
    if isinstance(value, Instant):
        return Family.TIMESTAMP, value.microseconds
    if isinstance(value, Path):
        components = path_components(value.text) if isinstance(value.text, str) else None
        return None if components is None else (Family.PATH, components)
    if isinstance(value, Point | Box | Circle):
        shape = _plain_shape(value)
        return (Family.GEOMETRY, shape) if shape is not None and is_valid_shape(shape) else None
    if isinstance(value, np.generic):
        return _classify_scalar(value)
    return None


def _plain_shape(shape: Point | Box | Circle) -> Point | Box | Circle | None:
    """The same with floats for coordinates; None if they are no numbers."""
    kind: Any = next(kind for kind in (Point, Box, Circle) if isinstance(shape, kind))
    numbers = [getattr(shape, name) for name in kind.__slots__]
    if type(shape) is kind and all(type(coordinate) is float for coordinate in numbers):
        return shape
    if not all(is_number(coordinate) for coordinate in numbers):
        return None
    try:
        plain: Point | Box | Circle = kind(*map(float, numbers))
    except OverflowError:  # an integer beyond the largest float
        return None
    return plain


def _classify_scalar(value: np.generic) -> tuple[Family, Constant] | None:
    """Of NumPy's scalars those that no type of Python is a base of."""
    if isinstance(value, np.bool_) or is_number(value):
        return classify(value.item()) if not isinstance(value, np.longdouble) else classify(float(value))
    since = micros_since(value) if isinstance(value, np.datetime64) else None
    return None if since is None else (Family.TIMESTAMP, since)


def is_number(value: object) -> bool:
    """Of Python or NumPy. A boolean is none, nor is a length of time."""
    if isinstance(value, bool | np.timedelta64):
        return False
    return isinstance(value, int | float | np.integer | np.floating)


def micros_since(moment: np.datetime64) -> int | None:
    """Microseconds since 1970; NumPy's times are UTC. What is finer is cut off, as everywhere. None: no moment, or too far away."""
    since = moment.astype("datetime64[us]")
    if np.isnat(since):
        return None
    # a unit so coarse that microseconds overflow comes back as another moment
    cut = int(moment.astype(np.int64)) - int(since.astype(moment.dtype).astype(np.int64))
    return int(since.astype(np.int64)) if 0 <= cut < _FINER.get(np.datetime_data(moment.dtype)[0], 1) else None


def is_encodable(text: str) -> bool:
    """Whether the text has a UTF-8 form: lone surrogates have none."""
    if text.isascii():
        return True
    return not any("\ud800" <= character <= "\udfff" for character in text)


def value_of(family: Family, constant: Constant) -> Value:
    """The inverse of `classify`."""
    if family is Family.TIMESTAMP:
        assert isinstance(constant, int)
        return datetime_of(constant)
    if isinstance(constant, tuple):
        return Path(path_text(constant))
    return constant
