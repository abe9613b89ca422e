"""The definition of a match, as plain loops. Everything that is faster is tested against this.

A subscription and a publication match when their topics fit, the publication is in the window, and one disjunct of the
subscription fits one disjunct of the publication. A publication's attributes are constants: they belong to each of its
disjuncts, and a disjunct that they contradict is no disjunct at all. "Not expired" depends on the log, not on the pair,
and is no part of this.

Two disjuncts fit, attribute by attribute, when both sides agree on those that both name, and:
- `classical`: the publication names each attribute that the subscription constrains. Not named counts as absent: it
  satisfies `IS NULL`.
- `symmetric`: the same with the two sides exchanged.
- `intersect`: nothing more. An attribute that one side does not name may be anything there, or absent.
Two sides agree on an attribute when something satisfies both (see `merge`).

`previous.…` is a fact about the publication, not something that it says: under every semantics the subscription's
constraints on it are tested as under `classical`, and nobody needs to name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pastforward.columns.vocabulary import Scope, Semantics, TimeBasis
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.merge import meet
from pastforward.matching.conditions.normal_form import ALWAYS, NULL, PREVIOUS, Constraint, Disjunct, NormalForm


@dataclass(frozen=True, slots=True)
class Subscription:
    """Times in microseconds; None is no bound."""

    disjuncts: NormalForm = ALWAYS
    topic: str = ""
    scope: Scope = "overlap"
    starts_at: int | None = None
    ends_at: int | None = None
    time: TimeBasis = "published"
    semantics: Semantics = "classical"


@dataclass(frozen=True, slots=True)
class Publication:
    """`previous` are the attributes of the previous publication, under their own names, without the prefix."""

    attributes: Mapping[str, object] = field(default_factory=dict)
    where: NormalForm = ALWAYS
    topic: str = ""
    published_at: int = 0
    expires_at: int | None = None
    previous: Mapping[str, object] = field(default_factory=dict)


# What one side says of an attribute: a constraint, or the value that it has.
Said: TypeAlias = Constraint | object


def matches(subscription: Subscription, publication: Publication) -> bool:
    return (
        topics_fit(subscription, publication)
        and in_time(subscription, publication)
        and any(
            disjuncts_fit(subscription.semantics, wanted, offered, publication.previous)
            for wanted in subscription.disjuncts
            for offered in offers(publication)
        )
    )


def topics_fit(subscription: Subscription, publication: Publication) -> bool:
    """A subscription may name several topics, with commas between them: one of them must fit."""
    return any(topic_fits(topic, subscription.scope, publication.topic) for topic in subscription.topic.split(","))


def topic_fits(subscribed: str, scope: Scope, published: str) -> bool:
    wanted = subscribed.split(".") if subscribed else []
    offered = published.split(".") if published else []
    if offered[: len(wanted)] == wanted:
        return True
    return scope == "overlap" and wanted[: len(offered)] == offered


def in_time(subscription: Subscription, publication: Publication) -> bool:
    forever = float("inf")
    starts_at = -forever if subscription.starts_at is None else subscription.starts_at
    ends_at = forever if subscription.ends_at is None else subscription.ends_at
    expires_at = forever if publication.expires_at is None else publication.expires_at
    if subscription.time == "published":
        return starts_at <= publication.published_at < ends_at
    return max(starts_at, publication.published_at) < min(ends_at, expires_at)


def offers(publication: Publication) -> list[dict[str, Said]]:
    """The publication's disjuncts, its constants in each."""
    constants = {name: value for name, value in publication.attributes.items() if value is not None}
    return [
        {**dict(disjunct), **constants}
        for disjunct in publication.where
        if all(satisfies(constraint, constants[name]) for name, constraint in disjunct if name in constants)
    ]


def disjuncts_fit(
    semantics: Semantics, wanted: Disjunct, offered: Mapping[str, Said], previous: Mapping[str, object]
) -> bool:
    for name, constraint in wanted:
        if name.startswith(PREVIOUS):
            if not satisfies(constraint, previous.get(name.removeprefix(PREVIOUS))):
                return False
        elif name in offered:
            if not agree(constraint, offered[name]):
                return False
        elif semantics == "classical" and constraint != NULL:
            return False
    if semantics == "symmetric":
        named = {name for name, _ in wanted}
        return all(name in named or said == NULL for name, said in offered.items())
    return True


def agree(constraint: Constraint, said: Said) -> bool:
    if isinstance(said, Constraint):
        return meet(constraint, said) is not None
    return satisfies(constraint, said)
