"""The kernels of the registry: slots and their records, written, found and freed."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import reference
from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Int
from pastforward.matching.index.records import (
    EQUAL_STRING,
    EXCLUDED,
    EXPRESSION,
    HAS_TOPIC,
    INCLUDED,
    NO_WORD,
    OF_STRINGS,
    PREFIX,
    PYTHON,
    STRINGS,
    Parts,
    part_count,
    parts_begin,
    payload,
    read_64,
    record_size,
    worst_size,
    write_record,
)

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]


# Freed records wait in a list per size; above this, in a list per power of two.
_EXACT_SIZES: Final = 256
SIZE_LISTS: Final = _EXACT_SIZES + 32


class SlotView(NamedTuple):
    """Columns by slot. `table` finds heads by id: slot + 1, 0 for never used, -1 for released."""

    ids: I64
    head: I32
    following: I32
    table: I32


# Where records lie, by slot, and what is free: records by their sizes, slots; and the counters below. Numba takes a plain tuple three
# times as fast as a named one, which tells where subscriptions come one by one.
Space: TypeAlias = tuple[U32, U32, I64, I32, I64]  # offset, words, free records, free slots, state
# What records hold: numbers of strings, of topics, of Python's constraints. Empty arrays: it is only counted.
Held: TypeAlias = tuple[I32, I32, I32]

# Where the counters are in the state array.
SLOTS: Final = 0  # ever used
FREE_SLOTS: Final = 1
CELLS: Final = 2  # of the table, used or released
WORDS: Final = 3  # ever used
SUBSCRIPTIONS: Final = 4
FREE_WORDS: Final = 5


@kernel
def _home(identity: Int, mask: Int) -> Int:
    return np.int64(mix(np.uint64(identity)) & np.uint64(mask))


@inner
def _find(view: SlotView, identity: Int) -> Int:
    mask = len(view.table) - 1
    at = _home(identity, mask)
    while True:
        entry = view.table[at]
        if entry == 0:
            return -1
        if entry > 0 and view.ids[entry - 1] == identity:
            return np.int64(entry) - 1
        at = (at + 1) & mask


@kernel
def find_heads(view: SlotView, identities: I64, out: I32) -> None:
    mask = len(view.table) - 1
    for i in range(len(identities)):
        if i + 8 < len(identities):
            prefetch(view.table, _home(identities[i + 8], mask))
        out[i] = _find(view, identities[i])


@kernel
def all_slots(view: SlotView, heads: I32) -> I32:
    """The slots of subscriptions; heads of -1 are passed over."""
    count = 0
    for i in range(len(heads)):
        slot = heads[i]
        while slot >= 0:
            count += 1
            slot = view.following[slot]
    out = np.empty(count, np.int32)
    count = 0
    for i in range(len(heads)):
        slot = heads[i]
        while slot >= 0:
            out[count] = slot
            count += 1
            slot = view.following[slot]
    return out


@inner
def _size_list(size: Int) -> Int:
    if size < _EXACT_SIZES:
        return size
    power = 0
    while (1 << power) < size:
        power += 1
    return _EXACT_SIZES + power


@inner
def words_taken(size: Int) -> Int:
    """What is taken from the arena for a record of this size."""
    if size < _EXACT_SIZES:
        return size
    power = 0
    while (1 << power) < size:
        power += 1
    return 1 << power


@inner
def _allocate(words: U32, free: I64, state: I64, size: Int) -> Int:
    at = _size_list(size)
    if free[at]:
        offset = free[at]
        free[at] = np.int64(words[offset + 1])
        state[FREE_WORDS] -= words_taken(size)
        return offset
    # a larger free record is cut in two, if the rest can stand alone
    if state[FREE_WORDS] > 0 and size < _EXACT_SIZES:
        for larger in range(size + 2, _EXACT_SIZES):
            if free[larger]:
                offset = free[larger]
                free[larger] = np.int64(words[offset + 1])
                rest = larger - size
                words[offset + size + 1] = np.uint32(free[rest])
                free[rest] = offset + size
                state[FREE_WORDS] -= size
                return offset
    offset = state[WORDS]
    state[WORDS] += words_taken(size)
    return offset


parts_at = reference(Parts)


@kernel
def measure_parts(parts_address: Int) -> tuple[Int, Int]:
    """Words that the records take at most, in all and the longest."""
    parts = parts_at(parts_address)
    total = 0
    longest = 2
    for i in range(len(parts.start) - 1):
        size = worst_size(parts, i)
        total += words_taken(size)
        longest = max(longest, size)
    return total, longest


@inner
def _take_slot(free_slots: I32, state: I64) -> Int:
    if state[FREE_SLOTS] > 0:
        state[FREE_SLOTS] -= 1
        return np.int64(free_slots[state[FREE_SLOTS]])
    state[SLOTS] += 1
    return state[SLOTS] - 1


@kernel
def add_slots(
    view: SlotView, space: Space, parts_address: Int, identities: I64, first: I64, scratch: U32, out: I32
) -> None:
    """Subscription `i` has the slots `first[i]:first[i + 1]` of `parts`. Room was made, and no id is known."""
    parts = parts_at(parts_address)
    offset, words, free_records, free_slots, state = space
    mask = len(view.table) - 1
    for i in range(len(identities)):
        if i + 8 < len(identities):
            prefetch(view.table, _home(identities[i + 8], mask))
        head = np.int64(-1)
        last = np.int64(-1)
        for s in range(first[i], first[i + 1]):
            slot = _take_slot(free_slots, state)
            size = write_record(scratch, 0, parts, s)
            at = _allocate(words, free_records, state, size)
            for k in range(size):
                words[at + k] = scratch[k]
            offset[slot] = np.uint32(at)
            view.ids[slot] = identities[i]
            view.following[slot] = -1
            if head < 0:
                head = slot
            else:
                view.following[last] = slot
            view.head[slot] = head
            last = slot
            out[s] = slot
        at = _home(identities[i], mask)
        while view.table[at] > 0:
            at = (at + 1) & mask
        if view.table[at] == 0:
            state[CELLS] += 1
        view.table[at] = head + 1
        state[SUBSCRIPTIONS] += 1


@inner
def _note(out: I32, counts: I64, which: Int, number: Int) -> None:
    if len(out):
        out[counts[which]] = np.int32(number)
    counts[which] += 1


@kernel
def collect_held(words: U32, offset: U32, slots: I32, held: Held, counts: I64) -> None:
    """`counts`: of strings, topics, constraints."""
    strings, topics, python = held
    counts[:] = 0
    for i in range(len(slots)):
        at = np.int64(offset[slots[i]])
        if words[at] & np.uint32(HAS_TOPIC):
            _note(topics, counts, 1, words[at + 1])
        parts = part_count(words, at)
        at = parts_begin(words, at)
        for _ in range(parts):
            kind = (words[at] >> np.uint32(7)) & np.uint32(31)
            if kind == EQUAL_STRING or (kind >= PREFIX and kind <= EXPRESSION):
                _note(strings, counts, 0, words[at + 1])
            elif kind == STRINGS:
                for k in range(1, 3):
                    if words[at + k] != np.uint32(NO_WORD):
                        _note(strings, counts, 0, words[at + k])
            elif (kind == INCLUDED or kind == EXCLUDED) and words[at] & np.uint32(63) == np.uint32(OF_STRINGS):
                for k in range(words[at + 1]):
                    _note(strings, counts, 0, read_64(words, at + 3 + 2 * k))
            elif kind == PYTHON:
                _note(python, counts, 2, words[at + 1])
            at += 1 + payload(words, at)


@kernel
def drop_slots(view: SlotView, space: Space, slots: I32) -> None:
    offset, words, free_records, free_slots, state = space
    mask = len(view.table) - 1
    for i in range(len(slots)):
        if i + 8 < len(slots):
            prefetch(words, np.int64(offset[slots[i + 8]]))
            prefetch(view.ids, np.int64(slots[i + 8]))
        slot = np.int64(slots[i])
        at = np.int64(offset[slot])
        size = record_size(words, at)
        to = _size_list(size)
        words[at + 1] = np.uint32(free_records[to])
        free_records[to] = at
        state[FREE_WORDS] += words_taken(size)
        offset[slot] = 0
        free_slots[state[FREE_SLOTS]] = slot
        state[FREE_SLOTS] += 1
        if view.head[slot] == slot:
            cell = _home(view.ids[slot], mask)
            while view.table[cell] != slot + 1:
                cell = (cell + 1) & mask
            view.table[cell] = -1
            state[SUBSCRIPTIONS] -= 1


@kernel
def rebuild_table(view: SlotView, offset: U32, count: Int) -> Int:
    mask = len(view.table) - 1
    used = 0
    for slot in range(count):
        if offset[slot] == 0 or view.head[slot] != slot:
            continue
        at = _home(view.ids[slot], mask)
        while view.table[at] != 0:
            at = (at + 1) & mask
        view.table[at] = slot + 1
        used += 1
    return used
