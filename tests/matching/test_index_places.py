"""Tests of places in the index: whatever the shapes, their sizes and where they lie, the answers are those of the definition."""

from __future__ import annotations

import struct
from math import cos, degrees, radians
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition, Index
from pastforward.matching.conditions.geometry import EARTH_RADIUS_M, holds
from pastforward.matching.conditions.normal_form import Relation
from pastforward.matching.conditions.predicates import Predicate
from pastforward.matching.conditions.values import Box, Circle, Point
from pastforward.matching.index.subscription import NewSubscription

RELATIONS = {"overlaps": Relation.OVERLAPS, "contains": Relation.CONTAINS, "within": Relation.WITHIN}

# edges: the antimeridian, its opposite, the poles and what is just beside them
_lon = st.one_of(
    st.floats(-180, 180), st.sampled_from([-180.0, 180.0, 179.9999, -179.9999, 0.0, -0.0, 1e-9, -1e-9, 90.0, -90.0])
)
_lat = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 90.0, 89.999, -89.999, 89.9999999, 0.0]))
_radius = st.one_of(st.floats(0, 2.1e7), st.floats(0, 1e5), st.sampled_from([0.0, 1.0, 1e7, 20015115.0, 1e300]))
_points = st.builds(Point, _lon, _lat)
_circles = st.builds(Circle, _lon, _lat, _radius)
_plane = st.one_of(_lon, st.floats(-1e6, 1e6), st.sampled_from([-1e308, 1e308, 181.0, -181.0]))
_boxes = st.builds(
    lambda x1, x2, y1, y2: Box(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)),
    _plane,
    _plane,
    st.one_of(_lat, st.floats(-1e6, 1e6)),
    st.one_of(_lat, st.floats(-1e6, 1e6)),
)
_shapes = st.one_of(_points, _circles, _circles, _boxes)


def _beside(shape: Any, random: Random) -> Any:
    """Another shape about where this one ends."""
    if isinstance(shape, Box):
        x, y = random.choice([shape.min_x, shape.max_x]), random.choice([shape.min_y, shape.max_y])
    else:
        reach = degrees(getattr(shape, "radius_m", 0.0) / EARTH_RADIUS_M) * random.choice([0.999999, 1.0, 1.000001])
        side = random.choice([-1, 1])
        x, y = shape.lon, shape.lat
        if random.random() < 0.5:
            y += side * reach
        else:
            x += side * reach / max(cos(radians(shape.lat)), 1e-9)
            x = (x + 180) % 360 - 180
    x, y = min(max(x, -180.0), 180.0), min(max(y, -90.0), 90.0)
    kind = random.randrange(3)
    if kind == 0:
        return Point(x, y)
    if kind == 1:
        return Circle(x, y, random.choice([0.0, 1.0, 5_000.0, 3e6]))
    return Box(x, y, min(x + random.choice([0.0, 0.1, 10.0]), 180.0), min(y + 0.1, 90.0))


def wanted(tests: list[tuple[str, bool, Any]], value: Any) -> list[int]:
    return [i for i, (name, negated, shape) in enumerate(tests) if holds(RELATIONS[name], value, shape) is not negated]


def condition(name: str, negated: bool, shape: Any) -> Condition:
    return Condition.from_predicates([[Predicate("p", f"not {name}" if negated else name, shape)]])


def column(values: list[Any]) -> pa.Array:
    names = values[0].__slots__
    kind = pa.struct([(name, pa.float64()) for name in names])
    return pa.array([{name: getattr(value, name) for name in names} for value in values], kind)


def check(index: Index, tests: list[tuple[str, bool, Any]], values: list[Any]) -> None:
    for value in values:
        assert sorted(index.match({"p": value})) == wanted(tests, value), value
    for kind in (Point, Circle, Box):
        alike = [value for value in values if isinstance(value, kind)]
        if not alike:
            continue
        for rows in (alike, alike * (40 // len(alike) + 1)):
            # a slice, so that the columns do not begin where their buffers do; and one that nobody asks about
            padded = column([alike[0], *rows])
            table = pa.table({"q": padded, "p": padded, "n": pa.array([1] * len(padded))}).slice(1)
            found = index.match_table(table)
            got: list[list[int]] = [[] for _ in rows]
            for row, identity in zip(found["row"].to_pylist(), found["subscription_id"].to_pylist(), strict=True):
                got[row].append(identity)
            assert [sorted(ids) for ids in got] == [wanted(tests, value) for value in rows]


_tests = st.lists(st.tuples(st.sampled_from(list(RELATIONS)), st.booleans(), _shapes), min_size=1, max_size=30)


@settings(max_examples=150, deadline=None)
@given(_tests, st.lists(_shapes, max_size=4), st.integers(0, 2**32))
def test_every_shape_against_every_other(tests: list[tuple[str, bool, Any]], values: list[Any], seed: int) -> None:
    random = Random(seed)
    values = values + [_beside(shape, random) for _, _, shape in tests] + [shape for _, _, shape in tests]
    index = Index()
    for i, test in enumerate(tests):
        index.add(i, condition(*test))
    check(index, tests, values)


def test_many_are_found_by_their_places_however_they_come_and_go() -> None:
    """By the thousand, by every way in, and after half of them went. Some of them in one place, some across the antimeridian."""
    random = Random(5)
    tests: list[tuple[str, bool, Any]] = []
    for i in range(3000):
        lon = random.choice([random.uniform(-180, 180), random.uniform(179, 181), random.uniform(13.0, 13.8)])
        lat = random.choice([random.uniform(-90, 90), random.uniform(52.3, 52.7), random.uniform(89, 90)])
        lon = lon - 360 if lon > 180 else lon
        shape: Any = Circle(lon, lat, random.choice([50.0, 10_000.0, 100_000.0]))
        if i % 3 == 0:
            shape = Box(lon, lat, min(lon + 0.1, 180.0), min(lat + 0.1, 90.0))
        tests.append((random.choice(list(RELATIONS)), i % 50 == 0, shape))
    values = [_beside(random.choice(tests)[2], random) for _ in range(60)]
    index = Index()
    new = [NewSubscription(i, condition(*test).disjuncts) for i, test in enumerate(tests)]
    index.add_many(new[:1000])
    for subscription in new[1000:1200]:
        index.add_many([subscription])
    rows = []
    for i, (name, negated, shape) in enumerate(tests[1200:], 1200):
        doubles = [getattr(shape, part) for part in shape.__slots__]
        packed = struct.pack(f"<{len(doubles)}d", *doubles)
        rows.append({"subscription_id": i, "attribute": "p", "operator": f"{'not ' * negated}{name}", "value": packed})
    names = ("subscription_id", "attribute", "operator")
    packed_column = pa.array([row["value"] for row in rows], pa.binary())
    index.add_predicates(
        pa.table({**{name: [row[name] for row in rows] for name in names}, "value_binary": packed_column})
    )
    check(index, tests, values)
    index.remove_many(list(range(0, 3000, 2)))
    for value in values:
        assert sorted(index.match({"p": value})) == [i for i in wanted(tests, value) if i % 2]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_place_needs_no_python(relation: str) -> None:
    index = Index()
    cost = index.cost(f"{relation}(p, CIRCLE(13.4, 52.5, 1000)) AND NOT {relation}(p, BOX(13.4, 52.5, 13.5, 52.6))")
    assert cost.slow == 0
    texts = [f"{relation}(p, CIRCLE({i % 360 - 180}, {i % 90}, 1000))" for i in range(3000)]
    index.add_many([NewSubscription(i, Condition.parse(text).disjuncts) for i, text in enumerate(texts)])
    found = index.cost(f"{relation}(p, CIRCLE(13.4, 52.5, 1000))")
    assert "longitude of p" in " ".join(found.access)
    assert "latitude of p" in " ".join(found.access)


def test_names_of_axes_are_nobody_s() -> None:
    """Whatever a publication calls its attributes."""
    index = Index()
    index.add(1, "within(p, BOX(0, 0, 1, 1))")
    for name in index._members.registry.names:
        if name != "p":
            assert index.match({name: 5, "p": Point(0.5, 0.5)}) == [1]
            assert index.match({name: 5}) == []


def test_symmetric_does_not_count_axes() -> None:
    index = Index()
    index.add(1, "within(p, BOX(0, 0, 1, 1))", semantics="symmetric")
    index.add(2, "within(p, BOX(0, 0, 1, 1)) AND q = 1", semantics="intersect")
    assert sorted(index.match({"p": Point(0.5, 0.5)})) == [1, 2]
    assert sorted(index.match({"p": Point(0.5, 0.5), "q": 1})) == [2]
    assert sorted(index.match({"q": 1})) == [2]


@pytest.mark.parametrize(
    "shape", [Point(200.0, 0.0), Circle(0.0, 0.0, -1.0), Circle(0.0, 91.0, 1.0), Box(1.0, 0.0, 0.0, 1.0)]
)
def test_what_is_no_shape_is_nowhere(shape: Any) -> None:
    index = Index()
    index.add(1, "NOT within(p, BOX(0, 0, 1, 1))")
    index.add(2, "overlaps(p, BOX(-180, -90, 180, 90))")
    index.add(3, "p IS NOT NULL")
    assert index.match({"p": shape}) == [3]
    assert index.match_table(pa.table({"p": column([shape])}))["subscription_id"].to_pylist() == [3]


def test_a_shape_with_a_hole_in_its_numbers_is_absent() -> None:
    index = Index()
    index.add(1, "p IS NOT NULL")
    index.add(2, "p IS NULL")
    kind = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
    values = pa.array([{"lon": 1.0, "lat": None}, None, {"lon": 1.0, "lat": 1.0}], kind)
    for repeats in (1, 20):
        found = index.match_table(pa.table({"p": pa.concat_arrays([values] * repeats)}))
        assert found["subscription_id"].to_pylist() == [2, 2, 1] * repeats
