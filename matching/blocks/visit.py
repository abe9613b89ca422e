"""From publications to candidates: which groups a publication reaches, which leaves, which lanes."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

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
from matching.kernel import inner
from matching.keys import OTHER, equality_hash
from matching.machine import prefetch, trailing_zeros
from matching.scalars import Bool, Int
from matching.topics import TopicView

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_LIST: Final = 2048  # pairs collected before they are tested: what the first cache holds
_AHEAD: Final = 8  # nodes and leaves asked for early: up to five cache lines each, about what a core keeps in flight


@inner
def _longer(array: I32, need: Int) -> I32:
    longer = np.empty(max(2 * len(array), need), np.int32)
    longer[: len(array)] = array
    return longer


@inner
def _ask_for_leaf(lanes: U8, leaf: Int) -> None:
    for line in range(5):
        prefetch(lanes, leaf * LEAF_LANES + 64 * line)


@inner
def _ask_for_node(blocks: Blocks, node: Int) -> None:
    for line in range(3):
        prefetch(blocks.boxes, node * BOX_BYTES + 64 * line)
    prefetch(blocks.child, node * 32)
    prefetch(blocks.child, node * 32 + 16)


@inner
def _test_leaves(
    blocks: Blocks,
    leaf_rows: I32,
    leaves: I32,
    count: Int,
    low: U8,
    high: U8,
    interval: Bool,
    rows: I32,
    slots: I32,
    n: Int,
) -> tuple[I32, I32, Int]:
    """Pairs of row and leaf become pairs of row and slot."""
    # by name: through the reference they would be looked up again and again
    lanes = blocks.lanes
    leaf_slots = blocks.leaf_slots
    for i in range(min(_AHEAD, count)):
        _ask_for_leaf(lanes, np.int64(leaves[i]))
    for i in range(count):
        if i + _AHEAD < count:
            _ask_for_leaf(lanes, np.int64(leaves[i + _AHEAD]))
        leaf = np.int64(leaves[i])
        row = leaf_rows[i]
        if interval:
            mask = leaf_test_interval(lanes, leaf * LEAF_LANES, low, high, np.int64(row) * TABLE)
        else:
            mask = leaf_test(lanes, leaf * LEAF_LANES, high, high, np.int64(row) * TABLE)
        if mask:
            if n + 32 > len(rows):
                rows = _longer(rows, n + 32)
                slots = _longer(slots, n + 32)
            while mask:
                rows[n] = row
                slots[n] = leaf_slots[leaf * 32 + trailing_zeros(mask)]
                n += 1
                mask &= mask - np.uint32(1)
    return rows, slots, n


@inner
def _test_nodes(
    blocks: Blocks,
    node_rows: I32,
    nodes: I32,
    count: Int,
    low: U8,
    high: U8,
    interval: Bool,
    out_rows: I32,
    out: I32,
    begin: Int,
) -> tuple[Int, Int]:
    """Pairs of row and node, from `begin` on, become pairs of row and child, as long as they fit. Returns how many there are, and how far
    it came."""
    at = 0
    boxes = blocks.boxes
    child = blocks.child
    for i in range(begin, min(begin + _AHEAD, count)):
        _ask_for_node(blocks, np.int64(nodes[i]))
    for i in range(begin, count):
        if at + 32 > len(out):
            return at, i
        # a node that comes again is there already
        if i + _AHEAD < count and nodes[i + _AHEAD] != nodes[i + _AHEAD - 1]:
            _ask_for_node(blocks, np.int64(nodes[i + _AHEAD]))
        node = np.int64(nodes[i])
        row = node_rows[i]
        if interval:
            mask = box_test_interval(boxes, node * BOX_BYTES, low, high, np.int64(row) * TABLE)
        else:
            mask = box_test(boxes, node * BOX_BYTES, high, high, np.int64(row) * TABLE)
        while mask:
            out_rows[at] = row
            out[at] = child[node * 32 + trailing_zeros(mask)]
            at += 1
            mask &= mask - np.uint32(1)
    return at, count


@inner
def _test_chunks(
    blocks: Blocks,
    chunk_rows: I32,
    chunks: I32,
    count: Int,
    low: U8,
    high: U8,
    interval: Bool,
    leaf_rows: I32,
    leaves: I32,
    rows: I32,
    slots: I32,
    n: Int,
) -> tuple[I32, I32, Int]:
    """Pairs of row and chunk become pairs of row and slot."""
    done = 0
    while done < count:
        found, done = _test_nodes(blocks, chunk_rows, chunks, count, low, high, interval, leaf_rows, leaves, done)
        rows, slots, n = _test_leaves(blocks, leaf_rows, leaves, found, low, high, interval, rows, slots, n)
    return rows, slots, n


@inner
def _is_value(batch: Batch, entry: Int, row: Int) -> Bool:
    """Not a published range."""
    return batch.vague[row] == 0 or batch.tag[entry] != OTHER


@inner
def _meets(batch: Batch, entry: Int, key: Int) -> Bool:
    return batch.low[entry] <= key <= batch.high[entry]


@inner
def _reach_by_attributes(
    blocks: Blocks, batch: Batch, relaxed: Bool, attributes: Int, rows: I32, groups: I32
) -> tuple[I32, I32, Int]:
    """Pairs of row and group: the tables that a row's attributes lead to, and in them the groups that fit its values."""
    where = np.full(attributes + 1, -1, np.int32)
    hashes = np.empty(len(batch.attribute), np.uint64)
    tables = blocks.state[TABLES]
    always = find_table(blocks, ALWAYS, -1, -1)
    everyone = np.int64(blocks.table_group[always]) if always else np.int64(0)
    probe_rows = np.empty(len(rows), np.int32)
    probes = np.empty(len(rows), np.uint64)
    asked = 0
    n = 0
    for row in range(len(batch.carried)):
        begin = batch.start[row]
        end = batch.start[row + 1]
        if n + tables + 1 > len(rows):
            rows = _longer(rows, n + tables + 1)
            groups = _longer(groups, n + tables + 1)
        if asked + tables > len(probes):
            probe_rows = _longer(probe_rows, asked + tables)
            more = np.empty(len(probe_rows), np.uint64)
            more[:asked] = probes[:asked]
            probes = more
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
            hashes[e] = equality_hash(np.int64(batch.tag[e]), batch.bits[e])
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
                if kind == PAIR or kind == SINGLE:
                    rows[n] = row
                    groups[n] = blocks.table_group[table]
                    n += 1
                elif _is_value(batch, e, row) and (second < 0 or _is_value(batch, second, row)):
                    probe_rows[asked] = row
                    probes[asked] = group_key(table, hashes[e], hashes[second] if second >= 0 else np.uint64(0))
                    asked += 1
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
                table = np.int64(blocks.table_next[table])
        for e in range(begin, end):
            where[batch.attribute[e]] = -1
    if n + asked > len(rows):
        rows = _longer(rows, n + asked)
        groups = _longer(groups, n + asked)
    # all at once, so that each look-up is asked for before it is made
    mask = np.uint64(len(blocks.group_cells) - 1)
    for i in range(asked):
        if i + 2 * _AHEAD < asked:
            prefetch(blocks.group_cells, np.int64(probes[i + 2 * _AHEAD] & mask))
        if i + _AHEAD < asked:
            entry = np.int64(blocks.group_cells[np.int64(probes[i + _AHEAD] & mask)])
            if entry > 0:
                prefetch(blocks.group_key, entry)
                prefetch(blocks.group_form, entry)
                prefetch(blocks.group_ref, entry)
        group = find_group(blocks, probes[i])
        if group:
            rows[n] = probe_rows[i]
            groups[n] = group
            n += 1
    return rows, groups, n


@inner
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


@inner
def candidates(
    blocks: Blocks, topics: TopicView, batch: Batch, low: U8, high: U8, interval: Bool, relaxed: Bool, attributes: Int
) -> tuple[I32, I32, Int]:
    """Rows and slots of pairs, and how many there are. `interval`: publications are no points, and the low tables are needed.

    Level by level for many pairs at a time, not pair by pair down to the leaf: so what a level needs from memory is asked for early."""
    total = len(batch.carried)
    room = max(64, 4 * total)
    reached_rows, reached, pairs = _reach_by_attributes(
        blocks, batch, relaxed, attributes, np.empty(room, np.int32), np.empty(room, np.int32)
    )
    if not relaxed and blocks.topic_below[0]:
        reached_rows, reached, pairs = _reach_by_topics(blocks, topics, batch, reached_rows, reached, pairs)
    rows = np.empty(room, np.int32)
    slots = np.empty(room, np.int32)
    n = 0
    root_rows = np.empty(_LIST, np.int32)
    roots = np.empty(_LIST, np.int32)
    chunk_rows = np.empty(_LIST, np.int32)
    chunks = np.empty(_LIST, np.int32)
    leaf_rows = np.empty(_LIST, np.int32)
    leaves = np.empty(_LIST, np.int32)
    root_count = 0
    chunk_count = 0
    # leaves of small groups have a list of their own, since the others are used on the way down
    small_rows = np.empty(_LIST, np.int32)
    small = np.empty(_LIST, np.int32)
    small_count = 0
    # in a batch, what reaches the large group of a table waits, so that the group is read once for all publications
    together = total >= 8
    late = 0
    late_table = np.empty(pairs if together else 0, np.int32)
    late_row = np.empty(len(late_table), np.int32)
    for i in range(pairs):
        group = np.int64(reached[i])
        row = reached_rows[i]
        form = blocks.group_form[group]
        if form == INLINE:
            if n + INLINE_SLOTS > len(rows):
                rows = _longer(rows, n + INLINE_SLOTS)
                slots = _longer(slots, n + INLINE_SLOTS)
            for k in range(blocks.group_count[group]):
                rows[n] = row
                slots[n] = blocks.group_slots[INLINE_SLOTS * group + k]
                n += 1
            continue
        if form == LEAF:
            small_rows[small_count] = row
            small[small_count] = blocks.group_ref[group]
            small_count += 1
            if small_count == _LIST:
                rows, slots, n = _test_leaves(
                    blocks, small_rows, small, small_count, low, high, interval, rows, slots, n
                )
                small_count = 0
            continue
        if together:
            table = blocks.group_table[group]
            kind = blocks.table_kind[table]
            if kind == PAIR or kind == SINGLE or kind == ALWAYS:
                late_table[late] = table
                late_row[late] = row
                late += 1
                continue
        if form == CHUNK:
            chunk_rows[chunk_count] = row
            chunks[chunk_count] = blocks.group_ref[group]
            chunk_count += 1
            if chunk_count == _LIST:
                rows, slots, n = _test_chunks(
                    blocks, chunk_rows, chunks, chunk_count, low, high, interval, leaf_rows, leaves, rows, slots, n
                )
                chunk_count = 0
            continue
        root = np.int64(blocks.group_ref[group])
        while root:
            root_rows[root_count] = row
            roots[root_count] = root
            root_count += 1
            if root_count == _LIST:
                rows, slots, n = _test_roots(
                    blocks, root_rows, roots, root_count, low, high, interval, leaf_rows, leaves, rows, slots, n
                )
                root_count = 0
            root = np.int64(blocks.node_parent[root])
    rows, slots, n = _test_leaves(blocks, small_rows, small, small_count, low, high, interval, rows, slots, n)
    rows, slots, n = _test_chunks(
        blocks, chunk_rows, chunks, chunk_count, low, high, interval, leaf_rows, leaves, rows, slots, n
    )
    rows, slots, n = _test_roots(
        blocks, root_rows, roots, root_count, low, high, interval, leaf_rows, leaves, rows, slots, n
    )
    if late:
        return _visit_together(
            blocks, late_table, late_row, late, total, low, high, interval, leaf_rows, leaves, rows, slots, n
        )
    return rows, slots, n


@inner
def _test_roots(
    blocks: Blocks,
    root_rows: I32,
    roots: I32,
    count: Int,
    low: U8,
    high: U8,
    interval: Bool,
    leaf_rows: I32,
    leaves: I32,
    rows: I32,
    slots: I32,
    n: Int,
) -> tuple[I32, I32, Int]:
    """Pairs of row and root become pairs of row and slot."""
    chunk_rows = np.empty(_LIST, np.int32)
    chunks = np.empty(_LIST, np.int32)
    done = 0
    while done < count:
        found, done = _test_nodes(blocks, root_rows, roots, count, low, high, interval, chunk_rows, chunks, done)
        rows, slots, n = _test_chunks(
            blocks, chunk_rows, chunks, found, low, high, interval, leaf_rows, leaves, rows, slots, n
        )
    return rows, slots, n


@inner
def _visit_together(
    blocks: Blocks,
    late_table: I32,
    late_row: I32,
    late: Int,
    total: Int,
    low: U8,
    high: U8,
    interval: Bool,
    leaf_rows: I32,
    leaves: I32,
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
    chunk_rows = np.empty(total * 32, np.int32)
    chunks = np.empty(total * 32, np.int32)
    begin = np.int64(0)
    for table in range(tables):
        end = place[table]
        if end == begin:
            continue
        group = np.int64(blocks.table_group[table])
        if blocks.group_form[group] == CHUNK:
            for i in range(begin, end):
                chunk_rows[i - begin] = sorted_rows[i]
                chunks[i - begin] = blocks.group_ref[group]
            rows, slots, n = _test_chunks(
                blocks, chunk_rows, chunks, end - begin, low, high, interval, leaf_rows, leaves, rows, slots, n
            )
            begin = end
            continue
        root = np.int64(blocks.group_ref[group])
        while root:
            for c in range(32):
                _ask_for_node(blocks, np.int64(blocks.child[root * 32 + c]))
            at[:] = 0
            for i in range(begin, end):
                if interval:
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
                    chunk_rows[at[c]] = sorted_rows[i]
                    chunks[at[c]] = blocks.child[root * 32 + c - 1]
                    at[c] += 1
                    mask &= mask - np.uint32(1)
            rows, slots, n = _test_chunks(
                blocks, chunk_rows, chunks, at[32], low, high, interval, leaf_rows, leaves, rows, slots, n
            )
            root = np.int64(blocks.node_parent[root])
        begin = end
    return rows, slots, n
