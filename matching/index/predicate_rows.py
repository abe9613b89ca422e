"""The rows of a table of predicates, as kernels read them: operators, types of values, parts.

Replaces the objects of `predicate_objects`, which takes 9.9 us a row; this takes 0.05 us with grouping and sorting (part of what
`pastforward bench matching` measures).
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOX, CIRCLE, FLOAT, POINT
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import bits_of_float
from pastforward.columns.scalars import Bool, Int
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.matching.index.keys import NAN, OTHER, canonical_float
from pastforward.matching.index.places import is_valid, read_double
from pastforward.matching.index.records import (
    ADMITS_FALSE,
    ADMITS_TRUE,
    ANY,
    BOOLEANS,
    CONTAINS,
    EQUAL_STRING,
    EXCLUDED,
    GEOMETRY,
    HAS_HIGH,
    HAS_LOW,
    HIGH_FLOAT,
    HIGH_OPEN,
    LOW_FLOAT,
    LOW_OPEN,
    NOT_SO,
    NULL,
    NUMBER,
    OF_NUMBERS,
    OF_STRINGS,
    OF_TIMESTAMPS,
    OVERLAPS,
    PREFIX,
    SHAPE_SHIFT,
    STRINGS,
    SUBSTRING,
    SUFFIX,
    TIMESTAMPS,
    WITHIN,
)

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


# Operators that kernels read; everything else is Python's.
OP_EQ: Final = 0
OP_NE: Final = 1
OP_LT: Final = 2
OP_LE: Final = 3
OP_GT: Final = 4
OP_GE: Final = 5
OP_BETWEEN: Final = 6
OP_IS_NULL: Final = 7
OP_IS_NOT_NULL: Final = 8
OP_PREFIX: Final = 9
OP_SUFFIX: Final = 10
OP_SUBSTRING: Final = 11
OP_PYTHON: Final = 12
OP_RELATION: Final = 12  # and the relation
OP_NEGATED_RELATION: Final = 15
OPERATORS: Final = {
    "=": OP_EQ,
    "!=": OP_NE,
    "<": OP_LT,
    "<=": OP_LE,
    ">": OP_GT,
    ">=": OP_GE,
    "between": OP_BETWEEN,
    "is null": OP_IS_NULL,
    "is not null": OP_IS_NOT_NULL,
    "prefix": OP_PREFIX,
    "suffix": OP_SUFFIX,
    "substring": OP_SUBSTRING,
    "overlaps": OP_RELATION + OVERLAPS,
    "contains": OP_RELATION + CONTAINS,
    "within": OP_RELATION + WITHIN,
    "not overlaps": OP_NEGATED_RELATION + OVERLAPS,
    "not contains": OP_NEGATED_RELATION + CONTAINS,
    "not within": OP_NEGATED_RELATION + WITHIN,
}
# Types of a value in its row.
NO_VALUE: Final = 0
INT_VALUE: Final = 1
FLOAT_VALUE: Final = 2
TEXT_VALUE: Final = 3
BOOL_VALUE: Final = 4
TIME_VALUE: Final = 5
BINARY_VALUE: Final = 6
PATH_VALUE: Final = 7
TWO_VALUES: Final = 8  # more than one column is filled


@inner
def _tag_of(length: Int) -> Int:
    """Of a shape, by the bytes of its doubles; OTHER: it is none."""
    return POINT if length == 16 else CIRCLE if length == 24 else BOX if length == 32 else OTHER


@kernel
def needs_python(rows: Any, shapes: Any, out: U8) -> None:
    """Rows that kernels do not read, wrong ones among them: Python then says what is wrong. `rows`: operators, types of value and high
    value, bits of both. `shapes`: bytes of shapes, as `Texts.for_kernel` gives them."""
    operator, kind, high_kind, bits, high_bits = rows
    heap, at, length = shapes
    for i in range(len(operator)):
        op = operator[i]
        k = kind[i]
        ok = False
        if op == OP_IS_NULL or op == OP_IS_NOT_NULL:
            ok = True
        elif op == OP_BETWEEN:
            both_numbers = (k == INT_VALUE or k == FLOAT_VALUE) and (
                high_kind[i] == INT_VALUE or high_kind[i] == FLOAT_VALUE
            )
            ok = both_numbers or (k == high_kind[i] and (k == TEXT_VALUE or k == TIME_VALUE))
        elif op >= OP_PREFIX and op <= OP_SUBSTRING:
            ok = k == TEXT_VALUE
        elif op > OP_RELATION:
            ok = k == BINARY_VALUE and _tag_of(length[i]) != OTHER and is_valid(heap, at[i], _tag_of(length[i]))
        elif op <= OP_GE:
            # timestamps have closed bounds only
            ok = k == INT_VALUE or k == FLOAT_VALUE or k == TEXT_VALUE or (k == BOOL_VALUE and op == OP_EQ)
            ok = ok or (k == TIME_VALUE and op != OP_LT and op != OP_GT)
        if ok and k == TIME_VALUE:
            # only years that a datetime has; `high` counts with `between` alone
            ok = bits[i] >= MIN_TIME and bits[i] <= MAX_TIME
            ok = ok and (op != OP_BETWEEN or (high_bits[i] >= MIN_TIME and high_bits[i] <= MAX_TIME))
        if ok and k == FLOAT_VALUE and canonical_float(bits[i])[0] == NAN:
            ok = False
        if ok and op == OP_BETWEEN and high_kind[i] == FLOAT_VALUE and canonical_float(high_bits[i])[0] == NAN:
            ok = False
        out[i] = not ok


@kernel
def mark_doubtful(start: I64, order: I64, attribute: I64, operator: U8, out: U8) -> None:
    """Rows that ask that an attribute be absent, beside another row on it: mostly a contradiction, which no record can hold."""
    for s in range(len(start) - 1):
        for p in range(start[s], start[s + 1]):
            if operator[order[p]] != OP_IS_NULL:
                continue
            for q in range(start[s], start[s + 1]):
                if q != p and attribute[order[q]] == attribute[order[p]]:
                    out[order[p]] = 1


@kernel
def _number(kind: Int, bits: Int) -> tuple[Int, Bool]:
    """Canonical bits, and whether they are a float's."""
    if kind == FLOAT_VALUE:
        tag, bits = canonical_float(bits)
        return bits, tag == FLOAT
    return bits, False


@inner
def _excluded(kind: Int, bits: Int, text: Int) -> tuple[Int, Int, Int]:
    """Of a set with one value: flags, the value, and the counts of the set's two lists, of which the second holds floats."""
    if kind == TEXT_VALUE:
        return OF_STRINGS, text, np.int64(1)
    if kind == TIME_VALUE:
        return OF_TIMESTAMPS, bits, np.int64(1)
    value, is_float = _number(kind, bits)
    return OF_NUMBERS, value, np.int64(1) << 32 if is_float else np.int64(1)


@inner
def _has_low(op: Int) -> Bool:
    return op == OP_EQ or op == OP_GT or op == OP_GE or op == OP_BETWEEN


@inner
def _has_high(op: Int) -> Bool:
    return op == OP_EQ or op == OP_LT or op == OP_LE or op == OP_BETWEEN


@inner
def _bounds(op: Int) -> Int:
    """Flags of a range."""
    flags = (HAS_LOW if _has_low(op) else 0) | (HAS_HIGH if _has_high(op) else 0)
    return flags | (LOW_OPEN if op == OP_GT else 0) | (HIGH_OPEN if op == OP_LT else 0)


@inner
def _text_range(op: Int, text: Int, high_text: Int) -> tuple[Int, Int, Int, Int]:
    """Here and below: kind, flags, low, high of a range."""
    if op == OP_EQ:
        return EQUAL_STRING, 0, text, np.int64(0)
    low = text if _has_low(op) else np.int64(0)
    high = high_text if op == OP_BETWEEN else text if _has_high(op) else np.int64(0)
    return STRINGS, _bounds(op), low, high


@inner
def _time_range(op: Int, bits: Int, high_bits: Int) -> tuple[Int, Int, Int, Int]:
    low = bits if _has_low(op) else np.int64(-(2**63))
    high = high_bits if op == OP_BETWEEN else bits if _has_high(op) else np.int64(2**63 - 1)
    return TIMESTAMPS, 0, low, high


@inner
def _number_range(op: Int, kind: Int, bits: Int, high_kind: Int, high_bits: Int) -> tuple[Int, Int, Int, Int]:
    flags, low, high = _bounds(op), np.int64(0), np.int64(0)
    value, is_float = _number(kind, bits)
    if _has_low(op):
        low = value
        flags |= LOW_FLOAT if is_float else 0
    if op == OP_BETWEEN:
        value, is_float = _number(high_kind, high_bits)
    if _has_high(op):
        high = value
        flags |= HIGH_FLOAT if is_float else 0
    return NUMBER, flags, low, high


@inner
def _shape_flags(op: Int, numbers: Int) -> Int:
    negated = op > OP_NEGATED_RELATION
    flags = (op - (OP_NEGATED_RELATION if negated else OP_RELATION)) | (NOT_SO if negated else 0)
    return flags | (numbers - 2) << SHAPE_SHIFT


@kernel
def read_rows(order: I64, rows: Any, texts: Any, shapes: Any, parts: Any) -> Int:
    """One part per row, in the order given. Returns the number of items. `rows`, `shapes`: see `needs_python`. `texts`: numbers of the
    strings of value and high value. `parts`: kind, flags, low, high, items, to be written."""
    operator, kind, high_kind, bits, high_bits = rows
    text, high_text = texts
    heap, at, length = shapes
    out_kind, out_flags, low, high, items = parts
    n = 0
    for p in range(len(order)):
        i = order[p]
        op = operator[i]
        k = kind[i]
        made, flags, first, last = 0, 0, np.int64(0), np.int64(0)
        if op == OP_IS_NULL:
            made = NULL
        elif op == OP_IS_NOT_NULL:
            made = ANY
        elif op > OP_RELATION:
            numbers = np.int64(length[i]) >> 3
            made, flags, first = GEOMETRY, _shape_flags(op, numbers), np.int64(n)
            for number in range(numbers):
                items[n] = bits_of_float(read_double(heap, at[i] + 8 * number))
                n += 1
        elif op >= OP_PREFIX:
            made = PREFIX if op == OP_PREFIX else SUFFIX if op == OP_SUFFIX else SUBSTRING
            first = np.int64(text[i])
        elif k == BOOL_VALUE:
            made, flags = BOOLEANS, ADMITS_TRUE if bits[i] else ADMITS_FALSE
        elif op == OP_NE:
            made, first = EXCLUDED, np.int64(n)
            flags, items[n], last = _excluded(k, bits[i], np.int64(text[i]))
            n += 1
        elif k == TEXT_VALUE:
            made, flags, first, last = _text_range(op, np.int64(text[i]), np.int64(high_text[i]))
        elif k == TIME_VALUE:
            made, flags, first, last = _time_range(op, bits[i], high_bits[i])
        else:
            made, flags, first, last = _number_range(op, k, bits[i], high_kind[i], high_bits[i])
        out_kind[p] = made
        out_flags[p] = flags
        low[p] = first
        high[p] = last
    return n


@kernel
def sort_by_attribute(start: I64, order: I64, attribute: I32) -> None:
    """Within each slot; short, so by insertion."""
    for s in range(len(start) - 1):
        for p in range(start[s] + 1, start[s + 1]):
            row = order[p]
            q = p
            while q > start[s] and attribute[order[q - 1]] > attribute[row]:
                order[q] = order[q - 1]
                q -= 1
            order[q] = row
