"""SIGKILL at random moments: a reopened store is exactly a prefix of the log, at the end of a batch."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from pastforward.state import open_store
from tests.forks import FORKS
from tests.state import crash_writer
from tests.state.checks import apply_both, same_contents
from tests.state.crash_log import operations_from, size_of_batch
from tests.state.oracle import Oracle
from tests.state.tables import CRASHED

OPTIONS = {"hot_window": 4_000, "lateness": 500}


def kill_once(path: Path, layout: str, budget: str, seed: int, chance: random.Random) -> None:
    """Starts a writer and kills it when a file of the database has grown by a random number of bytes."""
    ready, said = FORKS.Pipe(duplex=False)
    writer = FORKS.Process(target=crash_writer.main, args=(str(path), layout, budget, seed, said))
    writer.start()
    said.close()
    # One start in five is killed while it opens, without waiting for it to be ready.
    if chance.random() < 0.8:
        assert ready.recv()
        least = written(path) + chance.randrange(1, 30_000)
        while written(path) < least and writer.is_alive():
            os.sched_yield()
    else:
        while not (path / "LOCK").exists() and writer.is_alive():
            os.sched_yield()
    writer.kill()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    ready.close()


def written(path: Path) -> int:
    """Bytes of the write-ahead logs: they grow with every commit."""
    total = 0
    for log in (path / "db").glob("*.log"):
        try:
            total += log.stat().st_size
        except FileNotFoundError:
            continue  # rolled over meanwhile
    return total


def crash(tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(kills):
        layout, budget = [("dual", "ample"), ("two", "small"), ("dual", "tiny"), ("dual", "small")][number % 4]
        path = tmp_path / f"{layout}-{budget}"
        kill_once(path, layout, budget, seed, chance)
        with open_store(path, layout, budget=CRASHED[budget](), **OPTIONS) as store:
            oracle = Oracle(**OPTIONS)
            offset = 0
            reached = store.offset or 0
            while offset < reached:
                size = size_of_batch(seed, offset)
                for row in operations_from(seed, offset, size):
                    oracle.apply(row, "none")
                offset += size
            assert offset == reached, "the offset is not the end of a batch"
            expected = None if store.offset is None else str(offset).encode()
            assert store.get_meta(b"progress") == expected
            oracle.commit()
            same_contents(store, oracle)
            apply_both(store, oracle, operations_from(seed, offset, 40))


def test_ten_kills(tmp_path: Path) -> None:
    crash(tmp_path, 10, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_kills(tmp_path: Path) -> None:
    crash(tmp_path, 200, seed=2)
