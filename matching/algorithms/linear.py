"""The packed linear scan: every record against every publication, one after the other in memory. The yardstick of the others."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
from numba import njit

from matching.algorithms.base import Algorithm
from matching.checking import batch_at, known_at
from matching.columns import Batch
from matching.records import INTERSECT, SYMMETRIC
from matching.reference import pin
from matching.registry import Registry
from matching.scalars import Int
from matching.verification import NO, record_holds

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]


@njit(cache=True, nogil=True)
def scan(
    known_address: Int, members: I32, batch_address: Int, where: I32, rows: I32, slots: I32, first: Int
) -> tuple[Int, Int]:
    """Goes on at row `first`; returns the next row and the number of pairs. Stops early when a row might not fit any more."""
    known = known_at(known_address)
    batch = batch_at(batch_address)
    n = 0
    for row in range(first, len(batch.carried)):
        if n + len(members) > len(rows):
            return row, n
        for e in range(batch.start[row], batch.start[row + 1]):
            where[batch.attribute[e]] = e
        for i in range(len(members)):
            slot = np.int64(members[i])
            if record_holds(known, batch, row, slot, where) != NO:
                rows[n] = row
                slots[n] = slot
                n += 1
        for e in range(batch.start[row], batch.start[row + 1]):
            where[batch.attribute[e]] = -1
    return len(batch.carried), n


class Linear(Algorithm):
    name: ClassVar[str] = "linear"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._holds = np.zeros(64, bool)
        self._members = np.empty(0, np.int32)

    def insert(self, slots: I32) -> None:
        limit = self.registry.slot_limit
        if limit > len(self._holds):
            longer = np.zeros(max(limit, 2 * len(self._holds)), bool)
            longer[: len(self._holds)] = self._holds
            self._holds = longer
        self._holds[slots] = True
        self._members = np.flatnonzero(self._holds).astype(np.int32)

    def remove(self, slots: I32) -> None:
        self._holds[slots] = False
        self._members = np.flatnonzero(self._holds).astype(np.int32)

    def candidates(self, batch: Batch) -> tuple[I32, I32]:
        return scan_members(self.registry, self._members, batch)

    @property
    def nbytes(self) -> int:
        return self._holds.nbytes + self._members.nbytes


def scan_all(registry: Registry, batch: Batch, relaxed: bool) -> tuple[I32, I32]:
    """Every slot of the semantics `classical`, or of the others, against every row, vague ones included."""
    offset, words = registry.known.records
    members = np.flatnonzero(offset[: registry.slot_limit]).astype(np.int32)
    is_relaxed = (words[offset[members]] & (SYMMETRIC | INTERSECT)) != 0
    return scan_members(registry, members[is_relaxed == relaxed], batch)


def scan_members(registry: Registry, members: I32, batch: Batch) -> tuple[I32, I32]:
    where = np.full(len(registry.names) + 1, -1, np.int32)
    room = max(4 * len(members), 1024)
    rows, slots = np.empty(room, np.int32), np.empty(room, np.int32)
    found: list[tuple[I32, I32]] = []
    pinned = pin(batch)
    row = 0
    while row < batch.rows:
        row, n = scan(registry.known_at, members, pinned.address, where, rows, slots, row)
        found.append((rows[:n].copy(), slots[:n].copy()))
    if not found:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])
