"""Reads a stretch of one partition, committed records only: what recovery is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.consumer import bare

FETCH_BYTES: Final = 8 << 20  # a poll: large enough for columns, small enough to show progress
WAIT_MS: Final = 500


@asynccontextmanager
async def reader(connection: Connection, isolation_level: str = "read_committed") -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        **connection.arguments(),
        isolation_level=isolation_level,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def stretch(connection: Connection, partition: TopicPartition, start: int, end: int) -> AsyncIterator[list[Any]]:
    """The records from `start` up to, not including, `end`, in lists.

    With a consumer of its own: aiokafka's hangs in `stop` when it is stopped soon after a second `assign`.
    """
    if start >= end:
        return
    async with reader(connection) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, start)
        # the position also passes transaction markers and compacted holes, which hold no record
        while await consumer.position(partition) < end:
            bare(consumer._fetcher)
            for records in (await consumer.getmany(partition, timeout_ms=WAIT_MS)).values():
                kept = [record for record in records if record.offset < end]
                if kept:
                    yield kept


async def bounds(connection: Connection, partition: TopicPartition) -> tuple[int, int]:
    """The first offset, and the one behind the last that a committed reader may see."""
    async with reader(connection) as consumer:
        first = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        return int(first), int(end)


async def offset_at(connection: Connection, partition: TopicPartition, micros: int) -> int | None:
    """The first offset that Kafka stamped at that time or later; None: there is none."""
    async with reader(connection) as consumer:
        found = (await consumer.offsets_for_times({partition: max(0, micros // 1000)}))[partition]
        return None if found is None else int(found.offset)


async def both_ends(
    connection: Connection, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset of each log, and the one behind its last, committed or not."""
    asked = list(partitions)
    if not asked:
        return {}
    async with reader(connection, isolation_level="read_uncommitted") as consumer:
        first = await consumer.beginning_offsets(asked)
        end = await consumer.end_offsets(asked)
        return {partition: (int(first[partition]), int(end[partition])) for partition in asked}
