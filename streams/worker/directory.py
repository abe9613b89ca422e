"""The directory topic, read and written: one partition, compacted, small. What its records mean is in `streams.routing.change`."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place

from pastforward import topics
from pastforward.errors import UserError
from pastforward.settings import Settings
from pastforward.streams.routing import Catalog, Directory, RoutingError
from pastforward.streams.routing.change import STATE, State, View, version_key
from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.readback import bounds
from pastforward.topics import group_of as group_of

log = logging.getLogger("pastforward.directory")

TIMEOUT: Final = 30.0  # seconds for an answer of the broker
POLL_MS: Final = 100  # news end the wait at once; a takeover waits for its end


Said = tuple[str, int, bytes, bytes]  # topic, partition, key, value


def read_directory(settings: Settings, bootstrap: str) -> View:
    """All that has been said until now."""
    name = topics.Topics(settings.topic_prefix).directory
    config = topics.client_config(
        settings,
        bootstrap,
        **{
            "group.id": f"{name}-{uuid.uuid4().hex}",
            **topics.TO_THE_END,
        },
    )
    consumer = topics.make_client(Consumer, config)
    view = View()
    try:
        (first, end) = topics.watermarks(consumer, name)[0]
        consumer.assign([Place(name, 0, first)])
        while first < end:
            message = consumer.poll(TIMEOUT)
            if message is None:
                raise UserError(f"{name} cannot be read to its end; is a transaction open?")
            if message.error() is None:
                view.apply(message.key() or b"", message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return view
            else:
                raise KafkaException(message.error())
        return view
    except RoutingError as error:
        raise UserError(f"{name}: {error}") from error
    finally:
        consumer.close()


def write_directory(settings: Settings, bootstrap: str, entries: Iterable[tuple[bytes, bytes]]) -> None:
    """In this order; returns when they are safe."""
    name = topics.Topics(settings.topic_prefix).directory
    # One request at a time keeps the order; an entry that is there twice says the same, and idempotence costs a second at the start.
    ordered = {"acks": "all", "max.in.flight.requests.per.connection": 1, "linger.ms": 0}
    producer = topics.make_client(Producer, topics.client_config(settings, bootstrap, **ordered))
    errors: list[str] = []

    def delivered(error: KafkaError | None, _: Any) -> None:
        if error is not None:
            errors.append(error.str())

    for key, value in entries:
        producer.produce(name, value, key, 0, on_delivery=delivered)
    if producer.flush(TIMEOUT) or errors:
        raise UserError(f"{name} cannot be written: {errors[0] if errors else 'no answer'}")


def directory_producer(settings: Settings, bootstrap: str) -> Any:
    """For decisions about a change: the last one that was made can write, and no other."""
    name = f"{settings.topic_prefix}change"
    config = topics.client_config(settings, bootstrap, **{"transactional.id": name, "linger.ms": 0})
    producer = topics.make_client(Producer, config)
    _decided(lambda: producer.init_transactions(TIMEOUT))
    return producer


def decide(producer: Any, entries: Iterable[Said]) -> None:
    """All of them or none; returns when they are safe."""
    producer.begin_transaction()
    for topic, partition, key, value in entries:
        producer.produce(topic, value, key, partition)
    _decided(lambda: producer.commit_transaction(TIMEOUT))


def _decided(step: Callable[[], None]) -> None:
    try:
        topics.patiently(step)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED):
            raise UserError(
                "another `pastforward routing` has taken over; `pastforward routing apply` without options shows the change"
            ) from error
        raise UserError(f"the directory cannot be written: {error.args[0].str()}; run it again") from error


def first_entry(settings: Settings, partitions: int) -> Directory:
    """What the settings say: it counts until `routing apply` says otherwise."""
    catalog = None
    try:
        if settings.catalog is not None:
            catalog = Catalog.from_toml(settings.catalog.read_text("utf-8"))
        entry = Directory(1, settings.routing, partitions, settings.routing_depth, catalog)
        entry.make()
    except (RoutingError, OSError) as error:
        raise UserError(f"{settings.catalog or 'ROUTING'}: {error}") from error
    return entry


def open_directory(settings: Settings, bootstrap: str, partitions: int) -> View:
    """For a worker that starts: the first one of all writes the first entry."""
    view = read_directory(settings, bootstrap)
    if view.state is None:
        entry = first_entry(settings, partitions)
        write_directory(settings, bootstrap, [(version_key(1), entry.to_bytes()), (STATE, State(1).to_bytes())])
        return read_directory(settings, bootstrap)
    known = view.versions[view.state.in_force]
    asked = {
        name for name in ("routing", "routing_depth", "catalog") if settings.sources.get(name, "default") != "default"
    }
    if asked and view.state.in_force == 1 and first_entry(settings, partitions) != known:
        log.warning(
            "%s here is not what the directory says (%s, depth %d), which counts; `pastforward routing apply` changes it",
            ", ".join(sorted(name.upper() for name in asked)),
            known.scheme,
            known.depth,
        )
    return view


class Tail:
    """Follows the directory. `view` is what has been read, `applied` the number of records that it was read from."""

    def __init__(self, connection: Connection, topic: str, view: View) -> None:
        self.view = view
        self.applied = 0
        self._connection = connection
        self._partition = TopicPartition(topic, 0)
        self._consumer: Any = None
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Waits a moment for more."""
        async with self._lock:
            await self._read()

    async def refresh(self) -> None:
        """Reads all that is there now: a new owner must know what the old one has said."""
        async with self._lock:
            await self._start()
            _, end = await bounds(self._connection, self._partition)  # asked by itself it would wait behind a fetch
            while await self._consumer.position(self._partition) < end:
                await self._read()

    async def stop(self) -> None:
        async with self._lock:
            if self._consumer is not None:
                await self._consumer.stop()
                self._consumer = None

    async def _start(self) -> None:
        if self._consumer is not None:
            return
        consumer = AIOKafkaConsumer(
            **self._connection.arguments(),
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        consumer.assign([self._partition])
        await consumer.seek_to_beginning(self._partition)
        self._consumer = consumer

    async def _read(self) -> None:
        await self._start()
        found = await self._consumer.getmany(self._partition, timeout_ms=POLL_MS)
        for records in found.values():
            for record in records:
                self.view.apply(record.key or b"", record.value)
                self.applied += 1
