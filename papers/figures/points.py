"""What an experiment gives, and how it is kept: points, in a Parquet file for each unit of work, with machine, versions and seed."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

Scale = Literal["quick", "full"]
Verdict = Literal["holds", "holds differently", "does not hold"]
SEED = 1
_PACKAGES = ("numpy", "numba", "pyarrow", "rocksdict", "duckdb")


class DiffersError(Exception):
    """Contenders did not give the same answers: no time counts."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measured value: `contender` at `x`, in a panel of the plot."""

    panel: str
    contender: str
    x: float
    measure: str
    value: float


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work whose points are kept once it is done. `seconds`: about how long it takes, for the time left."""

    key: str
    seconds: float
    run: Callable[[], Iterable[Point]]


@dataclass(frozen=True, slots=True)
class Finding:
    """What we found beside the paper's claim; the numbers it rests on are in `ours`, why it differs in `reason`."""

    verdict: Verdict
    ours: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    measure: str
    label: str
    log_x: bool = True
    log_y: bool = True
    bars: tuple[str, ...] = ()  # names of x = 0, 1, …: bars instead of lines
    only: str = ""  # this panel alone


class Points:
    """Those of one figure."""

    def __init__(self, points: Iterable[Point]) -> None:
        self.all = list(points)

    def __len__(self) -> int:
        return len(self.all)

    def panels(self, measure: str) -> list[str]:
        return list(dict.fromkeys(p.panel for p in self.all if p.measure == measure))

    def contenders(self, measure: str, panel: str) -> list[str]:
        return list(dict.fromkeys(p.contender for p in self.all if (p.measure, p.panel) == (measure, panel)))

    def line(self, contender: str, measure: str, panel: str = "") -> dict[float, float]:
        """By x, ascending; the mean where there are several (seeds)."""
        found: dict[float, list[float]] = {}
        for p in self.all:
            if (p.contender, p.measure, p.panel) == (contender, measure, panel):
                found.setdefault(p.x, []).append(p.value)
        return {x: sum(found[x]) / len(found[x]) for x in sorted(found)}

    def last(self, contender: str, measure: str, panel: str = "") -> float:
        """At the greatest x."""
        return list(self.line(contender, measure, panel).values())[-1]

    def ratios(self, measure: str, panel: str, above: str, below: str) -> list[float]:
        """Of two contenders, at every x that both have."""
        over, under = self.line(above, measure, panel), self.line(below, measure, panel)
        return [over[x] / under[x] for x in over if under.get(x)]


@dataclass(frozen=True, slots=True)
class Figure:
    name: str  # author and number: `fabret-3a`
    paper: str
    title: str
    claim: str
    x: str
    plots: tuple[Plot, ...]
    units: Callable[[Scale], list[Unit]]
    judge: Callable[[Points], Finding]


@cache
def provenance() -> dict[str, str]:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return {
        "machine": f"{model}, {os.cpu_count()} cores, {memory} GB, {platform.system()} {platform.release()}",
        "versions": ", ".join([f"python {platform.python_version()}", *(f"{p} {version(p)}" for p in _PACKAGES)]),
        "commit": commit.stdout.strip(),
    }


@cache
def _joined(file: Path, _changed: int) -> dict[str, list[dict[str, Any]]]:
    by_unit: dict[str, list[dict[str, Any]]] = {}
    for row in pq.read_table(file).to_pylist():
        by_unit.setdefault(row["unit"], []).append(row)
    return by_unit


class Results:
    """A folder with a file for each unit that is done: `<scale>/<unit>.parquet`; or, joined, with one for each scale."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _file(self, scale: str, key: str) -> Path:
        return self.folder / scale / f"{key}.parquet"

    def has(self, scale: str, key: str) -> bool:
        return bool(self.rows(scale, key))

    def forget(self, scale: str, key: str) -> None:
        self._file(scale, key).unlink(missing_ok=True)

    def keep(self, scale: str, key: str, points: list[Point]) -> None:
        """Whole or not at all: a run that is stopped while writing leaves no half of a file."""
        told = {**provenance(), "seed": SEED, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        rows = [
            {
                "unit": key, "scale": scale, "panel": p.panel, "contender": p.contender, "x": float(p.x),
                "measure": p.measure, "value": float(p.value), **told,
            }
            for p in points
        ]  # fmt: skip
        file = self._file(scale, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        pq.write_table(pa.Table.from_pylist(rows), part)
        part.replace(file)

    def rows(self, scale: str, key: str) -> list[dict[str, Any]]:
        file, joined = self._file(scale, key), self.folder / f"{scale}.parquet"
        rows: list[dict[str, Any]] = []
        if file.exists():
            rows = pq.read_table(file).to_pylist()
        elif joined.exists():
            rows = _joined(joined, joined.stat().st_mtime_ns).get(key, [])
        return rows

    def join(self, scale: str, keys: Iterable[str], folder: Path) -> None:
        """All rows in one file, for a place that keeps them."""
        rows = [row for key in sorted(set(keys)) for row in self.rows(scale, key)]
        if rows:
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{scale}.parquet", compression="zstd")

    def points(self, scale: str, keys: Iterable[str]) -> Points:
        return Points(
            Point(row["panel"], row["contender"], row["x"], row["measure"], row["value"])
            for key in keys
            for row in self.rows(scale, key)
        )

    def told(self, scale: str, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Where, with what and when: of each unit that is there."""
        for key in keys:
            rows = self.rows(scale, key)
            if rows:
                yield rows[0]
