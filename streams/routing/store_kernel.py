"""The kernel that stores a chunk of subscriptions by rules in columns: the twin of `ContentScheme.subscription`.

Replaces `ContentScheme.subscription`: 3 to 6 us for a condition of three predicates; this takes 0.5 to 1.3 us, reading it
included (`pastforward bench routing`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import FLOAT, STRING
from pastforward.columns.hashing import k_combine
from pastforward.columns.kernel import inlined, kernel
from pastforward.columns.vocabulary import INTERSECT, SYMMETRIC
from pastforward.matching.conditions.normal_form import Family
from pastforward.streams.routing.conditions import HAS_HIGH, HAS_LOW, HIGH_OPEN, LISTED, OF_PREVIOUS, Conditions
from pastforward.streams.routing.kernel import (
    INTERVAL,
    NAME,
    VALUE,
    RuleColumns,
    at_most,
    interval_of_number,
    interval_of_text,
    value_hash,
)

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_ABSENT: Final = int(Family.NULL)
# Up to here every integer is a double: see `rules`.
_EXACT: Final = 2.0**53


@inlined
def mark(partition: int, row: int, seen: I64, out: I32, used: int) -> Any:
    """`seen[p]` is the last row that went to `p`, so that nothing is cleared."""
    if seen[partition] == row:
        return used
    seen[partition] = row
    out[used] = partition
    return used + 1


@inlined
def fill_everywhere(partitions: int, out: I32, used: int) -> Any:
    for partition in range(partitions):
        out[used + partition] = partition
    return used + partitions


@inlined
def sort_row(partitions: int, begin: int, out: I32, used: int) -> None:
    if used - begin == partitions:
        fill_everywhere(partitions, out, begin)
    elif used > begin + 1:
        out[begin:used].sort()


@kernel
def store_rows(
    rules: RuleColumns,
    conditions: Conditions,
    stored: Any,
    partitions: int,
    silence: int,
    row: int,
    start: I64,
    out: I32,
) -> int:
    """From `row` on, as long as there is room for a row that goes everywhere; returns the row that it ended before.
    `stored`: of each the semantics and the hash of the id."""
    semantics, numbers = stored
    seen = np.full(partitions, -1, np.int64)
    usable = np.empty(len(rules.kind), np.int64)
    constraints = conditions.constraints
    used = start[row]
    while row < len(semantics) and used + partitions <= len(out):
        begin = used
        everywhere = semantics[row] == INTERSECT
        first = conditions.first[row]
        last = conditions.first[row + 1]
        if first == last:
            everywhere = False
            out[used] = np.int64(numbers[row] % np.uint64(partitions))
            used += 1
        elif semantics[row] == SYMMETRIC:
            used = mark(silence, row, seen, out, used)
        for d in range(first, last):
            if everywhere:
                break
            if semantics[row] == SYMMETRIC:
                for c in range(conditions.start[d], conditions.start[d + 1]):
                    constraint = constraints[c]
                    if constraint.name == OF_PREVIOUS or constraint.family == _ABSENT:
                        continue
                    if not _usable(rules.kind, rules.family, constraint):
                        everywhere = True
                        break
                    used = _keys(rules, conditions, constraint, row, seen, begin, out, used)
            else:
                count = _all_usable(
                    rules.kind, rules.family, constraints, conditions.start[d], conditions.start[d + 1], usable
                )
                if count:
                    chosen = usable[k_combine(numbers[row], np.uint64(d - first)) % np.uint64(count)]
                    used = _keys(rules, conditions, constraints[chosen], row, seen, begin, out, used)
                else:
                    everywhere = True
        if everywhere:
            used = fill_everywhere(partitions, out, begin)
        else:
            sort_row(partitions, begin, out, used)
        row += 1
        start[row] = used
    return row


@inlined
def _all_usable(kind: U8, family: U8, constraints: Any, begin: int, end: int, usable: I64) -> Any:
    """Constraints of a disjunct, in the order of their rules. Returns how many."""
    count = 0
    for c in range(begin, end):
        if not _usable(kind, family, constraints[c]):
            continue
        at = count
        while at > 0 and constraints[usable[at - 1]].name > constraints[c].name:
            usable[at] = usable[at - 1]
            at -= 1
        usable[at] = c
        count += 1
    return count


@inlined
def _usable(kind: U8, family: U8, constraint: Any) -> bool:
    r = constraint.name
    if r < 0:
        return False
    if kind[r] == NAME:
        return bool(constraint.family != _ABSENT)
    if constraint.family != family[r]:
        return False
    return bool(kind[r] == INTERVAL or constraint.flags & LISTED)


@inlined
def _keys(
    rules: RuleColumns, conditions: Conditions, constraint: Any, row: int, seen: I64, begin: int, out: I32, used: int
) -> Any:
    """The twin of `Rule.of_constraint`."""
    r = constraint.name
    if rules.kind[r] == NAME:
        return mark(rules.partition[r], row, seen, out, used)
    constants = conditions.constants
    if rules.kind[r] == VALUE:
        for k in range(constraint.begin, constraint.end):
            constant = constants[k]
            key = value_hash(
                rules.seed[r], np.int64(constant.tag), constant.bits, np.int64(constant.length), conditions.heap
            )
            used = mark(np.int64(key % np.uint64(len(seen))), row, seen, out, used)
        return used
    if constraint.flags & LISTED:
        for k in range(constraint.begin, constraint.end):
            used = mark(rules.table[_interval(rules, r, constants[k], conditions.heap)], row, seen, out, used)
        return used
    first = rules.first[r]
    last = rules.first[r + 1] - 1
    k = constraint.begin
    if constraint.flags & HAS_LOW:
        first = _interval(rules, r, constants[k], conditions.heap)
        k += 1
    if constraint.flags & HAS_HIGH:
        last = _interval(rules, r, constants[k], conditions.heap)
        if constraint.flags & HIGH_OPEN and last > first and _begins(rules, last, constants[k], conditions.heap):
            last -= 1
    for place in range(first, last + 1):
        if used - begin == len(seen):
            break
        used = mark(rules.table[place], row, seen, out, used)
    return used


@inlined
def _measured(constant: Any) -> Any:
    return np.int64(constant.bits).view(np.float64) if constant.tag == FLOAT else np.float64(constant.bits)


@inlined
def _interval(rules: RuleColumns, r: int, constant: Any, heap: U8) -> Any:
    """Of a constant, as a position in the table."""
    if constant.tag == STRING:
        return interval_of_text(
            rules.heap,
            rules.text_offset,
            rules.text_length,
            rules.first[r],
            rules.first[r + 1],
            heap,
            constant.bits,
            np.int64(constant.length),
        )
    return interval_of_number(rules.low, rules.first[r], rules.first[r + 1], _measured(constant), rules.width[r])


@inlined
def _begins(rules: RuleColumns, place: int, constant: Any, heap: U8) -> Any:
    """Whether everything below the constant is in an earlier interval: see `ByInterval`. It is in this one, or above."""
    if constant.tag == STRING:
        return at_most(
            heap,
            constant.bits,
            np.int64(constant.length),
            rules.heap,
            rules.text_offset[place],
            np.int64(rules.text_length[place]),
        )
    value = _measured(constant)
    return abs(value) < _EXACT and rules.low[place] == value
