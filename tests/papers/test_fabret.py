"""Counting, propagation, prefetch, static and dynamic: their structures, beyond what every index is tested for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.columns.attributes import INTEGER
from pastforward.matching import Index
from pastforward.matching.index.keys import equality_hash
from pastforward.matching.index.tables import batch_of_table
from pastforward.papers.fabret import static
from pastforward.papers.fabret.cluster_matching import AHEAD, PLAIN, SPECIALISED, match_ahead, match_plain
from pastforward.papers.fabret.clusters import HELD, NUMBERS
from pastforward.papers.fabret.cost_model import Costs, calibrate
from pastforward.papers.fabret.ordered_index import (
    empty_order,
    from_on,
    larger_order,
    ordered_insert,
    ordered_remove,
    ordered_room,
    up_to,
)
from pastforward.papers.fabret.predicate_index import IS, find_predicate
from pastforward.papers.fabret.statistics import AttributeStatistics
from tests.matching import test_index_oracle as oracle
from tests.papers.fabret import algorithm_of, check_structure, equalities, events, load

CLUSTERED = ("propagation", "prefetch", "static", "dynamic")
# every move pays, so that small loads move
EAGER = {"bm_max": 0.01, "rp_min": 2.0, "b_min": 2, "costs": Costs(0.0, 0.0, 0.0, 1.0)}


# a few attributes and values, so that predicates, access predicates and tables are shared, emptied and come back
small_rows = st.lists(
    st.dictionaries(st.integers(0, 5), st.integers(1, 2), min_size=1, max_size=5), min_size=1, max_size=30
)


@dataclass
class Add:
    first: int
    rows: list[dict[int, int]]


@dataclass
class Remove:
    identities: set[int]


@dataclass
class Match:
    seed: int


small_steps = st.lists(
    st.one_of(
        st.builds(Add, st.integers(0, 40), small_rows),
        st.builds(Remove, st.sets(st.integers(0, 60), max_size=30)),
        st.builds(Match, st.integers(0, 1000)),
    ),
    max_size=15,
)


@pytest.mark.parametrize("algorithm", ["counting", *CLUSTERED])
@settings(max_examples=20, deadline=None)
@given(steps=small_steps)
def test_structures_stay_sound_and_exact(algorithm: str, steps: list[Add | Remove | Match]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "_FEW", 2)
        index = Index(algorithm=algorithm, **(EAGER if algorithm == "dynamic" else {}))
        model: dict[int, dict[str, int]] = {}
        for step in steps:
            if isinstance(step, Add):
                index.add_predicates(equalities(step.rows, step.first))
                for identity, row in enumerate(step.rows, step.first):
                    model[identity] = {f"a{number:02}": value for number, value in row.items()}
            elif isinstance(step, Remove):
                index.remove_many(sorted(step.identities))
                for identity in step.identities:
                    model.pop(identity, None)
            else:
                table = events(8, step.seed, names=6, values=2)
                found = index.match_table(table)
                assert sorted(zip(found["row"].to_pylist(), found["subscription_id"].to_pylist(), strict=True)) == [
                    (row, identity)
                    for row, event in enumerate(table.to_pylist())
                    for identity, asked in sorted(model.items())
                    if asked.items() <= event.items()
                ]
            if algorithm != "counting":
                check_structure(algorithm_of(index))


@pytest.mark.parametrize("algorithm", ["static", "dynamic"])
@settings(max_examples=15, deadline=None)
@given(steps=oracle.steps)
def test_moving_slots_keeps_every_kind_of_condition_right(
    algorithm: str, steps: list[oracle.Add | oracle.Remove | oracle.Match]
) -> None:
    """With thresholds at which every write moves slots, against the oracle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static, "_FEW", 2)
        index = Index(algorithm=algorithm, **(EAGER if algorithm == "dynamic" else {}))
        oracle.run(index, steps, after=lambda index: check_structure(algorithm_of(index)))


@given(
    entries=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500)), max_size=400, unique=True),
    keep=st.integers(0, 3),
    key=st.integers(0, 500),
)
@settings(max_examples=60, deadline=None)
def test_ordered_index_answers_like_a_sorted_list(entries: list[tuple[int, int]], keep: int, key: int) -> None:
    view = empty_order()
    numbers = {}
    for number, (owner, value) in enumerate(entries):
        if not ordered_room(view, 1):
            view = larger_order(view, 1)
        ordered_insert(view, owner, np.uint64(value), number)
        numbers[owner, value] = number
    for (owner, value), number in list(numbers.items()):
        if number % 4 > keep:
            ordered_remove(view, owner, np.uint64(value))
            del numbers[owner, value]
    out = np.empty(len(entries), np.int32)
    for owner in range(4):
        mine = {value: number for (other, value), number in numbers.items() if other == owner}
        below = int(up_to(view, owner, np.uint64(key), out, 0))
        assert out[:below].tolist() == [mine[value] for value in sorted(mine) if value <= key]
        above = int(from_on(view, owner, np.uint64(key), out, 0))
        assert out[:above].tolist() == [mine[value] for value in sorted(mine, reverse=True) if value >= key]


@pytest.mark.parametrize("size", range(1, SPECIALISED + 1))
@pytest.mark.parametrize("count", [1, 15, 16, 17, 300])
def test_specialised_code_finds_what_the_generic_finds(size: int, count: int) -> None:
    random = np.random.default_rng(size * 1000 + count)
    base, capacity = 4, count + 3
    words = random.integers(0, 50, base + (size + 1) * capacity).astype(np.uint32)
    # about half of the slots hold, whatever the size
    bits = (random.random(50) < 0.5 ** (1 / size)).astype(np.uint8)
    columns = words[base + capacity :].reshape(size, capacity)[:, :count]
    expected = words[base : base + count][bits[columns].all(axis=0)].tolist()
    # as Python: compiled, they are part of the match; the one that calibration uses alone is there
    for check in (PLAIN[0].py_func, PLAIN[size].py_func, *([AHEAD[3]] if size == 3 else [])):
        rows, slots = np.zeros(count, np.int32), np.zeros(count, np.int32)
        n = check(words, base, capacity, count, size, bits, 7, rows, slots, 0)
        assert slots[:n].tolist() == expected
        assert (rows[:n] == 7).all()


def test_clusters_have_the_size_of_what_is_left_to_check() -> None:
    index = Index(algorithm="propagation")
    index.add_predicates(equalities([dict.fromkeys(range(width), 1) for width in range(1, 13)], first=1))
    event = {f"a{number:02}": 1 for number in range(12)}
    assert sorted(index.match(event)) == list(range(1, 13))
    event["a11"] = 2
    assert sorted(index.match(event)) == list(range(1, 12))
    check_structure(algorithm_of(index))


@pytest.mark.parametrize("algorithm", ["counting", *CLUSTERED])
def test_inequalities_are_predicates_too(algorithm: str) -> None:
    """A slot whose equality holds and whose ranges do not is no candidate; one without predicates always is."""
    index = Index(algorithm=algorithm)
    index.add(0, "kind = 1 AND speed BETWEEN 10 AND 20 AND size < 5 AND weight > 7 AND colour IS NOT NULL")
    index.add(1, "speed >= 0")
    index.add(2, "kind IS NULL")
    cases = pa.table(
        {
            "kind": [1, 1, 1, 1, 1, 1, 2, None],
            "speed": [15, 9, 21, 15, 15, 15, 15, -1],
            "size": [4, 4, 4, 6, 4, 4, 4, 4],
            "weight": [8, 8, 8, 8, 6, 8, 8, 8],
            "colour": ["red", "red", "red", "red", "red", None, "red", "red"],
        }
    )
    registry = algorithm_of(index).registry
    batch = batch_of_table(cases, registry)
    rows, slots = algorithm_of(index).candidates(batch)
    found = set(zip(rows.tolist(), slots.tolist(), strict=True))
    assert found == {(0, 0), *((row, 1) for row in range(7)), *((row, 2) for row in range(8))}
    assert sorted(index.match_table(cases)["subscription_id"].to_pylist()) == [0, 1, 1, 1, 1, 1, 1, 1, 2]


def test_counting_takes_room_for_associations_only_when_they_need_it() -> None:
    """Each distinct bound is a predicate: their tables fill many times, the lists of slots hardly."""
    index = Index(algorithm="counting")
    ids = np.arange(3_000)
    for number in range(4):
        ranges = pa.table(
            {
                "subscription_id": ids + 3_000 * number,
                "attribute": [f"a{number}"] * len(ids),
                "operator": ["between"] * len(ids),
                "value_int64": ids,
                "high_int64": ids + 7,
            }
        )
        index.add_predicates(ranges)
    view = algorithm_of(index)._view
    assert len(view.words) < 4 * int(view.state[0])


def test_propagation_spreads_over_the_least_filled_access_predicates() -> None:
    index = Index(algorithm="propagation")
    index.add_predicates(load(4_000, seed=1, names=range(8), values=10, predicates=4, fixed=2))
    held = algorithm_of(index).store.view.access[1 : index.counters()["access_predicates"], HELD]
    assert held.max() <= 2 * held.mean()


def test_static_chooses_the_table_of_the_two_fixed_names() -> None:
    index = Index(algorithm="static")
    index.add_predicates(load(20_000, seed=2))
    algorithm = algorithm_of(index)
    assert algorithm.schemas() == [("a00", "a01")]
    assert algorithm.store.members(algorithm.store.schemas()[0]) == 20_000
    check_structure(algorithm)


def test_static_takes_no_table_that_does_not_fit() -> None:
    """Three names of 300 values: the table of all three has nearly an access predicate a subscription, and costs the most space."""
    table = load(4_000, seed=3, names=range(3), values=300, predicates=3, fixed=3)
    free = Index(algorithm="static", costs=Costs(0.0, 0.0, 0.0, 1.0))
    free.add_predicates(table)
    bounded = Index(algorithm="static", costs=Costs(0.0, 0.0, 0.0, 1.0), max_bytes=1)
    bounded.add_predicates(table)
    assert free.counters()["tables"] > 0
    assert bounded.counters()["tables"] == 0


def test_static_takes_no_table_that_costs_more_than_it_saves() -> None:
    index = Index(algorithm="static", costs=Costs(hashing=1e9))
    index.add_predicates(load(5_000, seed=4))
    assert index.counters()["tables"] == 0


def test_given_statistics_decide_the_access_predicate() -> None:
    """`kind` has two values among subscriptions and `place` has one, but publications give `place` a thousand."""
    index = Index(algorithm="static", statistics={"place": AttributeStatistics(distinct=1000)})
    for number in range(10):
        index.add(number, f"kind = {number % 2} AND place = 7")
    algorithm = algorithm_of(index)
    place = algorithm.registry.numbers["place"]
    numbers = {algorithm.store.view.access[algorithm.access_of(slot), NUMBERS] for slot in range(10)}
    assert {algorithm.predicates.view.attribute[number] for number in numbers} == {place}
    with pytest.raises(ValueError, match="distinct"):
        AttributeStatistics(distinct=0)
    with pytest.raises(ValueError, match="present"):
        AttributeStatistics(present=2.0)


def test_seen_publications_decide_the_access_predicate() -> None:
    """Both attributes have two values among the subscriptions; publications give `a` always the same."""
    index = Index(algorithm="dynamic")
    index.add_predicates(equalities([{0: 1, 1: 1}, {0: 2, 1: 2}]))
    random = np.random.default_rng(5)
    for _ in range(10):
        index.match_table(
            events(100, seed=int(random.integers(1000)), names=2, values=40).set_column(0, "a00", [[1] * 100])
        )
    index.add_predicates(equalities([{0: 1, 1: 1}], first=2))
    algorithm = algorithm_of(index)
    number = algorithm.store.view.access[algorithm.access_of(2), NUMBERS]
    assert algorithm.registry.names[algorithm.predicates.view.attribute[number]] == "a01"


def test_dynamic_finds_the_table_of_the_two_fixed_names_by_itself() -> None:
    index = Index(algorithm="dynamic")
    for part in range(12):
        index.add_predicates(load(5_000, seed=100 + part, first=part * 5_000))
    counters = index.counters()
    assert algorithm_of(index).schemas() == [("a00", "a01")]
    assert counters["tables_created"] == 1
    assert counters["moved"] > 0
    # all but a few per cent have come over, the others lie in clusters below the limit
    assert algorithm_of(index).store.members(algorithm_of(index).store.schemas()[0]) > 50_000
    check_structure(algorithm_of(index))


def test_dynamic_follows_the_load_from_one_half_of_the_names_to_the_other() -> None:
    """The paper's change of schemas: tables of the old names go, tables of the new names come, and every answer stays right."""
    index = Index(algorithm="dynamic", bm_max=0.2)
    first, second = range(16), range(16, 32)
    batch, held = 1_000, 20
    for part in range(held):
        index.add_predicates(load(batch, seed=part, names=first, fixed=2, first=part * batch))
    assert algorithm_of(index).schemas() == [("a00", "a01")]
    table = events(200, seed=6)
    for part in range(held, 2 * held):
        index.remove_many(np.arange((part - held) * batch, (part - held + 1) * batch))
        index.add_predicates(load(batch, seed=part, names=second, fixed=2, first=part * batch))
        index.match_table(table)
    check_structure(algorithm_of(index))
    counters = index.counters()
    assert ("a16", "a17") in algorithm_of(index).schemas()
    assert ("a00", "a01") not in algorithm_of(index).schemas()
    assert counters["tables_created"] >= 2
    assert counters["tables_dropped"] >= 1
    linear = Index(algorithm="linear")
    for part in range(held, 2 * held):
        linear.add_predicates(load(batch, seed=part, names=second, fixed=2, first=part * batch))
    # three of five predicates, so that something matches
    wide = events(30, seed=7, values=3)
    assert index.match_table(wide).sort_by(
        [("row", "ascending"), ("subscription_id", "ascending")]
    ) == linear.match_table(wide).sort_by([("row", "ascending"), ("subscription_id", "ascending")])


def test_dynamic_notices_that_publications_have_changed() -> None:
    """Publications give one of two fixed names always the same value: what lies behind that equality is moved to the other name, though
    no subscription of these names comes or goes."""
    index = Index(algorithm="dynamic", bm_max=5.0, rp_min=1e9)
    index.add_predicates(load(3_000, seed=8, names=range(4), predicates=2, fixed=2))
    algorithm = algorithm_of(index)

    def behind_the_hot_one() -> int:
        hot = find_predicate(
            algorithm.predicates.view, algorithm.registry.numbers["a00"], IS, equality_hash(INTEGER, 1)
        )
        access = int(algorithm.predicates.view.access[hot])
        return int(algorithm.store.view.access[access, HELD]) if access >= 0 else 0

    assert behind_the_hot_one() > 20
    for _ in range(5):
        index.match_table(events(1_000, seed=9, names=4).set_column(0, "a00", [[1] * 1_000]))
    for number in range(50):
        index.add(10**6 + number, "b = 1")
    assert behind_the_hot_one() == 0
    check_structure(algorithm)


def test_dynamic_refuses_thresholds_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="dropped at once"):
        Index(algorithm="dynamic", b_min=10, rp_min=5.0)


def test_what_was_seen_long_ago_counts_for_less() -> None:
    index = Index(algorithm="dynamic")
    index.add_predicates(load(300, seed=10))
    predicates = algorithm_of(index).predicates
    index.match_table(events(1_000, seed=11))
    hits = predicates.view.hits.copy()
    predicates.forget_half()
    assert predicates.events == 500
    assert (predicates.view.hits == hits // 2).all()


def test_calibration_measures_something() -> None:
    costs = calibrate(entries=2_000)
    assert costs.check > 0.0
    assert costs.retrieve > 0.0
    assert costs.hashing + costs.hashing_attribute > 0.0
    assert Index(algorithm="static", costs="measured").algorithm == "static"


@pytest.mark.parametrize("kernel", [match_plain, match_ahead, *PLAIN, *AHEAD])
def test_kernels_close_over_plain_numbers_only(kernel: Any) -> None:
    """Numba hashes what a kernel closes over: with another kernel in there it would be compiled anew in each process."""
    assert all(isinstance(cell.cell_contents, bool | int) for cell in kernel.py_func.__closure__)
