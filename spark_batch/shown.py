"""What a person sees of a job: a line that moves while it works, and one summary line at its end; JSON for scripts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

REFRESH: Final = 0.5  # seconds between two looks at a running job


@dataclass(slots=True)
class Summary:
    """What a job has done. `line` is for people, `facts` for scripts."""

    line: str
    facts: dict[str, Any] = field(default_factory=dict)

    def print(self, as_json: bool) -> None:
        click.echo(json.dumps(self.facts, default=str) if as_json else self.line)


class Bar:
    """A bar on standard error. Without a total it shows count and rate only."""

    def __init__(self, progress: Progress, unit: str) -> None:
        self._progress = progress
        self._task = progress.add_task(unit, total=None, rate="")
        self._started = time.monotonic()

    def update(self, done: float, total: float | None = None, note: str = "") -> None:
        elapsed = max(time.monotonic() - self._started, 1e-6)
        rate = note or f"{done:,.0f} rows, {done / elapsed:,.0f} a second"
        self._progress.update(self._task, completed=done, total=total, rate=rate)


@contextmanager
def bar(unit: str, quiet: bool = False) -> Iterator[Bar]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as progress:
        yield Bar(progress, unit)


@contextmanager
def watched(spark: Any, unit: str, quiet: bool = False) -> Iterator[None]:
    """Shows the tasks of whatever Spark runs meanwhile, from its own status."""
    stop = threading.Event()
    with bar(unit, quiet) as shown:

        def look() -> None:
            tracker = spark.sparkContext.statusTracker()
            while not stop.wait(REFRESH):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                known = [stage for stage in stages if stage is not None]
                done, total = sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
                if total:
                    shown.update(done, total, f"{done} of {total} tasks")

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
