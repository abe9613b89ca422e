"""Compiles every Numba kernel once, several processes at a time: `python -m pastforward.preparation.kernels [--spark | --all]`.

Numba keeps what it compiles beside the sources, for the processor that it was compiled on. A stamp beside it names that processor, so that
a worker on another machine prepares its kernels with progress, and not in silence.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pastforward.columns import cache, extras
from pastforward.errors import UserError


class Step(NamedTuple):
    """A module with `compile_kernels`."""

    module: str
    compiled: int  # functions, so that a bar knows how far it is; a wrong number only makes the bar wrong
    after: tuple[str, ...] = ()  # steps whose kernels it calls: it would compile them a second time


# The longest first.
PRODUCT: Final[tuple[Step, ...]] = (
    Step("matching.warm", 314),
    Step("state", 108),
    Step("schemas", 77),
    Step("streams.routing.warm", 37, ("schemas",)),
    Step("streams", 17, ("matching.warm", "state", "schemas", "streams.routing.warm")),
)
SPARK: Final = Step("spark_batch", 4, ("streams",))
EXTRA: Final = Step("papers.warm", 276, ("matching.warm",))
# Prints a line for each function that Numba has compiled.
COMPILE: Final = """
import importlib, sys
from numba.core import event

class Report(event.Listener):
    def on_start(self, event): pass
    def on_end(self, event): print(flush=True)

event.register("numba:compile", Report())
importlib.import_module(sys.argv[1]).compile_kernels()
"""


def prepare(console: Console | None = None) -> None:
    """Compiles them unless that was done for this processor; two processes at once do it once."""
    extras.need("worker", "a worker")
    stamp = _stamp()
    wanted = _machine()
    if _read(stamp) == wanted:
        return
    with _alone(stamp):
        if _read(stamp) != wanted:
            compile_all(PRODUCT, console or Console(stderr=True))
            _write(stamp, wanted)


def compile_all(wanted: tuple[Step, ...], console: Console) -> None:
    cache.drop_stale()
    started = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("compiling kernels, once", total=sum(step.compiled for step in wanted))
        with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
            _run(wanted, pool, progress, bar)
    console.print(f"kernels compiled in {time.monotonic() - started:.0f} s", highlight=False)


def _run(wanted: tuple[Step, ...], pool: ThreadPoolExecutor, progress: Progress, bar: TaskID) -> None:
    names = {step.module for step in wanted}
    waiting = list(wanted)
    running: dict[Future[None], Step] = {}
    done: set[str] = set()
    while waiting or running:
        for step in [step for step in waiting if done >= names.intersection(step.after)]:
            waiting.remove(step)
            running[pool.submit(_compile, step, progress, bar)] = step
        named = ", ".join(step.module.removesuffix(".warm") for step in running.values())
        progress.update(bar, description=f"compiling kernels, once: {named}")
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            step = running.pop(future)
            future.result()
            done.add(step.module)


def _compile(step: Step, progress: Progress, bar: TaskID) -> None:
    name = f"pastforward.{step.module}"
    compiled = 0
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", COMPILE, name], stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            for _ in process.stdout:
                compiled += 1
                if compiled <= step.compiled:
                    progress.advance(bar)
            if process.wait():
                errors.seek(0)
                raise UserError(f"the kernels of {name} do not compile:\n{errors.read().strip()}")
        finally:
            process.kill()
            process.wait()
    progress.advance(bar, max(0, step.compiled - compiled))


# ------------------------------------------------------------------------------------------ what was compiled for which machine


def _machine() -> dict[str, Any]:
    """Numba leaves aside, without a word, what was compiled for another one."""
    import llvmlite.binding as llvm  # takes a moment, and most commands have no need of it

    features = os.environ.get("NUMBA_CPU_FEATURES") or llvm.get_host_cpu_features().flatten()
    return {
        "python": list(sys.version_info[:2]),
        "numba": version("numba"),
        "cpu": os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name(),
        "features": features,
        "sources": None if cache.in_clone() else _newest(),
    }


def _newest() -> int:
    """Another version of the wheel has other sources; in a clone `make` sees to that."""
    return max(file.stat().st_mtime_ns for folder in cache.folders().values() for file in folder.rglob("*.py"))


def _stamp() -> Path:
    """Beside the kernels; where that is read-only, among the user's own files, as Numba does it."""
    beside = Path(cache.__file__).parent / "__pycache__"
    if os.access(beside if beside.exists() else beside.parent, os.W_OK):
        return beside / "kernels.json"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pastforward" / "kernels.json"


def _read(stamp: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(stamp.read_text("utf-8"))
    return None


def _write(stamp: Path, made: dict[str, Any]) -> None:
    part = stamp.with_suffix(".part")
    part.write_text(json.dumps(made), "utf-8")
    part.replace(stamp)


@contextlib.contextmanager
def _alone(stamp: Path) -> Iterator[None]:
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with stamp.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """A step of `make`, whatever the stamp says: sources may have changed.

    `--spark`: only those that Spark's workers call. `--all`: those of the papers as well, which only tests and benchmarks need.
    """
    wanted = PRODUCT
    if "--all" in sys.argv[1:]:
        wanted = (*PRODUCT, SPARK, EXTRA)
    elif "--spark" in sys.argv[1:]:
        wanted = (SPARK,)
    try:
        stamp = _stamp()
        with _alone(stamp):
            compile_all(wanted, Console(stderr=True))
            _write(stamp, _machine())
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
