"""Which records of the input topics a client has sent: ranges of offsets, so that a million records in a row take no more than one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

MOST: Final = 100_000  # ranges of a partition; the oldest go first


class Own:
    """Written by the thread that sends, read by the one that iterates."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], list[int]] = {}
        self._last: dict[tuple[str, int], list[int]] = {}

    def adder(self, topic: str) -> Callable[[int, int], None]:
        """Notes an offset of a partition. Those of a partition ascend, as Kafka acknowledges them."""

        def add(partition: int, offset: int) -> None:
            last = self._last.setdefault((topic, partition), [])
            if last and last[-1] + 1 == offset:
                last[-1] = offset
                return
            self._first.setdefault((topic, partition), []).append(offset)
            last.append(offset)
            if len(last) > MOST:
                del last[: MOST // 2], self._first[topic, partition][: MOST // 2]

        return add

    def __contains__(self, place: tuple[str, int, int]) -> bool:
        topic, partition, offset = place
        first = self._first.get((topic, partition), [])
        at = bisect_right(first, offset) - 1
        return at >= 0 and offset <= self._last[topic, partition][at]
