"""Every algorithm against the oracle, through long sequences of add, replace, remove and match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching import Condition, Index, Path
from matching.algorithms import NAMES
from matching.oracle import Publication, Subscription, matches
from matching.predicates import Predicate
from matching.values import Box, Circle, Point

ATTRIBUTES = ("a", "b", "c", "previous.a")
NUMBERS: tuple[object, ...] = (
    0, 1, 2, 3, -1, 7, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.0, -0.0, 0.5, 1.0, 2.5, 1e300,
    float(2**53), float(2**63), -float(2**63), float("inf"), float("-inf"), 5e-324,
)  # fmt: skip
TEXTS = ("", "a", "ab", "abc", "b", "ä", "äb", "日本", "\U0010ffff", "a\x00b", "x" * 20, "x" * 20 + "y")
TIMES = tuple(datetime.fromtimestamp(second, UTC) for second in (0, 1, 2, 1_000_000_000))
SHAPES = (Point(1.0, 2.0), Point(0.0, 0.0), Box(0.0, 0.0, 2.0, 3.0), Box(5.0, 5.0, 6.0, 6.0), Circle(1.0, 2.0, 1000.0))
PATHS = (Path(""), Path("1"), Path("1.4"), Path("1.10"), Path("1.4.2"))
# what compares with nothing, beside the values above
STRANGE = (float("nan"), 2**63, [1], "\ud800", None, Path("x"), Point(float("nan"), 0.0))

TOPICS = ("", "1", "1.4", "1.4.2", "1.10", "2")
MOMENTS = (0, 10, 20, 30)

ordered = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.sampled_from(TIMES), st.sampled_from(PATHS))
scalars = st.one_of(ordered, st.booleans(), st.sampled_from(SHAPES))
values = st.one_of(st.sampled_from((0, 1, 2, 0.5, "a", "ab", True)), scalars, st.sampled_from(STRANGE))
names = st.sampled_from(ATTRIBUTES)


@st.composite
def predicates(draw: st.DrawFn, attributes: tuple[str, ...] = ATTRIBUTES) -> Predicate:
    name = draw(st.sampled_from(attributes))
    kind = draw(st.integers(0, 9))
    if kind <= 2:
        return Predicate(name, draw(st.sampled_from(("=", "!="))), draw(scalars))
    if kind <= 4:
        return Predicate(name, draw(st.sampled_from(("<", "<=", ">", ">="))), draw(ordered))
    if kind == 5:
        family = draw(st.sampled_from((NUMBERS, TEXTS, TIMES)))
        low, high = draw(st.sampled_from(family)), draw(st.sampled_from(family))
        return Predicate(name, "between", low, high)
    if kind == 6:
        family = draw(st.sampled_from((NUMBERS, TEXTS, TIMES, PATHS)))
        members = draw(st.lists(st.sampled_from(family), min_size=1, max_size=4))
        return Predicate(name, draw(st.sampled_from(("in", "not in"))), tuple(members))
    if kind == 7:
        operator = draw(st.sampled_from(("prefix", "suffix", "substring", "like", "matches")))
        negated = draw(st.sampled_from(("", "not ")))
        return Predicate(name, negated + operator, draw(st.sampled_from(("", "a", "ab", "ä", "b"))))
    if kind == 8:
        operator = draw(st.sampled_from(("overlaps", "contains", "within")))
        return Predicate(name, operator, draw(st.sampled_from(SHAPES)))
    return Predicate(name, draw(st.sampled_from(("is null", "is not null"))))


def conditions(attributes: tuple[str, ...] = ATTRIBUTES) -> st.SearchStrategy[Condition]:
    disjunct = st.lists(predicates(attributes), max_size=4)
    return st.lists(disjunct, min_size=1, max_size=3).map(Condition.from_predicates)


subscriptions = st.builds(
    Subscription,
    disjuncts=conditions().map(lambda condition: condition.disjuncts),
    topic=st.sampled_from(TOPICS),
    scope=st.sampled_from(("overlap", "subtree")),
    starts_at=st.one_of(st.none(), st.sampled_from(MOMENTS)),
    ends_at=st.one_of(st.none(), st.sampled_from(MOMENTS)),
    time=st.sampled_from(("published", "valid")),
    semantics=st.sampled_from(("classical", "classical", "symmetric", "intersect")),
)
publications = st.builds(
    Publication,
    attributes=st.dictionaries(st.sampled_from(("a", "b", "c", "unknown")), values, max_size=4),
    where=st.one_of(st.just(((),)), conditions(("a", "b", "c", "unknown")).map(lambda condition: condition.disjuncts)),
    topic=st.sampled_from((*TOPICS, "1.4.9", "3")),
    published_at=st.sampled_from(MOMENTS),
    expires_at=st.one_of(st.none(), st.sampled_from(MOMENTS)),
    previous=st.dictionaries(st.sampled_from(("a", "b")), values, max_size=2),
)


@dataclass
class Add:
    identity: int
    subscription: Subscription


@dataclass
class Remove:
    identities: list[int]


@dataclass
class Match:
    publications: list[Publication] = field(default_factory=list)


identities = st.integers(0, 12)
steps = st.lists(
    st.one_of(
        st.builds(Add, identities, subscriptions),
        st.builds(Add, identities, subscriptions),
        st.builds(Remove, st.lists(identities, min_size=1, max_size=4)),
        st.builds(Match, st.lists(publications, min_size=1, max_size=4)),
    ),
    min_size=4,
    max_size=40,
)


def put(index: Index, identity: Any, subscription: Subscription) -> None:
    index.add(
        identity,
        subscription.disjuncts,
        topic=subscription.topic,
        scope=subscription.scope,
        starts_at=subscription.starts_at,
        ends_at=subscription.ends_at,
        time=subscription.time,
        semantics=subscription.semantics,
    )


def ask(index: Index, publication: Publication) -> list[Any]:
    return index.match(
        publication.attributes,
        topic=publication.topic,
        published_at=publication.published_at,
        expires_at=publication.expires_at,
        where=publication.where,
        previous=publication.previous,
    )


def expected(model: Mapping[Any, Subscription], publication: Publication) -> list[Any]:
    return sorted(identity for identity, subscription in model.items() if matches(subscription, publication))


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("text_ids", [False, True])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_agrees_with_the_oracle(algorithm: str, text_ids: bool, data: st.DataObject) -> None:
    index = Index(algorithm=algorithm)
    model: dict[Any, Subscription] = {}

    def name(identity: int) -> Any:
        return f"s{identity}ü" if text_ids else identity

    for step in data.draw(steps):
        if isinstance(step, Add):
            put(index, name(step.identity), step.subscription)
            model[name(step.identity)] = step.subscription
        elif isinstance(step, Remove):
            wanted = {name(identity) for identity in step.identities}
            assert index.remove_many(sorted(wanted)) == len(wanted & model.keys())
            for identity in wanted:
                model.pop(identity, None)
        else:
            for publication in step.publications:
                assert sorted(ask(index, publication)) == expected(model, publication)
        assert len(index) == len(model)
