"""What is known of publications beforehand: given by whoever creates the index, until enough of them have been seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pastforward.papers.fabret.predicate_index import PredicateIndex


class Statistics(Protocol):
    """Of one attribute: how many publications carry it, as a share, and how many distinct values they give it."""

    @property
    def present(self) -> float: ...

    @property
    def distinct(self) -> int: ...


@dataclass(frozen=True, slots=True)
class AttributeStatistics:
    """`Statistics` that somebody writes down."""

    present: float = 1.0
    distinct: int = 1

    def __post_init__(self) -> None:
        if not 0.0 < self.present <= 1.0:
            raise ValueError(f"`present` is a share above 0 and up to 1, not {self.present}")
        if self.distinct < 1:
            raise ValueError(f"`distinct` counts values, at least 1, not {self.distinct}")


class GivenStatistics:
    """Hands over what was given on an attribute as soon as a subscription names it."""

    def __init__(self, given: Mapping[str, Statistics] | None) -> None:
        self._given = dict(given or {})
        self._names = 0

    def tell(self, names: list[str], predicates: PredicateIndex) -> None:
        """`names`: all attributes, in the order of their numbers."""
        for number in range(self._names, len(names)):
            known = self._given.get(names[number])
            if known is not None:
                predicates.expect(number, known.present, known.present / known.distinct)
        self._names = len(names)
