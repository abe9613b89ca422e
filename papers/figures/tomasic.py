"""Tomasic et al.: figures 4 to 7, and what `symmetric` costs beside `classical`. A relational baseline in the same run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pastforward.matching import Index
from pastforward.papers.figures.contenders import Contender, Indexed, Make, compare, indexed, same
from pastforward.papers.figures.points import SEED, Figure, Finding, Plot, Point, Points, Scale, Unit
from pastforward.papers.loads.predicates import Load
from pastforward.papers.loads.tomasic import LOADS, make
from pastforward.papers.sql import Relational

PAPER = "Tomasic et al.: Matching"
PATIENCE = {"quick": 0.1, "full": 1.0}


def symmetric(load: Load) -> Contender:
    index = Index()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(load.ids), np.int32)), pa.array(["symmetric"]))
    index.add_predicates(load.predicates.append_column("semantics", column))
    return Indexed(load, index)


def _relational(engine: str) -> Make:
    return lambda load: Relational(load, engine)


CONTENDERS: dict[str, Make] = {
    "auto": indexed("auto"),
    "auto, symmetric": symmetric,
    "counting": indexed("counting"),
    "DuckDB": _relational("DuckDB"),
    "SQLite": _relational("SQLite"),
}


def _unit(figure: str, scale: Scale, load: str, x: float, subscriptions: int, publications: int) -> Unit:
    # What takes a minute for one publication has shown its point at a smaller size: both make every partial pair.
    contenders = dict(CONTENDERS)
    partial = subscriptions * publications * (16 if load == "intermediate" else 1)
    if load in ("intermediate", "geometric"):
        if partial > (200_000 if scale == "quick" else 4_000_000):
            del contenders["SQLite"]
        if partial > (20_000_000 if scale == "quick" else 400_000_000):
            del contenders["DuckDB"], contenders["counting"]
    small = make(load, 200, publications, SEED)
    return Unit(
        f"tomasic-{figure}-{load}-{subscriptions}-{publications}",
        2 + subscriptions / (40_000 if load != "intermediate" else 8_000),
        lambda: compare(
            make(load, subscriptions, publications, SEED), contenders, x, load, patience=PATIENCE[scale], small=small
        ),
    )


def _fixed(scale: Scale) -> list[Unit]:
    return [
        _unit("4", scale, "fixed", s, s, 1) for s in ((20_000, 100_000) if scale == "quick" else (100_000, 1_000_000))
    ]


def _by_subscriptions(scale: Scale) -> list[Unit]:
    counts = (10_000, 50_000) if scale == "quick" else (100_000, 200_000, 500_000, 1_000_000)
    return [_unit("5", scale, load, s, s, 1) for load in LOADS for s in counts]


def _by_batch(scale: Scale, loads: tuple[str, ...]) -> list[Unit]:
    subscriptions = 20_000 if scale == "quick" else 100_000
    sizes = (1, 15, 200) if scale == "quick" else (1, 5, 15, 50, 200, 1_000)
    return [_unit("67", scale, load, p, subscriptions, p) for load in loads for p in sizes]


@dataclass(frozen=True)
class Penalty:
    """Six operators over four types: what `symmetric` has to keep apart."""

    count: int

    def points(self) -> Iterator[Point]:
        for types in (1, 2, 3, 4):
            for operators in range(1, 7):
                yield from self._pair(types, operators)

    def _pair(self, types: int, operators: int) -> Iterator[Point]:
        random = np.random.default_rng((SEED, types, operators))
        chosen = random.integers(0, operators, (self.count, types))
        low = random.integers(0, 1_000, (self.count, types))
        high = low + random.integers(1, 100, (self.count, types))
        kind = np.tile(np.arange(types), self.count)
        value, top = low.ravel(), high.ravel()
        operator = np.array(["=", "between", "<=", ">=", "<", ">"])[chosen.ravel()]
        between = operator == "between"

        def column(number: int, values: pa.Array, only: object = True) -> pa.Array:
            keep = pa.array((kind == number) & np.asarray(only))
            return pc.if_else(keep, values, pa.scalar(None, values.type))

        text, top_text = (pa.array([f"{v:06d}" for v in side.tolist()]) for side in (value, top))
        predicates = pa.table(
            {
                "subscription_id": np.repeat(np.arange(self.count), types),
                "attribute": pa.array([f"t{number}" for number in kind]),
                "operator": pa.array(operator),
                "value_int64": column(0, pa.array(value)),
                "high_int64": column(0, pa.array(top), between),
                "value_float64": column(1, pa.array(value.astype(np.float64))),
                "high_float64": column(1, pa.array(top.astype(np.float64)), between),
                "value_string": column(2, text),
                "high_string": column(2, top_text, between),
                "value_timestamp": column(3, pa.array(value).cast(pa.timestamp("us"))),
                "high_timestamp": column(3, pa.array(top).cast(pa.timestamp("us")), between),
            }
        )
        asked = random.integers(0, 1_000, (500, types))
        given = [
            pa.array(asked[:, 0]),
            *([pa.array(asked[:, 1].astype(np.float64))] if types > 1 else []),
            *([pa.array([f"{v:06d}" for v in asked[:, 2].tolist()])] if types > 2 else []),
            *([pa.array(asked[:, 3]).cast(pa.timestamp("us"))] if types > 3 else []),
        ]
        events = pa.table({f"t{number}": array for number, array in enumerate(given)})
        spent: dict[str, float] = {}
        answers = {}
        for name in ("classical", "symmetric"):
            index = Index()
            index.add_predicates(predicates.append_column("semantics", pa.array([name] * predicates.num_rows)))
            pairs = index.match_table(events)
            answers[name] = pairs["row"].to_numpy(), pairs["subscription_id"].to_numpy()
            spent[name] = min(_match(index, events) for _ in range(3)) / 500 * 1e6
        # every publication carries exactly what every subscription constrains: the two agree
        same("symmetric", answers["symmetric"], "classical", answers["classical"], 500)
        for name, us in spent.items():
            yield Point(f"{types} types", name, operators, "us", us)


def _match(index: Index, events: pa.Table) -> float:
    begin = time.process_time()
    index.match_table(events)
    return time.process_time() - begin


def _penalty(scale: Scale) -> list[Unit]:
    count = 2_000 if scale == "quick" else 20_000
    return [Unit("tomasic-penalty", 40, Penalty(count).points)]


def _judge_4(points: Points) -> Finding:
    text = []
    for name in ("auto", "SQLite", "DuckDB"):
        match, load = points.line(name, "us", "fixed"), points.line(name, "load_s", "fixed")
        xs = list(match)
        text.append(
            f"{name} {match[xs[0]]:,.0f} and {match[xs[-1]]:,.0f} us, loading {load[xs[0]]:.2f} and {load[xs[-1]]:.2f} s"
        )
    line = list(points.line("auto", "us", "fixed").values())
    flat = line[-1] < 3 * line[0]
    return Finding("holds" if flat else "holds differently", f"at {xs[0]:,.0f} and {xs[-1]:,.0f}: " + "; ".join(text),
                   "" if flat else "alone, a publication visits more of a larger index")  # fmt: skip


def _growth(points: Points, name: str, load: str) -> float:
    line = list(points.line(name, "us", load).values())
    return line[-1] / line[0]


def _judge_5(points: Points) -> Finding:
    xs = list(points.line("auto", "us", "fixed"))
    grow = {load: _growth(points, "auto", load) for load in LOADS}
    base = {load: _growth(points, "SQLite", load) for load in LOADS if len(points.line("SQLite", "us", load)) > 1}
    text = f"from {xs[0]:,.0f} to {xs[-1]:,.0f} ({xs[-1] / xs[0]:.0f} times), `auto` grows "
    text += ", ".join(f"{n} {g:.1f}" for n, g in grow.items()) + " times; SQLite "
    text += ", ".join(f"{n} {g:.1f}" for n, g in base.items())
    linear = 0.7 * xs[-1] / xs[0]
    as_said = [grow["fixed"] < 2, grow["geometric"] < 2, grow["proportional"] > linear, grow["intermediate"] > linear]
    if all(as_said):
        return Finding("holds", text)
    reason = "a match alone costs microseconds whatever its load, beside which 0.01 S results are few; no intermediate result is "
    reason += "made, a publication is led to the subscriptions that agree in several attributes at once"
    return Finding("holds differently", text, reason)


def _judge_batch(points: Points) -> Finding:
    text = []
    gains = {}
    for load in points.panels("us"):
        line = points.line("auto", "us", load)
        best = max(1e6 / us for us in line.values())
        gains[load] = best * line[1] / 1e6
        base = points.line("DuckDB", "us", load)
        theirs = max(1e6 / us for us in base.values())
        text.append(
            f"{load}: `auto` up to {best:,.0f} a second, {gains[load]:.1f} times one alone; DuckDB {theirs:,.0f}"
        )
    if "fixed" in gains:
        holds = min(1e6 / us for load in gains for us in points.line("auto", "us", load).values()) > 1_000
        return Finding(
            "holds" if holds else "holds differently", "; ".join(text), "" if holds else "below a thousand at one size"
        )
    scales = max(gains.values()) > 2
    reason = "the index gains from batches here too: it makes no intermediate result that would grow with them"
    return Finding("holds differently" if scales else "holds", "; ".join(text), reason if scales else "")


def _judge_penalty(points: Points) -> Finding:
    ratios = [r for panel in points.panels("us") for r in points.ratios("us", panel, "symmetric", "classical")]
    mean = sum(ratios) / len(ratios)
    text = f"symmetric takes {min(ratios):.2f} to {max(ratios):.2f} times as long, {mean:.2f} on average, "
    text += "over 1 to 6 operators and 1 to 4 types"
    return Finding("holds" if mean > 1 else "holds differently", text, "" if mean > 1 else "there is no penalty")


_US = (Plot("us", "us a publication"),)
FIGURES = (
    Figure("tomasic-4", PAPER, "Fixed load, one publication", "match 0.017 s at 100,000 and 1M; subscribing 50.6 and 523.6 s",
           "subscriptions", (Plot("us", "us a publication"), Plot("load_s", "seconds to subscribe")), _fixed, _judge_4),
    Figure("tomasic-5", PAPER, "Match time by number of subscriptions",
           "fixed and geometric flat; proportional at least linear; large intermediate results linear, then a spike",
           "subscriptions", _US, _by_subscriptions, _judge_5),
    Figure("tomasic-6", PAPER, "Batches: fixed and proportional", "scale to thousands a second", "publications at once",
           _US, lambda scale: _by_batch(scale, ("fixed", "proportional")), _judge_batch),
    Figure("tomasic-7", PAPER, "Batches: large intermediate results, geometric", "do not scale; geometric peaks at about 15",
           "publications at once", _US, lambda scale: _by_batch(scale, ("intermediate", "geometric")), _judge_batch),
    Figure("tomasic-penalty", PAPER, "Symmetric beside classical", "symmetry costs: more kinds of pairs, more joins", "operators in use",
           (Plot("us", "us a publication", log_x=False),), _penalty, _judge_penalty),
)  # fmt: skip
