"""Each structure D of PUBSUB against a plain list, and the invariants of trees and tries after every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition, Index
from pastforward.matching.conditions.predicates import Predicate
from pastforward.matching.index.subscription import NewSubscription
from pastforward.papers.pubsub import forest as f
from pastforward.papers.pubsub.algorithm import KINDS
from tests.papers.pubsub_forest import Reader

values = st.integers(0, 40)
ranges = st.tuples(values, st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
steps = st.lists(st.tuples(st.sampled_from(("add", "add", "remove", "stab")), st.integers(0, 30), ranges), max_size=60)


def candidates_seen(index: Index) -> list[Any]:
    """The slots that D leads to, of each match from now on."""
    algorithm: Any = index._members.algorithm
    seen: list[Any] = []
    found = algorithm.candidates

    def candidates(batch: Any) -> Any:
        rows, slots = found(batch)
        seen.append(slots)
        return rows, slots

    algorithm.candidates = candidates
    return seen


def play(index: Index, script: list[Any], check: Callable[[dict[int, tuple[int, int]], int], None]) -> None:
    model: dict[int, tuple[int, int]] = {}
    for step, identity, (low, high) in script:
        if step == "add":
            index.add(identity, Condition.from_predicates([[Predicate("a", "between", low, high)]]))
            model[identity] = (low, high)
        elif step == "remove":
            assert index.remove(identity) == (model.pop(identity, None) is not None)
        else:
            check(model, low)
        Reader(index).check()
    for identity in list(model):
        index.remove(identity)
    Reader(index).check()


# Forty ranges in order, then out again from the front: rotations on both sides of a tree.
CLIMB = [("add", i, (i, i + 3)) for i in range(30)]
FALL = [("remove", i, (0, 0)) for i in range(28)]


@settings(max_examples=30, deadline=None)
@example(script=[*CLIMB, *FALL, ("stab", 0, (29, 29))])
@example(script=[*CLIMB[::-1], ("stab", 0, (15, 15)), *FALL[::-1]])
@given(script=steps)
def test_the_priority_search_tree_finds_what_a_list_finds_and_no_more(script: list[Any]) -> None:
    """With one range a bucket the hulls are the ranges, so the candidates are exact."""
    index = Index(algorithm="pubsub", structure="rbpst", bucket_size=1)
    seen = candidates_seen(index)

    def check(model: dict[int, tuple[int, int]], value: int) -> None:
        wanted = sorted(identity for identity, (low, high) in model.items() if low <= value <= high)
        assert sorted(index.match({"a": value})) == wanted
        assert not seen or len(seen[-1]) == len(wanted)
        seen.clear()

    play(index, script, check)


@settings(max_examples=30, deadline=None)
@example(script=[*CLIMB, *FALL, ("stab", 0, (29, 29))])
@given(script=steps)
def test_the_red_black_tree_finds_equal_values_alone(script: list[Any]) -> None:
    index = Index(algorithm="pubsub", structure="rb", bucket_size=1)

    def check(model: dict[int, tuple[int, int]], value: int) -> None:
        wanted = sorted(identity for identity, (low, _) in model.items() if low == value)
        assert sorted(index.match({"a": value})) == wanted

    play(index, [(step, i, (low, low)) for step, i, (low, _) in script], check)


@settings(max_examples=30, deadline=None)
@given(script=steps)
def test_the_red_black_tree_keeps_ranges_aside_and_finds_them(script: list[Any]) -> None:
    index = Index(algorithm="pubsub", structure="rb", bucket_size=1)

    def check(model: dict[int, tuple[int, int]], value: int) -> None:
        wanted = sorted(identity for identity, (low, high) in model.items() if low <= value <= high)
        assert sorted(index.match({"a": value})) == wanted

    play(index, script, check)


@pytest.mark.parametrize("domains", [{}, {"a": (0, 63)}, {"a": (10, 12)}])
@settings(max_examples=20, deadline=None)
@example(script=[*CLIMB, *FALL, ("stab", 0, (29, 29))])
@given(script=steps)
def test_the_interval_tree_finds_what_a_list_finds(domains: dict[str, tuple[int, int]], script: list[Any]) -> None:
    """A domain that does not hold all values costs depth, not matches."""
    index = Index(algorithm="pubsub", structure="interval", bucket_size=1, domains=domains)

    def check(model: dict[int, tuple[int, int]], value: int) -> None:
        wanted = sorted(identity for identity, (low, high) in model.items() if low <= value <= high)
        assert sorted(index.match({"a": value})) == wanted

    play(index, script, check)


patterns = st.text("ab", max_size=5)
pattern_steps = st.lists(
    st.tuples(
        st.sampled_from(("suffix", "suffix", "substring", "substring", "prefix", "=", "remove", "stab", "stab")),
        st.integers(0, 30),
        st.one_of(patterns, st.text("abü", max_size=8)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("structure", ["suffix", "aho-corasick"])
@settings(max_examples=30, deadline=None)
@example(script=[("substring", i, "ab" * i) for i in range(4)] + [("stab", 0, "xababab")])
@example(script=[("suffix", 0, "ab"), ("suffix", 1, "ab"), ("suffix", 2, "ab"), ("suffix", 3, "b"), ("stab", 0, "ab")])
@given(script=pattern_steps)
def test_the_tries_find_what_python_finds(structure: str, script: list[Any]) -> None:
    index = Index(algorithm="pubsub", structure=structure, bucket_size=1)
    seen = candidates_seen(index)
    model: dict[int, tuple[str, str]] = {}
    tests: dict[str, Callable[[str, str], bool]] = {
        "suffix": str.endswith,
        "substring": str.__contains__,
        "prefix": str.startswith,
        "=": str.__eq__,
    }
    for operator, identity, text in script:
        if operator == "remove":
            assert index.remove(identity) == (model.pop(identity, None) is not None)
        elif operator == "stab":
            wanted = sorted(i for i, (how, pattern) in model.items() if tests[how](text, pattern))
            seen.clear()
            assert sorted(index.match({"a": text})) == wanted
            assert not seen or len(set(seen[-1].tolist())) == len(seen[-1]), "no pair twice"
            assert index.match({"a": 1}) == []
        else:
            index.add(identity, Condition.from_predicates([[Predicate("a", operator, text)]]))
            model[identity] = (operator, text)
        Reader(index).check()


def test_tries_tell_patterns_apart() -> None:
    """A value reaches few of many patterns: the structure selects, verification does not do it alone."""
    words = [f"{i:03}" for i in range(500)]
    for structure, operator in (("suffix", "suffix"), ("suffix", "substring"), ("aho-corasick", "substring")):
        index = Index(algorithm="pubsub", structure=structure, bucket_size=4)
        for i, word in enumerate(words):
            index.add(i, Condition.from_predicates([[Predicate("a", operator, word)]]))
        Reader(index).check()
        seen = candidates_seen(index)
        assert index.match({"a": "x123"}) == [123]
        assert len(seen[0]) <= 12


@pytest.mark.parametrize(
    ("conditions", "kind"),
    [
        (["a = 1", "a = 2"], "rb"),
        (["a = 1", "a > 2"], "rbpst"),
        (["a LIKE '%x'", "a LIKE '%y'"], "suffix"),
        (["a LIKE '%x%'", "a LIKE '%y'"], "aho-corasick"),
        (["a LIKE '%x%'", "a = 'y'", "a = 'z'"], "rbpst"),
    ],
)
def test_auto_chooses_by_the_predicates(conditions: list[str], kind: str) -> None:
    index = Index(algorithm="pubsub")
    index.add_many([NewSubscription(i, Condition.parse(text).disjuncts) for i, text in enumerate(conditions)])
    reader = Reader(index)
    (structure,) = reader.structures.values()
    assert reader.forest.structures[structure, f.KIND] == KINDS[kind]


def test_auto_takes_the_interval_tree_where_the_domain_is_known() -> None:
    index = Index(algorithm="pubsub", domains={"a": (0, 99)})
    index.add(1, "a BETWEEN 3 AND 5")
    (structure,) = Reader(index).structures.values()
    assert Reader(index).forest.structures[structure, f.KIND] == KINDS["interval"]


def test_the_interval_tree_over_a_domain_is_no_deeper_than_its_logarithm() -> None:
    index = Index(algorithm="pubsub", structure="interval", bucket_size=1, domains={"a": (0, 63)})
    for i in range(64):
        index.add(i, f"a = {i}")
    forest = Reader(index).forest
    depth = 0
    nodes = int(forest.state[f.INTERVAL_POOL])
    for node in range(nodes):
        above, steps_up = node, 0
        while above != f.NONE:
            above = int(forest.intervals[above, f.PARENT])
            steps_up += 1
        depth = max(depth, steps_up)
    assert depth <= 7
    assert np.count_nonzero(forest.intervals[:nodes, f.BUCKET] >= 0) == 64
