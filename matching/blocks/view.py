"""The arrays of the block index, and the pools they come from.

    group    the slots that one access predicate leads to. Up to four stand in the group itself; more in a leaf; more in a chunk of
             leaves; more in chunks below roots
    node     32 children with a box each: a chunk has leaves below it, a root has chunks
    leaf     32 lanes: three triples of codes, and the slots
    table    a schema of access predicates: equality on one or two attributes, presence of one or two, topic, always

Numbers of leaves, nodes, groups and tables begin at 1; 0 is none. Freed ones wait in lists. All arrays begin as zeros, so that memory
that was never used is never touched.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.growing import aligned, longer

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

# kinds of tables
EQUAL_TWO: Final = 1
EQUAL_ONE: Final = 2
PAIR: Final = 3
SINGLE: Final = 4
TOPIC: Final = 5
ALWAYS: Final = 6
# no tables, but ways to a slot as well: see `blocks.postings`
LISTED: Final = 7
ENDING: Final = 8
HOLDING: Final = 9

# forms of groups
INLINE: Final = 0
LEAF: Final = 1
CHUNK: Final = 2
ROOTS: Final = 3

ROOT_EPOCH: Final = -1  # roots have no codes of their own
INLINE_SLOTS: Final = 4  # a group of so few costs less to verify than to filter
LEAF_LANES: Final = 288  # bytes: three triples
BOX_BYTES: Final = 192  # two triples
CODES: Final = 254
SPLITS: Final = 256  # room per attribute: 253 are used
FENCES: Final = 16  # every sixteenth of them once more, in front: 15; then how many splits there are
SPLIT_ROW: Final = FENCES + SPLITS
RESERVOIR: Final = 512  # keys sampled per attribute: twice as many as there are codes
PAIR_CELLS: Final = 1 << 18
POSTED_HOME: Final = -(1 << 30)  # homes from here down are postings
# what a cell of `pairs` holds, together so that it is read at once
SEEN: Final = 0  # slots that constrain both
PLANNED: Final = 1  # members that a table on their ranges is expected to get
MEMBERS: Final = 2  # that such a table has

# where the counters are in `state`
LEAVES: Final = 0  # ever used, the next three likewise
NODES: Final = 1
GROUPS: Final = 2
TABLES: Final = 3
FREE_LEAF: Final = 4  # heads of lists of freed ones
FREE_NODE: Final = 5
FREE_GROUP: Final = 6
GROUP_CELLS: Final = 7  # cells of the group table that are used or released
EVENTS: Final = 8  # publications sampled
EPOCH: Final = 9
RANDOM: Final = 10
SPLIT_ROWS: Final = 11
LIVE: Final = 12  # slots held
SWEEP: Final = 13  # the next group that the sweep looks at
SPLIT_COUNT: Final = 14  # chunks split, tiled, groups moved: for counters
TILE_COUNT: Final = 15
MOVE_COUNT: Final = 16
RECODE_COUNT: Final = 17
CODED_AT: Final = 18  # every leaf is coded as of this epoch or a later one
LIVE_GROUPS: Final = 19
LIVE_LEAVES: Final = 20
LIVE_NODES: Final = 21
SAMPLED: Final = 22  # slots that have been learnt from
NAMES: Final = 23  # attributes there are
POSTINGS: Final = 24  # ever used, and keys likewise
KEYS: Final = 25
FREE_POSTING: Final = 26  # heads of lists of freed ones
FREE_KEY: Final = 27
LIVE_POSTINGS: Final = 28
LIVE_KEYS: Final = 29
KEY_CELLS: Final = 30  # cells of the table of keys that are used or released
POSTED: Final = 31  # slots that are reached by keys
STATE: Final = 32


class Blocks(NamedTuple):
    state: I64
    # leaves
    lanes: U8
    leaf_codes: U8  # by lane: lowest and highest code in both dimensions, of groups that have any
    leaf_slots: I32
    leaf_count: U8
    leaf_parent: I32  # chunk, or 0
    leaf_group: I32
    leaf_epoch: I32
    # nodes
    boxes: U8
    child: I32
    children: U8
    node_live: I32  # slots below
    node_gone: I32  # removed since the boxes were drawn
    node_parent: I32  # root, or 0; of a root the next root of the group
    node_group: I32
    node_epoch: I32
    # groups
    group_form: U8
    group_ref: I32
    group_count: I32
    group_table: I32
    group_slots: I32
    group_key: U64
    group_low: U64  # two order keys each: what the access predicates ask for
    group_next: I32  # in the table
    group_previous: I32
    group_cells: I32
    # tables
    table_kind: U8
    table_a: I32
    table_b: I32
    table_count: I32
    table_next: I32  # of those that attribute a leads to
    table_group: I32  # first group
    table_cells: I32
    # by attribute
    first_table: I32
    alone: I32  # members of the tables on its value and on its range
    cell: U8  # two bindings each, the current and the one that is going: 255 for none
    split_row: I32  # two each
    bound_at: I32  # epoch of the current binding
    seen: U32  # publications sampled that carry it
    constrained: U32  # slots ever that constrain it
    reservoir: U64
    distinct: F32  # how many values subscriptions ask for, as far as one can tell
    # the rest
    splits: U64  # a row: fences, then splits
    thresholds: I64  # the same as the least integers, if they are of numbers
    shortcut: U8  # codes to begin with, by the leading bits of an integer
    shortcut_range: I64  # two each: the integer that the shortcut begins with, and the bits it leaves out; -1: none
    pairs: I32  # cells of four by kind of table and two attributes: SEEN, PLANNED, MEMBERS, and none
    home: I32  # by slot: leaf * 32 + lane, or -(group) - 1, or POSTED_HOME - its first posting
    # postings: slots below keys
    posting_slot: I32
    posting_next: I32  # below the same key
    posting_before: I32  # or -(key), of the first
    posting_more: I32  # of the same slot
    posting_text: I32  # the string that must be there; NO_TEXT: none
    posting_at: U16  # where in it the key is; ITEM: it is none, but a list's value of this number
    key_hash: U64
    key_first: I32  # posting
    key_count: I32
    key_attribute: I32  # of a key that is a value, else -1
    key_cells: I32
    # by attribute, of postings
    key_kinds: U16  # bits: values, ends, and pieces of one to eight bytes
    end_lengths: U64  # bits: how long ends are
    value_keys: I32
    end_keys: I32
    topic_group: I32  # by topic node
    topic_below: I32


# How each array grows: entries per unit of its pool.
_LEAF_ARRAYS: Final = {
    "lanes": LEAF_LANES, "leaf_codes": 128, "leaf_slots": 32, "leaf_count": 1, "leaf_parent": 1, "leaf_group": 1, "leaf_epoch": 1,
}  # fmt: skip
_NODE_ARRAYS: Final = {
    "boxes": BOX_BYTES, "child": 32, "children": 1, "node_live": 1, "node_gone": 1, "node_parent": 1, "node_group": 1,
    "node_epoch": 1,
}  # fmt: skip
_GROUP_ARRAYS: Final = {
    "group_form": 1, "group_ref": 1, "group_count": 1, "group_table": 1, "group_slots": INLINE_SLOTS, "group_key": 1,
    "group_low": 2, "group_next": 1, "group_previous": 1,
}  # fmt: skip
_TABLE_ARRAYS: Final = {
    "table_kind": 1, "table_a": 1, "table_b": 1, "table_count": 1, "table_next": 1, "table_group": 1,
}  # fmt: skip
_ATTRIBUTE_ARRAYS: Final = {
    "first_table": 1, "alone": 2, "cell": 2, "split_row": 2, "bound_at": 1, "seen": 1, "constrained": 1, "reservoir": RESERVOIR,
    "distinct": 1, "key_kinds": 1, "end_lengths": 1, "value_keys": 1, "end_keys": 1,
}  # fmt: skip
_POSTING_ARRAYS: Final = {
    "posting_slot": 1, "posting_next": 1, "posting_before": 1, "posting_more": 1, "posting_text": 1, "posting_at": 1,
}  # fmt: skip
_KEY_ARRAYS: Final = {"key_hash": 1, "key_first": 1, "key_count": 1, "key_attribute": 1}
POOLS: Final = {
    "leaf": _LEAF_ARRAYS,
    "node": _NODE_ARRAYS,
    "group": _GROUP_ARRAYS,
    "table": _TABLE_ARRAYS,
    "attribute": _ATTRIBUTE_ARRAYS,
    "split": {"splits": SPLIT_ROW, "thresholds": SPLITS, "shortcut": SPLITS, "shortcut_range": 2},
    "slot": {"home": 1},
    "topic": {"topic_group": 1, "topic_below": 1},
    "posting": _POSTING_ARRAYS,
    "key": _KEY_ARRAYS,
}
_DTYPES: Final = {
    "lanes": np.uint8, "leaf_codes": np.uint8, "leaf_count": np.uint8, "boxes": np.uint8, "children": np.uint8, "group_form": np.uint8,
    "group_key": np.uint64, "group_low": np.uint64, "table_kind": np.uint8, "cell": np.uint8, "seen": np.uint32,
    "constrained": np.uint32, "reservoir": np.uint64, "distinct": np.float32, "splits": np.uint64,
    "posting_at": np.uint16, "key_hash": np.uint64, "key_kinds": np.uint16, "end_lengths": np.uint64,
    "thresholds": np.int64, "shortcut": np.uint8, "shortcut_range": np.int64,
}  # fmt: skip


def empty_blocks() -> Blocks:
    arrays: dict[str, npt.NDArray[np.generic]] = {"state": np.zeros(STATE, np.int64)}
    for pool in POOLS.values():
        for name, per_unit in pool.items():
            arrays[name] = aligned(4 * per_unit, _DTYPES.get(name, np.int32))
    arrays["group_cells"] = np.zeros(64, np.int32)
    arrays["table_cells"] = np.zeros(64, np.int32)
    arrays["key_cells"] = np.zeros(16, np.int32)
    arrays["pairs"] = aligned(4 * PAIR_CELLS, np.int32)
    blocks = Blocks(**arrays)  # type: ignore[arg-type]
    for counter in (LEAVES, NODES, GROUPS, TABLES, POSTINGS, KEYS):
        blocks.state[counter] = 1
    blocks.state[RANDOM] = 88172645463325252  # any seed of xorshift but 0
    return blocks


def capacity(blocks: Blocks, pool: str) -> int:
    name, per_unit = next(iter(POOLS[pool].items()))
    return len(getattr(blocks, name)) // per_unit


def grown(blocks: Blocks, pool: str, room: int) -> Blocks:
    """The same with room for more of a pool."""
    more: dict[str, Any] = {
        name: longer(getattr(blocks, name), room * per_unit) for name, per_unit in POOLS[pool].items()
    }
    return blocks._replace(**more)
