"""What a chunk sends: keys and values by topic and partition, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pastforward.columns.hashing import partitions_of
from pastforward.columns.texts import Texts
from pastforward.streams.stages.frames import AT_ONCE, Deferred, Frame, Write, by_key, frames

Place = tuple[str, int]
Records = list[tuple[bytes | None, bytes | None]]


def partition_of(key: bytes, count: int) -> int:
    """Where Java's producer, and ours (`murmur2_random`), put a key."""
    found = np.empty(1, np.int32)
    partitions_of(*Texts.of([key]).for_kernel(), count, found)
    return int(found[0])


class Outgoing:
    """Filled by a stage, sent by a sender. `outputs` are for others, and so are `frames`, which come by the thousand and to topics of
    their own; `changelog` is what our own recovery reads."""

    __slots__ = ("changelog", "frames", "nbytes", "outputs")

    def __init__(self) -> None:
        self.outputs: defaultdict[Place, Records] = defaultdict(list)
        self.frames: defaultdict[Place, list[Frame | Deferred]] = defaultdict(list)
        self.changelog: defaultdict[Place, Records] = defaultdict(list)
        self.nbytes = 0  # as `measure` has found it: of a few records nobody asks

    def measure(self) -> None:
        """In a thread: of many records it takes its time."""
        plain = [
            value for several in (self.outputs, self.changelog) for records in several.values() for _, value in records
        ]
        framed = sum(frame.nbytes for several in self.frames.values() for frame in several)
        self.nbytes = framed + sum([len(value) for value in plain if value is not None])

    @classmethod
    def joined(cls, several: Iterable[Outgoing]) -> Outgoing:
        together = cls()
        for one in several:
            for place, records in one.outputs.items():
                together.outputs[place] += records
            for place, frames_there in one.frames.items():
                together.frames[place] += frames_there
            for place, records in one.changelog.items():
                together.changelog[place] += records
        return together

    def changelog_alone(self) -> Outgoing:
        alone = Outgoing()
        alone.changelog = self.changelog
        return alone

    @property
    def count(self) -> int:
        """Records for others."""
        framed = sum(frame.count for several in self.frames.values() for frame in several)
        return framed + sum(map(len, self.outputs.values()))

    def send(self, topic: str, partitions: Iterable[int], key: bytes | None, value: bytes | None) -> None:
        for partition in partitions:
            self.outputs[topic, partition].append((key, value))

    def send_columns(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes],
        start: npt.NDArray[np.int64],
        partitions: npt.NDArray[np.int32],
        without: set[int],
    ) -> None:
        """Record i to `partitions[start[i]:start[i + 1]]`, but for some."""
        goes = partitions.tolist()
        if len(partitions) == len(values) and not without:
            self._spread(topic, goes, keys, values)
            return
        starts = start.tolist()
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            if i not in without:
                self.send(topic, goes[starts[i] : starts[i + 1]], key, value)

    def send_keyed(self, topic: str, count: int, keys: Texts, values: Sequence[bytes]) -> None:
        """To the partitions where Java's producer, and ours (`murmur2_random`), put the keys."""
        partitions = np.empty(len(keys), np.int32)
        partitions_of(*keys.for_kernel(), count, partitions)
        self._spread(topic, partitions.tolist(), keys, values)

    def send_framed(self, topic: str, count: int, keys: Texts, sizes: npt.NDArray[np.int64], write: Write) -> None:
        """To the same partitions, without an object for each record. `sizes`: bytes of each value, at most. Large ones are written when
        they are sent, a few at a time."""
        for partition, rows in by_key(keys, count):
            there = self.frames[topic, partition]
            if int(sizes.sum()) <= AT_ONCE:
                there += frames(keys.take(rows), write(rows))
            else:
                there.append(Deferred(rows, keys, sizes, write))

    def _spread(self, topic: str, partitions: list[int], keys: Iterable[bytes | None], values: Iterable[bytes]) -> None:
        put = {partition: self.outputs[topic, partition].append for partition in set(partitions)}
        for partition, record in zip(partitions, zip(keys, values, strict=True), strict=True):
            put[partition](record)

    def log(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        self.changelog[topic, partition].append((key, value))
