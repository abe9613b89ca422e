"""PUBSUB (Mishra and Sahni) on its own mix: `python -m benchmarks.pubsub`.

400 attributes in all, about 7 predicates a subscription, 30 % of them equalities, 15 attributes a publication, uniform and Zipf; how the
values are drawn is told in `benchmarks.loads`. Three tables, after the paper's sections 4.1 and 4.2, with both of its structures D: over
bucket sizes, over numbers of subscriptions beside the packed linear scan, and what updates cost. All in one run and one thread, in batches
of 1,000 through `match_table`, ids returned. A time is the least of several, and processor time: the machine may be shared.
`candidates` is PUBSUB alone; the whole match also reads the table, verifies every candidate exactly and names the ids.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import loads
from benchmarks.loads import Load
from matching import Index
from matching.columns import Batch

BATCH = 1000
# The linear scan of a million takes about a tenth of a second a publication.
LINEAR_BATCH = 10
REPETITIONS = 5
WIDTH = 150  # of the tables, also where there is no terminal


@dataclass(frozen=True)
class Figure:
    load: str
    subscriptions: int
    contender: str
    match_us: float
    candidates_us: float
    candidates: float
    matches: float
    load_s: float
    bytes_each: float
    counters: dict[str, int | float]


def least(run: Callable[[], object]) -> float:
    """Seconds of processor time."""
    best = float("inf")
    for _ in range(REPETITIONS):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    return best


def candidates_time(index: Index, run: Callable[[], object]) -> tuple[float, int]:
    """Seconds that the algorithm alone needs for a match, and the candidates it names."""
    algorithm: Any = index._algorithm
    seen: list[Batch] = []
    find = algorithm.candidates

    def candidates(batch: Batch) -> Any:
        seen.append(batch)
        return find(batch)

    algorithm.candidates = candidates
    try:
        run()
    finally:
        del algorithm.candidates
    return least(lambda: find(seen[0])), len(find(seen[0])[0])


def measure(load: Load, contender: str, **options: Any) -> Figure:
    index = Index(**options)
    begin = time.process_time()
    index.add_predicates(load.predicates)
    loading = time.process_time() - begin
    rows = LINEAR_BATCH if index.algorithm == "linear" else BATCH
    batch = load.publications.slice(0, rows)
    found = index.match_table(batch).num_rows
    match_s = least(lambda: index.match_table(batch))
    candidates_s, candidates = candidates_time(index, lambda: index.match_table(batch))
    return Figure(
        load.name,
        load.subscriptions,
        contender,
        match_s / rows * 1e6,
        candidates_s / rows * 1e6,
        candidates / rows,
        found / rows,
        loading,
        index.nbytes / load.subscriptions,
        index.counters(),
    )


def show(console: Console, title: str, figures: Sequence[Figure]) -> None:
    table = Table(title=title)
    for heading in (
        "load", "subscriptions", "contender", "us a publication", "candidates us", "candidates", "matches", "loading s",
        "bytes each", "structures", "splits", "opened", "grown",
    ):  # fmt: skip
        table.add_column(heading, justify="left" if heading in ("load", "contender") else "right")
    for f in figures:
        did = [
            f"{f.counters[name]:,}" if name in f.counters else ""
            for name in ("structures", "splits", "opened", "grown")
        ]
        table.add_row(
            f.load, f"{f.subscriptions:,}", f.contender, f"{f.match_us:,.1f}", f"{f.candidates_us:,.1f}", f"{f.candidates:,.1f}",
            f"{f.matches:.1f}", f"{f.load_s:.1f}", f"{f.bytes_each:.0f}", *did,
        )  # fmt: skip
    console.print(table)


def updates(load: Load, **options: Any) -> tuple[float, float, float]:
    """Microseconds of one subscription: removed in batches of 1,000, added again one table of 1,000 at a time, added alone."""
    index = Index(**options)
    index.add_predicates(load.predicates)
    ids = load.predicates.column("subscription_id").to_numpy()
    many = 20
    chosen = np.random.default_rng(5).permutation(load.subscriptions)[: many * BATCH]
    batches = [load.predicates.filter(np.isin(ids, part)) for part in np.split(chosen, many)]
    alone = [load.predicates.filter(ids == number) for number in chosen[:200]]
    begin = time.process_time()
    for part in np.split(chosen, many):
        index.remove_many(part)
    removed = time.process_time()
    for table in batches:
        index.add_predicates(table)
    added = time.process_time()
    for table in alone:
        index.add_predicates(table)  # replaces: one removal and one insertion
    replaced = time.process_time()
    return (
        (removed - begin) / len(chosen) * 1e6,
        (added - removed) / len(chosen) * 1e6,
        (replaced - added) / len(alone) * 1e6,
    )


def run(most: int = 1_000_000) -> list[Figure]:
    """Up to `most` subscriptions."""
    console = Console()
    console = Console(width=max(console.width, WIDTH))
    figures: list[Figure] = []
    structures = {"PS-IT": "interval", "PS-RBPST": "rbpst"}

    sized: list[Figure] = []
    for zipf in (False, True):
        load = loads.mix(most, zipf, BATCH)
        for bucket_size in track((500, 1000, 5000, 20_000), f"bucket sizes, {load.name}", console=console):
            for name, structure in structures.items():
                sized.append(
                    measure(
                        load,
                        f"{name}, {bucket_size:,}",
                        algorithm="pubsub",
                        structure=structure,
                        bucket_size=bucket_size,
                    )
                )
                gc.collect()
    show(console, "Bucket size", sized)

    grown: list[Figure] = []
    for zipf in (False, True):
        for count in track((most // 10, most // 2, most), "subscriptions", console=console):
            load = loads.mix(count, zipf, BATCH)
            grown.append(measure(load, "linear", algorithm="linear"))
            for name, structure in structures.items():
                grown.append(measure(load, name, algorithm="pubsub", structure=structure))
            grown.append(measure(load, "auto D", algorithm="pubsub"))
            gc.collect()
    show(console, "Number of subscriptions", grown)
    figures += sized + grown

    load = loads.mix(most // 2, False, BATCH)
    table = Table(title=f"Updates at {load.subscriptions:,}, us each")
    for heading in ("buckets", "remove, by 1,000", "add, by 1,000", "replace alone"):
        table.add_column(heading, justify="right")
    for bucket_size, ordered in ((5000, True), (5000, False), (100, False)):
        times = updates(load, algorithm="pubsub", bucket_size=bucket_size, ordered=ordered)
        table.add_row(f"{bucket_size:,} {'ordered' if ordered else 'unordered'}", *(f"{t:,.1f}" for t in times))
    console.print(table)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000, help="subscriptions, at most")
    run(parser.parse_args().most)


if __name__ == "__main__":
    main()
