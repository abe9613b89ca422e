"""Figure 3 of Fabret et al. on our index: `python -m benchmarks.fabret --sizes 100000 1000000`, all contenders in one run.

| load | names | subscriptions                                              | publications |
| W0   | 32    | 5 equalities, 2 of them on names common to all             | all 32 names |
| W1   | 32    | 2 fixed equalities, 1 fixed `>`, 1 free equality           | all 32 names |
| W2   | 32    | 2 fixed equalities, 5 fixed `<`, 1 fixed `>`, 1 free equality | all 32 names |

Values are 1 to 35, uniform. Subscriptions come in batches of 10,000, publications in batches of 100, as in the paper. Times are processor
time, the least of several repetitions: the machine may be shared.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.generators.fabret import SHAPES, publications, table
from matching import Index

SUBSCRIPTIONS_AT_ONCE: Final = 10_000
PUBLICATIONS_AT_ONCE: Final = 100
CONTENDERS: Final = ("linear", "counting", "propagation", "prefetch", "dynamic", "static")
# The linear scan is given fewer publications: it needs the same time for each.
LINEAR_PUBLICATIONS: Final = 2
REPETITIONS: Final = 5


@dataclass(frozen=True)
class Figure:
    load: str
    subscriptions: int
    algorithm: str
    microseconds: float
    load_s: float
    bytes_each: float
    matches: float
    counters: dict[str, int | float]


def measure(load: str, algorithm: str, sizes: list[int]) -> Iterator[Figure]:
    """One index that grows from size to size."""
    index = Index(algorithm=algorithm)
    rows = LINEAR_PUBLICATIONS if algorithm == "linear" else PUBLICATIONS_AT_ONCE
    batches = [publications(10 * PUBLICATIONS_AT_ONCE).slice(i * rows, rows) for i in range(10 if rows > 10 else 1)]
    held, loading = 0, 0.0
    for size in sorted(sizes):
        while held < size:
            batch = table(SHAPES[load], held, min(SUBSCRIPTIONS_AT_ONCE, size - held))
            begin = time.process_time()
            held += index.add_predicates(batch)
            loading += time.process_time() - begin
        matches = sum(index.match_table(batch).num_rows for batch in batches)
        best = float("inf")
        for _ in range(REPETITIONS if rows > LINEAR_PUBLICATIONS else 2):
            begin = time.process_time()
            for batch in batches:
                index.match_table(batch)
            best = min(best, time.process_time() - begin)
        asked = rows * len(batches)
        yield Figure(
            load, size, algorithm, best / asked * 1e6, loading, index.nbytes / size, matches / asked, index.counters()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--loads", nargs="+", choices=list(SHAPES), default=["W0"])
    parser.add_argument("--algorithms", nargs="+", default=list(CONTENDERS))
    options = parser.parse_args()
    console = Console()
    for load in options.loads:
        figures: list[Figure] = []
        for algorithm in options.algorithms:
            next(measure(load, algorithm, [1_000]))  # compiles, or loads what was compiled
            for figure in measure(load, algorithm, options.sizes):
                figures.append(figure)
                console.log(load, figure.subscriptions, algorithm, f"{figure.microseconds:,.1f} us", figure.counters)
            gc.collect()
        shown = Table(title=f"{load}, Fabret et al., figure 3: a publication against standing subscriptions")
        for heading in (
            "subscriptions",
            "algorithm",
            "us",
            "of linear",
            "matches",
            "loading s",
            "bytes each",
            "tables",
        ):
            shown.add_column(heading, justify="left" if heading == "algorithm" else "right")
        for figure in sorted(figures, key=lambda f: (f.subscriptions, -f.microseconds)):
            linear = [f for f in figures if f.algorithm == "linear" and f.subscriptions == figure.subscriptions]
            shown.add_row(
                f"{figure.subscriptions:,}",
                figure.algorithm,
                f"{figure.microseconds:,.1f}",
                f"1/{linear[0].microseconds / figure.microseconds:,.0f}" if linear else "",
                f"{figure.matches:.2f}",
                f"{figure.load_s:.1f}",
                f"{figure.bytes_each:.0f}",
                str(figure.counters.get("tables", "")),
            )
        console.print(shown)


if __name__ == "__main__":
    main()
