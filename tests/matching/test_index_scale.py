"""`auto` at sizes at which chunks split, boxes are drawn anew, codes drift and slots move: held against the linear scan."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pastforward.matching import Index

ROWS = 40
DOMAINS = {"equal": 8, "many": 300}


def predicates(rng: np.random.Generator, ids: np.ndarray, style: str, shift: int = 0) -> pa.Table:
    """Random subscriptions of one of several styles."""
    attributes = {"equal": 6, "range": 5, "many": 80, "mixed": 6, "one": 3}[style]
    each = {"equal": 3, "range": 3, "many": 2, "mixed": 3, "one": 1}[style]
    count = len(ids)
    chosen = rng.random((count, attributes)).argsort(1)[:, :each]
    equal = rng.random((count, each)) < {"equal": 1.0, "range": 0.0, "many": 0.3, "mixed": 0.5, "one": 0.3}[style]
    low = rng.integers(0, DOMAINS.get(style, 1000), (count, each)) + shift
    high = low + rng.integers(0, 200, (count, each))
    return pa.table(
        {
            "subscription_id": np.repeat(ids, each),
            "attribute": [f"x{a}" for a in chosen.ravel()],
            "operator": np.where(equal.ravel(), "=", "between"),
            "value_int64": low.ravel(),
            "high_int64": pa.array(high.ravel(), mask=equal.ravel()),
        }
    )


def publications(rng: np.random.Generator, style: str, shift: int = 0) -> pa.Table:
    attributes = {"equal": 6, "range": 5, "many": 80, "mixed": 6, "one": 3}[style]
    absent = 0.8 if style == "many" else 0.1
    domain = DOMAINS.get(style, 1100)
    return pa.table(
        {
            f"x{a}": pa.array(rng.integers(0, domain, ROWS) + shift, mask=rng.random(ROWS) < absent)
            for a in range(attributes)
        }
    )


def same(auto: Index, linear: Index, table: pa.Table) -> int:
    answers = []
    for index in (auto, linear):
        found = index.match_table(table)
        pairs = set(zip(found["row"].to_pylist(), found["subscription_id"].to_pylist(), strict=True))
        assert len(pairs) == found.num_rows
        answers.append(pairs)
    assert answers[0] == answers[1]
    # a few publications go another way than many
    for begin, count in ((0, 1), (7, 1), (3, 20)):
        found = auto.match_table(table.slice(begin, count))
        pairs = set(zip(found["row"].to_pylist(), found["subscription_id"].to_pylist(), strict=True))
        assert pairs == {(row - begin, name) for row, name in answers[0] if begin <= row < begin + count}
    return len(answers[0])


@pytest.mark.parametrize("style", ["equal", "range", "many", "mixed", "one"])
def test_agrees_with_the_scan_while_everything_changes(style: str) -> None:
    rng = np.random.default_rng(7)
    auto, linear = Index(), Index(algorithm="linear")
    found = 0
    for step in range(6):
        # values drift, so that codes have to follow
        shift = 1500 * (step // 2)
        ids = rng.integers(0, 3000, 1000) if step else np.arange(3000)
        table = predicates(rng, np.unique(ids), style, shift)
        for index in (auto, linear):
            assert index.add_predicates(table) == len(np.unique(ids))
        found += same(auto, linear, publications(rng, style, shift))
        gone = np.unique(rng.integers(0, 3000, 700))
        assert auto.remove_many(gone) == linear.remove_many(gone)
        table = publications(rng, style, shift)
        found += same(auto, linear, table)
        same(auto, linear, table.slice(3, 1))
        assert len(auto) == len(linear)
    assert found > 0
    counters = auto.counters()
    assert counters["slots"] == len(auto)
    assert auto.remove_many(np.arange(3000)) == linear.remove_many(np.arange(3000))
    left = auto.counters()
    assert (left["slots"], left["groups"], left["leaves"], left["nodes"]) == (0, 0, 0, 0)


def test_codes_follow_values_that_drift() -> None:
    auto, linear = Index(), Index(algorithm="linear")
    rng = np.random.default_rng(1)
    for step in range(12):
        ids = np.arange(400) + 400 * (step % 2)
        table = predicates(rng, ids, "range", 10_000 * step)
        for index in (auto, linear):
            index.add_predicates(table)
        same(auto, linear, publications(rng, "range", 10_000 * step))
    assert auto.counters()["epoch"] > 0


def test_topics_are_reached_from_above_and_below() -> None:
    auto, linear = Index(), Index(algorithm="linear")
    rng = np.random.default_rng(3)
    topics = [""] + [".".join(map(str, rng.integers(0, 4, depth))) for depth in rng.integers(1, 6, 300)]
    for identity in range(600):
        topic, scope = topics[identity % len(topics)], ("overlap", "subtree")[identity % 2]
        for index in (auto, linear):
            index.add(identity, "x >= 3" if identity % 3 else None, topic=topic, scope=scope)  # type: ignore[arg-type]
    gone = list(range(0, 600, 7))
    for index in (auto, linear):
        index.remove_many(gone)
    table = pa.table({"x": list(range(len(topics))), "_topic": topics})
    assert same(auto, linear, table) > 0
    for row in range(0, len(topics), 17):
        same(auto, linear, table.slice(row, 1))


@pytest.mark.parametrize("style", ["equal", "range", "many", "mixed", "one"])
def test_large_writes_are_laid_out_at_once(style: str) -> None:
    """The first into an empty index, the second into groups that are there already, and into new ones."""
    rng = np.random.default_rng(11)
    auto, linear = Index(), Index(algorithm="linear")
    for ids in (np.arange(6000), np.arange(4000, 12_000)):
        table = predicates(rng, ids, style)
        for index in (auto, linear):
            assert index.add_predicates(table) == len(ids)
        events = publications(rng, style)
        assert same(auto, linear, events) > 0
        for row in range(0, ROWS, 9):
            same(auto, linear, events.slice(row, 1))
    gone = rng.permutation(12_000)[:6000]
    assert auto.remove_many(gone) == linear.remove_many(gone) == 6000
    same(auto, linear, events)
    assert auto.remove_many(np.arange(12_000)) == 6000
    left = auto.counters()
    assert (left["slots"], left["groups"], left["leaves"], left["nodes"]) == (0, 0, 0, 0)


def test_groups_a_little_larger_than_a_chunk() -> None:
    """Each needs a root beside its chunks: room for many of them has to be foreseen."""
    ids = np.arange(150 * 850)
    table = pa.table(
        {
            "subscription_id": ids,
            "attribute": pa.DictionaryArray.from_arrays(np.zeros(len(ids), np.int32), ["a"]),
            "operator": pa.DictionaryArray.from_arrays(np.zeros(len(ids), np.int32), ["="]),
            "value_int64": ids % 150,
        }
    )
    index = Index()
    index.add_predicates(table)
    assert sorted(index.match({"a": 7})) == list(range(7, len(ids), 150))


def test_a_large_group_that_comes_in_a_small_write() -> None:
    """It is laid out at once, though the write is small beside the index: with more members than a chunk has."""
    auto, linear = Index(), Index(algorithm="linear")
    rng = np.random.default_rng(5)
    for index in (auto, linear):
        index.add_predicates(predicates(np.random.default_rng(4), np.arange(5000), "equal"))
    ids = np.arange(5000, 8000)
    low = rng.integers(0, 1000, 2 * len(ids))
    table = pa.table(
        {
            "subscription_id": np.repeat(ids, 2),
            "attribute": ["fresh", "x0"] * len(ids),
            "operator": ["=", "between"] * len(ids),
            "value_int64": np.where(np.arange(len(low)) % 2, low, 7),
            "high_int64": low + 100,
        }
    )
    for index in (auto, linear):
        index.add_predicates(table)
    events = pa.table({"fresh": [7] * ROWS, "x0": rng.integers(0, 1100, ROWS)})
    assert same(auto, linear, events) > 1000


def test_slots_move_to_what_has_become_cheaper() -> None:
    """Publications turn out to carry some attributes seldom: what asks for them is better found by those."""
    auto, linear = Index(), Index(algorithm="linear")
    rng = np.random.default_rng(9)
    attributes = 40
    events = pa.table(
        {
            f"x{a}": pa.array(rng.integers(0, 1100, ROWS), mask=rng.random(ROWS) < (0.99 if a < 20 else 0.0))
            for a in range(attributes)
        }
    )

    def write(ids: np.ndarray) -> pa.Table:
        chosen = np.stack([rng.integers(0, 20, len(ids)), rng.integers(20, 40, len(ids))], axis=1)
        low = rng.integers(0, 1000, chosen.size)
        return pa.table(
            {
                "subscription_id": np.repeat(ids, 2),
                "attribute": [f"x{a}" for a in chosen.ravel()],
                "operator": ["between"] * chosen.size,
                "value_int64": low,
                "high_int64": low + 100,
            }
        )

    first = write(np.arange(4000))
    for index in (auto, linear):
        index.add_predicates(first)
    for step in range(40):
        same(auto, linear, events)
        for _ in range(20):
            auto.match_table(events)
        more = write(np.arange(4000 + 100 * step, 4100 + 100 * step))
        for index in (auto, linear):
            index.add_predicates(more)
    assert auto.counters()["moves"] > 0
    same(auto, linear, events)


def test_a_large_index_goes_on_learning() -> None:
    """Beyond 32,768 only some of a write are learnt from: attributes that are new then may have no codes yet."""
    rng = np.random.default_rng(13)
    auto, linear = Index(), Index(algorithm="linear")
    table = predicates(rng, np.arange(40_000), "mixed")
    for index in (auto, linear):
        index.add_predicates(table)
    found = 0
    for step in range(6):
        ids = np.arange(40_000 + 500 * step, 40_500 + 500 * step)
        style = ("many", "mixed", "range")[step % 3]
        table = predicates(rng, ids, style, 5000 * (step // 3))
        gone = rng.integers(0, 40_000, 300)
        for index in (auto, linear):
            index.add_predicates(table)
            index.remove_many(gone)
        assert len(auto) == len(linear)
        found += same(auto, linear, publications(rng, style, 5000 * (step // 3)))
        for index in (auto, linear):
            index.add(-1 - step, f"fresh{step} = 1 AND x1 < 500")
        same(auto, linear, pa.table({f"fresh{step}": [1, 2, None], "x1": [1, 1, 1]}))
    assert found > 0
