"""Adds files to the table of publications, once for each batch of a query.

A commit carries the number of the batch (Delta's `txn` action), so a batch that is repeated after a kill is recognised. Spark's own sink
does the same, but only with files that Spark has written. The actions go to Delta's transaction as JSON, which is Delta's protocol.

In the same way it carries the highest arrival of each partition of the topic: arrivals do not go back, whatever the broker's clock does,
and the next batch goes on from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pastforward.spark_batch.tables import Places


class Commit:
    """One batch of a query, on its way into the table. Fails if another process commits the same batch meanwhile."""

    def __init__(self, spark: Any, places: Places, query: str, batch: int) -> None:
        self._jvm = spark._jvm
        self._delta = self._jvm.org.apache.spark.sql.delta
        nothing = self._jvm.scala.Option.empty
        log = self._delta.DeltaLog.forTable(spark._jsparkSession, places.publications)
        self._transaction = log.startTransaction(nothing(), nothing())
        self._done = {"appId": query, "version": batch}
        self._query = query
        self.is_done = int(self._transaction.txnVersion(query)) >= batch

    def arrived(self, partitions: Iterable[int]) -> dict[int, int]:
        """The highest arrival in each partition of the topic, in microseconds, before this batch."""
        return {p: max(0, int(self._transaction.txnVersion(self._arrival_in(p)))) for p in partitions}

    def _arrival_in(self, partition: int) -> str:
        return f"{self._query}-arrived-{partition}"

    def commit(self, actions: list[str], arrived: Mapping[int, int] = MappingProxyType({})) -> None:
        """`arrived`: the highest arrival by partition, this batch included."""
        now = time.time_ns() // 1_000_000
        numbers = [
            self._done,
            *({"appId": self._arrival_in(partition), "version": at} for partition, at in sorted(arrived.items())),
        ]
        parsed = self._jvm.java.util.ArrayList()
        for action in (*(json.dumps({"txn": {**number, "lastUpdated": now}}) for number in numbers), *actions):
            parsed.add(self._delta.actions.Action.fromJson(action))
        operation = getattr(getattr(self._delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        self._transaction.commit(self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(parsed).toSeq(), operation)
