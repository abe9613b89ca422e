"""The state of a partition at its committed offset, rebuilt from Kafka alone, without emitting anything."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from pastforward.errors import UserError
from pastforward.topics import Topics
from schemas import CanonicalPublication, CanonicalSubscription
from streams.connection import Connection
from streams.matcher import PROGRESS, decode_progress, read_envelope
from streams.readback import reader, stretch, whole
from streams.reference import FOREVER, Live, Partition, query_of
from streams.routes import Routes

log = logging.getLogger("pastforward.recovery")

REPORT_SECONDS: Final = 2.0  # longer work says how far it is


class Meter:
    """Says how far a recovery is, how fast, and how long it will take."""

    def __init__(self, what: str, total: Callable[[], int]) -> None:
        self._what, self._total = what, total
        self._started = self._said = time.monotonic()
        self.done = 0

    def add(self, records: int) -> None:
        self.done += records
        now = time.monotonic()
        if now - self._said >= REPORT_SECONDS:
            self._said = now
            rate = self.done / (now - self._started)
            left = max(0, self._total() - self.done) / rate
            log.info(
                "%s: %d of %d records, %.0f a second, %.0f s left", self._what, self.done, self._total(), rate, left
            )


async def recover_routes(connection: Connection, topics: Topics, number: int) -> Routes:
    """Where each subscription of an input partition went."""
    routes = Routes(topics.routes, number)
    async with reader(connection) as consumer:
        async for records in whole(consumer, TopicPartition(topics.routes, number)):
            routes.restore(records)
    return routes


async def recover_partition(
    connection: Connection, topics: Topics, number: int, hot_window: int, committed: int
) -> Partition:
    """Subscriptions and progress from the changelog, publications from the last two hot windows of the log."""
    partition = Partition(number, hot_window)
    async with reader(connection) as consumer:
        reached = await _read_changelog(consumer, partition, TopicPartition(topics.live, number))
        rendezvous = TopicPartition(topics.rendezvous, number)
        first = (await consumer.beginning_offsets([rendezvous]))[rendezvous]
        if reached is None and committed > first:
            raise UserError(
                f"partition {number} has been matched up to offset {committed}, but {topics.live} is empty: its subscriptions are "
                f"lost. Restore that topic, or use another TOPIC_PREFIX and subscribe again"
            )
        start = await _offset_at(consumer, rendezvous, partition.progress.log_time - 2 * hot_window, first)
        await _read_publications(
            consumer, partition, rendezvous, start, max(committed, reached or 0), start == first > 0
        )
    return partition


async def _read_changelog(consumer: AIOKafkaConsumer, partition: Partition, changelog: TopicPartition) -> int | None:
    """Returns the offset that the changelog has reached; None: it holds no progress."""
    reached = None
    total = 0
    meter = Meter(f"{changelog.topic} {changelog.partition}", lambda: total)
    total = (await consumer.end_offsets([changelog]))[changelog]
    async for records in whole(consumer, changelog):
        for record in records:
            if record.key == PROGRESS:
                partition.progress, reached = decode_progress(record.value)
            elif record.value is None:
                partition.subscriptions.pop(record.key.decode(), None)
            else:
                live = _live(record)
                partition.subscriptions[live.record.subscription_id] = live
        meter.add(len(records))
    return reached


async def _read_publications(
    consumer: AIOKafkaConsumer, partition: Partition, log_of: TopicPartition, start: int, end: int, cut_off: bool
) -> None:
    past = Partition(partition.number, partition.hot_window)
    meter = Meter(f"{log_of.topic} {log_of.partition}", lambda: end - start)
    async for records in stretch(consumer, log_of, start, end):
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
        meter.add(len(records))
    partition.publications, partition.arrivals = past.publications, past.arrivals


async def _offset_at(consumer: AIOKafkaConsumer, partition: TopicPartition, micros: int, first: int) -> int:
    """The first offset that Kafka stamped at that time or later."""
    found = (await consumer.offsets_for_times({partition: max(0, micros // 1000)}))[partition]
    return first if found is None else max(first, int(found.offset))


def _live(record: Any) -> Live:
    envelope = read_envelope(record)
    if not isinstance(envelope.record, CanonicalSubscription):
        raise UserError(f"{record.topic} {record.partition} offset {record.offset} holds no subscription: foreign data")
    return Live(envelope.record, envelope.partitions, query_of(envelope.record))
