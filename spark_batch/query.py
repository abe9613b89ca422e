"""Searches the history: a condition, a topic and a window give rows of the table, by the same index as everything else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from matching.oracle import Subscription
from pastforward.settings import Settings
from spark_batch.pairs import Asked
from spark_batch.prune import reachable
from spark_batch.rows import attributes_of, micros, normal_forms
from spark_batch.shown import Summary
from spark_batch.tables import MAPS, PUBLICATIONS, Places, read_publications, spark_schema


def find_rows(spark: Any, history: Any, subscription: Subscription) -> Any:
    """The rows that a subscription matches, as a DataFrame with the columns of the table."""
    wanted = reachable([subscription])
    rows = history if wanted is None else history.where(wanted)
    asked = spark.sparkContext.broadcast(Asked((subscription,)))
    return rows.select(*PUBLICATIONS.names).mapInArrow(_filter(asked), spark_schema(PUBLICATIONS))


def _filter(asked: Any) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows, _ = asked.value.index().match_attributes(
                attributes_of(batch, None),
                topics=batch.column("topic"),
                published_at=micros(batch.column("published_at")),
                expires_at=micros(batch.column("expires_at")),
                where=normal_forms(batch),
            )
            yield batch.take(pa.array(np.unique(rows)))

    return keep


def attributes_json(row: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a row of the table as JSON has them on the input topics."""
    found: dict[str, Any] = {}
    for name in MAPS:
        for key, value in (row[name] or {}).items():
            if name == "timestamps":
                value = {"timestamp": value.isoformat()}
            elif name == "paths":
                value = {"path": value}
            elif hasattr(value, "asDict"):
                value = value.asDict()
            found[key] = value
    return found


def plain(row: Any) -> dict[str, Any]:
    """A row for JSON lines and tables."""
    fields = row.asDict()
    found = {
        "publication_id": fields["publication_id"],
        "topic": fields["topic"],
        "published_at": fields["published_at"].isoformat(),
        "expires_at": None if fields["expires_at"] is None else fields["expires_at"].isoformat(),
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
    found = find_rows(spark, read_publications(spark, Places(settings.history)), subscription)
    if parquet is not None:
        found.write.mode("errorifexists").parquet(parquet)
        count = int(spark.read.parquet(parquet).count())
    else:
        ordered = found.orderBy("published_at", "partition", "offset")
        count = 0
        # a limit makes Spark keep only that many; without one rows come partition by partition
        for row in (ordered.limit(limit) if limit else ordered).toLocalIterator():
            show(plain(row))
            count += 1
    seconds = time.monotonic() - started
    more = " (there may be more: --limit)" if limit and count == limit and parquet is None else ""
    where = f", written to {parquet}" if parquet else ""
    return Summary(
        f"{count:,} publications{where}{more} in {seconds:.1f} s", {"rows": count, "seconds": round(seconds, 1)}
    )


def to_line(row: dict[str, Any]) -> str:
    return json.dumps(row, default=str, ensure_ascii=False)
