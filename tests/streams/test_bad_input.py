"""Whatever comes in costs its sender only: a dead letter or a defined effect, and the next record goes on.

What is refused record by record, with its reason, is in `test_outside.py`; here is what is large, strange or much.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, ResourceType

from pastforward.broker import Broker
from pastforward.schemas import decode_dead_letter
from pastforward.topics import Topics
from tests.conftest import StartWorker
from tests.outside import PATIENCE, Outside
from tests.streams.system import Setup, System, check, check_inputs

pytestmark = pytest.mark.broker
numbers = itertools.count(1)


@pytest.fixture
def place() -> str:
    return f"99.{next(numbers)}"


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def good(outside: Outside, place: str, name: str) -> str:
    """A subscription to everything on the place, that must go on; what other tests put above it does not count."""
    outside.subscribe(f"{name}-good", topic=place, scope="subtree", starts_at="0001-01-01T00:00:00Z")
    outside.stored(f"{name}-good")
    return f"{name}-good"


def goes_on(outside: Outside, good: str, place: str, *expected: str) -> None:
    """The publications that were expected have been notified, and so is the next one. Two input partitions have no common order."""
    outside.publish(f"{good}-next", topic=place)
    outside.notified(good, of=f"{good}-next")
    told = [n for n in outside.notified(good, len(expected) + 1) if n["phase"] == "live"]
    assert sorted(n["publication_id"] for n in told) == sorted([*expected, f"{good}-next"])


def letter_of(outside: Outside, key: str) -> Any:
    (message,) = outside.wait("dead-letters", lambda m: m.key() == key.encode())
    return decode_dead_letter(message.value())


def test_ten_thousand_attributes(outside: Outside, place: str, name: str, good: str) -> None:
    outside.subscribe(name, topic=place, where="a9999 = 9999 AND a17 IN (3, 17)")
    outside.stored(name)
    outside.publish(f"{name}-p", topic=place, attributes={f"a{i}": i for i in range(10_000)})
    assert [n["publication_id"] for n in outside.notified(name)] == [f"{name}-p"]
    goes_on(outside, good, place, f"{name}-p")


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        (" OR ".join(f"a{i} = {i}" for i in range(70_000)), "bad_condition"),
        ("x IN (" + ", ".join(map(str, range(120_000))) + ")", None),
        ("x = '" + "a" * 1_000_000 + "'", None),
        ("(" * 500_000 + "x = 1" + ")" * 500_000, "bad_condition"),
        ("NOT " * 240_000 + "x = 1", None),
    ],
    ids=["disjuncts", "members", "text", "parentheses", "negations"],
)
def test_a_condition_of_a_megabyte(
    outside: Outside, place: str, name: str, good: str, where: str, kind: str | None
) -> None:
    """Either it is taken, or it is refused: `None` leaves that to the limits of the language."""
    outside.subscribe(name, topic=place, where=where)
    outside.routed(name)
    letters = [m for m in outside.records["dead-letters"] if m.key() == name.encode()]
    if kind is not None or letters:
        assert decode_dead_letter(letters[0].value()).kind in (kind, "bad_condition", "too_large")
    goes_on(outside, good, place)


def test_a_withdrawal_of_an_unknown_id(outside: Outside, place: str, name: str, good: str) -> None:
    outside.send("subscriptions", name, None)
    goes_on(outside, good, place)
    assert not any(m.key() == name.encode() for m in outside.records["dead-letters"] + outside.records["rendezvous"])


def test_an_id_that_differs_from_the_key(outside: Outside, place: str, name: str, good: str) -> None:
    outside.send("publications", name, {"publication_id": "another", "topic": place})
    assert letter_of(outside, name).kind == "bad_id"
    goes_on(outside, good, place)


@pytest.mark.parametrize(
    "published_at",
    ["9999-12-31T23:59:59.999999Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", -1, 253_402_300_799_999_999],
)
def test_times_at_the_ends_of_the_calendar(
    outside: Outside, place: str, name: str, good: str, published_at: str | int
) -> None:
    outside.publish(name, topic=place, published_at=published_at)
    outside.stored(name)
    outside.publish(f"{name}-2", topic=place, expires_at="9999-12-31T23:59:59.999999Z")
    outside.stored(f"{name}-2")
    goes_on(outside, good, place, name, f"{name}-2")
    # a window over all times finds what is kept, and asks the history for the rest
    outside.subscribe(f"{name}-s", topic=place, starts_at="0001-01-01T00:00:00Z", ends_at="9999-12-31T23:59:59Z")
    assert f"{name}-2" in [n["publication_id"] for n in outside.notified(f"{name}-s", 2)]


@pytest.mark.parametrize("published_at", ["10000-01-01T00:00:00Z", "0000-12-31T00:00:00Z", 2**62, "yesterday", 1.5])
def test_times_outside_the_calendar(outside: Outside, place: str, name: str, good: str, published_at: Any) -> None:
    outside.publish(name, topic=place, published_at=published_at)
    assert "published_at" in letter_of(outside, name).reason
    goes_on(outside, good, place)


def test_a_header_zoo(outside: Outside, place: str, name: str, good: str) -> None:
    zoo = [(f"h{i}", bytes(range(i))) for i in range(200)] + [("same", b"1"), ("same", b"2"), ("", b""), ("null", None)]
    for topic in ("subscriptions", "publications"):
        outside.send(topic, f"{name}-bad", b"\x00", headers=zoo)
    outside.send("publications", name, {"topic": place}, headers=zoo)
    outside.wait("dead-letters", lambda m: m.key() == f"{name}-bad".encode(), 2)
    goes_on(outside, good, place, name)


def test_nothing_received_is_unpickled_or_executed(outside: Outside, place: str, name: str, good: str) -> None:
    import pickle

    outside.send("publications", name, pickle.dumps({"topic": place}))
    assert letter_of(outside, name).kind == "malformed"
    outside.subscribe(f"{name}-code", topic=place, where="__import__('os').system('true') = 0")
    assert letter_of(outside, f"{name}-code").kind == "bad_condition"
    goes_on(outside, good, place)


def test_a_flood_of_dead_letters(outside: Outside, place: str, name: str, good: str) -> None:
    producer = Producer({"bootstrap.servers": outside.bootstrap, "partitioner": "murmur2_random", "linger.ms": 5})
    count = 10_000
    for number in range(count):
        topic, value = ("publications", b'{"topic": "1..2"}') if number % 2 else ("subscriptions", b'{"where": "(("}')
        producer.produce(outside.prefix + topic, key=f"{name}-{number}", value=value)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    goes_on(outside, good, place)
    found = outside.wait("dead-letters", lambda m: (m.key() or b"").startswith(f"{name}-".encode()), count)
    assert len({m.key() for m in found}) == len(found) == count


# --------------------------------------------------------------------------------------------------------------------- sizes


def heavy(kilobytes: int, times: int) -> str:
    """A condition whose normal form holds a long text so many times: a small record becomes a large one."""
    return f"t = '{'a' * 1024 * kilobytes}' AND ({' OR '.join(f'y = {i}' for i in range(times))})"


def test_a_key_of_megabytes_in_a_compressed_batch(outside: Outside, place: str, name: str, good: str) -> None:
    key = name + "k" * (5 << 20)
    producer = Producer(
        {
            "bootstrap.servers": outside.bootstrap,
            "partitioner": "murmur2_random",
            "compression.type": "zstd",
            "message.max.bytes": 100 << 20,
        }
    )
    for topic, value in (
        ("publications", b"{}"),
        ("subscriptions", b'{"subscriber_id": "a"}'),
        ("subscriptions", None),
    ):
        producer.produce(outside.prefix + topic, key=key, value=value)
    assert producer.flush(PATIENCE) == 0
    letters = outside.wait("dead-letters", lambda m: (m.key() or b"").startswith(name.encode()), 3)
    for letter in map(decode_dead_letter, (m.value() for m in letters)):
        assert letter.kind == "bad_id"
        assert letter.key is not None
        assert letter.key.startswith(name.encode())
    goes_on(outside, good, place)


def test_an_auction_of_nearly_a_megabyte_with_long_ids(outside: Outside, place: str, name: str, good: str) -> None:
    """The value of the offer stands in every notification of it."""
    lot, bidder = f"{name}-" + "l" * 470, f"{name}-" + "s" * 470
    value = "v" * 1_000_000
    outside.publish(
        lot,
        topic=place,
        publisher_id="p" * 512,
        best={"attribute": "x", "prefer": "highest"},
        attributes={"x": value},
        self_join=True,
    )
    outside.stored(lot)
    outside.subscribe(bidder, topic=place, where="x IS NOT NULL OR x >= ''", starts_at="2020-01-01T00:00:00Z")
    outside.routed(bidder)
    outside.settle(place)
    told = [json.loads(m.value()) for m in outside.records["notifications"]]
    assert any(n["publication_id"] == lot and n["phase"] == "best" and n.get("value") == value for n in told)


def test_an_auction_behind_a_large_publication(outside: Outside, place: str, name: str, good: str) -> None:
    """The changelog keeps an auction together with the publication before it on its topic."""
    for number in range(2):
        outside.publish(
            f"{name}-{number}",
            topic=place,
            where=heavy(60, 60),
            best={"attribute": "y", "prefer": "lowest"},
            expires_at="2100-01-01T00:00:00Z",
        )
        outside.stored(f"{name}-{number}")
    goes_on(outside, good, place, f"{name}-0", f"{name}-1")


def test_a_large_subscription_asks_the_history(outside: Outside, place: str, name: str, good: str) -> None:
    """Its request carries what else the subscriber has: the two together were more than the topic takes."""
    outside.publish(f"{name}-old", topic=place, published_at="2019-01-01T00:00:00Z")
    outside.stored(f"{name}-old")
    old = {"topic": place, "starts_at": "2018-01-01T00:00:00Z", "self_join": True, "subscriber_id": name}
    for number, times in enumerate((30, 55)):
        outside.send("subscriptions", f"{name}-{number}", {**old, "where": heavy(60, times)})
        outside.stored(f"{name}-{number}")
    outside.wait("backfill-requests", lambda m: m.key().startswith(f"{name}-".encode()), 2)
    goes_on(outside, good, place, f"{name}-old")


# --------------------------------------------------------------------------------------------------------------------- holes


def test_transactions_that_were_aborted_leave_holes(broker: Broker, start_worker: StartWorker, tmp_path: Any) -> None:
    """A client may write in transactions; what it took back was never there."""
    setup = Setup("aborted.", partitions=1)
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.start_all()
    system.wait_ready()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "a-client", "linger.ms": 0})
    producer.init_transactions(PATIENCE)
    topics = Topics(setup.prefix)
    for number in range(6):
        producer.begin_transaction()
        for topic, value in ((topics.subscriptions, {"subscriber_id": "s"}), (topics.publications, {})):
            producer.produce(topic, key=f"t{number}", value=json.dumps(value))
        if number % 2:
            producer.commit_transaction(PATIENCE)
        else:
            producer.abort_transaction(PATIENCE)
        system.load.burst(20)
    # a log may end with the marker of a transaction, which nobody reads or commits: here it ends with a record
    last = Producer({"bootstrap.servers": broker.bootstrap})
    for topic, value in ((topics.subscriptions, {"subscriber_id": "s"}), (topics.publications, {})):
        last.produce(topic, key="last", value=json.dumps(value))
    assert last.flush(PATIENCE) == 0
    system.finish()
    assert check(system.log) > 0
    check_inputs(system.log)
    keys = {m.key() for m in system.log.each("rendezvous")}
    assert {b"t1", b"t3", b"t5"} <= keys
    assert keys.isdisjoint({b"t0", b"t2", b"t4"})


def test_a_compacted_log_has_holes(broker: Broker, start_worker: StartWorker, tmp_path: Any) -> None:
    """Compaction took versions of subscriptions away before any worker had seen them."""
    setup = Setup("compacted.", partitions=1)
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    subscriptions = Topics(setup.prefix).subscriptions
    system.log.alter(
        ConfigResource(ResourceType.TOPIC, subscriptions),
        {
            "min.compaction.lag.ms": "0",
            "min.cleanable.dirty.ratio": "0.0",
            "segment.ms": "100",
            "delete.retention.ms": "0",
        },
    )
    system.log.alter(ConfigResource(ResourceType.BROKER, system.log.node), {"log.cleaner.backoff.ms": "100"})
    try:
        system.load.burst(600)
        deadline = time.monotonic() + PATIENCE
        while len(system.log.each("subscriptions")) > system.load.sent["subscriptions"] // 2:
            assert time.monotonic() < deadline, "the broker does not compact"
            system.load.burst(10)  # a segment is closed by the next record
            time.sleep(0.2)
    finally:
        system.log.alter(ConfigResource(ResourceType.BROKER, system.log.node), {"log.cleaner.backoff.ms": "15000"})
        system.log.alter(ConfigResource(ResourceType.TOPIC, subscriptions), {"min.compaction.lag.ms": "604800000"})
    system.start_all()
    system.wait_ready()
    system.load.burst(200)
    system.finish()
    assert check(system.log) > 0
    assert system.log.ends("subscriptions")[0] > len(system.log.each("subscriptions"))
    check_inputs(system.log)
