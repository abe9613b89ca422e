"""The client for Python programs: subscribe, publish, and iterate notifications. Built on confluent-kafka.

A `Client` may be shared by threads, but for `notifications`, whose iterator belongs to the thread that runs it. Every call that
writes returns when the broker has the record, or raises `DeliveryError`; `publish_many` does so for all its records together.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar

import numpy as np
import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from pastforward import broker, topics
from pastforward.absence import Absence
from pastforward.columns.vocabulary import Scope, Semantics, TimeBasis
from pastforward.errors import UserError
from pastforward.matching.conditions.values import Value
from pastforward.registry import open_registry
from pastforward.schemas import (
    Best,
    BestOffer,
    Notification,
    Publication,
    Registry,
    SchemaError,
    Subscription,
    decode_best_offer,
    decode_notification,
    encode,
)
from pastforward.schemas.acceptance import ANY_ROUTING, Rules, accept_publication, accept_subscription
from pastforward.schemas.records import Where
from pastforward.schemas.times import micros_of
from pastforward.schemas.value_fields import micros_of_numpy, undressed
from pastforward.settings import Settings, load

TIMEOUT: Final = 30.0  # seconds until a record that the broker has not taken is an error
GRACE: Final = 5.0  # seconds beyond that until an answer that librdkafka owes is given up
POLL: Final = 0.2  # seconds; how soon an iterator sees that its time is over
LOOK: Final = 1.0  # seconds in which a broker that is there has answered

Moment = datetime | timedelta | int | np.datetime64 | np.timedelta64 | np.integer[Any] | None
T = TypeVar("T")

log = logging.getLogger("pastforward.client")


class DeliveryError(Exception):
    """Kafka did not take a record: `errors` has what it said, by key."""

    def __init__(self, errors: list[tuple[str, str]]) -> None:
        key, reason = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{key!r} was not delivered: {reason}{more}")
        self.errors = errors


class Handle:
    """A subscription that was sent. `with` withdraws it at the end."""

    def __init__(self, client: Client, subscription: Subscription) -> None:
        self._client = client
        self.subscription = subscription

    @property
    def subscription_id(self) -> str:
        return self.subscription.subscription_id

    def unsubscribe(self) -> None:
        self._client.unsubscribe(self.subscription_id)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()


def micros(moment: Moment, now: int | None = None) -> int | None:
    """Microseconds of a moment: an aware datetime, integer microseconds, or a timedelta from now (minus: ago); NumPy's of these too."""
    if isinstance(moment, np.timedelta64):
        moment = moment.astype("timedelta64[us]").item()
    elif isinstance(moment, np.datetime64):
        return micros_of_numpy(moment)
    moment = undressed(moment)
    if moment is None or isinstance(moment, int):
        return moment
    if isinstance(moment, timedelta):
        return (time.time_ns() // 1000 if now is None else now) + moment // timedelta(microseconds=1)
    if not isinstance(moment, datetime):
        raise SchemaError(
            "wrong_type",
            f"{moment!r} is no time: write an aware datetime, integer microseconds, or a timedelta from now",
        )
    return micros_of(moment)


class _Reader:
    """A consumer that waits for a broker which is away, and says so."""

    def __init__(self, bootstrap: str, config: dict[str, Any]) -> None:
        self._trouble = topics.Trouble()
        self.consumer = topics.make_client(Consumer, {**config, "error_cb": self._trouble})
        self._absence = Absence(f"Kafka at {bootstrap}", log.warning, waits="waiting for it")

    def arrived(self) -> list[Message]:
        """What has come, after a moment at most."""
        found = topics.arrived(self.consumer, 1000, POLL)
        messages = [message for message in found if message.error() is None]
        errors = [message.error() for message in found if message.error() is not None]
        for error in errors:
            if error.code() not in topics.AWAY:
                raise KafkaException(error)
            self._trouble(error)
        if self._trouble.reason and not messages:
            self._look()
        return messages

    def _look(self) -> None:
        try:
            self.consumer.list_topics(timeout=LOOK)
        except KafkaException:
            self._absence.missed(self._trouble.reason)
        else:
            self._trouble.reason = ""
            self._absence.answered()

    def close(self) -> None:
        self.consumer.close()


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
        self._rules: Rules | None = None
        self._closed = threading.Event()
        self._trouble = topics.Trouble()
        answer_ms = self._settings.kafka.get("delivery.timeout.ms", str(int(TIMEOUT * 1000)))
        self._producer: Any = topics.make_client(
            Producer,
            topics.client_config(
                self._settings,
                self._bootstrap,
                **{
                    "log_level": 0,  # what goes wrong is in the error that is raised
                    "error_cb": self._trouble,
                    "enable.idempotence": True,  # or a retry reorders the records of a key
                    "partitioner": "murmur2_random",  # Java's: all versions of an id come through one partition
                    "linger.ms": 2,
                    "compression.type": "lz4",
                    "delivery.timeout.ms": answer_ms,
                },
            ),
        )
        self._patience = (int(answer_ms) / 1000 or TIMEOUT) + GRACE  # 0 is librdkafka's word for no bound at all

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
        now = _now()
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
        self._accept(partial(accept_subscription, record), record.self_join)
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
        now = _now()
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
                self._accept(partial(accept_publication, publication), publication.best is not None)
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

    def _consumer(self) -> _Reader:
        """It says itself that the broker is away: librdkafka would with every attempt."""
        return _Reader(
            self._bootstrap,
            topics.client_config(
                self._settings,
                self._bootstrap,
                **{
                    "log_level": 0,
                    "group.id": f"{self._settings.topic_prefix}client-{uuid.uuid4().hex}",
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": 100,
                },
            ),
        )

    def _places(self, consumer: Any, since: int | None) -> list[TopicPartition]:
        name = self._topics.notifications
        places = {p: end for p, (_, end) in topics.watermarks(consumer, name).items()}
        if since is not None:
            asked = [TopicPartition(name, p, since // 1000) for p in places]
            found = topics.patiently(lambda: consumer.offsets_for_times(asked, TIMEOUT))
            places |= {p.partition: p.offset for p in found if p.offset >= 0}
        return [TopicPartition(name, p, at) for p, at in places.items()]

    def _iterate(
        self, reader: _Reader, key: str | None, timeout: float | None, read: Callable[[bytes], T]
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

    # ------------------------------------------------------------ what is accepted

    def _accept(self, accept: Callable[[Rules], object], routed: bool) -> None:
        """`routed`: whether it depends on the routing. That is read once, and once more before a refusal: it may have changed."""
        if not routed:
            accept(ANY_ROUTING)
            return
        known, self._rules = self._rules, self._rules or self._read_rules()
        try:
            accept(self._rules or ANY_ROUTING)
        except SchemaError:
            if known is None:
                raise
            self._rules = self._read_rules()
            accept(self._rules or ANY_ROUTING)

    def _read_rules(self) -> Rules | None:
        """As the directory topic says. None: it cannot be read, or no worker has run yet; then the router decides."""
        config = {"group.id": f"{self._topics.directory}-{uuid.uuid4().hex}", **topics.TO_THE_END}
        consumer = topics.make_client(Consumer, topics.client_config(self._settings, self._bootstrap, **config))
        entries: dict[bytes, Any] = {}
        try:
            first, end = topics.watermarks(consumer, self._topics.directory)[0]
            consumer.assign([TopicPartition(self._topics.directory, 0, first)])
            while first < end and (message := consumer.poll(TIMEOUT)) is not None and message.error() is None:
                entries[message.key() or b""] = message.value()
            entry = orjson.loads(entries[b"version/%d" % orjson.loads(entries[b"state"])["in_force"]])
            return Rules.of(entry["scheme"], entry["depth"])
        except (KafkaException, UserError, KeyError, TypeError, ValueError) as error:
            log.debug("the routing is not known: %r", error)
            return None
        finally:
            consumer.close()

    # ------------------------------------------------------------ delivery

    def _send(self, topic: str, records: Iterable[tuple[str, bytes | None]]) -> int:
        errors: list[tuple[str, str]] = []
        waiting = 0

        def delivered(error: KafkaError | None, message: Message) -> None:
            nonlocal waiting
            waiting -= 1
            if error is not None:
                why = f" ({self._trouble.reason})" if self._trouble.reason else ""
                errors.append(((message.key() or b"").decode(), error.str() + why))

        count = 0
        broken: Exception | None = None
        try:
            for key, value in records:
                waiting += 1
                count += 1
                if not self._produce(topic, key, value, delivered, errors):
                    waiting -= 1
        except Exception as error:
            broken = error  # of a record that cannot be sent: what becomes of those before it is told all the same
        deadline = time.monotonic() + self._patience
        while waiting and time.monotonic() < deadline:
            try:
                self._producer.flush(POLL)
            except SystemError:  # what confluent-kafka makes of a key press when a callback comes behind it
                raise KeyboardInterrupt from None
        if waiting:
            errors.append(("", f"{waiting} records without an answer after {self._patience:.0f} s"))
        if errors:
            raise DeliveryError(errors) from broken
        if broken is not None:
            raise broken
        return count

    def _produce(
        self, topic: str, key: str, value: bytes | None, delivered: Callable[..., None], errors: list[tuple[str, str]]
    ) -> bool:
        """Whether `delivered` will be called."""
        while True:
            try:
                self._producer.produce(topic, value, key.encode(), on_delivery=delivered)
            except BufferError:
                self._producer.poll(POLL)  # the queue is full: let some of it go
            except KafkaException as error:
                errors.append((key, error.args[0].str()))
                return False
            else:
                self._producer.poll(0)
                return True

    def close(self) -> None:
        """Sends what waits, or raises `DeliveryError`; whoever iterates, in whichever thread, comes to an end."""
        self._closed.set()
        left = self._producer.flush(self._patience)
        if left:
            raise DeliveryError([("", f"{left} records without an answer after {self._patience:.0f} s")])

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt | DeliveryError):
            self._producer.purge()  # what could not be sent will not be waited for once more
        self.close()


def _now() -> int:
    return time.time_ns() // 1000


__all__ = ["Best", "BestOffer", "Client", "DeliveryError", "Handle", "SchemaError"]
