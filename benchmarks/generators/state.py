"""The loads of the state benchmark, after Qader and Hristidis: a table for each chunk, made while the clock stands still."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pastforward.columns.times import SECOND
from pastforward.state import leaves

CHUNK = 1_000
CELLS = 250_000
OPERATION = 20  # microseconds of log time: 50,000 operations a second
WINDOW = 10 * SECOND
LIFE = 20 * SECOND  # of a publication, as in the paper
PAYLOAD = 100
DEPTH = 5


@dataclass(frozen=True, slots=True)
class Load:
    """One line of the table."""

    name: str
    layout: str
    operations: int
    subscriptions: float  # share
    limit_us: float | None = None
    limit_rss: int | None = None
    self_join: bool = False
    tree: str = ""  # `variable` or `fixed` granularity in a quad tree, or none: flat cells
    budget: int = 512 << 20

    def chunks(self) -> Iterator[Any]:
        chance = np.random.default_rng(2)
        cells, weights = _tree() if self.tree else ([], np.empty(0))
        for first in range(0, self.operations, CHUNK):
            count = min(CHUNK, self.operations - first)
            number = np.arange(first, first + count)
            time = number * OPERATION
            columns = {
                "kind": pa.array(np.where(chance.random(count) < self.subscriptions, "subscription", "publication")),
                "id": pa.array(number),
                "time": pa.array(time),
                "starts_at": pa.array(time - WINDOW),
                "ends_at": pa.array(time + WINDOW),
                "expires_at": pa.array(time + LIFE),
            }
            if self.tree:
                chosen = [cells[at] for at in chance.choice(len(cells), count, p=weights)]
                fixed = self.tree == "fixed"
                columns["topic"] = pa.array([leaves(cell, DEPTH) for cell in chosen] if fixed else chosen)
            else:
                columns["topic"] = pa.array((1 + chance.integers(0, CELLS, count)).astype(str))
                payload = pa.py_buffer(chance.bytes(PAYLOAD * count))
                columns["payload"] = pa.FixedSizeBinaryArray.from_buffers(
                    pa.binary(PAYLOAD), count, [None, payload]
                ).cast(pa.binary())
            if self.self_join:
                columns["self_join"] = pa.array(np.ones(count, np.bool_))
            yield pa.table(columns)


def _tree() -> tuple[list[str], Any]:
    """All cells of levels 1 to 5; level i has the weight 1/2^(5-i), its cells are equally likely."""
    cells: list[str] = []
    weights: list[float] = []
    for level in range(1, DEPTH + 1):
        at_level = leaves("", level)
        cells += at_level
        weights += [2.0 ** (level - DEPTH) / len(at_level)] * len(at_level)
    return cells, np.array(weights) / sum(weights)


def loads(scale: float) -> list[Load]:
    million = max(CHUNK, int(1_000_000 * scale))
    small = 32 << 20
    found = []
    for layout in ("dual", "two"):
        found += [
            Load("3 to 1", layout, million, 0.75, 8),
            Load("1 to 3", layout, million, 0.25, 8),
            Load("3 to 1, self-join", layout, million, 0.75, 10, self_join=True),
            Load("1 to 3, self-join", layout, million, 0.25, 10, self_join=True),
            Load("quad tree", layout, 20_000, 0.5, 15, tree="variable"),
        ]
    found += [
        Load("3 to 1, five times as many", "dual", 5 * million, 0.75),
        Load("3 to 1, five times as many", "two", 5 * million, 0.75),
        Load("3 to 1, 32 MB", "dual", million, 0.75, 40, 300, budget=small),
        Load("3 to 1, 32 MB", "two", million, 0.75, 40, 300, budget=small),
        Load("quad tree, leaves only", "dual", 5_000, 0.5, tree="fixed"),
        Load("3 to 1", "repeated", million, 0.75),
        Load("1 to 3", "repeated", million, 0.25),
    ]
    return found
