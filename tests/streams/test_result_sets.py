"""A subscription with transitions is a result set that is kept true: what `streams.reference` tells, folded, is what matches now."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from pastforward.matching import Condition
from pastforward.matching.conditions import oracle
from pastforward.schemas import (
    CanonicalPublication,
    CanonicalSubscription,
    Entity,
    Notification,
    Rendezvous,
    Version,
    Withdrawal,
)
from pastforward.streams.reference import Partition, offer_of, query_of
from pastforward.streams.router.entities import Entities, goes_to
from pastforward.streams.router.routes import HeldSet, Route, Routes, recipient_of
from pastforward.streams.stages.outgoing import Outgoing

PARTITIONS = 3
HOT = 50
CONDITIONS = [
    Condition.parse(text).disjuncts for text in ("x >= 1", "x = 2", "x < 2", "previous.x < 2", "previous.x IS NULL")
]
CASES = 400


def places(topic: str) -> tuple[int, ...]:
    return (int(topic[0]),) if topic else tuple(range(PARTITIONS))


@dataclass
class World:
    """One subscription and two entities, as the router has handed them on to partitions, in two orders that know nothing of each other."""

    rng: random.Random
    now: int = 1_000
    subscriptions: list[tuple[tuple[int, ...], Rendezvous]] = field(default_factory=list)
    publications: list[tuple[tuple[int, ...], Rendezvous]] = field(default_factory=list)
    routes: Routes = field(default_factory=lambda: Routes("routes", 0))
    entities: Entities = field(default_factory=lambda: Entities("entities", 0))
    asked: CanonicalSubscription | None = None
    offsets: list[int] = field(default_factory=lambda: [0, 0])

    def run(self) -> None:
        for _ in range(self.rng.randint(2, 14)):
            self.now += self.rng.choice([0, 1, 5])
            self.rng.choice([self._ask, self._say, self._say])()
        self.now += 200

    def _arrive(self, origin: int) -> tuple[int, Version]:
        offset = self.offsets[origin]
        self.offsets[origin] += 1
        return offset, Version(self.now, 0, offset)

    def _ask(self) -> None:
        rng, (_, version) = self.rng, self._arrive(0)
        before = self.routes.get(b"s", self.now)
        if before is not None and rng.random() < 0.15:
            self.asked = None
            self.routes.remove(b"s", Outgoing())
            self._hand_on(self.subscriptions, "subscriptions", version, before.partitions, Withdrawal("s", version))
            return
        record = CanonicalSubscription(
            "s", rng.choice(["anna", "anna", "anna", "ben"]), version, rng.choice(["", "0", "1", "1.2", "2"]), "overlap",
            self.now - 100, None, rng.choice(["valid", "published"]), rng.choice(CONDITIONS),
            transitions=rng.random() < 0.9, paused=rng.random() < 0.15,
        )  # fmt: skip
        recipient, held = recipient_of(record.subscriber_id.encode()), None
        if record.transitions:
            record.set_version = None if before is None else before.set_after(self.now, recipient)
            held = None if record.paused else HeldSet(record.set_began, recipient)
        to = places(record.topic)
        left = () if before is None else tuple(p for p in before.partitions if p not in to)
        if left:
            withdrawal = Withdrawal("s", version, record.set_version is not None)
            self._hand_on(self.subscriptions, "subscriptions", version, left, withdrawal)
        self._hand_on(self.subscriptions, "subscriptions", version, to, record)
        self.routes.put(b"s", Route(version, to, bytes(16), None, held), Outgoing())
        self.asked = record

    def _say(self) -> None:
        rng, (offset, _) = self.rng, self._arrive(1)
        name = rng.choice(["e", "f"])
        at = Rendezvous("publications", 0, offset, self.now, 1, ())
        if rng.random() < 0.15:
            handed = self.entities.withdraw(name.encode(), at, Outgoing())
        else:
            topic, expires = rng.choice(["", "0", "1", "1.2", "2"]), rng.choice([None, None, 3, 8, -1])
            at.record = CanonicalPublication(
                name, None, topic, self.now - rng.choice([0, 1]), None if expires is None else self.now + expires,
                attributes={"x": rng.randint(0, 2)}, entity=Entity(digest=bytes([rng.randint(0, 3)])),
            )  # fmt: skip
            at.partitions = places(topic)
            handed = self.entities.replace(name.encode(), at, Outgoing())
        if handed is not None:
            self.publications.append((goes_to(handed), handed))

    def _hand_on(self, log: Any, origin: Any, version: Version, to: tuple[int, ...], record: Any) -> None:
        log.append((to, Rendezvous(origin, 0, version.offset, version.arrived_at, 1, to, record)))

    def log_of(self, partition: int) -> list[Rendezvous]:
        """One of the orders in which the two may meet there, with ticks between."""
        queues = [[each for to, each in log if partition in to] for log in (self.subscriptions, self.publications)]
        log = []
        while any(queues):
            log.append(self.rng.choice([queue for queue in queues if queue]).pop(0))
            if self.rng.random() < 0.2:
                log.append(Rendezvous("none", 0, 0, log[-1].arrived_at + self.rng.choice([0, 2, 6]), 1, (partition,)))
        return [*log, Rendezvous("none", 0, 0, self.now, 1, (partition,))]

    def truth(self) -> set[str]:
        """Of all partitions, when all has come."""
        asked, found = self.asked, set()
        for name in ("e", "f"):
            version = self.entities.current(name.encode(), self.now)
            if asked is not None and version is not None and asked.transitions and not asked.paused:
                record: Any = version.record
                if oracle.matches(query_of(asked), offer_of(record, record.entity.previous or {})):
                    found.add(name)
        return found


def version_of(text: str) -> tuple[int, ...]:
    partition, offset = text.split("-")
    return int(offset), int(partition)


class Fold:
    """What a reader keeps: of each entity the highest versions that were told, and whether it is in.

    `began`: the version that its set began with."""

    def __init__(self, recipient: str, began: str) -> None:
        self._recipient, self._began = recipient, began
        self._held: dict[str, tuple[Any, bool]] = {}

    def add(self, told: Notification) -> None:
        if told.transition is None or (told.recipient_id, told.set_version) != (self._recipient, self._began):
            return
        named = version_of(told.publication_version or ""), version_of(told.subscription_version)
        if told.publication_id not in self._held or named >= self._held[told.publication_id][0]:
            self._held[told.publication_id] = named, told.transition != "left"

    @property
    def names(self) -> set[str]:
        return {name for name, (_, inside) in self._held.items() if inside}


def check(seed: int) -> None:
    world = World(random.Random(seed))
    world.run()
    told = []
    for number in range(PARTITIONS):
        partition, mine = Partition(number, HOT), []
        for offset, envelope in enumerate(world.log_of(number)):
            mine += partition.apply(envelope, offset).notifications
        ids = [each.notification_id for each in mine]
        assert len(set(ids)) == len(ids)
        told.append(mine)
    if world.asked is None:
        return
    fold = Fold(world.asked.subscriber_id, str(world.asked.set_began))
    while any(told):
        fold.add(world.rng.choice([queue for queue in told if queue]).pop(0))
    assert fold.names == world.truth()


def check_one_partition(seed: int) -> None:
    """Where all meet in one partition the set is true at every point of its log."""
    world = World(random.Random(seed))
    world.run()
    partition = Partition(0, HOT)
    everything = [each for _, each in [*world.subscriptions, *world.publications]]
    told: list[Notification] = []
    log = [envelope for envelope in world.log_of(0) if envelope in everything or envelope.origin == "none"]
    for offset, envelope in enumerate(log):
        told += partition.apply(envelope, offset).notifications
        live = partition.subscriptions.get("s")
        if live is None or not live.record.transitions:
            continue
        fold = Fold(live.record.subscriber_id, str(live.record.set_began))
        for each in told:
            fold.add(each)
        matching = (
            h.record.publication_id for h in partition.entities.current.values() if partition.entities._has(live, h)
        )
        assert fold.names == set(matching)


@pytest.mark.parametrize("checked", [check, check_one_partition])
def test_the_result_set_is_true(checked: Any) -> None:
    for seed in range(CASES):
        checked(seed)


@pytest.mark.soak
@pytest.mark.parametrize("checked", [check, check_one_partition])
def test_the_result_set_is_true_in_many_cases(checked: Any) -> None:
    for seed in range(40_000):
        checked(seed)
