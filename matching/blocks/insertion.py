"""The way down to a lane: which chunk of a group, which leaf of a chunk, and the boxes that become wider for it."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import trailing_zeros
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.codes import binding_of
from pastforward.matching.blocks.describe import dimension
from pastforward.matching.blocks.lanes import box_test
from pastforward.matching.blocks.pools import (
    new_leaf,
)
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.tiling import (
    MOST,
    box_of_chunk,
    put_box,
    split_leaf,
    tile,
)
from pastforward.matching.blocks.view import (
    BOX_BYTES,
    EPOCH,
    LEAF_LANES,
    ROOTS,
    Blocks,
)
from pastforward.matching.index.verification import Known

U8 = npt.NDArray[np.uint8]


@inner
def write_codes(blocks: Blocks, leaf: Int, lane: Int, lanes: U8, at: Int, codes: U8, codes_at: Int) -> None:
    for k in range(9):
        blocks.lanes[leaf * LEAF_LANES + 32 * k + lane] = lanes[at + k]
    if dimension(blocks, np.int64(blocks.leaf_group[leaf]), 0) >= 0:
        for k in range(4):
            blocks.leaf_codes[leaf * 128 + 4 * lane + k] = codes[codes_at + k]


@inner
def write_lane(blocks: Blocks, leaf: Int, lane: Int, slot: Int, lanes: U8, at: Int, codes: U8, codes_at: Int) -> None:
    write_codes(blocks, leaf, lane, lanes, at, codes, codes_at)
    blocks.leaf_slots[leaf * 32 + lane] = slot
    blocks.leaf_count[leaf] += 1
    blocks.home[slot] = leaf * 32 + lane


@inner
def free_lane(blocks: Blocks, leaf: Int) -> Int:
    lane = np.int64(blocks.leaf_count[leaf])
    if blocks.leaf_slots[leaf * 32 + lane] < 0:
        return lane  # nobody has left
    lane = 0
    while blocks.leaf_slots[leaf * 32 + lane] >= 0:
        lane += 1
    return lane


@inner
def _enlargement(blocks: Blocks, node: Int, position: Int, low_a: Int, high_a: Int, low_b: Int, high_b: Int) -> Int:
    """How much area a box gains, then how large it is: smaller is better."""
    base = node * BOX_BYTES + position
    first_a = np.int64(blocks.boxes[base + 32])
    last_a = first_a + np.int64(blocks.boxes[base + 64])
    first_b = np.int64(blocks.boxes[base + 128])
    last_b = first_b + np.int64(blocks.boxes[base + 160])
    before = (last_a - first_a + 1) * (last_b - first_b + 1)
    after = (max(last_a, high_a) - min(first_a, low_a) + 1) * (max(last_b, high_b) - min(first_b, low_b) + 1)
    return (after - before) * 65536 + after


@inner
def _chunk_by_first_lane(blocks: Blocks, group: Int, cell: Int, low: Int) -> Int:
    """In a group without dimensions: the chunk with the nearest leaf of the same cell that has room, else the emptiest. Only chunks of
    the newest root are looked at."""
    root = np.int64(blocks.group_ref[group])
    emptiest = np.int64(0)
    nearest = np.int64(0)
    least = np.int64(256)
    for position in range(32):
        chunk = np.int64(blocks.child[root * 32 + position])
        if not chunk:
            continue
        if not emptiest or blocks.node_live[chunk] < blocks.node_live[emptiest]:
            emptiest = chunk
        base = chunk * BOX_BYTES
        for leaf_at in range(32):
            leaf = np.int64(blocks.child[chunk * 32 + leaf_at])
            if not leaf or blocks.boxes[base + leaf_at] != cell or blocks.leaf_count[leaf] == 32:
                continue
            first = np.int64(blocks.boxes[base + 32 + leaf_at])
            last = first + np.int64(blocks.boxes[base + 64 + leaf_at])
            if first == 0:
                continue
            away = max(first - low, low - last, 0)
            if away < least:
                least = away
                nearest = chunk
    return nearest if nearest else emptiest


@inner
def _chunk_for(
    blocks: Blocks, group: Int, low_a: Int, high_a: Int, low_b: Int, high_b: Int, cell: Int, low: Int, s: Scratch
) -> Int:
    """The chunk whose box grows least; those that hold the middle are looked at first."""
    a = dimension(blocks, group, 0)
    b = dimension(blocks, group, 1)
    if a < 0:
        return _chunk_by_first_lane(blocks, group, cell, low)
    epoch = blocks.state[EPOCH]
    s.table[:] = 0
    for which in range(2):
        attribute = a if which == 0 else b
        if attribute < 0:
            continue
        column = np.int64(blocks.cell[binding_of(blocks, attribute, epoch)])
        code = (low_a + high_a) // 2 if which == 0 else (low_b + high_b) // 2
        place = column + (16 if column >= 16 else 0)
        s.table[place] = code
        s.table[place + 16] = code
    best = np.int64(0)
    least = np.int64(1) << 60
    for everything in range(2):
        root = np.int64(blocks.group_ref[group])
        while root:
            mask = np.uint32(0xFFFFFFFF)
            if not everything:
                mask = box_test(blocks.boxes, root * BOX_BYTES, s.table, s.table, 0)
            while mask:
                position = trailing_zeros(mask)
                mask &= mask - np.uint32(1)
                chunk = np.int64(blocks.child[root * 32 + position])
                if not chunk:
                    continue
                cost = _enlargement(blocks, root, position, low_a, high_a, low_b, high_b)
                if cost < least:
                    least = cost
                    best = chunk
            root = np.int64(blocks.node_parent[root])
        if best:
            break
    return best


@inner
def _leaf_for(
    blocks: Blocks,
    chunk: Int,
    low_a: Int,
    high_a: Int,
    low_b: Int,
    high_b: Int,
    cell: Int,
    low: Int,
    high: Int,
    full_too: Bool,
) -> Int:
    """Position of the leaf that suits best, of all or of those with room; -1 if there is none."""
    plane = dimension(blocks, np.int64(blocks.node_group[chunk]), 0) >= 0
    best = np.int64(-1)
    least = np.int64(1) << 60
    for position in range(32):
        leaf = np.int64(blocks.child[chunk * 32 + position])
        if not leaf or (blocks.leaf_count[leaf] == 32 and not full_too):
            continue
        if plane:
            cost = _enlargement(blocks, chunk, position, low_a, high_a, low_b, high_b)
        else:
            base = chunk * BOX_BYTES + position
            first = np.int64(blocks.boxes[base + 32])
            last = first + np.int64(blocks.boxes[base + 64])
            if first == 0:
                cost = np.int64(40)  # admits everything already
            elif blocks.boxes[base] == cell:
                cost = max(last, high) - min(first, low) - (last - first)
            else:
                cost = np.int64(300)  # would have to admit everything
        if cost < least:
            least = cost
            best = position
    if not plane and least >= 40 and blocks.children[chunk] < 32:
        return np.int64(-1)  # a leaf of its own is better
    return best


@inner
def put_in_chunk(
    blocks: Blocks, known: Known, group: Int, slot: Int, lanes: U8, at: Int, codes: U8, codes_at: Int, s: Scratch
) -> None:
    a = dimension(blocks, group, 0)
    b = dimension(blocks, group, 1)
    epoch = blocks.state[EPOCH]
    low_a = np.int64(codes[codes_at])
    high_a = np.int64(codes[codes_at + 1])
    low_b = np.int64(codes[codes_at + 2])
    high_b = np.int64(codes[codes_at + 3])
    cell = np.int64(lanes[at])
    low = np.int64(lanes[at + 1])
    high = low + np.int64(lanes[at + 2])
    chunk = np.int64(blocks.group_ref[group])
    while True:
        if blocks.group_form[group] == ROOTS:
            chunk = _chunk_for(blocks, group, low_a, high_a, low_b, high_b, cell, low, s)
        if blocks.node_epoch[chunk] != epoch:
            tile(blocks, known, chunk, s)
            continue
        # without dimensions leaves are filled up; with them they are split, so that boxes stay small
        position = _leaf_for(blocks, chunk, low_a, high_a, low_b, high_b, cell, low, high, a >= 0)
        if position < 0:
            if blocks.children[chunk] == 32:
                tile(blocks, known, chunk, s)  # which makes it two
                continue
            position = 0
            while blocks.child[chunk * 32 + position]:
                position += 1
            blocks.child[chunk * 32 + position] = new_leaf(blocks, group, chunk, epoch)
            blocks.children[chunk] += 1
            put_box(blocks, chunk, position, 1, 0, 0, 255)
            break
        if blocks.leaf_count[blocks.child[chunk * 32 + position]] == 32:
            if blocks.children[chunk] < 32:
                split_leaf(blocks, known, chunk, position, s)
                continue
            if blocks.node_live[chunk] > MOST:
                tile(blocks, known, chunk, s)  # which makes it two
                continue
            # many small leaves and a full one: the next best will do
            position = _leaf_for(blocks, chunk, low_a, high_a, low_b, high_b, cell, low, high, False)
        break
    leaf = np.int64(blocks.child[chunk * 32 + position])
    alone = blocks.leaf_count[leaf] == 0
    write_lane(blocks, leaf, free_lane(blocks, leaf), slot, lanes, at, codes, codes_at)
    blocks.node_live[chunk] += 1
    if a < 0:
        _widen_first_lane(blocks, chunk, position, cell, low, high, alone)
        return
    for which in range(2):
        attribute = a if which == 0 else b
        low = low_a if which == 0 else low_b
        high = high_a if which == 0 else high_b
        if attribute < 0:
            continue
        cell = np.int64(blocks.cell[binding_of(blocks, attribute, epoch)])
        _widen(blocks, chunk, position, which, cell, low, high)
        root = np.int64(blocks.node_parent[chunk])
        if root:
            _widen(blocks, root, position_of(blocks, root, chunk), which, cell, low, high)


@inner
def position_of(blocks: Blocks, node: Int, below: Int) -> Int:
    position = 0
    while blocks.child[node * 32 + position] != below:
        position += 1
    return position


@inner
def _widen_first_lane(blocks: Blocks, chunk: Int, position: Int, cell: Int, low: Int, high: Int, alone: Bool) -> None:
    """What `draw_first_lane` would draw, from the box that is there and one more first lane."""
    base = chunk * BOX_BYTES + position
    first = np.int64(blocks.boxes[base + 32])
    last = first + np.int64(blocks.boxes[base + 64])
    if alone:
        put_box(blocks, chunk, position, 0, cell, low, high)
    elif first == 0 or (blocks.boxes[base] == cell and first <= low and high <= last):
        return  # it holds the lane already
    elif blocks.boxes[base] == cell:
        put_box(blocks, chunk, position, 0, cell, min(first, low), max(last, high))
    else:
        put_box(blocks, chunk, position, 0, 0, 0, 255)
    box_of_chunk(blocks, chunk)


@inner
def _widen(blocks: Blocks, node: Int, position: Int, which: Int, cell: Int, low: Int, high: Int) -> None:
    base = node * BOX_BYTES + 96 * which + position
    first = np.int64(blocks.boxes[base + 32])
    last = first + np.int64(blocks.boxes[base + 64])
    put_box(blocks, node, position, which, cell, min(low, first), max(high, last))
