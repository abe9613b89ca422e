"""The state figures: `python -m pastforward.benchmarks.state`, one core, chunks of 1,000 through `apply` and `commit`, ids returned.

Each load runs in a process of its own, pinned to one core, so that its memory can be told. A time is the processor's: all
threads of the process, RocksDB's flushes and compactions included; on an idle machine the clock says the same, and stands beside
it. `--scale 0.1` takes a tenth of the operations, `--only` those loads whose name begins so. What has been measured is kept in
`results/state.json`: `--go-on` measures only what is missing there, and shows all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pastforward.benchmarks.generators.state import Load, loads
from pastforward.benchmarks.options import RESULTS, beginning, share
from pastforward.state import compile_kernels, open_store

if TYPE_CHECKING:
    from rich.console import Console

FIVE_TIMES = "3 to 1, five times as many"
FIVE_TIMES_LIMIT = 1.3  # of the cost of an operation among a fifth as many
WIDTH = 150  # of the table, also where there is no terminal


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    layout: str
    operations: int
    us: float  # of processor time, an operation
    clock_us: float
    pairs: float  # an operation
    read: float  # records, a pair
    worst_ms: float  # the longest chunk
    rss_mb: int
    disk_mb: float
    reopen_s: float  # of processor time
    in_memory: bool


def resident() -> int:
    """Megabytes of memory of this process, at most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("no VmHWM in /proc/self/status; this benchmark needs Linux")


def measure(load: Load) -> Result:
    directory = Path(tempfile.mkdtemp(prefix="pastforward-bench-"))
    try:
        return _measure(load, directory / "store")
    finally:
        shutil.rmtree(directory)


def _measure(load: Load, path: Path) -> Result:
    store = open_store(path, load.layout, budget=load.budget)
    busy = clock = worst = 0.0
    pairs = 0
    for offset, chunk in enumerate(load.chunks()):
        began, began_clock = time.process_time(), time.perf_counter()
        pairs += store.apply(chunk).num_rows
        store.commit(offset)
        took = time.perf_counter() - began_clock
        clock += took
        worst = max(worst, took)
        busy += time.process_time() - began
    stats = store.stats
    rss = resident()
    store.close()
    disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    began = time.process_time()
    open_store(path, load.layout, budget=load.budget).close()
    return Result(
        load.name,
        load.layout,
        load.operations,
        1e6 * busy / load.operations,
        1e6 * clock / load.operations,
        pairs / load.operations,
        stats.records_read / max(1, pairs),
        1e3 * worst,
        rss,
        disk / (1 << 20),
        time.process_time() - began,
        stats.in_memory,
    )


def verdict(load: Load, result: Result, results: list[Result]) -> str:
    """Whether the figure holds; nothing where there is none."""
    kept = []
    if load.limit_us is not None:
        kept.append((result.us <= load.limit_us, f"{load.limit_us:g} us"))
    if load.limit_rss is not None:
        kept.append((result.rss_mb <= load.limit_rss, f"{load.limit_rss} MB"))
    if load.name == FIVE_TIMES:
        fewer = [other.us for other in results if (other.name, other.layout) == ("3 to 1", load.layout)]
        kept += [(result.us <= FIVE_TIMES_LIMIT * us, f"{FIVE_TIMES_LIMIT} x {us:.1f} us") for us in fewer]
    return ", ".join(f"[{'green' if holds else 'red'}]{text}[/]" for holds, text in kept)


def read_results(file: Path) -> dict[tuple[str, str, int], Result]:
    if not file.exists():
        return {}
    return {(r["name"], r["layout"], r["operations"]): Result(**r) for r in json.loads(file.read_text())}


def show(console: Console, chosen: list[Load], results: list[Result]) -> None:
    from rich.table import Table

    table = Table(title="State: one core, chunks of 1,000 operations")
    table.add_column("load")
    table.add_column("layout")
    for column in ("operations", "us", "by the clock", "pairs", "read/pair", "worst ms", "MB", "disk MB", "reopen s"):
        table.add_column(column, justify="right")
    table.add_column("at most")
    for load, result in zip(chosen, results, strict=True):
        table.add_row(
            result.name,
            result.layout if result.in_memory else f"{result.layout}, on disk",
            f"{result.operations:,}",
            f"{result.us:.1f}",
            f"{result.clock_us:.1f}",
            f"{result.pairs:.2f}",
            f"{result.read:.2f}",
            f"{result.worst_ms:.0f}",
            str(result.rss_mb),
            f"{result.disk_mb:.0f}",
            f"{result.reopen_s:.1f}",
            verdict(load, result, results),
        )
    console.print(table)


def plot(chosen: list[Load], results: list[Result], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(results) + 1.5))
    names = [f"{result.name} ({result.layout})" for result in results]
    colours = {"dual": "tab:blue", "two": "tab:orange", "repeated": "tab:gray"}
    axes.barh(names, [result.us for result in results], color=[colours[result.layout] for result in results])
    for at, load in enumerate(chosen):
        if load.limit_us is not None:
            axes.plot([load.limit_us] * 2, [at - 0.4, at + 0.4], color="black")
    axes.set_xscale("log")
    axes.set_xlim(left=1)
    axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.invert_yaxis()
    axes.set_xlabel("microseconds an operation, one core; a line is the limit")
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def in_own_process(load: Load, cpu: int) -> Result:
    command = [
        sys.executable,
        "-P",
        "-m",
        "pastforward.benchmarks.state",
        "--measure",
        json.dumps(asdict(load)),
        "--cpu",
        str(cpu),
    ]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Result(**json.loads(output))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="pastforward bench state", description=__doc__)
    parser.add_argument("--scale", type=share, default=1.0, help="share of the operations")
    parser.add_argument("--only", default="", help="only loads whose name begins so")
    cores = sorted(os.sched_getaffinity(0))
    parser.add_argument("--cpu", type=int, choices=cores, default=cores[0], help="the core to run on")
    parser.add_argument("--go-on", action="store_true", help="keep what is in the results, measure the rest")
    parser.add_argument("--results", type=Path, default=RESULTS / "state.json")
    parser.add_argument("--plot", type=Path, default=RESULTS / "state.png")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.measure:
        os.sched_setaffinity(0, {given.cpu})
        compile_kernels()  # they come from the cache, and that takes half a second
        print(json.dumps(asdict(measure(Load(**json.loads(given.measure))))))
        return
    # Here and not above: a process that is measured does not need them.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console()
    console = Console(width=max(console.width, WIDTH))
    try:
        names = beginning(sorted({load.name for load in loads(1)}), given.only)
    except ValueError as error:
        parser.error(str(error))
    chosen = [load for load in loads(given.scale) if load.name in names]
    with console.status("compiling"):
        compile_kernels()
    known = read_results(given.results) if given.go_on else {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(chosen))
        for load in chosen:
            key = (load.name, load.layout, load.operations)
            if key not in known:
                progress.update(task, description=f"{load.name} ({load.layout})")
                result = known[key] = in_own_process(load, given.cpu)
                progress.console.print(
                    f"{load.name} ({load.layout}): {result.us:.1f} us, {result.pairs:.2f} pairs an operation"
                )
                given.results.parent.mkdir(parents=True, exist_ok=True)
                given.results.write_text(json.dumps([asdict(result) for result in known.values()], indent=1))
            progress.advance(task)
    results = [known[load.name, load.layout, load.operations] for load in chosen]
    show(console, chosen, results)
    plot(chosen, results, given.plot)
    console.print(f"plot: {given.plot}")


if __name__ == "__main__":
    main()
