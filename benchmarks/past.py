"""The past at full size: `python -m pastforward.benchmarks.past`. One store, publications in chunks of 1,000, each asking for the one
before it on its topic; then searches, one and twenty at once; then the store is opened again.

Times are the processor's, all threads of the process; the clock stands beside them where somebody waits. `--count` takes so many
publications.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from pastforward.columns.attributes import INTEGER, Attributes
from pastforward.columns.texts import Texts
from pastforward.state import (
    EARLIEST,
    KIND,
    Batch,
    Budget,
    Filter,
    Predicate,
    Range,
    Search,
    Store,
    compile_kernels,
    open_store,
)
from pastforward.state.search import NUMBER

TOPICS: Final = 2_000
CHUNK: Final = 1_000
NAMES: Final = [f"a{i}" for i in range(10)]
VALUES: Final = 2_000
BODY: Final = 120  # bytes, of which the first eighty are the attributes
NEVER: Final = 1 << 62
PLACES: Final = [f"{i % 20 + 1}.{i // 20 + 1}".encode() for i in range(TOPICS)]
SELECTIVE: Final = Filter(((Predicate("a3", (Range(NUMBER, 7, 7),)), Predicate("a4", (Range(NUMBER, 0, 20),))),))


def attributes_of(payloads: Texts) -> Attributes:
    count = len(payloads) * len(NAMES)
    bodies = payloads.heap.reshape(len(payloads), -1)[:, : 8 * len(NAMES)]
    bits = np.ascontiguousarray(bodies).view(np.int64).reshape(-1)
    name = np.tile(np.arange(len(NAMES), dtype=np.int32), len(payloads))
    start = np.arange(0, count + 1, len(NAMES))
    return Attributes(
        NAMES, start, name, np.full(count, INTEGER, np.uint8), bits, np.zeros(count, np.int32), np.empty(0, np.uint8)
    )


def _batch(kind: str, ids: Texts, topics: list[bytes], time_: int, payload: Texts) -> Batch:
    rows = len(ids)
    times = time_ + np.arange(rows) * 100
    no, none = np.zeros(rows, np.bool_), Texts.of([b""] * rows)
    earlier = np.full(rows, kind == "publication", np.int64)
    never = np.full(rows, NEVER, np.int64)
    return Batch(
        kind=np.full(rows, KIND[kind], np.uint8), id=ids, topic=Texts.of(topics), time=times, arrived_at=times.copy(),
        now=times.copy(), starts_at=np.full(rows, EARLIEST, np.int64), ends_at=never, expires_at=never.copy(), subtree=no,
        valid=no.copy(), self_join=no.copy(), earlier=earlier, subscriber_id=none, payload=payload,
    )  # fmt: skip


def publications(chance: np.random.Generator, first: int) -> Batch:
    topics = [PLACES[at] for at in chance.integers(0, TOPICS, CHUNK).tolist()]
    body = np.zeros((CHUNK, BODY), np.uint8)
    body[:, :80] = chance.integers(0, VALUES, (CHUNK, len(NAMES))).view(np.uint8).reshape(CHUNK, 80)
    body[:, 80:] = chance.integers(0, 40, (CHUNK, BODY - 80))
    payload = Texts(body.reshape(-1), np.arange(0, BODY * CHUNK, BODY), np.full(CHUNK, BODY, np.int32))
    ids = Texts.of([b"%016x" % (n * 0x9E3779B1) for n in range(first, first + CHUNK)])
    return _batch("publication", ids, topics, first * 100, payload)


def search(store: Store, name: str, topic: bytes, now: int, given: Filter | None) -> Search:
    store.apply_columns(_batch("subscription", Texts.of([name.encode()]), [topic], now, Texts.of([b"s"])), find="past")
    return store.search(None if given is None else {0: given})


def resident() -> int:
    """Megabytes of memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20


@contextmanager
def measured(what: str) -> Iterator[list[str]]:
    said: list[str] = []
    busy, clock, memory = time.process_time(), time.perf_counter(), resident()
    yield said
    busy, clock = time.process_time() - busy, time.perf_counter() - clock
    print(f"{what}: {busy:.4f} s, {clock:.4f} by the clock, {resident() - memory:+} MB{''.join(said)}", flush=True)


def take_all(searches: list[Search]) -> int:
    """A piece of each in turn."""
    found = 0
    while searches:
        for one in list(searches):
            piece = one.take()
            if piece is None:
                searches.remove(one)
            else:
                found += len(piece.row)
    return found


def fill(store: Store, count: int) -> None:
    chance = np.random.default_rng(1)
    began, applied, committed, worst = resident(), 0.0, 0.0, 0.0
    every = max(CHUNK, count // 5)
    for first in range(0, count, CHUNK):
        batch = publications(chance, first)
        start = time.process_time()
        store.apply_columns(batch, find="past")
        middle = time.process_time()
        store.commit(first + CHUNK)
        end = time.process_time()
        applied, committed, worst = applied + middle - start, committed + end - middle, max(worst, end - middle)
        if (first + CHUNK) % every == 0:
            stats = store.stats
            print(
                f"{first + CHUNK:>10,} held: apply {applied / every * 1e6:.2f}, commit {committed / every * 1e6:.2f} us each; longest "
                f"{worst * 1e3:.0f} ms; {resident() - began:+} MB, {stats.index_bytes >> 20} of them known; {stats.slices} slices",
                flush=True,
            )
            applied = committed = worst = 0.0


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m pastforward.benchmarks.past", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000_000, help="publications, in thousands")
    parser.add_argument("--budget", type=int, default=512, help="megabytes")
    given = parser.parse_args(arguments)
    compile_kernels()
    with tempfile.TemporaryDirectory(prefix="pastforward-bench-") as directory:

        def opened() -> Store:
            budget = Budget(given.budget << 20)
            return open_store(f"{directory}/s", budget=budget, hot_window=10**12, reader=attributes_of)

        now = given.count * 100
        with opened() as store:
            fill(store, given.count)
            for name, topic, filter_ in (
                ("the root, two predicates", b"", SELECTIVE),
                ("one topic, two predicates", PLACES[7], SELECTIVE),
                ("one topic, all", PLACES[8], None),
                ("the root, all", b"", None),
            ):
                with measured(name) as said:
                    said.append(f"; {take_all([search(store, name, topic, now, filter_)]):,} found")
            with measured("twenty at the root, two predicates") as said:
                searches = [search(store, f"s{n}", b"", now, SELECTIVE) for n in range(20)]
                said.append(f"; {take_all(searches):,} found")
            store.commit(given.count + 1)
        size = sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())
        print(f"disk: {size / given.count:.0f} bytes a publication")
        with measured("opening"), opened():
            pass


if __name__ == "__main__":
    main()
