"""The cost model of Fabret et al.: what a set of hash tables costs a match, and in memory.

    matching = retrieve * tables + sum over tables of mu * (hashing + hashing_attribute * width) + sum over slots of nu * check
    space = sum over tables of (row + access predicates * (row, hash cell, cluster, block)) + a word for each predicate left to check

mu is the probability that a publication carries the table's attributes, nu that it satisfies the slot's access predicate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel
from pastforward.columns.scalars import Int
from pastforward.papers.fabret.cluster_matching import AHEAD
from pastforward.papers.fabret.clusters import (
    CLUSTERS,
    COUNT,
    FIRST_TABLE,
    MAX_SCHEMA,
    NO_TABLE,
    SCHEMA,
    STATUS,
    TABLES,
    WIDTH,
    ClusterStore,
    ClusterView,
    find_access,
    put,
)
from pastforward.papers.fabret.predicate_index import PredicateIndex
from pastforward.papers.fabret.schema_gains import Gains

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

# Bytes of a table's row; of an access predicate: its row, a hash cell at half load, a cluster's row and a small block; of a word.
TABLE_BYTES: Final = 32
ACCESS_BYTES: Final = 72 + 12 + 36 + 16
WORD_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """Nanoseconds. The defaults were measured by `calibrate` on one core of an AMD EPYC of 2021 with 100,000 access predicates."""

    retrieve: float = 3.0
    hashing: float = 100.0
    hashing_attribute: float = 25.0
    check: float = 0.8

    def table(self, width: int, mu: float) -> float:
        """Of one table, for each publication."""
        return self.retrieve + mu * (self.hashing + self.hashing_attribute * width)

    def net(self, gains: Gains, scale: float, presence: F64) -> F64:
        """What each table would save in all, for each publication, if the sample stands for `scale` times as many slots; `presence`
        is mu, by attribute."""
        present = np.append(presence, 1.0)
        mu = present[gains.schema].prod(axis=1)
        width = (gains.schema >= 0).sum(axis=1)
        tables: F64 = self.retrieve + mu * (self.hashing + self.hashing_attribute * width)
        return gains.saved * scale * self.check - tables


def space(gains: Gains, scale: float, values: I64) -> F64:
    """Bytes that each table would add; nothing if it saves more words than it takes. `values` are the distinct ones, by attribute."""
    movers = gains.movers * scale
    width = (gains.schema >= 0).sum(axis=1)
    combinations = np.append(values, 1)[gains.schema].astype(np.float64).prod(axis=1)
    words = width * movers - gains.narrower * scale
    added = TABLE_BYTES + ACCESS_BYTES * np.minimum(movers, combinations) - WORD_BYTES * words
    bytes_added: F64 = np.maximum(added, 0.0)
    return bytes_added


@kernel
def _look_up(view: ClusterView, table: Int, keys: I32, width: Int) -> Int:
    total = 0
    key = np.empty(MAX_SCHEMA, np.int32)
    for i in range(len(keys)):
        for k in range(width):
            key[k] = keys[i, k]
        access = find_access(view, table, key, width)
        if access >= 0:
            total += view.clusters[view.access[access, CLUSTERS], COUNT]
    return total


@kernel
def _retrieve(view: ClusterView, equal_of: I32, times: Int) -> Int:
    total = 0
    for i in range(times):
        equal_of[0] = i
        for t in range(FIRST_TABLE, view.state[TABLES]):
            if view.tables[t, STATUS] == NO_TABLE:
                continue
            relevant = True
            for k in range(view.tables[t, WIDTH]):
                if equal_of[view.tables[t, SCHEMA + k]] < 0:
                    relevant = False
                    break
            total += relevant
    return total


@kernel
def _fill(view: ClusterView, predicates: Any, table: Int, keys: I32, width: Int, first: Int) -> Int:
    for i in range(first, len(keys)):
        if put(view, predicates, i, table, keys[i], width + 1, keys[i], width) < 0:
            return i
    return len(keys)


def _best(call: Callable[[], object]) -> float:
    """Nanoseconds of processor time of the quickest of a few calls, the first of which only warms up."""
    times = []
    for _ in range(5):
        begin = time.process_time_ns()
        call()
        times.append(time.process_time_ns() - begin)
    return float(min(times[1:]))


@cache
def calibrate(entries: int = 100_000) -> Costs:
    """Measures this machine, in well under a second; the answer is kept for the process. `Costs()` is good enough as a rule: the choice of
    tables depends on ratios, which differ little between machines."""
    random = np.random.default_rng(1)
    per_width = {}
    for width in (2, MAX_SCHEMA):
        store, predicates = ClusterStore(), PredicateIndex()
        store.reserve_slots(entries)
        table = store.add_table(tuple(range(width)))
        keys = random.integers(0, 1 << 20, (entries, MAX_SCHEMA + 1)).astype(np.int32)
        done = 0
        while done < entries:
            done = _fill(store.view, predicates.view, table, keys, width, done)
            store.grow(MAX_SCHEMA + 1)
        asked = keys[random.permutation(entries)]
        per_width[width] = _best(partial(_look_up, store.view, table, asked, width)) / entries
    hashing_attribute = max(0.0, (per_width[MAX_SCHEMA] - per_width[2]) / (MAX_SCHEMA - 2))
    tables = ClusterStore()
    for attribute in range(1, 33):
        tables.add_table((attribute, attribute + 1))
    rounds = 1000
    retrieve = _best(lambda: _retrieve(tables.view, np.full(64, -1, np.int32), rounds)) / (32 * rounds)
    # a cluster of three predicates, of which one in 35 holds
    bits = (random.random(1120) < 1 / 35).astype(np.uint8)
    words = random.integers(0, 1120, 4 * entries).astype(np.uint32)
    rows, slots = np.empty(entries, np.int32), np.empty(entries, np.int32)
    check = _best(lambda: AHEAD[3](words, 0, entries, entries, 3, bits, 0, rows, slots, 0)) / entries
    return Costs(retrieve, max(per_width[2] - 2 * hashing_attribute, 0.0), hashing_attribute, check)
