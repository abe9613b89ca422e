"""How the jobs reach Kafka: options for Spark's own connector (Java names), and a few plain reads with confluent-kafka.

The plain reads serve topics that are small by nature (requests, routes, live subscriptions), never the publications.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from pastforward import topics
from pastforward.broker import bootstrap_of as bootstrap_of
from pastforward.errors import UserError
from pastforward.schemas import Registry
from pastforward.schemas.registry import SchemaRegistry
from pastforward.settings import Settings

TIMEOUT: Final = 30.0  # seconds for an answer of the broker

_PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_SAME: Final = ("security.protocol", "ssl.endpoint.identification.algorithm")


def spark_options(settings: Settings, bootstrap: str) -> dict[str, str]:
    """For `format("kafka")`: librdkafka's properties under their Java names."""
    given = settings.kafka
    options = {"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": "read_committed"}
    options |= {f"kafka.{name}": given[name] for name in _SAME if name in given}
    mechanism = given.get("sasl.mechanism") or given.get("sasl.mechanisms")
    if mechanism:
        module = _PLAIN_LOGIN if mechanism == "PLAIN" else _SCRAM_LOGIN
        user, password = (_quoted(given.get(name, "")) for name in ("sasl.username", "sasl.password"))
        options["kafka.sasl.mechanism"] = mechanism
        options["kafka.sasl.jaas.config"] = f"{module} required username={user} password={password};"
    if "ssl.ca.location" in given:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": given["ssl.ca.location"]}
    return options


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class MakeRegistry:
    """Makes a registry client where it is needed: clients do not travel to Spark's workers."""

    url: str | None
    topics: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, settings: Settings) -> MakeRegistry:
        names = topics.Topics(settings.topic_prefix)
        known = {
            "publication": names.publications,
            "subscription": names.subscriptions,
            "notification": names.notifications,
            "backfill_request": names.backfill_requests,
            "dead_letter": names.dead_letters,
        }
        return cls(settings.schema_registry_url, tuple(known.items()))

    def __call__(self) -> Registry | None:
        return None if self.url is None else SchemaRegistry(self.url, dict(self.topics))


def watermarks(settings: Settings, bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    """The first offset that is there and the next that will be, by partition."""
    consumer = _consumer(settings, bootstrap)
    try:
        return topics.watermarks(consumer, topic)
    finally:
        consumer.close()


def read_topic(
    settings: Settings, bootstrap: str, topic: str, since: Callable[[int], int] = lambda _: 0
) -> Iterator[Message]:
    """Every committed record that is there now, partition by partition, in order. `since`: the offset to begin with, by partition; one
    that is beyond the end is of a topic that was there before."""
    consumer = _consumer(settings, bootstrap)
    try:
        for partition, (first, end) in sorted(topics.watermarks(consumer, topic).items()):
            begin = max(first, since(partition))
            if begin > end:
                begin = first
            if begin < end:
                yield from _read(consumer, TopicPartition(topic, partition, begin), end)
    finally:
        consumer.close()


def _read(consumer: Any, place: TopicPartition, end: int) -> Iterator[Message]:
    consumer.assign([place])
    silent = 0.0
    while True:
        messages = topics.arrived(consumer, 10_000, 0.2)
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            if message.offset() < end:
                yield message
        (at,) = consumer.position([place])
        if at.offset >= end:
            return
        # the end may be a marker of a transaction: the position moves over it only when the fetch has come back
        silent = 0.0 if messages else silent + 0.2
        if silent > TIMEOUT:
            raise UserError(
                f"{place.topic} partition {place.partition} cannot be read to its end, {end}; is a transaction open?"
            )


def _consumer(settings: Settings, bootstrap: str) -> Any:
    return topics.make_client(
        Consumer,
        topics.client_config(
            settings,
            bootstrap,
            **{
                "group.id": f"{settings.topic_prefix}history-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            },
        ),
    )
