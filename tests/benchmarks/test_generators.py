"""The papers' loads: drawn from a seed, and as the papers say they are."""

from __future__ import annotations

import numpy as np
import pytest

from pastforward.matching import Index
from pastforward.papers.loads import begen, cells, fabret, tomasic
from pastforward.papers.loads.lo_chiu import Setting, make_load
from pastforward.papers.loads.predicates import Load, expected

MIX = begen.Mix(4_000, dimensions=60, match_probability=0.02, publications=30)
LOADS = {
    "uniform": lambda: begen.make(MIX),
    "zipf": lambda: begen.make(begen.Mix(4_000, dimensions=60, match_probability=0.02, publications=30, zipf=1.0)),
    "W0": lambda: fabret.make("W0", fabret.W0, 4_000, 30),
    "W2": lambda: fabret.make("W2", fabret.W2, 4_000, 30),
    **{name: lambda name=name: tomasic.make(name, 4_000, 30) for name in tomasic.LOADS},
}


@pytest.mark.parametrize("name", LOADS)
def test_the_same_arguments_give_the_same_load(name: str) -> None:
    first, second = LOADS[name](), LOADS[name]()
    assert first.predicates.equals(second.predicates)
    assert first.publications.equals(second.publications)


@pytest.mark.parametrize("name", LOADS)
def test_the_index_finds_what_the_oracle_does(name: str) -> None:
    """Predicates as an Arrow table mean what their bounds say."""
    load = LOADS[name]()
    index = Index()
    assert index.add_predicates(load.predicates) == load.subscriptions
    pairs = index.match_table(load.publications)
    rows, ids = pairs["row"].to_numpy(), pairs["subscription_id"].to_numpy()
    order = np.lexsort((ids, rows))
    oracle_rows, oracle = expected(load, 30)
    assert rows[order].tolist() == oracle_rows.tolist()
    assert ids[order].tolist() == oracle.tolist()


def test_mix_has_the_sizes_and_shares_that_were_asked_for() -> None:
    load = begen.make(MIX)
    sizes = np.bincount(load.ids)
    assert sizes.min() >= 5
    assert sizes.max() <= 9
    assert 6 < sizes.mean() < 8
    assert 0.2 < (load.low == load.high).mean() < 0.4
    assert load.dense[1].sum(axis=1).tolist() == [15] * 30
    assert 0.01 < len(expected(load, 30)[0]) / 30 / load.subscriptions < 0.03


def _share_of_the_most_popular(load: Load) -> float:
    return float(np.bincount(load.attributes).max() / len(load.attributes))


def test_zipf_prefers_some_attributes() -> None:
    assert _share_of_the_most_popular(LOADS["zipf"]()) > 1.5 * _share_of_the_most_popular(LOADS["uniform"]())


@pytest.mark.parametrize(("shape", "predicates"), [(fabret.W0, 5), (fabret.W1, 4), (fabret.W2, 9)])
def test_fabret_counts(shape: fabret.Shape, predicates: int) -> None:
    ids, attributes, _, _ = fabret.subscriptions(shape, 100, 50)
    assert np.bincount(ids)[100:].tolist() == [predicates] * 50
    fixed = len(shape.fixed)
    by_subscription = attributes.reshape(50, predicates)
    assert (by_subscription[:, :fixed] == np.arange(fixed)).all()
    assert all(len(set(row)) == predicates for row in by_subscription.tolist())


def test_fabret_changes_schema_and_skew() -> None:
    later = fabret.Shape("=", 4, tuple(range(16, 32)))
    assert set(fabret.subscriptions(later, 0, 200)[1].tolist()) == set(range(16, 32))
    skewed = fabret.Shape("==", 3, few={1: 2})
    _, attributes, low, _ = fabret.subscriptions(skewed, 0, 200)
    assert set(low[attributes == 1].tolist()) == {1, 2}
    assert len(set(low[attributes == 0].tolist())) > 20
    assert set(fabret.publications(200, skewed)["a1"].to_pylist()) == {1, 2}


def test_tomasic_pairs() -> None:
    assert (tomasic.bits(100_000, 1), tomasic.bits(1_000_000, 1)) == (14, 18)
    found = {name: len(expected(tomasic.make(name, 20_000, 40), 40)[0]) for name in tomasic.LOADS}
    assert found["fixed"] <= 20
    assert 0.5 * 0.01 * 20_000 < found["proportional"] < 2 * 0.01 * 20_000
    assert found["intermediate"] <= 25
    assert found["geometric"] <= 25


def test_lo_and_chius_load_is_its_seeds() -> None:
    setting = Setting(subscriptions=50, events=50, nodes=16)
    first, second, other = (make_load(setting, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.event_key, second.event_key)
    assert not np.array_equal(first.event_key, other.event_key)


def test_operations_take_turns_and_are_clustered() -> None:
    chunks = list(cells.Operations(8_000, 3, 1).chunks())
    assert [chunk.kind for chunk in chunks] == (["subscription"] * 3 + ["publication"]) * 2
    assert [c.table.equals(d.table) for c, d in zip(chunks, cells.Operations(8_000, 3, 1).chunks(), strict=True)] == [
        True
    ] * 8
    drawn = np.bincount(cells.clustered(np.random.default_rng(1), 50_000), minlength=cells.SIDE**2)
    assert np.sort(drawn)[-2_500:].sum() > 0.15 * 50_000  # the busiest hundredth of all cells


@pytest.mark.parametrize("space", ["tree", "circles"])
def test_granularities_are_of_the_same_places(space: str) -> None:
    """Leaves lie below the one cell."""
    variable = cells.Operations(400, 1, 1, space=space, chunk=100).chunks()
    fixed = cells.Operations(400, 1, 1, space=space, chunk=100, fixed=True).chunks()
    for one, many in zip(variable, fixed, strict=True):
        assert one.place == many.place
        for cell, leaves in zip(one.table["topic"].to_pylist(), many.table["topic"].to_pylist(), strict=True):
            assert all((leaf + ".").startswith(cell + "." if cell else "") for leaf in leaves)
