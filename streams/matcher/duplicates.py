"""Which publications of the log were dropped as repeats: what a rebuild, which begins in the middle of the log, cannot find out.

The first publication of an id keeps the others out for a hot window; whether one counts may depend on a chain of them that began long
before. So a partition notes the rendezvous offsets of those that it drops, by blocks of offsets, and forgets a block when two hot windows
have passed since the last drop in it: what arrived before that is not rebuilt. Which blocks there are, and what they hold of that time, is
a function of the log, however it is cut into chunks.

In the changelog: key `\\0repeats\\0` and the number of the block in 16 hex digits; value: i64_be log time of the last drop, and a bit for
each offset of the block, the first one highest. A storm of repeats takes one bit a record, and a record of the changelog for each
block that a chunk touches. In the store: the same in a queue, block number (i64_be) and value, under a numbered key, and beside it where
the queue begins and ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.state import Store

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KEY: Final = b"\0repeats\0"  # ids hold no zero byte
ENDS: Final = b"repeats"
SLOT: Final = b"repeats "
BLOCK: Final = 1024  # offsets: 128 bytes, less than the progress that every chunk logs


class Block(NamedTuple):
    slot: int  # its number in the store's queue
    time: int  # of the last drop
    bits: bytes


class Repeats:
    """The blocks of one partition, in the order of the log. What changes is staged in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: deque[int] = deque()
        self._blocks: dict[int, Block] = {}
        self._next = 0  # slot
        self._before = 0  # the next slot at `begin`, and since then blocks as they were, None for new ones
        self._changed: list[tuple[int, Block | None]] = []
        self._forgotten: list[tuple[int, Block]] = []

    def begin(self) -> None:
        """From here on every change can be undone; what is staged in the store is the store's to undo."""
        self._before = self._next
        self._changed.clear()
        self._forgotten.clear()

    def undo(self) -> None:
        for number, block in reversed(self._forgotten):
            self._queue.appendleft(number)
            self._blocks[number] = block
        for number, before in reversed(self._changed):
            if before is not None:
                self._blocks[number] = before
                continue
            self._blocks.pop(number, None)
            if self._queue and self._queue[-1] == number:
                self._queue.pop()
        self._next = self._before
        self.begin()

    def __len__(self) -> int:
        return len(self._queue)

    def note(self, offsets: Rows, times: Rows) -> Iterator[tuple[bytes, bytes]]:
        """Drops, in the order of the log, and the log time at each: what the changelog is to hold."""
        blocks = offsets // BLOCK
        for number in np.unique(blocks).tolist():
            mine = blocks == number
            dropped = np.zeros(BLOCK, np.bool_)
            dropped[offsets[mine] % BLOCK] = True
            yield self._put(number, int(times[mine][-1]), dropped)

    def _put(self, number: int, time: int, dropped: Flags) -> tuple[bytes, bytes]:
        known = self._blocks.get(number)
        self._changed.append((number, known))
        if known is None:
            block = Block(self._next, time, np.packbits(dropped).tobytes())
            self._queue.append(number)
            self._next += 1
            self._put_ends()
        else:
            block = Block(known.slot, max(time, known.time), np.packbits(dropped | _flags(known.bits)).tobytes())
        self._blocks[number] = block
        value = block.time.to_bytes(8, "big", signed=True) + block.bits
        self._store.put_meta(SLOT + str(block.slot).encode(), number.to_bytes(8, "big") + value)
        return _key(number), value

    def forget(self, before: int) -> Iterator[bytes]:
        """Blocks in which the last drop was earlier: what the changelog is not to hold any more."""
        while self._queue and self._blocks[self._queue[0]].time < before:
            number = self._queue.popleft()
            block = self._blocks.pop(number)
            self._forgotten.append((number, block))
            self._store.put_meta(SLOT + str(block.slot).encode(), None)
            self._put_ends()
            yield _key(number)

    def _put_ends(self) -> None:
        self._store.put_meta(ENDS, b"%d %d" % (self._next - len(self._queue), self._next) if self._queue else None)

    def among(self, offsets: Rows) -> Flags:
        """Which of these were dropped?"""
        found = np.zeros(len(offsets), np.bool_)
        blocks = offsets // BLOCK
        for number in np.unique(blocks).tolist():
            if number in self._blocks:
                mine = np.flatnonzero(blocks == number)
                found[mine] = _flags(self._blocks[number].bits)[offsets[mine] % BLOCK]
        return found

    # ------------------------------------------------------------------------------------------ how it begins

    def load(self) -> None:
        """From a store that has been used before."""
        first, end = map(int, (self._store.get_meta(ENDS) or b"0 0").split())
        for slot in range(first, end):
            value = self._store.get_meta(SLOT + str(slot).encode())
            assert value is not None
            number, time = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big", signed=True)
            self._queue.append(number)
            self._blocks[number] = Block(slot, time, value[16:])
        self._next = end

    def restore(self, changelog: Mapping[bytes, bytes]) -> None:
        """From what the changelog holds."""
        for key in sorted(changelog):  # in the order of the log
            time, bits = int.from_bytes(changelog[key][:8], "big", signed=True), changelog[key][8:]
            self._put(int(key.removeprefix(KEY), 16), time, _flags(bits))


def _key(number: int) -> bytes:
    return KEY + b"%016x" % number


def _flags(bits: bytes) -> Flags:
    return np.unpackbits(np.frombuffer(bits, np.uint8)).astype(np.bool_)
