"""Lo and Chiu's load: a schema, subscriptions and events, drawn from one seed.

Stated in the paper: 20 attributes, a share of them equality attributes over 100 integers out of 0 to 5,000, the i-th
range attribute over 0 to 500 + 150 (i - 1), Zipf exponent 1.5, half of the schema in an event, two random bounds.
Not stated, hence ours: the attribute of rank n is in a subscription with probability n^-theta, so that the first always
is; ranks are a random permutation of the schema; the values of an equality attribute have the same exponent.
Only the attribute that a subscription is stored by needs a value: matching counts attributes, not results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pastforward.papers.chord import Spacing

F64 = npt.NDArray[Any]
I32 = npt.NDArray[np.int32]

EQUALITY_VALUES = 100
EQUALITY_TOP = 5_000

# How the two ends of a range are drawn; the last three are those of experiment F.
Ranges = Literal["bounds", "quarter", "twenty", "skew"]


@dataclass(frozen=True)
class Setting:
    attributes: int = 20
    equality_percent: int = 50
    theta: float = 1.5
    min_range: int = 500
    gap: int = 150
    ranges: Ranges = "bounds"
    subscriptions: int = 10_000
    events: int = 30_000
    nodes: int = 4_096
    spacing: Spacing = "full"


@dataclass(frozen=True)
class Schema:
    """Attribute `a`: `is_equality[a]`; `top[a]`, the highest value; `values[a]`, the values of an equality attribute,
    the most popular first; `probability[a]`, that a subscription has it."""

    is_equality: npt.NDArray[np.bool_]
    top: I32
    values: I32
    probability: F64
    popularity: F64  # of the values of an equality attribute, by rank

    @property
    def width(self) -> int:
        """One more than any value."""
        return int(max(EQUALITY_TOP, self.top.max())) + 1


@dataclass(frozen=True)
class Load:
    setting: Setting
    schema: Schema
    size: I32  # attributes of each subscription
    chosen: I32  # the attribute it is stored by
    low: I32
    high: I32
    subscriber: I32  # the node it comes from
    event_key: npt.NDArray[np.uint32]  # a row for each event: attribute * schema.width + value
    publisher: I32


def make_schema(setting: Setting, rng: np.random.Generator) -> Schema:
    count = setting.attributes
    equality = round(count * setting.equality_percent / 100)
    is_equality = np.arange(count) < equality
    number = np.maximum(np.arange(count) - equality, 0)
    top = np.where(is_equality, EQUALITY_TOP, setting.min_range + setting.gap * number).astype(np.int32)
    values = np.array([rng.choice(EQUALITY_TOP + 1, EQUALITY_VALUES, replace=False) for _ in range(count)], np.int32)
    probability = (rng.permutation(count) + 1.0) ** -setting.theta
    popularity = np.arange(1, EQUALITY_VALUES + 1) ** -setting.theta
    return Schema(is_equality, top, values, probability, popularity / popularity.sum())


def make_load(setting: Setting, seed: int, *, events: bool = True) -> Load:
    rng = np.random.default_rng((seed, 1))
    schema = make_schema(setting, rng)
    count, subscriptions = setting.attributes, setting.subscriptions
    has = rng.random((subscriptions, count)) < schema.probability
    size = has.sum(1).astype(np.int32)
    # a random attribute among those it has: the largest of random numbers given to them
    chosen = np.argmax(rng.random((subscriptions, count)) * has, 1).astype(np.int32)
    low, high = _ranges(setting, schema.top[chosen].astype(np.int64), rng)
    rank = rng.choice(EQUALITY_VALUES, subscriptions, p=schema.popularity)
    value = schema.values[chosen, rank]
    equal = schema.is_equality[chosen]
    low, high = np.where(equal, value, low), np.where(equal, value, high)
    number = setting.events if events else 0
    event_attribute = np.argsort(rng.random((number, count)), 1)[:, : count // 2]
    anywhere = rng.integers(0, schema.top[event_attribute].astype(np.int64) + 1)
    listed = schema.values[event_attribute, rng.integers(0, EQUALITY_VALUES, event_attribute.shape)]
    event_value = np.where(schema.is_equality[event_attribute], listed, anywhere)
    return Load(
        setting,
        schema,
        size,
        chosen,
        low.astype(np.int32),
        high.astype(np.int32),
        # in the order of the nodes they come from: what follows reads the ring's distances row by row
        np.sort(rng.integers(0, setting.nodes, subscriptions)).astype(np.int32),
        (event_attribute * schema.width + event_value).astype(np.uint32),
        np.sort(rng.integers(0, setting.nodes, number)).astype(np.int32),
    )


def _ranges(
    setting: Setting, top: npt.NDArray[np.int64], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    count = len(top)
    if setting.ranges == "bounds":
        ends = rng.integers(0, (top + 1)[:, None], (count, 2))
        return ends.min(1), ends.max(1)
    # sizes are uniform from 0 to twice the mean
    mean = np.full(count, 20.0) if setting.ranges == "twenty" else top / 4
    length = np.minimum(np.rint(rng.random(count) * 2 * mean).astype(np.int64), top)
    start = rng.integers(0, top - length + 1)
    if setting.ranges == "skew":
        # four of five are about the same place, a third of the way up, give or take a twentieth of the domain
        centre = top / 3 + rng.normal(0, 1, count) * top / 20
        similar = np.clip(np.rint(centre - length / 2).astype(np.int64), 0, top - length)
        start = np.where(rng.random(count) < 0.8, similar, start)
    return start, start + length
