"""The public face of the index."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pastforward.columns.attributes import INTEGER, STRING, Attributes
from pastforward.matching import Condition, ConditionError, Index, Point
from pastforward.matching.index.publications import attributes_of
from pastforward.matching.index.subscription import NewSubscription


def test_ten_lines_from_a_prompt() -> None:
    index = Index(algorithm="auto")
    index.add(
        "s1",
        Condition.parse("severity >= 3 AND kind = 'accident'"),
        topic="1.4",
        scope="overlap",
        semantics="classical",
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert index.match({"kind": "accident", "severity": 4}, topic="1.4.2", published_at=now) == ["s1"]
    assert index.match({"kind": "accident", "severity": 2}, topic="1.4.2", published_at=now) == []
    found = index.match_table(pa.table({"kind": ["accident", None], "severity": [3, 5], "_topic": ["1", "1.4"]}))
    assert found.to_pydict() == {"row": [0], "subscription_id": ["s1"]}
    assert "severity >= 3 failed on 2" in str(index.explain("s1", {"kind": "accident", "severity": 2}, topic="1.4"))
    assert index.remove("s1")
    assert not index.remove("s1")
    assert len(index) == 0


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(
        rows,
        pa.schema(
            [
                ("subscription_id", pa.int64()), ("disjunct", pa.int32()), ("attribute", pa.string()), ("operator", pa.string()),
                ("value_int64", pa.int64()), ("high_int64", pa.int64()), ("value_float64", pa.float64()),
                ("high_float64", pa.float64()), ("value_string", pa.string()), ("high_string", pa.string()),
                ("value_bool", pa.bool_()), ("value_binary", pa.binary()), ("value_timestamp", pa.timestamp("us", "UTC")),
                ("high_timestamp", pa.timestamp("us", "UTC")), ("topic", pa.string()), ("scope", pa.string()),
                ("starts_at", pa.int64()), ("ends_at", pa.int64()), ("time", pa.string()), ("semantics", pa.string()),
            ]
        ),
    )  # fmt: skip


def predicate(identity: int, attribute: str, operator: str, **more: Any) -> dict[str, Any]:
    return {"subscription_id": identity, "attribute": attribute, "operator": operator, **more}


@pytest.mark.parametrize(
    ("rows", "inside", "outside"),
    [
        ([predicate(1, "x", "=", value_int64=3)], [3, 3.0], [4, "3", None, True]),
        ([predicate(1, "x", "!=", value_int64=3)], [4, 2.5], [3, 3.0, "4", None, float("nan")]),
        ([predicate(1, "x", "!=", value_float64=2.5)], [2, 3.5], [2.5]),
        ([predicate(1, "x", "<", value_float64=2.5)], [2, -1e300], [3, 2.5]),
        ([predicate(1, "x", ">", value_int64=2**53)], [2**53 + 1], [2**53, float(2**53)]),
        ([predicate(1, "x", "between", value_int64=1, high_float64=2.5)], [1, 2.5], [0, 2.6]),
        ([predicate(1, "x", ">=", value_int64=1), predicate(1, "x", "<=", value_int64=4)], [1, 4], [0, 5]),
        ([predicate(1, "x", "=", value_string="ü")], ["ü"], ["u", 1, ""]),
        ([predicate(1, "x", "!=", value_string="a")], ["b", ""], ["a", 1]),
        ([predicate(1, "x", "between", value_string="b", high_string="d")], ["b", "cz", "d"], ["a", "da"]),
        ([predicate(1, "x", "prefix", value_string="ab")], ["ab", "abc"], ["a", "b"]),
        ([predicate(1, "x", "suffix", value_string="ab")], ["ab", "cab"], ["abc"]),
        ([predicate(1, "x", "substring", value_string="b")], ["abc"], ["ac", ""]),
        ([predicate(1, "x", "matches", value_string="^a+$")], ["aaa"], ["ab"]),
        ([predicate(1, "x", "in", value_int64=1), predicate(1, "x", "in", value_int64=5)], [1, 5], [2]),
        ([predicate(1, "x", "=", value_bool=True)], [True], [False, 1]),
        ([predicate(1, "x", "is null")], [None], [1, "a"]),
        ([predicate(1, "x", "is not null")], [1, "a", float("nan"), [1]], [None]),
        (
            [predicate(1, "x", "=", value_int64=1, disjunct=0), predicate(1, "x", "=", value_string="a", disjunct=1)],
            [1, "a"],
            [2],
        ),
        (
            [predicate(1, "x", "within", value_binary=np.array([0.0, 0, 2, 2]).tobytes())],
            [Point(1.0, 1.0)],
            [Point(3.0, 1.0), 1],
        ),
        (
            [predicate(1, "x", ">", value_timestamp=datetime(2020, 1, 1, tzinfo=UTC))],
            [datetime(2020, 1, 2, tzinfo=UTC)],
            [datetime(2020, 1, 1, tzinfo=UTC), 1],
        ),
    ],
)
@pytest.mark.parametrize("algorithm", ["auto", "linear"])
def test_predicates_from_a_table(
    algorithm: str, rows: list[dict[str, Any]], inside: list[Any], outside: list[Any]
) -> None:
    index = Index(algorithm=algorithm)
    assert index.add_predicates(table(rows)) == 1
    for value in inside:
        assert index.match({"x": value}) == [1], value
    for value in outside:
        assert index.match({"x": value}) == [], value


def test_table_with_places_and_windows() -> None:
    index = Index()
    index.add_predicates(
        table(
            [
                predicate(1, "x", "=", value_int64=1, topic="1.4", scope="subtree", starts_at=10, ends_at=20),
                predicate(2, "x", "=", value_int64=1, topic="1.4"),
                predicate(2, "y", "=", value_int64=1, topic="1.4", disjunct=1),
                predicate(3, "x", "=", value_int64=1, time="valid", starts_at=10, semantics="intersect"),
            ]
        )
    )
    assert index.match({"x": 1}, topic="1", published_at=10) == [2, 3]
    assert index.match({"x": 1}, topic="1.4.1", published_at=20, expires_at=20) == [2]
    assert sorted(index.match({"x": 1}, topic="1.4.1", published_at=19, expires_at=20)) == [1, 2, 3]
    assert sorted(index.match({"y": 1}, topic="1.4", published_at=5, expires_at=10)) == [2]
    assert sorted(index.match({"y": 1}, topic="1.4", published_at=5)) == [2, 3]
    assert index.remove_many(np.array([1, 2, 3, 4])) == 3
    assert len(index._members.registry.topics) == 1  # the root


def test_rows_of_one_subscription_may_stand_apart() -> None:
    index = Index()
    rows = [
        predicate(2, "x", "=", value_int64=1),
        predicate(1, "x", "=", value_int64=1),
        predicate(2, "y", "=", value_int64=1),
    ]
    assert index.add_predicates(table(rows)) == 2
    assert index.match({"x": 1}) == [1]
    assert sorted(index.match({"x": 1, "y": 1})) == [1, 2]


def test_rows_in_any_order_are_the_same_subscriptions() -> None:
    rows = [
        predicate(identity, attribute, "=", value_int64=value, disjunct=disjunct)
        for identity in (5, 1, 3)
        for disjunct, (attribute, value) in enumerate((("x", 1), ("y", 2), ("z", identity)))
    ]
    rng = np.random.default_rng(2)
    whole = table(rows)
    for order in (np.arange(len(rows)), rng.permutation(len(rows)), rng.permutation(len(rows))):
        index = Index()
        assert index.add_predicates(whole.take(pa.array(order))) == 3
        assert sorted(index.match({"x": 1})) == sorted(index.match({"y": 2})) == [1, 3, 5]
        assert index.match({"z": 3}) == [3]
    assert Index().add_predicates(whole.slice(0, 0)) == 0


def test_a_slice_of_a_table_is_what_it_shows() -> None:
    whole = table(
        [
            predicate(number, "x", "=", value_string=f"t{number}", topic=f"{number}")
            | ({"value_string": None, "value_int64": number} if number % 3 == 0 else {})
            for number in range(100)
        ]
    )
    index = Index()
    for begin in range(0, 100, 7):
        assert index.add_predicates(whole.slice(begin, 7)) == min(7, 100 - begin)
    for number in range(100):
        value = number if number % 3 == 0 else f"t{number}"
        assert index.match({"x": value}, topic=f"{number}") == [number]


def test_a_table_replaces() -> None:
    index = Index()
    index.add(1, "x = 1")
    index.add(2, "FALSE")
    index.add_predicates(table([predicate(1, "x", "=", value_int64=2), predicate(2, "x", "=", value_int64=2)]))
    assert index.match({"x": 1}) == []
    assert sorted(index.match({"x": 2})) == [1, 2]
    assert len(index) == 2


def test_errors_say_what_to_do() -> None:
    index = Index()
    with pytest.raises(ValueError, match="no column 'operator'"):
        index.add_predicates(pa.table({"subscription_id": [1], "attribute": ["x"]}))
    with pytest.raises(ConditionError, match="no operator"):
        index.add_predicates(table([predicate(1, "x", "=~", value_int64=1)]))
    with pytest.raises(ConditionError):
        index.add_predicates(table([predicate(1, "x", "=", value_float64=float("nan"))]))
    with pytest.raises(ValueError, match="all filled"):
        index.add_predicates(table([predicate(1, "x", "=", value_int64=1, value_string="a")]))
    with pytest.raises(ValueError, match="Dewey"):
        index.add(1, topic="a.b")
    with pytest.raises(ValueError, match="Dewey"):
        index.match({}, topic="1..2")
    with pytest.raises(ValueError, match="row 1"):
        index.match_table(pa.table({"x": [1, 2], "_topic": ["1", "01"]}))
    with pytest.raises(ValueError, match="one of"):
        index.add(1, scope="here")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are"):
        Index(algorithm="magic")
    index.add(1)
    with pytest.raises(TypeError, match="integers"):
        index.add("a")
    with pytest.raises(TypeError, match="integers"):
        index.add_predicates(pa.table({"subscription_id": ["a"], "attribute": ["x"], "operator": ["is null"]}))
    with pytest.raises(KeyError):
        index.explain(7, {})
    assert len(index) == 1


def test_columns_of_every_arrow_type_are_taken() -> None:
    index = Index()
    index.add(1, "x = 3")
    index.add(2, "x IS NOT NULL")
    index.add(3, "x = 'a'")
    for column, wanted in (
        (pa.array([3], pa.int8()), [1, 2]),
        (pa.array([3], pa.uint64()), [1, 2]),
        (pa.array([2**64 - 1], pa.uint64()), [2]),
        (pa.array([3.0], pa.float32()), [1, 2]),
        (pa.array(["a"], pa.large_string()), [2, 3]),
        (pa.array(["a"]).dictionary_encode(), [2, 3]),
        (pa.array([[1]]), [2]),
        (pa.array([None], pa.null()), []),
        (pa.array([b"a"]), [2]),
        (pa.array([{"lon": 1.0, "lat": 2.0}]), [2]),
        (pa.array([{"other": 1.0}]), [2]),
    ):
        assert sorted(index.match_table(pa.table({"x": column}))["subscription_id"].to_pylist()) == wanted, column.type
    chunks = pa.table({"x": pa.chunked_array([[3], [4, 3]]), "unknown": pa.chunked_array([["b", "c"], ["d"]])})
    assert index.match_table(chunks.slice(1))["row"].to_pylist() == [0, 1, 1]
    assert index.match_table(pa.table({"x": pa.array([], pa.int64())})).num_rows == 0


def test_a_few_publications_are_answered_as_many_are() -> None:
    """They go a shorter way: with strings, nulls, unknown columns, other types in a known column, and no memory left behind."""
    index = Index()
    index.add(1, "kind = 'accident' AND severity >= 3")
    index.add(2, "severity BETWEEN 2 AND 4")
    index.add(3, "kind LIKE 'acc%'")
    index.add(4, "lane IS NULL AND kind IS NOT NULL")
    many = pa.table(
        {
            "kind": ["accident", "jam", None, "accident"] * 20,
            "severity": [3, 2, 4, None] * 20,
            "lane": pa.nulls(80, pa.int64()),
            "unknown": [1.5] * 80,
        }
    )
    expected = [[1, 2, 3, 4], [2, 4], [2], [3, 4]]
    found = index.match_table(many)
    by_row = [
        sorted(found.filter(pa.compute.equal(found["row"], row))["subscription_id"].to_pylist()) for row in range(80)
    ]
    assert by_row == expected * 20
    before = pa.total_allocated_bytes()
    for begin in range(9):
        few = index.match_table(many.slice(begin, 3))
        assert few.schema == found.schema
        assert sorted(zip(few["row"].to_pylist(), few["subscription_id"].to_pylist(), strict=True)) == [
            (row, name) for row in range(3) for name in expected[(begin + row) % 4]
        ]
    del few
    assert pa.total_allocated_bytes() == before
    assert index.match_table(many.slice(0, 1).set_column(1, "severity", pa.array(["3"])))[
        "subscription_id"
    ].to_pylist() == [3, 4]
    assert index.match_table(pa.concat_tables([many.slice(0, 1), many.slice(1, 1)]))["subscription_id"].to_pylist() == [
        1,
        2,
        3,
        4,
        2,
        4,
    ]
    assert index.match_table(many.slice(0, 0)).num_rows == 0
    assert index.match_table(pa.table({"unknown": [1]})).num_rows == 0
    index.add_predicates(
        pa.table(
            {
                "subscription_id": range(10, 6000),
                "attribute": ["lane"] * 5990,
                "operator": ["="] * 5990,
                "value_int64": [5] * 5990,
            }
        )
    )
    assert index.match_table(pa.table({"lane": [5]})).num_rows == 5990


def test_one_publication_of_integers() -> None:
    """It goes a shorter way, which remembers its names."""
    index = Index()
    index.add(1, "a = 1 AND b > 5")
    index.add(2, "previous.a = 7")
    index.add(3, "a > 100")
    assert index.match({"a": 1, "b": 6, "other": 3}) == [1]
    assert index.match({"b": 6, "a": 1}) == [1]
    assert index.match({"a": 1, "b": 5}) == []
    assert index.match({"a": 2**63 - 1, "b": 6}) == [3]
    assert index.match({"a": 2**70, "b": 6}) == index.match({"a": 2**70, "b": 6, "text": "x"})
    assert index.match({"a": True, "b": 6}) == []
    index.add(4, "other = 3")  # a name that was none before
    assert sorted(index.match({"a": 1, "b": 6, "other": 3})) == [1, 4]
    assert index.match({}) == []


def test_attributes_as_codecs_fill_them() -> None:
    index = Index()
    index.add("s", "x = 1 AND y = 'b'")
    index.add("t", "x >= 5", semantics="intersect")
    attributes = Attributes(
        ["y", "x", "z"],
        np.array([0, 2, 4], np.int64),
        np.array([1, 0, 1, 2], np.int32),
        np.array([INTEGER, STRING, INTEGER, INTEGER], np.uint8),
        np.array([1, 0, 1, 7], np.int64),
        np.array([0, 1, 0, 0], np.int32),
        np.frombuffer(b"b", np.uint8),
    )
    rows, ids = index.match_attributes(
        attributes, topics=pa.array(["1", ""]), published_at=np.array([1, 2]), expires_at=np.array([5, 5])
    )
    assert (rows.tolist(), ids.to_pylist()) == ([0], ["s"])
    empty = attributes_of([{}, {"x": 9}])
    where = [Condition.parse("x > 3 OR y = 'c'").disjuncts, None]
    rows, ids = index.match_attributes(empty, where=where)
    assert (rows.tolist(), ids.to_pylist()) == ([0, 1], ["t", "t"])


def test_cost_before_a_subscription_is_taken() -> None:
    index = Index()
    index.add_predicates(table([predicate(i, "x", "=", value_int64=i) for i in range(500)]))
    narrow, wide = index.cost("x = 7"), index.cost("y REGEXP 'a\\b' OR x > 3")
    assert narrow.access == ("value of x",)
    assert narrow.nanoseconds < wide.nanoseconds
    assert (wide.entries, wide.slow) == (2, 1)
    assert index.cost("FALSE").entries == 0
    assert len(index) == 500
    assert index.match({"x": 7}) == [7]


def test_explains_place_time_and_every_alternative() -> None:
    index = Index()
    index.add(1, "x = 1 OR y < 2", topic="1.4", scope="subtree", starts_at=10, ends_at=20)
    assert index.explain(1, {"x": 1}, topic="1.4", published_at=10).matches
    assert "topic" in str(index.explain(1, {"x": 1}, topic="1", published_at=10))
    assert "window" in str(index.explain(1, {"x": 1}, topic="1.4", published_at=20))
    reasons = index.explain(1, {"x": 2, "y": 5}, topic="1.4.1", published_at=15).reasons
    assert reasons == ("alternative 1: x = 1 failed on 2", "alternative 2: y < 2 failed on 5")
    assert "y is absent" in str(index.explain(1, {"x": 2}, topic="1.4", published_at=15))


def test_a_publication_that_contradicts_itself_leaves_the_rows_of_others_alone() -> None:
    index = Index()
    index.add("s", "NOT (z REGEXP '[0-9]+')", semantics="symmetric")
    where = [None, Condition.parse("x = 0").disjuncts, None]
    rows, ids = index.match_attributes(attributes_of([{}, {"x": False}, {}]), where=where)
    assert rows.tolist() == [0, 2]
    assert ids.to_pylist() == ["s", "s"]


CONDITIONS = (
    "a = 1 AND b = 'x' AND c BETWEEN 2 AND 5",
    "c > 2 AND c <= 4.5 AND a != 1",
    "b IN ('y', 'x', 'zz') OR a IN (3, 2, 2.5)",
    "b NOT IN ('y', 'q') AND b LIKE 'x%' AND NOT b LIKE '%q'",
    "b >= 'x' AND b < 'y' AND c < 4",
    "t >= TIMESTAMP '2026-01-01T00:00:00Z' AND f",
    "within(place, BOX(0, 0, 2, 2)) AND a = 1",
    "z IS NULL AND previous.a = 2",
    "z = 1 OR c = 3.5",
    "FALSE",
)
PUBLISHED: list[dict[str, object]] = [
    {"a": 1, "b": "x", "c": 3},
    {"a": 2, "b": "y", "c": 3.5, "f": True, "t": datetime(2026, 5, 1, tzinfo=UTC)},
    {"a": 2.5, "b": "xq", "c": 4},
    {"a": 1, "place": Point(1, 1), "z": 1, "b": "zz"},
    {},
]


@pytest.mark.parametrize("text", [False, True])
def test_many_at_once(text: bool) -> None:
    """Of an id that comes twice the last counts; what was there before is replaced."""
    subscriptions = [
        NewSubscription(
            f"s{i % 50}" if text else i % 50,
            Condition.parse(CONDITIONS[i % len(CONDITIONS)]).disjuncts,
            "" if i % 3 else f"1.{i % 4}",
            starts_at=i,
            ends_at=None if i % 2 else 1000,
        )
        for i in range(60)
    ]
    latest = {new.subscription_id: new for new in subscriptions}
    index = Index()
    index.add_many([NewSubscription(name, Condition.parse("a = 1").disjuncts, "7") for name in latest])
    index.add_many(subscriptions)
    assert len(index) == 50
    found = 0
    for values in PUBLISHED:
        for topic in ("", "1.2", "1"):
            for when in (None, 30, 2000):
                wanted = [
                    name
                    for name, new in latest.items()
                    if Condition(new.disjuncts).holds({**values, "previous.a": 2})
                    and (topic in ("", "1") or new.topic in ("", topic))
                    and (when is None or new.starts_at <= when < (new.ends_at or 10**9))  # type: ignore[operator]
                ]
                answer = index.match(values, topic=topic, published_at=when, previous={"a": 2})
                assert sorted(answer, key=str) == sorted(wanted, key=str), (values, topic, when)
                found += len(answer)
    assert found > 100
    assert index.remove_many([*latest, "nobody" if text else 77]) == 50
    assert len(index) == 0
    assert index.match(PUBLISHED[0]) == []


def test_predicates_that_nothing_satisfies_meet_no_published_condition() -> None:
    index = Index()
    index.add_predicates(
        pa.table(
            {
                "subscription_id": [1, 2, 2, 3],
                "attribute": ["x"] * 4,
                "operator": ["between", "<", ">", "between"],
                "value_int64": [5, 1, 5, 3],
                "high_int64": [3, None, None, 5],
            }
        )
    )
    for where in ("x IS NOT NULL", "x BETWEEN 0 AND 9", "x IN (0, 4, 9)"):
        assert index.match({}, where=where) == [3]


def test_a_replacement_that_is_refused_leaves_the_old_one() -> None:
    index = Index()
    index.add(1, "x = 1", ends_at=10)
    for wrong in ({"starts_at": 2**70}, {"ends_at": "soon"}, {"topic": "1..2"}, {"semantics": "fuzzy"}):
        with pytest.raises((TypeError, ValueError)):
            index.add(1, "x = 2", **wrong)  # type: ignore[arg-type]
        assert index.match({"x": 1}, published_at=5) == [1]


def test_ids_and_moments_enter_as_plain_types() -> None:
    index = Index()
    index.add(np.int64(1), "x = 1", starts_at=np.datetime64("1970-01-01T00:00:01"), ends_at=np.int64(3_000_000))  # type: ignore[arg-type]
    found = index.match({"x": 1}, published_at=np.int64(1_000_000))  # type: ignore[arg-type]
    assert found == [1]
    assert type(found[0]) is int
    assert index.match({"x": 1}, published_at=datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)) == []
    assert np.int64(1) in index
    assert index.remove(np.int64(1))
    for wrong in ("2026", 1.5, 2**63):
        with pytest.raises(TypeError, match="no moment"):
            index.match({"x": 1}, published_at=wrong)  # type: ignore[arg-type]
    texts = Index()
    texts.add("a")
    assert "\ud800" not in texts
    assert not texts.remove("\ud800")
    with pytest.raises(ValueError, match="half a character"):
        texts.add("\ud800")
    assert texts.match_table(pa.record_batch({"x": pa.array([1])}))["subscription_id"].to_pylist() == ["a"]
