"""BE-Tree (Sadoghi and Jacobsen), the baseline of Mishra and Sahni: Boolean expressions in a tree that cuts space in two phases.

A c-node holds subscriptions in a leaf (l-node). When the leaf overflows, space is *partitioned*: the attribute that most of its
subscriptions constrain gets a p-node, and they move there. A p-node *clusters* the values of its attribute: a binary tree of intervals
(c-directory), halved where a bucket overflows, each bucket a c-node again. A subscription goes to the smallest interval that encloses its
predicate, so a publication visits, of each p-node whose attribute it carries, the intervals that hold its value, and tests what the
leaves there hold.

    c-node ── leaf: subscriptions              overflow: a bucket is first halved (clustering), and if that is not enough
      └─ p-node for attribute a                partitioned by another attribute; what cannot be split may grow
           └─ interval [low, high] ── c-node
                ├─ left half ── c-node
                └─ right half ── c-node

Everything is arrays and Numba kernels. After loading, subscriptions are laid out leaf by leaf, so that a leaf is one stretch of memory:
the tree is as fast to read as it can be, and cannot be changed any more. A baseline for the comparison, for integers and ranges only.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel
from pastforward.papers.loads.predicates import HIGHEST, LOWEST, Load

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

CAPACITY: Final = 20
"""Of a leaf, before it is split: of 5 to 200 the best for a million subscriptions of 400 dimensions."""
FEWEST: Final = 2
"""A p-node must take at least so many of a leaf: for a single one, a look into the directory costs what it saves."""
_NONE: Final = -1

# columns of the c-node table
_FIRST, _COUNT, _LIMIT, _OWNER, _FIRST_P, _P_COUNT, _C_WIDTH = range(7)
# columns of the p-node table
_ATTRIBUTE, _ROOT, _NEXT_P, _OF, _P_WIDTH = range(5)
# columns of the interval table
_LOW, _HIGH, _LEFT, _RIGHT, _NODE, _PNODE, _D_WIDTH = range(7)


@kernel
def _grown(table: I64) -> I64:
    larger = np.empty((2 * table.shape[0], table.shape[1]), np.int64)
    larger[: table.shape[0]] = table
    return larger


@kernel
def _hash(node: int, attribute: int, mask: int) -> Any:
    key = np.uint64(node * 0x9E3779B97F4A7C15) ^ np.uint64(attribute * 0xC2B2AE3D27D4EB4F)
    return np.int64((key ^ (key >> np.uint64(29))) & np.uint64(mask))


@kernel
def _find_pnode(directory: I64, pnodes: I64, node: int, attribute: int) -> Any:
    at = _hash(node, attribute, len(directory) - 1)
    while directory[at] != _NONE:
        p = directory[at]
        if pnodes[p, _OF] == node and pnodes[p, _ATTRIBUTE] == attribute:
            return p
        at = (at + 1) & (len(directory) - 1)
    return _NONE


@kernel
def _used(nodes: I64, pnodes: I64, intervals: I64, node: int, attribute: int) -> bool:
    """Whether the way to a c-node has already cut that attribute."""
    while nodes[node, _OWNER] != _NONE:
        p = intervals[nodes[node, _OWNER], _PNODE]
        if pnodes[p, _ATTRIBUTE] == attribute:
            return True
        node = pnodes[p, _OF]
    return False


@kernel
def _predicate(starts: I64, attributes: I32, subscription: int, attribute: int) -> Any:
    for at in range(starts[subscription], starts[subscription + 1]):
        if attributes[at] == attribute:
            return at
    return _NONE


@kernel
def _descend(intervals: I64, at: int, low: int, high: int) -> Any:
    """The smallest interval below `at` that encloses a predicate."""
    while intervals[at, _LEFT] != _NONE:
        if high <= intervals[intervals[at, _LEFT], _HIGH]:
            at = intervals[at, _LEFT]
        elif low >= intervals[intervals[at, _RIGHT], _LOW]:
            at = intervals[at, _RIGHT]
        else:
            break
    return at


@kernel
def _build(
    starts: I64, attributes: I32, lows: I64, highs: I64, domain_low: I64, domain_high: I64, capacity: int
) -> tuple[I64, I64, I64, I64, I64, I64]:
    """Inserts subscription by subscription, and splits where a leaf overflows."""
    subscriptions = len(starts) - 1
    nodes = np.empty((1024, _C_WIDTH), np.int64)
    pnodes = np.empty((1024, _P_WIDTH), np.int64)
    intervals = np.empty((1024, _D_WIDTH), np.int64)
    following = np.full(subscriptions, _NONE, np.int64)
    directory = np.full(4096, _NONE, np.int64)
    popularity = np.zeros(len(domain_low), np.int64)
    nodes[0] = np.array([_NONE, 0, capacity, _NONE, _NONE, 0])
    node_count, pnode_count, interval_count = 1, 0, 0
    work = np.empty(64, np.int64)

    for subscription in range(subscriptions):
        node = 0
        while True:
            # the p-node of the most popular of its attributes, that is the one under which most stands
            best, best_at = _NONE, _NONE
            if nodes[node, _P_COUNT]:
                for at in range(starts[subscription], starts[subscription + 1]):
                    p = _find_pnode(directory, pnodes, node, attributes[at])
                    if p != _NONE and (best == _NONE or p < best):
                        best, best_at = p, at
            if best == _NONE:
                break
            node = intervals[_descend(intervals, pnodes[best, _ROOT], lows[best_at], highs[best_at]), _NODE]
        following[subscription] = nodes[node, _FIRST]
        nodes[node, _FIRST] = subscription
        nodes[node, _COUNT] += 1

        work[0] = node
        todo = 1
        while todo:
            todo -= 1
            node = work[todo]
            if nodes[node, _COUNT] <= nodes[node, _LIMIT]:
                continue
            owner = nodes[node, _OWNER]
            # Phase two first, where it is possible: halve the bucket's interval.
            if owner != _NONE and intervals[owner, _LEFT] == _NONE and intervals[owner, _LOW] < intervals[owner, _HIGH]:
                while interval_count + 2 > len(intervals):
                    intervals = _grown(intervals)
                while node_count + 2 > len(nodes):
                    nodes = _grown(nodes)
                low, high = intervals[owner, _LOW], intervals[owner, _HIGH]
                middle = low + (high - low) // 2
                left, right = interval_count, interval_count + 1
                p = intervals[owner, _PNODE]
                intervals[left] = np.array([low, middle, _NONE, _NONE, node_count, p])
                intervals[right] = np.array([middle + 1, high, _NONE, _NONE, node_count + 1, p])
                nodes[node_count] = np.array([_NONE, 0, capacity, left, _NONE, 0])
                nodes[node_count + 1] = np.array([_NONE, 0, capacity, right, _NONE, 0])
                intervals[owner, _LEFT], intervals[owner, _RIGHT] = left, right
                interval_count += 2
                node_count += 2
                s = nodes[node, _FIRST]
                nodes[node, _FIRST] = _NONE
                nodes[node, _COUNT] = 0
                while s != _NONE:
                    after = following[s]
                    at = _predicate(starts, attributes, s, pnodes[p, _ATTRIBUTE])
                    to = node
                    if highs[at] <= middle:
                        to = intervals[left, _NODE]
                    elif lows[at] > middle:
                        to = intervals[right, _NODE]
                    following[s] = nodes[to, _FIRST]
                    nodes[to, _FIRST] = s
                    nodes[to, _COUNT] += 1
                    s = after
                work[todo] = node
                work[todo + 1] = intervals[left, _NODE]
                work[todo + 2] = intervals[right, _NODE]
                todo += 3
            else:
                # Phase one: partition by the attribute that most of them constrain and no cut above has used.
                s = nodes[node, _FIRST]
                best = _NONE
                while s != _NONE:
                    for at in range(starts[s], starts[s + 1]):
                        attribute = attributes[at]
                        popularity[attribute] += 1
                        if (best == _NONE or popularity[attribute] > popularity[best]) and not _used(
                            nodes, pnodes, intervals, node, attribute
                        ):
                            best = attribute
                    s = following[s]
                most = 0 if best == _NONE else popularity[best]
                s = nodes[node, _FIRST]
                while s != _NONE:
                    for at in range(starts[s], starts[s + 1]):
                        popularity[attributes[at]] = 0
                    s = following[s]
                if most < FEWEST:
                    nodes[node, _LIMIT] *= 2  # nothing separates them well
                    continue
                if pnode_count == len(pnodes):
                    pnodes = _grown(pnodes)
                if interval_count == len(intervals):
                    intervals = _grown(intervals)
                if node_count == len(nodes):
                    nodes = _grown(nodes)
                pnodes[pnode_count] = np.array([best, interval_count, nodes[node, _FIRST_P], node])
                nodes[node, _FIRST_P] = pnode_count
                nodes[node, _P_COUNT] += 1
                intervals[interval_count] = np.array(
                    [domain_low[best], domain_high[best], _NONE, _NONE, node_count, pnode_count]
                )
                bucket = node_count
                nodes[bucket] = np.array([_NONE, 0, capacity, interval_count, _NONE, 0])
                pnode_count += 1
                interval_count += 1
                node_count += 1
                if 2 * pnode_count > len(directory):
                    directory = np.full(2 * len(directory), _NONE, np.int64)
                    for p in range(pnode_count - 1):
                        at = _hash(pnodes[p, _OF], pnodes[p, _ATTRIBUTE], len(directory) - 1)
                        while directory[at] != _NONE:
                            at = (at + 1) & (len(directory) - 1)
                        directory[at] = p
                at = _hash(node, best, len(directory) - 1)
                while directory[at] != _NONE:
                    at = (at + 1) & (len(directory) - 1)
                directory[at] = pnode_count - 1
                s = nodes[node, _FIRST]
                nodes[node, _FIRST] = _NONE
                nodes[node, _COUNT] = 0
                while s != _NONE:
                    after = following[s]
                    to = node if _predicate(starts, attributes, s, best) == _NONE else bucket
                    following[s] = nodes[to, _FIRST]
                    nodes[to, _FIRST] = s
                    nodes[to, _COUNT] += 1
                    s = after
                work[todo] = node
                work[todo + 1] = bucket
                todo += 2
            if todo + 4 > len(work):
                wider = np.empty(2 * len(work), np.int64)
                wider[:todo] = work[:todo]
                work = wider
    return nodes[:node_count], pnodes[:pnode_count], intervals[:interval_count], following, directory, popularity


@kernel
def _leaves(nodes: I64, following: I64, subscriptions: int) -> tuple[I64, I64]:
    """Subscriptions leaf by leaf, and where each leaf begins."""
    order = np.empty(subscriptions, np.int64)
    begin = np.empty(len(nodes) + 1, np.int64)
    count = 0
    for node in range(len(nodes)):
        begin[node] = count
        s = nodes[node, _FIRST]
        while s != _NONE:
            order[count] = s
            count += 1
            s = following[s]
    begin[len(nodes)] = count
    return order, begin


@kernel
def _pack(order: I64, starts: I64, attributes: I32, lows: I64, highs: I64) -> tuple[I64, I32, I64, I64]:
    new_starts = np.empty(len(starts), np.int64)
    new_attributes = np.empty(len(attributes), np.int32)
    new_lows = np.empty(len(lows), np.int64)
    new_highs = np.empty(len(highs), np.int64)
    count = 0
    for place in range(len(order)):
        new_starts[place] = count
        for at in range(starts[order[place]], starts[order[place] + 1]):
            new_attributes[count] = attributes[at]
            new_lows[count] = lows[at]
            new_highs[count] = highs[at]
            count += 1
    new_starts[len(order)] = count
    return new_starts, new_attributes, new_lows, new_highs


@kernel
def _match(
    nodes: I64,
    pnodes: I64,
    intervals: I64,
    directory: I64,
    begin: I64,
    order: I64,
    starts: I64,
    attributes: I32,
    lows: I64,
    highs: I64,
    values: I64,
    carried: npt.NDArray[np.bool_],
) -> tuple[I64, I64, int]:
    """Rows and subscriptions, and how many were tested."""
    rows = np.empty(4096, np.int64)
    found = np.empty(4096, np.int64)
    count = tested = 0
    stack = np.empty(256, np.int64)
    for row in range(len(values)):
        value, has = values[row], carried[row]
        own = np.flatnonzero(has)
        stack[0] = 0
        depth = 1
        while depth:
            depth -= 1
            node = stack[depth]
            tested += begin[node + 1] - begin[node]
            for place in range(begin[node], begin[node + 1]):
                fits = True
                for at in range(starts[place], starts[place + 1]):
                    attribute = attributes[at]
                    if not has[attribute] or value[attribute] < lows[at] or value[attribute] > highs[at]:
                        fits = False
                        break
                if fits:
                    if count == len(rows):
                        wider, longer = np.empty(2 * count, np.int64), np.empty(2 * count, np.int64)
                        wider[:count], longer[:count] = rows, found
                        rows, found = wider, longer
                    rows[count], found[count] = row, order[place]
                    count += 1
            # the shorter of the two: the directory, or the publication's attributes looked up in it
            few = nodes[node, _P_COUNT] <= len(own)
            p = nodes[node, _FIRST_P]
            number = 0
            while (few and p != _NONE) or (not few and number < len(own)):
                if few:
                    chosen = p
                    p = pnodes[p, _NEXT_P]
                    if not has[pnodes[chosen, _ATTRIBUTE]]:
                        continue
                else:
                    chosen = _find_pnode(directory, pnodes, node, own[number])
                    number += 1
                    if chosen == _NONE:
                        continue
                at = pnodes[chosen, _ROOT]
                here = value[pnodes[chosen, _ATTRIBUTE]]
                while at != _NONE:
                    if depth + 1 == len(stack):
                        higher = np.empty(2 * len(stack), np.int64)
                        higher[:depth] = stack[:depth]
                        stack = higher
                    stack[depth] = intervals[at, _NODE]
                    depth += 1
                    if intervals[at, _LEFT] == _NONE:
                        break
                    at = (
                        intervals[at, _LEFT]
                        if here <= intervals[intervals[at, _LEFT], _HIGH]
                        else intervals[at, _RIGHT]
                    )
    return rows[:count], found[:count], tested


class BETree:
    """Loads at once; then `match` as often as wanted."""

    def __init__(self, load: Load, capacity: int = CAPACITY) -> None:
        starts = np.searchsorted(load.ids, np.arange(load.subscriptions + 1))
        attributes = load.attributes.astype(np.int32)
        # the cut of an open end must be somewhere: domains are what the predicates say
        low = np.where(load.low == LOWEST, load.high, load.low)
        high = np.where(load.high == HIGHEST, load.low, load.high)
        domain_low = np.full(len(load.names), HIGHEST)
        domain_high = np.full(len(load.names), LOWEST)
        np.minimum.at(domain_low, attributes, low)
        np.maximum.at(domain_high, attributes, high)
        nodes, pnodes, intervals, following, directory, _ = _build(
            starts, attributes, load.low, load.high, domain_low, domain_high, capacity
        )
        order, begin = _leaves(nodes, following, load.subscriptions)
        self._arrays: tuple[Any, ...] = (
            nodes, pnodes, intervals, directory, begin, order, *_pack(order, starts, attributes, load.low, load.high),
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    @property
    def partitions(self) -> int:
        """How often space was partitioned."""
        return len(self._arrays[1])

    @property
    def clusterings(self) -> int:
        """How often an interval was halved."""
        return int((self._arrays[2][:, _LEFT] != _NONE).sum())

    def match(self, values: I64, carried: npt.NDArray[np.bool_]) -> tuple[I64, I64, int]:
        """Rows and subscriptions of all pairs, and how many subscriptions were tested."""
        rows, found, tested = _match(*self._arrays, values, carried)
        return rows, found, int(tested)


def loading_time(load: Load, capacity: int = CAPACITY) -> tuple[BETree, float]:
    begin = time.process_time()
    tree = BETree(load, capacity)
    return tree, time.process_time() - begin
