"""Cells: numbering, containment and covers, at the antimeridian and the poles too."""

from __future__ import annotations

from dataclasses import dataclass
from math import asin, atan2, cos, degrees, pi, radians, sin, sqrt

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pastforward.columns.places import EARTH_RADIUS_M
from pastforward.state import PlaceError, bounds, cell_of, cover, leaves, open_store, smallest_cell


@dataclass(frozen=True)
class Circle:
    lon: float
    lat: float
    radius_m: float


@dataclass(frozen=True)
class Box:
    min_x: float
    min_y: float
    max_x: float
    max_y: float


LON = st.floats(-180, 180)
LAT = st.floats(-90, 90)
CIRCLES = st.builds(Circle, LON, LAT, st.floats(0, 3e7) | st.floats(0, 1e4))


def related(left: str, right: str) -> bool:
    """One is the other's ancestor, or they are the same."""
    one, other = left.split(".") if left else [], right.split(".") if right else []
    return one[: len(other)] == other[: len(one)]


def distance(circle: Circle, lon: float, lat: float) -> float:
    half = (
        sin(radians(lat - circle.lat) / 2) ** 2
        + cos(radians(lat)) * cos(radians(circle.lat)) * sin(radians(lon - circle.lon) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_M * asin(sqrt(min(1.0, half)))


def walk(circle: Circle, bearing: float, share: float) -> tuple[float, float]:
    """The place that lies in a direction from the centre, a share of the radius away."""
    angle = min(pi, circle.radius_m * share / EARTH_RADIUS_M)
    lat = radians(circle.lat)
    sine = min(1.0, max(-1.0, sin(lat) * cos(angle) + cos(lat) * sin(angle) * cos(bearing)))
    turn = atan2(sin(bearing) * sin(angle) * cos(lat), cos(angle) - sin(lat) * sine)
    lon = (circle.lon + degrees(turn) + 180) % 360 - 180
    return lon, degrees(asin(sine))


def test_the_numbering() -> None:
    assert [cell_of(place, 1) for place in [(-90, 45), (90, 45), (-90, -45), (90, -45)]] == ["1", "2", "3", "4"]
    assert cell_of((-180, 90), 3) == "1.1.1"
    assert cell_of((180, -90), 3) == "4.4.4"
    assert cell_of((0, 0), 2) == "4.1"
    assert cell_of((12.5, 41.9), 0) == ""
    assert bounds("1.4") == (-90, 0, 0, 45)
    assert bounds("") == (-180, -90, 180, 90)


@settings(deadline=None)
@given(LON, LAT, st.integers(0, 24), st.integers(0, 24))
def test_a_point_lies_in_its_cell_and_cells_nest(lon: float, lat: float, level: int, other: int) -> None:
    cell = cell_of((lon, lat), level)
    west, south, east, north = bounds(cell)
    assert west - 1e-9 <= lon <= east + 1e-9
    assert south - 1e-9 <= lat <= north + 1e-9
    assert related(cell, cell_of((lon, lat), other))


@settings(deadline=None)
@given(CIRCLES, st.floats(0, 2 * pi), st.floats(0, 1), st.integers(0, 4))
@example(Circle(179.99, 0.0, 5_000.0), pi / 2, 1.0, 4)
@example(Circle(-179.99, 10.0, 5_000.0), 3 * pi / 2, 1.0, 4)
@example(Circle(20.0, 89.9, 50_000.0), 0.0, 1.0, 4)
@example(Circle(-180.0, 0.0, 0.0), 0.0, 0.0, 4)
def test_no_place_of_a_circle_is_lost(circle: Circle, bearing: float, share: float, level: int) -> None:
    lon, lat = walk(circle, bearing, share)
    if distance(circle, lon, lat) <= circle.radius_m:
        cell = cell_of((lon, lat), level)
        assert related(smallest_cell(circle), cell)
        assert cell in cover(circle, level)


@settings(deadline=None)
@given(LON, LAT, LON, LAT, st.floats(0, 1), st.floats(0, 1), st.integers(0, 5))
def test_no_place_of_a_box_is_lost(
    west: float, south: float, east: float, north: float, x: float, y: float, level: int
) -> None:
    south, north = min(south, north), max(south, north)
    box = Box(west, south, east, north)
    width = east - west if west <= east else east - west + 360
    lon = west + x * width
    lon = min(lon, east) if west <= east else (lon - 360 if lon > 180 else lon)
    lat = min(max(south + y * (north - south), south), north)
    cell = cell_of((lon, lat), level)
    assert related(smallest_cell(box), cell)
    assert cell in cover(box, level)


@settings(deadline=None)
@given(CIRCLES)
def test_the_smallest_cell_is_the_smallest(circle: Circle) -> None:
    """It is touched by all of the circle, and no child of it is."""
    cell = smallest_cell(circle, 4)
    depth = len(cell.split(".")) if cell else 0
    assert all(related(cell, leaf) for leaf in cover(circle, 4))
    if depth < 4:
        children = cover(circle, depth + 1)
        assert len(children) > 1


def test_the_antimeridian_and_the_poles() -> None:
    assert smallest_cell(Circle(179.999, 10, 1_000)) == ""
    assert smallest_cell(Circle(10, 89.999, 1_000)) == ""
    assert smallest_cell(Circle(10, -90, 1)) == ""
    assert smallest_cell(Box(170, 10, -170, 20)) == ""
    both_sides = cover(Circle(180, 45, 100_000), 4)
    assert {leaf[0] for leaf in both_sides} == {"1", "2"}
    assert len(both_sides) <= 4
    around_the_pole = cover(Circle(0, 90, 100_000), 3)
    assert len(around_the_pole) == 8
    assert smallest_cell(Circle(10, 44, 1_000), 24).startswith("2.3.")


def test_covers_leave_out_the_corners() -> None:
    circle = Circle(22.5, 22.5, 2_000_000)
    touched = cover(circle, 6)
    west, south, east, north = -180.0, -90.0, 180.0, 90.0
    boxes = [bounds(cell) for cell in touched]
    west, east = min(box[0] for box in boxes), max(box[2] for box in boxes)
    south, north = min(box[1] for box in boxes), max(box[3] for box in boxes)
    assert set(touched) < set(cover(Box(west, south, east - 1e-9, north - 1e-9), 6))


def test_leaves() -> None:
    assert leaves("1.4", 3) == ["1.4.1", "1.4.2", "1.4.3", "1.4.4"]
    assert leaves("", 0) == [""]
    assert len(leaves("", 5)) == 1024


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cell_of((181, 0), 3), "181"),
        (lambda: cell_of((0, 0), 25), "24"),
        (lambda: leaves("1.5", 3), "'1.5'"),
        (lambda: leaves("1.1.1", 2), "deeper than 2"),
        (lambda: cover(Circle(0, 0, 2e7), 12), "nearer the root"),
        (lambda: smallest_cell(Circle(0, 0, -1)), "radius"),
        (lambda: smallest_cell(Box(0, 5, 1, 4)), "upside down"),
    ],
)
def test_errors_say_what_was_wrong(call: object, words: str) -> None:
    with pytest.raises(PlaceError, match=words):
        call()  # type: ignore[operator]


def test_fixed_and_variable_granularity_find_the_same_pairs(tmp_path: object) -> None:
    """One operation at many leaves, or at one node: the same pairs, each once."""
    places = [Circle(7.6 + 0.9 * step, 51.9, 30_000 * (1 + step % 4)) for step in range(12)]
    answers = []
    for name in ("fixed", "variable"):
        with open_store(f"{tmp_path}/{name}") as store:
            pairs = set()
            for number, place in enumerate(places):
                cell = smallest_cell(place, 5)
                topic = leaves(cell, 5) if name == "fixed" else cell
                send = store.subscribe if number % 2 else store.publish
                found = send(number, topic, time=number)
                assert len(set(found)) == len(found)
                pairs |= {(number, other.id) for other in found}
            answers.append(pairs)
    assert answers[0] == answers[1]
    assert answers[0]
