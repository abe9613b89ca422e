"""What decides whether pairs match and who is told of them: a chunk, or a search of the past that goes on behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.memory_index import MemoryIndex
from pastforward.streams.matcher.subscribers import Subscribers


class Holding(Protocol):
    """The subscriptions by handle, at a partition under a version of the routing. `index` None: conditions are read from the records."""

    @property
    def number(self) -> int: ...

    @property
    def version(self) -> int: ...

    @property
    def subscribers(self) -> Subscribers: ...

    @property
    def index(self) -> MemoryIndex | None: ...


class Deciding(Protocol):
    """By row of the subscription: its record, the log time when it came, the records of those that it overlaps, if it joins itself, and,
    if it ended a pause, what of each publications partition had been seen when that began: it does not find this."""

    @property
    def engine(self) -> Holding: ...

    @property
    def values(self) -> Sequence[bytes]: ...

    @property
    def log_time(self) -> npt.NDArray[np.int64]: ...

    @property
    def overlapping(self) -> dict[int, list[bytes]]: ...

    @property
    def resumed(self) -> dict[int, dict[int, int]]: ...

    @property
    def effects(self) -> Effects: ...
