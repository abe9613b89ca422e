"""Why a subscription and a publication did or did not match, decided from what is on the topics.

Everything that decides is there: the two inputs, the rendezvous log with its order, the offsets that the workers have committed, and
the notifications. Nothing is asked of a worker, so this works wherever Kafka can be reached. Input partitions are searched by key,
the other topics from the moment on at which the record came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pastforward.columns.dewey import topics_of
from pastforward.columns.times import datetime_of
from pastforward.matching import Index
from pastforward.matching.conditions import oracle
from pastforward.schemas import (
    CanonicalPublication,
    CanonicalSubscription,
    Notification,
    Publication,
    Registry,
    SchemaError,
    Subscription,
    Version,
    Withdrawal,
    canonical_publication,
    canonical_subscription,
    decode_notification,
    decode_publication,
    decode_rendezvous,
    decode_subscription,
)
from pastforward.schemas.acceptance import accept_publication, accept_subscription, normal_form
from pastforward.schemas.limits import MADE_UP
from pastforward.settings import Settings, show_duration
from pastforward.streams.explain.reader import Progress, TopicReader
from pastforward.streams.explain.stretch import Place, Stretch
from pastforward.streams.matcher.notification_id import notification_id
from pastforward.streams.reference import offer_of, overlap, query_of
from pastforward.streams.routing import Publication as RoutedPublication
from pastforward.streams.routing import Subscription as RoutedSubscription
from pastforward.streams.stages.outgoing import partition_of
from pastforward.streams.worker.directory import group_of, read_directory
from pastforward.topics import Topics

OUTCOMES: Final = (
    "matched",
    "not yet processed",
    "not matched",
    "unknown",
)  # of several events: the first that is true of one


@dataclass(slots=True)
class Verdict:
    """`outcome`: matched, not matched, not yet processed, or unknown (one of the two is not there)."""

    outcome: str
    reasons: list[str] = field(default_factory=list)


class NotThere(Exception):
    """Ends the search with a verdict."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = Verdict(outcome, [reason])


class Explainer:
    def __init__(
        self, settings: Settings, bootstrap: str, registry: Registry | None = None, progress: Progress | None = None
    ) -> None:
        self._settings, self._bootstrap, self._registry = settings, bootstrap, registry
        self._topics = Topics(settings.topic_prefix)
        self._reader = TopicReader(settings, bootstrap, progress or (lambda what, done, total: None))

    def explain(self, subscription_id: str, publication_id: str) -> Verdict:
        try:
            view = read_directory(self._settings, self._bootstrap)
            if view.state is None:
                raise NotThere("not yet processed", "no worker has ever run here: start one")
            version = view.state.in_force
            self._topics = Topics(self._settings.topic_prefix, version)
            self._group = group_of(self._settings, version)
            self._scheme = view.versions[version].make()
            subscription = self._subscription(subscription_id)
            verdict = self._any(subscription, publication_id)
            if verdict.outcome == "not matched" and self._versions > 1:
                came = _time(subscription.version.arrived_at)
                verdict.reasons.append(f"this is the version that came at {came}; an earlier one may have matched")
            return verdict
        except NotThere as error:
            return error.verdict

    # ------------------------------------------------------------------------------------------ the two records

    def _subscription(self, name: str) -> CanonicalSubscription:
        """The version in force: the last that was not refused."""
        current: CanonicalSubscription | None = None
        refused = ""
        last: Any = None
        arrived_at = 0
        self._versions = 0
        for message, arrived_at in self._reader.by_key(self._topics.subscriptions, name):
            last = message
            try:
                read = decode_subscription(message.key(), message.value(), self._registry)
                if isinstance(read, Withdrawal):
                    current = None
                    continue
                current = self._canonical(read, message, arrived_at)
                self._versions += 1
            except SchemaError as error:
                refused = error.reason
        if last is None:
            raise NotThere("unknown", f"no subscription {name!r} is in {self._topics.subscriptions}")
        if current is None and last.value() is None:
            raise NotThere("unknown", f"the subscription was withdrawn at {_time(arrived_at)}")
        if current is None:
            raise NotThere("not matched", f"the subscription was refused: {refused}")
        self._check_routed(self._topics.subscriptions, current.version.partition, current.version.offset)
        return current

    def _canonical(self, read: Subscription, message: Any, arrived_at: int) -> CanonicalSubscription:
        version = Version(arrived_at, message.partition(), message.offset())
        accept_subscription(read, arrived_at=version.arrived_at)
        return canonical_subscription(read, version, normal_form(read.where))

    def _any(self, s: CanonicalSubscription, name: str) -> Verdict:
        """An event is known by id and topic. Of one id, those whose topic overlaps the subscription's count; if there are none, all."""
        found = self._publications(s, name)
        query = query_of(s)
        near = [each for each in found.values() if oracle.topics_fit(query, offer_of(each[0], {}))]
        verdicts: dict[str, Verdict] = {}
        for publication, place in near or found.values():
            try:
                self._check_routed(self._topics.publications, place.partition, place.offset)
                verdicts[publication.topic] = self._pair(s, publication, place)
            except NotThere as error:
                verdicts[publication.topic] = error.verdict
        outcome = min((each.outcome for each in verdicts.values()), key=OUTCOMES.index)
        counted = {topic: each for topic, each in verdicts.items() if each.outcome == outcome}
        if len(verdicts) == 1:
            return next(iter(counted.values()))
        return Verdict(
            outcome, [f"at {topic!r}: {reason}" for topic, each in counted.items() for reason in each.reasons]
        )

    def _publications(self, s: CanonicalSubscription, name: str) -> dict[str, tuple[CanonicalPublication, Place]]:
        """The first of that id at each topic; whatever repeats it is dropped."""
        query = query_of(s)
        found: dict[str, tuple[CanonicalPublication, Place]] = {}
        refused = ""
        for search in (self._reader.by_key(self._topics.publications, name), self._without_key(name)):
            for message, arrived_at in search:
                place = Place(message.partition(), message.offset(), arrived_at)
                try:
                    read = decode_publication(message.key(), message.value(), self._registry)
                    where = accept_publication(read)
                except SchemaError as error:
                    refused = error.reason
                    continue
                made = canonical_publication(read, place.partition, place.offset, place.arrived_at, where)
                found.setdefault(made.topic, (made, place))
            if any(oracle.topics_fit(query, offer_of(made, {})) for made, _ in found.values()):
                return found
        if refused and not found:
            raise NotThere("not matched", f"the publication was refused: {refused}")
        if not found:
            raise NotThere("unknown", f"no publication {name!r} is in {self._topics.publications}")
        return found

    def _without_key(self, name: str) -> Iterator[tuple[Any, int]]:
        """The id is in the value, or is the place itself."""
        for partition in range(self._reader.partitions):
            for message, arrived_at in self._reader.records(self._topics.publications, partition):
                if message.key() is None and self._unkeyed(message) == name:
                    yield message, arrived_at

    def _unkeyed(self, message: Any) -> str | None:
        try:
            read: Publication = decode_publication(None, message.value(), self._registry)
        except SchemaError:
            return None
        return read.publication_id or f"{MADE_UP}{message.partition()}-{message.offset()}"

    def _check_routed(self, topic: str, partition: int, offset: int) -> None:
        reached = self._reader.committed(self._group, topic, partition)
        if reached <= offset:
            raise NotThere(
                "not yet processed",
                f"{topic} {partition} has been read up to offset {reached}, and the record is at {offset}: "
                "is a worker running, and does it keep up?",
            )

    # ------------------------------------------------------------------------------------------ the pair

    def _pair(self, s: CanonicalSubscription, p: CanonicalPublication, published: Place) -> Verdict:
        query, offer = query_of(s), offer_of(p, {})
        reasons = self._place_and_time(s, p, query, offer)
        if s.paused:
            reasons.append(
                f"paused: this version, of {_time(s.version.arrived_at)}, matches nothing until it is resumed"
            )
        if reasons:
            return Verdict("not matched", reasons)
        here = self._scheme.subscription(
            RoutedSubscription(s.subscription_id, s.topic, s.scope, s.where, s.semantics, s.self_join)
        )
        there = self._scheme.publication(RoutedPublication(p.publication_id, p.topic, p.attributes, p.where))
        shared = sorted(set(here) & set(there))
        if not shared:
            return Verdict("not matched", [f"the scheme {self._scheme.name} sends them to {here} and {there}: content"])
        since = min(s.version.arrived_at, published.arrived_at) - self._reader.step
        if s.self_join:
            since -= self._settings.hot_window  # the previous publication may be as old
        log = Stretch(self._reader.scan(self._topics.rendezvous, shared[0], since))
        log.read(s, p, published)
        if log.subscribed is None or log.published is None:
            what = "subscription" if log.subscribed is None else "publication"
            return Verdict("not matched", [f"the {what} is not in {self._topics.rendezvous} {shared[0]} any more"])
        reached = self._reader.committed(self._group, self._topics.rendezvous, shared[0])
        later = max(log.subscribed, log.published)
        if reached <= later:
            reason = f"the matcher of partition {shared[0]} is at offset {reached}, and the later of the two at {later}"
            return Verdict("not yet processed", [reason])
        notification = self._notification(s, p)
        if notification is not None:
            return Verdict(
                "matched",
                [f"{notification.phase}, notified to {notification.recipient_id} at {_time(notification.matched_at)}"],
            )
        return Verdict("not matched", self._why_not(s, p, published, log, query, shared[0]))

    def _place_and_time(self, s: Any, p: Any, query: oracle.Subscription, offer: oracle.Publication) -> list[str]:
        reasons = []
        if not oracle.topics_fit(query, offer):
            asked = "at or below" if s.scope == "subtree" else "above, at or below"
            reasons.append(f"topic: {p.topic!r} is not {asked} {' or '.join(map(repr, topics_of(s.topic)))}")
        if not oracle.in_time(query, offer):
            window = f"from {_time(s.starts_at)} to {_time(s.ends_at)}"
            if s.time == "valid":
                valid = f"from {_time(p.published_at)} to {_time(p.expires_at)}"
                reasons.append(f"time: the publication is valid {valid}, the window is {window}")
            else:
                reasons.append(f"time: published at {_time(p.published_at)}, the window is {window}")
        return reasons

    def _notification(self, s: CanonicalSubscription, p: CanonicalPublication) -> Notification | None:
        wanted = notification_id(s.subscription_id, s.version, p.publication_id, p.topic)
        partition = partition_of(s.subscriber_id.encode(), self._reader.partitions)
        for message in self._reader.scan(
            self._topics.notifications, partition, s.version.arrived_at - self._reader.step
        ):
            if message.key() == s.subscriber_id.encode():
                read = decode_notification(message.value(), self._registry)
                if read.notification_id == wanted:
                    return read
        return None

    def _why_not(
        self,
        s: CanonicalSubscription,
        p: CanonicalPublication,
        published: Place,
        log: Stretch,
        query: oracle.Subscription,
        partition: int,
    ) -> list[str]:
        assert log.subscribed is not None
        assert log.published is not None
        if log.repeated:
            return [f"repeat: {p.publication_id!r} had come before, and publications are immutable"]
        failed = _predicates(s, p, query, log.previous)
        if failed:
            return [f"predicate: {line}" for line in failed]
        if log.published > log.subscribed:
            if p.expires_at is not None and p.expires_at <= published.arrived_at:
                return [
                    f"expiry: it had expired at {_time(p.expires_at)}, before it arrived at {_time(published.arrived_at)}"
                ]
        else:
            reason = self._past(s, p, published, log)
            if reason:
                return [reason]
        if s.self_join:
            return [self._covering(s, p, partition)]
        return ["the two match, but no notification is there any more"]

    def _past(self, s: CanonicalSubscription, p: CanonicalPublication, published: Place, log: Stretch) -> str | None:
        """Why a subscription did not find a publication that came before it."""
        if p.expires_at is not None and p.expires_at <= log.time:
            return f"expiry: it had expired at {_time(p.expires_at)}, before the subscription came at {_time(log.time)}"
        held_at = min(p.published_at, published.arrived_at)
        if held_at < log.time - self._settings.hot_window:
            return (
                f"time: it was {show_duration(log.time - held_at)} old when the subscription came, more than the hot window of "
                f"{show_duration(self._settings.hot_window)}: the history answers, see `pastforward history backfill`"
            )
        return None

    def _covering(self, s: CanonicalSubscription, p: CanonicalPublication, partition: int) -> str:
        """The earlier subscription of the same subscriber that has the publication already."""
        offer = offer_of(p, {})
        for message in self._reader.scan(self._topics.live, partition):
            if message.value() is None or message.key().startswith(b"\0"):
                continue  # progress, auctions, repeats
            other = decode_rendezvous(message.value()).record
            if (
                isinstance(other, CanonicalSubscription)
                and other.subscriber_id == s.subscriber_id
                and other.version < s.version
                and overlap(other, s)
                and oracle.matches(query_of(other), offer)
            ):
                return f"self-join: {other.subscription_id!r} of the same subscriber came earlier and matches as well"
        return "self-join: an earlier subscription of the same subscriber, which is not held any more, matched as well"


def _predicates(
    s: CanonicalSubscription, p: CanonicalPublication, query: oracle.Subscription, previous: dict[str, Any]
) -> list[str]:
    if oracle.matches(query, offer_of(p, previous)):
        return []
    if p.where is not None:
        return [f"no alternative of the subscription agrees with one of the published condition ({s.semantics})"]
    index = Index(algorithm="linear")
    index.add(s.subscription_id, s.where, semantics=s.semantics)
    return list(index.explain(s.subscription_id, p.attributes, previous=previous).reasons)


def _time(micros: int | None) -> str:
    return "never" if micros is None else datetime_of(micros).isoformat(timespec="milliseconds")
