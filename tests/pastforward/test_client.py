from __future__ import annotations

import signal
import socket
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path as File
from typing import Any

import numpy as np
import pytest
from aiokafka.partitioner import DefaultPartitioner
from confluent_kafka import Consumer, TopicPartition

from pastforward import Client, DeliveryError, Instant
from pastforward.broker import Broker
from pastforward.client import Best, delivery
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.schemas import Notification, Predicate, Publication, SchemaError, encode
from pastforward.settings import load
from pastforward.streams.routing import Directory
from pastforward.streams.routing.change import STATE, State, version_key
from pastforward.streams.stages.outgoing import partition_of
from pastforward.streams.worker.directory import write_directory
from pastforward.topics import TO_THE_END, connect, ensure
from tests.conftest import OwnBroker, StartWorker
from tests.forks import Forked
from tests.outside import PATIENCE

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def client(broker: Broker, start_shared: StartWorker) -> Client:
    worker = start_shared(topic_prefix="client.", partitions=1)
    worker.wait_ready()
    return Client(broker.bootstrap, settings=load({"topic_prefix": "client."}, environment={}))


def test_past_and_live(client: Client) -> None:
    told = client.notifications("anna", timeout=30)
    client.publish({"price": 90}, topic="1.1", publication_id="before")
    with client.subscribe(
        "price < 100", subscriber_id="anna", topic="1", starts_at=timedelta(minutes=-5), subscription_id="offers"
    ) as handle:
        assert handle.subscription_id == "offers"
        assert next(told).publication_id == "before"
        client.publish({"price": 120}, topic="1.2")
        client.publish_many([Publication("after", topic="1.2", attributes={"price": 80})])
        live = next(told)
        assert (live.publication_id, live.phase, live.recipient_id) == ("after", "live", "anna")
    client.publish({"price": 1}, topic="1.2", publication_id="too late")
    # the two inputs have no common order: only what somebody has been told of is there before the next subscription
    probed = client.notifications("ben", timeout=30)
    with client.subscribe(subscriber_id="ben", topic="1.2", starts_at=timedelta(minutes=-5), subscription_id="probe"):
        next(n for n in probed if n.publication_id == "too late")
    client.subscribe(subscriber_id="anna", topic="1", starts_at=timedelta(minutes=-5), subscription_id="all")
    # and the last publication may have come before the withdrawal
    rest = list(islice((n for n in told if n.subscription_id == "all"), 4))
    assert {n.phase for n in rest} == {"past"}


def test_values_and_times_may_be_numpys(client: Client) -> None:
    told = client.notifications("numpy", timeout=30)
    asked = ((Predicate("price", "<", np.int64(100)),),)
    topic = np.str_("9.1")
    with client.subscribe(asked, subscriber_id=np.str_("numpy"), topic=topic, starts_at=np.timedelta64(-5, "m")):
        attributes: Any = {np.str_("price"): np.float32(0.5), "at": Point(np.float64(1), 2), "ok": np.bool_(True)}
        at = np.datetime64(datetime.now(UTC).replace(tzinfo=None), "ms")
        client.publish(attributes, topic=topic, publication_id=np.str_("plain"), published_at=at)
        found = next(told)
    assert (found.publication_id, found.published_at.micros) == ("plain", int(at.astype("datetime64[us]").astype(int)))
    with pytest.raises(SchemaError, match=r"attribute 'at'\.lon must be a number, not 'a'"):
        client.publish({"at": Point("a", "b")})  # type: ignore[arg-type]
    with pytest.raises(
        SchemaError, match="published_at: 'now' is no time: write an aware datetime, a timedelta from now, or a text"
    ):
        client.publish(published_at="now")
    with pytest.raises(SchemaError, match=r"NaT.* is no time in the years 1 to 9999"):
        client.publish(published_at=np.datetime64("NaT"))


def test_who_listens_comes_to_an_end_when_the_client_is_closed(broker: Broker, client: Client) -> None:
    with Client(broker.bootstrap, settings=load({"topic_prefix": "client."}, environment={})) as own:
        told: list[object] = []
        listener = threading.Thread(target=lambda: told.extend(own.notifications("nobody")), daemon=True)
        listener.start()
    listener.join(30)
    assert not listener.is_alive()
    assert not told


def test_every_type_of_attribute_arrives(client: Client) -> None:
    told = client.notifications("types", timeout=30)
    where = (
        "flag AND whole = 3 AND part = 0.5 AND text LIKE 'gr%n' AND at < TIMESTAMP '2030-01-01T00:00:00Z' "
        "AND within(place, CIRCLE(8.5, 47.4, 1000)) AND overlaps(area, BOX(0, 0, 1, 1)) AND within(cell, PATH '1.4')"
    )
    client.subscribe(where, subscriber_id="types", topic="2")
    attributes = {
        "flag": True,
        "whole": 3,
        "part": 0.5,
        "text": "grün",
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "place": Point(8.5, 47.4),
        "area": Box(0.5, 0.5, 2, 2),
        "round": Circle(8.5, 47.4, 10),
        "cell": Path("1.4.2"),
    }
    client.subscribe(subscriber_id="types", topic="2.9", subscription_id="always")
    # both subscriptions are stored once this is told
    client.publish(topic="2.9", publication_id="probe")
    assert next(told).publication_id == "probe"
    client.publish(attributes, topic="2.1", publication_id="everything")
    assert next(told).publication_id == "everything"


def test_what_cannot_be_read_is_refused_before_it_is_sent(client: Client) -> None:
    with pytest.raises(SchemaError, match=r"1\.\.2"):
        client.publish(topic="1..2")
    with pytest.raises(SchemaError, match="ends_at"):
        client.subscribe(subscriber_id="s", starts_at=timedelta(0), ends_at=timedelta(minutes=-1))


@pytest.mark.parametrize(
    ("where", "reason"),
    [("x >", "something is missing"), ("x > 1 AND x < 1", "never be true"), ("previous.x > 1", "needs self_join")],
)
def test_what_the_router_would_refuse_is_refused_before_it_is_sent(client: Client, where: str, reason: str) -> None:
    """In the words of the dead letter: both are from `schemas.acceptance`."""
    with pytest.raises(SchemaError, match=reason):
        client.subscribe(where, subscriber_id="s")
    with pytest.raises(SchemaError, match=reason if "self_join" not in reason else "cannot speak of previous"):
        client.publish({"x": 1}, topic="1", where=where)


def test_names_and_best_offers_are_checked_before_they_are_sent(client: Client) -> None:
    for attributes, best, reason in (
        ({"previous.x": 1}, None, "reserved"),
        ({"n" * 256: 1}, None, "write 1 to 255"),
        ({}, Best("price", "highest"), "ROUTING_DEPTH"),
    ):
        with pytest.raises(SchemaError, match=reason):
            client.publish(attributes, best=best)


def said(quiet: Client, *entries: Directory) -> None:
    """As workers, and who changes the routing, write it."""
    for entry in entries:
        document = [(version_key(entry.version), entry.to_bytes()), (STATE, State(entry.version).to_bytes())]
        write_directory(quiet._settings, quiet.bootstrap_servers, document)


def test_what_the_routing_cannot_serve_is_refused_before_it_is_sent(broker: Broker) -> None:
    settings = load({"topic_prefix": "ruled.", "partitions": 1}, environment={})
    ensure(settings, connect(settings, broker.bootstrap))
    best = Best("price", "highest")
    with Client(broker.bootstrap, settings=settings) as client:
        client.publish(topic="1", best=best)  # nobody has said yet what the routing is: the router decides
        said(client, Directory(1, "pan", 1))
        with pytest.raises(SchemaError, match="best needs dewey routing; the scheme here is pan"):
            client.publish(topic="1", best=best)
        with pytest.raises(SchemaError, match="self_join needs dewey routing; the scheme here is pan"):
            client.subscribe(subscriber_id="s", self_join=True)
        client.publish(topic="1")
        client.subscribe(subscriber_id="s")
        said(client, Directory(2, "dewey", 1, 2))
        # the routing has changed: what is refused is asked once more
        client.subscribe(subscriber_id="s", self_join=True)
        with pytest.raises(SchemaError, match=r"a topic of at least 2 components \(ROUTING_DEPTH\)"):
            client.publish(topic="1", best=best)
        client.publish(topic="1.2", best=best)


def test_delivery_errors_are_raised(broker: Broker) -> None:
    settings = load({"topic_prefix": "nowhere."}, environment={"PASTFORWARD_KAFKA_DELIVERY_TIMEOUT_MS": "2000"})
    with Client(broker.bootstrap, settings=settings) as client:
        with pytest.raises(DeliveryError, match="was not delivered") as raised:
            client.publish_many([Publication("a"), Publication("b")])
        assert {key for key, _ in raised.value.errors} == {"a", "b"}


def test_who_watches_waits_for_a_broker_that_is_away(own_broker: OwnBroker, tmp_path: File) -> None:
    """It says so once, and once when it is back: librdkafka had a line for each attempt."""
    flags = ["--bootstrap-servers", own_broker.bootstrap, "--topic-prefix", "watched."]
    settings = load({"topic_prefix": "watched."}, environment={})
    ensure(settings, connect(settings, own_broker.bootstrap))
    said = tmp_path / "said"
    watch = Forked(["watch", "--since", "-1h", "--json", *flags], (said, said))

    def wait(text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in (said.read_text() if said.exists() else ""):
            assert watch.poll() is None, said.read_text()
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(0.1)

    try:
        with Client(own_broker.bootstrap, settings=settings) as client:
            notification = Notification("a" * 32, "s", "0-1", "p", "anna", "subscriber", "1", 1, 1, "live")
            client._send("watched.notifications", [("anna", encode(notification))])
        wait('"anna"')
        own_broker.end(signal.SIGKILL)
        wait("does not answer")
        own_broker.restart()
        wait("answers again")
        watch.terminate()
        watch.wait(PATIENCE)
    finally:
        watch.kill()
    assert len(said.read_text().splitlines()) <= 6, said.read_text()


# ------------------------------------------------------------------------------------------------------- where records lie

PARTITIONS = 4


@pytest.fixture(scope="module")
def quiet(broker: Broker) -> Client:
    """Of topics with several partitions, and without a worker: what is there was written by a test."""
    settings = load({"topic_prefix": "quiet.", "partitions": PARTITIONS}, environment={})
    ensure(settings, connect(settings, broker.bootstrap))
    return Client(broker.bootstrap, settings=settings)


def everything(client: Client, name: str) -> list[Any]:
    """All records of a topic, as any consumer reads them."""
    consumer = Consumer({**TO_THE_END, "bootstrap.servers": client.bootstrap_servers, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(f"quiet.{name}", partition, 0) for partition in range(PARTITIONS)])
    found, ended = [], 0
    while ended < PARTITIONS:
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
    consumer.close()
    return found


def test_records_lie_where_every_other_client_puts_them(quiet: Client) -> None:
    """Java's choice, by two hands that are not librdkafka's: the workers' kernel and aiokafka's partitioner."""
    names = [f"name-{number}" for number in range(40)] + ["é", "x" * 512]
    choose, all_of = DefaultPartitioner(), list(range(PARTITIONS))
    expected = {name.encode(): choose(name.encode(), all_of, all_of) for name in names}
    assert expected == {key: partition_of(key, PARTITIONS) for key in expected}
    assert set(expected.values()) == set(all_of)
    for name in names:
        quiet.subscribe("x > 1", subscriber_id="anna", subscription_id=name)
        quiet.unsubscribe(name)
    quiet.publish_many(Publication(name, "anna", "1") for name in names)
    for topic, each in (("subscriptions", 2), ("publications", 1)):
        records = everything(quiet, topic)
        assert len(records) == each * len(names)
        assert {(message.key(), message.partition()) for message in records} == set(expected.items())


def told(client: Client, **options: Any) -> list[tuple[str, str]]:
    return sorted((n.recipient_id, n.publication_id) for n in client.notifications(timeout=0.5, **options))


def notify(client: Client, recipient: str, name: str) -> None:
    notification = Notification("a" * 32, "s", "0-1", name, recipient, "subscriber", "1", 1, 1, "live")
    client._send("quiet.notifications", [(recipient, encode(notification))])


def test_since_begins_with_the_first_that_is_not_earlier(quiet: Client) -> None:
    """Kafka stamps milliseconds: one that carries the millisecond of `since` counts as not earlier."""
    many = (f"who-{number}" for number in range(100))
    places = {partition_of(name.encode(), PARTITIONS): name for name in many}
    recipients = [places[partition] for partition in range(PARTITIONS - 1)]  # the last partition stays empty
    sent: list[tuple[str, str]] = []
    for name in ("early", "middle", "late"):
        for recipient in recipients:
            notify(quiet, recipient, name)
            sent.append((recipient, name))
            time.sleep(0.003)  # each has a millisecond of its own
    stamps = {
        (message.key().decode(), name): message.timestamp()[1] * 1000
        for message in everything(quiet, "notifications")
        for name in ("early", "middle", "late")
        if name.encode() in message.value()
    }
    assert len(set(stamps.values())) == len(sent)

    def since(moment: int) -> list[tuple[str, str]]:
        return sorted(pair for pair, stamp in stamps.items() if stamp + 999 >= moment)

    first, last = stamps[sent[0]], stamps[sent[-1]]
    inner = stamps[sent[4]]
    for moment in (inner - 1, inner, inner + 999, inner + 1000, first - 1, 0, last, last + 999):
        assert told(quiet, since=Instant.of(moment)) == since(moment), moment
    # nothing there or later: from the end on, in each partition; the place is a number, which no later record moves
    for moment, here in ((last + 1000, [3, 3, 3, 0]), (None, [3, 3, 3, 0]), (0, [0, 0, 0, 0])):
        since_then = None if moment is None else Instant.of(moment)
        assert list(quiet.notifications(since=since_then).positions.values()) == here
    begun = [quiet.notifications(timeout=5, since=Instant.of(last + 1000)), quiet.notifications(timeout=5)]
    # of one recipient, whatever partition it has
    for recipient in recipients:
        assert [p for _, p in told(quiet, recipient_id=recipient, since=Instant.of(inner))] == [
            p for r, p in since(inner) if r == recipient
        ]
    for partition in range(PARTITIONS):
        notify(quiet, places[partition], "new")
    for each in begun:
        came = [(n.recipient_id, n.publication_id) for n in islice(each, PARTITIONS)]
        assert sorted(came) == sorted((recipient, "new") for recipient in places.values())


# ----------------------------------------------------------------------------------------------- a broker without an answer


def hasty(bootstrap: str, prefix: str = "hasty.") -> Client:
    settings = load({"topic_prefix": prefix}, environment={"PASTFORWARD_KAFKA_DELIVERY_TIMEOUT_MS": "1000"})
    return Client(bootstrap, settings=settings)


def everything_is_refused(client: Client) -> None:
    """Each call that writes says which record it is about, and nothing waits when the client is closed."""
    with pytest.raises(DeliveryError) as raised:
        client.publish_many(Publication(name) for name in ("a", "b"))
    assert sorted(key for key, _ in raised.value.errors) == ["a", "b"]
    with pytest.raises(DeliveryError, match="'c' was not delivered"):
        client.publish({"x": 1}, publication_id="c")
    with pytest.raises(DeliveryError, match="'d' was not delivered"):
        client.subscribe("x > 1", subscriber_id="s", subscription_id="d")
    with pytest.raises(DeliveryError, match="'e' was not delivered"):
        client.unsubscribe("e")
    client._delivery._producer.poll(0)  # what librdkafka says of its connections waits there as well
    assert len(client._delivery) == 0


@pytest.mark.parametrize("listens", [False, True], ids=["nobody there", "never answers"])
@pytest.mark.timeout(60)
def test_a_broker_that_was_never_there(listens: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if not listens:
            server.close()
        client = hasty(address)
        everything_is_refused(client)
        client.close()


@pytest.mark.timeout(120)
def test_a_broker_that_falls_silent(own_broker: OwnBroker) -> None:
    settings = load({"topic_prefix": "hasty."}, environment={})
    ensure(settings, connect(settings, own_broker.bootstrap))
    client = hasty(own_broker.bootstrap)

    def until_it_is_taken() -> None:
        deadline = time.monotonic() + PATIENCE
        while True:  # a connection, and a broker that has just begun, may take longer than the time-out here
            try:
                client.publish()
                return
            except DeliveryError:
                assert time.monotonic() < deadline

    until_it_is_taken()
    own_broker.end(signal.SIGSTOP)
    everything_is_refused(client)
    own_broker.end(signal.SIGCONT)
    until_it_is_taken()
    client.close()


@pytest.mark.timeout(60)
def test_what_was_sent_before_a_record_that_cannot_be_is_told_of() -> None:
    """The records that went before the bad one are nobody else's to wait for."""
    client = hasty("127.0.0.1:1")
    with pytest.raises(DeliveryError, match="'good' was not delivered") as raised:
        client.publish_many([Publication("good"), Publication("bad", topic="1..2")])
    assert isinstance(raised.value.__cause__, SchemaError)
    client.close()


def test_what_was_sent_before_a_record_that_cannot_be_is_there(quiet: Client) -> None:
    with pytest.raises(SchemaError, match=r"1\.\.2"):
        quiet.publish_many([Publication("good"), Publication("bad", topic="1..2"), Publication("never")])
    keys = {message.key() for message in everything(quiet, "publications")}
    assert (b"good" in keys, b"bad" in keys, b"never" in keys) == (True, False, False)


class Mute:
    """A producer that takes records, and never calls back."""

    def __init__(self) -> None:
        self.held = 0

    def produce(self, *_: Any, **__: Any) -> None:
        self.held += 1

    def poll(self, _: float) -> int:
        return 0

    def flush(self, _: float) -> int:
        return self.held


def test_a_producer_that_never_says_what_became_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "GRACE", 0.1)
    client = hasty("127.0.0.1:1")
    assert client._delivery.patience == pytest.approx(1.1)
    client._delivery._producer = Mute()
    with pytest.raises(DeliveryError, match="2 records without an answer"):
        client.publish_many([Publication("a"), Publication("b")])
    with pytest.raises(DeliveryError, match="2 records without an answer"):
        client.close()


@pytest.mark.parametrize(("told_ms", "seconds"), [(None, 35), ("120000", 125), ("0", 35)])
def test_an_answer_is_awaited_for_as_long_as_librdkafka_may_take(told_ms: str | None, seconds: int) -> None:
    given = {} if told_ms is None else {"PASTFORWARD_KAFKA_DELIVERY_TIMEOUT_MS": told_ms}
    client = Client("127.0.0.1:1", settings=load({}, environment=given))
    assert client._delivery.patience == seconds
    client.close()


def test_a_subscription_stands_at_several_topics(client: Client) -> None:
    """A pair that meets at all of them is notified once, in the past as now."""
    for name, topic in (("above", "31"), ("left", "31.1.7"), ("aside", "31.2"), ("right", "32.5")):
        client.publish(topic=topic, publication_id=name)
    probed = client.notifications("carl", timeout=30)
    client.subscribe(subscriber_id="carl", topic=["31", "32"], starts_at="-5m", subscription_id="several")
    assert {next(probed).publication_id for _ in range(4)} == {"above", "left", "aside", "right"}
    told = client.notifications("dora", timeout=30)
    with client.subscribe(subscriber_id="dora", topic=["32.5", "31.1", "31.1.2", "31.3"], starts_at="-5m") as handle:
        assert handle.subscription.topic == "31.1,31.3,32.5"
        assert {next(told).publication_id for _ in range(3)} == {"above", "left", "right"}
        for name, topic in (("above", "31"), ("right", "32.5.1"), ("last", "31.3")):
            client.publish(topic=topic, publication_id=f"{name}, live")
        assert [next(told).publication_id for _ in range(3)] == ["above, live", "right, live", "last, live"]
        (standing,) = client.subscriptions("dora")
        assert standing.record.topic == "31.1,31.3,32.5"
    with pytest.raises(SchemaError, match="there are 9 topics: write 1 to 8"):
        client.subscribe(subscriber_id="dora", topic=[str(n) for n in range(9)])
    with pytest.raises(SchemaError, match="have an empty one"):
        client.subscribe(subscriber_id="dora", topic="1,,2")
