"""Where each subscription went: id → version, partitions, digest of its bytes. One table per partition of the input.

The changelog is the truth; the table in memory is read from it on takeover. It holds the changelog's own bytes, so that a million routes
take two hundred megabytes and are read back as fast as Kafka gives them:

    u64 arrival, u32 partition and u64 offset of the version, 16 bytes of digest, then u16 for each rendezvous partition; big-endian
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from schemas import Version
from streams.outgoing import Outgoing

DIGEST: Final = 16  # bytes: whoever can make two records meet has only replaced a subscription of his own
_HEAD: Final = struct.Struct(f">QIQ{DIGEST}s")
_DIGEST_AT: Final = _HEAD.size - DIGEST


class Route(NamedTuple):
    version: Version
    partitions: tuple[int, ...]
    digest: bytes


def digest_of(value: bytes) -> bytes:
    return blake2b(value, digest_size=DIGEST).digest()


class Routes:
    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._routes: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def get(self, name: bytes) -> Route | None:
        found = self._routes.get(name)
        return None if found is None else _decode(found)

    def unchanged(self, name: bytes, digest: bytes) -> bool:
        """Does that id stand for exactly those bytes already?"""
        found = self._routes.get(name)
        return found is not None and found[_DIGEST_AT : _HEAD.size] == digest

    def put(self, name: bytes, route: Route, outgoing: Outgoing) -> None:
        value = _encode(route)
        self._routes[name] = value
        outgoing.log(self._topic, self._partition, name, value)

    def remove(self, name: bytes, outgoing: Outgoing) -> None:
        del self._routes[name]
        outgoing.log(self._topic, self._partition, name, None)

    def restore(self, records: Sequence[Any]) -> None:
        routes = self._routes
        for record in records:
            if record.value is None:
                routes.pop(record.key, None)
            else:
                routes[record.key] = record.value


def _encode(route: Route) -> bytes:
    version, partitions = route.version, route.partitions
    head = _HEAD.pack(version.arrived_at, version.partition, version.offset, route.digest)
    return head + struct.pack(f">{len(partitions)}H", *partitions)


def _decode(value: bytes) -> Route:
    arrived_at, partition, offset, digest = _HEAD.unpack_from(value)
    partitions = struct.unpack(f">{(len(value) - _HEAD.size) // 2}H", value[_HEAD.size :])
    return Route(Version(arrived_at, partition, offset), partitions, digest)
