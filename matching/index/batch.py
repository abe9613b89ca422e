"""A batch of publications as the kernels read it: canonical values, attribute numbers of the index, one row per publication.

A publication with a condition of its own becomes a row per disjunct, and `vague` is 1: entries of the tag PUBLISHED hold what the disjunct
says of an attribute (see `index.published`), and order keys that contain all values it admits. Entries behind those of the last row are
values of its lists.
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.arrow import texts_of
from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, FLOAT, INTEGER, PATH, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import load_i32, load_i64, load_u8
from pastforward.columns.scalars import Int
from pastforward.columns.texts import TextArrays
from pastforward.columns.times import EARLIEST, LATEST
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.matching.index.keys import (
    GEOMETRY_KEY,
    OTHER,
    OTHER_KEY,
    boolean_key,
    canonical_float,
    first_key,
    number_key,
    path_key,
    string_key,
    timestamp_key,
)
from pastforward.matching.index.places import AXES, is_shape, is_valid, put_axes
from pastforward.matching.index.strings import StringView, find_bytes
from pastforward.matching.index.topics import TopicView, check_topic, find_topic

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

NO_TIME: Final = EARLIEST  # published_at was not given: no window is asked about
NEVER_EXPIRES: Final = LATEST
_NO_AXES: Final = np.zeros(0, np.int32)
SAID_ABSENT: Final = (
    1  # the bits of an entry of tag PUBLISHED that stands for a published IS NULL; of all others they are 0
)


class Batch(NamedTuple):
    """Entries of row `i` are `start[i]:start[i + 1]`: attributes that some subscription names, no attribute twice."""

    start: I64
    attribute: I32
    tag: U8
    bits: I64  # canonical; of a string its number, -1 if no subscription mentions it
    offset: I64  # in `heap`
    length: I32
    low: U64  # order keys; the same for a value
    high: U64
    heap: U8
    carried: I32  # how many attributes the row has, unknown ones included, those of the previous publication not
    vague: U8
    topic: I32  # the deepest known node on the way to the topic
    exact: U8  # it is the topic itself
    published_at: I64
    expires_at: I64
    publication: I32  # of the row

    @property
    def rows(self) -> int:
        return len(self.start) - 1


@inner
def put_integer(out: Batch, at: Int, attribute: Int, bits: Int) -> None:
    """What most entries are, without the questions that others need."""
    key = number_key(INTEGER, bits)
    out.attribute[at] = attribute
    out.tag[at] = INTEGER
    out.bits[at] = bits
    out.offset[at] = 0
    out.length[at] = 0
    out.low[at] = key
    out.high[at] = key


@inner
def put_value(
    out: Batch,
    at: Int,
    attribute: Int,
    tag: Int,
    bits: Int,
    offset: Int,
    length: Int,
    heap: U8,
    strings: StringView,
    axes: I32,
) -> Int:
    """Writes the entry of a value, canonical, and for a shape those on the axes. Returns where the next entry goes."""
    key = first_key(OTHER_KEY)
    if tag == FLOAT:
        tag, bits = canonical_float(bits)
    if tag == INTEGER or tag == FLOAT:
        key = number_key(tag, bits)
    elif tag == STRING:
        key = string_key(heap, offset, length)
        bits = find_bytes(strings, heap, offset, length)
    elif tag == BOOLEAN:
        key = boolean_key(bits)
    elif tag == TIMESTAMP:
        key = timestamp_key(bits)
    elif tag == PATH:
        if check_topic(heap, offset, length):
            key = path_key(heap, offset, length)
        else:
            tag = OTHER
    elif is_shape(tag):
        if is_valid(heap, offset, tag):
            key = first_key(GEOMETRY_KEY)
        else:
            tag = OTHER
    out.attribute[at] = attribute
    out.tag[at] = tag
    out.bits[at] = bits
    out.offset[at] = offset
    out.length[at] = length
    out.low[at] = key
    out.high[at] = key
    return put_axes(out, at + 1, attribute, tag, heap, offset, axes) if is_shape(tag) else at + 1


@kernel
def resolve_topics(view: TopicView, heap: U8, offset: I64, length: I32, topic: I32, exact: U8) -> Int:
    """Returns the first row whose topic is no Dewey path, or -1."""
    for row in range(len(offset)):
        if not check_topic(heap, offset[row], length[row]):
            return row
        node, itself = find_topic(view, heap, offset[row], length[row])
        topic[row] = node
        exact[row] = itself
    return -1


# How a column of an Arrow table lies in memory.
INT64_COLUMN: Final = 0
FLOAT64_COLUMN: Final = 1
BOOLEAN_COLUMN: Final = 2
TIMESTAMP_COLUMN: Final = 3
STRING_COLUMN: Final = 4
LARGE_STRING_COLUMN: Final = 5
SHAPE_COLUMN: Final = 6  # numbers into `heap`, as tag | offset << 8, 0 for absent
OTHER_COLUMN: Final = 7
OF_SHAPES: Final = 16  # and the tag of a shape: structs of doubles


@kernel
def _fill_from_columns(
    out: Batch,
    kind: U8,
    attribute: I32,
    counted: U8,
    validity: I64,
    data: I64,
    first: I64,
    base: I64,
    strings: StringView,
    axes: I32,
) -> None:
    """Columns by the addresses of their buffers; `first` is the position of row 0, `base` where a column's bytes begin in the heap."""
    at = 0
    out.start[0] = 0
    columns = len(kind)
    for row in range(len(out.carried)):
        carried = 0
        for c in range(columns):
            i = row + first[c]
            if validity[c] and not (load_u8(validity[c] + (i >> 3)) >> np.uint8(i & 7)) & np.uint8(1):
                continue
            k = kind[c]
            if k == SHAPE_COLUMN and load_i64(data[c] + 8 * i) == 0:
                continue
            carried += counted[c]
            number = attribute[c]
            if number < 0:
                continue
            if k == INT64_COLUMN:
                at = put_value(out, at, number, INTEGER, load_i64(data[c] + 8 * i), 0, 0, out.heap, strings, axes)
            elif k == FLOAT64_COLUMN:
                at = put_value(out, at, number, FLOAT, load_i64(data[c] + 8 * i), 0, 0, out.heap, strings, axes)
            elif k == STRING_COLUMN or k == LARGE_STRING_COLUMN:
                if k == STRING_COLUMN:
                    begin = np.int64(load_i32(data[c] + 4 * i))
                    end = np.int64(load_i32(data[c] + 4 * i + 4))
                else:
                    begin = load_i64(data[c] + 8 * i)
                    end = load_i64(data[c] + 8 * i + 8)
                at = put_value(out, at, number, STRING, 0, base[c] + begin, end - begin, out.heap, strings, axes)
            elif k == BOOLEAN_COLUMN:
                bit = (load_u8(data[c] + (i >> 3)) >> np.uint8(i & 7)) & np.uint8(1)
                at = put_value(out, at, number, BOOLEAN, np.int64(bit), 0, 0, out.heap, strings, axes)
            elif k == TIMESTAMP_COLUMN:
                at = put_value(out, at, number, TIMESTAMP, load_i64(data[c] + 8 * i), 0, 0, out.heap, strings, axes)
            elif k == SHAPE_COLUMN:
                packed = load_i64(data[c] + 8 * i)
                at = put_value(out, at, number, packed & 255, 0, packed >> 8, 0, out.heap, strings, axes)
            else:
                at = put_value(out, at, number, OTHER, 0, 0, 0, out.heap, strings, axes)
        out.start[row + 1] = at
        out.carried[row] = carried


def empty_batch(rows: int, entries: int, heap: U8) -> Batch:
    """With every row at the root, without time, carrying nothing yet."""
    return Batch(
        np.zeros(rows + 1, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.uint8),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int32),
        np.empty(entries, np.uint64),
        np.empty(entries, np.uint64),
        heap,
        np.zeros(rows, np.int32),
        np.zeros(rows, np.uint8),
        np.zeros(rows, np.int32),
        np.ones(rows, np.uint8),
        np.full(rows, NO_TIME, np.int64),
        np.full(rows, NEVER_EXPIRES, np.int64),
        np.arange(rows, dtype=np.int32),
    )


# Fields of a batch: their type, and how many there are: per row (0), per entry (1), one more than rows (2), bytes of strings (3).
_FIELDS: Final[dict[str, tuple[np.dtype[Any], int]]] = {
        "start": (np.dtype(np.int64), 2), "attribute": (np.dtype(np.int32), 1), "tag": (np.dtype(np.uint8), 1),
        "bits": (np.dtype(np.int64), 1), "offset": (np.dtype(np.int64), 1), "length": (np.dtype(np.int32), 1),
        "low": (np.dtype(np.uint64), 1), "high": (np.dtype(np.uint64), 1), "heap": (np.dtype(np.uint8), 3),
        "carried": (np.dtype(np.int32), 0), "vague": (np.dtype(np.uint8), 0), "topic": (np.dtype(np.int32), 0),
        "exact": (np.dtype(np.uint8), 0), "published_at": (np.dtype(np.int64), 0), "expires_at": (np.dtype(np.int64), 0),
        "publication": (np.dtype(np.int32), 0),
    }  # fmt: skip
_SHAPES_OF_FIELDS: Final = tuple(_FIELDS.values())


_HEAP: Final = 2 * list(_FIELDS).index("heap")  # in a table of addresses and lengths: where the strings are
# in such a table: which are addresses
_ADDRESSES: Final = np.tile(np.array([1, 0], np.int64), len(_SHAPES_OF_FIELDS))


@lru_cache(maxsize=64)
def _flat_layout(counts: tuple[int, int, int, int]) -> tuple[int, npt.NDArray[np.int64]]:
    """Bytes in all, and where each field begins and how many it has. Each begins at a multiple of 8."""
    table: list[int] = []
    at = 0
    for kind, per in _SHAPES_OF_FIELDS:
        table += (at, counts[per])
        at += (kind.itemsize * counts[per] + 7) & ~7
    return at, np.array(table, np.int64)


class FlatBatch:
    """A batch in one piece of memory: for kernels at once, as arrays only when somebody asks. Nothing is filled in."""

    __slots__ = ("_buffer", "_counts", "_heap", "_table", "address", "rows")

    def __init__(self, rows: int, entries: int, heap: int | U8) -> None:
        """`heap`: how many bytes of strings there is room for, or where they are already."""
        self.rows = rows
        self._heap = None if isinstance(heap, int) else heap
        self._counts = counts = (rows, entries, rows + 1, max(heap, 1) if isinstance(heap, int) else 1)
        size, table = _flat_layout(counts)
        self._buffer = np.empty(size, np.uint8)
        self._table = table + self._buffer.__array_interface__["data"][0] * _ADDRESSES
        if self._heap is not None:
            self._table[_HEAP] = self._heap.__array_interface__["data"][0]
            self._table[_HEAP + 1] = len(self._heap)
        self.address = self._table.__array_interface__["data"][0]

    def arrays(self) -> Batch:
        fields: list[Any] = []
        at = 0
        for kind, per in _SHAPES_OF_FIELDS:
            size = kind.itemsize * self._counts[per]
            fields.append(self._buffer[at : at + size].view(kind))
            at += (size + 7) & ~7
        made = Batch._make(fields)
        return made if self._heap is None else made._replace(heap=self._heap)


def writable(values: Any, dtype: Any) -> Any:
    """Read-only arrays would be a second signature of every kernel."""
    fresh = np.ascontiguousarray(values, dtype)
    return fresh if fresh.flags.writeable else fresh.copy()


_KINDS: Final = {
    pa.int64(): INT64_COLUMN,
    pa.float64(): FLOAT64_COLUMN,
    pa.bool_(): BOOLEAN_COLUMN,
    pa.timestamp("us", "UTC"): TIMESTAMP_COLUMN,
    pa.timestamp("us"): TIMESTAMP_COLUMN,
    pa.string(): STRING_COLUMN,
    pa.large_string(): LARGE_STRING_COLUMN,
}
SHAPES: Final = {
    ("lon", "lat"): POINT,
    ("lon", "lat", "radius_m"): CIRCLE,
    ("min_x", "min_y", "max_x", "max_y"): BOX,
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
        if (kind == STRING_COLUMN or kind == LARGE_STRING_COLUMN) and buffers[2] is not None and attribute >= 0:
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


def batch_of_table(
    table: pa.Table, numbers: dict[str, int], strings: StringView, topics: TopicView, axes: I32 = _NO_AXES
) -> Batch:
    """A column per attribute, null is absent; `_topic`, `_published_at` and `_expires_at` say place and time."""
    columns = _Columns()
    rows = table.num_rows
    for name, column in zip(table.column_names, table.columns, strict=True):
        if name[:1] != "_" or name not in ("_topic", "_published_at", "_expires_at"):
            columns.add(name, column, numbers.get(name, -1))
    known = sum(
        (1 + AXES if kind == SHAPE_COLUMN else 1)
        for kind, attribute in zip(columns.kind, columns.attribute, strict=True)
        if attribute >= 0
    )
    out = empty_batch(rows, rows * known, columns.heap())
    _fill_from_columns(
        out,
        np.array(columns.kind, np.uint8),
        np.array(columns.attribute, np.int32),
        np.array(columns.counted, np.uint8),
        np.array(columns.validity, np.int64),
        np.array(columns.data, np.int64),
        np.array(columns.first, np.int64),
        np.array(columns.base, np.int64),
        strings,
        axes,
    )
    read_place_and_time(out, table, topics)
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
