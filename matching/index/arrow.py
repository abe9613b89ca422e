"""The columns of an Arrow record batch by Arrow's C interface: one call for all of them, however many there are.

Only the plain layouts are read here: 64-bit integers, doubles, booleans, microseconds, strings, and points, circles and boxes, which are
structs of doubles. A batch with any other goes the longer way, column by column (`matching.index.batch`).
"""

from __future__ import annotations

import ctypes
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.addressed import Pinned, pin, reference
from pastforward.columns.attributes import BOOLEAN, CIRCLE, FLOAT, INTEGER, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import load_i32, load_i64, load_u8
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.matching.index.batch import (
    BOOLEAN_COLUMN,
    FLOAT64_COLUMN,
    INT64_COLUMN,
    LARGE_STRING_COLUMN,
    NEVER_EXPIRES,
    NO_TIME,
    OF_SHAPES,
    SHAPES,
    STRING_COLUMN,
    TIMESTAMP_COLUMN,
    Batch,
    put_integer,
    put_value,
)
from pastforward.matching.index.checking import batch_at, known_at
from pastforward.matching.index.places import AXES
from pastforward.matching.index.strings import StringView

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]

_INT64: Final = pa.int64()
_SCHEMAS: Final = 16
SPECIAL: Final = ("_topic", "_published_at", "_expires_at")

# Offsets in the struct of the C interface.
_A_OFFSET: Final = 16
_A_BUFFERS: Final = 40
_A_CHILDREN: Final = 48

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class ColumnView(NamedTuple):
    """How columns lie in memory, which attributes they are (-1: none that matters), and whether they count as carried."""

    kind: U8
    attribute: I32
    counted: U8


columns_at = reference(ColumnView)


class Layout(NamedTuple):
    """Of the columns of one schema, for one state of the attributes' numbers. `plain`: all columns are of a plain layout."""

    plain: bool
    columns: Pinned  # a ColumnView
    known: int  # entries of a row, at most
    texts: bool  # some of them have bytes
    special: tuple[str, ...]
    numbers: int


class Layouts:
    """Of the schemas seen last. A caller has few, and mostly one: that one is looked at first, and found the same by its address."""

    def __init__(self) -> None:
        self._seen: tuple[tuple[pa.Schema, Layout], ...] = ()

    def of(self, schema: pa.Schema, numbers: dict[str, int]) -> Layout:
        for seen, known in self._seen:
            if known.numbers == len(numbers) and schema.equals(seen):
                return known
        found = layout(schema, numbers)
        self._seen = ((schema, found), *self._seen[: _SCHEMAS - 1])
        return found


class Exported(NamedTuple):
    """Keep it while its address is used."""

    capsule: object
    array: int


def export(batch: pa.RecordBatch) -> Exported:
    array = batch.__arrow_c_array__()[1]
    return Exported(array, _pointer(array, b"arrow_array") or 0)


def int64_column(numbers: npt.NDArray[np.int64]) -> pa.Int64Array:
    """Without a copy, and without the questions that `pa.array` asks."""
    return pa.Int64Array.from_buffers(_INT64, len(numbers), (None, pa.py_buffer(numbers)))


def layout(schema: pa.Schema, numbers: dict[str, int]) -> Layout:
    kinds = [_kind(field.type) for field in schema]
    names = schema.names
    attribute = [-1 if name in SPECIAL else numbers.get(name, -1) for name in names]
    counted = [name not in SPECIAL and not name.startswith(PREVIOUS) for name in names]
    plain = all(kind is not None for kind, name in zip(kinds, names, strict=True) if name not in SPECIAL)
    return Layout(
        plain,
        pin(
            ColumnView(
                np.array([kind or 0 for kind in kinds], np.uint8),
                np.array(attribute, np.int32),
                np.array(counted, np.uint8),
            )
        ),
        sum(_entries(kind) for kind, number in zip(kinds, attribute, strict=True) if number >= 0),
        any(kind in (STRING_COLUMN, LARGE_STRING_COLUMN) or _entries(kind) > 1 for kind in kinds),
        tuple(name for name in names if name in SPECIAL),
        len(numbers),
    )


def _entries(kind: int | None) -> int:
    """Of a value: a shape has some on its axes."""
    return 1 + AXES if kind is not None and kind > OF_SHAPES else 1


def _kind(kind: pa.DataType) -> int | None:
    if pa.types.is_int64(kind):
        return INT64_COLUMN
    if pa.types.is_float64(kind):
        return FLOAT64_COLUMN
    if pa.types.is_boolean(kind):
        return BOOLEAN_COLUMN
    if pa.types.is_string(kind):
        return STRING_COLUMN
    if pa.types.is_large_string(kind):
        return LARGE_STRING_COLUMN
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return TIMESTAMP_COLUMN
    if pa.types.is_struct(kind) and all(pa.types.is_float64(field.type) for field in kind):
        tag = SHAPES.get(tuple(field.name for field in kind))
        return None if tag is None else OF_SHAPES + tag
    return None


@inner
def _doubles(kind: Int) -> Int:
    """Of a shape, by the kind of its column."""
    tag = kind - OF_SHAPES
    return 2 if tag == POINT else 3 if tag == CIRCLE else 4


@inner
def _is_there(validity: Int, i: Int) -> Bool:
    return not validity or (load_u8(validity + (i >> 3)) >> np.uint8(i & 7)) & np.uint8(1) != 0


@inner
def _read_doubles(heap: U8, to: Int, child: Int, row: Int, count: Int) -> Bool:
    """The fields of a struct, if none of them is null. `row`: in the struct's own numbering."""
    fields = load_i64(child + _A_CHILDREN)
    for k in range(count):
        field = load_i64(fields + 8 * k)
        buffers = load_i64(field + _A_BUFFERS)
        i = row + load_i64(field + _A_OFFSET)
        if not _is_there(load_i64(buffers), i):
            return False
        bits = load_i64(load_i64(buffers + 8) + 8 * i)
        for byte in range(8 if to >= 0 else 0):
            heap[to + 8 * k + byte] = np.uint8(bits & 255)
            bits >>= 8
    return True


@kernel
def string_bytes(array: Int, columns: Int, rows: Int) -> Int:
    """Of all columns of strings and shapes that matter."""
    kind = columns_at(columns).kind
    attribute = columns_at(columns).attribute
    total = np.int64(0)
    children = load_i64(array + _A_CHILDREN)
    for c in range(len(kind)):
        if attribute[c] >= 0 and kind[c] > OF_SHAPES:
            total += 8 * _doubles(np.int64(kind[c])) * rows
            continue
        if attribute[c] < 0 or (kind[c] != STRING_COLUMN and kind[c] != LARGE_STRING_COLUMN):
            continue
        child = load_i64(children + 8 * c)
        first = load_i64(child + _A_OFFSET)
        ends = load_i64(load_i64(child + _A_BUFFERS) + 8)
        if kind[c] == STRING_COLUMN:
            total += np.int64(load_i32(ends + 4 * (first + rows))) - np.int64(load_i32(ends + 4 * first))
        else:
            total += load_i64(ends + 8 * (first + rows)) - load_i64(ends + 8 * first)
    return total


@kernel
def fill(batch: Int, known: Int, array: Int, columns: Int) -> None:
    view = known_at(known)
    fill_batch(batch_at(batch), view.strings, view.axes, array, columns_at(columns))


@inner
def fill_batch(batch: Batch, strings: StringView, axes: I32, array: Int, view: ColumnView) -> None:
    """The batch has room for the entries and the strings, and nothing in it."""
    kind = view.kind
    attribute = view.attribute
    counted = view.counted
    for row in range(len(batch.carried)):
        batch.vague[row] = 0
        batch.topic[row] = 0
        batch.exact[row] = 1
        batch.published_at[row] = NO_TIME
        batch.expires_at[row] = NEVER_EXPIRES
        batch.publication[row] = row
    columns = len(kind)
    validity = np.empty(columns, np.int64)
    data = np.empty(columns, np.int64)
    first = np.empty(columns, np.int64)
    base = np.empty(columns, np.int64)
    rows = len(batch.carried)
    children = load_i64(array + _A_CHILDREN)
    used = np.int64(0)
    for c in range(columns):
        child = load_i64(children + 8 * c)
        buffers = load_i64(child + _A_BUFFERS)
        first[c] = load_i64(child + _A_OFFSET)
        validity[c] = load_i64(buffers)
        base[c] = 0
        if kind[c] > OF_SHAPES:
            data[c] = child
            if attribute[c] >= 0:
                base[c] = used
                used += 8 * _doubles(np.int64(kind[c])) * rows
            continue
        data[c] = load_i64(buffers + 8)
        if attribute[c] >= 0 and (kind[c] == STRING_COLUMN or kind[c] == LARGE_STRING_COLUMN):
            text = load_i64(buffers + 16)
            if kind[c] == STRING_COLUMN:
                begin = np.int64(load_i32(data[c] + 4 * first[c]))
                end = np.int64(load_i32(data[c] + 4 * (first[c] + rows)))
            else:
                begin = load_i64(data[c] + 8 * first[c])
                end = load_i64(data[c] + 8 * (first[c] + rows))
            for i in range(end - begin):
                batch.heap[used + i] = load_u8(text + begin + i)
            base[c] = used - begin
            used += end - begin
    heap = batch.heap
    at = 0
    batch.start[0] = 0
    for row in range(rows):
        carried = 0
        for c in range(columns):
            i = row + first[c]
            if not _is_there(validity[c], i):
                continue
            k = np.int64(kind[c])
            if k > OF_SHAPES:
                offset = base[c] + 8 * _doubles(k) * row
                # of a column that nobody asks about only whether it is whole counts
                if not _read_doubles(heap, offset if attribute[c] >= 0 else -1, data[c], i, _doubles(k)):
                    continue
                carried += counted[c]
                if attribute[c] >= 0:
                    at = put_value(batch, at, attribute[c], k - OF_SHAPES, 0, offset, 0, heap, strings, axes)
                continue
            carried += counted[c]
            number = attribute[c]
            if number < 0:
                continue
            if k == INT64_COLUMN:
                put_integer(batch, at, number, load_i64(data[c] + 8 * i))
                at += 1
                continue
            tag = INTEGER
            bits = np.int64(0)
            offset = np.int64(0)
            length = np.int64(0)
            if k == STRING_COLUMN:
                tag = STRING
                begin = np.int64(load_i32(data[c] + 4 * i))
                length = np.int64(load_i32(data[c] + 4 * i + 4)) - begin
                offset = base[c] + begin
            elif k == LARGE_STRING_COLUMN:
                tag = STRING
                begin = load_i64(data[c] + 8 * i)
                length = load_i64(data[c] + 8 * i + 8) - begin
                offset = base[c] + begin
            elif k == BOOLEAN_COLUMN:
                tag = BOOLEAN
                bits = np.int64((load_u8(data[c] + (i >> 3)) >> np.uint8(i & 7)) & np.uint8(1))
            else:
                bits = load_i64(data[c] + 8 * i)
                if k == FLOAT64_COLUMN:
                    tag = FLOAT
                elif k == TIMESTAMP_COLUMN:
                    tag = TIMESTAMP
            at = put_value(batch, at, number, tag, bits, offset, length, heap, strings, axes)
        batch.start[row + 1] = at
        batch.carried[row] = carried
