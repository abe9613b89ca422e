"""What the rendezvous log says of two records: their order, and what came between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pastforward.schemas import CanonicalPublication, CanonicalSubscription, decode_rendezvous


@dataclass(slots=True)
class Place:
    """A record of an input, and what its origin tells."""

    partition: int
    offset: int
    arrived_at: int


class Stretch:
    """A stretch of a rendezvous partition: where the two records are, and what came between."""

    def __init__(self, messages: Iterator[Any]) -> None:
        self._messages = messages
        self.subscribed: int | None = None
        self.published: int | None = None
        self.time = 0  # the log time at the subscription
        self.repeated = False
        self.previous: dict[str, Any] = {}

    def read(self, s: CanonicalSubscription, p: CanonicalPublication, published: Place) -> None:
        time = 0
        earlier: tuple[int, int] = (-1, -1)
        for message in self._messages:
            envelope = decode_rendezvous(message.value())
            stamp = message.timestamp()[1] * 1000
            time = max(time, stamp if envelope.origin == "none" else envelope.arrived_at)
            record, place = envelope.record, (envelope.partition, envelope.offset)
            if isinstance(record, CanonicalSubscription):
                if record.subscription_id == s.subscription_id and str(record.version) == str(s.version):
                    self.subscribed, self.time = message.offset(), time
            elif isinstance(record, CanonicalPublication):
                if place == (published.partition, published.offset):
                    self.published = message.offset()
                elif self.published is None and (record.publication_id, record.topic) == (p.publication_id, p.topic):
                    self.repeated = True
                elif self.published is None and record.topic == p.topic:
                    valid = record.expires_at is None or record.expires_at > time
                    if valid and (record.published_at, message.offset()) > earlier:
                        earlier = (record.published_at, message.offset())
                        self.previous = record.attributes
            if self.subscribed is not None and self.published is not None:
                return
