"""The kernel that finds the owners of all cells that a subscription reaches: the twin of `Constraints.subscription`.

Along each axis the cells of a disjunct are runs, of which each ends before the next begins.

Replaces `Constraints.subscription`: 17 us for a condition of three predicates; this takes 1.1 us, reading the condition included
(`pastforward bench routing`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inlined, kernel
from pastforward.columns.vocabulary import INTERSECT, SYMMETRIC
from pastforward.matching.conditions.normal_form import Family
from pastforward.streams.routing.cells import ABSENT, OTHER
from pastforward.streams.routing.conditions import HAS_HIGH, HAS_LOW, HIGH_OPEN, LISTED, LOW_OPEN, Conditions
from pastforward.streams.routing.grid_kernel import Grid, position_of
from pastforward.streams.routing.store_kernel import fill_everywhere, mark, sort_row

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_NULL: Final = int(Family.NULL)
_ANY: Final = int(Family.ANY)


class Owners(NamedTuple):
    """Who owns cell `i`, and the cell at which the owner changes next. `size` is that of each axis."""

    owner: I32
    until: I32
    size: I64


class Runs(NamedTuple):
    """Of axis `a`: `counts[a]`, from `first[a]` on. `at` and `cell` are the run and the cell that a walk is at."""

    first: I64
    counts: I64
    low: I64
    high: I64
    at: I64
    cell: I64


def pack_owners(owner: npt.NDArray[np.int32]) -> Owners:
    flat = owner.reshape(-1)
    ends = np.append(np.flatnonzero(np.diff(flat)) + 1, len(flat)).astype(np.int32)
    return Owners(flat, np.repeat(ends, np.diff(ends, prepend=0)), np.array(owner.shape, np.int64))


@kernel
def store_cells(
    grid: Grid,
    owners: Owners,
    conditions: Conditions,
    stored: Any,
    partitions: int,
    row: int,
    start: I64,
    out: I32,
) -> int:
    """As `store_rows`."""
    semantics, numbers = stored
    axes = len(owners.size)
    seen = np.full(partitions, -1, np.int64)
    room = owners.size.sum()
    runs = Runs(
        np.cumsum(owners.size) - owners.size,
        np.empty(axes, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(axes, np.int64),
        np.empty(axes, np.int64),
    )
    used = start[row]
    while row < len(semantics) and used + partitions <= len(out):
        begin = used
        if semantics[row] == INTERSECT and conditions.first[row] < conditions.first[row + 1]:
            used = fill_everywhere(partitions, out, used)
        else:
            for d in range(conditions.first[row], conditions.first[row + 1]):
                _reach(grid, owners, conditions, d, semantics[row] == SYMMETRIC, runs)
                used = _walk(grid, owners, runs, row, seen, begin, out, used)
        if used == begin:
            out[used] = np.int64(numbers[row] % np.uint64(partitions))
            used += 1
        else:
            sort_row(partitions, begin, out, used)
        row += 1
        start[row] = used
    return row


@inlined
def _reach(grid: Grid, owners: Owners, conditions: Conditions, d: int, symmetric: bool, runs: Runs) -> None:
    """The twin of `Constraints._wanted`."""
    for a in range(len(owners.size)):
        first = runs.first[a]
        runs.counts[a] = 1
        runs.low[first] = ABSENT
        runs.high[first] = ABSENT if symmetric else owners.size[a] - 1
    for c in range(conditions.start[d], conditions.start[d + 1]):
        constraint = conditions.constraints[c]
        a = constraint.name
        if a < 0:
            continue
        # what is absent is a run of its own, and stays one
        runs.counts[a] = 1 if symmetric and constraint.family != _NULL else 0
        _of_constraint(grid, owners.size[a], constraint, conditions.constants, conditions.heap, runs)


@inlined
def _of_constraint(grid: Grid, size: int, constraint: Any, constants: Any, heap: U8, runs: Runs) -> None:
    """The twin of `Axis.of_constraint`."""
    a = constraint.name
    family = np.int64(constraint.family)
    flags = constraint.flags
    if family == _NULL:
        _add(runs, a, ABSENT, ABSENT)
        return
    if family == _ANY:
        _add(runs, a, OTHER, size - 1)
        return
    cells = grid.cell[a, family]
    if cells < 0:
        _add(runs, a, OTHER, OTHER)
        return
    first = grid.first[a, family]
    last = grid.last[a, family]
    k = constraint.begin
    if flags & LISTED:
        before = np.int64(-1)
        for i in range(k, constraint.end):
            position = _position(grid, first, last, constants[i], heap)
            if position != before:
                _add(runs, a, cells + position, cells + position)
            before = position
        return
    low = np.int64(0)
    high = 2 * (last - first)
    if flags & HAS_LOW:
        low = _position(grid, first, last, constants[k], heap)
        k += 1
        if low % 2 == 1 and flags & LOW_OPEN:
            low += 1
    if flags & HAS_HIGH:
        high = _position(grid, first, last, constants[k], heap)
        k += 1
        if high % 2 == 1 and flags & HIGH_OPEN:
            high -= 1
    for i in range(k, constraint.end):
        excluded = _position(grid, first, last, constants[i], heap)
        if excluded % 2 == 1 and low <= excluded <= high:
            _add(runs, a, cells + low, cells + excluded - 1)
            low = excluded + 1
    _add(runs, a, cells + low, cells + high)


@inlined
def _position(grid: Grid, first: int, last: int, constant: Any, heap: U8) -> Any:
    return position_of(grid, first, last, np.int64(constant.tag), constant.bits, np.int64(constant.length), heap)


@inlined
def _add(runs: Runs, a: int, low: int, high: int) -> None:
    if low <= high:
        at = runs.first[a] + runs.counts[a]
        runs.low[at] = low
        runs.high[at] = high
        runs.counts[a] += 1


@inlined
def _walk(grid: Grid, owners: Owners, runs: Runs, row: int, seen: I64, begin: int, out: I32, used: int) -> Any:
    """Marks the owners of all combinations of cells: the last axis run by run, the others cell by cell."""
    last = len(owners.size) - 1
    for a in range(last + 1):
        if runs.counts[a] == 0:
            return used
        runs.at[a] = 0
        runs.cell[a] = runs.low[runs.first[a]]
    while True:
        base = np.int64(0)
        for a in range(last):
            base += runs.cell[a] * grid.stride[a]
        for run in range(runs.first[last], runs.first[last] + runs.counts[last]):
            cell = base + runs.low[run]
            while cell <= base + runs.high[run]:
                if owners.owner[cell] >= 0:
                    used = mark(owners.owner[cell], row, seen, out, used)
                cell = np.int64(owners.until[cell])
        if used - begin == len(seen) or not _step(runs, last):
            return used


@inlined
def _step(runs: Runs, last: int) -> bool:
    """On to the next cells of the axes before the last; False: there are none."""
    for a in range(last - 1, -1, -1):
        at = runs.first[a] + runs.at[a]
        if runs.cell[a] < runs.high[at]:
            runs.cell[a] += 1
            return True
        if runs.at[a] + 1 < runs.counts[a]:
            runs.at[a] += 1
            runs.cell[a] = runs.low[at + 1]
            return True
        runs.at[a] = 0
        runs.cell[a] = runs.low[runs.first[a]]
    return False
