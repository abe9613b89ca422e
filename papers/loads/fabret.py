"""The loads of Fabret et al.: 32 names, publications carry all of them, values from 1 to 35, uniform.

| load | subscriptions                                                                  |
| W0   | 5 equalities, 2 of them on names common to all                                 |
| W1   | 2 fixed equalities, 1 fixed `>`, 1 free equality                               |
| W2   | 2 fixed equalities, 5 fixed `<`, 1 fixed `>`, 1 free equality                  |

`Shape` says it with letters: `==>` are the operators of the fixed names, then comes the number of free equalities. Names and numbers of
values may change over time: `names` and `values` of what is drawn next. A subscription is the same for the same number and shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pastforward.papers.loads.predicates import HIGHEST, I64, LOWEST, Load, choices, predicate_table

NAMES = 32
VALUES = 35
ALL = tuple(f"a{number}" for number in range(NAMES))


@dataclass(frozen=True)
class Shape:
    fixed: str = "=="  # operators on the first of `names`
    free: int = 3  # equalities on others of `names`
    names: tuple[int, ...] = tuple(range(NAMES))
    values: int = VALUES
    few: dict[int, int] = field(default_factory=dict)  # names with another number of values

    @property
    def predicates(self) -> int:
        return len(self.fixed) + self.free


W0, W1, W2 = Shape("==", 3), Shape("==>", 1), Shape("==<<<<<>", 1)
SHAPES = {"W0": W0, "W1": W1, "W2": W2}


def subscriptions(shape: Shape, first: int, count: int, seed: int = 1) -> tuple[I64, I64, I64, I64]:
    """Ids, attributes, low and high of the predicates of those numbered from `first` on."""
    random = np.random.default_rng((seed, first))
    fixed = len(shape.fixed)
    names = np.array(shape.names)
    number = np.tile(np.arange(shape.predicates), (count, 1))
    number[:, fixed:] = fixed + choices(random, count, len(names) - fixed, shape.free)
    attributes = names[number]
    top = np.full(NAMES, shape.values)
    for name, values in shape.few.items():
        top[name] = values
    value = random.integers(1, top[attributes] + 1)
    operator = np.array(list(shape.fixed + "=" * shape.free))
    low = np.select([operator == "<", operator == ">"], [np.int64(LOWEST), value + 1], value)
    high = np.select([operator == "<", operator == ">"], [value - 1, np.int64(HIGHEST)], value)
    ids = np.repeat(np.arange(first, first + count), shape.predicates)
    return ids, attributes.ravel(), low.ravel(), high.ravel()


def table(shape: Shape, first: int, count: int, seed: int = 1) -> pa.Table:
    ids, attributes, low, high = subscriptions(shape, first, count, seed)
    return predicate_table(ids, attributes, ALL, low, high)


def publications(count: int, shape: Shape = W0, seed: int = 7) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({name: random.integers(1, shape.few.get(i, shape.values) + 1, count) for i, name in enumerate(ALL)})


def make(name: str, shape: Shape, count: int, asked: int = 1_000, seed: int = 1) -> Load:
    ids, attributes, low, high = subscriptions(shape, 0, count, seed)
    return Load(name, count, ids, attributes, low, high, ALL, publications(asked, shape, seed + 6))
