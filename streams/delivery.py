"""How the outputs of a chunk and the offset of its input become one thing.

Exactly once: one transaction, begun when the outputs are ready (an open one stalls every reader), with outputs, changelog and
offset in it. The `transactional_id` is that of the input partition, so a new owner's start fences the old one.
At least once: outputs first, then the changelog, then the offset: whatever is cut off is done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, Final, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition

from pastforward.settings import Settings
from streams.connection import Connection
from streams.outgoing import Outgoing

BATCH: Final = 1 << 20  # bytes of a batch: the broker's own default for the largest
RETRY_MS: Final = 5  # while the last marker is being written the broker says "again"; with 100 the p99 is 130 ms
REQUEST_MAX: Final = 5 << 20  # above `max.message.bytes` of our largest topics, so that the broker decides

_NO_HEADERS: Final[list[Any]] = []

Commit = Callable[[dict[TopicPartition, int]], Awaitable[None]]
Batches = Iterable[tuple[tuple[str, int], list[tuple[bytes | None, bytes | None]]]]


class Sender(Protocol):
    async def start(self) -> None: ...

    async def send(self, outgoing: Outgoing, offset: int | None) -> None:
        """Returns when everything, the offset included, is safe at the broker. None: there is no offset to commit."""

    async def stop(self) -> None: ...


def make_sender(
    settings: Settings, group: str, connection: Connection, partition: TopicPartition, commit: Commit
) -> Sender:
    kind = ExactlyOnce if settings.delivery == "exactly-once" else AtLeastOnce
    return kind(settings, group, connection, partition, commit)


class _Base:
    def __init__(
        self, settings: Settings, group: str, connection: Connection, partition: TopicPartition, commit: Commit
    ) -> None:
        self._partition = partition
        self._group = group
        self._commit = commit
        self._producer = AIOKafkaProducer(
            **connection.arguments(),
            **self._promise(settings, partition),
            max_batch_size=BATCH,
            max_request_size=REQUEST_MAX,
            linger_ms=0,
            retry_backoff_ms=RETRY_MS,
        )

    def _promise(self, settings: Settings, partition: TopicPartition) -> dict[str, Any]:
        raise NotImplementedError

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def _send(self, batches: Batches) -> list[Any]:
        """Queues whole batches; the futures tell when they are safe."""
        futures = []
        for (topic, partition), records in batches:
            begin = 0
            while begin < len(records):
                batch = self._producer.create_batch()
                begin += _append(batch, records, begin)
                futures.append(await self._producer.send_batch(batch, topic, partition=partition))
        return futures


def _append(batch: Any, records: list[tuple[bytes | None, bytes | None]], begin: int) -> int:
    """Fills a batch; returns how many records it took. Past aiokafka's `append`, which costs as much again as what it calls."""
    append = batch._builder.append
    taken = 0
    for key, value in islice(records, begin, None):
        if append(taken, None, key, value, _NO_HEADERS) is None:
            break
        taken += 1
    batch._relative_offset = taken
    batch.close()
    return taken


class ExactlyOnce(_Base):
    def _promise(self, settings: Settings, partition: TopicPartition) -> dict[str, Any]:
        return {
            "transactional_id": f"{self._group}-{partition.topic}-{partition.partition}",
            # an owner that hangs must not stall readers longer than the group tolerates it
            "transaction_timeout_ms": settings.session_timeout // 1000,
        }

    async def send(self, outgoing: Outgoing, offset: int | None) -> None:
        await self._producer.begin_transaction()
        # All partitions at once: one request adds them to the transaction, and one carries the records. Sent one by one, the first
        # would leave alone. The offset goes beside the records.
        for topic, partition in (*outgoing.outputs, *outgoing.changelog):
            self._producer._txn_manager.maybe_add_partition_to_txn(TopicPartition(topic, partition))
        waiting: list[Awaitable[Any]] = [*await self._send(outgoing.outputs.items())]
        waiting += await self._send(outgoing.changelog.items())
        if offset is not None:
            waiting.append(self._producer.send_offsets_to_transaction({self._partition: offset}, self._group))
        if waiting:
            await asyncio.gather(*waiting)
        await self._producer.commit_transaction()


class AtLeastOnce(_Base):
    def _promise(self, settings: Settings, partition: TopicPartition) -> dict[str, Any]:
        return {"enable_idempotence": True}

    async def send(self, outgoing: Outgoing, offset: int | None) -> None:
        for batches in (outgoing.outputs, outgoing.changelog):
            futures = await self._send(batches.items())
            if futures:
                await asyncio.gather(*futures)
        if offset is not None:
            await self._commit({self._partition: offset})
