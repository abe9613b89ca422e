"""What a store keeps in memory when the budget does not hold its rows, and what it reads."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pastforward.state import Budget, Limits, Store, blocks, open_store, searching
from pastforward.state.filters import Filter
from pastforward.state.operations import batch_of
from pastforward.state.whereabouts import Whereabouts
from tests.state.tables import table

HOUR = 3_600_000_000
LAYOUTS = ["dual", "two"]


def spilled(path: Path, layout: str = "dual") -> Store:
    """Each commit makes a slice."""
    store = open_store(path, layout, budget=Budget(), hot_window=HOUR, earlier_limit=1)
    store._subscriptions.spill(store._disk)
    store._publications.most = 1
    return store


def publications(first: int, count: int, topics: int) -> Any:
    rows = [
        {"kind": "publication", "id": f"p{n}", "topic": f"1.{n % topics}", "time": n, "self_join": True}
        for n in range(first, first + count)
    ]
    return table(rows)


def take(store: Store, first: int, count: int, topics: int) -> list[tuple[int, str]]:
    found = store.apply(publications(first, count, topics), find="past")
    store.commit(first + count)
    return list(zip(found["operation"].to_pylist(), found["found_id"].to_pylist(), strict=True))


def before(first: int, count: int, topics: int) -> list[tuple[int, str]]:
    return [(row, f"p{first + row - topics}") for row in range(count) if first + row >= topics]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_taking_a_publication_reads_nothing(tmp_path: Path, layout: str) -> None:
    with spilled(tmp_path, layout) as store:
        for first in range(0, 4_000, 100):
            assert take(store, first, 100, topics=70) == before(first, 100, 70)
        assert store.stats.slices == 40
        assert store.stats.records_read < 2 * 4_000 + 10  # in memory: those before, and the first behind them
        assert store._publications.rows_read == 0
        assert len(store._publications.open) == 70  # in memory: the latest of each topic


def test_after_it_was_opened_again_each_topic_is_read_once(tmp_path: Path) -> None:
    with spilled(tmp_path) as store:
        take(store, 0, 200, topics=20)
    with open_store(tmp_path, hot_window=HOUR, earlier_limit=1) as store:
        repeated = store.apply(publications(150, 10, 20), find="past")
        assert repeated.num_rows == 0
        assert store.duplicates.tolist() == list(range(10))
        read = store._publications.rows_read
        for first in range(200, 400, 20):
            assert take(store, first, 20, topics=20) == before(first, 20, 20)
        assert store._publications.rows_read - read <= 3 * 20


def test_a_filter_forgets_nothing_and_takes_few_bytes() -> None:
    chance = np.random.default_rng(1)
    hashes = chance.integers(0, 1 << 63, 200_000)
    filter_ = Filter()
    for some in np.array_split(hashes, 37):
        filter_.add(some)
    held = np.zeros(len(hashes), np.bool_)
    filter_.find(hashes, held)
    assert held.all()
    others = np.zeros(100_000, np.bool_)
    filter_.find(chance.integers(0, 1 << 63, 100_000), others)
    assert others.mean() < 0.03
    assert filter_.size < 5 * len(hashes)


def test_whereabouts_forget_nothing_and_take_few_bytes() -> None:
    chance = np.random.default_rng(1)
    hashes = chance.integers(0, 1 << 63, (10, 20_000))
    places = Whereabouts()
    for serial, some in enumerate(hashes):
        places.add(some, serial)
    for serial, some in enumerate(hashes):
        assert {row for row, found in places.find(some) if found == serial} == set(range(len(some)))
    assert len(places.find(chance.integers(0, 1 << 63, 200_000))) <= 5  # of new ones
    assert places.size < 14 * hashes.size
    places.forget({9})
    assert {row for row, found in places.find(hashes[9]) if found == 9} == set(range(20_000))
    places.forget(set())
    assert not places.size


def asked(store: Store, rows: list[dict[str, Any]]) -> list[tuple[int, bytes]]:
    """What the subscriptions find of the past, by row and payload."""
    store.apply_columns(batch_of(table([{"now": row["time"], **row} for row in rows])), find="past")
    pairs = []
    for piece in store.past():
        payloads = [piece.data[low:high].tobytes() for low, high in pairwise(piece.at.tolist())]
        pairs += [(row, payloads[at]) for row, at in zip(piece.row.tolist(), piece.publication.tolist(), strict=True)]
    return sorted(pairs)


@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_past_comes_in_pieces(tmp_path: Path, layout: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask: each publication once for each, those that were taken before the subscription and after the last commit too."""
    monkeypatch.setattr(blocks, "BLOCK", 16)
    monkeypatch.setattr(blocks, "PART", 3)
    monkeypatch.setattr(searching, "PIECES", Limits(blocks=3, publications=7, pairs=11))
    monkeypatch.setattr(searching, "_ROOM", 8)
    monkeypatch.setattr(searching, "_TOGETHER", 1 << 22)
    topics = ["", "1", "1.4", "1.4.2", "2", "2.7"]

    def publication(n: int) -> dict[str, Any]:
        at = {"time": n, "arrived_at": n, "self_join": n % 3 == 0}
        return {"kind": "publication", "id": f"p{n}", "topic": topics[n % 6], "payload": b"p%d" % n, **at}

    def subscription(topic: str, n: int) -> dict[str, Any]:
        return {"kind": "subscription", "id": f"s{n}", "topic": topic, "time": n, "starts_at": n % 40}

    def finds(row: dict[str, Any], last: int) -> set[bytes]:
        above = [row["topic"].split(".")[:depth] if row["topic"] else [] for depth in range(9)]
        places = {".".join(path) for path in above}
        near = [t for t in topics if t in places or row["topic"] in ("", t) or t.startswith(row["topic"] + ".")]
        return {b"p%d" % n for n in range(row["starts_at"], last) if topics[n % 6] in near}

    with open_store(tmp_path, layout, budget=Budget(), hot_window=HOUR, earlier_limit=1) as store:
        if where == "disk":
            store._publications.most = 1
        for first in range(0, 150, 30):
            store.apply(table([publication(n) for n in range(first, first + 30)]), find="past")
            if first < 120:
                store.commit(first)
        chunk = [
            row
            for n, topic in enumerate(topics * 3, 150)
            for row in ({**subscription(topic, n)}, {**publication(n), "topic": topics[n % 6]})
        ]
        wanted = [(at, payload) for at, row in enumerate(chunk) if at % 2 == 0 for payload in finds(row, 150 + at // 2)]
        assert asked(store, chunk) == sorted(wanted)
        assert (store.stats.slices == 0) == (where == "memory")
