"""The priority search in a red-black tree of leaves: each router may hold one leaf of those below it, the one of highest priority that no
router above holds; a leaf that nobody holds is held by itself. So priorities fall on the way down, and a search for leaves that begin
at or before a key and end at or after it stops where priorities are too low: O(log n + found) (McCreight; as RBPST by Lu and Sahni).
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Int
from pastforward.papers.pubsub.forest import (
    BUCKET,
    GREATEST,
    I32,
    KEY_HIGH,
    KEY_LOW,
    LEAST,
    LEFT,
    NONE,
    RIGHT,
    TOP,
    U64,
)


@inner
def less(low: Int, high: Int, other_low: Int, other_high: Int) -> Bool:
    """Pairs in the order of their first parts, then their second."""
    return low < other_low or (low == other_low and high < other_high)


@inner
def side(keys: U64, router: Int, leaf: Int) -> Int:
    """LEFT or RIGHT: which way from a router to a leaf below it."""
    if less(keys[leaf, KEY_LOW], keys[leaf, KEY_HIGH], keys[router, KEY_LOW], keys[router, KEY_HIGH]):
        return LEFT
    return RIGHT


@inner
def hold(tree: I32, keys: U64, node: Int, leaf: Int) -> None:
    """Lets the nodes from `node` down hold a leaf that nobody holds."""
    while True:
        held = np.int64(tree[node, TOP])
        if held == NONE:
            tree[node, TOP] = leaf
            return
        if keys[leaf, GREATEST] > keys[held, GREATEST]:
            tree[node, TOP] = leaf
            leaf = held
        node = np.int64(tree[node, side(keys, node, leaf)])


@inner
def pull(tree: I32, keys: U64, node: Int) -> None:
    """A node has lost what it held: the better of what its children hold moves up, and so on down."""
    while tree[node, BUCKET] == NONE:
        left = np.int64(tree[tree[node, LEFT], TOP])
        right = np.int64(tree[tree[node, RIGHT], TOP])
        if left == NONE and right == NONE:
            break
        if right == NONE or (left != NONE and keys[left, GREATEST] >= keys[right, GREATEST]):
            tree[node, TOP] = left
            node = np.int64(tree[node, LEFT])
        else:
            tree[node, TOP] = right
            node = np.int64(tree[node, RIGHT])
    tree[node, TOP] = NONE


@inner
def release(tree: I32, keys: U64, root: Int, leaf: Int) -> None:
    """Nobody holds the leaf any more."""
    node = np.int64(root)
    while tree[node, TOP] != leaf:
        node = np.int64(tree[node, side(keys, node, leaf)])
    pull(tree, keys, node)


@inner
def stab(tree: I32, keys: U64, root: Int, key: Int, path: I32, out: I32, n: Int) -> Int:
    """Appends the buckets whose hull contains the key; returns their number. `path` is as long as a tree is deep."""
    if root == NONE:
        return n
    depth = 1
    path[0] = root
    while depth:
        depth -= 1
        node = np.int64(path[depth])
        held = np.int64(tree[node, TOP])
        if held == NONE or keys[held, GREATEST] < key:
            continue
        if keys[held, LEAST] <= key:
            out[n] = tree[held, BUCKET]
            n += 1
        if tree[node, BUCKET] == NONE:
            if keys[node, KEY_LOW] <= key:
                path[depth] = tree[node, RIGHT]
                depth += 1
            path[depth] = tree[node, LEFT]
            depth += 1
    return n
