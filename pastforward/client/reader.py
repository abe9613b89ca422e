"""A consumer that waits for a broker which is away, and says so: librdkafka would with every attempt."""

from __future__ import annotations

import logging
import uuid
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message

from pastforward import topics
from pastforward.absence import Absence
from pastforward.settings import Settings

POLL: Final = 0.2  # seconds; how soon an iterator sees that its time is over
LOOK: Final = 1.0  # seconds in which a broker that is there has answered

log = logging.getLogger("pastforward.client")


class Reader:
    def __init__(self, settings: Settings, bootstrap: str, **properties: Any) -> None:
        self._trouble = topics.Trouble()
        usual = {
            "log_level": 0,
            "group.id": f"{settings.topic_prefix}client-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
        }
        config = topics.client_config(settings, bootstrap, **{**usual, **properties, "error_cb": self._trouble})
        self.consumer = topics.make_client(Consumer, config)
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
