"""Which publications of the log were dropped as duplicates, and which records the matcher has refused: what a rebuild, which begins in the
middle of the log, cannot find out, and a replay not with certainty.

The first publication of an id keeps the others out for a hot window; whether one counts may depend on a chain of them that began long
before. What one worker could not process another may: a replay must not tell of it. So a partition notes the rendezvous offsets of
what it drops, and of what it refuses, by blocks of offsets, and forgets a block when two hot windows
have passed since the last drop in it: what arrived before that is not rebuilt. Which blocks there are, and what they hold of that time, is
a function of the log, however it is cut into chunks.

In the changelog: key `\\0repeats\\0` or `\\0refused\\0` and the number of the block in 16 hex digits; value: i64_be log time of the last
drop, and a bit for each offset of the block, the first one highest. A storm of duplicates takes one bit a record, and a record of the
changelog for each block that a chunk touches. In the store: the same in a queue, block number (i64_be) and value, under a numbered key,
and beside it where the queue begins and ends.
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

DUPLICATES: Final = b"repeats"
REFUSED: Final = b"refused"
BLOCK: Final = 1024  # offsets: 128 bytes, less than the progress that every chunk logs


class Block(NamedTuple):
    slot: int  # its number in the store's queue
    time: int  # of the last drop
    bits: bytes


def key_of(name: bytes) -> bytes:
    """What the keys of the changelog begin with: ids hold no zero byte."""
    return b"\0" + name + b"\0"


class Duplicates:
    """The blocks of one partition, in the order of the log. What changes is staged in the store. `name`: of what is noted."""

    def __init__(self, store: Store, name: bytes = DUPLICATES) -> None:
        self._store = store
        self._name = name
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
        value = _value(block)
        self._store.put_meta(self._slot(block.slot), number.to_bytes(8, "big") + value)
        return self._key(number), value

    def forget(self, before: int) -> Iterator[tuple[bytes, int]]:
        """Blocks in which the last drop was earlier: what the changelog is not to hold any more, and the last offset in each."""
        while self._queue and self._blocks[self._queue[0]].time < before:
            number = self._queue.popleft()
            block = self._blocks.pop(number)
            self._forgotten.append((number, block))
            self._store.put_meta(self._slot(block.slot), None)
            self._put_ends()
            yield self._key(number), number * BLOCK + int(np.flatnonzero(_flags(block.bits))[-1])

    def entry(self, offset: int) -> tuple[bytes, bytes]:
        """What the changelog is to hold of the block that has this offset, which was noted."""
        number = offset // BLOCK
        return self._key(number), _value(self._blocks[number])

    def _put_ends(self) -> None:
        self._store.put_meta(
            self._name, b"%d %d" % (self._next - len(self._queue), self._next) if self._queue else None
        )

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
        first, end = map(int, (self._store.get_meta(self._name) or b"0 0").split())
        for slot in range(first, end):
            value = self._store.get_meta(self._slot(slot))
            assert value is not None
            number, time = int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big", signed=True)
            self._queue.append(number)
            self._blocks[number] = Block(slot, time, value[16:])
        self._next = end

    def restore(self, changelog: Mapping[bytes, bytes]) -> None:
        """From what the changelog holds."""
        for key in sorted(changelog):  # in the order of the log
            time, bits = int.from_bytes(changelog[key][:8], "big", signed=True), changelog[key][8:]
            self._put(int(key.removeprefix(key_of(self._name)), 16), time, _flags(bits))

    def _key(self, number: int) -> bytes:
        return key_of(self._name) + b"%016x" % number

    def _slot(self, number: int) -> bytes:
        return self._name + b" %d" % number


class Refusals(Duplicates):
    """Records that have no effect but for the time they tell. `ahead`: those that the next chunk refuses, and notes."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, REFUSED)
        self.ahead: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.ahead) or len(self) > 0

    def among(self, offsets: Rows) -> Flags:
        noted = super().among(offsets)
        return noted | np.isin(offsets, list(self.ahead)) if self.ahead else noted


def _value(block: Block) -> bytes:
    return block.time.to_bytes(8, "big", signed=True) + block.bits


def _flags(bits: bytes) -> Flags:
    return np.unpackbits(np.frombuffer(bits, np.uint8)).astype(np.bool_)
