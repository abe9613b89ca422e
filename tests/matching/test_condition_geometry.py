"""Shapes on the globe, held against a dense sample of places and against known distances."""

from __future__ import annotations

from math import asin, atan2, cos, degrees, pi, radians, sin
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from pastforward.matching import Box, Circle, Point
from pastforward.matching.conditions.geometry import (
    EARTH_RADIUS_M,
    box_contains_circle,
    circle_contains_box,
    circle_has_point,
    circle_overlaps_box,
    contains,
    distance_m,
    distance_to_box_m,
    overlaps,
    within,
)

KM = 1000.0


def test_known_distances() -> None:
    assert distance_m(0, 0, 0, 1) == pytest.approx(EARTH_RADIUS_M * pi / 180)
    assert distance_m(0, 0, 180, 0) == pytest.approx(EARTH_RADIUS_M * pi)
    assert distance_m(179.5, 0, -179.5, 0) == pytest.approx(EARTH_RADIUS_M * pi / 180)
    assert distance_m(180, 10, -180, 10) == 0
    assert distance_m(8.5417, 47.3769, 2.3522, 48.8566) == pytest.approx(488_000, rel=0.01)  # Zürich, Paris


@pytest.mark.parametrize(
    ("outer", "inner", "is_inside"),
    [
        (Circle(179.9, 0, 50 * KM), Point(-179.9, 0), True),
        (Circle(179.9, 0, 10 * KM), Point(-179.9, 0), False),
        (Circle(10, 89.9, 50 * KM), Point(-170, 89.9), True),
        (Circle(10, -89.9, 50 * KM), Point(-170, -89.9), True),
        (Circle(0, 90, 200 * KM), Box(-180, 89, 180, 90), True),
        (Circle(0, 90, 100 * KM), Box(-180, 89, 180, 90), False),
        (Circle(179, 0, 500 * KM), Box(-180, -1, -179, 1), True),
        (Circle(179, 0, 500 * KM), Box(-180, -1, 180, 1), False),
        (Circle(0, 0, 25_000 * KM), Box(-180, -90, 180, 90), True),
        (Circle(0, 0, 25_000 * KM), Point(181, 0), False),
        (Box(-180, -90, 180, 90), Circle(179.9, 0, 50 * KM), True),
        (Box(0, -90, 180, 90), Circle(179.9, 0, 50 * KM), False),
        (Box(-180, 80, 180, 90), Circle(0, 89, 500 * KM), True),
        (Box(-90, 80, 90, 90), Circle(0, 89, 500 * KM), False),
        (Box(-2, 58, 2, 62), Circle(0, 60, 100 * KM), True),
        (Box(-1, 58, 1, 62), Circle(0, 60, 100 * KM), False),  # a degree of longitude is half as long there
        (Circle(0, 0, 100 * KM), Circle(0, 0.5, 40 * KM), True),
        (Circle(0, 0, 100 * KM), Circle(0, 0.5, 50 * KM), False),
        (Circle(179.9, 0, 100 * KM), Circle(-179.9, 0, 50 * KM), True),
        (Box(0, 0, 2, 2), Box(0, 0, 2, 1), True),
        (Box(0, 0, 2, 2), Box(0, 0, 2.5, 1), False),
        (Point(1, 2), Point(1, 2), True),
        (Point(1, 2), Box(1, 2, 1, 2), True),
        (Point(1, 2), Box(1, 2, 1, 3), False),
        (Circle(5, 5, 0), Point(5, 5), True),
    ],
)
def test_contains(outer: Any, inner: Any, is_inside: bool) -> None:
    assert contains(outer, inner) is is_inside
    assert within(inner, outer) is is_inside


@pytest.mark.parametrize(
    ("a", "b", "do"),
    [
        (Box(0, 0, 1, 1), Box(1, 1, 2, 2), True),
        (Box(0, 0, 1, 1), Box(1.1, 0, 2, 2), False),
        (Circle(179.9, 0, 50 * KM), Box(-180, -1, -179.9, 1), True),
        (Circle(179.9, 0, 5 * KM), Box(-180, -1, -179.9, 1), False),
        (Circle(0, 90, 50 * KM), Box(100, 89.9, 101, 90), True),
        (Circle(0, 0, 50 * KM), Box(0.4, -5, 1, 5), True),
        (Circle(0, 0, 50 * KM), Box(0.5, -5, 1, 5), False),
        (Circle(0, 80, 1000 * KM), Box(90, 75, 91, 76), False),
        (Circle(0, 80, 1910 * KM), Box(90, 75, 91, 76), True),  # across the pole's flank: 2,400 km along the parallel
        (Circle(0, 0, 50 * KM), Box(200, 0, 300, 1), False),
        (Circle(179.9, 0, 20 * KM), Circle(-179.9, 0, 20 * KM), True),
        (Circle(179.9, 0, 10 * KM), Circle(-179.9, 0, 10 * KM), False),
        (Point(0, 0), Circle(0, 0.1, 12 * KM), True),
    ],
)
def test_overlaps(a: Any, b: Any, do: bool) -> None:
    assert overlaps(a, b) is do
    assert overlaps(b, a) is do


_lon, _lat = st.floats(-180, 180), st.floats(-90, 90)
_radius = st.floats(1, 2.1e7)
_boxes = st.builds(
    lambda x1, x2, y1, y2: Box(min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), _lon, _lon, _lat, _lat
)
_circles = st.builds(Circle, _lon, _lat, _radius)
_shapes = st.one_of(_boxes, _circles)


def _sample(shape: Any) -> list[Point]:
    """Places of a shape, on its border and inside, told by other formulas than the tested ones."""
    steps = [i / 8 for i in range(9)]
    if isinstance(shape, Box):
        width, height = shape.max_x - shape.min_x, shape.max_y - shape.min_y
        return [Point(shape.min_x + width * i, shape.min_y + height * j) for i in steps for j in steps]
    return [_destination(shape, 45.0 * i, shape.radius_m * j * 0.999999) for i in range(8) for j in (0.0, 0.5, 1.0)]


def _destination(circle: Circle, bearing: float, away_m: float) -> Point:
    """By rotating unit vectors."""
    lam, phi, angle = radians(circle.lon), radians(circle.lat), min(away_m / EARTH_RADIUS_M, pi)
    up = (cos(phi) * cos(lam), cos(phi) * sin(lam), sin(phi))
    east = (-sin(lam), cos(lam), 0.0)
    north = (-sin(phi) * cos(lam), -sin(phi) * sin(lam), cos(phi))
    b = radians(bearing)
    toward = [cos(b) * n + sin(b) * e for n, e in zip(north, east, strict=True)]
    x, y, z = (cos(angle) * u + sin(angle) * t for u, t in zip(up, toward, strict=True))
    return Point(degrees(atan2(y, x)), degrees(asin(max(-1.0, min(1.0, z)))))


@settings(max_examples=200, deadline=None)
@given(_shapes, _shapes)
def test_relations_agree_with_samples(a: Any, b: Any) -> None:
    places = [point for point in _sample(b) if contains(b, point)]
    shared = [point for point in places if contains(a, point)]
    if shared:
        assert overlaps(a, b)
    if contains(a, b):
        assert len(shared) >= len(places) - _on_the_border(a, places)
        assert overlaps(a, b)
    assert overlaps(a, b) == overlaps(b, a)
    assert contains(a, a)


def _on_the_border(outer: Any, places: list[Point]) -> int:
    """Places that rounding may put on either side."""
    if isinstance(outer, Circle):
        return sum(abs(distance_m(outer.lon, outer.lat, p.lon, p.lat) - outer.radius_m) < 1 for p in places)
    return sum(
        min(abs(p.lon - outer.min_x), abs(p.lon - outer.max_x), abs(p.lat - outer.min_y), abs(p.lat - outer.max_y))
        < 1e-5
        for p in places
    )


@settings(max_examples=200, deadline=None)
@given(_lon, _lat, _boxes)
def test_the_distance_to_a_box_is_that_to_its_nearest_place(lon: float, lat: float, box: Box) -> None:
    nearest = min(distance_m(lon, lat, place.lon, place.lat) for place in _sample(box))
    exact = distance_to_box_m(lon, lat, box.min_x, box.min_y, box.max_x, box.max_y)
    assert exact <= nearest + 1e-3
    # The sample's mesh bounds how much nearer the box can be.
    mesh = radians(max(box.max_x - box.min_x, box.max_y - box.min_y) / 8) * EARTH_RADIUS_M
    assert nearest <= exact + mesh + 1e-3


@njit(cache=True)
def _in_a_kernel(c: Any, b: Any) -> Any:
    return (
        circle_overlaps_box(c[0], c[1], c[2], b[0], b[1], b[2], b[3]),
        circle_contains_box(c[0], c[1], c[2], b[0], b[1], b[2], b[3]),
        box_contains_circle(b[0], b[1], b[2], b[3], c[0], c[1], c[2]),
        circle_has_point(c[0], c[1], c[2], b[0], b[1]),
    )


@settings(max_examples=200, deadline=None)
@given(_circles, _boxes)
def test_kernels_decide_the_same(circle: Circle, box: Box) -> None:
    corner = Point(box.min_x, box.min_y)
    numbers = (box.min_x, box.min_y, box.max_x, box.max_y)
    expected = overlaps(circle, box), contains(circle, box), contains(box, circle), contains(circle, corner)
    assert _in_a_kernel((circle.lon, circle.lat, circle.radius_m), numbers) == expected
