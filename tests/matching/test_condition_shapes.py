"""Known shapes are not parsed again, and what is remembered is bounded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition
from pastforward.matching.conditions import parser as syntax
from pastforward.matching.conditions.errors import ConditionError
from pastforward.matching.conditions.scan import UNCLOSED, scan
from pastforward.matching.conditions.template_cache import ShapeCache
from pastforward.matching.conditions.templates import forget_shapes
from tests.matching import strategies as some


def test_a_known_shape_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_shapes()
    Condition.parse("kind = 'a' AND x IN (1, 2) AND y > -3 AND t > TIMESTAMP '2026-01-01'")

    def refuse(_: str) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr(syntax.sqlglot, "parse", refuse)
    condition = Condition.parse("kind = 'b''c' AND x IN (5, -6.5, 7) AND y > 4e3 AND t > TIMESTAMP '2026-02-01'")
    assert (
        str(condition)
        == "kind = 'b''c' AND t >= TIMESTAMP '2026-02-01T00:00:00.000001Z' AND x IN (-6.5, 5, 7) AND y > 4000"
    )
    with pytest.raises(AssertionError, match="parsed again"):
        Condition.parse("kind = 3 AND x IN (1, 2) AND y > -3 AND t > TIMESTAMP '2026-01-01'")


@pytest.mark.parametrize(
    ("text", "shape", "slots"),
    [
        ("x1 = 1", ("x1 = ", "0", ""), ["1"]),
        ("x=-1.5e3 OR y='a''b'", ("x=", "0", " OR y=", "'", ""), ["-1.5e3", "'a''b'"]),
        ("x IN ( 1 , -2 )", ("x IN ( ", "00", " )"), [["1", "-2"]]),
        ("x IN (1, 'a')", ("x IN (", "00", ", ", "'", ")"), [["1"], "'a'"]),
        ("x IN (1,", ("x IN (", "00", ","), [["1"]]),
        ('"a\'1" = 2', ('"a\'1" = ', "0", ""), ["2"]),
        ("x = 1.2.3", ("x = 1.2.3",), []),
        ("x = 'open", ("x = ", "'", UNCLOSED), ["'open"]),
    ],
)
def test_scan(text: str, shape: tuple[str, ...], slots: list[str | list[str]]) -> None:
    assert scan(text) == (shape, slots)


@dataclass
class Heavy:
    weight: int


def test_the_oldest_shapes_go_first() -> None:
    cache: ShapeCache[Heavy] = ShapeCache(max_count=3, max_weight=10)
    for place in range(4):
        cache.put((str(place),), Heavy(1))
    assert [cache.get((str(place),)) is not None for place in range(4)] == [False, True, True, True]
    cache.put(("heavy",), Heavy(9))
    assert len(cache) == 2
    cache.put(("heavy",), Heavy(9))
    cache.put(("too heavy",), Heavy(11))
    assert len(cache) == 2
    cache.clear()
    cache.put(("heavy",), Heavy(10))
    assert len(cache) == 1


def test_threads_read_the_same() -> None:
    forget_shapes()
    texts = [f"a{i % 50} = {i} AND b > {i}" for i in range(400)]
    with ThreadPoolExecutor(4) as pool:
        parsed = list(pool.map(Condition.parse, texts))
    assert [str(condition) for condition in parsed] == texts


_predicates = st.one_of(
    st.builds(
        lambda name, operator, constant: f"{name} {operator} {constant}",
        st.sampled_from(["a", "b", "A", "c1", "null", "not x", "previous.a"]),
        st.sampled_from(["=", "!=", "<", ">=", "<>", "LIKE", "NOT LIKE", "like"]),
        st.sampled_from(["1", "-2", "2.5", "'x'", "'x%'", "'it''s'", "NULL", "b", "1e999"]),
    ),
    st.sampled_from(
        ["a BETWEEN 1 AND 5", "a between 4 and 9", "b IN (1, 2)", "b IN ('x', 'y')", "b IN (1, 'x')", "(a = 1)"]
    ),
    some.texts(max_leaves=2),
)


def _outcome(text: str) -> object:
    try:
        return Condition.parse(text).disjuncts
    except ConditionError as error:
        return str(error)


@settings(max_examples=200, deadline=None)
@given(st.lists(_predicates, min_size=1, max_size=5), st.sampled_from([" AND ", " and ", "\nAND  ", " OR "]))
def test_a_new_shape_says_what_a_known_one_does(parts: list[str], joint: str) -> None:
    """First it is bound predicate by predicate, then compiled, then known."""
    forget_shapes()
    text = joint.join(parts)
    assert _outcome(text) == _outcome(text) == _outcome(text)


def test_shapes_that_come_once_cost_no_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_shapes()
    for name in ("a", "b", "c"):
        Condition.parse(f"{name} = 1 AND x BETWEEN 1 AND 2")

    def refuse(*_: object) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr(syntax, "parse", refuse)
    assert (
        str(Condition.parse("a = 5 AND c = 7 AND b = 6 AND x BETWEEN 3 AND 4"))
        == "a = 5 AND b = 6 AND c = 7 AND x BETWEEN 3 AND 4"
    )
    assert Condition.parse("a = 5 AND b = 1 AND a = 6").never
