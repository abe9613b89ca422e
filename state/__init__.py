"""Remembers: subscriptions and publications in RocksDB, by Dewey key. Knows nothing of Kafka.

from state import open_store
with open_store(path, layout="dual") as store:
    pairs = store.apply(operations)
    store.commit(offset)
"""

from __future__ import annotations

import os

from state.budget import DEFAULT, Budget
from state.compiling import compile_kernels
from state.directory import Aside, set_aside
from state.errors import DirectoryError, InUseError, OperationError, StoreError, UnusableError
from state.families import SERIES
from state.found import Found
from state.kernels.records import EARLIEST
from state.operations import KIND, Batch, Text
from state.places import PlaceError, bounds, cell_of, cover, leaves, smallest_cell
from state.repeated import Repeated
from state.store import Pair, Stats, Store

__all__ = [
    "EARLIEST",
    "KIND",
    "Aside",
    "Batch",
    "Budget",
    "DirectoryError",
    "Found",
    "InUseError",
    "OperationError",
    "Pair",
    "PlaceError",
    "Stats",
    "Store",
    "StoreError",
    "Text",
    "UnusableError",
    "bounds",
    "cell_of",
    "compile_kernels",
    "cover",
    "leaves",
    "open_store",
    "set_aside",
    "smallest_cell",
]


def open_store(
    path: str | os.PathLike[str],
    layout: str = "dual",
    *,
    budget: int | Budget = DEFAULT,
    hot_window: int | None = None,
    lateness: int = 0,
    earlier_limit: int | None = None,
    every: int = 1_000_000,
) -> Store:
    """Opens a store, or makes one in a directory that is empty or not there yet.

    `layout`: `dual`, `two`, or the baseline `repeated`.
    `budget`: bytes for caches, memtables and indexes, or a `Budget` that several stores share.
    `hot_window`: microseconds that publications are kept after they arrived; None: until they expire.
    `lateness`: microseconds that subscriptions are kept after they ended, for publications that come late.
    `earlier_limit`: how many earlier publications a self-joining one finds on a topic of its own, at most; the latest.
    `every`: microseconds between two questions of a subscription, for `repeated`.
    """
    if layout not in SERIES:
        raise OperationError(f"layout is {layout!r}; it must be one of {', '.join(SERIES)}")
    if isinstance(budget, int):
        budget = Budget(budget)
    if layout == "repeated":
        return Repeated(path, budget, hot_window, every)
    return Store(path, layout, budget, hot_window, lateness, earlier_limit)
