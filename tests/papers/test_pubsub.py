"""PUBSUB as a whole: the order of attempts, groups, options, and the oracle with buckets so small that everything happens."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition, Index
from pastforward.matching.index.subscription import NewSubscription
from pastforward.papers.pubsub import forest as f
from tests.matching.test_index_oracle import predicate_table, run, steps
from tests.papers.pubsub_forest import Reader, forest_of

KINDS = ("auto", "interval", "rbpst", "rb", "suffix", "aho-corasick")


def small(bucket_size: int = 2, **options: Any) -> Index:
    return Index(algorithm="pubsub", bucket_size=bucket_size, order=("a", "b", "c", "d"), **options)


def filled(index: Index, *conditions: str) -> dict[str, int | float]:
    """Adds them as 0, 1, … and says what the last one alone has caused."""
    for identity, condition in enumerate(conditions):
        before = index.counters()
        index.add(identity, condition)
        Reader(index).check()
    after = index.counters()
    names = ("splits", "opened", "moved", "swapped", "grown")
    return {name: after[name] - before[name] for name in names if after[name] != before[name]}


@pytest.mark.parametrize("structure", ["interval", "rbpst", "rb"])
def test_first_a_full_bucket_splits(structure: str) -> None:
    done = filled(small(structure=structure), "a = 1 AND b = 1", "a = 5 AND b = 1", "a = 9 AND b = 1")
    assert done.keys() == {"splits"}


def test_a_bucket_with_room_takes_it_whatever_else_could_be_done() -> None:
    assert filled(small(), "a = 1 AND b = 1", "a = 1 AND b = 1") == {}


@pytest.mark.parametrize("structure", ["interval", "rbpst", "rb"])
def test_else_the_next_attribute_gets_a_structure_that_takes_every_member_that_has_it(structure: str) -> None:
    index = small(structure=structure)
    done = filled(index, "a = 1 AND b = 1", "a = 1 AND c = 1", "a = 1 AND b = 2")
    assert done == {"opened": 1, "moved": 1}
    forest = forest_of(index)
    assert forest.home[0] == forest.home[2] != forest.home[1]


def test_a_member_moves_even_if_the_attribute_is_not_its_next() -> None:
    done = filled(small(), "a = 1 AND b = 1 AND c = 1", "a = 1", "a = 1 AND c = 2")
    assert done == {"opened": 1, "moved": 1}


@pytest.mark.parametrize("structure", ["interval", "rbpst", "rb"])
def test_else_it_takes_the_place_of_a_member_that_has_a_next_attribute(structure: str) -> None:
    index = small(structure=structure)
    done = filled(index, "a = 1 AND b = 1", "a = 1", "a = 1")
    assert done == {"swapped": 1, "opened": 1}
    forest = forest_of(index)
    assert forest.home[1] == forest.home[2] != forest.home[0]


@pytest.mark.parametrize("structure", ["interval", "rbpst", "rb"])
def test_else_the_bucket_grows(structure: str) -> None:
    index = small(structure=structure)
    assert filled(index, "a = 1", "a = 1", "a = 1") == {"grown": 1}
    assert index.counters()["largest_bucket"] == 3
    assert sorted(index.match({"a": 1})) == [0, 1, 2]


def test_a_bucket_that_others_have_left_still_parts_from_another_predicate() -> None:
    """A bucket with structures below may be below its size; another predicate must not slip in beside them."""
    index = small(structure="rbpst")
    filled(index, *["a = 1 AND b = 1"] * 5)
    for identity in range(4):
        index.remove(identity)
        Reader(index).check()
    index.add(9, "a BETWEEN 0 AND 5")
    Reader(index).check()
    assert index.match({"a": 3}) == [9]
    assert sorted(index.match({"a": 1, "b": 1})) == [4, 9]


def test_members_with_one_predicate_only_are_not_searched_for_a_next_attribute_again() -> None:
    index = small(bucket_size=1)
    filled(index, *["a = 1"] * 20)
    bucket = int(forest_of(index).home[0])
    assert forest_of(index).places[bucket, f.EXHAUSTED]
    # one that has a next attribute goes on, and leaves it so
    index.add(99, "a = 1 AND b = 2")
    assert sorted(index.match({"a": 1, "b": 2})) == [*range(20), 99]
    assert forest_of(index).places[bucket, f.EXHAUSTED]


def test_the_rarest_attribute_comes_first() -> None:
    index = Index(algorithm="pubsub")
    texts = ["common = 1 AND rare = 1", *["common = 1 AND frequent = 2"] * 3, *["common = 1"] * 3]
    index.add_many([NewSubscription(i, Condition.parse(text).disjuncts) for i, text in enumerate(texts)])
    forest, numbers = forest_of(index), index._members.registry.numbers
    first = [forest.structures[forest.places[forest.home[i], f.OWNER], f.ATTRIBUTE] for i in range(len(texts))]
    assert first == [numbers["rare"], *[numbers["frequent"]] * 3, *[numbers["common"]] * 3]


def test_what_no_structure_can_use_is_always_a_candidate() -> None:
    index = small()
    index.add("all")
    index.add("none", "a IS NULL")
    assert index.counters()["always"] == 2
    assert sorted(index.match({"b": 1})) == ["all", "none"]
    assert index.match({"a": 1}) == ["all"]
    assert index.remove("all")
    assert index.remove("none")
    Reader(index).check()


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("structure", ["auto", "interval"])
def test_large_buckets_in_groups(ordered: bool, structure: str) -> None:
    """Enough members that buckets are put in order, come apart, and are made compact; held against a plain loop."""
    rng = random.Random(7)
    index = Index(algorithm="pubsub", bucket_size=300, ordered=ordered, structure=structure)
    model: dict[int, dict[str, tuple[int, int]]] = {}

    def fresh() -> dict[str, tuple[int, int]]:
        asked = {}
        for name in rng.sample("abcde", rng.randint(1, 4)):
            low = rng.randint(0, 50)
            asked[name] = (low, low + rng.choice((0, 0, 5, 20)))
        return asked

    def conditions(asked: dict[str, tuple[int, int]]) -> Any:
        return Condition.parse(" AND ".join(f"{n} BETWEEN {low} AND {high}" for n, (low, high) in asked.items()))

    for wave in range(6):
        chosen = range(250 * wave, 250 * wave + 400)
        model.update({i: fresh() for i in chosen})
        index.add_many([NewSubscription(i, conditions(model[i]).disjuncts) for i in chosen])
        Reader(index).check()
        gone = rng.sample(sorted(model), len(model) // 3)
        for identity in gone:
            del model[identity]
        assert index.remove_many(gone) == len(gone)
        Reader(index).check()
        for _ in range(20):
            event = {name: rng.randint(0, 60) for name in rng.sample("abcde", rng.randint(0, 5))}
            wanted = [
                identity
                for identity, asked in model.items()
                if all(name in event and low <= event[name] <= high for name, (low, high) in asked.items())
            ]
            assert sorted(index.match(event)) == sorted(wanted)
    if ordered:
        assert forest_of(index).buckets[:, f.ORDERED].sum() > len(model) // 2


@pytest.mark.parametrize("structure", KINDS)
@pytest.mark.parametrize("bucket_size", [1, 3])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_agrees_with_the_oracle_when_buckets_are_small(structure: str, bucket_size: int, data: st.DataObject) -> None:
    index = Index(algorithm="pubsub", structure=structure, bucket_size=bucket_size)
    run(index, data.draw(steps))
    Reader(index).check()


@pytest.mark.parametrize("structure", KINDS)
@pytest.mark.parametrize(
    "other", [{"operator": "<", "value_string": "a"}, {"operator": "=", "value_int64": 1}, {"operator": "is null"}]
)
@pytest.mark.parametrize("null_first", [True, False])
def test_a_table_that_asks_an_attribute_to_be_absent_and_more_of_it(
    structure: str, other: dict[str, Any], null_first: bool
) -> None:
    index = small(structure=structure)
    for identity in range(5):
        rows = [{"operator": "is null"}, other][:: 1 if null_first else -1]
        rows = [{"attribute": "y"} | row for row in rows] + [{"attribute": "x", "operator": "=", "value_int64": 1}]
        index.add_predicates(predicate_table([{"subscription_id": identity} | row for row in rows]))
        Reader(index).check()
    assert sorted(index.match({"x": 1})) == (list(range(5)) if other == {"operator": "is null"} else [])
    assert index.match({"x": 1, "y": 1}) == []


def test_options_that_are_wrong_say_what_to_write() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Index(algorithm="pubsub", bucket_size=0)
    with pytest.raises(ValueError, match="'btree' is unknown; write one of auto, interval"):
        Index(algorithm="pubsub", structure="btree")
    with pytest.raises(ValueError, match="'btree' is unknown"):
        Index(algorithm="pubsub", structure={"a": "btree"})
    with pytest.raises(ValueError, match="the first and the last integer"):
        Index(algorithm="pubsub", domains={"a": (5, 1)})


def test_a_structure_for_each_attribute() -> None:
    index = Index(algorithm="pubsub", structure={"a": "interval"})
    index.add(1, "a = 1")
    index.add(2, "b = 1")
    forest, numbers = forest_of(index), index._members.registry.numbers
    reader = Reader(index)
    kinds = {name: forest.structures[reader.structures[0, numbers[name]], f.KIND] for name in "ab"}
    assert kinds == {"a": f.INTERVAL, "b": f.RED_BLACK}


def test_memory_is_stated_and_used_again() -> None:
    index = Index(algorithm="pubsub", bucket_size=50)
    algorithm: Any = index._members.algorithm
    subscriptions = [NewSubscription(i, Condition.parse(f"a = {i % 7} AND b > {i}").disjuncts) for i in range(1000)]

    def fill_and_clear(times: int) -> int:
        for _ in range(times):
            index.add_many(subscriptions)
            index.remove_many(range(1000))
        return int(algorithm.nbytes)

    once = fill_and_clear(3)
    assert once > 1000 * 28
    assert fill_and_clear(10) <= 1.5 * once
