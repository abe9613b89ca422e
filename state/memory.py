"""The index in memory: the arrays of `state.kernels.records`, grown as needed.

One writer. `reserve` before kernels that add items: they never check for room themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from state.kernels import heap, ids, records, topics
from state.kernels.records import Array, Memory

_FIRST_ITEMS: Final = 1024
_FIRST_BLOCKS: Final = 4096
_SHARED: Final = (
    records.LOG_TIME,
    records.SEQUENCE,
    records.LATENESS,
    records.HOT_WINDOW,
    records.ENDED_BEFORE,
    records.COMPLETE_FROM,
    records.EARLIER_LIMIT,
    records.INTEGER_IDS,
)


def _grown(array: Array, length: int) -> Array:
    larger = np.zeros((length, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _table(length: int) -> Array:
    return np.full(length, records.NONE, np.int32)


class Index:
    """Owns a `Memory`. The attribute is replaced when an array grows: take it anew for each kernel."""

    def __init__(self) -> None:
        self.memory = _empty()

    def clear(self) -> None:
        """Forgets all items; log time, sequence, options and counters stay."""
        old = self.memory.scalars
        self.memory = _empty()
        for scalar in (*_SHARED, records.RECORDS_READ, records.DUPLICATES, records.SWEEPS):
            self.memory.scalars[scalar] = old[scalar]

    def adopt(self, other: Index) -> None:
        """Takes over log time, sequence and options."""
        for scalar in _SHARED:
            self.memory.scalars[scalar] = other.memory.scalars[scalar]

    @property
    def scalars(self) -> Array:
        return self.memory.scalars

    def __len__(self) -> int:
        return int(self.memory.scalars[records.ITEMS])

    @property
    def size(self) -> int:
        """Bytes in use. Room beyond that has not been touched, so the system has not given it yet."""
        scalars = self.memory.scalars
        return int(
            scalars[records.ITEM_TOP] * records.ITEM.itemsize
            + scalars[records.NODE_TOP] * (records.NODE.itemsize + 2 * records.LIST.itemsize)
            + scalars[records.TOWER_TOP] * records.LEVELS * 4
            + scalars[records.HEAP_TOP] * heap.UNIT
            + self.memory.item_map.nbytes
            + self.memory.node_map.nbytes
        )

    def reserve(self, items: int, nodes: int, heap_units: int) -> None:
        """Makes room for so many more."""
        memory = self.memory
        scalars = memory.scalars
        changes: dict[str, Array] = {}
        missing = scalars[records.ITEM_TOP] + items - scalars[records.ITEM_FREE_COUNT] - len(memory.items)
        if missing > 0:
            changes["items"] = _grown(memory.items, _next_size(len(memory.items), missing))
        missing = scalars[records.NODE_TOP] + nodes - scalars[records.NODE_FREE_COUNT] - len(memory.nodes)
        if missing > 0:
            length = _next_size(len(memory.nodes), missing)
            changes["nodes"] = _grown(memory.nodes, length)
            changes["lists"] = _grown(memory.lists, 2 * length)
        # An item may need a tower of its own and be the first tall one of its list.
        missing = scalars[records.TOWER_TOP] + 2 * items - scalars[records.TOWER_FREE_COUNT] - len(memory.towers)
        if missing > 0:
            changes["towers"] = _grown(memory.towers, _next_size(len(memory.towers), missing))
        missing = scalars[records.HEAP_TOP] + heap_units - len(memory.heap) // heap.UNIT
        if missing > 0:
            length = _next_size(len(memory.heap) // heap.UNIT, missing)
            changes["heap"] = _grown(memory.heap, length * heap.UNIT)
            changes["heap_words"] = changes["heap"].view(np.int32)
        # Half full at most, so that runs stay short.
        if 2 * (scalars[records.MAPPED] + items) > len(memory.item_map):
            table = _table(_power_of_two(2 * (int(scalars[records.MAPPED]) + items)))
            ids.rebuild_item_map(memory, table)
            changes["item_map"] = table
        if 2 * (scalars[records.NODES] + nodes) > len(memory.node_map):
            table = _table(_power_of_two(2 * (int(scalars[records.NODES]) + nodes)))
            topics.rebuild_node_map(memory, table)
            changes["node_map"] = table
        if changes:
            self.memory = memory._replace(**changes)


def _next_size(length: int, missing: int) -> int:
    """Half as much again: growing stays rare, and little is taken in vain."""
    return max(int(length * 1.5), length + int(missing))


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _empty() -> Memory:
    scalars = np.zeros(records.SCALARS, np.int64)
    for scalar in (records.LOG_TIME, records.ENDED_BEFORE, records.COMPLETE_FROM):
        scalars[scalar] = records.EARLIEST
    for scalar in (records.ITEM_FREE, records.NODE_FREE, records.TOWER_FREE, records.HOT_WINDOW):
        scalars[scalar] = records.NONE
    scalars[records.EARLIER_LIMIT] = records.LATEST
    scalars[records.NODE_TOP] = 1  # the root
    scalars[records.HEAP_TOP] = 1  # 0 means none
    nodes = np.zeros(_FIRST_ITEMS, records.NODE)
    nodes[topics.ROOT] = (0, records.NONE, records.NONE, records.NONE, records.NONE, 0, 0)
    lists = np.zeros(2 * _FIRST_ITEMS, records.LIST)
    lists[:2] = (records.NONE, records.NONE, 0, 0)
    blocks = np.zeros(_FIRST_BLOCKS * heap.UNIT, np.uint8)
    return Memory(
        items=np.zeros(_FIRST_ITEMS, records.ITEM),
        nodes=nodes,
        lists=lists,
        towers=np.zeros((_FIRST_ITEMS, records.LEVELS), np.int32),
        item_map=_table(2 * _FIRST_ITEMS),
        node_map=_table(2 * _FIRST_ITEMS),
        heap=blocks,
        heap_words=blocks.view(np.int32),
        free_blocks=np.zeros(heap.SIZES, np.int32),
        scalars=scalars,
    )
