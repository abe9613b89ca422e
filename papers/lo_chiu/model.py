"""What the cost model predicts for Lo and Chiu's load: from the distributions that it is drawn from, not from a draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pastforward.papers.lo_chiu.simulation import Hashing, interval_step
from pastforward.papers.loads.lo_chiu import EQUALITY_VALUES, Schema, Setting
from pastforward.streams.routing.cost import Costs, KeyLoads, PaperModel, chord_hops, rendezvous_brokers

F64 = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prediction:
    """`paper`: by Lo and Chiu's formulas. `ours`: by the expected load of each key; the paper has no model of latency and
    deviation at all."""

    paper: Costs
    ours: Costs
    latency: float
    deviation: float


def choice_probability(probability: F64) -> F64:
    """How likely a subscription is stored by each attribute: it has it, and draws it among all that it has."""
    chosen = np.zeros(len(probability))
    for a, own in enumerate(probability):
        others = np.ones(1)  # how likely it has 0, 1, 2, ... of the others
        for b, other in enumerate(probability):
            if b != a:
                others = np.convolve(others, [1 - other, other])
        chosen[a] = own * (others / np.arange(1, len(others) + 1)).sum()
    return chosen


def _coverage(setting: Setting, top: int, first: I64, last: I64) -> F64:
    """How likely a range has a value within [first, last], for many of these; by how its ends are drawn."""
    if setting.ranges == "bounds":
        below, above = first / (top + 1), (top - last) / (top + 1)
        covered: F64 = 1 - below**2 - above**2
        return covered
    mean = 20.0 if setting.ranges == "twenty" else top / 4
    lengths = np.minimum(np.linspace(0, 2 * mean, 101), top)[:, None]
    room = np.maximum(top - lengths, 1e-9)

    def started(at: F64) -> F64:
        share: F64 = np.clip(at / room, 0, 1)
        return share

    covered = started(last + 0.5 + 0 * lengths) - started(first - lengths - 0.5)
    if setting.ranges == "skew":
        centre, spread = top / 3, top / 20
        share = _normal((last + 0.5 - centre + lengths / 2) / spread) - _normal(
            (first - 0.5 - centre - lengths / 2) / spread
        )
        covered = 0.8 * share + 0.2 * covered
    mean_covered: F64 = np.clip(covered, 0, 1).mean(0)
    return mean_covered


def _normal(x: F64) -> F64:
    """The normal distribution function, by a logistic curve that is within 0.01 of it."""
    return 1 / (1 + np.exp(-1.702 * x))


class Model:
    def __init__(self, setting: Setting, schema: Schema) -> None:
        self.setting = setting
        self.schema = schema
        self.stored = setting.subscriptions * choice_probability(schema.probability)
        # a subscription of k attributes draws each with 1/k and then weighs k: the two cancel
        self.examined = setting.subscriptions * schema.probability
        self.hops = chord_hops(setting.nodes)
        self.ring = setting.spacing == "random"
        # where a finger is not the owner itself: one more, from the node before the key
        self.all_hops = self.hops + (1 if self.ring else 0)

    def predict(self, scheme: str, hashing: Hashing) -> Prediction:
        setting, schema = self.setting, self.schema
        attributes = setting.attributes
        mean_size = float(schema.probability.sum())
        if scheme == "ferry":
            return self._ferry(mean_size)
        per_attribute = [self._keys(a, scheme) for a in range(attributes)]
        names = [keys if hashing == "bare" else keys + (a + 1) * 2**20 for a, (keys, _, _) in enumerate(per_attribute)]
        distinct, place = np.unique(np.concatenate(names), return_inverse=True)
        weight = np.concatenate([keys[1] for keys in per_attribute])
        share = np.concatenate([keys[2] for keys in per_attribute])
        owner = np.repeat(np.arange(attributes), [len(keys[0]) for keys in per_attribute])
        loads = KeyLoads(
            np.bincount(place, self.stored[owner] * weight).astype(np.float64),
            np.bincount(place, self.examined[owner] * weight).astype(np.float64),
            # an event goes to a key once, even if two of its attributes have it
            setting.events * -np.expm1(np.bincount(place, np.log1p(-np.minimum(share / 2, 0.999999)))),
            ring=self.ring,
        )
        copies = float(np.mean([keys[1].sum() for keys in per_attribute]))
        paper = PaperModel(
            setting.subscriptions, setting.events, setting.nodes, mean_size, attributes / 2, self.hops, ring=self.ring
        ).costs(len(distinct), copies)
        latency = self._latency(loads, place, share, owner)
        return Prediction(paper, loads.costs(setting.nodes, self.all_hops), latency, loads.deviation(setting.nodes))

    def _keys(self, attribute: int, scheme: str) -> tuple[I64, F64, F64]:
        """Keys of an attribute; how likely a subscription stored by it has each; how likely an event with it has each."""
        schema = self.schema
        if scheme == "pan" or (scheme == "hybrid" and not schema.is_equality[attribute]):
            return np.array([2**30 + attribute]), np.ones(1), np.ones(1)
        if schema.is_equality[attribute]:
            equally = np.full(EQUALITY_VALUES, 1 / EQUALITY_VALUES)
            return schema.values[attribute].astype(np.int64), schema.popularity, equally
        top = int(schema.top[attribute])
        step = 1 if scheme == "pav" else int(interval_step(schema, int(scheme.removeprefix("iim:")))[attribute])
        first = np.arange(0, top + 1, step)
        last = np.minimum(first + step - 1, top)
        return first, _coverage(self.setting, top, first, last), (last - first + 1) / (top + 1)

    def _ferry(self, mean_size: float) -> Prediction:
        setting = self.setting
        paper, ours = (
            PaperModel(setting.subscriptions, setting.events, setting.nodes, mean_size, 0, hops, ring=self.ring).costs(
                setting.attributes, everywhere=True
            )
            for hops in (self.hops, self.all_hops)
        )
        # stretches of a ring cut at random: the deviation of their lengths is their mean, the longest is H_n means long
        brokers = rendezvous_brokers(setting.nodes, setting.attributes, ring=self.ring)
        longest = (1 / np.arange(1, round(brokers) + 1)).sum() / brokers
        latency = setting.events * setting.subscriptions * mean_size * float(longest)
        return Prediction(paper, ours, latency, setting.subscriptions / brokers)

    def _latency(self, loads: KeyLoads, place: I64, share: F64, owner: I64) -> float:
        """The mean of the greatest weight among the keys of an event: each attribute is in it or not, independently."""
        weight = loads.examined[place]
        beside = float(loads.examined.sum()) * loads.together(self.setting.nodes)
        order = np.argsort(weight)
        log_below = np.zeros(len(order))
        for a in range(self.setting.attributes):
            mine = (owner[order] == a) * share[order]
            log_below += np.log(0.5 + 0.5 * np.clip(np.cumsum(mine), 0, 1))
        at_most = np.exp(log_below)
        greatest = np.diff(at_most, prepend=0.0)
        return self.setting.events * float((greatest * (weight[order] + beside)).sum())
