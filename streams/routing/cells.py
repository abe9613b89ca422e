"""One attribute cut into cells by the constants of some conditions: within a cell, all values satisfy the same of them.

0               the attribute is absent
1               it has a value that none of the constants can be compared with
then, for each family of the constants, c constants make 2c + 1 cells:
2i              strictly between constant i - 1 and constant i
2i + 1          constant i itself
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pastforward.matching.conditions.merge import limited
from pastforward.matching.conditions.normal_form import Constant, Constraint, Family
from pastforward.matching.conditions.printing import value_text
from pastforward.matching.conditions.types import classify, value_of
from pastforward.streams.routing.catalog import FAMILIES, Type
from pastforward.streams.routing.scheme import RoutingError

ABSENT: Final = 0
OTHER: Final = 1
_FIRST: Final = 2


class Axis:
    """Built from all constraints on the attribute. `type` is the declared one, if there is one."""

    def __init__(self, name: str, constraints: Iterable[Constraint], type: Type | None = None) -> None:
        self.name = name
        self.type = type
        found: dict[Family, set[Any]] = {} if type is None else {FAMILIES[type]: set()}
        for constraint in constraints:
            if constraint.patterns or constraint.tests or constraint.family is Family.GEOMETRY:
                raise RoutingError(
                    f"{name} is tested by a pattern or a shape, which cannot divide the partitions; "
                    "use comparisons, IN, BETWEEN, IS NULL and IS NOT NULL"
                )
            if constraint.family not in (Family.NULL, Family.ANY):
                found.setdefault(constraint.family, set()).update(_constants(constraint))
        if Family.BOOLEAN in found:
            found[Family.BOOLEAN] = {False, True}
        self.constants: dict[Family, list[Any]] = {family: sorted(found[family]) for family in sorted(found)}
        self.first: dict[Family, int] = {}
        size = _FIRST
        for family, constants in self.constants.items():
            self.first[family] = size
            size += 2 * len(constants) + 1
        self.size = size

    def of_value(self, value: object) -> int:
        classified = classify(value)
        if classified is None or classified[0] not in self.first:
            return OTHER
        family, constant = classified
        return self.first[family] + self._position(family, constant)

    def of_constraint(self, constraint: Constraint) -> Sequence[int]:
        """The cells with a value that may satisfy it, whatever its patterns and shapes say; sorted."""
        if constraint.family is Family.NULL:
            return [ABSENT]
        if constraint.family is Family.ANY:
            return range(OTHER, self.size)
        family = constraint.family
        if family not in self.first:
            return [OTHER]
        first = self.first[family]
        if constraint.included is not None:
            return sorted({first + self._position(family, constant) for constant in constraint.included})
        low, high = 0, 2 * len(self.constants[family])
        if constraint.low is not None:
            low = self._position(family, constraint.low)
            low += low % 2 == 1 and not constraint.low_closed
        if constraint.high is not None:
            high = self._position(family, constraint.high)
            high -= high % 2 == 1 and not constraint.high_closed
        excluded = {self._position(family, constant) for constant in constraint.excluded}
        return [first + cell for cell in range(low, high + 1) if cell % 2 == 0 or cell not in excluded]

    def declared(self) -> list[int]:
        """The cells that hold values of the declared type, or of all types that are mentioned if none is declared."""
        families = self.constants if self.type is None else [FAMILIES[self.type]]
        return [
            self.first[family] + cell
            for family in families
            for cell in range(2 * len(self.constants[family]) + 1)
            if not self._is_empty(family, cell)
        ]

    def describe(self, cell: int) -> str:
        if cell == ABSENT:
            return f"{self.name} IS NULL"
        for family, constants in self.constants.items():
            position = cell - self.first[family]
            if 0 <= position <= 2 * len(constants):
                index, at = divmod(position, 2)
                if at:
                    return f"{self.name} = {_text(family, constants[index])}"
                bounds = []
                if index:
                    bounds.append(f"{self.name} > {_text(family, constants[index - 1])}")
                if index < len(constants):
                    bounds.append(f"{self.name} < {_text(family, constants[index])}")
                return " AND ".join(bounds) or f"{self.name} IS NOT NULL"
        return f"{self.name} of another type"

    def _position(self, family: Family, constant: Any) -> int:
        constants = self.constants[family]
        index = bisect_left(constants, constant)
        return 2 * index + (index < len(constants) and constants[index] == constant)

    def _is_empty(self, family: Family, cell: int) -> bool:
        """Nothing lies beside false and true, between two neighbouring integers, or between `a` and `a\\0`."""
        index, at = divmod(cell, 2)
        if at:
            return False
        if family is Family.BOOLEAN:
            return True
        constants = self.constants[family]
        low = constants[index - 1] if index else None
        high = constants[index] if index < len(constants) else None
        if limited(family, low, low is None, high, high is None) is None:
            return True
        return self.type == "integer" and low is not None and high is not None and high - low <= 1


def _constants(constraint: Constraint) -> list[Constant]:
    constants = [*(constraint.included or ()), *constraint.excluded]
    return constants + [bound for bound in (constraint.low, constraint.high) if bound is not None]


def _text(family: Family, constant: Constant) -> str:
    return value_text(value_of(family, constant))
