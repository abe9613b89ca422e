"""A router by itself, chunk by chunk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition

from pastforward.topics import Topics
from schemas import Subscription, decode_dead_letter, encode
from streams.metrics import Metrics
from streams.outgoing import Outgoing
from streams.router import SubscriptionRouter
from streams.routes import Routes
from streams.routing import make_scheme
from streams.routing.change import State, View

TOPICS = Topics("")


def router() -> SubscriptionRouter:
    return SubscriptionRouter(
        TopicPartition(TOPICS.subscriptions, 0),
        "subscriptions",
        TOPICS,
        make_scheme("dewey", 1, 1),
        1,
        View(state=State(1)),
        Metrics(),
        None,
        routes=Routes(TOPICS.routes, 0),
    )


def record(offset: int, value: bytes | None, milliseconds: int) -> Any:
    return SimpleNamespace(offset=offset, timestamp=milliseconds, key=b"s", value=value)


def letters(outgoing: Outgoing) -> list[str]:
    return [decode_dead_letter(value).kind for _, value in outgoing.outputs[TOPICS.dead_letters, 0] if value]


def test_the_same_again_changes_nothing_even_after_its_end() -> None:
    subscriptions = router()
    value = encode(Subscription("s", "me", ends_at=10_000))
    outgoing = subscriptions.process([record(0, value, 5), record(1, value, 11)])
    assert letters(outgoing) == []
    assert len(outgoing.outputs[TOPICS.rendezvous, 0]) == 1


def test_one_that_has_ended_before_it_came_is_refused() -> None:
    subscriptions = router()
    outgoing = subscriptions.process([record(0, encode(Subscription("s", "me", ends_at=10_000)), 11)])
    assert letters(outgoing) == ["bad_window"]
    assert outgoing.outputs[TOPICS.rendezvous, 0] == []
