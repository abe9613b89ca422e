"""A position against the two ends of its log. Outside of them nothing is skipped or read anew: the worker stops, and says why."""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka import TopicPartition

from pastforward.errors import UserError

_ANEW = (
    "Records that are new cannot be told from those that were read before: restore the topic from a copy, or use another "
    "TOPIC_PREFIX and subscribe again"
)


def out_of_range(partition: TopicPartition, group: str, position: int, first: int, end: int) -> UserError | None:
    """`position`: the next offset to read. `first`, `end`: the log's first offset, and the one behind its last."""
    topic, number = partition
    log = (
        f"{topic} partition {number} was read up to offset {position}, but its log begins at {first} and ends at {end}"
    )
    if position < first:
        return UserError(
            f"{log}: up to {first - position} records are gone, which retention deleted before they were read. Raise the topic's "
            f"retention.ms or retention.bytes; to go on without them, stop all workers and run kafka-consumer-groups --group {group} "
            f"--topic {topic}:{number} --reset-offsets --to-offset {first} --execute"
        )
    if position > end:
        return UserError(f"{log}: the log was truncated, or the topic was deleted and made anew. {_ANEW}")
    return None


def lost_changelog(topic: str, before: str, now: str) -> UserError:
    """Even if the local state has all that it held: that may be lost as well."""
    return UserError(
        f"{topic} was deleted and made anew: its id was {before}, and is {now}. The subscriptions that it held are lost. Restore "
        f"that topic, or use another TOPIC_PREFIX and subscribe again"
    )


def deleted(topic: str, before: Iterable[str]) -> UserError:
    """`before`: its id, if it is known."""
    known = "".join(f", whose id was {topic_id}," for topic_id in sorted(before)[:1])
    return UserError(
        f"{topic}{known} is not there any more. Restore the topic from a copy, or use another TOPIC_PREFIX and subscribe again"
    )


def another(topic: str, before: str, now: str) -> UserError:
    """While a worker reads it, or somebody else does."""
    return UserError(f"{topic} was deleted and made anew: its id was {before}, and is {now}. {_ANEW}")


def made_anew(partition: TopicPartition, position: int, first: int, end: int, before: str, now: str) -> UserError:
    topic, number = partition
    return UserError(
        f"{topic} was deleted and made anew since partition {number} was read up to offset {position}: its id was {before}, and is "
        f"{now}; its log begins at {first} and ends at {end}. {_ANEW}"
    )
