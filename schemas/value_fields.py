"""Values of attributes, between plain data and Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from pastforward.matching.conditions.values import Box, Circle, Path, Point, Value
from pastforward.schemas.avro_plain import Plain
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.fields import Check, identifier, integer, moment, read_fields, topic, wrong_type
from pastforward.schemas.times import datetime_of, micros_of


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


_LON: Final = _within(-180.0, 180.0)
_LAT: Final = _within(-90.0, 90.0)


def _box(value: Any, what: str) -> Box:
    box = Box(*read_fields(value, what, dict.fromkeys(("min_x", "min_y", "max_x", "max_y"), coordinate), True))
    if box.min_x > box.max_x or box.min_y > box.max_y:
        raise SchemaError(
            "bad_value", f"{what} is a box whose min is above its max: write min_x <= max_x, min_y <= max_y"
        )
    return box


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
        "and max_y; timestamp; or path", value)  # fmt: skip


def plain_value(value: Value | None) -> Plain:
    if isinstance(value, datetime):
        return {"timestamp": micros_of(value)}
    if isinstance(value, Point):
        return {"lon": float(value.lon), "lat": float(value.lat)}
    if isinstance(value, Circle):
        return {"lon": float(value.lon), "lat": float(value.lat), "radius_m": float(value.radius_m)}
    if isinstance(value, Box):
        return {each: float(getattr(value, each)) for each in ("min_x", "min_y", "max_x", "max_y")}
    if isinstance(value, Path):
        return {"path": value.text}
    return value


def attribute_name(value: Any, what: str) -> str:
    return identifier(value, what)


def attributes(value: Any, what: str) -> dict[str, Value]:
    if type(value) is not dict:
        raise wrong_type(what, "an object of attributes by name", value)
    return {
        attribute_name(name, "the name of an attribute"): attribute_value(each, f"attribute {name[:60]!r}")
        for name, each in value.items()
    }
