"""The oracle itself: topics, time, semantics and `previous`, by example and by symmetry."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest
from hypothesis import given, settings

from pastforward.columns.vocabulary import SEMANTICS, Scope, Semantics, TimeBasis
from pastforward.matching import Condition
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.matching.conditions.oracle import Publication, Subscription, matches
from tests.matching import naive, strategies


def where(text: str) -> NormalForm:
    return Condition.parse(text).disjuncts


@pytest.mark.parametrize(
    ("wanted", "offered", "overlap", "subtree"),
    [
        ("", "", True, True),
        ("", "1.4", True, True),
        ("1.4", "", True, False),
        ("1.4", "1.4.2", True, True),
        ("1.4", "1", True, False),
        ("1.4", "1.40", False, False),
        ("1.4", "2.4", False, False),
    ],
)
def test_topics(wanted: str, offered: str, overlap: bool, subtree: bool) -> None:
    answers: list[tuple[Scope, bool]] = [("overlap", overlap), ("subtree", subtree)]
    for scope, expected in answers:
        assert matches(Subscription(topic=wanted, scope=scope), Publication(topic=offered)) is expected


@pytest.mark.parametrize(
    ("mode", "window", "validity", "expected"),
    [
        ("published", (10, 20), (10, None), True),
        ("published", (10, 20), (20, None), False),
        ("published", (10, 20), (9, 15), False),
        ("published", (10, 10), (10, None), False),
        ("published", (None, None), (-5, -5), True),
        ("valid", (10, 20), (5, 10), False),
        ("valid", (10, 20), (5, 11), True),
        ("valid", (10, 20), (19, None), True),
        ("valid", (10, 20), (20, None), False),
        ("valid", (10, 10), (5, 15), False),
        ("valid", (None, None), (5, 5), False),
    ],
)
def test_time(mode: TimeBasis, window: tuple[Any, Any], validity: tuple[int, Any], expected: bool) -> None:
    subscription = Subscription(starts_at=window[0], ends_at=window[1], time=mode)
    assert matches(subscription, Publication(published_at=validity[0], expires_at=validity[1])) is expected


@settings(max_examples=150, deadline=None)
@given(strategies.trees, strategies.trees)
def test_symmetric_is_classical_with_the_sides_exchanged(one: Any, other: Any) -> None:
    a, b = (where(naive.text(tree).replace("previous.", "earlier ")) for tree in (one, other))
    assert matches(Subscription(a, semantics="symmetric"), Publication(where=b)) is matches(
        Subscription(b), Publication(where=a)
    )
    both = [matches(Subscription(x, semantics="intersect"), Publication(where=y)) for x, y in ((a, b), (b, a))]
    assert both[0] is both[1]
    if any(matches(Subscription(a, semantics=semantics), Publication(where=b)) for semantics in SEMANTICS):
        assert both[0]


@settings(max_examples=150, deadline=None)
@given(strategies.trees, strategies.attributes)
def test_constants_under_classical_are_what_holds_says(tree: Any, attributes: dict[str, Any]) -> None:
    condition = Condition.parse(naive.text(tree))
    current = {name: value for name, value in attributes.items() if not name.startswith("previous.")}
    previous = {name.removeprefix("previous."): v for name, v in attributes.items() if name.startswith("previous.")}
    publication = Publication(current, previous=previous)
    assert matches(Subscription(condition.disjuncts), publication) is condition.holds(attributes)


def test_constants_and_where_conjoin() -> None:
    publication = Publication({"x": 5}, where("x > 3 AND y < 2 OR x < 3 AND z = 1"))
    assert matches(Subscription(where("y = 1 AND x = 5")), publication)
    assert not matches(Subscription(where("z = 1")), publication)  # 5 contradicts that alternative
    assert not matches(Subscription(where("TRUE")), Publication({"x": 5}, where("x IS NULL")))
    assert not matches(Subscription(where("TRUE")), Publication(where=where("FALSE")))


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_previous_is_a_fact_under_every_semantics(semantics: Semantics) -> None:
    subscription = Subscription(where("x = 1 AND previous.x < 5"), semantics=semantics)
    assert matches(subscription, Publication({"x": 1}, previous={"x": 4, "y": 2}))
    assert not matches(subscription, Publication({"x": 1}, previous={"x": 5}))
    assert not matches(subscription, Publication({"x": 1}))
    first = Subscription(where("x = 1 AND previous.x IS NULL"), semantics=semantics)
    assert matches(first, Publication({"x": 1}))
    assert not matches(first, Publication({"x": 1}, previous={"x": 4}))


@pytest.mark.parametrize("value", [nan, 2**63, "\ud800", b"", object()])
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_what_compares_with_nothing_is_present_all_the_same(value: Any, semantics: Semantics) -> None:
    for text, expected in (
        ("x IS NOT NULL", True),
        ("x IS NULL", False),
        ("x != 3", False),
        ("x < 1 OR x >= 1", False),
    ):
        assert matches(Subscription(where(text), semantics=semantics), Publication({"x": value})) is expected
