"""The index in memory: the arrays of `state.kernels.records`, grown as needed.

One writer. `reserve` before kernels that add items: they never check for room themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.columns.dewey import MAX_DEPTH
from pastforward.columns.growing import Growing
from pastforward.state.kernels import heap, ids, records, topics
from pastforward.state.kernels.records import Array, Memory

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


def _table(length: int) -> Array:
    return np.full(length, records.NONE, np.int32)


class Index:
    """Owns a `Memory`. The attribute is replaced when an array grows: take it anew for each kernel."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._items = Growing(records.ITEM, _FIRST_ITEMS)
        self._nodes = Growing(records.NODE, _FIRST_ITEMS)
        self._lists = Growing(records.LIST, 2 * _FIRST_ITEMS)
        self._towers = Growing(np.int32, _FIRST_ITEMS, records.LEVELS)
        self._heap = Growing(np.uint8, _FIRST_BLOCKS * heap.UNIT)
        self._free_blocks = np.zeros(heap.SIZES, np.int32)
        self.memory = self._map(_table(2 * _FIRST_ITEMS), _table(2 * _FIRST_ITEMS), _scalars())
        self.memory.nodes[topics.ROOT] = (0, records.NONE, records.NONE, records.NONE, records.NONE, 0, 0, 0, 0)
        self.memory.lists[:2] = (records.NONE, records.NONE, 0, 0)

    def _map(self, item_map: Array, node_map: Array, scalars: Array) -> Memory:
        blocks = self._heap.array()
        self._measured = scalars, item_map.nbytes + node_map.nbytes
        return Memory(
            items=self._items.array(),
            nodes=self._nodes.array(),
            lists=self._lists.array(),
            towers=self._towers.array(),
            item_map=item_map,
            node_map=node_map,
            heap=blocks,
            heap_words=blocks.view(np.int32),
            free_blocks=self._free_blocks,
            scalars=scalars,
            before=np.zeros(records.LEVELS + 1, np.int64),
            stack=np.zeros(MAX_DEPTH, np.uint64),
        )

    def clear(self) -> None:
        """Forgets all items; log time, sequence, options and counters stay."""
        old = self.memory.scalars
        self._begin()
        for scalar in (*_SHARED, records.RECORDS_READ, records.DUPLICATES, records.SWEEPS):
            self.memory.scalars[scalar] = old[scalar]

    def adopt(self, other: Index) -> None:
        """Takes over log time, sequence and options."""
        for scalar in _SHARED:
            self.memory.scalars[scalar] = other.memory.scalars[scalar]

    # What other threads may ask too, while it grows: there is no `memory` then, and holding on to it would keep it from growing.

    @property
    def scalars(self) -> Array:
        return self._measured[0]

    def __len__(self) -> int:
        return int(self.scalars[records.ITEMS])

    @property
    def size(self) -> int:
        """Bytes in use. Room beyond that has not been touched, so the system has not given it yet."""
        scalars, maps = self._measured
        return int(
            scalars[records.ITEM_TOP] * records.ITEM.itemsize
            + scalars[records.NODE_TOP] * (records.NODE.itemsize + 2 * records.LIST.itemsize)
            + scalars[records.TOWER_TOP] * records.LEVELS * 4
            + scalars[records.HEAP_TOP] * heap.UNIT
            + maps
        )

    def reserve(self, items: int, nodes: int, heap_units: int) -> None:
        """Makes room for so many more. Nobody may hold an array of the index meanwhile."""
        scalars = self.memory.scalars
        item_map, node_map = self._larger_maps(items, nodes)
        item_need = int(scalars[records.ITEM_TOP] + items - scalars[records.ITEM_FREE_COUNT])
        node_need = int(scalars[records.NODE_TOP] + nodes - scalars[records.NODE_FREE_COUNT])
        # An item may need a tower of its own and be the first tall one of its list.
        tower_need = int(scalars[records.TOWER_TOP] + 2 * items - scalars[records.TOWER_FREE_COUNT])
        heap_need = int(scalars[records.HEAP_TOP] + heap_units) * heap.UNIT
        growing = [
            (block, need)
            for block, need in (
                (self._items, item_need),
                (self._nodes, node_need),
                (self._lists, 2 * node_need),
                (self._towers, tower_need),
                (self._heap, heap_need),
            )
            if need > block.length
        ]
        if growing or item_map is not self.memory.item_map or node_map is not self.memory.node_map:
            del self.memory
            try:
                for block, need in growing:
                    # Room that is not touched costs nothing, so double it.
                    block.grow(max(need, 2 * block.length))
            finally:
                self.memory = self._map(item_map, node_map, scalars)

    def _larger_maps(self, items: int, nodes: int) -> tuple[Array, Array]:
        """The two tables, half full at most, so that runs stay short."""
        memory = self.memory
        item_map, node_map = memory.item_map, memory.node_map
        least = 2 * (int(memory.scalars[records.MAPPED]) + items)
        if least > len(item_map):
            item_map = _table(_power_of_two(least))
            ids.rebuild_item_map(memory, item_map)
        least = 2 * (int(memory.scalars[records.NODES]) + nodes)
        if least > len(node_map):
            node_map = _table(_power_of_two(least))
            topics.rebuild_node_map(memory, node_map)
        return item_map, node_map


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _scalars() -> Array:
    scalars = np.zeros(records.SCALARS, np.int64)
    for scalar in (records.LOG_TIME, records.ENDED_BEFORE, records.COMPLETE_FROM):
        scalars[scalar] = records.EARLIEST
    for scalar in (records.ITEM_FREE, records.NODE_FREE, records.TOWER_FREE, records.HOT_WINDOW):
        scalars[scalar] = records.NONE
    scalars[records.EARLIER_LIMIT] = records.LATEST
    scalars[records.NODE_TOP] = 1  # the root
    scalars[records.HEAP_TOP] = 1  # 0 means none
    return scalars
