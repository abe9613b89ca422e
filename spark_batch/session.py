"""A Spark session with everything the history needs: local by default, or whatever `spark-submit` has chosen.

The jars that pyspark does not carry are handed over as files (`JARS_DIR/spark`): nothing is resolved over the network. Under
`spark-submit` master and jars come from its own options, and ours step back.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from pastforward.broker import jars
from pastforward.errors import UserError
from pastforward.preparation.jars import prepare
from pastforward.settings import Settings

DRIVER_MEMORY: Final = "2g"  # enough for every job here: nothing that grows with the data comes to the driver
ARROW_ROWS: Final = 20_000  # of a batch that a kernel sees: large enough to forget the call, small enough for the cache

_JAVA: Final = " ".join(
    (
        "-XX:+UseSerialGC",  # two cores: a parallel collector only takes from the tasks
        "-Duser.timezone=UTC",
        "-Dderby.system.home=/tmp",
    )
)

CONFIGURATION: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # INT96, the default, has no statistics: row groups could not be skipped by time
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.python.daemon.module": "pastforward.spark_batch.daemon",
    # each commit of an ingest is a version: files from older snapshots stay until VACUUM, so nobody needs the check
    "spark.databricks.delta.optimizeWrite.enabled": "false",
}

LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    # tasks in which VACUUM lists files: of Spark's 10,000 each costs milliseconds, however few files there are
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.log.level": "ERROR",
}


def under_submit() -> bool:
    """Whether this process was started by `spark-submit`, which then owns master, memory and jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def make_session(settings: Settings, cores: int | None = None, **more: str) -> Any:
    """A new session, or the one that this process has. Stop it with `stop()`: it is a JVM."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UserError("pyspark is missing: pip install 'pastforward[spark]'") from error
    builder = SparkSession.builder.appName("pastforward-history")
    chosen = dict(CONFIGURATION)
    if not under_submit():
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # the workers must be this Python: they import our kernels
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        prepare(settings, "spark")
        found = [str(Path(jar).absolute()) for jar in jars(settings, "spark")]
        chosen |= LOCAL
        chosen |= {
            "spark.driver.memory": DRIVER_MEMORY,
            # not `spark.jars`: those are copied to the executors first, which here are this very process
            "spark.driver.extraClassPath": ":".join(found),
            "spark.sql.warehouse.dir": str((settings.data_dir / "spark").absolute()),
        }
        builder = builder.master(f"local[{cores or min(os.cpu_count() or 2, 8)}]")
    for name, value in {**chosen, **more}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
