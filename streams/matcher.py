"""The matcher: reads one rendezvous partition, finds the pairs, and says what to send and to remember.

The changelog holds each live subscription, as its rendezvous record, and under keys that no id can have, the progress of the
partition, its open auctions (`streams.auctions`), and which publications of the last two hot windows it has dropped as repeats
(`streams.repeats`). Publications come back from the rendezvous log itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pastforward.topics import Topics
from schemas import NotificationColumns, Registry, Rendezvous, Texts, encode, encode_notifications
from schemas.codec import Format
from schemas.columns import SUBSCRIBER
from streams.engine import Engine
from streams.metrics import Metrics
from streams.notifications import PHASES
from streams.outgoing import Outgoing
from streams.progress import encode_progress
from streams.stage import Allowed

log = logging.getLogger("pastforward.matcher")

EVERYTHING: Final = Allowed()
PROGRESS: Final = b"\0progress"  # ids hold no zero byte


@dataclass(frozen=True, slots=True)
class Sinks:
    """Where a matcher writes, and how."""

    topics: Topics
    partitions: int
    format: Format
    registry: Registry | None


class Matcher:
    """One per rendezvous partition; used by one chunk at a time."""

    def __init__(self, engine: Engine, sinks: Sinks, metrics: Metrics) -> None:
        self._engine = engine
        self._sinks = sinks
        self._metrics = metrics

    def allowed(self, position: int) -> Allowed:
        return EVERYTHING

    def process(self, records: Sequence[Any]) -> Outgoing:
        effects = self._engine.process(
            [r.value for r in records], [r.timestamp * 1000 for r in records], [r.offset for r in records]
        )
        sinks, topics = self._sinks, self._sinks.topics
        outgoing = Outgoing()
        for told in effects.columns():
            values = encode_notifications(told, sinks.format, sinks.registry)
            outgoing.send_keyed(topics.notifications, sinks.partitions, told.recipient_id, values)
            self._count(told)
        if effects.offers:
            keys = [offer.publication_id.encode() for offer in effects.offers]
            offers = [encode(offer, sinks.format, sinks.registry) for offer in effects.offers]
            outgoing.send_keyed(topics.best_offers, sinks.partitions, Texts.of(keys), offers)
        for request in effects.requests:
            subscription = request.subscription
            key = f"{subscription.subscription_id}\0{subscription.version}\0{self._engine.number}".encode()
            outgoing.send(topics.backfill_requests, (0,), key, encode(request, registry=sinks.registry))
        outgoing.changelog[topics.live, self._engine.number] += effects.live.items()
        for reason, count in effects.dropped.items():
            self._metrics.dropped.labels(reason).inc(count)
        if effects.moved:
            self._metrics.moved.inc(len(effects.moved))
            log.warning(
                "%d subscriptions came through another partition than before, such as %r: the higher version wins, but one id "
                "must keep to one partition (murmur2, Java's default partitioner, sees to it)",
                len(effects.moved),
                effects.moved[0].decode(),
            )
        progress = encode_progress(self._engine.progress, self._engine.applied)
        outgoing.log(topics.live, self._engine.number, PROGRESS, progress)
        return outgoing

    def _count(self, told: NotificationColumns) -> None:
        """All of one lot are of one phase."""
        phase = PHASES[told.phase[0]]
        self._metrics.notifications.labels(phase).inc(len(told))
        self._metrics.matches.labels(phase).inc(int(np.count_nonzero(told.role == SUBSCRIBER)))

    def idle(self) -> Outgoing | None:
        """A tick, as long as there is anything that time could end."""
        engine = self._engine
        if not (any(engine.size) or engine.auctions or engine.repeats):
            return None
        outgoing = Outgoing()
        tick = Rendezvous("none", 0, 0, 0, engine.version, (engine.number,))
        outgoing.send(self._sinks.topics.rendezvous, (engine.number,), None, encode(tick))
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
        metrics.log_time.labels(number).set(engine.progress.log_time / 1e6)
        for where, size in engine.state_bytes().items():
            metrics.state_bytes.labels(number, where).set(size)
        index = engine.index
        if index is not None:
            metrics.index_bytes.labels(number, index.algorithm).set(index.nbytes)
            metrics.index_subscriptions.labels(number, index.algorithm).set(len(index))

    def close(self) -> None:
        self._engine.close()
