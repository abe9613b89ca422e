"""Where Faust is bent to our use: whole polls instead of single records, and no commits of its own.

A stock agent costs several asyncio tasks a record. `ConsumerScheduler` is Faust's extension point for the order of records;
ours yields one synthetic record per partition and poll, whose value is the list of records, and `Chunks` hands that list to
the agent. Offsets are committed by `streams.delivery` alone, together with the outputs: Faust's own commit would land between
ours and the marker of the transaction, and it acknowledges chunks that have failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import faust
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult
from aiokafka.errors import CorruptRecordException
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

    def __init__(self, partition: TP, records: Sequence[Any]) -> None:
        last = records[-1]
        self.topic, self.partition, self.offset = partition.topic, partition.partition, last.offset
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
                yield TP(*partition), Chunk(TP(*partition), polled)


class Chunks(faust.Schema):
    """Hands the list of records through, undecoded: decoding is ours, so that nothing fails unseen."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> None:
        return None

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        return message.value


def bare_records(result: Any, max_records: int | None = None) -> list[Any]:
    """All that a fetch has brought, in place of aiokafka's `FetchResult.getall`: records as its parser gives them, with offset, timestamp,
    key and value, a batch at a time. Wrapped one by one, as aiokafka does it, each costs seven times as much. `max_records` is passed over:
    a fetch has its own limit, in bytes."""
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    fetched = result._partition_records
    found: list[Any] = []
    while fetched._records.has_next():
        batch = fetched._records.next_batch()
        if fetched._check_crcs and not batch.validate_crc():
            raise CorruptRecordException(f"Invalid CRC - {result._topic_partition}")
        if not _skipped(fetched, batch):
            records = list(batch)
            if records and records[0].offset < fetched.next_fetch_offset:
                records = [record for record in records if record.offset >= fetched.next_fetch_offset]
            found += records
        fetched.next_fetch_offset = batch.next_offset
    result._update_position()
    result._partition_records = None
    return found


def _skipped(fetched: Any, batch: Any) -> bool:
    """Aborted ones, and the markers of transactions."""
    if fetched._isolation_level == READ_COMMITTED and batch.producer_id is not None:
        fetched._consume_aborted_up_to(batch.base_offset)
        if batch.is_control_batch and fetched._contains_abort_marker(batch):
            fetched._aborted_producers.discard(batch.producer_id)
        if batch.is_transactional and batch.producer_id in fetched._aborted_producers:
            return True
    return bool(batch.is_control_batch)


def bare(fetcher: Any) -> None:
    """What has been fetched and not handed out yet will not be wrapped."""
    for fetched in fetcher._records.values():
        if type(fetched) is FetchResult:
            fetched.getall = partial(bare_records, fetched)


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
        bare(consumer._fetcher)
        fetch = super()._fetch_records
        records = await fetch(consumer, active_partitions, timeout=0)
        if not records and timeout:
            records = await fetch(consumer, active_partitions, timeout=timeout)
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
