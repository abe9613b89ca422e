"""The topics that subscriptions name, as a tree: who is whose ancestor is a walk over parents.

One writer. Node 0 is the root. A node lives while a subscription holds it or something below it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.growing import longer
from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

ROOT: Final = 0
OVERLAP: Final = 0
SUBTREE: Final = 1


_PER_NODE: Final = 8 + 7 * 4 + 4 + 8  # the arrays of a node, the list of free ones, two cells
_LINKS: Final = ("parent", "first_child", "next_sibling", "previous_sibling")


class TopicView(NamedTuple):
    """What kernels read. `table` holds node + 1, 0 for never used, -1 for released."""

    parent: I32
    component: I64
    depth: I32
    first_child: I32
    next_sibling: I32
    previous_sibling: I32
    held: I32  # holders of the node itself
    below: I32  # holders of the node and everything below it
    table: I32


@inner
def _cell(parent: Int, component: Int, mask: Int) -> Int:
    return np.int64(mix(np.uint64(component) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(parent)) & np.uint64(mask))


@inner
def child_of(view: TopicView, parent: Int, component: Int) -> Int:
    mask = len(view.table) - 1
    at = _cell(parent, component, mask)
    while True:
        entry = view.table[at]
        if entry == 0:
            return -1
        if entry > 0:
            node = np.int64(entry) - 1
            if view.parent[node] == parent and view.component[node] == component:
                return node
        at = (at + 1) & mask


@inner
def find_topic(view: TopicView, heap: U8, offset: Int, length: Int) -> tuple[Int, Bool]:
    """The deepest known node on the way to a topic, and whether it is the topic itself. The text is valid."""
    node = 0
    i = offset
    end = offset + length
    while i < end:
        component = np.int64(0)
        while i < end and heap[i] != 46:
            component = component * 10 + (np.int64(heap[i]) - 48)
            i += 1
        i += 1
        child = child_of(view, node, component)
        if child < 0:
            return node, False
        node = child
    return node, True


@kernel
def check_topic(heap: U8, offset: Int, length: Int) -> Bool:
    """Is it a Dewey path: numbers of at most 64 bits, signed, without leading zeros, with dots in between?"""
    if length == 0:
        return True
    digits = 0
    value = np.uint64(0)
    for i in range(offset, offset + length + 1):
        if i == offset + length or heap[i] == 46:
            if digits == 0 or value > np.uint64(0x7FFFFFFFFFFFFFFF):
                return False
            digits = 0
            value = np.uint64(0)
            continue
        byte = heap[i]
        if byte < 48 or byte > 57 or digits == 19 or (digits > 0 and value == np.uint64(0)):
            return False
        value = value * np.uint64(10) + np.uint64(byte - 48)
        digits += 1
    return True


@kernel
def first_wrong_topic(heap: U8, offset: I64, length: I32) -> Int:
    """The first text that is no Dewey path, -1 if there is none."""
    for i in range(len(offset)):
        if not check_topic(heap, offset[i], length[i]):
            return i
    return -1


@inner
def is_below(view: TopicView, node: Int, ancestor: Int) -> Bool:
    """Is `node` the same as `ancestor`, or below it?"""
    steps = view.depth[node] - view.depth[ancestor]
    if steps < 0:
        return False
    for _ in range(steps):
        node = view.parent[node]
    return node == ancestor


@inner
def topic_meets(view: TopicView, subscribed: Int, scope: Int, deepest: Int, exact: Bool) -> Bool:
    if subscribed == ROOT:
        return True
    if is_below(view, deepest, subscribed):
        return True
    return scope == OVERLAP and exact and is_below(view, subscribed, deepest)


@kernel
def _hold(view: TopicView, state: I64, free: I32, heap: U8, offset: I64, length: I32, out: I32) -> Int:
    """state: nodes ever, free nodes, used cells. Returns the first text that does not fit the room left, or the number of texts."""
    mask = len(view.table) - 1
    for t in range(len(offset)):
        # a topic of n bytes has at most (n + 1) / 2 components
        worst = (length[t] + 1) // 2
        if state[0] + worst > len(view.parent) + state[1] or 2 * (state[2] + worst) > len(view.table):
            return t
        node = 0
        i = offset[t]
        end = offset[t] + length[t]
        while i < end:
            component = np.int64(0)
            while i < end and heap[i] != 46:
                component = component * 10 + (np.int64(heap[i]) - 48)
                i += 1
            i += 1
            child = child_of(view, node, component)
            if child < 0:
                if state[1] > 0:
                    state[1] -= 1
                    child = np.int64(free[state[1]])
                else:
                    child = state[0]
                    state[0] += 1
                view.parent[child] = node
                view.component[child] = component
                view.depth[child] = view.depth[node] + 1
                view.first_child[child] = -1
                following = view.first_child[node]
                view.next_sibling[child] = following
                view.previous_sibling[child] = -1
                if following >= 0:
                    view.previous_sibling[following] = child
                view.first_child[node] = child
                view.held[child] = 0
                view.below[child] = 0
                at = _cell(node, component, mask)
                while view.table[at] > 0:
                    at = (at + 1) & mask
                if view.table[at] == 0:
                    state[2] += 1
                view.table[at] = child + 1
            node = child
        out[t] = node
        view.held[node] += 1
        while True:
            view.below[node] += 1
            if node == 0:
                break
            node = view.parent[node]
    return len(offset)


@kernel
def _release(view: TopicView, state: I64, free: I32, nodes: I32) -> None:
    mask = len(view.table) - 1
    for i in range(len(nodes)):
        node = np.int64(nodes[i])
        view.held[node] -= 1
        while True:
            view.below[node] -= 1
            if node == 0:
                break
            parent = np.int64(view.parent[node])
            if view.below[node] == 0:
                at = _cell(parent, view.component[node], mask)
                while view.table[at] != node + 1:
                    at = (at + 1) & mask
                view.table[at] = -1
                before = view.previous_sibling[node]
                after = view.next_sibling[node]
                if before < 0:
                    view.first_child[parent] = after
                else:
                    view.next_sibling[before] = after
                if after >= 0:
                    view.previous_sibling[after] = before
                view.parent[node] = -1
                free[state[1]] = node
                state[1] += 1
            node = parent


@kernel
def _rebuild(view: TopicView, count: Int) -> Int:
    mask = len(view.table) - 1
    used = 0
    for node in range(1, count):
        if view.parent[node] < 0:
            continue
        at = _cell(view.parent[node], view.component[node], mask)
        while view.table[at] != 0:
            at = (at + 1) & mask
        view.table[at] = node + 1
        used += 1
    return used


class Topics:
    def __init__(self) -> None:
        self.view = TopicView(
            np.full(64, -1, np.int32),
            np.zeros(64, np.int64),
            np.zeros(64, np.int32),
            np.full(64, -1, np.int32),
            np.full(64, -1, np.int32),
            np.full(64, -1, np.int32),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(256, np.int32),
        )
        self._state = np.array([1, 0, 0], np.int64)
        self._free = np.zeros(64, np.int32)

    def __len__(self) -> int:
        return int(self._state[0] - self._state[1])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.view) + self._free.nbytes

    def hold(self, heap: U8, offset: I64, length: I32) -> I32:
        """Nodes of valid topics, each held once more."""
        out = np.empty(len(offset), np.int32)
        done = 0
        while True:
            done += int(_hold(self.view, self._state, self._free, heap, offset[done:], length[done:], out[done:]))
            if done == len(offset):
                return out
            self._grow(int(length[done]))

    def release(self, nodes: I32) -> None:
        _release(self.view, self._state, self._free, nodes)

    def text(self, node: int) -> str:
        components: list[str] = []
        while node:
            components.append(str(int(self.view.component[node])))
            node = int(self.view.parent[node])
        return ".".join(reversed(components))

    @property
    def wasted(self) -> int:
        """Bytes of nodes that nobody holds."""
        return int(self._state[1]) * _PER_NODE

    def compact(self) -> I32:
        """Numbers nodes without gaps, in the same order. Returns the new numbers by the old ones, -1 where there was none."""
        view, count = self.view, int(self._state[0])
        living = view.parent[:count] >= 0
        living[ROOT] = True
        kept = np.flatnonzero(living)
        to = np.full(count + 1, -1, np.int32)  # and one more: no node stays no node
        to[kept] = np.arange(len(kept), dtype=np.int32)
        room = max(len(kept), 64)
        cells = 256
        while cells < 4 * len(kept):
            cells *= 2
        arrays: list[Any] = [
            longer(to[array[kept]] if name in _LINKS else array[kept], room, -1)
            for name, array in view._asdict().items()
            if name != "table"
        ]
        self.view = TopicView._make([*arrays, np.zeros(cells, np.int32)])
        self._free = np.zeros(room, np.int32)
        self._state[:] = len(kept), 0, int(_rebuild(self.view, len(kept)))
        return to[:count]

    def _grow(self, more: int) -> None:
        view = self.view
        count = int(self._state[0])
        room = len(view.parent)
        if count - int(self._state[1]) + more > room:
            room = max(room + room // 2, count + more)
            arrays: list[Any] = [longer(array, room, -1) for array in view[:-1]]
            self._free = longer(self._free, room, -1)
            view = TopicView._make([*arrays, view.table])
        cells = 256
        while cells < 4 * (len(self) + more):
            cells *= 2
        view = view._replace(table=np.zeros(cells, np.int32))
        self._state[2] = _rebuild(view, count)
        self.view = view
