"""Hypothesis strategies: every type of attribute, every record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from pastforward.columns import dewey
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.columns.vocabulary import SYMBOLS
from pastforward.matching.conditions.normal_form import Constraint, Family, Pattern, PatternKind, Relation, Test
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.schemas import (
    BackfillRequest,
    Best,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Content,
    DeadLetter,
    Entity,
    Notification,
    Predicate,
    Publication,
    Rendezvous,
    Subscription,
    Version,
    Withdrawal,
)
from pastforward.schemas.limits import MADE_UP, MAX_ID_BYTES

texts = st.text(st.characters(codec="utf-8"), max_size=20)
ids = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20) | st.sampled_from(
    ["a" * MAX_ID_BYTES, "é" * (MAX_ID_BYTES // 2)]
)
own_ids = ids.filter(lambda text: not text.startswith(MADE_UP))  # those that a sender may choose
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
moments = st.integers(MIN_TIME, MAX_TIME)
components = st.integers(0, 20) | st.integers(0, 2**63 - 1)
paths = st.lists(components, max_size=6).map(lambda parts: ".".join(map(str, parts)))
several_topics = st.lists(paths, min_size=1, max_size=8).map(dewey.joined)
finite = st.floats(allow_nan=False, allow_infinity=False)
lons, lats = st.floats(-180, 180), st.floats(-90, 90)
datetimes = st.datetimes(timezones=st.just(UTC))

shapes = (
    st.builds(Point, lons, lats)
    | st.builds(Circle, lons, lats, st.floats(0, 1e9))
    | st.tuples(finite, finite, finite, finite).map(
        lambda c: Box(min(c[0], c[2]), min(c[1], c[3]), max(c[0], c[2]), max(c[1], c[3]))
    )
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "integer": longs,
    "float": st.floats(allow_nan=False),
    "string": texts,
    "timestamp": datetimes,
    "point": st.builds(Point, lons, lats),
    "circle": st.builds(Circle, lons, lats, st.floats(0, 1e9)),
    "box": shapes.filter(lambda shape: isinstance(shape, Box)),
    "path": paths.map(Path),
}
values = st.one_of(*VALUES.values())


def _predicate(attribute: str, operator: str, first: Any, second: Any, more: list[Any]) -> Predicate:
    if operator in ("is null", "is not null"):
        return Predicate(attribute, operator)
    if operator in ("in", "not in"):
        return Predicate(attribute, operator, values=tuple(more))
    if operator in ("between", "not between"):
        return Predicate(attribute, operator, first, second)
    return Predicate(attribute, operator, first)


predicates = st.builds(
    _predicate, ids, st.sampled_from(sorted(SYMBOLS.values())), values, values, st.lists(values, max_size=3)
)
disjuncts = st.lists(st.lists(predicates, max_size=3).map(tuple), max_size=3).map(tuple)
wheres = st.none() | texts | disjuncts
windows = st.tuples(st.none() | moments, st.none() | moments).map(
    lambda w: w if None in w or w[0] <= w[1] else (w[1], w[0])  # type: ignore[operator]
)


delivers = st.sampled_from(["content", "ids"])


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    starts_at, ends_at = draw(windows)
    return Subscription(
        draw(own_ids),
        draw(ids),
        draw(paths | several_topics),
        draw(st.sampled_from(["overlap", "subtree"])),
        starts_at,
        ends_at,
        draw(st.sampled_from([None, "published", "valid"])),
        draw(wheres),
        draw(st.sampled_from(["classical", "symmetric", "intersect"])),
        draw(st.booleans()),
        draw(delivers),
        draw(st.booleans()),
        draw(st.booleans()),
    )


bests = st.builds(Best, ids, st.sampled_from(["highest", "lowest"]))
attributes = st.dictionaries(ids, values, max_size=6)


@st.composite
def publications(draw: st.DrawFn) -> Publication:
    published_at, expires_at = draw(windows)
    return Publication(
        draw(st.none() | own_ids),
        draw(st.none() | ids),
        draw(paths),
        published_at,
        expires_at,
        draw(attributes),
        draw(wheres),
        draw(st.none() | bests),
        draw(st.booleans()),
        draw(st.none() | st.binary(max_size=20)),
        draw(st.booleans()),
    )


contents = st.builds(
    Content, attributes, st.none() | texts, st.none() | st.binary(max_size=20), st.none() | texts, st.none() | moments
)
notifications = st.builds(
    Notification,
    texts, texts, texts, texts, texts, st.sampled_from(["subscriber", "publisher"]), paths, moments, moments,
    st.sampled_from(["past", "live", "backfill", "best"]), st.lists(texts, max_size=3).map(tuple), st.none() | values,
    st.none() | contents, st.sampled_from([None, "entered", "updated", "left"]), st.none() | texts, st.none() | texts,
)  # fmt: skip
dead_letters = st.builds(
    DeadLetter,
    texts,
    ints,
    longs,
    longs,
    texts,
    texts,
    st.none() | st.binary(max_size=9),
    st.none() | st.binary(max_size=30),
)

numbers = longs | finite
_CONSTANTS: dict[Family, st.SearchStrategy[Any]] = {
    Family.BOOLEAN: st.booleans(),
    Family.NUMBER: numbers,
    Family.STRING: texts,
    Family.TIMESTAMP: moments,
    Family.PATH: st.lists(components, max_size=4).map(tuple),
    Family.GEOMETRY: shapes,
}


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    """Of the right types; not always one that the normal form would hold, which is not for codecs to judge."""
    family = draw(st.sampled_from(list(Family)))
    if family in (Family.NULL, Family.ANY):
        return Constraint(family)
    constant = _CONSTANTS[family]
    many = st.lists(constant, max_size=3).map(tuple)
    patterns = st.lists(st.builds(Pattern, st.sampled_from(list(PatternKind)), texts, st.booleans()), max_size=2).map(
        tuple
    )
    tests = st.lists(st.builds(Test, st.sampled_from(list(Relation)), shapes, st.booleans()), max_size=2).map(tuple)
    return Constraint(
        family,
        draw(st.none() | constant),
        draw(st.booleans()),
        draw(st.none() | constant),
        draw(st.booleans()),
        draw(st.none() | many),
        draw(many),
        draw(patterns),
        draw(tests),
    )


normal_forms = st.lists(st.lists(st.tuples(texts, constraints()), max_size=3).map(tuple), max_size=2).map(tuple)
versions = st.builds(Version, longs, ints, longs)
canonical_subscriptions = st.builds(
    CanonicalSubscription,
    ids, ids, versions, paths | several_topics, st.sampled_from(["overlap", "subtree"]), moments, st.none() | moments,
    st.sampled_from(["published", "valid"]), normal_forms, st.sampled_from(["classical", "symmetric", "intersect"]),
    st.booleans(), delivers, st.booleans(), st.booleans(), st.none() | versions,
    st.none() | st.dictionaries(ints, longs, max_size=2),
)  # fmt: skip
canonical_publications = st.builds(
    CanonicalPublication,
    ids, st.none() | ids, paths, moments, st.none() | moments, st.none() | bests, st.booleans(), attributes,
    st.none() | normal_forms, st.none() | st.binary(max_size=20),
    st.none() | st.builds(Entity, st.lists(ints, max_size=3).map(tuple), st.none() | attributes, st.binary(max_size=16)),
)  # fmt: skip
rendezvous = st.builds(
    Rendezvous,
    st.sampled_from(["subscriptions", "publications", "none"]), ints, longs, longs, ints, st.lists(ints, max_size=4).map(tuple),
    st.none() | canonical_subscriptions | st.builds(Withdrawal, ids, versions, st.booleans()) | canonical_publications,
)  # fmt: skip
backfill_requests = st.builds(
    BackfillRequest,
    canonical_subscriptions,
    ints,
    longs,
    longs,
    ints,
    st.dictionaries(ints, longs, max_size=3),
    st.lists(canonical_subscriptions, max_size=2).map(tuple),
    st.dictionaries(ints, longs, max_size=2),
)
best_offers = st.builds(
    BestOffer,
    texts, paths, st.none() | texts, st.none() | texts, st.none() | texts, st.none() | values, moments, longs, st.booleans(),
)  # fmt: skip
RECORDS: dict[str, st.SearchStrategy[Any]] = {
    "subscription": subscriptions(),
    "publication": publications(),
    "notification": notifications,
    "dead_letter": dead_letters,
    "rendezvous": rendezvous,
    "backfill_request": backfill_requests,
    "best_offer": best_offers,
}
A_MOMENT = datetime(2025, 1, 31, 12, tzinfo=UTC)
