"""Runs figures: `python -m papers.figures fabret-3a --scale quick`.

Finished points are kept in `results/papers/<scale>/`; a run that was stopped goes on where it was, `--again` begins anew. `--compare
FOLDER` lays an earlier run's results over these: the ratio of every time, and dots in the plots. `--page FILE` writes the page from all
results.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from pastforward.benchmarks.options import RESULTS
from pastforward.papers.figures.catalogue import FIGURES, resolve
from pastforward.papers.figures.page import write
from pastforward.papers.figures.points import Figure, Points, Results, Scale, Unit

WIDTH = 150  # of the tables, also where there is no terminal


def _work(name: str, scale: Scale, keys: list[str], to: Connection) -> None:
    """In a process of its own: memory is given back, and one that dies takes only its figure with it."""
    for unit in FIGURES[name].units(scale):
        if unit.key in keys:
            try:
                to.send((unit.key, list(unit.run()), ""))
            except Exception:
                to.send((unit.key, [], traceback.format_exc()))
    to.close()


def run(figures: list[Figure], scale: Scale, results: Results, console: Console) -> list[str]:
    """What is missing is measured and kept. Returns what failed."""
    work: list[tuple[Figure, list[Unit]]] = []
    planned: set[str] = set()
    for figure in figures:
        units = [u for u in figure.units(scale) if not results.has(scale, u.key) and u.key not in planned]
        planned.update(unit.key for unit in units)
        if units:
            work.append((figure, units))
    failed: list[str] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    context = multiprocessing.get_context("spawn")
    with Progress(*columns, console=console, speed_estimate_period=36_000) as progress:
        task = progress.add_task("", total=sum(unit.seconds for _, units in work for unit in units))
        for figure, units in work:
            progress.update(task, description=figure.name)
            receiving, sending = context.Pipe(duplex=False)
            left = {unit.key: unit for unit in units}
            child = context.Process(target=_work, args=(figure.name, scale, list(left), sending), daemon=True)
            child.start()
            sending.close()
            try:
                while left:
                    key, points, error = receiving.recv()
                    unit = left.pop(key)
                    if error:
                        failed.append(key)
                        progress.console.print(f"[red]{key} failed[/]\n{error}", highlight=False)
                    else:
                        results.keep(scale, key, points)
                    progress.advance(task, unit.seconds)
            except EOFError:
                failed += list(left)
                progress.console.print(f"[red]{figure.name}: its process ended before {', '.join(left)}[/]")
            child.join()
    return failed


def show(figures: list[Figure], scale: Scale, results: Results, console: Console) -> None:
    table = Table("figure", "verdict", "here", title=f"The papers, {scale}")
    for figure in figures:
        units = figure.units(scale)
        if all(results.has(scale, unit.key) for unit in units):
            found = figure.judge(results.points(scale, [unit.key for unit in units]))
            table.add_row(figure.name, found.verdict, found.ours + (f" — {found.reason}" if found.reason else ""))
    console.print(table)


def compare(figures: list[Figure], scale: Scale, results: Results, earlier: Results, console: Console) -> None:
    """The value of every point now, before, and the ratio."""
    table = Table("figure", "panel", "contender", "x", "measure", "before", "now", "ratio", title="Compared")
    seen: set[tuple[str, ...]] = set()
    for figure in figures:
        keys = [unit.key for unit in figure.units(scale)]
        now, before = results.points(scale, keys), earlier.points(scale, keys)
        for plot in figure.plots:
            for panel in now.panels(plot.measure):
                for name in now.contenders(plot.measure, panel):
                    if (figure.name, plot.measure, panel, name) not in seen:
                        seen.add((figure.name, plot.measure, panel, name))
                        _compare_line(table, figure, plot.measure, panel, name, now, before)
    console.print(table)


def _compare_line(
    table: Table, figure: Figure, measure: str, panel: str, name: str, now: Points, before: Points
) -> None:
    old = before.line(name, measure, panel)
    for x, value in now.line(name, measure, panel).items():
        if old.get(x):
            cells = (f"{x:g}", measure, f"{old[x]:,.2f}", f"{value:,.2f}", f"{value / old[x]:.2f}")
            table.add_row(figure.name, panel, name, *cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="pastforward bench papers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or of: {', '.join(FIGURES)}")
    parser.add_argument("--scale", choices=("quick", "full"), default="quick")
    parser.add_argument("--results", type=Path, default=RESULTS / "papers")
    parser.add_argument("--again", action="store_true", help="measure anew what is already there")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="results of an earlier run, to lay over these")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page from all results, plots beside it")
    parser.add_argument("--remark", default="", help="for the page: what else the machine did, for example")
    parser.add_argument("--no-run", action="store_true", help="only show and draw what is there")
    given = parser.parse_args()
    console = Console()
    console = Console(width=max(console.width, WIDTH))
    try:
        figures = resolve(given.figures)
    except ValueError as error:
        parser.error(str(error))
    results = Results(given.results)
    if given.again:
        for figure in figures:
            for unit in figure.units(given.scale):
                results.forget(given.scale, unit.key)
    failed = [] if given.no_run else run(figures, given.scale, results, console)
    show(figures, given.scale, results, console)
    earlier = Results(given.compare) if given.compare else None
    if earlier:
        compare(figures, given.scale, results, earlier, console)
    page: Path = given.page or given.results / "papers.md"
    missing = write(list(FIGURES.values()), results, page, earlier, given.remark)
    console.print(f"page: {page}" + (f" (without {', '.join(missing)})" if missing else ""))
    if given.page:
        for scale in ("quick", "full"):
            keys = [unit.key for figure in FIGURES.values() for unit in figure.units(scale)]
            results.join(scale, keys, page.parent / page.stem)
    if failed:
        console.print(f"[red]failed: {', '.join(failed)}[/]")
    sys.exit(bool(failed))
