"""Lo and Chiu: figures 2 to 7, from the routing simulation. Counts, not times: they are the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from pastforward.papers.figures.points import Figure, Finding, Plot, Point, Points, Scale, Unit
from pastforward.papers.lo_chiu.claims import claims_of
from pastforward.papers.lo_chiu.experiments import Row, run_task, tasks
from pastforward.papers.lo_chiu.figures import CURVES, FEW

PAPER = "Lo, Chiu: content-based routing on DHTs"
_X = {"A": "theta", "BCD": "equality_percent", "E": "attributes", "F": "min_range"}
_MEASURES = ("storing", "delivery", "overhead", "latency")
_SECONDS = {"A": 3, "BCD": 3, "E": 2, "F": 12}  # a seed
_QUICK_SEEDS = {"A": 4, "BCD": 4, "E": 4, "F": 2}


def _units(experiment: str, scale: Scale) -> list[Unit]:
    """`quick` is the papers' size with fewer draws."""
    seeds = sorted({task.seed for task in tasks(quick=False) if task.experiment == experiment})
    if scale == "quick":
        seeds = seeds[: _QUICK_SEEDS[experiment]]
    return [Unit(f"lo-{experiment}-{seed}", _SECONDS[experiment], partial(_run, experiment, seed)) for seed in seeds]


def _run(experiment: str, seed: int) -> Iterator[Point]:
    for task in tasks(quick=False):
        if (task.experiment, task.seed) == (experiment, seed):
            yield from _points(experiment, run_task(task._replace(predicted=False)))


def _points(experiment: str, rows: list[Row]) -> Iterator[Point]:
    for row in rows:
        x = float(row[_X[experiment]])
        hashing, scheme = str(row["hashing"]), str(row["scheme"])
        if experiment == "A":
            yield Point(
                f"{row['equality_percent']} % equality, {hashing}", scheme, x, "deviation", float(row["deviation"])
            )
        elif experiment == "F":
            total = sum(float(row[name]) for name in ("storing", "delivery", "overhead"))
            curve = CURVES[row["gap"], row["ranges"]][0]
            yield Point(hashing, curve, x, scheme, total)
        else:
            for name in _MEASURES:
                yield Point(hashing, scheme, x, name, float(row[name]))
    if experiment == "F":
        for hashing in sorted({str(row["hashing"]) for row in rows}):
            mine = [row for row in rows if row["hashing"] == hashing and int(str(row["scheme"])[4:]) >= FEW]
            best = min(mine, key=lambda r: r["storing"] + r["delivery"] + r["overhead"])
            curve = CURVES[best["gap"], best["ranges"]][0]
            yield Point(hashing, curve, float(best["min_range"]), "best", float(str(best["scheme"])[4:]))


def _table(experiment: str, points: Points) -> pa.Table:
    """The rows that `routing_claims` reads, from the bare hashing's points: means over seeds come from there."""
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    count: dict[tuple[object, ...], int] = {}
    curves = {label: setting for setting, (label, _) in CURVES.items()}
    for p in points.all:
        hashing = p.panel.split(", ")[-1]
        if hashing != "bare" or p.measure == "best":
            continue
        same = (p.panel, p.contender, p.x, p.measure)
        count[same] = count.get(same, 0) + 1  # the how-manieth seed
        scheme = p.contender
        extra: dict[str, Any] = {}
        values = {p.measure: p.value}
        if experiment == "A":
            extra = {"equality_percent": int(p.panel.split(" ")[0])}
        if experiment == "F":
            gap, ranges = curves[p.contender]
            scheme, extra = p.measure, {"gap": gap, "ranges": ranges}
            values = {"storing": p.value, "delivery": 0.0, "overhead": 0.0}
        x = p.x if experiment == "A" else int(p.x)
        row = rows.setdefault((scheme, x, *extra.values(), count[same]), {})
        row |= {"experiment": experiment, "hashing": "bare", "scheme": scheme, _X[experiment]: x, **extra, **values}
    return pa.Table.from_pylist(list(rows.values()))


def _judge(experiment: str, figure: str) -> Callable[[Points], Finding]:
    def judge(points: Points) -> Finding:
        claims = claims_of(figure, _table(experiment, points))
        text = "; ".join(f"{claim.text}: {claim.found}" for claim in claims)
        wrong = [claim for claim in claims if not claim.holds]
        if not wrong:
            return Finding("holds", text)
        reason = "; ".join(
            f"not as said: {claim.text}" + (f" ({claim.reason})" if claim.reason else "") for claim in wrong
        )
        return Finding("holds differently" if len(wrong) < len(claims) else "does not hold", text, reason)

    return judge


def _figure(number: str, experiment: str, title: str, claim: str, x: str, plot: Plot) -> Figure:
    return Figure(
        f"lo-{number}", PAPER, title, claim, x, (plot,),
        lambda scale: _units(experiment, scale), _judge(experiment, number),
    )  # fmt: skip


_PERCENT = "% equality attributes"
FIGURES = (
    _figure("2", "A", "Balance", "Ferry flat; PAN rises; PAV low at 75 %, high at 25 %; Hybrid good; IIM better with fewer intervals",
            "theta", Plot("deviation", "deviation of subscriptions", log_x=False)),
    _figure("3", "BCD", "Storing", "PAN = Hybrid, flat (60,000 hops); Ferry slightly more; IIM grows with ranges; PAV 29 times IIM:50",
            _PERCENT, Plot("storing", "hops to store all subscriptions", log_x=False)),
    _figure("4", "BCD", "Delivery", "four equal (1.8M hops), Ferry far more (3.6M)", _PERCENT,
            Plot("delivery", "hops to deliver all events", log_x=False, log_y=False)),
    _figure("5a", "BCD", "Matching: overhead", "Ferry > PAN > Hybrid > IIM; best with 25 intervals; PAV bad when range-heavy", _PERCENT,
            Plot("overhead", "attributes examined", log_x=False)),
    _figure("5b", "BCD", "Matching: latency", "value-based win above 50 %; Hybrid and PAV worse below; IIM best throughout", _PERCENT,
            Plot("latency", "attributes examined at the slowest broker", log_x=False)),
    _figure("6", "E", "Schema size", "falls, then rises; best at 20", "attributes",
            Plot("latency", "attributes examined at the slowest broker", log_x=False)),
    _figure("7", "F", "Best interval number", "GP = 0: 30 to 49; GP = 50: 13 to 24", "MIN_RN",
            Plot("best", f"best interval number, from {FEW} on", log_x=False, log_y=False)),
)  # fmt: skip
