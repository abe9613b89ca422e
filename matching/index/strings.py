"""Byte strings by number: what subscriptions mention is kept once and compared as a number.

One writer. Numbers stay the same until the last holder releases them; then they are used again. A publication's strings are looked up
and never kept.
"""

# ruff: noqa: SIM110  (kernels spell out what Numba compiles best)
from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.growing import longer
from pastforward.columns.hashing import hash_text
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


_PER_STRING: Final = 8 + 4 + 4 + 4 + 8  # offset, length, holders, the list of free ones, two cells


class StringView(NamedTuple):
    """What kernels read. `table` holds number + 1, 0 for never used, -1 for released."""

    heap: U8
    offset: I64
    length: I32
    holders: I32
    table: I32


@inner
def equal_bytes(a: U8, a_offset: Int, b: U8, b_offset: Int, length: Int) -> Bool:
    for i in range(length):
        if a[a_offset + i] != b[b_offset + i]:
            return False
    return True


@inner
def compare_bytes(a: U8, a_offset: Int, a_length: Int, b: U8, b_offset: Int, b_length: Int) -> Int:
    for i in range(min(a_length, b_length)):
        x = a[a_offset + i]
        y = b[b_offset + i]
        if x != y:
            return -1 if x < y else 1
    return np.int64(a_length > b_length) - np.int64(a_length < b_length)


@inner
def find_bytes(view: StringView, heap: U8, offset: Int, length: Int) -> Int:
    """The number of a string, -1 if nobody holds it."""
    mask = len(view.table) - 1
    at = np.int64(hash_text(heap, offset, length) & np.uint64(mask))
    while True:
        entry = view.table[at]
        if entry == 0:
            return -1
        if entry > 0:
            number = np.int64(entry) - 1
            if view.length[number] == length and equal_bytes(view.heap, view.offset[number], heap, offset, length):
                return number
        at = (at + 1) & mask


@kernel
def _intern(view: StringView, state: I64, free: I32, heap: U8, offset: I64, length: I32, out: I32) -> None:
    """state: strings ever, bytes used, free numbers, used cells of the table. Room was made before."""
    mask = len(view.table) - 1
    for i in range(len(offset)):
        if length[i] < 0:
            out[i] = -1
            continue
        number = find_bytes(view, heap, offset[i], length[i])
        if number >= 0:
            view.holders[number] += 1
            out[i] = number
            continue
        if state[2] > 0:
            state[2] -= 1
            number = np.int64(free[state[2]])
        else:
            number = state[0]
            state[0] += 1
        start = state[1]
        for k in range(length[i]):
            view.heap[start + k] = heap[offset[i] + k]
        state[1] += length[i]
        view.offset[number] = start
        view.length[number] = length[i]
        view.holders[number] = 1
        at = np.int64(hash_text(heap, offset[i], length[i]) & np.uint64(mask))
        while view.table[at] > 0:
            at = (at + 1) & mask
        if view.table[at] == 0:
            state[3] += 1
        view.table[at] = number + 1
        out[i] = number


@kernel
def _release(view: StringView, state: I64, free: I32, numbers: I32) -> Int:
    """Returns the bytes that nobody holds any more."""
    dead = 0
    mask = len(view.table) - 1
    for i in range(len(numbers)):
        number = np.int64(numbers[i])
        view.holders[number] -= 1
        if view.holders[number] > 0:
            continue
        at = np.int64(hash_text(view.heap, view.offset[number], view.length[number]) & np.uint64(mask))
        while view.table[at] != number + 1:
            at = (at + 1) & mask
        view.table[at] = -1
        dead += view.length[number]
        view.length[number] = -1
        free[state[2]] = number
        state[2] += 1
    return dead


@kernel
def _rebuild(view: StringView, count: Int) -> Int:
    mask = len(view.table) - 1
    used = 0
    for number in range(count):
        if view.length[number] < 0:
            continue
        at = np.int64(hash_text(view.heap, view.offset[number], view.length[number]) & np.uint64(mask))
        while view.table[at] != 0:
            at = (at + 1) & mask
        view.table[at] = number + 1
        used += 1
    return used


@kernel
def _move(view: StringView, count: Int, heap: U8) -> Int:
    end = 0
    for number in range(count):
        length = view.length[number]
        if length < 0:
            continue
        start = view.offset[number]
        for k in range(length):
            heap[end + k] = view.heap[start + k]
        view.offset[number] = end
        end += length
    return end


def joined(texts: Sequence[bytes]) -> tuple[U8, I64, I32]:
    """Heap, offsets and lengths of several texts."""
    heap = np.frombuffer(b"".join(texts) or b"\0", np.uint8).copy()
    length = np.fromiter(map(len, texts), np.int32, len(texts))
    offset = np.zeros(len(texts), np.int64)
    np.cumsum(length[:-1], out=offset[1:])
    return heap, offset, length


@kernel
def _find_all(view: StringView, heap: U8, offset: I64, length: I32, out: I32) -> None:
    for i in range(len(offset)):
        out[i] = find_bytes(view, heap, offset[i], length[i])


class Strings:
    def __init__(self) -> None:
        self.view = StringView(
            np.zeros(1024, np.uint8),
            np.zeros(64, np.int64),
            np.full(64, -1, np.int32),
            np.zeros(64, np.int32),
            np.zeros(256, np.int32),
        )
        self._state = np.zeros(4, np.int64)
        self._free = np.zeros(64, np.int32)
        self._dead = 0

    def __len__(self) -> int:
        return int(self._state[0] - self._state[2])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.view) + self._free.nbytes

    def intern(self, heap: U8, offset: I64, length: I32) -> I32:
        """Numbers of strings, each held once more; -1 where the length is negative."""
        self._reserve(len(offset), int(np.maximum(length, 0).sum(dtype=np.int64)))
        out = np.empty(len(offset), np.int32)
        _intern(self.view, self._state, self._free, heap, offset, length, out)
        return out

    def hold(self, text: bytes) -> int:
        return int(self.intern(*joined([text]))[0])

    def find(self, texts: Sequence[bytes]) -> I32:
        """Their numbers, -1 for what nobody holds."""
        out = np.empty(len(texts), np.int32)
        _find_all(self.view, *joined(texts), out)
        return out

    def release(self, numbers: I32) -> None:
        self._dead += int(_release(self.view, self._state, self._free, numbers))

    def text(self, number: int) -> bytes:
        start = int(self.view.offset[number])
        return self.view.heap[start : start + int(self.view.length[number])].tobytes()

    @property
    def wasted(self) -> int:
        """Bytes of numbers that nobody holds."""
        return int(self._state[2]) * _PER_STRING

    def compact(self) -> I32:
        """Numbers strings without gaps, in the same order. Returns the new numbers by the old ones, -1 where there was none."""
        view, count = self.view, int(self._state[0])
        kept = np.flatnonzero(view.length[:count] >= 0)
        to = np.full(count, -1, np.int32)
        to[kept] = np.arange(len(kept), dtype=np.int32)
        heap = np.empty(max(int(view.length[kept].sum(dtype=np.int64)), 1024), np.uint8)
        used = int(_move(view, count, heap))
        room = max(len(kept), 64)
        cells = 256
        while cells < 4 * len(kept):
            cells *= 2
        self.view = StringView(
            heap,
            longer(view.offset[kept], room),
            longer(view.length[kept], room),
            longer(view.holders[kept], room),
            np.zeros(cells, np.int32),
        )
        self._free = np.zeros(room, np.int32)
        self._dead = 0
        self._state[:] = len(kept), used, 0, int(_rebuild(self.view, len(kept)))
        return to

    def _reserve(self, strings: int, size: int) -> None:
        view = self.view
        used = int(self._state[1])
        heap, offset, length, holders, table = view
        if used + size > len(heap):
            room = max(2 * (used - self._dead), used - self._dead + size, 1024)
            heap = np.empty(room, np.uint8)
            self._state[1] = _move(view, int(self._state[0]), heap)
            self._dead = 0
        count = int(self._state[0])
        if count + strings > len(offset):
            room = max(2 * count, count + strings)
            offset, length, holders = longer(offset, room), longer(length, room), longer(holders, room)
            self._free = longer(self._free, room)
        fresh = StringView(heap, offset, length, holders, table)
        # at most half full, so that a search for what is not there ends soon
        if 2 * (int(self._state[3]) + strings) > len(table):
            cells = 256
            while cells < 4 * (len(self) + strings):
                cells *= 2
            fresh = fresh._replace(table=np.zeros(cells, np.int32))
            self._state[3] = _rebuild(fresh, count)
        self.view = fresh


@kernel
def gather(view: StringView, numbers: I64) -> tuple[I64, U8]:
    """Offsets and bytes of strings one after the other, as Arrow lays them out."""
    offsets = np.empty(len(numbers) + 1, np.int64)
    offsets[0] = 0
    for i in range(len(numbers)):
        offsets[i + 1] = offsets[i] + view.length[numbers[i]]
    heap = np.empty(offsets[-1], np.uint8)
    for i in range(len(numbers)):
        start = view.offset[numbers[i]]
        for k in range(view.length[numbers[i]]):
            heap[offsets[i] + k] = view.heap[start + k]
    return offsets, heap
