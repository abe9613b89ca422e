"""Reads normal forms, as `schemas.condition_bytes` writes them, into `index.flat`. What it does not take is left to the plain path.

Replaces `schemas.condition_fields.normal_form`: 280 us for a condition of three predicates that was not seen before; this takes 0.2 us
(`pastforward bench stream` shows it, as subscriptions a second).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pastforward.columns.kernel import bare, inlined, kernel
from pastforward.matching.index.records import (
    ADMITS_FALSE,
    ADMITS_TRUE,
    ANY,
    BOOLEANS,
    EQUAL_STRING,
    HAS_HIGH,
    HAS_LOW,
    HIGH_FLOAT,
    HIGH_OPEN,
    LARGEST,
    LOW_FLOAT,
    LOW_OPEN,
    NULL,
    NUMBER,
    SMALLEST,
    STRINGS,
    TIMESTAMPS,
)
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.names import find_slot

# branches of a constant that may be null; without null they are one less
_NONE = 0
_BOOLEAN = 1
_LONG = 2
_DOUBLE = 3
_STRING = 4
_TIMESTAMP = 5

# families, as on the wire
_F_NULL = 0
_F_ANY = 1
_F_BOOLEAN = 2
_F_NUMBER = 3
_F_STRING = 4
_F_TIMESTAMP = 5

# counters
PARTS = 0
DISJUNCTS = 1
TEXTS = 2
NAMES = 3


class Parts(NamedTuple):
    """The columns of `index.flat.Flat`."""

    name: Array
    kind: Array
    flags: Array
    low: Array
    high: Array
    text_at: Array
    text_length: Array


class Names(NamedTuple):
    """See `kernels.names`."""

    table: Array
    seed: Number
    at: Array
    length: Array


@kernel
def _long(data: Array, at: Number, end: Number) -> Result:
    """The number, and where it ends; -1 if it does not."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), -1


@bare
def _constant(data: Array, at: Number, end: Number, without_null: Number, parts: Parts, fill: Array) -> Result:
    """Branch, bits (of a string its number among the texts), and where it ends; -1 if it is none that is known here."""
    branch, at = _long(data, at, end)
    branch += without_null
    if at < 0 or branch == _NONE:
        return branch, np.int64(0), at
    if branch == _BOOLEAN:
        return branch, np.int64(data[at]), at + 1
    if branch in (_LONG, _TIMESTAMP):
        value, at = _long(data, at, end)
        return branch, value, at
    if branch == _DOUBLE:
        bits = np.uint64(0)
        for i in range(8):
            bits |= np.uint64(data[at + i]) << np.uint64(8 * i)
        return branch, np.int64(bits), at + 8
    if branch == _STRING:
        length, at = _long(data, at, end)
        number = fill[TEXTS]
        parts.text_at[number] = at
        parts.text_length[number] = length
        fill[TEXTS] = number + 1
        return branch, number, at + length
    return branch, np.int64(0), -1


@bare
def read_conditions(
    data: Array, begins: Array, lengths: Array, starts: Any, parts_: Any, names_: Any, fill: Array, read: Array
) -> None:
    """Rows that are not `read` have no disjuncts. `starts`: where the disjuncts of a row begin, and the parts of a disjunct."""
    first, start = starts
    parts, names = Parts(*parts_), Names(*names_)
    for row in range(len(begins)):
        before = fill[PARTS], fill[DISJUNCTS], fill[TEXTS]
        at = np.int64(begins[row])
        if lengths[row] > 0:
            at = _disjuncts(data, at, at + lengths[row], start, parts, names, fill)
            read[row] = at == begins[row] + lengths[row] and fill[DISJUNCTS] > before[1]
        if not read[row]:
            fill[PARTS], fill[DISJUNCTS], fill[TEXTS] = before
        first[row + 1] = fill[DISJUNCTS]


@bare
def _disjuncts(data: Array, at: Number, end: Number, start: Array, parts: Parts, names: Names, fill: Array) -> Result:
    while True:
        disjuncts, at = _long(data, at, end)
        if at < 0 or disjuncts < 0:
            return -1
        if disjuncts == 0:
            return at
        for _ in range(disjuncts):
            at = _disjunct(data, at, end, parts, names, fill)
            if at < 0:
                return -1
            fill[DISJUNCTS] += 1
            start[fill[DISJUNCTS]] = fill[PARTS]


@bare
def _disjunct(data: Array, at: Number, end: Number, parts: Parts, names: Names, fill: Array) -> Result:
    while True:
        constraints, at = _long(data, at, end)
        if at < 0 or constraints < 0:
            return -1
        if constraints == 0:
            return at
        for _ in range(constraints):
            at = _constraint(data, at, end, parts, names, fill)
            if at < 0:
                return -1


@inlined
def _number_of(data: Array, at: Number, length: Number, names: Names, fill: Array) -> Result:
    slot = find_slot(data, at, length, names.table, names.seed, names.at, names.length)
    number = np.int64(names.table[slot])
    if number < 0:
        number = fill[NAMES]
        names.at[number] = at
        names.length[number] = length
        names.table[slot] = number
        fill[NAMES] = number + 1
    return number


@bare
def _constraint(data: Array, at: Number, end: Number, parts: Parts, names: Names, fill: Array) -> Result:
    """Returns where it ends; -1 if it is for the plain path."""
    length, at = _long(data, at, end)
    if at < 0 or length < 0 or at + length > end or 2 * (fill[NAMES] + 1) >= len(names.table):
        return -1
    number = _number_of(data, at, length, names, fill)
    family, at = _long(data, at + length, end)
    if at < 0:
        return -1
    low_kind, low_bits, at = _constant(data, at, end, 0, parts, fill)
    if at < 0:
        return -1
    low_closed = data[at]
    high_kind, high_bits, at = _constant(data, at + 1, end, 0, parts, fill)
    if at < 0:
        return -1
    high_closed = data[at]
    some, at = _long(data, at + 1, end)
    if at < 0:
        return -1
    one = 0
    one_bits = np.int64(0)
    admitted = 0
    if some == 1:
        count, at = _long(data, at, end)
        if at < 0 or count < 1 or (count > 1 and family != _F_BOOLEAN):
            return -1
        for _ in range(count):
            one, one_bits, at = _constant(data, at, end, 1, parts, fill)
            if at < 0:
                return -1
            admitted |= ADMITS_TRUE if one_bits else ADMITS_FALSE
        if data[at] != 0:
            return -1
        at += 1
    # nothing excluded, no patterns, no tests
    if at + 3 > end or data[at] or data[at + 1] or data[at + 2]:
        return -1
    lower, upper = (low_kind, low_bits, low_closed), (high_kind, high_bits, high_closed)
    kind, flags, low, high = _part(family, lower, upper, (one, one_bits), admitted)
    if kind < 0:
        return -1
    part = fill[PARTS]
    parts.name[part] = number
    parts.kind[part] = kind
    parts.flags[part] = flags
    parts.low[part] = low
    parts.high[part] = high
    fill[PARTS] = part + 1
    return at + 3


@inlined
def _part(family: Number, lower: Any, upper: Any, single: Any, admitted: Number) -> Result:
    """Kind, flags and bounds, as the index has them; the kind is -1 for what it does not know."""
    low_kind, low_bits, low_closed = lower
    high_kind, high_bits, high_closed = upper
    one, one_bits = single
    first, last, f, k = low_bits, high_bits, 0, 0
    if family == _F_NULL:
        k = NULL
    elif family == _F_ANY:
        k = ANY
    elif family == _F_BOOLEAN:
        k, f = BOOLEANS, admitted
    elif family == _F_NUMBER:
        k = NUMBER
        if one:
            first = last = one_bits
            f = HAS_LOW | HAS_HIGH
            if one == _DOUBLE:
                f |= LOW_FLOAT | HIGH_FLOAT
        else:
            if low_kind:
                f |= HAS_LOW | (LOW_FLOAT if low_kind == _DOUBLE else 0) | (0 if low_closed else LOW_OPEN)
            if high_kind:
                f |= HAS_HIGH | (HIGH_FLOAT if high_kind == _DOUBLE else 0) | (0 if high_closed else HIGH_OPEN)
    elif family == _F_STRING:
        if one:
            k, first, last = EQUAL_STRING, one_bits, 0
        else:
            k = STRINGS
            if low_kind:
                f |= HAS_LOW | (0 if low_closed else LOW_OPEN)
            if high_kind:
                f |= HAS_HIGH | (0 if high_closed else HIGH_OPEN)
    elif family == _F_TIMESTAMP:
        k = TIMESTAMPS
        if one:
            first = last = one_bits
        else:
            if not low_kind:
                first = np.int64(SMALLEST)
            if not high_kind:
                last = np.int64(LARGEST)
    else:
        k = -1
    return k, f, first, last
