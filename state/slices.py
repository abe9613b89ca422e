"""A slice: publications that arrived one after the other, on disk by columns (see `state.blocks`), with what tells in memory which of
its blocks a search needs: topics, bounds of times, and of each attribute types, bounds and a small filter."""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from pastforward.columns.attributes import STRING
from pastforward.state import blocks
from pastforward.state.families import Family
from pastforward.state.kernels import sealing
from pastforward.state.kernels.records import Array, Rows
from pastforward.state.keys import AFTER, MARK

ZONE: Final = np.dtype(
    [
        ("kinds", "u2"),  # a bit for each tag of `columns.attributes`, bit 0: absent somewhere
        ("low", "f8"),  # of numbers and times, rounded away from what lies between
        ("high", "f8"),
        ("first", "u8"),  # of texts, their first eight bytes
        ("last", "u8"),
        ("hashes", "u8"),  # of texts: a bit for each value of six bits of their hashes
    ]
)
"""Of an attribute in a block."""

TIME, OTHER, ARRIVED, SEQUENCE = 0, 2, 4, 6
"""Columns of `bounds`: the least, and behind it the greatest."""


class Times(NamedTuple):
    time: Array
    other: Array
    arrived: Array
    sequence: Array
    flags: Array


class Values(NamedTuple):
    """An attribute of a block: tags (0: absent), bits, and of texts the first eight bytes."""

    kinds: Array
    bits: Array
    leading: Array | None


@dataclass(slots=True)
class Slice:
    """`complete`: an attribute that has no column here is in none of the publications. `until`: the last log time at which any may
    matter."""

    serial: int
    until: int
    integers: bool
    many: bool
    complete: bool
    starts: Array  # of blocks, and the end
    bounds: Array
    first: list[bytes]  # topics
    last: list[bytes]
    attributes: dict[str, tuple[int, Array]]
    family: Family = field(repr=False)

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    @property
    def size(self) -> int:
        """Bytes in memory."""
        topics = sum(map(len, self.first)) + sum(map(len, self.last)) + 140 * len(self.first)
        return topics + self.bounds.nbytes + sum(250 + zones.nbytes for _, zones in self.attributes.values())

    def record(self) -> bytes:
        head = {
            "serial": self.serial,
            "until": self.until,
            "integers": self.integers,
            "many": self.many,
            "complete": self.complete,
            "attributes": {name: number for name, (number, _) in self.attributes.items()},
        }
        ends = np.cumsum([0, *map(len, self.first), *map(len, self.last)])
        zones = b"".join(zones.tobytes() for _, zones in self.attributes.values())
        topics = blocks.pack_texts(np.frombuffer(b"".join(self.first + self.last), np.uint8), ends)
        return blocks.join([json.dumps(head).encode(), self.starts.tobytes(), self.bounds.tobytes(), topics, zones])

    @classmethod
    def read(cls, data: bytes, family: Family) -> Slice:
        text, starts, bounds, topics, zones = blocks.split(data, 5)
        head = json.loads(bytes(text))
        begins = blocks.array(starts, np.int64)
        count = len(begins) - 1
        names, at = blocks.unpack_texts(bytes(topics), 2 * count)
        raw, ends = names.tobytes(), at.tolist()
        paths = [raw[low:high] for low, high in itertools.pairwise(ends)]
        each = blocks.array(zones, ZONE).reshape(-1, count)
        columns = {name: (number, each[i].copy()) for i, (name, number) in enumerate(head["attributes"].items())}
        table = blocks.array(bounds, np.int64).reshape(count, -1)
        return cls(
            head["serial"], head["until"], head["integers"], head["many"], head["complete"],
            begins, table, paths[:count], paths[count:], columns, family,
        )  # fmt: skip

    # Which blocks.

    def blocks_of(self, path: bytes, *, above: bool, below: bool) -> list[int]:
        """Those that may hold a topic, those above it, and those below it."""
        found: set[int] = set()
        if below:
            found.update(range(bisect_left(self.last, path), bisect_left(self.first, path + AFTER)))
        else:
            found.update(range(bisect_left(self.last, path), bisect_right(self.first, path)))
        if above:
            for end in _prefixes(path):
                upper = path[:end]
                found.update(range(bisect_left(self.last, upper), bisect_right(self.first, upper)))
        return sorted(found)

    def within(self, block: int, path: bytes) -> bool:
        """The whole block is at the topic or below it."""
        return self.first[block].startswith(path) and self.last[block].startswith(path)

    # Reading.

    def count(self, block: int) -> int:
        return int(self.starts[block + 1] - self.starts[block])

    def _get(self, column: int, block: int = 0) -> bytes:
        value: bytes | None = self.family.rdict.get(blocks.key(self.serial, column, block))
        if value is None:
            raise Exception(f"Corruption: column {column} of block {block} of slice {self.serial} is missing")
        return value

    def topics(self, block: int) -> tuple[list[bytes], list[int]]:
        """Of a block, in order, with their first rows, and the number of rows behind them."""
        counts, texts = blocks.split(self._get(blocks.TOPICS, block), 2)
        count = int.from_bytes(counts[:4], "little")
        data, at = blocks.unpack_texts(bytes(texts), count)
        raw, ends = data.tobytes(), at.tolist()
        starts = blocks.unpack(counts[4:], count).tolist()
        return [raw[low:high] for low, high in itertools.pairwise(ends)], [*starts, self.count(block)]

    def spans(self, block: int, path: bytes, *, above: bool, below: bool) -> list[tuple[int, int]]:
        """Rows of the block at a topic, above and below it."""
        topics, starts = self.topics(block)
        spans = []
        if above:
            for end in _prefixes(path):
                at = bisect_left(topics, path[:end])
                if at < len(topics) and topics[at] == path[:end]:
                    spans.append((starts[at], starts[at + 1]))
        low = bisect_left(topics, path)
        high = bisect_left(topics, path + AFTER) if below else bisect_right(topics, path)
        if low < high:
            spans.append((starts[low], starts[high]))
        return spans

    def times(self, block: int) -> Times:
        count = self.count(block)
        parts = blocks.split(self._get(blocks.TIMES, block), 5)
        time, other, arrived, sequence, flags = (blocks.unpack(part, count) for part in parts)
        return Times(time, other, arrived, sequence, flags.astype(np.uint8))

    def values(self, block: int, name: str, *, leading: bool) -> Values:
        """Of an attribute that has a column."""
        number, zones = self.attributes[name]
        count = self.count(block)
        if zones["kinds"][block] == 1:
            return Values(np.zeros(count, np.uint8), np.zeros(count, np.int64), None)
        kinds, bits = blocks.split(self._get(blocks.ATTRIBUTES + 2 * number, block), 2)
        first = None
        if leading and zones["kinds"][block] & 1 << STRING:
            first = blocks.unpack(self._get(blocks.ATTRIBUTES + 2 * number + 1, block), count).view(np.uint64)
        tags = blocks.unpack(kinds, count).astype(np.uint8)
        return Values(tags, blocks.unpack(bits, count), first)

    def id_hashes(self) -> Array:
        return blocks.array(self._get(blocks.ID_HASHES), np.int64)

    def topic_hashes(self) -> Array:
        return blocks.array(self._get(blocks.TOPIC_HASHES), np.int64)

    def payloads(self, block: int, rows: Array) -> tuple[Array, Array]:
        """Of some rows, in order: the bytes, and where each begins and the last ends."""
        count = self.count(block)
        head = self._get(blocks.PAYLOAD_ENDS, block)
        lengths, cuts = blocks.split(head, 2)
        at = np.zeros(count + 1, np.int64)
        np.cumsum(blocks.unpack(lengths, count), out=at[1:])
        begins = np.frombuffer(cuts, "<u4").astype(np.int64)
        part_of = np.searchsorted(begins, rows, "right") - 1
        parts = np.unique(part_of)
        keys = [blocks.key(self.serial, blocks.PAYLOADS, block, part) for part in parts.tolist()]
        data = self.family.rdict.get(keys)
        if any(part is None for part in data):
            raise Exception(f"Corruption: payloads of block {block} of slice {self.serial} are missing")
        joined = np.frombuffer(bytearray().join(data), np.uint8)
        sizes = np.zeros(len(parts) + 1, np.int64)
        np.cumsum(list(map(len, data)), out=sizes[1:])
        place = np.searchsorted(parts, part_of)
        low = at[rows] - at[begins[part_of]] + sizes[place]
        ends = np.zeros(len(rows) + 1, np.int64)
        high = low + at[rows + 1] - at[rows]
        out = np.empty(int((high - low).sum()), np.uint8)
        sealing.copy_spans(joined, low, high, ends[1:], out)
        return out, ends

    def rows_at(self, block: int, rows: Array) -> Rows:
        """As the index takes them."""
        count = self.count(block)
        times = self.times(block)
        topics, starts = self.topics(block)
        which = np.searchsorted(np.array(starts), rows, "right") - 1
        topic_data, topic_at = _texts([topics[i] for i in which.tolist()])
        number, id_data, id_at = np.zeros(len(rows), np.int64), np.empty(0, np.uint8), np.zeros(len(rows) + 1, np.int64)
        ids = self._get(blocks.IDS, block)
        if self.integers:
            number = blocks.unpack(ids, count)[rows]
        else:
            id_data, id_at = _taken(*blocks.unpack_texts(ids, count), rows)
        subscribers = self.family.rdict.get(blocks.key(self.serial, blocks.SUBSCRIBERS, block))
        subscriber_data, subscriber_at = np.empty(0, np.uint8), np.zeros(len(rows) + 1, np.int64)
        if subscribers is not None:
            subscriber_data, subscriber_at = _taken(*blocks.unpack_texts(subscribers, count), rows)
        payload_data, payload_at = self.payloads(block, rows)
        sealed = sealing.Sealed(
            times.time[rows], times.other[rows], times.arrived[rows], times.sequence[rows], times.flags[rows], number,
            id_data, id_at, topic_data, topic_at, subscriber_data, subscriber_at, payload_data, payload_at,
        )  # fmt: skip
        keys = len(topic_data) + (9 + 8 * self.integers) * len(rows) + len(id_data)
        values = sealing.HEADER * len(rows) + len(subscriber_data) + len(payload_data)
        out = Rows(
            keys=np.empty(keys, np.uint8),
            key_ends=np.empty(len(rows), np.int64),
            values=np.empty(values, np.uint8),
            value_ends=np.empty(len(rows), np.int64),
            family=np.zeros(len(rows), np.int16),
        )
        sealing.rows_of(sealed, self.integers, out)
        return out

    def all_rows(self, replaced: Array) -> Iterator[Rows]:
        """But for those at these positions in the log."""
        for block in range(len(self.first)):
            rows = np.arange(self.count(block))
            if len(replaced):
                rows = rows[~np.isin(self.times(block).sequence, replaced)]
            if len(rows):
                yield self.rows_at(block, rows)


def _prefixes(path: bytes) -> list[int]:
    """Where the topics above a path end."""
    ends = []
    at = 0
    while at < len(path):
        ends.append(at)
        at += 1 + path[at] - MARK
    return ends


def _texts(values: list[bytes]) -> tuple[Array, Array]:
    at = np.zeros(len(values) + 1, np.int64)
    np.cumsum(list(map(len, values)), out=at[1:])
    return np.frombuffer(bytearray().join(values), np.uint8), at


def _taken(data: Array, at: Array, rows: Array) -> tuple[Array, Array]:
    ends = np.zeros(len(rows) + 1, np.int64)
    low, high = at[rows], at[rows + 1]
    out = np.empty(int((high - low).sum()), np.uint8)
    sealing.copy_spans(data, low, high, ends[1:], out)
    return out, ends
