"""Writes a log into a store until it is killed. Started by the crash test, with a directory, a layout, a budget and a seed."""

from __future__ import annotations

import random
from multiprocessing.connection import Connection

from pastforward.state import open_store
from tests.state.crash_log import operations_from, size_of_batch
from tests.state.tables import CRASHED, table


def main(path: str, layout: str, budget: str, seed: int, ready: Connection) -> None:
    with open_store(path, layout, budget=CRASHED[budget](), hot_window=4_000, lateness=500) as store:
        offset = store.offset or 0
        chance = random.Random(seed + offset)
        ready.send(True)
        while True:
            size = size_of_batch(seed, offset)
            rows = operations_from(seed, offset, size)
            store.apply(table(rows[: size // 2]))
            if chance.random() < 0.1:
                store.rollback()
                continue
            store.apply(table(rows[size // 2 :]))
            store.put_meta(b"progress", str(offset + size).encode())
            offset += size
            store.commit(offset)
