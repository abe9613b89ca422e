"""Fabret et al.'s static clustering: hash tables chosen by the cost model, greedily, from all subscriptions and the statistics of
publications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from pastforward.matching.index.registry import Registry
from pastforward.papers.fabret.cluster_matching import match_ahead
from pastforward.papers.fabret.clusters import CLOSING, FIRST_TABLE, MEMBERS, NO_TABLE, STATUS, TABLES, replace_all
from pastforward.papers.fabret.cost_model import Costs, calibrate, space
from pastforward.papers.fabret.predicate_index import EQUALITIES
from pastforward.papers.fabret.propagation import Clustered
from pastforward.papers.fabret.schema_gains import improve, read_sample, weigh
from pastforward.papers.fabret.statistics import GivenStatistics, Statistics

I32 = npt.NDArray[np.int32]

# Slots that stand for all when schemas are weighed: the gain of a table that one slot in a hundred would use is known to a tenth.
_SAMPLE: Final = 16_384
# Below this a scan of single-equality clusters is quicker than any choice.
_FEW: Final = 256
# Publications after which statistics are worth choosing anew for.
_ENOUGH_EVENTS: Final = 1_000
# What was seen counts half after so many publications.
FORGET_AFTER: Final = 1 << 16
_MAX_TABLES: Final = 256
_GIGABYTE: Final = 1 << 30


class Informed(Clustered):
    """Clusters behind the most selective access predicate of all tables, by statistics that were given or are gathered by matches."""

    informed: ClassVar[bool] = True
    matcher: ClassVar[Any] = match_ahead
    counted: ClassVar[bool] = True

    def __init__(
        self,
        registry: Registry,
        *,
        costs: Costs | Literal["measured"] | None = None,
        statistics: Mapping[str, Statistics] | None = None,
    ) -> None:
        super().__init__(registry)
        self.costs = calibrate() if costs == "measured" else (costs or Costs())
        self._given = GivenStatistics(statistics)

    def insert(self, slots: I32) -> None:
        self._given.tell(self.registry.names, self.predicates)
        if self.predicates.events > FORGET_AFTER:
            self.predicates.forget_half()
        super().insert(slots)

    def counters(self) -> dict[str, int | float]:
        return {**super().counters(), "events": self.predicates.events}

    def schemas(self) -> list[tuple[str, ...]]:
        """Of the tables with several attributes, by name."""
        names = self.registry.names
        return sorted(tuple(sorted(names[attribute] for attribute in schema)) for schema in self.store.schemas())

    def _free_closed_tables(self) -> None:
        tables = self.store.view.tables[FIRST_TABLE : int(self.store.view.state[TABLES])]
        tables[(tables[:, STATUS] == CLOSING) & (tables[:, MEMBERS] == 0), STATUS] = NO_TABLE


class Static(Informed):
    """The choice is made anew when the subscriptions have doubled, and once when enough publications have been seen; in between, new
    subscriptions go to the best of the tables there are. `max_bytes` bounds tables and clusters."""

    name: ClassVar[str] = "static"

    def __init__(
        self,
        registry: Registry,
        *,
        max_bytes: int = _GIGABYTE,
        costs: Costs | Literal["measured"] | None = None,
        statistics: Mapping[str, Statistics] | None = None,
    ) -> None:
        super().__init__(registry, costs=costs, statistics=statistics)
        self.max_bytes = max_bytes
        self._chosen_for = 0
        self._chosen_informed = False
        self._choices = 0
        self._moves = np.zeros(1, np.int64)

    def insert(self, slots: I32) -> None:
        super().insert(slots)
        self._choose_when_due()

    def remove(self, slots: I32) -> None:
        super().remove(slots)
        self._choose_when_due()

    def counters(self) -> dict[str, int | float]:
        return {**super().counters(), "choices": self._choices, "moved": int(self._moves[0])}

    def _choose_when_due(self) -> None:
        count = int(self.store.view.tables[:, MEMBERS].sum())
        enough = not self._chosen_informed and self.predicates.events >= _ENOUGH_EVENTS
        if count >= _FEW and (count >= 2 * self._chosen_for or enough):
            self._chosen_for = count
            self._chosen_informed |= enough
            self._choices += 1
            self._arrange(self.choose_schemas())

    def choose_schemas(self) -> list[tuple[int, ...]]:
        """Greedy: from single equalities alone, ever the table with the greatest benefit per byte, until none has any, or the space is
        used up. Tables that take no space at all come first, the greatest benefit before the others."""
        slots = self.store.slots()
        chosen = slots[:: max(1, len(slots) // _SAMPLE)]
        predicates = self.predicates
        sample = read_sample(self.store.view, predicates.view, chosen, 2 * self.registry.longest, singly=True)
        scale = len(slots) / max(1, len(chosen))
        presence = predicates.presences()
        values = predicates.view.by_attribute[:, EQUALITIES].astype(np.int64)
        used = self.nbytes
        schemas: list[tuple[int, ...]] = []
        while len(schemas) < _MAX_TABLES:
            gains = weigh(sample)
            net = self.costs.net(gains, scale, presence)
            added = space(gains, scale, values)
            worth = np.where((net > 0.0) & (used + added <= self.max_bytes), net / np.maximum(added, 1.0), 0.0)
            if not worth.any():
                break
            best = int(worth.argmax())
            schema = gains.schema[best]
            schema = schema[schema >= 0]
            improve(sample, schema, len(schema))
            used += int(added[best])
            schemas.append(tuple(schema.tolist()))
        return schemas

    def _arrange(self, schemas: list[tuple[int, ...]]) -> None:
        store = self.store
        for schema in set(store.schemas()) - set(schemas):
            store.view.tables[store.find_table(schema), STATUS] = CLOSING
        for schema in schemas:
            if not store.find_table(schema):
                store.add_table(schema)
        slots = store.slots()
        largest = 2 * self.registry.longest
        numbers, by_attribute = np.empty(largest, np.int32), self._by_attribute()
        done = 0
        while True:
            done = replace_all(store.view, self.predicates.view, slots, done, numbers, by_attribute, self._moves)
            if done == len(slots):
                break
            store.grow(largest)
        self._free_closed_tables()
