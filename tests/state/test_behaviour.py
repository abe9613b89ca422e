"""What the store promises besides its answers: early stop, expiry, budgets, staged values, one at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pastforward.columns.growing import Growing
from pastforward.columns.times import SECOND
from pastforward.state import Budget, OperationError, Pair, StoreError, open_store
from pastforward.state import families as families_module
from pastforward.state.rocks import Rocks
from tests.state.tables import BUDGETS


def publications(first: int, count: int, topic: str = "1", every: int = 1, life: int | None = None) -> pa.Table:
    times = np.arange(first, first + count) * every
    columns = {
        "kind": ["publication"] * count,
        "id": range(first, first + count),
        "topic": [topic] * count,
        "time": times,
    }
    if life is not None:
        columns["expires_at"] = times + life
    return pa.table(columns)


def subscriptions(first: int, count: int, topic: str = "1", life: int = 5) -> pa.Table:
    times = np.arange(first, first + count)
    return pa.table(
        {
            "kind": ["subscription"] * count,
            "id": range(first, first + count),
            "topic": [topic] * count,
            "time": times,
            "starts_at": times,
            "ends_at": times + life,
        }
    )


def test_a_store_can_be_measured_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the stores of other threads, which share its budget, and by whoever watches."""
    budget, seen = Budget(), []
    with open_store(tmp_path / "s", budget=budget) as store:
        grow = Growing.grow

        def measured(self: Growing, length: int) -> None:
            seen.append((budget.left, store.stats.items))
            grow(self, length)

        monkeypatch.setattr(Growing, "grow", measured)
        store.apply(publications(0, 5000))
        store.commit(1)
        store.apply(publications(5000, 5000))
    assert (seen[0][1], seen[-1][1]) == (0, 5000)
    assert seen[-1][0] < seen[0][0]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("layout", ["dual", "two"])
def test_a_scan_of_publications_ends_at_the_first_too_old(tmp_path: Path, layout: str, budget: str) -> None:
    with open_store(tmp_path / "s", layout, budget=BUDGETS[budget]()) as store:
        store.apply(publications(0, 5000))
        store.commit(1)
        before = store.stats.records_read
        found = store.subscribe(9999, "1", time=5000, starts_at=4990)
        assert len(found) == 10
        # The ten, and the one that ended the scan; on disk a key or two more, to see that the topic above has none.
        assert store.stats.records_read - before <= (11 if budget == "ample" else 13)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("layout", ["dual", "two"])
def test_a_scan_of_subscriptions_ends_at_the_first_that_has_ended(tmp_path: Path, layout: str, budget: str) -> None:
    with open_store(tmp_path / "s", layout, budget=BUDGETS[budget](), lateness=100_000) as store:
        store.apply(subscriptions(0, 5000))
        store.commit(1)
        before = store.stats.records_read
        found = store.publish(9999, "1", time=4999)
        assert {pair.id for pair in found} == {4995, 4996, 4997, 4998, 4999}
        assert store.stats.records_read - before <= (6 if budget == "ample" else 8)


def test_a_window_that_lies_back_passes_over_what_is_later(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store.apply(publications(0, 20_000))
        before = store.stats.records_read
        assert len(store.subscribe(1, "1", time=20_000, starts_at=100, ends_at=110)) == 10
        assert store.stats.records_read - before == 11


def test_times_in_any_order_stay_cheap(tmp_path: Path) -> None:
    """A long list whose times come in no order: still sorted, still searched from its head."""
    times = np.random.default_rng(7).permutation(50_000)
    table = pa.table(
        {"kind": ["publication"] * 50_000, "id": np.arange(50_000), "time": times, "arrived_at": np.zeros(50_000, int)}
    )
    with open_store(tmp_path / "s") as store:
        store.apply(table)
        found = store.apply(
            pa.table({"kind": ["subscription"], "id": [1], "time": [50_000], "starts_at": [49_000]}), columns=["time"]
        )
        assert sorted(found["time"].to_pylist()) == list(range(49_000, 50_000))
        store.rollback()
        assert store.stats.items == 0


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("layout", ["dual", "two"])
def test_the_disk_shrinks_when_the_windows_have_passed(
    tmp_path: Path, layout: str, budget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families_module, "FEWEST", 256)
    with open_store(tmp_path / "s", layout, budget=BUDGETS[budget](), hot_window=SECOND) as store:
        sizes = []
        for round_number in range(12):
            first = round_number * 400
            store.apply(publications(first, 400, every=5_000), find="none")
            store.apply(
                pa.table(
                    {
                        "kind": ["subscription"] * 50,
                        "id": range(first, first + 50),
                        "time": [(first + 400) * 5_000] * 50,
                        "ends_at": [(first + 600) * 5_000] * 50,
                        "payload": [bytes(200)] * 50,
                    }
                )
            )
            store.commit(round_number)
            sizes.append(store.stats.families)
        assert max(sizes) <= 8, "families are not dropped"
        kept = [row["id"] for batch in store.scan("publication") for row in batch.to_pylist()]
        assert min(kept) >= 4800 - 201
        store.tick(10_000 * SECOND)
        store.commit(99)
        assert store.stats.families == 0
        assert list(store.scan("publication")) == list(store.scan("subscription")) == []
        store.publish(10**6, "1", time=10_000 * SECOND)
        store.commit(100)
    with open_store(tmp_path / "s", layout, hot_window=SECOND) as store:
        assert [row["id"] for batch in store.scan("publication") for row in batch.to_pylist()] == [10**6]
        assert store._disk.estimated_rows() <= 5, "rows of dropped families are still there"


def test_what_has_expired_leaves_the_index(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store._publications.most = 400
        for round_number in range(60):
            store.apply(publications(round_number * 100, 100, life=150), find="none")
            store.commit(round_number)
        assert store.stats.items < 600
        assert store.stats.index_bytes < 1 << 20


def test_publications_that_outgrow_the_budget_become_slices(tmp_path: Path) -> None:
    budget = Budget(4 << 20)
    budget.for_indexes = 200_000
    with open_store(tmp_path / "s", budget=budget) as store:
        for start in range(0, 3000, 500):
            store.apply(publications(start, 500, topic="1.2"))
            store.commit(start)
        assert store.stats.in_memory, "there are no subscriptions"
        assert store.stats.slices > 1
        assert store.stats.index_bytes < 200_000
        assert len(store.subscribe(1, "1", time=4000, starts_at=0)) == 3000
        assert store.get(2999, "publication") is not None
        store.apply(publications(2990, 20))
        assert store.duplicates.tolist() == list(range(10)), "ids in slices are known"
    with open_store(tmp_path / "s") as store:
        assert store.stats.items == 3000
        assert store.get(17, "publication") is not None
        assert len(store.subscribe(1, "", time=4000, starts_at=2000)) == 1000


def test_a_store_on_disk_comes_back_to_memory_when_it_has_shrunk(tmp_path: Path) -> None:
    budget = BUDGETS["tiny"]()
    with open_store(tmp_path / "s", budget=budget) as store:
        store.apply(subscriptions(0, 100, life=10**6))
        store.commit(0)
        assert not store.stats.in_memory
        budget.for_indexes = 1 << 20
        for number in range(256):
            store.commit(number)
        assert store.stats.in_memory
        assert store.stats.items == 100
        assert len(store.publish(1, "1", time=50)) == 51


def test_stores_share_a_budget(tmp_path: Path) -> None:
    budget = Budget(8 << 20)
    with open_store(tmp_path / "a", budget=budget) as one, open_store(tmp_path / "b", budget=budget) as other:
        one.apply(publications(0, 1000))
        other.apply(publications(0, 1000))
        assert budget.used_by_indexes == one.stats.index_bytes + other.stats.index_bytes
    with pytest.raises(ValueError, match="too small"):
        Budget(1000)


def test_values_of_the_callers_own_are_written_with_the_rows(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        assert store.get_meta(b"seen") is None
        store.put_meta(b"seen", b"3")
        assert store.get_meta(b"seen") == b"3"
        store.rollback()
        assert store.get_meta(b"seen") is None
        store.put_meta(b"seen", b"4")
        store.put_meta(b"gone", b"x")
        store.commit(1)
        store.put_meta(b"gone", None)
        assert store.get_meta(b"gone") is None
    with open_store(tmp_path / "s") as store:
        assert store.get_meta(b"seen") == b"4"
        assert store.get_meta(b"gone") == b"x", "closing without a commit forgets what was staged"


@pytest.mark.parametrize("budget", BUDGETS)
def test_staged_payloads_can_be_amended(tmp_path: Path, budget: str) -> None:
    with open_store(tmp_path / "s", budget=BUDGETS[budget]()) as store:
        store.publish("p", "1", time=1, payload=b"old")
        store.commit(1)
        store.publish("q", ["1", "2"], time=2, payload=b"short")
        store.amend([b"q", b"p", b"nobody"], [b"a longer one" * 20, b"too late", b""])
        store.commit(2)
        for identity, payload in (("p", b"old"), ("q", b"a longer one" * 20)):
            row = store.get(identity, "publication")
            assert row is not None
            assert row["payload"] == payload


def test_how_many_earlier_publications(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store.apply(publications(0, 10))
        rows = {"kind": ["publication"] * 3, "id": [20, 21, 22], "topic": ["1"] * 3, "time": [50, 5, 60]}
        found = store.apply(pa.table({**rows, "earlier": [1, 0, None], "self_join": [False, True, True]}))
        told: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for row in found.to_pylist():
            told[row["operation"]].append(row["found_id"])
        assert told == {0: [9], 1: [], 2: [20, 9, 8, 7, 6, 21, 5, 4, 3, 2, 1, 0]}


def test_a_look_at_a_store_on_disk_leaves_nothing_in_memory(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", budget=BUDGETS["tiny"]()) as store:
        store.apply(publications(0, 100))
        store.commit(1)
        for number in range(100):
            assert store.get(number, "publication") is not None
        assert len(store._publications.open) == 0


def test_a_rollback_forgets_the_type_of_ids_too(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        store.publish("text", time=1)
        store.rollback()
        store.publish(1, time=1)
        with pytest.raises(OperationError, match="holds int64 ids"):
            store.amend([b"text"], [b""])
        store.commit(1)


@pytest.mark.parametrize(("budget", "most"), [("tiny", 1), ("ample", 3)])
def test_numbers_of_families_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: str, most: int
) -> None:
    """Also where no sweep ever ends, because nothing stays in memory; where items do, after they have been swept."""
    monkeypatch.setattr(families_module, "FEWEST", 1)
    with open_store(tmp_path / "s", budget=BUDGETS[budget](), lateness=1) as store:
        for number in range(12):
            store.subscribe(number, time=number * 10 * SECOND, ends_at=number * 10 * SECOND)
            store.commit(number)
        assert max(family.slot for family in store._disk.families) <= most


def test_one_at_a_time(tmp_path: Path) -> None:
    with open_store(tmp_path / "s") as store:
        assert store.publish("accident", "1.4.2", time=100, expires_at=500) == []
        assert store.subscribe("me", "1.4", time=200, starts_at=50, ends_at=900) == [Pair("publication", "accident")]
        assert store.subscribe("below", "1.4.2.9", time=200, starts_at=50, scope="subtree") == []
        assert store.publish("fire", "1", time=300) == [Pair("subscription", "me")]
        assert store.remove("me", time=400)
        assert not store.remove("me")
        assert store.publish("flood", "1.4", time=400) == []
        assert store.get("me") is None
        assert store.get("nobody") is None
        assert store.get(5) is None
        store.commit(8)
        assert (store.offset, store.log_time) == (8, 400)


def test_a_failed_commit_leaves_everything_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "s") as store:
        store.publish("p", "1", time=1)
        store.commit(1)
        store.publish("q", "1", time=2)

        def full(batch: object) -> None:
            raise Exception("IO error: No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(store._disk._rocks, "write", full)
            with pytest.raises(StoreError, match=r"offset 2 was not committed .*No space left"):
                store.commit(2)
        assert store.offset == 1
        store.commit(2)
    with open_store(tmp_path / "s") as store:
        assert store.offset == 2
        assert store.get("q", "publication") is not None


def test_what_has_passed_goes_with_the_next_commit_if_this_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families_module, "FEWEST", 1)
    with open_store(tmp_path / "s", hot_window=1) as store:
        store._publications.most = 1
        store.publish("p", "1", time=1)
        store.commit(1)
        store.publish("q", "1", time=10 * SECOND)

        def full(batch: object) -> None:
            raise Exception("IO error: No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(store._disk._rocks, "write", full)
            with pytest.raises(StoreError, match="not committed"):
                store.commit(2)
        store.commit(2)
        there = set(Rocks.families_at(store._disk._directory.database)) - {"default"}
        assert there == {family.name for family in store._disk.families}
        assert len(there) == 1


def test_longer_windows_after_reopening(tmp_path: Path) -> None:
    """What was given up under shorter windows does not come back; what is there stays longer."""
    path = tmp_path / "s"
    with open_store(path, hot_window=10, lateness=0) as store:
        store.subscribe("ended", "1", time=0, starts_at=0, ends_at=50)
        store.subscribe("open", "1", time=0, starts_at=0, ends_at=105)
        store.publish("old", "1", time=50)
        store.publish("new", "1", time=95)
        store.tick(100)
        store.commit(1)
    with open_store(path, hot_window=1000, lateness=1000) as store:
        assert store.complete_from == 90
        assert {pair.id for pair in store.subscribe("s", "1", time=300, starts_at=0)} == {"new"}
        assert {pair.id for pair in store.publish("late", "1", time=40)} == {"open", "s"}


def test_what_a_publication_older_than_the_window_leaves(tmp_path: Path) -> None:
    """It is matched, not found again, and its id is known until the window has passed."""
    with open_store(tmp_path / "s", hot_window=100) as store:
        store.subscribe("s", "1", time=1000, starts_at=0)
        assert store.publish("old", "1", time=10, arrived_at=1000) == [Pair("subscription", "s")]
        assert store.subscribe("t", "1", time=1000, starts_at=0) == []
        assert store.publish("old", "1", time=1050) == []
        assert store.duplicates.tolist() == [0]
        assert len(store.publish("old", "1", time=1101)) == 2
