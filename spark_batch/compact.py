"""Merges small files, clusters by topic and time, and removes what is over.

Every step is one commit of its own and can be repeated: a kill leaves the table as it was before a step or after it. Ingest may
run beside it, because it only adds files. Nothing that an open backfill request may still see is removed; that some
publication is kept longer than asked is the price.
"""

from __future__ import annotations

import time
from typing import Any, Final

from pastforward.errors import UserError
from pastforward.settings import Settings
from pastforward.spark_batch import duplicates
from pastforward.spark_batch.kafka import MakeRegistry, bootstrap_of
from pastforward.spark_batch.position import ingested
from pastforward.spark_batch.prune import moment
from pastforward.spark_batch.refused import taken
from pastforward.spark_batch.requests import Open, read_requests
from pastforward.spark_batch.shown import Summary, watched
from pastforward.spark_batch.tables import Places, exists
from pastforward.topics import Topics

# Files are the unit that is skipped, so a table should have some hundreds; but each costs an open, so not below the smallest.
FILES: Final = 256
SMALLEST: Final = 2 << 20
LARGEST: Final = 128 << 20
ROW_GROUP: Final = 8 << 20  # bytes; within a file, row groups are skipped by their own bounds

VACUUM_HOURS: Final = 168  # Delta's own default: longer than any reader or writer runs


def compact(
    spark: Any,
    settings: Settings,
    *,
    retain: int | None = None,
    drop_expired: int | None = None,
    vacuum_hours: int | None = VACUUM_HOURS,
    quiet: bool = False,
) -> Summary:
    """`retain`: publications held longer ago are removed; `drop_expired`: those that expired longer ago. Microseconds."""
    started = time.monotonic()
    places = Places(settings.history)
    if not exists(spark, places.publications):
        return Summary(f"there is no history at {places.root} yet", {"files_before": 0, "files_after": 0})
    before = _detail(spark, places)
    with watched(spark, "compacting", quiet):
        repeated = _remove_duplicates(spark, settings, places)
        removed = _remove_by_policy(spark, settings, places, retain, drop_expired)
        _merge(spark, places, before["sizeInBytes"])
        if vacuum_hours is not None:
            _vacuum(spark, places, vacuum_hours)
    after = _detail(spark, places)
    facts = {
        "files_before": before["numFiles"],
        "files_after": after["numFiles"],
        "bytes_before": before["sizeInBytes"],
        "bytes_after": after["sizeInBytes"],
        "repeats_removed": repeated,
        "removed": removed,
        "seconds": round(time.monotonic() - started, 1),
    }
    saved = 1 - after["sizeInBytes"] / before["sizeInBytes"] if before["sizeInBytes"] else 0
    line = (
        f"{before['numFiles']:,} files are now {after['numFiles']:,}, {saved:.0%} smaller; {repeated:,} repeats and {removed:,} "
        f"retired publications removed, in {facts['seconds']} s"
    )
    return Summary(line, facts)


def _detail(spark: Any, places: Places) -> dict[str, int]:
    row = spark.sql(f"DESCRIBE DETAIL delta.`{places.publications}`").select("numFiles", "sizeInBytes").first()
    return {name: int(row[name]) for name in ("numFiles", "sizeInBytes")}


def _remove_duplicates(spark: Any, settings: Settings, places: Places) -> int:
    from delta.tables import DeltaTable

    topic = Topics(settings.topic_prefix).publications
    position = ingested(spark, places, topic)  # before the table is read: all of it is in there then
    if duplicates.are_resolved(spark, places, topic, settings.hot_window):
        return 0
    table = DeltaTable.forPath(spark, places.publications)
    whole = table.toDF()
    # what was refused keeps nothing out
    rows = taken(spark, places, whole).select(*duplicates.EVENT, *duplicates.PLACE)
    found = duplicates.find(rows, settings.hot_window).persist()
    copies = duplicates.copies(rows).join(found, duplicates.PLACE, "leftanti").persist()
    try:
        repeated, copied = int(found.count()), int(copies.count())
        if repeated or copied:
            count = whole.join(found.unionByName(copies), duplicates.PLACE, "leftsemi").count() - copied
            _delete_and_restore(table, whole, found, copies if copied else None)
        else:
            count = 0
    finally:
        found.unpersist()
        copies.unpersist()
    if position:
        duplicates.note_resolved(spark, places, settings.hot_window, position)
    return int(count)


def _delete_and_restore(table: Any, whole: Any, found: Any, copies: Any) -> None:
    """In one commit: deletes all rows at the places of `found` and `copies`, and adds one row for each place of `copies`.

    A merge deletes whatever matches a row of its source. So the source has the places, and the rows to add under a null key, which
    matches nothing.
    """
    from pyspark.sql import functions as f

    def keyed(rows: Any, *, matches: bool) -> Any:
        return rows.withColumns({f"at_{name}": f.col(name) if matches else f.lit(None) for name in duplicates.PLACE})

    source = keyed(found, matches=True)
    if copies is not None:
        kept = whole.join(copies, duplicates.PLACE, "leftsemi").dropDuplicates(duplicates.PLACE)
        source = keyed(kept, matches=False).unionByName(
            source.unionByName(keyed(copies, matches=True)), allowMissingColumns=True
        )
    same = " AND ".join(f"kept.{name} = gone.at_{name}" for name in duplicates.PLACE)
    merge = table.alias("kept").merge(source.alias("gone"), same).whenMatchedDelete()
    if copies is not None:
        merge = merge.whenNotMatchedInsert(values={name: f"gone.{name}" for name in whole.columns})
    merge.execute()


def _remove_by_policy(
    spark: Any, settings: Settings, places: Places, retain: int | None, drop_expired: int | None
) -> int:
    if retain is None and drop_expired is None:
        return 0
    requests = read_requests(settings, bootstrap_of(settings), MakeRegistry.of(settings)()).open
    now = time.time_ns() // 1000
    removed = 0
    if drop_expired is not None:
        removed += _delete(spark, places, expired_filter(now - drop_expired, requests))
    if retain is not None:
        if retain < settings.hot_window:
            raise UserError("--retain is shorter than the hot window; what the workers hold must be in the history")
        removed += _delete(spark, places, retired_filter(now - retain, requests))
    return removed


def expired_filter(until: int, requests: list[Open]) -> Any:
    """A request sees what had not expired at its log time."""
    from pyspark.sql import functions as f

    bound = min([until, *(each.request.log_time for each in requests)])
    return f.col("expires_at") <= moment(bound)


def retired_filter(until: int, requests: list[Open]) -> Any:
    """A request sees what was published from its start on; one that asks what was valid then may see anything older."""
    from pyspark.sql import functions as f

    by_start = [
        each.request.subscription.starts_at for each in requests if each.request.subscription.time == "published"
    ]
    bound = min([until, *by_start])
    old = (f.col("published_at") < moment(bound)) & (f.col("arrived_at") < moment(until))
    for each in requests:
        if each.request.subscription.time == "valid":
            start = moment(each.request.subscription.starts_at)
            old = old & f.col("expires_at").isNotNull() & (f.col("expires_at") <= start)
    return old


def _delete(spark: Any, places: Places, condition: Any) -> int:
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, places.publications)
    count = int(table.toDF().where(condition).count())
    if count:
        table.delete(condition)
    return count


def _merge(spark: Any, places: Places, size: int) -> None:
    target = min(max(size // FILES, SMALLEST), LARGEST)
    settings = {
        "spark.databricks.delta.optimize.maxFileSize": str(target),
        "spark.databricks.delta.optimize.minFileSize": str(target),
        "spark.databricks.delta.optimize.repartition.enabled": "true",
        "parquet.block.size": str(ROW_GROUP),
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        spark.sql(f"OPTIMIZE delta.`{places.publications}`")
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _vacuum(spark: Any, places: Places, hours: int) -> None:
    if hours < VACUUM_HOURS:
        raise UserError(
            f"--vacuum {hours} is below {VACUUM_HOURS} hours: a reader or a running ingest may still need the files"
        )
    spark.sql(f"VACUUM delta.`{places.publications}` RETAIN {hours} HOURS")
    if exists(spark, places.outbox):
        spark.sql(f"VACUUM delta.`{places.outbox}` RETAIN {hours} HOURS")
