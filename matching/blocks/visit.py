"""From publications to candidates: which groups a publication reaches, which leaves, which lanes.

Without low tables publications are points. None is a type of its own to Numba, so the two forms are compiled apart.
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from numba import njit

from matching.blocks.lanes import TABLE, box_test, box_test_interval, leaf_test, leaf_test_interval
from matching.blocks.pools import find_group, find_table, group_key
from matching.blocks.view import (
    ALWAYS,
    BOX_BYTES,
    CHUNK,
    EQUAL_TWO,
    INLINE,
    INLINE_SLOTS,
    LEAF,
    LEAF_LANES,
    PAIR,
    SINGLE,
    TABLES,
    Blocks,
)
from matching.columns import Batch
from matching.keys import OTHER, equality_hash
from matching.machine import prefetch, trailing_zeros
from matching.scalars import Bool, Int
from matching.topics import TopicView

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_LIST: Final = 2048  # leaves collected before they are tested
_AHEAD: Final = 6  # leaves asked for early: five cache lines each, about what a core keeps in flight


@njit(cache=True, nogil=True)
def _longer(array: I32, need: Int) -> I32:
    longer = np.empty(max(2 * len(array), need), np.int32)
    longer[: len(array)] = array
    return longer


@njit(cache=True, nogil=True)
def _test_leaves(
    blocks: Blocks, leaves: I32, count: Int, low: U8 | None, high: U8, row: Int, rows: I32, slots: I32, n: Int
) -> Int:
    at = row * TABLE
    # by name: through the reference they would be looked up again and again
    lanes = blocks.lanes
    leaf_slots = blocks.leaf_slots
    for i in range(min(_AHEAD, count)):
        base = np.int64(leaves[i]) * LEAF_LANES
        for line in range(5):
            prefetch(lanes, base + 64 * line)
    for i in range(count):
        if i + _AHEAD < count:
            base = np.int64(leaves[i + _AHEAD]) * LEAF_LANES
            for line in range(5):
                prefetch(lanes, base + 64 * line)
        leaf = np.int64(leaves[i])
        if low is not None:
            mask = leaf_test_interval(lanes, leaf * LEAF_LANES, low, high, at)
        else:
            mask = leaf_test(lanes, leaf * LEAF_LANES, high, high, at)
        while mask:
            rows[n] = row
            slots[n] = leaf_slots[leaf * 32 + trailing_zeros(mask)]
            n += 1
            mask &= mask - np.uint32(1)
    return n


@njit(cache=True, nogil=True)
def _collect_leaves(blocks: Blocks, chunk: Int, low: U8 | None, high: U8, row: Int, leaves: I32, count: Int) -> Int:
    if low is not None:
        mask = box_test_interval(blocks.boxes, chunk * BOX_BYTES, low, high, row * TABLE)
    else:
        mask = box_test(blocks.boxes, chunk * BOX_BYTES, high, high, row * TABLE)
    while mask:
        leaves[count] = blocks.child[chunk * 32 + trailing_zeros(mask)]
        count += 1
        mask &= mask - np.uint32(1)
    return count


@njit(cache=True, nogil=True)
def _visit_group(
    blocks: Blocks, group: Int, low: U8 | None, high: U8, row: Int, leaves: I32, rows: I32, slots: I32, n: Int
) -> Int:
    """One publication in one group. There is room for all members."""
    form = blocks.group_form[group]
    if form == INLINE:
        for i in range(blocks.group_count[group]):
            rows[n] = row
            slots[n] = blocks.group_slots[INLINE_SLOTS * group + i]
            n += 1
        return n
    if form == LEAF:
        leaves[0] = blocks.group_ref[group]
        return _test_leaves(blocks, leaves, 1, low, high, row, rows, slots, n)
    if form == CHUNK:
        count = _collect_leaves(blocks, np.int64(blocks.group_ref[group]), low, high, row, leaves, 0)
        return _test_leaves(blocks, leaves, count, low, high, row, rows, slots, n)
    root = np.int64(blocks.group_ref[group])
    count = 0
    while root:
        if low is not None:
            mask = box_test_interval(blocks.boxes, root * BOX_BYTES, low, high, row * TABLE)
        else:
            mask = box_test(blocks.boxes, root * BOX_BYTES, high, high, row * TABLE)
        rest = mask
        while rest:
            base = np.int64(blocks.child[root * 32 + trailing_zeros(rest)]) * BOX_BYTES
            for line in range(3):
                prefetch(blocks.boxes, base + 64 * line)
            rest &= rest - np.uint32(1)
        while mask:
            chunk = np.int64(blocks.child[root * 32 + trailing_zeros(mask)])
            mask &= mask - np.uint32(1)
            count = _collect_leaves(blocks, chunk, low, high, row, leaves, count)
            if count + 32 > _LIST:
                n = _test_leaves(blocks, leaves, count, low, high, row, rows, slots, n)
                count = 0
        root = np.int64(blocks.node_parent[root])
    return _test_leaves(blocks, leaves, count, low, high, row, rows, slots, n)


@njit(cache=True, nogil=True)
def _is_value(batch: Batch, entry: Int, row: Int) -> Bool:
    """Not a published range."""
    return batch.vague[row] == 0 or batch.tag[entry] != OTHER


@njit(cache=True, nogil=True)
def _meets(batch: Batch, entry: Int, key: Int) -> Bool:
    return batch.low[entry] <= key <= batch.high[entry]


@njit(cache=True, nogil=True)
def _reach_by_attributes(
    blocks: Blocks, batch: Batch, relaxed: Bool, attributes: Int, rows: I32, groups: I32
) -> tuple[I32, I32, Int]:
    """Pairs of row and group: the tables that a row's attributes lead to, and in them the groups that fit its values."""
    where = np.full(attributes + 1, -1, np.int32)
    tables = blocks.state[TABLES]
    always = find_table(blocks, ALWAYS, -1, -1)
    everyone = np.int64(blocks.table_group[always]) if always else np.int64(0)
    n = 0
    for row in range(len(batch.carried)):
        begin = batch.start[row]
        end = batch.start[row + 1]
        if n + tables + 1 > len(rows):
            rows = _longer(rows, n + tables + 1)
            groups = _longer(groups, n + tables + 1)
        if relaxed:
            for table in range(1, tables):
                if blocks.table_count[table]:
                    rows[n] = row
                    groups[n] = blocks.table_group[table]
                    n += 1
            continue
        if everyone:
            rows[n] = row
            groups[n] = everyone
            n += 1
        for e in range(begin, end):
            where[batch.attribute[e]] = e
        for e in range(begin, end):
            if batch.attribute[e] >= len(blocks.first_table):
                continue
            table = np.int64(blocks.first_table[batch.attribute[e]])
            while table:
                kind = blocks.table_kind[table]
                second = np.int64(-1)
                if kind == EQUAL_TWO or kind == PAIR:
                    second = np.int64(where[blocks.table_b[table]])
                    if second < 0:
                        table = np.int64(blocks.table_next[table])
                        continue
                group = np.int64(0)
                if kind == PAIR or kind == SINGLE:
                    group = np.int64(blocks.table_group[table])
                elif _is_value(batch, e, row) and (second < 0 or _is_value(batch, second, row)):
                    value_a = equality_hash(batch.tag[e], batch.bits[e])
                    value_b = np.uint64(0)
                    if second >= 0:
                        value_b = equality_hash(batch.tag[second], batch.bits[second])
                    group = find_group(blocks, group_key(table, value_a, value_b))
                else:
                    # a published range: all groups of the table whose values lie in it
                    other = np.int64(blocks.table_group[table])
                    while other:
                        if _meets(batch, e, blocks.group_low[2 * other]) and (
                            second < 0 or _meets(batch, second, blocks.group_low[2 * other + 1])
                        ):
                            if n + tables + 1 > len(rows):
                                rows = _longer(rows, 0)
                                groups = _longer(groups, 0)
                            rows[n] = row
                            groups[n] = other
                            n += 1
                        other = np.int64(blocks.group_next[other])
                    if n + tables + 1 > len(rows):
                        rows = _longer(rows, n + tables + 1)
                        groups = _longer(groups, n + tables + 1)
                if group:
                    rows[n] = row
                    groups[n] = group
                    n += 1
                table = np.int64(blocks.table_next[table])
        for e in range(begin, end):
            where[batch.attribute[e]] = -1
    return rows, groups, n


@njit(cache=True, nogil=True)
def _reach_by_topics(
    blocks: Blocks, topics: TopicView, batch: Batch, rows: I32, groups: I32, n: Int
) -> tuple[I32, I32, Int]:
    """Groups of the topics above, at and below a row's own."""
    for row in range(len(batch.carried)):
        node = np.int64(batch.topic[row])
        top = node
        # ancestors and the topic itself, then everything below it, depth first, without branches that hold nothing
        above = True
        while True:
            group = np.int64(blocks.topic_group[node])
            if group:
                if n == len(rows):
                    rows = _longer(rows, 0)
                    groups = _longer(groups, 0)
                rows[n] = row
                groups[n] = group
                n += 1
            if above:
                if node:
                    node = np.int64(topics.parent[node])
                    continue
                above = False
                node = top
                if not batch.exact[row]:
                    break
            following = np.int64(topics.first_child[node]) if blocks.topic_below[node] else np.int64(-1)
            while following < 0 and node != top:
                following = np.int64(topics.next_sibling[node])
                if following < 0:
                    node = np.int64(topics.parent[node])
            if following < 0:
                break
            node = following
    return rows, groups, n


@njit(cache=True, nogil=True)
def candidates(
    blocks: Blocks, topics: TopicView, batch: Batch, low: U8 | None, high: U8, relaxed: Bool, attributes: Int
) -> tuple[I32, I32, Int]:
    """Rows and slots of pairs, and how many there are."""
    total = len(batch.carried)
    room = max(64, 4 * total)
    reached_rows, reached, pairs = _reach_by_attributes(
        blocks, batch, relaxed, attributes, np.empty(room, np.int32), np.empty(room, np.int32)
    )
    if not relaxed and blocks.topic_below[0]:
        reached_rows, reached, pairs = _reach_by_topics(blocks, topics, batch, reached_rows, reached, pairs)
    rows = np.empty(room, np.int32)
    slots = np.empty(room, np.int32)
    leaves = np.empty(_LIST + 32, np.int32)
    # in a batch, what reaches the large group of a table waits, so that the group is read once for all publications
    together = total >= 8
    late = 0
    late_table = np.empty(pairs if together else 0, np.int32)
    late_row = np.empty(len(late_table), np.int32)
    if together:
        alone = 0
        for i in range(pairs):
            group = np.int64(reached[i])
            table = blocks.group_table[group]
            kind = blocks.table_kind[table]
            if blocks.group_form[group] >= CHUNK and (kind == PAIR or kind == SINGLE or kind == ALWAYS):
                late_table[late] = table
                late_row[late] = reached_rows[i]
                late += 1
            else:
                reached[alone] = group
                reached_rows[alone] = reached_rows[i]
                alone += 1
        pairs = alone
    n = 0
    for i in range(pairs):
        group = np.int64(reached[i])
        # a pipeline: a group's fields, then its leaf, or its chunk's boxes and children
        if i + 8 < pairs:
            prefetch(blocks.group_form, np.int64(reached[i + 8]))
            prefetch(blocks.group_ref, np.int64(reached[i + 8]))
            prefetch(blocks.group_count, np.int64(reached[i + 8]))
        if i + 3 < pairs:
            soon = np.int64(reached[i + 3])
            ref = np.int64(blocks.group_ref[soon])
            if blocks.group_form[soon] == LEAF:
                for line in range(5):
                    prefetch(blocks.lanes, ref * LEAF_LANES + 64 * line)
            elif blocks.group_form[soon] >= CHUNK:
                for line in range(3):
                    prefetch(blocks.boxes, ref * BOX_BYTES + 64 * line)
                prefetch(blocks.child, ref * 32)
                prefetch(blocks.child, ref * 32 + 16)
        need = n + np.int64(blocks.group_count[group])
        if need > len(rows):
            rows = _longer(rows, need)
            slots = _longer(slots, need)
        n = _visit_group(blocks, group, low, high, np.int64(reached_rows[i]), leaves, rows, slots, n)
    if late:
        return _visit_together(blocks, late_table, late_row, late, total, low, high, rows, slots, n)
    return rows, slots, n


@njit(cache=True, nogil=True)
def _visit_together(
    blocks: Blocks,
    late_table: I32,
    late_row: I32,
    late: Int,
    total: Int,
    low: U8 | None,
    high: U8,
    rows: I32,
    slots: I32,
    n: Int,
) -> tuple[I32, I32, Int]:
    """Group by group, chunk by chunk: all publications that reach it."""
    tables = blocks.state[TABLES]
    place = np.zeros(tables + 1, np.int64)
    for i in range(late):
        place[late_table[i] + 1] += 1
    for t in range(tables):
        place[t + 1] += place[t]
    sorted_rows = np.empty(late, np.int32)
    for i in range(late):
        sorted_rows[place[late_table[i]]] = late_row[i]
        place[late_table[i]] += 1
    masks = np.empty(total, np.uint32)
    at = np.empty(34, np.int64)
    reached = np.empty(total * 32, np.int32)
    begin = np.int64(0)
    for table in range(tables):
        end = place[table]
        if end == begin:
            continue
        group = np.int64(blocks.table_group[table])
        if blocks.group_form[group] == CHUNK:
            chunk = np.int64(blocks.group_ref[group])
            rows, slots, n = _visit_chunk(blocks, chunk, sorted_rows, begin, end, low, high, rows, slots, n)
            begin = end
            continue
        root = np.int64(blocks.group_ref[group])
        while root:
            at[:] = 0
            for i in range(begin, end):
                if low is not None:
                    mask = box_test_interval(
                        blocks.boxes, root * BOX_BYTES, low, high, np.int64(sorted_rows[i]) * TABLE
                    )
                else:
                    mask = box_test(blocks.boxes, root * BOX_BYTES, high, high, np.int64(sorted_rows[i]) * TABLE)
                masks[i - begin] = mask
                while mask:
                    at[trailing_zeros(mask) + 2] += 1
                    mask &= mask - np.uint32(1)
            for c in range(33):
                at[c + 1] += at[c]
            for i in range(begin, end):
                mask = masks[i - begin]
                while mask:
                    c = trailing_zeros(mask) + 1
                    reached[at[c]] = sorted_rows[i]
                    at[c] += 1
                    mask &= mask - np.uint32(1)
            for c in range(32):
                if at[c + 1] > at[c]:
                    rows, slots, n = _visit_chunk(
                        blocks,
                        np.int64(blocks.child[root * 32 + c]),
                        reached,
                        at[c],
                        at[c + 1],
                        low,
                        high,
                        rows,
                        slots,
                        n,
                    )
            root = np.int64(blocks.node_parent[root])
        begin = end
    return rows, slots, n


@njit(cache=True, nogil=True)
def _visit_chunk(
    blocks: Blocks,
    chunk: Int,
    list_of_rows: I32,
    begin: Int,
    end: Int,
    low: U8 | None,
    high: U8,
    rows: I32,
    slots: I32,
    n: Int,
) -> tuple[I32, I32, Int]:
    lanes = blocks.lanes
    leaf_slots = blocks.leaf_slots
    all_boxes = blocks.boxes
    children = blocks.child[chunk * 32 : chunk * 32 + 32]
    for i in range(begin, end):
        if n + 1024 > len(rows):
            rows = _longer(rows, n + 1024)
            slots = _longer(slots, n + 1024)
        row = list_of_rows[i]
        at = np.int64(row) * TABLE
        if low is not None:
            boxes = box_test_interval(all_boxes, chunk * BOX_BYTES, low, high, at)
        else:
            boxes = box_test(all_boxes, chunk * BOX_BYTES, high, high, at)
        while boxes:
            leaf = np.int64(children[trailing_zeros(boxes)])
            boxes &= boxes - np.uint32(1)
            if low is not None:
                mask = leaf_test_interval(lanes, leaf * LEAF_LANES, low, high, at)
            else:
                mask = leaf_test(lanes, leaf * LEAF_LANES, high, high, at)
            while mask:
                rows[n] = row
                slots[n] = leaf_slots[leaf * 32 + trailing_zeros(mask)]
                n += 1
                mask &= mask - np.uint32(1)
    return rows, slots, n
