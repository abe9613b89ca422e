"""The open backfill requests, and what has become of their subscriptions.

A request is open as long as its key has a value in the requests topic. Its subscription may have been withdrawn or replaced since:
then it is closed without an answer. The router's own table of routes tells, because it is written in one transaction with what the
matchers read: a request's subscription is standing exactly if it is there under the same version. Only of one that has ended the router
may have forgotten the route: then the subscriptions topic tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pastforward.schemas import (
    BackfillRequest,
    Registry,
    SchemaError,
    Version,
    Withdrawal,
    decode_backfill_request,
    decode_subscription,
)
from pastforward.schemas.acceptance import accept_subscription
from pastforward.settings import Settings
from pastforward.spark_batch.kafka import read_topic
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing.change import View
from pastforward.topics import Topics


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

    def refuse(self, reasons: Mapping[bytes, str]) -> None:
        self.refused |= reasons
        self.open = [each for each in self.open if each.key not in reasons]

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


def standing(settings: Settings, bootstrap: str, view: View, requests: Iterable[Open]) -> Mapping[str, Version]:
    """The version in force of every subscription that was not withdrawn. While the routing changes, either side may know it."""
    found = _routed(settings, bootstrap, view)
    ended = {
        each.request.subscription.subscription_id: each.request.subscription.version
        for each in requests
        if each.request.subscription.ends_at is not None and each.request.subscription.subscription_id not in found
    }
    if not ended:
        return found
    later: dict[str, list[Any]] = {name: [] for name in ended}
    for message in read_topic(settings, bootstrap, Topics(settings.topic_prefix).subscriptions):
        name = (message.key() or b"").decode(errors="replace")
        version = ended.get(name)
        if version is not None and message.partition() == version.partition and message.offset() >= version.offset:
            later[name].append(message)
    return found | {name: version for name, version in ended.items() if still_stands(version, later[name])}


def still_stands(version: Version, records: Sequence[Any]) -> bool:
    """`records`: of its key in the subscriptions topic, from the version's own on. What was refused, or equal, has changed nothing."""
    own: bytes | None = None
    now = version.arrived_at
    for record in records:
        value = record.value()
        now = max(now, record.timestamp()[1] * 1000)
        if record.offset() == version.offset:
            own = value
            continue
        if value is None:
            return False
        if value == own:
            continue
        try:
            read = decode_subscription(record.key(), value)
            if not isinstance(read, Withdrawal):
                accept_subscription(read, arrived_at=now)
        except SchemaError:
            continue
        return False
    return bool(records)  # a withdrawal leaves nothing, in the end


def _routed(settings: Settings, bootstrap: str, view: View) -> dict[str, Version]:
    tables: dict[tuple[str, int], Routes] = {}
    names: set[str] = set()
    for topic in (Topics(settings.topic_prefix, version).routes for version in view.active()):
        for message in read_topic(settings, bootstrap, topic):
            routes = tables.setdefault((topic, message.partition()), Routes(topic, message.partition()))
            routes.restore([_Record(message.key(), message.value())])
            names.add(message.key().decode())
    found: dict[str, Version] = {}
    for routes in tables.values():
        for name in names:
            route = routes.get(name.encode(), 0)
            if route is not None and (name not in found or found[name] < route.version):
                found[name] = route.asks_from or route.version
    return found


def is_over(request: BackfillRequest, versions: Mapping[str, Version]) -> bool:
    """Withdrawn or replaced; a version that pauses or resumes it leaves what it asks for to be answered."""
    current = versions.get(request.subscription.subscription_id)
    return current is None or current > request.subscription.version


def is_behind(request: BackfillRequest, position: Mapping[int, int]) -> bool:
    """Whether the history has not yet passed the request's cut. `position` has the next offset to ingest."""
    return any(position.get(partition, 0) <= offset for partition, offset in request.cut.items())
