"""The jobs on a table that was written without Kafka."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.columns.times import EPOCH
from pastforward.columns.vocabulary import SEMANTICS
from pastforward.errors import UserError
from pastforward.matching import Condition
from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.oracle import Subscription, in_time, matches
from pastforward.schemas import Publication
from pastforward.settings import Settings
from pastforward.spark_batch import compact as compact_module
from pastforward.spark_batch.commit import Commit
from pastforward.spark_batch.compact import compact, expired_filter, retired_filter
from pastforward.spark_batch.files import File, in_order
from pastforward.spark_batch.pairs import find_pairs
from pastforward.spark_batch.prune import MOST_WRITTEN, reachable
from pastforward.spark_batch.query import query
from pastforward.spark_batch.replay import chart, replay
from pastforward.spark_batch.sketch import Sketch
from pastforward.spark_batch.statistics import propose_catalog, statistics
from pastforward.spark_batch.tables import Places, ensure_publications, read_publications
from pastforward.spark_batch.usage import Usage
from pastforward.streams.routing import Catalog, Seen
from tests.spark_batch.conftest import MakeSettings
from tests.spark_batch.records import rows_of
from tests.spark_batch.test_hot_and_cold import _open
from tests.spark_batch.test_rows import offer

DAY = 86_400_000_000
HOUR = DAY // 24


def write(spark: Any, settings: Settings, records: list[Publication], arrived_at: list[int], first: int = 0) -> None:
    places = Places(settings.history)
    ensure_publications(spark, places)
    batch = rows_of(records, arrived_at, [0] * len(records), list(range(first, first + len(records))))
    spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1).write.format("delta").mode("append").save(
        places.publications
    )


def some(count: int, start: int = 0) -> list[Publication]:
    return [
        Publication(
            f"p{number}",
            topic=f"1.{number % 12}.{number % 5}",
            published_at=DAY + (number % 72) * HOUR,
            expires_at=DAY * 9 if number % 4 == 0 else None,
            attributes={
                "number": number,
                "kind": ("jam", "accident")[number % 2],
                "speed": number / 2,
                "open": number % 3 == 0,
            },
            where="number > 3 AND kind = 'jam'" if number % 7 == 0 else None,
        )
        for number in range(start, start + count)
    ]


def found(spark: Any, settings: Settings, subscription: Subscription, **options: Any) -> list[str]:
    rows: list[dict[str, Any]] = []
    query(spark, settings, subscription, limit=None, parquet=None, show=rows.append, **options)
    return [row["publication_id"] for row in rows]


def test_a_history_is_searched_compacted_and_understood(spark: Any, history: MakeSettings, tmp_path: Path) -> None:
    settings = history(hot_window="1h")
    records = some(60)
    for part in range(4):
        mine = records[15 * part : 15 * (part + 1)]
        write(spark, settings, mine, [DAY * 4 + 15 * part + i for i in range(15)], 15 * part)
    again = [Publication("p3", topic="1.3.3", published_at=DAY * 2, attributes={"number": 1000})] * 2
    write(spark, settings, again, [DAY * 4 + HOUR, DAY * 5], 60)
    asked = Subscription(Condition.parse("number >= 20 AND kind = 'jam'").disjuncts, "1.4", starts_at=DAY + 2 * HOUR)
    expected = [
        r.publication_id for r in sorted(records, key=lambda r: r.published_at or 0) if matches(asked, offer(r))
    ]
    assert expected
    assert found(spark, settings, asked) == expected

    summary = compact(spark, settings, vacuum_hours=None, quiet=True).facts
    assert (summary["files_before"], summary["files_after"], summary["repeats_removed"]) == (5, 1, 1)
    assert found(spark, settings, asked) == expected
    names = deltalake.DeltaTable(Places(settings.history).publications).to_pyarrow_table(
        columns=["publication_id", "offset"]
    )
    assert sorted(names["offset"].to_pylist()) == [*range(60), 61]  # the later one came after the hot window
    summary = compact(spark, settings, vacuum_hours=None, quiet=True).facts
    assert (summary["files_before"], summary["files_after"], summary["repeats_removed"]) == (1, 1, 0)

    catalog, page = tmp_path / "catalog.toml", tmp_path / "statistics.html"
    facts = statistics(spark, settings, catalog=catalog, page=page, without_kafka=True, quiet=True).facts
    assert (facts["publications"], facts["attributes"]) == (61, 4)
    proposed = Catalog.from_toml(catalog.read_text())
    assert proposed.index_statistics()["kind"] == Seen("kind", round(60 / 61, 6), 2)
    kinds = {a.name: (a.type, a.kind, a.domain) for a in proposed.attributes}
    assert kinds["kind"] == ("string", "equality", None)
    assert kinds["number"][0] == "integer"
    assert "data:image/png" in page.read_text()

    wide = Subscription(Condition.parse("number BETWEEN 0 AND 59").disjuncts)
    result, counts = replay(spark, settings, {"wide": wide, "asked": asked}, quiet=True)
    assert result.facts["matches"] == sum(matches(wide, offer(r)) for r in records) + len(expected)
    assert {each["day"] for each in counts} == {"1970-01-02", "1970-01-03", "1970-01-04"}
    assert len(chart(counts)) == 3
    before_any_data = Subscription(ends_at=DAY)
    assert found(spark, settings, before_any_data) == []


def test_a_proposed_catalog_can_be_read_however_wide_a_domain_is() -> None:
    """A step of one integer over five billion would be more steps than a catalog may have."""
    batch = rows_of(
        [Publication(f"p{n}", attributes={"wide": n * 50_000_000, "odd": (n, "text")[n % 2]}) for n in range(200)]
    )
    sketch = Sketch()
    sketch.add(batch, np.random.default_rng(1))
    catalog = Catalog.from_toml(propose_catalog(sketch, Usage()).to_toml())
    assert [(a.name, a.kind, a.domain) for a in catalog.attributes] == [("wide", "range", (0, 199 * 50_000_000))]
    assert [(seen.name, seen.present) for seen in catalog.statistics] == [("odd", 1.0), ("wide", 1.0)]


def test_without_a_history_the_next_step_is_named(spark: Any, history: MakeSettings) -> None:
    settings = history()
    with pytest.raises(UserError, match="history ingest"):
        read_publications(spark, Places(settings.history))
    assert compact(spark, settings).facts["files_after"] == 0


def test_spark_finds_the_pairs_of_the_definition(spark: Any, history: MakeSettings) -> None:
    settings = history()
    records = some(80)
    write(spark, settings, records, [DAY * 4 + i for i in range(80)])
    choose = random.Random(7)
    conditions = [
        "number < 30",
        "speed >= 20 OR kind = 'jam'",
        "open",
        "number IS NULL",
        "kind != 'jam' AND number IN (1, 3, 77)",
    ]
    asked = [
        Subscription(
            Condition.parse(choose.choice(conditions)).disjuncts,
            choose.choice(["", "1", "1.4", "1.4.4", "2", "1.10"]),
            choose.choice(["overlap", "subtree"]),
            choose.choice([None, DAY + 9 * HOUR]),
            choose.choice([None, DAY * 2, DAY * 3]),
            choose.choice(["published", "valid"]),
            semantics,
        )
        for semantics in (SEMANTICS[0], SEMANTICS[2])
        for _ in range(40)
    ]
    expected = sorted((i, r.publication_id) for i, s in enumerate(asked) for r in records if matches(s, offer(r)))
    table = read_publications(spark, Places(settings.history))
    pairs = find_pairs(spark, table, asked).select("asked", "publication_id").collect()
    assert sorted((row[0], row[1]) for row in pairs) == expected
    few = asked[:3]
    pairs = find_pairs(spark, table, few).select("asked", "publication_id").collect()
    assert sorted((row[0], row[1]) for row in pairs) == [pair for pair in expected if pair[0] < 3]


def test_a_compaction_that_died_between_its_steps_is_finished_by_the_next(
    spark: Any, history: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = history(hot_window="1h")
    write(spark, settings, some(5), [DAY] * 5)
    write(spark, settings, some(5), [DAY + 1] * 5, 5)

    def die(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(compact_module, "_merge", die)
        with pytest.raises(RuntimeError, match="killed"):
            compact(spark, settings, vacuum_hours=None, quiet=True)
    facts = compact(spark, settings, vacuum_hours=None, quiet=True).facts
    assert facts["repeats_removed"] == 0
    rows = read_publications(spark, Places(settings.history)).select("offset").collect()
    assert sorted(row[0] for row in rows) == [0, 1, 2, 3, 4]
    with pytest.raises(UserError, match="168"):
        compact(spark, settings, vacuum_hours=1, quiet=True)


def places_of(settings: Settings) -> list[tuple[int, str]]:
    table = deltalake.DeltaTable(Places(settings.history).publications).to_pyarrow_table(
        columns=["offset", "publication_id"]
    )
    return sorted(zip(table["offset"].to_pylist(), table["publication_id"].to_pylist(), strict=True))


def by_place(table: deltalake.DeltaTable) -> dict[tuple[int, str], Any]:
    return {(row["offset"], row["publication_id"]): row for row in table.to_pyarrow_table().to_pylist()}


def test_of_rows_that_are_there_twice_exactly_one_stays(
    spark: Any, history: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a lost checkpoint: whole batches come again, some more than once, repeats of an id among them."""
    settings = history(hot_window="1h")
    records = [replace(record, where=None) for record in some(8)]
    again = [Publication("p2", topic=records[2].topic, published_at=DAY, attributes={"number": 99})] * 2
    arrived = [DAY * 4 + n for n in range(8)]
    write(spark, settings, records, arrived)
    write(spark, settings, [*records, *again], [*arrived, DAY * 4 + HOUR, DAY * 5])
    write(spark, settings, [*records[5:], *again], [*arrived[5:], DAY * 4 + HOUR, DAY * 5], 5)
    # at a place that is taken, but another record: of a topic that was made anew
    write(spark, settings, [Publication("other", topic="1.3", published_at=DAY)], [DAY * 6], 3)
    everything = Subscription()
    once = sorted([*(r.publication_id for r in records), "other", "p2", "p2"])
    assert sorted(found(spark, settings, everything)) == once
    asked = Subscription(Condition.parse("number >= 0").disjuncts)
    assert replay(spark, settings, {"all": asked}, quiet=True)[0].facts["matches"] == 8 + 1
    whole = deltalake.DeltaTable(Places(settings.history).publications)
    before, rows = whole.version(), by_place(whole)

    def die(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(compact_module, "_merge", die)
        with pytest.raises(RuntimeError, match="killed"):
            compact(spark, settings, vacuum_hours=None, quiet=True)
    left = [*enumerate(f"p{n}" for n in range(8)), (3, "other"), (9, "p2")]
    assert places_of(settings) == sorted(left)
    whole = deltalake.DeltaTable(Places(settings.history).publications)
    assert whole.version() == before + 1, "killed at any moment, it is as it was or as it shall be"
    assert by_place(whole) == {place: row for place, row in rows.items() if place in left}
    facts = compact(spark, settings, vacuum_hours=None, quiet=True).facts
    assert (facts["repeats_removed"], places_of(settings)) == (0, sorted(left))
    assert sorted(found(spark, settings, everything)) == sorted(name for _, name in left)


def test_what_an_open_request_may_see_is_not_removed(spark: Any) -> None:
    from pastforward.schemas import BackfillRequest, CanonicalSubscription, Version

    def request(starts_at: int, log_time: int, basis: Any) -> Any:
        subscription = CanonicalSubscription("s", "who", Version(1, 0, 0), "", "overlap", starts_at, None, basis)
        return _open(BackfillRequest(subscription, 0, log_time - HOUR, log_time, 1, {0: 1}), 0)

    times = [(DAY, None), (DAY, 2 * DAY), (3 * DAY, 4 * DAY), (5 * DAY, None)]

    def stamp(at: int | None) -> Any:
        return None if at is None else EPOCH + timedelta(microseconds=at)

    rows = spark.createDataFrame(
        [(i, stamp(p), stamp(e), stamp(p)) for i, (p, e) in enumerate(times)],
        "number int, published_at timestamp, expires_at timestamp, arrived_at timestamp",
    )

    def removed(condition: Any) -> list[int]:
        return sorted(row[0] for row in rows.where(condition).collect())

    assert removed(expired_filter(6 * DAY, [])) == [1, 2]
    assert removed(expired_filter(6 * DAY, [request(0, 3 * DAY, "published")])) == [1]
    assert removed(retired_filter(4 * DAY, [])) == [0, 1, 2]
    assert removed(retired_filter(4 * DAY, [request(2 * DAY, 6 * DAY, "published")])) == [0, 1]
    assert removed(retired_filter(4 * DAY, [request(3 * DAY, 6 * DAY, "valid")])) == [1]


MOMENTS = [0, DAY, 2 * DAY, 3 * DAY]
WINDOWS = [
    Subscription(starts_at=starts, ends_at=ends, time=basis)
    for starts in (None, *MOMENTS)
    for ends in (None, *MOMENTS)
    for basis in ("published", "valid")
    if starts is None or ends is None or starts < ends
]


def _times(spark: Any) -> tuple[list[tuple[int, int | None]], Any]:
    """Every order of publication and expiry, with and without one, as rows of the history."""
    times = [(at, until) for at in MOMENTS for until in (None, *MOMENTS, 4 * DAY) if until is None or until > at]
    records = [
        Publication(f"p{n}", topic="1", published_at=at, expires_at=until) for n, (at, until) in enumerate(times)
    ]
    rows = spark.createDataFrame(pa.Table.from_batches([rows_of(records, [at for at, _ in times])]))
    return times, rows


def test_no_filter_leaves_out_what_a_window_reaches(spark: Any) -> None:
    """Each window by itself, exactly; and by the hull that many have together, never too little."""
    from pyspark.sql import functions as f

    times, rows = _times(spark)
    wanted = [
        {n for n, (at, until) in enumerate(times) if in_time(s, oracle.Publication(published_at=at, expires_at=until))}
        for s in WINDOWS
    ]
    alone = [reachable([s]) for s in WINDOWS]
    rows = rows.select("publication_id", "path", "published_at", "expires_at")
    columns = [f.lit(True) if each is None else f.coalesce(each, f.lit(False)) for each in alone]
    for row in rows.select("publication_id", *columns).collect():
        number = int(row[0][1:])
        assert [bool(each) for each in row[1:]] == [number in each for each in wanted], times[number]
    for basis in ("published", "valid"):
        some_of = [(s, each) for s, each in zip(WINDOWS, wanted, strict=True) if s.time == basis and s.starts_at]
        many = [replace(s, topic=f"1.{n}") for n in range(8) for s, _ in some_of]
        assert len({(s.topic, s.starts_at, s.ends_at) for s in many}) > MOST_WRITTEN
        let_through = {int(row[0][1:]) for row in rows.where(reachable(many)).select("publication_id").collect()}
        assert let_through >= set().union(*(each for _, each in some_of))


def test_no_file_is_left_out_that_a_window_reaches(spark: Any, history: MakeSettings) -> None:
    """By the bounds of files that Python writes: what never expires has no bound, alone in a file or beside what does."""
    from pyspark.sql import functions as f

    places = Places(history().history)
    ensure_publications(spark, places)
    lasting = [(at, None) for at in MOMENTS]
    ending = [(at, at + DAY // 2) for at in MOMENTS]
    kinds = [[each] for each in lasting + ending] + [[a, b] for a, b in zip(lasting, ending, strict=True)]
    kinds += [ending, lasting, [lasting[0], *ending]]
    adds: list[str] = []
    times: list[tuple[int, int | None]] = []
    for kind in kinds:
        file = File(places.publications)
        numbers = range(len(times), len(times) + len(kind))
        records = [
            Publication(f"p{n}", topic="1", published_at=at, expires_at=until)
            for n, (at, until) in zip(numbers, kind, strict=True)
        ]
        file.add(rows_of(records, [at for at, _ in kind], [0] * len(kind), list(numbers)))
        adds.append(file.close() or "")
        times += kind
    Commit(spark, places, "query", 0).commit(adds)
    table = read_publications(spark, places).select("publication_id", "path", "published_at", "expires_at")

    def reached(windows: list[Subscription]) -> set[int]:
        return {
            n
            for n, (at, until) in enumerate(times)
            if any(in_time(s, oracle.Publication(published_at=at, expires_at=until)) for s in windows)
        }

    windows = [[s] for s in WINDOWS if s.time == "valid" and s.starts_at in (DAY, 3 * DAY)]
    many = [
        Subscription(topic=f"1.{n}", starts_at=2 * DAY + n, ends_at=3 * DAY, time="valid")
        for n in range(MOST_WRITTEN + 1)
    ]
    passes = [
        table.where(reachable(each)).select(f.lit(number), "publication_id")
        for number, each in enumerate([*windows, many])
    ]
    let_through: list[set[int]] = [set() for _ in passes]
    for number, name in reduce(lambda a, b: a.union(b), passes).collect():
        let_through[number].add(int(name[1:]))
    assert let_through[:-1] == [reached(each) for each in windows]
    assert let_through[-1] >= reached(many) > set()


def test_a_batch_enters_the_table_once(spark: Any, history: MakeSettings) -> None:
    places = Places(history().history)
    ensure_publications(spark, places)
    file = File(places.publications)
    file.add(rows_of(some(3)))
    add = file.close()
    assert add is not None
    first, other = Commit(spark, places, "query", 0), Commit(spark, places, "query", 0)
    first.commit([add])
    with pytest.raises(Exception, match="ConcurrentTransaction"):
        other.commit([add])
    assert Commit(spark, places, "query", 0).is_done
    assert not Commit(spark, places, "query", 1).is_done
    assert not Commit(spark, places, "another", 0).is_done
    rows = (
        read_publications(spark, places)
        .where("integers['number'] >= 1")
        .select("publication_id", "timestamps")
        .collect()
    )
    assert sorted(tuple(row) for row in rows) == [("p1", None), ("p2", None)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=20),
    st.lists(st.integers(0, 20), max_size=4),
    st.dictionaries(st.integers(0, 2), st.integers(0, 5)),
)
def test_arrivals_never_go_back(rows: list[tuple[int, int]], cuts: list[int], before: dict[int, int]) -> None:
    """In a partition, however its rows are cut into batches: a broker's clock may step back."""
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    highest: dict[int, int] = {}
    wanted, latest = [], dict(before)
    for partition, at in rows:
        latest[partition] = max(at, latest.get(partition, 0))
        wanted.append(latest[partition])
    found: list[int] = []
    for first, end in pairwise(edges):
        columns = list(zip(*rows[first:end], strict=True))
        batch = pa.record_batch(
            {"partition": pa.array(columns[0], pa.int32()), "arrived_at": pa.array(columns[1], pa.int64())}
        )
        found += in_order(batch, before, highest).column("arrived_at").to_pylist()
    assert found == wanted
    assert highest == {partition: latest[partition] for partition, _ in rows}


def test_the_highest_arrivals_are_in_the_commit_of_their_batch(spark: Any, history: MakeSettings) -> None:
    places = Places(history().history)
    ensure_publications(spark, places)
    assert Commit(spark, places, "query", 0).arrived([0, 1]) == {0: 0, 1: 0}
    Commit(spark, places, "query", 0).commit([], {0: 2**60, 1: 7})
    Commit(spark, places, "query", 1).commit([], {1: 9})
    assert Commit(spark, places, "query", 2).arrived([0, 1, 2]) == {0: 2**60, 1: 9, 2: 0}
    assert Commit(spark, places, "another", 0).arrived([0, 1]) == {0: 0, 1: 0}


def test_a_summary_is_a_line_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    from pastforward.spark_batch.shown import Summary

    Summary("done", {"rows": 3}).print(as_json=True)
    Summary("done", {"rows": 3}).print(as_json=False)
    first, second = capsys.readouterr().out.splitlines()
    assert (json.loads(first), second) == ({"rows": 3}, "done")
