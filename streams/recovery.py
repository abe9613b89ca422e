"""The state of a partition at its committed offset, rebuilt from Kafka alone, without emitting anything."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from aiokafka import TopicPartition

from pastforward.errors import UserError
from pastforward.topics import Topics
from schemas import CanonicalPublication, CanonicalSubscription
from streams.connection import Connection
from streams.matcher import PROGRESS, decode_progress, read_envelope
from streams.readback import bounds, offset_at, stretch
from streams.reference import FOREVER, Live, Partition, query_of
from streams.routes import Routes

log = logging.getLogger("pastforward.recovery")

REPORT_SECONDS: Final = 2.0  # longer work says how far it is


class Meter:
    """Says how far a recovery is, how fast, and how long it will take."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._started = self._said = time.monotonic()
        self._done = 0

    def add(self, records: int) -> None:
        self._done += records
        now = time.monotonic()
        if now - self._said >= REPORT_SECONDS:
            self._said = now
            rate = self._done / (now - self._started)
            left = max(0, self._total - self._done) / rate
            log.info(
                "%s: %d of %d records, %.0f a second, %.0f s left", self._what, self._done, self._total, rate, left
            )


async def _metered(connection: Connection, partition: TopicPartition, start: int, end: int) -> AsyncIterator[list[Any]]:
    meter = Meter(f"recovering {partition.topic} {partition.partition}", end - start)
    async for records in stretch(connection, partition, start, end):
        yield records
        meter.add(len(records))


async def recover_routes(connection: Connection, topics: Topics, number: int) -> Routes:
    """Where each subscription of an input partition went."""
    routes = Routes(topics.routes, number)
    changelog = TopicPartition(topics.routes, number)
    async for records in _metered(connection, changelog, *await bounds(connection, changelog)):
        routes.restore(records)
    return routes


async def recover_partition(
    connection: Connection, topics: Topics, number: int, hot_window: int, committed: int
) -> Partition:
    """Subscriptions and progress from the changelog, publications from the last two hot windows of the log."""
    partition = Partition(number, hot_window)
    reached = await _read_changelog(connection, partition, TopicPartition(topics.live, number))
    rendezvous = TopicPartition(topics.rendezvous, number)
    first, _ = await bounds(connection, rendezvous)
    if reached is None and committed > first:
        raise UserError(
            f"partition {number} has been matched up to offset {committed}, but {topics.live} is empty: its subscriptions "
            f"are lost. Restore that topic, or use another TOPIC_PREFIX and subscribe again"
        )
    start = await offset_at(connection, rendezvous, partition.progress.log_time - 2 * hot_window)
    start = first if start is None else max(first, start)
    end = max(committed, reached or 0)
    await _read_publications(connection, partition, rendezvous, start, end, cut_off=start == first > 0)
    return partition


async def _read_changelog(connection: Connection, partition: Partition, changelog: TopicPartition) -> int | None:
    """Returns the offset that the changelog has reached; None: it holds no progress."""
    reached = None
    async for records in _metered(connection, changelog, *await bounds(connection, changelog)):
        for record in records:
            if record.key == PROGRESS:
                partition.progress, reached = decode_progress(record.value)
            elif record.value is None:
                partition.subscriptions.pop(record.key.decode(), None)
            else:
                live = _live(record)
                partition.subscriptions[live.record.subscription_id] = live
    return reached


async def _read_publications(
    connection: Connection, partition: Partition, log_of: TopicPartition, start: int, end: int, *, cut_off: bool
) -> None:
    past = Partition(partition.number, partition.hot_window)
    async for records in _metered(connection, log_of, start, end):
        if cut_off:
            # What arrived before the first record that is left may be missing, and nothing is known of it.
            partition.progress.complete_from = records[0].timestamp * 1000
            partition.progress.gone_published = partition.progress.gone_expires = FOREVER
            cut_off = False
        for record in records:
            envelope = read_envelope(record)
            if not isinstance(envelope.record, CanonicalPublication):
                envelope.record = None  # only its time counts
            past.apply(envelope)
    partition.publications, partition.arrivals = past.publications, past.arrivals


def _live(record: Any) -> Live:
    envelope = read_envelope(record)
    if not isinstance(envelope.record, CanonicalSubscription):
        raise UserError(f"{record.topic} {record.partition} offset {record.offset} holds no subscription: foreign data")
    return Live(envelope.record, envelope.partitions, query_of(envelope.record))
