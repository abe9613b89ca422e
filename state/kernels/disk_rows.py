"""Rows between memory and disk, in bulk.

The key is as in `state.keys`. The value is, little-endian:
u64 sequence, i64 other time, i64 arrival, u8 flags, u16 length of the subscriber; subscriber, payload.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import hash_id
from pastforward.columns.kernel import bare
from pastforward.state.kernels import change, heap, ids, topics
from pastforward.state.kernels.records import (
    COPY,
    DEAD,
    INTEGER_IDS,
    IS_PUBLICATION,
    ITEM_TOP,
    LATEST,
    LOG_TIME,
    MANY_ON_DISK,
    NONE,
    ON_DISK,
    PUBLICATION,
    STAGED,
    SUBSCRIPTION,
    USED,
    Array,
    Int,
    Memory,
    Rows,
)
from pastforward.state.kernels.rules import ended_before, kept_until, lives, publication_kept

VALUE_HEADER = 27
MARK = 0x10

# Which rows to load.
ALL = 0
SINGLE = 1
MANY = 2  # those that stand at several topics

FOREVER = 15
"""The class of what never ends."""


@bare
def count_items(memory: Memory, journal: Array, entries: int) -> int:
    """Those that the journal names, with their copies."""
    count = 0
    for entry in range(entries):
        item = journal[entry] if journal[entry] >= 0 else -2 - journal[entry]
        while item != NONE:
            count += 1
            item = memory.items[item].copy
    return count


@bare
def staged_items(memory: Memory, journal: Array, entries: int, puts: Array, deletes: Array) -> tuple[int, int]:
    """Numbers of the items to write and of those whose rows go. Both arrays have room for all that the journal names."""
    put_count = 0
    delete_count = 0
    for entry in range(entries):
        item = journal[entry]
        if item >= 0:
            if not memory.items[item].flags & DEAD:
                while item != NONE:
                    puts[put_count] = item
                    put_count += 1
                    item = memory.items[item].copy
        else:
            item = -2 - item
            if memory.items[item].family != NONE:
                while item != NONE:
                    deletes[delete_count] = item
                    delete_count += 1
                    item = memory.items[item].copy
    return put_count, delete_count


@bare
def life_class(life: int, shortest: int) -> int:
    """Lives up to `shortest` are 0, up to four times that 1, and so on."""
    number = 0
    while life > shortest and number < FOREVER:
        shortest *= 4
        number += 1
    return number


@bare
def classify(memory: Memory, items: Array, shortest: int, classes: Array, until: Array) -> None:
    """How long each row will be needed: until when, and its class."""
    for at in range(len(items)):
        held = memory.items[items[at]]
        end = kept_until(memory.scalars, held.flags, held.time, held.other, held.arrived)
        until[at] = end
        classes[at] = FOREVER if end == LATEST else life_class(end - memory.scalars[LOG_TIME], shortest)


@bare
def _put_big_endian(out: Array, at: int, value: Int, size: int) -> int:
    bits = np.uint64(value)
    for byte in range(size):
        out[at + byte] = np.uint8((bits >> np.uint64(8 * (size - 1 - byte))) & np.uint64(0xFF))
    return at + size


@bare
def _put_little_endian(out: Array, at: int, value: Int, size: int) -> int:
    bits = np.uint64(value)
    for byte in range(size):
        out[at + byte] = np.uint8((bits >> np.uint64(8 * byte)) & np.uint64(0xFF))
    return at + size


@bare
def _big_endian(data: Array, low: int, high: int) -> Int:
    value = np.uint64(0)
    for at in range(low, high):
        value = (value << np.uint64(8)) | np.uint64(data[at])
    return value


@bare
def _little_endian(data: Array, low: int, high: int) -> Int:
    value = np.uint64(0)
    for at in range(high - 1, low - 1, -1):
        value = (value << np.uint64(8)) | np.uint64(data[at])
    return value


@bare
def write_path(memory: Memory, node: int, out: Array, at: int) -> int:
    """The node's path in key bytes. Returns where it ends."""
    stack = memory.stack
    depth = 0
    while memory.nodes[node].parent != NONE:
        stack[depth] = memory.nodes[node].component
        depth += 1
        node = memory.nodes[node].parent
    for level in range(depth - 1, -1, -1):
        component = stack[level]
        size = 0
        rest = component
        while rest != np.uint64(0):
            size += 1
            rest >>= np.uint64(8)
        out[at] = MARK + size
        at = _put_big_endian(out, at + 1, component, size)
    return at


@bare
def _path_size(memory: Memory, node: int) -> int:
    size = 0
    while memory.nodes[node].parent != NONE:
        rest = memory.nodes[node].component
        size += 1
        while rest != np.uint64(0):
            size += 1
            rest >>= np.uint64(8)
        node = memory.nodes[node].parent
    return size


@bare
def measure(memory: Memory, items: Array, key_ends: Array, value_ends: Array) -> None:
    """Where each key and value will end."""
    key_end = 0
    value_end = 0
    integers = memory.scalars[INTEGER_IDS] == 1
    for at in range(len(items)):
        held = memory.items[items[at]]
        id_low, id_high = heap.id_span(memory, held.blob)
        key_end += _path_size(memory, held.node) + 9 + (8 if integers else id_high - id_low)
        key_ends[at] = key_end
        total = 0 if held.blob == 0 else memory.heap_words[held.blob * 4] - heap.HEADER - (id_high - id_low)
        value_end += VALUE_HEADER + total
        value_ends[at] = value_end


@bare
def encode(memory: Memory, items: Array, rows: Rows, leading: Array, id_at: Array) -> None:
    """Writes keys and values end to end.

    `leading` gets the first eight bytes of each key as a number to sort by, `id_at` where in the key its id begins.
    """
    integers = memory.scalars[INTEGER_IDS] == 1
    key_at = 0
    value_at = 0
    for at in range(len(items)):
        held = memory.items[items[at]]
        first = key_at
        key_at = write_path(memory, held.node, rows.keys, key_at)
        rows.keys[key_at] = 1 + (held.flags & IS_PUBLICATION)
        key_at = _put_big_endian(rows.keys, key_at + 1, LATEST - held.time, 8)
        id_at[at] = key_at - first
        id_low, id_high = heap.id_span(memory, held.blob)
        if integers:
            key_at = _put_big_endian(rows.keys, key_at, np.uint64(held.id) ^ np.uint64(1 << 63), 8)
        else:
            key_at = heap.put_bytes(rows.keys, key_at, memory.heap, id_low, id_high)
        leading[at] = _big_endian(rows.keys, first, first + 8)

        value_at = _put_little_endian(rows.values, value_at, held.sequence, 8)
        value_at = _put_little_endian(rows.values, value_at, held.other, 8)
        value_at = _put_little_endian(rows.values, value_at, held.arrived, 8)
        rows.values[value_at] = (held.flags & ON_DISK) | (MANY_ON_DISK if held.many else 0)
        low, high = heap.subscriber_span(memory, held.blob)
        value_at = _put_little_endian(rows.values, value_at + 1, high - low, 2)
        _, end = heap.payload_span(memory, held.blob)
        value_at = heap.put_bytes(rows.values, value_at, memory.heap, low, end)


@bare
def room_for(rows: Rows, start: int, end: int) -> tuple[int, int]:
    """Units of heap and nodes that rows of the disk may take, at most."""
    units = 0
    nodes = 0
    for row in range(start, end):
        key_low = 0 if row == 0 else rows.key_ends[row - 1]
        value_low = 0 if row == 0 else rows.value_ends[row - 1]
        length = rows.key_ends[row] - key_low + rows.value_ends[row] - value_low
        units += heap.size_class((length + heap.UNIT - 1) // heap.UNIT)[1]
        while rows.keys[key_low] >= MARK:
            key_low += 1 + rows.keys[key_low] - MARK
            nodes += 1
    return units, nodes


@bare
def load(memory: Memory, rows: Rows, start: int, end: int, which: int, taken: Array) -> int:
    """Takes rows of the disk into the index; what time has removed, and what is there already, is passed over. Returns how many items
    were made; `taken` gets their numbers.

    Of two rows with one id the later sequence wins; with one sequence too they are copies at several topics.
    From the last to the first: keys come latest first, and a list grows at its head.
    """
    components = memory.stack
    scalars = memory.scalars
    integers = scalars[INTEGER_IDS] == 1
    count = 0
    for row in range(end - 1, start - 1, -1):
        at = 0 if row == 0 else rows.key_ends[row - 1]
        key_end = rows.key_ends[row]
        depth = 0
        while rows.keys[at] >= MARK:
            size = rows.keys[at] - MARK
            components[depth] = _big_endian(rows.keys, at + 1, at + 1 + size)
            depth += 1
            at += 1 + size
        kind = PUBLICATION if rows.keys[at] == 2 else SUBSCRIPTION
        time = LATEST - np.int64(_big_endian(rows.keys, at + 1, at + 9))
        id_low = at + 9
        if integers:
            identity: Int = np.int64(_big_endian(rows.keys, id_low, key_end) ^ np.uint64(1 << 63))
        else:
            identity = hash_id(rows.keys, id_low, key_end)

        value = 0 if row == 0 else rows.value_ends[row - 1]
        sequence: Int = np.int64(_little_endian(rows.values, value, value + 8))
        other: Int = np.int64(_little_endian(rows.values, value + 8, value + 16))
        arrived: Int = np.int64(_little_endian(rows.values, value + 16, value + 24))
        flags = rows.values[value + 24]
        many = flags & MANY_ON_DISK != 0
        if (which == SINGLE and many) or (which == MANY and not many):
            continue
        if kind == PUBLICATION:
            if not publication_kept(scalars, scalars[LOG_TIME], arrived, other):
                continue
        elif time < ended_before(scalars, scalars[LOG_TIME]):
            continue

        slot = ids.find(memory, kind, identity, rows.keys, id_low, key_end)
        known = memory.item_map[slot]
        last = NONE
        if known != NONE:
            if memory.items[known].sequence > sequence:
                continue
            if memory.items[known].sequence < sequence:
                change.remove(memory, known)
                slot = ids.find(memory, kind, identity, rows.keys, id_low, key_end)
                known = NONE
        node = topics.descend(memory, components, 0, depth)
        if known != NONE:
            there = False
            last = known
            while True:
                if memory.items[last].node == node and memory.nodes[node].depth == depth:
                    there = True
                if memory.items[last].copy == NONE:
                    break
                last = memory.items[last].copy
            if there:
                continue
        node = topics.intern(memory, node, components, 0, depth)
        item = change.new_item(memory)
        held = memory.items[item]
        held.time = time
        held.other = other
        held.arrived = arrived
        held.id = identity
        held.sequence = sequence
        held.copy = NONE
        held.family = rows.family[row]
        held.flags = (flags & ON_DISK) | USED
        held.many = many
        if known != NONE:
            held.blob = memory.items[known].blob
            held.flags |= COPY | (memory.items[known].flags & DEAD)
            memory.items[last].copy = item
        else:
            subscriber_low = value + VALUE_HEADER
            subscriber_high: Int = subscriber_low + np.int64(_little_endian(rows.values, value + 25, value + 27))
            held.blob = heap.store_blob(
                memory,
                rows.keys,
                id_low,
                id_low if integers else key_end,
                rows.values,
                subscriber_low,
                subscriber_high,
                rows.values,
                subscriber_high,
                rows.value_ends[row],
            )
            ids.put(memory, slot, item)
        change.attach(memory, item, node)
        taken[count] = item
        count += 1
    return count


@bare
def unchanged_in(memory: Memory, staged: Memory, items: Array) -> int:
    """Keeps, at the front, the items that another index has not withdrawn or replaced. Returns how many."""
    kept = 0
    for at in range(len(items)):
        held = memory.items[items[at]]
        low, high = heap.id_span(memory, held.blob)
        other = staged.item_map[ids.find(staged, held.flags & IS_PUBLICATION, held.id, memory.heap, low, high)]
        if other == NONE or not staged.items[other].flags & (DEAD | STAGED):
            items[kept] = items[at]
            kept += 1
    return kept


@bare
def absent_from(memory: Memory, other: Memory, items: Array, absent: Array) -> None:
    """Which items have ids that another index does not know."""
    for at in range(len(items)):
        held = memory.items[items[at]]
        low, high = heap.id_span(memory, held.blob)
        slot = ids.find(other, held.flags & IS_PUBLICATION, held.id, memory.heap, low, high)
        absent[at] = other.item_map[slot] == NONE


@bare
def living(memory: Memory, kind: int, start: int, needed: int, out: Array) -> tuple[int, int]:
    """Items of a kind that are there and have the flags needed, without copies, from number `start` on.

    Returns how many, and where to go on.
    """
    count = 0
    at = start
    top = memory.scalars[ITEM_TOP]
    while at < top and count < len(out):
        flags = memory.items[at].flags
        if (
            flags & (COPY | DEAD | IS_PUBLICATION) == kind
            and flags & needed == needed
            and lives(memory, at, memory.scalars[LOG_TIME])
        ):
            out[count] = at
            count += 1
        at += 1
    return count, at


@bare
def item_of(memory: Memory, kind: int, identity: int, text: Array) -> int:
    """The item of an id that is there, or NONE. `text` is the id as keys have it."""
    if memory.scalars[INTEGER_IDS] != 1:
        identity = hash_id(text, 0, len(text))
    item = memory.item_map[ids.find(memory, kind, identity, text, 0, len(text))]
    if item == NONE or memory.items[item].flags & DEAD or not lives(memory, item, memory.scalars[LOG_TIME]):
        return NONE
    return int(item)
