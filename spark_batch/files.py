"""Files of the table, written where publications are decoded: in Spark's Python workers, by Arrow.

Handing decoded rows back to the JVM, which writes Parquet a row and a map entry at a time, took three quarters of an ingest's time. So a
task writes one file itself, and hands back what the table's log needs to know of it: a row a task. Files that no commit names, from
a task or a run that died, are removed by `VACUUM`.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pastforward.columns.times import MAX_TIME, datetime_of
from pastforward.spark_batch.decode import ANY, MakeRegistry, decode_batch
from pastforward.spark_batch.in_force import InForce
from pastforward.spark_batch.order import AFTER
from pastforward.spark_batch.tables import MAPS, PUBLICATIONS, WITH_STATISTICS

WRITTEN: Final = pa.schema(
    [
        pa.field("add", pa.string()),  # the action for the log; null if there was nothing to write
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("unreadable", pa.int64(), nullable=False),
        pa.field("arrived", pa.map_(pa.int32(), pa.int64()), nullable=False),  # the highest arrival, by partition
    ]
)
GROUP_ROWS: Final = 100_000  # of a row group: some megabytes
PREFIX: Final = 32  # characters of a text's bounds: as many as Delta's own have

_SAME_AGAIN: Final = [
    "path",
    "topic",
    "publisher_id",
    "strings.key_value.value",
    *(f"{name}.key_value.key" for name in MAPS),
]


def file_writer(
    make_registry: MakeRegistry, table: str, in_force: InForce = ANY, arrived: Mapping[int, int] = MappingProxyType({})
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over the columns key, value, partition, offset, arrived_at (microseconds). `arrived`: the highest arrival before, by
    partition."""
    arrived = dict(arrived)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        registry = make_registry()
        file = File(table)
        highest: dict[int, int] = {}
        rows = unreadable = 0
        for batch in batches:
            for decoded in decode_batch(in_order(batch, arrived, highest), registry, in_force):
                readable = decoded.column("readable")
                bad = len(readable) - readable.true_count
                file.add((decoded.filter(readable) if bad else decoded).drop_columns(["readable"]))
                rows, unreadable = rows + decoded.num_rows, unreadable + bad
        yield pa.RecordBatch.from_pylist(
            [{"add": file.close(), "rows": rows, "unreadable": unreadable, "arrived": list(highest.items())}],
            schema=WRITTEN,
        )

    return write


def in_order(batch: pa.RecordBatch, before: Mapping[int, int], highest: dict[int, int]) -> pa.RecordBatch:
    """Arrivals never below the one before in the partition: a broker's clock may step back. A task has a partition's rows in order."""
    partition = batch.column("partition").to_numpy()
    arrived_at = batch.column("arrived_at").to_numpy().copy()
    for number in np.unique(partition).tolist():
        rows = np.flatnonzero(partition == number)
        start = highest.get(number, before.get(number, 0))
        arrived_at[rows] = np.maximum.accumulate(np.maximum(arrived_at[rows], start))
        highest[number] = int(arrived_at[rows[-1]])
    at = batch.schema.get_field_index("arrived_at")
    return batch.set_column(at, batch.schema.field(at), pa.array(arrived_at, pa.int64()))


class File:
    """A file of the table, made when the first row comes. What it has written is there once `close` has returned."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._name = f"part-{uuid.uuid4()}.parquet"
        self._waiting: list[pa.RecordBatch] = []
        self._waits = 0
        self._rows = 0
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._missing = dict.fromkeys(WITH_STATISTICS, 0)
        self._sink: Any = None
        self._writer: Any = None

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch.cast(PUBLICATIONS))
        self._waits += batch.num_rows
        if self._waits >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._waiting, PUBLICATIONS)
        self._waiting, self._waits = [], 0
        if not rows.num_rows:
            return
        if self._writer is None:
            self._open()
        self._writer.write_table(rows, row_group_size=GROUP_ROWS)
        self._rows += rows.num_rows
        for name in WITH_STATISTICS:
            column = rows.column(name)
            self._missing[name] += column.null_count
            found = pc.min_max(column)
            low, high = found["min"], found["max"]
            if low.is_valid:
                before = self._bounds.get(name, (low, high))
                self._bounds[name] = (min(before[0], low, key=_plain), max(before[1], high, key=_plain))

    def _open(self) -> None:
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs, parquet

        self._sink = fs.PyFileSystem(DeltaStorageHandler(self._table)).open_output_stream(self._name)
        self._writer = parquet.ParquetWriter(
            self._sink,
            PUBLICATIONS,
            compression="zstd",
            use_dictionary=_SAME_AGAIN,
            write_statistics=list(WITH_STATISTICS),
            store_schema=False,
        )

    def close(self) -> str | None:
        """The action that adds the file to the table, in JSON."""
        self._flush()
        if self._writer is None:
            return None
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        statistics = {
            "numRecords": self._rows,
            "minValues": {name: _low(low) for name, (low, _) in self._bounds.items()},
            "maxValues": {name: _high(high) for name, (_, high) in self._bounds.items() if _high(high) is not None},
            "nullCount": self._missing,
        }
        add = {
            "path": self._name,
            "partitionValues": {},
            "size": size,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": json.dumps(statistics),
        }
        return json.dumps({"add": add})


def _plain(value: pa.Scalar) -> Any:
    return value.value if pa.types.is_timestamp(value.type) else value.as_py()


def _low(value: pa.Scalar) -> Any:
    """A bound as Delta writes it: times in milliseconds, texts cut; never above the value."""
    plain = _plain(value)
    if pa.types.is_timestamp(value.type):
        return _time(plain // 1_000)
    return plain[:PREFIX] if isinstance(plain, str) else plain


def _high(value: pa.Scalar) -> Any:
    """Never below the value; None if that cannot be written, which is no bound."""
    plain = _plain(value)
    if pa.types.is_timestamp(value.type):
        rounded = -(-plain // 1_000)
        return _time(rounded) if rounded * 1_000 <= MAX_TIME else None
    return plain[:PREFIX] + AFTER if isinstance(plain, str) and len(plain) > PREFIX else plain


def _time(milliseconds: int) -> str:
    return datetime_of(milliseconds * 1_000).isoformat(timespec="milliseconds").replace("+00:00", "Z")
