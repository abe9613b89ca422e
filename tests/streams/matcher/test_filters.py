"""A filter lets through whatever its subscription accepts, of the whole language, and leaves out what it can."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import nan
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pastforward.columns.attributes import BOOLEAN, Attributes
from pastforward.columns.times import SECOND
from pastforward.matching import Condition
from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.normal_form import ALWAYS, NormalForm
from pastforward.schemas import CanonicalPublication, CanonicalSubscription, Rendezvous, Version, encode
from pastforward.state import Store, blocks, open_store, searching
from pastforward.state.operations import batch_of
from pastforward.state.search import EVERYTHING, NUMBER, TEXT, Filter, Predicate, Range
from pastforward.streams.matcher.filters import MEMBERS, SAYS_MORE, filter_of, marked
from pastforward.streams.matcher.held import attributes_of
from tests.matching import strategies
from tests.state.tables import table
from tests.state.test_search import found_by, publication, subscription
from tests.streams.matcher.test_engine import Engines

START = 1_000 * SECOND
STATED = (Predicate(SAYS_MORE, ()),)


@pytest.fixture(autouse=True)
def everything_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FEW", 0)


def published(n: int, attributes: dict[str, Any], where: NormalForm = ALWAYS) -> Rendezvous:
    stated = None if where == ALWAYS else where
    record = CanonicalPublication(f"p{n}", None, "1", START, None, None, False, attributes, stated)
    return Rendezvous("publications", 0, n, START, 1, (0,), record)


def subscribed(n: int, where: NormalForm, **more: Any) -> Rendezvous:
    version = Version(START, 0, n)
    record = CanonicalSubscription(
        f"s{n}", f"u{n}", version, "", "overlap", START - SECOND, None, "published", where, **more
    )
    return Rendezvous("subscriptions", 0, n, START, 1, (0,), record)


@st.composite
def answers(draw: st.DrawFn, asked: list[oracle.Subscription]) -> oracle.Publication:
    """A good part of them match one of those who ask."""
    some = draw(
        st.one_of(*map(strategies.meeting, asked), *map(strategies.meeting, asked), strategies.publications(False))
    )
    odd = draw(st.sampled_from([{}, {}, {}, {"x": nan}]))
    return replace(some, topic="1", published_at=0, expires_at=None, attributes={**some.attributes, **odd})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(strategies.conditions(), min_size=1, max_size=4), st.data())
def test_what_a_condition_accepts_passes_its_filter(conditions: list[Condition], data: st.DataObject) -> None:
    """Also where what is published has a condition of its own; in slices of small blocks, and in memory."""
    asked = [oracle.Subscription(condition.disjuncts) for condition in conditions]
    some = data.draw(st.lists(answers(asked).filter(lambda one: one.where != ()), min_size=1, max_size=12))
    cut = data.draw(st.integers(0, len(some)), "in slices")
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="store-") as directory:
        patch.setattr(blocks, "BLOCK", data.draw(st.integers(1, 4), "block"))
        with open_store(directory, hot_window=1_000, reader=attributes_of) as store:
            store._publications.most = 1
            payloads = [encode(published(n, dict(each.attributes), each.where)) for n, each in enumerate(some)]
            rows = [publication(n, payload=payload) for n, payload in enumerate(payloads)]
            for part in (rows[:cut], rows[cut:]):
                if part:
                    store.apply_columns(batch_of(table(part)), find="past")
                if part is not rows[cut:] and cut:
                    store.commit(1)
            store.apply_columns(batch_of(table([subscription(100 + n, "1") for n in range(len(asked))])), find="past")
            given = [filter_of(each.disjuncts) for each in asked]
            found = found_by(store.search(dict(enumerate(given))))
        matching = pruned = 0
        for row, each in enumerate(asked):
            wanted = {payload for payload, one in zip(payloads, some, strict=True) if oracle.matches(each, one)}
            assert wanted <= found.get(row, set())
            matching += len(wanted)
            pruned += len(payloads) - len(found.get(row, set()))
        event(f"some match: {matching > 0}, some are left out: {pruned > 0}")


def filtered(text: str) -> Filter:
    return filter_of(Condition.parse(text).disjuncts)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x = 7", Predicate("x", (Range(NUMBER, 7, 7),))),
        ("x > 9007199254740993", Predicate("x", (Range(NUMBER, 2**53 + 1, None),))),
        ("x IN (1, 2.5)", Predicate("x", (Range(NUMBER, 1, 1), Range(NUMBER, 2.5, 2.5)))),
        ("x != 7", Predicate("x", (Range(NUMBER, None, None),))),
        ("x LIKE 'é%'", Predicate("x", (Range(TEXT, "é".encode(), "ê".encode()),))),
        ("x LIKE '%a'", Predicate("x", ())),
        ("x IS NOT NULL", Predicate("x", ())),
        ("within(x, PATH '1.4')", Predicate("x", ())),
    ],
)
def test_a_predicate_becomes_ranges(text: str, wanted: Predicate) -> None:
    assert filtered(text) == Filter(((wanted,), STATED))


def test_what_is_long_is_cut_short() -> None:
    members = ", ".join(map(str, range(MEMBERS + 1)))
    assert filtered(f"x IN ({members})") == Filter(((Predicate("x", (Range(NUMBER, 0, MEMBERS),)),), STATED))
    assert filtered(" OR ".join(f"x{i} = 1" for i in range(17))) == EVERYTHING


@pytest.mark.parametrize("text", ["x IS NULL", "previous.x = 1", "x = 1 OR y IS NULL"])
def test_what_an_absent_attribute_satisfies_is_not_filtered(text: str) -> None:
    assert filtered(text) == EVERYTHING


def test_publications_that_state_a_condition_are_marked() -> None:
    given = Attributes(
        ["a", "b"], np.array([0, 2, 2, 3]), np.array([0, 1, 1], np.int32), np.array([2, 2, 2], np.uint8),
        np.array([5, 6, 7]), np.zeros(3, np.int32), np.empty(0, np.uint8),
    )  # fmt: skip
    assert marked(given, np.zeros(3, np.bool_)) is given
    found = marked(given, np.array([True, True, False]))
    rows = [
        {found.names[found.name[at]]: (int(found.tag[at]), int(found.bits[at])) for at in range(low, high)}
        for low, high in pairwise(found.start.tolist())
    ]
    assert rows == [{SAYS_MORE: (BOOLEAN, 1), "a": (2, 5), "b": (2, 6)}, {SAYS_MORE: (BOOLEAN, 1)}, {"b": (2, 7)}]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    """A thousand publications in blocks of ten, most of them in slices; one states a condition."""
    monkeypatch.setattr(blocks, "BLOCK", 10)
    with tempfile.TemporaryDirectory() as directory:
        made = Engines(directory, "dual", True)
        made.engine.store._publications.most = 100
        try:
            for first in range(0, 1_000, 100):
                made.feed([published(n, {"x": n, "kind": f"kind-{n // 100}"}) for n in range(first, first + 100)])
                made.commit()
            yield made
        finally:
            made.engine.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The searches that are made."""
    made: list[Any] = []
    whole = Store.search

    def search(self: Store, *given: Any) -> Any:
        made.append(whole(self, *given))
        return made[-1]

    monkeypatch.setattr(Store, "search", search)
    return made


@pytest.mark.parametrize(
    ("text", "found", "most"),
    [("x = 503", 1, 2), ("x BETWEEN 500 AND 519", 20, 5), ("kind = 'kind-7'", 100, 30), ("x < 0 OR other = 3", 0, 1)],
)
def test_a_selective_subscription_to_the_root_reads_few_blocks(
    engines: Engines, read: list[Any], text: str, found: int, most: int
) -> None:
    effects = engines.feed([subscribed(2_000, Condition.parse(text).disjuncts)])
    assert len(effects.notifications) == found
    assert sum(each.blocks_read for each in read) <= most


def test_what_states_a_condition_is_found_among_many(engines: Engines, read: list[Any]) -> None:
    engines.feed([published(1_000, {"y": 1}, Condition.parse("x > 5000").disjuncts)])
    for n in range(1_001, 1_101):
        engines.feed([published(n, {"x": n})])
    engines.commit()
    effects = engines.feed([subscribed(2_000, Condition.parse("x = 7000").disjuncts)])
    assert [n.publication_id for n in effects.notifications] == ["p1000"]
    assert sum(each.blocks_read for each in read) <= 3


@pytest.mark.parametrize("semantics", ["symmetric", "intersect"])
def test_other_semantics_look_at_everything(engines: Engines, read: list[Any], semantics: str) -> None:
    wanted = {"symmetric": 0, "intersect": 1_000}[semantics]
    effects = engines.feed([subscribed(2_000, Condition.parse("other = 3").disjuncts, semantics=semantics)])
    assert len(effects.notifications) == wanted
    assert sum(each.blocks_read for each in read) >= 100
