"""Overlaps, contains and within for every pair of point, box and circle.

Every shape is a set of places in the plane of longitude and latitude, borders included; `overlaps` means a place in
common, `contains` and `within` mean subset.
- Boxes and points are planar: what they do to each other needs no globe, and any plane will do.
- A circle is a set of places on the globe, all within `radius_m` of its centre along the great circle. The globe is the
  rectangle -180..180 by -90..90, in which both sides are the same meridian and the top and bottom are the poles: a
  circle across the antimeridian lies on both sides of the rectangle, one that covers a pole reaches all longitudes.
- What lies outside that rectangle is in no circle. A box across the antimeridian is written as two boxes.
The functions on plain floats can be called from Numba's kernels as well, which then decide the same.
"""

from __future__ import annotations

from collections.abc import Callable
from math import asin, atan2, cos, pi, radians, sin, sqrt
from typing import Any, Final, TypeVar

from pastforward.matching.conditions.normal_form import Relation, Shape
from pastforward.matching.conditions.values import Circle, Point

EARTH_RADIUS_M: Final = 6_371_008.8  # the mean radius of the WGS 84 ellipsoid, as the IUGG defines it
DEGREE_M: Final = pi * EARTH_RADIUS_M / 180  # of latitude
HALF_CIRCUMFERENCE_M: Final = pi * EARTH_RADIUS_M  # no two places are farther apart


Function = TypeVar("Function", bound=Callable[..., Any])


_OF_KERNELS: Final[list[Callable[..., Any]]] = []


def in_kernels(function: Function) -> Function:
    """A function that kernels may call as well, after `for_kernels`. In Python it stays what it is."""
    _OF_KERNELS.append(function)
    return function


def for_kernels() -> None:
    """Called by the module of kernels that uses them: Numba takes a third of a second to import, which who only writes conditions saves."""
    from numba.extending import register_jitable

    while _OF_KERNELS:
        register_jitable(_OF_KERNELS.pop())


@in_kernels
def distance_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Along the great circle, by the haversine formula: exact enough from millimetres to antipodes."""
    phi1, phi2 = radians(lat1), radians(lat2)
    apart = abs(lon2 - lon1)
    if apart > 180:
        apart = 360 - apart
    by_lat, by_lon = sin((phi2 - phi1) / 2), sin(radians(apart) / 2)
    a = by_lat * by_lat + cos(phi1) * cos(phi2) * by_lon * by_lon
    return 2 * EARTH_RADIUS_M * asin(sqrt(min(1.0, a)))


@in_kernels
def on_globe(lon: float, lat: float) -> bool:
    return -180 <= lon <= 180 and -90 <= lat <= 90


@in_kernels
def circle_has_point(lon: float, lat: float, radius_m: float, x: float, y: float) -> bool:
    return on_globe(x, y) and distance_m(lon, lat, x, y) <= radius_m


@in_kernels
def distance_to_meridian_m(lon: float, lat: float, x: float, min_y: float, max_y: float) -> float:
    """From a place to the nearest on the piece of meridian `x` from `min_y` to `max_y`."""
    nearest = min(distance_m(lon, lat, x, min_y), distance_m(lon, lat, x, max_y))
    # The cosine of the distance to latitude y is a sine wave in y; its crest is the foot of the perpendicular.
    foot = atan2(sin(radians(lat)), cos(radians(lat)) * cos(radians(x - lon))) * 180 / pi
    if min_y < foot < max_y:
        nearest = min(nearest, distance_m(lon, lat, x, foot))
    return nearest


@in_kernels
def distance_to_box_m(lon: float, lat: float, min_x: float, min_y: float, max_x: float, max_y: float) -> float:
    """From a place to the nearest of a box that lies on the globe; 0 inside."""
    if min_x <= lon <= max_x or (abs(lon) == 180 and (min_x == -180 or max_x == 180)):
        # Straight north or south: no other place of a parallel is nearer than that on the same meridian.
        beyond = max(min_y - lat, lat - max_y, 0.0)
        return radians(beyond) * EARTH_RADIUS_M
    return min(
        distance_to_meridian_m(lon, lat, min_x, min_y, max_y), distance_to_meridian_m(lon, lat, max_x, min_y, max_y)
    )


@in_kernels
def circle_overlaps_box(
    lon: float, lat: float, radius_m: float, min_x: float, min_y: float, max_x: float, max_y: float
) -> bool:
    min_x, min_y, max_x, max_y = max(min_x, -180.0), max(min_y, -90.0), min(max_x, 180.0), min(max_y, 90.0)
    if min_x > max_x or min_y > max_y:
        return False
    return distance_to_box_m(lon, lat, min_x, min_y, max_x, max_y) <= radius_m


@in_kernels
def circle_contains_box(
    lon: float, lat: float, radius_m: float, min_x: float, min_y: float, max_x: float, max_y: float
) -> bool:
    if not (on_globe(min_x, min_y) and on_globe(max_x, max_y)):
        return False
    # The farthest place of the box is the one nearest to the antipode.
    opposite = lon - 180 if lon > 0 else lon + 180
    return HALF_CIRCUMFERENCE_M - distance_to_box_m(opposite, -lat, min_x, min_y, max_x, max_y) <= radius_m


@in_kernels
def box_contains_circle(
    min_x: float, min_y: float, max_x: float, max_y: float, lon: float, lat: float, radius_m: float
) -> bool:
    reach = radius_m / EARTH_RADIUS_M * 180 / pi  # in degrees of latitude
    if min_y > max(lat - reach, -90.0) or max_y < min(lat + reach, 90.0):
        return False
    if min_x <= -180 and max_x >= 180:
        return True
    if abs(lat) + reach >= 90:  # covers a pole, so every longitude
        return False
    half_width = asin(min(1.0, sin(radians(reach)) / cos(radians(lat)))) * 180 / pi
    if lon - half_width < -180 or lon + half_width > 180:
        return False
    # One that touches the antimeridian lies on both sides of the rectangle.
    if lon - half_width == -180 or lon + half_width == 180:
        return False
    return min_x <= lon - half_width and lon + half_width <= max_x


@in_kernels
def circles_overlap(lon1: float, lat1: float, radius1_m: float, lon2: float, lat2: float, radius2_m: float) -> bool:
    return distance_m(lon1, lat1, lon2, lat2) <= radius1_m + radius2_m


@in_kernels
def circle_contains_circle(
    lon1: float, lat1: float, radius1_m: float, lon2: float, lat2: float, radius2_m: float
) -> bool:
    return min(distance_m(lon1, lat1, lon2, lat2) + radius2_m, HALF_CIRCUMFERENCE_M) <= radius1_m


# A shape as numbers: what it is, and up to four floats; those it does not have are anything.
POINT: Final = 0
CIRCLE: Final = 1
BOX: Final = 2


@in_kernels
def numbers_contain(
    outer: int, a: float, b: float, c: float, d: float, inner: int, e: float, f: float, g: float, h: float
) -> bool:
    """Whether every place of `inner` is one of `outer`."""
    if outer == CIRCLE:
        if inner == POINT:
            return circle_has_point(a, b, c, e, f)
        if inner == CIRCLE:
            return circle_contains_circle(a, b, c, e, f, g)
        return circle_contains_box(a, b, c, e, f, g, h)
    if outer == POINT:
        c, d = a, b
    if inner == POINT:
        return a <= e and e <= c and b <= f and f <= d
    if inner == BOX:
        return a <= e and g <= c and b <= f and h <= d
    return box_contains_circle(a, b, c, d, e, f, g)


@in_kernels
def numbers_overlap(
    one: int, a: float, b: float, c: float, d: float, other: int, e: float, f: float, g: float, h: float
) -> bool:
    """Whether the two have a place in common."""
    if one == POINT:
        return numbers_contain(other, e, f, g, h, one, a, b, c, d)
    if other == POINT:
        return numbers_contain(one, a, b, c, d, other, e, f, g, h)
    if one == BOX and other == BOX:
        return a <= g and e <= c and b <= h and f <= d
    if one == CIRCLE and other == CIRCLE:
        return circles_overlap(a, b, c, e, f, g)
    if one == BOX:
        return circle_overlaps_box(e, f, g, a, b, c, d)
    return circle_overlaps_box(a, b, c, e, f, g, h)


def shape_numbers(shape: Shape) -> tuple[int, float, float, float, float]:
    if isinstance(shape, Point):
        return POINT, shape.lon, shape.lat, 0.0, 0.0
    if isinstance(shape, Circle):
        return CIRCLE, shape.lon, shape.lat, shape.radius_m, 0.0
    return BOX, shape.min_x, shape.min_y, shape.max_x, shape.max_y


def overlaps(a: Shape, b: Shape) -> bool:
    """Whether the two have a place in common."""
    return numbers_overlap(*shape_numbers(a), *shape_numbers(b))


def contains(outer: Shape, inner: Shape) -> bool:
    """Whether every place of `inner` is one of `outer`."""
    return numbers_contain(*shape_numbers(outer), *shape_numbers(inner))


def within(inner: Shape, outer: Shape) -> bool:
    """Whether every place of `inner` is one of `outer`."""
    return contains(outer, inner)


def holds(relation: Relation, attribute: Shape, constant: Shape) -> bool:
    if relation is Relation.OVERLAPS:
        return overlaps(attribute, constant)
    if relation is Relation.CONTAINS:
        return contains(attribute, constant)
    return contains(constant, attribute)


# Bounds. Wider than the shape by more than any of the functions above errs.
_MARGIN: Final = 1e-5  # degrees: about a metre
_POLAR: Final = 89.99  # degrees of latitude: beyond, a circle may as well reach all longitudes
EVERYWHERE: Final = 360.0  # half the width of what reaches all longitudes


@in_kernels
def circle_reach(lat: float, radius_m: float) -> tuple[float, float]:
    """How far a circle reaches from its centre, in degrees of longitude and of latitude."""
    reach = radius_m / EARTH_RADIUS_M * 180 / pi + _MARGIN
    if abs(lat) + reach >= _POLAR:
        return EVERYWHERE, reach
    return asin(min(1.0, sin(radians(reach)) / cos(radians(lat)))) * 180 / pi + _MARGIN, reach
