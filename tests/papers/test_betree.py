"""BE-Tree, the baseline, against the oracle: on the papers' loads and on whatever Hypothesis thinks of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.papers.betree import BETree
from pastforward.papers.loads import begen, fabret, tomasic
from pastforward.papers.loads.predicates import HIGHEST, LOWEST, Load, expected

LOADS = {
    "uniform": lambda: begen.make(begen.Mix(3_000, dimensions=40, match_probability=0.02, publications=40)),
    "zipf": lambda: begen.make(begen.Mix(3_000, dimensions=40, match_probability=0.1, zipf=1.0, publications=40)),
    "W2": lambda: fabret.make("W2", fabret.W2, 3_000, 40),
    "geometric": lambda: tomasic.make("geometric", 3_000, 40),
}


def same_as_oracle(tree: BETree, load: Load, rows: int) -> None:
    found_rows, found, _ = tree.match(load.dense[0][:rows], load.dense[1][:rows])
    order = np.lexsort((found, found_rows))
    oracle_rows, oracle = expected(load, rows)
    assert found_rows[order].tolist() == oracle_rows.tolist()
    assert found[order].tolist() == oracle.tolist()


@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("capacity", [3, 20])
def test_on_the_papers_loads(name: str, capacity: int) -> None:
    load = LOADS[name]()
    same_as_oracle(BETree(load, capacity), load, 40)


def test_cuts_space_in_two_phases_and_tests_few() -> None:
    load = begen.make(begen.Mix(5_000, dimensions=50, match_probability=0.01, publications=50))
    tree = BETree(load)
    assert tree.partitions > 0
    assert tree.clusterings > 0
    _, found, tested = tree.match(*load.dense)
    assert len(found) <= tested < 0.2 * 50 * load.subscriptions


VALUE = st.integers(0, 12)
PREDICATE = st.tuples(VALUE, VALUE, st.sampled_from(["=", "range", "<", ">"]))
SUBSCRIPTION = st.dictionaries(st.integers(0, 4), PREDICATE, min_size=1, max_size=4)
PUBLICATION = st.lists(st.none() | VALUE, min_size=5, max_size=5)


@settings(deadline=None, max_examples=60)
@given(st.lists(SUBSCRIPTION, min_size=1, max_size=60), st.lists(PUBLICATION, min_size=1, max_size=8))
def test_as_the_oracle(
    subscriptions: list[dict[int, tuple[int, int, str]]], publications: list[list[int | None]]
) -> None:
    rows = [
        (
            number,
            attribute,
            {"=": a, "range": min(a, b), "<": LOWEST, ">": a}[operator],
            {"=": a, "range": max(a, b), "<": a, ">": HIGHEST}[operator],
        )
        for number, predicates in enumerate(subscriptions)
        for attribute, (a, b, operator) in predicates.items()
    ]
    ids, attributes, low, high = np.array(rows, np.int64).T.copy()
    names = [f"a{number}" for number in range(5)]
    table = pa.table({name: pa.array([row[at] for row in publications], pa.int64()) for at, name in enumerate(names)})
    load = Load("any", len(subscriptions), ids, attributes, low, high, names, table)
    same_as_oracle(BETree(load, 2), load, len(publications))
