"""The matcher: reads one rendezvous partition, finds the pairs, and says what to send and to remember.

The changelog holds each live subscription, as its rendezvous record, and under a key that no id can have, the progress of the
partition. Publications come back from the rendezvous log itself: from two hot windows ago, because what is held from the last
one carries what was the previous publication then.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pastforward.topics import Topics
from schemas import (
    Notification,
    Registry,
    Rendezvous,
    decode_rendezvous,
    encode,
)
from schemas.codec import Format
from streams.metrics import Metrics
from streams.outgoing import Outgoing, partition_of
from streams.reference import Partition, Progress
from streams.router import ROUTING_VERSION

log = logging.getLogger("pastforward.matcher")

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

    def __init__(self, partition: Partition, sinks: Sinks, metrics: Metrics) -> None:
        self.partition = partition
        self.position = 0
        self._sinks = sinks
        self._metrics = metrics

    def process(self, records: Sequence[Any]) -> Outgoing:
        outgoing = Outgoing()
        for record in records:
            self._apply(record, outgoing)
        self._log(PROGRESS, encode_progress(self.partition.progress, records[-1].offset + 1), outgoing)
        return outgoing

    def idle(self) -> Outgoing | None:
        """A tick, as long as there is anything that time could end."""
        if not (self.partition.publications or self.partition.subscriptions):
            return None
        outgoing = Outgoing()
        tick = Rendezvous("none", 0, 0, 0, ROUTING_VERSION, (self.partition.number,))
        outgoing.send(self._sinks.topics.rendezvous, (self.partition.number,), None, encode(tick))
        return outgoing

    def committed(self, offset: int) -> None:
        self.position = offset
        number = str(self.partition.number)
        self._metrics.subscriptions.labels(number).set(len(self.partition.subscriptions))
        self._metrics.publications.labels(number).set(len(self.partition.publications))
        self._metrics.log_time.labels(number).set(self.partition.progress.log_time / 1e6)

    def close(self) -> None:
        """The state is in memory, in its changelog and in the log."""

    def _apply(self, record: Any, outgoing: Outgoing) -> None:
        found = self.partition.apply(read_envelope(record))
        if found.dropped:
            self._metrics.dropped.labels(found.dropped).inc()
        for name in found.removed:
            self._log(name.encode(), None, outgoing)
        for live in found.kept:
            self._log(live.record.subscription_id.encode(), record.value, outgoing)
        for notification in found.notifications:
            self._notify(notification, outgoing)
        sinks = self._sinks
        for request in found.requests:
            key = f"{request.subscription.subscription_id}\0{self.partition.number}".encode()
            outgoing.send(sinks.topics.backfill_requests, (0,), key, encode(request, registry=sinks.registry))

    def _notify(self, notification: Notification, outgoing: Outgoing) -> None:
        sinks = self._sinks
        key = notification.recipient_id.encode()
        value = encode(notification, sinks.format, sinks.registry)
        outgoing.send(sinks.topics.notifications, (partition_of(key, sinks.partitions),), key, value)
        self._metrics.notifications.labels(notification.phase).inc()

    def _log(self, key: bytes, value: bytes | None, outgoing: Outgoing) -> None:
        outgoing.log(self._sinks.topics.live, self.partition.number, key, value)


def read_envelope(record: Any) -> Rendezvous:
    """A rendezvous record. The time of a tick is the broker's: the timestamp it got in the rendezvous log."""
    envelope = decode_rendezvous(record.value)
    if envelope.origin == "none":
        envelope.arrived_at = record.timestamp * 1000
    return envelope


def encode_progress(progress: Progress, offset: int) -> bytes:
    return orjson.dumps(
        {
            "offset": offset,
            "log_time": progress.log_time,
            "seen": [[topic, partition, at] for (topic, partition), at in progress.seen.items()],
            "complete_from": progress.complete_from,
            "gone_published": progress.gone_published,
            "gone_expires": progress.gone_expires,
        }
    )


def decode_progress(value: bytes) -> tuple[Progress, int]:
    fields = orjson.loads(value)
    seen = {(topic, partition): at for topic, partition, at in fields["seen"]}
    return (
        Progress(fields["log_time"], seen, fields["complete_from"], fields["gone_published"], fields["gone_expires"]),
        fields["offset"],
    )
