"""The router: reads and checks the input, brings it to canonical form, and writes it to the rendezvous log.

It alone writes dead letters of the input. A subscription's way is remembered (`streams.routes`), so that whatever replaces or
withdraws it reaches every partition that it reached, whatever changed in between.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from aiokafka import TopicPartition

from matching import Condition, ConditionError
from matching.normal_form import ALWAYS, PREVIOUS, NormalForm
from pastforward.topics import Topics
from schemas import (
    Predicate,
    PublicationColumns,
    Registry,
    Rendezvous,
    SchemaError,
    SubscriptionColumns,
    Version,
    Withdrawal,
    dead_letter,
    decode_publications,
    decode_subscriptions,
    encode,
    encode_rendezvous_publications,
    encode_rendezvous_subscriptions,
)
from schemas.columns import NO_BEST
from schemas.condition_bytes import condition_bytes
from schemas.limits import MAX_CANONICAL_BYTES
from schemas.plain import check_window
from schemas.records import Origin, Where
from streams.attributes import take
from streams.metrics import Metrics
from streams.outgoing import Outgoing
from streams.routes import Route, Routes, digest_of
from streams.routing import Scheme
from streams.routing.change import View, turn
from streams.routing.columns import Placement, Publications, Subscriptions
from streams.routing.columns import Texts as ColumnTexts
from streams.stage import Allowed

log = logging.getLogger("pastforward.router")

ALWAYS_BYTES: Final = condition_bytes(ALWAYS)
SPEAKS_OF_PREVIOUS: Final = PREVIOUS.encode()


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
        version: int,
        view: View,
        metrics: Metrics,
        registry: Registry | None,
    ) -> None:
        self._partition = partition
        self._origin: Origin = origin
        self._topics = topics
        self._scheme = scheme
        self._version = version
        self._view = view
        self._tag = version  # of the routing that the next chunk belongs to: an earlier one while a change goes on
        self._said: tuple[bytes, bytes] | None = None
        self._metrics = metrics
        self._registry = registry

    def allowed(self, position: int) -> Allowed:
        now = turn(self._view, self._version, self._origin, self._partition.partition, position)
        self._tag = now.tag
        say = None
        if now.say is not None and now.say != self._said:
            say = Outgoing()
            say.send(self._topics.directory, (0,), *now.say)
            self._said = now.say
        return Allowed(now.limit, now.final, say)

    def idle(self) -> Outgoing | None:
        return None

    def committed(self, offset: int) -> None:
        """The routes are in memory, and in their changelog."""

    def close(self) -> None:
        """Nothing is held open."""

    def _refuse(self, record: Any, error: SchemaError, outgoing: Outgoing) -> None:
        if self._tag < self._version:
            return  # the router of that version has written its letter
        topic, partition = self._partition
        letter = dead_letter(topic, partition, record.offset, record.timestamp * 1000, error, record.key, record.value)
        outgoing.send(self._topics.dead_letters, (partition,), record.key, encode(letter, registry=self._registry))
        self._metrics.dead_letters.labels(error.kind).inc()
        log.debug("dead letter: %s %d offset %d: %s", topic, partition, record.offset, error.reason)


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
        rows = np.array([row for row in range(len(records)) if row not in refused], np.int64)
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
        for row in (columns.ok & (columns.best != NO_BEST)).nonzero()[0].tolist():
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
        ids, topics = columns.publication_id, columns.topic
        if len(rows) < len(columns):
            ids, topics = ids.take(rows), topics.take(rows)
        placement = self._scheme.route_publications(
            Publications(
                ColumnTexts(ids.heap, ids.at, ids.length),
                ColumnTexts(topics.heap, topics.at, topics.length),
                take(columns.attributes, rows),
                {i: where[row] for i, row in enumerate(order) if row in where} if where else {},
            )
        )
        values, errors = encode_rendezvous_publications(
            columns, rows, self._tag, placement.start, placement.partition, where
        )
        for i, error in errors:
            self._refuse(records[order[i]], error, outgoing)
        outgoing.send_columns(
            self._topics.rendezvous, list(ids), values, placement.start, placement.partition, {i for i, _ in errors}
        )


class SubscriptionRouter(Router):
    """By columns as well, but for what depends on the row before: a replaced subscription, and the condition, which is parsed here.

    Routes are changed as the chunk goes, and logged; a chunk that fails ends the worker, so nothing is undone.
    """

    def __init__(self, *arguments: Any, routes: Routes) -> None:
        super().__init__(*arguments)
        self._routes = routes

    def process(self, records: Sequence[Any]) -> Outgoing:
        outgoing = Outgoing()
        columns = decode_subscriptions(
            [record.key for record in records],
            [record.value for record in records],
            self._partition.partition,
            np.array([record.offset for record in records], np.int64),
            np.array([record.timestamp for record in records], np.int64) * 1000,
            self._registry,
        )
        errors = dict(columns.errors)
        names: list[Any] = list(columns.subscription_id)
        asked = self._read(records, columns, names, errors)
        taken = _Taken()
        for row, (record, withdrawn) in enumerate(zip(records, columns.withdrawn.tolist(), strict=True)):
            try:
                if row in errors:
                    raise errors[row]
                if withdrawn:
                    self._withdraw(record, names[row], taken, outgoing)
                elif self._routes.unchanged(names[row], asked.digest[row]):
                    self._metrics.dropped.labels("same_subscription").inc()
                else:
                    self._place(record, row, names[row], columns, asked, taken, outgoing)
            except SchemaError as error:
                self._refuse(record, error, outgoing)
        self._send(columns, taken, outgoing)
        return outgoing

    def _read(
        self,
        records: Sequence[Any],
        columns: SubscriptionColumns,
        names: Sequence[bytes],
        errors: Mapping[int, SchemaError],
    ) -> _Asked:
        """Ahead of all effects, so that a chunk is routed as a whole. What is the same as before is not parsed, unless an earlier row
        of the chunk has its id: then nobody knows yet."""
        asked = _Asked([b""] * len(records))
        named: set[bytes] = set()
        for row, (record, withdrawn, name) in enumerate(zip(records, columns.withdrawn.tolist(), names, strict=True)):
            if row in errors:
                continue
            if not withdrawn:
                asked.digest[row] = digest_of(record.value)
                if name in named or not self._routes.unchanged(name, asked.digest[row]):
                    try:
                        asked.where[row] = self._checked(columns, row)
                    except SchemaError as error:
                        asked.refused[row] = error
            named.add(name)
        rows = np.array(list(asked.where), np.int64)
        ids, topics = columns.subscription_id.take(rows), columns.topic.take(rows)
        placement = self._scheme.route_subscriptions(
            Subscriptions(
                ColumnTexts(ids.heap, ids.at, ids.length),
                ColumnTexts(topics.heap, topics.at, np.maximum(topics.length, 0)),
                columns.semantics[rows],
                list(asked.where.values()),
            )
        )
        asked.partitions = dict(zip(asked.where, placement.lists(), strict=True))
        return asked

    def _checked(self, columns: SubscriptionColumns, row: int) -> bytes:
        """The bytes of the condition's normal form."""
        check_window(int(columns.starts_at[row]), int(columns.ends_at[row]), "starts_at", "ends_at")
        where = columns.where[row]
        found = ALWAYS_BYTES if where is None else self._condition(where, bool(columns.self_join[row]))
        if not self._scheme.keeps_topics_together and columns.self_join[row]:
            raise SchemaError("bad_value", f"self_join needs dewey routing; the scheme here is {self._scheme.name}")
        return found

    def _withdraw(self, record: Any, name: bytes, taken: _Taken, outgoing: Outgoing) -> None:
        before = self._routes.get(name)
        if before is None:
            self._metrics.dropped.labels("unknown_withdrawal").inc()
            return
        taken.others.append(
            (len(taken.rows), name, before.partitions, self._withdrawal(record, name, before.partitions))
        )
        self._routes.remove(name, outgoing)

    def _withdrawal(self, record: Any, name: bytes, partitions: tuple[int, ...]) -> bytes:
        arrived_at = record.timestamp * 1000
        version = Version(arrived_at, self._partition.partition, record.offset)
        content = Withdrawal(name.decode(), version)
        return encode(
            Rendezvous(
                self._origin, self._partition.partition, record.offset, arrived_at, self._tag, partitions, content
            )
        )

    def _place(
        self,
        record: Any,
        row: int,
        name: bytes,
        columns: SubscriptionColumns,
        asked: _Asked,
        taken: _Taken,
        outgoing: Outgoing,
    ) -> None:
        if row in asked.refused:
            raise asked.refused[row]
        raw, partitions = asked.where[row], asked.partitions[row]
        if len(raw) + len(record.value) > MAX_CANONICAL_BYTES // 2:
            _check_size(columns, row, self._tag, partitions, raw)
        before = self._routes.get(name)
        taken.rows.append(row)
        taken.partitions.append(partitions)
        taken.where.append(raw)
        taken.names.append(name)
        if before is not None:
            left = tuple(p for p in before.partitions if p not in partitions)
            if left:
                taken.others.append((len(taken.rows), name, left, self._withdrawal(record, name, left)))
        version = Version(record.timestamp * 1000, self._partition.partition, record.offset)
        self._routes.put(name, Route(version, partitions, asked.digest[row]), outgoing)

    def _condition(self, where: Where, self_join: bool) -> bytes:
        form = normal_form(where)
        raw = condition_bytes(form)
        if not self_join and SPEAKS_OF_PREVIOUS in raw and speaks_of_previous(form):
            raise SchemaError("bad_condition", "previous.<attribute> needs self_join: true")
        return raw

    def _send(self, columns: SubscriptionColumns, taken: _Taken, outgoing: Outgoing) -> None:
        """In the order of the input: what withdraws stands before the subscription of its number."""
        values: list[bytes] = []
        if taken.rows:
            placed = Placement.of(taken.partitions)
            values, _ = encode_rendezvous_subscriptions(
                columns,
                np.array(taken.rows, np.int64),
                self._tag,
                placed.start,
                placed.partition,
                taken.where,
            )
        topic = self._topics.rendezvous
        begin = 0
        for until, name, partitions, value in [*taken.others, (len(values), b"", (), b"")]:
            for i in range(begin, until):
                outgoing.send(topic, taken.partitions[i], taken.names[i], values[i])
            outgoing.send(topic, partitions, name, value)
            begin = until


@dataclass(slots=True)
class _Asked:
    """By row: digests of the subscriptions' bytes, and of those that may change something the bytes of the condition and where they
    go, or why not."""

    digest: list[bytes]
    where: dict[int, bytes] = field(default_factory=dict)
    partitions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    refused: dict[int, SchemaError] = field(default_factory=dict)


@dataclass(slots=True)
class _Taken:
    """Rows of a chunk that go on, and where. `others`: withdrawals, each behind so many of the rows."""

    rows: list[int] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    partitions: list[tuple[int, ...]] = field(default_factory=list)
    where: list[bytes] = field(default_factory=list)
    others: list[tuple[int, bytes, tuple[int, ...], bytes]] = field(default_factory=list)


def _check_size(columns: SubscriptionColumns, row: int, tag: int, partitions: tuple[int, ...], raw: bytes) -> None:
    """A record that would be too large for the rendezvous topic is refused before it has changed anything."""
    placed = Placement.of([partitions])
    _, errors = encode_rendezvous_subscriptions(
        columns, np.array([row], np.int64), tag, placed.start, placed.partition, [raw]
    )
    if errors:
        raise errors[0][1]
