"""What would these subscriptions have matched? A time range of the history against a new set, without Kafka."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.matching.conditions.oracle import Subscription
from pastforward.settings import Settings
from pastforward.spark_batch import duplicates
from pastforward.spark_batch.blame import Tally
from pastforward.spark_batch.earlier import with_previous
from pastforward.spark_batch.pairs import find_pairs
from pastforward.spark_batch.prune import reachable
from pastforward.spark_batch.refused import read_taken
from pastforward.spark_batch.shown import Summary, watched
from pastforward.spark_batch.tables import Places

_BLOCKS = " ▏▎▍▌▋▊▉█"
_WIDTH = 40  # of the chart, in characters


def replay(
    spark: Any, settings: Settings, subscriptions: dict[str, Subscription], *, quiet: bool = False
) -> tuple[Summary, list[dict[str, Any]]]:
    """Counts by subscription and day. At most days times subscriptions rows come to the driver."""
    from pyspark.sql import functions as f
    from pyspark.storagelevel import StorageLevel

    started = time.monotonic()
    tally = Tally(spark)
    names = list(subscriptions)
    asked = list(subscriptions.values())
    history = read_taken(spark, Places(settings.history))
    rows = history
    if any(name.startswith(PREVIOUS) for s in asked for disjunct in s.disjuncts for name, _ in disjunct):
        wanted = reachable([Subscription(topic=s.topic, scope=s.scope) for s in asked])
        rows = with_previous(history if wanted is None else history.where(wanted), settings.hot_window)
    offsets = duplicates.resolved(spark, Places(settings.history), settings.hot_window)
    with watched(spark, f"replaying {len(asked)} subscriptions", quiet):
        pairs = find_pairs(spark, rows, asked, note=tally.note).persist(StorageLevel.DISK_ONLY)
        try:
            first = duplicates.without_duplicates(pairs, history, offsets, settings.hot_window)
            by_day = (
                first.groupBy("asked", f.to_date("published_at").alias("day")).count().orderBy("asked", "day").collect()
            )
        finally:
            pairs.unpersist()
    counts = [{"subscription": names[row["asked"]], "day": str(row["day"]), "matches": row["count"]} for row in by_day]
    total = sum(each["matches"] for each in counts)
    seconds = time.monotonic() - started
    facts = {"subscriptions": len(asked), "matches": total, "seconds": round(seconds, 1), "days": counts}
    line = f"{total:,} matches of {len(asked):,} subscriptions in {seconds:.1f} s"
    return Summary(tally.report(facts, line), facts), counts


def chart(counts: Sequence[dict[str, Any]]) -> list[str]:
    """A line a day: all subscriptions together."""
    by_day: dict[str, int] = {}
    for each in counts:
        by_day[each["day"]] = by_day.get(each["day"], 0) + each["matches"]
    most = max(by_day.values(), default=0)
    return [f"{day}  {_bar(count, most):{_WIDTH}}  {count:,}" for day, count in sorted(by_day.items())]


def _bar(count: int, most: int) -> str:
    eighths = round(count / most * _WIDTH * 8) if most else 0
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()
