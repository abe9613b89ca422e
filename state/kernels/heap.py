"""Blocks of bytes of any size: text ids, subscribers and payloads.

Sizes are units of 16 bytes, and above 16 units eighths of a power of two (an eighth is lost at most); a freed block goes
to the list of its size and is taken again from there. Nothing is ever moved.

A blob is: u32 length of all, u16 length of the id, u16 of the subscriber; id, subscriber, payload.
"""

from __future__ import annotations

from pastforward.columns.kernel import bare
from pastforward.state.kernels.records import HEAP_TOP, Array, Memory

UNIT = 16
SIZES = 16 + 8 * 24  # blocks of up to 4 GB
HEADER = 8


@bare
def size_class(units: int) -> tuple[int, int]:
    """The class that holds so many units, and its size."""
    if units <= 16:
        return units - 1, units
    exponent = 4
    while units >> (exponent + 1):
        exponent += 1
    step = 1 << (exponent - 3)
    eighths = (units + step - 1) // step
    return 16 + (exponent - 4) * 8 + eighths - 8, eighths * step


@bare
def take(memory: Memory, length: int) -> int:
    """A block for `length` bytes. The caller has reserved room (see `Index.reserve`)."""
    number, size = size_class((length + UNIT - 1) // UNIT)
    block = memory.free_blocks[number]
    if block != 0:
        memory.free_blocks[number] = memory.heap_words[block * 4]
        return int(block)
    top = memory.scalars[HEAP_TOP]
    memory.scalars[HEAP_TOP] = top + size
    return int(top)


@bare
def give_back(memory: Memory, block: int) -> None:
    number, _ = size_class((memory.heap_words[block * 4] + UNIT - 1) // UNIT)
    memory.heap_words[block * 4] = memory.free_blocks[number]
    memory.free_blocks[number] = block


@bare
def put_bytes(target: Array, at: int, source: Array, low: int, high: int) -> int:
    """Copies a part of the source. Returns where it ends in the target."""
    for offset in range(high - low):
        target[at + offset] = source[low + offset]
    return at + high - low


@bare
def store_blob(
    memory: Memory,
    identity: Array,
    id_low: int,
    id_high: int,
    subscriber: Array,
    subscriber_low: int,
    subscriber_high: int,
    payload: Array,
    payload_low: int,
    payload_high: int,
) -> int:
    """0 when there is nothing to keep."""
    id_length = max(0, id_high - id_low)
    subscriber_length = subscriber_high - subscriber_low
    payload_length = payload_high - payload_low
    if id_length + subscriber_length + payload_length == 0:
        return 0
    length = HEADER + id_length + subscriber_length + payload_length
    block = take(memory, length)
    memory.heap_words[block * 4] = length
    memory.heap_words[block * 4 + 1] = id_length | (subscriber_length << 16)
    at = block * UNIT + HEADER
    at = put_bytes(memory.heap, at, identity, id_low, id_low + id_length)
    at = put_bytes(memory.heap, at, subscriber, subscriber_low, subscriber_high)
    put_bytes(memory.heap, at, payload, payload_low, payload_high)
    return block


@bare
def same_bytes(left: Array, left_low: int, right: Array, right_low: int, length: int) -> bool:
    at = 0
    while at < length and left[left_low + at] == right[right_low + at]:
        at += 1
    return at == length


@bare
def id_span(memory: Memory, block: int) -> tuple[int, int]:
    if block == 0:
        return 0, 0
    low = block * UNIT + HEADER
    return low, low + (memory.heap_words[block * 4 + 1] & 0xFFFF)


@bare
def subscriber_span(memory: Memory, block: int) -> tuple[int, int]:
    if block == 0:
        return 0, 0
    lengths = memory.heap_words[block * 4 + 1]
    low = block * UNIT + HEADER + (lengths & 0xFFFF)
    return low, low + ((lengths >> 16) & 0xFFFF)


@bare
def payload_span(memory: Memory, block: int) -> tuple[int, int]:
    if block == 0:
        return 0, 0
    _, low = subscriber_span(memory, block)
    return low, block * UNIT + memory.heap_words[block * 4]
