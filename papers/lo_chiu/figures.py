"""Figures 2 to 7 of Lo and Chiu, drawn from our rows: lines are the simulation, dashes our model, dots the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pastforward.papers.lo_chiu.simulation import HASHINGS

COLOURS = {
    "ferry": "#888888",
    "pan": "#d62728",
    "pav": "#9467bd",
    "hybrid": "#ff7f0e",
    "iim:12": "#98cde8",
    "iim:25": "#1f77b4",
    "iim:50": "#0b3c5d",
}
TITLES = {"bare": "the bare value hashed, as in the paper", "qualified": "attribute and value hashed"}
CURVES = {
    (0, "quarter"): ("GP = 0, a quarter of the domain", "#1f77b4"),
    (0, "twenty"): ("GP = 0, 20 on average", "#2ca02c"),
    (0, "skew"): ("GP = 0, skewed", "#d62728"),
    (50, "quarter"): ("GP = 50, a quarter", "#9467bd"),
}

# Experiment F looks from here on: with equal domains and bare values one single interval costs least of all (see the page).
FEW = 10

F64 = npt.NDArray[np.float64]


def select(table: pa.Table, **equal: Any) -> pa.Table:
    for name, value in equal.items():
        table = table.filter(pc.equal(table[name], value))
    return table


def mean_by(table: pa.Table, x: str, y: str) -> tuple[F64, F64]:
    """The mean over seeds."""
    grouped = table.group_by(x).aggregate([(y, "mean")]).sort_by(x)
    return grouped[x].to_numpy(), grouped[f"{y}_mean"].to_numpy()


def draw(table: pa.Table, folder: Path) -> None:
    mpl.rcParams["svg.fonttype"] = "none"  # texts stay texts: smaller, and they can be searched
    mpl.rcParams["svg.hashsalt"] = "routing"  # the same figure, the same bytes
    mpl.rcParams["font.size"] = 8
    _balance(select(table, experiment="A"), folder)
    rows = select(table, experiment="BCD")
    _lines(rows, folder, 3, "storing", "hops to store all subscriptions", paper=True, without=("pav",))
    _delivery(rows, folder)
    _lines(rows, folder, 5, "overhead", "attributes examined", paper=True, log=True, suffix="a")
    _lines(rows, folder, 5, "latency", "attributes examined at the slowest broker", paper=False, log=True, suffix="b")
    _lines(
        select(table, experiment="E"), folder, 6, "latency", "attributes examined at the slowest broker", x="attributes"
    )
    _intervals(select(table, experiment="F"), folder)


def _panels(count: int, height: float = 2.9) -> tuple[Figure, Sequence[Any]]:
    figure = Figure(figsize=(4.0 * count, height), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _legend(figure: Figure, schemes: Sequence[str], *, paper: bool = False) -> None:
    handles = [Line2D([], [], color=COLOURS[scheme], marker="o", markersize=3, label=scheme) for scheme in schemes]
    handles.append(Line2D([], [], color="black", linestyle="--", label="model"))
    if paper:
        handles.append(Line2D([], [], color="black", linestyle=":", label="the paper's formula"))
    figure.legend(handles=handles, loc="outside right center", frameon=False)


def _save(figure: Figure, folder: Path, name: str) -> None:
    figure.savefig(folder / f"routing-figure-{name}.svg", metadata={"Date": None})


def _curves(axes: Any, rows: pa.Table, x: str, y: str, schemes: Sequence[str], *, paper: bool = False) -> None:
    for scheme in schemes:
        mine = select(rows, scheme=scheme)
        axes.plot(*mean_by(mine, x, y), color=COLOURS[scheme], marker="o", markersize=2.5, linewidth=1)
        axes.plot(*mean_by(mine, x, f"model_{y}"), color=COLOURS[scheme], linestyle="--", linewidth=0.8)
        if paper:
            axes.plot(*mean_by(mine, x, f"paper_{y}"), color=COLOURS[scheme], linestyle=":", linewidth=0.8)
    axes.grid(alpha=0.3)


def _balance(rows: pa.Table, folder: Path) -> None:
    for letter, percent in (("a", 75), ("b", 25)):
        figure, panels = _panels(2)
        for axes, hashing in zip(panels, HASHINGS, strict=True):
            _curves(axes, select(rows, hashing=hashing, equality_percent=percent), "theta", "deviation", list(COLOURS))
            axes.set(title=TITLES[hashing], xlabel="theta", yscale="log")
        panels[0].set_ylabel(f"deviation of subscriptions, {percent} % equality")
        _legend(figure, list(COLOURS))
        _save(figure, folder, f"2{letter}")


def _lines(
    rows: pa.Table,
    folder: Path,
    number: int,
    y: str,
    label: str,
    *,
    x: str = "equality_percent",
    paper: bool = False,
    log: bool = False,
    suffix: str = "",
    without: Sequence[str] = (),
) -> None:
    schemes = [scheme for scheme in COLOURS if scheme not in without]
    figure, panels = _panels(2)
    for axes, hashing in zip(panels, HASHINGS, strict=True):
        _curves(axes, select(rows, hashing=hashing), x, y, schemes, paper=paper)
        axes.set(title=TITLES[hashing], xlabel="% equality attributes" if x == "equality_percent" else "attributes")
        axes.set_yscale("log" if log else "linear")
        if not log:
            axes.set_ylim(bottom=0)
    panels[0].set_ylabel(label)
    _legend(figure, schemes, paper=paper)
    _save(figure, folder, f"{number}{suffix}")


def _delivery(rows: pa.Table, folder: Path) -> None:
    figure, panels = _panels(1)
    axes = panels[0]
    mine = select(rows, hashing="bare", equality_percent=50)
    for place, scheme in enumerate(COLOURS):
        of_scheme = select(mine, scheme=scheme)
        axes.bar(place, pc.mean(of_scheme["delivery"]).as_py(), color=COLOURS[scheme], width=0.6)
        for column, style in (("model_delivery", "--"), ("paper_delivery", ":")):
            axes.hlines(pc.mean(of_scheme[column]).as_py(), place - 0.4, place + 0.4, "black", style, linewidth=1)
    axes.set_xticks(range(len(COLOURS)), list(COLOURS), rotation=45)
    axes.set_ylabel("hops to deliver all events")
    _legend(figure, [], paper=True)
    _save(figure, folder, "4")


def totals(rows: pa.Table, prefix: str = "") -> dict[int, float]:
    """Storing, delivery and matching together, by interval number; means over seeds."""
    numbers = sorted({int(scheme.removeprefix("iim:")) for scheme in rows["scheme"].to_pylist()})
    parts = [prefix + part for part in ("storing", "delivery", "overhead")]
    return {
        number: sum(pc.mean(select(rows, scheme=f"iim:{number}")[part]).as_py() for part in parts) for number in numbers
    }


def best_intervals(rows: pa.Table, prefix: str = "", at_least: int = FEW) -> int:
    """The interval number with the least total, from so many on."""
    found = totals(rows, prefix)
    return min((number for number in found if number >= at_least), key=lambda number: found[number])


def _intervals(rows: pa.Table, folder: Path) -> None:
    figure, panels = _panels(2)
    for axes, hashing in zip(panels, HASHINGS, strict=True):
        for (gap, ranges), (_, colour) in CURVES.items():
            mine = select(rows, hashing=hashing, gap=gap, ranges=ranges)
            smallest = sorted(set(mine["min_range"].to_pylist()))
            for prefix, style in (("", "-o"), ("model_", "--")):
                kept = mine if not prefix else mine.filter(pc.is_valid(mine["model_storing"]))
                best = [best_intervals(select(kept, min_range=size), prefix) for size in smallest]
                axes.plot(smallest, best, style, color=colour, markersize=2.5, linewidth=1)
        axes.set(title=TITLES[hashing], xlabel="MIN_RN", ylim=(0, 105))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(f"best interval number, from {FEW} on")
    handles = [Line2D([], [], color=colour, marker="o", markersize=3, label=label) for label, colour in CURVES.values()]
    handles.append(Line2D([], [], color="black", linestyle="--", label="model"))
    figure.legend(handles=handles, loc="outside right center", frameon=False)
    _save(figure, folder, "7")
