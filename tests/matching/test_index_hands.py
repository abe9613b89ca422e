"""What somebody types into a REPL: wrong types, every operator one at a time, asking about every kind of subscription."""

from __future__ import annotations

from typing import Any

import pytest

from pastforward.columns.vocabulary import OPERATORS, SEMANTICS
from pastforward.matching import Condition, Index
from pastforward.matching.conditions import patterns
from pastforward.matching.conditions.oracle import Subscription
from pastforward.matching.conditions.predicates import Predicate
from tests.matching.test_index_memory import CONDITIONS, held
from tests.matching.test_index_oracle import predicate_rows, predicate_table
from tests.matching.test_structured import predicates_of


@pytest.mark.parametrize("algorithm", ["auto", "linear"])
@pytest.mark.parametrize("name", [5, None, b"x", ("x",), 1.5])
def test_a_name_that_is_no_string(algorithm: str, name: Any) -> None:
    index = Index(algorithm)
    index.add(1, "x = 1")
    for attributes in ({name: 1}, {"x": 1, name: 2}, {name: "a"}, {"x": "a", name: "a"}):
        for more in ({}, {"topic": "1.4"}, {"where": "y = 1"}, {"previous": {"y": 1}}):
            with pytest.raises(TypeError, match="name of an attribute; give a string"):
                index.match(attributes, **more)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="name of an attribute"):
            index.explain(1, attributes)
    with pytest.raises(TypeError, match="name of an attribute"):
        index.match({"x": 1}, previous={name: 1})
    constraint = Condition.parse("x = 1").disjuncts[0][0][1]
    with pytest.raises(ValueError, match="name of an attribute"):
        index.add(2, (((name, constraint),),))
    with pytest.raises(ValueError, match="name of an attribute"):
        Condition.from_predicates([[(name, "=", 1)]])
    assert index.match({"x": 1}) == [1]
    assert len(index) == 1


@pytest.mark.parametrize("given", [5, 1.5, {"x": 1}, [["x = 1"]], [5], object()])
def test_what_is_no_condition(given: Any) -> None:
    index = Index()
    for take in (lambda: index.add(1, given), lambda: index.cost(given), lambda: index.match({"x": 1}, where=given)):
        with pytest.raises(TypeError, match="no condition"):
            take()
    assert len(index) == 0


@pytest.mark.parametrize("given", [5, None, "x", [("x", 1)]])
def test_what_are_no_attributes(given: Any) -> None:
    index = Index()
    index.add(1, "x = 1")
    with pytest.raises(TypeError, match="no attributes"):
        index.match(given)
    with pytest.raises(TypeError, match="no attributes"):
        index.explain(1, given)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_a_thousand_of_every_operator_one_at_a_time(operator: str) -> None:
    chosen = predicates_of(operator)
    index, bulk = Index(), Index()
    predicates = [chosen[i % len(chosen)] for i in range(1_000)]
    for i, predicate in enumerate(predicates):
        index.add(i, Condition.from_predicates([[predicate]]))
    bulk.add_predicates(
        predicate_table([row for i, p in enumerate(predicates) for row in predicate_rows(i, [[p]], Subscription())])
    )
    for value in (None, 1, 0.5, "ab", True, *(v for p in chosen[:5] for v in (p.value,) if not isinstance(v, tuple))):
        expected = [i for i, p in enumerate(predicates) if Condition.from_predicates([[p]]).holds({"x": value})]
        assert sorted(index.match({"x": value})) == expected == sorted(bulk.match({"x": value}))
    assert held(index) <= 2 * held(bulk) + 1_000_000


@pytest.mark.parametrize("algorithm", ["auto", "pubsub"])
def test_every_kind_can_be_asked_about(algorithm: str) -> None:
    index = Index(algorithm)
    for number, (kind, make) in enumerate(CONDITIONS.items()):
        for semantics in SEMANTICS:
            condition = Condition.parse(make(number))
            index.cost(condition, topic="1.4", semantics=semantics)
            index.add(kind + semantics, condition, topic="1.4", semantics=semantics)
            disjuncts, told = index.condition(kind + semantics)
            assert told == semantics
            assert {frozenset(disjunct) for disjunct in disjuncts} == {frozenset(d) for d in condition.disjuncts}
            assert str(index.explain(kind + semantics, {"x": 1}, topic="1.4"))
    assert len(index) == 3 * len(CONDITIONS)


def test_asking_what_it_would_cost_keeps_nothing() -> None:
    index = Index()
    empty = index.nbytes
    for i in range(300):
        index.cost(f"a{i} = 'text {i}' AND b{i} LIKE 'x%y{i}'", topic=f"{i}.1")
    assert index.nbytes - empty < 1_000_000
    assert len(index) == 0


def test_texts_of_ids_that_a_table_replaces_are_given_back() -> None:
    index = Index()
    empty = index.nbytes
    for i in range(80):
        rows = [
            row
            for k in range(20)
            for row in predicate_rows(f"{i}-{k}" + "n" * 400, [[Predicate("x", "=", k)]], Subscription())
        ]
        for _ in range(2):
            index.add_predicates(predicate_table(rows))
        assert index.remove_many([f"{i}-{k}" + "n" * 400 for k in range(20)]) == 20
    assert len(index) == 0
    assert index.nbytes - empty < 300_000


def test_compiled_expressions_are_bounded_by_their_bytes() -> None:
    patterns._compiled.clear()
    for i in range(200):
        Condition.parse(f"x REGEXP '{'k' * 900}{i}' OR x LIKE 'a%{'k' * 900}{i}_'")
    kept = patterns._compiled
    assert 0 < len(kept) <= 400
    assert kept.weight <= patterns._COMPILED_BYTES
    assert kept.weight / len(kept) > 30_000
    small = type(kept)(10_000, 100_000)
    for i in range(100):
        small.put(("matches", str(i)), patterns._Compiled(None, 30_000))
    assert len(small) == 3
