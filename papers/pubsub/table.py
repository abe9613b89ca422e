"""The global hash table: (bucket, attribute) to structure, whatever the level. Open addressing; at most half full."""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Int
from pastforward.papers.pubsub.forest import CELLS, STRUCTURES_HELD, Forest

# A key is the bucket plus one, then 20 bits of attribute; 0 is a cell never used, -1 a released one.


@inner
def _key(bucket: Int, attribute: Int) -> Int:
    return ((np.int64(bucket) + 1) << 20) | np.int64(attribute)


@inner
def _home(key: Int, mask: Int) -> Int:
    return np.int64(mix(np.uint64(key)) & np.uint64(mask))


@inner
def find_structure(forest: Forest, bucket: Int, attribute: Int) -> Int:
    """-1 if there is none."""
    table = forest.table
    mask = len(table) - 1
    key = _key(bucket, attribute)
    at = _home(key, mask)
    while True:
        if table[at, 0] == key:
            return table[at, 1]
        if table[at, 0] == 0:
            return -1
        at = (at + 1) & mask


@inner
def put_structure(forest: Forest, bucket: Int, attribute: Int, structure: Int) -> None:
    """Room was made, and the key is not there."""
    table = forest.table
    mask = len(table) - 1
    key = _key(bucket, attribute)
    at = _home(key, mask)
    while table[at, 0] > 0:
        at = (at + 1) & mask
    if table[at, 0] == 0:
        forest.state[CELLS] += 1
    table[at, 0] = key
    table[at, 1] = structure
    forest.state[STRUCTURES_HELD] += 1


@inner
def drop_structure(forest: Forest, bucket: Int, attribute: Int) -> None:
    table = forest.table
    mask = len(table) - 1
    key = _key(bucket, attribute)
    at = _home(key, mask)
    while table[at, 0] != key:
        at = (at + 1) & mask
    table[at, 0] = -1
    forest.state[STRUCTURES_HELD] -= 1


@kernel
def _copy(old: np.ndarray, fresh: np.ndarray) -> Int:
    mask = len(fresh) - 1
    used = 0
    for i in range(len(old)):
        if old[i, 0] > 0:
            at = _home(old[i, 0], mask)
            while fresh[at, 0] != 0:
                at = (at + 1) & mask
            fresh[at, 0] = old[i, 0]
            fresh[at, 1] = old[i, 1]
            used += 1
    return used


def with_cells(forest: Forest, more: int) -> Forest:
    """A table with room for so many more structures."""
    if 2 * (int(forest.state[CELLS]) + more) <= len(forest.table):
        return forest
    cells = 64
    while cells < 4 * (int(forest.state[STRUCTURES_HELD]) + more):
        cells *= 2
    fresh = np.zeros((cells, 2), np.int64)
    forest.state[CELLS] = _copy(forest.table, fresh)
    return forest._replace(table=fresh)
