"""Does this publication satisfy this record? Exactly, for a list of candidate pairs.

What kernels cannot decide is left to the definition in Python, as UNSURE: a regular expression that has no automaton, and published
conditions on places, paths and patterns.
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOOLEAN, FLOAT, INTEGER, STRING, TIMESTAMP
from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.answers import NO, UNSURE, YES
from pastforward.matching.index.automaton import expression_found
from pastforward.matching.index.batch import NO_TIME, SAID_ABSENT, Batch
from pastforward.matching.index.keys import OTHER, PUBLISHED, compare_numbers
from pastforward.matching.index.like import like_holds
from pastforward.matching.index.places import is_shape, shape_holds
from pastforward.matching.index.published import (
    WIDE,
    is_implied,
    is_listed,
    is_range,
    listed,
    part_meets,
    together,
)
from pastforward.matching.index.records import (
    ADMITS_FALSE,
    ADMITS_TRUE,
    ANY,
    AXIS,
    BOOLEANS,
    CONTINUES,
    DECIDED,
    EQUAL_32,
    EQUAL_FLOAT,
    EQUAL_INTEGER,
    EQUAL_STRING,
    EQUAL_TIMESTAMP,
    EXCLUDED,
    EXPRESSION,
    FOLDED,
    GEOMETRY,
    HAS_END,
    HAS_HIGH,
    HAS_LOW,
    HAS_START,
    HAS_TOPIC,
    HIGH_FLOAT,
    HIGH_OPEN,
    INCLUDED,
    INTERSECT,
    LIKE,
    LOW_32,
    LOW_FLOAT,
    LOW_OPEN,
    NEGATED,
    NO_WORD,
    NULL,
    NUMBER,
    OF_NUMBERS,
    OF_PREVIOUS,
    OF_STRINGS,
    PREFIX,
    PYTHON,
    RANGE_32,
    STRINGS,
    SUBTREE_SCOPE,
    SUFFIX,
    SYMMETRIC,
    TIMESTAMPS,
    VALID_TIME,
    RecordView,
    part_count,
    part_hull,
    parts_begin,
    payload,
    read_32,
    read_64,
)
from pastforward.matching.index.strings import StringView, compare_bytes, equal_bytes
from pastforward.matching.index.topics import TopicView, topic_meets

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]

_KIND_AND_OPEN: Final = 31 << 7 | LOW_OPEN | HIGH_OPEN  # of a part's header


@inner
def _number_within(words: U32, at: Int, kind: Int, flags: Int, tag: Int, bits: Int) -> Bool:
    if kind == EQUAL_32:
        return tag == INTEGER and bits == read_32(words, at + 1)
    if kind == EQUAL_INTEGER:
        return tag == INTEGER and bits == read_64(words, at + 1)
    if kind == EQUAL_FLOAT:
        return tag == FLOAT and bits == read_64(words, at + 1)
    if kind == RANGE_32 and tag == INTEGER and flags & (LOW_OPEN | HIGH_OPEN) == 0:
        return read_32(words, at + 1) <= bits <= read_32(words, at + 2)
    low = np.int64(0)
    high = np.int64(0)
    if kind == NUMBER:
        low = read_64(words, at + 1)
        high = read_64(words, at + 3)
    elif kind == RANGE_32:
        flags |= HAS_LOW | HAS_HIGH
        low = read_32(words, at + 1)
        high = read_32(words, at + 2)
    elif kind == LOW_32:
        flags |= HAS_LOW
        low = read_32(words, at + 1)
    else:
        flags |= HAS_HIGH
        high = read_32(words, at + 1)
    if flags & HAS_LOW:
        order = compare_numbers(tag, bits, FLOAT if flags & LOW_FLOAT else INTEGER, low)
        if order < 0 or (order == 0 and flags & LOW_OPEN):
            return False
    if flags & HAS_HIGH:
        order = compare_numbers(tag, bits, FLOAT if flags & HIGH_FLOAT else INTEGER, high)
        if order > 0 or (order == 0 and flags & HIGH_OPEN):
            return False
    return True


@inner
def _among(words: U32, at: Int, bits: Int, second: Bool) -> Bool:
    """Binary search in one of the two sorted lists of INCLUDED and EXCLUDED."""
    begin = at + 3
    count = np.int64(words[at + 1])
    if second:
        begin += 2 * count
        count = np.int64(words[at + 2])
    low = np.int64(0)
    high = count
    while low < high:
        middle = (low + high) >> 1
        if read_64(words, begin + 2 * middle) < bits:
            low = middle + 1
        else:
            high = middle
    return low < count and read_64(words, begin + 2 * low) == bits


@inner
def _string_within(words: U32, at: Int, flags: Int, strings: StringView, heap: U8, offset: Int, length: Int) -> Bool:
    if words[at + 1] != np.uint32(NO_WORD):
        low = np.int64(words[at + 1])
        order = compare_bytes(heap, offset, length, strings.heap, strings.offset[low], strings.length[low])
        if order < 0 or (order == 0 and flags & LOW_OPEN):
            return False
    if words[at + 2] != np.uint32(NO_WORD):
        high = np.int64(words[at + 2])
        order = compare_bytes(heap, offset, length, strings.heap, strings.offset[high], strings.length[high])
        if order > 0 or (order == 0 and flags & HIGH_OPEN):
            return False
    return True


@inner
def _pattern_found(kind: Int, strings: StringView, pattern: Int, heap: U8, offset: Int, length: Int) -> Bool:
    size = strings.length[pattern]
    begin = strings.offset[pattern]
    if size > length:
        return False
    if kind == PREFIX:
        return equal_bytes(heap, offset, strings.heap, begin, size)
    if kind == SUFFIX:
        return equal_bytes(heap, offset + length - size, strings.heap, begin, size)
    if not size:
        return True
    first = strings.heap[begin]
    for shift in range(length - size + 1):
        if heap[offset + shift] != first:
            continue
        if equal_bytes(heap, offset + shift, strings.heap, begin, size):
            return True
    return False


@inner
def part_holds(words: U32, at: Int, strings: StringView, batch: Batch, entry: Int) -> Int:
    """NO, YES or UNSURE, for a value that is present."""
    header = words[at]
    kind = np.int64((header >> np.uint32(7)) & np.uint32(31))
    flags = np.int64(header) & 63
    tag = np.int64(batch.tag[entry])
    bits = batch.bits[entry]
    if kind == ANY:
        return YES
    if kind == NULL:
        return NO
    if kind <= EQUAL_FLOAT or (kind >= RANGE_32 and kind <= NUMBER):
        if tag != INTEGER and tag != FLOAT:
            return NO
        return YES if _number_within(words, at, kind, flags, tag, bits) else NO
    if kind == EQUAL_STRING:
        return YES if tag == STRING and bits == np.int64(words[at + 1]) else NO
    if kind == EQUAL_TIMESTAMP:
        return YES if tag == TIMESTAMP and bits == read_64(words, at + 1) else NO
    if kind == BOOLEANS:
        admitted = flags & (ADMITS_TRUE if bits else ADMITS_FALSE)
        return YES if tag == BOOLEAN and admitted else NO
    if kind == TIMESTAMPS:
        return YES if tag == TIMESTAMP and read_64(words, at + 1) <= bits <= read_64(words, at + 3) else NO
    if kind == INCLUDED or kind == EXCLUDED:
        if flags == OF_NUMBERS:
            if tag != INTEGER and tag != FLOAT:
                return NO
        elif flags == OF_STRINGS:
            if tag != STRING:
                return NO
        elif tag != TIMESTAMP:
            return NO
        return YES if _among(words, at, bits, tag == FLOAT) == (kind == INCLUDED) else NO
    if kind == PYTHON:
        if batch.high[entry] < np.uint64(read_64(words, at + 2)) or batch.low[entry] > np.uint64(
            read_64(words, at + 4)
        ):
            return NO
        return UNSURE
    if kind == GEOMETRY:
        return YES if is_shape(tag) and shape_holds(words, at, batch.heap, batch.offset[entry], tag) else NO
    if tag != STRING:
        return NO
    offset = batch.offset[entry]
    length = np.int64(batch.length[entry])
    if kind == STRINGS:
        return YES if _string_within(words, at, flags, strings, batch.heap, offset, length) else NO
    if kind == LIKE:
        if flags & (DECIDED | FOLDED):
            return YES
        pattern = np.int64(words[at + 1])
        found = like_holds(
            strings.heap, strings.offset[pattern], np.int64(strings.length[pattern]), batch.heap, offset, length
        )
        return YES if found != (flags & NEGATED != 0) else NO
    if kind == EXPRESSION:
        program = strings.offset[np.int64(words[at + 1])]
        found = expression_found(strings.heap, program, batch.heap, offset, length)
        return YES if found != (flags & NEGATED != 0) else NO
    found = _pattern_found(kind, strings, np.int64(words[at + 1]), batch.heap, offset, length)
    return YES if found != (flags & NEGATED != 0) else NO


@inner
def _in_place_and_time(words: U32, at: Int, topics: TopicView, batch: Batch, row: Int) -> Bool:
    flags = words[at]
    at += 1
    if flags & np.uint32(HAS_TOPIC):
        scope = 1 if flags & np.uint32(SUBTREE_SCOPE) else 0
        if not topic_meets(topics, np.int64(words[at]), scope, np.int64(batch.topic[row]), batch.exact[row] != 0):
            return False
        at += 1
    published = batch.published_at[row]
    if published == NO_TIME:
        return True
    starts = np.int64(-(2**63))
    ends = np.int64(2**63 - 1)
    if flags & np.uint32(HAS_START):
        starts = read_64(words, at)
        at += 2
    if flags & np.uint32(HAS_END):
        ends = read_64(words, at)
    if flags & np.uint32(VALID_TIME):
        expires = batch.expires_at[row]
        return max(starts, published) < min(ends, expires)
    return starts <= published and (published < ends or not flags & np.uint32(HAS_END))


class Known(NamedTuple):
    """What the kernels know of all subscriptions."""

    records: RecordView
    strings: StringView
    topics: TopicView
    sorts: U8  # per attribute: what it is, in bits
    axes: I32  # per attribute: those of its places, 0 for none


@inner
def _list_meets(words: U32, at: Int, left: Int, strings: StringView, batch: Batch, d: Int) -> Int:
    """Whether one value of a published list satisfies all parts of an attribute, of which the first is at `at`."""
    first, last = listed(batch, d)
    result = NO
    for value in range(first, last):
        answer = YES
        part = at
        for k in range(left):
            if k and not words[part] & np.uint32(CONTINUES):
                break
            one = part_holds(words, part, strings, batch, value)
            if one == NO:
                answer = NO
                break
            if one == UNSURE:
                answer = UNSURE
            part += 1 + payload(words, part)
        if answer == YES:
            return YES
        if answer == UNSURE:
            result = UNSURE
    return result


@inner
def _attribute_meets(words: U32, at: Int, left: Int, strings: StringView, batch: Batch, entry: Int) -> Int:
    """Whether something satisfies what is published of an attribute and the record's parts on it: of at most `left` parts from `at` on."""
    d = batch.offset[entry]
    if is_listed(batch.heap, d):
        return _list_meets(words, at, left, strings, batch, d)
    least = WIDE
    parts = 0
    ranges = 0
    for k in range(left):
        if k and not words[at] & np.uint32(CONTINUES):
            break
        if not is_implied(words, at):
            answer = part_meets(words, at, strings, batch.heap, d)
            if answer == UNSURE:
                low, high, _value = part_hull(words, at, strings)
                if batch.high[entry] < low or batch.low[entry] > high:
                    return NO
                least = UNSURE
            elif answer == NO:
                return NO
            elif least != UNSURE:
                least = min(least, answer)
            parts += 1
            ranges += is_range(words, at)
        at += 1 + payload(words, at)
    return together(batch.heap, d, parts, ranges, least)


@inner
def record_holds(known: Known, batch: Batch, row: Int, slot: Int, where: I32) -> Int:
    """`where[attribute]` is the row's entry for it, -1 if there is none."""
    strings = known.strings
    sorts = known.sorts
    words = known.records.words
    at = np.int64(known.records.offset[slot])
    flags = words[at]
    count = part_count(words, at)
    if flags & np.uint32(SYMMETRIC) and count < batch.carried[row]:
        return NO
    if flags & np.uint32(HAS_TOPIC | HAS_START | HAS_END | VALID_TIME) and not _in_place_and_time(
        words, at, known.topics, batch, row
    ):
        return NO
    relaxed = flags & np.uint32(SYMMETRIC | INTERSECT) != 0
    vague = batch.vague[row] != 0
    plain = not vague and not relaxed
    at = parts_begin(words, at)
    result = YES
    covered = 0
    for i in range(count):
        header = words[at]
        entry = np.int64(where[header >> np.uint32(12)])
        if plain and entry >= 0 and batch.tag[entry] == INTEGER:
            # what most records are made of, without a call
            kind = header & np.uint32(_KIND_AND_OPEN)
            bits = batch.bits[entry]
            if kind == np.uint32(RANGE_32 << 7):
                if bits < read_32(words, at + 1) or bits > read_32(words, at + 2):
                    return NO
                at += 3
                continue
            if kind == np.uint32(EQUAL_32 << 7):
                if bits != read_32(words, at + 1):
                    return NO
                at += 2
                continue
        if entry < 0:
            must = not relaxed or sorts[header >> np.uint32(12)] & OF_PREVIOUS != 0
            if must and (header >> np.uint32(7)) & np.uint32(31) != np.uint32(NULL):
                return NO
        else:
            sort = sorts[header >> np.uint32(12)]
            if not header & np.uint32(CONTINUES) and not sort:
                # that an attribute is absent needs nobody to speak of it, so it is not counted as carried either
                covered += batch.tag[entry] != PUBLISHED or batch.bits[entry] != SAID_ABSENT
            if batch.tag[entry] == PUBLISHED:
                if not header & np.uint32(CONTINUES):
                    answer = _attribute_meets(words, at, count - i, strings, batch, entry)
                    if answer == NO:
                        return NO
                    if answer == UNSURE:
                        result = UNSURE
            elif sort & AXIS and batch.tag[entry] == OTHER:
                low, high, _value = part_hull(words, at, strings)
                if batch.high[entry] < low or batch.low[entry] > high:
                    return NO
            else:
                answer = part_holds(words, at, strings, batch, entry)
                if answer == NO:
                    return NO
                if answer == UNSURE:
                    result = UNSURE
        at += 1 + payload(words, at)
    if flags & np.uint32(SYMMETRIC) and covered < batch.carried[row]:
        return NO
    return result


@inner
def proven_slot(slot: Int) -> Int:
    """How a candidate is written that needs no verification."""
    return -slot - 1


@inner
def verify(known: Known, batch: Batch, rows: I32, slots: I32, where: I32, out: U8) -> None:
    """Candidates sorted by row; of those that are proven the slot is put right. `where` has a cell per attribute, all -1, and is left
    so."""
    records = known.records
    n = len(rows)
    i = 0
    ahead = 8  # records asked for early: about the number of cache misses that a core keeps in flight
    while i < n:
        row = np.int64(rows[i])
        for e in range(batch.start[row], batch.start[row + 1]):
            where[batch.attribute[e]] = e
        while i < n and rows[i] == row:
            if i + 2 * ahead < n:
                prefetch(records.offset, np.int64(slots[i + 2 * ahead]))
            if i + ahead < n:
                # a record of five ranges has the length of a line, and lies across two
                at = np.int64(records.offset[max(slots[i + ahead], 0)])
                prefetch(records.words, at)
                prefetch(records.words, at + 15)
            if slots[i] < 0:
                slots[i] = -slots[i] - 1
                out[i] = YES
            else:
                out[i] = record_holds(known, batch, row, np.int64(slots[i]), where)
            i += 1
        for e in range(batch.start[row], batch.start[row + 1]):
            where[batch.attribute[e]] = -1


@inner
def sort_by_row(rows: I32, slots: I32, total_rows: Int) -> tuple[I32, I32]:
    """A stable counting sort."""
    count = len(rows)
    place = np.zeros(total_rows + 1, np.int64)
    ordered = True
    for i in range(count):
        place[rows[i] + 1] += 1
        if i and rows[i] < rows[i - 1]:
            ordered = False
    if ordered:
        return rows, slots
    for r in range(total_rows):
        place[r + 1] += place[r]
    sorted_rows = np.empty(count, np.int32)
    sorted_slots = np.empty(count, np.int32)
    for i in range(count):
        to = place[rows[i]]
        place[rows[i]] = to + 1
        sorted_rows[to] = rows[i]
        sorted_slots[to] = slots[i]
    return sorted_rows, sorted_slots
