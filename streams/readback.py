"""Reads a stretch of one partition, committed records only: what recovery is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from streams.connection import Connection

POLL: Final = 20_000  # records a poll: large enough for columns, small enough to show progress
WAIT_MS: Final = 500


@asynccontextmanager
async def reader(connection: Connection) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        **connection.arguments(),
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=8 << 20,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def stretch(
    consumer: AIOKafkaConsumer, partition: TopicPartition, start: int, end: int
) -> AsyncIterator[list[Any]]:
    """The records from `start` up to, not including, `end`, in lists."""
    consumer.assign([partition])
    consumer.seek(partition, start)
    # the position also passes transaction markers and compacted holes, which hold no record
    while start < end and await consumer.position(partition) < end:
        for records in (await consumer.getmany(partition, timeout_ms=WAIT_MS, max_records=POLL)).values():
            kept = [record for record in records if record.offset < end]
            if kept:
                yield kept


async def whole(consumer: AIOKafkaConsumer, partition: TopicPartition) -> AsyncIterator[list[Any]]:
    start = (await consumer.beginning_offsets([partition]))[partition]
    end = (await consumer.end_offsets([partition]))[partition]
    async for records in stretch(consumer, partition, start, end):
        yield records
