"""From an id to its item: one open-addressing table for both kinds."""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import hash_id, mix_positive
from pastforward.columns.kernel import bare
from pastforward.state.kernels.heap import id_span, same_bytes
from pastforward.state.kernels.records import INTEGER_IDS, IS_PUBLICATION, MAPPED, NONE, Array, Int, Memory


@bare
def hash_all(data: Array, low: Array, high: Array, out: Array) -> None:
    for row in range(len(low)):
        out[row] = hash_id(data, low[row], high[row])


@bare
def _home(identity: Int, kind: int, mask: int) -> int:
    return mix_positive(np.uint64(identity) * np.uint64(2) + np.uint64(kind)) & mask


@bare
def find(memory: Memory, kind: int, identity: Int, data: Array, low: int, high: int) -> int:
    """The slot of an id, or the empty one where it would stand."""
    table = memory.item_map
    mask = len(table) - 1
    integers = memory.scalars[INTEGER_IDS] == 1
    slot = _home(identity, kind, mask)
    while True:
        item = table[slot]
        if item == NONE:
            return slot
        held = memory.items[item]
        if held.id == identity and (held.flags & IS_PUBLICATION) == kind:
            if integers:
                return slot
            own_low, own_high = id_span(memory, held.blob)
            if own_high - own_low == high - low and same_bytes(memory.heap, own_low, data, low, high - low):
                return slot
        slot = (slot + 1) & mask


@bare
def slot_of(memory: Memory, item: int) -> int:
    """The slot of an item's id, which may hold a later item of the same id."""
    held = memory.items[item]
    low, high = id_span(memory, held.blob)
    return find(memory, held.flags & IS_PUBLICATION, held.id, memory.heap, low, high)


@bare
def put(memory: Memory, slot: int, item: int) -> None:
    if memory.item_map[slot] == NONE:
        memory.scalars[MAPPED] += 1
    memory.item_map[slot] = item


@bare
def drop(memory: Memory, slot: int) -> None:
    """Empties a slot and closes the gap."""
    table = memory.item_map
    mask = len(table) - 1
    gap = slot
    at = slot
    while True:
        at = (at + 1) & mask
        other = table[at]
        if other == NONE:
            break
        home = _home(memory.items[other].id, memory.items[other].flags & IS_PUBLICATION, mask)
        if (at - home) & mask >= (at - gap) & mask:
            table[gap] = other
            gap = at
    table[gap] = NONE
    memory.scalars[MAPPED] -= 1


@bare
def rebuild_item_map(memory: Memory, table: Array) -> None:
    """Fills a larger table."""
    mask = len(table) - 1
    for slot in range(len(memory.item_map)):
        item = memory.item_map[slot]
        if item != NONE:
            at = _home(memory.items[item].id, memory.items[item].flags & IS_PUBLICATION, mask)
            while table[at] != NONE:
                at = (at + 1) & mask
            table[at] = item
