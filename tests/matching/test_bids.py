"""What a subscription bids: against trying every value, and by example."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.matching import Condition, Index
from pastforward.matching.conditions.bids import bid
from pastforward.matching.conditions.evaluate import disjunct_holds
from pastforward.matching.conditions.oracle import Publication

LAST = 12  # above every constant: what admits it has no upper end

predicates = st.one_of(
    st.builds("x <= {}".format, st.integers(1, 9)),
    st.builds("x >= {}".format, st.integers(1, 9)),
    st.builds("x BETWEEN {} AND {}".format, st.integers(1, 4), st.integers(4, 9)),
    st.builds("x IN ({}, {})".format, st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from(["kind = 'a'", "kind = 'b'"]),
)
conditions = st.lists(st.lists(predicates, min_size=1, max_size=2), min_size=1, max_size=3).map(
    lambda form: Condition.parse(" OR ".join(" AND ".join(conjunction) for conjunction in form))
)


def tried(wanted: Condition, offered: Condition, highest: bool) -> int | None:
    """Every pair of disjuncts that a value and a kind satisfy, and the last value that does so, if there is one."""
    ends = []
    for mine in wanted.disjuncts:
        for other in offered.disjuncts:
            for kind in ("a", "b"):
                fits = [
                    x
                    for x in range(-1, LAST + 1)
                    if disjunct_holds(mine, {"x": x, "kind": kind}) and disjunct_holds(other, {"x": x, "kind": kind})
                ]
                if fits and (fits[-1] != LAST if highest else fits[0] != -1):
                    ends.append(fits[-1] if highest else fits[0])
    return (max if highest else min)(ends, default=None)


@given(conditions, conditions, st.booleans())
def test_a_bid_is_the_last_value_that_both_admit(wanted: Condition, offered: Condition, highest: bool) -> None:
    publication = Publication({}, offered.disjuncts)
    found = bid(wanted.disjuncts, "intersect", publication, "x", highest=highest)
    assert (None if found is None else found.constant) == tried(wanted, offered, highest)


@pytest.mark.parametrize(
    ("condition", "where", "attributes", "prefer", "value"),
    [
        ("price <= 120", "price >= 100", {}, "highest", 120),
        ("price <= 90", "price >= 100", {}, "highest", None),
        ("price >= 110", "price >= 100", {}, "highest", None),
        ("price < 120.5", "price >= 100", {}, "highest", 120.5),
        ("price <= 120", "price >= 100", {}, "lowest", 100),
        ("price <= 120", None, {"price": 105}, "highest", 105),
        ("price <= 120 AND lot >= 1000", "price >= 100 AND lot BETWEEN 500 AND 2000", {}, "highest", 120),
        ("price <= 120 AND lot >= 1000", "price >= 100 AND lot < 1000", {}, "highest", None),
        ("price IN (110, 130, 150)", "price BETWEEN 100 AND 140", {}, "highest", 130),
        ("price <= 110 AND kind = 'a' OR price <= 130 AND kind = 'b'", "price >= 100", {"kind": "b"}, "highest", 130),
        ("price <= 'm'", "price >= 'a'", {}, "lowest", "a"),
        ("kind = 'a'", "price >= 100", {"kind": "a"}, "highest", None),
        (
            "price <= TIMESTAMP '2026-01-01T00:00:00Z'",
            "price IS NOT NULL",
            {},
            "highest",
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
    ],
)
def test_examples(condition: str, where: str | None, attributes: dict[str, Any], prefer: str, value: Any) -> None:
    wanted = Condition.parse(condition)
    publication = Publication(attributes, Condition.parse(where).disjuncts if where else ((),))
    for form in (wanted.disjuncts, as_held(wanted)):
        found = bid(form, "classical", publication, "price", highest=prefer == "highest")
        assert (None if found is None else found.value) == value


def as_held(condition: Condition) -> Any:
    index = Index()
    index.add("s", condition, semantics="classical")
    form, semantics = index.condition("s")
    assert semantics == "classical"
    return form


def test_an_index_tells_a_condition_back() -> None:
    index = Index()
    index.add("s", Condition.parse("x = 1 OR y > 2"), semantics="symmetric")
    form, semantics = index.condition("s")
    assert (set(form), semantics) == (set(Condition.parse("x = 1 OR y > 2").disjuncts), "symmetric")
    with pytest.raises(KeyError):
        index.condition("t")
