"""Where each subscription went: id → version, partitions, digest of its bytes, end. One table per partition of the input.

The changelog is the truth; the table in memory is read from it on takeover. It holds the changelog's own bytes, so that a million routes
take two hundred megabytes and are read back as fast as Kafka gives them:

    u64 arrival, u32 partition and u64 offset of the version, 16 bytes of digest, then u16 for each rendezvous partition; big-endian
    of one with a set of entities, also: u64 arrival, u32 partition and u64 offset of the version that the set began with, and 8
    bytes of digest of who is told; of one that pauses or resumes another: u64 arrival, u32 partition and u64 offset
    of the version whose requests to the history still count; of one that ends: i64 end; of any of these then a byte, the sum of 2, 4 and
    1, so that the length is odd

Who has ended is forgotten a hot window later: by then no matcher holds it any more. It counts as unknown from that moment on, decided by
the arrivals of the input alone; when it leaves the memory and the changelog, a few routes a record, makes no difference.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from pastforward.schemas import Version
from pastforward.streams.stages.outgoing import Outgoing

DIGEST: Final = 16  # bytes: whoever can make two records meet has only replaced a subscription of his own
_HEAD: Final = struct.Struct(f">QIQ{DIGEST}s")
_DIGEST_AT: Final = _HEAD.size - DIGEST
_END: Final = struct.Struct(">q")
_SET: Final = struct.Struct(">QIQ8s")
_VERSION: Final = struct.Struct(">QIQ")
_ENDS, _HAS_SET, _ASKS_FROM, _PAUSED = 1, 2, 4, 8  # flags in the last byte of an odd length

STEP: Final = 4  # routes that are looked at for each record: more than one record can add
SLICE: Final = (
    60_000_000  # microseconds, at least: routes that end in the same slice are forgotten together, in one list
)
SPARE: Final = 1_000  # entries beyond twice the routes, before the lists are made anew


class HeldSet(NamedTuple):
    """Of a subscription with transitions that is not paused."""

    began: Version
    recipient: bytes  # see `recipient_of`


class Route(NamedTuple):
    version: Version
    partitions: tuple[int, ...]
    digest: bytes
    ends_at: int | None = None
    held_set: HeldSet | None = None
    asks_from: Version | None = None  # None: the version itself
    paused: bool = False

    def set_after(self, arrived_at: int, recipient: bytes) -> Version | None:
        """The version that its set of entities began with, if a version with transitions that arrives then goes on with it."""
        ended = self.ends_at is not None and self.ends_at <= arrived_at
        if self.held_set is None or ended or self.held_set.recipient != recipient:
            return None
        return self.held_set.began


def recipient_of(subscriber_id: bytes) -> bytes:
    return blake2b(subscriber_id, digest_size=8).digest()


def digest_of(value: bytes) -> bytes:
    return blake2b(value, digest_size=DIGEST).digest()


class Routes:
    """`keep` says how long after its end a route counts; without it, for ever."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._routes: dict[bytes, bytes] = {}
        self._before: dict[bytes, bytes | None] = {}  # since `begin`: routes as they were
        self._hot_window: int | None = None
        self._slices: dict[int, list[bytes]] = {}  # slice of time → ids that may be forgotten then
        self._due: list[int] = []  # a heap of the slices
        self._entries = 0

    def keep(self, hot_window: int) -> None:
        """From here on routes are forgotten that long after their end. After `restore`."""
        self._hot_window = hot_window
        self._arrange()

    def begin(self) -> None:
        """From here on every change can be undone."""
        self._before.clear()

    def undo(self) -> None:
        for name, value in self._before.items():
            if value is None:
                self._routes.pop(name, None)
            else:
                self._routes[name] = value
                self._note(name, value)  # it may have been forgotten; an entry too many does no harm
        self._before.clear()

    def __len__(self) -> int:
        return len(self._routes)

    def get(self, name: bytes, now: int) -> Route | None:
        """`now`, here and below: the highest arrival so far."""
        found = self._routes.get(name)
        return None if found is None or self._is_over(found, now) else _decode(found)

    def unchanged(self, name: bytes, digest: bytes, now: int) -> bool:
        """Does that id stand for exactly those bytes already?"""
        found = self._routes.get(name)
        return found is not None and found[_DIGEST_AT : _HEAD.size] == digest and not self._is_over(found, now)

    def put(self, name: bytes, route: Route, outgoing: Outgoing) -> None:
        value = _encode(route)
        self._before.setdefault(name, self._routes.get(name))
        self._routes[name] = value
        self._note(name, value)
        outgoing.log(self._topic, self._partition, name, value)

    def remove(self, name: bytes, outgoing: Outgoing) -> None:
        self._before.setdefault(name, self._routes[name])
        del self._routes[name]
        outgoing.log(self._topic, self._partition, name, None)

    def latest(self) -> int:
        """The highest arrival among the versions in force, in microseconds."""
        return max((int.from_bytes(value[:8], "big") for value in self._routes.values()), default=0)

    def restore(self, records: Sequence[Any]) -> None:
        routes = self._routes
        for record in records:
            if record.value is None:
                routes.pop(record.key, None)
            else:
                routes[record.key] = record.value

    # ------------------------------------------------------------------------------------------ what has ended

    def advance(self, now: int, outgoing: Outgoing, most: int = STEP) -> int:
        """Forgets some of what is over, and returns how many it has looked at."""
        looked = 0
        while looked < most and self._due and (self._due[0] + 1) * self._width <= now:
            names = self._slices[self._due[0]]
            if not names:
                del self._slices[heapq.heappop(self._due)]
                continue
            name = names.pop()
            self._entries -= 1
            looked += 1
            found = self._routes.get(name)
            if found is not None and self._is_over(found, now):  # else it was replaced or withdrawn since
                self.remove(name, outgoing)
        return looked

    def _is_over(self, value: bytes, now: int) -> bool:
        due = self._over_after(value)
        return due is not None and now > due

    def _over_after(self, value: bytes) -> int | None:
        if self._hot_window is None or not len(value) % 2 or not value[-1] & _ENDS:
            return None
        (ends_at,) = _END.unpack_from(value, len(value) - 1 - _END.size)
        return max(int(ends_at), int.from_bytes(value[:8], "big")) + self._hot_window

    @property
    def _width(self) -> int:
        return max(self._hot_window or 0, SLICE)

    def _note(self, name: bytes, value: bytes) -> None:
        due = self._over_after(value)
        if due is None:
            return
        number = due // self._width
        if number not in self._slices:
            self._slices[number] = []
            heapq.heappush(self._due, number)
        self._slices[number].append(name)
        self._entries += 1
        if self._entries > 2 * len(self._routes) + SPARE:
            self._arrange()

    def _arrange(self) -> None:
        """All entries anew, one for each route that ends: those that were replaced or withdrawn have left theirs behind."""
        self._slices, self._due, self._entries = {}, [], 0
        for name, value in self._routes.items():
            self._note(name, value)


def _encode(route: Route) -> bytes:
    version, partitions = route.version, route.partitions
    value = _HEAD.pack(version.arrived_at, version.partition, version.offset, route.digest)
    value += struct.pack(f">{len(partitions)}H", *partitions)
    flags = 0
    if route.held_set is not None:
        began, recipient = route.held_set
        value += _SET.pack(began.arrived_at, began.partition, began.offset, recipient)
        flags |= _HAS_SET
    if route.asks_from is not None:
        value += _VERSION.pack(route.asks_from.arrived_at, route.asks_from.partition, route.asks_from.offset)
        flags |= _ASKS_FROM
    if route.paused:
        flags |= _PAUSED
    if route.ends_at is not None:
        value += _END.pack(route.ends_at)
        flags |= _ENDS
    return value + bytes([flags]) if flags else value


def _decode(value: bytes) -> Route:
    arrived_at, partition, offset, digest = _HEAD.unpack_from(value)
    ends_at, held_set, asks_from, until, flags = None, None, None, len(value), 0
    if until % 2:
        until, flags = until - 1, value[-1]
    if flags & _ENDS:
        until -= _END.size
        (ends_at,) = _END.unpack_from(value, until)
    if flags & _ASKS_FROM:
        until -= _VERSION.size
        asks_from = Version(*_VERSION.unpack_from(value, until))
    if flags & _HAS_SET:
        until -= _SET.size
        *began, recipient = _SET.unpack_from(value, until)
        held_set = HeldSet(Version(*began), recipient)
    partitions = struct.unpack(f">{(until - _HEAD.size) // 2}H", value[_HEAD.size : until])
    return Route(
        Version(arrived_at, partition, offset), partitions, digest, ends_at, held_set, asks_from, bool(flags & _PAUSED)
    )
