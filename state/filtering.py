"""A filter as columns are tested by it, and blocks pruned. It lets through what it cannot judge."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from pastforward.columns import attributes
from pastforward.columns.hashing import hash_id
from pastforward.state.kernels.records import Array
from pastforward.state.search import BOOLEAN, NUMBER, TEXT, TIMESTAMP, Bound, Filter, Predicate, Range
from pastforward.state.slices import Slice, Values

_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
_TAGS: Final = {
    BOOLEAN: (attributes.BOOLEAN,),
    NUMBER: (attributes.INTEGER, attributes.FLOAT),
    TIMESTAMP: (attributes.TIMESTAMP,),
    TEXT: (attributes.STRING,),
}
_U64: Final = (1 << 64) - 1


class _Test(NamedTuple):
    """A range. `low`, `high`: as integers; `least`, `most`: as doubles, rounded away from what lies between; of a text the first eight
    bytes; `equal`: its hash, if there is but one, else -1."""

    kinds: int
    low: int
    high: int
    least: float
    most: float
    equal: int


def _whole(bound: Bound, none: int, *, up: bool) -> int:
    if bound is None or isinstance(bound, bytes):
        return none
    if isinstance(bound, float) and not math.isfinite(bound):
        return _MOST + 1 if bound > 0 else _LEAST - 1
    return math.ceil(bound) if up else math.floor(bound)


def _double(bound: Bound, none: float) -> float:
    if bound is None or isinstance(bound, bytes):
        return none
    try:
        return float(np.nextafter(float(bound), none))
    except OverflowError:
        return math.copysign(math.inf, bound)


def _leading(text: bytes) -> int:
    return int.from_bytes(text[:8].ljust(8, b"\0"), "big")


def _test(given: Range) -> _Test:
    kinds = sum(1 << tag for tag in _TAGS[given.family])
    if given.family == TEXT:
        low = _leading(given.low) if isinstance(given.low, bytes) else 0
        high = _leading(given.high) if isinstance(given.high, bytes) else _U64
        equal = -1
        if isinstance(given.low, bytes) and given.low == given.high:
            equal = int(hash_id(np.frombuffer(bytearray(given.low), np.uint8), 0, len(given.low)))
        return _Test(kinds, low, high, -math.inf, math.inf, equal)
    least, most = _double(given.low, -math.inf), _double(given.high, math.inf)
    low = max(_LEAST, _whole(given.low, _LEAST, up=True))
    high = min(_MOST, _whole(given.high, _MOST, up=False))
    return _Test(kinds, low, high, least, most, -1)


class Tests:
    """A filter, ready to be used on blocks and on rows."""

    def __init__(self, given: Filter) -> None:
        self._absent = given.absent
        self._disjuncts = [[(p.attribute, [_test(r) for r in p.ranges]) for p in d] for d in given.disjuncts]
        self.everything = any(not disjunct for disjunct in given.disjuncts)

    def blocks(self, held: Slice) -> Array:
        """Which blocks may hold what passes."""
        count = len(held.first)
        passing = np.zeros(count, np.bool_)
        for disjunct in self._disjuncts:
            mine = np.ones(count, np.bool_)
            for name, ranges in disjunct:
                column = held.attributes.get(name)
                if column is not None:
                    mine &= self._zones(column[1], ranges)
                elif held.complete and not self._absent:
                    mine[:] = False
            passing |= mine
        return passing

    def _zones(self, zones: Array, ranges: list[_Test]) -> Array:
        kinds = zones["kinds"]
        found: Array = (kinds & 1 != 0) if self._absent else np.zeros(len(zones), np.bool_)
        if not ranges:
            found = found | (kinds > 1)
        for test in ranges:
            mine = kinds & test.kinds != 0
            if test.kinds == 1 << attributes.STRING:
                mine &= (zones["last"] >= np.uint64(test.low)) & (zones["first"] <= np.uint64(test.high))
                if test.equal >= 0:
                    mine &= zones["hashes"] >> np.uint64(test.equal >> 57 & 63) & np.uint64(1) != 0
            elif test.kinds != 1 << attributes.BOOLEAN:
                mine &= (zones["high"] >= test.least) & (zones["low"] <= test.most)
            found = found | mine
        return found

    def rows(self, columns: Columns, rows: Array) -> Array:
        """Those that pass."""
        if self.everything or not len(rows):
            return rows
        passing = np.zeros(len(rows), np.bool_)
        for disjunct in self._disjuncts:
            mine = np.ones(len(rows), np.bool_)
            for name, ranges in disjunct:
                if not columns.has(name):
                    if columns.complete and not self._absent:
                        mine[:] = False
                    continue
                leading = any(test.kinds == 1 << attributes.STRING and test.equal < 0 for test in ranges)
                mine &= self._passing(columns.values(name, leading=leading), ranges, rows)
                if not mine.any():
                    break
            passing |= mine
        return rows[passing]

    def _passing(self, values: Values, ranges: list[_Test], rows: Array) -> Array:
        kinds, bits = values.kinds[rows], values.bits[rows]
        if not ranges:
            return kinds != 0 if not self._absent else np.ones(len(rows), np.bool_)
        found: Array = (kinds == 0) if self._absent else np.zeros(len(rows), np.bool_)
        for test in ranges:
            if test.kinds == 1 << attributes.STRING:
                if test.equal >= 0:
                    within = bits == test.equal
                else:
                    leading = np.zeros(len(rows), np.uint64) if values.leading is None else values.leading[rows]
                    within = (leading >= np.uint64(test.low)) & (leading <= np.uint64(test.high))
                found = found | (within & (kinds == attributes.STRING))
                continue
            whole = test.kinds & ~(1 << attributes.FLOAT)
            if test.low <= test.high:
                known = kinds == (whole.bit_length() - 1)
                found = found | (known & (bits >= test.low) & (bits <= test.high))
            if test.kinds & 1 << attributes.FLOAT:
                real = bits.view(np.float64)
                with np.errstate(invalid="ignore"):
                    found = found | ((kinds == attributes.FLOAT) & (real >= test.least) & (real <= test.most))
        return found


class Columns:
    """Where the attributes of some publications are found. `complete`: one without a column is in none of them."""

    complete: bool

    def has(self, name: str) -> bool:
        raise NotImplementedError

    def values(self, name: str, *, leading: bool) -> Values:
        raise NotImplementedError


__all__ = ["Columns", "Predicate", "Tests"]
