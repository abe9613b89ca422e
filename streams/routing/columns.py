"""A chunk of publications or subscriptions in columns, as a scheme reads it, and where they go, in columns too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import (
    BOOLEAN,
    BOX,
    CIRCLE,
    FLOAT,
    INTEGER,
    PATH,
    POINT,
    STRING,
    TIMESTAMP,
    Attributes,
)
from pastforward.columns.texts import Texts, as_kernel
from pastforward.columns.times import datetime_of, micros_of
from pastforward.columns.vocabulary import SEMANTICS
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.matching.conditions.types import INT64_MAX, INT64_MIN
from pastforward.matching.conditions.values import Box, Circle, Path, Point, Value
from pastforward.schemas.condition_bytes import condition_bytes
from pastforward.streams.routing.records import Publication, RoutedPublication, RoutedSubscription

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Publications:
    """`conditions` has the rows that publish a condition. Topics are valid Dewey paths."""

    ids: Texts
    topics: Texts
    attributes: Attributes
    conditions: Mapping[int, NormalForm] = field(default_factory=dict)

    @classmethod
    def of(cls, publications: Sequence[RoutedPublication]) -> Publications:
        """From records in Python. Slow: codecs fill the columns themselves."""
        return cls(
            Texts.of([publication.publication_id.encode() for publication in publications]),
            Texts.of([publication.topic.encode() for publication in publications]),
            attribute_columns([publication.attributes for publication in publications]),
            {row: said.condition for row, said in enumerate(publications) if said.condition is not None},
        )

    def __len__(self) -> int:
        return len(self.attributes)

    def row(self, row: int) -> Publication:
        values = attribute_values(self.attributes, row)
        name, topic = self.ids[row] or b"", self.topics[row] or b""
        return Publication(name.decode(), topic.decode(), values, self.conditions.get(row))


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """What decides where subscriptions go. `semantics` are places in `vocabulary.SEMANTICS`, `conditions` the normal forms as
    `schemas.condition_bytes` writes them. Topics are valid Dewey paths."""

    ids: Texts
    topics: Texts
    semantics: U8
    conditions: Sequence[bytes]

    @classmethod
    def of(cls, subscriptions: Sequence[RoutedSubscription]) -> Subscriptions:
        """From records in Python. Slow: the router has the columns."""
        return cls(
            Texts.of([subscription.subscription_id.encode() for subscription in subscriptions]),
            Texts.of([subscription.topic.encode() for subscription in subscriptions]),
            np.array([SEMANTICS.index(subscription.semantics) for subscription in subscriptions], np.uint8),
            [condition_bytes(subscription.condition) for subscription in subscriptions],
        )

    def __len__(self) -> int:
        return len(self.conditions)


class EntryColumns(NamedTuple):
    """`columns.attributes.Attributes` without the names."""

    start: I64
    name: I32
    tag: U8
    bits: I64
    length: I32
    heap: U8


def entry_columns(attributes: Attributes) -> EntryColumns:
    """The arrays as kernels take them: Numba compiles a second time for read-only ones, which Arrow hands out."""
    return EntryColumns(
        as_kernel(attributes.start, np.int64),
        as_kernel(attributes.name, np.int32),
        as_kernel(attributes.tag, np.uint8),
        as_kernel(attributes.bits, np.int64),
        as_kernel(attributes.length, np.int32),
        as_kernel(attributes.heap, np.uint8),
    )


class Placement(NamedTuple):
    """Row `i` goes to `partition[start[i]:start[i + 1]]`: sorted, no repeats, never empty."""

    start: I64
    partition: I32

    def row(self, row: int) -> tuple[int, ...]:
        return tuple(self.partition[self.start[row] : self.start[row + 1]].tolist())

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Placement:
        start = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=start[1:])
        return cls(start, np.fromiter((p for row in rows for p in row), np.int32, int(start[-1])))

    @classmethod
    def alike(cls, partitions: Sequence[int], rows: int) -> Placement:
        """All rows go to the same partitions."""
        start = np.arange(rows + 1, dtype=np.int64) * len(partitions)
        return cls(start, np.tile(np.array(partitions, np.int32), rows))

    @classmethod
    def filled(cls, rows: int, partitions: int, fill: Callable[[int, I64, I32], int]) -> Placement:
        """By a kernel that is given the row to go on with, `start` and `partition`, and says before which row it ran out of
        room. Few rows go everywhere, so that room for all of them to do so would be wasted."""
        start = np.zeros(rows + 1, np.int64)
        partition = np.empty(2 * rows + partitions, np.int32)
        row = fill(0, start, partition)
        while row < rows:
            grown = np.empty(2 * len(partition), np.int32)
            grown[: start[row]] = partition[: start[row]]
            partition = grown
            row = fill(row, start, partition)
        return cls(start, partition[: start[rows]])

    def lists(self) -> list[tuple[int, ...]]:
        """The partitions of each row."""
        partitions, start = self.partition.tolist(), self.start.tolist()
        if len(partitions) == len(start) - 1:
            return [(partition,) for partition in partitions]
        return [tuple(partitions[low:high]) for low, high in pairwise(start)]

    def replaced(self, rows: Mapping[int, Sequence[int]]) -> Placement:
        """The same with other answers for some rows."""
        if not rows:
            return self
        count = np.diff(self.start)
        kept = np.ones(len(count), bool)
        for row, partitions in rows.items():
            count[row] = len(partitions)
            kept[row] = False
        start = np.zeros(len(self.start), np.int64)
        np.cumsum(count, out=start[1:])
        partition = np.empty(int(start[-1]), np.int32)
        partition[np.repeat(kept, count)] = self.partition[np.repeat(kept, np.diff(self.start))]
        for row, partitions in rows.items():
            partition[start[row] : start[row + 1]] = partitions
        return Placement(start, partition)


def attribute_columns(rows: Sequence[Mapping[str, Value]]) -> Attributes:
    """Values that no attribute can have (None, an integer beyond 64 bits) are left out."""
    names: dict[str, int] = {}
    start, entries, heap = [0], list[tuple[int, int, int, int]](), bytearray()
    for row in rows:
        for name, value in row.items():
            packed = _pack(value)
            if packed is None:
                continue
            tag, content = packed
            bits, length = (content, 0) if isinstance(content, int) else (len(heap), len(content))
            if isinstance(content, bytes):
                heap += content
            entries.append((names.setdefault(name, len(names)), tag, bits, length))
        start.append(len(entries))
    name_, tag_, bits_, length_ = zip(*entries, strict=True) if entries else ((), (), (), ())
    return Attributes(
        list(names),
        np.array(start, np.int64),
        np.array(name_, np.int32),
        np.array(tag_, np.uint8),
        np.array(bits_, np.int64),
        np.array(length_, np.int32),
        np.frombuffer(heap, np.uint8),
    )


def _pack(value: object) -> tuple[int, int | bytes] | None:
    if isinstance(value, bool):
        return BOOLEAN, int(value)
    if isinstance(value, int):
        return (INTEGER, value) if INT64_MIN <= value <= INT64_MAX else None
    if isinstance(value, float):
        return FLOAT, int(np.float64(value).view(np.int64))
    if isinstance(value, datetime):
        return TIMESTAMP, micros_of(value)
    if isinstance(value, str):
        return STRING, value.encode()
    if isinstance(value, Path):
        return PATH, value.text.encode()
    for tag, shape in ((POINT, Point), (CIRCLE, Circle), (BOX, Box)):
        if isinstance(value, shape):
            return tag, np.array(astuple(value), "<f8").tobytes()
    return None


def attribute_values(attributes: Attributes, row: int) -> dict[str, Value]:
    """The attributes of one row as Python values. Slow: for what the kernels leave over."""
    entries = range(int(attributes.start[row]), int(attributes.start[row + 1]))
    return {attributes.names[int(attributes.name[entry])]: _value(attributes, entry) for entry in entries}


def _value(attributes: Attributes, entry: int) -> Value:
    tag, bits, length = int(attributes.tag[entry]), int(attributes.bits[entry]), int(attributes.length[entry])
    if tag == BOOLEAN:
        return bool(bits)
    if tag == INTEGER:
        return bits
    if tag == FLOAT:
        return float(np.int64(bits).view(np.float64))
    if tag == TIMESTAMP:
        return datetime_of(bits)
    data = attributes.heap[bits : bits + length].tobytes()
    if tag == STRING:
        return data.decode()
    if tag == PATH:
        return Path(data.decode())
    numbers = np.frombuffer(data, "<f8").tolist()
    if tag == POINT:
        return Point(*numbers)
    if tag == CIRCLE:
        return Circle(*numbers)
    if tag == BOX:
        return Box(*numbers)
    raise ValueError(f"an attribute has the unknown tag {tag}; see pastforward.columns.attributes for those that are")
