"""The open backfill requests, and what has become of their subscriptions.

A request is open as long as its key has a value in the requests topic. Its subscription may have been withdrawn or replaced since:
then it is closed without an answer. The router's own table of routes tells, because it is written in one transaction with what the
matchers read: a request's subscription is standing exactly if it is there under the same version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pastforward.settings import Settings
from pastforward.topics import Topics
from schemas import (
    BackfillRequest,
    CanonicalSubscription,
    Registry,
    SchemaError,
    Version,
    decode_backfill_request,
    decode_rendezvous,
)
from spark_batch.kafka import read_topic
from streams.reference import overlap
from streams.routes import Routes


@dataclass(frozen=True, slots=True)
class Open:
    """A request with the place it was read from."""

    key: bytes
    offset: int
    request: BackfillRequest


@dataclass(slots=True)
class Requests:
    open: list[Open] = field(default_factory=list)
    refused: dict[bytes, str] = field(default_factory=dict)  # requests that cannot be read, and why

    @property
    def offsets(self) -> dict[bytes, int]:
        return {each.key: each.offset for each in self.open}


class _Record(NamedTuple):
    key: bytes
    value: bytes | None


def read_requests(settings: Settings, bootstrap: str, registry: Registry | None) -> Requests:
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    for message in read_topic(settings, bootstrap, Topics(settings.topic_prefix).backfill_requests):
        latest[message.key() or b""] = (message.offset(), message.value())
    found = Requests()
    for key, (offset, value) in latest.items():
        if value is None:
            continue
        try:
            found.open.append(Open(key, offset, decode_backfill_request(value, registry)))
        except SchemaError as error:
            found.refused[key] = error.reason
    return found


def standing(settings: Settings, bootstrap: str) -> Mapping[str, Version]:
    """The version in force of every subscription that was not withdrawn."""
    topic = Topics(settings.topic_prefix).routes
    tables: dict[int, Routes] = {}
    names: set[str] = set()
    for message in read_topic(settings, bootstrap, topic):
        routes = tables.setdefault(message.partition(), Routes(topic, message.partition()))
        routes.restore([_Record(message.key(), message.value())])
        names.add(message.key().decode())
    found: dict[str, Version] = {}
    for routes in tables.values():
        for name in names:
            route = routes.get(name.encode())
            if route is not None and (name not in found or found[name] < route.version):
                found[name] = route.version
    return found


def is_over(request: BackfillRequest, versions: Mapping[str, Version]) -> bool:
    """Withdrawn or replaced."""
    current = versions.get(request.subscription.subscription_id)
    return current is None or current > request.subscription.version


def is_behind(request: BackfillRequest, position: Mapping[int, int]) -> bool:
    """Whether the history has not yet passed the request's cut. `position` has the next offset to ingest."""
    return any(position.get(partition, 0) <= offset for partition, offset in request.cut.items())


def covering(
    settings: Settings, bootstrap: str, requests: Iterable[Open]
) -> dict[tuple[str, int], list[CanonicalSubscription]]:
    """For each self-joining request, by subscription id and partition: the earlier overlapping subscriptions of its subscriber
    that its partition held when it came.

    The matcher's changelog has every change of what a partition holds, in order; that of the request's own subscription marks the
    moment. One that had ended when it came was never held: it is compared with what is held now.
    """
    wanted = {
        (each.request.subscription.subscription_id, each.request.rendezvous_partition): each.request.subscription
        for each in requests
        if each.request.subscription.self_join
    }
    found: dict[tuple[str, int], list[CanonicalSubscription]] = {}
    if not wanted:
        return found
    held: dict[int, dict[str, CanonicalSubscription]] = {}
    for message in read_topic(settings, bootstrap, Topics(settings.topic_prefix).live):
        name = message.key()
        if name.startswith(b"\0"):
            continue  # the progress of the partition: no id begins so
        state = held.setdefault(message.partition(), {})
        state.pop(name.decode(), None)
        if message.value() is None:
            continue
        record = decode_rendezvous(message.value()).record
        if not isinstance(record, CanonicalSubscription):
            continue
        place = (record.subscription_id, message.partition())
        if place in wanted and wanted[place].version == record.version:
            found[place] = _earlier(record, state.values())
        state[record.subscription_id] = record
    for (name, partition), record in wanted.items():
        if (name, partition) not in found:
            found[name, partition] = _earlier(record, held.get(partition, {}).values())
    return found


def _earlier(record: CanonicalSubscription, others: Iterable[CanonicalSubscription]) -> list[CanonicalSubscription]:
    return [
        other
        for other in others
        if other.subscriber_id == record.subscriber_id and other.version < record.version and overlap(other, record)
    ]
