"""A mix as BEGen makes it and Mishra and Sahni measure it: many dimensions, some equalities, a wanted share of matches.

The paper states how many attributes a subscription (7) and a publication (15) have, the share of equalities (30 %) and the share of
subscriptions that match, not how values are drawn so that these match. Here subscriptions come in families, as many as one match among
them makes the wanted share: a family shares its attributes and a point that satisfies each member; a publication carries a family's
attributes at about that point, and fills up with others. So the family's members match, while every other subscription that shares an
attribute has to be told apart by its values. Attributes have 1,000,000 values for ranges and 1,000 for equalities; a range is a tenth of
the domain. Zipf draws a family's attributes with weight 1 / rank^exponent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pastforward.papers.loads.predicates import Load

DOMAIN = 1_000_000
EQUALITIES = 1_000  # values of an attribute that is tested for equality


@dataclass(frozen=True)
class Mix:
    subscriptions: int
    dimensions: int = 400
    match_probability: float = 0.01
    equality: float = 0.3
    fewest: int = 5
    most: int = 9
    carried: int = 15
    zipf: float = 0.0  # exponent; 0 is uniform
    publications: int = 1_000
    seed: int = 3


def make(mix: Mix) -> Load:
    random = np.random.default_rng(mix.seed)
    families = max(1, round(1 / mix.match_probability))
    width = mix.carried
    weight = np.arange(1, mix.dimensions + 1) ** -mix.zipf
    # Gumbel's trick: the largest of log weight plus noise are a sample without replacement
    noise = random.gumbel(size=(families, mix.dimensions)) + np.log(weight)
    chosen = np.argsort(-noise, axis=1)[:, :width]
    chosen = random.permuted(chosen, axis=1)  # else the first, which have predicates, would be the popular ones
    size = random.integers(mix.fewest, mix.most + 1, families)
    equal = random.random((families, width)) < mix.equality
    point = random.integers(0, DOMAIN, (families, width))
    point = np.where(equal, point % EQUALITIES, point)

    family = random.integers(0, families, mix.subscriptions)
    keep = np.arange(width) < size[family][:, None]
    attributes = chosen[family][keep]
    equalities = equal[family][keep]
    at = point[family][keep]
    low = np.maximum(at - random.integers(DOMAIN // 200, DOMAIN // 10 - DOMAIN // 200, len(at)), 0)
    low = np.where(equalities, at, low)
    high = np.where(equalities, at, low + DOMAIN // 10 - 1)
    ids = np.repeat(np.arange(mix.subscriptions), size[family])

    asked = random.integers(0, families, mix.publications)
    value = np.zeros((mix.publications, mix.dimensions), np.int64)
    carried = np.zeros((mix.publications, mix.dimensions), np.bool_)
    rows = np.arange(mix.publications)
    for k in range(width):
        wanted = point[asked, k] + np.where(equal[asked, k], 0, DOMAIN // 1000)
        other = random.integers(0, np.where(equal[asked, k], EQUALITIES, DOMAIN))
        value[rows, chosen[asked, k]] = np.where(k < size[asked], wanted, other)
        carried[rows, chosen[asked, k]] = True
    names = [f"d{number}" for number in range(mix.dimensions)]
    publications = pa.table({name: pa.array(value[:, d], mask=~carried[:, d]) for d, name in enumerate(names)})
    label = f"Zipf {mix.zipf:g}" if mix.zipf else "uniform"
    return Load(label, mix.subscriptions, ids, attributes, low, high, names, publications)
