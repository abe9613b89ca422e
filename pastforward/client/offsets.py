"""The ends of the topics' logs, and where in them a moment lies."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pastforward import topics
from pastforward.client.reader import START_AGAIN
from pastforward.errors import BrokerError, TokenExpired, UserError
from pastforward.settings import Settings

T = TypeVar("T")

TRY: Final = 1.0  # seconds of a single attempt: a key press is seen in between
_LATEST: Final = -1  # Kafka's word for the end of a log, as a time
_AGAIN: Final = (*topics.AWAY, *topics.UNLED)


class Offsets:
    """May be shared by threads. What is there is what has been committed: the end is that of the last closed transaction."""

    def __init__(self, settings: Settings, bootstrap: str, patience: float) -> None:
        self._settings, self._bootstrap, self._patience = settings, bootstrap, patience
        self._lock = threading.Lock()
        self._made: Any = None
        self._trouble = topics.Trouble()
        self._partitions: dict[str, tuple[int, ...]] = {}

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Their number never changes: it is asked once."""
        known = self._partitions.get(topic)
        if known is None:
            found = self._ask(lambda: self._consumer().list_topics(topic, timeout=TRY)).topics[topic]
            if found.error is not None or not found.partitions:
                raise UserError(f"topic {topic} is not there; run `pastforward topics` or start a worker first")
            known = self._partitions[topic] = tuple(sorted(found.partitions))
        return known

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The offsets that the next records will have."""
        return self._at(topic, partitions, _LATEST)

    def since(self, topic: str, partitions: Iterable[int], moment: int) -> dict[int, int]:
        """The first records that Kafka stamped at that moment or later, in microseconds; the ends, where there are none."""
        places = tuple(partitions)
        ends = self.ends(topic, places)
        found = self._at(topic, places, max(0, moment // 1000))
        return {p: found[p] if found[p] >= 0 else end for p, end in ends.items()}

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that is there, and the end."""
        place = TopicPartition(topic, partition)
        first, end = self._ask(lambda: self._consumer().get_watermark_offsets(place, timeout=TRY))
        return first, end

    def checked(self, topic: str, partitions: tuple[int, ...], positions: Mapping[int, int]) -> dict[int, int]:
        """The positions of a token, if what comes next is still there in each of those partitions."""
        if set(positions) != set(partitions):
            raise UserError(
                f"the token is of partitions {sorted(positions)} of {topic}, what is asked for lies in {sorted(partitions)}: "
                "it is another recipient's, or of all"
            )
        for partition, position in positions.items():
            first, end = self.bounds(topic, partition)
            place = f"the token stands before offset {position} of {topic} {partition}, which begins at {first} and ends at {end}"
            if position < first:
                raise TokenExpired(
                    f"{place}: {first - position} records were deleted before they were read; {START_AGAIN}"
                )
            if position > end:
                raise TokenExpired(
                    f"{place}: the topic was made anew, or the token is of another system; {START_AGAIN}"
                )
        return dict(positions)

    def _at(self, topic: str, partitions: Iterable[int], stamp: int) -> dict[int, int]:
        asked = [TopicPartition(topic, partition, stamp) for partition in partitions]
        found = self._ask(partial(self._look_up, asked))
        return {place.partition: place.offset for place in found}

    def _look_up(self, asked: list[TopicPartition]) -> list[TopicPartition]:
        found: list[TopicPartition] = self._consumer().offsets_for_times(asked, timeout=TRY)
        for place in found:
            if place.error is not None:
                raise KafkaException(place.error)
        return found

    def _consumer(self) -> Any:
        with self._lock:
            if self._made is None:
                config = {
                    "group.id": f"{self._settings.topic_prefix}offsets-{uuid.uuid4().hex}",
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                    "error_cb": self._trouble,
                }
                self._made = topics.make_client(
                    Consumer, topics.client_config(self._settings, self._bootstrap, **config)
                )
            return self._made

    def _ask(self, call: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return call()
            except KafkaException as error:
                code = error.args[0].code()
                if code in _AGAIN and time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
                raise self._explained(error, code) from error

    def _explained(self, error: KafkaException, code: int) -> Exception:
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return UserError("a topic is not there; run `pastforward topics` or start a worker first")
        if code in topics.AWAY:
            self._made.poll(0)
            why = self._trouble.reason or topics.text_of(error)
            return BrokerError(f"cannot reach Kafka at {self._bootstrap}: {why}; {topics.CHECK}")
        return BrokerError(f"Kafka: {topics.text_of(error)}")

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None
