"""A figure's points as the paper drew them: a panel for each load, a line or bar for each contender. Dots: an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from pastforward.papers.figures.points import Figure, Points

# `auto` is ours, and stands out.
_COLOURS = {"auto": "#000000"}
_MANY = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#7f7f7f", "#bcbd22")


def draw(figure: Figure, points: Points, file: Path, earlier: Points | None = None) -> None:
    mpl.rcParams["svg.fonttype"] = "none"  # texts stay texts: smaller, and they can be searched
    mpl.rcParams["svg.hashsalt"] = figure.name  # the same figure, the same bytes
    mpl.rcParams["font.size"] = 8
    panels = [
        (plot, panel) for plot in figure.plots for panel in points.panels(plot.measure) if plot.only in ("", panel)
    ]
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    canvas = Canvas(figsize=(max(4.2, 3.2 * columns) + 1.2, 2.7 * rows), layout="constrained")
    axes = canvas.subplots(rows, columns, squeeze=False)
    names = list(dict.fromkeys(c for plot, panel in panels for c in points.contenders(plot.measure, panel)))
    colour = {name: _COLOURS.get(name, _MANY[at % len(_MANY)]) for at, name in enumerate(names)}
    shown: dict[str, Any] = {}
    for at, (plot, panel) in enumerate(panels):
        area = axes[at // columns][at % columns]
        for name in points.contenders(plot.measure, panel):
            line = points.line(name, plot.measure, panel)
            if plot.bars:
                width = 0.8 / len(names)
                places = [x - 0.4 + width * (names.index(name) + 0.5) for x in line]
                shown[name] = area.bar(places, list(line.values()), width, color=colour[name], label=name)
            else:
                thick = 1.8 if name == "auto" else 1
                (shown[name],) = area.plot(
                    list(line), list(line.values()), "-o", color=colour[name], markersize=3, linewidth=thick, label=name
                )
            before = earlier.line(name, plot.measure, panel) if earlier else {}
            if before and not plot.bars:
                area.plot(list(before), list(before.values()), ":", color=colour[name], linewidth=1)
        if plot.bars:
            area.set_xticks(range(len(plot.bars)), plot.bars)
        else:
            area.set_xscale("log" if plot.log_x else "linear")
        area.set_yscale("log" if plot.log_y else "linear")
        area.set(title=panel, xlabel=figure.x, ylabel=plot.label)
        area.grid(alpha=0.3)
    for at in range(len(panels), rows * columns):
        axes[at // columns][at % columns].axis("off")
    canvas.legend(handles=[shown[name] for name in names], labels=names, loc="outside right center", frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(file, metadata={"Date": None})
