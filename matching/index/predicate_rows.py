"""The rows of a table of predicates, as kernels read them: operators, types of values, parts."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

from typing import Final

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
def needs_python(
    operator: U8, kind: U8, high_kind: U8, bits: I64, high_bits: I64, heap: U8, at: I64, length: I32, out: U8
) -> None:
    """Rows that kernels do not read, wrong ones among them: Python then says what is wrong. `heap`, `at` and `length` are the bytes of
    shapes."""
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


@kernel
def read_rows(
    order: I64,
    operator: U8,
    kind: U8,
    high_kind: U8,
    bits: I64,
    high_bits: I64,
    text: I32,
    high_text: I32,
    heap: U8,
    at: I64,
    length: I32,
    out_kind: U8,
    out_flags: U8,
    low: I64,
    high: I64,
    items: I64,
) -> Int:
    """One part per row, in the order given. Returns the number of items."""
    n = 0
    for p in range(len(order)):
        i = order[p]
        op = operator[i]
        k = kind[i]
        flags = 0
        low[p] = 0
        high[p] = 0
        if op == OP_IS_NULL:
            out_kind[p] = NULL
        elif op == OP_IS_NOT_NULL:
            out_kind[p] = ANY
        elif op > OP_RELATION:
            out_kind[p] = GEOMETRY
            negated = op > OP_NEGATED_RELATION
            numbers = np.int64(length[i]) >> 3
            flags = (op - (OP_NEGATED_RELATION if negated else OP_RELATION)) | (NOT_SO if negated else 0)
            flags |= (numbers - 2) << SHAPE_SHIFT
            low[p] = n
            for number in range(numbers):
                items[n] = bits_of_float(read_double(heap, at[i] + 8 * number))
                n += 1
        elif op >= OP_PREFIX:
            out_kind[p] = PREFIX if op == OP_PREFIX else SUFFIX if op == OP_SUFFIX else SUBSTRING
            low[p] = text[i]
        elif k == BOOL_VALUE:
            out_kind[p] = BOOLEANS
            flags = ADMITS_TRUE if bits[i] else ADMITS_FALSE
        elif op == OP_NE:
            out_kind[p] = EXCLUDED
            low[p] = n
            high[p] = 1
            if k == TEXT_VALUE:
                flags = OF_STRINGS
                items[n] = text[i]
            elif k == TIME_VALUE:
                flags = OF_TIMESTAMPS
                items[n] = bits[i]
            else:
                flags = OF_NUMBERS
                items[n], is_float = _number(k, bits[i])
                if is_float:
                    high[p] = np.int64(1) << 32
            n += 1
        else:
            lower = op == OP_EQ or op == OP_GT or op == OP_GE or op == OP_BETWEEN
            upper = op == OP_EQ or op == OP_LT or op == OP_LE or op == OP_BETWEEN
            flags = (HAS_LOW if lower else 0) | (HAS_HIGH if upper else 0)
            if op == OP_GT:
                flags |= LOW_OPEN
            if op == OP_LT:
                flags |= HIGH_OPEN
            if k == TEXT_VALUE:
                if op == OP_EQ:
                    out_kind[p] = EQUAL_STRING
                    low[p] = text[i]
                    flags = 0
                else:
                    out_kind[p] = STRINGS
                    low[p] = text[i] if lower else 0
                    high[p] = high_text[i] if op == OP_BETWEEN else text[i] if upper else 0
            elif k == TIME_VALUE:
                out_kind[p] = TIMESTAMPS
                flags = 0
                low[p] = bits[i] if lower else np.int64(-(2**63))
                high[p] = high_bits[i] if op == OP_BETWEEN else bits[i] if upper else np.int64(2**63 - 1)
            else:
                out_kind[p] = NUMBER
                value, is_float = _number(k, bits[i])
                if lower:
                    low[p] = value
                    flags |= LOW_FLOAT if is_float else 0
                if op == OP_BETWEEN:
                    value, is_float = _number(high_kind[i], high_bits[i])
                if upper:
                    high[p] = value
                    flags |= HIGH_FLOAT if is_float else 0
        out_flags[p] = flags
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
