"""Putting items in and taking them out.

While a chunk is staged nothing leaves the index: what is withdrawn or replaced is marked dead and noted in the journal, and
what is new is noted as well. `settle` then makes it final, `undo` takes it back.
The journal holds the first item of every change: its number if it came, and `-2 - number` if it died.
"""

from __future__ import annotations

from pastforward.columns.hashing import hash_id
from pastforward.columns.kernel import bare
from pastforward.state.kernels import heap, ids, lists, topics
from pastforward.state.kernels.records import (
    COPY,
    DEAD,
    IS_PUBLICATION,
    ITEM_FREE,
    ITEM_FREE_COUNT,
    ITEM_TOP,
    ITEMS,
    JOURNAL,
    LOG_TIME,
    NONE,
    PUBLICATION,
    STAGED,
    SWEEP_AT,
    SWEEPS,
    USED,
    Array,
    Memory,
)
from pastforward.state.kernels.rules import lives


@bare
def new_item(memory: Memory) -> int:
    scalars = memory.scalars
    item = scalars[ITEM_FREE]
    if item != NONE:
        scalars[ITEM_FREE] = memory.items[item].next
        scalars[ITEM_FREE_COUNT] -= 1
    else:
        item = scalars[ITEM_TOP]
        scalars[ITEM_TOP] += 1
    scalars[ITEMS] += 1
    return int(item)


@bare
def attach(memory: Memory, item: int, node: int) -> None:
    kind = memory.items[item].flags & IS_PUBLICATION
    memory.items[item].node = node
    lists.link(memory, 2 * node + kind, item)
    topics.count(memory, node, kind, 1)


@bare
def come(memory: Memory, journal: Array, item: int) -> None:
    journal[memory.scalars[JOURNAL]] = item
    memory.scalars[JOURNAL] += 1


@bare
def die(memory: Memory, journal: Array, item: int) -> None:
    """Marks an item and its copies dead, until the stage is settled or undone."""
    journal[memory.scalars[JOURNAL]] = -2 - item
    memory.scalars[JOURNAL] += 1
    while item != NONE:
        memory.items[item].flags |= DEAD
        item = memory.items[item].copy


@bare
def supersede(memory: Memory, journal: Array, item: int) -> None:
    """Notes that another item takes the id of one whose time has passed: who asked before that still finds it."""
    journal[memory.scalars[JOURNAL]] = -2 - item
    memory.scalars[JOURNAL] += 1


@bare
def remove(memory: Memory, item: int) -> None:
    """Takes an item and its copies out for good. Its id is forgotten unless a later item has it."""
    slot = ids.slot_of(memory, item)
    if memory.item_map[slot] == item:
        ids.drop(memory, slot)
    scalars = memory.scalars
    if memory.items[item].blob != 0:
        heap.give_back(memory, memory.items[item].blob)
    while item != NONE:
        following = memory.items[item].copy
        node = memory.items[item].node
        kind = memory.items[item].flags & IS_PUBLICATION
        lists.unlink(memory, 2 * node + kind, item)
        topics.count(memory, node, kind, -1)
        memory.items[item].flags = 0
        memory.items[item].next = scalars[ITEM_FREE]
        scalars[ITEM_FREE] = item
        scalars[ITEM_FREE_COUNT] += 1
        scalars[ITEMS] -= 1
        item = following


@bare
def close(memory: Memory, journal: Array) -> None:
    """The stage is on disk: the dead leave, the new are as good as old."""
    scalars = memory.scalars
    for entry in range(scalars[JOURNAL]):
        item = journal[entry]
        if item >= 0:
            while item != NONE:
                memory.items[item].flags &= 0xFF ^ STAGED
                item = memory.items[item].copy
    for entry in range(scalars[JOURNAL]):
        item = journal[entry]
        if item < 0:
            remove(memory, -2 - item)
    scalars[JOURNAL] = 0


@bare
def close_held(memory: Memory, journal: Array) -> None:
    """The same for publications, which stay until their slice is sealed."""
    scalars = memory.scalars
    for entry in range(scalars[JOURNAL]):
        item = journal[entry]
        if item >= 0:
            while item != NONE:
                memory.items[item].flags &= 0xFF ^ STAGED
                item = memory.items[item].copy
    scalars[JOURNAL] = 0


@bare
def undo(memory: Memory, journal: Array, mark: int) -> None:
    """All changes from entry `mark` of the journal on are given up: the new leave, the dead return, last change first."""
    scalars = memory.scalars
    for entry in range(scalars[JOURNAL] - 1, mark - 1, -1):
        item = journal[entry]
        if item >= 0:
            remove(memory, item)
        else:
            first = -2 - item
            ids.put(memory, ids.slot_of(memory, first), first)
            item = first
            while item != NONE:
                memory.items[item].flags &= 0xFF ^ DEAD
                item = memory.items[item].copy
    scalars[JOURNAL] = mark


@bare
def sweep(memory: Memory, steps: int) -> None:
    """Looks at the next few items, round and round, and removes those whose time has passed. Only between stages."""
    scalars = memory.scalars
    top = scalars[ITEM_TOP]
    at = scalars[SWEEP_AT]
    for _ in range(min(steps, top)):
        if at >= top:
            at = 0
            scalars[SWEEPS] += 1
        flags = memory.items[at].flags
        if flags & USED and not flags & COPY and not lives(memory, at, scalars[LOG_TIME]):
            remove(memory, at)
        at += 1
    scalars[SWEEP_AT] = at


@bare
def amend(
    memory: Memory,
    id_bytes: Array,
    id_low: Array,
    id_high: Array,
    payload_bytes: Array,
    payload_low: Array,
    payload_high: Array,
    nobody: Array,
) -> None:
    """Other payloads for staged publications, by text id. Ids that are not there, or not staged, are left as they are."""
    for row in range(len(id_low)):
        identity = hash_id(id_bytes, id_low[row], id_high[row])
        slot = ids.find(memory, PUBLICATION, identity, id_bytes, id_low[row], id_high[row])
        item = memory.item_map[slot]
        if item == NONE or not memory.items[item].flags & STAGED or memory.items[item].flags & DEAD:
            continue
        old = memory.items[item].blob
        blob = heap.store_blob(
            memory,
            id_bytes,
            id_low[row],
            id_high[row],
            nobody,
            0,
            0,
            payload_bytes,
            payload_low[row],
            payload_high[row],
        )
        heap.give_back(memory, old)
        while item != NONE:
            memory.items[item].blob = blob
            item = memory.items[item].copy
