"""Every algorithm against the oracle, through long sequences of add, replace, remove and match, by every way in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastforward.columns.texts import Texts
from pastforward.columns.vocabulary import SEMANTICS, Semantics
from pastforward.matching import Condition, Index
from pastforward.matching.conditions.oracle import Publication, Subscription, matches
from pastforward.matching.conditions.predicates import Predicate
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.matching.index import records as r
from pastforward.matching.index.algorithms import names
from pastforward.matching.index.flat import Flat, Places
from pastforward.matching.index.parts import PartsBuilder
from pastforward.matching.index.publications import attributes_of
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.strings import joined
from pastforward.matching.index.subscription import NewSubscription
from tests.matching import strategies as some


@dataclass
class Add:
    identity: int
    subscription: Subscription


@dataclass
class AddMany:
    subscriptions: dict[int, Subscription]


@dataclass
class Remove:
    identities: list[int]


@dataclass
class Match:
    publications: list[Publication] = field(default_factory=list)
    dress: int = 0


@dataclass
class AddTable:
    """By `add_predicates`: disjuncts of predicates as they are given, and everything else of the subscriptions."""

    subscriptions: dict[int, tuple[list[list[Predicate]], Subscription]]


@dataclass
class AddFlat:
    subscriptions: dict[int, Subscription]


identities = st.integers(0, 12)


def one_list_each(disjuncts: list[list[Predicate]]) -> list[list[Predicate]]:
    """Of each attribute one `in` and one `not in` in a disjunct: several rows of a table are one list."""
    kept: list[list[Predicate]] = []
    for disjunct in disjuncts:
        lists: set[tuple[str, str]] = set()
        kept.append([])
        for predicate in disjunct:
            name = predicate.attribute, predicate.operator
            if name not in lists:
                kept[-1].append(predicate)
            if predicate.operator in ("in", "not in"):
                lists.add(name)
    return kept


@st.composite
def some_steps(draw: st.DrawFn) -> list[Any]:
    """Writes and matches. Most of what is published answers one of the subscriptions that come and go."""
    pool = draw(st.lists(some.subscriptions(), min_size=2, max_size=5))
    taken = st.one_of(st.sampled_from(pool), st.sampled_from(pool), some.subscriptions())
    told = st.one_of(
        st.sampled_from(pool).flatmap(some.meeting), st.sampled_from(pool).flatmap(some.meeting), some.publications()
    )
    tables = st.tuples(some.structured(least=1).map(one_list_each), some.subscriptions())
    several = st.dictionaries(identities, taken, min_size=1, max_size=6)
    step = st.one_of(
        st.builds(Add, identities, taken),
        st.builds(AddMany, several),
        st.builds(AddTable, st.dictionaries(identities, tables, min_size=1, max_size=4)),
        st.builds(AddFlat, several),
        st.builds(Remove, st.lists(identities, min_size=1, max_size=4)),
        st.builds(Match, st.lists(told, min_size=1, max_size=4), st.integers(0, 11)),
        st.builds(Match, st.lists(told, min_size=1, max_size=4), st.integers(0, 11)),
    )
    return [AddMany(dict(enumerate(pool))), *draw(st.lists(step, min_size=4, max_size=20))]


steps = some_steps()
_COLUMNS = {bool: "bool", int: "int64", float: "float64", str: "string", datetime: "timestamp", Path: "path"}


def predicate_rows(identity: Any, disjuncts: list[list[Predicate]], subscription: Subscription) -> list[dict[str, Any]]:
    """Rows of a table for `add_predicates`."""
    rows = []
    for number, disjunct in enumerate(disjuncts):
        for name, operator, value, high in disjunct:
            members = value if isinstance(value, tuple) else (value,)
            for member in members:
                row: dict[str, Any] = {
                    "subscription_id": identity,
                    "disjunct": number,
                    "attribute": name,
                    "operator": operator,
                }
                for side, constant in (("value", member), ("high", high)):
                    if isinstance(constant, Point | Box | Circle):
                        doubles = [getattr(constant, part) for part in constant.__slots__]
                        row["value_binary"] = struct.pack(f"<{len(doubles)}d", *doubles)
                    elif constant is not None:
                        row[f"{side}_{_COLUMNS[type(constant)]}"] = (
                            constant.text if isinstance(constant, Path) else constant
                        )
                for setting in ("topic", "scope", "starts_at", "ends_at", "time", "semantics"):
                    row[setting] = getattr(subscription, setting)
                rows.append(row)
    return rows


_TYPES = {
    "disjunct": pa.int32(),
    **{f"{side}_{kind}": {"bool": pa.bool_(), "int64": pa.int64(), "float64": pa.float64(), "string": pa.string(),
       "timestamp": pa.timestamp("us", "UTC"), "path": pa.string()}[kind]
       for side in ("value", "high") for kind in _COLUMNS.values()},
    "value_binary": pa.binary(),
    "starts_at": pa.int64(),
    "ends_at": pa.int64(),
}  # fmt: skip


def predicate_table(rows: list[dict[str, Any]]) -> pa.Table:
    names = ["subscription_id", "attribute", "operator", *_TYPES, "topic", "scope", "time", "semantics"]
    return pa.table({name: pa.array([row.get(name) for row in rows], _TYPES.get(name)) for name in names})


FLAT_KINDS = {r.NULL, r.ANY, r.BOOLEANS, r.NUMBER, r.TIMESTAMPS, r.STRINGS, r.EQUAL_STRING}
MODES = {
    "symmetric": r.SYMMETRIC, "intersect": r.INTERSECT, "classical": 0, "subtree": r.SUBTREE_SCOPE, "overlap": 0, "valid": r.VALID_TIME,
    "published": 0,
}  # fmt: skip


def add_flat(index: Index, subscriptions: Mapping[int, Subscription]) -> None:
    """By columns, those that have such columns; the others by `add_many`."""
    registry = Registry()
    first, kept, topics = [0], [], []
    builder = PartsBuilder(registry.strings, registry.number, registry.numbers)
    for identity, taken in subscriptions.items():
        alone = PartsBuilder(registry.strings, registry.number, registry.numbers)
        for disjunct in taken.disjuncts:
            alone.add(disjunct, 0, 0, None, None)
        if "," in taken.topic or not taken.disjuncts or not set(alone.parts().kind.tolist()) <= FLAT_KINDS:
            index.add_many([new(identity, taken)])
            continue
        for disjunct in taken.disjuncts:
            builder.add(disjunct, 0, 0, None, None)
        first.append(first[-1] + len(taken.disjuncts))
        kept.append(identity)
        topics.append(taken.topic.encode())
    if not kept:
        return
    parts = builder.parts()
    low, high, texts = parts.low.copy(), parts.high.copy(), []
    for part, (kind, flags) in enumerate(zip(parts.kind.tolist(), parts.flags.tolist(), strict=True)):
        ends = [(low, r.HAS_LOW), (high, r.HAS_HIGH)] if kind == r.STRINGS else [(low, 0)] * (kind == r.EQUAL_STRING)
        for end, flag in ends:
            if flags & flag == flag:
                texts.append(registry.strings.text(int(end[part])))
                end[part] = len(texts) - 1
    chosen = [subscriptions[identity] for identity in kept]
    index.add_flat(
        np.array(kept, np.int64),
        Flat(
            np.array(first, np.int64), parts.start, parts.attribute, parts.kind, parts.flags, low, high,
            registry.names, Texts(*joined(texts)),
        ),
        Places(
            Texts(*joined(topics)),
            np.array([-(2**63) if taken.starts_at is None else taken.starts_at for taken in chosen], np.int64),
            np.array([2**63 - 1 if taken.ends_at is None else taken.ends_at for taken in chosen], np.int64),
            np.array([MODES[taken.semantics] | MODES[taken.scope] | MODES[taken.time] for taken in chosen], np.uint8),
        ),
    )  # fmt: skip


def new(identity: Any, subscription: Subscription) -> NewSubscription:
    return NewSubscription(
        identity,
        subscription.disjuncts,
        subscription.topic,
        subscription.scope,
        subscription.starts_at,
        subscription.ends_at,
        subscription.time,
        subscription.semantics,
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


def dressed(attributes: Mapping[str, Any], which: int) -> dict[str, Any]:
    return {name: some.dressed(value, which) for name, value in attributes.items()}


def ask(index: Index, publication: Publication, dress: int = 0) -> list[Any]:
    return index.match(
        dressed(publication.attributes, dress),
        topic=publication.topic,
        published_at=publication.published_at,
        expires_at=publication.expires_at,
        where=None if publication.where == ((),) else publication.where,
        previous=dressed(publication.previous, dress),
    )


def expected(model: Mapping[Any, Subscription], publication: Publication) -> list[Any]:
    return sorted(identity for identity, subscription in model.items() if matches(subscription, publication))


def by_row(rows: Sequence[int], ids: Sequence[Any], count: int) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(count)]
    for row, identity in zip(rows, ids, strict=True):
        found[row].append(identity)
    return [sorted(ids_of_row) for ids_of_row in found]


def row_of(publication: Publication) -> dict[str, Any]:
    return {**publication.attributes, **{f"previous.{name}": value for name, value in publication.previous.items()}}


def in_columns(publications: Sequence[Publication]) -> dict[str, Any]:
    """The arguments of `match_attributes` and `match_pairs`."""
    never = 2**63 - 1
    return {
        "topics": pa.array([publication.topic for publication in publications], pa.string()),
        "published_at": np.array([publication.published_at for publication in publications], np.int64),
        "expires_at": np.array([never if p.expires_at is None else p.expires_at for p in publications], np.int64),
        "where": [publication.where for publication in publications],
    }


def arrow_type(value: Any, which: int) -> pa.DataType | None:
    """A column in which the value can stand; None if there is none."""
    shapes = {Point: ("lon", "lat"), Circle: ("lon", "lat", "radius_m"), Box: ("min_x", "min_y", "max_x", "max_y")}
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int) and 0 <= value < 2**64 and (which % 3 == 0 or value >= 2**63):
        return pa.uint64()
    if isinstance(value, int) and -128 <= value < 128 and which % 3 == 1:
        return pa.int8()
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return pa.int64()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, str):
        return (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))[which % 3]
    if isinstance(value, datetime):
        return pa.timestamp("us", "UTC")
    if type(value) in shapes:
        return pa.struct([(name, pa.float64()) for name in shapes[type(value)]])
    return None


def column_of(values: list[Any], which: int) -> tuple[pa.Array, list[Any]] | None:
    """A column of the first value's type, and the values that fit into it, None where one does not."""
    kind = next((kind for value in values if (kind := arrow_type(value, which)) is not None), None)
    if kind is None:
        return None
    kept: list[Any] = []
    cells: list[Any] = []
    for value in values:
        cell = (
            {name: getattr(value, name) for name in value.__slots__}
            if isinstance(value, Point | Box | Circle)
            else value
        )
        try:
            fits = arrow_type(value, which) == kind or (isinstance(value, int) and pa.types.is_integer(kind))
            pa.array([cell], kind)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            fits = False
        kept.append(value if fits else None)
        cells.append(cell if fits else None)
    return pa.array(cells, kind), kept


def table_of(publications: Sequence[Publication], which: int) -> tuple[pa.Table, list[Publication]]:
    """A table of publications without conditions, and the publications that it is of: a column holds one type."""
    rows = [row_of(publication) for publication in publications]
    columns: dict[str, Any] = {
        "_topic": pa.array([publication.topic for publication in publications], pa.string()),
        "_published_at": pa.array([publication.published_at for publication in publications], pa.int64()),
        "_expires_at": pa.array([publication.expires_at for publication in publications], pa.int64()),
    }
    kept: list[dict[str, Any]] = [{} for _ in publications]
    for name in sorted({name for row in rows for name in row}):
        made = column_of([row.get(name) for row in rows], which)
        if made is not None:
            columns[name], values = made
            for row, value in zip(kept, values, strict=True):
                if value is not None:
                    row[name] = value
    taken = [
        replace(
            publication,
            attributes={name: value for name, value in row.items() if not name.startswith("previous.")},
            previous={n.removeprefix("previous."): value for n, value in row.items() if n.startswith("previous.")},
        )
        for publication, row in zip(publications, kept, strict=True)
    ]
    return pa.table(columns), taken


def check_matches(index: Index, model: Mapping[Any, Subscription], step: Match) -> None:
    publications = step.publications
    for publication in publications:
        assert sorted(ask(index, publication)) == expected(model, publication)
        assert sorted(ask(index, publication, step.dress)) == expected(model, publication)
    attributes = attributes_of([dressed(row_of(publication), step.dress) for publication in publications])
    rows, ids = index.match_attributes(attributes, **in_columns(publications))
    wanted = [expected(model, publication) for publication in publications]
    assert by_row(rows.tolist(), ids.to_pylist(), len(publications)) == wanted
    pairs = [(row, identity) for row in range(len(publications)) for identity in model]
    answers = index.match_pairs(
        attributes,
        np.array([row for row, _ in pairs], np.int64),
        [identity for _, identity in pairs],
        **in_columns(publications),
    )
    assert answers.tolist() == [identity in wanted[row] for row, identity in pairs]
    table, plain = table_of([replace(publication, where=((),)) for publication in publications], step.dress)
    found = index.match_table(table)
    wanted = [expected(model, publication) for publication in plain]
    assert by_row(found["row"].to_pylist(), found["subscription_id"].to_pylist(), len(plain)) == wanted
    for publication, ids_of_row in zip(plain, wanted, strict=True):
        for identity in model:
            explanation = index.explain(
                identity,
                publication.attributes,
                topic=publication.topic,
                published_at=publication.published_at,
                expires_at=publication.expires_at,
                previous=publication.previous,
            )
            assert explanation.matches is (identity in ids_of_row), str(explanation)


def run(
    index: Index, chosen: list[Any], text_ids: bool = False, after: Callable[[Index], None] = lambda index: None
) -> None:
    """Takes the steps, and compares with the oracle at each match. `after` each step more may be checked."""
    model: dict[Any, Subscription] = {}

    def name(identity: int) -> Any:
        return f"s{identity}ü" if text_ids else identity

    for step in chosen:
        if isinstance(step, Add):
            put(index, name(step.identity), step.subscription)
            model[name(step.identity)] = step.subscription
        elif isinstance(step, AddMany):
            index.add_many([new(name(identity), taken) for identity, taken in step.subscriptions.items()])
            model.update({name(identity): taken for identity, taken in step.subscriptions.items()})
        elif isinstance(step, AddTable):
            rows, added = [], {}
            for identity, (predicates, asked) in step.subscriptions.items():
                placed = replace(asked, topic=asked.topic.split(",")[0])  # a row of a table has one topic
                added[name(identity)] = replace(placed, disjuncts=Condition.from_predicates(predicates).disjuncts)
                rows += predicate_rows(name(identity), predicates, placed)
            assert index.add_predicates(predicate_table(rows)) == len(added)
            model.update(added)
        elif isinstance(step, AddFlat) and not text_ids:
            add_flat(index, step.subscriptions)
            model.update(step.subscriptions)
        elif isinstance(step, AddFlat):
            index.add_many([new(name(identity), taken) for identity, taken in step.subscriptions.items()])
            model.update({name(identity): taken for identity, taken in step.subscriptions.items()})
        elif isinstance(step, Remove):
            wanted = {name(identity) for identity in step.identities}
            assert index.remove_many(sorted(wanted)) == len(wanted & model.keys())
            for identity in wanted:
                model.pop(identity, None)
        else:
            check_matches(index, model, step)
        assert len(index) == len(model)
        after(index)


@pytest.mark.parametrize("algorithm", names())
@settings(max_examples=20, deadline=None)
@given(text_ids=st.booleans(), chosen=steps)
def test_agrees_with_the_oracle(algorithm: str, text_ids: bool, chosen: list[Any]) -> None:
    run(Index(algorithm), chosen, text_ids)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text_ids=st.booleans(), chosen=steps)
def test_agrees_with_the_oracle_when_all_is_numbered_anew(
    monkeypatch: pytest.MonkeyPatch, text_ids: bool, chosen: list[Any]
) -> None:
    """After every removal what is left is laid out anew, which otherwise takes thousands."""
    for name, value in {"_LITTLE": -1, "_SOME": 0, "_FEW_NAMES": 0, "_EMPTY": 1 << 40}.items():
        monkeypatch.setattr(f"pastforward.matching.index.tidying.{name}", value)
    run(Index(), chosen, text_ids)


@pytest.mark.soak
@pytest.mark.parametrize("algorithm", names())
@settings(max_examples=2_000, deadline=None)
@given(text_ids=st.booleans(), chosen=steps)
def test_agrees_with_the_oracle_long(algorithm: str, text_ids: bool, chosen: list[Any]) -> None:
    run(Index(algorithm), chosen, text_ids)


@st.composite
def some_meetings(draw: st.DrawFn) -> dict[str, Any]:
    asked = draw(some.conditions(max_leaves=3, previous=False))
    said = draw(st.lists(some.said_to(asked.disjuncts), min_size=1, max_size=5))
    said.append((draw(some.attributes_of(most=2)), draw(some.published_conditions(max_leaves=3))))
    return {"asked": asked, "said": said}


meetings = some_meetings()


def check_meeting(asked: Condition, said: list[tuple[dict[str, Any], Condition]]) -> None:
    """One subscription of each semantics against published conditions: nothing but the conditions decides."""
    index = Index()
    model = {semantics: Subscription(asked.disjuncts, semantics=semantics) for semantics in SEMANTICS}
    for semantics, subscription in model.items():
        put(index, semantics, subscription)
    for attributes, where in said:
        for given_attributes in ({}, attributes):
            publication = Publication(given_attributes, where.disjuncts)
            assert sorted(ask(index, publication)) == expected(model, publication)


@settings(max_examples=150, deadline=None)
@given(meetings)
def test_conditions_meet_as_the_oracle_says(meeting: dict[str, Any]) -> None:
    check_meeting(**meeting)


@pytest.mark.soak
@settings(max_examples=20_000, deadline=None)
@given(meetings)
def test_conditions_meet_as_the_oracle_says_long(meeting: dict[str, Any]) -> None:
    check_meeting(**meeting)


@pytest.mark.parametrize(
    ("asked", "said", "semantics", "meets"),
    [
        ("x IS NULL AND s = 1", "x IS NULL", "symmetric", False),
        ("x IS NULL AND s = 1 AND t = 1", "x IS NULL", "symmetric", True),
        ("s = 1 AND t = 1", "x IS NULL", "symmetric", True),
        ("x > 0 AND x != 1", "x IN (0, 1)", "classical", False),
        ("x > 0 AND x != 1", "x IN (0, 1, 2)", "classical", True),
        ("x > 'a' AND x != 'b'", "x IN ('a', 'b')", "classical", False),
        ("x LIKE '%b' AND x != 'ab' AND x > 'a'", "x IN ('ab', 'ba')", "classical", False),
        ("x > TIMESTAMP '2026-01-01' AND x != TIMESTAMP '2026-01-02'", "x IN (TIMESTAMP '2026-01-01', TIMESTAMP '2026-01-02')",
         "classical", False),
        ("x NOT LIKE '%b' AND x NOT LIKE 'a%'", "x IN ('ab', 'aa', 'bb')", "intersect", False),
    ],
)  # fmt: skip
def test_exclusions_patterns_and_absence_against_what_is_published(
    asked: str, said: str, semantics: Semantics, meets: bool
) -> None:
    index = Index()
    index.add(1, asked, semantics=semantics)
    attributes = {} if "s = 1" not in asked else {"s": 1, "t": 1}
    if semantics == "symmetric":
        attributes = {"s": 1, "t": 1}
    assert index.match(attributes, where=said) == ([1] if meets else [])


@pytest.mark.parametrize("number", [float, int, np.float64, np.float32, np.int64, some.Real, some.Whole])
def test_coordinates_of_any_numeric_type(number: Any) -> None:
    index = Index()
    index.add(1, "pos WITHIN BOX(0, 0, 1, 1)")
    index.add(2, "NOT pos WITHIN BOX(0, 0, 1, 1)")
    assert index.match({"pos": Point(number(5), number(5))}) == [2]
    assert index.match({"pos": Point(number(1), number(0))}) == [1]
    inside = Box(number(0), number(0), number(1), number(1))
    again = Condition.from_predicates([[("pos", "within", inside)]])
    assert again == Condition.parse("pos WITHIN BOX(0, 0, 1, 1)")
    assert str(again) == "within(pos, BOX(0.0, 0.0, 1.0, 1.0))"
