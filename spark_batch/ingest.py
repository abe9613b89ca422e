"""Keeps what was published: from the publications topic into the table.

Exactly once: a batch is a range of offsets that the checkpoint fixes before it runs, and its rows enter the table in one commit that
carries the batch's number, so a batch that is repeated after a kill is recognised and left out. One ingest runs at a time; a second
one fails on the checkpoint and changes nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from pastforward.errors import UserError
from pastforward.settings import Settings
from pastforward.spark_batch.commit import Commit
from pastforward.spark_batch.files import WRITTEN, file_writer
from pastforward.spark_batch.in_force import in_force
from pastforward.spark_batch.kafka import MakeRegistry, bootstrap_of, spark_options, watermarks
from pastforward.spark_batch.position import ingested, query_id
from pastforward.spark_batch.refused import learn
from pastforward.spark_batch.shown import REFRESH, Bar, Summary, bar
from pastforward.spark_batch.tables import Places, ensure_publications, spark_schema
from pastforward.topics import Topics

BATCH_ROWS: Final = 1_000_000  # of a batch: its commits cost a second or two, and what a kill undoes is one batch
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
    counts = _Counts()
    query = _start(spark, settings, bootstrap, places, set(known), follow, allow_loss, counts)
    with bar("ingesting", quiet) as shown:
        _watch(query, shown, None if follow else waiting, counts)
    rows, unreadable = counts.rows, counts.unreadable
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


@dataclass(slots=True)
class _Counts:
    """Of the batches of this run."""

    rows: int = 0
    unreadable: int = 0


def _start(
    spark: Any,
    settings: Settings,
    bootstrap: str,
    places: Places,
    partitions: set[int],
    follow: bool,
    allow_loss: bool,
    counts: _Counts,
) -> Any:
    from pyspark.sql import functions as f

    source = (
        spark.readStream.format("kafka")
        .options(**spark_options(settings, bootstrap))
        .option("subscribe", Topics(settings.topic_prefix).publications)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not allow_loss).lower())
        .option("maxOffsetsPerTrigger", BATCH_ROWS)
        .load()
        .select("key", "value", "partition", "offset", f.expr("unix_micros(timestamp)").alias("arrived_at"))
    )
    registry = MakeRegistry.of(settings)

    def write(batch: Any, number: int) -> None:
        """Called again for a batch whose commit the checkpoint does not know of."""
        commit = Commit(spark, places, str(query_id(spark, places)), number)
        if commit.is_done:
            return
        # asked for each batch: the routing may change while an ingest follows, and dead letters are kept for a week
        rules = in_force(settings, bootstrap)
        learn(spark, settings, bootstrap, places, registry())
        writes = file_writer(registry, places.publications, rules, commit.arrived(partitions))
        written = batch.mapInArrow(writes, spark_schema(WRITTEN)).collect()  # a row a task
        arrived = {partition: at for row in written for partition, at in row["arrived"].items()}
        partitions.update(arrived)  # some may have been added
        commit.commit([row["add"] for row in written if row["add"] is not None], arrived)
        counts.rows += sum(row["rows"] for row in written)
        counts.unreadable += sum(row["unreadable"] for row in written)

    writer = source.writeStream.foreachBatch(write).option("checkpointLocation", places.checkpoint)
    writer = writer.trigger(processingTime=f"{FOLLOW_SECONDS} seconds") if follow else writer.trigger(availableNow=True)
    return writer.start()


def _watch(query: Any, shown: Bar, total: int | None, counts: _Counts) -> None:
    from pyspark.errors import StreamingQueryException

    try:
        while not query.awaitTermination(REFRESH):
            shown.update(counts.rows, total)
    except KeyboardInterrupt:
        pass  # --follow ends so; the batch under way is repeated by the next run
    except StreamingQueryException as error:
        raise UserError(f"the ingest stopped: {_cause(str(error))}; nothing is lost, run it again") from error
    finally:
        if query.isActive:
            query.stop()


def _cause(text: str) -> str:
    """What a worker of ours said, out of two stack traces; else what Spark says first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("schemas.", "pastforward.", "spark_batch."))]
    return ours[-1].partition(": ")[2] if ours else lines[0]
