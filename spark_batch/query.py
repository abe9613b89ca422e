"""Searches the history: a condition, a topic and a window give rows of the table, by the same index as everything else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pastforward.columns.times import datetime_of
from pastforward.matching.conditions.oracle import Subscription
from pastforward.settings import Settings
from pastforward.spark_batch import duplicates
from pastforward.spark_batch.blame import Note, Tally, in_halves, joined, not_noted, skipped_row
from pastforward.spark_batch.pairs import Asked
from pastforward.spark_batch.prune import reachable
from pastforward.spark_batch.refused import read_taken
from pastforward.spark_batch.rows import attributes_of, micros, normal_forms
from pastforward.spark_batch.shown import Summary
from pastforward.spark_batch.tables import MAPS, PUBLICATIONS, Places, spark_schema
from pastforward.topics import Topics


def find_rows(spark: Any, history: Any, subscription: Subscription, note: Note = not_noted) -> Any:
    """The rows that a subscription matches, as a DataFrame with the columns of the table. `note` is called with rows that are skipped."""
    wanted = reachable([subscription])
    rows = history if wanted is None else history.where(wanted)
    asked = spark.sparkContext.broadcast(Asked((subscription,)))
    return rows.select(*PUBLICATIONS.names).mapInArrow(_filter(asked, note), spark_schema(PUBLICATIONS))


def _filter(asked: Any, note: Note) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield matching_rows(asked.value, batch, note)

    return keep


def matching_rows(asked: Asked, batch: pa.RecordBatch, note: Note) -> pa.RecordBatch:
    """The rows of a batch that match. A row that cannot be matched is noted, and left out."""
    index = asked.index()  # if that raises, no row is to blame

    def match(begin: int, end: int) -> pa.RecordBatch:
        part = batch.slice(begin, end - begin)
        rows, _ = index.match_attributes(
            attributes_of(part, None),
            topics=part.column("topic"),
            published_at=micros(part.column("published_at")),
            expires_at=micros(part.column("expires_at")),
            where=normal_forms(part),
        )
        return part.take(pa.array(np.unique(rows)))

    parts = in_halves(0, batch.num_rows, match, lambda row, error: note(skipped_row(batch, row, error)))
    return joined(parts, batch.schema)


def attributes_json(row: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a row of the table as JSON has them on the input topics."""
    found: dict[str, Any] = {}
    for name in MAPS:
        for key, value in (row[name] or {}).items():
            if name == "timestamps":
                value = {"timestamp": _shown(value)}
            elif name == "paths":
                value = {"path": value}
            elif hasattr(value, "asDict"):
                value = value.asDict()
            found[key] = value
    return found


def _shown(micros: int) -> str:
    return datetime_of(micros).isoformat()


def with_micros(rows: Any) -> Any:
    """Times as integers: Spark hands times to Python in the zone of the machine, where the first and the last year do not fit."""
    from pyspark.sql import functions as f

    times = {name: f.unix_micros(name) for name in ("published_at", "expires_at", "arrived_at")}
    return rows.withColumns(
        {**times, "timestamps": f.transform_values("timestamps", lambda _, value: f.unix_micros(value))}
    )


def plain(row: Any) -> dict[str, Any]:
    """A row for JSON lines and tables. `row`: of `with_micros`."""
    fields = row.asDict()
    found = {
        "publication_id": fields["publication_id"],
        "topic": fields["topic"],
        "published_at": _shown(fields["published_at"]),
        "expires_at": None if fields["expires_at"] is None else _shown(fields["expires_at"]),
        "publisher_id": fields["publisher_id"],
        "attributes": attributes_json(fields),
        "where": fields["condition"],
    }
    return {name: value for name, value in found.items() if value is not None}


def query(
    spark: Any,
    settings: Settings,
    subscription: Subscription,
    *,
    limit: int | None,
    parquet: str | None,
    show: Callable[[dict[str, Any]], None],
) -> Summary:
    """Hands rows to `show`, in the order of publication, or writes them all to `parquet`."""
    started = time.monotonic()
    tally = Tally(spark)
    places = Places(settings.history)
    found = find_rows(spark, read_taken(spark, places), subscription, tally.note)
    if not duplicates.are_resolved(spark, places, Topics(settings.topic_prefix).publications, settings.hot_window):
        found = found.dropDuplicates(duplicates.PLACE)
    if parquet is not None:
        found.write.mode("errorifexists").parquet(parquet)
        count = int(spark.read.parquet(parquet).count())
    else:
        ordered = found.orderBy("published_at", "partition", "offset")
        count = 0
        # a limit makes Spark keep only that many; without one rows come partition by partition
        for row in with_micros(ordered.limit(limit) if limit else ordered).toLocalIterator():
            show(plain(row))
            count += 1
    seconds = time.monotonic() - started
    more = " (there may be more: --limit)" if limit and count == limit and parquet is None else ""
    where = f", written to {parquet}" if parquet else ""
    facts = {"rows": count, "seconds": round(seconds, 1)}
    return Summary(tally.report(facts, f"{count:,} publications{where}{more} in {seconds:.1f} s"), facts)


def to_line(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, ensure_ascii=False)
