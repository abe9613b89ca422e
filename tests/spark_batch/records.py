"""Publications as the history has them, made without Kafka and Spark: encoded, decoded by the chunk readers, laid out as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pastforward.schemas import Publication, decode_publications, encode
from pastforward.spark_batch.decode import to_rows
from pastforward.spark_batch.rows import Picked


def rows_of(
    publications: Sequence[Publication],
    arrived_at: Sequence[int] | None = None,
    partition: Sequence[int] | None = None,
    offset: Sequence[int] | None = None,
) -> pa.RecordBatch:
    """The rows that could be read."""
    count = len(publications)
    arrived = np.array(range(count) if arrived_at is None else arrived_at, np.int64)
    columns = decode_publications(
        [str(p.publication_id).encode() for p in publications],
        [encode(p) for p in publications],
        0,
        np.arange(count, dtype=np.int64),
        arrived,
    )
    assert not columns.errors, columns.errors
    batch = to_rows(columns)
    if partition is not None and offset is not None:
        batch = batch.set_column(
            batch.schema.get_field_index("partition"), "partition", pa.array(partition, pa.int32())
        )
        batch = batch.set_column(batch.schema.get_field_index("offset"), "offset", pa.array(offset, pa.int64()))
    return batch.filter(batch.column("readable")).drop_columns(["readable"])


def pick(batch: pa.RecordBatch, picked: Sequence[Picked]) -> pa.RecordBatch:
    """What Spark's `try_element_at` does to maps."""
    names, columns = list(batch.schema.names), list(batch.columns)
    for number, each in enumerate(picked):
        column = batch.column(each.map)
        values: list[Any] = [dict(entries or ()).get(each.name) for entries in column.to_pylist()]
        names.append(each.column(number))
        columns.append(pa.array(values, column.type.item_type))
    return pa.RecordBatch.from_arrays(columns, names=names)
