"""How a full bucket splits, by the kind of D. Each kernel parts a bucket and the subscription that wants to come in, if D can tell them
apart; that subscription is then to be placed again. If it cannot, it marks the bucket, so that nobody tries again."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.records import RecordView
from pastforward.matching.index.strings import StringView
from pastforward.papers.pubsub.buckets import append, bury, compact, free_bucket, live
from pastforward.papers.pubsub.forest import (
    ATTRIBUTE,
    BUCKET,
    BUCKETS_HELD,
    BURST,
    COUNT,
    DEPTH,
    GREATEST,
    I32,
    INTERVAL,
    KEY_HIGH,
    KEY_LOW,
    KIND,
    LEAST,
    NODE,
    NONE,
    OFFSET,
    OWNER,
    RBPST,
    ROOT,
    U64,
    UNIFORM,
    Forest,
)
from pastforward.papers.pubsub.interval_tree import cut, find_node
from pastforward.papers.pubsub.predicates import pattern_on
from pastforward.papers.pubsub.priority_search import hold, less, release
from pastforward.papers.pubsub.red_black import insert_beside, new_leaf
from pastforward.papers.pubsub.sorting import order_of
from pastforward.papers.pubsub.structures import bucket_at, find_trie_bucket, key_of


@inner
def _member_keys(
    forest: Forest, records: RecordView, strings: StringView, kind: Int, attribute: Int, bucket: Int
) -> tuple[U64, U64]:
    """Of the live members, in their order."""
    members = live(forest, bucket)
    lows = np.empty(members, np.uint64)
    highs = np.empty(members, np.uint64)
    offset = forest.buckets[bucket, OFFSET]
    n = 0
    for at in range(offset, offset + forest.buckets[bucket, COUNT]):
        if forest.slot[at] >= 0:
            lows[n], highs[n] = key_of(records, strings, kind, attribute, np.int64(forest.slot[at]))
            n += 1
    return lows, highs


@kernel
def split_tree(forest: Forest, records: RecordView, strings: StringView, bucket: Int, slot: Int) -> Bool:
    """At the median of the members' keys, or beside them if they all have the same one; whether it could."""
    structure = np.int64(forest.places[bucket, OWNER])
    row = forest.structures[structure]
    kind = np.int64(row[KIND])
    attribute = np.int64(row[ATTRIBUTE])
    tree, keys = forest.tree, forest.tree_keys
    leaf = np.int64(forest.places[bucket, NODE])
    # of the router, then of the new leaf
    low, high = key_of(records, strings, kind, attribute, slot)
    least, greatest = low, high
    on_left = False
    fresh = np.int64(NONE)
    if kind == RBPST:
        release(tree, keys, row[ROOT], leaf)
    if not forest.places[bucket, UNIFORM]:
        lows, highs = _member_keys(forest, records, strings, kind, attribute, bucket)
        order = order_of(lows, highs)
        part = _part(lows, highs, order)
        if part:
            low, high = lows[order[part]], highs[order[part]]
            fresh = bucket_at(forest, structure, NONE)
            _move_from(forest, bucket, fresh, lows, highs, low, high)
            keys[leaf, KEY_LOW] = lows[order[0]]
            keys[leaf, KEY_HIGH] = highs[order[0]]
            keys[leaf, LEAST] = lows[order[0]]
            keys[leaf, GREATEST] = _greatest(highs, order, 0, part)
            least, greatest = low, _greatest(highs, order, part, len(order))
        else:
            forest.places[bucket, UNIFORM] = 1
            keys[leaf, KEY_LOW] = lows[0]
            keys[leaf, KEY_HIGH] = highs[0]
    if fresh == NONE and (keys[leaf, KEY_LOW] != low or keys[leaf, KEY_HIGH] != high):
        fresh = bucket_at(forest, structure, NONE)
        on_left = less(low, high, keys[leaf, KEY_LOW], keys[leaf, KEY_HIGH])
    if fresh != NONE:
        beside = new_leaf(tree, keys, forest.state, fresh, low, high)
        keys[beside, LEAST] = least
        keys[beside, GREATEST] = greatest
        forest.places[fresh, NODE] = beside
        if on_left:
            low, high = keys[leaf, KEY_LOW], keys[leaf, KEY_HIGH]
        row[ROOT] = insert_beside(
            tree, keys, forest.state, np.int64(row[ROOT]), leaf, beside, on_left, low, high, kind == RBPST
        )
    if kind == RBPST:
        hold(tree, keys, row[ROOT], leaf)
        if fresh != NONE:
            hold(tree, keys, row[ROOT], np.int64(forest.places[fresh, NODE]))
    return fresh != NONE


@inner
def _part(lows: U64, highs: U64, order: I32) -> Int:
    """Where to part sorted keys: near the middle, where a key differs from the one before; 0 if all are the same."""
    middle = len(order) // 2
    for step in range(len(order)):
        # outwards: middle, one before, one after …
        at = middle + (step + 1) // 2 * (1 if step & 1 == 0 else -1)
        if 0 < at < len(order) and (lows[order[at]] != lows[order[at - 1]] or highs[order[at]] != highs[order[at - 1]]):
            return at
    return 0


@inner
def _greatest(highs: U64, order: I32, first: Int, end: Int) -> Int:
    greatest = np.uint64(0)
    for i in range(first, end):
        greatest = max(greatest, highs[order[i]])
    return greatest


@inner
def _move_from(forest: Forest, bucket: Int, fresh: Int, lows: U64, highs: U64, low: Int, high: Int) -> None:
    """Members at or after a key move to another bucket."""
    offset = forest.buckets[bucket, OFFSET]
    n = 0
    for at in range(offset, offset + forest.buckets[bucket, COUNT]):
        slot = np.int64(forest.slot[at])
        if slot < 0:
            continue
        if not less(lows[n], highs[n], low, high):
            append(forest, fresh, slot, forest.mask[at])
            bury(forest, bucket, at)
        n += 1
    compact(forest, bucket)


@kernel
def split_intervals(forest: Forest, records: RecordView, strings: StringView, bucket: Int, slot: Int) -> Bool:
    """What lies left or right of the centre moves to a child; whether anything does, or the new subscription will."""
    structure = np.int64(forest.places[bucket, OWNER])
    node = np.int64(forest.places[bucket, NODE])
    attribute = np.int64(forest.structures[structure, ATTRIBUTE])
    lows, highs = _member_keys(forest, records, strings, np.int64(INTERVAL), attribute, bucket)
    centre = cut(forest.intervals, forest.interval_keys, node, lows, highs)
    offset = forest.buckets[bucket, OFFSET]
    n = 0
    for at in range(offset, offset + forest.buckets[bucket, COUNT]):
        member = np.int64(forest.slot[at])
        if member < 0:
            continue
        if highs[n] < centre or lows[n] > centre:
            child = find_node(forest.intervals, forest.interval_keys, forest.state, node, lows[n], highs[n])
            if forest.intervals[child, BUCKET] == NONE:
                forest.intervals[child, BUCKET] = bucket_at(forest, structure, child)
            append(forest, np.int64(forest.intervals[child, BUCKET]), member, forest.mask[at])
            bury(forest, bucket, at)
        n += 1
    moved = live(forest, bucket) < n
    compact(forest, bucket)
    if not live(forest, bucket):
        forest.intervals[node, BUCKET] = NONE
        forest.structures[structure, BUCKETS_HELD] -= 1
        free_bucket(forest, bucket)
    low, high = key_of(records, strings, np.int64(INTERVAL), attribute, slot)
    return moved or high < centre or low > centre


@kernel
def split_trie(forest: Forest, records: RecordView, strings: StringView, bucket: Int, slot: Int) -> Bool:
    """Patterns that go on move to a child by their next byte; whether any does, or the new subscription's will."""
    structure = np.int64(forest.places[bucket, OWNER])
    node = np.int64(forest.places[bucket, NODE])
    attribute = np.int64(forest.structures[structure, ATTRIBUTE])
    depth = forest.tries[node, DEPTH]
    forest.tries[node, BURST] = 1
    offset = forest.buckets[bucket, OFFSET]
    moved = False
    for at in range(offset, offset + forest.buckets[bucket, COUNT]):
        member = np.int64(forest.slot[at])
        if member < 0:
            continue
        pattern, _anchored = pattern_on(records, strings, member, attribute)
        if strings.length[pattern] > depth:
            append(forest, find_trie_bucket(forest, records, strings, structure, member), member, forest.mask[at])
            bury(forest, bucket, at)
            moved = True
    compact(forest, bucket)
    if not live(forest, bucket):
        forest.tries[node, BUCKET] = NONE
        forest.structures[structure, BUCKETS_HELD] -= 1
        free_bucket(forest, bucket)
    pattern, _anchored = pattern_on(records, strings, slot, attribute)
    return moved or strings.length[pattern] > depth
