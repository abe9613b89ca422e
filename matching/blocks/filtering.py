"""Pair by pair from roots and chunks to leaves, and from leaves to slots."""

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
from pastforward.matching.blocks.lists import AHEAD, STEP, lengthened
from pastforward.matching.blocks.view import (
    BOX_BYTES,
    LEAF_LANES,
    Blocks,
)

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]


LIST: Final = 2048  # pairs collected before they are tested: what the first cache holds


@inner
def _ask_for_leaf(lanes: U8, leaf: Int) -> None:
    for line in range(5):
        prefetch(lanes, leaf * LEAF_LANES + 64 * line)


@inner
def ask_for_node(blocks: Blocks, node: Int) -> None:
    for line in range(3):
        prefetch(blocks.boxes, node * BOX_BYTES + 64 * line)
    prefetch(blocks.child, node * 32)
    prefetch(blocks.child, node * 32 + 16)


@inner
def test_leaves(
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
    for i in range(min(AHEAD, count)):
        _ask_for_leaf(lanes, np.int64(leaves[i]))
    for begin in range(0, count, STEP):
        # room is made for many at a time: where an array may be replaced, Numba counts references, which costs more than the test
        if n + 32 * STEP > len(rows):
            rows = lengthened(rows, n + 32 * STEP)
            slots = lengthened(slots, n + 32 * STEP)
        for i in range(begin, min(begin + STEP, count)):
            if i + AHEAD < count:
                _ask_for_leaf(lanes, np.int64(leaves[i + AHEAD]))
            leaf = np.int64(leaves[i])
            row = leaf_rows[i]
            if interval:
                mask = leaf_test_interval(lanes, leaf * LEAF_LANES, low, high, np.int64(row) * TABLE)
            else:
                mask = leaf_test(lanes, leaf * LEAF_LANES, high, high, np.int64(row) * TABLE)
            if mask:
                n = note_lanes(blocks, row, leaf, mask, rows, slots, n)
    name_slots(blocks, slots, first, n)
    return rows, slots, n


@inner
def note_lanes(blocks: Blocks, row: Int, leaf: Int, mask: Int, rows: I32, slots: I32, n: Int) -> Int:
    """Rows and places of the lanes in a mask; `name_slots` follows, when their slots have come from memory."""
    prefetch(blocks.leaf_slots, leaf * 32)
    prefetch(blocks.leaf_slots, leaf * 32 + 16)
    while mask:
        rows[n] = row
        slots[n] = leaf * 32 + trailing_zeros(mask)
        n += 1
        mask &= mask - np.uint32(1)
    return n


@inner
def name_slots(blocks: Blocks, slots: I32, begin: Int, end: Int) -> None:
    """Places become slots."""
    leaf_slots = blocks.leaf_slots
    for i in range(begin, end):
        slots[i] = leaf_slots[slots[i]]


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
    for i in range(begin, min(begin + AHEAD, count)):
        ask_for_node(blocks, np.int64(nodes[i]))
    for i in range(begin, count):
        if at + 32 > len(out):
            return at, i
        # a node that comes again is there already
        if i + AHEAD < count and nodes[i + AHEAD] != nodes[i + AHEAD - 1]:
            ask_for_node(blocks, np.int64(nodes[i + AHEAD]))
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
def test_chunks(
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
        rows, slots, n = test_leaves(blocks, leaf_rows, leaves, found, low, high, interval, rows, slots, n)
    return rows, slots, n


@inner
def test_roots(
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
    chunk_rows = np.empty(LIST, np.int32)
    chunks = np.empty(LIST, np.int32)
    while count:
        done = 0
        while done < count:
            found, done = _test_nodes(blocks, root_rows, roots, count, low, high, interval, chunk_rows, chunks, done)
            rows, slots, n = test_chunks(
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
