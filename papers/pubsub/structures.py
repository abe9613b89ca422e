"""Attribute structures: which bucket for a predicate, which buckets for a value, and how a full bucket splits, whatever the kind of D.

| kind         | of                       | buckets part                                                                 |
| INTERVAL     | ranges                   | at centres, as an interval tree                                              |
| RBPST        | ranges, any ordered type | by start, then end of the ranges, as a red-black priority search tree of hulls |
| RED_BLACK    | exact matches            | by the value's hash                                                          |
| SUFFIX       | suffixes, substrings     | by the last bytes of the pattern                                             |
| AHO_CORASICK | substrings               | by the first bytes of the pattern                                            |
What a kind cannot use goes to the structure's wide bucket, which every value reaches.
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

import numpy as np

from pastforward.columns.attributes import STRING
from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.keys import equality_hash
from pastforward.matching.index.records import RecordView
from pastforward.matching.index.strings import StringView
from pastforward.papers.pubsub.aho_corasick import run
from pastforward.papers.pubsub.buckets import free_bucket, new_bucket
from pastforward.papers.pubsub.forest import (
    AHO_CORASICK,
    ATTRIBUTE,
    AUTO,
    BUCKET,
    BUCKETS_HELD,
    BURST,
    CUT,
    EQUALITIES,
    GREATEST,
    I32,
    INNER_ROOT,
    INTERVAL,
    KEY_HIGH,
    KEY_LOW,
    KIND,
    LEAST,
    NODE,
    NONE,
    PARENT_BUCKET,
    RANGES,
    RBPST,
    RED_BLACK,
    ROOT,
    STALE,
    STALE_COUNT,
    STRING_STRUCTURES,
    STRUCTURE_POOL,
    STRUCTURES,
    SUBSTRINGS,
    SUFFIX,
    SUFFIXES,
    UNIFORM,
    WIDE,
    Forest,
    Source,
    free_row,
    take_row,
)
from pastforward.papers.pubsub.interval_tree import find_node, new_node, prune, stab_intervals
from pastforward.papers.pubsub.predicates import hull_on, pattern_on
from pastforward.papers.pubsub.priority_search import hold, release, stab
from pastforward.papers.pubsub.red_black import delete_leaf, find_leaf, new_leaf
from pastforward.papers.pubsub.table import drop_structure, put_structure
from pastforward.papers.pubsub.tries import find_trie_node, new_trie_node, prune_trie, walk_back


@inner
def choose_kind(source: Source, attribute: Int) -> Int:
    """What was asked for; else by what the predicates on the attribute are."""
    if source.option[attribute] != AUTO:
        return np.int64(source.option[attribute])
    uses = source.uses[attribute]
    patterns = uses[SUFFIXES] + uses[SUBSTRINGS]
    if patterns > uses[EQUALITIES] + uses[RANGES]:
        return AHO_CORASICK if uses[SUBSTRINGS] else SUFFIX
    if uses[RANGES] == 0 and patterns == 0:
        return RED_BLACK
    if source.domain[attribute, 0] < source.domain[attribute, 1]:
        return INTERVAL
    return RBPST


@inner
def new_structure(forest: Forest, source: Source, bucket: Int, attribute: Int) -> Int:
    """An empty one, known to the table."""
    kind = choose_kind(source, attribute)
    structure = take_row(forest.structures, forest.state, STRUCTURE_POOL)
    row = forest.structures[structure]
    row[KIND] = kind
    row[ATTRIBUTE] = attribute
    row[PARENT_BUCKET] = bucket
    row[BUCKETS_HELD] = 0
    row[STALE] = 0
    put_structure(forest, bucket, attribute, structure)
    forest.buckets[bucket, STRUCTURES] += 1
    if kind == SUFFIX or kind == AHO_CORASICK:
        forest.state[STRING_STRUCTURES] += 1
    return structure


@inner
def bucket_at(forest: Forest, structure: Int, node: Int) -> Int:
    forest.structures[structure, BUCKETS_HELD] += 1
    return new_bucket(forest, structure, node)


@inner
def _wide_bucket(forest: Forest, structure: Int) -> Int:
    if forest.structures[structure, WIDE] == NONE:
        forest.structures[structure, WIDE] = bucket_at(forest, structure, NONE)
    return np.int64(forest.structures[structure, WIDE])


@inner
def key_of(records: RecordView, strings: StringView, kind: Int, attribute: Int, slot: Int) -> tuple[Int, Int]:
    """What the trees order predicates by."""
    low, high, value = hull_on(records, strings, slot, attribute)
    if kind == RED_BLACK:
        return value, np.uint64(0)
    return low, high


@inner
def find_bucket(
    forest: Forest, records: RecordView, strings: StringView, source: Source, structure: Int, slot: Int
) -> Int:
    """The bucket for a subscription; made if D has none there."""
    row = forest.structures[structure]
    kind = np.int64(row[KIND])
    attribute = np.int64(row[ATTRIBUTE])
    if kind == SUFFIX or kind == AHO_CORASICK:
        return find_trie_bucket(forest, records, strings, structure, slot)
    low, high = key_of(records, strings, kind, attribute, slot)
    if kind == INTERVAL:
        if row[ROOT] == NONE:
            first, last = source.domain[attribute, 0], source.domain[attribute, 1]
            row[ROOT] = new_node(forest.intervals, forest.interval_keys, forest.state, NONE, first, last)
        node = find_node(forest.intervals, forest.interval_keys, forest.state, row[ROOT], low, high)
        if forest.intervals[node, BUCKET] == NONE:
            forest.intervals[node, BUCKET] = bucket_at(forest, structure, node)
        return np.int64(forest.intervals[node, BUCKET])
    if kind == RED_BLACK and low == 0:
        return _wide_bucket(forest, structure)
    if row[ROOT] == NONE:
        bucket = bucket_at(forest, structure, NONE)
        leaf = new_leaf(forest.tree, forest.tree_keys, forest.state, bucket, low, high)
        forest.places[bucket, NODE] = leaf
        row[ROOT] = leaf
        if kind == RBPST:
            hold(forest.tree, forest.tree_keys, leaf, leaf)
        return bucket
    return np.int64(forest.tree[find_leaf(forest.tree, forest.tree_keys, row[ROOT], low, high), BUCKET])


@inner
def find_trie_bucket(forest: Forest, records: RecordView, strings: StringView, structure: Int, slot: Int) -> Int:
    row = forest.structures[structure]
    pattern, anchored = pattern_on(records, strings, slot, np.int64(row[ATTRIBUTE]))
    if pattern < 0:
        return _wide_bucket(forest, structure)
    backwards = row[KIND] == SUFFIX
    which = INNER_ROOT if backwards and not anchored else ROOT
    if row[which] == NONE:
        row[which] = new_trie_node(forest.tries, forest.state, NONE, 0, 0)
    node, _fresh = find_trie_node(forest.tries, forest.state, row[which], strings, pattern, backwards)
    if forest.tries[node, BUCKET] == NONE:
        forest.tries[node, BUCKET] = bucket_at(forest, structure, node)
        _make_stale(forest, structure)
    return np.int64(forest.tries[node, BUCKET])


@inner
def _make_stale(forest: Forest, structure: Int) -> None:
    row = forest.structures[structure]
    if row[KIND] == AHO_CORASICK and not row[STALE]:
        row[STALE] = 1
        forest.state[STALE_COUNT] += 1


@inner
def fits(forest: Forest, records: RecordView, strings: StringView, structure: Int, bucket: Int, slot: Int) -> Bool:
    """Whether a bucket may take a subscription without splitting: one whose predicates are all the same, only the same."""
    if not forest.places[bucket, UNIFORM]:
        return True
    row = forest.structures[structure]
    low, high = key_of(records, strings, np.int64(row[KIND]), np.int64(row[ATTRIBUTE]), slot)
    node = forest.places[bucket, NODE]
    return bool(forest.tree_keys[node, KEY_LOW] == low and forest.tree_keys[node, KEY_HIGH] == high)


@inner
def admit(forest: Forest, records: RecordView, strings: StringView, structure: Int, bucket: Int, slot: Int) -> None:
    """Widens the hull that D has of a bucket; before the subscription goes into it."""
    row = forest.structures[structure]
    if row[KIND] != RBPST:
        return
    low, high = key_of(records, strings, np.int64(RBPST), np.int64(row[ATTRIBUTE]), slot)
    keys = forest.tree_keys
    leaf = np.int64(forest.places[bucket, NODE])
    keys[leaf, LEAST] = min(keys[leaf, LEAST], low)
    if high > keys[leaf, GREATEST]:
        release(forest.tree, keys, row[ROOT], leaf)
        keys[leaf, GREATEST] = high
        hold(forest.tree, keys, row[ROOT], leaf)


@inner
def is_settled(forest: Forest, structure: Int, bucket: Int) -> Bool:
    """Whether D cannot split the bucket any more."""
    node = forest.places[bucket, NODE]
    if node == NONE:
        return True
    kind = forest.structures[structure, KIND]
    if kind == INTERVAL:
        return forest.intervals[node, CUT] != 0
    if kind == SUFFIX or kind == AHO_CORASICK:
        return forest.tries[node, BURST] != 0
    return forest.places[bucket, UNIFORM] != 0


@inner
def drop_bucket(forest: Forest, bucket: Int, structure: Int) -> Bool:
    """Takes an empty bucket out of D; whether the structure is gone with it."""
    row = forest.structures[structure]
    kind = np.int64(row[KIND])
    node = np.int64(forest.places[bucket, NODE])
    if node == NONE:
        row[WIDE] = NONE
    elif kind == INTERVAL:
        forest.intervals[node, BUCKET] = NONE
        row[ROOT] = prune(forest.intervals, forest.state, row[ROOT], node)
    elif kind == SUFFIX or kind == AHO_CORASICK:
        forest.tries[node, BUCKET] = NONE
        top = _trie_root(forest, node)
        which = ROOT if row[ROOT] == top else INNER_ROOT
        row[which] = prune_trie(forest.tries, forest.state, row[which], node)
        _make_stale(forest, structure)
    else:
        row[ROOT] = delete_leaf(forest.tree, forest.tree_keys, forest.state, row[ROOT], node, kind == RBPST)
    free_bucket(forest, bucket)
    row[BUCKETS_HELD] -= 1
    if row[BUCKETS_HELD]:
        return False
    if kind == SUFFIX or kind == AHO_CORASICK:
        forest.state[STRING_STRUCTURES] -= 1
    if row[STALE]:
        forest.state[STALE_COUNT] -= 1
    drop_structure(forest, np.int64(row[PARENT_BUCKET]), np.int64(row[ATTRIBUTE]))
    forest.buckets[row[PARENT_BUCKET], STRUCTURES] -= 1
    row[STALE] = 0
    free_row(forest.structures, forest.state, STRUCTURE_POOL, structure)
    return True


@inner
def _trie_root(forest: Forest, node: Int) -> Int:
    while forest.tries[node, 0] != NONE:
        node = np.int64(forest.tries[node, 0])
    return node


@inner
def reach(
    forest: Forest, batch: Batch, structure: Int, entry: Int, path: I32, seen: I32, mark: Int, out: I32, n: Int
) -> Int:
    """Appends the buckets that may hold a subscription whose predicate the entry's value satisfies; returns their number."""
    row = forest.structures[structure]
    kind = np.int64(row[KIND])
    if row[WIDE] != NONE:
        out[n] = row[WIDE]
        n += 1
    if kind == RBPST:
        return stab(forest.tree, forest.tree_keys, row[ROOT], batch.low[entry], path, out, n)
    if kind == INTERVAL:
        return stab_intervals(forest.intervals, forest.interval_keys, row[ROOT], batch.low[entry], out, n)
    if kind == RED_BLACK:
        if row[ROOT] != NONE:
            value = equality_hash(np.int64(batch.tag[entry]), batch.bits[entry])
            out[n] = forest.tree[find_leaf(forest.tree, forest.tree_keys, row[ROOT], value, np.uint64(0)), BUCKET]
            n += 1
        return n
    if batch.tag[entry] != STRING:
        return n
    offset = batch.offset[entry]
    end = offset + np.int64(batch.length[entry])
    if kind == AHO_CORASICK:
        return run(forest.tries, row[ROOT], batch.heap, offset, end - offset, seen, mark, out, n)
    n = walk_back(forest.tries, row[ROOT], batch.heap, offset, end, seen, mark, out, n)
    if row[INNER_ROOT] != NONE:
        for stop in range(end, offset - 1, -1):
            n = walk_back(forest.tries, row[INNER_ROOT], batch.heap, offset, stop, seen, mark, out, n)
    return n
