"""The choice of a slot's access predicate: what each would cost, and the group of the cheapest."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.blocks.codes import MAX_BOUND, pair_cell
from pastforward.matching.blocks.pools import (
    find_group,
    find_table,
    group_key,
    new_group,
    new_table,
)
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.view import (
    ALWAYS,
    EQUAL_ONE,
    EQUAL_TWO,
    LIVE,
    MEMBERS,
    PAIR,
    PLANNED,
    SEEN,
    SINGLE,
    TOPIC,
    Blocks,
)
from pastforward.matching.index.records import EQUAL, HAS_TOPIC, OPEN
from pastforward.matching.index.verification import Known

# Nanoseconds, measured on one core: what a publication pays for a table that it can use, and for a lane of a leaf that it reaches.
_PROBE: Final = 25.0
_ROOT: Final = 50.0
_LANE: Final = 0.4


@inner
def _extent(members: Float) -> Float:
    """How wide a leaf is in each of two dimensions, as a share of the whole."""
    return np.sqrt(32.0 / (members + 32.0))


@inner
def _rough(fraction: Float) -> Float:
    """In steps of four: a slot shall not leave a large group, whose leaves are small, for a range that is a little narrower."""
    step = 0.64  # so that a tenth, a hundredth and the like lie well inside a step
    while fraction <= step * 0.25 and step > 1e-6:
        step *= 0.25
    return step


@inner
def _one_cost(blocks: Blocks, kind: Int, k: Int, s: Scratch) -> Float:
    """Nanoseconds that a slot adds to each publication if it is put under an access predicate on constraint `k` alone. A table's own
    cost is shared by its members and, in part, by those that could still come."""
    a = np.int64(s.attribute[k])
    members = np.float64(blocks.alone[2 * a + (1 if kind == SINGLE else 0)])
    carried = s.carried[k]
    if kind == EQUAL_ONE:
        return _LANE * s.fraction[k] + _PROBE * carried / (members + 0.5 * np.float64(blocks.constrained[a]) + 1.0)
    extent = 32.0 / (members + 0.1 * np.float64(blocks.constrained[a]) + 32.0)
    return _LANE * min(s.fraction[k] + carried * extent, carried) + _ROOT * carried / (members + 1.0)


@inner
def _values_cost(blocks: Blocks, k: Int, m: Int, s: Scratch) -> Float:
    """The same for the values of two."""
    at = pair_cell(EQUAL_TWO, np.int64(s.attribute[k]), np.int64(s.attribute[m]))
    members = np.float64(blocks.pairs[at + MEMBERS]) + 0.5 * np.float64(blocks.pairs[at + SEEN])
    return _LANE * s.fraction[k] * s.fraction[m] + _PROBE * s.carried[k] * s.carried[m] / (members + 1.0)


@inner
def _ranges_cost(blocks: Blocks, k: Int, m: Int, s: Scratch) -> Float:
    """The same for the ranges of two. The more members, the smaller their leaves: so slots gather under few pairs."""
    at = pair_cell(PAIR, np.int64(s.attribute[k]), np.int64(s.attribute[m]))
    members = max(
        np.float64(max(blocks.pairs[at + MEMBERS], blocks.pairs[at + PLANNED])),
        0.02 * np.float64(blocks.pairs[at + SEEN]),
    )
    extent = _extent(members)
    carried = s.carried[k]
    also_carried = s.carried[m]
    reach = min(s.rough[k] + extent * carried, carried) * min(s.rough[m] + extent * also_carried, also_carried)
    return _LANE * reach + _ROOT * carried * also_carried / (members + 1.0)


@inner
def choose(blocks: Blocks, known: Known, slot: Int, n: Int, hashing: Bool, s: Scratch) -> tuple[Int, Int, Int, Float]:
    """The cheapest access predicate of a slot: kind of table, which constraints (-1: none), and expected nanoseconds a publication."""
    kind = ALWAYS
    first = -1
    second = -1
    best = _LANE
    words = known.records.words
    at = np.int64(known.records.offset[slot])
    if hashing and words[at] & np.uint32(HAS_TOPIC):
        cost = _topic_cost(blocks, known, np.int64(words[at + 1]))
        if cost < best:
            best = cost
            kind = TOPIC
    # with many attributes, pairs of the eight most selective
    limit = 3.0
    if n > 8:
        ordered = np.sort(s.fraction[:n])
        limit = ordered[7]
    for k in range(n):
        s.rough[k] = _rough(s.fraction[k])
        # with many attributes cells lie anywhere: all are asked for before the first is read
        if s.fraction[k] <= limit:
            for m in range(k + 1, n):
                prefetch(blocks.pairs, pair_cell(PAIR, np.int64(s.attribute[k]), np.int64(s.attribute[m])))
    for k in range(n):
        if s.kind[k] == OPEN or s.fraction[k] > limit:
            continue
        coded = s.attribute[k] < MAX_BOUND and blocks.split_row[2 * s.attribute[k]] != 0
        valued = hashing and s.kind[k] == EQUAL
        for m in range(k + 1, n):
            if s.kind[m] == OPEN or s.fraction[m] > limit:
                continue
            # no cost is below that of the lanes reached: what cannot win is not looked at further
            if valued and s.kind[m] == EQUAL and _LANE * s.fraction[k] * s.fraction[m] < best:
                cost = _values_cost(blocks, k, m, s)
                if cost < best:
                    best = cost
                    kind = EQUAL_TWO
                    first = k
                    second = m
            least = _LANE * min(s.rough[k], s.carried[k]) * min(s.rough[m], s.carried[m])
            if coded and least < best and s.attribute[m] < MAX_BOUND and blocks.split_row[2 * s.attribute[m]]:
                cost = _ranges_cost(blocks, k, m, s)
                if cost < best:
                    best = cost
                    kind = PAIR
                    first = k
                    second = m
    for k in range(n):
        if s.kind[k] == OPEN or s.fraction[k] > limit or _LANE * s.fraction[k] >= best:
            continue
        if hashing and s.kind[k] == EQUAL:
            cost = _one_cost(blocks, EQUAL_ONE, k, s)
            if cost < best:
                best = cost
                kind = EQUAL_ONE
                first = k
                second = -1
        if s.attribute[k] < MAX_BOUND and blocks.split_row[2 * s.attribute[k]] != 0:
            cost = _one_cost(blocks, SINGLE, k, s)
            if cost < best:
                best = cost
                kind = SINGLE
                first = k
                second = -1
    return kind, first, second, best


@inner
def _topic_cost(blocks: Blocks, known: Known, node: Int) -> Float:
    """Publications are taken to be spread over topics as subscriptions are."""
    share = np.float64(known.topics.below[node]) / max(np.float64(known.topics.below[0]), 1.0)
    return _LANE * share + _PROBE / (np.float64(blocks.state[LIVE]) + 1.0)


@inner
def cost_now(blocks: Blocks, known: Known, slot: Int, table: Int, n: Int, s: Scratch) -> Float:
    """What the access predicate costs that the slot is under. The slot has just been through `choose`."""
    kind = np.int64(blocks.table_kind[table])
    if kind == ALWAYS:
        return _LANE
    if kind == TOPIC:
        return _topic_cost(blocks, known, np.int64(known.records.words[np.int64(known.records.offset[slot]) + 1]))
    k = -1
    m = -1
    for i in range(n):
        if s.attribute[i] == blocks.table_a[table]:
            k = i
        elif s.attribute[i] == blocks.table_b[table]:
            m = i
    if kind == EQUAL_TWO:
        return _values_cost(blocks, k, m, s)
    if kind == PAIR:
        return _ranges_cost(blocks, k, m, s)
    return _one_cost(blocks, kind, k, s)


@inner
def group_for(blocks: Blocks, known: Known, slot: Int, kind: Int, first: Int, second: Int, s: Scratch) -> Int:
    """Finds or makes the group of an access predicate."""
    a = np.int64(s.attribute[first]) if first >= 0 else np.int64(-1)
    b = np.int64(s.attribute[second]) if second >= 0 else np.int64(-1)
    value_a = np.uint64(0)
    value_b = np.uint64(0)
    low_a = np.uint64(0)
    low_b = np.uint64(0)
    if kind == EQUAL_TWO or kind == EQUAL_ONE:
        value_a = s.value[first]
        low_a = s.low[first]
        if second >= 0:
            value_b = s.value[second]
            low_b = s.low[second]
    elif kind == TOPIC:
        value_a = np.uint64(known.records.words[np.int64(known.records.offset[slot]) + 1])
    table = find_table(blocks, kind, a, b)
    if not table:
        table = new_table(blocks, kind, a, b)
    key = group_key(table, value_a, value_b)
    group = find_group(blocks, key)
    if not group:
        group = new_group(blocks, table, key, low_a, low_b)
        if kind == TOPIC:
            blocks.topic_group[np.int64(value_a)] = group
    return group
