"""All attribute structures of PUBSUB, level by level, in columns.

A structure belongs to a bucket and an attribute; level-1 structures belong to the header, a bucket that is always empty. A structure's
D leads from a value to buckets; a bucket holds subscriptions, and structures of the next level may belong to it. Rows of the pools below
are named by constants; freed rows wait in a list through their first cell, as row + 1.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

HEADER: Final = 0  # the bucket of level-1 structures
ALWAYS: Final = 1  # holds what no structure can use: a candidate for every publication
NONE: Final = -1

# kinds of D
INTERVAL: Final = 0
RBPST: Final = 1
RED_BLACK: Final = 2
SUFFIX: Final = 3
AHO_CORASICK: Final = 4

# structures
KIND: Final = 0
ATTRIBUTE: Final = 1
PARENT_BUCKET: Final = 2
ROOT: Final = 3
INNER_ROOT: Final = 4  # SUFFIX: of the patterns that may stand anywhere
WIDE: Final = 5  # the bucket of predicates that D cannot tell apart
BUCKETS_HELD: Final = 6
STALE: Final = 7  # the links of the automaton are to be made again
_STRUCTURE_CELLS: Final = 8

# buckets: one cache line each
OFFSET: Final = 0  # in the columns of members
COUNT: Final = 1  # members, dead ones included
ORDERED: Final = 2  # of them in groups; the others follow as they came
GROUPS: Final = 3
GROUP_COUNT: Final = 4
STRUCTURES: Final = 5  # of the next level
DEAD: Final = 6
ROOM: Final = 7
_BUCKET_CELLS: Final = 8

# places of buckets
OWNER: Final = 0  # structure
NODE: Final = 1  # of D; NONE for a wide bucket
GROUP_ROOM: Final = 2
DIRTY: Final = 3  # waits to be put in order
UNIFORM: Final = 4  # all predicates on the structure's attribute are the same
EXHAUSTED: Final = 5  # no member has a next attribute
_PLACE_CELLS: Final = 6

# groups
GROUP_ATTRIBUTE: Final = 0
GROUP_END: Final = 1

# red-black trees: routers inside, a bucket at each leaf
PARENT: Final = 0
LEFT: Final = 1
RIGHT: Final = 2
RED: Final = 3
BUCKET: Final = 4  # NONE for routers
TOP: Final = 5  # the leaf of highest priority below that no router above has taken
_TREE_CELLS: Final = 6
KEY_LOW: Final = 0  # of a router: what is less lies left; of a leaf: a key that leads to it
KEY_HIGH: Final = 1
LEAST: Final = 2  # of a leaf: no range begins before
GREATEST: Final = 3  # its priority: no range ends after

# interval trees: PARENT, LEFT, RIGHT, BUCKET as above
CUT: Final = 3  # it has been divided: its own bucket holds what contains the centre
CENTRE: Final = 0
DOMAIN_LOW: Final = 1
DOMAIN_HIGH: Final = 2

# tries: PARENT and BUCKET as above
CHILD: Final = 1
SIBLING: Final = 2
BURST: Final = 3  # it has been divided: its own bucket holds the patterns that end here
BYTE: Final = 5
DEPTH: Final = 6
FAIL: Final = 7
OUTPUT: Final = 8  # the nearest node with a bucket, itself or by failure links
_TRIE_CELLS: Final = 9

# state: of each pool the rows ever used and the first free one
STRUCTURE_POOL: Final = 0
BUCKET_POOL: Final = 2
TREE_POOL: Final = 4
INTERVAL_POOL: Final = 6
TRIE_POOL: Final = 8
MEMBERS_END: Final = 10
GROUPS_END: Final = 11
CELLS: Final = 12  # of the table, used or released
STRUCTURES_HELD: Final = 13
PENDING: Final = 14  # the slot that waits
DIRTY_COUNT: Final = 15
STALE_COUNT: Final = 16
BUCKET_SIZE: Final = 17
KEEPS_ORDER: Final = 18
STRING_STRUCTURES: Final = 19
# what has been done, in the order of attempts
SPLITS: Final = 20
OPENED: Final = 21
MOVED: Final = 22
SWAPPED: Final = 23
GROWN: Final = 24
RESUME: Final = 25  # the bucket from which the slot that waits goes on
_STATES: Final = 26

# A bucket is put in order when more than this many members have come since: about what one group costs to find.
UNORDERED: Final = 64

# Bits of a member's mask stand for the attributes that it needs; the last is never present, so it marks the dead.
MASK_BITS: Final = 63
DEAD_MASK: Final = np.uint64(1 << 63)

_SIZES: Final = 160  # classes of sizes, up to 7 << 39


class Forest(NamedTuple):
    state: I64
    table: I64  # (bucket, attribute) to structure
    structures: I32
    buckets: I64
    places: I32
    start: U64  # members: order keys of the first unused attribute's predicate
    end: U64
    mask: U64
    slot: I32
    groups: I32
    tree: I32
    tree_keys: U64
    intervals: I32
    interval_keys: U64
    tries: I32
    free: I64  # by size: pieces of members, pieces of groups
    dirty: I32
    home: I32  # by slot: its bucket


class Source(NamedTuple):
    """What insertion knows of attributes."""

    rank: I32  # rarest first
    option: U8  # the kind of D asked for, or AUTO
    domain: I64  # of values, when low < high
    uses: I64  # how often it is named, by purpose


# columns of `uses`
EQUALITIES: Final = 0
RANGES: Final = 1
SUFFIXES: Final = 2
SUBSTRINGS: Final = 3
AUTO: Final = 255


def empty_forest(bucket_size: int, ordered: bool) -> Forest:
    forest = Forest(
        np.zeros(_STATES, np.int64),
        np.zeros((64, 2), np.int64),
        np.zeros((16, _STRUCTURE_CELLS), np.int32),
        np.zeros((16, _BUCKET_CELLS), np.int64),
        np.zeros((16, _PLACE_CELLS), np.int32),
        np.zeros(256, np.uint64),
        np.zeros(256, np.uint64),
        np.zeros(256, np.uint64),
        np.zeros(256, np.int32),
        np.zeros((64, 2), np.int32),
        np.zeros((16, _TREE_CELLS), np.int32),
        np.zeros((16, 4), np.uint64),
        np.zeros((16, 5), np.int32),
        np.zeros((16, 3), np.uint64),
        np.zeros((16, _TRIE_CELLS), np.int32),
        np.zeros((2, _SIZES), np.int64),
        np.zeros(16, np.int32),
        np.zeros(64, np.int32),
    )
    forest.state[BUCKET_SIZE] = bucket_size
    forest.state[KEEPS_ORDER] = ordered
    forest.state[BUCKET_POOL] = 2
    forest.state[PENDING] = NONE
    forest.places[:2, :2] = NONE
    return forest


def longer(array: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    """The same array with at least `room` rows, and half as many again as it had."""
    if room <= len(array):
        return array
    fresh = np.zeros((max(room, len(array) + len(array) // 2), *array.shape[1:]), array.dtype)
    fresh[: len(array)] = array
    return fresh


# What one step of an insertion takes at most, beside members and groups: a trie's node may burst into 256.
STEP_ROWS: Final = 260


@inner
def has_room(forest: Forest) -> Bool:
    """Room for one more step, but for the members of the bucket that it touches."""
    state = forest.state
    return bool(
        state[STRUCTURE_POOL] + 2 <= len(forest.structures)
        and state[BUCKET_POOL] + STEP_ROWS <= len(forest.buckets)
        and state[TREE_POOL] + 4 <= len(forest.tree)
        and state[INTERVAL_POOL] + 4 <= len(forest.intervals)
        and state[TRIE_POOL] + STEP_ROWS <= len(forest.tries)
        and state[MEMBERS_END] + members_needed(0) <= len(forest.slot)
        and 2 * (state[CELLS] + 2) <= len(forest.table)
    )


@kernel
def members_needed(members: Int) -> Int:
    """Each of them may move once, to a piece that grows by a quarter and is rounded up; each piece is left behind as it grows."""
    return 8 * members + 8 * STEP_ROWS


def with_room(forest: Forest, slots: int, members: int, groups: int) -> Forest:
    """Larger where it is needed: `slots` in all, a step on a bucket of `members`, and so many more groups. The table is not touched."""
    state = forest.state
    buckets = int(state[BUCKET_POOL]) + STEP_ROWS
    need = int(state[MEMBERS_END]) + members_needed(members)
    return forest._replace(
        structures=longer(forest.structures, int(state[STRUCTURE_POOL]) + 2),
        buckets=longer(forest.buckets, buckets),
        places=longer(forest.places, buckets),
        dirty=longer(forest.dirty, buckets),
        start=longer(forest.start, need),
        end=longer(forest.end, need),
        mask=longer(forest.mask, need),
        slot=longer(forest.slot, need),
        groups=longer(forest.groups, int(state[GROUPS_END]) + groups),
        tree=longer(forest.tree, int(state[TREE_POOL]) + 4),
        tree_keys=longer(forest.tree_keys, int(state[TREE_POOL]) + 4),
        intervals=longer(forest.intervals, int(state[INTERVAL_POOL]) + 4),
        interval_keys=longer(forest.interval_keys, int(state[INTERVAL_POOL]) + 4),
        tries=longer(forest.tries, int(state[TRIE_POOL]) + STEP_ROWS),
        home=longer(forest.home, slots),
    )


@inner
def take_row(pool: npt.NDArray[np.signedinteger], state: I64, which: Int) -> Int:
    """A row of NONE."""
    row = state[which + 1] - 1
    if row >= 0:
        state[which + 1] = pool[row, 0]
    else:
        row = state[which]
        state[which] += 1
    pool[row, :] = NONE
    return row


@inner
def free_row(pool: npt.NDArray[np.signedinteger], state: I64, which: Int, row: Int) -> None:
    pool[row, 0] = state[which + 1]
    state[which + 1] = row + 1


@inner
def size_of_class(size: Int) -> Int:
    """Four sizes to each doubling, so that little is left over: 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 …"""
    return (4 + (size & 3)) << (size >> 2)


@inner
def class_of_size(size: Int) -> Int:
    found = 0
    while size_of_class(found) < size:
        found += 1
    return found
