"""The structured form: every operator that the wire format and `add_predicates` know, with every type that it takes."""

from __future__ import annotations

import re
from pathlib import Path as File
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from pastforward.columns.vocabulary import NEGATED, OPERATORS, SYMBOLS
from pastforward.matching import Condition, ConditionError, Index
from pastforward.matching.conditions.normal_form import Family
from pastforward.matching.conditions.oracle import Subscription
from pastforward.matching.conditions.predicates import BUILDERS, Predicate, takes
from pastforward.matching.conditions.values import Point
from tests.matching import naive, strategies
from tests.matching.test_index_oracle import one_list_each, predicate_rows, predicate_table

PAGE = (File(__file__).parents[2] / "docs" / "wire-format.md").read_text(encoding="utf-8")
POOLS: dict[Family, list[Any]] = {
    Family.BOOLEAN: [True, False],
    Family.NUMBER: strategies.NUMBERS,
    Family.STRING: [*strategies.STRINGS, "a\\%b", "%", "_"],
    Family.TIMESTAMP: strategies.TIMES,
    Family.PATH: strategies.PATHS,
    Family.GEOMETRY: strategies.SHAPES,
}
EVERYTHING = [None, *(value for pool in POOLS.values() for value in pool)]


def on_the_page() -> set[str]:
    """The operators in the table of the wire format."""
    table = PAGE[PAGE.index("| operator | needs |") :].split("\n\n")[0]
    found: set[str] = set()
    for line in table.splitlines()[2:]:
        first = line.split("|")[1]
        names = re.findall(r"`(\w+)`", first.replace("`not_`", ""))
        found |= {*names, *(f"not_{name}" for name in names if "each also with" in first)}
    return found


def test_the_lists_of_operators_agree() -> None:
    assert on_the_page() == set(SYMBOLS)
    assert {*BUILDERS, "between", "not between", "is null", "is not null"} == OPERATORS
    assert set(NEGATED) == OPERATORS - {"between", "not between"}


def predicates_of(operator: str) -> list[Predicate]:
    if operator in ("is null", "is not null"):
        return [Predicate("x", operator)]
    base = operator.removeprefix("not ")
    found: list[Predicate] = []
    for family in takes(operator):
        pool = POOLS[family]
        if base == "like":
            pool = [pattern.replace("!", "\\") for pattern in strategies.PATTERNS]
        elif base == "matches":
            pool = strategies.EXPRESSIONS
        if base == "between":
            found += [Predicate("x", operator, low, high) for low in pool[:8] for high in pool[:8]]
        elif base == "in":
            found += [Predicate("x", operator, tuple(pool[at : at + 3])) for at in range(0, len(pool), 3)]
        else:
            found += [Predicate("x", operator, value) for value in pool]
    return found


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_every_operator_means_what_sql_says(operator: str) -> None:
    for predicate in predicates_of(operator):
        structured = Condition.from_predicates([[predicate]])
        written = naive.written(*predicate)
        assert Condition.from_predicates(structured.to_structured()) == structured
        assert Condition.parse(str(structured)) == structured
        for value in EVERYTHING:
            assert structured.holds({"x": value}) is (naive.truth(written, {"x": value}) is True), (predicate, value)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_every_operator_in_a_table(operator: str) -> None:
    predicates = predicates_of(operator)
    index = Index()
    rows = [row for i, predicate in enumerate(predicates) for row in predicate_rows(i, [[predicate]], Subscription())]
    assert index.add_predicates(predicate_table(rows)) == len(predicates) == len(index)
    conditions = [Condition.from_predicates([[predicate]]) for predicate in predicates]
    for value in EVERYTHING:
        expected = [i for i, condition in enumerate(conditions) if condition.holds({"x": value})]
        assert sorted(index.match({"x": value})) == expected
    for i, condition in enumerate(conditions):
        assert index.condition(i) == (condition.disjuncts, "classical")
        for value in EVERYTHING:
            assert index.explain(i, {"x": value}).matches is condition.holds({"x": value})


@settings(max_examples=200, deadline=None)
@given(strategies.structured(), strategies.attributes)
def test_disjuncts_of_predicates_mean_what_sql_says(
    disjuncts: list[list[Predicate]], attributes: dict[str, Any]
) -> None:
    parts = [
        naive.Node("AND", (True, *(naive.written(*predicate) for predicate in disjunct))) for disjunct in disjuncts
    ]
    tree = naive.Node("OR", (False, *parts))
    condition = Condition.from_predicates(disjuncts)
    assert condition.holds(attributes) is (naive.truth(tree, attributes) is True)
    assert Condition.parse(naive.text(tree)).holds(attributes) is condition.holds(attributes)


def test_what_is_more_than_one_constraint_is_multiplied_out_within_limits() -> None:
    eight = [Predicate(f"x{i}", "not between", 1, 2) for i in range(8)]
    assert len(Condition.from_predicates([eight]).disjuncts) == 256
    nine = [*eight, Predicate("x8", "not between", 1, 2)]
    with pytest.raises(ConditionError, match="256 disjuncts"):
        Condition.from_predicates([nine])
    with pytest.raises(ConditionError, match="256 disjuncts"):
        Index().add_predicates(predicate_table(predicate_rows(1, [nine], Subscription())))
    # the same attribute again and again is not more
    assert len(Condition.from_predicates([[Predicate("x", "not between", i, 9) for i in range(1, 8)]]).disjuncts) == 2


def test_a_table_with_subscriptions_that_nothing_satisfies() -> None:
    never = [Predicate("x", "in", (1, 2)), Predicate("x", "=", 3)]
    for name in (lambda i: i, lambda i: f"s{i}"):
        index = Index()
        rows = [
            *predicate_rows(name(1), [never], Subscription(topic="1.4", semantics="symmetric")),
            *predicate_rows(name(2), [[Predicate("x", "in", (3, 4))]], Subscription(topic="1.4")),
            *predicate_rows(name(3), [never], Subscription()),
        ]
        assert index.add_predicates(predicate_table(rows)) == 3 == len(index)
        assert index.match({"x": 3}, topic="1.4") == [name(2)]
        assert index.condition(name(1)) == ((), "symmetric")
        assert not index.explain(name(3), {"x": 3}).matches
        assert index.add_predicates(predicate_table(predicate_rows(name(2), [never], Subscription()))) == 1
        assert len(index) == 3
        assert index.match({"x": 3}, topic="1.4") == []
        assert (
            index.add_predicates(predicate_table(predicate_rows(name(1), [[Predicate("x", "=", 3)]], Subscription())))
            == 1
        )
        assert index.match({"x": 3}, topic="1.4") == [name(1)]
        assert index.remove_many([name(1), name(2), name(3)]) == 3
        assert len(index) == 0


@pytest.mark.parametrize("name", ["", "n" * 256, "é" * 128, "a\0b"])
def test_names_in_a_table_are_checked(name: str) -> None:
    with pytest.raises(ConditionError, match="name"):
        Index().add_predicates(pa.table({"subscription_id": [1], "attribute": [name], "operator": ["is null"]}))


def test_moments_of_any_unit_in_a_table() -> None:
    for unit in ("s", "ms", "us", "ns"):
        index = Index()
        moments = pa.array([5, 5], pa.int64()).cast(pa.timestamp(unit, "UTC"))
        columns = {
            "subscription_id": [1, 2],
            "attribute": ["x", "x"],
            "operator": ["in", "<="],
            "value_timestamp": moments,
        }
        index.add_predicates(pa.table(columns))
        assert sorted(index.match_table(pa.table({"x": moments[:1]}))["subscription_id"].to_pylist()) == [1, 2]
    far = pa.array([2**62], pa.int64())
    for operator in ("in", "<=", "="):
        columns = {"subscription_id": [1], "attribute": ["x"], "operator": [operator], "value_timestamp": far}
        with pytest.raises(ConditionError, match="9999"):
            Index().add_predicates(pa.table(columns))


def test_shapes_need_their_bytes() -> None:
    rows = predicate_rows(1, one_list_each([[Predicate("p", "within", Point(0.0, 0.0))]]), Subscription())
    rows[0]["value_binary"] = b"12345"
    with pytest.raises(ValueError, match="5 bytes"):
        Index().add_predicates(predicate_table(rows))


@pytest.mark.parametrize("semantics", ["symmetric", "intersect"])
def test_a_contradiction_in_a_table_matches_nothing(semantics: Any) -> None:
    index = Index()
    rows = predicate_rows(1, [[Predicate("x", "between", 5, 3)]], Subscription(semantics=semantics))
    index.add_predicates(predicate_table(rows))
    assert index.match({}) == []
    assert index.match({"x": 4}) == []
