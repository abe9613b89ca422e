"""What Python calls: each kernel takes addresses (see `columns.addressed`) and plain numbers."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.blocks import (
    codes,
    learning,
    place,
    pools,
    posting_choice,
    posting_search,
    postings,
    room,
    visit,
)
from pastforward.matching.blocks import sweep as maintenance
from pastforward.matching.blocks.lanes import TABLE
from pastforward.matching.blocks.references import batch_at, blocks_at, known_at, scratch_at
from pastforward.matching.blocks.view import POSTED_HOME, Blocks
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.checking import checked
from pastforward.matching.index.verification import Known

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@kernel
def sample_slots(blocks: Int, known: Int, slots: I32, stride: Int, scratch: Int) -> None:
    learning.sample_slots(blocks_at(blocks), known_at(known), slots, stride, scratch_at(scratch))


@kernel
def plan_pairs(blocks: Int, known: Int, slots: I32, scratch: Int) -> None:
    learning.plan_pairs(blocks_at(blocks), known_at(known), slots, scratch_at(scratch))


@kernel
def bind(blocks: Int, attribute: Int) -> None:
    codes.bind(blocks_at(blocks), attribute)


@kernel
def unbind_old(blocks: Int) -> None:
    codes.unbind_old(blocks_at(blocks))


@kernel
def unbound(blocks: Int, attributes: Int) -> I32:
    return codes.unbound(blocks_at(blocks), attributes)


@kernel
def drifted(blocks: Int, attributes: Int) -> I32:
    return codes.drifted(blocks_at(blocks), attributes)


@kernel
def assign(
    blocks: Int, known: Int, slots: I32, begin: Int, hashing: Bool, scratch: Int, groups: I32, lanes: U8, codes_of: U8
) -> Int:
    return place.assign(
        blocks_at(blocks), known_at(known), slots, begin, hashing, scratch_at(scratch), groups, lanes, codes_of
    )


@kernel
def build(
    blocks: Int, known: Int, slots: I32, order: I64, groups: I32, lanes: U8, codes_of: U8, begin: Int, scratch: Int
) -> Int:
    return place.build(
        blocks_at(blocks), known_at(known), slots, order, groups, lanes, codes_of, begin, scratch_at(scratch)
    )


@kernel
def remove(blocks: Int, known: Int, slots: I32) -> None:
    view = blocks_at(blocks)
    for i in range(len(slots)):
        slot = np.int64(slots[i])
        if view.home[slot] < POSTED_HOME:
            postings.unpost(view, slot)
        else:
            place.take(view, known_at(known), slot)


@kernel
def post_slots(
    blocks: Int, known: Int, slots: I32, begin: Int, rest: I32, left: Int, scratch: Int
) -> tuple[Int, Int, Int]:
    return posting_choice.post_slots(blocks_at(blocks), known_at(known), slots, begin, rest, left, scratch_at(scratch))


@kernel
def rebuild_key_cells(blocks: Int) -> None:
    postings.rebuild_key_cells(blocks_at(blocks))


@kernel
def sweep(blocks: Int, known: Int, budget: Int, hashing: Bool, scratch: Int) -> Bool:
    return maintenance.sweep(blocks_at(blocks), known_at(known), budget, hashing, scratch_at(scratch))


@kernel
def appraise(blocks: Int, known: Int, slot: Int, hashing: Bool, scratch: Int) -> tuple[Int, Int, Int, Float]:
    """The access predicate that a slot would get: kind of table, its attributes, nanoseconds a publication."""
    s = scratch_at(scratch)
    view = known_at(known)
    kind, first, second, cost = posting_choice.in_blocks(blocks_at(blocks), view, slot, hashing, s)
    if hashing:
        at, by_keys = posting_choice.best_part(blocks_at(blocks), view.records, view.strings, slot)
        if at >= 0 and by_keys <= cost:
            attribute = np.int64(view.records.words[at] >> np.uint32(12))
            return posting_choice.way(view.records, at), attribute, np.int64(-1), by_keys
    a = np.int64(s.attribute[first]) if first >= 0 else np.int64(-1)
    b = np.int64(s.attribute[second]) if second >= 0 else np.int64(-1)
    return kind, a, b, cost


@kernel
def has_room(blocks: Int) -> Bool:
    return room.has_room(blocks_at(blocks))


@kernel
def rebuild_cells(blocks: Int) -> None:
    pools.rebuild_group_cells(blocks_at(blocks))
    pools.rebuild_table_cells(blocks_at(blocks))


@inner
def find(
    blocks: Blocks, known: Known, batch: Batch, relaxed: Bool, noted: Int, attributes: Int
) -> tuple[I32, I32, Int]:
    """Candidates of a batch. `noted`: every so many publications are learnt from, 0: none."""
    total = len(batch.carried)
    low = np.empty(total * TABLE, np.uint8)
    high = np.empty(total * TABLE, np.uint8)
    interval = codes.encode(blocks, batch, low, high)
    if relaxed:
        codes.relax(low, high)
        interval = True
    if noted:
        learning.note_publications(blocks, batch, noted)
    rows, slots, n = visit.candidates(blocks, known.topics, batch, low, high, interval, relaxed, attributes)
    return posting_search.reach(blocks, known, batch, rows, slots, n)


@kernel
def candidates(blocks: Int, known: Int, batch: Int, relaxed: Bool, noted: Int, attributes: Int) -> tuple[I32, I32, Int]:
    return find(blocks_at(blocks), known_at(known), batch_at(batch), relaxed, noted, attributes)


@kernel
def matches(blocks: Int, known: Int, batch: Int, noted: Int, attributes: Int) -> tuple[I32, I32, U8, Int]:
    """Rows, slots and answers, verified, and how many are unsure: all in one, since a call from Python costs as much as a small batch."""
    rows, slots, n = find(blocks_at(blocks), known_at(known), batch_at(batch), False, noted, attributes)
    return checked(known_at(known), batch_at(batch), rows[:n], slots[:n], attributes)
