"""Reads stretches of Kafka topics: an input by key, any other from a moment on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from pastforward import topics as topics_module
from pastforward.settings import Settings
from pastforward.streams.stages.outgoing import partition_of
from pastforward.topics import Topics

TIMEOUT: Final = 15.0  # seconds for a request to the broker
Progress = Callable[[str, int, int], None]  # what is searched, how far, of how many


class TopicReader:
    def __init__(self, settings: Settings, bootstrap: str, progress: Progress) -> None:
        self._settings, self._bootstrap, self._progress = settings, bootstrap, progress
        self._admin = topics_module.connect(settings, bootstrap)
        self.step = 0  # how far the stamps of an input have gone back: a search by time begins as much earlier

    @cached_property
    def partitions(self) -> int:
        with self._consumer() as consumer:
            return len(topics_module.watermarks(consumer, Topics(self._settings.topic_prefix).notifications))

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        consumer = topics_module.make_client(
            Consumer,
            topics_module.client_config(
                self._settings,
                self._bootstrap,
                **{
                    "group.id": f"{self._settings.topic_prefix}explain",
                    **topics_module.TO_THE_END,
                    "auto.offset.reset": "earliest",
                },
            ),
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def scan(self, topic: str, partition: int, since: int | None = None) -> Iterator[Any]:
        """The records of a partition as it stands now: all, or from the first that Kafka stamped at that time or later."""
        with self._consumer() as consumer:  # one of its own: a partition that is assigned again may not tell its end
            first, end = topics_module.watermarks(consumer, topic)[partition]
            if since is not None:
                asked = TopicPartition(topic, partition, max(0, since // 1000))
                (found,) = consumer.offsets_for_times([asked], TIMEOUT)
                first = max(first, found.offset) if found.offset >= 0 else end
            if first >= end:
                return
            consumer.assign([TopicPartition(topic, partition, first)])
            while True:
                for message in topics_module.arrived(consumer, 1000, 1.0):
                    error = message.error()
                    if error is None:
                        self._progress(f"{topic} {partition}", message.offset() - first, end - first)
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    else:
                        raise KafkaException(error)

    def records(self, topic: str, partition: int) -> Iterator[tuple[Any, int]]:
        """All records of a partition of an input, each with its arrival: the highest stamp so far."""
        highest = 0
        for message in self.scan(topic, partition):
            stamp = int(message.timestamp()[1]) * 1000
            highest = max(highest, stamp)
            self.step = max(self.step, highest - stamp)
            yield message, highest

    def committed(self, group: str, topic: str, partition: int) -> int:
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        (future,) = self._admin.list_consumer_group_offsets([asked]).values()
        return max([0, *(int(tp.offset) for tp in future.result().topic_partitions)])

    def by_key(self, topic: str, key: str) -> Iterator[tuple[Any, int]]:
        """Records of a key, with their arrivals: from its own partition; if there are none, from all, as clients may differ."""
        wanted = key.encode()
        own = partition_of(wanted, self.partitions)
        seen = False
        for partition in [own, *(p for p in range(self.partitions) if p != own)]:
            for message, arrived_at in self.records(topic, partition):
                if message.key() == wanted:
                    seen = True
                    yield message, arrived_at
            if seen:
                return
