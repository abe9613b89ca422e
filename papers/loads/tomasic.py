"""The four loads of Tomasic et al., by number of subscriptions S and publications P.

| load         | subscriptions and publications                               | pairs          |
| fixed        | x = R, R from 1 to S P / 5                                   | about 5 in all |
| proportional | x = R, R from 1 to 100 P                                     | 0.01 S         |
| intermediate | x1 to xn each 0 or 1, n the most with S P / 2^n >= 5 or so   | about 5        |
| geometric    | a tiny box in the unit square; a box of area 5 / (S P)       | about 5        |

Of `intermediate` the paper states S P / 2^n >= 1 and nearest to 5: n is 14 at 100,000 and 18 at a million. Coordinates of the unit square
are integers of a millionth; a subscription's box is one millionth wide, so that it overlaps a publication's box when its corner lies in
it: the publication is its box's place, and the subscription constrains x and y to what overlaps. Both ways to say it give the same pairs.
"""

from __future__ import annotations

from math import log2, sqrt

import numpy as np
import pyarrow as pa

from pastforward.papers.loads.predicates import Load

LOADS = ("fixed", "proportional", "intermediate", "geometric")
UNIT = 1_000_000
PAIRS = 5


def bits(subscriptions: int, publications: int) -> int:
    """Attributes of `intermediate`: as many as leave nearest to five pairs, and at least one."""
    return max(1, min(62, round(log2(subscriptions * publications / PAIRS))))


def make(name: str, subscriptions: int, publications: int, seed: int = 4) -> Load:
    random = np.random.default_rng((seed, LOADS.index(name)))
    ids = np.arange(subscriptions)
    if name in ("fixed", "proportional"):
        top = max(1, subscriptions * publications // PAIRS if name == "fixed" else 100 * publications)
        value = random.integers(1, top + 1, subscriptions)
        asked = pa.table({"x": random.integers(1, top + 1, publications)})
        return Load(name, subscriptions, ids, np.zeros(subscriptions, np.int64), value, value, ["x"], asked)
    if name == "intermediate":
        n = bits(subscriptions, publications)
        value = random.integers(0, 2, subscriptions * n)
        names = [f"x{number}" for number in range(1, n + 1)]
        asked = pa.table({x: random.integers(0, 2, publications) for x in names})
        attributes = np.tile(np.arange(n), subscriptions)
        return Load(name, subscriptions, np.repeat(ids, n), attributes, value, value, names, asked)
    side = max(1, round(UNIT * sqrt(PAIRS / (subscriptions * publications))))
    corner = random.integers(0, UNIT, (subscriptions, 2))
    # the boxes [p, p + side) and [c, c + 1) overlap when c - side < p <= c
    low, high = (corner - side + 1).ravel(), corner.ravel()
    at = random.integers(0, UNIT, (publications, 2))
    asked = pa.table({"x": at[:, 0], "y": at[:, 1]})
    attributes = np.tile(np.arange(2), subscriptions)
    return Load(name, subscriptions, np.repeat(ids, 2), attributes, low, high, ["x", "y"], asked)
