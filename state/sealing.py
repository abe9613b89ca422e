"""Makes a slice: publications leave the index and become columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from pastforward.columns.attributes import FLOAT, INTEGER, STRING, TIMESTAMP, Attributes
from pastforward.columns.texts import Texts, as_kernel
from pastforward.state import blocks
from pastforward.state.families import Family
from pastforward.state.kernels import gather, heads, records, sealing
from pastforward.state.kernels.records import Array, Memory
from pastforward.state.slices import ZONE, Slice

Reader: TypeAlias = Callable[[Texts], Attributes]
"""The attributes of publications, from their payloads."""

Put: TypeAlias = Callable[[bytes, bytes, Any], None]

COLUMNS: Final = 256
"""Attributes that have a column in a slice; a publication with others may match what asks for those."""
_ORDERED: Final = (INTEGER, FLOAT, TIMESTAMP)


class Order(NamedTuple):
    """Publications that are in no slice, by topic and then latest first. `ranks`: places in `paths`."""

    items: Array
    ranks: Array
    paths: list[bytes]
    hashes: Array  # of the paths


def in_order(memory: Memory) -> Order:
    room = int(memory.scalars[records.NODE_TOP])
    nodes = np.empty(room, np.int64)
    nodes = nodes[: sealing.topics_held(memory, nodes)]
    ends = np.empty(len(nodes), np.int64)
    sealing.path_ends(memory, nodes, ends)
    text = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    sealing.write_paths(memory, nodes, text)
    raw, at = text.tobytes(), [0, *ends.tolist()]
    paths = [raw[low:high] for low, high in itertools.pairwise(at)]
    order = sorted(range(len(paths)), key=paths.__getitem__)
    nodes = nodes[order]
    items, ranks = np.empty(len(memory.items), np.int64), np.empty(len(memory.items), np.int64)
    count = sealing.in_order(memory, nodes, items, ranks)
    hashes = np.empty(len(nodes), np.int64)
    heads.node_hashes(memory, nodes, hashes)
    return Order(items[:count].copy(), ranks[:count].copy(), [paths[i] for i in order], hashes)


class Dense:
    """The attributes of some publications, a row for each attribute. `known`: those that must have one."""

    def __init__(self, attributes: Attributes | None, rows: int, known: Container[str] = ()) -> None:
        names = [] if attributes is None else attributes.names
        order = np.array(sorted(range(len(names)), key=lambda at: names[at] not in known), np.int64)[:COLUMNS]
        self.names = [names[at] for at in order.tolist()]
        self.complete = attributes is not None and len(names) <= COLUMNS
        self.kinds = np.zeros((len(self.names), rows), np.uint8)
        self.bits = np.zeros((len(self.names), rows), np.int64)
        self.leading = np.zeros((len(self.names), rows), np.uint64)
        if attributes is not None and names:
            column_of = np.full(len(names), -1)
            column_of[order] = np.arange(len(order))
            entries = sealing.Entries(
                as_kernel(attributes.start, np.int64), as_kernel(attributes.name, np.int32), as_kernel(attributes.tag, np.uint8),
                as_kernel(attributes.bits, np.int64), as_kernel(attributes.length, np.int32), as_kernel(attributes.heap, np.uint8),
            )  # fmt: skip
            sealing.dense(entries, column_of, 0, self.kinds, self.bits, self.leading)


def payloads_of(memory: Memory, items: Array) -> Texts:
    ends = np.empty(len(items) + 1, np.int64)
    gather.byte_offsets(memory, items, gather.PAYLOAD, ends)
    data = np.empty(int(ends[-1]), np.uint8)
    gather.copy_bytes(memory, items, gather.PAYLOAD, ends, data)
    return Texts(data, ends[:-1], np.diff(ends).astype(np.int32))


class Sealer:
    """Writes the publications of one slice. Used once."""

    def __init__(self, memory: Memory, order: Order, serial: int, family: Family, put: Put) -> None:
        self._memory, self._order, self._serial, self._family = memory, order, serial, family
        self._put_value = put
        self._integers = bool(memory.scalars[records.INTEGER_IDS] == 1)
        self._attributes: dict[str, tuple[int, Array]] = {}
        self._complete = True

    def seal(self, reader: Reader | None, until: int) -> Slice:
        items, ranks, paths, _ = self._order
        starts = self._cuts()
        count = len(starts) - 1
        bounds = np.empty((count, 8), np.int64)
        several = False
        for block in range(count):
            mine = slice(int(starts[block]), int(starts[block + 1]))
            some = items[mine]
            bounds[block] = self._put_times(block, some)
            several |= bool(self._memory.items["many"][some].any())
            self._put_topics(block, ranks[mine])
            self._put_ids(block, some)
            self._put_payloads(block, some, reader, count)
        hashes = np.empty(len(items), np.int64)
        heads.item_hashes(self._memory, items, hashes)
        self._put(blocks.ID_HASHES, 0, hashes.tobytes())
        made = Slice(
            self._serial, until, self._integers, several, self._complete, starts, bounds,
            [paths[ranks[at]] for at in starts[:-1]], [paths[ranks[at - 1]] for at in starts[1:]],
            self._attributes, self._family,
        )  # fmt: skip
        self._put_value(blocks.slice_key(self._serial), made.record(), self._family.handle)
        return made

    def _put(self, column: int, block: int, value: bytes, part: int = 0) -> None:
        self._put_value(blocks.key(self._serial, column, block, part), value, self._family.handle)

    def _cuts(self) -> Array:
        """Where blocks begin, and the end."""
        items = self._order.items
        at = np.empty(len(items) + 1, np.int64)
        gather.byte_offsets(self._memory, items, gather.PAYLOAD, at)
        return cut(at, blocks.BLOCK, blocks.BLOCK_BYTES)

    def _numbers(self, items: Array, field: int) -> Array:
        out = np.empty(len(items), np.int64)
        gather.numbers(self._memory, items, field, out)
        return out

    def _put_times(self, block: int, items: Array) -> list[int]:
        fields = (gather.TIME, gather.OTHER, gather.ARRIVED, gather.SEQUENCE)
        numbers = [self._numbers(items, field) for field in fields]
        held = self._memory.items
        many = np.where(held["many"][items] != 0, records.MANY_ON_DISK, 0)
        flags = (held["flags"][items] & records.ON_DISK) | many
        packed = [blocks.pack(column) for column in (*numbers, flags.astype(np.int64))]
        self._put(blocks.TIMES, block, blocks.join(packed))
        return blocks.bounds_of(numbers)

    def _put_topics(self, block: int, ranks: Array) -> None:
        starts = np.flatnonzero(np.diff(ranks, prepend=-1))
        topics = [self._order.paths[rank] for rank in ranks[starts].tolist()]
        ends = np.cumsum([0, *map(len, topics)])
        texts = blocks.pack_texts(np.frombuffer(b"".join(topics), np.uint8), ends)
        self._put(blocks.TOPICS, block, blocks.join([len(topics).to_bytes(4, "little") + blocks.pack(starts), texts]))

    def _texts(self, items: Array, part: int) -> tuple[Array, Array]:
        ends = np.empty(len(items) + 1, np.int64)
        gather.byte_offsets(self._memory, items, part, ends)
        data = np.empty(int(ends[-1]), np.uint8)
        gather.copy_bytes(self._memory, items, part, ends, data)
        return data, ends

    def _put_ids(self, block: int, items: Array) -> None:
        if self._integers:
            self._put(blocks.IDS, block, blocks.pack(self._numbers(items, gather.IDENTITY)))
        else:
            self._put(blocks.IDS, block, blocks.pack_texts(*self._texts(items, gather.TEXT_ID)))
        subscribers = self._texts(items, gather.SUBSCRIBER)
        if len(subscribers[0]):
            self._put(blocks.SUBSCRIBERS, block, blocks.pack_texts(*subscribers))

    def _put_payloads(self, block: int, items: Array, reader: Reader | None, count: int) -> None:
        data, ends = self._texts(items, gather.PAYLOAD)
        cuts = cut(ends, blocks.PART, blocks.PART_BYTES)
        begins = cuts[:-1].astype("<u4").tobytes()
        self._put(blocks.PAYLOAD_ENDS, block, blocks.join([blocks.pack(np.diff(ends)), begins]))
        places = ends[cuts].tolist()
        for part, (low, high) in enumerate(itertools.pairwise(places)):
            self._put(blocks.PAYLOADS, block, data[low:high].tobytes(), part)
        attributes = None
        if reader is not None:
            attributes = reader(Texts(data, ends[:-1], np.diff(ends).astype(np.int32)))
        dense = Dense(attributes, len(items), self._attributes)
        self._complete &= dense.complete
        for at, name in enumerate(dense.names):
            known = self._attributes.get(name)
            if known is None:
                if len(self._attributes) == COLUMNS:
                    self._complete = False
                    continue
                zones = np.zeros(count, ZONE)
                zones["kinds"] = 1
                known = self._attributes[name] = len(self._attributes), zones
            self._put_attribute(block, known, dense.kinds[at], dense.bits[at], dense.leading[at])

    def _put_attribute(self, block: int, column: tuple[int, Array], kinds: Array, bits: Array, leading: Array) -> None:
        number, zones = column
        zone = zones[block]
        present = np.flatnonzero(np.bincount(kinds, minlength=1))
        zone["kinds"] = sum(1 << int(kind) for kind in present)
        if zone["kinds"] == 1:
            return
        low, high = [], []
        for kind in _ORDERED:
            if kind in present:
                some = bits[kinds == kind] if len(present) > 1 else bits
                numbers = some.view(np.float64) if kind == FLOAT else some
                with np.errstate(invalid="ignore", over="ignore"):
                    low.append(np.nextafter(np.fmin.reduce(numbers).astype(np.float64), -np.inf))
                    high.append(np.nextafter(np.fmax.reduce(numbers).astype(np.float64), np.inf))
        zone["low"] = np.fmin.reduce(low) if low else np.inf
        zone["high"] = np.fmax.reduce(high) if high else -np.inf
        if STRING in present:
            texts = slice(None) if len(present) == 1 else kinds == STRING
            zone["first"], zone["last"] = leading[texts].min(), leading[texts].max()
            zone["hashes"] = np.bitwise_or.reduce(np.uint64(1) << (bits[texts] >> 57 & 63).astype(np.uint64))
            self._put(blocks.ATTRIBUTES + 2 * number + 1, block, blocks.pack(leading.view(np.int64)))
        value = blocks.join([blocks.pack(kinds.astype(np.int64)), blocks.pack(bits)])
        self._put(blocks.ATTRIBUTES + 2 * number, block, value)


def cut(at: Array, most: int, most_bytes: int) -> Array:
    """Into parts of at most so many, with at most so many bytes if it is more than one."""
    cuts = [0]
    count = len(at) - 1
    if int(at[-1]) <= most_bytes * (count // most):  # the usual case, if they are of like size
        equal = [*range(0, count, most), count]
        if int(np.diff(at[equal]).max()) <= most_bytes:
            return np.array(equal, np.int64)
    while cuts[-1] < count:
        last = cuts[-1]
        by_bytes = int(np.searchsorted(at, at[last] + most_bytes, "right")) - 1
        cuts.append(max(last + 1, min(last + most, by_bytes, count)))
    return np.array(cuts, np.int64)
