"""The one loop that reads rows from Arrow's own buffers into a batch.

Replaces a Python object for every cell: 3.9 us a row of ten columns, its text not yet looked up; this takes 0.12 us with that
(`pastforward bench matching` has it within what a batch takes).
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import reference
from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, FLOAT, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import load_i32, load_i64, load_u8
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.batch import Batch, put_integer, put_value
from pastforward.matching.index.checking import batch_at, known_at
from pastforward.matching.index.keys import OTHER
from pastforward.matching.index.strings import StringView

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# How a column lies in memory.
INT64_COLUMN: Final = 0
FLOAT64_COLUMN: Final = 1
BOOLEAN_COLUMN: Final = 2
TIMESTAMP_COLUMN: Final = 3
STRING_COLUMN: Final = 4
LARGE_STRING_COLUMN: Final = 5
SHAPE_COLUMN: Final = 6  # numbers into `heap`, as tag | offset << 8, 0 for absent
OTHER_COLUMN: Final = 7
OF_SHAPES: Final = (
    16  # and the tag of a shape: structs of doubles, whose `data` is the struct's own array of the C interface
)
SHAPES: Final = {
    ("lon", "lat"): POINT,
    ("lon", "lat", "radius_m"): CIRCLE,
    ("min_x", "min_y", "max_x", "max_y"): BOX,
}

# Offsets in the struct of the C interface.
A_OFFSET: Final = 16
A_BUFFERS: Final = 40
A_CHILDREN: Final = 48


class ColumnView(NamedTuple):
    """How columns lie in memory, which attributes they are (-1: none that matters), and whether they count as carried."""

    kind: U8
    attribute: I32
    counted: U8


class Buffers(NamedTuple):
    """Addresses of the columns' buffers; `first` is the position of row 0, `base` where a column's bytes begin in the heap."""

    validity: I64
    data: I64
    first: I64
    base: I64


@inner
def doubles(kind: Int) -> Int:
    """Of a shape, by the kind of its column."""
    tag = kind - OF_SHAPES
    return 2 if tag == POINT else 3 if tag == CIRCLE else 4


@inner
def _is_there(validity: Int, i: Int) -> Bool:
    return not validity or (load_u8(validity + (i >> 3)) >> np.uint8(i & 7)) & np.uint8(1) != 0


@inner
def _read_doubles(heap: U8, to: Int, child: Int, row: Int, count: Int) -> Bool:
    """The fields of a struct, if none of them is null. `row`: in the struct's own numbering."""
    fields = load_i64(child + A_CHILDREN)
    for k in range(count):
        field = load_i64(fields + 8 * k)
        buffers = load_i64(field + A_BUFFERS)
        i = row + load_i64(field + A_OFFSET)
        if not _is_there(load_i64(buffers), i):
            return False
        bits = load_i64(load_i64(buffers + 8) + 8 * i)
        for byte in range(8 if to >= 0 else 0):
            heap[to + 8 * k + byte] = np.uint8(bits & 255)
            bits >>= 8
    return True


@inner
def text_end(kind: Int, ends: Int, i: Int) -> Int:
    """Where the i-th text of a column of strings begins, and the one before ends."""
    return np.int64(load_i32(ends + 4 * i)) if kind == STRING_COLUMN else load_i64(ends + 8 * i)


@inner
def _cell(kind: Int, data: Int, base: Int, i: Int) -> tuple[Int, Int, Int, Int]:
    """Tag, bits, offset, length of a value that is no integer and no struct."""
    none = np.int64(0)
    if kind == STRING_COLUMN or kind == LARGE_STRING_COLUMN:
        begin = text_end(kind, data, i)
        return STRING, none, base + begin, text_end(kind, data, i + 1) - begin
    if kind == BOOLEAN_COLUMN:
        return BOOLEAN, np.int64((load_u8(data + (i >> 3)) >> np.uint8(i & 7)) & np.uint8(1)), none, none
    if kind == OTHER_COLUMN:
        return OTHER, none, none, none
    bits = load_i64(data + 8 * i)
    if kind == SHAPE_COLUMN:
        return bits & 255, none, bits >> 8, none
    return FLOAT if kind == FLOAT64_COLUMN else TIMESTAMP, bits, none, none


@inner
def fill_rows(out: Batch, view: ColumnView, buffers: Buffers, strings: StringView, axes: I32) -> None:
    """Entries of all rows, and how many attributes each carries."""
    kind, attribute, counted = view.kind, view.attribute, view.counted
    validity, data, first, base = buffers.validity, buffers.data, buffers.first, buffers.base
    heap = out.heap
    at = 0
    out.start[0] = 0
    for row in range(len(out.carried)):
        carried = 0
        for c in range(len(kind)):
            i = row + first[c]
            k = np.int64(kind[c])
            if not _is_there(validity[c], i) or (k == SHAPE_COLUMN and load_i64(data[c] + 8 * i) == 0):
                continue
            number = attribute[c]
            if k > OF_SHAPES:
                offset = base[c] + 8 * doubles(k) * row
                # of a column that nobody asks about only whether it is whole counts
                if not _read_doubles(heap, offset if number >= 0 else -1, data[c], i, doubles(k)):
                    continue
                carried += counted[c]
                if number >= 0:
                    value = k - OF_SHAPES, np.int64(0), offset, np.int64(0)
                    at = put_value(out, at, number, value, heap, strings, axes)
                continue
            carried += counted[c]
            if number < 0:
                continue
            if k == INT64_COLUMN:
                put_integer(out, at, number, load_i64(data[c] + 8 * i))
                at += 1
            else:
                at = put_value(out, at, number, _cell(k, data[c], base[c], i), heap, strings, axes)
        out.start[row + 1] = at
        out.carried[row] = carried


columns_at = reference(ColumnView)
_buffers_at = reference(Buffers)


@kernel
def fill_table(batch: Int, known: Int, columns: Int, buffers: Int) -> None:
    """All by their addresses: as tuples of arrays they take twenty times as long, since each array is counted on every call."""
    view = known_at(known)
    fill_rows(batch_at(batch), columns_at(columns), _buffers_at(buffers), view.strings, view.axes)
