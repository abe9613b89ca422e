"""What published conditions say, in the kernels: whether something satisfies both sides of an attribute.

Replaces `conditions.merge.meet` for each candidate pair, by way of Python: 19 us. With this a match costs 0.07 in all.
Measured by `pastforward bench matching --only published`.

An entry of the tag PUBLISHED has its constraint in the batch's heap:

    1 byte     family
    1 byte     flags, as of a part of numbers: which bounds there are, whether they are open, and floats
    1 byte     what more there is: nothing, numbers that are excluded, a list of values instead of bounds, anything else
    5 bytes    spare
    8 + 8      the bounds of numbers and timestamps; of strings their lengths, and their bytes follow; of a list the first and the number
               of its values, which are entries behind those of the last row

Of types that have an order the answer is exact. What only the definition decides (patterns on both sides, places, paths) is UNSURE.
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import FLOAT, INTEGER
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.matching.conditions.normal_form import Constraint, Family
from pastforward.matching.index.answers import NO, UNSURE, YES
from pastforward.matching.index.batch import Batch, put_value
from pastforward.matching.index.keys import (
    NUMBER_KEY,
    PUBLISHED,
    STRING_KEY,
    TIMESTAMP_KEY,
    compare_numbers,
    first_key,
    last_key,
    number_key,
    string_key,
    timestamp_key,
)
from pastforward.matching.index.parts import float_bits
from pastforward.matching.index.records import (
    ANY,
    EQUAL_32,
    EQUAL_FLOAT,
    EQUAL_INTEGER,
    EQUAL_STRING,
    EQUAL_TIMESTAMP,
    EXCLUDED,
    EXPRESSION,
    GEOMETRY,
    HAS_HIGH,
    HAS_LOW,
    HIGH_32,
    HIGH_FLOAT,
    HIGH_OPEN,
    IMPLIED,
    INCLUDED,
    LIKE,
    LOW_32,
    LOW_FLOAT,
    LOW_OPEN,
    NEGATED,
    NO_WORD,
    NULL,
    NUMBER,
    OF_NUMBERS,
    OF_STRINGS,
    OF_TIMESTAMPS,
    PREFIX,
    PYTHON,
    RANGE_32,
    STRINGS,
    SUFFIX,
    TIMESTAMPS,
    read_32,
    read_64,
)
from pastforward.matching.index.strings import StringView, compare_bytes

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]

WIDE: Final = 3  # yes, and more numbers than any exclusions take away

_PLAIN: Final = 0
_NUMBERS_EXCLUDED: Final = 1
_LISTED: Final = 2
_MORE: Final = 3

_OF_NULL: Final = int(Family.NULL)
_OF_ANY: Final = int(Family.ANY)
_OF_NUMBER: Final = int(Family.NUMBER)
_OF_STRING: Final = int(Family.STRING)
_OF_TIMESTAMP: Final = int(Family.TIMESTAMP)
_HEAD: Final = struct.Struct("<BBB5xqq")
_NO_AXES: Final = np.zeros(0, np.int32)
_LARGEST_DOUBLE: Final = float_bits(float("inf"))
_LEAST_DOUBLE: Final = float_bits(float("-inf"))


def described(constraint: Constraint, heap: bytearray, values: int) -> int:
    """Writes a constraint; `values`: how many values of lists were written before. Returns where it begins."""
    at = len(heap)
    family, low, low_closed, high, high_closed, included, excluded, patterns, tests = constraint
    if included is not None:
        heap += _HEAD.pack(family, 0, _LISTED, values, len(included))
        return at
    more = _MORE if excluded or patterns or tests else _PLAIN
    if more and family is Family.NUMBER:
        more = _NUMBERS_EXCLUDED
    flags = 0
    first, last = 0, 0
    texts = b""
    if low is not None:
        flags |= HAS_LOW | (0 if low_closed else LOW_OPEN)
    if high is not None:
        flags |= HAS_HIGH | (0 if high_closed else HIGH_OPEN)
    if family is Family.NUMBER:
        first, low_float = _bound(low)
        last, high_float = _bound(high)
        flags |= (LOW_FLOAT if low_float else 0) | (HIGH_FLOAT if high_float else 0)
    elif family is Family.TIMESTAMP:
        first, last = (0 if low is None else int(low)), (0 if high is None else int(high))
    elif family is Family.STRING:
        below, above = ("" if low is None else str(low)).encode(), ("" if high is None else str(high)).encode()
        first, last, texts = len(below), len(above), below + above
    heap += _HEAD.pack(family, flags, more, first, last) + texts
    return at


def _bound(value: Any) -> tuple[int, bool]:
    if value is None:
        return 0, False
    return (value, False) if isinstance(value, int) else (float_bits(value), True)


def is_ordered(constraint: Constraint) -> bool:
    """Whether `finish` finds its order keys."""
    if constraint.included is not None:
        return True
    return constraint.family in (Family.NULL, Family.ANY, Family.NUMBER, Family.STRING, Family.TIMESTAMP)


@inner
def _word(heap: U8, at: Int) -> Int:
    word = np.uint64(0)
    for i in range(8):
        word |= np.uint64(heap[at + i]) << np.uint64(8 * i)
    return np.int64(word)


@inner
def _hull(out: Batch, e: Int) -> tuple[Int, Int]:
    """Order keys of what a published constraint admits."""
    heap = out.heap
    at = out.offset[e]
    family = np.int64(heap[at])
    flags = np.int64(heap[at + 1])
    first = _word(heap, at + 8)
    last = _word(heap, at + 16)
    low = np.uint64(0)
    high = ~np.uint64(0)
    if heap[at + 2] == _LISTED:
        base = out.start[len(out.carried)] + first
        low = ~np.uint64(0)
        high = np.uint64(0)
        for v in range(base, base + last):
            low = min(low, out.low[v])
            high = max(high, out.high[v])
    elif family == _OF_NUMBER:
        low = first_key(NUMBER_KEY)
        high = last_key(NUMBER_KEY)
        if flags & HAS_LOW:
            low = number_key(FLOAT if flags & LOW_FLOAT else INTEGER, first)
        if flags & HAS_HIGH:
            high = number_key(FLOAT if flags & HIGH_FLOAT else INTEGER, last)
    elif family == _OF_TIMESTAMP:
        low = timestamp_key(first) if flags & HAS_LOW else first_key(TIMESTAMP_KEY)
        high = timestamp_key(last) if flags & HAS_HIGH else last_key(TIMESTAMP_KEY)
    elif family == _OF_STRING:
        low = string_key(heap, at + 24, first) if flags & HAS_LOW else first_key(STRING_KEY)
        high = string_key(heap, at + 24 + first, last) if flags & HAS_HIGH else last_key(STRING_KEY)
    return low, high


@kernel
def finish(out: Batch, strings: StringView, axes: I32, ordered: U8) -> None:
    """Values of lists become canonical, and published constraints that are `ordered` get their order keys."""
    rows = len(out.carried)
    end = out.start[rows]
    for v in range(end, len(out.attribute)):
        value = np.int64(out.tag[v]), out.bits[v], out.offset[v], np.int64(out.length[v])
        put_value(out, v, np.int64(out.attribute[v]), value, out.heap, strings, axes)
    for e in range(end):
        if out.tag[e] == PUBLISHED and ordered[e]:
            low, high = _hull(out, e)
            out.low[e] = low
            out.high[e] = high


@inner
def _numbers_meet(words: U32, at: Int, kind: Int, heap: U8, d: Int) -> Int:
    """A range of a record's part with a published one."""
    flags = np.int64(words[at]) & 63
    low = np.int64(0)
    high = np.int64(0)
    if kind == NUMBER:
        low = read_64(words, at + 1)
        high = read_64(words, at + 3)
        if flags & LOW_FLOAT and flags & HAS_LOW and (low == _LARGEST_DOUBLE or low == _LEAST_DOUBLE):
            return UNSURE
        if flags & HIGH_FLOAT and flags & HAS_HIGH and (high == _LARGEST_DOUBLE or high == _LEAST_DOUBLE):
            return UNSURE
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
    answer = WIDE
    if flags & HAS_LOW and flags & HAS_HIGH:
        answer = _reaches(flags, low, flags, high)
    said = np.int64(heap[d + 1])
    if answer != NO and flags & HAS_LOW and said & HAS_HIGH:
        answer = min(answer, _reaches(flags, low, said, _word(heap, d + 16)))
    if answer != NO and said & HAS_LOW and flags & HAS_HIGH:
        answer = min(answer, _reaches(said, _word(heap, d + 8), flags, high))
    return answer


@inner
def _reaches(low_flags: Int, low: Int, high_flags: Int, high: Int) -> Int:
    """Whether something lies between a lower bound and a higher one: NO, YES (the bound alone) or WIDE."""
    low_tag = FLOAT if low_flags & LOW_FLOAT else INTEGER
    high_tag = FLOAT if high_flags & HIGH_FLOAT else INTEGER
    order = compare_numbers(low_tag, low, high_tag, high)
    if order < 0:
        return WIDE
    if order > 0 or low_flags & LOW_OPEN or high_flags & HIGH_OPEN:
        return NO
    return YES


@inner
def _number_said(heap: U8, d: Int, tag: Int, bits: Int) -> Bool:
    """Whether a number lies in a published range."""
    flags = np.int64(heap[d + 1])
    if flags & HAS_LOW:
        order = compare_numbers(tag, bits, FLOAT if flags & LOW_FLOAT else INTEGER, _word(heap, d + 8))
        if order < 0 or (order == 0 and flags & LOW_OPEN):
            return False
    if flags & HAS_HIGH:
        order = compare_numbers(tag, bits, FLOAT if flags & HIGH_FLOAT else INTEGER, _word(heap, d + 16))
        if order > 0 or (order == 0 and flags & HIGH_OPEN):
            return False
    return True


@inner
def _with_numbers(words: U32, at: Int, kind: Int, heap: U8, d: Int) -> Int:
    if kind == EQUAL_32:
        return YES if _number_said(heap, d, INTEGER, read_32(words, at + 1)) else NO
    if kind == EQUAL_INTEGER or kind == EQUAL_FLOAT:
        tag = INTEGER if kind == EQUAL_INTEGER else FLOAT
        return YES if _number_said(heap, d, tag, read_64(words, at + 1)) else NO
    if kind >= RANGE_32 and kind <= NUMBER:
        return _numbers_meet(words, at, kind, heap, d)
    if (kind == INCLUDED or kind == EXCLUDED) and np.int64(words[at]) & 63 == OF_NUMBERS:
        if kind == EXCLUDED:
            return WIDE
        whole = np.int64(words[at + 1])
        for i in range(whole + np.int64(words[at + 2])):
            if _number_said(heap, d, INTEGER if i < whole else FLOAT, read_64(words, at + 3 + 2 * i)):
                return YES
    return NO


@inner
def _with_times(words: U32, at: Int, kind: Int, heap: U8, d: Int) -> Int:
    flags = np.int64(heap[d + 1])
    low = _word(heap, d + 8) if flags & HAS_LOW else np.int64(-(2**63))
    high = _word(heap, d + 16) if flags & HAS_HIGH else np.int64(2**63 - 1)
    if kind == EQUAL_TIMESTAMP:
        return YES if low <= read_64(words, at + 1) <= high else NO
    if kind == TIMESTAMPS:
        low = max(low, read_64(words, at + 1))
        high = min(high, read_64(words, at + 3))
        return YES if low <= high and low <= MAX_TIME and high >= MIN_TIME else NO
    if (kind == INCLUDED or kind == EXCLUDED) and np.int64(words[at]) & 63 == OF_TIMESTAMPS:
        if kind == EXCLUDED:
            return UNSURE
        for i in range(np.int64(words[at + 1])):
            if low <= read_64(words, at + 3 + 2 * i) <= high:
                return YES
    return NO


@inner
def _string_said(strings: StringView, number: Int, heap: U8, d: Int) -> Bool:
    """Whether a string lies in a published range: from a bound to before another."""
    flags = np.int64(heap[d + 1])
    first = _word(heap, d + 8)
    at = strings.offset[number]
    size = np.int64(strings.length[number])
    if flags & HAS_LOW and compare_bytes(strings.heap, at, size, heap, d + 24, first) < 0:
        return False
    return not flags & HAS_HIGH or compare_bytes(strings.heap, at, size, heap, d + 24 + first, _word(heap, d + 16)) < 0


@inner
def _strings_meet(words: U32, at: Int, strings: StringView, heap: U8, d: Int) -> Int:
    flags = np.int64(words[at])
    said = np.int64(heap[d + 1])
    first = _word(heap, d + 8)
    low = words[at + 1]
    high = words[at + 2]
    if flags & LOW_OPEN or (high != np.uint32(NO_WORD) and not flags & HIGH_OPEN):
        return UNSURE  # of a table of predicates
    a = np.int64(low)
    b = np.int64(high)
    if low != np.uint32(NO_WORD) and high != np.uint32(NO_WORD):
        order = compare_bytes(
            strings.heap, strings.offset[a], strings.length[a], strings.heap, strings.offset[b], strings.length[b]
        )
        if order >= 0:
            return NO
    if low != np.uint32(NO_WORD) and said & HAS_HIGH:
        last = _word(heap, d + 16)
        if compare_bytes(strings.heap, strings.offset[a], strings.length[a], heap, d + 24 + first, last) >= 0:
            return NO
    below = high == np.uint32(NO_WORD) or not said & HAS_LOW
    return (
        YES
        if below or compare_bytes(heap, d + 24, first, strings.heap, strings.offset[b], strings.length[b]) < 0
        else NO
    )


@inner
def _with_strings(words: U32, at: Int, kind: Int, strings: StringView, heap: U8, d: Int) -> Int:
    if kind == EQUAL_STRING:
        return YES if _string_said(strings, np.int64(words[at + 1]), heap, d) else NO
    if kind == STRINGS:
        return _strings_meet(words, at, strings, heap, d)
    if (kind == INCLUDED or kind == EXCLUDED) and np.int64(words[at]) & 63 == OF_STRINGS:
        if kind == EXCLUDED:
            return UNSURE
        for i in range(np.int64(words[at + 1])):
            if _string_said(strings, read_64(words, at + 3 + 2 * i), heap, d):
                return YES
        return NO
    if kind == PREFIX:
        return UNSURE
    if kind >= SUFFIX and kind <= EXPRESSION:
        # a range holds texts that end with anything, and texts that do not
        negated = words[at] & np.uint32(NEGATED) != np.uint32(0)
        return UNSURE if negated and strings.length[np.int64(words[at + 1])] == 0 else YES
    return NO


@inner
def part_meets(words: U32, at: Int, strings: StringView, heap: U8, d: Int) -> Int:
    """Whether something satisfies a part of a record and the published constraint at `d`, which is no list."""
    kind = np.int64((words[at] >> np.uint32(7)) & np.uint32(31))
    family = np.int64(heap[d])
    if kind == NULL or family == _OF_NULL:
        return YES if kind == NULL and family == _OF_NULL else NO
    if kind == PYTHON or kind == GEOMETRY:
        return UNSURE
    if kind == ANY:
        return WIDE
    if family == _OF_ANY:
        plain = kind <= EQUAL_STRING or (kind >= LOW_32 and kind <= HIGH_32)
        return YES if plain else UNSURE
    if family == _OF_NUMBER:
        return _with_numbers(words, at, kind, heap, d)
    if family == _OF_TIMESTAMP:
        return _with_times(words, at, kind, heap, d)
    if family == _OF_STRING:
        return _with_strings(words, at, kind, strings, heap, d)
    return UNSURE


@inner
def is_range(words: U32, at: Int) -> Bool:
    """Of numbers. A record may have two on one attribute, which meet what is published and not each other."""
    kind = (words[at] >> np.uint32(7)) & np.uint32(31)
    return kind >= np.uint32(RANGE_32) and kind <= np.uint32(NUMBER)


@inner
def together(heap: U8, d: Int, parts: Int, ranges: Int, least: Int) -> Int:
    """The answer of an attribute whose parts all meet what is published, `least` being the least certain of them."""
    more = heap[d + 2]
    if least == WIDE and ranges < 2:
        return YES if more <= _NUMBERS_EXCLUDED else UNSURE
    return YES if least == YES and parts == 1 and more == _PLAIN else UNSURE


@inner
def is_implied(words: U32, at: Int) -> Bool:
    """Of LIKE: it only leads to a part that says more."""
    kind = (words[at] >> np.uint32(7)) & np.uint32(31)
    return kind == np.uint32(LIKE) and words[at] & np.uint32(IMPLIED) != np.uint32(0)


@inner
def is_listed(heap: U8, d: Int) -> Bool:
    return heap[d + 2] == _LISTED


@inner
def listed(batch: Batch, d: Int) -> tuple[Int, Int]:
    """The entries of a list's values."""
    first = batch.start[len(batch.carried)] + _word(batch.heap, d + 8)
    return first, first + _word(batch.heap, d + 16)
