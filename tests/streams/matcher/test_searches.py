"""Searches of the past in parts: whatever comes between two of them, and whatever is lost, all pairs are notified once."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from pastforward.columns.times import SECOND
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.schemas import CanonicalPublication, CanonicalSubscription, Rendezvous, Version, encode
from pastforward.state import searching
from pastforward.state.search import Limits
from pastforward.streams.matcher import past, searches
from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.engine import PROGRESS
from pastforward.streams.reference import Partition
from tests.streams.logs import HOT, START, logs, pauses
from tests.streams.matcher.test_engine import (
    SOAK,
    Engines,
    assert_holds,
    chunks,
    entry_of,
    long,
    shown,
    small_blocks,
    some_cuts,
    some_delay,
    some_layout,
    some_room,
    some_size,
    tagged,
)

pytestmark = [pytest.mark.soak] if SOAK else []
__all__ = ["small_blocks"]


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "PIECES", Limits(blocks=1, publications=2))
        patch.setattr(past, "PAIRS", 1)
        patch.setattr(past, "CHUNK_PAIRS", 1)
        patch.setattr(past, "CHUNK_PARTS", 1)
        patch.setattr(searches, "NOTED", 1)
        patch.setattr(searches, "ROWS", 2)
        yield


def step(engines: Engines) -> Effects:
    effects, refused = engines.engine.search()
    assert not refused
    engines._write(effects)
    return effects


some_steps = st.lists(st.integers(0, 2), min_size=7, max_size=7)
some_ends = st.lists(
    st.sampled_from(["go on", "commit", "restart", "restart", "rebuild", "rebuild again", "window", "window rebuild"]),
    min_size=7,
    max_size=7,
)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(
    logs() | pauses(),
    some_cuts,
    some_layout,
    some_ends,
    some_steps,
    some_delay,
    some_size,
    some_room,
    st.sampled_from([0, 0, 5]),
)
@long
def test_all_pairs_are_notified_once_whatever_comes_between(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    steps: list[int],
    earlier: int,
    piece: int,
    room: str,
    old: int,
) -> None:
    version = 2 if old else 1
    reference = Partition(0, HOT, version)
    if old:
        log = tagged(log, old)
        reference.begin(entry_of(version))
    offset, shortest = 0, HOT
    dropped: dict[int, int] = {}
    wanted, notified = [], []
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, layout, in_memory, version, room)
        try:
            for chunk, then, further in zip(chunks(log, cuts), between, steps, strict=False):
                for envelope in chunk:
                    result = reference.apply(envelope, offset)
                    if result.dropped and isinstance(envelope.record, CanonicalPublication):
                        dropped[offset] = reference.progress.log_time
                    wanted += [shown(n) for n in result.notifications]
                    offset += 1
                notified += engines.feed(chunk).notifications
                for _ in range(further):
                    if engines.engine.searches:
                        notified += step(engines).notifications
                if then == "commit":
                    engines.commit()
                if then == "restart":
                    engines.restart(piece) if is_whole(engines) else engines.rebuild(earlier)
                elif then.startswith("window"):
                    engines.commit()
                    engines.hot = {HOT: 3 * HOT, 3 * HOT: HOT // 2, HOT // 2: HOT}[engines.hot]
                    shortest = min(shortest, engines.hot)
                    reference.change_window(engines.hot)
                    whole = then != "window rebuild" and is_whole(engines)
                    engines.restart(piece) if whole else engines.rebuild(earlier)
                elif then.startswith("rebuild"):
                    engines.rebuild(earlier, then == "rebuild again")
                    if then == "rebuild again":
                        assert not engines.again().notifications
            while engines.engine.searches:
                notified += step(engines).notifications
            assert sorted(map(shown, notified)) == sorted(wanted)
            assert not [key for key in engines.changelog if key.startswith(searches.KEY)]
            assert_holds(engines.engine, reference, dropped, shortest)
            engines.commit()
            engines.restart(piece)
            assert_holds(engines.engine, reference, dropped, shortest)
        finally:
            engines.engine.close()


def is_whole(engines: Engines) -> bool:
    """Of a state whose rebuilding was not finished nothing is used (`open_whole`)."""
    return engines.engine.store.get_meta(PROGRESS) is not None


some_doings = st.lists(
    st.tuples(st.sampled_from(["publish", "publish", "subscribe", "pause"]), st.integers(0, 3), st.booleans())
    | st.sampled_from(["step", "restart", "rebuild", "commit"]),
    min_size=10,
    max_size=30,
)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(some_doings, some_layout, some_room)
@long
def test_searches_that_are_cut_off_again_and_again(
    in_memory: bool, doings: list[str | tuple[str, int, bool]], layout: str, room: str
) -> None:
    """Everything finds nearly everything, subscriptions of the same id replace each other, and workers end in the middle."""
    reference, kept = Partition(0, HOT), Counter[str]()
    wanted, notified, resumed = [], [], False
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, layout, in_memory, 1, room)
        try:
            engines.feed(some := [published(f"first{i}", i) for i in range(4)])
            for envelope in some:
                reference.apply(envelope)
            kept["publish"] = len(some)
            for doing in doings:
                if isinstance(doing, tuple):
                    what, which, joins = doing
                    kind = "publish" if what == "publish" else "subscribe"
                    envelope = published(f"p{kept[kind]}", kept[kind], "12"[which % 2])
                    if kind == "subscribe":
                        envelope = subscribed(f"s{which}", kept[kind], f"u{which % 2}", joins, what == "pause")
                    kept[kind] += 1
                    wanted += [shown(n) for n in reference.apply(envelope).notifications]
                    notified += engines.feed([envelope]).notifications
                elif doing == "step" and engines.engine.searches:
                    notified += step(engines).notifications
                elif doing == "commit":
                    engines.commit()
                elif doing == "restart" and is_whole(engines):
                    engines.restart(3)
                elif doing in ("restart", "rebuild"):
                    engines.rebuild()
                resumed |= doing in ("restart", "rebuild") and len(engines.engine.searches) > 0
            event(f"resumed: {resumed}")
            while engines.engine.searches:
                notified += step(engines).notifications
            assert sorted(map(shown, notified)) == sorted(wanted)
            assert not [key for key in engines.changelog if key.startswith(searches.KEY)]
        finally:
            engines.engine.close()


def published(name: str, offset: int, topic: str = "1") -> Rendezvous:
    record = CanonicalPublication(name, None, topic, START, None, None, False, {}, None)
    return Rendezvous("publications", 0, offset, START, 1, (0,), record)


def subscribed(name: str, offset: int, recipient: str, joins: bool = False, paused: bool = False) -> Rendezvous:
    version = Version(START, 0, offset)
    record = CanonicalSubscription(
        name,
        recipient,
        version,
        "",
        "overlap",
        START - SECOND,
        None,
        "published",
        ALWAYS,
        self_join=joins,
        paused=paused,
    )
    return Rendezvous("subscriptions", 0, offset, START, 1, (0,), record)


@pytest.fixture
def engines() -> Iterator[Engines]:
    with tempfile.TemporaryDirectory() as directory:
        made = Engines(directory, "dual", True)
        try:
            made.feed([published(f"p{i}", i) for i in range(20)])
            yield made
        finally:
            made.engine.close()


def test_subscribers_take_turns_and_each_has_one_search_at_a_time(engines: Engines) -> None:
    for i in range(4):
        engines.feed([subscribed(f"a{i}", i, "anna")])
    engines.feed([subscribed("b", 4, "ben")])
    assert (len(engines.engine.searches), engines.engine.searches.under_way) == (5, 2)
    order = []
    while engines.engine.searches:
        order += [n.subscription_id for n in step(engines).notifications]
    distinct = list(dict.fromkeys(order))
    assert distinct == ["a0", "b", "a1", "a2", "a3"]
    first_ends, ben_ends = (len(order) - order[::-1].index(name) for name in ("a0", "b"))
    assert abs(ben_ends - first_ends) <= 4  # they went side by side


def test_who_has_much_under_way_takes_publications_only(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "MOST_SEARCHES", 2)
    waiting = [encode(each) for each in (published("x", 20), published("y", 21), subscribed("c", 9, "carl"))]
    engines.feed([subscribed("a", 0, "anna")])
    assert engines.engine.room(waiting) == 3
    engines.feed([subscribed("b", 1, "ben")])
    assert (engines.engine.room(waiting), engines.engine.room(waiting[2:])) == (2, 0)
    while len(engines.engine.searches) == 2:
        step(engines)
    assert engines.engine.room(waiting) == 3


def test_a_search_keeps_the_state_from_being_durable_for_so_long_only(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines.commit()
    engines.feed([subscribed("a", 0, "anna")])
    engines.commit()
    assert engines.engine.offset == 20
    monkeypatch.setattr("pastforward.streams.matcher.engine.MOST_UNCOMMITTED", 3)
    waiting = [encode(published("x", 20))]
    assert engines.engine.room(waiting) == 1
    engines.feed([published(f"q{i}", 30 + i) for i in range(2)])
    assert engines.engine.room(waiting) == 0
    while engines.engine.searches:
        step(engines)
    engines.commit()
    assert (engines.engine.offset, engines.engine.room(waiting)) == (23, 1)


def test_a_search_that_fails_is_given_up_and_the_others_go_on(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = engines.feed([subscribed("a", 0, "anna"), subscribed("b", 1, "ben")])
    notified = [n.subscription_id for n in effects.notifications]
    whole = searches.decide

    def breaks(deciding: object, part: object, rows: object, handle_of: object, *more: object) -> object:
        if handle_of[0] >= 0:  # type: ignore[index]
            raise ValueError("of anna")
        return whole(deciding, part, rows, handle_of, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(searches, "decide", breaks)
    refused = []
    while engines.engine.searches:
        found, given_up = engines.engine.search()
        refused += given_up
        notified += [n.subscription_id for n in found.notifications]
        engines._write(found)
    assert [(each.offset, str(each.error)) for each in refused] == [(20, "of anna")]
    assert notified.count("b") == 20
    assert not [key for key in engines.changelog if key.startswith(searches.KEY)]


def test_what_a_replaced_subscription_asked_for_is_answered_as_it_was(engines: Engines) -> None:
    effects = engines.feed([subscribed("a", 0, "anna")])
    notified = list(effects.notifications)
    other = subscribed("a", 1, "anna")
    record = replace(other.record, topic="7") if isinstance(other.record, CanonicalSubscription) else None
    engines.feed([replace(other, record=record), published("new", 40)])
    engines.restart(7)
    while engines.engine.searches:
        notified += step(engines).notifications
    assert sorted(n.publication_id for n in notified) == sorted(f"p{i}" for i in range(20))
    assert {n.subscription_version for n in notified} == {"0-0"}


@pytest.mark.parametrize("between", ["go on", "restart", "rebuild"])
@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
def test_who_resumes_finds_what_came_since_the_pause_behind_its_chunk_as_well(between: str, in_memory: bool) -> None:
    def come_back() -> None:
        if between == "restart":
            engines.restart(3)
        elif between == "rebuild":
            engines.rebuild()

    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, "dual", in_memory)
        try:
            engines.feed([published(f"before{i}", i) for i in range(6)])
            engines.feed([subscribed("a", 0, "anna", paused=True), subscribed("b", 1, "ben", paused=True)])
            assert not engines.engine.searches  # who is paused looks for nothing
            engines.commit()
            engines.feed([published(f"during{i}", 6 + i) for i in range(6)])
            come_back()
            # one resumes, one is paused again, one is new: in one chunk
            rows = [subscribed("new", 2, "carl"), subscribed("b", 3, "ben", paused=True), subscribed("a", 4, "anna")]
            notified = list(engines.feed(rows).notifications)
            assert engines.engine.searches
            engines.feed([subscribed("a", 5, "anna", paused=True)])  # what it has asked for is answered
            further = 0
            while engines.engine.searches:
                come_back()
                further += 2  # it begins anew, and passes what it has told
                for _ in range(further):
                    if engines.engine.searches:
                        notified += step(engines).notifications
            before, during = ([f"{when}{i}" for i in range(6)] for when in ("before", "during"))
            found = Counter((n.subscription_id, n.publication_id) for n in notified)
            assert found == Counter([("new", name) for name in before + during] + [("a", name) for name in during])
            assert not [key for key in engines.changelog if key.startswith(searches.KEY)]
        finally:
            engines.engine.close()
