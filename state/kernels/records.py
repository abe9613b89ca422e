"""The arrays that hold the index in memory, and what stands where in them.

Records, not columns: looking at an item touches one cache line. Links are 32-bit numbers of records, -1 for none, so that
an index of arrays can be grown by copying and needs no object per item.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pastforward.columns.times import EARLIEST as EARLIEST
from pastforward.columns.times import LATEST as LATEST

Array: TypeAlias = npt.NDArray[Any]
Int: TypeAlias = Any
"""A machine integer: signed or not matters to the compiler, not to the reader."""

NONE: Final = -1

SUBSCRIPTION: Final = 0
PUBLICATION: Final = 1
WITHDRAWAL: Final = 2
QUESTION: Final = 3
"""Looks up the past as a subscription does, and is not stored: what `repeated` asks."""

# Flags of an item; the lower half is stored on disk.
IS_PUBLICATION: Final = 1
SUBTREE: Final = 2
VALID: Final = 4
SELF_JOIN: Final = 8
DEAD: Final = 16  # withdrawn or replaced; stays until the commit, so that a rollback can bring it back
STAGED: Final = 32  # not on disk yet
COPY: Final = 64  # a further topic of an item that stands at several
USED: Final = 128
ON_DISK: Final = 15
MANY_ON_DISK: Final = 16

ITEM: Final = np.dtype(
    [
        ("time", "i8"),  # what its list is ordered by: published_at, or ends_at of a subscription
        ("other", "i8"),  # expires_at, or starts_at of a subscription
        ("arrived", "i8"),
        ("id", "i8"),  # the id, or the hash of a text id
        ("sequence", "i8"),  # position in the log of operations; copies share it
        ("next", "i4"),
        ("node", "i4"),
        ("tower", "i4"),
        ("blob", "i4"),  # block in the heap: text id, subscriber, payload; 0 for none
        ("copy", "i4"),  # the item's next topic
        ("family", "i2"),
        ("flags", "u1"),
        ("many", "u1"),  # 1 if the item stands at several topics
    ]
)
NODE: Final = np.dtype(
    [
        ("component", "u8"),
        ("parent", "i4"),
        ("child", "i4"),
        ("sibling", "i4"),
        ("elder", "i4"),
        ("depth", "i4"),
        ("known", "i4"),  # of publications: see `state.kernels.heads`
        ("beyond", "i8"),
        ("floor", "i8"),
    ]
)
LIST: Final = np.dtype([("head", "i4"), ("tower", "i4"), ("below", "i4"), ("pad", "i4")])
"""Two for each node, by kind. `below` counts items here and below, so that empty subtrees are skipped."""

LEVELS: Final = 7
"""Of a skip list above its ground: with one item in eight rising, enough for 8^7 items of one topic."""

# Scalars.
LOG_TIME: Final = 0
SEQUENCE: Final = 1
LATENESS: Final = 2
HOT_WINDOW: Final = 3  # -1: none
ENDED_BEFORE: Final = 4  # subscriptions that ended before this are gone, whatever the options say
COMPLETE_FROM: Final = 5  # publications held before this are gone
EARLIER_LIMIT: Final = 6
ITEM_TOP: Final = 7
ITEM_FREE: Final = 8
ITEM_FREE_COUNT: Final = 9
NODE_TOP: Final = 10
NODE_FREE: Final = 11
NODE_FREE_COUNT: Final = 12
TOWER_TOP: Final = 13
TOWER_FREE: Final = 14
TOWER_FREE_COUNT: Final = 15
HEAP_TOP: Final = 16
ITEMS: Final = 17  # in the index, dead ones too
MAPPED: Final = 18
NODES: Final = 19
SWEEP_AT: Final = 20
SWEEPS: Final = 21
RECORDS_READ: Final = 22
DUPLICATES: Final = 23
JOURNAL: Final = 24
INTEGER_IDS: Final = 25
SCALARS: Final = 32


class Memory(NamedTuple):
    """The index. Kernels take it whole; `state.memory` makes it and lets it grow."""

    items: Array
    nodes: Array
    lists: Array
    towers: Array
    item_map: Array  # open addressing: number of an item, -1 empty
    node_map: Array
    heap: Array  # bytes, in blocks of 16
    heap_words: Array  # the same memory as 32-bit words
    free_blocks: Array  # heads of the free lists, by size
    scalars: Array
    before: Array  # scratch of the skip lists
    stack: Array  # scratch for the components of a path


class Operations(NamedTuple):
    """A table of operations, checked, in columns. Text stands as (low, high) in a buffer; -1 for integer ids."""

    kind: Array
    flags: Array
    time: Array
    other: Array  # expires_at, or starts_at of a subscription
    arrived: Array
    now: Array  # the log time, where other records than these have told it; else EARLIEST
    horizon: Array  # EARLIEST: the store's own
    earlier: Array  # how many earlier publications on its topic a publication finds, at most
    id: Array
    id_low: Array
    id_high: Array
    id_bytes: Array
    subscriber_low: Array
    subscriber_high: Array
    subscriber_bytes: Array
    payload_low: Array
    payload_high: Array
    payload_bytes: Array
    topics: Array  # row r stands at topics[r] to topics[r + 1]
    paths: Array  # topic t has the components paths[t] to paths[t + 1]
    components: Array


class Found(NamedTuple):
    """Where pairs are written: the operation's row and the item it found, `-1 - item` for a publication."""

    row: Array
    item: Array
    seen: Array  # scratch, four times as long


class Notes(NamedTuple):
    """What applying rows leaves behind: journals of both indexes, and by row whether it was a duplicate, its position in the log, log time
    then, and how far back it looks."""

    journal: Array
    held_journal: Array
    duplicates: Array
    sequence: Array
    log_time: Array
    horizon: Array


class Rows(NamedTuple):
    """Rows of the disk as they were read: keys and values end to end, with their ends."""

    keys: Array
    key_ends: Array
    values: Array
    value_ends: Array
    family: Array
