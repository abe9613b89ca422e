"""From publications to candidates: the groups they reach, sorted by form, and down to the slots."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.batch_visits import visit_together
from pastforward.matching.blocks.filtering import LIST, test_chunks, test_leaves, test_roots
from pastforward.matching.blocks.lists import lengthened
from pastforward.matching.blocks.reach import reach_by_attributes, reach_by_topics
from pastforward.matching.blocks.view import (
    ALWAYS,
    CHUNK,
    INLINE,
    INLINE_SLOTS,
    LEAF,
    PAIR,
    SINGLE,
    Blocks,
)
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.topics import TopicView

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]


@inner
def candidates(
    blocks: Blocks, topics: TopicView, batch: Batch, low: U8, high: U8, interval: Bool, relaxed: Bool, attributes: Int
) -> tuple[I32, I32, Int]:
    """Rows and slots of pairs, and how many there are. `interval`: publications are no points, and the low tables are needed.

    Level by level for many pairs at a time, not pair by pair down to the leaf: so what a level needs from memory is asked for early."""
    total = len(batch.carried)
    room = max(4096, 4 * total)
    reached_rows, reached, pairs = reach_by_attributes(
        blocks, batch, relaxed, attributes, np.empty(room, np.int32), np.empty(room, np.int32)
    )
    if not relaxed and blocks.topic_below[0]:
        reached_rows, reached, pairs = reach_by_topics(blocks, topics, batch, reached_rows, reached, pairs)
    rows = np.empty(room, np.int32)
    slots = np.empty(room, np.int32)
    n = 0
    root_rows = np.empty(LIST, np.int32)
    roots = np.empty(LIST, np.int32)
    chunk_rows = np.empty(LIST, np.int32)
    chunks = np.empty(LIST, np.int32)
    leaf_rows = np.empty(LIST, np.int32)
    leaves = np.empty(LIST, np.int32)
    # in a batch, what reaches the large group of a table waits, so that the group is read once for all publications
    together = total >= 8
    late_table = np.empty(pairs if together else 0, np.int32)
    late_row = np.empty(len(late_table), np.int32)
    late = 0
    for begin in range(0, pairs, LIST):
        end = min(begin + LIST, pairs)
        if n + INLINE_SLOTS * (end - begin) > len(rows):
            rows = lengthened(rows, n + INLINE_SLOTS * (end - begin))
            slots = lengthened(slots, n + INLINE_SLOTS * (end - begin))
        n, small, chunk_count, root_count, late = _sort_out(
            blocks, reached_rows, reached, begin, end, together, rows, slots, n,
            leaf_rows, leaves, chunk_rows, chunks, root_rows, roots, late_row, late_table, late,
        )  # fmt: skip
        rows, slots, n = test_leaves(blocks, leaf_rows, leaves, small, low, high, interval, rows, slots, n)
        rows, slots, n = test_chunks(
            blocks, chunk_rows, chunks, chunk_count, low, high, interval, leaf_rows, leaves, rows, slots, n
        )
        rows, slots, n = test_roots(
            blocks, root_rows, roots, root_count, low, high, interval, leaf_rows, leaves, rows, slots, n
        )
    if late:
        return visit_together(blocks, late_table, late_row, late, total, low, high, interval, rows, slots, n)
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
