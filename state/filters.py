"""Which ids and topics the rows of a column family may have: in memory, so that a new row is stored without a look at the disk.

14 to 28 bits for each id, and as much for each topic. The hashes are rows of the family as well, one for each commit, and go with it:

    key    00 03 | number, 8 bytes
    value  hashes, u64
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pastforward.state.kernels import filters
from pastforward.state.kernels.records import Array

PREFIX: Final = b"\x00\x03"
_BITS: Final = 14
_FIRST: Final = 1024
"""Hashes of the first segment; each further one takes twice as many."""


class Filter:
    """`next_row`: the number of the next row of hashes."""

    def __init__(self) -> None:
        self._segments: list[Array] = []
        self._room = 0  # in the last segment
        self.next_row = 0

    @property
    def size(self) -> int:
        return sum(segment.nbytes for segment in self._segments)

    def add(self, hashes: Array) -> None:
        start = 0
        while start < len(hashes):
            if not self._room:
                self._room = _FIRST << len(self._segments)
                bits = 1 << (_BITS * self._room - 1).bit_length()
                self._segments.append(np.zeros(bits // 64, np.uint64))
            end = min(len(hashes), start + self._room)
            filters.add(self._segments[-1], hashes, start, end)
            self._room -= end - start
            start = end

    def find(self, hashes: Array, held: Array) -> None:
        """`held[row]` becomes true for what may be there."""
        for segment in reversed(self._segments):
            filters.find(segment, hashes, held)

    def load(self, rdict: Any) -> None:
        """What the family's rows say."""
        for key, value in rdict.items(from_key=PREFIX):
            if not key.startswith(PREFIX):
                break
            self.add(np.frombuffer(bytearray(value), np.int64))
            self.next_row = int.from_bytes(key[len(PREFIX) :], "big") + 1

    def row(self, hashes: Array) -> tuple[bytes, bytes]:
        """Key and value of a row that has these."""
        key = PREFIX + self.next_row.to_bytes(8, "big")
        self.next_row += 1
        return key, hashes.tobytes()
