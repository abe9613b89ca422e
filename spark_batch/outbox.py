"""Answers on their way: written to the outbox table in one commit, then sent to Kafka by the publisher.

A run of the backfill appends the notifications of all its requests, and for each request, after its notifications, a row that closes it.
All rows of a request lie in one file, in order. A run that is killed before its commit has written nothing; after it, the next
run sends what is there instead of computing it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pastforward.columns.arrow import texts_of
from pastforward.columns.texts import Texts
from pastforward.schemas import NotificationColumns
from pastforward.schemas.codec import Format
from pastforward.schemas.columns import BACKFILL, PUBLISHER, SUBSCRIBER
from pastforward.schemas.limits import MAX_NOTIFICATION_BYTES
from pastforward.schemas.notification_writer import encode_notifications
from pastforward.spark_batch.kafka import MakeRegistry
from pastforward.spark_batch.pairs import PAIRS
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.rows import contents_of, micros
from pastforward.spark_batch.tables import CONTENT, OUTBOX, PUBLICATIONS, Places, spark_schema
from pastforward.streams.matcher.notification_id import notification_id

I64 = npt.NDArray[np.int64]
Event = tuple[str | None, str | None]  # id and topic; None in a row that closes a request

# Rows for the encoder: pairs with their earlier ids, and after the pairs of each request one row that closes it.
ANSWERS: Final = pa.schema(
    [
        pa.field("asked", pa.int32(), nullable=False),
        pa.field("closes", pa.bool_(), nullable=False),
        *(PAIRS.field(name).with_nullable(True) for name in PAIRS.names if name != "asked"),
        pa.field("earlier_ids", pa.list_(pa.string())),
        *(PUBLICATIONS.field(name) for name in CONTENT),
    ]
)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Travels to the workers: what a notification needs of its request."""

    run: str
    requests: tuple[Open, ...]
    format: Format
    make_registry: MakeRegistry

    def encode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        registry = self.make_registry()
        asking = _Asking.of(self.requests)
        sent: set[Event] = set()
        last = -1
        for batch in batches:
            asked = batch.column("asked").to_numpy()
            events = list(
                zip(batch.column("publication_id").to_pylist(), batch.column("topic").to_pylist(), strict=True)
            )
            copies = np.ones(batch.num_rows, np.int64)
            for row, (number, event) in enumerate(zip(asked.tolist(), events, strict=True)):
                if number != last:
                    sent, last = set(), number
                if event in sent:
                    copies[row] = (
                        0  # an id that came again after the hot window is another publication with the same pair
                    )
                elif event[0] is not None:
                    sent.add(event)
            publishers = batch.column("publisher_id").is_valid().to_numpy(zero_copy_only=False)
            copies[publishers & (copies > 0)] = 2
            if copies.any():
                yield self._rows(batch, events, copies, asking, registry)

    def _rows(
        self, batch: pa.RecordBatch, events: list[Event], copies: I64, asking: _Asking, registry: Any
    ) -> pa.RecordBatch:
        """Rows of the outbox: as many of each row as `copies` says, the second for its publisher."""
        row = np.repeat(np.arange(batch.num_rows), copies)
        second = np.zeros(len(row), np.bool_)
        second[1:] = row[1:] == row[:-1]
        asked = batch.column("asked").to_numpy()[row]
        closes = batch.column("closes").to_numpy(zero_copy_only=False)[row]
        recipient = pc.if_else(
            pa.array(second),
            batch.column("publisher_id").take(pa.array(row)),
            asking.subscriber_id.take(pa.array(asked)),
        )
        sent = np.flatnonzero(~closes)
        value: list[bytes | None] = [None] * len(row)
        if len(sent):
            columns = self._notifications(
                batch, events, row[sent], asked[sent], second[sent], recipient.take(pa.array(sent)), asking
            )
            for at, each in zip(sent.tolist(), self._encoded(columns, registry), strict=True):
                value[at] = each
        missing = pa.array(closes)
        return pa.RecordBatch.from_arrays(
            [
                pa.array([self.run]).take(pa.array(np.zeros(len(row), np.int64))),
                asking.key.take(pa.array(asked)),
                pa.array(asking.offset[asked]),
                missing,
                pc.if_else(missing, None, recipient).cast(pa.binary()),
                pa.array(value, pa.binary()),
            ],
            schema=OUTBOX,
        )

    def _encoded(self, columns: NotificationColumns, registry: Any) -> list[bytes]:
        """What an earlier version has taken, and is too large to be carried, is sent without its content."""
        values = encode_notifications(columns, self.format, registry)
        large = [at for at, value in enumerate(values) if len(value) > MAX_NOTIFICATION_BYTES]
        if large and columns.carries is not None:
            columns.carries[large] = -1
            values = encode_notifications(columns, self.format, registry)
        return values

    def _notifications(
        self,
        batch: pa.RecordBatch,
        events: list[Event],
        row: I64,
        asked: I64,
        second: Any,
        recipient: pa.Array,
        asking: _Asking,
    ) -> NotificationColumns:
        taken = batch.select(["publication_id", "topic"]).take(pa.array(row))
        earlier = batch.column("earlier_ids")
        number = pa.array(asked)
        return NotificationColumns(
            Texts.of(self._ids(events, row, asked, second)),
            texts_of(asking.subscription_id.take(number)),
            texts_of(asking.version.take(number)),
            texts_of(taken.column("publication_id")),
            texts_of(recipient),
            np.where(second, np.uint8(PUBLISHER), np.uint8(SUBSCRIBER)),
            texts_of(taken.column("topic")),
            micros(batch.column("published_at"))[row],
            asking.log_time[asked],
            np.full(len(row), BACKFILL, np.uint8),
            {}
            if earlier.null_count == len(earlier)
            else {i: tuple(ids) for i, ids in enumerate(earlier.take(pa.array(row)).to_pylist()) if ids},
            {},
            contents_of(batch) if asking.carries[asked].any() else None,
            np.where(asking.carries[asked], row, -1),
        )

    def _ids(self, events: list[Event], row: I64, asked: I64, second: Any) -> list[bytes]:
        return [
            notification_id(
                s.subscription_id,
                s.version,
                events[at][0] or "",
                events[at][1] or "",
                "publisher" if to_publisher else "subscriber",
            ).encode()
            for at, s, to_publisher in zip(
                row.tolist(),
                (self.requests[number].request.subscription for number in asked.tolist()),
                second.tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True, slots=True)
class _Asking:
    """What a notification or a row of the outbox takes from its request, in columns by the number of the request."""

    key: pa.Array
    offset: I64
    subscription_id: pa.Array
    version: pa.Array
    subscriber_id: pa.Array
    log_time: I64
    carries: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, requests: Sequence[Open]) -> _Asking:
        subscriptions = [each.request.subscription for each in requests]
        return cls(
            pa.array([each.key for each in requests], pa.binary()),
            np.array([each.offset for each in requests], np.int64),
            pa.array([s.subscription_id for s in subscriptions], pa.string()),
            pa.array([str(s.version) for s in subscriptions], pa.string()),
            pa.array([s.subscriber_id for s in subscriptions], pa.string()),
            np.array([each.request.log_time for each in requests], np.int64),
            np.array([s.deliver == "content" for s in subscriptions], np.bool_),
        )


def encoder(shared: Any) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`. `shared` is a broadcast of `Encoder`."""

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from shared.value.encode(batches)

    return encode


def write_run(spark: Any, places: Places, pairs: Any, shared: Encoder) -> None:
    """`pairs` with `earlier_ids` and content. One commit."""
    from pyspark.sql import functions as f

    schema = spark_schema(ANSWERS)
    numbers = spark.range(len(shared.requests)).select(f.col("id").cast("int").alias("asked"))
    closing = numbers.select(
        "asked",
        f.lit(True).alias("closes"),
        *(f.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields[2:]),
    )
    rows = pairs.withColumn("closes", f.lit(False)).select(*ANSWERS.names).unionByName(closing)
    # no range partitioning: its sample would run the whole pass twice
    parts = int(spark.conf.get("spark.sql.shuffle.partitions"))
    ordered = rows.repartition(parts, "asked").sortWithinPartitions(
        "asked", "closes", "arrived_at", "partition", "offset"
    )
    encoded = ordered.mapInArrow(encoder(spark.sparkContext.broadcast(shared)), spark_schema(OUTBOX))
    encoded.write.format("delta").mode("append").save(places.outbox)


def runs(places: Places) -> list[str]:
    """Runs that are in the outbox, the oldest first: their names begin with a time. Read without Spark: there is seldom any."""
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

    closing = DeltaTable(places.outbox).to_pyarrow_dataset().to_table(columns=["run"], filter=ds.field("closes"))
    return sorted(closing.column("run").unique().to_pylist())


def remove_runs(places: Places, names: Iterable[str]) -> None:
    from deltalake import DeltaTable

    DeltaTable(places.outbox).delete("run IN ({})".format(", ".join(f"'{name}'" for name in names)))
