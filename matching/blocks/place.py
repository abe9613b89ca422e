"""Putting slots into the index and taking them out: the choice of the access predicate, and the way down to a lane."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch, trailing_zeros
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.blocks.codes import MAX_BOUND, ROOM, Scratch, binding_of, pair_cell
from pastforward.matching.blocks.describe import code_slot, describe, dimension
from pastforward.matching.blocks.lanes import box_test
from pastforward.matching.blocks.pools import (
    clear_box,
    count_in_table,
    find_group,
    find_table,
    free_group,
    free_leaf,
    free_node,
    group_key,
    new_group,
    new_leaf,
    new_node,
    new_table,
)
from pastforward.matching.blocks.tiling import (
    MOST,
    box_of_chunk,
    lay_group,
    put_box,
    split_leaf,
    tile,
)
from pastforward.matching.blocks.view import (
    ALWAYS,
    BOX_BYTES,
    CHUNK,
    EPOCH,
    EQUAL_ONE,
    EQUAL_TWO,
    GROUP_CELLS,
    GROUPS,
    INLINE,
    INLINE_SLOTS,
    LEAF,
    LEAF_LANES,
    LEAVES,
    LIVE,
    MEMBERS,
    MOVE_COUNT,
    NODES,
    PAIR,
    PLANNED,
    RECODE_COUNT,
    ROOT_EPOCH,
    ROOTS,
    SEEN,
    SINGLE,
    SWEEP,
    TABLES,
    TOPIC,
    Blocks,
)
from pastforward.matching.index.records import EQUAL, HAS_TOPIC, OPEN
from pastforward.matching.index.verification import Known

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

# Nanoseconds, measured on one core: what a publication pays for a table that it can use, and for a lane of a leaf that it reaches.
_PROBE: Final = 25.0
_ROOT: Final = 50.0
_LANE: Final = 0.4

_LOOK: Final = 16  # what a look at a group costs the sweep, in slots laid out anew
_SAMPLE: Final = 2  # slots that are looked at before all others are


@inner
def has_room(blocks: Blocks) -> Bool:
    """For one more slot, whatever it sets off: a chunk that splits takes two nodes, two roots and 64 leaves before it gives any back."""
    state = blocks.state
    return (
        state[LEAVES] + 80 < len(blocks.leaf_count)
        and state[NODES] + 8 < len(blocks.children)
        and state[GROUPS] + 4 < len(blocks.group_form)
        and state[TABLES] + 4 < len(blocks.table_kind)
        and 2 * (state[GROUP_CELLS] + 4) < len(blocks.group_cells)
        and 2 * (state[TABLES] + 4) < len(blocks.table_cells)
    )


@inner
def has_room_for(blocks: Blocks, members: Int) -> Bool:
    """For a new group of so many."""
    state = blocks.state
    chunks = (members + MOST - 1) // MOST
    nodes = chunks + (chunks + 31) // 32
    return state[LEAVES] + 32 * chunks + 80 < len(blocks.leaf_count) and state[NODES] + nodes + 8 < len(blocks.children)


@inner
def _extent(members: Float) -> Float:
    """How wide a leaf is in each of two dimensions, as a share of the whole."""
    return np.sqrt(32.0 / (members + 32.0))


@inner
def _rough(fraction: Float) -> Float:
    """In steps of four: a slot shall not leave a large group, whose leaves are small, for a range that is a little narrower."""
    step = 0.64  # so that a tenth, a hundredth and the like lie well inside a step
    while fraction <= step * 0.25 and step > 1e-6:
        step *= 0.25
    return step


@inner
def _one_cost(blocks: Blocks, kind: Int, k: Int, s: Scratch) -> Float:
    """Nanoseconds that a slot adds to each publication if it is put under an access predicate on constraint `k` alone. A table's own
    cost is shared by its members and, in part, by those that could still come."""
    a = np.int64(s.attribute[k])
    members = np.float64(blocks.alone[2 * a + (1 if kind == SINGLE else 0)])
    carried = s.carried[k]
    if kind == EQUAL_ONE:
        return _LANE * s.fraction[k] + _PROBE * carried / (members + 0.5 * np.float64(blocks.constrained[a]) + 1.0)
    extent = 32.0 / (members + 0.1 * np.float64(blocks.constrained[a]) + 32.0)
    return _LANE * min(s.fraction[k] + carried * extent, carried) + _ROOT * carried / (members + 1.0)


@inner
def _values_cost(blocks: Blocks, k: Int, m: Int, s: Scratch) -> Float:
    """The same for the values of two."""
    at = pair_cell(EQUAL_TWO, np.int64(s.attribute[k]), np.int64(s.attribute[m]))
    members = np.float64(blocks.pairs[at + MEMBERS]) + 0.5 * np.float64(blocks.pairs[at + SEEN])
    return _LANE * s.fraction[k] * s.fraction[m] + _PROBE * s.carried[k] * s.carried[m] / (members + 1.0)


@inner
def _ranges_cost(blocks: Blocks, k: Int, m: Int, s: Scratch) -> Float:
    """The same for the ranges of two. The more members, the smaller their leaves: so slots gather under few pairs."""
    at = pair_cell(PAIR, np.int64(s.attribute[k]), np.int64(s.attribute[m]))
    members = max(
        np.float64(max(blocks.pairs[at + MEMBERS], blocks.pairs[at + PLANNED])),
        0.02 * np.float64(blocks.pairs[at + SEEN]),
    )
    extent = _extent(members)
    carried = s.carried[k]
    also_carried = s.carried[m]
    reach = min(s.rough[k] + extent * carried, carried) * min(s.rough[m] + extent * also_carried, also_carried)
    return _LANE * reach + _ROOT * carried * also_carried / (members + 1.0)


@inner
def choose(blocks: Blocks, known: Known, slot: Int, n: Int, hashing: Bool, s: Scratch) -> tuple[Int, Int, Int, Float]:
    """The cheapest access predicate of a slot: kind of table, which constraints (-1: none), and expected nanoseconds a publication."""
    kind = ALWAYS
    first = -1
    second = -1
    best = _LANE
    words = known.records.words
    at = np.int64(known.records.offset[slot])
    if hashing and words[at] & np.uint32(HAS_TOPIC):
        cost = _topic_cost(blocks, known, np.int64(words[at + 1]))
        if cost < best:
            best = cost
            kind = TOPIC
    # with many attributes, pairs of the eight most selective
    limit = 3.0
    if n > 8:
        ordered = np.sort(s.fraction[:n])
        limit = ordered[7]
    for k in range(n):
        s.rough[k] = _rough(s.fraction[k])
        # with many attributes cells lie anywhere: all are asked for before the first is read
        if s.fraction[k] <= limit:
            for m in range(k + 1, n):
                prefetch(blocks.pairs, pair_cell(PAIR, np.int64(s.attribute[k]), np.int64(s.attribute[m])))
    for k in range(n):
        if s.kind[k] == OPEN or s.fraction[k] > limit:
            continue
        coded = s.attribute[k] < MAX_BOUND and blocks.split_row[2 * s.attribute[k]] != 0
        valued = hashing and s.kind[k] == EQUAL
        for m in range(k + 1, n):
            if s.kind[m] == OPEN or s.fraction[m] > limit:
                continue
            # no cost is below that of the lanes reached: what cannot win is not looked at further
            if valued and s.kind[m] == EQUAL and _LANE * s.fraction[k] * s.fraction[m] < best:
                cost = _values_cost(blocks, k, m, s)
                if cost < best:
                    best = cost
                    kind = EQUAL_TWO
                    first = k
                    second = m
            least = _LANE * min(s.rough[k], s.carried[k]) * min(s.rough[m], s.carried[m])
            if coded and least < best and s.attribute[m] < MAX_BOUND and blocks.split_row[2 * s.attribute[m]]:
                cost = _ranges_cost(blocks, k, m, s)
                if cost < best:
                    best = cost
                    kind = PAIR
                    first = k
                    second = m
    for k in range(n):
        if s.kind[k] == OPEN or s.fraction[k] > limit or _LANE * s.fraction[k] >= best:
            continue
        if hashing and s.kind[k] == EQUAL:
            cost = _one_cost(blocks, EQUAL_ONE, k, s)
            if cost < best:
                best = cost
                kind = EQUAL_ONE
                first = k
                second = -1
        if s.attribute[k] < MAX_BOUND and blocks.split_row[2 * s.attribute[k]] != 0:
            cost = _one_cost(blocks, SINGLE, k, s)
            if cost < best:
                best = cost
                kind = SINGLE
                first = k
                second = -1
    return kind, first, second, best


@inner
def _topic_cost(blocks: Blocks, known: Known, node: Int) -> Float:
    """Publications are taken to be spread over topics as subscriptions are."""
    share = np.float64(known.topics.below[node]) / max(np.float64(known.topics.below[0]), 1.0)
    return _LANE * share + _PROBE / (np.float64(blocks.state[LIVE]) + 1.0)


@inner
def _cost_now(blocks: Blocks, known: Known, slot: Int, table: Int, n: Int, s: Scratch) -> Float:
    """What the access predicate costs that the slot is under. The slot has just been through `choose`."""
    kind = np.int64(blocks.table_kind[table])
    if kind == ALWAYS:
        return _LANE
    if kind == TOPIC:
        return _topic_cost(blocks, known, np.int64(known.records.words[np.int64(known.records.offset[slot]) + 1]))
    k = -1
    m = -1
    for i in range(n):
        if s.attribute[i] == blocks.table_a[table]:
            k = i
        elif s.attribute[i] == blocks.table_b[table]:
            m = i
    if kind == EQUAL_TWO:
        return _values_cost(blocks, k, m, s)
    if kind == PAIR:
        return _ranges_cost(blocks, k, m, s)
    return _one_cost(blocks, kind, k, s)


@inner
def _group_for(blocks: Blocks, known: Known, slot: Int, kind: Int, first: Int, second: Int, s: Scratch) -> Int:
    """Finds or makes the group of an access predicate."""
    a = np.int64(s.attribute[first]) if first >= 0 else np.int64(-1)
    b = np.int64(s.attribute[second]) if second >= 0 else np.int64(-1)
    value_a = np.uint64(0)
    value_b = np.uint64(0)
    low_a = np.uint64(0)
    low_b = np.uint64(0)
    if kind == EQUAL_TWO or kind == EQUAL_ONE:
        value_a = s.value[first]
        low_a = s.low[first]
        if second >= 0:
            value_b = s.value[second]
            low_b = s.low[second]
    elif kind == TOPIC:
        value_a = np.uint64(known.records.words[np.int64(known.records.offset[slot]) + 1])
    table = find_table(blocks, kind, a, b)
    if not table:
        table = new_table(blocks, kind, a, b)
    key = group_key(table, value_a, value_b)
    group = find_group(blocks, key)
    if not group:
        group = new_group(blocks, table, key, low_a, low_b)
        if kind == TOPIC:
            blocks.topic_group[np.int64(value_a)] = group
    return group


@inner
def _write_codes(blocks: Blocks, leaf: Int, lane: Int, lanes: U8, at: Int, codes: U8, codes_at: Int) -> None:
    for k in range(9):
        blocks.lanes[leaf * LEAF_LANES + 32 * k + lane] = lanes[at + k]
    if dimension(blocks, np.int64(blocks.leaf_group[leaf]), 0) >= 0:
        for k in range(4):
            blocks.leaf_codes[leaf * 128 + 4 * lane + k] = codes[codes_at + k]


@inner
def _write_lane(blocks: Blocks, leaf: Int, lane: Int, slot: Int, lanes: U8, at: Int, codes: U8, codes_at: Int) -> None:
    _write_codes(blocks, leaf, lane, lanes, at, codes, codes_at)
    blocks.leaf_slots[leaf * 32 + lane] = slot
    blocks.leaf_count[leaf] += 1
    blocks.home[slot] = leaf * 32 + lane


@inner
def _free_lane(blocks: Blocks, leaf: Int) -> Int:
    lane = np.int64(blocks.leaf_count[leaf])
    if blocks.leaf_slots[leaf * 32 + lane] < 0:
        return lane  # nobody has left
    lane = 0
    while blocks.leaf_slots[leaf * 32 + lane] >= 0:
        lane += 1
    return lane


@inner
def _open_leaf(blocks: Blocks, known: Known, group: Int, count: Int, s: Scratch) -> None:
    """A group leaves its inline form: its slots move into a leaf."""
    epoch = blocks.state[EPOCH]
    leaf = new_leaf(blocks, group, 0, epoch)
    for i in range(count):
        slot = np.int64(blocks.group_slots[INLINE_SLOTS * group + i])
        n = describe(blocks, known, slot, s)
        code_slot(blocks, s, n, group, s.member_lanes, 0, s.member_codes, 0)
        _write_lane(blocks, leaf, i, slot, s.member_lanes, 0, s.member_codes, 0)
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
def _put_in_chunk(
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
    _write_lane(blocks, leaf, _free_lane(blocks, leaf), slot, lanes, at, codes, codes_at)
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
            _widen(blocks, root, _position_of(blocks, root, chunk), which, cell, low, high)


@inner
def _position_of(blocks: Blocks, node: Int, below: Int) -> Int:
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


@inner
def _assigned(blocks: Blocks, known: Known, slot: Int, n: Int, hashing: Bool, s: Scratch) -> Int:
    """The group that a slot shall be in. It is counted as a member of its table, but not in the group yet."""
    kind, first, second, _cost = choose(blocks, known, slot, n, hashing, s)
    group = _group_for(blocks, known, slot, kind, first, second, s)
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
                _write_lane(blocks, leaf, k, np.int64(slots[at]), lanes, 9 * at, codes, 4 * at)
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
            _write_lane(blocks, leaf, _free_lane(blocks, leaf), slot, lanes, at, codes, codes_at)
            return
        _open_chunk(blocks, known, group, s)
    _put_in_chunk(blocks, known, group, slot, lanes, at, codes, codes_at, s)


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
        _write_codes(blocks, leaf, lane, s.member_lanes, 0, s.member_codes, 0)
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
    position = _position_of(blocks, chunk, leaf)
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
    position = _position_of(blocks, root, chunk)
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
    return 2.0 * best <= _cost_now(blocks, known, slot, table, n, s)


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
