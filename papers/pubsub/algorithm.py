"""`Index(algorithm="pubsub")`: options, statistics, and memory of the forest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.registry import Registry
from pastforward.papers.pubsub.buckets import settle
from pastforward.papers.pubsub.forest import (
    AHO_CORASICK,
    ALWAYS,
    AUTO,
    BUCKET_POOL,
    COUNT,
    DEAD,
    GROUPS_END,
    GROWN,
    I32,
    INTERVAL,
    INTERVAL_POOL,
    MEMBERS_END,
    MOVED,
    OPENED,
    RBPST,
    RED_BLACK,
    SPLITS,
    STRING_STRUCTURES,
    STRUCTURE_POOL,
    STRUCTURES_HELD,
    SUFFIX,
    SWAPPED,
    TREE_POOL,
    TRIE_POOL,
    Source,
    empty_forest,
    longer,
    with_room,
)
from pastforward.papers.pubsub.insertion import insert_all, relink
from pastforward.papers.pubsub.predicates import count_uses
from pastforward.papers.pubsub.removal import remove_many
from pastforward.papers.pubsub.search import search

KINDS: Final = {
    "auto": AUTO,
    "interval": INTERVAL,
    "rbpst": RBPST,
    "rb": RED_BLACK,
    "suffix": SUFFIX,
    "aho-corasick": AHO_CORASICK,
}


class PubSub(Algorithm):
    """Options:
    `bucket_size`: subscriptions a bucket takes before it splits. `ordered`: whether large buckets are sorted into groups; without,
    updates are cheapest, and buckets should be small. `structure`: the kind of D for all attributes, or by attribute (others then are
    "auto": exact match only, a red-black tree; mostly suffixes or substrings, tries; a known domain, an interval tree; else a red-black
    priority search tree). `domains`: first and last value of integer attributes, for interval trees. `order`: attributes to take
    first; the others, and all without it, go by how often subscriptions name them, rarest first.

    The order is made anew whenever the number of subscriptions has doubled, and holds for what comes then; nothing moves, since
    search does not depend on it. A new attribute is the rarest."""

    name: ClassVar[str] = "pubsub"

    def __init__(
        self,
        registry: Registry,
        *,
        bucket_size: int = 5000,
        ordered: bool = True,
        structure: str | Mapping[str, str] = "auto",
        domains: Mapping[str, tuple[int, int]] | None = None,
        order: Sequence[str] = (),
    ) -> None:
        super().__init__(registry)
        if bucket_size < 1:
            raise ValueError(f"bucket_size {bucket_size}: a bucket holds at least 1 subscription")
        for name in [structure] if isinstance(structure, str) else structure.values():
            if name not in KINDS:
                raise ValueError(f"structure {name!r} is unknown; write one of {', '.join(KINDS)}")
        for name, (low, high) in (domains or {}).items():
            if not -(2**62) <= low <= high < 2**62:
                raise ValueError(
                    f"domains[{name!r}] is {low} to {high}; give the first and the last integer, in this order"
                )
        self._structure = structure
        self._domains = dict(domains or {})
        self._order = {name: place for place, name in enumerate(order)}
        self._forest = empty_forest(bucket_size, ordered)
        self._source = Source(
            np.zeros(64, np.int32), np.zeros(64, np.uint8), np.zeros((64, 2), np.int64), np.zeros((64, 4), np.int64)
        )
        self._attributes = 0
        self._held = 0
        self._ranked_at = 0

    def insert(self, slots: I32) -> None:
        registry = self.registry
        self._learn_attributes()
        records, strings = registry.known.records, registry.known.strings
        count_uses(records, strings, slots, self._source.uses, 1)
        self._held += len(slots)
        if self._held >= 2 * self._ranked_at:
            self._rank()
        if registry.slot_limit > len(self._forest.home):
            self._forest = self._forest._replace(home=longer(self._forest.home, registry.slot_limit))
        self._forest = insert_all(self._forest, records, strings, self._source, slots)
        while groups := settle(self._forest, records, strings, self._source.rank):
            self._forest = with_room(self._forest, 0, 0, groups)
        relink(self._forest)

    def remove(self, slots: I32) -> None:
        if not len(slots):
            return
        known = self.registry.known
        count_uses(known.records, known.strings, slots, self._source.uses, -1)
        self._held -= len(slots)
        remove_many(self._forest, slots)
        relink(self._forest)

    def candidates(self, batch: Batch) -> tuple[I32, I32]:
        forest = self._forest
        buckets = int(forest.state[BUCKET_POOL])
        entry_of = np.zeros(max(len(self.registry.names), 1), np.int32)
        waiting = np.empty(buckets, np.int32)
        seen = np.zeros(buckets if forest.state[STRING_STRUCTURES] else 0, np.int32)
        room = max(4096, 4 * batch.rows)
        found: list[tuple[I32, I32]] = []
        row = 0
        while row < batch.rows:
            rows, slots = np.empty(room, np.int32), np.empty(room, np.int32)
            after, n = search(forest, batch, row, entry_of, waiting, seen, rows, slots)
            found.append((rows[:n], slots[:n]))
            row, room = after, 2 * room
        if len(found) == 1:
            return found[0]
        if not found:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])

    def counters(self) -> dict[str, int | float]:
        """`splits`, `opened` (structures), `moved` (members, into them), `swapped` and `grown` count what insertions have done."""
        forest = self._forest
        state = forest.state
        live = forest.buckets[:, COUNT] - forest.buckets[:, DEAD]
        return {
            "subscriptions": self._held,
            "structures": int(state[STRUCTURES_HELD]),
            "largest_bucket": int(live.max()),
            "always": int(live[ALWAYS]),
            "splits": int(state[SPLITS]),
            "opened": int(state[OPENED]),
            "moved": int(state[MOVED]),
            "swapped": int(state[SWAPPED]),
            "grown": int(state[GROWN]),
        }

    @property
    def nbytes(self) -> int:
        """Pages that were never written are not there."""
        forest, state = self._forest, self._forest.state
        used = (
            (int(state[MEMBERS_END]), (forest.start, forest.end, forest.mask, forest.slot)),
            (int(state[GROUPS_END]), (forest.groups,)),
            (int(state[BUCKET_POOL]), (forest.buckets, forest.places, forest.dirty)),
            (int(state[STRUCTURE_POOL]), (forest.structures,)),
            (int(state[TREE_POOL]), (forest.tree, forest.tree_keys)),
            (int(state[INTERVAL_POOL]), (forest.intervals, forest.interval_keys)),
            (int(state[TRIE_POOL]), (forest.tries,)),
            (self.registry.slot_limit, (forest.home,)),
        )
        rows = sum(count * array[:1].nbytes for count, arrays in used for array in arrays)
        return rows + forest.table.nbytes + sum(array.nbytes for array in self._source)

    def _learn_attributes(self) -> None:
        """Options of attributes that have got a number since."""
        names = self.registry.names
        known = self._attributes
        if len(names) == known:
            return
        self._source = Source(*(longer(array, len(names)) for array in self._source))
        source = self._source
        for number in range(known, len(names)):
            name = names[number]
            kind = self._structure if isinstance(self._structure, str) else self._structure.get(name, "auto")
            source.option[number] = KINDS[kind]
            low, high = self._domains.get(name, (0, -1))
            source.domain[number] = low, high + 1
            source.rank[number] = self._order.get(name, len(self._order)) - 2 * number - 2**30
        self._attributes = len(names)

    def _rank(self) -> None:
        """Attributes by frequency, rarest first, after those that the order names."""
        names = self.registry.names
        uses = self._source.uses[: len(names)].sum(axis=1)
        named = np.array([self._order.get(name, len(self._order)) for name in names])
        by_both = np.lexsort((uses, named))
        self._source.rank[by_both] = np.arange(len(names))
        self._ranked_at = self._held
