"""Compiles all kernels once, so that neither a worker's start nor a test waits for it. The result is cached on disk."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa

from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.state.budget import Budget
from pastforward.state.operations import batch_of
from pastforward.state.sealing import Dense
from pastforward.state.search import TEXT, Filter, Predicate, Range
from pastforward.state.store import Store


def _no_attributes(payloads: Texts) -> Attributes:
    start = np.zeros(len(payloads) + 1, np.int64)
    none = np.empty(0, np.int32)
    return Attributes(["a"], start, none, none.astype(np.uint8), none.astype(np.int64), none, none.astype(np.uint8))


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
    Dense(_no_attributes(Texts.of([b"x"])), 1)
    with tempfile.TemporaryDirectory(prefix="pastforward-") as directory:
        for name in ("memory", "disk"):
            budget = Budget()
            if name == "disk":
                budget.for_indexes = -1  # no room: every answer comes from RocksDB
            for _ in range(2):
                with Store(f"{directory}/{name}", "dual", budget, None, 0, None, _no_attributes) as store:
                    store.apply(table, columns=("topics", "payload", "subscriber_id", "scope", "time", "expires_at"))
                    store.rollback()
                    store.apply_columns(batch_of(table))
                    filtered = {0: Filter(((Predicate("a", (Range(TEXT, b"a", b"a"),)),),))}
                    for search in (store.search(), store.search(filtered)):
                        while search.take() is not None:
                            pass
                    store.amend([b"q"], [b"y"])
                    store.commit(1)
                    store.get("t")
                    store.get("q", "publication")
                    store.apply(table)
                    store.rollback()
                    for kind in ("subscription", "publication"):
                        list(store.scan(kind))
