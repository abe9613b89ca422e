"""The matching figures: `python -m benchmarks.matching`, one thread, batches of 1,000 through `match_table`, ids returned.

Everything is measured in one run, so that ratios hold whatever the machine. A time is processor time, which on a machine that does nothing
else is the time that passes; the least of several repetitions. The packed linear
scan is the yardstick; the papers' algorithms run beside it. `--quick` takes a hundredth of the subscriptions.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import loads
from benchmarks.loads import Load
from matching import Index
from matching.algorithms import NAMES

BATCH = 1000
# A contender that needs longer than this for a hundred publications is not asked for more of them.
PATIENCE_S = 2.0


@dataclass(frozen=True)
class Figure:
    load: str
    subscriptions: int
    algorithm: str
    batch_us: float
    single_us: float
    load_s: float
    bytes_each: float
    matches: float


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def least(run: Callable[[], object], repetitions: int) -> float:
    best = float("inf")
    for _ in range(repetitions):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    return best


def batch_time(index: Index, publications: pa.Table) -> tuple[float, float]:
    """Microseconds a publication in batches, and matches a publication; slow contenders get fewer publications."""
    rows = 20
    while True:
        batch = publications.slice(0, rows)
        taken = least(partial(index.match_table, batch), 1)
        if rows == BATCH or taken * 5 > PATIENCE_S:
            break
        rows = min(BATCH, rows * 10)
    found = index.match_table(batch).num_rows
    spread = [publications.slice(at, rows) for at in range(0, publications.num_rows - rows + 1, BATCH)]
    best = min(least(partial(index.match_table, batch), 3) for batch in spread)
    return best / rows * 1e6, found / rows


def single_time(index: Index, publications: pa.Table) -> float:
    """Microseconds for a publication alone: the median of fifty; of three if they take long."""
    first = least(partial(index.match_table, publications.slice(0, 1)), 1)
    alone = [publications.slice(i, 1) for i in range(50 if first * 150 < PATIENCE_S else 3)]
    return float(np.median([least(partial(index.match_table, batch), 3) for batch in alone])) * 1e6


def measure(load: Load, algorithm: str) -> Figure:
    warm = Index(algorithm=algorithm)
    warm.add_predicates(load.predicates.slice(0, 5000))
    warm.match_table(load.publications.slice(0, BATCH))
    warm.match_table(load.publications.slice(0, 1))
    del warm
    gc.collect()
    before = resident()
    index = Index(algorithm=algorithm)
    begin = time.process_time()
    index.add_predicates(load.predicates)
    loading = time.process_time() - begin
    pa.default_memory_pool().release_unused()
    grown = max(resident() - before, index.nbytes)
    batch_us, matches = batch_time(index, load.publications)
    return Figure(
        load.name,
        load.subscriptions,
        algorithm,
        batch_us,
        single_time(index, load.publications),
        loading,
        grown / load.subscriptions,
        matches,
    )


def removal_rate(load: Load) -> float:
    """Subscriptions removed a second, in batches of 1,000."""
    index = Index()
    index.add_predicates(load.predicates)
    order = np.random.default_rng(5).permutation(load.subscriptions)[: min(200_000, load.subscriptions)]
    begin = time.process_time()
    for at in range(0, len(order), BATCH):
        index.remove_many(order[at : at + BATCH])
    return len(order) / (time.process_time() - begin)


def python_match(load: Load) -> float:
    """Microseconds of one `match` of a dictionary."""
    index = Index()
    index.add_predicates(load.predicates)
    rows = load.publications.slice(0, 200).to_pylist()
    for row in rows:
        index.match(row)
    return float(np.median([least(partial(index.match, row), 5) for row in rows])) * 1e6


@dataclass(frozen=True)
class Churn:
    still_us: float
    moving_us: float
    longest_write_ms: float


def churn(subscriptions: int, seconds: int = 10, rate: int = 5000) -> Churn:
    """Matching while subscriptions come and go, `rate` of each a second, written in ten pieces a second."""
    load = loads.equality_led(subscriptions)
    index = Index()
    index.add_predicates(load.predicates)
    still, _ = batch_time(index, load.publications)
    pieces = 10
    fresh = loads.equality_predicates(rate * seconds, first_id=subscriptions, seed=7)
    per_piece = rate // pieces
    longest = 0.0
    times: list[float] = []
    for piece in range(pieces * seconds):
        begin = time.process_time()
        index.add_predicates(fresh.slice(piece * per_piece * 5, per_piece * 5))
        middle = time.process_time()
        index.remove_many(np.arange(piece * per_piece, (piece + 1) * per_piece))
        longest = max(longest, middle - begin, time.process_time() - middle)
        at = (piece % 4) * BATCH
        batch = load.publications.slice(at, BATCH)
        times.append(least(partial(index.match_table, batch), 2))
    return Churn(still, float(np.median(times)) / BATCH * 1e6, longest * 1e3)


def contenders(load: Load, algorithms: Iterable[str], progress: Progress) -> list[Figure]:
    figures = []
    names = list(algorithms)
    task = progress.add_task(f"{load.name}, {load.subscriptions:,}", total=len(names))
    for name in names:
        try:
            figures.append(measure(load, name))
        except MemoryError as error:
            progress.console.print(f"{name} on {load.name}, {load.subscriptions:,}: {error}")
        progress.advance(task)
    return figures


def show(console: Console, figures: list[Figure]) -> None:
    table = Table(title="Matching, one thread, batches of 1,000")
    for heading in (
        "load",
        "subscriptions",
        "algorithm",
        "us a publication",
        "alone",
        "loading s",
        "bytes each",
        "matches",
    ):
        table.add_column(heading, justify="left" if heading in ("load", "algorithm") else "right")
    for f in figures:
        table.add_row(
            f.load, f"{f.subscriptions:,}", f.algorithm, f"{f.batch_us:,.2f}", f"{f.single_us:,.0f}", f"{f.load_s:.2f}",
            f"{f.bytes_each:.0f}", f"{f.matches:.2f}",
        )  # fmt: skip
    console.print(table)


def draw(figures: list[Figure], to: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = list(dict.fromkeys((f.load, f.subscriptions) for f in figures))
    names = list(dict.fromkeys(f.algorithm for f in figures))
    figure, axes = plt.subplots(figsize=(1.5 + 2.2 * len(groups), 5))
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        heights = [
            next((f.batch_us for f in figures if f.algorithm == name and (f.load, f.subscriptions) == g), 0.0)
            for g in groups
        ]
        axes.bar(np.arange(len(groups)) + i * width, heights, width, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("microseconds a publication (log)")
    axes.set_xticks(np.arange(len(groups)) + 0.4 - width / 2, [f"{load}\n{count:,}" for load, count in groups])
    axes.legend(ncols=4, fontsize="small")
    figure.tight_layout()
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=120)


def run(
    quick: bool = False, to: Path = Path("results/matching.png"), algorithms: tuple[str, ...] = NAMES
) -> list[Figure]:
    """The whole table. `algorithms` run on the loads of 1M; the larger ones are for `auto` alone."""
    console = Console()
    scale = 100 if quick else 1
    million = 1_000_000 // scale
    figures: list[Figure] = []
    with Progress(console=console) as progress:
        for load in (
            loads.equality_led(million),
            loads.range_led(million),
            loads.mix(million, zipf=False),
            loads.mix(million, zipf=True),
        ):
            figures += contenders(load, algorithms, progress)
        figures += contenders(loads.equality_led(6 * million), ("auto",), progress)
        figures += contenders(loads.mix(5 * million, zipf=False), ("auto",), progress)
        figures += contenders(loads.mix(5 * million, zipf=True), ("auto",), progress)
    show(console, figures)
    load = loads.equality_led(million)
    console.print(f"removing, equality-led: {removal_rate(load):,.0f} a second")
    console.print(f"one match from Python, equality-led: {python_match(load):.1f} us")
    moving = churn(3 * million)
    console.print(
        f"churn at {3 * million:,}: {moving.still_us:.2f} us still, {moving.moving_us:.2f} us while 5,000 come and 5,000 go "
        f"each second ({moving.moving_us / moving.still_us:.2f} times); longest write {moving.longest_write_ms:.1f} ms"
    )
    draw(figures, to)
    console.print(f"plot: {to}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the subscriptions")
    parser.add_argument("--plot", type=Path, default=Path("results/matching.png"))
    parser.add_argument("--algorithms", default=",".join(NAMES), help="which ones, with commas")
    arguments = parser.parse_args()
    run(arguments.quick, arguments.plot, tuple(arguments.algorithms.split(",")))


if __name__ == "__main__":
    main()
