"""Failure links over a trie of patterns, and the one pass over a value that finds all it contains."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Int
from pastforward.papers.pubsub.forest import BUCKET, BYTE, CHILD, FAIL, I32, I64, NONE, OUTPUT, SIBLING, TRIE_POOL, U8
from pastforward.papers.pubsub.tries import child_by


@inner
def link(nodes: I32, state: I64, root: Int) -> None:
    """Makes all links of a trie, level by level."""
    if root == NONE:
        return
    queue = np.empty(state[TRIE_POOL], np.int32)
    queue[0] = root
    nodes[root, FAIL] = root
    nodes[root, OUTPUT] = root if nodes[root, BUCKET] != NONE else NONE
    done = 0
    known = 1
    while done < known:
        node = np.int64(queue[done])
        done += 1
        child = np.int64(nodes[node, CHILD])
        while child != NONE:
            fail = np.int64(root)
            if node != root:
                fail = _step(nodes, root, np.int64(nodes[node, FAIL]), np.int64(nodes[child, BYTE]))
            nodes[child, FAIL] = fail
            nodes[child, OUTPUT] = child if nodes[child, BUCKET] != NONE else nodes[fail, OUTPUT]
            queue[known] = child
            known += 1
            child = np.int64(nodes[child, SIBLING])


@inner
def _step(nodes: I32, root: Int, node: Int, byte: Int) -> Int:
    while True:
        child = child_by(nodes, node, byte)
        if child != NONE:
            return child
        if node == root:
            return root
        node = np.int64(nodes[node, FAIL])


@inner
def run(nodes: I32, root: Int, heap: U8, offset: Int, length: Int, seen: I32, mark: Int, out: I32, n: Int) -> Int:
    """Appends the buckets of all patterns in a value, but those seen under this mark."""
    if root == NONE:
        return n
    node = np.int64(root)
    at = offset
    while True:
        found = np.int64(nodes[node, OUTPUT])
        while found != NONE:
            bucket = nodes[found, BUCKET]
            if seen[bucket] == mark:
                break  # and so are those behind it
            seen[bucket] = mark
            out[n] = bucket
            n += 1
            if found == root:
                break
            found = np.int64(nodes[nodes[found, FAIL], OUTPUT])
        if at == offset + length:
            return n
        node = _step(nodes, root, node, np.int64(heap[at]))
        at += 1
