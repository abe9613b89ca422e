"""Taking leaves, nodes, groups and tables from their pools, and giving them back. Room was made before."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Int
from pastforward.matching.blocks.codes import pair_cell
from pastforward.matching.blocks.view import (
    BOX_BYTES,
    EQUAL_ONE,
    EQUAL_TWO,
    FREE_GROUP,
    FREE_LEAF,
    FREE_NODE,
    GROUP_CELLS,
    GROUPS,
    INLINE,
    LEAF_LANES,
    LEAVES,
    LIVE_GROUPS,
    LIVE_LEAVES,
    LIVE_NODES,
    MEMBERS,
    NODES,
    PAIR,
    SINGLE,
    TABLES,
    Blocks,
)


@inner
def new_leaf(blocks: Blocks, group: Int, parent: Int, epoch: Int) -> Int:
    state = blocks.state
    leaf = state[FREE_LEAF]
    if leaf:
        state[FREE_LEAF] = np.int64(blocks.leaf_parent[leaf])
    else:
        leaf = state[LEAVES]
        state[LEAVES] += 1
    state[LIVE_LEAVES] += 1
    base = leaf * LEAF_LANES
    for k in range(3):
        blocks.lanes[base + 96 * k : base + 96 * k + 32] = 0
        blocks.lanes[base + 96 * k + 32 : base + 96 * k + 64] = 255
        blocks.lanes[base + 96 * k + 64 : base + 96 * k + 96] = 0
    blocks.leaf_slots[leaf * 32 : leaf * 32 + 32] = -1
    blocks.leaf_count[leaf] = 0
    blocks.leaf_parent[leaf] = parent
    blocks.leaf_group[leaf] = group
    blocks.leaf_epoch[leaf] = epoch
    return leaf


@inner
def free_leaf(blocks: Blocks, leaf: Int) -> None:
    blocks.leaf_group[leaf] = 0
    blocks.leaf_parent[leaf] = blocks.state[FREE_LEAF]
    blocks.state[FREE_LEAF] = leaf
    blocks.state[LIVE_LEAVES] -= 1


@inner
def clear_box(blocks: Blocks, node: Int, position: Int) -> None:
    base = node * BOX_BYTES + position
    for k in range(2):
        blocks.boxes[base + 96 * k] = 0
        blocks.boxes[base + 96 * k + 32] = 255
        blocks.boxes[base + 96 * k + 64] = 0


@inner
def new_node(blocks: Blocks, group: Int, epoch: Int) -> Int:
    state = blocks.state
    node = state[FREE_NODE]
    if node:
        state[FREE_NODE] = np.int64(blocks.node_parent[node])
    else:
        node = state[NODES]
        state[NODES] += 1
    state[LIVE_NODES] += 1
    for position in range(32):
        clear_box(blocks, node, position)
        blocks.child[node * 32 + position] = 0
    blocks.children[node] = 0
    blocks.node_live[node] = 0
    blocks.node_gone[node] = 0
    blocks.node_parent[node] = 0
    blocks.node_group[node] = group
    blocks.node_epoch[node] = epoch
    return node


@inner
def free_node(blocks: Blocks, node: Int) -> None:
    blocks.node_group[node] = 0
    blocks.node_parent[node] = blocks.state[FREE_NODE]
    blocks.state[FREE_NODE] = node
    blocks.state[LIVE_NODES] -= 1


@inner
def group_key(table: Int, a: Int, b: Int) -> Int:
    return mix(a * np.uint64(0x9E3779B97F4A7C15) + mix(b + np.uint64(table)))


@inner
def find_group(blocks: Blocks, key: Int) -> Int:
    mask = len(blocks.group_cells) - 1
    at = np.int64(key & np.uint64(mask))
    while True:
        entry = blocks.group_cells[at]
        if entry == 0:
            return 0
        if entry > 0 and blocks.group_key[entry] == key:
            return np.int64(entry)
        at = (at + 1) & mask


@inner
def new_group(blocks: Blocks, table: Int, key: Int, low_a: Int, low_b: Int) -> Int:
    state = blocks.state
    group = state[FREE_GROUP]
    if group:
        state[FREE_GROUP] = np.int64(blocks.group_ref[group])
    else:
        group = state[GROUPS]
        state[GROUPS] += 1
    state[LIVE_GROUPS] += 1
    blocks.group_form[group] = INLINE
    blocks.group_ref[group] = 0
    blocks.group_count[group] = 0
    blocks.group_table[group] = table
    blocks.group_key[group] = key
    blocks.group_low[2 * group] = low_a
    blocks.group_low[2 * group + 1] = low_b
    following = blocks.table_group[table]
    blocks.group_next[group] = following
    blocks.group_previous[group] = 0
    if following:
        blocks.group_previous[following] = group
    blocks.table_group[table] = group
    mask = len(blocks.group_cells) - 1
    at = np.int64(key & np.uint64(mask))
    while blocks.group_cells[at] > 0:
        at = (at + 1) & mask
    if blocks.group_cells[at] == 0:
        state[GROUP_CELLS] += 1
    blocks.group_cells[at] = group
    return group


@inner
def free_group(blocks: Blocks, group: Int) -> None:
    state = blocks.state
    mask = len(blocks.group_cells) - 1
    at = np.int64(blocks.group_key[group] & np.uint64(mask))
    while blocks.group_cells[at] != group:
        at = (at + 1) & mask
    blocks.group_cells[at] = -1
    before = blocks.group_previous[group]
    after = blocks.group_next[group]
    if before:
        blocks.group_next[before] = after
    else:
        blocks.table_group[blocks.group_table[group]] = after
    if after:
        blocks.group_previous[after] = before
    blocks.group_table[group] = 0
    blocks.group_ref[group] = state[FREE_GROUP]
    state[FREE_GROUP] = group
    state[LIVE_GROUPS] -= 1


@inner
def rebuild_group_cells(blocks: Blocks) -> None:
    mask = len(blocks.group_cells) - 1
    used = 0
    for group in range(1, blocks.state[GROUPS]):
        if not blocks.group_table[group]:
            continue
        at = np.int64(blocks.group_key[group] & np.uint64(mask))
        while blocks.group_cells[at] != 0:
            at = (at + 1) & mask
        blocks.group_cells[at] = group
        used += 1
    blocks.state[GROUP_CELLS] = used


@inner
def _table_cell(kind: Int, a: Int, b: Int, mask: Int) -> Int:
    key = (np.uint64(kind) << np.uint64(42)) | (np.uint64(a + 1) << np.uint64(21)) | np.uint64(b + 1)
    return np.int64(mix(key) & np.uint64(mask))


@inner
def find_table(blocks: Blocks, kind: Int, a: Int, b: Int) -> Int:
    mask = len(blocks.table_cells) - 1
    at = _table_cell(kind, a, b, mask)
    while True:
        table = np.int64(blocks.table_cells[at])
        if table == 0:
            return 0
        if blocks.table_kind[table] == kind and blocks.table_a[table] == a and blocks.table_b[table] == b:
            return table
        at = (at + 1) & mask


@inner
def new_table(blocks: Blocks, kind: Int, a: Int, b: Int) -> Int:
    """Tables are few and stay, empty ones too: they are unlinked from their attribute while they are empty."""
    table = blocks.state[TABLES]
    blocks.state[TABLES] += 1
    blocks.table_kind[table] = kind
    blocks.table_a[table] = a
    blocks.table_b[table] = b
    blocks.table_count[table] = 0
    blocks.table_group[table] = 0
    blocks.table_next[table] = 0
    mask = len(blocks.table_cells) - 1
    at = _table_cell(kind, a, b, mask)
    while blocks.table_cells[at]:
        at = (at + 1) & mask
    blocks.table_cells[at] = table
    return table


@inner
def rebuild_table_cells(blocks: Blocks) -> None:
    mask = len(blocks.table_cells) - 1
    for table in range(1, blocks.state[TABLES]):
        at = _table_cell(
            np.int64(blocks.table_kind[table]), np.int64(blocks.table_a[table]), np.int64(blocks.table_b[table]), mask
        )
        while blocks.table_cells[at]:
            at = (at + 1) & mask
        blocks.table_cells[at] = table


@inner
def count_in_table(blocks: Blocks, table: Int, change: Int) -> None:
    """A table that is not empty hangs in the list of its first attribute."""
    before = blocks.table_count[table]
    blocks.table_count[table] += change
    a = blocks.table_a[table]
    if a < 0:
        return
    kind = blocks.table_kind[table]
    if kind == EQUAL_ONE or kind == SINGLE:
        blocks.alone[2 * a + (1 if kind == SINGLE else 0)] += np.int32(change)
    elif kind == EQUAL_TWO or kind == PAIR:
        at = pair_cell(np.int64(kind), np.int64(a), np.int64(blocks.table_b[table])) + MEMBERS
        blocks.pairs[at] += np.int32(change)
    if before == 0 and change > 0:
        blocks.table_next[table] = blocks.first_table[a]
        blocks.first_table[a] = table
    elif before + change == 0:
        at = blocks.first_table[a]
        if at == table:
            blocks.first_table[a] = blocks.table_next[table]
        else:
            while blocks.table_next[at] != table:
                at = blocks.table_next[at]
            blocks.table_next[at] = blocks.table_next[table]
