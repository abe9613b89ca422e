"""Small documents beside the checkpoints, in whatever file system the history is in: how far a job has come."""

from __future__ import annotations

import json
from typing import Any

from pastforward.spark_batch.tables import Places


class Note:
    """`HISTORY/checkpoints/<name>.json`. Who is killed while writing it leaves none."""

    def __init__(self, spark: Any, places: Places, name: str) -> None:
        self._jvm = spark._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(f"{places.root.rstrip('/')}/checkpoints/{name}.json")
        self._system = self._path.getFileSystem(spark._jsc.hadoopConfiguration())

    def read(self) -> dict[str, Any] | None:
        if not self._system.exists(self._path):
            return None
        stream = self._system.open(self._path)
        try:
            document: dict[str, Any] = json.loads(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        except ValueError:
            return None
        finally:
            stream.close()
        return document

    def write(self, document: dict[str, Any]) -> None:
        stream = self._system.create(self._path, True)
        try:
            stream.write(bytearray(json.dumps(document).encode()))
        finally:
            stream.close()
