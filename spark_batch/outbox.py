"""Answers on their way: written to the outbox table in one commit, then sent to Kafka by the publisher.

A run of the backfill appends the notifications of all its requests, and for each request, after its notifications, a row that closes it.
All rows of a request lie in one file, in order. A run that is killed before its commit has written nothing; after it, the next
run sends what is there instead of computing it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas import BackfillRequest, NotificationColumns, Texts
from schemas.chunk_writer import encode_notifications
from schemas.codec import Format
from schemas.columns import BACKFILL, PUBLISHER, SUBSCRIBER
from spark_batch.kafka import MakeRegistry
from spark_batch.pairs import PAIRS
from spark_batch.requests import Open
from spark_batch.rows import micros
from spark_batch.tables import OUTBOX, Places, spark_schema
from streams.identity import notification_id

# Rows for the encoder: pairs with their earlier ids, and after the pairs of each request one row that closes it.
ANSWERS: Final = pa.schema(
    [
        pa.field("asked", pa.int32(), nullable=False),
        pa.field("closes", pa.bool_(), nullable=False),
        *(PAIRS.field(name).with_nullable(True) for name in PAIRS.names if name != "asked"),
        pa.field("earlier_ids", pa.list_(pa.string())),
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
        told: set[str] = set()
        last = -1
        for batch in batches:
            asked = batch.column("asked").to_pylist()
            closes = batch.column("closes").to_pylist()
            names = batch.column("publication_id").to_pylist()
            rows: list[tuple[int, int, bool]] = []  # row, role, closes
            publishers = batch.column("publisher_id").to_pylist()
            for row, number in enumerate(asked):
                if number != last:
                    told, last = set(), number
                if closes[row]:
                    rows.append((row, SUBSCRIBER, True))
                elif names[row] not in told:
                    # an id that came again after the hot window is another publication with the same pair
                    told.add(names[row])
                    rows.append((row, SUBSCRIBER, False))
                    if publishers[row] is not None:
                        rows.append((row, PUBLISHER, False))
            if rows:
                yield self._batch(batch, rows, asked, names, publishers, registry)

    def _batch(
        self,
        batch: pa.RecordBatch,
        rows: list[tuple[int, int, bool]],
        asked: list[int],
        names: list[str],
        publishers: list[str | None],
        registry: Any,
    ) -> pa.RecordBatch:
        sent = [(row, role) for row, role, closing in rows if not closing]
        recipients = [
            self._request(asked[row]).subscription.subscriber_id if role == SUBSCRIBER else str(publishers[row])
            for row, role in sent
        ]
        values = iter(self._values(batch, sent, recipients, asked, names, registry))
        keys = iter(recipients)
        columns: dict[str, list[Any]] = {name: [] for name in OUTBOX.names}
        for row, _, closing in rows:
            request = self.requests[asked[row]]
            columns["run"].append(self.run)
            columns["request"].append(request.key)
            columns["request_offset"].append(request.offset)
            columns["closes"].append(closing)
            columns["recipient"].append(None if closing else next(keys).encode())
            columns["value"].append(None if closing else next(values))
        return pa.RecordBatch.from_pydict(columns, schema=OUTBOX)

    def _values(
        self,
        batch: pa.RecordBatch,
        sent: list[tuple[int, int]],
        recipients: list[str],
        asked: list[int],
        names: list[str],
        registry: Any,
    ) -> list[bytes]:
        if not sent:
            return []
        topics = batch.column("topic").to_pylist()
        earlier = batch.column("earlier_ids").to_pylist()
        published = micros(batch.column("published_at"))
        requests = [self._request(asked[row]) for row, _ in sent]
        subscriptions = [request.subscription for request in requests]
        ids = [
            notification_id(
                s.subscription_id, s.version, names[row], "subscriber" if role == SUBSCRIBER else "publisher"
            )
            for s, (row, role) in zip(subscriptions, sent, strict=True)
        ]
        columns = NotificationColumns(
            _texts(ids),
            _texts(s.subscription_id for s in subscriptions),
            _texts(str(s.version) for s in subscriptions),
            _texts(names[row] for row, _ in sent),
            _texts(recipients),
            np.array([role for _, role in sent], np.uint8),
            _texts(topics[row] for row, _ in sent),
            published[[row for row, _ in sent]],
            np.array([request.log_time for request in requests], np.int64),
            np.full(len(sent), BACKFILL, np.uint8),
            {i: tuple(earlier[row]) for i, (row, _) in enumerate(sent) if earlier[row]},
            {},
        )
        return encode_notifications(columns, self.format, registry)

    def _request(self, number: int) -> BackfillRequest:
        return self.requests[number].request


def _texts(values: Iterable[str]) -> Texts:
    return Texts.of([value.encode() for value in values])


def encoder(shared: Any) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`. `shared` is a broadcast of `Encoder`."""

    def encode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from shared.value.encode(batches)

    return encode


def write_run(spark: Any, places: Places, pairs: Any, shared: Encoder) -> None:
    """`pairs` with `earlier_ids`. One commit."""
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
