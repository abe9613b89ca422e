"""aiokafka's producers, with the parts of them that it keeps to itself.

Checked against aiokafka 0.14; `tests/streams/transport/test_transport.py` names each part, and fails when one is gone:
`AIOKafkaProducer._sender.sender_task` and `._sender.close`, `._txn_manager.maybe_add_partition_to_txn`, `._pending_txn_offsets` and
`._transaction_waiter`, `._closed`, `BatchBuilder._builder.append` and `._relative_offset`, `._set_producer_state` and `._build`,
`record.util.calc_crc32c`, and `_txn_manager.transactional_id`.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final, cast

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import NoBrokersAvailable
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.util import calc_crc32c

from pastforward.streams.stages.frames import HEADER, LIMIT, Deferred, Frame
from pastforward.streams.stages.outgoing import Place, Records
from pastforward.streams.transport.connection import Connection

BATCH: Final = LIMIT
RETRY_MS: Final = 5  # while the last marker is being written the broker says "again"; with 100 the p99 is 130 ms
REQUEST_MAX: Final = 13 << 20  # above `max.message.bytes` of our largest topics, so that the broker decides
DROPPED: Final = 5.0  # seconds that a producer which is given up has to end what it is doing
_NO_HEADERS: Final[list[Any]] = []

Frames = list[Frame | Deferred]
Batches = Iterable[tuple[Place, Records | Frames]]

_TRANSACTIONAL: Final = 0x10
_BEHIND_LENGTH: Final = struct.calcsize(">qi")
_ATTRIBUTES: Final = struct.calcsize(">qiibI")
# Base offset, length, leader epoch, magic, CRC; attributes, last offset, first and last time, producer, epoch, first sequence, count.
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == HEADER


class Framed(BatchBuilder):
    """A batch whose records are written already; what a producer knows is put before them."""

    def __init__(self, frame: Frame, *, transactional: bool) -> None:
        self._frame, self._transactional = frame, transactional
        self._state = (-1, -1, 0)
        self._made_at = time.time_ns() // 1_000_000
        self._closed = True
        self._buffer: bytearray | None = None

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._state = producer_id, producer_epoch, base_sequence

    def _build(self) -> bytearray:
        if self._buffer is None:
            count, data = self._frame.count, self._frame.data
            attributes = _TRANSACTIONAL if self._transactional else 0
            fixed = (attributes, count - 1, self._made_at, self._made_at, *self._state, count)
            _HEADER.pack_into(data, 0, 0, len(data) - _BEHIND_LENGTH, -1, 2, 0, *fixed)
            struct.pack_into(">I", data, _ATTRIBUTES - 4, calc_crc32c(memoryview(data)[_ATTRIBUTES:]))
            self._buffer = data
        return self._buffer

    def size(self) -> int:
        return len(self._frame.data)

    def record_count(self) -> int:
        return self._frame.count


def make_producer(connection: Connection, **promise: Any) -> Any:
    return AIOKafkaProducer(
        **connection.arguments(),
        **promise,
        max_batch_size=BATCH,
        max_request_size=REQUEST_MAX,
        linger_ms=0,
        retry_backoff_ms=RETRY_MS,
    )


async def start(producer: Any) -> None:
    """Starts one of aiokafka's producers; `NoBrokersAvailable` if the broker has answered, but that there is none.

    A broker that was away for long says so until its own cluster has taken it back, and aiokafka fails on an assertion then.
    """
    try:
        await producer.start()
    except AssertionError as error:
        if producer.client.cluster.brokers():
            raise
        raise NoBrokersAvailable("the cluster has not taken its broker back yet") from error


async def queue(producer: Any, batches: Batches) -> list[Any]:
    """Queues whole batches; the futures tell when they are safe. In turn, so that a request has one of each partition: aiokafka takes the
    next of a partition when the one before has left."""
    futures = []
    waiting = [(place, _batches(producer, records)) for place, records in batches]
    while waiting:
        more = []
        for (topic, partition), made in waiting:
            batch = next(made, None)
            if batch is not None:
                futures.append(await producer.send_batch(batch, topic, partition=partition))
                more.append(((topic, partition), made))
        waiting = more
    return futures


def _batches(producer: Any, records: Records | Frames) -> Iterator[Any]:
    begin = 0
    while begin < len(records):
        first = records[begin]
        if isinstance(first, Frame | Deferred):
            for frame in (first,) if isinstance(first, Frame) else first:
                yield Framed(frame, transactional=producer._txn_manager.transactional_id is not None)
            begin += 1
        else:
            batch = producer.create_batch()
            begin += _append(batch, cast(Records, records), begin)
            yield batch


def _append(batch: Any, records: Records, begin: int) -> int:
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


def failure_of(producer: Any) -> BaseException | None:
    """What a producer has died of, if it has."""
    task = producer._sender.sender_task
    if task is None or not task.done() or task.cancelled():
        return None
    error: BaseException | None = task.exception()
    return error


def add_to_transaction(producer: Any, places: Iterable[Place]) -> None:
    """All partitions at once: one request adds them."""
    for topic, partition in places:
        producer._txn_manager.maybe_add_partition_to_txn(TopicPartition(topic, partition))


_given_up: set[asyncio.Task[None]] = set()


def give_up(producer: Any) -> None:
    """Ends a producer without waiting for what it was sending, which may never come to an end: whoever takes over fences it."""

    def pass_over(answer: asyncio.Future[Any]) -> None:
        if not answer.cancelled():
            answer.exception()  # nobody waits for it any more

    async def end() -> None:
        producer._closed = True
        transactions = producer._txn_manager
        answers = [answer for _, _, answer in transactions._pending_txn_offsets]
        for answer in [*answers, *filter(None, [transactions._transaction_waiter])]:
            answer.add_done_callback(pass_over)
        with suppress(Exception, asyncio.CancelledError):
            async with asyncio.timeout(DROPPED):
                await producer._sender.close()
        with suppress(Exception):
            await producer.client.close()

    task = asyncio.create_task(end())
    _given_up.add(task)
    task.add_done_callback(_given_up.discard)
