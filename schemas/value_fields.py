"""Values of attributes, between plain data and Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import numpy as np

from pastforward.columns.times import datetime_of
from pastforward.matching.conditions.limits import MAX_LAT, MAX_LON
from pastforward.matching.conditions.types import is_number, micros_since
from pastforward.matching.conditions.values import Box, Circle, Path, Point, Value
from pastforward.schemas.avro_plain import Plain
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.fields import Check, check_id, integer, moment, read_fields, text, topic, wrong_type
from pastforward.schemas.limits import MAX_NAME_BYTES
from pastforward.schemas.times import micros_of


def coordinate(value: Any, what: str) -> float:
    if type(value) is not float and type(value) is not int:
        raise wrong_type(what, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError("bad_value", f"{what} is {number}: write a finite number")
    return number


def _within(low: float, high: float) -> Check[float]:
    def checked(value: Any, what: str) -> float:
        number = coordinate(value, what)
        if not low <= number <= high:
            raise SchemaError("bad_value", f"{what} is {number}: write {low:g} to {high:g} degrees")
        return number

    return checked


def _radius(value: Any, what: str) -> float:
    number = coordinate(value, what)
    if number < 0:
        raise SchemaError("bad_value", f"{what} is {number}: a radius is not negative")
    return number


_LON: Final = _within(-MAX_LON, MAX_LON)
_LAT: Final = _within(-MAX_LAT, MAX_LAT)


def _box(value: Any, what: str) -> Box:
    box = Box(*read_fields(value, what, dict.fromkeys(("min_x", "min_y", "max_x", "max_y"), coordinate), True))
    if box.min_x > box.max_x or box.min_y > box.max_y:
        raise SchemaError(
            "bad_value", f"{what} is a box whose min is above its max: write min_x <= max_x, min_y <= max_y"
        )
    return box


# What JSON has no numbers for, as objects of one field, `float`.
NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NOT_FINITE: Final = {name: float(text) for text, name in NOT_FINITE.items()}


def _not_finite(value: Any, what: str) -> float:
    if type(value) is not str or value not in _NOT_FINITE:
        raise wrong_type(f"{what}.float", f"one of {', '.join(_NOT_FINITE)}; any other is a mere number", value)
    return _NOT_FINITE[value]


_OBJECTS: Final[dict[frozenset[str], Callable[[Any, str], Value]]] = {
    frozenset(("lon", "lat")): lambda value, what: Point(
        _LON(value["lon"], what + ".lon"), _LAT(value["lat"], what + ".lat")
    ),
    frozenset(("lon", "lat", "radius_m")): lambda value, what: Circle(
        _LON(value["lon"], what + ".lon"),
        _LAT(value["lat"], what + ".lat"),
        _radius(value["radius_m"], what + ".radius_m"),
    ),
    frozenset(("min_x", "min_y", "max_x", "max_y")): _box,
    frozenset(("timestamp",)): lambda value, what: datetime_of(moment(value["timestamp"], what)),
    frozenset(("path",)): lambda value, what: Path(topic(value["path"], what)),
    frozenset(("float",)): lambda value, what: _not_finite(value["float"], what),
}


def attribute_value(value: Any, what: str) -> Value:
    kind = type(value)
    if kind is str or kind is float or kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return integer(value, what)
    if kind is dict:
        build = _OBJECTS.get(frozenset(value))
        if build is not None:
            return build(value, what)
    raise wrong_type(what, "true, false, a number, a string, or an object of lon and lat; lon, lat and radius_m; min_x, min_y, max_x "
        "and max_y; timestamp; path; or float", value)  # fmt: skip


def undressed(value: Any) -> Any:
    """The same of a plain type: callers have scalars of NumPy, and subclasses of what is written here. What is neither stays."""
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, bytes):
        return bytes(value)
    if is_number(value):
        return int(value) if isinstance(value, int | np.integer) else float(value)
    return value


def micros_of_numpy(moment: np.datetime64) -> int:
    micros = micros_since(moment)
    if micros is None:
        raise SchemaError("bad_value", f"{moment!r} is no time in the years 1 to 9999: write one, or leave it out")
    return micros


def _degrees(value: Any) -> Any:
    """A float, as Avro has it. What is none is left to the check, which has its name."""
    number = undressed(value)
    if type(number) is int:
        try:
            return float(number)
        except OverflowError:
            return number
    return number


def _shape_fields(shape: Point | Circle | Box, *names: str) -> Plain:
    return {name: _degrees(getattr(shape, name)) for name in names}


def plain_value(value: Value | np.generic | None) -> Plain:
    """What is no value at all stays as it is, for the check that comes next."""
    if isinstance(value, datetime):
        return {"timestamp": micros_of(value)}
    if isinstance(value, np.datetime64):
        return {"timestamp": micros_of_numpy(value)}
    if isinstance(value, Point):
        return _shape_fields(value, "lon", "lat")
    if isinstance(value, Circle):
        return _shape_fields(value, "lon", "lat", "radius_m")
    if isinstance(value, Box):
        return _shape_fields(value, "min_x", "min_y", "max_x", "max_y")
    if isinstance(value, Path):
        return {"path": undressed(value.text)}
    plain: Plain = undressed(value)
    return plain


def attribute_name(value: Any, what: str) -> str:
    """As an id is read; `schemas.acceptance` refuses what is longer than a name may be."""
    return check_id(text(value, what), what, MAX_NAME_BYTES)


def attributes(value: Any, what: str) -> dict[str, Value]:
    if type(value) is not dict:
        raise wrong_type(what, "an object of attributes by name", value)
    return {
        attribute_name(name, "the name of an attribute"): attribute_value(each, f"attribute {name[:60]!r}")
        for name, each in value.items()
    }
