"""LIKE knows no lines: `%` and `_` stand for a line break as for any other character, in every kind of pattern."""

from __future__ import annotations

import pytest

from pastforward.matching import Condition, Index
from pastforward.matching.conditions import oracle

BREAKS = ["\n", "\r", "\u2028", "\x00"]
CASES = [
    ("a%", "a{}b", True),
    ("%b", "a{}b", True),
    ("%a%", "{}a{}", True),
    ("a%b", "a{}b", True),
    ("a_b", "a{}b", True),
    ("a__b", "a{}b", False),
    ("_%_", "{}{}", True),
    ("a_", "a{}", True),
    ("a%b", "a{}b{}", False),
    ("a_b", "a{}b{}", False),
]


@pytest.mark.parametrize("line_break", BREAKS, ids=ascii)
def test_wildcards_cross_lines(line_break: str) -> None:
    index = Index()
    patterns = sorted({pattern for pattern, _, _ in CASES})
    conditions = {p: Condition.parse(f"x LIKE '{p}'") for p in patterns}
    negated = {p: Condition.parse(f"NOT x LIKE '{p}'") for p in patterns}
    for pattern in patterns:
        index.add(pattern, conditions[pattern])
        index.add(f"not {pattern}", negated[pattern])
    for pattern, text, expected in CASES:
        value = text.replace("{}", line_break)
        said = oracle.Publication(attributes={"x": value})
        for name, condition, wanted in (
            (pattern, conditions[pattern], expected),
            (f"not {pattern}", negated[pattern], not expected),
        ):
            assert oracle.matches(oracle.Subscription(condition.disjuncts), said) == wanted, (name, value)
            assert (name in index.match({"x": value})) == wanted, (name, value)
