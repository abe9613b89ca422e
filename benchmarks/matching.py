"""The matching figures: `pastforward bench matching`, one thread, batches of 1,000 through `match_table`, ids returned.

| piece                           | what                                                                                               |
| equality, range, uniform, zipf  | 1M subscriptions, every algorithm: the packed linear scan is the yardstick                         |
| large                           | `auto` alone: 6M equality-led, 5M of the mixes                                                     |
| writes                          | loading, removing, adding conditions in batches; one `match` from Python                           |
| churn                           | 3M equality-led, 5,000 in and 5,000 out each second, answers held against a plain loop all along   |
| places                          | circles and points, beside shapely                                                                 |
| texts                           | substrings, suffixes, LIKE and expressions in texts of 200 characters, beside pyahocorasick        |
| lists                           | IN lists                                                                                           |
| published                       | published ranges under the three semantics, beside NumPy                                           |

A time is processor time, which on a machine that does nothing else is the time that passes; the least of several repetitions. A slow
contender gets fewer publications, never fewer subscriptions: the table says how many. `--only` runs some pieces and keeps what earlier runs
have measured; `--quick` takes a hundredth of the subscriptions.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from pastforward.benchmarks import kinds
from pastforward.benchmarks.conditions import LOADS
from pastforward.benchmarks.generators import matching as loads
from pastforward.benchmarks.generators.matching import Load
from pastforward.benchmarks.options import RESULTS, listed
from pastforward.matching import Condition, Index
from pastforward.matching.index.algorithms import names
from pastforward.matching.index.subscription import NewSubscription

PIECES: Final = ("equality", "range", "uniform", "zipf", "large", "writes", "churn", *kinds.PIECES)
BATCH: Final = 1000
BUDGET_S: Final = 30.0  # a batch that would take longer is not tried; nor is one more measured when so much is spent
PATIENCE_S: Final = 2.0  # what takes longer is repeated three times, not twenty
MANY: Final = 20


class Figure(NamedTuple):
    load: str
    subscriptions: int
    algorithm: str
    batch_us: float
    single_us: float
    load_s: float
    bytes_each: float
    matches: float
    publications: int  # different ones that were measured in batches


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


def batch_time(index: Index, publications: pa.Table) -> tuple[float, float, int]:
    """Microseconds a publication in batches, matches a publication, and how many publications were measured. Batches grow to 1,000 as
    long as the next one fits the budget."""
    rows, found, spent = 1, 0, 0.0
    while True:
        begin = time.process_time()
        found = index.match_table(publications.slice(0, rows)).num_rows
        taken = time.process_time() - begin
        spent += taken
        if rows == BATCH or 10 * taken > BUDGET_S:
            break
        rows *= 10
    best, measured = taken, rows
    repetitions = MANY if taken * MANY < PATIENCE_S else 3 if taken * 12 < BUDGET_S else 1
    for at in range(0, publications.num_rows - rows + 1, BATCH):
        if spent + taken * repetitions > BUDGET_S:
            break
        spent += taken * repetitions
        best = min(best, least(partial(index.match_table, publications.slice(at, rows)), repetitions))
        measured = at // BATCH * rows + rows
    return best / rows * 1e6, found / rows, measured


def single_time(index: Index, publications: pa.Table) -> float:
    """Microseconds for a publication alone: the median of fifty; of three if they take long."""
    first = least(partial(index.match_table, publications.slice(0, 1)), 1)
    alone = [publications.slice(i, 1) for i in range(50 if first * 150 < PATIENCE_S else 3)]
    repetitions = MANY if first * 50 * MANY < PATIENCE_S else 3 if first * 9 < BUDGET_S / 3 else 1
    return float(np.median([least(partial(index.match_table, batch), repetitions) for batch in alone])) * 1e6


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
    batch_us, matches, publications = batch_time(index, load.publications)
    return Figure(
        load.name,
        load.subscriptions,
        algorithm,
        batch_us,
        single_time(index, load.publications),
        loading,
        grown / load.subscriptions,
        matches,
        publications,
    )


def removal_rate(index: Index, subscriptions: int) -> float:
    """Subscriptions removed a second, in batches of 1,000, in no order."""
    order = np.random.default_rng(5).permutation(subscriptions)[: min(200_000, subscriptions)]
    begin = time.process_time()
    for at in range(0, len(order), BATCH):
        index.remove_many(order[at : at + BATCH])
    return len(order) / (time.process_time() - begin)


def structured_rate(predicates: pa.Table, size: int) -> float:
    """Subscriptions that `add_predicates` takes a second, in batches, into an index that holds as many already. The first batch is not
    counted: it reads kernels from disk."""
    ids = predicates["subscription_id"].to_numpy()
    bounds = np.append(np.flatnonzero(np.diff(ids, prepend=-1)), len(ids))
    half = (len(bounds) - 1) // 2
    size = min(size, half // 2)
    index = Index()
    index.add_predicates(predicates.slice(0, bounds[half]))
    spent = []
    for at in range(half, 2 * half, size):
        begin, end = bounds[at], bounds[min(at + size, 2 * half)]
        spent.append(least(partial(index.add_predicates, predicates.slice(begin, end - begin)), 1))
    return (half - size) / sum(spent[1:])


def python_match(index: Index, load: Load) -> float:
    """Microseconds of one `match` of a dictionary."""
    rows = load.publications.slice(0, 200).to_pylist()
    for row in rows:
        index.match(row)
    return float(np.median([least(partial(index.match, row), MANY) for row in rows])) * 1e6


def condition_rate(text_of: Callable[[int], str], batches: int = 20) -> float:
    """Conditions in normal form that `add_many` takes a second, in batches of 1,000, each with a topic and a window."""
    forms = [Condition.parse(text_of(i)).disjuncts for i in range(batches * BATCH)]
    index = Index()
    best = float("inf")
    for at in range(0, len(forms), BATCH):
        new = [
            NewSubscription(at + i, form, f"1.{i % 50}.{i % 7}", "overlap", i, None if i % 2 else 10**15 + i)
            for i, form in enumerate(forms[at : at + BATCH])
        ]
        best = min(best, least(partial(index.add_many, new), 1))
    return BATCH / best


def writes(million: int) -> dict[str, float]:
    measured: dict[str, float] = {}
    for load in (loads.equality_led(million), loads.range_led(million)):
        index = Index()
        seconds = least(partial(index.add_predicates, load.predicates), 1)
        measured[f"{load.name}: loading {load.subscriptions:,} through add_predicates, seconds"] = seconds
        measured[f"{load.name}: structured conditions taken a second, all at once"] = load.subscriptions / seconds
        if load.name == "equality-led":
            measured[f"{load.name}: one match of a dictionary from Python, us"] = python_match(index, load)
        measured[f"{load.name}: removed a second, in batches of {BATCH:,}"] = removal_rate(index, load.subscriptions)
    fifth = million // 5
    for name, predicates in (
        ("equality-led", loads.equality_predicates(fifth)),
        ("range-led", loads.range_predicates(fifth)),
        ("mix, uniform", loads.mix(fifth, zipf=False).predicates),
    ):
        for size in (BATCH, 10 * BATCH):
            rate = structured_rate(predicates, size)
            measured[f"{name}: structured conditions taken a second, in batches of {size:,}"] = rate
    for name, text_of in LOADS.items():
        measured[f"add_many, {name}: conditions a second, in batches of {BATCH:,}"] = condition_rate(text_of)
    return measured


def _columns(predicates: pa.Table) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Attributes and values of equality-led subscriptions, five each."""
    attributes = predicates["attribute"].combine_chunks().indices.to_numpy().astype(np.int8).reshape(-1, 5)
    return attributes, predicates["value_int64"].to_numpy().astype(np.int8).reshape(-1, 5)


def churn(subscriptions: int, seconds: int = 10, rate: int = 5000) -> dict[str, float]:
    """Matching while subscriptions come and go, `rate` of each a second, written in ten pieces a second. Each second the answers for ten
    publications are held against a plain loop over all subscriptions. Still and moving times are taken alike: of each piece the lesser of
    two, then the median; still ones before and after."""
    load = loads.equality_led(subscriptions)
    index = Index()
    index.add_predicates(load.predicates)
    pieces = 10

    def matched(piece: int) -> float:
        return least(partial(index.match_table, load.publications.slice((piece % 4) * BATCH, BATCH)), 2)

    still = [matched(piece) for piece in range(pieces * seconds)]
    fresh = loads.equality_predicates(rate * seconds, first_id=subscriptions, seed=7)
    held = [np.concatenate(pair) for pair in zip(_columns(load.predicates), _columns(fresh), strict=True)]
    per_piece = rate // pieces
    # a kernel's first call reads it from disk, which is no write's time
    warm = Index()
    warm.add_predicates(fresh.slice(0, 5 * BATCH))
    warm.add_predicates(fresh.slice(5 * BATCH, 5 * per_piece))
    warm.remove_many(np.arange(subscriptions, subscriptions + per_piece))
    longest, checked = 0.0, 0
    times: list[float] = []
    for piece in range(pieces * seconds):
        begin = time.process_time()
        index.add_predicates(fresh.slice(piece * per_piece * 5, per_piece * 5))
        middle = time.process_time()
        index.remove_many(np.arange(piece * per_piece, (piece + 1) * per_piece))
        longest = max(longest, middle - begin, time.process_time() - middle)
        times.append(matched(piece))
        if piece % pieces == pieces - 1:
            batch = load.publications.slice((piece % 4) * BATCH, BATCH)
            found = index.match_table(batch)
            live = slice((piece + 1) * per_piece, subscriptions + (piece + 1) * per_piece)
            for row in range(0, BATCH, BATCH // 10):
                event = np.array([column[row].as_py() for column in batch.columns], np.int8)
                matching = (event[held[0][live]] == held[1][live]).all(axis=1)
                wanted = np.flatnonzero(matching) + live.start
                got = found.filter(pa.compute.equal(found["row"], row))["subscription_id"].to_numpy()
                if not np.array_equal(np.sort(got), wanted):
                    raise AssertionError(f"publication {row} of piece {piece}: {got} instead of {wanted}")
                checked += 1
    still += [matched(piece) for piece in range(pieces * seconds)]
    quiet, moving = (float(np.median(taken)) / BATCH * 1e6 for taken in (still, times))
    return {
        f"churn at {subscriptions:,}: us a publication, still": quiet,
        f"churn at {subscriptions:,}: us a publication while {rate:,} come and {rate:,} go each second": moving,
        f"churn at {subscriptions:,}: times the still time": moving / quiet,
        f"churn at {subscriptions:,}: longest write of {per_piece}, ms": longest * 1e3,
        f"churn at {subscriptions:,}: publications held against a plain loop, all right": checked,
    }


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
        "measured over",
        "the scan takes",
    ):
        table.add_column(heading, justify="left" if heading in ("load", "algorithm") else "right")
    scan = {(f.load, f.subscriptions): f.batch_us for f in figures if f.algorithm == "linear"}
    for f in figures:
        times = scan.get((f.load, f.subscriptions), float("nan")) / f.batch_us
        table.add_row(
            f.load, f"{f.subscriptions:,}", f.algorithm, f"{f.batch_us:,.2f}", f"{f.single_us:,.0f}", f"{f.load_s:.2f}",
            f"{f.bytes_each:.0f}", f"{f.matches:.2f}", f"{f.publications:,}", f"{times:,.1f} x",
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


class Kept:
    """What has been measured so far, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        known = json.loads(file.read_text()) if file.exists() else {"figures": [], "others": {}}
        self.figures = [Figure(**figure) for figure in known["figures"]]
        self.others: dict[str, float] = known["others"]

    def add(self, figures: Iterable[Figure] = (), others: Mapping[str, float] | None = None) -> None:
        for figure in figures:
            self.figures = [known for known in self.figures if known[:3] != figure[:3]] + [figure]
        self.others.update(others or {})
        self._file.parent.mkdir(parents=True, exist_ok=True)
        kept = {"figures": [figure._asdict() for figure in self.figures], "others": self.others}
        self._file.write_text(json.dumps(kept, indent=1))


def run(pieces: Iterable[str], algorithms: tuple[str, ...], scale: int, kept: Kept, to: Path) -> None:
    console = Console()
    million = 1_000_000 // scale
    first: dict[str, Callable[[], Load]] = {
        "equality": lambda: loads.equality_led(million),
        "range": lambda: loads.range_led(million),
        "uniform": lambda: loads.mix(million, zipf=False),
        "zipf": lambda: loads.mix(million, zipf=True),
    }
    with Progress(console=console) as progress:
        for piece in pieces:
            if piece in first:
                kept.add(contenders(first[piece](), algorithms, progress))
            elif piece == "large":
                kept.add(contenders(loads.equality_led(6 * million), ("auto",), progress))
                kept.add(contenders(loads.mix(5 * million, zipf=False), ("auto",), progress))
                kept.add(contenders(loads.mix(5 * million, zipf=True), ("auto",), progress))
            elif piece in kinds.PIECES:
                kept.add(others=kinds.PIECES[piece](scale))
            else:
                kept.add(others=writes(million) if piece == "writes" else churn(3 * million))
    show(console, kept.figures)
    for name, value in kept.others.items():
        console.print(f"{name}: {value:,.2f}")
    drawn = [figure for figure in kept.figures if figure.subscriptions == million]
    if drawn:
        draw(drawn, to)
        console.print(f"plot: {to}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the subscriptions")
    parser.add_argument("--only", help=f"which pieces, with commas: {', '.join(PIECES)}")
    parser.add_argument(
        "--algorithms", default=",".join(names()), help=f"which ones, with commas: {', '.join(names())}"
    )
    parser.add_argument("--kept", type=Path, default=RESULTS / "matching.json", help="measured so far")
    parser.add_argument("--plot", type=Path, default=RESULTS / "matching.png")
    given = parser.parse_args()
    try:
        pieces = listed(PIECES, given.only) if given.only is not None else list(PIECES)
        algorithms = listed(names(), given.algorithms)
    except ValueError as error:
        parser.error(str(error))
    if given.only is None:
        given.kept.unlink(missing_ok=True)
    run(pieces, tuple(algorithms), 100 if given.quick else 1, Kept(given.kept), given.plot)


if __name__ == "__main__":
    main()
