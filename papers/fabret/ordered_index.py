"""Inequality predicates in order: which of them does a value satisfy?

The leaf level of a B-tree: leaves of sorted keys, and a directory of the leaves, in the order of owner, then key. An owner is one
attribute with one direction. Leaves are split when full and given back when empty; half-empty ones are left alone, since predicates
come and go at random. One writer.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

_T = TypeVar("_T", bound=np.generic)

# Keys of a leaf: eight cache lines, so a scan runs on, and an insertion moves little.
LEAF: Final = 64

_EVER: Final = 0
_FREE: Final = 1
_LEAVES: Final = 2  # in the directory


class OrderedView(NamedTuple):
    keys: U64  # leaf, place
    numbers: I32  # leaf, place: the predicate
    filled: I32
    owner: I32
    directory: I32
    free: I32
    state: I64


@inner
def _last_place(view: OrderedView, owner: Int, key: Int) -> Int:
    """The last place in the directory whose owner and first key are not beyond these; -1 if all are."""
    low = np.int64(0)
    high = view.state[_LEAVES]
    while low < high:
        middle = (low + high) >> 1
        leaf = view.directory[middle]
        other = view.owner[leaf]
        if other < owner or (other == owner and view.keys[leaf, 0] <= key):
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def ordered_room(view: OrderedView, more: Int) -> Bool:
    """Is there room for so many predicates, each in a leaf of its own at worst?"""
    return view.state[_EVER] - view.state[_FREE] + more <= len(view.filled)


@inner
def _new_leaf(view: OrderedView, owner: Int, place: Int) -> Int:
    state = view.state
    if state[_FREE] > 0:
        state[_FREE] -= 1
        leaf = np.int64(view.free[state[_FREE]])
    else:
        leaf = state[_EVER]
        state[_EVER] += 1
    view.filled[leaf] = 0
    view.owner[leaf] = owner
    for i in range(state[_LEAVES], place, -1):
        view.directory[i] = view.directory[i - 1]
    view.directory[place] = leaf
    state[_LEAVES] += 1
    return leaf


@kernel
def ordered_insert(view: OrderedView, owner: Int, key: Int, number: Int) -> None:
    place = _last_place(view, owner, key)
    if place < 0 or view.owner[view.directory[place]] != owner:
        place += 1
        if place == view.state[_LEAVES] or view.owner[view.directory[place]] != owner:
            _new_leaf(view, owner, place)
    leaf = np.int64(view.directory[place])
    if view.filled[leaf] == LEAF:
        half = LEAF // 2
        upper = _new_leaf(view, owner, place + 1)
        for i in range(half):
            view.keys[upper, i] = view.keys[leaf, half + i]
            view.numbers[upper, i] = view.numbers[leaf, half + i]
        view.filled[upper] = half
        view.filled[leaf] = half
        if view.keys[upper, 0] <= key:
            leaf = upper
    at = np.int64(view.filled[leaf])
    while at > 0 and view.keys[leaf, at - 1] > key:
        view.keys[leaf, at] = view.keys[leaf, at - 1]
        view.numbers[leaf, at] = view.numbers[leaf, at - 1]
        at -= 1
    view.keys[leaf, at] = key
    view.numbers[leaf, at] = number
    view.filled[leaf] += 1


@kernel
def ordered_remove(view: OrderedView, owner: Int, key: Int) -> None:
    """The key is there, once."""
    place = _last_place(view, owner, key)
    leaf = np.int64(view.directory[place])
    at = np.int64(0)
    while view.keys[leaf, at] != key:
        at += 1
    for i in range(at, view.filled[leaf] - 1):
        view.keys[leaf, i] = view.keys[leaf, i + 1]
        view.numbers[leaf, i] = view.numbers[leaf, i + 1]
    view.filled[leaf] -= 1
    if view.filled[leaf] == 0:
        state = view.state
        for i in range(place, state[_LEAVES] - 1):
            view.directory[i] = view.directory[i + 1]
        state[_LEAVES] -= 1
        view.free[state[_FREE]] = leaf
        state[_FREE] += 1


@kernel
def up_to(view: OrderedView, owner: Int, key: Int, out: I32, n: Int) -> Int:
    """Appends the predicates of an owner with keys up to this one; returns the new length."""
    place = _last_place(view, owner - 1, ~np.uint64(0)) + 1
    while place < view.state[_LEAVES]:
        leaf = np.int64(view.directory[place])
        if view.owner[leaf] != owner:
            return n
        for i in range(view.filled[leaf]):
            if view.keys[leaf, i] > key:
                return n
            out[n] = view.numbers[leaf, i]
            n += 1
        place += 1
    return n


@kernel
def from_on(view: OrderedView, owner: Int, key: Int, out: I32, n: Int) -> Int:
    """Appends the predicates of an owner with keys from this one on; returns the new length."""
    place = _last_place(view, owner, ~np.uint64(0))
    while place >= 0:
        leaf = np.int64(view.directory[place])
        if view.owner[leaf] != owner:
            return n
        for i in range(np.int64(view.filled[leaf]) - 1, -1, -1):
            if view.keys[leaf, i] < key:
                return n
            out[n] = view.numbers[leaf, i]
            n += 1
        place -= 1
    return n


def empty_order() -> OrderedView:
    return OrderedView(
        np.zeros((16, LEAF), np.uint64),
        np.zeros((16, LEAF), np.int32),
        np.zeros(16, np.int32),
        np.zeros(16, np.int32),
        np.zeros(16, np.int32),
        np.zeros(16, np.int32),
        np.zeros(3, np.int64),
    )


def larger_order(view: OrderedView, more: int) -> OrderedView:
    """With room for so many more predicates."""
    used = int(view.state[_EVER] - view.state[_FREE])
    # splits leave leaves half full at least, so growing by half is enough for a while
    room = max(used + more, len(view.filled) + len(view.filled) // 2)

    def longer(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
        out: npt.NDArray[_T] = np.zeros((room, *array.shape[1:]), array.dtype)
        out[: len(array)] = array
        return out

    return OrderedView(
        longer(view.keys),
        longer(view.numbers),
        longer(view.filled),
        longer(view.owner),
        longer(view.directory),
        longer(view.free),
        view.state,
    )
