"""What goes into the table comes out again, and means there what it means to the stream."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from matching import Condition, ConditionError
from matching.normal_form import ALWAYS, PREVIOUS
from matching.oracle import SEMANTICS, Publication, Subscription, matches
from matching.values import Box, Path, Point, Value
from schemas import Predicate, SchemaError, attributes_of, decode_publications
from schemas import Publication as PublicationRecord
from schemas.columns import Texts
from spark_batch import conditions, rows
from spark_batch.decode import decode_batch
from spark_batch.order import AFTER, ancestors, order_text, order_texts
from spark_batch.pairs import Asked, match_batch
from spark_batch.prune import columns_asked
from tests.matching import strategies as known
from tests.matching.naive import text
from tests.spark_batch.records import pick, rows_of

NAMES = ["x", "y", "z", "select", "path"]
TOPICS = ["", "1", "1.9", "1.10", "1.10.2", "2", "9223372036854775807.1"]


def _storable(value: Any) -> bool:
    """What a record can carry at all."""
    if value is None or isinstance(value, bytes | list):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, str):
        return value.isprintable() or "\ud800" not in value
    return not (
        value == Path("1..2")
        or value == Box(2.0, 0.0, 1.0, 0.0)
        or (isinstance(value, Point) and math.isnan(value.lon))
    )


values: st.SearchStrategy[Value] = known.values.filter(_storable)
attributes = st.dictionaries(st.sampled_from(NAMES), values, max_size=5)


@st.composite
def wheres(draw: st.DrawFn) -> str:
    """A text that parses and can be true, of a publication or a subscription."""
    tree = draw(known.trees)
    written = text(tree)
    try:
        condition = Condition.parse(written)
    except ConditionError:
        return "x >= 1"
    return "x >= 1" if condition.never or condition.needs_previous else written


publications = st.builds(
    PublicationRecord,
    publisher_id=st.none() | st.just("someone"),
    topic=st.sampled_from(TOPICS),
    published_at=st.integers(0, 20),
    expires_at=st.none() | st.integers(21, 40),
    attributes=attributes,
    where=st.none() | wheres(),
    self_join=st.booleans(),
    body=st.none() | st.binary(max_size=3),
)
subscriptions = st.builds(
    Subscription,
    wheres().map(lambda where: Condition.parse(where).disjuncts),
    st.sampled_from(TOPICS),
    st.sampled_from(["overlap", "subtree"]),
    st.none() | st.integers(0, 20),
    st.none() | st.integers(10, 40),
    st.sampled_from(["published", "valid"]),
    st.sampled_from(SEMANTICS),
)


def named(records: list[PublicationRecord]) -> list[PublicationRecord]:
    for number, record in enumerate(records):
        record.publication_id = f"p{number}"
    return records


def same(a: Value, b: Value) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


@given(st.lists(publications, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_on_the_way_into_the_table_and_back(records: list[PublicationRecord]) -> None:
    batch = rows_of(named(records))
    batch.validate(full=True)
    found = rows.attributes_of(batch, None)
    forms = rows.normal_forms(batch) or [None] * len(records)
    for row, record in enumerate(records):
        back = attributes_of(found, row)
        assert back.keys() == record.attributes.keys()
        assert all(same(back[name], record.attributes[name]) for name in back)
        assert isinstance(record.where, str) or record.where is None
        assert forms[row] == (None if record.where is None else Condition.parse(record.where).disjuncts)
    plain = batch.select(["publisher_id", "topic", "path", "self_join", "body"]).to_pylist()
    assert plain == [
        {
            "publisher_id": r.publisher_id,
            "topic": r.topic,
            "path": order_text(r.topic),
            "self_join": r.self_join,
            "body": r.body,
        }
        for r in records
    ]
    assert rows.micros(batch.column("published_at")).tolist() == [r.published_at for r in records]


@given(st.lists(subscriptions, min_size=1, max_size=5), st.lists(publications, min_size=1, max_size=6))
@settings(max_examples=120, deadline=None)
def test_history_and_stream_find_the_same_pairs(asked: list[Subscription], records: list[PublicationRecord]) -> None:
    batch = rows_of(named(records))
    expected = sorted(
        (number, record.publication_id)
        for number, subscription in enumerate(asked)
        for record in records
        if matches(subscription, offer(record))
    )
    found = match_batch(Asked(tuple(asked)), batch, None)
    assert sorted(zip(found["asked"].to_pylist(), found["publication_id"].to_pylist(), strict=True)) == expected
    picked = columns_asked(asked)
    if picked is not None:
        # only publications without a condition take this way
        plain = batch.filter(batch.column("condition").is_null())
        names = set(plain.column("publication_id").to_pylist())
        found = match_batch(Asked(tuple(asked)), pick(plain, picked), picked)
        pairs = sorted(zip(found["asked"].to_pylist(), found["publication_id"].to_pylist(), strict=True))
        assert pairs == [pair for pair in expected if pair[1] in names]


def offer(record: PublicationRecord) -> Publication:
    assert record.published_at is not None
    where = Condition.parse(record.where).disjuncts if isinstance(record.where, str) else ALWAYS
    return Publication(record.attributes, where, record.topic, record.published_at, record.expires_at)


paths = st.lists(st.integers(0, 12) | st.integers(0, 2**63 - 1), max_size=5)


@given(paths, paths)
def test_texts_are_ordered_as_paths_and_a_subtree_is_a_range(a: list[int], b: list[int]) -> None:
    first, second = (".".join(map(str, each)) for each in (a, b))
    assert (order_text(first) < order_text(second)) == (a < b)
    below = order_text(first) <= order_text(second) < order_text(first) + AFTER
    assert below == (b[: len(a)] == a)
    assert (order_text(second) in ancestors(first)) == (len(b) < len(a) and a[: len(b)] == b)
    assert order_texts(Texts.of([first.encode(), None, second.encode()])).strings() == [
        order_text(first), "", order_text(second)
    ]  # fmt: skip


def test_a_structured_condition_too_large_for_a_text_is_kept_whole() -> None:
    members = tuple(f"a long member of a list, number {number}" for number in range(5_000))
    where = ((Predicate("x", "in", values=members),),)
    text_, avro = conditions.written(where)
    assert text_ is None
    assert conditions.read(text_, avro) == Condition.from_predicates([[("x", "in", members)]]).disjuncts


def test_what_the_router_refuses_is_not_readable() -> None:
    import numpy as np
    import pyarrow as pa
    import pytest

    values_ = [
        b"no record",
        b'{"where": "x >"}',
        b'{"where": "x > 1 AND x < 1"}',
        b'{"topic": "1..2"}',
        None,
        b'{"topic": "1"}',
    ]
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"] * 6, pa.binary()),
            "value": pa.array(values_, pa.binary()),
            "partition": pa.array([0, 0, 1, 1, 1, 2], pa.int32()),
            "offset": pa.array([0, 1, 0, 1, 2, 0], pa.int64()),
            "arrived_at": pa.array(np.zeros(6, np.int64)),
        }
    )
    found = pa.Table.from_batches(decode_batch(batch, None))
    assert found["readable"].to_pylist() == [False] * 5 + [True]
    assert found["partition"].to_pylist() == [0, 0, 1, 1, 1, 2]
    with pytest.raises(SchemaError, match="never be true"):
        conditions.written("x > 1 AND x < 1")


def test_a_publication_without_an_id_gets_its_place() -> None:
    import numpy as np

    columns = decode_publications([None], [b'{"topic": "1"}'], 3, np.array([17]), np.array([5]))
    assert columns.publication_id.strings() == ["3-17"]


def test_names_of_the_previous_publication_are_not_picked() -> None:
    """They are not in the maps: `with_previous` brings them, and then whole maps are read."""
    condition = Condition.parse("previous.x > 1")
    asked = columns_asked([Subscription(condition.disjuncts)])
    assert asked is not None
    assert all(each.name.startswith(PREVIOUS) for each in asked)
