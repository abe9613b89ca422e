"""From places to topics and conditions: `near` of a subscription, `at` of a publication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pastforward.columns.dewey import topics_of
from pastforward.columns.places import PlaceError
from pastforward.matching.conditions.errors import shown
from pastforward.matching.conditions.printing import value_text
from pastforward.matching.conditions.values import Box, Circle, Point, Value
from pastforward.places import LEVEL, PLACE, cell, cells, smallest_cell
from pastforward.schemas import Predicate, SchemaError
from pastforward.schemas.records import Where

Area: TypeAlias = Circle | Box


def topics_near(near: Area, below: str = "") -> str:
    """The cells that contain it together; `below`: the topic that has the map."""
    if not isinstance(near, Circle | Box):
        raise SchemaError("wrong_type", f"near must be a Circle or a Box, not {shown(near)}")
    if len(topics_of(below)) > 1:
        raise SchemaError(
            "bad_value", f"near needs a single topic to stand below, not {below!r}: send a subscription for each"
        )
    try:
        return ",".join(_joined(below, each) for each in cells(near))
    except PlaceError as error:
        raise SchemaError("bad_value", f"near: {error}") from None


def where_near(where: Where, near: Area) -> Where:
    """The condition, and that the place is there."""
    if isinstance(where, tuple | list):
        return tuple((*disjunct, Predicate(PLACE, "overlaps", near)) for disjunct in where)
    exact = f"overlaps({PLACE}, {value_text(near)})"
    return exact if where is None else f"({where}) AND {exact}"


def topic_at(at: Point | Area, below: str = "") -> str:
    """The cell of a point, or the smallest one that contains a circle or box: the root, if that crosses the border of the quarters."""
    try:
        if isinstance(at, Point):
            return _joined(below, cell(at.lon, at.lat))
        if isinstance(at, Circle | Box):
            return _joined(below, smallest_cell(at, LEVEL))
    except PlaceError as error:
        raise SchemaError("bad_value", f"at: {error}") from None
    except TypeError:
        raise SchemaError("wrong_type", f"at must have numbers, not {shown(at)}") from None
    raise SchemaError("wrong_type", f"at must be a Point, a Circle or a Box, not {shown(at)}")


def attributes_at(attributes: Mapping[str, Any], at: Point | Area) -> dict[str, Value]:
    if attributes.get(PLACE, at) != at:
        raise SchemaError(
            "bad_value",
            f"the attribute {PLACE!r} is {shown(attributes[PLACE])} and at is {shown(at)}: at becomes that attribute, leave one out",
        )
    return {**attributes, PLACE: at}


def _joined(above: str, below: str) -> str:
    return f"{above}.{below}" if above and below else above or below
