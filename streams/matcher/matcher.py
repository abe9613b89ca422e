"""The matcher: reads one rendezvous partition, finds the pairs, and says what to send and to remember.

The changelog holds each live subscription, as its rendezvous record, and under keys that no id can have, the progress of the
partition, its open auctions (`streams.matcher.best_offers`), which publications of the last two hot windows it has dropped as duplicates,
and which records it has refused (`streams.matcher.duplicates`). Publications come back from the rendezvous log itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pastforward.columns.texts import Texts
from pastforward.schemas import (
    Registry,
    Rendezvous,
    SchemaError,
    dead_letter,
    dead_letter_key,
    decode_rendezvous,
    encode,
)
from pastforward.schemas.codec import Format
from pastforward.schemas.columns import SUBSCRIBER
from pastforward.schemas.errors import refusal
from pastforward.schemas.limits import MAX_CANONICAL_BYTES, MAX_NOTIFICATION_BYTES
from pastforward.schemas.notification_writer import NotificationWriter
from pastforward.state import Store
from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.engine import Engine
from pastforward.streams.matcher.notifications import PHASES
from pastforward.streams.matcher.progress import encode_progress
from pastforward.streams.matcher.searches import Refused
from pastforward.streams.stages.guard import in_halves, warn
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.stages.stage import Allowed
from pastforward.topics import Topics

log = logging.getLogger("pastforward.matcher")

EVERYTHING: Final = Allowed()
PROGRESS: Final = b"\0progress"  # ids hold no zero byte
# Bytes of what a chunk may notify: they leave in one transaction, which has its time. A chunk that has more is halved, and a record that
# has more by itself is refused.
MOST: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Sinks:
    """Where a matcher writes, and how."""

    topics: Topics
    partitions: int
    format: Format
    registry: Registry | None


def check_size(what: str, largest: int, most: int = MAX_CANONICAL_BYTES) -> None:
    """What the broker would not take is refused, with the record that leads to it."""
    if largest > most:
        raise SchemaError(
            "too_large",
            f"the record leads to {what} of {largest} bytes, above the {most} that its topic takes: shorten its texts",
        )


def check_writer(writer: NotificationWriter) -> None:
    large = np.flatnonzero(writer.sizes > MAX_NOTIFICATION_BYTES)  # at most; most of them are far smaller
    if len(large):
        check_size("a notification", int(writer.write(large).length.max()), MAX_NOTIFICATION_BYTES)


class Matcher:
    """One per rendezvous partition; used by one chunk at a time."""

    arrived_at = 0  # the router has written it into each record

    def __init__(self, engine: Engine, sinks: Sinks, metrics: Metrics) -> None:
        self._engine = engine
        self._sinks = sinks
        self._metrics = metrics

    def allowed(self, position: int) -> Allowed:
        return EVERYTHING

    def takes_long(self, records: Sequence[Any]) -> bool:
        return self._engine.looks_far_back([record.value for record in records])

    def process(self, records: Sequence[Any]) -> Outgoing:
        with self._engine.chunk(
            [r.value for r in records], [r.timestamp * 1000 for r in records], [r.offset for r in records]
        ) as effects:
            outgoing = self._outgoing(effects)
            self._count(effects)
        return outgoing

    def room(self, records: Sequence[Any]) -> int:
        return self._engine.room([record.value for record in records])

    @property
    def searching(self) -> bool:
        return len(self._engine.searches) > 0

    def search(self) -> Outgoing:
        effects, refused = self._engine.search()
        if not effects.pairs and not effects.live and not refused:
            return Outgoing()  # it has read, and found nothing
        outgoing = self._outgoing(effects)
        self._count(effects)
        for each in refused:
            self._give_up(each, outgoing)
        return outgoing

    def _give_up(self, refused: Refused, outgoing: Outgoing) -> None:
        """The subscription stays: what its search has told is told, and nothing more comes of it."""
        warn(f"{self._sinks.topics.rendezvous} partition {self._engine.number}", refused.offset, refused.error)
        why = refusal(refused.error)
        reason = SchemaError(why.kind, f"its search of the past was given up, the subscription stays: {why.reason}")
        arrived_at = decode_rendezvous(refused.value).arrived_at
        self._send_letter(outgoing, refused.offset, arrived_at, reason, None, refused.value)

    def _outgoing(self, effects: Effects) -> Outgoing:
        sinks, topics, number = self._sinks, self._sinks.topics, self._engine.number
        outgoing = Outgoing()
        together = 0
        for notifications in effects.columns():
            writer = NotificationWriter(notifications, sinks.format, sinks.registry)
            check_writer(writer)
            together += int(writer.sizes.sum())
            check_size("notifications, all together,", together, MOST)
            outgoing.send_framed(
                topics.notifications, sinks.partitions, notifications.recipient_id, writer.sizes, writer.write
            )
        if effects.offers:
            keys = [offer.publication_id.encode() for offer in effects.offers]
            offers = [encode(offer, sinks.format, sinks.registry) for offer in effects.offers]
            check_size("the holder of an auction", max(map(len, offers)))
            outgoing.send_keyed(topics.best_offers, sinks.partitions, Texts.of(keys), offers)
        for request in effects.requests:
            subscription = request.subscription
            key = f"{subscription.subscription_id}\0{subscription.version}\0{number}".encode()
            value = encode(request, registry=sinks.registry)
            check_size("a backfill request", len(value))
            outgoing.send(topics.backfill_requests, (0,), key, value)
        outgoing.changelog[topics.live, number] += effects.live.items()
        self._log_progress(outgoing)
        return outgoing

    def _log_progress(self, outgoing: Outgoing) -> None:
        """Last of a chunk: a recovery looks for it at the end of the changelog."""
        engine = self._engine
        progress = encode_progress(engine.progress, engine.applied)
        outgoing.log(self._sinks.topics.live, engine.number, PROGRESS, progress)

    def refuse(self, record: Any, error: Exception) -> Outgoing:
        """The record has no effect, here and in every replay, but for the time that it tells."""
        engine, topics = self._engine, self._sinks.topics
        reason = refusal(error)
        warn(f"{topics.rendezvous} partition {engine.number}", record.offset, error)
        engine.refuse(record.offset)
        (outgoing,) = in_halves(self.process, self._skip, [record])
        if self._writes_letter(record):
            self._send_letter(outgoing, record.offset, record.timestamp * 1000, reason, record.key, record.value)
        return outgoing

    def _send_letter(
        self, outgoing: Outgoing, offset: int, arrived_at: int, reason: SchemaError, key: bytes | None, value: bytes
    ) -> None:
        engine, topics = self._engine, self._sinks.topics
        letter = dead_letter(topics.rendezvous, engine.number, offset, arrived_at, reason, key, value)
        place = (engine.number % self._sinks.partitions,)
        encoded = encode(letter, registry=self._sinks.registry)
        outgoing.send(topics.dead_letters, place, dead_letter_key(key), encoded)
        self._metrics.dead_letters.labels(reason.kind).inc()

    def _writes_letter(self, record: Any) -> bool:
        """Not while an earlier version of the routing reads the same input, and writes its own."""
        try:
            return decode_rendezvous(record.value).routing_version >= self._engine.version
        except SchemaError:
            return True

    def _skip(self, record: Any, _: Exception) -> Outgoing:
        engine, outgoing = self._engine, Outgoing()
        noted = engine.skip(record.offset, record.timestamp * 1000)
        outgoing.changelog[self._sinks.topics.live, engine.number] += noted.items()
        self._log_progress(outgoing)
        return outgoing

    def _count(self, effects: Effects) -> None:
        metrics = self._metrics
        for notifications in effects.columns():
            phase = PHASES[notifications.phase[0]]  # all of one lot are of one phase
            metrics.notifications.labels(phase).inc(len(notifications))
            metrics.matches.labels(phase).inc(int(np.count_nonzero(notifications.role == SUBSCRIBER)))
        for reason, count in effects.dropped.items():
            metrics.dropped.labels(reason).inc(count)
        if effects.moved:
            metrics.moved.inc(len(effects.moved))
            log.warning(
                "%d subscriptions came through another partition than before, such as %r: the higher version wins, but one id "
                "must keep to one partition (murmur2, Java's default partitioner, sees to it)",
                len(effects.moved),
                effects.moved[0].decode(),
            )

    def idle(self) -> Outgoing | None:
        """A tick, as long as there is anything that time could end."""
        engine = self._engine
        if not (any(engine.size) or engine.auctions or engine.duplicates):
            return None
        outgoing = Outgoing()
        tick = Rendezvous("none", 0, 0, 0, engine.version, (engine.number,))
        outgoing.send(self._sinks.topics.rendezvous, (engine.number,), None, encode(tick))
        return outgoing

    def passed(self, offset: int) -> Outgoing:
        self._engine.skip(offset - 1)
        outgoing = Outgoing()
        self._log_progress(outgoing)
        return outgoing

    def committed(self, offset: int) -> None:
        self._engine.commit(offset)

    def measure(self) -> None:
        """When somebody asks."""
        engine, metrics, number = self._engine, self._metrics, str(self._engine.number)
        subscriptions, items = engine.size
        metrics.subscriptions.labels(number).set(subscriptions)
        metrics.items.labels(number).set(items)
        metrics.auctions.labels(number).set(len(engine.auctions))
        metrics.searches.labels(number, "under way").set(engine.searches.under_way)
        metrics.searches.labels(number, "waiting").set(len(engine.searches) - engine.searches.under_way)
        metrics.log_time.labels(number).set(engine.progress.log_time / 1e6)
        for where, size in _bytes_of(engine.store).items():
            metrics.state_bytes.labels(number, where).set(size)
        if engine.index is not None:
            index = engine.index.index
            metrics.index_bytes.labels(number, index.algorithm).set(index.nbytes)
            metrics.index_subscriptions.labels(number, index.algorithm).set(len(index))

    def close(self) -> None:
        self._engine.close()


def _bytes_of(store: Store) -> dict[str, int]:
    """What it takes, in memory and on disk."""
    disk = 0
    for file in (os.path.join(at, name) for at, _, names in os.walk(store.path) for name in names):
        with contextlib.suppress(OSError):  # RocksDB has just removed it
            disk += os.stat(file).st_size
    return {"memory": store.stats.index_bytes, "disk": disk}
