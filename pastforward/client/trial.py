"""What a condition would have matched of what was published: how often, what, and what it missed by how much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pastforward.client.moments import Instant
from pastforward.columns.vocabulary import Scope, Semantics
from pastforward.errors import UserError
from pastforward.matching import Condition
from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.condition import Cost
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.schemas import Publication
from pastforward.schemas.acceptance import accept_publication, normal_form
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.records import Where

SHOWN: Final = 5


@dataclass(slots=True)
class Miss:
    """A predicate that alone kept publications from matching. `distance`: of the nearest number to its bound; None: about no number."""

    predicate: str
    count: int = 0
    nearest: Publication | None = None
    value: object = None
    distance: float | None = None


@dataclass(slots=True)
class Trial:
    """`seen`: publications whose topic fits. `misses`: the most frequent first. `a_day`: matches, as often as in the time looked at."""

    cost: Cost
    since: Instant
    until: Instant
    seen: int = 0
    matched: int = 0
    examples: list[Publication] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)

    @property
    def a_day(self) -> float:
        seconds = max((self.until - self.since).total_seconds(), 1e-6)
        return self.matched * 86_400 / seconds


@dataclass(frozen=True, slots=True)
class Asked:
    """What is tried. Times are not part of it: all that is looked at lies in the window."""

    where: Where
    topic: str = ""
    scope: Scope = "overlap"
    semantics: Semantics = "classical"


def try_condition(
    asked: Asked, publications: Iterable[Publication], since: Instant, until: Instant, examples: int = SHOWN
) -> Trial:
    """`publications`: as they were sent, also what was refused and what came twice; the last ones are the examples."""
    form = normal_form(asked.where)
    condition = Condition(form)
    if condition.needs_previous:
        raise UserError(
            "a condition with previous.<attribute> depends on what came before each publication: it cannot be tried"
        )
    query = oracle.Subscription(form, asked.topic, asked.scope, semantics=asked.semantics)
    trial = Trial(condition.cost, since, until)
    known: set[tuple[str | None, str]] = set()
    misses: dict[str, Miss] = {}
    for publication in publications:
        event = (publication.publication_id, publication.topic)
        try:
            where = accept_publication(publication)
        except SchemaError:
            continue
        offer = oracle.Publication(publication.attributes, where or ALWAYS, publication.topic, 0, None, {})
        if not oracle.topics_fit(query, offer) or (event in known and event[0] is not None):
            continue
        known.add(event)
        trial.seen += 1
        if oracle.matches(query, offer):
            trial.matched += 1
            trial.examples = [*trial.examples, publication][-examples:]
        elif where is None and asked.semantics == "classical":
            _note(condition, publication, misses)
    trial.misses = sorted(misses.values(), key=lambda miss: -miss.count)
    return trial


def _note(condition: Condition, publication: Publication, misses: dict[str, Miss]) -> None:
    """If one predicate alone is to blame, in one of the alternatives."""
    failures: dict[int, list[Any]] = {}
    for failure in condition.explain(publication.attributes).failures:
        failures.setdefault(failure.disjunct, []).append(failure)
    for place, failed in failures.items():
        if len(failed) != 1:
            continue
        (failure,) = failed
        miss = misses.setdefault(failure.predicate, Miss(failure.predicate))
        miss.count += 1
        constraint = dict(condition.disjuncts[place])[failure.attribute]
        distance = _distance(constraint, failure.value)
        if miss.nearest is None or (distance is not None and (miss.distance is None or distance < miss.distance)):
            miss.nearest, miss.value, miss.distance = publication, failure.value, distance


def _distance(constraint: Any, value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    bounds = [constraint.low, constraint.high, *(constraint.included or ())]
    numbers = [each for each in bounds if isinstance(each, int | float) and not isinstance(each, bool)]
    return min((abs(each - value) for each in numbers), default=None)
