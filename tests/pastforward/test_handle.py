"""What a program keeps of a subscription: its notifications from before it was sent, and what became of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pastforward import Client, NotTaken, Refused
from pastforward.broker import Broker
from pastforward.settings import load
from pastforward.topics import connect, ensure
from tests.conftest import StartWorker
from tests.outside import PATIENCE

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def client(broker: Broker, start_shared: StartWorker) -> Client:
    start_shared(topic_prefix="handle.", partitions=2).wait_ready()
    return Client(broker.bootstrap, settings=load({"topic_prefix": "handle."}, environment={}))


@pytest.fixture(scope="module")
def alone(broker: Broker) -> Client:
    """Of topics that no worker reads."""
    settings = load({"topic_prefix": "alone.", "partitions": 2}, environment={})
    ensure(settings, connect(settings, broker.bootstrap))
    return Client(broker.bootstrap, settings=settings)


def unchecked(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a client of another make, which sends whatever it has."""
    monkeypatch.setattr(client._rules, "accept", lambda *_: None)


def test_a_handle_misses_nothing_of_its_past(client: Client) -> None:
    """Nothing is read until long after the workers have found the past: twenty times, whoever is faster."""
    client.publish({"n": 1}, topic="1.1", publication_id="before")
    for _ in range(20):
        with client.subscribe("n = 1", subscriber_id="anna", topic="1.1", starts_at="-10m") as handle:
            handle.wait()
            found = next(handle)
            assert (found.publication_id, found.phase, found.subscription_id) == (
                "before",
                "past",
                handle.subscription_id,
            )
            assert found.subscription_version == handle.version


def test_a_handle_gives_its_own_notifications_alone(client: Client) -> None:
    with (
        client.subscribe("a = 1", subscriber_id="ben", topic="2.1") as one,
        client.subscribe("a = 1 OR b = 1", subscriber_id="ben", topic="2.1") as both,
        client.subscribe("b = 1", subscriber_id="cleo", topic="2.1") as other,
    ):
        for handle in (one, both, other):
            handle.wait()
        # a publisher who is the subscriber too is notified twice, once in each role
        client.publish({"a": 1}, topic="2.1", publication_id="first", publisher_id="ben")
        client.publish({"b": 1}, topic="2.1", publication_id="second")
        client.publish({"a": 1}, topic="2.1", publication_id="third")
        assert {next(both).publication_id for _ in range(3)} == {"first", "second", "third"}
        assert {next(one).publication_id for _ in range(2)} == {"first", "third"}
        assert next(other).publication_id == "second"
        assert one.next(0.1) is None


def test_caught_up_says_when_the_past_has_been_read(client: Client) -> None:
    names = {f"p{n}" for n in range(50)}
    for name in sorted(names):
        client.publish({"c": 1}, topic="3.1", publication_id=name)
    # the two inputs have no common order: what somebody was notified of is there
    with client.subscribe("c = 1", subscriber_id="probe", topic="3.1", starts_at="-10m") as probe:
        assert {next(probe).publication_id for _ in names} == names
    with client.subscribe("c = 1", subscriber_id="dora", topic="3.1", starts_at="-10m") as handle:
        found = []
        while not handle.caught_up:
            notification = handle.next(0.2)
            if notification is not None:
                found.append(notification.publication_id)
        assert sorted(found) == sorted(names)
        assert handle.caught_up
    with client.subscribe("c = 2", subscriber_id="dora", topic="3.1", starts_at="-10m") as handle:
        while not handle.caught_up:
            assert handle.next(0.2) is None


def test_what_asks_the_history_is_not_caught_up_until_the_history_has_answered(client: Client) -> None:
    client.publish({"d": 1}, topic="4.1", published_at="-2d")
    with client.subscribe("d = 1", subscriber_id="emil", topic="4.1") as probe:
        client.publish({"d": 1}, topic="4.1", publication_id="now")
        probe.wait()
    with client.subscribe("d = 1", subscriber_id="emil", topic="4.1", starts_at="-3d") as handle:
        handle.wait()
        assert not handle.caught_up
        completion: Any = handle._completion
        while not completion._matched():
            pass
        assert not completion._answered()  # its request is open
        (topic, asked) = (client._topics.backfill_requests, f"{handle.subscription_id}\0{handle.version}\0".encode())
        written = client._workers.written(topic, [0])[0]
        (key,) = {m.key() for m in client._workers.scan(topic, 0, 0, written) if m.key().startswith(asked)}
        client._send(topic, [(key.decode(), None)])  # as the history closes it
        assert completion._answered()
        while not handle.caught_up:
            handle.next(0.2)


def test_wait_raises_what_the_dead_letter_says(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    unchecked(client, monkeypatch)
    handle = client.subscribe("x >", subscriber_id="anna", subscription_id="broken")
    with pytest.raises(
        Refused, match=r"'broken' was refused: at character 4 \(the end\): something is missing"
    ) as raised:
        handle.wait()
    assert (raised.value.kind, raised.value.name) == ("bad_condition", "broken")
    with pytest.raises(Refused):
        next(handle)  # who iterates is told as well
    client.subscribe("x > 1", subscriber_id="anna", subscription_id="broken").wait()  # another record of that id


def test_refusals_are_those_of_the_client_that_sent_them(
    broker: Broker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"topic_prefix": "handle."}, environment={})
    with Client(broker.bootstrap, settings=settings) as one, Client(broker.bootstrap, settings=settings) as other:
        for each, name in ((one, "of one"), (other, "of the other"), (one, "of one again")):
            unchecked(each, monkeypatch)
            each.publish({"x": 1}, topic="5", where="x >", publication_id=name)
        mine = one.refusals(timeout=PATIENCE)
        found = [next(mine), next(mine)]
        assert {each.name for each in found} == {"of one", "of one again"}
        assert {each.kind for each in found} == {"bad_condition"}
        assert next(other.refusals(timeout=PATIENCE)).name == "of the other"
        first = min(each.arrived_at for each in found)
        everyones = client.refusals(everyone=True, since=first, timeout=PATIENCE)
        names: set[str | None] = set()
        while not names >= {"of one", "of the other", "of one again"}:
            names.add(next(everyones).name)


def test_without_a_worker_nothing_is_taken(alone: Client) -> None:
    handle = alone.subscribe(subscriber_id="anna", subscription_id="waits")
    with pytest.raises(NotTaken, match=r"no worker has taken subscription 'waits' within 0\.3 s"):
        handle.wait(0.3)
    assert not handle.caught_up


def test_closing_the_client_ends_a_handle(broker: Broker) -> None:
    own = Client(broker.bootstrap, settings=load({"topic_prefix": "alone."}, environment={}))
    handle = own.subscribe(subscriber_id="anna")
    read: list[object] = []
    thread = threading.Thread(target=lambda: read.extend(handle), daemon=True)
    thread.start()
    own.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert not read


def test_an_error_inside_is_not_hidden_by_a_withdrawal_that_fails(broker: Broker) -> None:
    own = Client(broker.bootstrap, settings=load({"topic_prefix": "alone."}, environment={}))

    def fail() -> None:
        with own.subscribe(subscriber_id="anna"):
            own.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
