"""A store held against the oracle."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pastforward.state import Store
from tests.state.oracle import EVER, Item, Oracle
from tests.state.tables import COLUMNS, table


def apply_both(store: Store, oracle: Oracle, rows: list[dict[str, Any]], find: str = "both") -> None:
    """Applies a chunk to both and compares pairs and repeats, row by row."""
    pairs = store.apply(table(rows), find=find)
    given: dict[int, list[tuple[str, Any]]] = defaultdict(list)
    columns = (pairs["operation"], pairs["found_kind"], pairs["found_id"])
    for operation, kind, identity in zip(*(column.to_pylist() for column in columns), strict=True):
        given[operation].append((kind, identity))
    repeats = []
    for number, row in enumerate(rows):
        expected, repeat = oracle.apply(row, find)
        assert len(set(given[number])) == len(given[number]), f"row {number}: a pair was found twice: {given[number]}"
        assert set(given[number]) == expected, f"row {number}: {row}"
        if repeat:
            repeats.append(number)
    assert store.duplicates.tolist() == repeats


def same_contents(store: Store, oracle: Oracle) -> None:
    """Everything that is there, and nothing else."""
    for kind in ("subscription", "publication"):
        expected = oracle.there(kind)
        rows = [row for batch in store.scan(kind, COLUMNS) for row in batch.to_pylist()]
        assert len(rows) == len({row["id"] for row in rows})
        given = {row["id"]: shown(row) for row in rows}
        assert given == {key: told(item) for key, item in expected.items()}, kind
        for identity, item in expected.items():
            row = store.get(identity, kind)
            assert row is not None
            assert shown(row) == told(item)


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    topics = frozenset(tuple(map(int, topic.split("."))) if topic else () for topic in row["topics"])
    return (topics, *(row[name] for name in COLUMNS[1:]))


def told(item: Item) -> tuple[Any, ...]:
    publication = item.kind == "publication"
    return (
        item.topics,
        item.time,
        None if publication or item.starts_at == -EVER else item.starts_at,
        None if publication or item.ends_at == EVER else item.ends_at,
        item.expires_at if publication and item.expires_at != EVER else None,
        item.arrived_at,
        item.subscriber_id,
        item.payload,
    )
