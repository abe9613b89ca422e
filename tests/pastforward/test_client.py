from __future__ import annotations

import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path as File

import pytest

from matching.values import Box, Circle, Path, Point
from pastforward import Client, DeliveryError
from pastforward.broker import Broker
from pastforward.client import Best
from pastforward.settings import load
from pastforward.topics import connect, ensure
from schemas import Notification, Publication, SchemaError, encode
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
