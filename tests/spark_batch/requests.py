"""Backfill requests as a matcher writes them, without a worker: the request itself, and the route that says it stands."""

from __future__ import annotations

from typing import Any

from pastforward.client import Client
from pastforward.matching import Condition
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.schemas import BackfillRequest, CanonicalSubscription, Version, encode
from pastforward.settings import Settings
from pastforward.streams.router.routes import Route, Routes
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.topics import Topics

FAR = 1 << 52  # microseconds, the year 2112: later than everything that a test publishes


def ask(settings: Settings, name: str, cut: dict[int, int], where: str | None = None, **fields: Any) -> bytes:
    """Writes a request of partition 0 and returns its key."""
    condition = ALWAYS if where is None else Condition.parse(where).disjuncts
    version, ends_at = fields.pop("version", Version(FAR, 0, 7)), fields.pop("ends_at", None)
    subscription = CanonicalSubscription(
        name, f"{name}'s", version, "", "overlap", 0, ends_at, "published", condition, **fields
    )
    request = BackfillRequest(subscription, 0, FAR, FAR, 1, cut)
    topics = Topics(settings.topic_prefix)
    key = f"{name}\0{version}\0{0}"
    with Client(settings=settings) as client:
        stand(settings, client, name, version)
        client._send(topics.backfill_requests, [(key, encode(request))])
    return key.encode()


def stand(settings: Settings, client: Client, name: str, version: Version | None) -> None:
    """What the router remembers of a subscription; None: it was withdrawn."""
    topics = Topics(settings.topic_prefix)
    outgoing = Outgoing()
    routes = Routes(topics.routes, 0)
    routes.put(name.encode(), Route(version or Version(0, 0, 0), (0,), b"digest"), outgoing)
    if version is None:
        routes.remove(name.encode(), outgoing)
    for records in outgoing.changelog.values():
        client._send(topics.routes, [(key.decode(), value) for key, value in records if key is not None])
