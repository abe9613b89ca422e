"""The router: reads and checks the input, brings it to canonical form, and writes it to the rendezvous log.

It alone writes dead letters of the input. A subscription's way is remembered (`streams.routes`), so that whatever replaces or
withdraws it reaches every partition that it reached, whatever changed in between.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition

from matching import Condition, ConditionError
from matching.normal_form import ALWAYS, NormalForm
from pastforward.topics import Topics
from schemas import (
    CanonicalPublication,
    CanonicalSubscription,
    Predicate,
    Registry,
    Rendezvous,
    SchemaError,
    Subscription,
    Version,
    Withdrawal,
    canonical_publication,
    canonical_subscription,
    dead_letter,
    decode_publication,
    decode_subscription,
    encode,
)
from schemas.records import Origin, Where
from streams.metrics import Metrics
from streams.outgoing import Outgoing
from streams.routes import Route, Routes
from streams.routing import Publication as RoutedPublication
from streams.routing import Scheme
from streams.routing import Subscription as RoutedSubscription

log = logging.getLogger("pastforward.router")

ROUTING_VERSION = 1  # of the directory: it has one entry as long as the scheme does not change on a running system


def normal_form(where: Where) -> NormalForm:
    """The condition of a record as the matchers read it; what is wrong with it is the sender's to mend."""
    if where is None:
        return ALWAYS
    try:
        if isinstance(where, str):
            condition = Condition.parse(where)
        else:
            condition = Condition.from_predicates([[_operands(p) for p in disjunct] for disjunct in where])
    except ConditionError as error:
        raise SchemaError("bad_condition", str(error)) from None
    if condition.never:
        raise SchemaError("bad_condition", "the condition can never be true: its predicates contradict each other")
    return condition.disjuncts


def _operands(predicate: Predicate) -> tuple[object, ...]:
    value = predicate.values if predicate.operator in ("in", "not in") else predicate.value
    return (predicate.attribute, predicate.operator, value, predicate.high)


class Router:
    """What both kinds of input have in common. One per input partition; used by one chunk at a time."""

    def __init__(
        self,
        partition: TopicPartition,
        origin: Origin,
        topics: Topics,
        scheme: Scheme,
        metrics: Metrics,
        registry: Registry | None,
    ) -> None:
        self._partition = partition
        self._origin: Origin = origin
        self._topics = topics
        self._scheme = scheme
        self._metrics = metrics
        self._registry = registry

    def process(self, records: Sequence[Any]) -> Outgoing:
        outgoing = Outgoing()
        for record in records:
            try:
                self._take(record, outgoing)
            except SchemaError as error:
                self._refuse(record, error, outgoing)
        return outgoing

    def idle(self) -> Outgoing | None:
        return None

    def committed(self, offset: int) -> None:
        """The routes are in memory, and in their changelog."""

    def close(self) -> None:
        """Nothing is held open."""

    def _take(self, record: Any, outgoing: Outgoing) -> None:
        raise NotImplementedError

    def _forward(
        self,
        record: Any,
        content: CanonicalSubscription | CanonicalPublication | Withdrawal,
        name: str,
        partitions: tuple[int, ...],
        outgoing: Outgoing,
    ) -> None:
        envelope = Rendezvous(
            self._origin, record.partition, record.offset, record.timestamp * 1000, ROUTING_VERSION, partitions, content
        )
        outgoing.send(self._topics.rendezvous, partitions, name.encode(), encode(envelope))

    def _refuse(self, record: Any, error: SchemaError, outgoing: Outgoing) -> None:
        letter = dead_letter(
            record.topic, record.partition, record.offset, record.timestamp * 1000, error, record.key, record.value
        )
        outgoing.send(
            self._topics.dead_letters, (record.partition,), record.key, encode(letter, registry=self._registry)
        )
        self._metrics.dead_letters.labels(error.kind).inc()
        log.warning("dead letter: %s %d offset %d: %s", record.topic, record.partition, record.offset, error.reason)


class PublicationRouter(Router):
    def _take(self, record: Any, outgoing: Outgoing) -> None:
        publication = decode_publication(record.key, record.value, self._registry)
        where = None if publication.where is None else normal_form(publication.where)
        canonical = canonical_publication(publication, record.partition, record.offset, record.timestamp * 1000, where)
        if canonical.best is not None:
            raise SchemaError("bad_value", "best offers are not taken by this version: leave out best")
        partitions = self._scheme.publication(
            RoutedPublication(canonical.publication_id, canonical.topic, canonical.attributes, where)
        )
        self._forward(record, canonical, canonical.publication_id, partitions, outgoing)


class SubscriptionRouter(Router):
    """Routes are changed as the chunk goes, and logged; a chunk that fails ends the worker, so nothing is undone."""

    def __init__(self, *arguments: Any, routes: Routes) -> None:
        super().__init__(*arguments)
        self._routes = routes

    def _take(self, record: Any, outgoing: Outgoing) -> None:
        version = Version(record.timestamp * 1000, record.partition, record.offset)
        content = decode_subscription(record.key, record.value, self._registry)
        name = content.subscription_id
        before = self._routes.get(name)
        if isinstance(content, Withdrawal):
            if before is None:
                self._metrics.dropped.labels("unknown_withdrawal").inc()
                return
            self._forward(record, Withdrawal(name, version), name, before.partitions, outgoing)
            self._routes.remove(name, outgoing)
            return
        digest = hashlib.sha256(record.value).digest()
        if before is not None and before.digest == digest:
            self._metrics.dropped.labels("same_subscription").inc()
            return
        self._place(record, content, version, before, digest, outgoing)

    def _place(
        self,
        record: Any,
        content: Subscription,
        version: Version,
        before: Route | None,
        digest: bytes,
        outgoing: Outgoing,
    ) -> None:
        name = content.subscription_id
        canonical = canonical_subscription(content, version, normal_form(content.where))
        self._check(canonical)
        partitions = self._scheme.subscription(
            RoutedSubscription(
                name, canonical.topic, canonical.scope, canonical.where, canonical.semantics, canonical.self_join
            )
        )
        self._forward(record, canonical, name, partitions, outgoing)
        left = tuple(p for p in before.partitions if p not in partitions) if before else ()
        if left:
            self._forward(record, Withdrawal(name, version), name, left, outgoing)
        self._routes.put(name, Route(version, partitions, digest), outgoing)

    def _check(self, subscription: CanonicalSubscription) -> None:
        if subscription.self_join and not self._scheme.keeps_topics_together:
            raise SchemaError("bad_value", f"self_join needs dewey routing; the scheme here is {self._scheme.name}")
        previous = any(name.startswith("previous.") for disjunct in subscription.where for name, _ in disjunct)
        if previous and not subscription.self_join:
            raise SchemaError("bad_condition", "previous.<attribute> needs self_join: true")
