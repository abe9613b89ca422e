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
    st.builds("x {} {}".format, st.sampled_from(["<", "<=", ">", ">="]), st.integers(1, 9)),
    st.builds("x BETWEEN {} AND {}".format, st.integers(1, 4), st.integers(4, 9)),
    st.builds("x IN ({}, {})".format, st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from(["kind = 'a'", "kind = 'b'"]),
)
conditions = st.lists(st.lists(predicates, min_size=1, max_size=2), min_size=1, max_size=3).map(
    lambda form: Condition.parse(" OR ".join(" AND ".join(conjunction) for conjunction in form))
)


def tried(wanted: Condition, offered: Condition, highest: bool) -> tuple[float, int] | None:
    """Every pair of disjuncts that a value and a kind satisfy, and the last value that does so, if there is one. Halves stand for what
    lies between two constants: where they come last, the constant beyond is the limit, which is not reached."""
    ends = []
    for mine in wanted.disjuncts:
        for other in offered.disjuncts:
            for kind in ("a", "b"):
                fits = [
                    x / 2
                    for x in range(-1, 2 * LAST + 1)
                    if disjunct_holds(mine, {"x": x / 2, "kind": kind})
                    and disjunct_holds(other, {"x": x / 2, "kind": kind})
                ]
                if fits and (fits[-1] != LAST if highest else fits[0] != -0.5):
                    last = fits[-1] if highest else fits[0]
                    beside = 0 if last == int(last) else -1 if highest else 1
                    ends.append((last - beside / 2, beside))
    return (max if highest else min)(ends, default=None)


@given(conditions, conditions, st.booleans())
def test_a_bid_is_the_last_value_that_both_admit(wanted: Condition, offered: Condition, highest: bool) -> None:
    publication = Publication({}, offered.disjuncts)
    found = bid(wanted.disjuncts, "intersect", publication, "x", highest=highest)
    assert (None if found is None else (found.constant, found.beside)) == tried(wanted, offered, highest)


@pytest.mark.parametrize(
    ("better", "worse", "prefer"),
    [
        ("price <= 150", "price < 150", "highest"),
        ("price < 150.5", "price <= 150", "highest"),
        ("price >= 150", "price > 150", "lowest"),
        ("price > 149", "price >= 150", "lowest"),
        ("price <= 'm'", "price < 'm'", "highest"),
        ("price <= 'm'", "price <= 'm' AND price LIKE '%x'", "highest"),
        ("price <= TIMESTAMP '2026-01-01T00:00:00Z'", "price < TIMESTAMP '2026-01-01T00:00:00Z'", "highest"),
    ],
)
def test_what_is_not_reached_yields(better: str, worse: str, prefer: str) -> None:
    publication = Publication({}, Condition.parse("price IS NOT NULL").disjuncts)
    highest = prefer == "highest"
    first, second = (
        bid(Condition.parse(each).disjuncts, "classical", publication, "price", highest=highest)
        for each in (better, worse)
    )
    assert first is not None
    assert second is not None
    assert first > second if highest else first < second


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
        ("price <= 'm'", "price >= 'a'", {}, "highest", "m"),
        ("price < 'm'", "price >= 'a'", {}, "highest", "m"),
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
