"""When subscriptions end, earliest first, so that log time can take them out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pastforward.schemas import NEVER
from pastforward.streams.matcher.subscribers import Subscribers

Ending = tuple[int, int, tuple[int, int, int]]  # `ends_at`, handle, version


class Endings:
    def __init__(self, subscribers: Subscribers) -> None:
        self._subscribers = subscribers
        self._heap: list[Ending] = []
        self._popped: list[Ending] = []  # by the chunk that is in the works

    def begin(self) -> None:
        """From here on what is popped can be undone."""
        self._popped.clear()

    def undo(self) -> None:
        for ending in self._popped:
            heapq.heappush(self._heap, ending)

    def watch(self, handles: Sequence[int]) -> None:
        subscribers = self._subscribers
        at = np.array(handles, np.int64)
        at = at[subscribers.ends_at[at] != NEVER]
        columns = (subscribers.arrived_at, subscribers.partition, subscribers.offset)
        versions = zip(*(column[at].tolist() for column in columns), strict=True)
        for ending in zip(subscribers.ends_at[at].tolist(), at.tolist(), versions, strict=True):
            heapq.heappush(self._heap, ending)

    def pop(self, over: Callable[[int], bool]) -> Iterator[int]:
        """Handles of subscriptions that are over, by their `ends_at`, and still the version in force."""
        while self._heap and over(self._heap[0][0]):
            ending = heapq.heappop(self._heap)
            self._popped.append(ending)
            _, handle, version = ending
            if self._subscribers.holds(handle, version):
                yield handle
