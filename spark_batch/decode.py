"""From the bytes of the publications topic to rows of the table, by the chunk readers of the stream. Runs in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from pastforward.columns import attributes as tags
from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.columns.times import NEVER
from pastforward.schemas import PublicationColumns, SchemaError, decode_publications
from pastforward.schemas.acceptance import ANY_ROUTING, Rules, accept_publications
from pastforward.schemas.codec import Registry
from pastforward.schemas.columns import NO_BEST
from pastforward.spark_batch import tables
from pastforward.spark_batch.blame import in_halves
from pastforward.spark_batch.conditions import written
from pastforward.spark_batch.gather import arrow_texts
from pastforward.spark_batch.in_force import InForce
from pastforward.spark_batch.order import order_texts
from pastforward.spark_batch.rows import TAGS

MakeRegistry = Callable[[], Registry | None]
ANY: Final = InForce()

# What a decoding task hands back: a row of the table, or one that only says that it could not be read.
DECODED: Final = pa.schema(
    [pa.field("readable", pa.bool_(), nullable=False), *(field.with_nullable(True) for field in tables.PUBLICATIONS)]
)

_PREFERS: Final = ("", "highest", "lowest")


def decode_batch(batch: pa.RecordBatch, registry: Registry | None, in_force: InForce = ANY) -> Iterator[pa.RecordBatch]:
    """A chunk of the readers is of one partition and one routing; a batch of Spark may be of several."""
    partition, offset = batch.column("partition").to_numpy(), batch.column("offset").to_numpy()
    borders = [0, *(np.flatnonzero(np.diff(partition)) + 1).tolist(), len(partition)]
    for begin, end in pairwise(borders):
        if begin == end:
            continue
        of_partition = int(partition[begin])
        parts = [0, *in_force.borders(of_partition, offset[begin:end]), end - begin]
        for first, last in pairwise(parts):
            rules = in_force.rules(of_partition, int(offset[begin + first]))
            yield from in_halves(begin + first, begin + last, _decoder(batch, of_partition, registry, rules), _unread)


def _decoder(
    batch: pa.RecordBatch, partition: int, registry: Registry | None, rules: Rules
) -> Callable[[int, int], pa.RecordBatch]:
    def decode(begin: int, end: int) -> pa.RecordBatch:
        part = batch.slice(begin, end - begin)
        columns = decode_publications(
            part.column("key").to_pylist(),
            part.column("value").to_pylist(),
            partition,
            part.column("offset").to_numpy().copy(),
            part.column("arrived_at").to_numpy().copy(),
            registry,
        )
        return to_rows(columns, rules)

    return decode


def _unread(_: int, error: SchemaError) -> pa.RecordBatch:
    columns = [pa.array([False]), *(pa.nulls(1, field.type) for field in tables.PUBLICATIONS)]
    return pa.RecordBatch.from_arrays(columns, schema=DECODED)


def to_rows(columns: PublicationColumns, rules: Rules = ANY_ROUTING) -> pa.RecordBatch:
    """What the router refuses is not readable: its dead letter says why."""
    accepted = accept_publications(columns, rules)
    ok = columns.ok.copy()
    ok[list(accepted.refused)] = False
    condition: list[str | None] = [None] * len(columns)
    condition_avro: list[bytes | None] = [None] * len(columns)
    for row, form in accepted.forms.items():
        condition[row], condition_avro[row] = written(columns.where[row], form)
    best = columns.best
    arrays = {
        "readable": pa.array(ok),
        "path": arrow_texts(order_texts(columns.topic), pa.string()),
        "published_at": _times(columns.published_at),
        "expires_at": _times(columns.expires_at, columns.expires_at == NEVER),
        "arrived_at": _times(columns.arrived_at),
        "partition": pa.array(np.full(len(columns), columns.partition, np.int32)),
        "offset": pa.array(columns.offset),
        "publication_id": arrow_texts(columns.publication_id, pa.string()),
        "publisher_id": arrow_texts(columns.publisher_id, pa.string()),
        "topic": arrow_texts(columns.topic, pa.string()),
        "self_join": pa.array(columns.self_join),
        **attribute_maps(columns.attributes),
        "condition": pa.array(condition, pa.string()),
        "condition_avro": pa.array(condition_avro, pa.binary()),
        "best": pa.StructArray.from_arrays(
            [
                arrow_texts(columns.best_attribute, pa.string()),
                pa.array([_PREFERS[int(each)] for each in best] if best.any() else [""] * len(columns), pa.string()),
            ],
            fields=list(tables.BEST),
            mask=pa.array(best == NO_BEST),
        ),
        "body": arrow_texts(columns.body, pa.binary()),
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in DECODED.names], schema=DECODED)


def _times(micros: np.ndarray[tuple[int], np.dtype[np.int64]], missing: object = None) -> pa.Array:
    return pa.array(micros, mask=missing).view(pa.timestamp("us", "UTC"))


def attribute_maps(attributes: Attributes) -> dict[str, pa.Array]:
    """One map for each type: the entries of a row that have it; null if there are none."""
    names = pa.array(attributes.names, pa.string())
    rows = len(attributes)
    row_of = np.repeat(np.arange(rows), np.diff(attributes.start))
    return {name: _map(attributes, names, row_of, rows, name) for name in tables.MAPS}


def _map(attributes: Attributes, names: pa.Array, row_of: np.ndarray, rows: int, column: str) -> pa.Array:
    tag = TAGS[column]
    kind = tables.MAPS[column]
    map_type = pa.map_(pa.string(), kind)
    entries = np.flatnonzero(attributes.tag == tag)
    if not len(entries):
        return pa.nulls(rows, map_type)
    count = np.bincount(row_of[entries], minlength=rows)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    keys = names.take(pa.array(attributes.name[entries]))
    bits = attributes.bits[entries]
    if tag == tags.BOOLEAN:
        values = pa.array(bits != 0)
    elif tag == tags.INTEGER:
        values = pa.array(bits)
    elif tag == tags.FLOAT:
        values = pa.array(bits.view(np.float64))
    elif tag == tags.TIMESTAMP:
        values = _times(bits)
    elif tag in (tags.STRING, tags.PATH):
        values = arrow_texts(Texts(attributes.heap, bits, attributes.length[entries]), pa.string())
    else:
        values = _shapes(attributes, bits, kind)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values, type=map_type, mask=pa.array(count == 0))


def _shapes(attributes: Attributes, at: np.ndarray, kind: pa.StructType) -> pa.Array:
    """Doubles that lie one after the other in the heap."""
    count = kind.num_fields
    places = at[:, None] + np.arange(8 * count)
    doubles = attributes.heap[places].view("<f8").reshape(-1, count) if len(at) else np.empty((0, count))
    fields = [pa.array(np.ascontiguousarray(doubles[:, i])) for i in range(count)]
    return pa.StructArray.from_arrays(fields, fields=[kind.field(i) for i in range(count)])
