"""Compiles the kernels, so that neither a test nor a worker's start waits for them: Numba keeps what it has compiled.

Those of the papers' algorithms are compiled by `papers.warm`, which can be done at the same time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pastforward.columns.vocabulary import SEMANTICS
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.values import Box, Point
from pastforward.matching.index.index import Index
from pastforward.matching.index.publications import attributes_of

CONDITIONS = (
    "a = 1 AND b BETWEEN 2 AND 5 AND c > 0.5",
    "a IN (1, 2) AND text LIKE 'ab%' OR text LIKE '%b'",
    "flag AND b != 3 AND at < TIMESTAMP '2030-01-01T00:00:00Z'",
    "within(place, BOX(0, 0, 1, 1))",
    "c IS NULL",
)


def compile_kernels() -> None:
    """A small load through every way in of the default."""
    exercise(Index())
    exercise(Index(algorithm="linear"))
    # by the thousand, subscriptions are laid out at once
    numbers = np.arange(4000)
    at_once = Index()
    at_once.add_predicates(
        pa.table(
            {"subscription_id": numbers, "attribute": ["a"] * 4000, "operator": ["="] * 4000, "value_int64": numbers}
        )
    )
    # the short ways, which an index of other semantics does not go
    at_once.match({"a": 1, "text": "ab"})
    for count in (1, 100):
        at_once.match_table(pa.table({"a": numbers[:count]}))
    at_once.cost("a = 1")
    # a small write into many groups: the sweep stops on its way
    at_once.add(4000, "a = 1")
    # values that drift are coded anew
    for turn in range(8):
        for number in range(200):
            at_once.add(number, f"b BETWEEN {turn * 10000 + number} AND {turn * 10000 + number + 5}")


def exercise(index: Index) -> None:
    for number, text in enumerate(CONDITIONS * 8):
        semantics = SEMANTICS[number % len(SEMANTICS)]
        index.add(number, Condition.parse(text), topic="1.2", starts_at=0, ends_at=1 << 40, semantics=semantics)
    index.add_predicates(
        pa.table(
            {
                "subscription_id": pa.array([1000, 1000, 1001], pa.int64()),
                "attribute": ["a", "b", "text"],
                "operator": ["=", "between", "="],
                "value_int64": pa.array([1, 2, None], pa.int64()),
                "high_int64": pa.array([None, 5, None], pa.int64()),
                "value_string": [None, None, "ab"],
            }
        )
    )
    row = {"a": 1, "b": 3, "c": 0.75, "text": "ab", "flag": True, "place": Point(0.5, 0.5), "area": Box(0, 0, 1, 1)}
    index.match(row, topic="1.2.3", published_at=5)
    index.match_table(
        pa.table({"a": [1, 2], "b": [3, None], "text": ["ab", "x"], "_topic": ["1.2", "1"], "_published_at": [5, 6]})
    )
    attributes = attributes_of([row, {}])
    topics = pa.array(["1.2.3", ""])
    times = np.array([5, 6], np.int64)
    where = [Condition.parse("b > 1").disjuncts, None]
    index.match_attributes(attributes, topics=topics, published_at=times, expires_at=times + 10)
    index.match_attributes(attributes, topics=topics, published_at=times, expires_at=times + 10, where=where)
    index.match_pairs(attributes, np.array([0, 1]), np.array([0, 1]), topics=topics, published_at=times)
    index.remove(0)
    index.remove_many(np.array([1, 2, 1000], np.int64))
