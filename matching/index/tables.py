"""A batch of publications from an Arrow table of any types, column by column; what is not of a plain layout is converted first."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.addressed import pin
from pastforward.columns.arrow import texts_of
from pastforward.columns.texts import TextArrays
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.matching.index.arrow_rows import (
    BOOLEAN_COLUMN,
    FLOAT64_COLUMN,
    INT64_COLUMN,
    LARGE_STRING_COLUMN,
    OTHER_COLUMN,
    SHAPE_COLUMN,
    SHAPES,
    STRING_COLUMN,
    TIMESTAMP_COLUMN,
    Buffers,
    ColumnView,
    fill_table,
)
from pastforward.matching.index.batch import NEVER_EXPIRES, NO_TIME, Batch, empty_batch, resolve_topics
from pastforward.matching.index.places import AXES
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.topics import TopicView

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_KINDS: Final = {
    pa.int64(): INT64_COLUMN,
    pa.float64(): FLOAT64_COLUMN,
    pa.bool_(): BOOLEAN_COLUMN,
    pa.timestamp("us", "UTC"): TIMESTAMP_COLUMN,
    pa.timestamp("us"): TIMESTAMP_COLUMN,
    pa.string(): STRING_COLUMN,
    pa.large_string(): LARGE_STRING_COLUMN,
}


class _Columns:
    """Collects the buffers of a table's columns, and keeps them alive while a kernel reads them."""

    def __init__(self) -> None:
        self.kind: list[int] = []
        self.attribute: list[int] = []
        self.counted: list[bool] = []
        self.validity: list[int] = []
        self.data: list[int] = []
        self.first: list[int] = []
        self.base: list[int] = []
        self.heaps: list[npt.NDArray[np.uint8]] = []
        self.heap_size = 0
        self._alive: list[object] = []

    def add(self, name: str, column: pa.ChunkedArray, attribute: int) -> None:
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
        kind = _KINDS.get(array.type)
        if kind is None:
            if pa.types.is_uint64(array.type):
                array = self._without_large(name, array, attribute)
            array, kind = self._converted(array, attribute)
        self._take(name, array, kind, attribute)

    def _without_large(self, name: str, array: pa.Array, attribute: int) -> pa.Array:
        """Beyond 63 bits there is no such integer: those become a column of their own, of values that compare with nothing."""
        fits = pa.compute.less_equal(array, pa.scalar(2**63 - 1, pa.uint64()))
        if pa.compute.all(fits).as_py() is False:
            large = pa.compute.if_else(fits, pa.scalar(None, pa.uint64()), array)
            self._take(name, large, OTHER_COLUMN, attribute)
        return pa.compute.if_else(fits, array, pa.scalar(None, pa.uint64()))

    def _take(self, name: str, array: pa.Array, kind: int, attribute: int) -> None:
        buffers = array.buffers()
        self._alive.append(array)
        validity, data = buffers[0], (buffers[1] if len(buffers) > 1 else None)
        self.kind.append(kind)
        self.attribute.append(attribute)
        self.counted.append(not name.startswith(PREVIOUS))
        self.validity.append(validity.address if validity is not None and array.null_count else 0)
        self.data.append(data.address if data is not None else 0)
        self.first.append(array.offset)
        self.base.append(self.heap_size)
        if kind in (STRING_COLUMN, LARGE_STRING_COLUMN) and buffers[2] is not None and attribute >= 0:
            self._keep(np.frombuffer(buffers[2], np.uint8))

    def _keep(self, heap: npt.NDArray[np.uint8]) -> None:
        self.heaps.append(heap)
        self.heap_size += len(heap)

    def _converted(self, array: pa.Array, attribute: int) -> tuple[pa.Array, int]:
        kind = array.type
        if pa.types.is_dictionary(kind):
            array = array.dictionary_decode()
            kind = array.type
            if kind in _KINDS:
                return array, _KINDS[kind]
        if pa.types.is_integer(kind):
            return array.cast(pa.int64()), INT64_COLUMN
        if pa.types.is_floating(kind):
            return array.cast(pa.float64()), FLOAT64_COLUMN
        if pa.types.is_timestamp(kind):
            # finer than a microsecond: cut off
            return array.cast(pa.timestamp("us", kind.tz), safe=False), TIMESTAMP_COLUMN
        if pa.types.is_string_view(kind):
            return array.cast(pa.large_string()), LARGE_STRING_COLUMN
        if pa.types.is_null(kind):
            return pa.nulls(len(array), pa.int64()), INT64_COLUMN
        if pa.types.is_struct(kind):
            tag = SHAPES.get(tuple(field.name for field in kind))
            if tag is not None:
                return self._shapes(array, tag), SHAPE_COLUMN
        return array, OTHER_COLUMN

    def _shapes(self, array: pa.StructArray, tag: int) -> pa.Array:
        fields = [pa.compute.cast(field, pa.float64()) for field in array.flatten()]
        whole = np.ones(len(array), bool)
        for field in fields:
            whole &= field.is_valid().to_numpy(zero_copy_only=False)
        doubles = np.stack([field.fill_null(0.0).to_numpy(zero_copy_only=False) for field in fields], axis=1)
        offsets = self.heap_size + np.arange(len(array), dtype=np.int64) * doubles.shape[1] * 8
        self._keep(np.ascontiguousarray(doubles, "<f8").view(np.uint8).reshape(-1))
        return pa.array(np.where(whole, tag | (offsets << 8), 0))

    def heap(self) -> npt.NDArray[np.uint8]:
        return np.concatenate(self.heaps) if self.heaps else np.zeros(1, np.uint8)


def batch_of_table(table: pa.Table, registry: Registry) -> Batch:
    """A column per attribute, null is absent; `_topic`, `_published_at` and `_expires_at` say place and time."""
    columns = _Columns()
    rows = table.num_rows
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name[:1] != "_" or name not in ("_topic", "_published_at", "_expires_at"):
            columns.add(name, column, registry.numbers.get(name, -1))
    known = sum(
        (1 + AXES if kind == SHAPE_COLUMN else 1)
        for kind, attribute in zip(columns.kind, columns.attribute, strict=True)
        if attribute >= 0
    )
    out = empty_batch(rows, rows * known, columns.heap())
    view = ColumnView(
        np.array(columns.kind, np.uint8), np.array(columns.attribute, np.int32), np.array(columns.counted, np.uint8)
    )
    buffers = (columns.validity, columns.data, columns.first, columns.base)
    given = pin(view), pin(Buffers(*(np.array(each, np.int64) for each in buffers))), pin(out)
    fill_table(given[2].address, registry.known_at, given[0].address, given[1].address)
    read_place_and_time(out, table, registry.known.topics)
    return out


def read_place_and_time(out: Batch, table: pa.Table, topics: TopicView) -> None:
    """Place and time, from the columns that say them."""
    if "_topic" in table.column_names:
        place(out, table.column("_topic"), topics)
    if "_published_at" in table.column_names:
        out.published_at[:] = times(table.column("_published_at"), NO_TIME)
    if "_expires_at" in table.column_names:
        out.expires_at[:] = times(table.column("_expires_at"), NEVER_EXPIRES)


def times(column: pa.ChunkedArray | pa.Array, missing: int) -> I64:
    """Microseconds, from timestamps or integers."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    out: I64 = column.cast(pa.int64()).fill_null(missing).to_numpy().astype(np.int64)
    return out


def bytes_column(column: pa.ChunkedArray) -> TextArrays:
    """Of a column of bytes; null has the length -1."""
    return texts_of(column.cast(pa.large_binary())).for_kernel()


def string_column(column: pa.ChunkedArray | pa.Array) -> TextArrays:
    """Of a column of strings; null has the length -1."""
    return texts_of(column.cast(pa.large_string())).for_kernel()


def place(out: Batch, column: pa.ChunkedArray | pa.Array, topics: TopicView) -> None:
    heap, offset, length = string_column(column)
    np.maximum(length, 0, out=length)  # null: the root
    wrong = int(resolve_topics(topics, heap, offset, length, out.topic, out.exact))
    if wrong >= 0:
        text = heap[offset[wrong] : offset[wrong] + length[wrong]].tobytes().decode()
        raise ValueError(f"row {wrong}: the topic {text!r} is no Dewey path; write numbers and dots, like 1.4.2")
