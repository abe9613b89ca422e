"""A consumer that waits for a broker which is away, and says so: librdkafka would with every attempt."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pastforward import topics
from pastforward.absence import Absence
from pastforward.errors import BrokerError, PastforwardError, TokenExpired
from pastforward.settings import Settings

POLL: Final = 0.2  # seconds; how soon an iterator sees that its time is over
LOOK: Final = 1.0  # seconds in which a broker that is there has answered
CHUNK: Final = 1000
EXPIRED: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
START_AGAIN: Final = "read from a moment on (since=…), or from now on without a token"

log = logging.getLogger("pastforward.client")


class Reader:
    def __init__(self, settings: Settings, bootstrap: str, chunk: int = CHUNK, **properties: Any) -> None:
        """`chunk`: messages that are taken at once."""
        self._trouble = topics.Trouble()
        usual = {
            "log_level": 0,
            "group.id": f"{settings.topic_prefix}client-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        }
        config = topics.client_config(settings, bootstrap, **{**usual, **properties, "error_cb": self._trouble})
        self.consumer = topics.make_client(Consumer, config)
        self.ends: dict[int, int] = {}  # of partitions that were read to their end: where it was
        self._chunk = chunk
        self._failure: PastforwardError | None = None
        self._closed = False
        self._absence = Absence(f"Kafka at {bootstrap}", log.warning, waits="waiting for it")

    def assign(self, topic: str, positions: Mapping[int, int]) -> Reader:
        self.consumer.assign([TopicPartition(topic, partition, at) for partition, at in positions.items()])
        return self

    def arrived(self, most: float | None = None) -> list[Message]:
        """What has come, after a moment, or `most` seconds if that is less. An error waits until what came before it was taken."""
        if self._failure is not None:
            raise self._failure
        messages = []
        for message in topics.arrived(self.consumer, self._chunk, POLL if most is None else max(0.0, min(POLL, most))):
            error = message.error()
            if error is None:
                self.ends.pop(message.partition(), None)
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self.ends[message.partition()] = message.offset()
            elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
                log.warning(
                    "nothing was asked for in a long time, and the group goes on without this reader: it joins again"
                )
            elif error.code() in (*topics.AWAY, *topics.UNLED):
                self._trouble(error)
            else:
                self._failure = _failure(error)
                break
        if self._failure is not None and not messages:
            raise self._failure
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
        if not self._closed:
            self._closed = True
            self.consumer.close()


def _failure(error: KafkaError) -> PastforwardError:
    if error.code() in EXPIRED:
        return TokenExpired(f"what comes next was deleted before it was read ({error.str()}): {START_AGAIN}")
    return BrokerError(f"Kafka: {error.str()}")
