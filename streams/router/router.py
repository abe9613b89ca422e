"""The router: reads and checks the input, brings it to canonical form, and writes it to the rendezvous log.

It alone writes dead letters of the input. A subscription's way is remembered (`streams.router.routes`), so that whatever replaces or
withdraws it reaches every partition that it reached, whatever changed in between.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from aiokafka import TopicPartition

from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas import (
    NEVER,
    PublicationColumns,
    Registry,
    Rendezvous,
    SchemaError,
    SubscriptionColumns,
    Version,
    Withdrawal,
    dead_letter,
    dead_letter_key,
    decode_publications,
    decode_subscriptions,
    encode,
    encode_rendezvous_publications,
    encode_rendezvous_subscriptions,
)
from pastforward.schemas.acceptance import accept_publications, accept_subscription_row
from pastforward.schemas.errors import refusal
from pastforward.schemas.records import Origin
from pastforward.streams.router.routes import HeldSet, Route, Routes, digest_of, recipient_of
from pastforward.streams.routing import Scheme
from pastforward.streams.routing.change import View, turn
from pastforward.streams.routing.columns import Placement, Publications, Subscriptions
from pastforward.streams.stages.attributes import take
from pastforward.streams.stages.guard import warn
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.stages.stage import Allowed
from pastforward.topics import Topics

log = logging.getLogger("pastforward.router")

FORGET: Final = 1_000  # routes that are looked at in a silent second


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
        arrived_at: int = 0,
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
        self._counts: Counter[tuple[Any, str]] = Counter()  # of the chunk in the works
        self._registry = registry
        self.arrived_at = self._arrived_before = arrived_at

    def process(self, records: Sequence[Any]) -> Outgoing:
        self._begin()
        try:
            outgoing = self._process(records)
            self._count()
        except BaseException:
            self._undo()
            raise
        return outgoing

    def refuse(self, record: Any, error: Exception) -> Outgoing:
        self._begin()
        outgoing = Outgoing()
        warn(f"{self._partition.topic} partition {self._partition.partition}", record.offset, error)
        self._arrivals([record])  # it tells the time all the same
        self._refuse(record, refusal(error), outgoing)
        self._count()
        return outgoing

    def _process(self, records: Sequence[Any]) -> Outgoing:
        raise NotImplementedError

    def _begin(self) -> None:
        self._counts.clear()
        self._arrived_before = self.arrived_at

    def _undo(self) -> None:
        self.arrived_at = self._arrived_before

    def _arrivals(self, records: Sequence[Any]) -> npt.NDArray[np.int64]:
        """In microseconds, never below the one before: a broker's clock that steps back changes no order."""
        stamps = np.array([record.timestamp for record in records], np.int64) * 1000
        found: npt.NDArray[np.int64] = np.maximum.accumulate(np.maximum(stamps, self.arrived_at))
        self.arrived_at = int(found.max(initial=self.arrived_at))
        return found

    def _count(self) -> None:
        for (counter, label), number in self._counts.items():
            counter.labels(label).inc(number)

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

    searching = False

    def search(self) -> Outgoing:
        raise AssertionError("inputs have no past")

    def room(self, records: Sequence[Any]) -> int:
        return len(records)

    def takes_long(self, records: Sequence[Any]) -> bool:
        return False

    def passed(self, offset: int) -> Outgoing | None:
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
        value = encode(letter, registry=self._registry)
        outgoing.send(self._topics.dead_letters, (partition,), dead_letter_key(record.key), value)
        self._counts[self._metrics.dead_letters, error.kind] += 1
        log.debug("dead letter: %s %d offset %d: %s", topic, partition, record.offset, error.reason)


class PublicationRouter(Router):
    """By columns: a chunk is decoded, routed and encoded as a whole."""

    def _process(self, records: Sequence[Any]) -> Outgoing:
        outgoing = Outgoing()
        offset = np.array([record.offset for record in records], np.int64)
        arrived_at = self._arrivals(records)
        columns = decode_publications(
            [record.key for record in records],
            [record.value for record in records],
            self._partition.partition,
            offset,
            arrived_at,
            self._registry,
        )
        accepted = accept_publications(columns, self._scheme.accepts)
        for row, error in sorted(accepted.refused.items()):
            self._refuse(records[row], error, outgoing)
        rows = np.array([row for row in range(len(records)) if row not in accepted.refused], np.int64)
        if len(rows):
            self._send(columns, rows, accepted.forms, records, outgoing)
        return outgoing

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
                ids,
                topics,
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

    Routes are changed as the chunk goes, and logged; if it fails, they are as before.
    """

    def __init__(self, *arguments: Any, routes: Routes, hot_window: int | None = None, arrived_at: int = 0) -> None:
        super().__init__(*arguments)
        self.arrived_at = max(arrived_at, routes.latest())
        self._routes = routes
        if hot_window is not None:
            routes.keep(hot_window)

    def _begin(self) -> None:
        super()._begin()
        self._routes.begin()

    def _undo(self) -> None:
        super()._undo()
        self._routes.undo()

    def idle(self) -> Outgoing | None:
        """Time to forget what has ended, some at a time."""
        self._begin()
        outgoing = Outgoing()
        return outgoing if self._routes.advance(self.arrived_at, outgoing, FORGET) else None

    def _process(self, records: Sequence[Any]) -> Outgoing:
        outgoing = Outgoing()
        arrived_at = self._arrivals(records)
        columns = decode_subscriptions(
            [record.key for record in records],
            [record.value for record in records],
            self._partition.partition,
            np.array([record.offset for record in records], np.int64),
            arrived_at,
            self._registry,
        )
        versions = [
            Version(arrival, self._partition.partition, record.offset)
            for arrival, record in zip(arrived_at.tolist(), records, strict=True)
        ]
        errors = dict(columns.errors)
        names: list[Any] = list(columns.subscription_id)
        asked = self._read(records, versions, columns, names, errors)
        taken = _Taken()
        for row, (record, withdrawn) in enumerate(zip(records, columns.withdrawn.tolist(), strict=True)):
            self._routes.advance(versions[row].arrived_at, outgoing)
            try:
                if row in errors:
                    raise errors[row]
                if withdrawn:
                    self._withdraw(versions[row], names[row], taken, outgoing)
                elif self._routes.unchanged(names[row], asked.digest[row], versions[row].arrived_at):
                    self._counts[self._metrics.dropped, "same_subscription"] += 1
                else:
                    self._place(versions[row], row, names[row], columns, asked, taken, outgoing)
            except SchemaError as error:
                self._refuse(record, error, outgoing)
        self._send(columns, taken, outgoing)
        return outgoing

    def _read(
        self,
        records: Sequence[Any],
        versions: Sequence[Version],
        columns: SubscriptionColumns,
        names: Sequence[bytes],
        errors: Mapping[int, SchemaError],
    ) -> _Asked:
        """Ahead of all effects, so that a chunk is routed as a whole. What is the same as before is not parsed, unless an earlier row
        of the chunk has its id: then nobody knows yet."""
        asked = _Asked([b""] * len(records))
        named: set[bytes] = set()
        for row, (record, withdrawn, name) in enumerate(zip(records, columns.withdrawn.tolist(), names, strict=True)):
            now = versions[row].arrived_at
            if row in errors:
                continue
            if not withdrawn:
                asked.digest[row] = digest_of(record.value)
                if name in named or not self._routes.unchanged(name, asked.digest[row], now):
                    try:
                        asked.where[row] = accept_subscription_row(columns, row, self._scheme.accepts)
                    except SchemaError as error:
                        asked.refused[row] = error
            named.add(name)
        rows = np.array(list(asked.where), np.int64)
        ids, topics = columns.subscription_id.take(rows), columns.topic.take(rows)
        placement = self._scheme.route_subscriptions(
            Subscriptions(
                ids,
                topics,
                columns.semantics[rows],
                list(asked.where.values()),
            )
        )
        asked.partitions = dict(zip(asked.where, placement.lists(), strict=True))
        return asked

    def _withdraw(self, version: Version, name: bytes, taken: _Taken, outgoing: Outgoing) -> None:
        before = self._routes.get(name, version.arrived_at)
        if before is None:
            self._counts[self._metrics.dropped, "unknown_withdrawal"] += 1
            return
        taken.others.append(
            (len(taken.rows), name, before.partitions, self._withdrawal(version, name, before.partitions))
        )
        self._routes.remove(name, outgoing)

    def _withdrawal(
        self, version: Version, name: bytes, partitions: tuple[int, ...], *, replaced: bool = False
    ) -> bytes:
        content = Withdrawal(name.decode(), version, replaced)
        return encode(
            Rendezvous(
                self._origin, version.partition, version.offset, version.arrived_at, self._tag, partitions, content
            )
        )

    def _place(
        self,
        version: Version,
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
        before = self._routes.get(name, version.arrived_at)
        taken.rows.append(row)
        taken.partitions.append(partitions)
        taken.where.append(raw)
        taken.names.append(name)
        began, held_set = _set_of(version, row, columns, before)
        taken.began.append(began)
        if before is not None:
            left = tuple(p for p in before.partitions if p not in partitions)
            if left:
                value = self._withdrawal(version, name, left, replaced=began is not None)
                taken.others.append((len(taken.rows), name, left, value))
        ends_at = int(columns.ends_at[row])
        paused = bool(columns.paused[row])
        asks_from = before.asks_from or before.version if before is not None and (paused or before.paused) else None
        end = None if ends_at == NEVER else ends_at
        route = Route(version, partitions, asked.digest[row], end, held_set, asks_from, paused)
        self._routes.put(name, route, outgoing)

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
                _as_columns(taken.began),
            )
        topic = self._topics.rendezvous
        begin = 0
        for until, name, partitions, value in [*taken.others, (len(values), b"", (), b"")]:
            for i in range(begin, until):
                outgoing.send(topic, taken.partitions[i], taken.names[i], values[i])
            outgoing.send(topic, partitions, name, value)
            begin = until


def _set_of(
    version: Version, row: int, columns: SubscriptionColumns, before: Route | None
) -> tuple[Version | None, HeldSet | None]:
    """The version with which the set of entities began that this one goes on with, and the set that the next one may go on with."""
    if not columns.transitions[row]:
        return None, None
    recipient = recipient_of(columns.subscriber_id[row] or b"")
    began = None if before is None else before.set_after(version.arrived_at, recipient)
    return began, None if columns.paused[row] else HeldSet(began or version, recipient)


def _as_columns(versions: Sequence[Version | None]) -> npt.NDArray[np.int64]:
    """Partitions, offsets and arrivals; an offset of -1 for None."""
    rows = [(-1, -1, -1) if v is None else (v.partition, v.offset, v.arrived_at) for v in versions]
    return np.array(rows, np.int64).reshape(-1, 3).T


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
    began: list[Version | None] = field(default_factory=list)
    others: list[tuple[int, bytes, tuple[int, ...], bytes]] = field(default_factory=list)
