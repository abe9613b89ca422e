"""The metadata beside a committed offset: the name of the owner's sender, then `topic=id` of each topic that it reads or logs to, and
`~arrived=` the highest arrival below the offset, of a partition of the input.

With each offset those of all topics: Kafka forgets the offsets of a topic that is deleted, and the others still tell that there was another
one of its name. Earlier versions wrote the owner alone; no part holds a space.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ARRIVED: Final = "~arrived"  # no topic can be called so


def mark(owner: str, topic_ids: Mapping[str, str], arrived_at: int = 0) -> str:
    """`arrived_at` 0: nobody knows."""
    arrived = [f"{_ARRIVED}={arrived_at}"] if arrived_at else []
    return " ".join([owner, *(f"{topic}={topic_ids[topic]}" for topic in sorted(topic_ids)), *arrived])


def read_mark(metadata: str) -> tuple[str, dict[str, str], int]:
    """The owner, the ids by topic, and the highest arrival."""
    owner, *others = metadata.split(" ")
    ids = dict(other.split("=", 1) for other in others if "=" in other)
    arrived = ids.pop(_ARRIVED, "")
    return owner, ids, int(arrived) if arrived.isdecimal() else 0
