"""Conditions: what a subscription asks of content, and what a publication may say instead of constants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pastforward.matching.conditions import templates as shapes
from pastforward.matching.conditions.errors import ConditionError, shown
from pastforward.matching.conditions.evaluate import holds, satisfies
from pastforward.matching.conditions.limits import MAX_DISJUNCTS, MAX_PREDICATES
from pastforward.matching.conditions.normal_form import (
    ALWAYS,
    PREVIOUS,
    Constraint,
    Disjunct,
    Family,
    NormalForm,
    PatternKind,
)
from pastforward.matching.conditions.predicates import (
    Predicate,
    alternatives,
    build,
    checked_name,
    multiplied_out,
    predicates_of,
    too_many_disjuncts,
)
from pastforward.matching.conditions.printing import condition_text, predicate_text, value_text


class Cost(NamedTuple):
    """How dear a condition is, before it is taken.

    `disjuncts` are entries in the index; `predicates`, `members` (values of lists, listed or excluded) and `patterns` are
    what an entry holds; `expressions` are the patterns that an automaton must run; `unselective` counts the disjuncts with
    no equality, list or bound by which they could be looked up: those are tried for every publication that reaches them.
    """

    disjuncts: int
    predicates: int
    members: int
    patterns: int
    expressions: int
    tests: int
    unselective: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A predicate that did not hold, and the value it met; None if the attribute was absent."""

    disjunct: int
    predicate: str
    attribute: str
    value: object

    def __str__(self) -> str:
        met = f"{self.attribute} is absent" if self.value is None else f"{self.attribute} is {value_text(self.value)}"
        return f"{self.predicate} fails: {met}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """`failures` are given for every disjunct when none holds; when one does, there are none."""

    matched: bool
    failures: tuple[Failure, ...]

    def __str__(self) -> str:
        if self.matched:
            return "the condition holds"
        if not self.failures:
            return "the condition can never be true"
        several = len({failure.disjunct for failure in self.failures}) > 1
        lines = [f"alternative {f.disjunct + 1}: {f}" if several else str(f) for f in self.failures]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition in normal form. Immutable, hashable; equal conditions have equal normal forms.

    `str` gives SQL text that parses back to an equal condition, as long as it keeps to the limits of texts.
    """

    disjuncts: NormalForm = ALWAYS

    @classmethod
    def parse(cls, text: str) -> Condition:
        """From SQL text. Raises `ConditionError`: where, what, and what to write instead."""
        return cls(shapes.bind(text))

    @classmethod
    def from_predicates(cls, disjuncts: Iterable[Iterable[Predicate | Sequence[object]]]) -> Condition:
        """From the structured form: alternatives of predicates `(attribute, operator, value, high)`."""
        found: list[Disjunct] = []
        count = 0
        for predicates in _listed(disjuncts):
            asked = []
            for given in _listed(predicates):
                predicate = given if isinstance(given, Predicate) else _predicate(given)
                count += 1
                asked.append((checked_name(predicate.attribute), alternatives(predicate)))
            found += multiplied_out(asked)
            if len(found) > MAX_DISJUNCTS:
                raise too_many_disjuncts()
        if count > MAX_PREDICATES:
            raise ConditionError(f"there are more than {MAX_PREDICATES:,} predicates", "Use several subscriptions")
        return cls(shapes.distinct(found))

    def to_structured(self) -> list[list[Predicate]]:
        """The inverse of `from_predicates`."""
        return [[p for name, constraint in d for p in predicates_of(name, constraint)] for d in self.disjuncts]

    def __str__(self) -> str:
        return condition_text(self.to_structured())

    @property
    def never(self) -> bool:
        """Whether nothing can satisfy it. Such a condition is no error in itself: who takes it decides."""
        return not self.disjuncts

    @property
    def always(self) -> bool:
        """Whether it constrains nothing."""
        return () in self.disjuncts

    @property
    def attributes(self) -> frozenset[str]:
        """All names it mentions, with `previous.` where it does."""
        return frozenset(name for disjunct in self.disjuncts for name, _ in disjunct)

    @property
    def needs_previous(self) -> bool:
        return any(name.startswith(PREVIOUS) for name in self.attributes)

    @property
    def cost(self) -> Cost:
        constraints = [constraint for disjunct in self.disjuncts for _, constraint in disjunct]
        patterns = [pattern for constraint in constraints for pattern in constraint.patterns]
        return Cost(
            disjuncts=len(self.disjuncts),
            predicates=len(constraints),
            members=sum(len(c.included or ()) + len(c.excluded) for c in constraints),
            patterns=len(patterns),
            expressions=sum(pattern.kind in (PatternKind.LIKE, PatternKind.REGEX) for pattern in patterns),
            tests=sum(len(constraint.tests) for constraint in constraints),
            unselective=sum(not any(_is_selective(c) for _, c in disjunct) for disjunct in self.disjuncts),
        )

    def holds(self, attributes: Mapping[str, object]) -> bool:
        """The classical meaning, for constants. An absent attribute is missing, or None."""
        return holds(self.disjuncts, attributes)

    def explain(self, attributes: Mapping[str, object]) -> Explanation:
        """Which predicate failed, on which value."""
        if self.holds(attributes):
            return Explanation(True, ())
        failures = []
        for place, disjunct in enumerate(self.disjuncts):
            for name, constraint in disjunct:
                value = attributes.get(name)
                if satisfies(constraint, value):
                    continue
                for predicate in predicates_of(name, constraint):
                    alone = build(predicate)
                    if alone is None or not satisfies(alone, value):
                        failures.append(Failure(place, predicate_text(predicate), name, value))
        return Explanation(False, tuple(failures))


def _is_selective(constraint: Constraint) -> bool:
    if constraint.family in (Family.NULL, Family.ANY):
        return False
    bounded = constraint.low is not None or constraint.high is not None
    demanded = any(not test.negated for test in constraint.tests)
    return constraint.included is not None or bounded or demanded


def _listed(given: Any) -> Iterator[Any]:
    try:
        if not isinstance(given, str):
            return iter(given)
    except TypeError:
        pass
    raise ConditionError(f"{shown(given)} is no list", "Give a list of alternatives, each a list of predicates")


def _predicate(given: Any) -> Predicate:
    if isinstance(given, str) or not isinstance(given, Sequence) or not 2 <= len(given) <= 4:
        raise ConditionError(
            f"{shown(given)} is no predicate", "Give attribute, operator, value and, with between and not between, high"
        )
    return Predicate(*given)
