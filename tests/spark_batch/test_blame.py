"""Whatever one row causes is the refusal of that row: everything else is found, counted and answered as if it were not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.matching import Condition, Index
from pastforward.matching.conditions.oracle import Subscription
from pastforward.schemas import BackfillRequest, CanonicalSubscription, Publication, SchemaError, Version
from pastforward.schemas.acceptance import Accepted
from pastforward.schemas.errors import RegistryUnavailable
from pastforward.spark_batch import blame, decode, pairs, statistics
from pastforward.spark_batch.backfill import unanswerable
from pastforward.spark_batch.blame import Skipped, Tally, in_halves
from pastforward.spark_batch.commit import Commit
from pastforward.spark_batch.files import File
from pastforward.spark_batch.pairs import Asked, find_pairs, match_batch
from pastforward.spark_batch.query import find_rows, matching_rows, query
from pastforward.spark_batch.replay import replay
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.sketch import Sketch
from pastforward.spark_batch.tables import Places, ensure_publications
from pastforward.streams.routing import Directory
from pastforward.streams.routing.change import State, View
from tests.spark_batch.conftest import MakeSettings
from tests.spark_batch.records import rows_of
from tests.spark_batch.requests import FAR

ROWS = 23


class Unforeseen(Exception):
    pass


@given(st.integers(0, 40), st.sets(st.integers(0, 40)))
def test_halves_find_the_rows_to_blame(rows: int, bad: set[int]) -> None:
    def work(begin: int, end: int) -> list[int]:
        if bad & set(range(begin, end)):
            raise Unforeseen("of this row")
        return list(range(begin, end))

    blamed: dict[int, str] = {}

    def skip(row: int, error: SchemaError) -> list[int]:
        blamed[row] = error.kind
        return [-1]

    found = [each for part in in_halves(0, rows, work, skip) for each in part]
    assert found == [-1 if row in bad else row for row in range(rows)]
    assert blamed == {row: "internal" for row in bad if row < rows}


@pytest.mark.parametrize("fault", [MemoryError, OSError, RegistryUnavailable])
def test_faults_end_the_job(fault: type[Exception]) -> None:
    def work(begin: int, end: int) -> None:
        raise fault("no row is to blame")

    with pytest.raises(fault):
        in_halves(0, 10, work, lambda row, error: None)


def test_what_is_skipped_twice_counts_once_and_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blame, "MOST", 5)
    total = sum((Skipped({str(number % 3): "why"}) for number in range(100)), Skipped())
    assert total == Skipped({"0": "why", "1": "why", "2": "why"})
    assert len(sum((Skipped({str(number): "why"}) for number in range(100)), Skipped()).reasons) == 5


# ------------------------------------------------------------------------------------------------------ in a task


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that fails on some topics."""
    match = Index.match_attributes

    def fails(self: Index, attributes: Any, *, topics: Any, **more: Any) -> Any:
        if "6.6" in topics.to_pylist():
            raise Unforeseen("of this topic")
        return match(self, attributes, topics=topics, **more)

    monkeypatch.setattr(Index, "match_attributes", fails)


def published(bad: set[int]) -> pa.RecordBatch:
    topics = ["6.6" if number in bad else "1.2" for number in range(ROWS)]
    return rows_of(
        [Publication(f"p{number}", topic=topic, attributes={"x": number}) for number, topic in enumerate(topics)]
    )


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("bad", [set(), {0}, {ROWS - 1}, {3, 4, 17}, set(range(ROWS))])
def test_matching_goes_on(bad: set[int]) -> None:
    noted: list[Skipped] = []
    asked = Asked((Subscription(Condition.parse("x >= 0").disjuncts),))
    found = match_batch(asked, published(bad), None, noted.append)
    good = [f"p{number}" for number in range(ROWS) if number not in bad]
    assert found.column("publication_id").to_pylist() == good
    assert [place for each in noted for place in each.reasons] == [f"0-{number}" for number in sorted(bad)]
    noted.clear()
    assert matching_rows(asked, published(bad), noted.append).column("publication_id").to_pylist() == good
    assert len(noted) == len(bad)


def test_an_index_that_cannot_be_built_blames_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise Unforeseen("of a subscription")

    monkeypatch.setattr(pairs, "make_index", fails)
    with pytest.raises(Unforeseen):
        match_batch(Asked((Subscription(),)), published(set()), None)


def test_statistics_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Sketch.add

    def fails(self: Sketch, batch: pa.RecordBatch, random: Any) -> None:
        add(self, batch, random)  # what was counted by then must not count
        if 7 in batch.column("offset").to_pylist():
            raise Unforeseen("of this row")

    monkeypatch.setattr(Sketch, "add", fails)
    noted: list[Skipped] = []
    found = Sketch()
    statistics.add_rows(found, published(set()), noted.append)
    assert (found.rows, found.values["x", "integers"].count, len(noted)) == (ROWS - 1, ROWS - 1, 1)


def test_a_chunk_that_cannot_be_laid_out_loses_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, to_rows = list(range(5)), decode.to_rows

    def fails(columns: Any, *more: Any) -> pa.RecordBatch:
        if 3 in columns.offset:
            raise Unforeseen("of this row")
        return to_rows(columns, *more)

    monkeypatch.setattr(decode, "to_rows", fails)
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None] * 5, pa.binary()),
            "value": pa.array([b"{}"] * 5, pa.binary()),
            "partition": pa.array([0] * 5, pa.int32()),
            "offset": pa.array(rows, pa.int64()),
            "arrived_at": pa.array(rows, pa.int64()),
        }
    )
    found = pa.Table.from_batches(decode.decode_batch(batch, None))
    assert found["readable"].to_pylist() == [True, True, True, False, True]


# ------------------------------------------------------------------------------------------------------ requests


def open_request(name: str) -> Open:
    subscription = CanonicalSubscription(name, name, Version(FAR, 0, 7), "1", "overlap", 0, None, "published")
    return Open(name.encode(), 0, BackfillRequest(subscription, 0, FAR, FAR, 1, {0: 9}))


def test_a_request_that_cannot_be_answered_is_closed_and_the_others_are_not() -> None:
    view = View({1: Directory(1, "dewey", 2, 1)}, State(1))
    requests = [open_request(f"s{number}") for number in range(6)]
    requests[1].request.rendezvous_partition = 2
    requests[2].request.rendezvous_partition = -1
    requests[3].request.routing_version = 9
    requests[4].request.cut[2**31 - 1] = 5
    found = unanswerable(requests, view)
    assert found.keys() == {requests[number].key for number in (1, 2, 3, 4)}
    assert "no version 9" in found[requests[3].key]


# ------------------------------------------------------------------------- a table with rows that are refused today


@pytest.fixture
def old_table(spark: Any, history: MakeSettings, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of a version that took what the router refused: names and conditions of the previous publication, and one that does not parse."""
    settings = history()
    monkeypatch.setattr(decode, "accept_publications", lambda columns, rules: Accepted({}, {}))
    rows = rows_of(
        [
            Publication("good-1", topic="1.2", attributes={"x": 1}),
            Publication("forged", topic="1.2", attributes={"x": 2, "previous.x": 7}),
            Publication("of-previous", topic="1.2", attributes={"x": 3}),
            Publication("unreadable", topic="1.2", attributes={"x": 4}),
            Publication("good-2", topic="1.2", attributes={"x": 5}),
        ]
    )
    conditions = pa.array([None, None, "previous.x = 7", "x >", "y > 1"], pa.string())
    rows = rows.set_column(rows.schema.get_field_index("condition"), rows.schema.field("condition"), conditions)
    places = Places(settings.history)
    ensure_publications(spark, places)
    file = File(places.publications)
    file.add(rows)
    Commit(spark, places, "test", 0).commit([file.close()])
    return settings


def test_what_is_refused_today_is_skipped_and_counted(spark: Any, old_table: Any, tmp_path: Path) -> None:
    shown: list[dict[str, Any]] = []
    facts = query(spark, old_table, Subscription(), limit=None, parquet=None, show=shown.append).facts
    assert [each["publication_id"] for each in shown] == ["good-1", "good-2"]
    assert (facts["rows"], facts["skipped"]) == (2, 3)
    asked = {"previous": Subscription(Condition.parse("previous.x = 7").disjuncts)}
    summary, _ = replay(spark, old_table, asked, quiet=True)
    assert (summary.facts["matches"], summary.facts["skipped"]) == (0, 3)
    assert "3 publications could not be processed" in summary.line
    table = spark.read.format("delta").load(Places(old_table.history).publications)
    tally = Tally(spark)
    assert find_pairs(spark, table, [Subscription()], whole=True, note=tally.note).count() == 2
    counted: dict[str, Any] = {}
    tally.report(counted, "")
    assert counted["skipped"] == 3
    assert find_rows(spark, table, Subscription()).count() == 2
