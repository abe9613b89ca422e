"""What a subscription bids for a publication: the best value of an attribute that the two can agree on.

A pair of disjuncts that fits (see `oracle`) leaves a range of values for the attribute: what both sides admit. Its upper end, or its
lower end, is the bid; of several pairs the best counts. A range without an end on that side is no bid. An end that is not
itself in the range counts as its limit, and yields to the same end reached: who pays less than 10 bids 10, and gives way to who
pays 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pastforward.columns.vocabulary import Semantics
from pastforward.matching.conditions.merge import admits, meet
from pastforward.matching.conditions.normal_form import ANY, Constraint, Disjunct, Family, NormalForm
from pastforward.matching.conditions.oracle import Publication, Said, disjuncts_fit, offers
from pastforward.matching.conditions.types import classify, value_of
from pastforward.matching.conditions.values import Value

_ORDERED: Final = (Family.BOOLEAN, Family.NUMBER, Family.STRING, Family.TIMESTAMP)


class Bid(NamedTuple):
    """Compares as a tuple. Bids of two families, which only a publication that leaves the attribute open can get, by family.

    `beside`: 0 if the constant is reached; -1 if the bid stays below it, 1 if it stays above.
    """

    family: Family
    constant: Any
    beside: int = 0

    @property
    def value(self) -> Value:
        return value_of(self.family, self.constant)


def bid(
    disjuncts: NormalForm, semantics: Semantics, publication: Publication, attribute: str, *, highest: bool
) -> Bid | None:
    """None: the conditions do not match, or nothing bounds the attribute. Topic and time are not asked."""
    return best_of(
        (
            reached
            for offered in offers(publication)
            for wanted in disjuncts
            if disjuncts_fit(semantics, wanted, offered, publication.previous)
            and (reached := _reach(wanted, offered, attribute, highest)) is not None
        ),
        highest=highest,
    )


def best_of(bids: Iterable[Bid], *, highest: bool) -> Bid | None:
    return (max if highest else min)(bids, default=None)


def _reach(wanted: Disjunct, offered: Mapping[str, Said], attribute: str, highest: bool) -> Bid | None:
    met: Constraint | None = _constraint(offered.get(attribute, ANY))
    for name, constraint in wanted:
        if name == attribute and met is not None:
            met = meet(met, constraint)
    if met is None or met.family not in _ORDERED:
        return None
    if met.included is not None:
        members: Any = met.included
        return Bid(met.family, (max if highest else min)(members))
    end: Any = met.high if highest else met.low
    if end is None:
        return None
    if highest and met.family is Family.STRING and end.endswith("\0"):
        end = end[:-1]  # up to `b` itself is below `b` and a zero character: see `normal_form`
    if admits(met, end):
        return Bid(met.family, end)
    return Bid(met.family, end, -1 if highest else 1)


def _constraint(said: Said) -> Constraint | None:
    if isinstance(said, Constraint):
        return said
    classified = classify(said)
    return None if classified is None else Constraint(classified[0], included=(classified[1],))
