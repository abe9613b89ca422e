"""What Python calls: each kernel takes addresses (see `matching.reference`) and plain numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from matching.blocks import codes, place, pools, visit
from matching.blocks.lanes import TABLE
from matching.blocks.references import batch_at, blocks_at, known_at, scratch_at
from matching.blocks.view import Blocks
from matching.checking import checked
from matching.columns import Batch
from matching.verification import Known

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]


@njit(cache=True, nogil=True)
def sample_slots(blocks: int, known: int, slots: I32, stride: int, scratch: int) -> None:
    codes.sample_slots(blocks_at(blocks), known_at(known), slots, stride, scratch_at(scratch))


@njit(cache=True, nogil=True)
def bind(blocks: int, attribute: int) -> None:
    codes.bind(blocks_at(blocks), attribute)


@njit(cache=True, nogil=True)
def unbind_old(blocks: int) -> None:
    codes.unbind_old(blocks_at(blocks))


@njit(cache=True, nogil=True)
def unbound(blocks: int, attributes: int) -> I32:
    return codes.unbound(blocks_at(blocks), attributes)


@njit(cache=True, nogil=True)
def drifted(blocks: int, attributes: int) -> I32:
    return codes.drifted(blocks_at(blocks), attributes)


@njit(cache=True, nogil=True)
def insert(blocks: int, known: int, slots: I32, begin: int, hashing: bool, scratch: int) -> int:
    return place.insert(blocks_at(blocks), known_at(known), slots, begin, hashing, scratch_at(scratch))


@njit(cache=True, nogil=True)
def remove(blocks: int, known: int, slots: I32) -> None:
    place.remove(blocks_at(blocks), known_at(known), slots)


@njit(cache=True, nogil=True)
def sweep(blocks: int, known: int, budget: int, hashing: bool, scratch: int) -> bool:
    return place.sweep(blocks_at(blocks), known_at(known), budget, hashing, scratch_at(scratch))


@njit(cache=True, nogil=True)
def has_room(blocks: int) -> bool:
    return place.has_room(blocks_at(blocks))


@njit(cache=True, nogil=True)
def rebuild_cells(blocks: int) -> None:
    pools.rebuild_group_cells(blocks_at(blocks))
    pools.rebuild_table_cells(blocks_at(blocks))


@njit(cache=True, nogil=True)
def find(
    blocks: Blocks, known: Known, batch: Batch, relaxed: bool, noted: int, attributes: int
) -> tuple[I32, I32, int]:
    """Candidates of a batch. `noted`: every so many publications are learnt from, 0: none."""
    total = len(batch.carried)
    low = np.empty(total * TABLE, np.uint8)
    high = np.empty(total * TABLE, np.uint8)
    interval = codes.encode(blocks, batch, low, high)
    if relaxed:
        codes.relax(low, high)
        interval = True
    if noted:
        codes.note_publications(blocks, batch, noted)
    return visit.candidates(blocks, known.topics, batch, low, high, interval, relaxed, attributes)


@njit(cache=True, nogil=True)
def candidates(blocks: int, known: int, batch: int, relaxed: bool, noted: int, attributes: int) -> tuple[I32, I32, int]:
    return find(blocks_at(blocks), known_at(known), batch_at(batch), relaxed, noted, attributes)


@njit(cache=True, nogil=True)
def matches(blocks: int, known: int, batch: int, noted: int, attributes: int) -> tuple[I32, I32, U8]:
    """Rows, slots and answers, verified: all in one, since a call from Python costs as much as a small batch."""
    rows, slots, n = find(blocks_at(blocks), known_at(known), batch_at(batch), False, noted, attributes)
    return checked(known_at(known), batch_at(batch), rows[:n], slots[:n], attributes)
