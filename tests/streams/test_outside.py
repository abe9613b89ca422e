"""Everything from outside, with confluent-kafka and JSON alone, against a real broker and a real worker.

That something does not come is shown by something later that does: one partition has one order. All topics of a test begin with
the same component, so its records meet in one rendezvous partition.
"""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

import pytest

from pastforward.schemas import decode_dead_letter
from tests.outside import Outside

pytestmark = pytest.mark.broker
numbers = itertools.count(1)

MINUTE = 60_000_000


@pytest.fixture
def place() -> str:
    """A topic of the test's own."""
    return str(next(numbers))


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


def now() -> int:
    return time.time_ns() // 1000


def told(outside: Outside, name: str, count: int = 1) -> list[tuple[str, str]]:
    return [(n["publication_id"], n["phase"]) for n in outside.notified(name, count)]


def test_a_publication_finds_the_subscription_that_came_before(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic=place, where="kind = 'accident' AND severity >= 3")
    outside.stored(name)
    outside.publish(f"{name}-mild", topic=place, attributes={"kind": "accident", "severity": 2})
    outside.publish(f"{name}-bad", topic=place, attributes={"kind": "accident", "severity": 4})
    assert told(outside, name) == [(f"{name}-bad", "live")]
    (notification,) = outside.notified(name)
    assert notification["recipient_id"] == f"{name}'s"
    assert notification["role"] == "subscriber"
    assert notification["topic"] == place


def test_a_subscription_finds_the_publications_that_came_before(outside: Outside, place: str, name: str) -> None:
    outside.publish(f"{name}-a", topic=place, attributes={"x": 1})
    outside.publish(f"{name}-b", topic=place, attributes={"x": 2})
    outside.stored(f"{name}-a")
    outside.stored(f"{name}-b")
    outside.subscribe(name, topic=place, starts_at=now() - MINUTE, where="x = 2")
    assert told(outside, name) == [(f"{name}-b", "past")]


def test_without_a_start_the_past_is_not_asked(outside: Outside, place: str, name: str) -> None:
    outside.publish(f"{name}-a", topic=place)
    outside.stored(f"{name}-a")
    outside.subscribe(name, topic=place)
    outside.stored(name)
    outside.publish(f"{name}-b", topic=place)
    assert told(outside, name) == [(f"{name}-b", "live")]


def test_a_withdrawn_subscription_is_not_told(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic=place)
    outside.subscribe(f"{name}-other", topic=place)
    outside.stored(f"{name}-other")
    outside.send("subscriptions", name, None)
    outside.stored(name, 2)
    outside.publish(f"{name}-p", topic=place)
    outside.notified(f"{name}-other")
    assert not [n for n in outside.records["notifications"] if f'"{name}"' in n.value().decode()]


def test_the_same_id_replaces(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic=place, where="x = 1")
    outside.stored(name)
    outside.subscribe(name, topic=place, where="x = 2")
    outside.stored(name, 2)
    outside.publish(f"{name}-1", topic=place, attributes={"x": 1})
    outside.publish(f"{name}-2", topic=place, attributes={"x": 2})
    assert told(outside, name) == [(f"{name}-2", "live")]


def test_a_replacement_elsewhere_ends_the_original(outside: Outside, name: str) -> None:
    """Whatever partition the new topic leads to."""
    places = [str(next(numbers)) for _ in range(6)]
    for place in places:
        outside.subscribe(name, topic=place)
    outside.subscribe(f"{name}-all", topic="")
    outside.stored(f"{name}-all", 2)
    outside.wait("rendezvous", lambda m: m.key() == name.encode(), 6)
    for place in places:
        outside.publish(f"{name}-{place}", topic=place)
    assert len(outside.notified(f"{name}-all", 6, of=name)) == 6  # the other tests' are also below the root
    assert told(outside, name) == [(f"{name}-{places[-1]}", "live")]


def test_what_has_expired_is_not_the_past(outside: Outside, place: str, name: str) -> None:
    outside.publish(f"{name}-old", topic=place, published_at=now() - 2 * MINUTE, expires_at=now() - MINUTE)
    outside.publish(f"{name}-valid", topic=place, published_at=now() - 2 * MINUTE, expires_at=now() + 5 * MINUTE)
    outside.stored(f"{name}-old")
    outside.stored(f"{name}-valid")
    outside.subscribe(name, topic=place, starts_at=now() - 5 * MINUTE)
    assert told(outside, name) == [(f"{name}-valid", "past")]


def test_ancestors_and_descendants_overlap(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(f"{name}-overlap", topic=f"{place}.4.2")
    outside.subscribe(f"{name}-subtree", topic=f"{place}.4.2", scope="subtree")
    outside.stored(f"{name}-overlap")
    outside.stored(f"{name}-subtree")
    for topic in (f"{place}.4", f"{place}.5", f"{place}.4.3", f"{place}.4.2", f"{place}.4.2.1.1"):
        outside.publish(f"{name}-{topic}", topic=topic)
        outside.stored(f"{name}-{topic}")
    below = [(f"{name}-{place}.4.2", "live"), (f"{name}-{place}.4.2.1.1", "live")]
    assert told(outside, f"{name}-overlap", 3) == [(f"{name}-{place}.4", "live"), *below]
    assert told(outside, f"{name}-subtree", 2) == below


def test_nine_is_not_ten(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic=f"{place}.1")
    outside.subscribe(f"{name}-10", topic=f"{place}.10")
    outside.stored(name)
    outside.stored(f"{name}-10")
    outside.publish(f"{name}-p9", topic=f"{place}.9")
    outside.publish(f"{name}-p10", topic=f"{place}.10")
    outside.publish(f"{name}-p1", topic=f"{place}.1.9")
    assert told(outside, f"{name}-10") == [(f"{name}-p10", "live")]
    assert told(outside, name) == [(f"{name}-p1", "live")]


def test_what_is_above_the_routing_depth_meets_once(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic="")
    outside.stored(name, 2)
    outside.publish(f"{name}-root", topic="")
    outside.publish(f"{name}-below", topic=f"{place}.1")
    found = [(n["publication_id"], n["phase"]) for n in outside.notified(name, 2, of=name)]
    assert sorted(found) == [(f"{name}-below", "live"), (f"{name}-root", "live")]


def test_a_repeated_publication_is_dropped(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic=place)
    outside.stored(name)
    for publication in (f"{name}-a", f"{name}-a", f"{name}-b"):
        outside.publish(publication, topic=place)
        outside.stored(publication)
    assert told(outside, name, 2) == [(f"{name}-a", "live"), (f"{name}-b", "live")]


def test_the_publisher_is_told_as_well(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic=place)
    outside.stored(name)
    outside.publish(f"{name}-p", topic=place, publisher_id="seller")
    roles = {(n["role"], n["recipient_id"]) for n in outside.notified(name, 2)}
    assert roles == {("subscriber", f"{name}'s"), ("publisher", "seller")}
    assert len({n["notification_id"] for n in outside.notified(name, 2)}) == 2


BAD: list[tuple[str, str, Any, str]] = [
    ("subscriptions", "malformed", b"\xc3\x01nonsense", "fingerprint"),
    ("subscriptions", "malformed", b"[1, 2]", "first byte"),
    ("publications", "malformed", b'{"topic": ', "cannot be read"),
    ("publications", "wrong_type", {"attributes": {"x": [1]}}, "x"),
    ("subscriptions", "bad_path", {"subscriber_id": "s", "topic": "1..2"}, "1..2"),
    ("publications", "bad_path", {"topic": "1.x"}, "1.x"),
    ("subscriptions", "bad_window", {"subscriber_id": "s", "starts_at": 20, "ends_at": 10}, "ends_at"),
    ("subscriptions", "bad_condition", {"subscriber_id": "s", "where": "x >"}, "missing at the end"),
    ("publications", "missing", None, "no value"),
    ("subscriptions", "unknown_field", {"subscriber_id": "s", "topics": "1"}, "topic"),
    ("subscriptions", "missing", {"topic": "1"}, "subscriber_id"),
    ("subscriptions", "bad_id", {"subscriber_id": "s", "subscription_id": "another"}, "key"),
]


@pytest.mark.parametrize(("topic", "kind", "value", "says"), BAD, ids=[f"{b[0]}-{b[1]}-{i}" for i, b in enumerate(BAD)])
def test_bad_input_becomes_one_dead_letter(
    outside: Outside, place: str, name: str, topic: str, kind: str, value: Any, says: str
) -> None:
    outside.subscribe(f"{name}-good", topic=place)
    outside.stored(f"{name}-good")
    outside.send(topic, f"{name}-bad", value, headers=[("zoo", b"\xff")])
    outside.publish(f"{name}-next", topic=place)
    assert told(outside, f"{name}-good") == [(f"{name}-next", "live")]
    (message,) = outside.wait("dead-letters", lambda m: m.key() == f"{name}-bad".encode())
    letter = decode_dead_letter(message.value())
    assert (letter.topic, letter.kind, letter.key) == (outside.prefix + topic, kind, f"{name}-bad".encode())
    assert says in letter.reason
    sent = value if value is None or isinstance(value, bytes) else None
    assert letter.value == sent or isinstance(value, dict)
    assert letter.offset >= 0
    assert letter.arrived_at > now() - 10 * MINUTE


def test_an_id_over_512_bytes_is_a_dead_letter(outside: Outside, name: str) -> None:
    key = name + "x" * 600
    outside.subscribe(key)
    (message,) = outside.wait("dead-letters", lambda m: m.key() == key.encode())
    assert decode_dead_letter(message.value()).kind == "bad_id"


def test_a_refused_replacement_leaves_the_old_version_in_force(outside: Outside, place: str, name: str) -> None:
    outside.subscribe(name, topic=place)
    outside.stored(name)
    outside.subscribe(name, topic=place, where="((")
    outside.wait("dead-letters", lambda m: m.key() == name.encode())
    outside.publish(f"{name}-p", topic=place)
    assert told(outside, name) == [(f"{name}-p", "live")]


def test_a_record_over_a_mebibyte_is_a_dead_letter(outside: Outside, place: str, name: str) -> None:
    """Compressed, it is small enough for the broker."""
    outside.subscribe(name, topic=place)
    outside.stored(name)
    value = b'{"topic": "' + place.encode() + b'"' + b" " * (1 << 20) + b"}"
    outside.send("publications", f"{name}-large", value)
    outside.publish(f"{name}-next", topic=place)
    assert told(outside, name) == [(f"{name}-next", "live")]
    (message,) = outside.wait("dead-letters", lambda m: m.key() == f"{name}-large".encode())
    letter = decode_dead_letter(message.value())
    assert letter.kind == "too_large"
    assert letter.value == value[: 1 << 20]


def test_one_id_on_several_topics(outside: Outside, place: str, name: str) -> None:
    """They were taken for repeats of each other where they met, and had one `notification_id` where they did not."""
    outside.subscribe(name, topic=place)
    outside.stored(name)
    for topic in (place, f"{place}.1", f"{place}.2", f"{place}.2"):
        outside.publish(f"{name}-p", topic=topic)
    outside.stored(f"{name}-p", 4)
    outside.settle(place)
    found = outside.notified(name, of=f"{name}-p")
    assert sorted(n["topic"] for n in found) == [place, f"{place}.1", f"{place}.2"]
    assert len({n["notification_id"] for n in found}) == 3
