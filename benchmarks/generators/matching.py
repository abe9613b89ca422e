"""The loads of the matching figures: subscriptions as an Arrow table of predicates, publications as a table of attributes.

| load             | subscriptions                                                            | publications                       |
| equality-led     | 5 equalities: two on attributes common to all, three on random others    | all of 32 attributes of 35 values  |
| range-led        | 5 ranges of a tenth of the domain on random attributes of 20             | all of 20 attributes, 0..999,999   |
| mix              | about 7 predicates on 400 attributes, 30 % equalities; uniform or Zipf   | 15 attributes                      |

Of the mix the paper (Mishra and Sahni) states the numbers of attributes, the share of equalities and how many subscriptions match, not how
values are drawn so that these match. Here subscriptions come in families of one ten-thousandth of all: a family shares its attributes and a
point that satisfies each member; a publication carries a family's attributes at about that point, and fills up with others. So about 0.01 %
match, the family's members, while every other subscription that shares an attribute has to be told apart by its values. Attributes have
1,000,000 values for ranges and 1,000 for equalities; a range is a tenth of the domain. Zipf has the exponent 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """`first_id`: subscriptions are numbered from there."""

    name: str
    predicates: pa.Table
    publications: pa.Table
    subscriptions: int


def _names(prefix: str, count: int) -> pa.Array:
    return pa.array([f"{prefix}{i}" for i in range(count)])


def _dictionary(codes: I64, words: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), words)


def _table(ids: I64, attributes: I64, names: pa.Array, equal: npt.NDArray[np.bool_], low: I64, high: I64) -> pa.Table:
    operators = _dictionary(np.where(equal, 0, 1), pa.array(["=", "between"]))
    return pa.table(
        {
            "subscription_id": ids,
            "attribute": _dictionary(attributes, names),
            "operator": operators,
            "value_int64": low,
            "high_int64": pa.array(high, mask=equal),
        }
    )


def _choices(rng: np.random.Generator, rows: int, among: int, count: int) -> I64:
    """Different numbers in each row."""
    return rng.random((rows, among), dtype=np.float32).argpartition(count - 1, axis=1)[:, :count].astype(np.int64)


def equality_predicates(count: int, first_id: int = 0, seed: int = 1, fixed: tuple[int, int] = (0, 1)) -> pa.Table:
    rng = np.random.default_rng(seed)
    others = np.array([a for a in range(32) if a not in fixed])
    parts = []
    for begin in range(0, count, 250_000):
        n = min(250_000, count - begin)
        free = others[_choices(rng, n, 30, 3)]
        attributes = np.concatenate([np.broadcast_to(np.array(fixed), (n, 2)), free], axis=1).ravel()
        values = rng.integers(1, 36, 5 * n)
        ids = np.repeat(np.arange(first_id + begin, first_id + begin + n), 5)
        parts.append(_table(ids, attributes, _names("a", 32), np.ones(5 * n, bool), values, values))
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def equality_led(subscriptions: int, publications: int = 4000) -> Load:
    rng = np.random.default_rng(2)
    events = pa.table({f"a{i}": rng.integers(1, 36, publications) for i in range(32)})
    return Load("equality-led", equality_predicates(subscriptions), events, subscriptions)


def range_predicates(count: int, first_id: int = 0, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    parts = []
    for begin in range(0, count, 250_000):
        n = min(250_000, count - begin)
        attributes = _choices(rng, n, 20, 5).ravel()
        low = rng.integers(0, 900_001, 5 * n)
        ids = np.repeat(np.arange(first_id + begin, first_id + begin + n), 5)
        parts.append(_table(ids, attributes, _names("r", 20), np.zeros(5 * n, bool), low, low + 99_999))
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def range_led(subscriptions: int, publications: int = 4000) -> Load:
    rng = np.random.default_rng(2)
    events = pa.table({f"r{i}": rng.integers(0, 1_000_000, publications) for i in range(20)})
    return Load("range-led", range_predicates(subscriptions), events, subscriptions)


FAMILIES = 10_000  # one of them matches: 0.01 %


def mix(subscriptions: int, zipf: bool, publications: int = 4000) -> Load:
    rng = np.random.default_rng(3)
    dimensions, domain = 400, 1_000_000
    weight = 1.0 / np.arange(1, dimensions + 1) if zipf else np.ones(dimensions)
    # Gumbel's trick: the largest of log weight plus noise are a sample without replacement
    noise = rng.gumbel(size=(FAMILIES, dimensions)) + np.log(weight)
    chosen = np.argsort(-noise, axis=1)[:, :15]
    size = rng.integers(5, 10, FAMILIES)  # 7 on average
    equal = rng.random((FAMILIES, 15)) < 0.3
    point = rng.integers(0, domain, (FAMILIES, 15))
    point = np.where(equal, point % 1000, point)
    parts = []
    for begin in range(0, subscriptions, 250_000):
        n = min(250_000, subscriptions - begin)
        family = rng.integers(0, FAMILIES, n)
        keep = np.arange(15) < size[family][:, None]
        attributes = chosen[family][keep]
        equalities = equal[family][keep]
        at = point[family][keep]
        low = np.maximum(at - rng.integers(5_000, 95_000, len(at)), 0)
        low = np.where(equalities, at, low)
        high = np.where(equalities, at, low + 99_999)
        ids = np.repeat(np.arange(begin, begin + n), size[family])
        parts.append(_table(ids, attributes, _names("d", dimensions), equalities, low, high))
    family = rng.integers(0, FAMILIES, publications)
    columns: dict[str, pa.Array] = {}
    value = np.zeros((publications, dimensions), np.int64)
    carried = np.zeros((publications, dimensions), bool)
    for k in range(15):
        here = np.where(k < size[family], point[family, k] + np.where(equal[family, k], 0, 1000), -1)
        random = np.where(equal[family, k], rng.integers(0, 1000, publications), rng.integers(0, domain, publications))
        value[np.arange(publications), chosen[family, k]] = np.where(here < 0, random, here)
        carried[np.arange(publications), chosen[family, k]] = True
    for d in range(dimensions):
        columns[f"d{d}"] = pa.array(value[:, d], mask=~carried[:, d])
    name = "mix, Zipf" if zipf else "mix, uniform"
    predicates = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    return Load(name, predicates, pa.table(columns), subscriptions)
