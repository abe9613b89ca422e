"""What a subscription asks of the past, as the store tests columns by it and leaves out blocks: see `state.search.Filter`.

A filter lets through whatever the condition does, and more: what is found is verified. Nothing is said of `previous.…`, which is no column,
nor of what semantics other than classical accept, where an attribute that is not there may satisfy anything. A publication that
states a condition beside its constants may satisfy a predicate on any attribute: the store is told which those are (`SAYS_MORE`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns import attributes as tags
from pastforward.columns.attributes import Attributes
from pastforward.columns.vocabulary import CLASSICAL, PUBLISHED
from pastforward.matching.conditions.normal_form import PREVIOUS, Constraint, Disjunct, Family, NormalForm
from pastforward.schemas import RendezvousColumns
from pastforward.state.search import BOOLEAN, EVERYTHING, NUMBER, TEXT, TIMESTAMP, Bound, Filter, Predicate, Range

SAYS_MORE: Final = "\0where"
"""An attribute of publications that state a condition. None of theirs has a zero byte in its name."""

# A range is one look at a column: 10 us for a block of 4,096. Reading and verifying a block takes some thousand times as long.
DISJUNCTS: Final = 16
MEMBERS: Final = 64

_FAMILIES: Final = {
    Family.BOOLEAN: BOOLEAN,
    Family.NUMBER: NUMBER,
    Family.STRING: TEXT,
    Family.TIMESTAMP: TIMESTAMP,
}
_PRESENT: Final[tuple[Range, ...]] = ()
_STATED: Final = (Predicate(SAYS_MORE, _PRESENT),)


def filter_of(form: NormalForm) -> Filter:
    """Of a subscription of classical semantics."""
    if len(form) > DISJUNCTS:
        return EVERYTHING
    disjuncts = tuple(tuple(_predicates(disjunct)) for disjunct in form)
    return Filter((*disjuncts, _STATED)) if all(disjuncts) else EVERYTHING


def filters_of(columns: RendezvousColumns, rows: Sequence[int], log_time: npt.NDArray[np.int64]) -> list[Filter]:
    """Of subscriptions of a chunk. One that begins now or later has next to nothing behind it: its condition is not read."""
    at = np.array(rows, np.int64)
    asks = columns.semantics[at] == CLASSICAL
    asks &= (columns.time[at] != PUBLISHED) | (columns.begins_at[at] < log_time[at])
    found = []
    for row, mine in zip(rows, asks.tolist(), strict=True):
        form = columns.where[row] if mine else None
        found.append(EVERYTHING if form is None else filter_of(form))
    return found


def marked(given: Attributes, stated: npt.NDArray[np.bool_]) -> Attributes:
    """The attributes of publications, with `SAYS_MORE` where one states a condition."""
    if not stated.any():
        return given
    # the first of all names, since a slice has columns for so many only
    at = given.start[:-1][stated]

    def put(column: npt.NDArray[Any], value: int) -> npt.NDArray[Any]:
        return np.insert(column, at, value)

    return Attributes(
        [SAYS_MORE, *given.names],
        given.start + np.append(0, np.cumsum(stated)),
        put(given.name + 1, 0).astype(given.name.dtype),
        put(given.tag, tags.BOOLEAN),
        put(given.bits, 1),
        put(given.length, 0),
        given.heap,
    )


def _predicates(disjunct: Disjunct) -> Iterator[Predicate]:
    for name, constraint in disjunct:
        if constraint.family is not Family.NULL and not name.startswith(PREVIOUS):
            yield Predicate(name, _ranges(constraint))


def _ranges(constraint: Constraint) -> tuple[Range, ...]:
    """Patterns, exclusions and open ends are left to who verifies; of paths, points and shapes there are no columns that compare."""
    family = _FAMILIES.get(constraint.family)
    if family is None:
        return _PRESENT
    included = constraint.included
    if included is None:
        low, high = _bound(constraint.low), _bound(constraint.high)
        # of texts in general the beginnings need not be read
        return _PRESENT if family == TEXT and low is None and high is None else (Range(family, low, high),)
    if len(included) > MEMBERS:  # sorted
        return (Range(family, _bound(included[0]), _bound(included[-1])),)
    return tuple(Range(family, _bound(one), _bound(one)) for one in included)


def _bound(constant: Any) -> Bound:
    """Bytes of UTF-8 have the order of code points."""
    found: Bound = constant.encode() if isinstance(constant, str) else constant
    return found


__all__ = ["SAYS_MORE", "filter_of", "filters_of", "marked"]
