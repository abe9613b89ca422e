"""Fabret et al.'s propagation: clusters behind access predicates that are single equalities. `prefetch` is the same with look-ahead."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.records import constraints
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.verification import Known
from pastforward.papers.fabret.cluster_matching import match_ahead, match_plain
from pastforward.papers.fabret.clusters import (
    CHECKS,
    MAX_SCHEMA,
    MEMBERS,
    OWNER,
    ROOT,
    ClusterStore,
    ClusterView,
    choose,
    predicates_at,
    put,
    take_out,
)
from pastforward.papers.fabret.ordered_index import OrderedView
from pastforward.papers.fabret.predicate_index import PredicateIndex, PredicateView, hold_all, predicate_room, release

I32 = npt.NDArray[np.int32]


@kernel
def insert(
    known: Known,
    predicates: PredicateView,
    order: OrderedView,
    view: ClusterView,
    slots: I32,
    first: Int,
    longest: Int,
    informed: Bool,
    by_attribute: I32,
) -> Int:
    """Puts slots where they are found best, from `first` on. Returns how far it came: less than all means that room is needed."""
    attribute = np.empty(longest, np.int32)
    kind = np.empty(longest, np.uint8)
    low = np.empty(longest, np.uint64)
    high = np.empty(longest, np.uint64)
    value = np.empty(longest, np.uint64)
    numbers = np.empty(2 * longest, np.int32)
    key = np.empty(MAX_SCHEMA, np.int32)
    for i in range(first, len(slots)):
        slot = np.int64(slots[i])
        if not predicate_room(predicates, order, 2 * longest):
            return i
        asked = constraints(known.records, known.strings, slot, attribute, kind, low, high, value)
        count, equalities = hold_all(predicates, order, asked, attribute, kind, low, high, value, numbers)
        table, width, _chance = choose(view, predicates, numbers, equalities, informed, by_attribute, key)
        if put(view, predicates, slot, table, numbers, count, key, width) < 0:
            for k in range(count):
                release(predicates, order, np.int64(numbers[k]))
            return i
    return len(slots)


@kernel
def remove(predicates: PredicateView, order: OrderedView, view: ClusterView, slots: I32, longest: Int) -> None:
    numbers = np.empty(2 * longest, np.int32)
    for i in range(len(slots)):
        if i + 8 < len(slots):
            prefetch(view.clusters, np.int64(view.slot_cluster[slots[i + 8]]) * np.int64(view.clusters.shape[1]))
        slot = np.int64(slots[i])
        cluster = np.int64(view.slot_cluster[slot])
        place = np.int64(view.slot_place[slot])
        count, _width = predicates_at(view, cluster, place, numbers)
        take_out(view, predicates, cluster, place)
        view.slot_cluster[slot] = -1
        for k in range(count):
            release(predicates, order, np.int64(numbers[k]))


class Clustered(Algorithm):
    """What the algorithms with clusters have in common. Slots without an equality lie in the root's clusters, which every publication
    visits. A match allocates its own bit vector, so readers do not meet."""

    informed: ClassVar[bool] = False
    matcher: ClassVar[Any]
    counted: ClassVar[bool] = False

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.predicates = PredicateIndex()
        self.store = ClusterStore()

    def insert(self, slots: I32) -> None:
        self._reserve()
        by_attribute = self._by_attribute()
        longest = self.registry.longest
        done = 0
        while True:
            done = insert(
                self.registry.known,
                self.predicates.view,
                self.predicates.order,
                self.store.view,
                slots,
                done,
                longest,
                self.informed,
                by_attribute,
            )
            if done == len(slots):
                return
            self.predicates.reserve(0, 2 * longest)
            self.store.grow(2 * longest)

    def remove(self, slots: I32) -> None:
        remove(self.predicates.view, self.predicates.order, self.store.view, slots, self.registry.longest)

    def candidates(self, batch: Batch) -> tuple[I32, I32]:
        predicates, view = self.predicates, self.store.view
        bits = np.zeros(predicates.limit + 1, np.uint8)
        others = np.empty(predicates.limit + 1, np.int32)
        attributes = len(predicates.view.by_attribute)
        lists = np.empty(attributes + len(view.tables) + 1, np.int32)
        equal_of = np.full(attributes, -1, np.int32)
        room = 1024
        rows, slots = np.empty(room, np.int32), np.empty(room, np.int32)
        found: list[tuple[I32, I32]] = []
        row = 0
        while True:
            row, n = type(self).matcher(
                predicates.view,
                predicates.order,
                view,
                batch,
                bits,
                others,
                lists,
                equal_of,
                rows,
                slots,
                row,
                self.counted,
            )
            if row == batch.rows and not found:
                return rows[:n], slots[:n]
            found.append((rows[:n], slots[:n]))
            if row == batch.rows:
                return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])
            # a cluster does not fit what is left
            room = room * 4
            rows, slots = np.empty(room, np.int32), np.empty(room, np.int32)

    def counters(self) -> dict[str, int | float]:
        view = self.store.view
        return {
            "predicates": len(self.predicates),
            "access_predicates": self.store.access_predicates,
            "clusters": self.store.clusters,
            "tables": len(self.store.schemas()),
            "without_access_predicate": int(view.tables[ROOT, MEMBERS]),
            "checks": int(view.state[CHECKS]),
        }

    @property
    def nbytes(self) -> int:
        return self.predicates.nbytes + self.store.nbytes

    def _reserve(self) -> None:
        self.predicates.reserve(len(self.registry.names), 2 * self.registry.longest)
        self.store.reserve_slots(self.registry.slot_limit)

    def _by_attribute(self) -> I32:
        return np.full(max(len(self.registry.names), 1), -1, np.int32)

    def access_of(self, slot: int) -> int:
        """Which access predicate a slot lies behind."""
        return int(self.store.view.clusters[self.store.view.slot_cluster[slot], OWNER])


class Propagation(Clustered):
    name: ClassVar[str] = "propagation"
    matcher: ClassVar[Any] = match_plain


class Prefetch(Clustered):
    name: ClassVar[str] = "prefetch"
    matcher: ClassVar[Any] = match_ahead
