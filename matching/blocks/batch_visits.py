"""Large groups, each read once for all publications of a batch that reach it."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import trailing_zeros
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.filtering import ask_for_node, name_slots, note_lanes
from pastforward.matching.blocks.lanes import TABLE, box_test, box_test_interval, leaf_test, leaf_test_interval
from pastforward.matching.blocks.lists import lengthened
from pastforward.matching.blocks.view import (
    BOX_BYTES,
    CHUNK,
    LEAF_LANES,
    TABLES,
    Blocks,
)

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


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
                n = note_lanes(blocks, row, leaf, mask, rows, slots, n)
    return n, end


@inner
def visit_together(
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
            ask_for_node(blocks, np.int64(blocks.node_parent[root]))
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
        ask_for_node(blocks, np.int64(blocks.child[root * 32 + c]))
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
            rows = lengthened(rows, n + 1024)
            slots = lengthened(slots, n + 1024)
    name_slots(blocks, slots, first, n)
    return rows, slots, n
