"""Where each subscription went: id → version, partitions, digest of its bytes. One table per partition of the input.

The changelog is the truth; the table in memory is read from it on takeover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from schemas import Version
from streams.outgoing import Outgoing


class Route(NamedTuple):
    version: Version
    partitions: tuple[int, ...]
    digest: bytes


class Routes:
    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._routes: dict[str, Route] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def get(self, subscription_id: str) -> Route | None:
        return self._routes.get(subscription_id)

    def put(self, subscription_id: str, route: Route, outgoing: Outgoing) -> None:
        self._routes[subscription_id] = route
        outgoing.log(self._topic, self._partition, subscription_id.encode(), _encode(route))

    def remove(self, subscription_id: str, outgoing: Outgoing) -> None:
        del self._routes[subscription_id]
        outgoing.log(self._topic, self._partition, subscription_id.encode(), None)

    def restore(self, records: Sequence[Any]) -> None:
        for record in records:
            name = record.key.decode()
            if record.value is None:
                self._routes.pop(name, None)
            else:
                self._routes[name] = _decode(record.value)


def _encode(route: Route) -> bytes:
    version = route.version
    return orjson.dumps(
        {
            "version": [version.arrived_at, version.partition, version.offset],
            "partitions": route.partitions,
            "digest": route.digest.hex(),
        }
    )


def _decode(value: bytes) -> Route:
    fields = orjson.loads(value)
    return Route(Version(*fields["version"]), tuple(fields["partitions"]), bytes.fromhex(fields["digest"]))
