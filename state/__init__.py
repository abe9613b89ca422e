"""Remembers: subscriptions and publications in RocksDB, by Dewey key. Knows nothing of Kafka.

from pastforward.state import open_store
with open_store(path, layout="dual") as store:
    pairs = store.apply(operations)
    store.commit(offset)
"""

from __future__ import annotations

import os
from typing import Any, Final

import pastforward.columns.for_workers  # noqa: F401  (before RocksDB and Numba are)
from pastforward.columns import plugins
from pastforward.columns.places import PlaceError, bounds, cell_of, cover, leaves, smallest_cell
from pastforward.state.budget import DEFAULT, Budget
from pastforward.state.directory import Aside, set_aside
from pastforward.state.errors import DirectoryError, InUseError, OperationError, StoreError, UnusableError
from pastforward.state.found import Found
from pastforward.state.kernels.records import EARLIEST
from pastforward.state.operations import KIND, Batch
from pastforward.state.sealing import Reader
from pastforward.state.search import Filter, Limits, Predicate, Range, Search
from pastforward.state.store import Pair, Stats, Store
from pastforward.state.warm import compile_kernels

__all__ = [
    "EARLIEST",
    "KIND",
    "Aside",
    "Batch",
    "Budget",
    "DirectoryError",
    "Filter",
    "Found",
    "InUseError",
    "Limits",
    "OperationError",
    "Pair",
    "PlaceError",
    "Predicate",
    "Range",
    "Reader",
    "Search",
    "Stats",
    "Store",
    "StoreError",
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


LAYOUTS: Final = ("dual", "two")


def open_store(
    path: str | os.PathLike[str],
    layout: str = "dual",
    *,
    budget: int | Budget = DEFAULT,
    hot_window: int | None = None,
    lateness: int = 0,
    earlier_limit: int | None = None,
    reader: Reader | None = None,
    **options: Any,
) -> Store:
    """Opens a store, or makes one in a directory that is empty or not there yet.

    `layout`: `dual`, `two`, or one that is registered by name (`columns.plugins`), like the baseline `repeated`.
    `budget`: bytes for caches, memtables and indexes, or a `Budget` that several stores share.
    `hot_window`: microseconds that publications are kept after they arrived; None: until they expire.
    `lateness`: microseconds that subscriptions are kept after they ended, for publications that come late.
    `earlier_limit`: how many earlier publications a self-joining one finds on a topic of its own, at most; the latest.
    `reader`: gives the attributes of publications from their payloads. Without it a search tests topics and times alone.
    `options`: what a registered layout takes beside.
    """
    if isinstance(budget, int):
        budget = Budget(budget)
    if layout in LAYOUTS:
        return Store(path, layout, budget, hot_window, lateness, earlier_limit, reader, **options)
    try:
        make = plugins.load("layout", plugins.LAYOUTS, layout, LAYOUTS)
    except ValueError as error:
        raise OperationError(str(error)) from None
    store: Store = make(path, budget, hot_window, **options)
    return store
