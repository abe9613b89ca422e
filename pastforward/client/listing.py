"""What stands on the input topics: subscriptions as they are in force, and a publication by its id."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import orjson
from confluent_kafka import Consumer, KafkaError, TopicPartition

from pastforward import topics
from pastforward.client.moments import Instant, now_micros
from pastforward.client.offsets import Offsets
from pastforward.client.partitions import partition_of
from pastforward.client.refusals import Refusal
from pastforward.errors import BrokerError
from pastforward.schemas import (
    Publication,
    Registry,
    SchemaError,
    Subscription,
    decode_dead_letter,
    decode_publication,
    decode_subscription,
)
from pastforward.schemas.acceptance import accept_publication, accept_subscription, normal_form
from pastforward.schemas.limits import MADE_UP
from pastforward.schemas.plain import check_window
from pastforward.schemas.quick import read_subscription
from pastforward.settings import Settings

State = Literal["live", "paused", "ended"]
CHUNK: Final = 10_000  # messages that are taken at once
SILENCE: Final = 30.0  # seconds without an answer of the broker
SHORT: Final = 1_000  # characters of a condition whose normal form is far below every limit
EARLIER: Final = ("previous", "change")  # what may stand for an earlier publication, quoted or not
KNOWN: Final = 10_000  # conditions that need not be read again: those of many subscriptions are the same


@dataclass(frozen=True, slots=True)
class Standing:
    """A subscription in force, as its record on the topic says it."""

    record: Subscription
    order: tuple[int, int, int]
    """Arrival in milliseconds, partition and offset of the record."""
    state: State
    """`ended`: its window is over by this machine's clock. Late publications may still fall into it for a hot window. `paused`: it matches
    nothing until it is resumed."""

    @property
    def version(self) -> str:
        """Partition and offset of its record, as notifications carry it."""
        return f"{self.order[1]}-{self.order[2]}"

    @property
    def arrived_at(self) -> Instant:
        """When Kafka took the record."""
        return Instant.of(self.order[0] * 1000)

    @property
    def subscription_id(self) -> str:
        return self.record.subscription_id

    @property
    def subscriber_id(self) -> str:
        return self.record.subscriber_id

    @property
    def starts_at(self) -> Instant:
        """Where its window begins: with its arrival, if it does not say."""
        return self.arrived_at if self.record.starts_at is None else Instant.of(self.record.starts_at)

    @property
    def ends_at(self) -> Instant | None:
        return None if self.record.ends_at is None else Instant.of(self.record.ends_at)


@lru_cache(KNOWN)
def accept_condition(where: str | None, self_join: bool) -> None:
    """Of a subscription whose other fields its decoder has checked."""
    if where is not None and not self_join and len(where) < SHORT and not any(word in where for word in EARLIER):
        normal_form(where)  # its size, and what is said of earlier publications, are all else that may be refused
        return
    accept_subscription(Subscription("any", "any", where=where, self_join=self_join))


@dataclass(slots=True)
class Entry:
    """The version of an id that stands after all that was read. `value` and `record` None: withdrawn."""

    order: tuple[int, int, int]  # arrival, partition, offset
    value: bytes | None
    record: Subscription | None


class Entries:
    """The subscriptions that stand after the messages taken so far; refused records leave what was there in force."""

    def __init__(self, registry: Registry | None, wanted: bytes | None = None) -> None:
        """`wanted`: the one key that counts; None: all do."""
        self._registry, self._wanted = registry, wanted
        self._arrivals: dict[int, int] = {}
        self.by_key: dict[bytes, Entry] = {}

    def take(self, message: Any) -> bytes | None:
        """The key, if another version stands under it now."""
        partition, key = message.partition(), message.key()
        arrival = self._arrivals[partition] = max(self._arrivals.get(partition, 0), message.timestamp()[1])
        if key is None or (self._wanted is not None and key != self._wanted):
            return None
        order = (arrival, partition, message.offset())
        value, before = message.value(), self.by_key.get(key)
        if before is not None and (before.order > order or before.value == value):
            return None
        record = None if value is None else self._accepted(key, value, arrival * 1000)
        if value is not None and record is None:
            return None
        self.by_key[key] = Entry(order, value, record)
        return bytes(key)

    def _accepted(self, key: bytes, value: bytes, arrived_at: int) -> Subscription | None:
        """The record; None: it was refused."""
        try:
            read = read_subscription(key, value) or decode_subscription(key, value, self._registry)
            assert isinstance(read, Subscription)
            if isinstance(read.where, str | None) and not (read.transitions or read.paused):
                check_window(
                    arrived_at if read.starts_at is None else read.starts_at, read.ends_at, "starts_at", "ends_at"
                )
                accept_condition(read.where, read.self_join)
            else:
                accept_subscription(read, arrived_at=arrived_at)
        except SchemaError:
            return None
        return read


def standing(entry: Entry, now: int) -> Standing | None:
    read = entry.record
    if read is None:
        return None
    over = read.ends_at is not None and read.ends_at <= now
    state: State = "ended" if over else "paused" if read.paused else "live"
    return Standing(read, entry.order, state)


class Listing:
    def __init__(
        self,
        settings: Settings,
        bootstrap: str,
        offsets: Offsets,
        registry: Registry | None,
        now: Callable[[], int] = now_micros,
    ) -> None:
        self._now = now
        self._settings, self._bootstrap = settings, bootstrap
        self._offsets, self._registry = offsets, registry
        self._names = topics.Topics(settings.topic_prefix)

    def subscriptions(self, subscriber_id: str | None = None) -> list[Standing]:
        """All of them, or those of a subscriber, by id."""
        there = self._offsets.partitions(self._names.subscriptions)
        entries = self._entries(there, None)
        now = self._now()
        found = (standing(entry, now) for _, entry in sorted(entries.items(), key=lambda pair: pair[0]))
        return [each for each in found if each is not None and subscriber_id in (None, each.subscriber_id)]

    def subscription(self, name: str) -> Standing | None:
        """From the partition that its key has, and only if there is none, from the others: clients may differ."""
        key = name.encode()
        there = self._offsets.partitions(self._names.subscriptions)
        own = partition_of(key, len(there))
        for partitions in ((own,), tuple(p for p in there if p != own)):
            entry = self._entries(partitions, key).get(key)
            if entry is not None:
                return standing(entry, self._now())
        return None

    def publication(self, name: str, topic: str | None = None) -> Publication | None:
        """The first that was accepted under that id, at that topic or at any: what repeats it is dropped. Kept for a week."""
        key = name.encode()
        there = self._offsets.partitions(self._names.publications)
        own = partition_of(key, len(there))
        for partitions in ((own,), tuple(p for p in there if p != own)):
            for message in self._scan(self._names.publications, partitions):
                if message.key() == key:
                    try:
                        read = decode_publication(key, message.value(), self._registry)
                        accept_publication(read)
                    except SchemaError:
                        continue
                    if topic is None or read.topic == topic:
                        return read
        return None

    def _entries(self, partitions: tuple[int, ...], wanted: bytes | None) -> dict[bytes, Entry]:
        """What stands under each key, or under one."""
        entries = Entries(self._registry, wanted)
        for message in self._scan(self._names.subscriptions, partitions):
            entries.take(message)
        return entries.by_key

    def published(self, since: int) -> Iterator[Publication]:
        """What arrived since a moment and can be read; without an id with the one that the router makes."""
        name = self._names.publications
        there = self._offsets.partitions(name)
        for message in self._scan(name, there, self._offsets.since(name, there, since)):
            try:
                read = decode_publication(message.key(), message.value(), self._registry)
            except SchemaError:
                continue
            if read.publication_id is None:
                read.publication_id = f"{MADE_UP}{message.partition()}-{message.offset()}"
            yield read

    def names(self, topic: str) -> dict[str, str]:
        """By path, what it is called. What is no such record is passed over."""
        found: dict[str, str] = {}
        for message in self._scan(topic, self._offsets.partitions(topic)):
            try:
                found[message.key().decode()] = str(orjson.loads(message.value())["name"])
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        return found

    def dead_letters(self, since: int | None) -> Iterator[Refusal]:
        """Those that are there now, all or since a moment, of each partition in their order."""
        name = self._names.dead_letters
        there = self._offsets.partitions(name)
        begin = {} if since is None else self._offsets.since(name, there, since)
        for message in self._scan(name, there, begin):
            letter = decode_dead_letter(message.value(), self._registry)
            yield Refusal(letter, message.partition(), message.offset())

    def _scan(self, topic: str, partitions: tuple[int, ...], begin: Mapping[int, int] | None = None) -> Iterator[Any]:
        """All records that are committed now, partition by partition in their order; from some offsets on."""
        bounds = {p: self._offsets.bounds(topic, p) for p in partitions}
        if begin:
            bounds = {p: (max(first, begin[p]), end) for p, (first, end) in bounds.items()}
        open_ones = {p for p, (first, end) in bounds.items() if first < end}
        if not open_ones:
            return
        config = {"group.id": f"{self._settings.topic_prefix}list-{uuid.uuid4().hex}", **topics.TO_THE_END}
        consumer = topics.make_client(Consumer, topics.client_config(self._settings, self._bootstrap, **config))
        heard = time.monotonic()
        try:
            consumer.assign([TopicPartition(topic, p, bounds[p][0]) for p in sorted(open_ones)])
            while open_ones:
                for message in topics.arrived(consumer, CHUNK, 1.0):
                    heard = time.monotonic()
                    error = message.error()
                    if error is None:
                        if message.offset() < bounds[message.partition()][1]:
                            yield message
                        else:
                            open_ones.discard(message.partition())
                    elif error.code() == KafkaError._PARTITION_EOF:
                        open_ones.discard(message.partition())
                    elif error.code() not in topics.AWAY:
                        raise BrokerError(f"Kafka: {error.str()}")
                if time.monotonic() - heard > SILENCE:
                    raise BrokerError(f"Kafka at {self._bootstrap} does not answer; {topics.CHECK}")
        finally:
            consumer.close()
