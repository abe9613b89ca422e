"""The packed linear scan: every record against every publication, one after the other in memory. The yardstick of the others.

A few records at a time meet all publications of a batch, so that each is fetched once; a record is left at the first predicate that fails.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import pin
from pastforward.columns.kernel import kernel
from pastforward.columns.scalars import Int
from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.answers import NO
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.checking import batch_at, known_at
from pastforward.matching.index.records import INTERSECT, SYMMETRIC
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.verification import record_holds

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]


_TILE: Final = 64  # records that are held against all publications while they are in the first cache
_ENTRIES: Final = 1 << 16  # of attributes by publication: what the second cache holds beside the records


@kernel
def scan(
    addresses: Any, members: I32, begin: Int, end: Int, attributes: Int, first: Int, rows: I32, slots: I32
) -> tuple[Int, Int]:
    """The rows from `begin` to `end`, from the member `first` on. Returns the next member and the number of pairs; stops early when
    pairs might not fit any more. `addresses`: of what is known of subscriptions, and the batch."""
    known_address, batch_address = addresses
    known = known_at(known_address)
    batch = batch_at(batch_address)
    where = np.full((end - begin, attributes), -1, np.int32)
    for row in range(begin, end):
        for e in range(batch.start[row], batch.start[row + 1]):
            where[row - begin, batch.attribute[e]] = e
    n = 0
    for tile in range(first, len(members), _TILE):
        if n + _TILE * (end - begin) > len(rows):
            return tile, n
        tile_end = min(tile + _TILE, len(members))
        for row in range(begin, end):
            entries = where[row - begin]
            for i in range(tile, tile_end):
                slot = np.int64(members[i])
                if record_holds(known, batch, row, slot, entries) != NO:
                    rows[n] = row
                    slots[n] = slot
                    n += 1
    return len(members), n


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
    attributes = len(registry.names) + 1
    step = max(1, _ENTRIES // attributes)
    room = 4 * _TILE * min(step, batch.rows)
    rows, slots = np.empty(room, np.int32), np.empty(room, np.int32)
    found: list[tuple[I32, I32]] = [(np.empty(0, np.int32), np.empty(0, np.int32))]
    pinned = pin(batch)
    addresses = registry.known_at, pinned.address
    for begin in range(0, batch.rows, step):
        end = min(begin + step, batch.rows)
        member = 0
        while member < len(members):
            member, n = scan(addresses, members, begin, end, attributes, member, rows, slots)
            found.append((rows[:n].copy(), slots[:n].copy()))
    return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])
