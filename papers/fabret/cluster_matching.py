"""The two phases of a match: which predicates hold, then which slots of the clusters behind satisfied access predicates.

The code that checks a cluster is specialised for 1 to 10 predicates, where the loop over columns is unrolled, with one generic form for
more; each comes with look-ahead and without. Everything a publication sets in the bit vector is cleared before the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inlined, kernel
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.batch import Batch
from pastforward.papers.fabret.clusters import (
    BASE,
    CAPACITY,
    CHECKS,
    CLUSTERS,
    COUNT,
    FIRST,
    FIRST_TABLE,
    FOLLOWING,
    MAX_SCHEMA,
    NO_TABLE,
    ROOT,
    SCHEMA,
    SIZE,
    STATUS,
    TABLES,
    UNIT,
    WIDTH,
    ClusterView,
    find_access,
)
from pastforward.papers.fabret.ordered_index import OrderedView
from pastforward.papers.fabret.predicate_index import PredicateView, observe, satisfied

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]

# Entries of a column in one cache line: 64 bytes of 4. What the inner loop takes before it asks for the next line.
UNFOLD: Final = 16
# How far ahead a line is asked for. Of 4, 8, 16 and 32 lines 8 was best: 48.1, 47.7, 50.1 and 50.4 us a publication with a million
# subscriptions of five equalities, 56.7 without look-ahead. More than 8 is more than a core keeps in flight.
LOOKAHEAD: Final = 8 * UNFOLD
# Columns that are asked for early. The first is read whole; the second where the first held, one slot in thirty or so: its lines would
# mostly be fetched for nothing.
_COLUMNS_AHEAD: Final = 1
SPECIALISED: Final = 10

# Inlined into the match: a call hands over four arrays and counts their references, which costs as much as fifty checks.
# words, base, capacity, count, size, bits, row, rows, slots, n -> n
Check: TypeAlias = Callable[[U32, Int, Int, Int, Int, U8, Int, I32, I32, Int], Int]


def specialised(predicates: int, ahead: bool) -> Check:
    """Code for clusters of so many predicates, at least 1."""

    @inlined
    def check(
        words: U32, base: Int, capacity: Int, count: Int, size: Int, bits: U8, row: Int, rows: I32, slots: I32, n: Int
    ) -> Int:
        first = base + capacity
        for start in range(0, count, UNFOLD):
            for j in range(start, min(start + UNFOLD, count)):
                if not bits[words[np.uint64(first + j)]]:
                    continue
                holds = True
                for c in range(1, predicates):
                    if not bits[words[np.uint64(first + c * capacity + j)]]:
                        holds = False
                        break
                if holds:
                    rows[n] = row
                    slots[n] = words[np.uint64(base + j)]
                    n += 1
            if ahead:
                for c in range(min(predicates, _COLUMNS_AHEAD)):
                    prefetch(words, first + c * capacity + start + LOOKAHEAD)
        return n

    compiled: Check = check
    return compiled


def generic(ahead: bool) -> Check:
    """Code for clusters of any number of predicates, none included."""

    @inlined
    def check(
        words: U32, base: Int, capacity: Int, count: Int, size: Int, bits: U8, row: Int, rows: I32, slots: I32, n: Int
    ) -> Int:
        first = base + capacity
        for j in range(count):
            holds = True
            for c in range(size):
                if not bits[words[np.uint64(first + c * capacity + j)]]:
                    holds = False
                    break
            if holds:
                rows[n] = row
                slots[n] = words[np.uint64(base + j)]
                n += 1
            if ahead and j & (UNFOLD - 1) == 0:
                prefetch(words, first + j + LOOKAHEAD)
        return n

    compiled: Check = check
    return compiled


def checks(ahead: bool) -> tuple[Check, ...]:
    """By number of predicates, the generic one at 0 and for more than there are."""
    return (generic(ahead), *(specialised(predicates, ahead) for predicates in range(1, SPECIALISED + 1)))


PLAIN: Final = checks(ahead=False)
AHEAD: Final = checks(ahead=True)

# By name: a kernel that held them in its closure would be compiled anew in each process.
_p0, _p1, _p2, _p3, _p4, _p5, _p6, _p7, _p8, _p9, _p10 = PLAIN
_a0, _a1, _a2, _a3, _a4, _a5, _a6, _a7, _a8, _a9, _a10 = AHEAD


@inlined
def _check_plain(
    words: U32, base: Int, capacity: Int, count: Int, size: Int, bits: U8, row: Int, rows: I32, slots: I32, n: Int
) -> Int:
    if size == 1:
        return _p1(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 2:
        return _p2(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 3:
        return _p3(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 4:
        return _p4(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 5:
        return _p5(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 6:
        return _p6(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 7:
        return _p7(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 8:
        return _p8(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 9:
        return _p9(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 10:
        return _p10(words, base, capacity, count, size, bits, row, rows, slots, n)
    return _p0(words, base, capacity, count, size, bits, row, rows, slots, n)


@inlined
def _check_ahead(
    words: U32, base: Int, capacity: Int, count: Int, size: Int, bits: U8, row: Int, rows: I32, slots: I32, n: Int
) -> Int:
    if size == 1:
        return _a1(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 2:
        return _a2(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 3:
        return _a3(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 4:
        return _a4(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 5:
        return _a5(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 6:
        return _a6(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 7:
        return _a7(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 8:
        return _a8(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 9:
        return _a9(words, base, capacity, count, size, bits, row, rows, slots, n)
    if size == 10:
        return _a10(words, base, capacity, count, size, bits, row, rows, slots, n)
    return _a0(words, base, capacity, count, size, bits, row, rows, slots, n)


def _matcher(ahead: bool) -> Any:
    """`counted`: statistics are kept of what publications carry."""

    @kernel
    def match(
        predicates: PredicateView,
        order: OrderedView,
        view: ClusterView,
        batch: Batch,
        bits: U8,
        others: I32,
        lists: I32,
        equal_of: I32,
        rows: I32,
        slots: I32,
        first: Int,
        counted: Bool,
    ) -> tuple[Int, Int]:
        n: Int = 0
        checked: Int = 0
        equal = np.empty(len(equal_of), np.int32)
        key = np.empty(MAX_SCHEMA, np.int32)
        words = view.words
        for row in range(first, len(batch.carried)):
            before = n
            equals, found = satisfied(predicates, order, batch, row, equal, others)
            if counted:
                observe(predicates, batch, row, equal, equals)
            # the root, then the equalities that are access predicates, then the tables of several attributes
            lists[0] = view.tables[ROOT, FIRST]
            used = 1
            for i in range(equals):
                number = equal[i]
                bits[number] = 1
                equal_of[predicates.attribute[number]] = number
                access = predicates.access[number]
                if access >= 0:
                    if ahead:
                        prefetch(view.access, np.int64(access) * np.int64(view.access.shape[1]))
                    lists[used] = access
                    used += 1
            for i in range(found):
                bits[others[i]] = 1
            for t in range(FIRST_TABLE, view.state[TABLES]):
                if view.tables[t, STATUS] == NO_TABLE:
                    continue
                relevant = True
                width = np.int64(view.tables[t, WIDTH])
                for k in range(width):
                    key[k] = equal_of[view.tables[t, SCHEMA + k]]
                    if key[k] < 0:
                        relevant = False
                        break
                if relevant:
                    access = find_access(view, t, key, width)
                    if access >= 0:
                        lists[used] = access
                        used += 1
            fits = True
            for i in range(used):
                cluster = np.int64(view.access[lists[i], CLUSTERS])
                if ahead and i + 1 < used:
                    following = view.access[lists[i + 1], CLUSTERS]
                    if following >= 0:
                        start = np.int64(view.clusters[following, BASE]) * UNIT + view.clusters[following, CAPACITY]
                        lines: Int = min(np.int64(view.clusters[following, COUNT]), np.int64(LOOKAHEAD))
                        for line in range(0, lines, UNFOLD):
                            prefetch(words, start + line)
                while cluster >= 0:
                    count = np.int64(view.clusters[cluster, COUNT])
                    if n + count > len(rows):
                        fits = False
                        break
                    size = np.int64(view.clusters[cluster, SIZE])
                    base = np.int64(view.clusters[cluster, BASE]) * UNIT
                    capacity = np.int64(view.clusters[cluster, CAPACITY])
                    checked += count
                    if ahead:
                        n = _check_ahead(words, base, capacity, count, size, bits, row, rows, slots, n)
                    else:
                        n = _check_plain(words, base, capacity, count, size, bits, row, rows, slots, n)
                    cluster = np.int64(view.clusters[cluster, FOLLOWING])
                if not fits:
                    break
            for i in range(equals):
                bits[equal[i]] = 0
                equal_of[predicates.attribute[equal[i]]] = -1
            for i in range(found):
                bits[others[i]] = 0
            if not fits:
                view.state[CHECKS] += checked
                return row, before
        view.state[CHECKS] += checked
        return len(batch.carried), n

    return match


match_plain: Final = _matcher(ahead=False)
match_ahead: Final = _matcher(ahead=True)
