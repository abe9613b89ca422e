"""What Lo and Chiu say of their figures, held against ours, claim by claim.

Means over seeds, the bare value hashed as in the paper. Where we found another result, `reason` says why; each reason
was found by measuring, and `docs/routing.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pastforward.papers.lo_chiu.figures import CURVES, best_intervals, mean_by, select

VALUED = ("hybrid", "pav", "iim:12", "iim:25", "iim:50")
INTERVALS = ("iim:12", "iim:25", "iim:50")


class Claim(NamedTuple):
    figure: str
    text: str
    found: str
    holds: bool
    reason: str = ""


class _Rows:
    """One experiment, with the means that claims speak of."""

    def __init__(self, table: pa.Table, experiment: str, x: str) -> None:
        self._rows = select(table, experiment=experiment, hashing="bare")
        self._x = x

    def of(self, column: str, scheme: str, **equal: int) -> dict[float, float]:
        xs, ys = mean_by(select(self._rows, scheme=scheme, **equal), self._x, column)
        return dict(zip(xs.tolist(), ys.tolist(), strict=True))


def check_claims(table: pa.Table) -> list[Claim]:
    return [claim for figure in FIGURES for claim in claims_of(figure, table)]


def claims_of(figure: str, table: pa.Table) -> list[Claim]:
    """Of one figure; the table needs the rows of its experiment only."""
    if figure == "7":
        return _intervals(table)
    experiment, x, check = _CHECKS[figure]
    return check(_Rows(table, experiment, x))


def _show(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


def _balance(rows: _Rows) -> list[Claim]:
    def at(scheme: str, percent: int, theta: float = 1.5) -> float:
        return rows.of("deviation", scheme, equality_percent=percent)[theta]

    ferry = list(rows.of("deviation", "ferry", equality_percent=25).values())
    pan = list(rows.of("deviation", "pan", equality_percent=25).values())
    pav = [at("pav", percent) / at("pan", percent) for percent in (75, 25)]
    hybrid = [at("hybrid", percent) / at("pan", percent) for percent in (75, 25)]
    intervals = [at(scheme, 25) for scheme in INTERVALS]
    return [
        Claim("2", "Ferry does not depend on theta", _show([min(ferry), max(ferry)]), max(ferry) < 1.05 * min(ferry)),
        Claim("2", "PAN rises with theta", _show([pan[0], pan[-1]]), pan == sorted(pan)),
        Claim("2", "PAV low at 75 % equality, high at 25 %", f"{_show(pav)} of PAN", pav[0] < 1 < pav[1]),
        Claim("2", "Hybrid is well balanced", f"{_show(hybrid)} of PAN", max(hybrid) < 0.5),
        Claim("2b", "IIM is better with fewer intervals", _show(intervals), intervals == sorted(intervals)),
    ]


def _storing(rows: _Rows) -> list[Claim]:
    hops = {scheme: rows.of("storing", scheme) for scheme in ("ferry", "pan", *VALUED)}
    flat = [*hops["pan"].values(), *hops["hybrid"].values()]
    ferry = max(hops["ferry"][x] / hops["pan"][x] for x in hops["pan"])
    grows = all(hops["iim:12"][x] < hops["iim:25"][x] < hops["iim:50"][x] for x in hops["pan"] if x < 100)
    falls = list(hops["iim:25"].values())
    ratio = hops["pav"][0] / hops["iim:50"][0]
    equal = [hops[scheme][100] for scheme in VALUED]
    return [
        Claim("3", "PAN = Hybrid, flat (60,000 hops)", _show([min(flat), max(flat)]), max(flat) < 1.06 * min(flat)),
        Claim("3", "Ferry slightly more than PAN", f"{ferry:.2f} times", 1 < ferry < 1.5),
        Claim("3", "IIM grows with the interval number", "everywhere" if grows else "not everywhere", grows),
        Claim("3", "IIM costs more when range-heavy", _show([falls[0], falls[-1]]), falls[0] > 3 * falls[-1]),
        Claim("3", "PAV is 29 times IIM:50", f"{ratio:.1f} times, all range attributes", 22 < ratio < 38),
        Claim("3", "at 100 % IIM = Hybrid = PAV", _show([min(equal), max(equal)]), max(equal) < 1.001 * min(equal)),
    ]


def _delivery(rows: _Rows) -> list[Claim]:
    hops = {scheme: rows.of("delivery", scheme)[50] for scheme in ("ferry", "pan", *VALUED)}
    four = [hops[scheme] for scheme in hops if scheme != "ferry"]
    ratio = hops["ferry"] / hops["pan"]
    return [
        Claim(
            "4", "PAN, PAV, Hybrid, IIM equal (1.8M hops)", _show([min(four), max(four)]), max(four) < 1.06 * min(four)
        ),
        Claim("4", "Ferry twice as much (3.6M)", f"{ratio:.2f} times", 1.8 < ratio < 2.2),
    ]


def _overhead(rows: _Rows) -> list[Claim]:
    cost = {scheme: rows.of("overhead", scheme) for scheme in ("ferry", "pan", *VALUED)}
    inner = [x for x in cost["pan"] if 0 < x < 100]
    order = all(cost["ferry"][x] > cost["pan"][x] > cost["hybrid"][x] > cost["iim:25"][x] for x in inner)
    means = [sum(cost[scheme][x] for x in inner) / len(inner) for scheme in INTERVALS]
    worse = [x for x in cost["pan"] if cost["pav"][x] > cost["pan"][x]] or [0.0]
    return [
        Claim("5a", "Ferry > PAN > Hybrid > IIM", "at every share" if order else "not at every share", order),
        Claim(
            "5a",
            "IIM:25 is better than IIM:12 and IIM:50",
            _show(means),
            means[1] == min(means),
        ),
        Claim(
            "5a",
            "PAV bad when range-heavy, good when not",
            f"worse than PAN up to {max(worse)} %",
            30 < max(worse) < 100,
        ),
    ]


def _latency(rows: _Rows) -> list[Claim]:
    cost = {scheme: rows.of("latency", scheme) for scheme in ("ferry", "pan", *VALUED)}

    def wins(schemes: Sequence[str], over: Sequence[str], where: Callable[[float], bool]) -> bool:
        xs = [x for x in cost["pan"] if where(x)]
        return all(cost[scheme][x] < cost[other][x] for scheme in schemes for other in over for x in xs)

    above = wins(VALUED, ("pan",), lambda x: x > 50) and wins(("iim:25",), ("ferry",), lambda x: x > 50)
    ferry = wins(VALUED, ("ferry",), lambda x: x > 50)
    below = [cost[scheme][20] / cost["ferry"][20] for scheme in ("hybrid", "pav")]
    best = wins(("iim:25",), ("ferry", "pan", "hybrid", "pav"), lambda x: x < 100)
    return [
        Claim("5b", "above 50 % the value-based schemes beat PAN", "all" if above else "not all", above),
        Claim(
            "5b",
            "above 50 % the value-based schemes beat Ferry",
            "all" if ferry else "not all",
            ferry,
        ),
        Claim("5b", "below 50 % Hybrid and PAV become worse", f"{_show(below)} times Ferry at 20 %", min(below) > 1),
        Claim(
            "5b", "IIM is best throughout", "at every share" if best else "not at every share", best, "see figure 5b"
        ),
    ]


def _schema(rows: _Rows) -> list[Claim]:
    cost = rows.of("latency", "iim:25")
    best = min(cost, key=lambda x: cost[x])
    return [
        Claim(
            "6",
            "latency falls, then rises; best at 20 attributes",
            f"IIM:25: {_show(list(cost.values()))}",
            best == 20,
        )
    ]


def _intervals(table: pa.Table) -> list[Claim]:
    rows = select(table, experiment="F", hashing="bare")
    best: dict[tuple[int, str], list[int]] = {}
    one: list[int] = []
    for gap, ranges in CURVES:
        mine = select(rows, gap=gap, ranges=ranges)
        sizes = sorted(pc.unique(mine["min_range"]).to_pylist())
        best[gap, ranges] = [best_intervals(select(mine, min_range=size)) for size in sizes]
        one += [best_intervals(select(mine, min_range=size), at_least=1) for size in sizes if gap == 0]
    same = best[0, "quarter"] + best[0, "skew"]
    grown, short = best[50, "quarter"], best[0, "twenty"]
    return [
        Claim(
            "7",
            "GP = 0, a quarter and skewed: 30 to 49",
            _span(same),
            min(same) >= 30 and max(same) <= 49,
            "flat: 40 costs at most 2 % more",
        ),
        Claim(
            "7",
            "GP = 0, ranges of 20: 30 to 49",
            _span(short),
            min(short) >= 30 and max(short) <= 49,
            "short ranges: finer intervals still pay where our search ends",
        ),
        Claim("7", "GP = 50: 13 to 24", _span(grown), min(grown) >= 13 and max(grown) <= 24),
        Claim(
            "7",
            "more intervals where domains overlap",
            f"{sum(best[0, 'quarter']) / len(grown):.0f} against {sum(grown) / len(grown):.0f}",
            sum(best[0, "quarter"]) > sum(grown),
        ),
        Claim(
            "7",
            "(not said) the best is never a single interval",
            _span(one),
            min(one) > 1,
            "with equal domains one interval makes all range attributes one key",
        ),
    ]


def _span(numbers: Sequence[int]) -> str:
    return f"{min(numbers)} to {max(numbers)}"


_CHECKS: dict[str, tuple[str, str, Callable[[_Rows], list[Claim]]]] = {
    "2": ("A", "theta", _balance),
    "3": ("BCD", "equality_percent", _storing),
    "4": ("BCD", "equality_percent", _delivery),
    "5a": ("BCD", "equality_percent", _overhead),
    "5b": ("BCD", "equality_percent", _latency),
    "6": ("E", "attributes", _schema),
}
FIGURES = (*_CHECKS, "7")
