"""The router: reads and checks the input, brings it to canonical form, and writes it to the rendezvous log.

It alone writes dead letters of the input. A subscription's way is remembered (`streams.routes`), so that whatever replaces or
withdraws it reaches every partition that it reached, whatever changed in between.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from aiokafka import TopicPartition

from matching import Condition, ConditionError
from matching.normal_form import ALWAYS, PREVIOUS, NormalForm
from pastforward.topics import Topics
from schemas import (
    CanonicalSubscription,
    Predicate,
    PublicationColumns,
    Registry,
    Rendezvous,
    SchemaError,
    Subscription,
    Version,
    Withdrawal,
    canonical_subscription,
    dead_letter,
    decode_publications,
    decode_subscription,
    encode,
    encode_rendezvous_publications,
)
from schemas.columns import NO_BEST
from schemas.records import Origin, Where
from streams.attributes import take
from streams.metrics import Metrics
from streams.outgoing import Outgoing
from streams.routes import Route, Routes
from streams.routing import Scheme
from streams.routing import Subscription as RoutedSubscription
from streams.routing.columns import Publications
from streams.routing.columns import Texts as ColumnTexts

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


def speaks_of_previous(form: NormalForm) -> bool:
    return any(name.startswith(PREVIOUS) for disjunct in form for name, _ in disjunct)


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
        content: CanonicalSubscription | Withdrawal,
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
        log.debug("dead letter: %s %d offset %d: %s", record.topic, record.partition, record.offset, error.reason)


class PublicationRouter(Router):
    """By columns: a chunk is decoded, routed and encoded as a whole."""

    def process(self, records: Sequence[Any]) -> Outgoing:
        outgoing = Outgoing()
        offset = np.array([record.offset for record in records], np.int64)
        arrived_at = np.array([record.timestamp for record in records], np.int64) * 1000
        columns = decode_publications(
            [record.key for record in records],
            [record.value for record in records],
            self._partition.partition,
            offset,
            arrived_at,
            self._registry,
        )
        where, refused = self._conditions(columns)
        refused.update(columns.errors)
        for row, error in sorted(refused.items()):
            self._refuse(records[row], error, outgoing)
        rows = np.array([row for row in np.flatnonzero(columns.ok).tolist() if row not in refused], np.int64)
        if len(rows):
            self._send(columns, rows, where, records, outgoing)
        return outgoing

    def _conditions(self, columns: PublicationColumns) -> tuple[dict[int, NormalForm], dict[int, SchemaError]]:
        """Normal forms of the rows that publish a condition, and what is wrong with rows beyond their bytes."""
        forms: dict[int, NormalForm] = {}
        refused: dict[int, SchemaError] = {}
        for row, where in enumerate(columns.where):
            if where is None:
                continue
            try:
                forms[row] = normal_form(where)
                if speaks_of_previous(forms[row]):
                    raise SchemaError("bad_condition", "a publication cannot speak of previous.<attribute>")
            except SchemaError as error:
                refused[row] = error
        for row in np.flatnonzero(columns.ok & (columns.best != NO_BEST)).tolist():
            reason = self._scheme.refuses_best((columns.topic[row] or b"").decode())
            if reason:
                refused[row] = SchemaError("bad_value", reason)
        reserved = [number for number, name in enumerate(columns.attributes.names) if name.startswith(PREVIOUS)]
        if reserved:
            entries = np.flatnonzero(np.isin(columns.attributes.name, reserved))
            for row in (np.searchsorted(columns.attributes.start, entries, side="right") - 1).tolist():
                refused[row] = SchemaError("bad_value", "names that begin with previous. are reserved: choose another")
        return forms, refused

    def _send(
        self,
        columns: PublicationColumns,
        rows: npt.NDArray[np.int64],
        where: dict[int, NormalForm],
        records: Sequence[Any],
        outgoing: Outgoing,
    ) -> None:
        order = rows.tolist()
        ids, topics = columns.publication_id.take(rows), columns.topic.take(rows)
        placement = self._scheme.route_publications(
            Publications(
                ColumnTexts(ids.heap, ids.at, ids.length),
                ColumnTexts(topics.heap, topics.at, topics.length),
                take(columns.attributes, rows),
                {i: where[row] for i, row in enumerate(order) if row in where},
            )
        )
        values, errors = encode_rendezvous_publications(
            columns, rows, ROUTING_VERSION, placement.start, placement.partition, where
        )
        too_large = dict(errors)
        starts, partitions = placement.start.tolist(), placement.partition.tolist()
        for i, (name, value) in enumerate(zip(ids, values, strict=True)):
            if i in too_large:
                self._refuse(records[order[i]], too_large[i], outgoing)
            else:
                outgoing.send(self._topics.rendezvous, partitions[starts[i] : starts[i + 1]], name, value)


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
        if speaks_of_previous(subscription.where) and not subscription.self_join:
            raise SchemaError("bad_condition", "previous.<attribute> needs self_join: true")
