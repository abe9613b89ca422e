"""Fabret et al.'s dynamic clustering: tables come and go as subscriptions and publications change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from pastforward.matching.index.registry import Registry
from pastforward.papers.fabret.clusters import CLOSING, FIRST_TABLE, MEMBERS, OPEN, STATUS, TABLES
from pastforward.papers.fabret.cost_model import Costs
from pastforward.papers.fabret.maintenance import (
    MOVED,
    REDISTRIBUTED,
    empty_work,
    larger_work,
    notice,
    queue_table,
    queue_unrepaired,
    redistribute,
    sample_unrepaired,
    still_unrepaired,
    sweep,
    unrepaired,
    waiting,
)
from pastforward.papers.fabret.schema_gains import read_sample, weigh
from pastforward.papers.fabret.static import Informed
from pastforward.papers.fabret.statistics import Statistics

I32 = npt.NDArray[np.int32]

# One slot looked at for each publication: below that a cluster list costs no more than finding it.
BM_MAX: Final = 1.0
# A table that takes over fewer slots is not worth its place; one that has lost three quarters of that goes.
RP_MIN: Final = 256.0
B_MIN: Final = 64
# Slots that are weighed for a new table, at most: two milliseconds.
_SAMPLE: Final = 4_096
# Per write: slots that are offered to tables, access predicates whose margin is looked at, for each slot that came or went and in any
# case. So maintenance takes a few times as long as the write itself, whatever there is to do.
_OFFERS: Final = 8
_LOOKS: Final = 8
_AT_LEAST: Final = 64
# New tables per write, at most.
_TABLES_PER_WRITE: Final = 4
# After a vain search for a table, the unrepaired must have grown by this before the next.
_GROWN: Final = 1.25


class Dynamic(Informed):
    """All maintenance happens inside writes, in pieces bounded by the size of the write. `bm_max`: expected checks of an access predicate
    above which it is redistributed; `rp_min`: reparation power from which a table is created; `b_min`: slots below which it is dropped.
    Among tables with enough reparation power the one that saves most by the cost model is created, if it saves anything."""

    name: ClassVar[str] = "dynamic"

    def __init__(
        self,
        registry: Registry,
        *,
        bm_max: float = BM_MAX,
        b_min: int = B_MIN,
        rp_min: float = RP_MIN,
        costs: Costs | Literal["measured"] | None = None,
        statistics: Mapping[str, Statistics] | None = None,
    ) -> None:
        super().__init__(registry, costs=costs, statistics=statistics)
        if b_min > rp_min:
            raise ValueError(f"b_min {b_min} is above rp_min {rp_min}: a new table would be dropped at once")
        self.bm_max = bm_max
        self.b_min = b_min
        self.rp_min = rp_min
        self._work = empty_work(64)
        self._created = 0
        self._dropped = 0
        # tables whose slots are still on their way
        self._young: set[int] = set()
        self._vain_slots = 0.0
        self._vain_margin = 0.0

    def insert(self, slots: I32) -> None:
        super().insert(slots)
        self._make_room()
        notice(self.store.view, self.predicates.view, self._work, slots, self.bm_max)
        self._maintain(len(slots))

    def remove(self, slots: I32) -> None:
        super().remove(slots)
        self._drop_tables()
        self._maintain(len(slots))

    def counters(self) -> dict[str, int | float]:
        return {
            **super().counters(),
            "tables_created": self._created,
            "tables_dropped": self._dropped,
            "redistributed": int(self._work.state[REDISTRIBUTED]),
            "moved": int(self._work.state[MOVED]),
            "waiting": waiting(self._work),
            "unrepaired": unrepaired(self._work),
        }

    def _maintain(self, changed: int) -> None:
        budget = _AT_LEAST + _OFFERS * changed
        for _ in range(_TABLES_PER_WRITE):
            budget = self._redistribute(budget)
            if waiting(self._work):
                break
            self._young.clear()
            if not self._create_table():
                break
        ever = self.store.access_limit
        steps = _AT_LEAST + _LOOKS * changed
        sweep(self.store.view, self.predicates.view, self._work, ever, steps, self.bm_max)

    def _redistribute(self, budget: int) -> int:
        largest = 2 * self.registry.longest
        numbers, by_attribute = np.empty(largest, np.int32), self._by_attribute()
        while True:
            short, budget = redistribute(
                self.store.view, self.predicates.view, self._work, budget, self.bm_max, numbers, by_attribute
            )
            if not short:
                break
            self.store.grow(largest)
            self._make_room()
        self._free_closed_tables()
        return budget

    def _create_table(self) -> bool:
        """For the unrepaired, if a table has enough reparation power."""
        view, predicates, work = self.store.view, self.predicates, self._work
        slots, margin = still_unrepaired(view, predicates.view, work, self.bm_max)
        self._vain_slots, self._vain_margin = min(self._vain_slots, slots), min(self._vain_margin, margin)
        if slots < self.rp_min:
            return False
        if slots < _GROWN * self._vain_slots and margin < _GROWN * self._vain_margin:
            return False
        step = -(-int(slots) // _SAMPLE)
        chosen = np.empty(_SAMPLE, np.int32)
        chosen = chosen[: int(sample_unrepaired(view, work, step, chosen))]
        sample = read_sample(view, predicates.view, chosen, 2 * self.registry.longest, singly=False)
        gains = weigh(sample)
        scale = slots / max(1, len(chosen))
        net = self.costs.net(gains, scale, predicates.presences())
        known = set(self.store.schemas())
        for best in np.argsort(-net).tolist():
            if net[best] <= 0.0:
                break
            schema = tuple(attribute for attribute in gains.schema[best].tolist() if attribute >= 0)
            if gains.benefit[best] * scale >= self.rp_min and schema not in known:
                self._young.add(self.store.add_table(schema))
                self._created += 1
                self._vain_slots = self._vain_margin = 0.0
                queue_unrepaired(self.store.view, work)
                return True
        self._vain_slots, self._vain_margin = float(slots), float(margin)
        return False

    def _drop_tables(self) -> None:
        view = self.store.view
        for table in range(FIRST_TABLE, int(view.state[TABLES])):
            status, members = int(view.tables[table, STATUS]), int(view.tables[table, MEMBERS])
            if status == OPEN and members < self.b_min and table not in self._young:
                view.tables[table, STATUS] = CLOSING
                self._dropped += 1
                queue_table(view, self._work, table)

    def _make_room(self) -> None:
        """Each access predicate may wait, and those that are gone may still stand in the ring."""
        room = 2 * len(self.store.view.access)
        if room > len(self._work.ring):
            self._work = larger_work(self._work, room)
