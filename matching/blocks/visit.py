"""From publications to candidates: which groups a publication reaches, which leaves, which lanes."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch, trailing_zeros
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.lanes import TABLE, box_test, box_test_interval, leaf_test, leaf_test_interval
from pastforward.matching.blocks.pools import find_group, find_table, group_key
from pastforward.matching.blocks.view import (
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
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.keys import OTHER, equality_hash
from pastforward.matching.index.topics import TopicView

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_LIST: Final = 2048  # pairs collected before they are tested: what the first cache holds
_STEP: Final = 64  # leaves and publications between two looks at whether there is room
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
    first = n
    for i in range(min(_AHEAD, count)):
        _ask_for_leaf(lanes, np.int64(leaves[i]))
    for begin in range(0, count, _STEP):
        # room is made for many at a time: where an array may be replaced, Numba counts references, which costs more than the test
        if n + 32 * _STEP > len(rows):
            rows = _longer(rows, n + 32 * _STEP)
            slots = _longer(slots, n + 32 * _STEP)
        for i in range(begin, min(begin + _STEP, count)):
            if i + _AHEAD < count:
                _ask_for_leaf(lanes, np.int64(leaves[i + _AHEAD]))
            leaf = np.int64(leaves[i])
            row = leaf_rows[i]
            if interval:
                mask = leaf_test_interval(lanes, leaf * LEAF_LANES, low, high, np.int64(row) * TABLE)
            else:
                mask = leaf_test(lanes, leaf * LEAF_LANES, high, high, np.int64(row) * TABLE)
            if mask:
                n = _note(blocks, row, leaf, mask, rows, slots, n)
    _name(blocks, slots, first, n)
    return rows, slots, n


@inner
def _note(blocks: Blocks, row: Int, leaf: Int, mask: Int, rows: I32, slots: I32, n: Int) -> Int:
    """Rows and places of the lanes in a mask; `_name` follows, when their slots have come from memory."""
    prefetch(blocks.leaf_slots, leaf * 32)
    prefetch(blocks.leaf_slots, leaf * 32 + 16)
    while mask:
        rows[n] = row
        slots[n] = leaf * 32 + trailing_zeros(mask)
        n += 1
        mask &= mask - np.uint32(1)
    return n


@inner
def _name(blocks: Blocks, slots: I32, begin: Int, end: Int) -> None:
    """Places become slots."""
    leaf_slots = blocks.leaf_slots
    for i in range(begin, end):
        slots[i] = leaf_slots[slots[i]]


@inner
def _test_chunk(
    blocks: Blocks,
    chunk: Int,
    chunk_rows: I32,
    begin: Int,
    end: Int,
    low: U8,
    high: U8,
    interval: Bool,
    rows: I32,
    slots: I32,
    n: Int,
) -> tuple[Int, Int]:
    """Many rows that reach one chunk, which they bring into the nearest cache: rows and places. Stops when there may be no room; returns
    how many there are, and how far it came."""
    boxes = blocks.boxes
    lanes = blocks.lanes
    child = blocks.child
    for i in range(begin, end):
        if n + 1024 > len(rows):
            return n, i
        row = chunk_rows[i]
        at = np.int64(row) * TABLE
        if interval:
            reached = box_test_interval(boxes, chunk * BOX_BYTES, low, high, at)
        else:
            reached = box_test(boxes, chunk * BOX_BYTES, high, high, at)
        while reached:
            leaf = np.int64(child[chunk * 32 + trailing_zeros(reached)])
            reached &= reached - np.uint32(1)
            if interval:
                mask = leaf_test_interval(lanes, leaf * LEAF_LANES, low, high, at)
            else:
                mask = leaf_test(lanes, leaf * LEAF_LANES, high, high, at)
            if mask:
                n = _note(blocks, row, leaf, mask, rows, slots, n)
    return n, end


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
def _is_value(batch: Batch, entry: Int) -> Bool:
    """Not a published range, in a row that has some."""
    return batch.tag[entry] != OTHER


@inner
def _hash_of(batch: Batch, entry: Int) -> Int:
    return equality_hash(np.int64(batch.tag[entry]), batch.bits[entry])


@inner
def _meets(batch: Batch, entry: Int, key: Int) -> Bool:
    return batch.low[entry] <= key <= batch.high[entry]


@inner
def _reach_by_values(
    blocks: Blocks,
    batch: Batch,
    begin: Int,
    end: Int,
    where: I32,
    hashes: U64,
    everyone: Int,
    rows: I32,
    groups: I32,
    n: Int,
    probe_rows: I32,
    probes: U64,
    asked: Int,
) -> tuple[Int, Int]:
    """Pairs of row and group that the presence of attributes leads to, and keys of groups that values lead to: of some rows that publish
    no ranges. There is room. Returns how many there are of each."""
    for row in range(begin, end):
        first = batch.start[row]
        last = batch.start[row + 1]
        if everyone:
            rows[n] = row
            groups[n] = everyone
            n += 1
        for e in range(first, last):
            where[batch.attribute[e]] = e
            hashes[e] = equality_hash(np.int64(batch.tag[e]), batch.bits[e])
        for e in range(first, last):
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
                else:
                    probe_rows[asked] = row
                    probes[asked] = group_key(table, hashes[e], hashes[second] if second >= 0 else np.uint64(0))
                    asked += 1
                table = np.int64(blocks.table_next[table])
        for e in range(first, last):
            where[batch.attribute[e]] = -1
    return n, asked


@inner
def _reach_by_ranges(
    blocks: Blocks, batch: Batch, row: Int, where: I32, everyone: Int, rows: I32, groups: I32, n: Int
) -> tuple[I32, I32, Int]:
    """Pairs of row and group of a row that publishes ranges: of a table all groups whose values lie in them."""
    tables = blocks.state[TABLES]
    if n + tables + 1 > len(rows):
        rows = _longer(rows, n + tables + 1)
        groups = _longer(groups, n + tables + 1)
    if everyone:
        rows[n] = row
        groups[n] = everyone
        n += 1
    for e in range(batch.start[row], batch.start[row + 1]):
        where[batch.attribute[e]] = e
    for e in range(batch.start[row], batch.start[row + 1]):
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
            other = np.int64(0)
            if kind == PAIR or kind == SINGLE:
                group = np.int64(blocks.table_group[table])
            elif _is_value(batch, e) and (second < 0 or _is_value(batch, second)):
                hash_b = _hash_of(batch, second) if second >= 0 else np.uint64(0)
                group = find_group(blocks, group_key(table, _hash_of(batch, e), hash_b))
            else:
                other = np.int64(blocks.table_group[table])
            if n + tables + 1 > len(rows):
                rows = _longer(rows, 0)
                groups = _longer(groups, 0)
            if group:
                rows[n] = row
                groups[n] = group
                n += 1
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
            table = np.int64(blocks.table_next[table])
    for e in range(batch.start[row], batch.start[row + 1]):
        where[batch.attribute[e]] = -1
    return rows, groups, n


@inner
def _look_up(blocks: Blocks, probe_rows: I32, probes: U64, asked: Int, rows: I32, groups: I32, n: Int) -> Int:
    """Groups by their keys, all at once, so that each look-up is asked for before it is made. There is room."""
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
    return n


@inner
def _reach_by_attributes(
    blocks: Blocks, batch: Batch, relaxed: Bool, attributes: Int, rows: I32, groups: I32
) -> tuple[I32, I32, Int]:
    """Pairs of row and group: the tables that a row's attributes lead to, and in them the groups that fit its values."""
    tables = blocks.state[TABLES]
    total = len(batch.carried)
    n = 0
    if relaxed:
        for row in range(total):
            if n + tables > len(rows):
                rows = _longer(rows, n + tables)
                groups = _longer(groups, n + tables)
            for table in range(1, tables):
                if blocks.table_count[table]:
                    rows[n] = row
                    groups[n] = blocks.table_group[table]
                    n += 1
        return rows, groups, n
    where = np.full(attributes + 1, -1, np.int32)
    hashes = np.empty(len(batch.attribute), np.uint64)
    always = find_table(blocks, ALWAYS, -1, -1)
    everyone = np.int64(blocks.table_group[always]) if always else np.int64(0)
    for row in range(total):
        if batch.vague[row]:
            rows, groups, n = _reach_by_ranges(blocks, batch, row, where, everyone, rows, groups, n)
    step = min(total, _STEP)
    probe_rows = np.empty(step * tables, np.int32)
    probes = np.empty(step * tables, np.uint64)
    row = 0
    while row < total:
        end = row
        while end < total and end - row < step and not batch.vague[end]:
            end += 1
        need = n + step * (tables + 1)
        if need > len(rows):
            rows = _longer(rows, need)
            groups = _longer(groups, need)
        n, asked = _reach_by_values(
            blocks, batch, row, end, where, hashes, everyone, rows, groups, n, probe_rows, probes, 0
        )
        n = _look_up(blocks, probe_rows, probes, asked, rows, groups, n)
        row = end
        while row < total and batch.vague[row]:
            row += 1
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
    room = max(4096, 4 * total)
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
    # in a batch, what reaches the large group of a table waits, so that the group is read once for all publications
    together = total >= 8
    late_table = np.empty(pairs if together else 0, np.int32)
    late_row = np.empty(len(late_table), np.int32)
    late = 0
    for begin in range(0, pairs, _LIST):
        end = min(begin + _LIST, pairs)
        if n + INLINE_SLOTS * (end - begin) > len(rows):
            rows = _longer(rows, n + INLINE_SLOTS * (end - begin))
            slots = _longer(slots, n + INLINE_SLOTS * (end - begin))
        n, small, chunk_count, root_count, late = _sort_out(
            blocks, reached_rows, reached, begin, end, together, rows, slots, n,
            leaf_rows, leaves, chunk_rows, chunks, root_rows, roots, late_row, late_table, late,
        )  # fmt: skip
        rows, slots, n = _test_leaves(blocks, leaf_rows, leaves, small, low, high, interval, rows, slots, n)
        rows, slots, n = _test_chunks(
            blocks, chunk_rows, chunks, chunk_count, low, high, interval, leaf_rows, leaves, rows, slots, n
        )
        rows, slots, n = _test_roots(
            blocks, root_rows, roots, root_count, low, high, interval, leaf_rows, leaves, rows, slots, n
        )
    if late:
        return _visit_together(blocks, late_table, late_row, late, total, low, high, interval, rows, slots, n)
    return rows, slots, n


@inner
def _sort_out(
    blocks: Blocks,
    reached_rows: I32,
    reached: I32,
    begin: Int,
    end: Int,
    together: Bool,
    rows: I32,
    slots: I32,
    n: Int,
    leaf_rows: I32,
    leaves: I32,
    chunk_rows: I32,
    chunks: I32,
    root_rows: I32,
    roots: I32,
    late_row: I32,
    late_table: I32,
    late: Int,
) -> tuple[Int, Int, Int, Int, Int]:
    """Pairs of row and group by the form of the group: slots that stand in it, its leaf, its chunk, its first root; or, if groups are
    visited together, its table. There is room in each list. Returns how many there are of each."""
    leaf_count = 0
    chunk_count = 0
    root_count = 0
    for i in range(begin, end):
        group = np.int64(reached[i])
        row = reached_rows[i]
        form = blocks.group_form[group]
        if form == INLINE:
            for k in range(blocks.group_count[group]):
                rows[n] = row
                slots[n] = blocks.group_slots[INLINE_SLOTS * group + k]
                n += 1
            continue
        if form == LEAF:
            leaf_rows[leaf_count] = row
            leaves[leaf_count] = blocks.group_ref[group]
            leaf_count += 1
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
        else:
            root_rows[root_count] = row
            roots[root_count] = blocks.group_ref[group]
            root_count += 1
    return n, leaf_count, chunk_count, root_count, late


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
    """Pairs of row and a group's first root become pairs of row and slot. The lists are used up."""
    chunk_rows = np.empty(_LIST, np.int32)
    chunks = np.empty(_LIST, np.int32)
    while count:
        done = 0
        while done < count:
            found, done = _test_nodes(blocks, root_rows, roots, count, low, high, interval, chunk_rows, chunks, done)
            rows, slots, n = _test_chunks(
                blocks, chunk_rows, chunks, found, low, high, interval, leaf_rows, leaves, rows, slots, n
            )
        # on to the groups' next roots
        left = 0
        for i in range(count):
            following = blocks.node_parent[roots[i]]
            if following:
                root_rows[left] = root_rows[i]
                roots[left] = following
                left += 1
        count = left
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
    begin = np.int64(0)
    for table in range(tables):
        end = place[table]
        if end == begin:
            continue
        group = np.int64(blocks.table_group[table])
        root = np.int64(0)
        if blocks.group_form[group] == CHUNK:
            rows, slots, n = _visit_chunk(
                blocks, np.int64(blocks.group_ref[group]), sorted_rows, begin, end, low, high, interval, rows, slots, n
            )
        else:
            root = np.int64(blocks.group_ref[group])
        while root:
            _ask_for_node(blocks, np.int64(blocks.node_parent[root]))
            _reach_chunks(blocks, root, sorted_rows, begin, end, low, high, interval, masks, at, chunk_rows)
            for c in range(32):
                if at[c + 1] > at[c]:
                    chunk = np.int64(blocks.child[root * 32 + c])
                    rows, slots, n = _visit_chunk(
                        blocks, chunk, chunk_rows, at[c], at[c + 1], low, high, interval, rows, slots, n
                    )
            root = np.int64(blocks.node_parent[root])
        begin = end
    return rows, slots, n


@inner
def _reach_chunks(
    blocks: Blocks,
    root: Int,
    sorted_rows: I32,
    begin: Int,
    end: Int,
    low: U8,
    high: U8,
    interval: Bool,
    masks: U32,
    at: I64,
    chunk_rows: I32,
) -> None:
    """Of the rows at a root, those that reach each chunk below it: chunk `c` gets `chunk_rows[at[c]:at[c + 1]]`."""
    boxes = blocks.boxes
    for c in range(32):
        _ask_for_node(blocks, np.int64(blocks.child[root * 32 + c]))
    at[:] = 0
    for i in range(begin, end):
        row = np.int64(sorted_rows[i])
        if interval:
            mask = box_test_interval(boxes, root * BOX_BYTES, low, high, row * TABLE)
        else:
            mask = box_test(boxes, root * BOX_BYTES, high, high, row * TABLE)
        masks[i - begin] = mask
        while mask:
            at[trailing_zeros(mask) + 2] += 1
            mask &= mask - np.uint32(1)
    for c in range(33):
        at[c + 1] += at[c]
    # each begins where the one before it ends, when all are written
    for i in range(begin, end):
        mask = masks[i - begin]
        while mask:
            c = trailing_zeros(mask) + 1
            chunk_rows[at[c]] = sorted_rows[i]
            at[c] += 1
            mask &= mask - np.uint32(1)


@inner
def _visit_chunk(
    blocks: Blocks,
    chunk: Int,
    chunk_rows: I32,
    begin: Int,
    end: Int,
    low: U8,
    high: U8,
    interval: Bool,
    rows: I32,
    slots: I32,
    n: Int,
) -> tuple[I32, I32, Int]:
    first = n
    while begin < end:
        n, begin = _test_chunk(blocks, chunk, chunk_rows, begin, end, low, high, interval, rows, slots, n)
        if begin < end:
            rows = _longer(rows, n + 1024)
            slots = _longer(slots, n + 1024)
    _name(blocks, slots, first, n)
    return rows, slots, n
