"""Publications whose id came again within the hot window: only the first counts, by arrival, partition and offset.

One that came is a repeat if the last one of its id that counted came at most a hot window before. The ingest does not look: it would have
to read the whole table for each batch. Compaction deletes the repeats, and notes up to which offsets it has looked; a backfill
looks itself at what it has found beyond them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from spark_batch.tables import Places, spark_schema

_PLACE = pa.schema([pa.field("partition", pa.int32()), pa.field("offset", pa.int64())])


def repeats(rows: Any, hot_window: int) -> Any:
    """`partition` and `offset` of all repeats among rows, which must hold every row of an id that they hold one of."""
    from pyspark.sql import functions as f

    by_name = (
        rows.groupBy("publication_id")
        .agg(
            f.sort_array(
                f.collect_list(f.struct(f.unix_micros("arrived_at").alias("arrived_at"), "partition", "offset"))
            ).alias("places")
        )
        .where(f.size("places") > 1)
        .select("places")
    )
    return by_name.mapInArrow(_chains(hot_window), spark_schema(_PLACE))


def _chains(hot_window: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [each for places in batch.column("places").to_pylist() for each in losers(places, hot_window)]
            columns = [pa.array([each[name] for each in found], _PLACE.field(name).type) for name in _PLACE.names]
            yield pa.RecordBatch.from_arrays(columns, schema=_PLACE)

    return find


def losers(places: list[dict[str, int]], hot_window: int) -> list[dict[str, int]]:
    """The repeats of one id, whose places come in order."""
    found = []
    counted: int | None = None
    for place in places:
        if counted is not None and place["arrived_at"] - counted <= hot_window:
            found.append(place)
        else:
            counted = place["arrived_at"]
    return found


# ------------------------------------------------------------------------------- how far they are resolved


def _note(spark: Any, places: Places) -> tuple[Any, Any]:
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{places.root.rstrip('/')}/checkpoints/resolved.json")
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())


def resolved(spark: Any, places: Places, hot_window: int) -> dict[int, int]:
    """The offsets below which there is no repeat, by partition. Nothing, if the hot window has changed since."""
    path, system = _note(spark, places)
    if not system.exists(path):
        return {}
    stream = system.open(path)
    try:
        document = json.loads(spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()
    if document["hot_window"] != hot_window:
        return {}
    return {int(partition): int(offset) for partition, offset in document["offsets"].items()}


def note_resolved(spark: Any, places: Places, hot_window: int, offsets: Mapping[int, int]) -> None:
    path, system = _note(spark, places)
    stream = system.create(path, True)
    try:
        stream.write(bytearray(json.dumps({"hot_window": hot_window, "offsets": offsets}).encode()))
    finally:
        stream.close()


def beyond(offsets: Mapping[int, int]) -> Any:
    """A filter: rows that are not known to be resolved."""
    from pyspark.sql import functions as f

    looked = f.lit(False)
    for partition, offset in offsets.items():
        looked = looked | ((f.col("partition") == partition) & (f.col("offset") < offset))
    return ~looked


def without_repeats(found: Any, history: Any, offsets: Mapping[int, int], hot_window: int) -> Any:
    """Pairs without those whose publication is a repeat. `found` is read several times: persist it."""
    doubtful = found.where(beyond(offsets)).select("publication_id").distinct()
    rows = history.select("publication_id", "arrived_at", "partition", "offset").join(
        doubtful, "publication_id", "leftsemi"
    )
    return found.join(repeats(rows, hot_window), ["partition", "offset"], "leftanti")
