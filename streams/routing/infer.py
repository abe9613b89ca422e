"""A catalog from samples: which attributes subscriptions ask for, of which type, over which domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from pastforward.matching.conditions.normal_form import PREVIOUS, Constant, Constraint, Family
from pastforward.matching.conditions.printing import value_text
from pastforward.matching.conditions.types import classify, value_of
from pastforward.streams.routing.catalog import DEFAULT_INTERVALS, Attribute, Catalog, Type
from pastforward.streams.routing.records import RoutedPublication, RoutedSubscription

_TYPES: Final[dict[Family, Type]] = {
    Family.BOOLEAN: "boolean",
    Family.STRING: "string",
    Family.TIMESTAMP: "timestamp",
    Family.PATH: "path",
}


@dataclass(slots=True)
class _Seen:
    """What the samples say of one attribute."""

    constraints: list[Constraint] = field(default_factory=list)
    values: list[tuple[Family, Constant]] = field(default_factory=list)

    def family(self) -> Family | None:
        """The one that most constraints speak of."""
        counts = Counter(c.family for c in self.constraints if c.family not in (Family.NULL, Family.ANY))
        return counts.most_common(1)[0][0] if counts else None

    def asked(self) -> set[Family]:
        return {c.family for c in self.constraints} - {Family.NULL, Family.ANY}

    def constants(self, family: Family) -> list[Any]:
        """Of the values, and of the constraints' ends, sorted."""
        found: list[Any] = [constant for of, constant in self.values if of is family]
        for constraint in self.constraints:
            if constraint.family is family:
                found += constraint.included or ()
                found += [end for end in (constraint.low, constraint.high) if end is not None]
        return sorted(constant for constant in found if constant not in (float("inf"), float("-inf")))


def infer_catalog(subscriptions: Iterable[RoutedSubscription], publications: Iterable[RoutedPublication]) -> Catalog:
    """The attributes that subscriptions constrain, the most frequent first.

    As Lo and Chiu define it, an attribute that subscriptions only list values of is an equality attribute.
    """
    seen: dict[str, _Seen] = {}
    for subscription in subscriptions:
        for disjunct in subscription.condition:
            for name, constraint in disjunct:
                if not name.startswith(PREVIOUS):
                    seen.setdefault(name, _Seen()).constraints.append(constraint)
    for publication in publications:
        for name, value in publication.attributes.items():
            classified = classify(value)
            if name in seen and classified is not None:
                seen[name].values.append(classified)
    order = sorted(seen, key=lambda name: (-len(seen[name].constraints), name))
    attributes = [_attribute(name, seen[name]) for name in order]
    return Catalog(tuple(attribute for attribute in attributes if attribute is not None))


def _attribute(name: str, seen: _Seen) -> Attribute | None:
    family = seen.family()
    if family is None or family is Family.GEOMETRY:
        return None
    if any(of is not family for of, _ in seen.values) or len(seen.asked()) > 1:
        return None  # a type that a catalog declares is enforced: what is there would be refused
    constants = seen.constants(family)
    if family is Family.NUMBER:
        type_: Type = "integer" if all(isinstance(constant, int) for constant in constants) else "float"
    else:
        type_ = _TYPES[family]
    listed = all(c.included is not None for c in seen.constraints if c.family is family)
    distinct = sorted(set(constants))
    if listed or family in (Family.BOOLEAN, Family.PATH) or len(distinct) < 2:
        return Attribute(name, type_, "equality")
    if family is Family.STRING:
        # texts have no measure: as many of them in each interval
        lows = cut(constants, DEFAULT_INTERVALS)
        return Attribute(name, type_, "range", (lows[0], distinct[-1] + "\0"), tuple(lows))
    entry = {"name": name, "type": type_, "kind": "range"}
    written = [value_of(family, end) for end in (distinct[0], distinct[-1])]
    return Catalog.from_json({"attribute": [entry | {"domain": written}]}).attributes[0]


def cut(ordered: Sequence[Any], parts: int) -> list[Any]:
    """The least values of at most so many parts, each with about as many of the sorted values."""
    return sorted({ordered[len(ordered) * part // parts] for part in range(parts)})


def infer_division(
    subscriptions: Sequence[RoutedSubscription], publications: Sequence[RoutedPublication], partitions: int
) -> tuple[str, ...] | None:
    """Conditions for the partitions of `constraints`: one attribute, cut so that publications are spread evenly.

    Of the attributes that nearly all publications carry, the one that most subscriptions constrain: whatever lacks the
    attribute goes everywhere. None if no attribute has values enough.
    """
    asked = Counter(name for s in subscriptions for disjunct in s.condition for name, _ in disjunct)
    for name, _ in asked.most_common():
        classified = [classify(p.attributes[name]) for p in publications if name in p.attributes]
        families = Counter(found[0] for found in classified if found is not None)
        if not families:
            continue
        family, count = families.most_common(1)[0]
        if family not in (Family.NUMBER, Family.STRING, Family.TIMESTAMP) or count < 0.9 * len(publications):
            continue
        constants: list[Any] = sorted(found[1] for found in classified if found is not None and found[0] is family)
        ends = [value_text(value_of(family, low)) for low in cut(constants, partitions)[1:]]
        if len(ends) == partitions - 1:
            inner = [f"{name} >= {low} AND {name} < {high}" for low, high in pairwise(ends)]
            return (f"{name} < {ends[0]}", *inner, f"{name} >= {ends[-1]}") if ends else ("TRUE",)
    return None
