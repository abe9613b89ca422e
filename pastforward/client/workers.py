"""How far the workers have come: the offsets that they have committed, in the transactions that carry their output."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import OffsetSpec

from pastforward import topics
from pastforward.client.rules import read_in_force
from pastforward.errors import BrokerError, Refused
from pastforward.schemas import Registry, SchemaError, decode_dead_letter
from pastforward.settings import Settings

T = TypeVar("T")

SLACK: Final = 60_000_000  # microseconds that the brokers' clocks may differ by
FRESH: Final = 1.0  # seconds until the version of the routing is looked up again
TRY: Final = 5.0  # seconds for an answer of the broker
_AGAIN: Final = (*topics.AWAY, *topics.UNLED, KafkaError.UNSTABLE_OFFSET_COMMIT)


class Workers:
    """May be shared by threads."""

    def __init__(self, settings: Settings, bootstrap: str, registry: Registry | None) -> None:
        self._settings, self._bootstrap, self._registry = settings, bootstrap, registry
        self._lock = threading.Lock()
        self._made: Any = None
        self._version, self._looked = 0, 0.0

    @property
    def _admin(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = topics.quiet_admin(self._settings, self._bootstrap)
            return self._made

    def version(self) -> int:
        """Of the routing in force; 0: no worker has ever run."""
        if time.monotonic() - self._looked >= FRESH:
            found = read_in_force(self._settings, self._bootstrap)
            self._version, self._looked = (0 if found is None else found[0]), time.monotonic()
        return self._version

    def committed(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Offsets up to which the records are done; 0, where nothing is known."""
        version = self.version()
        if not version:
            return dict.fromkeys(partitions, 0)
        group = topics.group_of(self._settings, version)
        asked = ConsumerGroupTopicPartitions(group, [Place(topic, partition) for partition in partitions])
        (found,) = _answers(
            lambda: self._admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=TRY)
        )
        return {place.partition: max(0, int(place.offset)) for place in found.topic_partitions}

    def written(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The ends of the logs with what is not committed yet."""
        asked = {Place(topic, partition): OffsetSpec.latest() for partition in partitions}
        found = _answers(
            lambda: self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=TRY
            )
        )
        return {place.partition: int(each.offset) for place, each in zip(asked, found, strict=True)}

    def have_read(self, topic: str, ends: Mapping[int, int]) -> bool:
        """Whether they are done with all records below those offsets."""
        behind = {p: at for p, at in self.committed(topic, ends).items() if at < ends[p]}
        return all(self._is_empty(topic, p, at, ends[p]) for p, at in behind.items())

    def _is_empty(self, topic: str, partition: int, begin: int, end: int) -> bool:
        """A log may end with the mark of a transaction, which has an offset and is no record."""
        for _ in self.scan(topic, partition, begin, end):
            return False
        return True

    def scan(self, topic: str, partition: int, begin: int, end: int) -> Iterable[Any]:
        """The records of a partition from `begin` on, below `end`: waits until all transactions below it have ended."""
        config = {
            "group.id": f"{self._settings.topic_prefix}scan-{uuid.uuid4().hex}",
            **topics.TO_THE_END,
            "auto.offset.reset": "earliest",
        }
        if begin >= end:
            return
        consumer = topics.make_client(Consumer, topics.client_config(self._settings, self._bootstrap, **config))
        try:
            consumer.assign([Place(topic, partition, begin)])
            while True:
                for message in topics.arrived(consumer, 1000, 1.0):
                    error = message.error()
                    if error is None and message.offset() < end:
                        yield message
                    elif (error is None or error.code() == KafkaError._PARTITION_EOF) and message.offset() >= end:
                        return
                    elif error is not None and error.code() not in (KafkaError._PARTITION_EOF, *_AGAIN):
                        raise BrokerError(f"Kafka: {error.str()}")
        finally:
            consumer.close()

    def refusal(self, name: str, place: tuple[str, int, int], partition: int, begin: int) -> Refused | None:
        """Why a record was not taken, once the router has passed it. `partition`, `begin`: where its dead letter is looked for."""
        topic = topics.Topics(self._settings.topic_prefix).dead_letters
        end = self.written(topic, [partition])[partition]
        for message in self.scan(topic, partition, begin, end):
            if message.key() != name.encode():
                continue
            try:
                letter = decode_dead_letter(message.value(), self._registry)
            except SchemaError:
                continue
            if (letter.topic, letter.partition, letter.offset) == place:
                return Refused(name, letter.kind, letter.reason)
        return None


def _answers(ask: Callable[[], Mapping[Any, Any]]) -> list[Any]:
    deadline = time.monotonic() + topics.TIMEOUT
    while True:
        try:
            return [future.result() for future in ask().values()]
        except KafkaException as error:
            if error.args[0].code() not in _AGAIN or time.monotonic() > deadline:
                raise BrokerError(f"Kafka: {topics.text_of(error)}") from error
        time.sleep(0.02)
