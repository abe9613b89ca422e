"""Compiles the kernels of counting, propagation, prefetch, static and dynamic, or loads them from the cache: for a set-up."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pastforward.matching.index.algorithm import Algorithm
from pastforward.matching.index.algorithms import create
from pastforward.matching.index.predicate_table import read_predicates
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.tables import batch_of_table
from pastforward.papers.fabret.cost_model import Costs, calibrate

ALGORITHMS: Final = ("counting", "propagation", "prefetch", "static", "dynamic")
_SUBSCRIPTIONS: Final = 512


def compile_clustering() -> None:
    """Runs every kernel once, on a load of equalities and ranges that makes static choose and dynamic move."""
    numbers = np.arange(_SUBSCRIPTIONS)
    predicates = pa.table(
        {
            "subscription_id": np.tile(numbers, 3),
            "attribute": pa.array(["a"] * len(numbers) + ["b"] * len(numbers) + ["c"] * len(numbers)),
            "operator": pa.array(["="] * (2 * len(numbers)) + ["between"] * len(numbers)),
            "value_int64": np.concatenate([numbers % 4, numbers // 4 % 4, numbers]),
            "high_int64": np.concatenate([numbers % 4, numbers // 4 % 4, numbers + 10]),
        }
    )
    publications = pa.table({"a": [1, 2], "b": [1, None], "c": [20, 30]})
    for name in ALGORITHMS:
        registry = Registry()
        eager = {"bm_max": 0.01, "rp_min": 2.0, "b_min": 2} if name == "dynamic" else {}
        costs = {"costs": Costs(0.0, 0.0, 0.0, 1.0)} if name in ("static", "dynamic") else {}
        algorithm: Algorithm = create(name, registry, **eager, **costs)
        batch = read_predicates(predicates, registry, None)
        slots = registry.add(batch.parts, batch.identities, batch.first, batch.python)
        algorithm.insert(slots)
        algorithm.candidates(batch_of_table(publications, registry))
        algorithm.remove(slots)
    calibrate(entries=1_000)
    calibrate.cache_clear()
