"""Operations as Arrow tables. Imports nothing heavy: crash writers start often."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pastforward.state import Budget

SCHEMA = {
    "kind": pa.string(),
    "topic": pa.string(),
    "time": pa.int64(),
    "starts_at": pa.int64(),
    "ends_at": pa.int64(),
    "expires_at": pa.int64(),
    "arrived_at": pa.int64(),
    "now": pa.int64(),
    "horizon": pa.int64(),
    "scope": pa.string(),
    "valid": pa.bool_(),
    "subscriber_id": pa.string(),
    "self_join": pa.bool_(),
    "payload": pa.binary(),
}

COLUMNS = ("topics", "time", "starts_at", "ends_at", "expires_at", "arrived_at", "subscriber_id", "payload")


def table(rows: list[dict[str, Any]]) -> Any:
    """Operations as Arrow; string ids unless they are numbers, one topic each unless there are lists."""
    columns = {}
    integers = bool(rows) and isinstance(rows[0]["id"], int)
    columns["id"] = pa.array([row["id"] for row in rows], pa.int64() if integers else pa.string())
    for name, kind in SCHEMA.items():
        if name == "topic" and any(isinstance(row.get(name), list) for row in rows):
            topics = [row.get(name) or [""] for row in rows]
            columns[name] = pa.array([[topic] if isinstance(topic, str) else topic for topic in topics])
        else:
            columns[name] = pa.array([row.get(name) for row in rows], kind)
    return pa.table(columns)


class Tiny(Budget):
    """No room for an index at all: every answer comes from RocksDB."""

    def __init__(self) -> None:
        super().__init__(4 << 20)
        self.for_indexes = -1


BUDGETS = {"ample": Budget, "tiny": Tiny}


class Small(Budget):
    """Room for a few hundred items: the index moves to disk, and back, as the log goes on."""

    def __init__(self) -> None:
        super().__init__(4 << 20)
        self.for_indexes = 45_000


CRASHED = {**BUDGETS, "small": Small}
