"""One record per disjunct of a subscription: everything that decides a match, in 32-bit words.

    word 0        parts (12 bits) | flags (8 bits)
    [1 word]      topic node, if HAS_TOPIC
    [2 words]     starts_at, if HAS_START
    [2 words]     ends_at, if HAS_END
    parts         each a header, attribute (20 bits) | kind (5 bits) | flags (7 bits), and the words its kind needs

Five ranges over 32-bit integers take 64 bytes, five equalities 44. A constraint may need several parts (a range and exclusions); those
after the first say CONTINUES. Parts of one attribute stand together. A record that has been freed holds, in word 1, the next free one.
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOOLEAN, FLOAT, INTEGER, STRING, TIMESTAMP
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.keys import (
    GEOMETRY_KEY,
    NUMBER_KEY,
    STRING_KEY,
    TIMESTAMP_KEY,
    boolean_key,
    equality_hash,
    first_key,
    last_key,
    number_key,
    string_key,
    timestamp_key,
)
from pastforward.matching.index.strings import StringView

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

MAX_ATTRIBUTES: Final = 1 << 20
MAX_PARTS: Final = (1 << 12) - 1

# flags of a record
HAS_TOPIC: Final = 1
SUBTREE_SCOPE: Final = 2
HAS_START: Final = 4
HAS_END: Final = 8
VALID_TIME: Final = 16
SYMMETRIC: Final = 32
INTERSECT: Final = 64
SLOW: Final = 128  # a part needs Python

# kinds of parts, as they are stored
ANY: Final = 0
NULL: Final = 1
EQUAL_32: Final = 2  # an integer of 32 bits
EQUAL_INTEGER: Final = 3
EQUAL_FLOAT: Final = 4
EQUAL_TIMESTAMP: Final = 5
EQUAL_STRING: Final = 6
BOOLEANS: Final = 7  # flags: 1 admits false, 2 admits true
RANGE_32: Final = 8
LOW_32: Final = 9
HIGH_32: Final = 10
NUMBER: Final = 11  # four words, low and high
TIMESTAMPS: Final = 12  # four words, both closed
STRINGS: Final = 13  # two words: numbers of strings
INCLUDED: Final = 14  # two counts; then 64-bit items: integers, timestamps or strings; then floats
EXCLUDED: Final = 15
PREFIX: Final = 16
SUFFIX: Final = 17
SUBSTRING: Final = 18
LIKE: Final = 19
EXPRESSION: Final = 20  # a program of `conditions.automata`, kept as a string
PYTHON: Final = 21  # one word: which constraint; order keys that hold all its values: four words
GEOMETRY: Final = 22  # the numbers of a shape, two words each: two to four

# flags of a part
CONTINUES: Final = 64
HAS_LOW: Final = 1
HAS_HIGH: Final = 2
LOW_OPEN: Final = 4
HIGH_OPEN: Final = 8
LOW_FLOAT: Final = 16
HIGH_FLOAT: Final = 32
NEGATED: Final = 1
IMPLIED: Final = 2  # of LIKE: what another part requires, which leads to it
FOLDED: Final = 8  # of LIKE that is IMPLIED: of a text whose letters A to Z are lower ones
DECIDED: Final = 4  # and nothing need be asked of it, since kernels decide that other part
ADMITS_FALSE: Final = 1
ADMITS_TRUE: Final = 2
# INCLUDED and EXCLUDED keep the family of their items in the flags
OF_NUMBERS: Final = 1
OF_STRINGS: Final = 2
OF_TIMESTAMPS: Final = 3
# of GEOMETRY: what the attribute's shape does to this one, whether it must not, and which this one is in `conditions.geometry`
RELATION: Final = 3
EQUALS: Final = 0
OVERLAPS: Final = 1
CONTAINS: Final = 2
WITHIN: Final = 3
NOT_SO: Final = 4
SHAPE_SHIFT: Final = 3

# What an attribute is, in bits.
OF_PREVIOUS: Final = 1  # it speaks of the previous publication
AXIS: Final = 2  # of another's places (`index.places`): it holds where the test of that one does

NO_WORD: Final = 0xFFFFFFFF
SMALLEST: Final = -(2**63)
LARGEST: Final = 2**63 - 1


class RecordView(NamedTuple):
    """What kernels read: where each slot's record begins, and the words. An offset of 0 is an empty slot."""

    offset: U32
    words: U32


class Parts(NamedTuple):
    """Parts on their way into records: slot `i` has the parts `start[i]:start[i + 1]`, sorted by attribute. NUMBER, TIMESTAMPS and
    STRINGS are written in their shortest form. Of INCLUDED and EXCLUDED `low` is where their items begin in `items` and `high`
    packs the two counts: first | second << 32. Of PYTHON `low` is the constraint and `high` where its two keys begin in `items`; of
    GEOMETRY `low` is where the bits of its doubles do."""

    start: I64
    attribute: I32
    kind: U8
    flags: U8
    low: I64
    high: I64
    items: I64
    topic: I32
    starts_at: I64
    ends_at: I64
    record_flags: U8


_PART_TYPES: Final = Parts(
    np.int64, np.int32, np.uint8, np.uint8, np.int64, np.int64, np.int64, np.int32, np.int64, np.int64, np.uint8
)


def checked_parts(parts: Parts) -> Parts:
    """As kernels read them: at an address nothing tells what is there."""
    return Parts(*(np.ascontiguousarray(array, kind) for array, kind in zip(parts, _PART_TYPES, strict=True)))


@kernel
def read_64(words: U32, at: Int) -> Int:
    return np.int64(np.uint64(words[at]) | (np.uint64(words[at + 1]) << np.uint64(32)))


@inner
def _write_64(words: U32, at: Int, value: Int) -> None:
    words[at] = np.uint32(np.uint64(value) & np.uint64(0xFFFFFFFF))
    words[at + 1] = np.uint32(np.uint64(value) >> np.uint64(32))


@kernel
def read_32(words: U32, at: Int) -> Int:
    """A signed 32-bit number."""
    return np.int64(np.int32(words[at]))


@inner
def shape_words(flags: Int) -> Int:
    """Of a point's two numbers, a circle's three or a box's four."""
    return 4 + 2 * ((flags >> SHAPE_SHIFT) & 3)


@kernel
def payload(words: U32, at: Int) -> Int:
    """How many words follow the header at `at`."""
    kind = (words[at] >> np.uint32(7)) & np.uint32(31)
    if kind <= NULL or kind == BOOLEANS:
        return 0
    if kind == EQUAL_32 or kind == EQUAL_STRING or kind == LOW_32 or kind == HIGH_32:
        return 1
    if kind >= PREFIX and kind <= EXPRESSION:
        return 1
    if kind == NUMBER or kind == TIMESTAMPS:
        return 4
    if kind == INCLUDED or kind == EXCLUDED:
        return 2 + 2 * (np.int64(words[at + 1]) + np.int64(words[at + 2]))
    if kind == GEOMETRY:
        return shape_words(np.int64(words[at]))
    return 5 if kind == PYTHON else 2


@kernel
def parts_begin(words: U32, at: Int) -> Int:
    """Where the first part of the record at `at` is."""
    flags = words[at]
    return (
        at
        + 1
        + np.int64(flags & np.uint32(HAS_TOPIC))
        + np.int64((flags & np.uint32(HAS_START)) >> np.uint32(1))
        + np.int64((flags & np.uint32(HAS_END)) >> np.uint32(2))
    )


@kernel
def part_count(words: U32, at: Int) -> Int:
    return np.int64(words[at] >> np.uint32(8)) & MAX_PARTS


@inner
def record_size(words: U32, at: Int) -> Int:
    end = parts_begin(words, at)
    for _ in range(part_count(words, at)):
        end += 1 + payload(words, end)
    # a free record needs a second word for its list
    return max(end - at, 2)


@inner
def _fits_32(value: Int) -> Bool:
    return -(2**31) <= value < 2**31


@inner
def _write_part(words: U32, at: Int, parts: Parts, p: Int) -> Int:
    """Returns the number of words."""
    kind = np.int64(parts.kind[p])
    flags = np.int64(parts.flags[p])
    low = parts.low[p]
    high = parts.high[p]
    begin = at
    at += 1
    if kind == NUMBER:
        two = flags & (HAS_LOW | HAS_HIGH)
        whole = flags & (LOW_FLOAT | HIGH_FLOAT) == 0
        opens = flags & (LOW_OPEN | HIGH_OPEN)
        if two == HAS_LOW | HAS_HIGH and low == high and opens == 0 and (flags & LOW_FLOAT) * 2 == flags & HIGH_FLOAT:
            if not whole:
                kind = EQUAL_FLOAT
                _write_64(words, at, low)
                at += 2
            elif _fits_32(low):
                kind = EQUAL_32
                words[at] = np.uint32(low & 0xFFFFFFFF)
                at += 1
            else:
                kind = EQUAL_INTEGER
                _write_64(words, at, low)
                at += 2
        elif two == HAS_LOW | HAS_HIGH and whole and _fits_32(low) and _fits_32(high):
            kind = RANGE_32
            words[at] = np.uint32(low & 0xFFFFFFFF)
            words[at + 1] = np.uint32(high & 0xFFFFFFFF)
            at += 2
        elif two == HAS_LOW and whole and _fits_32(low):
            kind = LOW_32
            words[at] = np.uint32(low & 0xFFFFFFFF)
            at += 1
        elif two == HAS_HIGH and whole and _fits_32(high):
            kind = HIGH_32
            words[at] = np.uint32(high & 0xFFFFFFFF)
            at += 1
        else:
            _write_64(words, at, low)
            _write_64(words, at + 2, high)
            at += 4
    elif kind == TIMESTAMPS:
        if low == high:
            kind = EQUAL_TIMESTAMP
            _write_64(words, at, low)
            at += 2
        else:
            _write_64(words, at, low)
            _write_64(words, at + 2, high)
            at += 4
    elif kind == STRINGS:
        words[at] = np.uint32(low) if flags & HAS_LOW else np.uint32(NO_WORD)
        words[at + 1] = np.uint32(high) if flags & HAS_HIGH else np.uint32(NO_WORD)
        at += 2
    elif kind == EQUAL_STRING or (kind >= PREFIX and kind <= EXPRESSION):
        words[at] = np.uint32(low)
        at += 1
    elif kind == INCLUDED or kind == EXCLUDED:
        first = high & 0xFFFFFFFF
        second = high >> 32
        words[at] = np.uint32(first)
        words[at + 1] = np.uint32(second)
        at += 2
        for i in range(first + second):
            _write_64(words, at, parts.items[low + i])
            at += 2
    elif kind == PYTHON:
        words[at] = np.uint32(low)
        _write_64(words, at + 1, parts.items[high])
        _write_64(words, at + 3, parts.items[high + 1])
        at += 5
    elif kind == GEOMETRY:
        for i in range(shape_words(flags) >> 1):
            _write_64(words, at, parts.items[low + i])
            at += 2
    words[begin] = np.uint32((np.int64(parts.attribute[p]) << 12) | (kind << 7) | flags)
    return at - begin


@inner
def worst_size(parts: Parts, i: Int) -> Int:
    """Words that the record of slot `i` of `parts` takes at most."""
    size = 6
    for p in range(parts.start[i], parts.start[i + 1]):
        kind = parts.kind[p]
        if kind == INCLUDED or kind == EXCLUDED:
            size += 3 + 2 * ((parts.high[p] & 0xFFFFFFFF) + (parts.high[p] >> 32))
        else:
            size += 9 if kind == GEOMETRY else 6
    return size


@inner
def write_record(words: U32, at: Int, parts: Parts, i: Int) -> Int:
    """Writes the record of slot `i` of `parts`; returns its size in words."""
    flags = np.int64(parts.record_flags[i])
    end = at + 1
    if flags & HAS_TOPIC:
        words[end] = np.uint32(parts.topic[i])
        end += 1
    if flags & HAS_START:
        _write_64(words, end, parts.starts_at[i])
        end += 2
    if flags & HAS_END:
        _write_64(words, end, parts.ends_at[i])
        end += 2
    previous = -1
    count = 0
    for p in range(parts.start[i], parts.start[i + 1]):
        size = _write_part(words, end, parts, p)
        if parts.attribute[p] == previous:
            words[end] |= np.uint32(CONTINUES)
        previous = parts.attribute[p]
        if parts.kind[p] == PYTHON:
            flags |= SLOW
        end += size
        count += 1
    words[at] = np.uint32((count << 8) | flags)
    return max(end - at, 2)


@kernel
def part_hull(words: U32, at: Int, strings: StringView) -> tuple[Int, Int, Int]:
    """Order keys that hold every value the part at `at` admits, and the hash of its value if it is an equality, else 0."""
    header = words[at]
    kind = (header >> np.uint32(7)) & np.uint32(31)
    flags = np.int64(header) & 63
    none = np.uint64(0)
    if kind == EQUAL_32:
        value = read_32(words, at + 1)
        key = number_key(INTEGER, value)
        return key, key, equality_hash(INTEGER, value)
    if kind == EQUAL_INTEGER or kind == EQUAL_FLOAT:
        value, tag = read_64(words, at + 1), INTEGER if kind == EQUAL_INTEGER else FLOAT
        key = number_key(tag, value)
        return key, key, equality_hash(tag, value)
    if kind == EQUAL_TIMESTAMP:
        value = read_64(words, at + 1)
        key = timestamp_key(value)
        return key, key, equality_hash(TIMESTAMP, value)
    if kind == EQUAL_STRING:
        number = np.int64(words[at + 1])
        key = string_key(strings.heap, strings.offset[number], strings.length[number])
        return key, key, equality_hash(STRING, number)
    if kind == BOOLEANS:
        low = boolean_key(0 if flags & ADMITS_FALSE else 1)
        high = boolean_key(1 if flags & ADMITS_TRUE else 0)
        if low == high:
            return low, high, equality_hash(BOOLEAN, np.int64(low & np.uint64(1)))
        return low, high, none
    if kind == RANGE_32:
        return number_key(INTEGER, read_32(words, at + 1)), number_key(INTEGER, read_32(words, at + 2)), none
    if kind == LOW_32:
        return number_key(INTEGER, read_32(words, at + 1)), last_key(NUMBER_KEY), none
    if kind == HIGH_32:
        return first_key(NUMBER_KEY), number_key(INTEGER, read_32(words, at + 1)), none
    if kind == NUMBER:
        low = first_key(NUMBER_KEY)
        high = last_key(NUMBER_KEY)
        if flags & HAS_LOW:
            low = number_key(FLOAT if flags & LOW_FLOAT else INTEGER, read_64(words, at + 1))
        if flags & HAS_HIGH:
            high = number_key(FLOAT if flags & HIGH_FLOAT else INTEGER, read_64(words, at + 3))
        return low, high, none
    if kind == TIMESTAMPS:
        return timestamp_key(read_64(words, at + 1)), timestamp_key(read_64(words, at + 3)), none
    if kind == STRINGS:
        low = first_key(STRING_KEY)
        high = last_key(STRING_KEY)
        if words[at + 1] != np.uint32(NO_WORD):
            number = np.int64(words[at + 1])
            low = string_key(strings.heap, strings.offset[number], strings.length[number])
        if words[at + 2] != np.uint32(NO_WORD):
            number = np.int64(words[at + 2])
            high = string_key(strings.heap, strings.offset[number], strings.length[number])
        return low, high, none
    if kind == INCLUDED:
        return _included_hull(words, at, strings)
    if kind == EXCLUDED:
        if flags == OF_NUMBERS:
            return first_key(NUMBER_KEY), last_key(NUMBER_KEY), none
        if flags == OF_STRINGS:
            return first_key(STRING_KEY), last_key(STRING_KEY), none
        return first_key(TIMESTAMP_KEY), last_key(TIMESTAMP_KEY), none
    if kind == PREFIX and flags & NEGATED == 0:
        number = np.int64(words[at + 1])
        low = string_key(strings.heap, strings.offset[number], strings.length[number])
        known = min(np.int64(strings.length[number]) * 8, 61)
        rest = (np.uint64(1) << np.uint64(61 - known)) - np.uint64(1)
        return low, low | rest, none
    if kind >= PREFIX and kind <= EXPRESSION:
        return first_key(STRING_KEY), last_key(STRING_KEY), none
    if kind == PYTHON:
        return np.uint64(read_64(words, at + 2)), np.uint64(read_64(words, at + 4)), none
    if kind == GEOMETRY:
        return first_key(GEOMETRY_KEY), last_key(GEOMETRY_KEY), none
    return np.uint64(0), ~np.uint64(0), none


@inner
def list_key(words: U32, at: Int, i: Int, strings: StringView) -> Int:
    """The order key of the i-th value of the list of the part at `at`."""
    flags = np.int64(words[at]) & 63
    item = read_64(words, at + 3 + 2 * i)
    if flags == OF_NUMBERS:
        return number_key(INTEGER if i < np.int64(words[at + 1]) else FLOAT, item)
    if flags == OF_TIMESTAMPS:
        return timestamp_key(item)
    return string_key(strings.heap, strings.offset[item], strings.length[item])


@inner
def _included_hull(words: U32, at: Int, strings: StringView) -> tuple[Int, Int, Int]:
    low = ~np.uint64(0)
    high = np.uint64(0)
    for i in range(np.int64(words[at + 1]) + np.int64(words[at + 2])):
        key = list_key(words, at, i, strings)
        low = min(low, key)
        high = max(high, key)
    return low, high, np.uint64(0)


# How an attribute is constrained, as algorithms see it.
OPEN: Final = 0  # IS NULL: satisfied by absence
EQUAL: Final = 1
BOUNDED: Final = 2  # keys between low and high; a superset of what satisfies it
PRESENT: Final = 3  # any key


@kernel
def constraints(
    records: RecordView, strings: StringView, slot: Int, attribute: I32, kind: U8, low: U64, high: U64, value: U64
) -> Int:
    """What the record of a slot asks, one entry per attribute, sorted by attribute: how, order keys, and for EQUAL the value's hash.
    A superset: what satisfies the record satisfies these. Returns the number of attributes."""
    words = records.words
    at = np.int64(records.offset[slot])
    count, at = part_count(words, at), parts_begin(words, at)
    n = 0
    for _ in range(count):
        header = words[at]
        part_kind = (header >> np.uint32(7)) & np.uint32(31)
        part_low, part_high, part_value = part_hull(words, at, strings)
        if header & np.uint32(CONTINUES):
            low[n - 1] = max(low[n - 1], part_low)
            high[n - 1] = min(high[n - 1], part_high)
            if part_value:
                value[n - 1] = part_value
                kind[n - 1] = EQUAL
            elif kind[n - 1] == PRESENT and part_kind != GEOMETRY:
                kind[n - 1] = BOUNDED
        else:
            attribute[n] = np.int32(header >> np.uint32(12))
            low[n] = part_low
            high[n] = part_high
            value[n] = part_value
            if part_kind == NULL:
                kind[n] = OPEN
            elif part_value:
                kind[n] = EQUAL
            elif part_kind == ANY or part_kind == GEOMETRY:
                # where a shape lies its axes tell
                kind[n] = PRESENT
            else:
                kind[n] = BOUNDED
            n += 1
        at += 1 + payload(words, at)
    return n
