"""Interval trees: a node's bucket holds what contains the node's centre; what lies wholly left or right is the children's.

A node is born undivided, and its bucket holds everything that comes to it; when the bucket is full, the node gets its centre. Where the
attribute's domain is known, that is the middle of the node's part of it, so a tree over K values is at most log K deep. Where it is not,
it is the median end of the ranges in the bucket.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.attributes import INTEGER
from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Int
from pastforward.matching.index.keys import number_key
from pastforward.papers.pubsub.forest import (
    BUCKET,
    CENTRE,
    CUT,
    DOMAIN_HIGH,
    DOMAIN_LOW,
    I32,
    I64,
    INTERVAL_POOL,
    LEFT,
    NONE,
    PARENT,
    RIGHT,
    U64,
    free_row,
    take_row,
)
from pastforward.papers.pubsub.sorting import order_of


@inner
def new_node(nodes: I32, keys: U64, state: I64, parent: Int, low: Int, high: Int) -> Int:
    """For the values `low` to `high - 1`, if there are any."""
    node = take_row(nodes, state, INTERVAL_POOL)
    nodes[node, PARENT] = parent
    nodes[node, CUT] = 0
    keys[node, DOMAIN_LOW] = np.uint64(low)
    keys[node, DOMAIN_HIGH] = np.uint64(high)
    return node


@inner
def find_node(nodes: I32, keys: U64, state: I64, root: Int, low: Int, high: Int) -> Int:
    """Where a range belongs; a node that is missing on the way is made."""
    node = np.int64(root)
    while nodes[node, CUT]:
        centre = keys[node, CENTRE]
        if high < centre:
            child = LEFT
        elif low > centre:
            child = RIGHT
        else:
            break
        if nodes[node, child] == NONE:
            first = np.int64(keys[node, DOMAIN_LOW])
            last = np.int64(keys[node, DOMAIN_HIGH])
            middle = _middle(first, last)
            if child == LEFT:
                last = middle
            else:
                first = middle + 1
            nodes[node, child] = new_node(nodes, keys, state, node, first, max(first, last))
        node = np.int64(nodes[node, child])
    return node


@inner
def _middle(low: Int, high: Int) -> Int:
    # the sum might not fit
    return (low >> 1) + (high >> 1) + (low & high & 1)


@inner
def cut(nodes: I32, keys: U64, node: Int, starts: U64, ends: U64) -> Int:
    """Gives a node its centre; the ranges are those of its bucket, at least one."""
    low = np.int64(keys[node, DOMAIN_LOW])
    high = np.int64(keys[node, DOMAIN_HIGH])
    if low < high:
        centre = number_key(INTEGER, _middle(low, high))
    else:
        both = np.empty(2 * len(starts), np.uint64)
        both[: len(starts)] = starts
        both[len(starts) :] = ends
        centre = both[order_of(both, both)[len(starts)]]
    keys[node, CENTRE] = centre
    nodes[node, CUT] = 1
    return centre


@inner
def prune(nodes: I32, state: I64, root: Int, node: Int) -> Int:
    """A node has lost its bucket: it goes if it has no children, and so do those above it. Returns the root."""
    while nodes[node, BUCKET] == NONE and nodes[node, LEFT] == NONE and nodes[node, RIGHT] == NONE:
        above = np.int64(nodes[node, PARENT])
        free_row(nodes, state, INTERVAL_POOL, node)
        if above == NONE:
            return NONE
        if nodes[above, LEFT] == node:
            nodes[above, LEFT] = NONE
        else:
            nodes[above, RIGHT] = NONE
        node = above
    return root


@inner
def stab_intervals(nodes: I32, keys: U64, root: Int, key: Int, out: I32, n: Int) -> Int:
    """Appends the buckets that may hold a range with the key in it; returns their number."""
    node = np.int64(root)
    while node != NONE:
        if nodes[node, BUCKET] != NONE:
            out[n] = nodes[node, BUCKET]
            n += 1
        if not nodes[node, CUT] or keys[node, CENTRE] == key:
            break
        node = np.int64(nodes[node, LEFT] if key < keys[node, CENTRE] else nodes[node, RIGHT])
    return n
