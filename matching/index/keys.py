"""Numbers that stand for values of every type in the kernels.

Canonical value: a tag and 64 bits, equal exactly when the values are. A float that is integral and fits 64 bits becomes an integer, so
3.0 is 3 and -0.0 is 0; NaN gets a tag of its own; a string becomes its number among the strings that subscriptions mention.

Order key: 64 bits without sign. Within one family keys grow (not strictly) with the values, and families do not overlap, so a range of
values lies in one range of keys whatever the types. What shares a key is told apart by verification.

    3 bits family | 61 bits: numbers, the double's bits made sortable; timestamps, offset by 2^63; strings, the first bytes, big-endian;
    booleans, the value; paths, the first components, each a length and its bytes
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.columns.attributes import FLOAT, INTEGER
from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import bits_of_float, float_of_bits
from pastforward.columns.scalars import Int

# Tags beyond those of `columns.attributes`.
OTHER: Final = 0  # a type that no predicate speaks of: present, and that is all
NAN: Final = 10
PUBLISHED: Final = 11  # no value: what a published condition says, as `index.published` writes it

BOOLEAN_KEY: Final = 1
NUMBER_KEY: Final = 2
STRING_KEY: Final = 3
TIMESTAMP_KEY: Final = 4
PATH_KEY: Final = 5
GEOMETRY_KEY: Final = 6
OTHER_KEY: Final = 7

LOWEST: Final = np.uint64(0)
HIGHEST: Final = np.uint64(2**64 - 1)

_TWO_63: Final = 9223372036854775808.0


@inner
def first_key(family: Int) -> Int:
    return np.uint64(family) << np.uint64(61)


@inner
def last_key(family: Int) -> Int:
    return (np.uint64(family) << np.uint64(61)) | np.uint64(0x1FFFFFFFFFFFFFFF)


@inner
def canonical_float(bits: Int) -> tuple[Int, Int]:
    """Tag and bits of a double."""
    value = float_of_bits(np.int64(bits))
    if value != value:
        return NAN, 0
    if -_TWO_63 <= value < _TWO_63:
        whole = np.int64(value)
        if np.float64(whole) == value:
            return INTEGER, whole
    return FLOAT, bits


@kernel
def number_key(tag: Int, bits: Int) -> Int:
    """Of a canonical number."""
    value = np.float64(bits) if tag == INTEGER else float_of_bits(np.int64(bits))
    if value == 0.0:
        value = 0.0
    raw = np.uint64(bits_of_float(value))
    if raw >> np.uint64(63):
        raw = ~raw
    else:
        raw |= np.uint64(1) << np.uint64(63)
    return (np.uint64(NUMBER_KEY) << np.uint64(61)) | (raw >> np.uint64(3))


@kernel
def timestamp_key(bits: Int) -> Int:
    raw = np.uint64(bits) ^ (np.uint64(1) << np.uint64(63))
    return (np.uint64(TIMESTAMP_KEY) << np.uint64(61)) | (raw >> np.uint64(3))


@kernel
def boolean_key(bits: Int) -> Int:
    return (np.uint64(BOOLEAN_KEY) << np.uint64(61)) | np.uint64(bits)


@kernel
def string_key(heap: np.ndarray, offset: Int, length: Int) -> Int:
    raw = np.uint64(0)
    for i in range(8):
        raw <<= np.uint64(8)
        if i < length:
            raw |= np.uint64(heap[offset + i])
    return (np.uint64(STRING_KEY) << np.uint64(61)) | (raw >> np.uint64(3))


@kernel
def path_key(heap: np.ndarray, offset: Int, length: Int) -> Int:
    """Of dotted text: each component is its number of bytes plus one, then those bytes, cut off after eight in all."""
    raw = np.uint64(0)
    used = 0
    i = offset
    end = offset + length
    while i < end and used < 8:
        component = np.uint64(0)
        while i < end and heap[i] != 46:
            component = component * np.uint64(10) + np.uint64(heap[i] - 48)
            i += 1
        i += 1
        size = 0
        rest = component
        while rest:
            size += 1
            rest >>= np.uint64(8)
        raw = (raw << np.uint64(8)) | np.uint64(size + 1)
        used += 1
        for k in range(size):
            if used == 8:
                break
            raw = (raw << np.uint64(8)) | ((component >> np.uint64(8 * (size - 1 - k))) & np.uint64(255))
            used += 1
    if used < 8:
        raw <<= np.uint64(8 * (8 - used))
    return (np.uint64(PATH_KEY) << np.uint64(61)) | (raw >> np.uint64(3))


@kernel
def equality_hash(tag: Int, bits: Int) -> Int:
    """The same for equal canonical values; for others too, now and then."""
    return mix(np.uint64(bits) + np.uint64(tag) * np.uint64(0x9E3779B97F4A7C15))


@inner
def compare_numbers(a_tag: Int, a_bits: Int, b_tag: Int, b_bits: Int) -> Int:
    """-1, 0 or 1, exactly; both canonical and not NaN."""
    if a_tag == INTEGER and b_tag == INTEGER:
        return np.int64(a_bits > b_bits) - np.int64(a_bits < b_bits)
    if a_tag == FLOAT and b_tag == FLOAT:
        a = float_of_bits(np.int64(a_bits))
        b = float_of_bits(np.int64(b_bits))
        return np.int64(a > b) - np.int64(a < b)
    if a_tag == FLOAT:
        return -compare_numbers(b_tag, b_bits, a_tag, a_bits)
    # a canonical float is never integral within 64 bits, so the two are never equal
    b = float_of_bits(np.int64(b_bits))
    if b >= _TWO_63:
        return -1
    if b < -_TWO_63:
        return 1
    return -1 if a_bits <= np.int64(np.floor(b)) else 1
