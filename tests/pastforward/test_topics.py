from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from pastforward import topics
from pastforward.broker import Broker
from pastforward.errors import UserError
from pastforward.settings import load

pytestmark = pytest.mark.broker


def config_of(admin: AdminClient, name: str) -> dict[str, str]:
    from confluent_kafka.admin import ConfigResource, ResourceType

    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
    return {key: entry.value for key, entry in future.result().items()}


def test_topics_are_created_as_documented_and_only_once(broker: Broker) -> None:
    settings = load({"topic_prefix": "made.", "partitions": 3, "hot_window": "2h"}, environment={})
    admin = topics.connect(settings, broker.bootstrap)
    count, created = topics.ensure(settings, admin)
    assert count == 3
    assert created == [plan.name for plan in topics.plan(settings)]
    there = topics.existing(admin)
    assert (there["made.rendezvous"], there["made.directory"], there["made.names"]) == (3, 1, 1)
    week = 7 * 86_400_000
    rendezvous = config_of(admin, "made.rendezvous")
    assert rendezvous["retention.ms"] == str(week + 4 * 3_600_000)
    assert rendezvous["max.message.bytes"] == str(4 << 20)
    subscriptions = config_of(admin, "made.subscriptions")
    assert (subscriptions["cleanup.policy"], subscriptions["min.compaction.lag.ms"]) == ("compact", str(week))
    for name in created:
        assert config_of(admin, name)["message.timestamp.type"] == "LogAppendTime"
    assert topics.ensure(settings, admin) == (3, [])
    assert topics.ensure(load({"topic_prefix": "made."}, environment={}), admin) == (3, [])


def test_another_partition_count_is_refused_with_what_to_do(broker: Broker) -> None:
    settings = load({"topic_prefix": "counted.", "partitions": 2}, environment={})
    admin = topics.connect(settings, broker.bootstrap)
    topics.ensure(settings, admin)
    with pytest.raises(UserError, match="set PARTITIONS to 2"):
        topics.ensure(load({"topic_prefix": "counted.", "partitions": 5}, environment={}), admin)


def test_a_topic_that_does_not_fit_the_others_is_refused(broker: Broker) -> None:
    settings = load({"topic_prefix": "uneven.", "partitions": 2}, environment={})
    admin = topics.connect(settings, broker.bootstrap)
    stamped = {"message.timestamp.type": "LogAppendTime"}
    new = [NewTopic("uneven.rendezvous", 2, config=stamped), NewTopic("uneven.notifications", 3, config=stamped)]
    for future in admin.create_topics(new).values():
        future.result()
    topics.wait_visible(admin, ["uneven.rendezvous", "uneven.notifications"])
    with pytest.raises(UserError, match=r"uneven.notifications has 3 partitions where 2 are needed"):
        topics.ensure(settings, admin)


def test_a_topic_with_the_senders_time_is_refused(broker: Broker) -> None:
    settings = load({"topic_prefix": "timed.", "partitions": 1}, environment={})
    admin = topics.connect(settings, broker.bootstrap)
    for future in admin.create_topics([NewTopic("timed.publications", 1)]).values():
        future.result()
    topics.wait_visible(admin, ["timed.publications"])
    with pytest.raises(UserError, match="LogAppendTime"):
        topics.ensure(settings, admin)


@pytest.mark.parametrize(
    ("name", "policy", "why"),
    [
        ("publications", "compact", "would replace one another"),
        ("publications", "compact,delete", "would be deleted"),
        ("subscriptions", "delete", "would be deleted"),
        ("live-changelog", "compact,delete", "would be deleted"),
    ],
)
def test_a_topic_that_loses_what_is_needed_is_refused_with_what_to_do(
    broker: Broker, name: str, policy: str, why: str
) -> None:
    prefix = f"policy.{name}.{policy.replace(',', '.')}."
    settings = load({"topic_prefix": prefix, "partitions": 1}, environment={})
    admin = topics.connect(settings, broker.bootstrap)
    made = NewTopic(prefix + name, 1, config={**topics.STAMPED, topics.POLICY: policy})
    for future in admin.create_topics([made]).values():
        future.result()
    topics.wait_visible(admin, [made.topic])
    with pytest.raises(
        UserError, match=rf"{why}; mend it: kafka-configs .*--entity-name {made.topic} .*cleanup.policy="
    ):
        topics.ensure(settings, admin)


@pytest.mark.parametrize(
    ("flags", "brokers", "expected"),
    [
        ({}, 1, (1, 1)),
        ({}, 2, (2, 1)),
        ({}, 3, (3, 2)),
        ({}, 9, (3, 2)),
        ({"replication": 5}, 9, (5, 4)),
        ({"replication": 3, "min_insync_replicas": 1}, 3, (3, 1)),
    ],
)
def test_copies_go_by_the_number_of_brokers(flags: dict[str, int], brokers: int, expected: tuple[int, int]) -> None:
    assert topics.Copies.of(load(flags, environment={}), brokers) == expected


def test_copies_that_cannot_be_made_are_refused_before_anything_is_made(broker: Broker) -> None:
    settings = load({"topic_prefix": "copied.", "replication": 2}, environment={})
    admin = topics.connect(settings, broker.bootstrap)
    with pytest.raises(UserError, match="REPLICATION is 2, and the cluster has 1 brokers: set it to 1"):
        topics.ensure(settings, admin)
    with pytest.raises(UserError, match="MIN_INSYNC_REPLICAS is 2, and a topic has 1 copies"):
        topics.ensure(load({"topic_prefix": "copied.", "min_insync_replicas": 2}, environment={}), admin)
    assert not [name for name in topics.existing(admin) if name.startswith("copied.")]


@pytest.mark.broker
def test_the_limits_of_topics_that_an_earlier_version_made_are_raised(broker: Broker) -> None:
    settings = load({"topic_prefix": "limited.", "partitions": 1}, environment={})
    admin = topics.connect(settings, broker.bootstrap)
    made = NewTopic("limited.notifications", 1, config={**topics.STAMPED, topics.LIMIT: "1048588"})
    for future in admin.create_topics([made]).values():
        future.result()
    topics.wait_visible(admin, ["limited.notifications"])
    topics.ensure(settings, admin)
    deadline = time.monotonic() + topics.TIMEOUT  # a broker answers a change before it shows it
    while config_of(admin, "limited.notifications")[topics.LIMIT] != str(topics.TOLD):
        assert time.monotonic() < deadline
    assert config_of(admin, "limited.live-changelog")[topics.LIMIT] == str(topics.LARGEST)


def test_an_unreachable_broker_is_one_line() -> None:
    with pytest.raises(UserError, match=r"cannot reach Kafka at 127.0.0.1:1: .*check PASTFORWARD_BOOTSTRAP_SERVERS"):
        topics.connect(load(environment={}), "127.0.0.1:1")


def test_an_unknown_property_is_one_line() -> None:
    settings = load(environment={"PASTFORWARD_KAFKA_NO_SUCH_THING": "1"})
    with pytest.raises(UserError, match=r"no\.such\.thing"):
        topics.connect(settings, "127.0.0.1:1")


def test_a_partition_without_a_leader_is_asked_again() -> None:
    codes = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]

    def ask() -> int:
        if codes:
            raise KafkaException(KafkaError(codes.pop()))
        return 7

    assert topics.patiently(ask) == 7


def test_another_error_is_not_asked_again() -> None:
    def ask() -> int:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    with pytest.raises(KafkaException):
        topics.patiently(ask)


def test_what_has_come_is_not_kept_waiting_for_more() -> None:
    """`consume` waits until it has as many as asked for: notifications and explanations came up to a second later than they could."""

    there = ["a", "b", "c"]

    class Waits:
        def consume(self, count: int, timeout: float) -> list[str]:
            assert count <= len(there) or not timeout, "it would wait"
            return [there.pop(0) for _ in range(min(count, len(there)))]

    assert topics.arrived(Waits(), 1000, 1.0) == ["a", "b", "c"]
