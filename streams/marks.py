"""The metadata beside a committed offset: the name of the owner's sender, then `topic=id` of each topic that it reads or logs to.

With each offset those of all topics: Kafka forgets the offsets of a topic that is deleted, and the others still tell that there was another
one of its name. Earlier versions wrote the owner alone; no part holds a space.
"""

from __future__ import annotations

from collections.abc import Mapping


def mark(owner: str, topic_ids: Mapping[str, str]) -> str:
    return " ".join([owner, *(f"{topic}={topic_ids[topic]}" for topic in sorted(topic_ids))])


def read_mark(metadata: str) -> tuple[str, dict[str, str]]:
    """The owner, and the ids by topic."""
    owner, *others = metadata.split(" ")
    return owner, dict(other.split("=", 1) for other in others if "=" in other)
