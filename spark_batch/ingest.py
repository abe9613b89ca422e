"""Keeps what was published: from the publications topic into the table.

Exactly once: a batch is a range of offsets that the checkpoint fixes before it runs, and its rows enter the table in one commit that
carries the batch's number, so a batch that is repeated after a kill is recognised and left out. One ingest runs at a time; a second
one fails on the checkpoint and changes nothing.
"""

from __future__ import annotations

import time
from typing import Any, Final

from pastforward.errors import UserError
from pastforward.settings import Settings
from pastforward.topics import Topics
from spark_batch.decode import DECODED, decoder
from spark_batch.kafka import MakeRegistry, bootstrap_of, spark_options, watermarks
from spark_batch.position import ingested
from spark_batch.shown import REFRESH, Bar, Summary, bar
from spark_batch.tables import Places, ensure_publications, spark_schema

BATCH_ROWS: Final = 1_000_000  # of a batch: a commit costs about a second, and what a kill undoes is one batch
FOLLOW_SECONDS: Final = 10  # between two batches of --follow: each makes a file for each partition


def ingest(
    spark: Any, settings: Settings, *, follow: bool = False, allow_loss: bool = False, quiet: bool = False
) -> Summary:
    """Returns when everything that was there at the start is in the table; with `follow`, when it is interrupted."""
    bootstrap = bootstrap_of(settings)
    topic = Topics(settings.topic_prefix).publications
    places = Places(settings.history)
    known = watermarks(settings, bootstrap, topic)
    position = ingested(spark, places, topic)
    if not allow_loss:
        check_loss(topic, position, known)
    ensure_publications(spark, places)
    started = time.monotonic()
    waiting = sum(max(0, end - max(position.get(p, 0), begin)) for p, (begin, end) in known.items())
    query = _start(spark, settings, bootstrap, topic, places, follow, allow_loss)
    with bar("ingesting", quiet) as shown:
        counts = _watch(query, shown, None if follow else waiting)
    rows, unreadable = counts
    seconds = time.monotonic() - started
    facts = {"ingested": rows - unreadable, "unreadable": unreadable, "seconds": round(seconds, 1)}
    rate = f"{rows / max(seconds, 1e-6):,.0f} a second"
    return Summary(
        f"ingested {rows - unreadable:,} publications, {unreadable:,} unreadable, in {seconds:.1f} s ({rate})", facts
    )


def check_loss(topic: str, position: dict[int, int], known: dict[int, tuple[int, int]]) -> None:
    """Offsets that retention took before they were ingested, or a topic that was made anew, are errors."""
    for partition, at in sorted(position.items()):
        begin, end = known.get(partition, (0, 0))
        if at < begin:
            raise UserError(
                f"{topic} partition {partition}: offsets {at} to {begin - 1} are no longer there, and were never ingested; "
                f"run with --allow-loss to go on from {begin}"
            )
        if at > end:
            raise UserError(
                f"{topic} partition {partition} ends at {end}, but {at} was ingested already: the topic was made anew; "
                f"choose another HISTORY for it"
            )


def _start(
    spark: Any, settings: Settings, bootstrap: str, topic: str, places: Places, follow: bool, allow_loss: bool
) -> Any:
    from pyspark.sql import functions as f

    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    source = (
        spark.readStream.format("kafka")
        .options(**spark_options(settings, bootstrap))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not allow_loss).lower())
        .option("maxOffsetsPerTrigger", BATCH_ROWS)
        .load()
        .select("key", "value", "partition", "offset", f.expr("unix_micros(timestamp)").alias("arrived_at"))
    )
    decoded = source.mapInArrow(decoder(MakeRegistry.of(settings)), spark_schema(DECODED)).observe(
        "ingest", f.count(f.lit(1)).alias("rows"), f.count_if(~f.col("readable")).alias("unreadable")
    )
    rows = decoded.where("readable").drop("readable")
    writer = rows.writeStream.format("delta").outputMode("append").option("checkpointLocation", places.checkpoint)
    writer = writer.trigger(processingTime=f"{FOLLOW_SECONDS} seconds") if follow else writer.trigger(availableNow=True)
    return writer.start(places.publications)


def _watch(query: Any, shown: Bar, total: int | None) -> tuple[int, int]:
    """Rows and unreadable rows of all batches of this run."""
    by_batch: dict[int, tuple[int, int]] = {}

    def look() -> None:
        for progress in query.recentProgress:
            metrics = progress.observedMetrics.get("ingest")
            if metrics is not None and progress.numInputRows:
                by_batch[progress.batchId] = (int(metrics["rows"]), int(metrics["unreadable"]))
        shown.update(sum(rows for rows, _ in by_batch.values()), total)

    try:
        while not query.awaitTermination(REFRESH):
            look()
    except KeyboardInterrupt:
        pass  # --follow ends so; the batch under way is repeated by the next run
    finally:
        if query.isActive:
            query.stop()
    look()
    return sum(rows for rows, _ in by_batch.values()), sum(bad for _, bad in by_batch.values())
