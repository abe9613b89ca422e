"""The kernel that routes a chunk of publications by rules in columns, and what its twin for subscriptions shares with it.

Replaces `ContentScheme.publication`, one record at a time: 1.5 us (pan) to 6.4 us (iim) with two attributes; this takes 0.03 to 0.13 us
(`pastforward bench routing`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOOLEAN, FLOAT, INTEGER, PATH, STRING, TIMESTAMP
from pastforward.columns.hashing import k_combine, k_crc32, k_spread
from pastforward.columns.kernel import kernel
from pastforward.matching.conditions.normal_form import Family
from pastforward.streams.routing.columns import EntryColumns

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

NAME: Final = 0
VALUE: Final = 1
INTERVAL: Final = 2

_DOT: Final = 46
TWO_63: Final = 2.0**63
# Kernels take numbers, not members of an enumeration.
_BOOLEANS: Final = int(Family.BOOLEAN)
_NUMBERS: Final = int(Family.NUMBER)
_STRINGS: Final = int(Family.STRING)
_TIMESTAMPS: Final = int(Family.TIMESTAMP)
_PATHS: Final = int(Family.PATH)


class RuleColumns(NamedTuple):
    """Rule `r`. The intervals of rule `r` are `first[r]:first[r + 1]` of `table` and, for numbers, of `low`; for strings
    the lower ends are `text_offset`, `text_length` in `heap`."""

    kind: U8
    family: U8
    partition: I32  # of the name
    seed: U64
    first: I64
    table: I32
    low: F64
    width: F64  # of equal intervals, else 0
    heap: U8
    text_offset: I64
    text_length: I32


@kernel
def family_of(tag: int) -> int:
    if tag == BOOLEAN:
        return _BOOLEANS
    if tag in (INTEGER, FLOAT):
        return _NUMBERS
    if tag == STRING:
        return _STRINGS
    if tag == TIMESTAMP:
        return _TIMESTAMPS
    if tag == PATH:
        return _PATHS
    return -1


@kernel
def value_hash(seed: np.uint64, tag: int, bits: int, length: int, heap: U8) -> Any:
    """The twin of `rules.value_hash`; the number is canonical."""
    if tag == STRING:
        return k_combine(seed, k_spread(k_crc32(heap, bits, length)))
    if tag == FLOAT:
        return k_combine(~seed, np.uint64(bits))
    if tag == PATH:
        i = bits
        end = bits + length
        while i < end:
            component = np.uint64(0)
            while i < end and heap[i] != _DOT:
                component = component * np.uint64(10) + np.uint64(heap[i] - 48)
                i += 1
            i += 1
            seed = k_combine(seed, component)
        return seed
    return k_combine(seed, np.uint64(bits))


@kernel
def at_most(a: U8, a_offset: int, a_length: int, b: U8, b_offset: int, b_length: int) -> bool:
    """Byte order, which is the order of code points."""
    for i in range(min(a_length, b_length)):
        if a[a_offset + i] != b[b_offset + i]:
            return bool(a[a_offset + i] < b[b_offset + i])
    return a_length <= b_length


# The arrays are handed over one by one: a named tuple of ten would be copied at each call.
@kernel
def interval_of_number(low: F64, below: int, above: int, value: float, width: float) -> Any:
    """The last interval that begins at the value or below it, the first if none does; as a position in the table.

    Equal intervals are computed; rounding may miss by one, which the ends then tell: it is the same answer.
    """
    if width > 0:
        steps = (value - low[below]) / width
        if not steps >= 1:
            return below
        if steps >= above - below:
            return above - 1
        place = below + np.int64(steps)
        if low[place] > value:
            return place - 1
        if place + 1 < above and low[place + 1] <= value:
            return place + 1
        return place
    while above - below > 1:
        middle = (below + above) >> 1
        if low[middle] <= value:
            below = middle
        else:
            above = middle
    return below


@kernel
def interval_of_text(
    low: U8, low_offset: I64, low_length: I32, below: int, above: int, heap: U8, offset: int, length: int
) -> Any:
    """The same for texts, in byte order."""
    while above - below > 1:
        middle = (below + above) >> 1
        if at_most(low, low_offset[middle], np.int64(low_length[middle]), heap, offset, length):
            below = middle
        else:
            above = middle
    return below


@kernel
def route_rows(
    rules: RuleColumns,
    rule: I32,
    entries: EntryColumns,
    ids: Any,
    partitions: int,
    silence: int,
    start: I64,
    out: I32,
) -> int:
    """Returns how much of `out` is used. `seen[p]` is the last row that went to `p`, so that nothing is cleared."""
    id_heap, id_at, id_length = ids
    seen = np.full(partitions, -1, np.int64)
    many = np.uint64(partitions)
    used = 0
    start[0] = 0
    for row in range(len(entries.start) - 1):
        row_begin = used
        for entry in range(entries.start[row], entries.start[row + 1]):
            r = rule[entries.name[entry]]
            if r < 0:
                continue
            tag = np.int64(entries.tag[entry])
            bits = entries.bits[entry]
            if rules.kind[r] == NAME:
                partition = np.int64(rules.partition[r])
            else:
                if family_of(tag) != rules.family[r]:
                    continue
                if tag == FLOAT:
                    number = np.int64(bits).view(np.float64)
                    if number != number:
                        continue
                    # equal numbers, equal keys: 3.0 is 3
                    if -TWO_63 <= number < TWO_63 and np.float64(np.int64(number)) == number:
                        tag = np.int64(INTEGER)
                        bits = np.int64(number)
                length = np.int64(entries.length[entry])
                if rules.kind[r] == VALUE:
                    key = value_hash(rules.seed[r], tag, bits, length, entries.heap)
                    partition = np.int64(key % many)
                elif tag == STRING:
                    place = interval_of_text(
                        rules.heap,
                        rules.text_offset,
                        rules.text_length,
                        rules.first[r],
                        rules.first[r + 1],
                        entries.heap,
                        bits,
                        length,
                    )
                    partition = np.int64(rules.table[place])
                else:
                    value = np.int64(bits).view(np.float64) if tag == FLOAT else np.float64(bits)
                    place = interval_of_number(rules.low, rules.first[r], rules.first[r + 1], value, rules.width[r])
                    partition = np.int64(rules.table[place])
            if seen[partition] != row:
                seen[partition] = row
                # insertion keeps the row sorted: it has a few partitions
                at = used
                while at > row_begin and out[at - 1] > partition:
                    out[at] = out[at - 1]
                    at -= 1
                out[at] = partition
                used += 1
        if used == row_begin:
            if entries.start[row] == entries.start[row + 1]:
                out[used] = silence
            else:
                out[used] = np.int64(k_spread(k_crc32(id_heap, id_at[row], np.int64(id_length[row]))) % many)
            used += 1
        start[row + 1] = used
    return used
