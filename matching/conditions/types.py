"""From a Python value to the family and the constant that the normal form compares, and back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import isfinite, isnan
from typing import Any, Final, NamedTuple

import numpy as np

from pastforward.matching.conditions.normal_form import MAX_COMPONENT, Constant, Family
from pastforward.matching.conditions.values import Box, Circle, Path, Point, Value

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


class Instant(NamedTuple):
    """A timestamp as the kernels have it. They know moments that no datetime can hold."""

    microseconds: int


_COMPONENT: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def number(value: float) -> int | float:
    """The number as the normal form writes it: an `int` where one of 64 bits is equal. Must not be NaN."""
    if isinstance(value, float) and isfinite(value) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return int(value)
    return value


def microseconds(value: datetime) -> int:
    """Since 1970, UTC. A datetime without a zone is taken as UTC: there is no other time here."""
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return int((value - EPOCH) // MICROSECOND)


def path_components(text: str) -> tuple[int, ...] | None:
    """The components of a Dewey path; None if the text is not one. Leading zeros are refused: one path, one text."""
    if not text:
        return ()
    components = []
    for part in text.split("."):
        if not _COMPONENT.fullmatch(part) or int(part) > MAX_COMPONENT:
            return None
        components.append(int(part))
    return tuple(components)


def path_text(components: tuple[int, ...]) -> str:
    return ".".join(map(str, components))


def is_valid_shape(shape: Point | Box | Circle) -> bool:
    """Finite; a box not inside out; a circle on the globe, its radius not negative. Its numbers are floats."""
    if isinstance(shape, Point):
        return isfinite(shape.lon) and isfinite(shape.lat)
    if isinstance(shape, Circle):
        return abs(shape.lon) <= 180 and abs(shape.lat) <= 90 and isfinite(shape.radius_m) and shape.radius_m >= 0
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
        return (Family.TIMESTAMP, microseconds(value)) if value == value else None
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
    if not all(isinstance(coordinate, int | float | np.integer | np.floating) for coordinate in numbers):
        return None
    try:
        plain: Point | Box | Circle = kind(*map(float, numbers))
    except OverflowError:  # an integer beyond the largest float
        return None
    return plain


def _classify_scalar(value: np.generic) -> tuple[Family, Constant] | None:
    """Of NumPy's scalars those that no type of Python is a base of."""
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return classify(value.item()) if not isinstance(value, np.longdouble) else classify(float(value))
    if isinstance(value, np.datetime64) and not np.isnat(value):
        since = value.astype("datetime64[us]")
        # a unit so coarse that microseconds overflow comes back as another moment
        return (Family.TIMESTAMP, int(since.astype(np.int64))) if since.astype(value.dtype) == value else None
    return None


def is_encodable(text: str) -> bool:
    """Whether the text has a UTF-8 form: lone surrogates have none."""
    if text.isascii():
        return True
    return not any("\ud800" <= character <= "\udfff" for character in text)


def value_of(family: Family, constant: Constant) -> Value:
    """The inverse of `classify`."""
    if family is Family.TIMESTAMP:
        assert isinstance(constant, int)
        return EPOCH + timedelta(microseconds=constant)
    if isinstance(constant, tuple):
        return Path(path_text(constant))
    return constant
