"""A rule sends what a constraint asks for to where the constraint is stored; with so many partitions that no two keys
fall together by chance."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.merge import meet
from pastforward.matching.conditions.normal_form import Constraint, Family
from pastforward.streams.routing.catalog import Attribute, Catalog
from pastforward.streams.routing.rules import ByName, ByValue, Rule, by_interval, by_precision
from tests.streams.routing.records import CATALOG, FITTING, ODD, predicates_on

PARTITIONS = 1_000_003
RULES: list[Rule] = [
    make(attribute, PARTITIONS)
    for attribute in CATALOG.attributes
    for make in ((ByName, ByValue) if attribute.kind == "equality" else (ByName, by_interval, by_precision))
]


@st.composite
def constraints(draw: st.DrawFn, name: str) -> Constraint:
    disjuncts = Condition.parse(draw(predicates_on(name))).disjuncts
    return dict(draw(st.sampled_from(disjuncts)))[name] if disjuncts else Constraint(Family.ANY)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(RULES))
def test_a_value_goes_where_the_constraints_it_satisfies_are(data, rule):
    name = rule.attribute.name
    constraint = data.draw(constraints(name))
    if not rule.usable(constraint):
        return
    stored = rule.of_constraint(constraint)
    for value in (*FITTING[name], *ODD):
        if satisfies(constraint, value):
            assert rule.of_value(value) in stored, value


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(RULES))
def test_a_published_constraint_goes_where_those_it_meets_are(data, rule):
    wanted, published = (data.draw(constraints(rule.attribute.name)) for _ in range(2))
    if published.family is Family.NULL or not rule.usable(wanted) or meet(wanted, published) is None:
        return
    sent = _published(rule, published)
    assert any(partition in sent for partition in rule.of_constraint(wanted))


def _published(rule: Rule, constraint: Constraint) -> set[int] | range:
    if isinstance(rule, ByValue) and constraint.included is None:
        return range(PARTITIONS)  # what `of_published` gives, without a set of a million
    return set(rule.of_published(constraint))


def rule_over(domain: list[object], type_: str, **more: object) -> Attribute:
    entry = {"name": "x", "type": type_, "kind": "range", "domain": domain}
    return Catalog.from_json({"attribute": [entry | more]}).attributes[0]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("x BETWEEN 42 AND 49", 8, 9),
        ("x >= 40 AND x < 45", 8, 8),
        ("x > 44 AND x <= 45", 8, 9),
        ("x < 5", 0, 0),
        ("x > 497", 99, 99),
        ("x < -5", 0, 0),
        ("x > 900", 99, 99),
    ],
)
def test_lo_and_chius_example(text, first, last):
    """Price over 0 to 500 in 100 intervals: 42 to 49 is in those of 40 and 45. What is outside is at the ends."""
    rule = by_interval(rule_over([0, 500], "integer", intervals=100), PARTITIONS)
    constraint = dict(Condition.parse(text).disjuncts[0])["x"]
    assert rule.of_constraint(constraint) == set(rule.table[first : last + 1])


def test_integers_are_cut_at_integers_and_pav_has_a_key_for_each():
    attribute = rule_over([0, 500], "integer", intervals=12)
    assert by_interval(attribute, 7).lows == [42.0 * number for number in range(12)]
    assert by_precision(attribute, 7).lows == [float(number) for number in range(501)]


def test_an_open_end_that_is_no_double_is_not_trusted():
    """2^53 + 1 is 2^53 as a double: what is below the one may share an interval with the other."""
    lows = [[0, 2**53], [2**53, 2**60]]
    rule = by_interval(rule_over([0, 2**60], "integer", intervals=lows), PARTITIONS)
    constraint = dict(Condition.parse(f"x > 5 AND x < {2**53 + 1}").disjuncts[0])["x"]
    assert rule.of_value(2**53) in rule.of_constraint(constraint)


def test_equal_numbers_have_equal_keys():
    attribute = Attribute("x", "float", "equality")
    rule = ByValue(attribute, PARTITIONS)
    assert rule.of_value(3) == rule.of_value(3.0)
    assert rule.of_value(0) == rule.of_value(-0.0)
    assert rule.of_value(2**53) != rule.of_value(2**53 + 1)
    assert rule.of_value(True) is None
    assert rule.of_value(float("nan")) is None
