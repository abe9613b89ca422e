"""The tree of topics: a node for each path at or below which something stands, and no other.

Children are found by hashing (parent, component), and are chained as siblings for walks over a subtree.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import mix_positive
from pastforward.columns.kernel import bare
from pastforward.state.kernels.records import (
    NODE_FREE,
    NODE_FREE_COUNT,
    NODE_TOP,
    NODES,
    NONE,
    PUBLICATION,
    SUBSCRIPTION,
    Array,
    Int,
    Memory,
)

ROOT = 0
TOPIC_OK = 0
TOPIC_BAD = 1
TOPIC_DEEP = 2


@bare
def parse_paths(
    text: Array, low: Array, high: Array, deepest: int, largest: Int, paths: Array, components: Array
) -> tuple[int, int]:
    """Reads dotted paths into components. Returns (TOPIC_OK, 0), or what is wrong and with which path."""
    count = 0
    for path in range(len(low)):
        paths[path] = count
        at = low[path]
        end = high[path]
        depth = 0
        while at < end:
            value = np.uint64(0)
            digits = 0
            first = text[at]
            while at < end and text[at] != 46:
                digit = np.int64(text[at]) - 48
                if digit < 0 or digit > 9 or digits == 19:  # 2^63 has 19 digits
                    return TOPIC_BAD, path
                value = value * np.uint64(10) + np.uint64(digit)
                digits += 1
                at += 1
            if digits == 0 or (digits > 1 and first == 48) or value > np.uint64(largest):
                return TOPIC_BAD, path
            if at < end:
                at += 1
                if at == end:
                    return TOPIC_BAD, path
            depth += 1
            if depth > deepest:
                return TOPIC_DEEP, path
            components[count] = value
            count += 1
    paths[len(low)] = count
    return TOPIC_OK, 0


@bare
def _home(parent: Int, component: Int, mask: int) -> int:
    return mix_positive(np.uint64(component) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(parent)) & mask


@bare
def _slot(memory: Memory, parent: int, component: Int) -> int:
    """Of the child, or the empty one where it would stand."""
    table = memory.node_map
    mask = len(table) - 1
    slot = _home(parent, component, mask)
    while True:
        node = table[slot]
        if node == NONE or (memory.nodes[node].parent == parent and memory.nodes[node].component == component):
            return slot
        slot = (slot + 1) & mask


@bare
def descend(memory: Memory, components: Array, low: int, high: int) -> int:
    """The deepest node there is on the path. It is the path's own when its depth is `high - low`."""
    node = ROOT
    for at in range(low, high):
        child = memory.node_map[_slot(memory, node, components[at])]
        if child == NONE:
            break
        node = child
    return int(node)


@bare
def intern(memory: Memory, node: int, components: Array, low: int, high: int) -> int:
    """The path's node, made below `node`, which `descend` returned. The caller puts an item there."""
    scalars = memory.scalars
    nodes = memory.nodes
    for at in range(low + nodes[node].depth, high):
        slot = _slot(memory, node, components[at])
        child = scalars[NODE_FREE]
        if child != NONE:
            scalars[NODE_FREE] = nodes[child].sibling
            scalars[NODE_FREE_COUNT] -= 1
        else:
            child = scalars[NODE_TOP]
            scalars[NODE_TOP] += 1
        scalars[NODES] += 1
        nodes[child].component = components[at]
        nodes[child].parent = node
        nodes[child].child = NONE
        nodes[child].depth = nodes[node].depth + 1
        nodes[child].known = 0
        nodes[child].elder = NONE
        oldest = nodes[node].child
        nodes[child].sibling = oldest
        if oldest != NONE:
            nodes[oldest].elder = child
        nodes[node].child = child
        for kind in (SUBSCRIPTION, PUBLICATION):
            place = 2 * child + kind
            memory.lists[place].head = NONE
            memory.lists[place].tower = NONE
            memory.lists[place].below = 0
        memory.node_map[slot] = child
        node = child
    return int(node)


@bare
def count(memory: Memory, node: int, kind: int, change: int) -> None:
    """One item more or less at the node; nodes that nothing stands at or below any more are given back."""
    nodes = memory.nodes
    while node != NONE:
        parent = nodes[node].parent
        memory.lists[2 * node + kind].below += change
        empty = memory.lists[2 * node].below == 0 and memory.lists[2 * node + 1].below == 0
        if change < 0 and empty and node != ROOT:
            _remove(memory, node)
        node = parent


@bare
def _remove(memory: Memory, node: int) -> None:
    nodes = memory.nodes
    elder = nodes[node].elder
    sibling = nodes[node].sibling
    if elder == NONE:
        nodes[nodes[node].parent].child = sibling
    else:
        nodes[elder].sibling = sibling
    if sibling != NONE:
        nodes[sibling].elder = elder
    _unmap(memory, node)
    scalars = memory.scalars
    nodes[node].sibling = scalars[NODE_FREE]
    scalars[NODE_FREE] = node
    scalars[NODE_FREE_COUNT] += 1
    scalars[NODES] -= 1


@bare
def _unmap(memory: Memory, node: int) -> None:
    """Closes the gap by moving later entries of the run forward, so that no tombstones are needed."""
    table = memory.node_map
    nodes = memory.nodes
    mask = len(table) - 1
    gap = _slot(memory, nodes[node].parent, nodes[node].component)
    at = gap
    while True:
        at = (at + 1) & mask
        other = table[at]
        if other == NONE:
            break
        home = _home(nodes[other].parent, nodes[other].component, mask)
        if (at - home) & mask >= (at - gap) & mask:
            table[gap] = other
            gap = at
    table[gap] = NONE


@bare
def rebuild_node_map(memory: Memory, table: Array) -> None:
    """Fills a larger table."""
    nodes = memory.nodes
    mask = len(table) - 1
    for slot in range(len(memory.node_map)):
        node = memory.node_map[slot]
        if node != NONE:
            at = _home(nodes[node].parent, nodes[node].component, mask)
            while table[at] != NONE:
                at = (at + 1) & mask
            table[at] = node
