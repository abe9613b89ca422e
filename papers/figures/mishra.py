"""Mishra and Sahni, PUBSUB: figures 7 to 9. BE-Tree and Siena's counting beside both of its structures D, and `auto`."""

from __future__ import annotations

from pastforward.papers.figures.contenders import Make, be_tree, compare, indexed
from pastforward.papers.figures.points import SEED, Figure, Finding, Plot, Points, Scale, Unit
from pastforward.papers.loads.begen import Mix, make

PAPER = "Mishra, Sahni: PUBSUB"
CONTENDERS: dict[str, Make] = {
    "PS-IT": indexed("pubsub", structure="interval"),
    "PS-RBPST": indexed("pubsub", structure="rbpst"),
    "BE-Tree": be_tree,
    "Siena": indexed("counting"),
    "auto": indexed("auto"),
}
SMALL = Mix(300, dimensions=30, match_probability=0.1, publications=2)
DISTRIBUTIONS = {"uniform": 0.0, "Zipf": 1.0}
# Measured with 1,000 publications; a contender that is slow gets fewer.
PATIENCE = {"quick": 0.25, "full": 2.0}


def _unit(
    figure: str, scale: Scale, panel: str, x: float, mix: Mix, contenders: dict[str, Make], seconds: float
) -> Unit:
    return Unit(
        f"mishra-{figure}-{panel.replace(' ', '-')}-{x:g}".replace("%", "percent"),
        seconds,
        lambda: compare(make(mix), contenders, x, panel, patience=PATIENCE[scale], small=make(SMALL)),
    )


def _buckets(scale: Scale) -> list[Unit]:
    count = 50_000 if scale == "quick" else 1_000_000
    sizes = (200, 1_000, 5_000, 20_000) if scale == "quick" else (200, 500, 1_000, 2_500, 5_000, 10_000, 20_000)
    shares = (0.0001, 0.01) if scale == "quick" else (0.0001, 0.01, 0.15)
    units = []
    for name, zipf in DISTRIBUTIONS.items():
        for share in shares:
            mix = Mix(count, 1_000, share, zipf=zipf, publications=200, seed=SEED)
            for size in sizes:
                contenders = {
                    "PS-IT": indexed("pubsub", structure="interval", bucket_size=size),
                    "PS-RBPST": indexed("pubsub", structure="rbpst", bucket_size=size),
                    "auto": indexed("auto"),
                }
                panel = f"{name}, {100 * share:g} % match"
                units.append(_unit("7", scale, panel, size, mix, contenders, count / 15_000))
    return units


def _subscriptions(scale: Scale) -> list[Unit]:
    counts = (10_000, 50_000, 100_000) if scale == "quick" else (100_000, 500_000, 1_000_000, 5_000_000)
    return [
        _unit("8", scale, name, count, Mix(count, zipf=zipf, seed=SEED), CONTENDERS, 2 + count / 12_000)
        for name, zipf in DISTRIBUTIONS.items()
        for count in counts
    ]


def _dimensions(scale: Scale) -> list[Unit]:
    count = 50_000 if scale == "quick" else 1_000_000
    dimensions = (100, 500, 1_500) if scale == "quick" else (100, 200, 400, 800, 1_500)
    return [
        _unit(
            "9", scale, name, d, Mix(count, d, zipf=zipf, publications=500, seed=SEED), CONTENDERS, 2 + count / 12_000
        )
        for name, zipf in DISTRIBUTIONS.items()
        for d in dimensions
    ]


def _judge_buckets(points: Points) -> Finding:
    panels = points.panels("us")
    excess = []
    for panel in panels:
        for structure in ("PS-IT", "PS-RBPST"):
            line = points.line(structure, "us", panel)
            excess.append(line[5_000] / min(line.values()))
    text = f"a bucket of 5,000 is at most {max(excess):.2f} times the best size, in {len(panels)} loads with both D"
    if max(excess) <= 1.1:
        return Finding("holds", text)
    small = [
        points.line(s, "us", p)[200] / points.line(s, "us", p)[5_000] for p in panels for s in ("PS-IT", "PS-RBPST")
    ]
    return Finding(
        "holds differently" if max(excess) < 2 else "does not hold",
        f"{text}; a bucket of 200 takes {min(small):.2f} to {max(small):.2f} times as long",
        "where few match, smaller buckets are opened for fewer publications",
    )


def _against(points: Points, title: str) -> Finding:
    parts = []
    better = True
    siena = []
    for panel in points.panels("us"):
        best = [min(a, b) for a, b in zip(
            points.ratios("us", panel, "PS-IT", "BE-Tree"), points.ratios("us", panel, "PS-RBPST", "BE-Tree"), strict=True
        )]  # fmt: skip
        parts.append(f"{panel}: {min(best):.2f} to {max(best):.2f} times BE-Tree")
        better = better and max(best) < 1
        siena += points.ratios("us", panel, "Siena", "PS-RBPST")
    auto = [points.ratios("us", panel, "auto", "BE-Tree")[-1] for panel in points.panels("us")]
    text = "; ".join(parts) + f"; Siena {min(siena):.1f} to {max(siena):.1f} times PUBSUB; `auto` {min(auto):.2f} to "
    text += f"{max(auto):.2f} times BE-Tree at the largest {title}"
    if better:
        return Finding("holds", text)
    panel = points.panels("us")[0]
    each = points.last("PS-RBPST", "us", panel) / max(1, points.last("PS-RBPST", "matches", panel))
    theirs = points.last("BE-Tree", "us", panel) / max(1, points.last("BE-Tree", "matches", panel))
    tested = points.last("BE-Tree", "tested", panel) / max(1, points.last("BE-Tree", "matches", panel))
    return Finding(
        "does not hold",
        text,
        f"1 % of all is what takes the time: PUBSUB needs {each:.3f} us for each match, with exact verification and ids, BE-Tree "
        f"{theirs:.3f} (it tests {tested:.2f} subscriptions a match, and gives numbers)",
    )


FIGURES = (
    Figure(
        "mishra-7", PAPER, "Bucket size", "best from a bucket size of 5,000 on, for both structures D", "bucket size",
        (Plot("us", "us a publication"),), _buckets, _judge_buckets,
    ),
    Figure(
        "mishra-8", PAPER, "Number of subscriptions",
        "uniform: 19-31 % less time than BE-Tree, 97-99 % less than Siena; Zipf: like BE-Tree, 38-147 times faster than Siena",
        "subscriptions", (Plot("us", "us a publication"), Plot("bytes", "bytes a subscription", log_y=False)), _subscriptions,
        lambda points: _against(points, "number"),
    ),
    Figure(
        "mishra-9", PAPER, "Number of dimensions",
        "falls slightly for all; 24-30 % less than BE-Tree on uniform, 6-8 % on Zipf", "dimensions",
        (Plot("us", "us a publication"),), _dimensions, lambda points: _against(points, "number of dimensions"),
    ),
)  # fmt: skip
