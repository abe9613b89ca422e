"""Columns of items: what an Arrow table is made of."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import bare
from pastforward.state.kernels import heap
from pastforward.state.kernels.records import IS_PUBLICATION, NONE, Array, Memory

TEXT_ID = 0
SUBSCRIBER = 1
PAYLOAD = 2

TIME = 0
OTHER = 1
ARRIVED = 2
SEQUENCE = 3
IDENTITY = 4


@bare
def numbers(memory: Memory, items: Array, field: int, out: Array) -> None:
    for at in range(len(items)):
        held = memory.items[items[at]]
        if field == TIME:
            out[at] = held.time
        elif field == OTHER:
            out[at] = held.other
        elif field == ARRIVED:
            out[at] = held.arrived
        elif field == SEQUENCE:
            out[at] = held.sequence
        else:
            out[at] = held.id


@bare
def flags_of(memory: Memory, items: Array, out: Array) -> None:
    for at in range(len(items)):
        out[at] = memory.items[items[at]].flags


@bare
def kinds(memory: Memory, items: Array, out: Array) -> None:
    for at in range(len(items)):
        out[at] = memory.items[items[at]].flags & IS_PUBLICATION


@bare
def _span(memory: Memory, block: int, part: int) -> tuple[int, int]:
    if part == TEXT_ID:
        return heap.id_span(memory, block)
    if part == SUBSCRIBER:
        return heap.subscriber_span(memory, block)
    return heap.payload_span(memory, block)


@bare
def byte_offsets(memory: Memory, items: Array, part: int, offsets: Array) -> None:
    offsets[0] = 0
    for at in range(len(items)):
        low, high = _span(memory, memory.items[items[at]].blob, part)
        offsets[at + 1] = offsets[at] + high - low


@bare
def copy_bytes(memory: Memory, items: Array, part: int, offsets: Array, out: Array) -> None:
    for at in range(len(items)):
        low, high = _span(memory, memory.items[items[at]].blob, part)
        heap.put_bytes(out, offsets[at], memory.heap, low, high)


@bare
def pair_sizes(memory: Memory, items: Array, published: Array, id_at: Array, payload_at: Array) -> None:
    """Which items are publications, and where their ids and payloads begin and end, one behind the other."""
    id_at[0] = payload_at[0] = 0
    for at in range(len(items)):
        held = memory.items[items[at]]
        published[at] = (held.flags & IS_PUBLICATION) != 0
        low, high = heap.id_span(memory, held.blob)
        id_at[at + 1] = id_at[at] + high - low
        low, high = heap.payload_span(memory, held.blob)
        payload_at[at + 1] = payload_at[at] + high - low


@bare
def copy_pairs(memory: Memory, items: Array, id_at: Array, ids: Array, payload_at: Array, payloads: Array) -> None:
    for at in range(len(items)):
        blob = memory.items[items[at]].blob
        low, high = heap.id_span(memory, blob)
        heap.put_bytes(ids, id_at[at], memory.heap, low, high)
        low, high = heap.payload_span(memory, blob)
        heap.put_bytes(payloads, payload_at[at], memory.heap, low, high)


@bare
def _digits(value: int) -> int:
    rest = np.uint64(value)
    count = 1
    while rest >= np.uint64(10):
        rest //= np.uint64(10)
        count += 1
    return count


@bare
def path_offsets(memory: Memory, items: Array, offsets: Array) -> None:
    """Of the dotted paths."""
    offsets[0] = 0
    for at in range(len(items)):
        node = memory.items[items[at]].node
        length = -1
        while memory.nodes[node].parent != NONE:
            length += 1 + _digits(memory.nodes[node].component)
            node = memory.nodes[node].parent
        offsets[at + 1] = offsets[at] + max(0, length)


@bare
def copy_paths(memory: Memory, items: Array, offsets: Array, out: Array) -> None:
    for at in range(len(items)):
        node = memory.items[items[at]].node
        end = offsets[at + 1]
        while memory.nodes[node].parent != NONE:
            rest = np.uint64(memory.nodes[node].component)
            while True:
                end -= 1
                out[end] = np.uint8(np.uint64(48) + rest % np.uint64(10))
                rest //= np.uint64(10)
                if rest == np.uint64(0):
                    break
            node = memory.nodes[node].parent
            if memory.nodes[node].parent != NONE:
                end -= 1
                out[end] = 46


@bare
def chain_lengths(memory: Memory, items: Array, out: Array) -> int:
    """At how many topics each item stands; returns the sum."""
    total = 0
    for at in range(len(items)):
        item = items[at]
        count = 0
        while item != NONE:
            count += 1
            item = memory.items[item].copy
        out[at] = count
        total += count
    return total


@bare
def chains(memory: Memory, items: Array, out: Array) -> None:
    """Each item followed by its copies."""
    count = 0
    for at in range(len(items)):
        item = items[at]
        while item != NONE:
            out[count] = item
            count += 1
            item = memory.items[item].copy
