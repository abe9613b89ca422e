"""Putting slots into the index and taking them out, group by group."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.access import choose, group_for
from pastforward.matching.blocks.describe import code_slot, describe
from pastforward.matching.blocks.insertion import free_lane, position_of, put_in_chunk, write_codes, write_lane
from pastforward.matching.blocks.pools import (
    clear_box,
    count_in_table,
    free_group,
    free_leaf,
    free_node,
    new_leaf,
    new_node,
)
from pastforward.matching.blocks.room import has_room, has_room_for
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.tiling import (
    lay_group,
    tile,
)
from pastforward.matching.blocks.view import (
    CHUNK,
    EPOCH,
    INLINE,
    INLINE_SLOTS,
    LEAF,
    LEAF_LANES,
    LIVE,
    RECODE_COUNT,
    TOPIC,
    Blocks,
)
from pastforward.matching.index.verification import Known

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


@inner
def _open_leaf(blocks: Blocks, known: Known, group: Int, count: Int, s: Scratch) -> None:
    """A group leaves its inline form: its slots move into a leaf."""
    epoch = blocks.state[EPOCH]
    leaf = new_leaf(blocks, group, 0, epoch)
    for i in range(count):
        slot = np.int64(blocks.group_slots[INLINE_SLOTS * group + i])
        n = describe(blocks, known, slot, s)
        code_slot(blocks, s, n, group, s.member_lanes, 0, s.member_codes, 0)
        write_lane(blocks, leaf, i, slot, s.member_lanes, 0, s.member_codes, 0)
    blocks.group_form[group] = LEAF
    blocks.group_ref[group] = leaf


@inner
def _open_chunk(blocks: Blocks, known: Known, group: Int, s: Scratch) -> None:
    """A full leaf becomes a chunk."""
    leaf = np.int64(blocks.group_ref[group])
    chunk = new_node(blocks, group, np.int64(blocks.leaf_epoch[leaf]))
    blocks.leaf_parent[leaf] = chunk
    blocks.child[chunk * 32] = leaf
    blocks.children[chunk] = 1
    blocks.node_live[chunk] = blocks.leaf_count[leaf]
    blocks.group_form[group] = CHUNK
    blocks.group_ref[group] = chunk
    tile(blocks, known, chunk, s)


@inner
def _assigned(blocks: Blocks, known: Known, slot: Int, n: Int, hashing: Bool, s: Scratch) -> Int:
    """The group that a slot shall be in. It is counted as a member of its table, but not in the group yet."""
    kind, first, second, _cost = choose(blocks, known, slot, n, hashing, s)
    group = group_for(blocks, known, slot, kind, first, second, s)
    count_in_table(blocks, np.int64(blocks.group_table[group]), 1)
    blocks.state[LIVE] += 1
    if kind == TOPIC:
        node = np.int64(known.records.words[np.int64(known.records.offset[slot]) + 1])
        _count_topic(blocks, known, node, 1)
    return group


@inner
def put(blocks: Blocks, known: Known, slot: Int, hashing: Bool, s: Scratch) -> None:
    n = describe(blocks, known, slot, s)
    group = _assigned(blocks, known, slot, n, hashing, s)
    code_slot(blocks, s, n, group, s.own_lanes, 0, s.own_codes, 0)
    put_in_group(blocks, known, group, slot, s.own_lanes, 0, s.own_codes, 0, s)


@inner
def assign(
    blocks: Blocks,
    known: Known,
    slots: I32,
    begin: Int,
    hashing: Bool,
    s: Scratch,
    groups: I32,
    lanes: U8,
    codes: U8,
) -> Int:
    """The first half of an insertion: which group each slot shall be in, and what it is placed by there. Goes on until a pool may run
    out; returns the next position. `build` must follow before anything else."""
    for i in range(begin, len(slots)):
        if not has_room(blocks):
            return i
        if i + 8 < len(slots):
            prefetch(known.records.words, np.int64(known.records.offset[slots[i + 8]]))
        n = describe(blocks, known, np.int64(slots[i]), s)
        group = _assigned(blocks, known, np.int64(slots[i]), n, hashing, s)
        groups[i] = group
        code_slot(blocks, s, n, group, lanes, 9 * i, codes, 4 * i)
    return len(slots)


@inner
def build(
    blocks: Blocks,
    known: Known,
    slots: I32,
    order: I64,
    groups: I32,
    lanes: U8,
    codes: U8,
    begin: Int,
    s: Scratch,
) -> Int:
    """The second half, in an order by group: so what a group needs from memory is read once. A group that is new is laid out at once, which
    is many times faster than slot by slot; the scratch has room for the largest. Returns the next position when a pool may run out."""
    i = begin
    while i < len(order):
        group = np.int64(groups[order[i]])
        end = i + 1
        while end < len(order) and groups[order[end]] == group:
            end += 1
        count = end - i
        if blocks.group_count[group] > 0 or count <= INLINE_SLOTS:
            while i < end:
                if not has_room(blocks):
                    return i
                at = order[i]
                put_in_group(blocks, known, group, np.int64(slots[at]), lanes, 9 * at, codes, 4 * at, s)
                i += 1
            continue
        if not has_room_for(blocks, count):
            return i
        blocks.group_count[group] = count
        if count <= 32:
            leaf = new_leaf(blocks, group, 0, blocks.state[EPOCH])
            for k in range(count):
                at = order[i + k]
                write_lane(blocks, leaf, k, np.int64(slots[at]), lanes, 9 * at, codes, 4 * at)
            blocks.group_form[group] = LEAF
            blocks.group_ref[group] = leaf
        else:
            for member in range(count):
                at = order[i + member]
                s.member[member] = slots[at]
                s.order[member] = member
                for k in range(9):
                    s.member_lanes[9 * member + k] = lanes[9 * at + k]
                for k in range(4):
                    s.member_codes[4 * member + k] = codes[4 * at + k]
            lay_group(blocks, group, s, count)
        i = end
    return i


@inner
def _count_topic(blocks: Blocks, known: Known, node: Int, change: Int) -> None:
    while True:
        blocks.topic_below[node] += change
        if node == 0:
            return
        node = np.int64(known.topics.parent[node])


@inner
def put_in_group(
    blocks: Blocks, known: Known, group: Int, slot: Int, lanes: U8, at: Int, codes: U8, codes_at: Int, s: Scratch
) -> None:
    """The slot's lanes and codes are those of today."""
    count = np.int64(blocks.group_count[group])
    blocks.group_count[group] += 1
    if blocks.group_form[group] == INLINE:
        if count < INLINE_SLOTS:
            blocks.group_slots[INLINE_SLOTS * group + count] = slot
            blocks.home[slot] = -group - 1
            return
        _open_leaf(blocks, known, group, count, s)
    if blocks.group_form[group] == LEAF:
        leaf = np.int64(blocks.group_ref[group])
        if blocks.leaf_epoch[leaf] != blocks.state[EPOCH]:
            recode_leaf(blocks, known, leaf, s)
        if blocks.leaf_count[leaf] < 32:
            write_lane(blocks, leaf, free_lane(blocks, leaf), slot, lanes, at, codes, codes_at)
            return
        _open_chunk(blocks, known, group, s)
    put_in_chunk(blocks, known, group, slot, lanes, at, codes, codes_at, s)


@inner
def recode_leaf(blocks: Blocks, known: Known, leaf: Int, s: Scratch) -> None:
    """Of a leaf that stands alone in its group."""
    epoch = blocks.state[EPOCH]
    group = np.int64(blocks.leaf_group[leaf])
    for lane in range(32):
        slot = np.int64(blocks.leaf_slots[leaf * 32 + lane])
        if slot < 0:
            continue
        n = describe(blocks, known, slot, s)
        code_slot(blocks, s, n, group, s.member_lanes, 0, s.member_codes, 0)
        write_codes(blocks, leaf, lane, s.member_lanes, 0, s.member_codes, 0)
    blocks.leaf_epoch[leaf] = epoch
    blocks.state[RECODE_COUNT] += 1


@inner
def take(blocks: Blocks, known: Known, slot: Int) -> None:
    """Takes a slot out of its place. Its record is still there."""
    home = np.int64(blocks.home[slot])
    if home < 0:
        group = -home - 1
        count = np.int64(blocks.group_count[group])
        base = INLINE_SLOTS * group
        for i in range(count):
            if blocks.group_slots[base + i] == slot:
                blocks.group_slots[base + i] = blocks.group_slots[base + count - 1]
                break
    else:
        leaf = home >> 5
        lane = home & 31
        group = np.int64(blocks.leaf_group[leaf])
        base = leaf * LEAF_LANES + lane
        for k in range(3):
            blocks.lanes[base + 96 * k] = 0
            blocks.lanes[base + 96 * k + 32] = 255
            blocks.lanes[base + 96 * k + 64] = 0
        blocks.leaf_slots[leaf * 32 + lane] = -1
        blocks.leaf_count[leaf] -= 1
        chunk = np.int64(blocks.leaf_parent[leaf])
        if chunk:
            _left_chunk(blocks, group, chunk, leaf)
        elif blocks.leaf_count[leaf] == 0:
            free_leaf(blocks, leaf)
            blocks.group_form[group] = INLINE
    blocks.group_count[group] -= 1
    blocks.state[LIVE] -= 1
    table = np.int64(blocks.group_table[group])
    count_in_table(blocks, table, -1)
    if blocks.table_kind[table] == TOPIC:
        node = np.int64(known.records.words[np.int64(known.records.offset[slot]) + 1])
        _count_topic(blocks, known, node, -1)
        if blocks.group_count[group] == 0:
            blocks.topic_group[node] = 0
    if blocks.group_count[group] == 0:
        free_group(blocks, group)


@inner
def _left_chunk(blocks: Blocks, group: Int, chunk: Int, leaf: Int) -> None:
    """After a slot has left a leaf of a chunk: what is empty goes."""
    blocks.node_live[chunk] -= 1
    blocks.node_gone[chunk] += 1
    if blocks.leaf_count[leaf]:
        return
    position = position_of(blocks, chunk, leaf)
    blocks.child[chunk * 32 + position] = 0
    clear_box(blocks, chunk, position)
    blocks.children[chunk] -= 1
    free_leaf(blocks, leaf)
    if blocks.children[chunk]:
        return
    root = np.int64(blocks.node_parent[chunk])
    free_node(blocks, chunk)
    if not root:
        blocks.group_form[group] = INLINE
        return
    position = position_of(blocks, root, chunk)
    blocks.child[root * 32 + position] = 0
    clear_box(blocks, root, position)
    blocks.children[root] -= 1
    if blocks.children[root]:
        return
    if blocks.group_ref[group] == root:
        blocks.group_ref[group] = blocks.node_parent[root]
    else:
        before = np.int64(blocks.group_ref[group])
        while blocks.node_parent[before] != root:
            before = np.int64(blocks.node_parent[before])
        blocks.node_parent[before] = blocks.node_parent[root]
    free_node(blocks, root)
    if not blocks.group_ref[group]:
        blocks.group_form[group] = INLINE
