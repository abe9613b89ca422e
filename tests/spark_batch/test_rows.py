"""What goes into the table comes out again, and means there what it means to the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.columns.texts import Texts
from pastforward.matching import Condition
from pastforward.matching.conditions.normal_form import ALWAYS, PREVIOUS
from pastforward.matching.conditions.oracle import Publication, Subscription, matches
from pastforward.matching.conditions.types import classify
from pastforward.matching.conditions.values import Value
from pastforward.schemas import Predicate, SchemaError, attributes_of, decode_publications
from pastforward.schemas import Publication as PublicationRecord
from pastforward.schemas.acceptance import normal_form, speaks_of_previous
from pastforward.spark_batch import conditions, rows
from pastforward.spark_batch.decode import decode_batch
from pastforward.spark_batch.order import AFTER, ancestors, order_text, order_texts
from pastforward.spark_batch.pairs import Asked, match_batch
from pastforward.spark_batch.prune import columns_asked
from pastforward.spark_batch.tables import MAPS
from tests.matching import strategies as known
from tests.spark_batch.records import pick, rows_of

TOPICS = [*known.TOPICS, "1.9", "9223372036854775807.1"]


def _storable(value: Any) -> bool:
    """What a record can carry at all: NaN, and what compares with anything."""
    return isinstance(value, float) or classify(value) is not None


attributes = st.one_of(
    known.attributes_of(strange=False),
    st.dictionaries(st.sampled_from(known.NAMES), known.values.filter(_storable), max_size=5),
)


def said(text: str) -> bool:
    """A condition that never holds is refused, and is not in the history."""
    return not Condition.parse(text).never


@dataclass
class Row:
    """A publication, what its previous one carried, and whether its condition is stored as Avro, as one too large for a text is."""

    record: PublicationRecord
    previous: dict[str, Value]
    as_avro: bool

    @property
    def offer(self) -> Publication:
        return replace(offer(self.record), previous=self.previous)


publications = st.builds(
    PublicationRecord,
    publisher_id=st.none() | st.just("someone"),
    topic=st.sampled_from([*[""] * 8, *TOPICS]),
    published_at=st.sampled_from(known.MOMENTS),
    expires_at=st.none() | st.sampled_from([31, 40]),
    attributes=attributes,
    where=st.none() | known.texts(max_leaves=4, previous=False).filter(said),
    self_join=st.booleans(),
    body=st.none() | st.binary(max_size=3),
)
stored = st.builds(Row, publications, known.attributes_of(strange=False, most=2), st.booleans())


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


@given(st.lists(known.subscriptions(), min_size=1, max_size=5), st.lists(stored, min_size=1, max_size=6))
@settings(max_examples=250, deadline=None)
def test_history_and_stream_find_the_same_pairs(asked: list[Subscription], given_: list[Row]) -> None:
    """Every type, operator and semantics, published conditions in both forms, `previous.…`: as a backfill finds them."""
    named([row.record for row in given_])
    batch = table_of(given_)
    expected = sorted(
        (number, row.record.publication_id)
        for number, subscription in enumerate(asked)
        for row in given_
        if matches(subscription, row.offer)
    )
    assert found_in(asked, batch, None) == expected
    picked = columns_asked(asked)
    if picked is not None and not any(speaks_of_previous(subscription.disjuncts) for subscription in asked):
        # only publications without a condition take this way
        plain = batch.filter(pc.and_(batch.column("condition").is_null(), batch.column("condition_avro").is_null()))
        names = set(plain.column("publication_id").to_pylist())
        assert found_in(asked, pick(plain, picked), picked) == [pair for pair in expected if pair[1] in names]


def table_of(given_: list[Row]) -> pa.RecordBatch:
    """Rows with the attributes of the previous publication beside their own, as `with_previous` adds them."""
    batch = rows_of([row.record for row in given_])
    assert batch.num_rows == len(given_)
    forms = rows.normal_forms(batch) or [None] * len(given_)
    texts, avro = batch.column("condition").to_pylist(), [None] * len(given_)
    for number, (row, form) in enumerate(zip(given_, forms, strict=True)):
        if row.as_avro and form is not None and _readable(form):
            texts[number], avro[number] = None, conditions.to_avro(form)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns |= {"condition": pa.array(texts, pa.string()), "condition_avro": pa.array(avro, pa.binary())}
    before = rows_of([PublicationRecord(f"p{n}", attributes=row.previous) for n, row in enumerate(given_)])
    columns |= {rows.PREVIOUS_MAP + name: before.column(name) for name in MAPS}
    return pa.RecordBatch.from_pydict(columns)


def _readable(form: Any) -> bool:
    """A bound one step beyond the calendar (NOT BETWEEN … AND its last moment) is written, and refused when it is read."""
    try:
        return conditions.read(None, conditions.to_avro(form)) is not None
    except SchemaError:
        return False


def found_in(asked: list[Subscription], batch: pa.RecordBatch, picked: Any) -> list[tuple[int, str]]:
    found = match_batch(Asked(tuple(asked)), batch, picked, refused)
    return sorted(zip(found["asked"].to_pylist(), found["publication_id"].to_pylist(), strict=True))


def refused(skipped: Any) -> None:
    raise AssertionError(f"a row was skipped: {skipped}")


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
    text_, avro = conditions.written(where, normal_form(where))
    assert text_ is None
    assert conditions.read(text_, avro) == Condition.from_predicates([[("x", "in", members)]]).disjuncts


def test_what_the_router_refuses_is_not_readable() -> None:
    import numpy as np
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
        conditions.read("x > 1 AND x < 1", None)


def test_a_publication_without_an_id_gets_its_place() -> None:
    import numpy as np

    columns = decode_publications([None], [b'{"topic": "1"}'], 3, np.array([17]), np.array([5]))
    assert columns.publication_id.strings() == ["~3-17"]


def test_names_of_the_previous_publication_are_not_picked() -> None:
    """They are not in the maps: `with_previous` brings them, and then whole maps are read."""
    condition = Condition.parse("previous.x > 1")
    asked = columns_asked([Subscription(condition.disjuncts)])
    assert asked is not None
    assert all(each.name.startswith(PREVIOUS) for each in asked)
