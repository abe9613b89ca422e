"""The best interval number, as in Lo and Chiu's experiment F: by a model over samples, then by trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.matching.conditions.types import classify
from pastforward.streams.routing.by_attribute import Iim
from pastforward.streams.routing.catalog import Attribute, Catalog
from pastforward.streams.routing.cost import KeyLoads
from pastforward.streams.routing.records import RoutedPublication, RoutedSubscription
from pastforward.streams.routing.rules import ByInterval, by_interval
from pastforward.streams.routing.weights import Weights

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

# The paper's best are 13 to 49. What few intervals change, many do not: steps grow.
CANDIDATES: Final = (*range(1, 20), *range(20, 60, 4), *range(60, 201, 20))
# The model is a few percent off; so many of its best are tried out.
TRIED: Final = 6


@dataclass(frozen=True, slots=True)
class _Sample:
    """Of one attribute: the range of each subscription that may be stored by it, with how likely that is and how many
    attributes it has; the values that publications carry."""

    low: F64
    high: F64
    likely: F64
    size: F64
    values: F64


def with_intervals(catalog: Catalog, number: int) -> Catalog:
    """The same with that many intervals, wherever the catalog gives a number of equal ones."""
    attributes = tuple(
        replace(attribute, intervals=number) if isinstance(attribute.intervals, int) else attribute
        for attribute in catalog.attributes
    )
    return replace(catalog, attributes=attributes)


def best_intervals(
    catalog: Catalog,
    subscriptions: Sequence[RoutedSubscription],
    publications: Sequence[RoutedPublication],
    partitions: int,
    weights: Weights,
    trial: Callable[[Catalog], float],
) -> int | None:
    """The number with the least `trial`, among those that the model finds best; None if there is nothing to choose."""
    ranged = [attribute for attribute in catalog.attributes if isinstance(attribute.intervals, int)]
    if not ranged:
        return None
    samples = {attribute.name: _sample(attribute, catalog, subscriptions, publications) for attribute in ranged}
    predicted = {number: _predict(ranged, samples, number, partitions, weights) for number in CANDIDATES}
    shortlist = sorted(CANDIDATES, key=lambda number: predicted[number])[:TRIED]
    best: int = min(sorted(shortlist), key=lambda number: trial(with_intervals(catalog, number)))
    return best


def _sample(
    attribute: Attribute,
    catalog: Catalog,
    subscriptions: Sequence[RoutedSubscription],
    publications: Sequence[RoutedPublication],
) -> _Sample:
    rules = Iim(1, catalog).rules
    rows = []
    for subscription in subscriptions:
        if subscription.semantics != "classical":
            continue
        for disjunct in subscription.condition:
            said = dict(disjunct)
            if attribute.name not in said or not rules[attribute.name].usable(said[attribute.name]):
                continue
            usable = sum(name in rules and rules[name].usable(constraint) for name, constraint in disjunct)
            constraint = said[attribute.name]
            ends: list[Any] = [constraint.low, constraint.high]
            if constraint.included is not None:
                ends = [constraint.included[0], constraint.included[-1]]
            low, high = (
                float(end) if end is not None else default for end, default in zip(ends, _INFINITE, strict=True)
            )
            rows.append((low, high, 1 / usable, len(disjunct)))
    values = [classify(publication.attributes.get(attribute.name)) for publication in publications]
    low_, high_, likely, size = np.array(rows, np.float64).reshape(-1, 4).T
    kept: list[Any] = [found[1] for found in values if found is not None and found[0] is attribute.family]
    return _Sample(low_, high_, likely, size, np.array(kept, np.float64))


_INFINITE: Final = (float("-inf"), float("inf"))


def _predict(
    attributes: Sequence[Attribute], samples: dict[str, _Sample], number: int, partitions: int, weights: Weights
) -> float:
    """The work of the busiest partition: the mean, and what the uneven keys add where they fall badly."""
    loads = [_loads(by_interval(replace(a, intervals=number), partitions), samples[a.name]) for a in attributes]
    stored, examined, sent = (np.concatenate(parts) for parts in zip(*loads, strict=True))
    keys = KeyLoads(stored, examined, sent)
    beside = (keys.examined.sum() - keys.examined) / partitions
    work = (
        keys.stored * weights.store
        + keys.sent * (weights.send + weights.keep)
        + keys.sent * (keys.examined + beside) * weights.examine
    )
    share = 1 / partitions
    deviation = sqrt(float((work**2).sum()) * share * (1 - share))
    # the greatest of n normal variables is about sqrt(2 ln n) deviations above the mean
    return float(work.sum()) * share + deviation * sqrt(2 * log(partitions)) if partitions > 1 else float(work.sum())


def _loads(rule: ByInterval, sample: _Sample) -> tuple[F64, F64, F64]:
    count = len(rule.lows)
    lows = np.array(rule.lows)
    first = np.clip(np.searchsorted(lows, sample.low, "right") - 1, 0, count - 1)
    last = np.clip(np.searchsorted(lows, sample.high, "right") - 1, 0, count - 1)
    at = np.clip(np.searchsorted(lows, sample.values, "right") - 1, 0, count - 1)
    return (
        _covered(first, last, sample.likely, count),
        _covered(first, last, sample.likely * sample.size, count),
        np.bincount(at, minlength=count).astype(np.float64),
    )


def _covered(first: I64, last: I64, weight: F64, count: int) -> F64:
    """How much weight lies on each of the intervals from `first` to `last`."""
    begun = np.bincount(first, weight, count)
    ended = np.bincount(last + 1, weight, count + 1)[:count]
    covered: F64 = np.cumsum(begun - ended)
    return covered
