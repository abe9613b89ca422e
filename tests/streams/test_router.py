"""A router by itself, chunk by chunk."""

from __future__ import annotations

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.topics import Topics
from schemas import Subscription, decode_dead_letter, encode
from streams.metrics import Metrics
from streams.outgoing import Outgoing
from streams.router import SubscriptionRouter
from streams.routes import Routes
from streams.routing import SCHEMES, Scheme, make_scheme
from streams.routing.change import State, View
from tests.streams.routing.records import CATALOG, DIVISIONS

TOPICS = Topics("")


def router(scheme: Scheme | None = None) -> SubscriptionRouter:
    return SubscriptionRouter(
        TopicPartition(TOPICS.subscriptions, 0),
        "subscriptions",
        TOPICS,
        scheme or make_scheme("dewey", 1, 1),
        1,
        View(state=State(1)),
        Metrics(),
        None,
        routes=Routes(TOPICS.routes, 0),
    )


def record(offset: int, value: bytes | None, milliseconds: int, key: bytes = b"s") -> Any:
    return SimpleNamespace(offset=offset, timestamp=milliseconds, key=key, value=value)


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


ALL_SCHEMES = [
    make_scheme(name, 4, 2, DIVISIONS[2] if name == "constraints" else CATALOG) for name in SCHEMES
] + [make_scheme("pan", 4)]  # fmt: skip
# As a subscription may come: withdrawn, unreadable, taken by some schemes or all, refused for its condition, its self-join, its end.
VALUES = [
    None,
    b"neither",
    *(
        json.dumps({"subscriber_id": "me", **said}).encode()
        for said in (
            {"topic": "1.2"},
            {"topic": "1.2", "where": "kind = 'a' AND size > 2"},
            {"topic": "1.3", "where": "kind IN ('a', 'b') AND NOT road LIKE '%x'", "semantics": "symmetric"},
            {"where": "open = TRUE OR size < 3", "semantics": "intersect"},
            {"topic": "2.1", "where": "place = PATH '1.2' OR code != 3"},
            {"topic": "1.2", "where": "kind = "},
            {"topic": "1.2", "where": "size > 2 AND size < 1"},
            {"topic": "1.2", "where": "previous.size > 2"},
            {"topic": "1.2", "where": "size > 2", "self_join": True},
            {"topic": "1.2", "where": "size > 3", "ends_at": 4_000},
        )
    ),
]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(ALL_SCHEMES),
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from(VALUES)), max_size=12),
    st.sets(st.integers(0, 12)),
)
def test_a_chunk_does_what_its_records_do_one_by_one(
    scheme: Scheme, said: list[tuple[bytes, bytes | None]], cuts: set[int]
) -> None:
    """The same letters, records, withdrawals and routes, in the same order, wherever the chunks are cut."""
    records = [record(i, value, i, key) for i, (key, value) in enumerate(said)]
    alone, together = router(scheme), router(scheme)
    ends = sorted({0, *(cut for cut in cuts if cut < len(records)), len(records)})
    chunks = [records[begin:end] for begin, end in pairwise(ends)]
    expected = Outgoing.joined([alone.process([each]) for each in records])
    found = Outgoing.joined([together.process(chunk) for chunk in chunks])
    assert found.outputs == expected.outputs
    assert found.changelog == expected.changelog
    assert _counts(together) == _counts(alone)


def _counts(router: SubscriptionRouter) -> set[tuple[str, str, float]]:
    samples = [sample for metric in router._metrics.dropped.collect() for sample in metric.samples]
    return {(s.name, str(s.labels), s.value) for s in samples if s.name.endswith("_total")}
