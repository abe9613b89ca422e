"""Red-black trees of buckets: routers inside, a bucket at each leaf. Of a router's key, what is less lies left.

Leaves stand where textbooks have empty nodes: they are black, and a new leaf comes with a red router above it and a neighbour. With
`heap` the tree is a priority search tree as well, and rotations keep it one.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Int
from pastforward.papers.pubsub.forest import (
    BUCKET,
    I32,
    I64,
    KEY_HIGH,
    KEY_LOW,
    LEFT,
    NONE,
    PARENT,
    RED,
    RIGHT,
    TOP,
    TREE_POOL,
    U64,
    free_row,
    take_row,
)
from pastforward.papers.pubsub.priority_search import hold, less, pull, release


@inner
def find_leaf(tree: I32, keys: U64, root: Int, low: Int, high: Int) -> Int:
    node = np.int64(root)
    while tree[node, BUCKET] == NONE:
        if less(low, high, keys[node, KEY_LOW], keys[node, KEY_HIGH]):
            node = np.int64(tree[node, LEFT])
        else:
            node = np.int64(tree[node, RIGHT])
    return node


@inner
def new_leaf(tree: I32, keys: U64, state: I64, bucket: Int, low: Int, high: Int) -> Int:
    leaf = take_row(tree, state, TREE_POOL)
    tree[leaf, RED] = 0
    tree[leaf, BUCKET] = bucket
    keys[leaf, 0] = low
    keys[leaf, 1] = high
    keys[leaf, 2] = low
    keys[leaf, 3] = high
    return leaf


@inner
def _replace(tree: I32, root: Int, old: Int, new: Int) -> Int:
    """Puts `new` where `old` hangs; returns the root."""
    above = tree[old, PARENT]
    tree[new, PARENT] = above
    if above == NONE:
        return new
    if tree[above, LEFT] == old:
        tree[above, LEFT] = new
    else:
        tree[above, RIGHT] = new
    return root


@inner
def _rotate(tree: I32, keys: U64, root: Int, down: Int, rising: Int, heap: Bool) -> Int:
    """The child on the side `rising` takes the place of `down`; returns the root."""
    other = LEFT + RIGHT - rising
    up = np.int64(tree[down, rising])
    middle = np.int64(tree[up, other])
    root = _replace(tree, root, down, up)
    tree[up, other] = down
    tree[down, PARENT] = up
    tree[down, rising] = middle
    tree[middle, PARENT] = down
    if heap:
        best = tree[down, TOP]
        second = np.int64(tree[up, TOP])
        tree[up, TOP] = best
        pull(tree, keys, down)
        if second != NONE:
            hold(tree, keys, up, second)
    return root


@inner
def insert_beside(
    tree: I32,
    keys: U64,
    state: I64,
    root: Int,
    leaf: Int,
    fresh: Int,
    on_left: Bool,
    low: Int,
    high: Int,
    heap: Bool,
) -> Int:
    """Hangs the new leaf on one side of `leaf`, parted by a router of the key given. With `heap` nobody holds either of the two,
    and they are to be held again. Returns the root."""
    router = take_row(tree, state, TREE_POOL)
    keys[router, KEY_LOW] = low
    keys[router, KEY_HIGH] = high
    tree[router, RED] = 1
    root = _replace(tree, root, leaf, router)
    tree[router, LEFT] = fresh if on_left else leaf
    tree[router, RIGHT] = leaf if on_left else fresh
    tree[leaf, PARENT] = router
    tree[fresh, PARENT] = router
    node = np.int64(router)
    while tree[node, PARENT] != NONE and tree[tree[node, PARENT], RED]:
        above = np.int64(tree[node, PARENT])
        top = np.int64(tree[above, PARENT])  # is there: the root is black
        near = LEFT if tree[top, LEFT] == above else RIGHT
        uncle = np.int64(tree[top, LEFT + RIGHT - near])
        if tree[uncle, RED]:
            tree[above, RED] = 0
            tree[uncle, RED] = 0
            tree[top, RED] = 1
            node = top
            continue
        if tree[above, near] != node:
            root = _rotate(tree, keys, root, above, LEFT + RIGHT - near, heap)
            above = node
        tree[above, RED] = 0
        tree[top, RED] = 1
        root = _rotate(tree, keys, root, top, near, heap)
        break
    tree[root, RED] = 0
    return root


@inner
def delete_leaf(tree: I32, keys: U64, state: I64, root: Int, leaf: Int, heap: Bool) -> Int:
    """Takes a leaf out, and the router above it; returns the root, NONE if nothing is left."""
    if heap:
        release(tree, keys, root, leaf)
    above = np.int64(tree[leaf, PARENT])
    free_row(tree, state, TREE_POOL, leaf)
    if above == NONE:
        return NONE
    left = tree[above, LEFT] == leaf
    node = np.int64(tree[above, RIGHT] if left else tree[above, LEFT])
    held = np.int64(tree[above, TOP])
    was_black = not tree[above, RED]
    root = _replace(tree, root, above, node)
    if heap and held != NONE:
        hold(tree, keys, node, held)
    free_row(tree, state, TREE_POOL, above)
    if was_black:
        root = _restore(tree, keys, root, node, heap)
    return root


@inner
def _restore(tree: I32, keys: U64, root: Int, node: Int, heap: Bool) -> Int:
    """The ways through `node` lack one black node."""
    while node != root and not tree[node, RED]:
        above = np.int64(tree[node, PARENT])
        near = LEFT if tree[above, LEFT] == node else RIGHT
        far = LEFT + RIGHT - near
        beside = np.int64(tree[above, far])
        if tree[beside, RED]:
            tree[beside, RED] = 0
            tree[above, RED] = 1
            root = _rotate(tree, keys, root, above, far, heap)
            beside = np.int64(tree[above, far])
        if not tree[tree[beside, LEFT], RED] and not tree[tree[beside, RIGHT], RED]:
            tree[beside, RED] = 1
            node = above
            continue
        if not tree[tree[beside, far], RED]:
            tree[tree[beside, near], RED] = 0
            tree[beside, RED] = 1
            root = _rotate(tree, keys, root, beside, near, heap)
            beside = np.int64(tree[above, far])
        tree[beside, RED] = tree[above, RED]
        tree[above, RED] = 0
        tree[tree[beside, far], RED] = 0
        root = _rotate(tree, keys, root, above, far, heap)
        node = root
    tree[node, RED] = 0
    return root
