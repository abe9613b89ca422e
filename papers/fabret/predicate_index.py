"""Every distinct predicate once, by number, and how to find those that a publication satisfies.

A number is the predicate's entry in the bit vector that a match fills. Equalities are found through one hash table, inequalities
through the ordered index; a range is two inequalities. What records say beyond that (`matching.index.records.constraints`) is left to
verification: a record's predicates hold for everything that satisfies it, and may hold for more.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inlined, inner, kernel
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.keys import equality_hash, first_key, last_key
from pastforward.matching.index.records import BOUNDED, EQUAL, OPEN
from pastforward.papers.fabret.ordered_index import (
    OrderedView,
    empty_order,
    from_on,
    larger_order,
    ordered_insert,
    ordered_remove,
    ordered_room,
    up_to,
)

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

_T = TypeVar("_T", bound=np.generic)

# operators
IS: Final = 0
AT_LEAST: Final = 1
AT_MOST: Final = 2
PRESENT: Final = 3

# columns by attribute
_PRESENT_NUMBER: Final = 0  # of its PRESENT predicate, plus 1
EQUALITIES: Final = 1  # distinct ones
_LOWERS: Final = 2
_UPPERS: Final = 3
SEEN: Final = 4  # publications that carried it

# state
_EVER: Final = 0
_FREE: Final = 1
_CELLS: Final = 2
EVENTS: Final = 3  # publications in the statistics

# How many publications the first guess of a selectivity is worth: with so many seen, both count the same.
PRIOR: Final = 64.0


class PredicateView(NamedTuple):
    attribute: I32
    operator: U8
    key: U64  # the hash of the value of IS; an order key
    holders: I32
    access: I32  # the access predicate that is this equality alone; -1 if there is none
    hits: I32  # publications that satisfied it, since `born`
    born: I32
    free: I32
    table: I32  # number + 1, 0 for never used, -1 for released
    by_attribute: I32  # attribute, column
    expected: F64  # by attribute: selectivity of an equality, if it was given, else 0
    state: I64


@inlined
def _cell(attribute: Int, operator: Int, key: Int, mask: Int) -> Int:
    salt = np.uint64(attribute * 4 + operator) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mix(key + salt) & np.uint64(mask))


@kernel
def find_predicate(view: PredicateView, attribute: Int, operator: Int, key: Int) -> Int:
    mask = len(view.table) - 1
    at = _cell(attribute, operator, key, mask)
    while True:
        entry = view.table[at]
        if entry == 0:
            return -1
        if entry > 0:
            number = np.int64(entry) - 1
            if view.key[number] == key and view.attribute[number] == attribute and view.operator[number] == operator:
                return number
        at = (at + 1) & mask


@inner
def predicate_room(view: PredicateView, order: OrderedView, more: Int) -> Bool:
    state = view.state
    return (
        state[_EVER] - state[_FREE] + more <= len(view.attribute)
        and 2 * (state[_CELLS] + more) <= len(view.table)
        and ordered_room(order, more)
    )


@kernel
def hold(view: PredicateView, order: OrderedView, attribute: Int, operator: Int, key: Int) -> Int:
    """The number of a predicate, held once more. Room was made before."""
    number = find_predicate(view, attribute, operator, key)
    if number >= 0:
        view.holders[number] += 1
        return number
    state = view.state
    if state[_FREE] > 0:
        state[_FREE] -= 1
        number = np.int64(view.free[state[_FREE]])
    else:
        number = state[_EVER]
        state[_EVER] += 1
    view.attribute[number] = attribute
    view.operator[number] = operator
    view.key[number] = key
    view.holders[number] = 1
    view.access[number] = -1
    view.hits[number] = 0
    view.born[number] = np.int32(state[EVENTS])
    mask = len(view.table) - 1
    at = _cell(attribute, operator, key, mask)
    while view.table[at] > 0:
        at = (at + 1) & mask
    if view.table[at] == 0:
        state[_CELLS] += 1
    view.table[at] = number + 1
    if operator == IS:
        view.by_attribute[attribute, EQUALITIES] += 1
    elif operator == PRESENT:
        view.by_attribute[attribute, _PRESENT_NUMBER] = number + 1
    elif operator == AT_LEAST:
        view.by_attribute[attribute, _LOWERS] += 1
        ordered_insert(order, 2 * attribute, key, number)
    else:
        view.by_attribute[attribute, _UPPERS] += 1
        ordered_insert(order, 2 * attribute + 1, key, number)
    return number


@kernel
def release(view: PredicateView, order: OrderedView, number: Int) -> None:
    view.holders[number] -= 1
    if view.holders[number] > 0:
        return
    attribute = np.int64(view.attribute[number])
    operator = np.int64(view.operator[number])
    key = view.key[number]
    mask = len(view.table) - 1
    at = _cell(attribute, operator, key, mask)
    while view.table[at] != number + 1:
        at = (at + 1) & mask
    view.table[at] = -1
    if operator == IS:
        view.by_attribute[attribute, EQUALITIES] -= 1
    elif operator == PRESENT:
        view.by_attribute[attribute, _PRESENT_NUMBER] = 0
    elif operator == AT_LEAST:
        view.by_attribute[attribute, _LOWERS] -= 1
        ordered_remove(order, 2 * attribute, key)
    else:
        view.by_attribute[attribute, _UPPERS] -= 1
        ordered_remove(order, 2 * attribute + 1, key)
    view.free[view.state[_FREE]] = number
    view.state[_FREE] += 1


@inner
def hold_all(
    view: PredicateView,
    order: OrderedView,
    count: Int,
    attribute: I32,
    kind: U8,
    low: U64,
    high: U64,
    value: U64,
    out: I32,
) -> tuple[Int, Int]:
    """Holds the predicates of a record's constraints, equalities first. Returns how many there are, and how many equalities."""
    n = 0
    for i in range(count):
        if kind[i] == EQUAL:
            out[n] = hold(view, order, attribute[i], IS, value[i])
            n += 1
    equalities = n
    for i in range(count):
        if kind[i] == EQUAL or kind[i] == OPEN:
            continue
        before = n
        if kind[i] == BOUNDED:
            # a bound at the end of its family says nothing but the type
            if low[i] != first_key(np.int64(low[i] >> np.uint64(61))):
                out[n] = hold(view, order, attribute[i], AT_LEAST, low[i])
                n += 1
            if high[i] != last_key(np.int64(high[i] >> np.uint64(61))):
                out[n] = hold(view, order, attribute[i], AT_MOST, high[i])
                n += 1
        if n == before:
            out[n] = hold(view, order, attribute[i], PRESENT, np.uint64(0))
            n += 1
    return n, equalities


@inner
def satisfied(
    view: PredicateView, order: OrderedView, batch: Batch, row: Int, equal: I32, others: I32
) -> tuple[Int, Int]:
    """The predicates that a publication satisfies: equalities, at most one an attribute, and others. Returns the two counts."""
    equals = 0
    n = 0
    attributes = view.by_attribute.shape[0]
    for e in range(batch.start[row], batch.start[row + 1]):
        attribute = np.int64(batch.attribute[e])
        if attribute >= attributes:
            continue
        if view.by_attribute[attribute, EQUALITIES]:
            number = find_predicate(view, attribute, IS, equality_hash(np.int64(batch.tag[e]), batch.bits[e]))
            if number >= 0:
                equal[equals] = number
                equals += 1
        if view.by_attribute[attribute, _LOWERS]:
            n = up_to(order, 2 * attribute, batch.low[e], others, n)
        if view.by_attribute[attribute, _UPPERS]:
            n = from_on(order, 2 * attribute + 1, batch.high[e], others, n)
        if view.by_attribute[attribute, _PRESENT_NUMBER]:
            others[n] = view.by_attribute[attribute, _PRESENT_NUMBER] - 1
            n += 1
    return equals, n


@kernel
def observe(view: PredicateView, batch: Batch, row: Int, equal: I32, equals: Int) -> None:
    """Takes a publication into the statistics. Readers may do so at a time: an update that is lost does no harm."""
    for i in range(equals):
        view.hits[equal[i]] += 1
    attributes = view.by_attribute.shape[0]
    for e in range(batch.start[row], batch.start[row + 1]):
        if batch.attribute[e] < attributes:
            view.by_attribute[batch.attribute[e], SEEN] += 1
    view.state[EVENTS] += 1


@kernel
def selectivity(view: PredicateView, number: Int) -> Float:
    """The probability that a publication satisfies an equality: at first one of the attribute's distinct values, then what was seen."""
    attribute = view.attribute[number]
    guess = view.expected[attribute]
    if guess == 0.0:
        guess = 1.0 / max(1, view.by_attribute[attribute, EQUALITIES])
    seen = max(0, view.state[EVENTS] - view.born[number])
    return (view.hits[number] + PRIOR * guess) / (seen + PRIOR)


@kernel
def _halve(view: PredicateView) -> None:
    view.state[EVENTS] >>= 1
    for i in range(view.state[_EVER]):
        view.hits[i] >>= 1
        view.born[i] >>= 1
    for i in range(view.by_attribute.shape[0]):
        view.by_attribute[i, SEEN] >>= 1


@kernel
def _rebuild(view: PredicateView) -> Int:
    mask = len(view.table) - 1
    used = 0
    for number in range(view.state[_EVER]):
        if view.holders[number] == 0:
            continue
        at = _cell(view.attribute[number], view.operator[number], view.key[number], mask)
        while view.table[at] != 0:
            at = (at + 1) & mask
        view.table[at] = number + 1
        used += 1
    return used


class PredicateIndex:
    """One writer; `view` and `order` are what kernels read."""

    def __init__(self) -> None:
        self.view = PredicateView(
            np.zeros(64, np.int32),
            np.zeros(64, np.uint8),
            np.zeros(64, np.uint64),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(256, np.int32),
            np.zeros((16, 5), np.int32),
            np.zeros(16, np.float64),
            np.zeros(4, np.int64),
        )
        self.order = empty_order()
        self._absent: dict[int, float] = {}

    def __len__(self) -> int:
        return int(self.view.state[_EVER] - self.view.state[_FREE])

    @property
    def limit(self) -> int:
        """All numbers are below this."""
        return int(self.view.state[_EVER])

    @property
    def events(self) -> int:
        return int(self.view.state[EVENTS])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.view) + sum(array.nbytes for array in self.order)

    def reserve(self, attributes: int, more: int) -> bool:
        """Room for attributes in all, and for so many more predicates. Returns whether something had to grow."""
        before = self.view, self.order
        view = self.view
        if attributes > len(view.by_attribute):
            room = 2 * attributes
            view = view._replace(
                by_attribute=longer(view.by_attribute, room),
                expected=longer(view.expected, room),
            )
        if len(self) + more > len(view.attribute):
            room = max(len(self) + more, len(view.attribute) + len(view.attribute) // 2)
            view = view._replace(
                attribute=longer(view.attribute, room),
                operator=longer(view.operator, room),
                key=longer(view.key, room),
                holders=longer(view.holders, room),
                access=longer(view.access, room),
                hits=longer(view.hits, room),
                born=longer(view.born, room),
                free=longer(view.free, room),
            )
        if 2 * (int(view.state[_CELLS]) + more) > len(view.table):
            cells = 256
            while cells < 3 * (len(self) + more):
                cells *= 2
            view = view._replace(table=np.zeros(cells, np.int32))
            view.state[_CELLS] = _rebuild(view)
        if not ordered_room(self.order, more):
            self.order = larger_order(self.order, more)
        self.view = view
        return before[0] is not view or before[1] is not self.order

    def expect(self, attribute: int, present: float, selectivity: float) -> None:
        """What is known beforehand: the share of publications that carry an attribute, and that satisfy an equality on it."""
        self.reserve(attribute + 1, 0)
        self.view.expected[attribute] = selectivity
        self._absent[attribute] = 1.0 - present

    def presences(self) -> F64:
        """By attribute, the probability that a publication carries it; certain as long as nothing was given or seen."""
        seen = self.view.by_attribute[:, SEEN]
        given = np.ones(len(seen))
        for attribute, absent in self._absent.items():
            given[attribute] -= absent
        share: F64 = (seen + PRIOR * given) / (self.events + PRIOR)
        return share

    def forget_half(self) -> None:
        """Lets what was seen long ago count for less."""
        _halve(self.view)


def longer(array: npt.NDArray[_T], room: int) -> npt.NDArray[_T]:
    out: npt.NDArray[_T] = np.zeros((room, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
