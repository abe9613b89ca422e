"""How far the publications topic has been ingested: read from the checkpoint of the ingesting query.

A checkpoint is a folder: `offsets/N` says up to where batch N reads, and is written before it runs; `commits/N` is written when its rows
are in the table. So the position is in the highest `offsets/N` that has a `commits/N`. The reverse error is harmless: a batch that is
in the table but not yet in `commits` makes a request wait for one more ingest.
"""

from __future__ import annotations

import json
from typing import Any

from pastforward.spark_batch.tables import Places


def ingested(spark: Any, places: Places, topic: str) -> dict[int, int]:
    """The next offset to ingest, by partition; empty when nothing was ever ingested."""
    files = _Files(spark, places.checkpoint)
    done = sorted(set(files.numbers("commits")) & set(files.numbers("offsets")))
    if not done:
        return {}
    for line in reversed(files.text(f"offsets/{done[-1]}").splitlines()):
        document = json.loads(line) if line.startswith("{") else {}
        if topic in document:
            return {int(partition): int(offset) for partition, offset in document[topic].items()}
    return {}


def query_id(spark: Any, places: Places) -> str | None:
    """The name of the ingesting query, which is that of its checkpoint: a new checkpoint counts batches anew. None: there is none."""
    files = _Files(spark, places.checkpoint)
    return str(json.loads(files.text("metadata"))["id"]) if files.exists("metadata") else None


class _Files:
    """The checkpoint's file system may be any that Spark can write to."""

    def __init__(self, spark: Any, root: str) -> None:
        self._jvm = spark._jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(root)
        self._system = self._root.getFileSystem(spark._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def numbers(self, folder: str) -> list[int]:
        if not self.exists(folder):
            return []
        names = [status.getPath().getName() for status in self._system.listStatus(self._path(folder))]
        return [int(name) for name in names if name.isdigit()]

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def text(self, name: str) -> str:
        stream = self._system.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
