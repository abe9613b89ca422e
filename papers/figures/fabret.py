"""Fabret et al.: figures 3a to 3d, the two tables of 6.2.2, 4a and 4b. Subscriptions in batches of 10,000, publications of 100."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pastforward.matching import Index
from pastforward.papers.figures.contenders import Make, compare, indexed, same
from pastforward.papers.figures.points import SEED, Figure, Finding, Plot, Point, Points, Scale, Unit
from pastforward.papers.loads.fabret import NAMES, SHAPES, W0, Shape, make, publications, table

PAPER = "Fabret et al.: Filtering algorithms"
AT_ONCE = 10_000
CONTENDERS: dict[str, Make] = {
    name: indexed(name, AT_ONCE) for name in ("counting", "propagation", "prefetch", "dynamic", "static", "auto")
}
FEWER = {name: CONTENDERS[name] for name in ("propagation", "prefetch", "dynamic", "auto")}
PATIENCE = {"quick": 0.2, "full": 2.0}
PUBLICATIONS = 100
KEEPS = 0.85  # of its throughput: what the paper shows of dynamic is no less
SMALL = make("small", W0, 500, 2, SEED)


def _unit(key: str, scale: Scale, panel: str, x: float, shape: Shape, count: int, contenders: dict[str, Make]) -> Unit:
    return Unit(
        f"fabret-{key}-{x:g}",
        3 + len(contenders) * count / 90_000,
        lambda: compare(
            make(key, shape, count, PUBLICATIONS, SEED), contenders, x, panel, patience=PATIENCE[scale], small=SMALL
        ),
    )


def _w0(scale: Scale) -> list[Unit]:
    counts = (20_000, 100_000, 200_000) if scale == "quick" else (100_000, 500_000, 1_000_000, 3_000_000, 6_000_000)
    return [_unit("W0", scale, "", count, W0, count, CONTENDERS) for count in counts]


def _w1_w2(scale: Scale) -> list[Unit]:
    count = 100_000 if scale == "quick" else 3_000_000
    chosen = {name: CONTENDERS[name] for name in ("prefetch", "dynamic", "auto")}
    return [
        _unit(f"3b-{name}", scale, "", number, SHAPES[name], count, chosen) for number, name in ((1, "W1"), (2, "W2"))
    ]


def _domain(scale: Scale) -> list[Unit]:
    count = 100_000 if scale == "quick" else 1_000_000
    domains = (10, 35, 100) if scale == "quick" else (10, 20, 35, 50, 100)
    return [_unit("domain", scale, "", d, replace(W0, values=d), count, FEWER) for d in domains]


def _predicates(scale: Scale) -> list[Unit]:
    count = 50_000 if scale == "quick" else 1_000_000
    numbers = (4, 8, 14) if scale == "quick" else (4, 6, 8, 10, 12, 14)
    return [_unit("predicates", scale, "", n, Shape("==", n - 2), count, FEWER) for n in numbers]


# 4a and 4b: the paper's 2 + 16 + 2 hours, 50 in and 50 out a second, a hundredfold compressed.
HOURS = 20
TURNOVER = (2, 18)
ASKED = 1_000  # publications at every step
SEEN = 1_100  # publications after which `static` chooses for good: statistics come from matches
IN_AN_HOUR = 0.06  # of all subscriptions: 3.6M of 3M in twenty hours


def _drift(number: str, scale: Scale) -> list[Unit]:
    return [Unit(f"fabret-{number}", 40 if scale == "quick" else 900, lambda: _drifting(number, scale))]


def _drifting(number: str, scale: Scale) -> Iterator[Point]:
    """`without change` keeps the tables it chose at the beginning; `dynamic` adapts; `auto` is what the product takes."""
    count = 150_000 if scale == "quick" else 3_000_000
    steps = HOURS if scale == "quick" else 5 * HOURS
    each = int(IN_AN_HOUR * HOURS / steps * count)
    if number == "4a":  # one fixed name of 16, then one of the other 16
        before = Shape("=", 4, tuple(range(16)))
        after = Shape("=", 4, tuple(range(16, NAMES)))
    else:  # two fixed names; one of them falls from 35 values to 2
        before, after = Shape("==", 3), Shape("==", 3, few={1: 2})
    contenders = {
        "without change": Index(algorithm="static"),
        "dynamic": Index(algorithm="dynamic"),
        "auto": Index(algorithm="auto"),
    }
    asked, later = publications(ASKED, before, 7), publications(ASKED, after, 8)
    for index in contenders.values():
        for first in range(0, count, AT_ONCE):
            index.add_predicates(table(before, first, min(AT_ONCE, count - first), SEED))
            if first == count // 2 // AT_ONCE * AT_ONCE:
                index.match_table(publications(SEEN, before, 7))
    for step in range(steps):
        hour = step * HOURS / steps
        share = min(1.0, max(0.0, (hour - TURNOVER[0]) / (TURNOVER[1] - TURNOVER[0])))
        new = round(each * share) if number == "4a" else each if share > 0 else 0
        first = count + step * each
        coming = [table(before, first, each - new, SEED), table(after, first + each - new, new, SEED)]
        going = np.arange(step * each, (step + 1) * each)
        # publications change with the subscriptions: a name that is skewed is so for both
        changed_rows = int(ASKED * share)
        events = pa.concat_tables([later.slice(0, changed_rows), asked.slice(changed_rows)]).combine_chunks()
        answers = {}
        for name, index in contenders.items():
            begin = time.process_time()
            for part in coming:
                if part.num_rows:
                    index.add_predicates(part)
            index.remove_many(going)
            changed = time.process_time() - begin
            pairs = index.match_table(events)
            answers[name] = pairs["row"].to_numpy(), pairs["subscription_id"].to_numpy()
            spent = min(_match(index, events) for _ in range(3))
            yield Point("", name, hour, "a second", ASKED / spent)
            yield Point("", name, hour, "us to change one", changed / (2 * each) * 1e6)
        for name, found in answers.items():
            same(name, found, "dynamic", answers["dynamic"], ASKED)


def _match(index: Index, events: pa.Table) -> float:
    begin = time.process_time()
    index.match_table(events)
    return time.process_time() - begin


def _judge_3a(points: Points) -> Finding:
    at = {name: points.last(name, "us") * PUBLICATIONS / 1000 for name in CONTENDERS}
    line = points.line("dynamic", "us")
    xs, us = list(line), list(line.values())
    grown, near, fetched = us[-1] / us[0], at["static"] / at["dynamic"], at["prefetch"] / at["propagation"]
    text = f"ms per 100 publications at {xs[-1]:,.0f}: " + ", ".join(f"{name} {ms:,.1f}" for name, ms in at.items())
    text += f"; dynamic grows {grown:.1f} times from {xs[0]:,.0f} on"
    if not at["counting"] > at["propagation"] > at["dynamic"]:
        return Finding("does not hold", text, "the order is another")
    differs = []
    if fetched > 1:
        differs.append(f"prefetch takes {fetched:.2f} times propagation: today's processors prefetch by themselves")
    if not 0.5 < near < 2:
        differs.append(f"static takes {near:.2f} times dynamic")
    if grown > 3:
        differs.append(f"matches grow with the subscriptions, to {points.last('dynamic', 'matches'):.1f} a publication")
    return Finding("holds differently" if differs else "holds", text, "; ".join(differs))


def _judge_3b(points: Points) -> Finding:
    grown = {n: points.line(n, "us")[2] - points.line(n, "us")[1] for n in ("prefetch", "dynamic")}
    ahead = [points.line("prefetch", "us")[w] / points.line("dynamic", "us")[w] for w in (1, 2)]
    text = f"W2 takes {grown['prefetch']:+.1f} us (prefetch) and {grown['dynamic']:+.1f} us (dynamic) beside W1; "
    text += f"dynamic is {ahead[0]:.1f} and {ahead[1]:.1f} times faster"
    if min(ahead) <= 1:
        return Finding("does not hold", text, "dynamic is not ahead")
    if min(grown.values()) > 0 and max(grown.values()) < 1.5 * min(grown.values()):
        return Finding("holds", text)
    return Finding(
        "holds differently",
        text,
        "further predicates are tested only where the first ones hold: what W2 adds is small or none",
    )


def _extremes(points: Points, measure: str) -> tuple[str, str, str]:
    """Of the paper's own: who has least, who most; and all values."""
    at = {name: points.last(name, measure) for name in CONTENDERS}
    text = ", ".join(f"{name} {value:,.1f}" for name, value in at.items())
    del at["auto"]
    return min(at, key=at.__getitem__), max(at, key=at.__getitem__), text


def _judge_3c(points: Points) -> Finding:
    least, most, text = _extremes(points, "bytes")
    text = f"bytes a subscription: {text}"
    if least in ("propagation", "prefetch") and most in ("dynamic", "static"):
        return Finding("holds", text)
    return Finding(
        "holds differently",
        text,
        f"{least} needs least, {most} most: all keep the same exact records, beside which structures are small",
    )


def _judge_3d(points: Points) -> Finding:
    least, most, text = _extremes(points, "load_s")
    text = f"seconds to load: {text}"
    if least == "counting" and most == "static":
        return Finding("holds", text)
    return Finding(
        "holds differently",
        text,
        f"{least} loads fastest, {most} slowest: lists of every predicate cost more than one place in a cluster",
    )


def _judge_table(points: Points) -> Finding:
    falls = {}
    for name in ("propagation", "dynamic"):
        line = list(points.line(name, "us").values())
        falls[name] = line[0] / line[-1]
    text = "from least to most: " + ", ".join(f"{name} {f:.2f} times faster" for name, f in falls.items())
    if min(falls.values()) > 1:
        less = falls["dynamic"] <= falls["propagation"]
        return Finding("holds" if less else "holds differently", text, "" if less else "dynamic gains more, not less")
    reason = "fewer match, but more predicates have to be read and tested"
    return Finding("holds differently" if max(falls.values()) > 1 else "does not hold", text, reason)


def _judge_drift(points: Points) -> Finding:
    text = []
    kept = {}
    for name in ("without change", "dynamic", "auto"):
        line = points.line(name, "a second")
        begin = [v for hour, v in line.items() if hour < TURNOVER[0]]
        end = [v for hour, v in line.items() if hour >= TURNOVER[1]]
        kept[name] = (sum(end) / len(end)) / (sum(begin) / len(begin))
        text.append(f"{name} keeps {100 * kept[name]:.0f} % ({sum(end) / len(end):,.0f} publications a second)")
    if kept["dynamic"] < 1.1 * kept["without change"]:
        reason = "what was chosen at first serves what came later nearly as well"
        return Finding("does not hold", "; ".join(text), reason)
    if kept["without change"] < 0.9 and kept["dynamic"] >= KEEPS:
        return Finding("holds", "; ".join(text))
    if kept["without change"] < 0.9:
        return Finding(
            "holds differently", "; ".join(text), "dynamic loses less, but loses too, where the paper's keeps"
        )
    reason = "the tables that were chosen at first do not get worse, those that are chosen anew get better"
    return Finding("holds differently", "; ".join(text), reason)


_US = (Plot("us", "us a publication"),)
FIGURES = (
    Figure("fabret-3a", PAPER, "W0: time by number of subscriptions",
           "at 6M, ms per 100 events: counting 90,377, propagation 804, with prefetch 509, dynamic 166 and flat, static near it",
           "subscriptions", _US, _w0, _judge_3a),
    Figure("fabret-3b", PAPER, "W1 and W2", "both slower on W2 by the same amount; dynamic ahead of prefetch", "load (W1, W2)",
           (Plot("us", "us a publication", log_x=False),), _w1_w2, _judge_3b),
    Figure("fabret-3c", PAPER, "W0: memory", "propagation needs least memory, dynamic most", "subscriptions",
           (Plot("bytes", "bytes a subscription", log_y=False),), _w0, _judge_3c),
    Figure("fabret-3d", PAPER, "W0: loading", "counting loads fastest, static slowest", "subscriptions",
           (Plot("load_s", "seconds to load"),), _w0, _judge_3d),
    Figure("fabret-6.2.2-domain", PAPER, "Values of a domain", "a larger domain is faster; dynamic is less sensitive",
           "values", _US, _domain, _judge_table),
    Figure("fabret-6.2.2-predicates", PAPER, "Predicates of a subscription", "more predicates are faster; dynamic is less sensitive",
           "predicates", _US, _predicates, _judge_table),
    Figure("fabret-4a", PAPER, "Changing schema", "without change throughput halves (200 a second), dynamic keeps 350", "hour",
           (Plot("a second", "publications a second", log_x=False, log_y=False),), lambda s: _drift("4a", s), _judge_drift),
    Figure("fabret-4b", PAPER, "Growing skew", "without change -20 %, dynamic nearly recovers", "hour",
           (Plot("a second", "publications a second", log_x=False, log_y=False),), lambda s: _drift("4b", s), _judge_drift),
)  # fmt: skip
