"""Kafka and a worker in memory: logs that are lists, and the reference of what a partition does with its log.

All else is the client as it is: what it checks, writes and reads, byte for byte.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import TopicPartition

from pastforward.client.delivery import Key, Receipt
from pastforward.client.own import Own
from pastforward.client.reader import START_AGAIN
from pastforward.errors import ClientClosed, TokenExpired, UserError
from pastforward.schemas import (
    CanonicalPublication,
    CanonicalSubscription,
    Notification,
    Rendezvous,
    SchemaError,
    Version,
    Withdrawal,
    canonical_publication,
    canonical_subscription,
    dead_letter,
    decode_publication,
    decode_subscription,
    encode,
)
from pastforward.schemas.acceptance import Rules, accept_publication, accept_subscription, normal_form
from pastforward.streams.reference import Found, Held, Live, Partition, query_of
from pastforward.topics import Topics

RULES: Final = Rules()
ALONE: Final = 0  # the one partition of each topic


@dataclass(frozen=True, slots=True)
class Record:
    """As confluent-kafka's `Message`."""

    _key: bytes | None
    _value: bytes | None
    _offset: int
    _stamp: int

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def partition(self) -> int:
        return ALONE

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 2, self._stamp

    def error(self) -> None:
        return None


class Logs:
    """The topics, by name; a record is stamped with the time that the clock shows."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.changed = threading.Condition()
        self.records: dict[str, list[Record]] = defaultdict(list)
        self.positions: dict[str, int] = {}  # of named readers
        self.members: dict[str, list[object]] = defaultdict(list)

    def append(self, topic: str, key: bytes | None, value: bytes | None) -> Record:
        with self.changed:
            log = self.records[topic]
            record = Record(key, value, len(log), self._now() // 1000)
            log.append(record)
            self.changed.notify_all()
            return record


class Worker:
    """Router and matcher of one partition. `history`: what the hot window has let go is kept, and found for backfill."""

    def __init__(self, names: Topics, logs: Logs, hot_window: int) -> None:
        self._names, self._logs = names, logs
        self._partition = Partition(ALONE, hot_window)
        self._current: dict[str, bytes] = {}  # subscriptions as they stand, by id
        self._history: list[Held] = []
        self._rendezvous = 0

    def take(self, topic: str, record: Record) -> None:
        try:
            if topic == self._names.subscriptions:
                self._subscription(record)
            elif topic == self._names.publications:
                self._publication(record)
        except SchemaError as error:
            letter = dead_letter(
                topic, ALONE, record.offset(), record._stamp * 1000, error, record.key(), record.value()
            )
            self._logs.append(self._names.dead_letters, record.key(), encode(letter))

    def tick(self, moment: int) -> None:
        self._apply(Rendezvous("none", ALONE, -1, moment, 1, (ALONE,)))

    def _subscription(self, record: Record) -> None:
        arrived_at = record._stamp * 1000
        read = decode_subscription(record.key(), record.value())
        version = Version(arrived_at, ALONE, record.offset())
        canonical: CanonicalSubscription | Withdrawal
        if isinstance(read, Withdrawal):
            if self._current.pop(read.subscription_id, None) is None:
                return
            canonical = Withdrawal(read.subscription_id, version)
        else:
            value = record.value() or b""
            accept_subscription(read, RULES, arrived_at)
            if self._current.get(read.subscription_id) == value:
                return
            canonical = canonical_subscription(read, version, normal_form(read.where))
            self._current[read.subscription_id] = value
        self._apply(Rendezvous("subscriptions", ALONE, record.offset(), arrived_at, 1, (ALONE,), canonical))

    def _publication(self, record: Record) -> None:
        arrived_at = record._stamp * 1000
        read = decode_publication(record.key(), record.value())
        where = accept_publication(read, RULES)
        canonical = canonical_publication(read, ALONE, record.offset(), arrived_at, where)
        self._apply(Rendezvous("publications", ALONE, record.offset(), arrived_at, 1, (ALONE,), canonical))

    def _apply(self, envelope: Rendezvous) -> None:
        found = self._partition.apply(envelope, self._rendezvous)
        self._rendezvous += 1
        held = self._partition.publications
        if isinstance(envelope.record, CanonicalPublication) and found.dropped is None:
            kept = held[-1] if held and held[-1].record is envelope.record else None
            self._history.append(kept or self._passed(envelope))
        for request in found.requests:
            self._answer(request, found)
        for each in found.notifications:
            self._notify(each)
        for offer in found.offers:
            self._logs.append(self._names.best_offers, offer.publication_id.encode(), encode(offer))

    def _passed(self, envelope: Rendezvous) -> Held:
        """A publication that was older than the hot window when it came."""
        one = Partition(ALONE, envelope.arrived_at)
        one.apply(envelope)
        return one.publications[-1]

    def _answer(self, request: Any, found: Found) -> None:
        """As the history does: what is older than the hot window of the moment at which the subscription came."""
        live = Live(request.subscription, (ALONE,), query_of(request.subscription), 1)
        for held in self._history:
            cold = held.held_at < request.horizon and held.expires_at > request.log_time
            cold = cold and held.came_after(request.above or None)
            if cold and self._partition._matches(live, held):
                self._partition._notify(request.subscription, held, "backfill", found)

    def _notify(self, notification: Notification) -> None:
        self._logs.append(self._names.notifications, notification.recipient_id.encode(), encode(notification))


class Delivery:
    """As the client's: each record is there, and matched, when `send` returns."""

    patience = 0.0

    def __init__(self, logs: Logs, take: Callable[[str, Record], None]) -> None:
        self._logs, self._take, self._closed = logs, take, False
        self.own = Own()

    def send(
        self, topic: str, records: Iterable[tuple[Key, bytes | None]], receipts: dict[str, Receipt] | None = None
    ) -> int:
        if self._closed:
            raise ClientClosed(f"a record was sent to {topic}")
        count, own = 0, self.own.adder(topic)
        for key, value in records:
            record = self._logs.append(topic, key.encode() if isinstance(key, str) else key, value)
            own(ALONE, record.offset())
            if receipts is not None:
                receipts[str(key)] = Receipt(topic, ALONE, record.offset(), record._stamp * 1000)
            self._take(topic, record)
            count += 1
        return count

    def drop(self) -> None:
        pass

    def close(self) -> None:
        self._closed = True


class Offsets:
    """As the client's."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def partitions(self, topic: str) -> tuple[int, ...]:
        return (ALONE,)

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        return {ALONE: len(self._logs.records[topic])}

    def since(self, topic: str, partitions: Iterable[int], moment: int) -> dict[int, int]:
        stamp = moment // 1000
        log = self._logs.records[topic]
        return {ALONE: next((each.offset() for each in log if each._stamp >= stamp), len(log))}

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return 0, len(self._logs.records[topic])

    def checked(self, topic: str, partitions: tuple[int, ...], positions: Mapping[int, int]) -> dict[int, int]:
        end = len(self._logs.records[topic])
        if set(positions) != {ALONE}:
            raise UserError("the token is of another system")
        if positions[ALONE] > end:
            raise TokenExpired(
                f"the token stands before offset {positions[ALONE]}, the log ends at {end}; {START_AGAIN}"
            )
        return dict(positions)

    def close(self) -> None:
        pass


class Workers:
    """As the client's: what was sent is done."""

    def __init__(self, logs: Logs, offsets: Offsets, names: Topics) -> None:
        self._logs, self._offsets, self._names = logs, offsets, names

    def version(self) -> int:
        return 1

    def committed(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        return self._offsets.ends(topic, partitions)

    written = committed

    def have_read(self, topic: str, ends: Mapping[int, int]) -> bool:
        return True

    def scan(self, topic: str, partition: int, begin: int, end: int) -> Iterator[Record]:
        return iter(self._logs.records[topic][begin:end])


@dataclass(slots=True, eq=False)
class Consumer:
    """Of a named reader: the members of a group take turns, the first that joined reads."""

    logs: Logs
    group: str
    topic: str = ""
    on_assign: Any = None
    position: int | None = None
    commits: dict[str, int] = field(default_factory=dict)

    def subscribe(self, names: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self.topic, self.on_assign = names[0], on_assign
        self.logs.members[self.group].append(self)

    def assign(self, places: list[TopicPartition]) -> None:
        self.topic, self.position = (places[0].topic, places[0].offset) if places else (self.topic, None)

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [
            TopicPartition(each.topic, each.partition, self.logs.positions.get(self.group, -1001)) for each in places
        ]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.logs.positions[self.group] = offsets[0].offset

    def join(self) -> None:
        """Takes over when it is this member's turn."""
        waiting = self.on_assign is not None and self.position is None
        if waiting and self.logs.members[self.group][0] is self:
            self.on_assign(self, [TopicPartition(self.topic, ALONE)])

    def close(self) -> None:
        if self in self.logs.members[self.group]:
            self.logs.members[self.group].remove(self)


class Reader:
    """As the client's."""

    def __init__(self, logs: Logs, chunk: int, group: str) -> None:
        self._logs, self._chunk = logs, chunk
        self.consumer = Consumer(logs, group)
        self.ends: dict[int, int] = {}

    def assign(self, topic: str, positions: Mapping[int, int]) -> Reader:
        self.consumer.assign([TopicPartition(topic, p, at) for p, at in positions.items()])
        return self

    def arrived(self, most: float | None = None) -> list[Record]:
        self.consumer.join()
        consumer = self.consumer
        with self._logs.changed:
            log = self._logs.records[consumer.topic]
            position = consumer.position
            if position is None or position >= len(log):
                if position is not None:
                    self.ends[ALONE] = len(log)
                self._logs.changed.wait(0.2 if most is None else max(0.0, min(0.2, most)))
            if position is None:
                return []
            found = log[position : position + self._chunk]
            consumer.position = position + len(found)
        if found:
            self.ends.clear()
        return found

    def close(self) -> None:
        self.consumer.close()
