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

from pastforward.columns.addressed import Pinned, pin
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import load_i64, load_u8
from pastforward.columns.scalars import Int
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.matching.index.arrow_rows import (
    A_BUFFERS,
    A_CHILDREN,
    A_OFFSET,
    BOOLEAN_COLUMN,
    FLOAT64_COLUMN,
    INT64_COLUMN,
    LARGE_STRING_COLUMN,
    OF_SHAPES,
    SHAPES,
    STRING_COLUMN,
    TIMESTAMP_COLUMN,
    Buffers,
    ColumnView,
    columns_at,
    doubles,
    fill_rows,
    text_end,
)
from pastforward.matching.index.batch import NEVER_EXPIRES, NO_TIME, Batch
from pastforward.matching.index.checking import batch_at, known_at
from pastforward.matching.index.places import AXES
from pastforward.matching.index.strings import StringView

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]

_INT64: Final = pa.int64()
_SCHEMAS: Final = 16
SPECIAL: Final = ("_topic", "_published_at", "_expires_at")

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


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


@kernel
def string_bytes(array: Int, columns: Int, rows: Int) -> Int:
    """Of all columns of strings and shapes that matter."""
    kind = columns_at(columns).kind
    attribute = columns_at(columns).attribute
    total = np.int64(0)
    children = load_i64(array + A_CHILDREN)
    for c in range(len(kind)):
        if attribute[c] >= 0 and kind[c] > OF_SHAPES:
            total += 8 * doubles(np.int64(kind[c])) * rows
            continue
        if attribute[c] < 0 or (kind[c] != STRING_COLUMN and kind[c] != LARGE_STRING_COLUMN):
            continue
        child = load_i64(children + 8 * c)
        first = load_i64(child + A_OFFSET)
        ends = load_i64(load_i64(child + A_BUFFERS) + 8)
        k = np.int64(kind[c])
        total += text_end(k, ends, first + rows) - text_end(k, ends, first)
    return total


@kernel
def fill(batch: Int, known: Int, array: Int, columns: Int) -> None:
    view = known_at(known)
    fill_batch(batch_at(batch), view.strings, view.axes, array, columns_at(columns))


@inner
def _heap_bytes(batch: Batch, kind: Int, child: Int, first: Int, to: Int) -> tuple[Int, Int]:
    """Copies the texts of a column to the heap, or leaves room for a column of shapes; returns how many bytes they take, and where in the
    column's own bytes they begin."""
    rows = len(batch.carried)
    if kind > OF_SHAPES:
        return 8 * doubles(kind) * rows, np.int64(0)
    if kind != STRING_COLUMN and kind != LARGE_STRING_COLUMN:
        return np.int64(0), np.int64(0)
    buffers = load_i64(child + A_BUFFERS)
    ends, text = load_i64(buffers + 8), load_i64(buffers + 16)
    begin, end = text_end(kind, ends, first), text_end(kind, ends, first + rows)
    for i in range(end - begin):
        batch.heap[to + i] = load_u8(text + begin + i)
    return end - begin, begin


@inner
def fill_batch(batch: Batch, strings: StringView, axes: I32, array: Int, view: ColumnView) -> None:
    """The batch has room for the entries and the strings, and nothing in it."""
    for row in range(len(batch.carried)):
        batch.vague[row] = 0
        batch.topic[row] = 0
        batch.exact[row] = 1
        batch.published_at[row] = NO_TIME
        batch.expires_at[row] = NEVER_EXPIRES
        batch.publication[row] = row
    columns = len(view.kind)
    found = Buffers(
        np.empty(columns, np.int64),
        np.empty(columns, np.int64),
        np.empty(columns, np.int64),
        np.empty(columns, np.int64),
    )
    children = load_i64(array + A_CHILDREN)
    used = np.int64(0)
    for c in range(columns):
        child = load_i64(children + 8 * c)
        buffers = load_i64(child + A_BUFFERS)
        kind = np.int64(view.kind[c])
        found.first[c] = load_i64(child + A_OFFSET)
        found.validity[c] = load_i64(buffers)
        found.data[c] = child if kind > OF_SHAPES else load_i64(buffers + 8)
        found.base[c] = 0
        if view.attribute[c] >= 0:
            size, begin = _heap_bytes(batch, kind, child, found.first[c], used)
            found.base[c] = used - begin
            used += size
    fill_rows(batch, view, found, strings, axes)
