"""Records on their way to Kafka: sent, and answered for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from pastforward import topics
from pastforward.client.own import Own
from pastforward.errors import ClientClosed, DeliveryError
from pastforward.settings import Settings

TIMEOUT: Final = 30.0  # seconds until a record that the broker has not taken is an error
GRACE: Final = 5.0  # seconds beyond that until an answer that librdkafka owes is given up
ROUND: Final = 200  # records between two looks at what became of those before
POLL: Final = 0.2  # seconds; how soon a key press is seen


Key = str | bytes | None


class Receipt(NamedTuple):
    """Where a record lies, and when Kafka took it, in microseconds."""

    topic: str
    partition: int
    offset: int
    arrived_at: int


class Delivery:
    """A producer whose callers learn what became of their records. May be shared by threads."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        self._trouble = topics.Trouble()
        answer_ms = settings.kafka.get("delivery.timeout.ms", str(int(TIMEOUT * 1000)))
        self._producer: Any = topics.make_client(
            Producer,
            topics.client_config(
                settings,
                bootstrap,
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
        self._closed = False
        self.own = Own()
        self.patience = (int(answer_ms) / 1000 or TIMEOUT) + GRACE  # 0 is librdkafka's word for no bound at all

    def __len__(self) -> int:
        """Records that wait for an answer."""
        return len(self._producer)

    def send(
        self, topic: str, records: Iterable[tuple[Key, bytes | None]], receipts: dict[str, Receipt] | None = None
    ) -> int:
        """`receipts`: is given those of the records, by key; of several records of a key that of the last."""
        if self._closed:
            raise ClientClosed(f"a record was sent to {topic}")
        errors: list[tuple[str, str]] = []
        waiting = 0

        def delivered(error: KafkaError | None, message: Message) -> None:
            nonlocal waiting
            waiting -= 1
            if error is not None:
                why = f" ({self._trouble.reason})" if self._trouble.reason else ""
                errors.append(((message.key() or b"").decode("utf-8", "replace"), error.str() + why))
                return
            partition, offset = message.partition(), message.offset()
            own(partition, offset)
            if receipts is not None:
                receipts[message.key().decode()] = Receipt(topic, partition, offset, message.timestamp()[1] * 1000)

        own = self.own.adder(topic)
        count = 0
        broken: Exception | None = None
        try:
            for key, value in records:
                waiting += 1
                count += 1
                if not count % ROUND:
                    self._producer.poll(0)
                if not self._produce(topic, key, value, delivered, errors):
                    waiting -= 1
        except Exception as error:
            broken = error  # of a record that cannot be sent: what becomes of those before it is told all the same
        deadline = time.monotonic() + self.patience
        while waiting and time.monotonic() < deadline:
            try:
                self._producer.flush(POLL)
            except SystemError:  # what confluent-kafka makes of a key press when a callback comes behind it
                raise KeyboardInterrupt from None
        if waiting:
            errors.append(("", f"{waiting} records without an answer after {self.patience:.0f} s"))
        if errors:
            raise DeliveryError(errors) from broken
        if broken is not None:
            raise broken
        return count

    def _produce(
        self, topic: str, key: Key, value: bytes | None, delivered: Callable[..., None], errors: list[tuple[str, str]]
    ) -> bool:
        """Whether `delivered` will be called."""
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=delivered)
            except BufferError:
                self._producer.poll(POLL)  # the queue is full: let some of it go
            except KafkaException as error:
                errors.append(
                    (key.decode("utf-8", "replace") if isinstance(key, bytes) else key or "", error.args[0].str())
                )
                return False
            else:
                return True

    def drop(self) -> None:
        """What could not be sent will not be waited for once more."""
        self._producer.purge()

    def close(self) -> None:
        """Sends what waits, or raises `DeliveryError`."""
        self._closed = True
        left = self._producer.flush(self.patience)
        if left:
            raise DeliveryError([("", f"{left} records without an answer after {self.patience:.0f} s")])
