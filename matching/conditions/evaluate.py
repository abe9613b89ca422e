"""Whether a value satisfies a constraint, and whether attributes satisfy a condition."""

from __future__ import annotations

from collections.abc import Mapping

from pastforward.matching.conditions.merge import admits
from pastforward.matching.conditions.normal_form import Constraint, Disjunct, Family, NormalForm
from pastforward.matching.conditions.types import classify


def satisfies(constraint: Constraint, value: object) -> bool:
    """`None` is the absent attribute. A value of another family satisfies neither a predicate nor its negation."""
    if value is None:
        return constraint.family is Family.NULL
    if constraint.family is Family.NULL:
        return False
    if constraint.family is Family.ANY:
        return True
    classified = classify(value)
    return classified is not None and classified[0] is constraint.family and admits(constraint, classified[1])


def disjunct_holds(disjunct: Disjunct, attributes: Mapping[str, object]) -> bool:
    return all(satisfies(constraint, attributes.get(name)) for name, constraint in disjunct)


def holds(disjuncts: NormalForm, attributes: Mapping[str, object]) -> bool:
    """The classical meaning, for a publication of constants."""
    return any(disjunct_holds(disjunct, attributes) for disjunct in disjuncts)
