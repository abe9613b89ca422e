"""Random values and conditions. Small pools, so that constants meet; the awkward values are in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan
from typing import Any

from hypothesis import strategies as st

from matching.values import Box, Circle, Path, Point
from tests.matching.naive import Leaf, Node

NUMBERS = [
    *(0, 1, 2, 3, 5, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(-0.0, 0.5, 1.0, 2.5, float(2**53), float(2**63), -float(2**63), 1e300, inf, -inf),
]
STRINGS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "ba",
    "a%b",
    "a_",
    "é",
    "日本",
    "a\0",
    "\0",
    "it's",
    "\ud7ff",
    "\ue000x",
    "\U0010ffff",
    "A!",
]
TIMES = [
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 2, tzinfo=UTC),
    datetime(2026, 1, 1, 3, tzinfo=timezone(timedelta(hours=3))),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
]
PATHS = [Path(text) for text in ("", "0", "1", "1.4", "1.4.0", "1.4.2", "1.5", "1.9", "1.10", "2", f"1.{2**63 - 1}")]
SHAPES = [
    *(Point(0.0, 0.0), Point(1.0, 1.0), Point(180.0, 0.0), Point(-180.0, 0.0), Point(0.0, 90.0)),
    *(
        Box(0.0, 0.0, 1.0, 1.0),
        Box(-1.0, -1.0, 2.0, 2.0),
        Box(170.0, -5.0, 180.0, 5.0),
        Box(-180.0, -90.0, 180.0, 90.0),
    ),
    *(Circle(0.0, 0.0, 1000.0), Circle(0.5, 0.5, 200_000.0), Circle(179.9, 0.0, 50_000.0), Circle(0.0, 90.0, 1e6)),
]
PATTERNS = ["%", "a%", "%a", "%b%", "a%b", "_", "a_%", "%_a", "abc", "a!%b", "!_%", "", "%%a%%", "\U0010ffff%", "_%_"]
EXPRESSIONS = ["a", "^a", "b$", "a.*b", "[0-9]+", "^(a|b)c?$", "日"]
NAMES = ["x", "y", "z", "previous.x", 'o"dd name', "select", "path"]

constants: st.SearchStrategy[Any] = st.one_of(
    st.booleans(), *(st.sampled_from(pool) for pool in (NUMBERS, STRINGS, TIMES, PATHS, SHAPES))
)
# What a publication may carry: also what compares with nothing.
values: st.SearchStrategy[Any] = st.one_of(
    constants,
    st.sampled_from(
        [None, nan, 2**63, "\ud800", Path("1..2"), Point(nan, 0.0), Box(2.0, 0.0, 1.0, 0.0), b"bytes", [1]]
    ),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=4),
)
names = st.sampled_from(NAMES)
attributes = st.dictionaries(names, values, max_size=6)

_ordered = st.one_of(*(st.sampled_from(pool) for pool in (NUMBERS, STRINGS, TIMES, PATHS)))
_located = st.sampled_from([*SHAPES, *PATHS])
_comparisons = ["<", "<=", ">", ">="]
_relations = ["overlaps", "contains", "within"]

leaves: st.SearchStrategy[Leaf] = st.one_of(
    st.builds(Leaf, names, st.sampled_from(["=", "!=", "mirrored =", "mirrored !="]), constants),
    st.builds(Leaf, names, st.sampled_from([*_comparisons, *(f"mirrored {name}" for name in _comparisons)]), _ordered),
    st.builds(Leaf, names, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), st.tuples(_ordered, _ordered)),
    st.builds(Leaf, names, st.sampled_from(["IN", "NOT IN"]), st.lists(constants, min_size=1, max_size=4)),
    st.builds(
        Leaf, names, st.sampled_from(["IN", "NOT IN"]), st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=4)
    ),
    st.builds(Leaf, names, st.sampled_from(["LIKE", "NOT LIKE"]), st.sampled_from(PATTERNS)),
    st.builds(Leaf, names, st.sampled_from(["REGEXP", "NOT REGEXP"]), st.sampled_from(EXPRESSIONS)),
    st.builds(Leaf, names, st.sampled_from(_relations), _located),
    st.builds(Leaf, names, st.sampled_from(["IS NULL", "IS NOT NULL", ""])),
)
trees: st.SearchStrategy[Any] = st.recursive(
    st.one_of(leaves, leaves, leaves, st.booleans()),
    lambda inner: st.one_of(
        st.builds(lambda part: Node("NOT", (part,)), inner),
        st.builds(lambda parts: Node("AND", tuple(parts)), st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda parts: Node("OR", tuple(parts)), st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)
