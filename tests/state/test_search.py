"""A search of the past is a snapshot, taken a piece at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pastforward.state import Filter, Search, open_store
from pastforward.state.operations import batch_of
from tests.state.tables import table


def found_by(search: Search) -> dict[int, set[bytes]]:
    """Payloads, by row of the subscription."""
    pairs: dict[int, set[bytes]] = {}
    while (piece := search.take()) is not None:
        texts = [piece.data[low:high].tobytes() for low, high in zip(piece.at, piece.at[1:], strict=False)]
        for row, publication in zip(piece.row.tolist(), piece.publication.tolist(), strict=True):
            assert texts[publication] not in pairs.setdefault(row, set()), "a pair twice"
            pairs[row].add(texts[publication])
    assert search.done
    return pairs


def publication(n: int, **fields: Any) -> dict[str, Any]:
    row = {"kind": "publication", "id": f"p{n}", "topic": f"1.{n}", "time": n, "now": n, "payload": f"{n}".encode()}
    return {**row, **fields}


def subscription(n: int, topic: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "subscription", "id": f"s{n}", "topic": topic, "time": n, "now": n, "starts_at": 0, **fields}


def test_a_search_answers_as_of_the_place_in_the_log(tmp_path: Path) -> None:
    with open_store(tmp_path, hot_window=1_000) as store:
        store.apply_columns(batch_of(table([publication(n) for n in range(1, 6)])), find="past")
        store.commit(1)
        rows = [publication(6), subscription(7, "1"), publication(8), subscription(9, "1.8"), publication(10)]
        store.apply_columns(batch_of(table(rows)), find="past")
        search, one = store.search(), store.search({3: Filter(((),))})
        store.apply_columns(batch_of(table([publication(5_000)])), find="past")  # the others' time has passed
        store.commit(2)
        store.apply_columns(batch_of(table([publication(5_001)])), find="past")
        store.commit(3)
        assert found_by(search) == {1: {b"1", b"2", b"3", b"4", b"5", b"6"}, 3: {b"8"}}
        assert found_by(one) == {3: {b"8"}}


def test_a_search_may_be_closed_before_its_end(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.apply_columns(batch_of(table([publication(1), subscription(2, "")])), find="past")
        search = store.search()
        search.close()
        search.close()
        assert search.done
        assert search.take() is None
