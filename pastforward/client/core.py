"""What every part of the client stands on: the connections, and their end."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from pastforward import broker, topics
from pastforward.client.delivery import Delivery, Key
from pastforward.client.dictionaries import PlainWriter, new_names
from pastforward.client.listing import Listing
from pastforward.client.moments import now_micros
from pastforward.client.naming import Names
from pastforward.client.offsets import Offsets
from pastforward.client.reader import CHUNK, Reader
from pastforward.client.rules import RoutingRules
from pastforward.client.workers import Workers
from pastforward.errors import ClientClosed, DeliveryError
from pastforward.registry import open_registry
from pastforward.schemas import Registry
from pastforward.settings import Settings, load


class Core:
    def __init__(
        self,
        bootstrap_servers: str | None = None,
        *,
        settings: Settings | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Without `bootstrap_servers` the settings decide; without those, the embedded broker that runs here."""
        self._settings = settings or load()
        self._bootstrap = bootstrap_servers or broker.bootstrap_of(self._settings)
        self._topics = topics.Topics(self._settings.topic_prefix)
        self._registry = registry or open_registry(self._settings)
        self._rules = RoutingRules(self._settings, self._bootstrap)
        self._delivery = Delivery(self._settings, self._bootstrap)
        self._offsets = Offsets(self._settings, self._bootstrap, self._delivery.patience)
        self._workers = Workers(self._settings, self._bootstrap, self._registry)
        self._listing = Listing(self._settings, self._bootstrap, self._offsets, self._registry)
        self._plain, self._names = PlainWriter(), new_names()
        self._book = Names(self._topics.names, self._listing, self._delivery)
        self._made_at = self._now()
        self._closed = threading.Event()

    @property
    def bootstrap_servers(self) -> str:
        """The brokers that it was made for."""
        return self._bootstrap

    @property
    def offsets(self) -> Offsets:
        """The ends of the topics' logs."""
        return self._offsets

    @property
    def workers(self) -> Workers:
        """How far the workers have come."""
        return self._workers

    @property
    def names(self) -> Names:
        """What topics are called: `names.topic("roads/I-95")`, `names.name(path)`, `names.below("roads/")`."""
        return self._book

    @property
    def registry(self) -> Registry | None:
        """The schema registry of the settings, if one is named."""
        return self._registry

    def _now(self) -> int:
        """What a moment from now is counted from, in microseconds."""
        return now_micros()

    def _reader(self, chunk: int = CHUNK, **properties: Any) -> Reader:
        return Reader(self._settings, self._bootstrap, chunk, **properties)

    def _check_open(self, what: str) -> None:
        if self._closed.is_set():
            raise ClientClosed(what)

    def _send(self, topic: str, records: Iterable[tuple[Key, bytes | None]]) -> int:
        return self._delivery.send(topic, records)

    def close(self) -> None:
        """Sends what waits, or raises `DeliveryError`; whoever iterates, in whichever thread, comes to an end."""
        self._closed.set()
        self._offsets.close()
        self._delivery.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt | DeliveryError):
            self._delivery.drop()
        self.close()
