"""Places as topics: a quad tree over longitude and latitude.

    world: -180..180 by -90..90        1 NW | 2 NE
    the root is the empty topic        -----+-----     a cell is its parent's topic and one of 1 to 4
                                       3 SW | 4 SE

A point on a border belongs to the cell east and south of it. A circle or box has one smallest cell that contains it (variable
granularity: one operation, and the store looks above and below) or the leaves that it touches (fixed granularity: one operation
at many topics). What crosses the antimeridian, or holds a pole, is contained in the root alone; its leaves are where it is.
Circles are taken a hair larger than they are, so that no rounding loses a place on the rim.
"""

from __future__ import annotations

from itertools import product
from math import asin, atan, cos, degrees, floor, inf, pi, radians, sin, sqrt, tan
from typing import Final, Protocol, TypeAlias, cast

EARTH_RADIUS_M: Final = 6_371_008.8
"""Mean radius, as the IUGG defines it."""
DEEPEST_CELL: Final = 24
"""2.4 m at the equator: smaller than anything a position is known for."""
MOST_LEAVES: Final = 65_536
"""Of one cover: eight levels of a full quad tree. More copies of one record are a mistake."""
_RIM: Final = 1e-9
"""Radians added to a circle, 6 mm: more than rounding, less than anyone measures."""


class PlaceError(ValueError):
    """A place that is not on the globe, or a level that is not in the tree."""


class PointLike(Protocol):
    @property
    def lon(self) -> float: ...
    @property
    def lat(self) -> float: ...


class CircleLike(PointLike, Protocol):
    @property
    def radius_m(self) -> float: ...


class BoxLike(Protocol):
    @property
    def min_x(self) -> float: ...
    @property
    def min_y(self) -> float: ...
    @property
    def max_x(self) -> float: ...
    @property
    def max_y(self) -> float: ...


Shape: TypeAlias = CircleLike | BoxLike
Rectangle: TypeAlias = tuple[float, float, float, float]  # west, south, east, north


def cell_of(point: PointLike | tuple[float, float], level: int) -> str:
    """The cell of a level (0 is the root) that a point lies in."""
    lon, lat = point if isinstance(point, tuple) else (point.lon, point.lat)
    _check_point(lon, lat)
    _check_level(level)
    return _topic(_column(lon, level), _row(lat, level), level)


def smallest_cell(shape: Shape, deepest: int = DEEPEST_CELL) -> str:
    """The smallest cell, at most `deepest` levels down, that contains a circle or a box."""
    _check_level(deepest)
    rectangles = _rectangles(shape)
    if len(rectangles) > 1:
        return ""
    west, south, east, north = rectangles[0]
    left, right = _column(west, deepest), _column(east, deepest)
    top, bottom = _row(north, deepest), _row(south, deepest)
    level = deepest - max((left ^ right).bit_length(), (top ^ bottom).bit_length())
    return _topic(left >> (deepest - level), top >> (deepest - level), level)


def cover(shape: Shape, level: int) -> list[str]:
    """The cells of one level that a circle or box touches."""
    _check_level(level)
    chosen: set[tuple[int, int]] = set()
    for west, south, east, north in _rectangles(shape):
        columns = range(_column(west, level), _column(east, level) + 1)
        rows = range(_row(north, level), _row(south, level) + 1)
        if len(columns) * len(rows) > MOST_LEAVES:
            raise PlaceError(
                f"{shape} has {len(columns) * len(rows)} cells at level {level}; take a level nearer the root"
            )
        chosen.update(product(columns, rows))
    if not _is_box(shape):
        circle = cast(CircleLike, shape)
        chosen = {cell for cell in chosen if _distance(circle, bounds(_topic(*cell, level))) <= _angle(circle)}
    return sorted(_topic(column, row, level) for column, row in chosen)


def covering(shape: Shape, most: int = 8, deepest: int = DEEPEST_CELL) -> list[str]:
    """Up to `most` cells that contain a shape together, as close to it as so many can be.

    The largest cell is divided, and of its quarters those are kept that the shape touches, for as long as there is room: a small shape
    on the border of large cells is covered by small ones on both sides. Four quarters that are all kept are their cell again.
    """
    _check_level(deepest)
    if most < 1:
        raise PlaceError(f"a cover of {most} cells contains nothing; write 1 or more")
    found = {smallest_cell(shape, deepest)}
    closed: set[str] = set()
    rectangles = _rectangles(shape)
    while len(found) < most or (found - closed and most > 1):
        open_ones = [cell for cell in found if cell not in closed and _depth(cell) < deepest]
        if not open_ones:
            break
        largest = min(open_ones, key=lambda cell: (_depth(cell), cell))
        quarters = [each for each in leaves(largest, _depth(largest) + 1) if _touches(shape, rectangles, bounds(each))]
        if len(found) - 1 + len(quarters) > most:
            closed.add(largest)
            continue
        found = (found - {largest}) | set(quarters)
    return sorted(_merged(found))


def _merged(cells: set[str]) -> set[str]:
    for cell in sorted(cells, key=len, reverse=True):
        above = cell.rpartition(".")[0]
        quarters = set(leaves(above, _depth(above) + 1)) if cell else set()
        if quarters and quarters <= cells:
            return _merged((cells - quarters) | {above})
    return cells


def _touches(shape: Shape, rectangles: list[Rectangle], cell: Rectangle) -> bool:
    """A point on the border of two cells belongs to one of them; here to both, which is never too little."""
    west, south, east, north = cell
    if not any(west <= e and w <= east and south <= n and s <= north for w, s, e, n in rectangles):
        return False
    return _is_box(shape) or _distance(cast(CircleLike, shape), cell) <= _angle(cast(CircleLike, shape))


def leaves(cell: str, level: int) -> list[str]:
    """All cells of a level below a cell, or itself: what fixed granularity makes of it."""
    depth = _depth(cell)
    _check_level(level)
    if level < depth:
        raise PlaceError(f"cell {cell!r} is at level {depth}, deeper than {level}")
    if 4 ** (level - depth) > MOST_LEAVES:
        raise PlaceError(
            f"cell {cell!r} has {4 ** (level - depth)} cells at level {level}; take a level nearer the root"
        )
    cells = [cell]
    for _ in range(level - depth):
        cells = [f"{above}.{child}" if above else str(child) for above in cells for child in (1, 2, 3, 4)]
    return cells


def bounds(cell: str) -> Rectangle:
    """West, south, east and north of a cell."""
    column = row = 0
    depth = _depth(cell)
    for child in cell.split(".") if cell else ():
        column = 2 * column + (int(child) - 1) % 2
        row = 2 * row + (int(child) - 1) // 2
    width, height = 360 / (1 << depth), 180 / (1 << depth)
    return column * width - 180, 90 - (row + 1) * height, (column + 1) * width - 180, 90 - row * height


def _depth(cell: str) -> int:
    children = cell.split(".") if cell else []
    if any(child not in ("1", "2", "3", "4") for child in children):
        raise PlaceError(f"{cell!r} is not a cell: its components must be 1 (NW), 2 (NE), 3 (SW) or 4 (SE)")
    return len(children)


def _check_level(level: int) -> None:
    if not 0 <= level <= DEEPEST_CELL:
        raise PlaceError(f"level {level} is not in the tree; levels go from 0, the root, to {DEEPEST_CELL}")


def _check_point(lon: float, lat: float) -> None:
    if not (-180 <= lon <= 180 and -90 <= lat <= 90):
        raise PlaceError(f"longitude {lon}, latitude {lat} is not on the globe: -180 to 180, -90 to 90")


def _column(lon: float, level: int) -> int:
    """Multiplying by a power of two is exact, so a cell's column is its child's without the last bit."""
    return min(floor((lon + 180) / 360 * (1 << level)), (1 << level) - 1)


def _row(lat: float, level: int) -> int:
    return min(floor((90 - lat) / 180 * (1 << level)), (1 << level) - 1)


def _topic(column: int, row: int, level: int) -> str:
    children = (1 + (column >> bit & 1) + 2 * (row >> bit & 1) for bit in range(level - 1, -1, -1))
    return ".".join(map(str, children))


def _is_box(shape: Shape) -> bool:
    return hasattr(shape, "min_x")


def _rectangles(shape: Shape) -> list[Rectangle]:
    """One, or two for what crosses the antimeridian."""
    if _is_box(shape):
        box = cast(BoxLike, shape)
        west, south, east, north = box.min_x, box.min_y, box.max_x, box.max_y
        _check_point(west, south)
        _check_point(east, north)
        if south > north:
            raise PlaceError(f"{shape} is upside down: min_y is greater than max_y")
        crosses = west > east
    else:
        circle = cast(CircleLike, shape)
        _check_point(circle.lon, circle.lat)
        if not 0 <= circle.radius_m < inf:
            raise PlaceError(f"{shape}: the radius must be a number of metres, 0 or more")
        angle = _angle(circle)
        south, north = circle.lat - degrees(angle), circle.lat + degrees(angle)
        if south <= -90 or north >= 90:
            return [(-180.0, max(south, -90.0), 180.0, min(north, 90.0))]
        reach = degrees(asin(min(1.0, sin(angle) / cos(radians(circle.lat)))))
        west, east = circle.lon - reach, circle.lon + reach
        # The antimeridian has two longitudes: what touches it is on both sides.
        crosses = west <= -180 or east >= 180
        if crosses:
            west, east = (west + 360 if west <= -180 else west), (east - 360 if east >= 180 else east)
    if crosses:
        return [(west, south, 180.0, north), (-180.0, south, east, north)]
    return [(west, south, east, north)]


def _angle(circle: CircleLike) -> float:
    """In radians, rim included."""
    return min(pi, circle.radius_m / EARTH_RADIUS_M + _RIM)


def _distance(circle: CircleLike, rectangle: Rectangle) -> float:
    """Radians from a circle's centre to the nearest place of a cell."""
    west, south, east, north = rectangle
    lat = radians(circle.lat)
    low, high = radians(south), radians(north)
    if west <= circle.lon <= east:
        return max(0.0, low - lat, lat - high)
    nearest = pi
    for side in (west, east):
        apart = radians(side - circle.lon)
        # Along a meridian the distance has one turning point, here; the least is there or at an end.
        turning = atan(tan(lat) / cos(apart)) if cos(apart) else 0.0
        for candidate in (low, high, min(max(turning, low), high)):
            half = sin((candidate - lat) / 2) ** 2 + cos(lat) * cos(candidate) * sin(apart / 2) ** 2
            nearest = min(nearest, 2 * asin(min(1.0, sqrt(half))))
    return nearest
