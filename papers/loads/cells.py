"""Operations for a store, after Qader and Hristidis: flat cells, a quad tree, circles. A table for each chunk.

| load    | place of an operation                                                                                       |
| flat    | one of 500 x 500 cells, clustered as tweets are: four of five about one of 200 towns, whose sizes are Zipf  |
| tree    | a cell of a quad tree of depth 5, level i with weight 1 / 2^(5 - i)                                         |
| circles | a circle of radius 4 R, 2 R, R, R / 2 or R / 4, where R is the side of the smallest cell                    |

Log time goes on by 20 us an operation. Windows reach 10 s back and ahead in flat cells, publications expire after 20 s; in trees and
circles, where every operation meets many, windows reach 0.2 s. A chunk is of one kind, and in trees and circles of one level or radius,
so that each can be told its time; kinds take turns. The tweets themselves are not to be had: how they are clustered is ours, as is the
place of a circle, 60 degrees about the equator and 150 about Greenwich, so that it does not hold a pole or cross the antimeridian.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.times import SECOND
from pastforward.state import cover, leaves, smallest_cell

OPERATION = 20  # microseconds of log time: 50,000 operations a second
SIDE = 500
TOWNS = 200
DEPTH = 5
PAYLOAD = 100
RADII = (4.0, 2.0, 1.0, 0.5, 0.25)  # of R
DEGREES = 180 / 2**DEPTH  # R, as latitude
METRES = DEGREES * 111_195  # R on the ground: a degree of latitude on a sphere of 6,371 km
POOL = 2_000  # circles of each radius: covering them with leaves takes longer than the store does


@dataclass(frozen=True)
class Chunk:
    kind: str
    place: str  # level of the tree or radius; empty for flat cells
    table: pa.Table


@dataclass(frozen=True)
class Circle:
    lon: float
    lat: float
    radius_m: float


@dataclass(frozen=True)
class Operations:
    count: int
    subscriptions: int = 3  # to `publications`
    publications: int = 1
    space: str = "flat"  # or `tree`, `circles`
    fixed: bool = False  # granularity: leaves only
    self_join: bool = False
    life: int = 20 * SECOND
    chunk: int = 1_000
    seed: int = 2

    @property
    def window(self) -> int:
        return 10 * SECOND if self.space == "flat" else SECOND // 5

    def chunks(self) -> Iterator[Chunk]:
        random = np.random.default_rng(self.seed)
        turn = ["subscription"] * self.subscriptions + ["publication"] * self.publications
        for number, first in enumerate(range(0, self.count, self.chunk)):
            count = min(self.chunk, self.count - first)
            kind = turn[number % len(turn)]
            ids = np.arange(first, first + count)
            time = ids * OPERATION
            columns: dict[str, Any] = {
                "kind": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([kind])),
                "id": ids,
                "time": time,
                "starts_at": time - self.window,
                "ends_at": time + self.window,
                "expires_at": time + self.life,
            }
            place, columns["topic"] = self._places(random, count)
            if self.space == "flat":
                data = pa.py_buffer(random.bytes(PAYLOAD * count))
                fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(PAYLOAD), count, [None, data])
                columns["payload"] = fixed.cast(pa.binary())
            if self.self_join:
                columns["self_join"] = np.ones(count, np.bool_)
            yield Chunk(kind, place, pa.table(columns))

    def _places(self, random: np.random.Generator, count: int) -> tuple[str, pa.Array]:
        if self.space == "flat":
            return "", pa.array(1 + clustered(random, count)).cast(pa.string())
        if self.space == "tree":
            weights = 2.0 ** (np.arange(1, DEPTH + 1) - DEPTH)
            level = 1 + int(random.choice(DEPTH, p=weights / weights.sum()))
            cells = leaves("", level)
            chosen = [cells[at] for at in random.integers(0, len(cells), count)]
            return str(level), pa.array([leaves(cell, DEPTH) for cell in chosen] if self.fixed else chosen)
        radius = RADII[int(random.integers(len(RADII)))]
        places = covers(radius) if self.fixed else cells_of(radius)
        chosen_circles = random.integers(0, POOL, count)
        return f"{radius:g}", pa.array([places[at] for at in chosen_circles])


def clustered(random: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    """Numbers of cells, from 0."""
    of_towns = np.random.default_rng(0)  # the same towns for everybody
    centre = of_towns.random((TOWNS, 2)) * SIDE
    weight = 1.0 / np.arange(1, TOWNS + 1)
    town = random.choice(TOWNS, count, p=weight / weight.sum())
    at = centre[town] + random.normal(0, SIDE / 25, (count, 2))
    anywhere = random.random((count, 2)) * SIDE
    at = np.where(random.random((count, 1)) < 0.2, anywhere, at)
    x, y = np.clip(at, 0, SIDE - 1).astype(np.int64).T
    return np.asarray(x * SIDE + y)


@cache
def circles(radius: float) -> tuple[Circle, ...]:
    """The circles of a radius, given in R, that operations choose from."""
    random = np.random.default_rng((5, RADII.index(radius)))
    lon, lat = random.uniform(-150, 150, POOL), random.uniform(-60, 60, POOL)
    return tuple(Circle(x, y, radius * METRES) for x, y in zip(lon.tolist(), lat.tolist(), strict=True))


@cache
def cells_of(radius: float) -> tuple[str, ...]:
    return tuple(smallest_cell(circle, DEPTH) for circle in circles(radius))


@cache
def covers(radius: float) -> tuple[list[str], ...]:
    return tuple(cover(circle, DEPTH) for circle in circles(radius))
