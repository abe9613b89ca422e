"""Adds files to the table of publications, once for each batch of a query.

A commit carries the number of the batch (Delta's `txn` action), so a batch that is repeated after a kill is recognised. Spark's own sink
does the same, but only with files that Spark has written. The actions go to Delta's transaction as JSON, which is Delta's protocol.
"""

from __future__ import annotations

import json
import time
from typing import Any

from spark_batch.tables import Places


class Commit:
    """One batch of a query, on its way into the table. Fails if another process commits the same batch meanwhile."""

    def __init__(self, spark: Any, places: Places, query: str, batch: int) -> None:
        self._jvm = spark._jvm
        self._delta = self._jvm.org.apache.spark.sql.delta
        nothing = self._jvm.scala.Option.empty
        log = self._delta.DeltaLog.forTable(spark._jsparkSession, places.publications)
        self._transaction = log.startTransaction(nothing(), nothing())
        self._done = {"appId": query, "version": batch}
        self.is_done = int(self._transaction.txnVersion(query)) >= batch

    def commit(self, actions: list[str]) -> None:
        done = {**self._done, "lastUpdated": time.time_ns() // 1_000_000}
        parsed = self._jvm.java.util.ArrayList()
        for action in (json.dumps({"txn": done}), *actions):
            parsed.add(self._delta.actions.Action.fromJson(action))
        operation = getattr(getattr(self._delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        self._transaction.commit(self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(parsed).toSeq(), operation)
