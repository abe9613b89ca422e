"""Drawing the boxes: the members of a chunk are laid out anew so that each leaf's box is small.

A group reached by the presence of attributes has those as dimensions: its chunks are cut like a k-d tree, at the median of the wider
side. Any other group is sorted by its members' first lane: leaves of one attribute then get a box on that.
"""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.codes import binding_of
from pastforward.matching.blocks.describe import code_slot, describe, dimension
from pastforward.matching.blocks.pools import free_leaf, new_leaf, new_node
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.view import (
    BOX_BYTES,
    CHUNK,
    EPOCH,
    LEAF_LANES,
    ROOT_EPOCH,
    ROOTS,
    SPLIT_COUNT,
    TILE_COUNT,
    Blocks,
)
from pastforward.matching.index.verification import Known

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]

FILL: Final = 28  # members a leaf gets: an eighth is left for what comes
MOST: Final = 840  # members that a chunk is laid out with: more become two chunks. Two leaves are left to be split


@inner
def put_box(blocks: Blocks, node: Int, position: Int, which: Int, cell: Int, low: Int, high: Int) -> None:
    base = node * BOX_BYTES + 96 * which + position
    blocks.boxes[base] = cell
    blocks.boxes[base + 32] = low
    blocks.boxes[base + 64] = high - low


@inner
def _collect_leaf(blocks: Blocks, known: Known, leaf: Int, recode: Bool, s: Scratch, n: Int) -> Int:
    """Appends the members of a leaf, with lanes and codes of today, to the `n` that are there."""
    group = np.int64(blocks.leaf_group[leaf])
    if recode:
        # records lie anywhere: all are asked for before the first is read
        for lane in range(32):
            if blocks.leaf_slots[leaf * 32 + lane] >= 0:
                prefetch(known.records.offset, np.int64(blocks.leaf_slots[leaf * 32 + lane]))
        for lane in range(32):
            if blocks.leaf_slots[leaf * 32 + lane] >= 0:
                prefetch(known.records.words, np.int64(known.records.offset[blocks.leaf_slots[leaf * 32 + lane]]))
    for lane in range(32):
        slot = np.int64(blocks.leaf_slots[leaf * 32 + lane])
        if slot < 0:
            continue
        s.member[n] = slot
        s.order[n] = n
        if recode:
            found = describe(blocks, known, slot, s)
            code_slot(blocks, s, found, group, s.member_lanes, 9 * n, s.member_codes, 4 * n)
        else:
            for k in range(9):
                s.member_lanes[9 * n + k] = blocks.lanes[leaf * LEAF_LANES + 32 * k + lane]
            for k in range(4):
                s.member_codes[4 * n + k] = blocks.leaf_codes[leaf * 128 + 4 * lane + k]
        n += 1
    return n


@inner
def _collect(blocks: Blocks, known: Known, chunk: Int, s: Scratch) -> Int:
    """Members of a chunk; its leaves are given back."""
    n = 0
    recode = blocks.node_epoch[chunk] != blocks.state[EPOCH]
    blocks.node_epoch[chunk] = blocks.state[EPOCH]
    for position in range(32):
        leaf = np.int64(blocks.child[chunk * 32 + position])
        if leaf:
            n = _collect_leaf(blocks, known, leaf, recode, s, n)
            free_leaf(blocks, leaf)
            blocks.child[chunk * 32 + position] = 0
    return n


@inner
def _sort_key(s: Scratch, member: Int, which: Int) -> Int:
    """Twice the middle in a dimension; which = 2: cell and low code of the first lane."""
    if which == 2:
        return np.int64(s.member_lanes[9 * member]) * 256 + np.int64(s.member_lanes[9 * member + 1])
    return np.int64(s.member_codes[4 * member + 2 * which]) + np.int64(s.member_codes[4 * member + 2 * which + 1])


@inner
def _sort(s: Scratch, begin: Int, end: Int, which: Int) -> None:
    """A counting sort of `order[begin:end]`."""
    keys = 32 * 256 if which == 2 else 512
    if end - begin < 48 and which != 2:
        for i in range(begin + 1, end):
            member = s.order[i]
            key = _sort_key(s, member, which)
            k = i
            while k > begin and _sort_key(s, s.order[k - 1], which) > key:
                s.order[k] = s.order[k - 1]
                k -= 1
            s.order[k] = member
        return
    s.counts[:keys] = 0
    for i in range(begin, end):
        s.counts[_sort_key(s, s.order[i], which)] += 1
    total = begin
    for k in range(keys):
        count = s.counts[k]
        s.counts[k] = total
        total += count
    for i in range(begin, end):
        key = _sort_key(s, s.order[i], which)
        s.other[s.counts[key]] = s.order[i]
        s.counts[key] += 1
    for i in range(begin, end):
        s.order[i] = s.other[i]


@inner
def _wider(s: Scratch, begin: Int, end: Int) -> Int:
    """The dimension in which the middles spread more."""
    spread_0 = 0
    for which in range(2):
        lowest = 1 << 30
        highest = -1
        for i in range(begin, end):
            key = _sort_key(s, s.order[i], which)
            lowest = min(lowest, key)
            highest = max(highest, key)
        if which == 0:
            spread_0 = highest - lowest
        elif highest - lowest > spread_0:
            return 1
    return 0


@inner
def _cut(s: Scratch, begin: Int, end: Int, leaves: Int, dimensions: Int) -> Int:
    """Orders members so that each leaf's are together; `bounds` gets where leaves end. Returns the number of leaves."""
    made = 0
    if dimensions == 0:
        _sort(s, begin, end, 2)
        at = begin
        while at < end:
            cell = s.member_lanes[9 * s.order[at]]
            stop = at
            while stop < end and stop - at < FILL and s.member_lanes[9 * s.order[stop]] == cell:
                stop += 1
            # a leaf that is not full is made only while the others can still take the rest
            if end - stop > (leaves - made - 1) * FILL:
                stop = min(at + FILL, end)
            s.bounds[made] = stop
            made += 1
            at = stop
        return made
    stack_begin = np.empty(64, np.int64)
    stack_end = np.empty(64, np.int64)
    stack_leaves = np.empty(64, np.int64)
    depth = 1
    stack_begin[0] = begin
    stack_end[0] = end
    stack_leaves[0] = leaves
    while depth:
        depth -= 1
        b = stack_begin[depth]
        e = stack_end[depth]
        n = stack_leaves[depth]
        if n == 1:
            s.bounds[made] = e
            made += 1
            continue
        which = _wider(s, b, e) if dimensions == 2 else 0
        _sort(s, b, e, which)
        half = n // 2
        middle = b + (e - b) * half // n
        # the left part is cut first, so that bounds rise
        stack_begin[depth] = middle
        stack_end[depth] = e
        stack_leaves[depth] = n - half
        stack_begin[depth + 1] = b
        stack_end[depth + 1] = middle
        stack_leaves[depth + 1] = half
        depth += 2
    return made


@inner
def _lay(blocks: Blocks, chunk: Int, s: Scratch, begin: Int, end: Int) -> None:
    """Fills an empty chunk with `order[begin:end]`."""
    group = np.int64(blocks.node_group[chunk])
    a = dimension(blocks, group, 0)
    b = dimension(blocks, group, 1)
    dimensions = (1 if a >= 0 else 0) + (1 if b >= 0 else 0)
    leaves = min(max((end - begin + FILL - 1) // FILL, 1), 32)
    made = _cut(s, begin, end, leaves if dimensions else 32, dimensions)
    at = begin
    for position in range(made):
        stop = np.int64(s.bounds[position])
        _lay_leaf(blocks, chunk, position, s, at, stop)
        at = stop
    blocks.children[chunk] = made
    blocks.node_live[chunk] = end - begin
    blocks.node_gone[chunk] = 0


@inner
def _lay_leaf(blocks: Blocks, chunk: Int, position: Int, s: Scratch, begin: Int, end: Int) -> None:
    """A new leaf of `order[begin:end]`, and its box."""
    group = np.int64(blocks.node_group[chunk])
    epoch = np.int64(blocks.node_epoch[chunk])
    leaf = new_leaf(blocks, group, chunk, epoch)
    blocks.child[chunk * 32 + position] = leaf
    for lane in range(end - begin):
        member = np.int64(s.order[begin + lane])
        slot = s.member[member]
        blocks.leaf_slots[leaf * 32 + lane] = slot
        blocks.home[slot] = leaf * 32 + lane
        for k in range(9):
            blocks.lanes[leaf * LEAF_LANES + 32 * k + lane] = s.member_lanes[9 * member + k]
        if dimension(blocks, group, 0) >= 0:
            for k in range(4):
                blocks.leaf_codes[leaf * 128 + 4 * lane + k] = s.member_codes[4 * member + k]
    blocks.leaf_count[leaf] = end - begin
    for which in range(2):
        attribute = dimension(blocks, group, which)
        if attribute < 0:
            put_box(blocks, chunk, position, which, 0, 0, 255)
            continue
        lowest = 255
        highest = 0
        for i in range(begin, end):
            member = np.int64(s.order[i])
            lowest = min(lowest, np.int64(s.member_codes[4 * member + 2 * which]))
            highest = max(highest, np.int64(s.member_codes[4 * member + 2 * which + 1]))
        cell = np.int64(blocks.cell[binding_of(blocks, attribute, epoch)])
        put_box(blocks, chunk, position, which, cell, lowest, highest)
    if dimension(blocks, group, 0) < 0:
        draw_first_lane(blocks, chunk, position, leaf)


@inner
def split_leaf(blocks: Blocks, known: Known, chunk: Int, position: Int, s: Scratch) -> None:
    """Makes two of a full leaf; the chunk has room for one more."""
    group = np.int64(blocks.node_group[chunk])
    leaf = np.int64(blocks.child[chunk * 32 + position])
    n = _collect_leaf(blocks, known, leaf, False, s, 0)
    free_leaf(blocks, leaf)
    which = 2
    if dimension(blocks, group, 1) >= 0:
        which = _wider(s, 0, n)
    elif dimension(blocks, group, 0) >= 0:
        which = 0
    _sort(s, 0, n, which)
    other = 0
    while blocks.child[chunk * 32 + other]:
        other += 1
    _lay_leaf(blocks, chunk, position, s, 0, n // 2)
    _lay_leaf(blocks, chunk, other, s, n // 2, n)
    blocks.children[chunk] += 1


@inner
def draw_first_lane(blocks: Blocks, chunk: Int, position: Int, leaf: Int) -> None:
    """The box of a leaf in a group without dimensions: its first lanes', if they are of one cell; else it admits everything."""
    base = leaf * LEAF_LANES
    cell = -1
    lowest = 255
    highest = 0
    for lane in range(32):
        if blocks.leaf_slots[leaf * 32 + lane] < 0:
            continue
        this = np.int64(blocks.lanes[base + lane])
        low = np.int64(blocks.lanes[base + 32 + lane])
        high = low + np.int64(blocks.lanes[base + 64 + lane])
        if cell >= 0 and this != cell:
            put_box(blocks, chunk, position, 0, 0, 0, 255)
            return
        cell = this
        lowest = min(lowest, low)
        highest = max(highest, high)
    put_box(blocks, chunk, position, 0, max(cell, 0), lowest, max(highest, lowest))


@inner
def box_of_chunk(blocks: Blocks, chunk: Int) -> None:
    """Redraws a chunk's own box in its root from those of its leaves."""
    root = np.int64(blocks.node_parent[chunk])
    if not root:
        return
    position = 0
    while blocks.child[root * 32 + position] != chunk:
        position += 1
    base = chunk * BOX_BYTES
    for which in range(2):
        cell = -1
        lowest = 255
        highest = 0
        mixed = False
        for p in range(32):
            if not blocks.child[chunk * 32 + p]:
                continue
            this = np.int64(blocks.boxes[base + 96 * which + p])
            low = np.int64(blocks.boxes[base + 96 * which + 32 + p])
            high = low + np.int64(blocks.boxes[base + 96 * which + 64 + p])
            if low == 0 or (cell >= 0 and this != cell):
                mixed = True
                break
            cell = this
            lowest = min(lowest, low)
            highest = max(highest, high)
        if mixed or cell < 0:
            put_box(blocks, root, position, which, 0, 0, 255)
        else:
            put_box(blocks, root, position, which, cell, lowest, highest)


@inner
def hang_in_root(blocks: Blocks, group: Int, chunk: Int) -> None:
    """Below the first root of the group that has room, or a new one."""
    root = np.int64(blocks.group_ref[group])
    while root and blocks.children[root] == 32:
        root = np.int64(blocks.node_parent[root])
    if not root:
        root = new_node(blocks, group, ROOT_EPOCH)
        blocks.node_parent[root] = blocks.group_ref[group]
        blocks.group_ref[group] = root
    position = 0
    while blocks.child[root * 32 + position]:
        position += 1
    blocks.child[root * 32 + position] = chunk
    blocks.children[root] += 1
    blocks.node_parent[chunk] = root


@inner
def tile(blocks: Blocks, known: Known, chunk: Int, s: Scratch) -> None:
    """Lays out a chunk anew, or, if it holds more than MOST, in two."""
    group = np.int64(blocks.node_group[chunk])
    n = _collect(blocks, known, chunk, s)
    epoch = np.int64(blocks.node_epoch[chunk])
    for position in range(32):
        put_box(blocks, chunk, position, 0, 0, 255, 255)
        put_box(blocks, chunk, position, 1, 0, 255, 255)
    if n <= MOST:
        _lay(blocks, chunk, s, 0, n)
        blocks.state[TILE_COUNT] += 1
        box_of_chunk(blocks, chunk)
        return
    a = dimension(blocks, group, 0)
    b = dimension(blocks, group, 1)
    which = 2
    if b >= 0:
        which = _wider(s, 0, n)
    elif a >= 0:
        which = 0
    _sort(s, 0, n, which)
    half = n // 2
    other = new_node(blocks, group, epoch)
    if blocks.group_form[group] == CHUNK:
        blocks.group_form[group] = ROOTS
        blocks.group_ref[group] = 0
        hang_in_root(blocks, group, chunk)
    hang_in_root(blocks, group, other)
    _lay(blocks, other, s, half, n)
    _lay(blocks, chunk, s, 0, half)
    box_of_chunk(blocks, chunk)
    box_of_chunk(blocks, other)
    blocks.state[SPLIT_COUNT] += 1


@inner
def lay_group(blocks: Blocks, group: Int, s: Scratch, n: Int) -> None:
    """Lays out a group that has no leaves yet: its `n` members are in the scratch. Cut in halves until each part is a chunk, so that what
    is near each other stands together, in memory too."""
    epoch = blocks.state[EPOCH]
    chunks = (n + MOST - 1) // MOST
    dimensions = 0
    if dimension(blocks, group, 0) >= 0:
        dimensions = 2 if dimension(blocks, group, 1) >= 0 else 1
    if chunks == 1:
        chunk = new_node(blocks, group, epoch)
        blocks.group_form[group] = CHUNK
        blocks.group_ref[group] = chunk
        _lay(blocks, chunk, s, 0, n)
        return
    blocks.group_form[group] = ROOTS
    blocks.group_ref[group] = 0
    if dimensions < 2:
        _sort(s, 0, n, 2 if dimensions == 0 else 0)
    stack_begin = np.empty(64, np.int64)
    stack_end = np.empty(64, np.int64)
    stack_chunks = np.empty(64, np.int64)
    depth = 1
    stack_begin[0] = 0
    stack_end[0] = n
    stack_chunks[0] = chunks
    while depth:
        depth -= 1
        begin = stack_begin[depth]
        end = stack_end[depth]
        parts = stack_chunks[depth]
        if parts == 1:
            chunk = new_node(blocks, group, epoch)
            hang_in_root(blocks, group, chunk)
            _lay(blocks, chunk, s, begin, end)
            box_of_chunk(blocks, chunk)
            continue
        if dimensions == 2:
            _sort(s, begin, end, _wider(s, begin, end))
        half = parts // 2
        middle = begin + (end - begin) * half // parts
        stack_begin[depth] = middle
        stack_end[depth] = end
        stack_chunks[depth] = parts - half
        stack_begin[depth + 1] = begin
        stack_end[depth + 1] = middle
        stack_chunks[depth + 1] = half
        depth += 2
