"""What a chunk sends: keys and values by topic and partition, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from aiokafka.partitioner import murmur2

Place = tuple[str, int]


def partition_of(key: bytes, count: int) -> int:
    """Where Java's producer, and ours (`murmur2_random`), put a key."""
    return int(murmur2(key) & 0x7FFFFFFF) % count


class Outgoing:
    """Filled by a stage, sent by a sender. `outputs` are for others, `changelog` is what our own recovery reads."""

    __slots__ = ("changelog", "outputs")

    def __init__(self) -> None:
        self.outputs: defaultdict[Place, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
        self.changelog: defaultdict[Place, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)

    @property
    def count(self) -> int:
        """Records for others."""
        return sum(map(len, self.outputs.values()))

    def send(self, topic: str, partitions: Iterable[int], key: bytes | None, value: bytes | None) -> None:
        for partition in partitions:
            self.outputs[topic, partition].append((key, value))

    def log(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        self.changelog[topic, partition].append((key, value))
