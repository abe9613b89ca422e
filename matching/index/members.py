"""What an index holds: the registry of subscriptions, and the structures that find them. Without locks: `Index` has those."""

from __future__ import annotations

from collections.abc import Iterable
from sys import getsizeof
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.vocabulary import Semantics
from pastforward.matching.blocks.auto import Auto
from pastforward.matching.conditions.normal_form import Constraint
from pastforward.matching.index import records as r
from pastforward.matching.index.algorithms import create
from pastforward.matching.index.ids import Ids
from pastforward.matching.index.memory import give_back
from pastforward.matching.index.records import Parts
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.subscription import Identity
from pastforward.matching.index.tidying import Waste

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LARGE: Final = 100_000  # slots, or predicates of a table: so many leave tens of megabytes with the allocator


class Members:
    """Takes and drops slots in registry and algorithms alike. `algorithm` finds classical subscriptions, `relaxed` those under the other
    semantics, of which the papers' algorithms do not speak."""

    def __init__(self, algorithm: str, options: dict[str, Any]) -> None:
        self.registry = Registry()
        self.ids = Ids(self.registry)
        self.never: dict[Identity, Semantics] = {}  # what nothing satisfies has no records
        self.relaxed_slots = 0
        self._options = options
        self._waste = Waste()
        self._begin(algorithm)

    def _begin(self, algorithm: str) -> None:
        """The structures that know slots or attributes by number, as of an empty index."""
        self.algorithm = create(algorithm, self.registry, **self._options)
        self.auto = self.algorithm if isinstance(self.algorithm, Auto) else None  # its ways are shorter
        self.relaxed = create("auto", self.registry, relaxed=True)

    def __len__(self) -> int:
        return len(self.registry) + len(self.never)

    def __contains__(self, subscription_id: Identity) -> bool:
        return subscription_id in self.never or self.ids.head(subscription_id) >= 0

    @property
    def nbytes(self) -> int:
        """Memory of records and structures, in bytes, what is spare included."""
        never = getsizeof(self.never) + sum(map(getsizeof, self.never))
        return self.registry.nbytes + self.algorithm.nbytes + self.relaxed.nbytes + never

    def slots_of(self, subscription_id: Identity) -> list[int]:
        """One for each disjunct."""
        head = self.ids.head(subscription_id)
        if head < 0:
            raise KeyError(f"no subscription {subscription_id!r} in this index")
        slots: list[int] = self.registry.slots_of(np.array([head], np.int32)).tolist()
        return slots

    def take(self, parts: Parts, identities: I64, first: I64, python: list[Constraint]) -> None:
        """Subscriptions whose ids are not there: `i` has the slots `first[i]:first[i + 1]` of `parts`."""
        slots = self.registry.add(parts, identities, first, python)
        relaxed = (parts.record_flags & (r.SYMMETRIC | r.INTERSECT)) != 0
        if relaxed.any():
            self.relaxed_slots += int(relaxed.sum())
            self.relaxed.insert(slots[relaxed])
            slots = slots[~relaxed]
        if len(slots):
            self.algorithm.insert(slots)

    def drop(self, slots: I32) -> None:
        """Whole subscriptions, given by all their slots."""
        if not len(slots):
            return
        self._waste.dropped(len(slots))
        if self.relaxed_slots:
            relaxed = self._are_relaxed(slots)
            self.relaxed_slots -= int(relaxed.sum())
            self.relaxed.remove(slots[relaxed])
            self.algorithm.remove(slots[~relaxed])
        else:
            self.algorithm.remove(slots)
        self.registry.drop(slots)

    def drop_subscriptions(self, heads: I32) -> int:
        """With their ids, each of which holds its text once. Returns how many; a head of -1 is none."""
        heads = heads[heads >= 0]
        if not len(heads):
            return 0
        texts = self.registry.slots.ids[heads].astype(np.int32) if self.ids.are_texts else None
        self.drop(self.registry.slots_of(heads))
        if texts is not None:
            self.registry.id_strings.release(texts)
        return len(heads)

    def forget(self, ids: list[Identity]) -> int:
        """Returns how many were there."""
        gone = self.forget_never(ids)
        return gone + self.drop_subscriptions(self.ids.heads(list(dict.fromkeys(ids))))

    def forget_never(self, ids: Iterable[Identity]) -> int:
        return sum(self.never.pop(identity, None) is not None for identity in ids) if self.never else 0

    def tidy(self) -> bool:
        """After a write. Where too much is unused, everything is laid out anew, which costs as much as a bulk load of what is left; whether
        that was done."""
        if self.auto is None:
            return False  # the papers' algorithms are measured as they are
        if not self._waste.is_much(self.registry, self.auto, self.relaxed):
            return False
        slots = self.registry.compact(bool(self.ids.are_texts))
        self._begin(self.algorithm.name)
        self._waste.cleared(self.registry)
        relaxed = self._are_relaxed(slots)
        for algorithm, chosen in ((self.algorithm, slots[~relaxed]), (self.relaxed, slots[relaxed])):
            if len(chosen):
                algorithm.insert(chosen)
        if len(slots) > LARGE:
            give_back()
        return True

    def _are_relaxed(self, slots: I32) -> Mask:
        records = self.registry.known.records
        relaxed: Mask = (records.words[records.offset[slots]] & (r.SYMMETRIC | r.INTERSECT)) != 0
        return relaxed
