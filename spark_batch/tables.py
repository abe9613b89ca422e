"""The tables of the history: names, columns, and how they lie. `docs/history.md` argues each choice.

Below HISTORY: `publications` (all of them), `outbox` (answers to backfill requests that are on their way to Kafka), `refused` (what
matchers have refused), and `checkpoints/ingest` (how far the publications topic has been read).
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pastforward.errors import UserError

_TIME: Final = pa.timestamp("us", "UTC")
POINT: Final = pa.struct([("lon", pa.float64()), ("lat", pa.float64())])
CIRCLE: Final = pa.struct([("lon", pa.float64()), ("lat", pa.float64()), ("radius_m", pa.float64())])
BOX: Final = pa.struct([(side, pa.float64()) for side in ("min_x", "min_y", "max_x", "max_y")])
BEST: Final = pa.struct([("attribute", pa.string()), ("prefer", pa.string())])

# Attributes by type. An attribute's name stands in exactly one of them, the one of its value's type: nothing is converted. A publication
# without any of a type has null there: most have few types, and an empty map costs a writer as much as a full one.
MAPS: Final[dict[str, pa.DataType]] = {
    "booleans": pa.bool_(),
    "integers": pa.int64(),
    "floats": pa.float64(),
    "timestamps": _TIME,
    "strings": pa.string(),
    "points": POINT,
    "circles": CIRCLE,
    "boxes": BOX,
    "paths": pa.string(),
}

PUBLICATIONS: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("published_at", _TIME, nullable=False),
        pa.field("expires_at", _TIME),
        pa.field("arrived_at", _TIME, nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("publication_id", pa.string(), nullable=False),
        pa.field("publisher_id", pa.string()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("self_join", pa.bool_(), nullable=False),
        *(pa.field(name, pa.map_(pa.string(), kind)) for name, kind in MAPS.items()),
        pa.field("condition", pa.string()),
        pa.field("condition_avro", pa.binary()),
        pa.field("best", BEST),
        pa.field("body", pa.binary()),
    ]
)

# What a notification carries, but for the publisher and the expiry, which a pair has anyway.
CONTENT: Final = (*MAPS, "condition", "condition_avro", "body")

# Columns whose least and greatest value Delta keeps for each file: those that topic, time and progress are asked by.
WITH_STATISTICS: Final = ("path", "published_at", "expires_at", "arrived_at", "partition", "offset")
_CLUSTERED: Final = ("path", "published_at")

OUTBOX: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("request", pa.binary(), nullable=False),
        pa.field("request_offset", pa.int64(), nullable=False),
        pa.field("closes", pa.bool_(), nullable=False),
        pa.field("recipient", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)

REFUSED: Final = pa.schema(
    [
        pa.field("version", pa.int32(), nullable=False),
        pa.field("rendezvous_partition", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("partitions", pa.list_(pa.int32()), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Places:
    """Paths or URLs."""

    root: str

    @property
    def publications(self) -> str:
        return f"{self._base}/publications"

    @property
    def outbox(self) -> str:
        return f"{self._base}/outbox"

    @property
    def refused(self) -> str:
        return f"{self._base}/refused"

    @property
    def checkpoint(self) -> str:
        return f"{self._base}/checkpoints/ingest"

    @property
    def _base(self) -> str:
        """Delta takes a path that begins with a dot for a name."""
        root = str(self.root)
        return root.rstrip("/") if "://" in root else os.path.abspath(root)


def spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def ensure_publications(spark: Any, places: Places) -> None:
    """Creates the table if it is not there. Several may do so at once."""
    from delta.tables import DeltaTable
    from pyspark.errors import AnalysisException

    if DeltaTable.isDeltaTable(spark, places.publications):
        return
    builder = (
        DeltaTable.createIfNotExists(spark)
        .location(places.publications)
        .comment("every publication, once for each partition and offset it was read from")
        .addColumns(spark_schema(PUBLICATIONS))
        .property("delta.dataSkippingStatsColumns", ",".join(WITH_STATISTICS))
        # rows are deleted by rewriting their file: deletion vectors could not be read by everybody
        .property("delta.enableDeletionVectors", "false")
        .clusterBy(*_CLUSTERED)
    )
    try:
        builder.execute()
    except AnalysisException as error:
        if error.getCondition() != "DELTA_TABLE_NOT_FOUND":
            raise
        _clear_stillborn(spark, places.publications)
        builder.execute()


def _clear_stillborn(spark: Any, place: str) -> None:
    """Who was killed while creating a table may leave a log without a commit, and Delta then neither finds nor creates it.

    Only what never came to be is removed: files not yet renamed, and folders that are empty.
    """
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{place}/_delta_log")
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    for each in files.listStatus(path) if files.exists(path) else ():
        if each.isDirectory() or each.getPath().getName().startswith("."):
            _delete_empty(files, each.getPath())
    _delete_empty(files, path)


def _delete_empty(files: Any, path: Any) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    with suppress(Py4JJavaError):  # a folder with something in it is somebody's
        files.delete(path, False)


def ensure_outbox(places: Places) -> None:
    from deltalake import DeltaTable

    DeltaTable.create(
        places.outbox,
        OUTBOX,
        mode="ignore",
        description="notifications of answered backfill requests, until they are sent",
        configuration={"delta.dataSkippingStatsColumns": "run,request_offset"},
    )


def exists(spark: Any, place: str) -> bool:
    from delta.tables import DeltaTable

    return bool(DeltaTable.isDeltaTable(spark, place))


def read_publications(spark: Any, places: Places) -> Any:
    """The table as a DataFrame; an error that says what to do when nothing was ever ingested."""
    if not exists(spark, places.publications):
        raise UserError(f"there is no history at {places.root} yet; run `pastforward history ingest` first")
    return spark.read.format("delta").load(places.publications)
