"""Places as topics: cells of a quad tree over longitude and latitude.

    world: -180..180 by -90..90        1 NW | 2 NE
    the root is the empty topic        -----+-----     a cell is its parent's topic and one of 1 to 4
                                       3 SW | 4 SE

`publish(at=Point(…))` and `subscribe(near=Circle(…))` choose their topics with what is here: the cell of the point at level `LEVEL`, and up
to eight cells that contain the circle together. A topic says only roughly where something is; what is exact is a condition on the attribute
`PLACE`, which both of them add.
"""

from __future__ import annotations

from typing import Final

from pastforward.columns.places import (
    DEEPEST_CELL,
    PlaceError,
    Shape,
    bounds,
    cell_of,
    covering,
    smallest_cell,
)

__all__ = ["DEEPEST_CELL", "LEVEL", "PLACE", "PlaceError", "bounds", "cell", "cells", "smallest_cell"]

# 610 by 305 metres at the equator. Deeper ones would make a topic of every position, and a subscription's cells need not be smaller than
# what is told apart by the exact condition at no great cost.
LEVEL: Final = 16
PLACE: Final = "place"
"""The attribute that has the exact place."""


def cell(lon: float, lat: float, level: int = LEVEL) -> str:
    """The cell of a level that a point lies in; level 0 is the root, each level has half the width of the one before."""
    return cell_of((lon, lat), level)


def cells(shape: Shape, most: int = 8, deepest: int = LEVEL) -> list[str]:
    """Up to `most` cells that contain a circle or box together, as close to it as so many can be: of eight the area is about twice that of
    a circle, and four times at most, wherever it lies."""
    return covering(shape, most, deepest)
