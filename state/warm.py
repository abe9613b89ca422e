"""Compiles all kernels once, so that neither a worker's start nor a test waits for it. The result is cached on disk."""

from __future__ import annotations

import tempfile

import pyarrow as pa

from pastforward.state.budget import Budget
from pastforward.state.operations import batch_of
from pastforward.state.store import Store


def compile_kernels() -> None:
    """Takes a minute the first time, a second after that."""
    table = pa.table(
        {
            "kind": ["subscription", "publication", "publication", "subscription", "withdrawal"],
            "id": ["s", "p", "q", "t", "s"],
            "topic": ["1", "1.2", "", "1.2", ""],
            "time": [1, 2, 3, 4, 5],
            "ends_at": [9, None, None, 9, None],
            "self_join": [True] * 5,
            "subscriber_id": ["a"] * 5,
            "payload": [b"x"] * 5,
        }
    )
    with tempfile.TemporaryDirectory(prefix="pastforward-") as directory:
        for name in ("memory", "disk"):
            budget = Budget()
            if name == "disk":
                budget.for_indexes = -1  # no room: every answer comes from RocksDB
            for _ in range(2):
                with Store(f"{directory}/{name}", "dual", budget, None, 0, None) as store:
                    store.apply(table, columns=("topics", "payload", "subscriber_id", "scope", "time", "expires_at"))
                    store.rollback()
                    store.apply_columns(batch_of(table))
                    list(store.past())
                    store.amend([b"q"], [b"y"])
                    store.commit(1)
                    store.get("t")
                    for kind in ("subscription", "publication"):
                        list(store.scan(kind))
