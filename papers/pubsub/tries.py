"""Tries of patterns that burst: a node's bucket holds every pattern that leads to it, until it is full; then those that go on move to its
children by their next byte, and the bucket keeps those that end there.

Read backwards (`suffix`), a walk from the end of a value meets all patterns the value ends with, and walks from every place all that it
contains. Read forwards with failure links, a trie is an Aho-Corasick automaton.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.strings import StringView
from pastforward.papers.pubsub.forest import (
    BUCKET,
    BURST,
    BYTE,
    CHILD,
    DEPTH,
    I32,
    I64,
    NONE,
    PARENT,
    SIBLING,
    TRIE_POOL,
    U8,
    free_row,
    take_row,
)


@inner
def new_trie_node(nodes: I32, state: I64, parent: Int, byte: Int, depth: Int) -> Int:
    node = take_row(nodes, state, TRIE_POOL)
    nodes[node, PARENT] = parent
    nodes[node, BURST] = 0
    nodes[node, BYTE] = byte
    nodes[node, DEPTH] = depth
    if parent != NONE:
        nodes[node, SIBLING] = nodes[parent, CHILD]
        nodes[parent, CHILD] = node
    return node


@inner
def child_by(nodes: I32, node: Int, byte: Int) -> Int:
    child = np.int64(nodes[node, CHILD])
    while child != NONE and nodes[child, BYTE] != byte:
        child = np.int64(nodes[child, SIBLING])
    return child


@inner
def byte_of(strings: StringView, pattern: Int, depth: Int, backwards: Bool) -> Int:
    at = strings.offset[pattern]
    return np.int64(strings.heap[at + strings.length[pattern] - 1 - depth if backwards else at + depth])


@inner
def find_trie_node(
    nodes: I32, state: I64, root: Int, strings: StringView, pattern: Int, backwards: Bool
) -> tuple[Int, Bool]:
    """Where a pattern belongs, and whether the node is new: at most one is made, since a new one has not burst."""
    node = np.int64(root)
    while nodes[node, BURST] and nodes[node, DEPTH] < strings.length[pattern]:
        depth = np.int64(nodes[node, DEPTH])
        byte = byte_of(strings, pattern, depth, backwards)
        child = child_by(nodes, node, byte)
        if child == NONE:
            return new_trie_node(nodes, state, node, byte, depth + 1), True
        node = child
    return node, False


@inner
def prune_trie(nodes: I32, state: I64, root: Int, node: Int) -> Int:
    """A node has lost its bucket: it goes if it has no children, and so do those above it. Returns the root."""
    while nodes[node, BUCKET] == NONE and nodes[node, CHILD] == NONE:
        above = np.int64(nodes[node, PARENT])
        after = nodes[node, SIBLING]
        free_row(nodes, state, TRIE_POOL, node)
        if above == NONE:
            return NONE
        if nodes[above, CHILD] == node:
            nodes[above, CHILD] = after
        else:
            child = np.int64(nodes[above, CHILD])
            while nodes[child, SIBLING] != node:
                child = np.int64(nodes[child, SIBLING])
            nodes[child, SIBLING] = after
        node = above
    return root


@inner
def walk_back(nodes: I32, root: Int, heap: U8, offset: Int, end: Int, seen: I32, mark: Int, out: I32, n: Int) -> Int:
    """Appends the buckets on the way from the byte before `end` back to `offset`, but those seen under this mark."""
    node = np.int64(root)
    while node != NONE:
        bucket = nodes[node, BUCKET]
        if bucket != NONE and seen[bucket] != mark:
            seen[bucket] = mark
            out[n] = bucket
            n += 1
        end -= 1
        if end < offset:
            break
        node = child_by(nodes, node, np.int64(heap[end]))
    return n
