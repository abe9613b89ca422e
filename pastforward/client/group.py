"""Named readers: their position is kept in Kafka, and whoever of a group is left goes on where another was.

The group of Kafka is made of recipient and name. Its members share the partitions of the topic as any consumers do, but each reads the one
that has the recipient's notifications, and only while it is its own: so one member reads, and the others stand by.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from pastforward import topics
from pastforward.client.notification import Notification
from pastforward.client.reader import Reader
from pastforward.client.stream import Stream
from pastforward.errors import BrokerError, UserError
from pastforward.settings import Settings

# Kafka's usual 45 seconds are long for whoever stands by; a process that is killed is noticed after this.
SESSION_MS: Final = "10000"
ANSWER: Final = 15.0  # seconds for an answer of the group's coordinator
# What says that the partition may be another member's now.
_LOST: Final = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError._STATE,
    KafkaError._ASSIGNMENT_LOST,
)

log = logging.getLogger("pastforward.client")


def group_name(settings: Settings, recipient: str, name: str) -> str:
    """One for each pair: neither part can hold the slash between them."""
    return f"{settings.topic_prefix}reader/{quote(recipient, safe='')}/{quote(name, safe='')}"


def group_properties(settings: Settings, recipient: str, name: str) -> dict[str, Any]:
    session = settings.kafka.get("session.timeout.ms", SESSION_MS)
    return {
        "group.id": group_name(settings, recipient, name),
        "session.timeout.ms": session,
        "heartbeat.interval.ms": str(max(1, int(session) // 4)),
        "partition.assignment.strategy": "range",
    }


class GroupStream(Stream[Notification]):
    """A stream whose position is kept in Kafka under its group's name. What was not acknowledged comes again, to this member or another."""

    def __init__(
        self,
        reader: Reader,
        topic: str,
        partition: int,
        first: Callable[[], int],
        read: Callable[[Message], Notification],
        *,
        key: str,
        timeout: float | None,
        closed: threading.Event,
    ) -> None:
        """`first`: the position of a group that has none yet."""
        self._place = TopicPartition(topic, partition)
        self._acked = -1
        self._is_mine = False
        self._reader = reader
        begin = self._committed()
        if begin < 0:
            begin = first()
            self._begin_group(begin)
        super().__init__(reader, {partition: begin}, read, key=key, timeout=timeout, closed=closed)
        reader.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def ack(self, notification: Notification) -> bool:
        """This one and all before it are done: they will not come again. Returns when Kafka has it.

        False: another member may have taken over in the meantime. It counts when the partition comes back; until then it may come again.
        """
        partition, offset = notification.place
        if partition != self._place.partition:
            raise UserError("the notification is not of this stream: acknowledge with the stream that gave it")
        if offset < self._acked:
            return True
        self._acked = offset + 1
        return self._commit(self._acked)

    def _commit(self, position: int) -> bool:
        if not self._is_mine:
            return False
        place = TopicPartition(self._place.topic, self._place.partition, position)
        try:
            topics.patiently(lambda: self._reader.consumer.commit(offsets=[place], asynchronous=False))
        except KafkaException as error:
            if error.args[0].code() not in _LOST:
                raise BrokerError(f"Kafka: {topics.text_of(error)}") from error
            log.info("an acknowledgement came too late, the group is being shared out anew: %s", topics.text_of(error))
            return False
        return True

    def _begin_group(self, position: int) -> None:
        """So that a member that ends before its first acknowledgement has not lost the place where it began."""
        place = TopicPartition(self._place.topic, self._place.partition, position)
        try:
            self._reader.consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _LOST:
                raise BrokerError(f"Kafka: {topics.text_of(error)}") from error
            # there is a member already, which has done so

    def _committed(self) -> int:
        try:
            (found,) = topics.patiently(lambda: self._reader.consumer.committed([self._place], timeout=ANSWER))
        except KafkaException as error:
            raise BrokerError(f"Kafka: {topics.text_of(error)}") from error
        return int(found.offset)

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._fetched.clear()
        mine = [p for p in partitions if (p.topic, p.partition) == (self._place.topic, self._place.partition)]
        self._is_mine = bool(mine)
        if not mine:
            consumer.assign([])
            return
        position = max(self._committed(), self._acked)
        if position < 0:
            position = self._positions[self._place.partition]
        self._positions[self._place.partition] = position
        consumer.assign([TopicPartition(self._place.topic, self._place.partition, position)])
        if position == self._acked:
            self._commit(position)  # what an acknowledgement that came too late has left

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._fetched.clear()
        self._is_mine = False
