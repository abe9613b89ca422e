"""A router by itself, chunk by chunk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.schemas import (
    CanonicalPublication,
    Subscription,
    Version,
    decode_dead_letter,
    decode_rendezvous,
    encode,
)
from pastforward.streams.router.router import PublicationRouter, SubscriptionRouter
from pastforward.streams.router.routes import STEP, HeldSet, Route, Routes, digest_of, recipient_of
from pastforward.streams.routing import SCHEMES, Scheme, make_scheme
from pastforward.streams.routing.change import State, View
from pastforward.streams.stages.guard import in_halves
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.worker.offset_metadata import mark, read_mark
from pastforward.topics import Topics
from tests.streams.routing.records import CATALOG, DIVISIONS

TOPICS = Topics("")


def router(scheme: Scheme | None = None, hot_window: int | None = None) -> SubscriptionRouter:
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
        hot_window=hot_window,
    )


def record(offset: int, value: bytes | None, milliseconds: int, key: bytes | None = b"s") -> Any:
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


MINUTE = 60_000  # milliseconds


def test_the_route_of_one_that_has_ended_is_forgotten_a_hot_window_later() -> None:
    subscriptions = router(hot_window=10_000)
    value = encode(Subscription("s", "me", starts_at=0, ends_at=20_000))
    stays = encode(Subscription("t", "me"))
    sent = subscriptions.process([record(0, value, 5), record(1, stays, 5, b"t"), record(2, value, 30)])
    assert len(sent.outputs[TOPICS.rendezvous, 0]) == 2, "the same again, until it is forgotten"
    late = subscriptions.process([record(3, None, 31)])
    assert late.outputs[TOPICS.rendezvous, 0] == [], "a withdrawal of what is not known"
    assert len(subscriptions._routes) == 2
    again = subscriptions.process([record(4, value, 31)])
    assert len(again.outputs[TOPICS.rendezvous, 0]) == 1, "a subscription of its own"
    refused = subscriptions.process([record(5, encode(Subscription("s", "me", ends_at=20_000)), 50)])
    assert letters(refused) == ["bad_window"]
    subscriptions.process([record(6, stays, 3 * MINUTE, b"t")])
    assert len(subscriptions._routes) == 1


def test_what_ended_together_is_forgotten_in_small_steps() -> None:
    count = 2_500
    subscriptions = router(hot_window=0)
    values = [encode(Subscription(f"s{n}", "me", starts_at=0, ends_at=20_000)) for n in range(count)]
    subscriptions.process([record(n, value, 5, f"s{n}".encode()) for n, value in enumerate(values)])
    first = subscriptions.process([record(count, None, 3 * MINUTE)])
    assert len(first.changelog[TOPICS.routes, 0]) == STEP
    assert {value for _, value in first.changelog[TOPICS.routes, 0]} == {None}
    silent = []
    while (outgoing := subscriptions.idle()) is not None:
        silent.append(len(outgoing.changelog[TOPICS.routes, 0]))
    assert silent == [1_000, 1_000, 500 - STEP]
    assert len(subscriptions._routes) == 0
    assert not subscriptions._routes._slices


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 4), st.none() | st.integers(0, 12)),
        st.tuples(st.just("withdraw"), st.integers(0, 4), st.none()),
        st.tuples(st.sampled_from(["begin", "undo", "restore"]), st.just(0), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(steps, st.integers(0, 3), st.integers(0, 30))
def test_routes_are_those_of_a_plain_table(
    script: list[tuple[str, int, int | None]], hot_window: int, pace: int
) -> None:
    """Whatever is undone, restored or forgotten meanwhile: who has ended a hot window ago is unknown, and everybody else is there."""
    minute = MINUTE * 1000
    changelog: dict[bytes, bytes | None] = {}
    routes = Routes("r", 0)
    routes.keep(hot_window * minute)
    table: dict[bytes, Route] = {}
    before, now, now_before, pending = dict(table), 0, 0, Outgoing()

    def commit() -> None:
        changelog.update({key: value for key, value in pending.changelog["r", 0] if key is not None})

    for number, (what, which, ends) in enumerate(script):
        name = b"s%d" % which
        if what == "undo":
            routes.undo()
            table, now, pending = dict(before), now_before, Outgoing()
        if what == "restore":
            commit()
            pending = Outgoing()
            routes = Routes("r", 0)
            routes.restore([SimpleNamespace(key=key, value=value) for key, value in changelog.items()])
            routes.keep(hot_window * minute)
        if what in ("begin", "undo", "restore"):
            commit()
            pending = Outgoing()
            routes.begin()
            before, now_before = dict(table), now
            continue
        now += pace * minute // 10
        routes.advance(now, pending)
        table = {
            key: route
            for key, route in table.items()
            if route.ends_at is None or now <= max(route.ends_at, route.version.arrived_at) + hot_window * minute
        }
        assert {
            key: route for key in (b"s%d" % n for n in range(5)) if (route := routes.get(key, now)) is not None
        } == table
        if what == "put":
            until = None if ends is None else ends * minute
            other = Version(now, 1, number)
            held_set = HeldSet(other, recipient_of(b"anna")) if number % 2 else None
            asks_from, paused = (other if number % 3 else None), number % 5 == 0
            digest = digest_of(bytes([number]))
            table[name] = Route(Version(now, 0, number), (1, 2), digest, until, held_set, asks_from, paused)
            routes.put(name, table[name], pending)
            assert routes.unchanged(name, digest_of(bytes([number])), now)
        elif routes.get(name, now) is not None:
            routes.remove(name, pending)
            del table[name]
    for _ in range(200):
        routes.advance(10**9 * minute, pending)
    assert len(routes) == sum(route.ends_at is None for route in table.values())


def test_memory_follows_what_is_held_however_often_it_is_replaced() -> None:
    routes = Routes("r", 0)
    routes.keep(0)
    for number in range(20_000):
        route = Route(Version(number, 0, number), (0,), digest_of(b"x"), 10**12 + number * MINUTE * 1000)
        routes.put(b"s", route, Outgoing())
    assert routes._entries <= 2 + 1_000
    assert sum(map(len, routes._slices.values())) == routes._entries
    assert len(routes._slices) == len(routes._due) <= 1_002


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
    st.sampled_from([None, 0, 1_000, 4_000]),
)
def test_a_chunk_does_what_its_records_do_one_by_one(
    scheme: Scheme, said: list[tuple[bytes, bytes | None]], cuts: set[int], hot_window: int | None
) -> None:
    """The same letters, records, withdrawals and routes, in the same order, wherever the chunks are cut."""
    records = [record(i, value, i, key) for i, (key, value) in enumerate(said)]
    alone, together = router(scheme, hot_window), router(scheme, hot_window)
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


def versions(outgoing: Outgoing) -> list[tuple[str, Version]]:
    records: list[Any] = [
        decode_rendezvous(value).record for _, value in outgoing.outputs[TOPICS.rendezvous, 0] if value
    ]
    return [(type(record).__name__, record.version) for record in records]


def test_a_clock_that_steps_back_changes_no_order_of_versions() -> None:
    """A replacement and a withdrawal with earlier stamps were older versions to the matcher: the first version stayed for good."""
    subscriptions = router()
    first, second = (encode(Subscription("s", "me", topic=topic)) for topic in ("1", "2"))
    sent = [
        *versions(subscriptions.process([record(0, first, 500)])),
        *versions(subscriptions.process([record(1, second, 100), record(2, None, 50)])),
    ]
    assert sent == [
        ("CanonicalSubscription", Version(500_000, 0, 0)),
        ("CanonicalSubscription", Version(500_000, 0, 1)),
        ("Withdrawal", Version(500_000, 0, 2)),
    ]


def test_a_clock_that_stepped_back_before_a_takeover() -> None:
    before = router()
    value = encode(Subscription("s", "me"))
    outgoing = before.process([record(0, value, 500)])
    routes = Routes(TOPICS.routes, 0)
    routes.restore([SimpleNamespace(key=key, value=value) for key, value in outgoing.changelog[TOPICS.routes, 0]])
    after = SubscriptionRouter(
        before._partition, "subscriptions", TOPICS, before._scheme, 1, before._view, Metrics(), None, routes=routes
    )
    assert versions(after.process([record(1, None, 20)])) == [("Withdrawal", Version(500_000, 0, 1))]


# ---------------------------------------------------------------------------------------------------- a clock that steps back


def publications(arrived_at: int = 0, version: int = 1, view: View | None = None) -> PublicationRouter:
    made = router()
    return PublicationRouter(
        TopicPartition(TOPICS.publications, 0),
        "publications",
        TOPICS,
        made._scheme,
        version,
        view or made._view,
        Metrics(),
        None,
        arrived_at=arrived_at,
    )


def published(outgoing: Outgoing) -> list[tuple[int, int]]:
    """When each arrived, and is said to have happened."""
    read = [decode_rendezvous(value) for _, value in outgoing.outputs[TOPICS.rendezvous, 0] if value]
    return [(each.arrived_at, cast(CanonicalPublication, each.record).published_at) for each in read]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["good", "bad", "fails"])), min_size=1, max_size=20),
    st.lists(st.integers(0, 20), max_size=4),
    st.integers(0, 5),
)
def test_arrivals_of_publications_never_go_back(script: list[tuple[int, str]], cuts: list[int], before: int) -> None:
    """Whatever the broker's clock does, however the log is cut into chunks, and whoever takes over between two of them. What is refused
    tells the time all the same."""
    value = {"good": b'{"topic": "1"}', "bad": b"{", "fails": b'{"topic": "1", "publication_id": "fails"}'}
    records = [record(n, value[what], at, key=None) for n, (at, what) in enumerate(script)]
    highest = np.maximum.accumulate([before, *(at for at, _ in script)])[1:] * 1000
    wanted = [(int(at), int(at)) for at, (_, what) in zip(highest, script, strict=True) if what == "good"]
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    found: list[tuple[int, int]] = []
    arrived = before * 1000
    for first, end in pairwise(edges):
        taken = publications(arrived)

        def process(some: Sequence[Any], taken: PublicationRouter = taken) -> Outgoing:
            outgoing = taken.process(some)
            if any(b"fails" in each.value for each in some):
                taken._undo()
                raise RuntimeError("this one")
            return outgoing

        parts = in_halves(process, taken.refuse, records[first:end])
        found += [each for part in parts for each in published(part)]
        arrived = taken.arrived_at
    assert found == wanted
    assert arrived == highest[-1]


def test_a_router_says_each_word_of_its_life_once() -> None:
    """It holds when its version is being built, and flips when the next one is."""
    view = View(state=State(1, 2, flipping=True))
    taken = publications(0, version=2, view=view)

    def word(position: int) -> list[Any]:
        say = taken.allowed(position).say
        return [] if say is None else say.outputs[TOPICS.directory, 0]

    assert word(5) == [(b"hold/2/publications/0", b"5")]
    assert word(5) == []
    view.holds[2, "publications", 0] = view.flips[2, "publications", 0] = 5
    view.state = State(2)
    assert word(7) == []
    view.state = State(2, 3, flipping=True)
    assert word(8) == []
    view.holds[3, "publications", 0] = 9
    assert word(8) == []
    assert word(9) == [(b"flip/3/publications/0", b"9")]
    assert word(9) == []


@given(
    st.text("abc-1", min_size=0, max_size=5),
    st.dictionaries(st.text("a.b_-", min_size=1, max_size=5), st.text("xyz-_1=", min_size=1, max_size=4), max_size=3),
    st.integers(0, 1 << 62),
)
def test_what_stands_beside_an_offset_is_read_again(owner: str, ids: dict[str, str], arrived_at: int) -> None:
    assert read_mark(mark(owner, ids, arrived_at)) == (owner, ids, arrived_at)


@pytest.mark.parametrize("metadata", ["", "owner", "owner t=i", "owner ~arrived= t", "owner ~arrived=soon"])
def test_what_others_have_written_beside_an_offset_tells_no_time(metadata: str) -> None:
    assert read_mark(metadata)[2] == 0
