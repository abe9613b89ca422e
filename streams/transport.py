"""Where Faust is bent to our use: whole polls instead of single records, and no commits of its own.

A stock agent costs several asyncio tasks a record. `ConsumerScheduler` is Faust's extension point for the order of records;
ours yields one synthetic record per partition and poll, whose value is the list of records, and `Chunks` hands that list to
the agent. Offsets are committed by `streams.delivery` alone, together with the outputs: Faust's own commit would land between
ours and the marker of the transaction, and it acknowledges chunks that have failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP

FETCH_WAIT_MS: Final = 500  # a fetch that finds nothing waits this long at the broker; data ends the wait at once
RETRY_MS: Final = 50  # a rebalance is made of several requests that may each be answered with "again"


class Chunk:
    """One poll of one partition, in the shape of a record: the offset of its last, the list as its value."""

    __slots__ = (
        "checksum",
        "headers",
        "key",
        "offset",
        "partition",
        "serialized_key_size",
        "serialized_value_size",
        "timestamp",
        "timestamp_type",
        "topic",
        "value",
    )

    def __init__(self, records: Sequence[Any]) -> None:
        last = records[-1]
        self.topic, self.partition, self.offset = last.topic, last.partition, last.offset
        self.timestamp, self.timestamp_type = last.timestamp, last.timestamp_type
        self.headers: tuple[()] = ()
        self.key = None
        self.value = records
        self.checksum = None
        self.serialized_key_size = self.serialized_value_size = 0


class ChunkScheduler:
    def iterate(self, records: Mapping[TP, Sequence[Any]]) -> Iterator[tuple[TP, Chunk]]:
        for partition, polled in records.items():
            if polled:
                yield TP(*partition), Chunk(polled)


class Chunks(faust.Schema):
    """Hands the list of records through, undecoded: decoding is ours, so that nothing fails unseen."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> None:
        return None

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        return message.value


class _Thread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust fixes the isolation level; everything we read may have been written in a transaction.
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        consumer._retry_backoff_ms = RETRY_MS
        return consumer

    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> Any:
        """A fetch in flight across a rebalance would hand over records after our seek: it is put back."""
        epoch = self.consumer.epoch
        records = await super()._fetch_records(consumer, active_partitions, timeout=timeout, max_records=max_records)
        if records and (epoch != self.consumer.epoch or not self.consumer.flow_active):
            for partition, polled in records.items():
                if partition in consumer.assignment():
                    consumer.seek(partition, polled[0].offset)
            return {}
        return records


class _Consumer(Consumer):
    epoch = 0

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        return False

    async def perform_seek(self) -> None:
        """The seek is part of the takeover (`streams.ownership`), after the old owner has been fenced."""

    def stop_flow(self) -> None:
        self.epoch += 1
        super().stop_flow()

    async def _getmany(self, active_partitions: Any, timeout: float) -> Any:
        epoch = self.epoch
        records = await super()._getmany(active_partitions, timeout)
        return records if epoch == self.epoch else {}


class ChunkTransport(Transport):
    Consumer = _Consumer
