"""The live subscriptions of a partition, by handle: what a notification needs to know of its subscription.

A handle is a small integer that stands for one version of one subscription; the matching index knows subscriptions by it, so a new
version can stand beside the old one while a chunk is matched. What is a number lies in columns; ids and recipients lie in heaps, for the
kernels that write notifications; ids are bytes objects beside it, as they are looked up, and so are topics, which are shared, because a
million tuples would take half a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.schemas import RendezvousColumns, Version
from pastforward.streams.matcher.heap import Heap

I64 = npt.NDArray[np.int64]

SELF_JOIN: Final = 1
NEEDS_PREVIOUS: Final = 2
ALWAYS: Final = 4  # topic and time decide alone
ALONE: Final = 8  # went to one partition only
OLD: Final = 16  # came under an earlier version of the routing
IDS_ALONE: Final = 32  # its notifications carry no content
PAUSED: Final = 64  # it matches nothing

_FIRST: Final = 1024  # handles there is room for at first
SHARED: Final = (
    1 << 16
)  # texts that are looked up to be shared: what repeats is among them, what does not must not pile up


class Subscriber(NamedTuple):
    """One version of a subscription. `ends_at` is `schemas.NEVER` for none."""

    name: bytes
    recipient: bytes
    version: Version
    partitions: tuple[int, ...]
    topic: bytes
    starts_at: int
    ends_at: int
    self_join: bool
    needs_previous: bool
    always: bool
    ids_alone: bool
    paused: bool


class Subscribers:
    def __init__(self) -> None:
        self.name: list[bytes] = []
        self.names_heap = Heap(_FIRST)
        self.recipient = Heap(_FIRST)
        self.topic: list[bytes] = []
        self.partitions: list[tuple[int, ...]] = []
        self.arrived_at: I64 = np.empty(_FIRST, np.int64)  # with partition and offset: the version
        self.partition: npt.NDArray[np.int32] = np.empty(_FIRST, np.int32)
        self.offset: I64 = np.empty(_FIRST, np.int64)
        self.starts_at: I64 = np.empty(_FIRST, np.int64)
        self.ends_at: I64 = np.empty(_FIRST, np.int64)
        self.flags: npt.NDArray[np.uint8] = np.empty(_FIRST, np.uint8)
        self.needing_previous = 0
        # Of paused ones, by handle: what of each publications partition had been seen when the pause began.
        self.pauses: dict[int, dict[int, int]] = {}
        self._free: list[int] = []
        self._handles: dict[bytes, int] = {}
        self._taken: list[int] = []  # since `begin`
        self._changed: list[
            tuple[bytes, int | None]
        ] = []  # ids whose version in force has changed since `begin`, with the one before
        self._shared: dict[bytes, bytes] = {}  # topics, each once
        self._routes: dict[bytes, tuple[int, ...]] = {}  # lists of partitions, each once

    def __len__(self) -> int:
        return len(self._handles)

    def __getitem__(self, handle: int) -> Subscriber:
        flags = int(self.flags[handle])
        return Subscriber(
            self.name[handle],
            self.recipient[handle],
            self.version(handle),
            self.partitions[handle],
            self.topic[handle],
            int(self.starts_at[handle]),
            int(self.ends_at[handle]),
            bool(flags & SELF_JOIN),
            bool(flags & NEEDS_PREVIOUS),
            bool(flags & ALWAYS),
            bool(flags & IDS_ALONE),
            bool(flags & PAUSED),
        )

    def version(self, handle: int) -> Version:
        return Version(int(self.arrived_at[handle]), int(self.partition[handle]), int(self.offset[handle]))

    def names(self) -> Iterator[bytes]:
        """Ids of the subscriptions in force."""
        return iter(self._handles)

    def holds(self, handle: int, version: tuple[int, int, int]) -> bool:
        """Is this still the version in force?"""
        return (
            self._handles.get(self.name[handle]) == handle
            and (self.arrived_at[handle], self.partition[handle], self.offset[handle]) == version
        )

    def find(self, name: bytes) -> int | None:
        """The handle of the version in force."""
        return self._handles.get(name)

    def begin(self) -> None:
        """From here on what is taken, enforced and retired can be undone, until handles are released."""
        self._taken.clear()
        self._changed.clear()

    @property
    def taken(self) -> list[int]:
        """Handles taken since `begin`."""
        return list(self._taken)

    def undo(self) -> None:
        for name, before in reversed(self._changed):
            if before is None:
                del self._handles[name]
            else:
                self._handles[name] = before
        self.release(self._taken)
        self.begin()

    def take(
        self, columns: RendezvousColumns, rows: I64, names: Sequence[bytes], flags: npt.NDArray[np.uint8]
    ) -> list[int]:
        """Handles for rows of a chunk. None of them is in force yet."""
        handles = self._room(len(rows))
        self._taken += handles
        at = np.array(handles, np.int64)
        self.flags[at] = flags  # first: a handle that is released again is counted by its flags
        self.needing_previous += int(np.count_nonzero(flags & NEEDS_PREVIOUS))
        if len(self._shared) > SHARED:
            self._shared.clear()
        if len(self._routes) > SHARED:
            self._routes.clear()
        share = self._shared.setdefault
        topics = [share(text, text) for text in map(_filled, columns.topic.take(rows))]
        routes = self._routes_of(columns, rows)
        self.names_heap.put(at, columns.id.take(rows))
        self.recipient.put(at, columns.party_id.take(rows))
        for handle, name, topic, route in zip(handles, names, topics, routes, strict=True):
            self.name[handle] = name
            self.topic[handle] = topic
            self.partitions[handle] = route
        self.arrived_at[at] = columns.version_arrived_at[rows]
        self.partition[at] = columns.version_partition[rows]
        self.offset[at] = columns.version_offset[rows]
        self.starts_at[at] = columns.begins_at[rows]
        self.ends_at[at] = columns.ends_at[rows]
        return handles

    def _routes_of(self, columns: RendezvousColumns, rows: I64) -> list[tuple[int, ...]]:
        start, partitions = columns.partitions_start, columns.partitions
        raw = partitions.tobytes()
        size = partitions.itemsize
        known = self._routes
        found = []
        for low, high in zip((start[rows] * size).tolist(), (start[rows + 1] * size).tolist(), strict=True):
            key = raw[low:high]
            route = known.get(key)
            if route is None:
                route = known[key] = tuple(np.frombuffer(key, partitions.dtype).tolist())
            found.append(route)
        return found

    def _room(self, count: int) -> list[int]:
        handles = [self._free.pop() for _ in range(min(count, len(self._free)))]
        first, more = len(self.name), count - len(handles)
        if more:
            handles += range(first, first + more)
            for texts in (self.name, self.topic):
                texts += [b""] * more
            self.partitions += [()] * more
            if first + more > len(self.ends_at):
                size = max(2 * len(self.ends_at), first + more)
                for column in ("arrived_at", "partition", "offset", "starts_at", "ends_at", "flags"):
                    setattr(self, column, np.resize(getattr(self, column), size))
                self.names_heap.room(size)
                self.recipient.room(size)
        return handles

    def enforce(self, handle: int) -> None:
        """This is the version in force from here on; the one before keeps its handle until it is released."""
        name = self.name[handle]
        self._changed.append((name, self._handles.get(name)))
        self._handles[name] = handle

    def enforce_all(self, handles: Sequence[int], names: Sequence[bytes]) -> None:
        """The same for many, given with their ids."""
        self._changed += [(name, self._handles.get(name)) for name in names]
        self._handles.update(zip(names, handles, strict=True))

    def retire(self, name: bytes) -> None:
        """No version is in force any more."""
        self._changed.append((name, self._handles.pop(name)))

    def release(self, handles: Sequence[int]) -> None:
        """Nothing refers to the handles any more."""
        for handle in handles:
            self.needing_previous -= bool(self.flags[handle] & NEEDS_PREVIOUS)
            self.name[handle] = b""
            self.pauses.pop(handle, None)
        if handles:
            self.names_heap.drop(handles)
            self.recipient.drop(handles)
        self._free += handles


def _filled(text: bytes | None) -> bytes:
    return text or b""
