"""The baseline against an oracle of its own: what it finds, what it misses, and how late."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.state import OperationError, open_store
from tests.state.logs import TOPICS
from tests.state.oracle import EVER, above, overlap, path
from tests.state.tables import BUDGETS, table

EVERY = 10


class RepeatedOracle:
    """Asks in a loop, one operation after the other."""

    def __init__(self) -> None:
        self.time = -EVER
        self.publications: list[dict[str, Any]] = []
        self.subscriptions: dict[Any, dict[str, Any]] = {}

    def ask(self, row: int, subscription: dict[str, Any], low: int, high: int) -> list[tuple[int, Any, Any]]:
        test = above if subscription.get("scope") == "subtree" else overlap
        return [
            (row, subscription["id"], publication["id"])
            for publication in self.publications
            if low <= publication["time"] < high
            and (publication.get("expires_at") is None or publication["expires_at"] > self.time)
            and test(path(subscription.get("topic")), path(publication.get("topic")))
        ]

    def apply(self, row: int, operation: dict[str, Any]) -> list[tuple[int, Any, Any]]:
        """A pair twice, if a question that was due and the one of a replacement of the same id both find it."""
        arrival = max(self.time, operation["time"])
        found = []
        while True:
            due = [s for s in self.subscriptions.values() if s["next"] is not None and s["next"] <= arrival]
            if not due:
                break
            asking = min(due, key=lambda s: s["next"])
            when = asking["next"]
            self.time = max(self.time, when)
            found += self.ask(row, asking, max(asking["low"], asking["asked"]), min(asking["high"], when))
            asking["asked"] = when
            asking["next"] = min(when + EVERY, asking["high"]) if when < asking["high"] else None
        self.time = arrival
        identity = operation["id"]
        if operation["kind"] != "publication":
            self.subscriptions.pop(identity, None)
        if operation["kind"] == "publication":
            alive = {p["id"] for p in self.publications if p.get("expires_at") is None or p["expires_at"] > arrival}
            if identity not in alive:
                self.publications = [p for p in self.publications if p["id"] != identity]
                self.publications.append(operation)
        elif operation["kind"] == "subscription":
            low = -EVER if operation.get("starts_at") is None else operation["starts_at"]
            high = EVER if operation.get("ends_at") is None else operation["ends_at"]
            found += self.ask(row, operation, low, min(high, arrival))
            following = min(arrival + EVERY, high) if arrival < high else None
            self.subscriptions[identity] = {**operation, "low": low, "high": high, "asked": arrival, "next": following}
        return found


@st.composite
def simple_logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    clock = 0
    for _ in range(draw(st.integers(1, 30))):
        clock += draw(st.integers(0, 8))
        kind = draw(st.sampled_from(["subscription", "publication", "publication", "withdrawal"]))
        near = st.integers(-25, 25).map(lambda shift, clock=clock: clock + shift)  # type: ignore[misc]
        row: dict[str, Any] = {"kind": kind, "id": f"i{draw(st.integers(0, 7))}", "time": clock}
        row["topic"] = draw(st.sampled_from(TOPICS))
        if kind == "subscription":
            row |= {"starts_at": draw(st.none() | near), "ends_at": draw(st.none() | near)}
            row["scope"] = draw(st.sampled_from([None, "subtree"]))
        elif kind == "publication":
            row["expires_at"] = draw(st.none() | near)
        rows.append(row)
    return rows


@pytest.mark.parametrize("budget", BUDGETS)
@settings(max_examples=30, deadline=None)
@given(rows=simple_logs(), data=st.data())
def test_asks_as_the_oracle(budget: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(Path(directory) / "s", "repeated", budget=BUDGETS[budget](), every=EVERY)
        with store:
            oracle = RepeatedOracle()
            at = 0
            while at < len(rows):
                chunk = rows[at : at + data.draw(st.integers(1, 8), "chunk")]
                for _ in range(data.draw(st.integers(0, 1), "attempts given up")):
                    store.apply(table(chunk))
                    store.rollback()
                pairs = store.apply(table(chunk)).to_pylist()
                given_pairs = [(pair["operation"], pair["subscription_id"], pair["found_id"]) for pair in pairs]
                expected = []
                for number, row in enumerate(chunk):
                    expected += oracle.apply(number, row)
                assert sorted(given_pairs) == sorted(expected)
                at += len(chunk)
                store.commit(at)


def test_what_expires_between_two_questions_is_missed(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", "repeated", every=10) as store:
        rows = [
            {"kind": "subscription", "id": "s", "time": 0},
            {"kind": "publication", "id": "short", "time": 1, "expires_at": 5},
            {"kind": "publication", "id": "long", "time": 2},
            {"kind": "withdrawal", "id": "nobody", "time": 10},
        ]
        pairs = store.apply(table(rows)).to_pylist()
        assert [(pair["operation"], pair["found_id"]) for pair in pairs] == [(3, "long")]


def test_it_cannot_join_with_itself(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", "repeated") as store, pytest.raises(OperationError, match="use dual or two"):
        store.apply(table([{"kind": "subscription", "id": "s", "time": 0, "self_join": True}]))
    with pytest.raises(OperationError, match="positive"):
        open_store(tmp_path / "t", "repeated", every=0)


def test_takes_dictionary_columns(tmp_path: Path) -> None:
    """As every layout does: whoever makes operations by the thousand names kinds once."""
    rows = [
        {"kind": "publication", "id": "p", "topic": "1", "time": 10},
        {"kind": "subscription", "id": "s", "topic": "1", "time": 20, "starts_at": 0, "ends_at": 90},
    ]
    plain = table(rows)
    coded = plain
    for name in ("kind", "id", "topic"):
        coded = coded.set_column(coded.schema.get_field_index(name), name, coded[name].dictionary_encode())
    with open_store(tmp_path / "plain", "repeated") as first, open_store(tmp_path / "coded", "repeated") as second:
        expected = first.apply(plain).to_pylist()
        assert len(expected) == 1
        assert second.apply(coded).to_pylist() == expected
