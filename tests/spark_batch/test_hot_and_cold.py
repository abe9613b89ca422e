"""No hole and no overlap: what a subscription is told of the past, by its partition and by the history, is everything, once.

Random logs go through the definition of a rendezvous partition; the requests it writes are answered from rows of the history.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition
from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.schemas import (
    BackfillRequest,
    CanonicalPublication,
    CanonicalSubscription,
    Publication,
    Rendezvous,
    Version,
)
from pastforward.spark_batch.duplicates import losers
from pastforward.spark_batch.earlier import looking_back
from pastforward.spark_batch.pairs import Asked, match_batch
from pastforward.spark_batch.report import make_report
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.rows import micros
from pastforward.streams.matcher.notification_id import event_name
from pastforward.streams.reference import Found, Partition, offer_of, query_of
from pastforward.streams.routing import Directory, reports
from pastforward.streams.routing import Publication as RoutedPublication
from pastforward.streams.routing import Subscription as RoutedSubscription
from tests.spark_batch.records import rows_of

HOT_WINDOW = 10
DIRECTORY = Directory(1, "dewey", 3)
TOPICS = ["", "1", "1.2", "2", "3.1"]
WHERE = ["x >= 1", "x = 2", "x IN (0, 3)", "previous.x >= 1", "previous.x IS NULL OR x = 1", "y IS NULL"]


Pair = tuple[str, int, str, str, int]  # subscription, partition, publication, its topic, and when it was published


@dataclass
class Recorder(Partition):
    """Also remembers what was fixed when a record came."""

    fixed: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    held: dict[str, tuple[CanonicalSubscription, ...]] = field(default_factory=dict)

    def __init__(self, number: int) -> None:
        super().__init__(number, HOT_WINDOW)
        self.fixed = {}
        self.held = {}
        self.before_pause: dict[str, set[tuple[str, str, int]]] = {}

    def _publish(self, record: CanonicalPublication, envelope: Rendezvous, found: Found) -> None:
        if event_name(record.publication_id, record.topic) not in self.arrivals:
            earlier = self._earlier(record.topic)
            self.fixed[record.publication_id, record.topic, record.published_at] = offer_of(
                record, earlier[0].record.attributes if earlier else {}
            )
        super()._publish(record, envelope, found)

    def _subscribe(self, record: CanonicalSubscription, envelope: Rendezvous, found: Found) -> None:
        if record.paused:
            self.before_pause[record.subscription_id] = set(self.fixed)
        elif record.subscription_id not in self.subscriptions:  # it has ended
            self.before_pause.pop(record.subscription_id, None)
        self.held[record.subscription_id] = self._covers(record)
        super()._subscribe(record, envelope, found)


published = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "age": st.integers(-3, 40),
        "lasts": st.none() | st.integers(1, 60),
        "attributes": st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 3)),
        "name": st.sampled_from([None, None, None, "again"]),
    }
)
subscribed = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "scope": st.sampled_from(["overlap", "subtree"]),
        "reach": st.integers(0, 60),
        "ends": st.none() | st.integers(-20, 30),
        "time": st.sampled_from(["published", "valid"]),
        "where": st.none() | st.sampled_from(WHERE),
        "semantics": st.sampled_from(["classical", "intersect"]),
        "self_join": st.booleans(),
        "who": st.sampled_from(["a", "b"]),
        "paused": st.sampled_from([False, False, True]),  # then it comes again, resumed, in the place of the next one
    }
)
steps = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 1), st.one_of(published, published, subscribed)),
    min_size=2,
    max_size=14,
)


@given(steps)
@settings(max_examples=80, deadline=None)
def test_past_and_backfill_together_are_everything_once(log: list[Any]) -> None:
    scheme = DIRECTORY.make()
    partitions = [Recorder(number) for number in range(DIRECTORY.partitions)]
    arrived_at, offsets = 100, [0, 0]
    records: list[tuple[Publication, int, int, int]] = []
    requests: list[Open] = []
    told: list[Pair] = []
    expected: set[Pair] = set()
    waiting: list[tuple[str, Any, int]] = []  # paused ones: id, what was given, and where the window begins
    for number, (later, source, given_) in enumerate(log):
        arrived_at += later
        offset, offsets[source] = offsets[source], offsets[source] + 1
        if "age" in given_:
            name = given_["name"] or f"p{number}"
            topic = given_["topic"]
            # an id that comes again after the hot window is another publication: its time tells which
            at = arrived_at if name == "again" else arrived_at - given_["age"]
            until = None if given_["lasts"] is None else at + given_["lasts"]
            content: Any = CanonicalPublication(name, None, topic, at, until, attributes=given_["attributes"])
            placed = scheme.publication(RoutedPublication(name, content.topic, content.attributes))
            record = Publication(name, None, topic, at, until, given_["attributes"])
            records.append((record, arrived_at, source, offset))
            origin = "publications"
        else:
            name, starts, paused = f"s{number}", arrived_at - given_["reach"], given_["paused"]
            if waiting:
                (name, given_, starts), paused = waiting.pop(), False
            elif paused:
                waiting.append((name, given_, starts))
            version = Version(arrived_at, source, offset)
            where = ALWAYS if given_["where"] is None else Condition.parse(given_["where"]).disjuncts
            ends = None if given_["ends"] is None else max(arrived_at + given_["ends"], starts)
            content = CanonicalSubscription(
                name, given_["who"], version, given_["topic"], given_["scope"], starts, ends, given_["time"], where,
                given_["semantics"], given_["self_join"], paused=paused,
            )  # fmt: skip
            placed = scheme.subscription(RoutedSubscription(name, content.topic, content.scope, where))
            origin = "subscriptions"
        envelope = Rendezvous(origin, source, offset, arrived_at, 1, placed, content)  # type: ignore[arg-type]
        for partition in (partitions[each] for each in placed):
            found = partition.apply(envelope)
            if origin == "subscriptions":
                expected |= _all(partition, content, placed, scheme)
            told += [
                (n.subscription_id, partition.number, n.publication_id, n.topic, n.published_at)
                for n in found.notifications
                if n.phase == "past"
            ]
            requests += [_open(request, len(requests) + i) for i, request in enumerate(found.requests)]
    answered = _answer(requests, records)
    assert len(told) + len(answered) == len({*told, *answered})
    assert {*told, *answered} == expected


def _all(partition: Recorder, s: CanonicalSubscription, placed: tuple[int, ...], scheme: Any) -> set[Pair]:
    """Everything that came to the partition before, is valid still, and is this partition's to report."""
    found = set()
    for (name, topic, at), offer in partition.fixed.items():
        of_publication = scheme.publication(RoutedPublication(name, offer.topic, offer.attributes))
        valid = offer.expires_at is None or offer.expires_at > partition.progress.log_time
        covered = s.self_join and any(oracle.matches(query_of(o), offer) for o in partition.held[s.subscription_id])
        if (
            valid
            and not covered
            and reports(partition.number, placed, of_publication)
            and oracle.matches(query_of(s), offer)
            and not s.paused
            and (name, topic, at) not in partition.before_pause.get(s.subscription_id, ())
        ):
            found.add((s.subscription_id, partition.number, name, topic, at))
    return found


def _open(request: BackfillRequest, number: int) -> Open:
    return Open(f"{request.subscription.subscription_id}\0{request.rendezvous_partition}".encode(), number, request)


def _answer(requests: list[Open], records: list[tuple[Publication, int, int, int]]) -> list[Pair]:
    if not requests or not records:
        return []
    subscriptions, report = make_report(requests, DIRECTORY)
    batch = rows_of(
        [record for record, *_ in records],
        [at for _, at, _, _ in records],
        [p for *_, p, _ in records],
        [o for *_, o in records],
    )
    order = sorted(range(batch.num_rows), key=lambda row: (batch["topic"][row].as_py(), row))
    (rows,) = looking_back(HOT_WINDOW, with_ids=False)([batch.take(pa.array(order))])
    repeated = _repeats(records)
    keep = [
        (p, o) not in repeated for p, o in zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
    ]
    found = match_batch(Asked(tuple(subscriptions), report), rows.filter(pa.array(keep)), None)
    asked, names, topics = (found[column].to_pylist() for column in ("asked", "publication_id", "topic"))
    rest = zip(names, topics, micros(found["published_at"]).tolist(), strict=True)
    asking = (requests[number].request for number in asked)
    return [
        (request.subscription.subscription_id, request.rendezvous_partition, *event)
        for request, event in zip(asking, rest, strict=True)
    ]


def _repeats(records: list[tuple[Publication, int, int, int]]) -> set[tuple[int, int]]:
    events: dict[tuple[str | None, str], list[dict[str, int]]] = {}
    for record, at, p, o in records:
        events.setdefault((record.publication_id, record.topic), []).append(
            {"arrived_at": at, "partition": p, "offset": o}
        )
    found = (each for places in events.values() for each in losers(places, HOT_WINDOW))
    return {(each["partition"], each["offset"]) for each in found}


def test_only_the_first_of_an_id_counts_until_the_hot_window_is_over() -> None:
    places = [{"arrived_at": at, "partition": 0, "offset": at} for at in (0, 4, 10, 11, 21, 22)]
    assert [each["arrived_at"] for each in losers(places, 10)] == [4, 10, 21]
