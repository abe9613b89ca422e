"""Compiles the kernels that Spark's Python workers call, by sending a few rows the whole way. What is compiled is kept on disk.

Columns come to a worker over a socket, read-only, and Numba compiles for read-only and writable arrays apart: so they go through Arrow's
own stream here too.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import pyarrow as pa

from pastforward.matching import Condition
from pastforward.schemas import BackfillRequest, CanonicalSubscription, Publication, Version, encode
from pastforward.schemas.codec import Format
from pastforward.spark_batch.decode import decode_batch
from pastforward.spark_batch.kafka import MakeRegistry
from pastforward.spark_batch.outbox import ANSWERS, Encoder
from pastforward.spark_batch.pairs import Asked, match_batch
from pastforward.spark_batch.prune import columns_asked
from pastforward.spark_batch.report import make_report
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.tables import CONTENT, MAPS
from pastforward.streams.routing import Directory


def compile_kernels() -> None:
    published = [
        Publication("p", "me", "1.4", 1, None, {"a": 1, "b": "text", "c": 1.5, "d": True}),
        Publication("q", None, "1", 1, 2, {"a": 2}, where="b = 'text'"),
    ]
    offsets = pa.array(np.arange(2, dtype=np.int64))
    columns = {
        "key": pa.array([b"p", b"q"], pa.binary()),
        "value": pa.array([encode(published[0]), encode(published[1], "json")], pa.binary()),
        "partition": pa.array(np.zeros(2, np.int32)),
        "offset": offsets,
        "arrived_at": offsets,
    }
    read = _sent(pa.RecordBatch.from_pydict(columns))
    (rows,) = (_sent(batch) for batch in decode_batch(read, None))
    condition = Condition.parse("a >= 1 OR b = 'text'").disjuncts
    subscription = CanonicalSubscription("s", "me", Version(0, 0, 0), "1", "overlap", 0, None, "published", condition)
    request = BackfillRequest(subscription, 0, 9, 0, 1, {0: 9})
    open_request = Open(b"s", 0, request)
    subscriptions, report = make_report([open_request], Directory(1, "dewey", 2))
    asked = Asked(tuple(subscriptions), report)
    match_batch(asked, rows, None)
    picked = columns_asked(subscriptions)
    assert picked is not None
    plain = rows.slice(0, 1)
    values = {each.column(number): _picked(plain.column(each.map), each.name) for number, each in enumerate(picked)}
    kept = {name: plain.column(name) for name in plain.schema.names if name not in MAPS}
    found = match_batch(asked, _sent(pa.RecordBatch.from_pydict({**kept, **values})), picked)
    answers = {**dict(zip(found.schema.names, found.columns, strict=True)), "closes": pa.array([False])}
    answers["earlier_ids"] = pa.nulls(1, ANSWERS.field("earlier_ids").type)
    answers |= {name: plain.column(name) for name in CONTENT}
    ordered = _sent(pa.RecordBatch.from_arrays([answers[name] for name in ANSWERS.names], schema=ANSWERS))
    for form in get_args(Format):
        list(Encoder("run", (open_request,), form, MakeRegistry(None, ())).encode([ordered]))


def _picked(column: pa.Array, name: str) -> pa.Array:
    return pa.array([dict(entries).get(name) for entries in column.to_pylist()], column.type.item_type)


def _sent(batch: pa.RecordBatch) -> pa.RecordBatch:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    (received,) = pa.ipc.open_stream(out.getvalue())
    return received
