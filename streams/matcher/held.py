"""Publications as the store holds them: their records, and what came before each on its topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.values import Value
from pastforward.schemas import (
    CanonicalPublication,
    RendezvousColumns,
    decode_rendezvous,
    decode_rendezvous_chunk,
)
from pastforward.state import Found
from pastforward.streams.matcher.filters import marked
from pastforward.streams.matcher.records import partitions_at
from pastforward.streams.reference import offer_of
from pastforward.streams.stages import kernels
from pastforward.streams.stages.kernels import own_records, pack_all, packed_ends
from pastforward.streams.stages.packed import Packed

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MARK: Final = bytes([kernels.MARK])


class Before(NamedTuple):
    """What came before a publication on its topic, fixed when it came: the record of the previous one, and ids."""

    previous: bytes | None = None
    earlier: tuple[str, ...] = ()


NOTHING: Final = Before()


class FoundRows:
    """What the store has found for the rows of a chunk, by row."""

    def __init__(self, found: Found, stored: Rows) -> None:
        self.stored = stored  # the rows that the store was given
        self.rows: Rows = stored[found.row]
        self.published: Flags = found.published
        self.payloads = Packed(found.payloads, found.payload_at)
        self.ids = Packed(found.ids, found.id_at)

    def payload(self, at: Rows) -> list[bytes]:
        return self.payloads.take(at).list()


class Befores:
    """What came before each publication of a chunk: `first[i]:last[i]` of what the store has found, the latest first."""

    def __init__(self, found: FoundRows | None, columns: RendezvousColumns, rows: Rows) -> None:
        self._found, self._columns, self._rows = found, columns, rows
        self.first = self.last = np.zeros(len(rows), np.int64)
        if found is not None and len(rows):
            # of the rows that are publications, found publications come before found subscriptions or have none beside them
            mine = np.flatnonzero(found.published)
            self._at = mine
            self.first = np.searchsorted(found.rows[mine], rows, "left")
            self.last = np.searchsorted(found.rows[mine], rows, "right")

    def __getitem__(self, i: int) -> Before:
        if self.first[i] == self.last[i] or self._found is None:
            return NOTHING
        at = self._at[self.first[i] : self.last[i]]
        previous = unpack(self._found.payloads.text(int(at[0])))[0]
        if not self._columns.self_join[self._rows[i]]:
            return Before(previous)
        names = self._found.ids.take(at).list()
        return Before(previous, tuple(name.partition(b"\0")[0].decode() for name in names))

    def packed(self, values: Packed) -> tuple[Rows, Packed]:
        """The publications that have something before them, and what the store is to keep of them."""
        some = np.flatnonzero(self.last > self.first)
        if not len(some) or self._found is None:
            return some, Packed.of([])
        payloads, ids = self._found.payloads, self._found.ids
        if len(self._at) < len(self._found.rows):
            payloads, ids = payloads.take(self._at), ids.take(self._at)
        first, last, rows = self.first[some], self.last[some], self._rows[some]
        ends = np.zeros(len(some) + 1, np.int64)
        joins = self._columns.self_join
        suffix = 1 + np.maximum(self._columns.topic.length[rows], 0).astype(np.int64)
        found, taken, named, put = (
            (first, last),
            payloads[:],
            ids[:],
            values[:],
        )  # plain tuples, which Numba takes at once
        packed_ends(found, rows, joins, taken, named, suffix, put, ends)
        out = np.empty(int(ends[-1]), np.uint8)
        pack_all(found, rows, joins, taken, named, suffix, put, (out, ends))
        return some, Packed(out, ends)


@dataclass(slots=True)
class Publications:
    """Publications to be matched: of the chunk itself, or found in the store."""

    columns: RendezvousColumns
    rows: Rows
    before: Befores | StoredBefores | list[Before]

    def partitions(self, i: int) -> tuple[int, ...]:
        return partitions_at(self.columns, int(self.rows[i]))

    def topics(self) -> Texts:
        return self.columns.topic.take(self.rows)


def pack(value: bytes, before: Before) -> bytes:
    """What the store keeps of a publication that had others before it on its topic.

    A mark that no record begins with, u32 length of the previous one's record, that record, u16 number of earlier ids, each with
    its length as u16, and then the publication's own record. A publication without any before it is kept as its own record.
    """
    previous = before.previous or b""
    ids = [name.encode() for name in before.earlier]
    parts = [MARK, len(previous).to_bytes(4, "big"), previous, len(ids).to_bytes(2, "big")]
    for name in ids:
        parts += [len(name).to_bytes(2, "big"), name]
    return b"".join([*parts, value])


def unpack(payload: bytes) -> tuple[bytes, Before]:
    if payload[:1] != MARK:
        return payload, NOTHING
    size = int.from_bytes(payload[1:5], "big")
    previous = payload[5 : 5 + size]
    at = 5 + size
    count = int.from_bytes(payload[at : at + 2], "big")
    at += 2
    ids = []
    for _ in range(count):
        length = int.from_bytes(payload[at : at + 2], "big")
        ids.append(payload[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return payload[at:], Before(previous or None, tuple(ids))


class StoredBefores:
    """What came before each of some publications, as the store has it."""

    def __init__(self, payloads: Packed, begin: Rows) -> None:
        self._payloads, self._begin = payloads, begin

    def __getitem__(self, i: int) -> Before:
        if self._begin[i] == self._payloads.at[i]:
            return NOTHING
        return unpack(self._payloads.text(i))[1]


def unpacked(payloads: Packed) -> Publications:
    begin = np.empty(len(payloads), np.int64)
    own_records(payloads.data, payloads.at, begin)
    raw = payloads.data.tobytes()
    values = [raw[low:high] for low, high in zip(begin.tolist(), payloads.at[1:].tolist(), strict=True)]
    return Publications(decode_rendezvous_chunk(values), np.arange(len(values)), StoredBefores(payloads, begin))


def attributes_of(payloads: Texts) -> Attributes:
    """What the store's searches test: constants, and whether more than that is said (`streams.matcher.filters`). `payloads`: one behind the
    other."""
    at = np.append(payloads.at, len(payloads.heap))
    begin = np.empty(len(payloads), np.int64)
    own_records(payloads.heap, at, begin)
    raw = payloads.heap.tobytes()
    values = [raw[low:high] for low, high in zip(begin.tolist(), at[1:].tolist(), strict=True)]
    columns = decode_rendezvous_chunk(values)
    return marked(columns.attributes, columns.where.present())


def attributes_in(value: bytes) -> dict[str, Value]:
    record: Any = decode_rendezvous(value).record
    attributes: dict[str, Value] = record.attributes
    return attributes


def auction_of(payload: bytes) -> tuple[CanonicalPublication, oracle.Publication, tuple[str, ...]]:
    """A publication that asks for offers, as the store and the changelog keep it."""
    value, before = unpack(payload)
    record: Any = decode_rendezvous(value).record
    previous = {} if before.previous is None else attributes_in(before.previous)
    return record, offer_of(record, previous), before.earlier if record.self_join else ()
