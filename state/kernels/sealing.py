"""From publications in the index to columns, and back to rows.

Replaces a sort of keys in Python and a `put` for each row: 3 to 4 us a publication in RocksDB alone; both figures in docs/state.md,
`python -m pastforward.benchmarks.past`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pastforward.columns.attributes import STRING
from pastforward.columns.hashing import hash_id
from pastforward.columns.kernel import bare
from pastforward.state.kernels.disk_rows import (
    VALUE_HEADER,
    _path_size,
    _put_big_endian,
    _put_little_endian,
    write_path,
)
from pastforward.state.kernels.heap import put_bytes
from pastforward.state.kernels.records import (
    DEAD,
    LATEST,
    LOG_TIME,
    MANY_ON_DISK,
    NONE,
    ON_DISK,
    PUBLICATION,
    Array,
    Memory,
    Rows,
)
from pastforward.state.kernels.rules import lives
from pastforward.state.kernels.topics import ROOT


@bare
def topics_held(memory: Memory, out: Array) -> int:
    """Nodes that publications stand at. Returns how many."""
    nodes = memory.nodes
    count = 0
    node = ROOT
    while True:
        if memory.lists[2 * node + PUBLICATION].head != NONE:
            out[count] = node
            count += 1
        if nodes[node].child != NONE:
            node = nodes[node].child
            continue
        while node != ROOT and nodes[node].sibling == NONE:
            node = nodes[node].parent
        if node == ROOT:
            return count
        node = nodes[node].sibling


@bare
def path_ends(memory: Memory, nodes: Array, ends: Array) -> None:
    end = 0
    for at in range(len(nodes)):
        end += _path_size(memory, nodes[at])
        ends[at] = end


@bare
def write_paths(memory: Memory, nodes: Array, out: Array) -> None:
    end = 0
    for at in range(len(nodes)):
        end = write_path(memory, nodes[at], out, end)


@bare
def in_order(memory: Memory, nodes: Array, items: Array, ranks: Array) -> int:
    """The publications of these nodes that are in no slice yet, latest first, and the place of each one's node. Returns how many."""
    count = 0
    now = memory.scalars[LOG_TIME]
    for rank in range(len(nodes)):
        item = memory.lists[2 * nodes[rank] + PUBLICATION].head
        while item != NONE:
            held = memory.items[item]
            if held.family == NONE and not held.flags & DEAD and lives(memory, item, now):
                items[count] = item
                ranks[count] = rank
                count += 1
            item = held.next
    return count


@bare
def replaced(memory: Memory, journal: Array, entries: int, out: Array) -> int:
    """Positions in the log of the publications in slices that a replay has replaced. Returns how many."""
    count = 0
    for entry in range(entries):
        item = -2 - journal[entry]
        if journal[entry] < 0 and memory.items[item].flags & DEAD and memory.items[item].family != NONE:
            out[count] = memory.items[item].sequence
            count += 1
    return count


class Entries(NamedTuple):
    """Attributes of publications, as `columns.attributes` has them."""

    start: Array
    name: Array
    tag: Array
    bits: Array
    length: Array
    heap: Array


@bare
def dense(entries: Entries, column_of: Array, row: int, kinds: Array, bits: Array, leading: Array) -> None:
    """A row for each attribute, from column `row` on: tags (0: absent), bits (of a text its hash), and of a text the first eight bytes."""
    for at in range(len(entries.start) - 1):
        for entry in range(entries.start[at], entries.start[at + 1]):
            column = column_of[entries.name[entry]]
            if column < 0:
                continue
            tag = entries.tag[entry]
            kinds[column, row + at] = tag
            value = entries.bits[entry]
            bits[column, row + at] = value
            if tag == STRING:
                length = np.int64(entries.length[entry])
                bits[column, row + at] = hash_id(entries.heap, value, value + length)
                first = np.uint64(0)
                for place in range(8):
                    first <<= np.uint64(8)
                    if place < length:
                        first |= np.uint64(entries.heap[value + place])
                leading[column, row + at] = first


@bare
def copy_spans(data: Array, low: Array, high: Array, ends: Array, out: Array) -> None:
    """Parts of `data` one behind the other, with their ends."""
    at = 0
    for span in range(len(low)):
        at = put_bytes(out, at, data, low[span], high[span])
        ends[span] = at


class Sealed(NamedTuple):
    """Publications of a slice by columns: i-th bytes are `data[at[i]:at[i + 1]]`. Ids are numbers, or bytes where there are any."""

    time: Array
    other: Array
    arrived: Array
    sequence: Array
    flags: Array
    number: Array
    id_data: Array
    id_at: Array
    topic_data: Array
    topic_at: Array
    subscriber_data: Array
    subscriber_at: Array
    payload_data: Array
    payload_at: Array


@bare
def rows_of(sealed: Sealed, integers: bool, rows: Rows) -> None:
    """As the disk's rows, which the index takes: see `state.kernels.disk_rows`."""
    key_at = 0
    value_at = 0
    for at in range(len(sealed.time)):
        key_at = put_bytes(rows.keys, key_at, sealed.topic_data, sealed.topic_at[at], sealed.topic_at[at + 1])
        rows.keys[key_at] = 1 + PUBLICATION
        key_at = _put_big_endian(rows.keys, key_at + 1, LATEST - sealed.time[at], 8)
        if integers:
            key_at = _put_big_endian(rows.keys, key_at, np.uint64(sealed.number[at]) ^ np.uint64(1 << 63), 8)
        else:
            key_at = put_bytes(rows.keys, key_at, sealed.id_data, sealed.id_at[at], sealed.id_at[at + 1])
        rows.key_ends[at] = key_at
        value_at = _put_little_endian(rows.values, value_at, sealed.sequence[at], 8)
        value_at = _put_little_endian(rows.values, value_at, sealed.other[at], 8)
        value_at = _put_little_endian(rows.values, value_at, sealed.arrived[at], 8)
        rows.values[value_at] = sealed.flags[at] & (ON_DISK | MANY_ON_DISK)
        low = sealed.subscriber_at[at]
        high = sealed.subscriber_at[at + 1]
        value_at = _put_little_endian(rows.values, value_at + 1, high - low, 2)
        value_at = put_bytes(rows.values, value_at, sealed.subscriber_data, low, high)
        low = sealed.payload_at[at]
        value_at = put_bytes(rows.values, value_at, sealed.payload_data, low, sealed.payload_at[at + 1])
        rows.value_ends[at] = value_at


HEADER = VALUE_HEADER


@bare
def note_hashes(table: Array, hashes: Array, start: int, end: int, number: int) -> None:
    """An entry is 24 bits of the hash and the number of a slice, 1 to 255; 0 is empty."""
    mask = len(table) - 1
    for row in range(start, end):
        slot = hashes[row] & mask
        while table[slot] != 0:
            slot = (slot + 1) & mask
        table[slot] = np.uint32((hashes[row] >> 39) << 8 | number)


@bare
def find_hashes(table: Array, hashes: Array, rows: Array, numbers: Array) -> int:
    """Returns how many entries there are for these hashes, of which as many are written as there is room for."""
    mask = len(table) - 1
    count = 0
    for row in range(len(hashes)):
        slot = hashes[row] & mask
        mark = hashes[row] >> 39
        while table[slot] != 0:
            if table[slot] >> 8 == mark:
                if count < len(rows):
                    rows[count] = row
                    numbers[count] = table[slot] & 255
                count += 1
            slot = (slot + 1) & mask
    return count
