"""Random conditions of all types: every way of reading them agrees with the naive one."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition, ConditionError
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.merge import admits, meet
from pastforward.matching.conditions.normal_form import Family
from pastforward.matching.conditions.predicates import build, predicates_of
from pastforward.matching.conditions.templates import forget_shapes
from tests.matching import naive, strategies


@settings(max_examples=500, deadline=None)
@given(strategies.trees, st.lists(strategies.attributes, min_size=1, max_size=8))
def test_normal_form_means_what_was_written(tree: Any, publications: list[Mapping[str, Any]]) -> None:
    condition = Condition.parse(naive.text(tree))
    for attributes in publications:
        expected = naive.truth(tree, attributes) is True
        assert condition.holds(attributes) is expected
        assert condition.explain(attributes).matched is expected


@settings(max_examples=500, deadline=None)
@given(strategies.trees)
def test_text_and_structured_form_come_back_equal(tree: Any) -> None:
    condition = Condition.parse(naive.text(tree))
    assert Condition.parse(str(condition)) == condition
    assert Condition.from_predicates(condition.to_structured()) == condition


@settings(max_examples=150, deadline=None)
@given(st.lists(strategies.trees, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_a_known_shape_gives_what_a_full_parse_gives(trees: list[Any], random: Any) -> None:
    texts = [naive.text(other) for tree in trees for other in (tree, _with_other_constants(tree, random))]
    fresh = []
    for text in texts:
        forget_shapes()
        fresh.append(Condition.parse(text))
    forget_shapes()
    assert [Condition.parse(text) for text in texts] == fresh
    assert [Condition.parse(text) for text in texts] == fresh


def _with_other_constants(tree: Any, random: Any) -> Any:
    """The same shape: each constant replaced by another of its pool, lists shortened or lengthened."""
    if isinstance(tree, naive.Node):
        return naive.Node(tree.connective, tuple(_with_other_constants(part, random) for part in tree.parts))
    if isinstance(tree, bool) or tree.value is None:
        return tree
    if tree.operator in ("LIKE", "NOT LIKE"):
        return naive.Leaf(tree.attribute, tree.operator, random.choice(strategies.PATTERNS))
    if tree.operator in ("REGEXP", "NOT REGEXP"):
        return naive.Leaf(tree.attribute, tree.operator, random.choice(strategies.EXPRESSIONS))
    value = tree.value
    if isinstance(value, list):
        value = [_other(member, random) for member in value for _ in range(random.randint(1, 2))]
    elif isinstance(value, tuple):
        value = tuple(_other(member, random) for member in value)
    else:
        value = _other(value, random)
    return naive.Leaf(tree.attribute, tree.operator, value)


def _other(value: Any, random: Any) -> Any:
    if isinstance(value, bool):
        return value
    pools = (strategies.NUMBERS, strategies.STRINGS, strategies.TIMES, strategies.PATHS, strategies.SHAPES)
    for pool in pools:
        if any(type(value) is type(member) for member in pool):
            return random.choice(pool)
    raise AssertionError(f"{value!r} is in no pool")


_WORDS = (
    "AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE REGEXP overlaps within POINT BOX CIRCLE PATH TIMESTAMP INFINITY x y"
    " previous . , ( ) = != <> < <= >= ~ !~ - + 1 -2 3.5 1e400 99999999999999999999 'a' '1.4' '2026-01-01' '(' '' ' \" ` ; ::"
    " select case é \0 % * /* --"
)
_words = st.sampled_from(_WORDS.split())


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60), st.lists(_words, max_size=14).map(" ".join), st.lists(_words, max_size=14).map("".join)
    )
)
def test_any_text_is_a_condition_or_a_condition_error(text: str) -> None:
    taken = _parsed(text)
    if isinstance(taken, Condition):
        assert Condition.parse(str(taken)) == taken
    else:
        assert taken.position is not None
        assert 0 <= taken.position <= len(text)
        assert taken.hint


def _parsed(text: str) -> Condition | ConditionError:
    try:
        return Condition.parse(text)
    except ConditionError as error:
        return error


@settings(max_examples=500, deadline=None)
@given(strategies.leaves, strategies.leaves, st.lists(strategies.values, min_size=1, max_size=10))
def test_meet_is_conjunction(a: naive.Leaf, b: naive.Leaf, values: list[Any]) -> None:
    for left in Condition.parse(naive.text(naive.Leaf("x", a.operator, a.value))).disjuncts:
        for right in Condition.parse(naive.text(naive.Leaf("x", b.operator, b.value))).disjuncts:
            (_, one), (_, other) = left[0], right[0]
            both = meet(one, other)
            assert both == meet(other, one)
            for value in [*values, *_witnesses(one), *_witnesses(other)]:
                expected = satisfies(one, value) and satisfies(other, value)
                assert (both is not None and satisfies(both, value)) is expected
            if both is not None and both.family is Family.TIMESTAMP and both.included is None:
                # The bounds themselves, which may lie beyond what a datetime can hold.
                assert all(admits(both, bound) for bound in (both.low, both.high) if bound is not None)
            elif both is not None and both.family not in (Family.NULL, Family.GEOMETRY) and not both.patterns:
                # Where there are neither patterns nor shapes the answer is exact: something does satisfy both.
                assert any(satisfies(both, value) for value in _witnesses(both))


def _witnesses(constraint: Any) -> list[Any]:
    """Values at and around everything that the constraint mentions."""
    mentioned = [value for p in predicates_of("x", constraint) for value in (p.value, p.high) if value is not None]
    flat = [value for mention in mentioned for value in (mention if isinstance(mention, tuple) else (mention,))]
    near: list[Any] = [0, 0.5, inf, -inf, "", "m", True, *strategies.TIMES, *strategies.PATHS]
    for value in flat:
        near.append(value)
        if isinstance(value, str):
            near += [value + "\0", value + "m"]
        elif isinstance(value, int | float):
            near += [value + 1, value - 1, value / 2, value + 0.5, float(value) * 2]
        elif isinstance(value, type(strategies.PATHS[0])):
            near += [type(value)(f"{value.text}.0".lstrip(".")), type(value)(f"{value.text}.7".lstrip("."))]
    for low in flat:
        near += [
            (low + high) / 2
            for high in flat
            if isinstance(low, int | float) and isinstance(high, int | float) and abs(low) < 1e300 and abs(high) < 1e300
        ]
    return near


@settings(max_examples=150, deadline=None)
@given(strategies.leaves)
def test_predicates_of_a_constraint_merge_back_into_it(leaf: naive.Leaf) -> None:
    for disjunct in Condition.parse(naive.text(leaf)).disjuncts:
        for name, constraint in disjunct:
            merged = None
            for predicate in predicates_of(name, constraint):
                built = build(predicate)
                assert built is not None
                merged = built if merged is None else meet(merged, built)
            assert merged == constraint
