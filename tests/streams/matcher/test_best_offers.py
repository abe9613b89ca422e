"""An auction, from outside: a painting is offered from 100 on, and whoever would pay most holds it."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest

from pastforward.broker import Broker
from pastforward.client import Best, Client, Instant
from pastforward.columns.times import SECOND
from pastforward.settings import load
from tests.conftest import Command
from tests.outside import PATIENCE, Outside

pytestmark = pytest.mark.broker
ROLES = ("subscriber", "publisher")


def told(outside: Outside, publication: str, count: int) -> list[tuple[str, str, Any]]:
    """Who was told of the best offer, in order, and what it was."""
    found = outside.wait(
        "notifications",
        lambda m: (n := json.loads(m.value()))["publication_id"] == publication and n["phase"] == "best",
        count,
    )
    notes = [json.loads(m.value()) for m in found]
    return [(n["subscription_id"], n["role"], n.get("value")) for n in notes]


def offers(outside: Outside, publication: str, count: int) -> list[tuple[Any, Any, bool]]:
    found = outside.wait("best-offers", lambda m: m.key() == publication.encode(), count)
    read = [json.loads(m.value()) for m in found]
    return [(o["subscription_id"], o["value"], o["final"]) for o in read]


def test_an_auction(outside: Outside) -> None:
    name, topic = uuid.uuid4().hex, "77.1"
    anna, ben, carl = (f"{name}-{who}" for who in ("anna", "ben", "carl"))
    outside.subscribe(anna, topic=topic, where="lot = 'painting' AND price <= 120")
    outside.stored(anna)
    outside.publish(
        name,
        topic=topic,
        attributes={"lot": "painting"},
        where="price >= 100",
        best={"attribute": "price", "prefer": "highest"},
        publisher_id="house",
        expires_at=time.time_ns() // 1000 + 6 * SECOND,
    )
    outside.stored(name)
    for who, limit in ((carl, 90), (ben, 150)):
        outside.subscribe(who, topic=topic, where=f"lot = 'painting' AND price <= {limit}", starts_at=0)
        outside.stored(who)
    outside.send("subscriptions", ben, None)
    outside.stored(ben, 2)
    # anna holds it, ben outbids her, goes, and it is hers again; it is over when it expires, on its own
    assert offers(outside, name, 4) == [(anna, 120, False), (ben, 150, False), (anna, 120, False), (anna, 120, True)]
    changes = told(outside, name, 8)
    won = [(who, role, value) for who, value in ((anna, 120), (ben, 150), (anna, 120)) for role in ROLES]
    lost = [(anna, "subscriber", None), (ben, "subscriber", None)]
    assert sorted(changes, key=str) == sorted(won + lost, key=str)


def test_nobody_is_left(outside: Outside) -> None:
    name, topic = uuid.uuid4().hex, "77.2"
    outside.publish(name, topic=topic, where="price >= 100", best={"attribute": "price", "prefer": "lowest"})
    outside.stored(name)
    outside.subscribe(f"{name}-s", topic=topic, where="price >= 110", starts_at=0)
    outside.stored(f"{name}-s")
    outside.send("subscriptions", f"{name}-s", None)
    assert offers(outside, name, 2) == [(f"{name}-s", 110, False), (None, None, False)]
    assert told(outside, name, 2) == [(f"{name}-s", "subscriber", 110), (f"{name}-s", "subscriber", None)]


@pytest.mark.parametrize("topic", ["", None])
def test_above_the_routing_depth_it_is_refused(outside: Outside, topic: str | None) -> None:
    name = uuid.uuid4().hex
    fields = {} if topic is None else {"topic": topic}
    outside.publish(name, best={"attribute": "price", "prefer": "lowest"}, **fields)
    (letter,) = outside.wait("dead-letters", lambda m: m.key() == name.encode())
    assert b"ROUTING_DEPTH" in letter.value()


def test_client_and_command_line(broker: Broker, outside: Outside, command: Command) -> None:
    name = uuid.uuid4().hex
    settings = load({"bootstrap_servers": broker.bootstrap, "topic_prefix": outside.prefix}, environment={})
    flags = ("--bootstrap-servers", broker.bootstrap, "--topic-prefix", outside.prefix)
    with Client(settings=settings) as client:
        client.publish(topic="77.3", publication_id=f"{name}-1", where="price >= 5", best=Best("price", "highest"))
        done = command(
            *("publish", *flags, "--topic", "77.3", "--id", f"{name}-2"),
            *("--where", "price >= 5", "--best", "price", "--prefer", "lowest"),
        )
        assert done.returncode == 0, done.stderr
        for number in (1, 2):
            outside.stored(f"{name}-{number}")
        client.subscribe("price <= 9", topic="77.3", subscriber_id="anna", starts_at=Instant.of(0))
        values = {}
        for offer in client.best_offers(timeout=PATIENCE):
            values[offer.publication_id] = offer.value
            if {f"{name}-1", f"{name}-2"} <= values.keys():
                break
        assert (values[f"{name}-1"], values[f"{name}-2"]) == (9, 5)
    seen = command("watch", *flags, "--best", "--json", "--timeout", "3")
    lines = {line["publication_id"]: line for line in map(json.loads, seen.stdout.splitlines())}
    assert lines[f"{name}-2"]["value"] == 5
    shown = command("watch", *flags, "--best", "--timeout", "3")
    assert f"{name}-1 at 77.3 9 by anna" in shown.stdout.replace("\n", "")
