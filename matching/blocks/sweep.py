"""Maintenance in small pieces, inside writes."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.access import choose, cost_now
from pastforward.matching.blocks.describe import describe
from pastforward.matching.blocks.place import put, recode_leaf, take
from pastforward.matching.blocks.room import has_room
from pastforward.matching.blocks.scratch import ROOM, Scratch
from pastforward.matching.blocks.tiling import (
    tile,
)
from pastforward.matching.blocks.view import (
    EPOCH,
    GROUPS,
    INLINE,
    INLINE_SLOTS,
    LEAF,
    MOVE_COUNT,
    NODES,
    RECODE_COUNT,
    ROOT_EPOCH,
    SWEEP,
    Blocks,
)
from pastforward.matching.index.verification import Known

I32 = npt.NDArray[np.int32]


_LOOK: Final = 16  # what a look at a group costs the sweep, in slots laid out anew
_SAMPLE: Final = 2  # slots that are looked at before all others are


@inner
def sweep(blocks: Blocks, known: Known, budget: Int, hashing: Bool, s: Scratch) -> Bool:
    """Maintenance in small pieces, first node by node, then group by group: what is of an older coding is coded anew, chunks that have
    lost much are laid out anew, slots of groups that have become dear move to a cheaper access predicate. `budget` is in slots.
    Returns whether a round ended."""
    state = blocks.state
    while budget > 0 and has_room(blocks):
        at = state[SWEEP]
        state[SWEEP] += 1
        budget -= 1
        chunk = np.int64(0)
        if at < state[NODES]:
            if at == 0 or not blocks.node_group[at] or blocks.node_epoch[at] == ROOT_EPOCH:
                continue
            chunk = at
            group = np.int64(blocks.node_group[at])
            budget -= _renew(blocks, known, chunk, s)
        else:
            group = at - state[NODES]
            if group >= state[GROUPS]:
                state[SWEEP] = 1
                return True
            if not blocks.group_table[group] or blocks.group_form[group] > LEAF:
                continue
            if blocks.group_form[group] == LEAF and blocks.leaf_epoch[blocks.group_ref[group]] != state[EPOCH]:
                recode_leaf(blocks, known, np.int64(blocks.group_ref[group]), s)
                budget -= 32
        budget -= _reconsider(blocks, known, group, chunk, hashing, s)
    return False


@inner
def _renew(blocks: Blocks, known: Known, chunk: Int, s: Scratch) -> Int:
    """Returns the slots touched."""
    if blocks.node_epoch[chunk] != blocks.state[EPOCH]:
        blocks.state[RECODE_COUNT] += 1
    elif 4 * blocks.node_gone[chunk] < blocks.node_live[chunk]:
        return 1
    live = np.int64(blocks.node_live[chunk])
    tile(blocks, known, chunk, s)
    return live


@inner
def _members(blocks: Blocks, group: Int, chunk: Int, most: Int, out: I32) -> Int:
    """Of a chunk, or of a group that is smaller than one; the first so many."""
    n = 0
    if not chunk and blocks.group_form[group] == INLINE:
        for i in range(min(np.int64(blocks.group_count[group]), most)):
            out[n] = blocks.group_slots[INLINE_SLOTS * group + i]
            n += 1
        return n
    for position in range(32 if chunk else 1):
        leaf = np.int64(blocks.child[chunk * 32 + position]) if chunk else np.int64(blocks.group_ref[group])
        if not leaf:
            continue
        for lane in range(32):
            if n < most and blocks.leaf_slots[leaf * 32 + lane] >= 0:
                out[n] = blocks.leaf_slots[leaf * 32 + lane]
                n += 1
        if n == most:
            break
    return n


@inner
def _too_dear(blocks: Blocks, known: Known, slot: Int, table: Int, hashing: Bool, s: Scratch) -> Bool:
    """Whether the slot's access predicate has become twice as dear as another."""
    n = describe(blocks, known, slot, s)
    _kind, _first, _second, best = choose(blocks, known, slot, n, hashing, s)
    return 2.0 * best <= cost_now(blocks, known, slot, table, n, s)


@inner
def _reconsider(blocks: Blocks, known: Known, group: Int, chunk: Int, hashing: Bool, s: Scratch) -> Int:
    """Slots that have become too dear move. A sample says whether to look at all. Returns the work done, in slots."""
    table = np.int64(blocks.group_table[group])
    members = np.empty(ROOM if chunk else 32, np.int32)
    dear = False
    for i in range(_members(blocks, group, chunk, _SAMPLE, members)):
        dear = dear or _too_dear(blocks, known, np.int64(members[i]), table, hashing, s)
    if not dear:
        return _LOOK
    n = _members(blocks, group, chunk, len(members), members)
    for i in range(n):
        slot = np.int64(members[i])
        if not _too_dear(blocks, known, slot, table, hashing, s) or not has_room(blocks):
            continue
        take(blocks, known, slot)
        put(blocks, known, slot, hashing, s)
        blocks.state[MOVE_COUNT] += 1
    return _LOOK + n
