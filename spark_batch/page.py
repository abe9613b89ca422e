"""The statistics as one HTML file: a table, plots within, nothing fetched from elsewhere."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pastforward.columns.times import datetime_of
from pastforward.spark_batch.sketch import Sketch, Values
from pastforward.spark_batch.usage import Usage, Use
from pastforward.streams.routing import Catalog

PLOTS: Final = 24  # attributes that get a plot, the most frequent first
BARS: Final = 32
HITTERS: Final = 8  # frequent values shown

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; color: #222; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .3rem .6rem; text-align: left; border-bottom: 1px solid #ddd; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } figure { display: inline-block; margin: .5rem; } img { width: 20rem; }
"""


def write_page(path: Path, sketch: Sketch, usage: Usage, catalog: Catalog) -> None:
    routed = {attribute.name: attribute.kind for attribute in catalog.attributes}
    ordered = sorted(sketch.values.items(), key=lambda item: (-item[1].count, item[0]))
    rows = [_row(name, kind, values, sketch, usage, routed) for (name, kind), values in ordered]
    plots = [_figure(name, kind, values) for (name, kind), values in ordered[:PLOTS]]
    pairs = [[a, b, f"{count / max(sketch.rows, 1):.1%}"] for a, b, count in sketch.pairs()[:20]]
    path.write_text(
        f"<!doctype html><meta charset='utf-8'><title>Pastforward: statistics</title><style>{_STYLE}</style>"
        f"<h1>{sketch.rows:,} publications, {usage.subscriptions:,} subscriptions</h1>"
        f"<p>{sketch.with_condition:,} publications carry a condition of their own.</p>"
        + _table(["attribute", "type", "in", "distinct", "from", "to", "frequent", "subscriptions", "routed as"], rows)
        + "<h2>Values</h2>"
        + "".join(plots)
        + "<h2>Together</h2>"
        + _table(["attribute", "and", "in"], pairs),
        "utf-8",
    )


def _row(name: str, kind: str, values: Values, sketch: Sketch, usage: Usage, routed: dict[str, Any]) -> list[str]:
    use = usage.attributes.get(name, Use())
    return [
        name,
        kind,
        f"{values.count / max(sketch.rows, 1):.1%}",
        f"{values.distinct:,}",
        _shown(kind, values.low),
        _shown(kind, values.high),
        ", ".join(str(value) for value, _ in values.hitters.most_common(HITTERS)),
        f"{use.equality:,} equality, {use.range:,} range, {use.other:,} other" if use.total else "",
        str(routed.get(name, "")),
    ]


def _shown(kind: str, value: float | None) -> str:
    if value is None:
        return ""
    return datetime_of(int(value)).isoformat() if kind == "timestamps" else f"{value:,.6g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f"<th>{html.escape(text)}</th>" for text in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


def _figure(name: str, kind: str, values: Values) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 2.2), layout="constrained")
    axes = figure.subplots()
    if len(values.sample):
        counts, edges = np.histogram(values.sample, BARS)
        axes.stairs(counts / len(values.sample), edges, fill=True)
    else:
        top = values.hitters.most_common(HITTERS)[::-1]
        axes.barh([str(value)[:24] for value, _ in top], [count for _, count in top])
    axes.set_title(f"{name} ({kind})", fontsize=9)
    axes.tick_params(labelsize=7)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    picture = base64.b64encode(out.getvalue()).decode()
    return f"<figure><img alt='{html.escape(name, quote=True)}' src='data:image/png;base64,{picture}'></figure>"
