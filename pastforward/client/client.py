"""The client itself."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from confluent_kafka import TopicPartition

from pastforward import broker, topics
from pastforward.client.delivery import TIMEOUT, Delivery, DeliveryError
from pastforward.client.handle import Handle
from pastforward.client.moments import Moment, micros, now_micros
from pastforward.client.reader import Reader
from pastforward.client.rules import RoutingRules
from pastforward.matching.conditions.values import Value
from pastforward.registry import open_registry
from pastforward.schemas import (
    Best,
    BestOffer,
    Notification,
    Publication,
    Registry,
    Subscription,
    decode_best_offer,
    decode_notification,
    encode,
)
from pastforward.schemas.acceptance import accept_publication, accept_subscription
from pastforward.schemas.records import Scope, Semantics, TimeBasis, Where
from pastforward.settings import Settings, load

T = TypeVar("T")


class Client:
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
        self._closed = threading.Event()

    # ------------------------------------------------------------ subscriptions

    def subscribe(
        self,
        where: Where = None,
        *,
        subscriber_id: str,
        subscription_id: str | None = None,
        topic: str = "",
        scope: Scope = "overlap",
        starts_at: Moment = None,
        ends_at: Moment = None,
        time: TimeBasis = "published",
        semantics: Semantics = "classical",
        self_join: bool = False,
    ) -> Handle:
        """`starts_at=timedelta(minutes=-10)` reaches ten minutes back. The same id again replaces."""
        now = now_micros()
        record = Subscription(
            subscription_id or uuid.uuid4().hex,
            subscriber_id,
            topic,
            scope,
            micros(starts_at, now),
            micros(ends_at, now),
            time,
            where,
            semantics,
            self_join,
        )
        value = encode(record, registry=self._registry)
        self._rules.accept(partial(accept_subscription, record), record.self_join)
        self._send(self._topics.subscriptions, [(record.subscription_id, value)])
        return Handle(self, record)

    def unsubscribe(self, subscription_id: str) -> None:
        self._send(self._topics.subscriptions, [(subscription_id, None)])

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap

    @property
    def registry(self) -> Registry | None:
        return self._registry

    # ------------------------------------------------------------ publications

    def publish(
        self,
        attributes: Mapping[str, Value] | None = None,
        *,
        topic: str = "",
        publication_id: str | None = None,
        publisher_id: str | None = None,
        published_at: Moment = None,
        expires_at: Moment = None,
        where: Where = None,
        best: Best | None = None,
        self_join: bool = False,
        body: bytes | None = None,
    ) -> str:
        """Returns the publication's id."""
        now = now_micros()
        record = Publication(
            publication_id or uuid.uuid4().hex,
            publisher_id,
            topic,
            micros(published_at, now),
            micros(expires_at, now),
            dict(attributes or {}),
            where,
            best,
            self_join,
            body,
        )
        self.publish_many([record])
        return str(record.publication_id)

    def publish_many(self, publications: Iterable[Publication]) -> int:
        """Pipelined; returns how many were delivered, all of them, or raises."""

        def records() -> Iterator[tuple[str, bytes]]:
            for publication in publications:
                if publication.publication_id is None:
                    publication.publication_id = uuid.uuid4().hex
                value = encode(publication, registry=self._registry)
                self._rules.accept(partial(accept_publication, publication), publication.best is not None)
                yield publication.publication_id, value

        return self._send(self._topics.publications, records())

    # ------------------------------------------------------------ notifications

    def notifications(
        self,
        recipient_id: str | None = None,
        *,
        since: Moment = None,
        timeout: float | None = None,
    ) -> Iterator[Notification]:
        """Everything that is notified from now on, or since a moment; to one recipient, or to all.

        Ends after `timeout` seconds without a notification; never, if that is None. Reads committed records only. The place
        in the log is fixed before this returns, so what is published afterwards will be seen.
        """
        reader = self._consumer()
        try:
            reader.consumer.assign(self._places(reader.consumer, micros(since)))
        except BaseException:
            reader.close()
            raise
        read = partial(decode_notification, registry=self._registry)
        return self._iterate(reader, recipient_id, timeout, read)

    def best_offers(self, publication_id: str | None = None, *, timeout: float | None = None) -> Iterator[BestOffer]:
        """Who holds the best offer: as it stands, and every change from then on; of one publication, or of all.

        Ends after `timeout` seconds without a change; never, if that is None.
        """
        reader = self._consumer()
        try:
            name = self._topics.best_offers
            found = topics.watermarks(reader.consumer, name)
            reader.consumer.assign([TopicPartition(name, p, first) for p, (first, _) in found.items()])
        except BaseException:
            reader.close()
            raise
        return self._iterate(reader, publication_id, timeout, partial(decode_best_offer, registry=self._registry))

    def _consumer(self) -> Reader:
        return Reader(self._settings, self._bootstrap)

    def _places(self, consumer: Any, since: int | None) -> list[TopicPartition]:
        name = self._topics.notifications
        places = {p: end for p, (_, end) in topics.watermarks(consumer, name).items()}
        if since is not None:
            asked = [TopicPartition(name, p, since // 1000) for p in places]
            found = topics.patiently(lambda: consumer.offsets_for_times(asked, TIMEOUT))
            places |= {p.partition: p.offset for p in found if p.offset >= 0}
        return [TopicPartition(name, p, at) for p, at in places.items()]

    def _iterate(
        self, reader: Reader, key: str | None, timeout: float | None, read: Callable[[bytes], T]
    ) -> Iterator[T]:
        wanted = None if key is None else key.encode()
        last = time.monotonic()
        try:
            while not self._closed.is_set():
                for message in reader.arrived():
                    if wanted is None or message.key() == wanted:
                        yield read(message.value())
                        last = time.monotonic()
                if timeout is not None and time.monotonic() - last >= timeout:
                    return
        finally:
            reader.close()

    # ------------------------------------------------------------ delivery

    def _send(self, topic: str, records: Iterable[tuple[str, bytes | None]]) -> int:
        return self._delivery.send(topic, records)

    def close(self) -> None:
        """Sends what waits, or raises `DeliveryError`; whoever iterates, in whichever thread, comes to an end."""
        self._closed.set()
        self._delivery.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt | DeliveryError):
            self._delivery.drop()
        self.close()
