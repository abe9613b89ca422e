"""How an attribute becomes a key, and a key a partition: by its name, by its value, or by the interval of its value.

A rule answers for values and for constraints. What it promises: if something satisfies both a usable constraint and
what a publication says of the attribute, the partitions of the two intersect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Set
from math import ceil
from typing import Any, Final

import numpy as np

from pastforward.columns.hashing import combine, text_hash
from pastforward.matching.conditions.normal_form import Constant, Constraint, Family
from pastforward.matching.conditions.types import classify
from pastforward.streams.routing.catalog import Attribute

# Up to here every integer is a double, so that comparing doubles compares the numbers.
_EXACT: Final = 2**53


class Rule(ABC):
    def __init__(self, attribute: Attribute, partitions: int) -> None:
        self.attribute = attribute
        self.partitions = partitions

    @abstractmethod
    def usable(self, constraint: Constraint) -> bool:
        """Whether a subscription with this constraint may be stored by this attribute. Never for `NULL`."""

    @abstractmethod
    def of_constraint(self, constraint: Constraint) -> Set[int]:
        """The partitions of a usable constraint."""

    @abstractmethod
    def of_value(self, value: object) -> int | None:
        """The partition of a published value; None if no usable constraint holds for it."""

    @abstractmethod
    def of_published(self, constraint: Constraint) -> Set[int]:
        """The partitions of a published constraint, usable or not, other than `NULL`."""


class ByName(Rule):
    """One key for the attribute, whatever is said of it."""

    def __init__(self, attribute: Attribute, partitions: int) -> None:
        super().__init__(attribute, partitions)
        self.partition = text_hash(attribute.name) % partitions

    def usable(self, constraint: Constraint) -> bool:
        return constraint.family is not Family.NULL

    def of_constraint(self, constraint: Constraint) -> Set[int]:
        return {self.partition}

    def of_value(self, value: object) -> int | None:
        return self.partition

    def of_published(self, constraint: Constraint) -> Set[int]:
        return {self.partition}


class ByValue(Rule):
    """A key for each value. Usable are constraints that list their values."""

    def __init__(self, attribute: Attribute, partitions: int) -> None:
        super().__init__(attribute, partitions)
        self.seed = combine(text_hash(attribute.name), attribute.family)

    def usable(self, constraint: Constraint) -> bool:
        return constraint.family is self.attribute.family and constraint.included is not None

    def of_constraint(self, constraint: Constraint) -> Set[int]:
        assert constraint.included is not None
        return {self._partition(constant) for constant in constraint.included}

    def of_value(self, value: object) -> int | None:
        classified = classify(value)
        if classified is None or classified[0] is not self.attribute.family:
            return None
        return self._partition(classified[1])

    def of_published(self, constraint: Constraint) -> Set[int]:
        if self.usable(constraint):
            return self.of_constraint(constraint)
        if constraint.family in (self.attribute.family, Family.ANY):
            return set(range(self.partitions))
        return set()

    def _partition(self, constant: Constant) -> int:
        return value_hash(self.seed, constant) % self.partitions


class ByInterval(Rule):
    """A key for each interval of the domain. Usable are constraints of the attribute's type: each has a lowest and a
    highest interval. `interval` grows with the value, and what lies outside the domain belongs to the nearest end."""

    def __init__(self, attribute: Attribute, partitions: int, lows: list[Any], width: float = 0.0) -> None:
        super().__init__(attribute, partitions)
        self.lows = lows  # bytes for strings, doubles for everything else
        self.width = width if _are_apart(lows, width) else 0.0  # of equal intervals that doubles tell apart
        seed = combine(text_hash(attribute.name), attribute.family)
        self.table = [combine(seed, interval) % partitions for interval in range(len(lows))]

    def usable(self, constraint: Constraint) -> bool:
        return constraint.family is self.attribute.family

    def of_constraint(self, constraint: Constraint) -> Set[int]:
        if constraint.included is not None:
            return {self.table[self.interval(constant)] for constant in constraint.included}
        first = 0 if constraint.low is None else self.interval(constraint.low)
        last = len(self.table) - 1
        if constraint.high is not None:
            last = self.interval(constraint.high)
            if not constraint.high_closed and last > first and self._begins(last, constraint.high):
                last -= 1
        return set(self.table[first : last + 1])

    def of_value(self, value: object) -> int | None:
        classified = classify(value)
        if classified is None or classified[0] is not self.attribute.family:
            return None
        return self.table[self.interval(classified[1])]

    def of_published(self, constraint: Constraint) -> Set[int]:
        if self.usable(constraint):
            return self.of_constraint(constraint)
        return set(self.table) if constraint.family is Family.ANY else set()

    def interval(self, constant: Constant) -> int:
        return max(bisect_right(self.lows, _measured(constant)) - 1, 0)

    def _begins(self, interval: int, constant: Constant) -> bool:
        """Whether everything below the constant is in an earlier interval."""
        if not isinstance(constant, str) and abs(constant) >= _EXACT:  # type: ignore[arg-type]
            return False
        return bool(self.lows[interval] == _measured(constant))


def by_interval(attribute: Attribute, partitions: int) -> ByInterval:
    """The intervals that the catalog gives."""
    if isinstance(attribute.intervals, int):
        low, span = _extent(attribute)
        width = attribute.interval_width
        count = max(ceil(span / width), 1)
        return ByInterval(attribute, partitions, _lows(low, width, count), width)
    assert attribute.intervals is not None
    return ByInterval(attribute, partitions, [_measured(low) for low in attribute.intervals])


def by_precision(attribute: Attribute, partitions: int) -> ByInterval:
    """An interval for each value that the precision tells apart; texts have none, so their intervals are taken."""
    if attribute.precision is None:
        return by_interval(attribute, partitions)
    low, span = _extent(attribute)
    # both ends are values: 0 to 500 by 1 are 501
    width = attribute.precision
    return ByInterval(attribute, partitions, _lows(low, width, int(span / width) + 1), width)


def _extent(attribute: Attribute) -> tuple[float, float]:
    assert attribute.domain is not None
    return _measured(attribute.domain[0]), attribute.span


def _lows(low: float, width: float, count: int) -> list[Any]:
    lows: list[Any] = (low + np.arange(count) * width).tolist()
    return lows


def _are_apart(lows: list[Any], width: float) -> bool:
    """Whether each begins one width after the one before: far from zero doubles are too coarse for narrow intervals."""
    return width > 0 and bool((np.abs(np.diff(lows) - width) < width / 100).all())


def _measured(constant: Any) -> Any:
    return constant.encode() if isinstance(constant, str) else float(constant)


def value_hash(seed: int, constant: Constant) -> int:
    """The hash of a constant of one family. Its twin is in `kernel`."""
    if isinstance(constant, str):
        return combine(seed, text_hash(constant))
    if isinstance(constant, float):
        return combine(~seed & (2**64 - 1), int(np.float64(constant).view(np.int64)))
    if isinstance(constant, tuple):
        for component in constant:
            seed = combine(seed, component)
        return seed
    assert isinstance(constant, int)
    return combine(seed, constant)
