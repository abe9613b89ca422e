"""One writer and many readers: a reader sees an index before or after a write, never half of a batch."""

from __future__ import annotations

import threading

import pyarrow as pa

from pastforward.matching import Index

SIZE = 300


def batch(value: int) -> pa.Table:
    """All subscriptions ask for the same value."""
    return pa.table(
        {
            "subscription_id": list(range(SIZE)),
            "attribute": ["x"] * SIZE,
            "operator": ["="] * SIZE,
            "value_int64": [value] * SIZE,
        }
    )


def test_readers_see_whole_writes() -> None:
    index = Index()
    index.add_predicates(batch(0))
    publications = pa.table({"x": list(range(8))})
    wrong: list[object] = []
    done = threading.Event()
    started = threading.Barrier(4)

    def read() -> None:
        started.wait()
        while not done.is_set():
            rows = index.match_table(publications)["row"].to_pylist()
            if len(rows) != SIZE or len(set(rows)) != 1:
                wrong.append(rows)
                return
            one = index.match({"x": 0})
            if len(one) not in (0, SIZE):
                wrong.append(one)
                return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    started.wait()
    for turn in range(40):
        index.add_predicates(batch(turn % 8))
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
