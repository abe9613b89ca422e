"""Events, known by id and topic, that came again within the hot window: only the first counts, by arrival, partition and offset.

One that came is a repeat if the last one of its id that counted came at most a hot window before. The ingest does not look: it would have
to read the whole table for each batch. Compaction deletes the duplicates, and notes up to which offsets it has looked; a backfill
looks itself at what it has found beyond them.

A row may also be in the table twice, with the same partition and offset: an ingest whose checkpoint was lost reads the topic again. Such
copies are one publication. They are no duplicates of each other: of copies one stays, of duplicates none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from pastforward.spark_batch.notes import Note
from pastforward.spark_batch.position import ingested, query_id
from pastforward.spark_batch.tables import Places, spark_schema

EVENT: Final = ["publication_id", "topic"]  # what an event is known by
# What a row is known by. The arrival tells records of a topic from those of one that was made anew under its name.
PLACE: Final = ["partition", "offset", "arrived_at"]
_PLACE: Final = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("arrived_at", pa.timestamp("us", "UTC")),
    ]
)


def find(rows: Any, hot_window: int) -> Any:
    """The places of all duplicates among rows, which must hold every row of an event that they hold one of."""
    from pyspark.sql import functions as f

    by_name = (
        rows.groupBy(*EVENT)
        .agg(
            f.sort_array(
                f.collect_set(f.struct(f.unix_micros("arrived_at").alias("arrived_at"), "partition", "offset"))
            ).alias("places")
        )
        .where(f.size("places") > 1)
        .select("places")
    )
    return by_name.mapInArrow(_chains(hot_window), spark_schema(_PLACE))


def are_resolved(spark: Any, places: Places, topic: str, hot_window: int) -> bool:
    """Whether compaction has looked at all that was ingested."""
    position = ingested(spark, places, topic)
    return bool(position) and position == resolved(spark, places, hot_window)


def copies(rows: Any) -> Any:
    """The places that are in the table more than once."""
    from pyspark.sql import functions as f

    return rows.groupBy(*PLACE).agg(f.count(f.lit(1)).alias("copies")).where("copies > 1").select(*PLACE)


def _chains(hot_window: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [each for places in batch.column("places").to_pylist() for each in losers(places, hot_window)]
            columns = [pa.array([each[name] for each in found], _PLACE.field(name).type) for name in _PLACE.names]
            yield pa.RecordBatch.from_arrays(columns, schema=_PLACE)

    return find


def losers(places: list[dict[str, int]], hot_window: int) -> list[dict[str, int]]:
    """The duplicates of one id, whose places come in order."""
    found = []
    counted: int | None = None
    for place in places:
        if counted is not None and place["arrived_at"] - counted <= hot_window:
            found.append(place)
        else:
            counted = place["arrived_at"]
    return found


# ------------------------------------------------------------------------------- how far they are resolved


def resolved(spark: Any, places: Places, hot_window: int) -> dict[int, int]:
    """The offsets below which there is neither repeat nor copy, by partition. Nothing, if the hot window has changed since, or the
    checkpoint of the ingest, which then has read the topic from its beginning."""
    document = Note(spark, places, "resolved").read()
    if document is None or document["hot_window"] != hot_window or document.get("query") != query_id(spark, places):
        return {}
    return {int(partition): int(offset) for partition, offset in document["offsets"].items()}


def note_resolved(spark: Any, places: Places, hot_window: int, offsets: Mapping[int, int]) -> None:
    document = {"hot_window": hot_window, "query": query_id(spark, places), "offsets": offsets}
    Note(spark, places, "resolved").write(document)


def beyond(offsets: Mapping[int, int]) -> Any:
    """A filter: rows that are not known to be resolved."""
    from pyspark.sql import functions as f

    looked = f.lit(False)
    for partition, offset in offsets.items():
        looked = looked | ((f.col("partition") == partition) & (f.col("offset") < offset))
    return ~looked


def without_duplicates(found: Any, history: Any, offsets: Mapping[int, int], hot_window: int) -> Any:
    """Rows or pairs without those whose publication is a repeat, and each once. `found` is read several times: persist it."""
    doubtful = found.where(beyond(offsets)).select(*EVENT).distinct()
    rows = history.select(*EVENT, *PLACE).join(doubtful, EVENT, "leftsemi")
    first = found.join(find(rows, hot_window), PLACE, "leftanti")
    return first.dropDuplicates([*PLACE, *(name for name in ("asked",) if name in found.columns)])
