"""Kills, takeovers and lost disks: a read-committed consumer sees each expected notification exactly once.

The two inputs have no common order, so the rendezvous log decides: the reference reads it record by record, and says what must have
been notified. The log itself is held against the inputs.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pastforward.broker import Broker
from pastforward.topics import watermarks
from schemas import CanonicalPublication, Withdrawal, decode_notification, decode_rendezvous
from streams.reference import Partition
from streams.routing import Publication, Subscription, make_scheme
from tests.conftest import StartWorker
from tests.outside import PATIENCE, WorkerUnderTest

pytestmark = pytest.mark.broker
PARTITIONS = 2
HOT = "30s"
TOPICS = ["", "1", "1.2", "2", "2.1", "3.3.3", "4"]


class Load:
    """Random records in JSON, seeded; sent in bursts."""

    def __init__(self, bootstrap: str, prefix: str, seed: int) -> None:
        self.prefix, self.random = prefix, random.Random(seed)
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
            }
        )
        self.sent: Counter[str] = Counter()

    def burst(self, count: int) -> None:
        for _ in range(count):
            self._one()
            self.producer.poll(0)
        assert self.producer.flush(PATIENCE) == 0

    def _one(self) -> None:
        rng = self.random
        topic = rng.choice(TOPICS)
        kind = rng.random()
        if kind < 0.5:
            number = self.sent["publications"] if rng.random() < 0.95 else rng.randint(0, 50)
            name = (
                f"p{number}"  # sometimes one that was there before: publications are immutable, its topic is the same
            )
            fields: dict[str, Any] = {
                "topic": TOPICS[number % len(TOPICS)],
                "attributes": {"x": rng.randint(0, 9), "kind": rng.choice("ab")},
            }
            if rng.random() < 0.2:
                fields["expires_at"] = time.time_ns() // 1000 + rng.randint(0, 5_000_000)
            if rng.random() < 0.1:
                fields["publisher_id"] = "publisher"
            self._send("publications", name, fields)
        elif kind < 0.9:
            fields = {
                "subscriber_id": rng.choice(["anna", "ben"]),
                "topic": topic,
                "where": f"x >= {rng.randint(0, 9)}",
            }
            if rng.random() < 0.5:
                fields["starts_at"] = time.time_ns() // 1000 - rng.randint(0, 20_000_000)
            self._send("subscriptions", f"s{rng.randint(0, 60)}", fields)
        elif kind < 0.97:
            self._send("subscriptions", f"s{rng.randint(0, 60)}", None)
        else:
            self._send("publications", f"bad{self.sent['publications']}", {"topic": "1..2"})

    def _send(self, topic: str, key: str, value: Any) -> None:
        self.sent[topic] += 1
        self.producer.produce(self.prefix + topic, key=key, value=None if value is None else json.dumps(value))


class Log:
    """What is on the topics of a prefix."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.prefix}reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )

    def ends(self, topic: str) -> dict[int, int]:
        reader = self.consumer()
        found = {p: end for p, (_, end) in watermarks(reader, self.prefix + topic).items()}
        reader.close()
        return found

    def committed(self, topic: str) -> dict[int, int]:
        group = f"{self.prefix}worker"
        (future,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        name = self.prefix + topic
        return {tp.partition: tp.offset for tp in future.result().topic_partitions if tp.topic == name}

    def wait(self, worker: WorkerUnderTest) -> dict[int, int]:
        """Until everything sent so far is through. Returns the rendezvous offsets up to which that is so."""
        deadline = time.monotonic() + 2 * PATIENCE

        def reached(topic: str, ends: dict[int, int]) -> bool:
            at = self.committed(topic)
            return all(at.get(p, 0) >= end for p, end in ends.items())

        for topic in ("subscriptions", "publications", "rendezvous"):
            ends = self.ends(topic)
            while not reached(topic, ends):
                assert worker.process.poll() is None, worker.said()
                assert time.monotonic() < deadline, f"{topic}: {self.committed(topic)} of {ends}\n{worker.said()}"
                time.sleep(0.1)
        return ends

    def read(self, topic: str) -> dict[int, list[Any]]:
        reader = self.consumer()
        reader.assign([TopicPartition(self.prefix + topic, p, 0) for p in range(PARTITIONS)])
        found: dict[int, list[Any]] = {p: [] for p in range(PARTITIONS)}
        open_ = set(found)
        while open_:
            for message in reader.consume(1000, 1.0):
                if message.error():
                    open_.discard(message.partition())
                else:
                    found[message.partition()].append(message)
        reader.close()
        return found


def check(log: Log, ends: dict[int, int]) -> int:
    """Every pair that the log decides was notified, once; nothing else was. Returns how many."""
    expected: Counter[str] = Counter()
    scheme = make_scheme("dewey", PARTITIONS, 1)
    seen: set[tuple[int, str, int, int]] = set()
    for number, messages in log.read("rendezvous").items():
        reference = Partition(number, 30_000_000)
        for message in messages:
            if message.offset() >= ends[number]:
                break
            envelope = decode_rendezvous(message.value())
            if envelope.origin == "none":
                envelope.arrived_at = message.timestamp()[1] * 1000
            else:
                place = (number, envelope.origin, envelope.partition, envelope.offset)
                assert place not in seen, f"{place} was routed twice"
                seen.add(place)
            check_route(scheme, envelope)
            expected.update(n.notification_id for n in reference.apply(envelope).notifications)
    told = Counter(
        decode_notification(message.value()).notification_id
        for messages in log.read("notifications").values()
        for message in messages
    )
    assert max(expected.values(), default=1) == 1
    assert told == expected
    return len(told)


def check_route(scheme: Any, envelope: Any) -> None:
    record = envelope.record
    if isinstance(record, CanonicalPublication):
        assert envelope.partitions == scheme.publication(Publication(record.publication_id, record.topic))
    elif record is not None and not isinstance(record, Withdrawal):
        assert envelope.partitions == scheme.subscription(
            Subscription(record.subscription_id, record.topic, record.scope, record.where)
        )


def check_inputs(log: Log) -> None:
    """Every good input is in the log, every bad one is a dead letter."""
    routed = {
        (envelope.origin, envelope.partition, envelope.offset)
        for messages in log.read("rendezvous").values()
        for envelope in (decode_rendezvous(m.value()) for m in messages)
    }
    letters = sum(len(messages) for messages in log.read("dead-letters").values())
    bad = 0
    for partition, messages in log.read("publications").items():
        for message in messages:
            if message.key().startswith(b"bad"):
                bad += 1
            else:
                assert ("publications", partition, message.offset()) in routed
    assert letters == bad


@pytest.mark.parametrize(
    ("settings", "workers"),
    [
        pytest.param({"index": "memory", "layout": "dual"}, 1, id="memory-dual"),
        pytest.param({"index": "disk", "layout": "two"}, 2, id="disk-two-two-workers"),
    ],
)
def test_kills_lose_and_repeat_nothing(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, settings: dict[str, str], workers: int
) -> None:
    through_kills(broker, start_worker, tmp_path, settings, workers, kills=3, burst=250)


@pytest.mark.soak
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("index", ["memory", "disk"])
def test_fifty_kills(broker: Broker, start_worker: StartWorker, tmp_path: Path, index: str, workers: int) -> None:
    through_kills(broker, start_worker, tmp_path, {"index": index}, workers, kills=50, burst=4000)


def through_kills(
    broker: Broker,
    start_worker: StartWorker,
    tmp_path: Path,
    settings: dict[str, str],
    workers: int,
    kills: int,
    burst: int,
) -> None:
    prefix = f"faults-{settings['index']}-{workers}-{kills}."
    rng = random.Random(7)

    def start(number: int) -> WorkerUnderTest:
        return start_worker(
            topic_prefix=prefix,
            partitions=PARTITIONS,
            hot_window=HOT,
            session_timeout="3s",
            data_dir=tmp_path / str(number),
            **settings,
        )

    for number in range(workers):
        (tmp_path / str(number)).mkdir()
    running = [start(number) for number in range(workers)]
    for worker in running:
        worker.wait_ready()
    load = Load(broker.bootstrap, prefix, seed=1)
    log = Log(broker.bootstrap, prefix)
    for kill in range(kills):
        load.burst(burst)
        # anywhere in the work on that burst
        before = sum(log.committed("rendezvous").values())
        want = before + rng.randint(0, burst)
        deadline = time.monotonic() + 2
        while sum(log.committed("rendezvous").values()) < want and time.monotonic() < deadline:
            pass
        victim = kill % workers
        running[victim].kill()
        if kill % 2:
            shutil.rmtree(tmp_path / str(victim))
            (tmp_path / str(victim)).mkdir()
        running[victim] = start(victim)
    load.burst(burst)
    ends = log.wait(running[0])
    assert check(log, ends) > 100
    check_inputs(log)
    for worker in running:
        assert worker.stop() == 0
