"""Every layout with every budget against the oracle, through commits, rollbacks and reopening."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastforward.state import Budget, Store, disk, families, open_store
from tests.state import tables
from tests.state.checks import apply_both, same_contents
from tests.state.logs import lives, logs, takes
from tests.state.oracle import Oracle

LAYOUTS = ["dual", "two"]
BUDGETS = {**tables.BUDGETS, "spilled": Budget}


OPTIONS = st.fixed_dictionaries(
    {
        "hot_window": st.sampled_from([None, 0, 10, 60]),
        "lateness": st.sampled_from([0, 0, 20]),
        "earlier_limit": st.sampled_from([None, 2]),
    }
)


def opened(path: Path | str, layout: str, budget: str, options: dict[str, Any]) -> Store:
    store = open_store(path, layout, budget=BUDGETS[budget](), **options)
    if budget == "spilled":
        # Each commit makes a slice. What is asked again and again stays in memory, all else is on disk.
        store._subscriptions.spill(store._disk)
        store._publications.most = 1
    return store


def drive(layout: str, budget: str, data: st.DataObject, rows: list[dict[str, Any]], options: dict[str, Any]) -> None:
    """A log in chunks, with whatever may happen between two of them."""
    directory = Path(tempfile.mkdtemp(prefix="store-"))
    store: Store | None = None
    try:
        store = opened(directory / "s", layout, budget, options)
        assert store.stats.in_memory == (budget == "ample")
        oracle = Oracle(**options)
        at = 0
        while at < len(rows):
            size = data.draw(st.integers(1, 12), "chunk")
            chunk = rows[at : at + size]
            what = data.draw(
                st.sampled_from(["commit", "commit", "stage", "rollback", "return", "reopen", "kill"]), "then"
            )
            find = data.draw(st.sampled_from(["both", "both", "past", "none"]), "find")
            before, then = store.savepoint(), oracle.savepoint()
            apply_both(store, oracle, chunk, find)
            if data.draw(st.booleans(), "look"):
                same_contents(store, oracle)
            at += size
            if what in ("rollback", "kill"):
                oracle.rollback()
                store.rollback()
            elif what == "return":
                store.rollback_to(before)
                oracle.rollback_to(then)
                same_contents(store, oracle)
            elif what != "stage":
                store.commit(at)
                oracle.commit()
                assert store.offset == at
            if what in ("reopen", "kill"):
                # Without a commit, closing forgets what is staged, as a kill would.
                offset = store.offset
                store.close()
                other = data.draw(st.sampled_from(list(BUDGETS)), "budget")
                store = opened(directory / "s", layout, other, options)
                assert store.offset == offset
                same_contents(store, oracle)
        store.rollback()
        oracle.rollback()
        same_contents(store, oracle)
    finally:
        if store is not None:
            store.close()
        shutil.rmtree(directory)


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget", BUDGETS)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), rows=logs(), options=OPTIONS)
def test_answers_as_the_oracle(
    layout: str, budget: str, data: st.DataObject, rows: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    drive(layout, budget, data, rows, options)


EARLIER = st.fixed_dictionaries(
    {"hot_window": st.sampled_from([None, 8, 25, 60]), "earlier_limit": st.sampled_from([1, 1, 2, None])}
)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), rows=takes(), options=EARLIER)
def test_what_came_before_a_publication_beyond_memory(
    layout: str, data: st.DataObject, rows: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    drive(layout, "spilled", data, rows, options)


WINDOWS = st.fixed_dictionaries(
    {"hot_window": st.sampled_from([3, 10, 25, 60]), "lateness": st.sampled_from([0, 5, 20, 60])}
)


@pytest.mark.parametrize("budget", BUDGETS)
@settings(max_examples=20, deadline=None, suppress_health_check=SLOW)
@given(
    data=st.data(),
    layout=st.sampled_from(LAYOUTS),
    rows=lives(),
    options=WINDOWS,
    fewest=st.sampled_from([1, 1, 1, 100]),
    shortest=st.sampled_from([1, 4]),
    together=st.integers(1, 3),
)
def test_families_come_and_go_and_nothing_that_is_needed_goes_with_them(
    budget: str,
    data: st.DataObject,
    layout: str,
    rows: list[dict[str, Any]],
    options: dict[str, Any],
    fewest: int,
    shortest: int,
    together: int,
) -> None:
    """Each holds next to nothing here, with ends in any order; their numbers are used again, and the windows change meanwhile. With a
    hundred rows before a family may go, none goes: what has passed is there, and is not to be seen."""
    oracle = Oracle(**options)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="store-") as directory:
        patch.setattr(families, "FEWEST", fewest)
        for module in (families, disk):
            patch.setattr(module, "SHORTEST", shortest)
        store = opened(directory, layout, budget, options)
        try:
            for at in range(0, len(rows), together):
                apply_both(store, oracle, rows[at : at + together])
                store.commit(at)
                what = data.draw(st.sampled_from(["go on"] * 4 + ["change", "reopen"]), "then")
                if what != "go on":
                    options = data.draw(WINDOWS, "windows")
                    oracle.change_windows(**options)
                if what == "change":
                    store.change_windows(**options)
                    store.commit(at)
                elif what == "reopen":
                    store.close()
                    store = opened(directory, layout, budget, options)
                slots = [family.slot for family in store._disk.families]
                assert len(set(slots)) == len(slots)
                same_contents(store, oracle)
            for _ in range(10):  # time alone goes on, until nothing is needed any more
                oracle.log_time += data.draw(st.integers(1, 16), "time")
                store.tick(oracle.log_time)
                store.commit(0)
                same_contents(store, oracle)
            oracle.log_time += 1_000
            store.tick(oracle.log_time)
            store.commit(0)
            assert (store.stats.families == 0) == (fewest == 1)
        finally:
            store.close()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("budget", BUDGETS)
@settings(max_examples=1500, deadline=None, suppress_health_check=SLOW)
@given(data=st.data(), rows=logs(), options=OPTIONS)
def test_answers_as_the_oracle_at_length(
    layout: str, budget: str, data: st.DataObject, rows: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    drive(layout, budget, data, rows, options)
