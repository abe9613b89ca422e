"""Lo and Chiu's experiments A to F on a simulated Chord ring, and the routing schemes of the product against the clock.

    python -m papers.lo_chiu.experiments            all of it: a few minutes on two cores
    python -m papers.lo_chiu.experiments --quick    the same with less of everything: seconds, for a test

Results go to `results/routing/*.parquet`, figures to `docs/img/routing-figure-*.svg`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pastforward.benchmarks.options import IMAGES, RESULTS
from pastforward.benchmarks.routing_decision import measure_decisions
from pastforward.papers.chord import Ring, Spacing
from pastforward.papers.lo_chiu.claims import check_claims
from pastforward.papers.lo_chiu.figures import draw
from pastforward.papers.lo_chiu.model import Model
from pastforward.papers.lo_chiu.simulation import HASHINGS, Brokers
from pastforward.papers.loads.lo_chiu import Ranges, Setting, make_load

SCHEMES = ("ferry", "pan", "pav", "hybrid", "iim:12", "iim:25", "iim:50")
# Experiment F tries these; the total changes slowly where they are far apart.
INTERVALS = (*range(1, 10), *range(10, 40, 2), *range(40, 101, 5))

Row = dict[str, Any]


class Task(NamedTuple):
    """One draw of a load under one setting: the unit of work."""

    experiment: str
    setting: Setting
    seed: int
    predicted: bool


def tasks(*, quick: bool) -> Iterator[Task]:
    """Seeds: 20 for the ranks' permutation, as it decides much; 6 for F, which runs each draw 40 times."""
    base = Setting(subscriptions=500, events=500, nodes=256) if quick else Setting()
    seeds, few = (2, 1) if quick else (20, 6)
    thetas = (0.5, 1.5) if quick else (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
    percents = (0, 20, 50, 100) if quick else range(0, 101, 10)
    for seed in range(seeds):
        for percent in (75, 25):
            for theta in thetas:
                yield Task("A", replace(base, equality_percent=percent, theta=theta), seed, True)
        for percent in percents:
            yield Task("BCD", replace(base, equality_percent=percent), seed, True)
            if seed < 5:  # the same with nodes at random, to see what that changes
                yield Task("random", replace(base, equality_percent=percent, spacing="random"), seed, True)
        for attributes in (10, 15, 20, 25, 30):
            yield Task("E", replace(base, attributes=attributes), seed, True)
    curves: tuple[tuple[int, Ranges], ...] = ((0, "quarter"), (0, "twenty"), (0, "skew"), (50, "quarter"))
    for seed in range(few):
        for gap, ranges in curves:
            for min_range in (100, 500) if quick else (100, 200, 300, 400, 500):
                # the model is smooth: a few draws of the schema are enough
                setting = replace(base, min_range=min_range, gap=gap, ranges=ranges)
                yield Task("F", setting, seed, seed < 3)
                if seed < 3 and gap == 0 and ranges == "quarter":
                    yield Task("F random", replace(setting, spacing="random"), seed, False)


@lru_cache(maxsize=2)
def _ring(nodes: int, seed: int, spacing: Spacing) -> Ring:
    return Ring(nodes, seed, spacing)


def run_task(task: Task) -> list[Row]:
    load = make_load(task.setting, task.seed, events=task.experiment != "A")
    model = Model(task.setting, load.schema)
    ring = _ring(task.setting.nodes, task.seed, task.setting.spacing)
    schemes: Iterable[str] = SCHEMES
    if task.experiment.startswith("F"):
        schemes = [f"iim:{number}" for number in INTERVALS]
    rows: list[Row] = []
    for hashing in HASHINGS:
        brokers = Brokers(ring, load.schema, hashing, task.seed)
        for scheme in schemes:
            row: Row = {"experiment": task.experiment, "seed": task.seed, "hashing": hashing, "scheme": scheme}
            row |= asdict(task.setting) | asdict(brokers.run(load, scheme))
            row |= {"paper_storing": None, "paper_delivery": None, "paper_overhead": None}
            row |= {f"model_{name}": None for name in ("storing", "delivery", "overhead", "latency", "deviation")}
            if task.predicted:
                prediction = model.predict(scheme, hashing)
                row |= {
                    "paper_storing": prediction.paper.storing,
                    "paper_delivery": prediction.paper.delivery,
                    "paper_overhead": prediction.paper.matching,
                    "model_storing": prediction.ours.storing,
                    "model_delivery": prediction.ours.delivery,
                    "model_overhead": prediction.ours.matching,
                    "model_latency": prediction.latency,
                    "model_deviation": prediction.deviation,
                }
            rows.append(row)
    return rows


def simulate(*, quick: bool, console: Console) -> pa.Table:
    """All experiments, on all cores there are."""
    work = list(tasks(quick=quick))
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # compiled here once, so that the processes find the kernels in the cache
    run_task(Task("E", Setting(subscriptions=10, events=10, nodes=16), 0, False))
    with Progress(*columns, console=console) as progress, ProcessPoolExecutor(os.cpu_count()) as pool:
        bar = progress.add_task("experiments A to F", total=len(work))
        for done in as_completed([pool.submit(run_task, task) for task in work]):
            rows += done.result()
            progress.advance(bar)
    rows.sort(key=lambda row: (row["experiment"], row["seed"]))
    return pa.Table.from_pylist(rows)


def run(*, quick: bool = False, results: Path = RESULTS / "routing", images: Path | None = IMAGES) -> bool:
    """Runs everything, writes it down and prints what the paper claims beside what was found. True if all is as claimed
    or differs for a known reason."""
    console = Console()
    results.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    table = simulate(quick=quick, console=console)
    pq.write_table(table, results / "experiments.parquet")
    spent = time.perf_counter() - begun
    console.print(f"experiments A to F: {table.num_rows} rows in {spent:.0f} s (at most 600)")
    if images is not None:
        images.mkdir(parents=True, exist_ok=True)
        draw(table, images)
    claims = check_claims(table)
    pq.write_table(pa.Table.from_pylist([claim._asdict() for claim in claims]), results / "claims.parquet")
    shown = Table("figure", "the paper", "found", "as claimed")
    for claim in claims:
        shown.add_row(claim.figure, claim.text, claim.found, "yes" if claim.holds else claim.reason or "NO")
    console.print(shown)
    decisions = measure_decisions(quick=quick)
    pq.write_table(pa.Table.from_pylist([decision._asdict() for decision in decisions]), results / "decisions.parquet")
    shown = Table(
        "scheme",
        "us a publication, in chunks",
        "us a subscription",
        "of mixed conditions",
        "one by one",
        "copies of a publication",
        "of a subscription",
    )
    for decision in decisions:
        shown.add_row(decision.scheme, *(f"{number:.2f}" for number in decision[1:]))
    console.print(shown)
    return all(claim.holds or claim.reason for claim in claims)


def main() -> None:
    parser = argparse.ArgumentParser(description="Lo and Chiu's experiments, and the cost of a routing decision")
    parser.add_argument("--quick", action="store_true", help="less of everything: seconds instead of minutes")
    parser.add_argument("--results", type=Path, default=RESULTS / "routing")
    parser.add_argument("--images", type=Path, default=IMAGES)
    arguments = parser.parse_args()
    images = None if arguments.quick else arguments.images
    sys.exit(0 if run(quick=arguments.quick, results=arguments.results, images=images) or arguments.quick else 1)


if __name__ == "__main__":
    main()
