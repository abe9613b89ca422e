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

from pastforward.columns.attributes import BOOLEAN, FLOAT, INTEGER, PATH, STRING, TIMESTAMP
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Int
from pastforward.columns.times import EARLIEST, LATEST
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
from pastforward.matching.index.places import is_shape, is_valid, put_axes
from pastforward.matching.index.strings import StringView, find_bytes
from pastforward.matching.index.topics import TopicView, check_topic, find_topic

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

NO_TIME: Final = EARLIEST  # published_at was not given: no window is asked about
NEVER_EXPIRES: Final = LATEST
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
def put_value(out: Batch, at: Int, attribute: Int, value: Any, heap: U8, strings: StringView, axes: I32) -> Int:
    """Writes the entry of a value, canonical, and for a shape those on the axes. `value`: tag, bits, offset, length. Returns where the next
    entry goes."""
    tag, bits, offset, length = value
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
