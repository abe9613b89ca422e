"""Which scheme suits a load: every scheme tried on samples of it, its costs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.table import Table

from pastforward.columns import extras
from pastforward.streams.routing.catalog import Catalog
from pastforward.streams.routing.columns import Publications
from pastforward.streams.routing.infer import infer_catalog, infer_division
from pastforward.streams.routing.intervals import best_intervals, with_intervals
from pastforward.streams.routing.make import SCHEMES, make_scheme
from pastforward.streams.routing.records import RoutedPublication, RoutedSubscription
from pastforward.streams.routing.scheme import RoutingError, Scheme
from pastforward.streams.routing.weights import Weights

# Deeper topics than these are rare, and what is above the depth goes everywhere.
DEPTHS: Final = (1, 2, 3, 4)
# Estimates closer than this are equal: then the least total work wins.
_EQUAL: Final = 1.05
# The search for intervals tries a few catalogs on this many records of each kind: enough to tell them apart.
_SEARCHED: Final = 2_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a scheme costs on the samples, in microseconds of work over all partitions.

    `busiest` is the work of the partition that has most: with a core for each partition nothing is faster than that.
    `balance` is how often it is the mean.
    """

    scheme: str
    depth: int
    intervals: int | None
    subscription_copies: float
    publication_copies: float
    storing: float
    delivery: float
    keeping: float
    matching: float
    busiest: float
    balance: float
    why_not: str | None = None

    @property
    def total(self) -> float:
        return self.storing + self.delivery + self.keeping + self.matching


@dataclass(frozen=True, slots=True)
class Proposal:
    partitions: int
    subscriptions: int
    publications: int
    estimates: tuple[Estimate, ...]
    taken: Estimate
    catalog: Catalog

    def to_json(self) -> dict[str, Any]:
        return {
            "partitions": self.partitions,
            "subscriptions": self.subscriptions,
            "publications": self.publications,
            "estimates": [asdict(estimate) | {"total": estimate.total} for estimate in self.estimates],
            "taken": self.taken.scheme,
            "depth": self.taken.depth,
            "catalog": self.catalog.to_json(),
        }

    def table(self) -> Table:
        """For the terminal: milliseconds of work, the taken scheme marked."""
        title = f"{self.subscriptions} subscriptions, {self.publications} publications, {self.partitions} partitions"
        table = Table(title=title, caption=self.advice())
        table.add_column("scheme")
        for column in ("copies S", "copies P", "storing", "delivery", "keeping", "matching", "busiest ms", "balance"):
            table.add_column(column, justify="right")
        table.add_column("")
        for estimate in self.estimates:
            costs = (estimate.storing, estimate.delivery, estimate.keeping, estimate.matching, estimate.busiest)
            table.add_row(
                _label(estimate),
                f"{estimate.subscription_copies:.2f}",
                f"{estimate.publication_copies:.2f}",
                *(f"{cost / 1e3:.1f}" for cost in costs),
                f"{estimate.balance:.2f}",
                "taken" if estimate is self.taken else estimate.why_not or "",
                style="bold" if estimate is self.taken else None,
            )
        return table

    def advice(self) -> str:
        others = [e for e in self.estimates if e is not self.taken and e.why_not is None]
        if not others:
            return f"take {_label(self.taken)}: nothing else is possible"
        second = min(others, key=lambda estimate: estimate.busiest)
        return (
            f"take {_label(self.taken)}: its busiest partition has {self.taken.busiest / 1e3:.1f} ms of work, "
            f"that of {_label(second)} {second.busiest / 1e3:.1f} ms"
        )

    def plot(self, path: Path) -> None:
        """Stacked bars of the work, a mark for the busiest partition times the number of partitions."""
        extras.need("spark", "a plot of the proposal")
        from matplotlib.figure import Figure  # here, because it takes a second to import and a router never plots

        figure = Figure(figsize=(7, 3.2), layout="constrained")
        axes = figure.subplots()
        bottom = np.zeros(len(self.estimates))
        for part in ("storing", "delivery", "keeping", "matching"):
            height = np.array([getattr(estimate, part) for estimate in self.estimates]) / 1e3
            axes.bar(range(len(height)), height, 0.6, bottom, label=part)
            bottom += height
        busiest = [estimate.busiest * self.partitions / 1e3 for estimate in self.estimates]
        axes.plot(range(len(busiest)), busiest, "k_", markersize=14, label="busiest x partitions")
        axes.set_xticks(range(len(self.estimates)), [_label(estimate) for estimate in self.estimates])
        axes.set_ylabel("ms of work on the samples")
        axes.legend(frameon=False)
        figure.savefig(path)


def _label(estimate: Estimate) -> str:
    if estimate.scheme == "dewey":
        return f"dewey/{estimate.depth}"
    return estimate.scheme if estimate.intervals is None else f"{estimate.scheme}:{estimate.intervals}"


def propose(
    subscriptions: Sequence[RoutedSubscription],
    publications: Sequence[RoutedPublication],
    partitions: int,
    catalog: Catalog | None = None,
    *,
    live: int | None = None,
    weights: Weights | None = None,
) -> Proposal:
    """Tries every scheme. Without a catalog one is made from the samples; `live` is how many subscriptions there will be.

    Raises `RoutingError` if a sample is empty or the catalog does not fit.
    """
    if not subscriptions or not publications:
        raise RoutingError("a sample is empty; give at least one subscription and one publication")
    weights = weights or Weights()
    known = catalog if catalog is not None and catalog.attributes else infer_catalog(subscriptions, publications)
    division = catalog.partitions if catalog is not None and catalog.partitions else None
    division = division or infer_division(subscriptions, publications, partitions) or ()
    known = replace(known, partitions=division)
    trial = _Trial(subscriptions, publications, weights, live or len(subscriptions))
    self_joins = any(subscription.self_join for subscription in subscriptions)
    estimates = []
    for name in SCHEMES:
        if name == "dewey":
            found = [trial.estimate(make_scheme(name, partitions, depth), depth=depth) for depth in DEPTHS]
            estimates.append(min(found, key=lambda estimate: estimate.busiest))
        elif name == "constraints" and not division:
            continue
        else:
            estimate, known = _estimate(name, partitions, known, trial)
            estimates.append(replace(estimate, why_not="self_join needs dewey") if self_joins else estimate)
    possible = [estimate for estimate in estimates if estimate.why_not is None]
    least = min(estimate.busiest for estimate in possible)
    taken = min((e for e in possible if e.busiest <= least * _EQUAL), key=lambda estimate: estimate.total)
    return Proposal(partitions, len(subscriptions), len(publications), tuple(estimates), taken, known)


def _estimate(name: str, partitions: int, catalog: Catalog, trial: _Trial) -> tuple[Estimate, Catalog]:
    number = None
    if name == "iim":
        small = trial.part(_SEARCHED)
        number = best_intervals(
            catalog,
            small.subscriptions,
            small.publications,
            partitions,
            trial.weights,
            lambda tried: small.estimate(make_scheme(name, partitions, catalog=tried)).busiest,
        )
        catalog = catalog if number is None else with_intervals(catalog, number)
    return trial.estimate(make_scheme(name, partitions, catalog=catalog), intervals=number), catalog


class _Trial:
    def __init__(
        self,
        subscriptions: Sequence[RoutedSubscription],
        publications: Sequence[RoutedPublication],
        weights: Weights,
        live: int,
    ) -> None:
        self.subscriptions = subscriptions
        self.publications = publications
        self.weights = weights
        self.live = live
        self._columns = Publications.of(publications)
        self._size = [sum(len(disjunct) for disjunct in s.condition) or 1 for s in subscriptions]

    def part(self, count: int) -> _Trial:
        """On the first records of each sample alone."""
        return _Trial(self.subscriptions[:count], self.publications[:count], self.weights, self.live)

    def estimate(self, scheme: Scheme, depth: int = 1, intervals: int | None = None) -> Estimate:
        stored, examined = np.zeros(scheme.partitions), np.zeros(scheme.partitions)
        for subscription, size in zip(self.subscriptions, self._size, strict=True):
            for partition in scheme.subscription(subscription):
                stored[partition] += 1
                examined[partition] += size
        sent = np.bincount(scheme.route_publications(self._columns).partition, minlength=scheme.partitions)
        weights = self.weights
        storing, delivery, keeping = stored * weights.store, sent * weights.send, sent * weights.keep
        matching = sent * examined * (self.live / len(self.subscriptions)) * weights.examine
        work = storing + delivery + keeping + matching
        return Estimate(
            scheme.name,
            depth,
            intervals,
            float(stored.sum()) / len(self.subscriptions),
            float(sent.sum()) / len(self.publications),
            float(storing.sum()),
            float(delivery.sum()),
            float(keeping.sum()),
            float(matching.sum()),
            float(work.max()),
            float(work.max() / work.mean()),
        )
