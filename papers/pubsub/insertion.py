"""Insertion, in the paper's order of attempts: room in the bucket; split it by D; go on with the new subscription's next attribute, in a
structure of the next level that takes every member which has it; let a member that has a next attribute go on instead; grow.

`place_many` does what is frequent, and asks for what is rare: that keeps kernels small. Every step leaves the forest whole; a
subscription that waits then goes on from the bucket it had come to.

The next attribute is the rarest that no structure on the way belongs to. That is the paper's next one in order, but for subscriptions
that a new structure took past an earlier attribute: they can still use it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Int
from pastforward.matching.index.records import RecordView
from pastforward.matching.index.strings import StringView
from pastforward.papers.pubsub.aho_corasick import link
from pastforward.papers.pubsub.buckets import append, bury, compact, live
from pastforward.papers.pubsub.forest import (
    AHO_CORASICK,
    ALWAYS,
    BUCKET_SIZE,
    COUNT,
    EXHAUSTED,
    GROWN,
    HEADER,
    I32,
    INTERVAL,
    KIND,
    MEMBERS_END,
    MOVED,
    NONE,
    OFFSET,
    OPENED,
    OWNER,
    PENDING,
    RESUME,
    ROOT,
    SPLITS,
    STALE,
    STALE_COUNT,
    STRUCTURE_POOL,
    SUFFIX,
    SWAPPED,
    Forest,
    Source,
    has_room,
    members_needed,
    with_room,
)
from pastforward.papers.pubsub.predicates import first_part, needed, next_attribute
from pastforward.papers.pubsub.splitting import split_intervals, split_tree, split_trie
from pastforward.papers.pubsub.structures import admit, find_bucket, fits, is_settled, new_structure
from pastforward.papers.pubsub.table import find_structure, with_cells

# What `place_many` asks for before it can go on.
DONE: Final = 0
MAKE_ROOM: Final = 1
OPEN: Final = 2
SPLIT: Final = 3
SWAP: Final = 4


def insert_all(forest: Forest, records: RecordView, strings: StringView, source: Source, slots: I32) -> Forest:
    done = 0
    state = forest.state
    while True:
        done, request, bucket, attribute = place_many(forest, records, strings, source, slots, done)
        if request == DONE:
            return forest
        forest = with_cells(with_room(forest, 0, int(forest.buckets[bucket, COUNT]), 0), 2)
        waiting = int(state[PENDING])
        if request == OPEN:
            open_structure(forest, records, strings, source, bucket, attribute)
        elif request == SPLIT:
            state[SPLITS] += _split(forest, records, strings, bucket, waiting)
        elif request == SWAP:
            swap(forest, records, strings, source, bucket)


def _split(forest: Forest, records: RecordView, strings: StringView, bucket: int, slot: int) -> bool:
    kind = int(forest.structures[forest.places[bucket, OWNER], KIND])
    if kind == INTERVAL:
        return bool(split_intervals(forest, records, strings, bucket, slot))
    if kind in (SUFFIX, AHO_CORASICK):
        return bool(split_trie(forest, records, strings, bucket, slot))
    return bool(split_tree(forest, records, strings, bucket, slot))


@kernel
def place_many(
    forest: Forest, records: RecordView, strings: StringView, source: Source, slots: I32, first: Int
) -> tuple[Int, Int, Int, Int]:
    """From slot `first` on. Returns how far it came, what it needs to go on, and for which bucket and attribute; the subscription
    that waits is in the state."""
    state = forest.state
    for i in range(first, len(slots)):
        slot = np.int64(slots[i])
        bucket = np.int64(HEADER)
        if state[PENDING] != NONE:
            slot = state[PENDING]
            bucket = state[RESUME]
            state[PENDING] = NONE
        while True:
            attribute = next_attribute(forest, records, source.rank, slot, bucket)
            structure = np.int64(NONE)
            below = np.int64(ALWAYS)
            request = DONE
            if not has_room(forest):
                request = MAKE_ROOM
            elif attribute != NONE:
                structure = find_structure(forest, bucket, attribute)
                if structure == NONE:
                    below = bucket
                    request = OPEN
                else:
                    below = find_bucket(forest, records, strings, source, structure, slot)
            members = forest.buckets[below, COUNT]
            if members and state[MEMBERS_END] + members_needed(members) > len(forest.slot):
                request = MAKE_ROOM
            if request == DONE and structure != NONE:
                fitting = fits(forest, records, strings, structure, below, slot)
                if not fitting or live(forest, below) >= state[BUCKET_SIZE]:
                    if not fitting or not is_settled(forest, structure, below):
                        request = SPLIT
                    elif next_attribute(forest, records, source.rank, slot, below) != NONE:
                        bucket = below
                        continue
                    elif not forest.places[below, EXHAUSTED]:
                        request = SWAP
                    else:
                        state[GROWN] += 1
                else:
                    forest.places[below, EXHAUSTED] = 0
            if request != DONE:
                state[PENDING] = slot
                state[RESUME] = bucket
                return i, request, below, attribute
            if structure != NONE:
                admit(forest, records, strings, structure, below, slot)
            append(forest, below, slot, needed(records, slot))
            break
    return len(slots), DONE, 0, 0


@kernel
def open_structure(
    forest: Forest, records: RecordView, strings: StringView, source: Source, bucket: Int, attribute: Int
) -> None:
    """A structure of the next level; the bucket's members that have the attribute move there."""
    structure = new_structure(forest, source, bucket, attribute)
    forest.state[OPENED] += 1
    offset = forest.buckets[bucket, OFFSET]
    moved = 0
    for at in range(offset, offset + forest.buckets[bucket, COUNT]):
        slot = np.int64(forest.slot[at])
        if slot >= 0 and first_part(records, slot, attribute) >= 0:
            to = find_bucket(forest, records, strings, source, structure, slot)
            admit(forest, records, strings, structure, to, slot)
            append(forest, to, slot, forest.mask[at])
            bury(forest, bucket, at)
            moved += 1
    if moved:
        compact(forest, bucket)
    forest.state[MOVED] += moved


@kernel
def swap(forest: Forest, records: RecordView, strings: StringView, source: Source, bucket: Int) -> None:
    """The subscription that waits takes the place of a member that has a next attribute; that one waits then."""
    state = forest.state
    at = _with_next(forest, records, source.rank, bucket)
    if at == NONE:
        forest.places[bucket, EXHAUSTED] = 1
        return
    slot = state[PENDING]
    state[PENDING] = forest.slot[at]
    state[RESUME] = bucket
    bury(forest, bucket, at)
    append(forest, bucket, slot, needed(records, slot))
    admit(forest, records, strings, np.int64(forest.places[bucket, OWNER]), bucket, slot)
    state[SWAPPED] += 1


@inner
def _with_next(forest: Forest, records: RecordView, rank: I32, bucket: Int) -> Int:
    """The position of a member that has a next attribute, NONE if there is none."""
    offset = forest.buckets[bucket, OFFSET]
    for at in range(offset, offset + forest.buckets[bucket, COUNT]):
        slot = np.int64(forest.slot[at])
        if slot >= 0 and next_attribute(forest, records, rank, slot, bucket) != NONE:
            return at
    return np.int64(NONE)


@kernel
def relink(forest: Forest) -> None:
    """Makes the links of automata whose trie has changed."""
    state = forest.state
    if not state[STALE_COUNT]:
        return
    for structure in range(state[STRUCTURE_POOL]):
        if forest.structures[structure, STALE]:
            forest.structures[structure, STALE] = 0
            link(forest.tries, state, np.int64(forest.structures[structure, ROOT]))
    state[STALE_COUNT] = 0
