"""The current version of each entity, by id: one table per partition of the publications topic.

The router owns them. A version goes to the partitions of the one before and to its own, and carries the attributes of the one before. The
changelog is the topic `entities`: of each entity its current version as a rendezvous record, null after a withdrawal or an expiry. The
table in memory holds the same bytes, and is read from there on takeover.

What has expired, by the arrivals of the input, counts as gone; when it leaves the memory and the topic, a few a record, makes no
difference.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Final

from pastforward.schemas import CanonicalPublication, Entity, Rendezvous, decode_rendezvous, encode
from pastforward.streams.stages.outgoing import Outgoing

STEP: Final = 4  # expired entities that are forgotten for each record: more than one record can add


class Entities:
    """Changes can be undone, as long as their chunk may fail."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._versions: dict[bytes, bytes] = {}
        self._before: dict[bytes, bytes | None] = {}  # since `begin`: versions as they were
        self._expiries: list[tuple[int, bytes]] = []  # a heap; what was replaced since has left an entry behind

    def __len__(self) -> int:
        return len(self._versions)

    def begin(self) -> None:
        """From here on every change can be undone."""
        self._before.clear()

    def undo(self) -> None:
        for name, value in self._before.items():
            self._put(name, value)
            if value is not None:
                self._watch(name, decode_rendezvous(value))
        self._before.clear()

    def restore(self, records: Sequence[Any]) -> None:
        for record in records:
            self._put(record.key, record.value)

    def arrange(self) -> None:
        """After all of `restore`."""
        for name, value in self._versions.items():
            self._watch(name, decode_rendezvous(value))

    def current(self, name: bytes, now: int) -> Rendezvous | None:
        """`now`, here and below: the highest arrival so far."""
        value = self._versions.get(name)
        if value is None:
            return None
        found = decode_rendezvous(value)
        expires_at = _record(found).expires_at
        return None if expires_at is not None and expires_at <= now else found

    def replace(self, name: bytes, version: Rendezvous, outgoing: Outgoing) -> Rendezvous | None:
        """What to hand on of a version, whose `partitions` are its own. None: it has no effect."""
        record, now = _record(version), version.arrived_at
        entity = record.entity
        assert entity is not None
        before = self.current(name, now)
        if record.expires_at is not None and record.expires_at <= now:
            return self.withdraw(name, version, outgoing)
        if before is not None:
            known = _record(before)
            assert known.entity is not None
            # one that leaves out when it was published is a version of now
            if entity.digest == known.entity.digest and record.published_at != now:
                return None
            entity.before, entity.previous = before.partitions, known.attributes
        value = encode(version)
        self._log(name, value, outgoing)
        self._watch(name, version)
        return version

    def withdraw(self, name: bytes, at: Rendezvous, outgoing: Outgoing) -> Rendezvous | None:
        """`at`: an envelope that says where and when the withdrawal came."""
        before = self.current(name, at.arrived_at)
        if before is None:
            return None
        known = _record(before)
        gone = Entity(before.partitions, known.attributes)
        at.record = CanonicalPublication(
            known.publication_id, known.publisher_id, known.topic, at.arrived_at, None, entity=gone
        )
        at.partitions = ()
        self._log(name, None, outgoing)
        return at

    def advance(self, now: int, outgoing: Outgoing, most: int = STEP) -> int:
        """Forgets some of what has expired, and returns how many it has looked at."""
        looked = 0
        while looked < most and self._expiries and self._expiries[0][0] <= now:
            _, name = heapq.heappop(self._expiries)
            looked += 1
            if name in self._versions and self.current(name, now) is None:
                self._log(name, None, outgoing)
        return looked

    def _log(self, name: bytes, value: bytes | None, outgoing: Outgoing) -> None:
        self._before.setdefault(name, self._versions.get(name))
        self._put(name, value)
        outgoing.log(self._topic, self._partition, name, value)

    def _put(self, name: bytes, value: bytes | None) -> None:
        if value is None:
            self._versions.pop(name, None)
        else:
            self._versions[name] = value

    def _watch(self, name: bytes, version: Rendezvous) -> None:
        expires_at = _record(version).expires_at
        if expires_at is not None:
            heapq.heappush(self._expiries, (expires_at, name))


def goes_to(version: Rendezvous) -> tuple[int, ...]:
    """The partitions of a version of an entity and those of the one before."""
    entity = _record(version).entity
    assert entity is not None
    return tuple(sorted({*version.partitions, *entity.before}))


def _record(version: Rendezvous) -> CanonicalPublication:
    assert isinstance(version.record, CanonicalPublication)
    return version.record
