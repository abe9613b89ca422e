"""Counting: for each predicate the slots that ask for it; a slot is found when all its predicates have been counted."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.records import constraints
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.verification import Known
from pastforward.papers.fabret.ordered_index import OrderedView
from pastforward.papers.fabret.predicate_index import (
    PredicateIndex,
    PredicateView,
    hold_all,
    longer,
    predicate_room,
    release,
    satisfied,
)

U16 = npt.NDArray[np.uint16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# state
_WORDS: Final = 0  # ever used
_UNASKED: Final = 1  # slots without predicates
_POWERS: Final = 40

# Counts are cleared as a whole when more than this share of the slots was counted, else one by one.
_MANY: Final = 16


class AssociationView(NamedTuple):
    """Blocks of `words` come in powers of two, two words at least; a free one holds the next of its size plus 1. Predicate `p` has
    `length[p]` slots from `list_at[p]` on. Slot `s` asks for `asked[s]` predicates: from `slot_at[s]` on their numbers, then the places
    that the slot has in their lists."""

    list_at: I64
    length: I32
    capacity: I32
    slot_at: I64
    asked: U16
    words: I32
    free: I64  # by power of two, -1
    unasked: I32  # slots without predicates
    unasked_place: I32  # by slot
    state: I64


@inner
def _power(size: Int) -> Int:
    power = 1
    while (1 << power) < size:
        power += 1
    return power


@inner
def _allocate(view: AssociationView, power: Int) -> Int:
    """Room was made before."""
    at = view.free[power]
    if at >= 0:
        view.free[power] = np.int64(view.words[at]) | (np.int64(view.words[at + 1]) << 32)
        return at
    at = view.state[_WORDS]
    view.state[_WORDS] += 1 << power
    return at


@inner
def _give_back(view: AssociationView, at: Int, power: Int) -> None:
    following = view.free[power]
    view.words[at] = np.int32(following & 0xFFFFFFFF)
    view.words[at + 1] = np.int32(following >> 32)
    view.free[power] = at


@inner
def _append(view: AssociationView, number: Int, slot: Int) -> Int:
    """Returns the place in the predicate's list."""
    length = np.int64(view.length[number])
    if length == view.capacity[number]:
        power = _power(max(2 * length, 2))
        at = _allocate(view, power)
        for i in range(length):
            view.words[at + i] = view.words[view.list_at[number] + i]
        if length:
            _give_back(view, view.list_at[number], _power(length))
        view.list_at[number] = at
        view.capacity[number] = np.int32(1 << power)
    view.words[view.list_at[number] + length] = np.int32(slot)
    view.length[number] = np.int32(length + 1)
    return length


@kernel
def _withdraw(view: AssociationView, number: Int, place: Int) -> None:
    """Closes the gap with the last slot, which learns its new place."""
    at = view.list_at[number]
    last = np.int64(view.length[number]) - 1
    if place != last:
        moved = np.int64(view.words[at + last])
        view.words[at + place] = np.int32(moved)
        own = view.slot_at[moved]
        asked = np.int64(view.asked[moved])
        for k in range(asked):
            if view.words[own + k] == number:
                view.words[own + asked + k] = np.int32(place)
    view.length[number] = np.int32(last)
    if last == 0:
        _give_back(view, at, _power(np.int64(view.capacity[number])))
        view.capacity[number] = 0


@inner
def _associate(view: AssociationView, slot: Int, numbers: I32, count: Int) -> Bool:
    """False when there is no room: then nothing has changed."""
    need = 2 * max(count, 1)
    for k in range(count):
        if view.length[numbers[k]] == view.capacity[numbers[k]]:
            need += 2 * np.int64(view.length[numbers[k]]) + 2
    # a block is at most twice what is asked for
    if view.state[_WORDS] + 2 * need > len(view.words):
        return False
    view.asked[slot] = np.uint16(count)
    if count == 0:
        place = view.state[_UNASKED]
        view.unasked[place] = np.int32(slot)
        view.unasked_place[slot] = np.int32(place)
        view.state[_UNASKED] += 1
        return True
    own = _allocate(view, _power(2 * count))
    view.slot_at[slot] = own
    for k in range(count):
        view.words[own + k] = numbers[k]
        view.words[own + count + k] = np.int32(_append(view, np.int64(numbers[k]), slot))
    return True


@kernel
def insert(
    known: Known,
    predicates: PredicateView,
    order: OrderedView,
    view: AssociationView,
    slots: I32,
    first: Int,
    longest: Int,
) -> Int:
    """From `first` on. Returns how far it came: less than all means that room is needed."""
    attribute = np.empty(longest, np.int32)
    kind = np.empty(longest, np.uint8)
    low = np.empty(longest, np.uint64)
    high = np.empty(longest, np.uint64)
    value = np.empty(longest, np.uint64)
    numbers = np.empty(2 * longest, np.int32)
    for i in range(first, len(slots)):
        slot = np.int64(slots[i])
        if not predicate_room(predicates, order, 2 * longest):
            return i
        asked = constraints(known.records, known.strings, slot, attribute, kind, low, high, value)
        count, _equalities = hold_all(predicates, order, asked, attribute, kind, low, high, value, numbers)
        if not _associate(view, slot, numbers, count):
            for k in range(count):
                release(predicates, order, np.int64(numbers[k]))
            return i
    return len(slots)


@kernel
def remove(predicates: PredicateView, order: OrderedView, view: AssociationView, slots: I32) -> None:
    for i in range(len(slots)):
        slot = np.int64(slots[i])
        count = np.int64(view.asked[slot])
        if count == 0:
            place = view.unasked_place[slot]
            view.state[_UNASKED] -= 1
            last = view.unasked[view.state[_UNASKED]]
            view.unasked[place] = last
            view.unasked_place[last] = place
            continue
        own = view.slot_at[slot]
        for k in range(count):
            number = np.int64(view.words[own + k])
            _withdraw(view, number, np.int64(view.words[own + count + k]))
            release(predicates, order, number)
        _give_back(view, own, _power(2 * count))


@kernel
def count_up(
    predicates: PredicateView,
    order: OrderedView,
    view: AssociationView,
    batch: Batch,
    counts: U16,
    equal: I32,
    others: I32,
    rows: I32,
    slots: I32,
    first: Int,
) -> tuple[Int, Int]:
    """Goes on at row `first`; returns the next row and the number of pairs. Stops early when a row might not fit any more."""
    n = 0
    unasked = view.state[_UNASKED]
    for row in range(first, len(batch.carried)):
        equals, found = satisfied(predicates, order, batch, row, equal, others)
        for i in range(equals):
            others[found + i] = equal[i]
        found += equals
        counted = np.int64(0)
        for i in range(found):
            counted += view.length[others[i]]
        if n + unasked + min(counted, np.int64(len(counts))) > len(rows):
            return row, n
        for i in range(unasked):
            rows[n] = row
            slots[n] = view.unasked[i]
            n += 1
        for i in range(found):
            at = view.list_at[others[i]]
            for j in range(at, at + view.length[others[i]]):
                slot = view.words[j]
                counts[slot] += np.uint16(1)
                if counts[slot] == view.asked[slot]:
                    rows[n] = row
                    slots[n] = slot
                    n += 1
        if counted > len(counts) // _MANY:
            counts[:] = 0
        else:
            for i in range(found):
                at = view.list_at[others[i]]
                for j in range(at, at + view.length[others[i]]):
                    counts[view.words[j]] = 0
    return len(batch.carried), n


class Counting(Algorithm):
    name: ClassVar[str] = "counting"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.predicates = PredicateIndex()
        self._view = AssociationView(
            np.zeros(64, np.int64),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(64, np.int64),
            np.zeros(64, np.uint16),
            np.zeros(1024, np.int32),
            np.full(_POWERS, -1, np.int64),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(2, np.int64),
        )

    def insert(self, slots: I32) -> None:
        longest = self.registry.longest
        self._reserve(2 * longest)
        done = 0
        while True:
            done = insert(
                self.registry.known, self.predicates.view, self.predicates.order, self._view, slots, done, longest
            )
            if done == len(slots):
                return
            if self._reserve(2 * longest):
                continue
            # it was no predicate that had no place: by half, as often as it takes until the slot's lists fit
            view = self._view
            room = len(view.words) + len(view.words) // 2
            self._view = view._replace(words=longer(view.words, room))

    def remove(self, slots: I32) -> None:
        remove(self.predicates.view, self.predicates.order, self._view, slots)

    def candidates(self, batch: Batch) -> tuple[I32, I32]:
        predicates, view = self.predicates, self._view
        counts = np.zeros(self.registry.slot_limit, np.uint16)
        equal = np.empty(len(predicates.view.by_attribute), np.int32)
        others = np.empty(predicates.limit + 1, np.int32)
        room = max(len(counts), 1024)
        rows, slots = np.empty(room, np.int32), np.empty(room, np.int32)
        found: list[tuple[I32, I32]] = []
        row = 0
        while row < batch.rows:
            row, n = count_up(predicates.view, predicates.order, view, batch, counts, equal, others, rows, slots, row)
            found.append((rows[:n].copy(), slots[:n].copy()))
        if not found:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])

    def counters(self) -> dict[str, int | float]:
        return {
            "predicates": len(self.predicates),
            "associations": int(self._view.length.sum()),
            "without_predicate": int(self._view.state[_UNASKED]),
        }

    @property
    def nbytes(self) -> int:
        view = self._view
        by_slot = view.slot_at.nbytes + view.asked.nbytes + view.unasked_place.nbytes
        by_predicate = view.list_at.nbytes + view.length.nbytes + view.capacity.nbytes
        return self.predicates.nbytes + by_slot + by_predicate + int(view.state[_WORDS]) * 4

    def _reserve(self, more: int) -> bool:
        """Returns whether there was too little room for predicates."""
        grew = self.predicates.reserve(len(self.registry.names), more)
        view = self._view
        predicates = len(self.predicates.view.attribute)
        if predicates > len(view.length):
            view = view._replace(
                list_at=longer(view.list_at, predicates),
                length=longer(view.length, predicates),
                capacity=longer(view.capacity, predicates),
            )
        limit = self.registry.slot_limit
        if limit > len(view.slot_at):
            room = max(limit, len(view.slot_at) + len(view.slot_at) // 2)
            view = view._replace(
                slot_at=longer(view.slot_at, room),
                asked=longer(view.asked, room),
                unasked=longer(view.unasked, room),
                unasked_place=longer(view.unasked_place, room),
            )
        self._view = view
        return grew
