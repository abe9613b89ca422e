"""Which slices may hold an id, or a topic: in memory, so that a new one is taken without a look at the disk.

Tables of 32-bit entries, at most six tenths full: 7 to 13 bytes each. One that is new is looked for in vain less than once in a hundred
thousand. A table goes when all of its slices have gone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.state.kernels import sealing
from pastforward.state.kernels.records import Array

_FIRST: Final = 4096
_LARGEST: Final = 1 << 20
"""Entries of a table: 4 MB, so that what has passed is given back in small parts, and a look-up meets few tables."""
_FILL: Final = 0.6
_SLICES: Final = 255


class _Table:
    def __init__(self, length: int) -> None:
        self.entries: Array = np.zeros(length, np.uint32)
        self.slices: list[int] = []
        self.left = int(length * _FILL)


class Whereabouts:
    def __init__(self) -> None:
        self._tables: list[_Table] = []

    @property
    def size(self) -> int:
        return sum(table.entries.nbytes for table in list(self._tables))

    def add(self, hashes: Array, serial: int) -> None:
        start = 0
        while start < len(hashes):
            table = self._tables[-1] if self._tables else None
            if table is None or not table.left or len(table.slices) == _SLICES:
                length = _FIRST if table is None else min(_LARGEST, 2 * len(table.entries))
                table = _Table(length)
                self._tables.append(table)
            if not table.slices or table.slices[-1] != serial:
                table.slices.append(serial)
            end = min(len(hashes), start + table.left)
            sealing.note_hashes(table.entries, hashes, start, end, len(table.slices))
            table.left -= end - start
            start = end

    def find(self, hashes: Array) -> list[tuple[int, int]]:
        """Rows and slices that may have them."""
        found: list[tuple[int, int]] = []
        rows, numbers = np.empty(len(hashes) + 16, np.int64), np.empty(len(hashes) + 16, np.int64)
        for table in self._tables:
            count = sealing.find_hashes(table.entries, hashes, rows, numbers)
            if count > len(rows):
                rows, numbers = np.empty(count, np.int64), np.empty(count, np.int64)
                sealing.find_hashes(table.entries, hashes, rows, numbers)
            if count:
                slices = table.slices
                found += [
                    (row, slices[number - 1])
                    for row, number in zip(rows[:count].tolist(), numbers[:count].tolist(), strict=True)
                ]
        return found

    def forget(self, alive: set[int]) -> None:
        """Slices other than these have gone."""
        self._tables = [table for table in self._tables if not alive.isdisjoint(table.slices)]
