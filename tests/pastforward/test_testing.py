"""The test kit: a program is tested in memory, and the same test on the real thing says the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pastforward import Best, Client, Point, Refused, SchemaError, TokenExpired
from pastforward.testing import System


class Dispatcher:
    """A program that is tested: drivers ask for what happens around them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def enter(self, driver: str, cell: str) -> Any:
        return self._client.subscribe(
            "severity >= 2", subscriber_id=driver, subscription_id=driver, topic=cell, starts_at="-10m", ends_at="+10m"
        )

    def report(self, name: str, cell: str, severity: int) -> None:
        attributes = {"severity": severity, "place": Point(8.5, 47.4)}
        self._client.publish(attributes, publication_id=name, topic=cell, expires_at="+15m")


def scene(system: System) -> None:
    """What both kinds of system must say."""
    client = system.client()
    dispatcher = Dispatcher(client)
    dispatcher.report("before", "1.4.2", 3)
    dispatcher.report("slight", "1.4.2", 1)
    dispatcher.report("elsewhere", "2.1", 3)
    system.settle()
    with dispatcher.enter("anna", "1.4") as incidents:
        incidents.wait()
        found = next(incidents)
        assert (found.publication_id, found.phase, found.recipient_id) == ("before", "past", "anna")
        system.settle()
        assert incidents.next(0.0) is None
        token = incidents.token
        dispatcher.report("after", "1.4.7", 2)
        live = next(incidents)
        assert live.phase == "live"
        assert live.matched_at >= live.published_at
        (again,) = [client.notifications("anna", after=token).next(30.0)]
        assert again == live
        standing = client.subscription("anna")
        assert standing is not None
        assert (standing.version, standing.state) == (incidents.version, "live")
        incidents.replace(where="severity >= 5")
        incidents.wait()
        dispatcher.report("too slight", "1.4.7", 4)
        dispatcher.report("bad", "1.4.7", 6)
        assert next(incidents).publication_id == "bad"
        while not incidents.caught_up:
            assert incidents.next(0.1) is None
    assert client.subscription("anna") is None
    with pytest.raises(SchemaError, match="at character 4"):
        client.subscribe("x >", subscriber_id="anna")
    with client.notifications("anna", group="billing", since="-1h", timeout=30) as billing:
        names = [next(billing).publication_id for _ in range(3)]
        assert names == ["before", "after", "bad"]
        assert billing.ack(live) in (True, False)
    client._send(f"{client._topics.subscriptions}", [("broken", b'{"subscriber_id": "a", "where": "x >"}')])
    refusal = next(client.refusals(timeout=30))
    assert (refusal.name, refusal.kind) == ("broken", "bad_condition")


def test_a_program_in_memory(pastforward: System) -> None:
    scene(pastforward)


@pytest.mark.broker
@pytest.mark.pastforward_broker
def test_the_same_program_on_the_real_thing(pastforward: System) -> None:
    scene(pastforward)


@pytest.mark.pastforward_settings(hot_window="10m")
def test_the_clock_is_turned(pastforward: System) -> None:
    client = pastforward.client()
    client.publish({"x": 1}, topic="1", publication_id="old")
    client.publish({"x": 1}, topic="1", publication_id="expires", expires_at="+5m")
    pastforward.clock.advance("7m")
    with client.subscribe(subscriber_id="anna", topic="1", starts_at="-1h") as handle:
        assert [n.publication_id for n in [handle.next(), handle.next()] if n is not None] == ["old"]
    pastforward.clock.advance(timedelta(minutes=7))
    with client.subscribe(subscriber_id="ben", topic="1", starts_at="-1h", ends_at="+1m") as handle:
        found = handle.next()
        assert found is not None
        assert (found.publication_id, found.phase) == ("old", "backfill")  # it has left the hot window
        assert handle.next() is None
        assert found.matched_at == pastforward.clock.now
        pastforward.clock.advance("2m")
        assert [each.state for each in client.subscriptions()] == ["ended"]
        client.publish({"x": 1}, topic="1", publication_id="too late")
        assert handle.next() is None


def test_auctions_end_with_the_clock(pastforward: System) -> None:
    client = pastforward.client()
    client.subscribe("price <= 120", subscriber_id="anna", topic="7")
    client.publish(
        topic="7.1", where="price >= 100", best=Best("price", "highest"), expires_at="+10m", publication_id="lot"
    )
    offers = client.best_offers("lot")
    first = offers.next()
    assert first is not None
    assert (first.subscriber_id, first.value, first.final) == ("anna", 120, False)
    pastforward.clock.advance("11m")
    last = offers.next()
    assert last is not None
    assert last.final


def test_each_test_has_a_system_of_its_own(pastforward: System) -> None:
    client = pastforward.client()
    assert client.subscriptions() == []
    with pytest.raises(TokenExpired):
        client.notifications("anna", after="AQAJ")
    client._rules = type("Unchecked", (), {"accept": lambda *_: None})()  # type: ignore[assignment]
    handle = client.subscribe("x >", subscriber_id="anna")
    with pytest.raises(Refused):
        handle.wait()


def test_named_readers_take_turns(pastforward: System) -> None:
    client = pastforward.client()
    client.subscribe(subscriber_id="anna")
    first, second = client.notifications("anna", group="g"), client.notifications("anna", group="g")
    for name in ("a", "b"):
        client.publish({"x": 1}, publication_id=name)
    found = first.next()
    assert found is not None
    assert second.next() is None
    assert first.ack(found)
    first.close()
    after = second.next()
    assert after is not None
    assert after.publication_id == "b"
