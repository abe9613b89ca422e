"""Where Faust is bent to our use: whole polls instead of single records, and no commits of its own.

A stock agent costs several asyncio tasks a record. `ConsumerScheduler` is Faust's extension point for the order of records;
ours yields one synthetic record per topic and poll, whose value are the records by partition, and `Polls` hands them to
the agent. Offsets are committed by `streams.worker.sender` alone, together with the outputs: Faust's own commit would land between
ours and the marker of the transaction, and it acknowledges chunks that have failed.

All that Faust (0.15) and aiokafka (0.14) keep to themselves of a consumer is used here; `tests/streams/transport` names each
part, and fails when one is gone.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import faust
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult
from aiokafka.errors import (
    CorruptRecordException,
    KafkaConnectionError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from aiokafka.structs import OffsetAndMetadata
from faust.tables import TableManager
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP
from mode.utils.futures import maybe_async

from pastforward.streams.transport.log_ends import out_of_range

# Faust's services say there that they start and stop: of no interest to a user.
logging.getLogger(__name__).setLevel(logging.WARNING)

FETCH_WAIT_MS: Final = 500  # a fetch that finds nothing waits this long at the broker; data ends the wait at once
HANDED_BYTES: Final = (
    4 << 20
)  # of records that are handed over at once, as of a fetch: what was compressed may be far larger
SLICE: Final = 64  # records of a compressed batch between two looks at how large they are
GATHER: Final = 0.008  # seconds that inputs gather, when the event loop has no time left
WINDOW: Final = 0.1  # seconds over which it is seen how busy the event loop is
RECONNECT: Final = 1.0  # seconds until a broker that was not there is asked again
RETRY_MS: Final = 50  # a rebalance is made of several requests that may each be answered with "again"


class Poll:
    """What one poll has brought of one topic, in the shape of a record: the partitions' records are its value, and it goes by the name and
    the last offset of the first of them."""

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

    def __init__(self, polled: dict[TP, Sequence[Any]]) -> None:
        (self.topic, self.partition), records = next(iter(polled.items()))
        last = records[-1]
        self.offset, self.timestamp, self.timestamp_type = last.offset, last.timestamp, last.timestamp_type
        self.headers: tuple[()] = ()
        self.key = None
        self.value = polled
        self.checksum = None
        self.serialized_key_size = self.serialized_value_size = 0


class PollScheduler:
    def iterate(self, records: Mapping[TP, Sequence[Any]]) -> Iterator[tuple[TP, Poll]]:
        topics: dict[str, dict[TP, Sequence[Any]]] = {}
        for partition, polled in records.items():
            if polled:
                topics.setdefault(partition.topic, {})[TP(*partition)] = polled
        for partitions in topics.values():
            yield next(iter(partitions)), Poll(partitions)


class Polls(faust.Schema):
    """Hands the records through, undecoded: decoding is ours, so that nothing fails unseen."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> None:
        return None

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        return message.value


def bare_records(result: Any, max_records: int | None = None) -> list[Any]:
    """What a fetch has brought, in place of aiokafka's `FetchResult.getall`: records as its parser gives them, with offset, timestamp,
    key and value, a batch at a time. Wrapped one by one, as aiokafka does it, each costs seven times as much. `max_records` is passed over:
    a fetch has its own limit, in bytes. A compressed one may hold a thousand times that: what is handed over has the same limit, and
    the rest is handed over when it is asked for again."""
    if not result.check_assignment(result._topic_partition) or not result.has_more():
        return []
    fetched = result._partition_records
    found: list[Any] = []
    room = HANDED_BYTES
    opened = getattr(fetched, "opened", None)  # a batch that was handed over in part
    while room > 0 and (opened is not None or fetched._records.has_next()):
        if opened is None:
            batch = fetched._records.next_batch()
            if fetched._check_crcs and not batch.validate_crc():
                raise CorruptRecordException(f"Invalid CRC - {result._topic_partition}")
            if _skipped(fetched, batch):
                fetched.next_fetch_offset = batch.next_offset
                continue
            # `iter` begins a batch again, even one that is read already
            opened = batch, iter(partial(next, iter(batch), None), None)
        batch, rest = opened
        opened = None
        compressed = bool(batch.compression_type)
        records = list(islice(rest, SLICE) if compressed else batch)
        ended = not compressed or not records
        if records and records[0].offset < fetched.next_fetch_offset:
            records = [record for record in records if record.offset >= fetched.next_fetch_offset]
        found += records
        if ended:
            fetched.next_fetch_offset = batch.next_offset
            continue
        opened = batch, rest
        if records:
            fetched.next_fetch_offset = records[-1].offset + 1
            room -= nbytes_of(records)
    result._update_position()
    fetched.opened = opened
    if opened is None and not fetched._records.has_next():
        result._partition_records = None
    return found


def nbytes_of(records: Sequence[Any]) -> int:
    """Of their values."""
    return sum([len(record.value or b"") for record in records])


def _skipped(fetched: Any, batch: Any) -> bool:
    """Aborted ones, and the markers of transactions."""
    if fetched._isolation_level == READ_COMMITTED and batch.producer_id is not None:
        fetched._consume_aborted_up_to(batch.base_offset)
        if batch.is_control_batch and fetched._contains_abort_marker(batch):
            fetched._aborted_producers.discard(batch.producer_id)
        if batch.is_transactional and batch.producer_id in fetched._aborted_producers:
            return True
    return bool(batch.is_control_batch)


class _Bare(OrderedDict[Any, Any]):
    """What has been fetched and not handed out yet. Whatever is put here will not be wrapped, whoever waits for it."""

    def __setitem__(self, partition: Any, fetched: Any) -> None:
        if type(fetched) is FetchResult:
            fetched.getall = partial(bare_records, fetched)
        super().__setitem__(partition, fetched)


def bare(fetcher: Any) -> None:
    """To be called before anything is fetched, and as often as one likes."""
    if type(fetcher._records) is not _Bare:
        fetcher._records = _Bare(fetcher._records)


class _NoThread:
    """In place of the thread in which Faust would run its consumer: a task of the event loop itself. Handing every fetch from one loop
    to another costs both a wake-up, and a turn at the interpreter's lock; nothing is gained, as whatever takes long is computed in
    threads anyway."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def start(self) -> None:
        self._task = self._service.thread_loop.create_task(self._service._serve())

    def stop(self) -> None:
        """It has ended when the service has."""


class _Thread(AIOKafkaConsumerThread):
    Worker = _NoThread

    async def call_thread(self, fun: Any, *args: Any, **kwargs: Any) -> Any:
        return await maybe_async(fun(*args, **kwargs))

    async def on_start(self) -> None:
        """A broker that goes away in this moment is waited for, as at any later one."""
        while True:
            try:
                await super().on_start()
            except KafkaConnectionError:
                await self._consumer.stop()
                await asyncio.sleep(RECONNECT)
                if not self.should_stop:
                    continue
            return

    async def _gather_remaining_tasks(self) -> None:
        """Faust would cancel all tasks of the loop: it is not the consumer's alone."""

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
        try:
            records = await super()._fetch_records(consumer, active_partitions, timeout=timeout)
        except OffsetOutOfRangeError as error:
            await self._check_range(consumer, error.args[0])
            return {}
        except NoOffsetForPartitionError:
            return {}  # a takeover has not said yet where to begin
        if records and (epoch != self.consumer.epoch or not self.consumer.flow_active):
            for partition, polled in records.items():
                if partition in consumer.assignment():
                    consumer.seek(partition, polled[0].offset)
            return {}
        for partition, polled in records.items():
            self.consumer.handed[TP(*partition)] = polled[-1].offset + 1
        return records

    async def _check_range(self, consumer: Any, positions: Mapping[Any, int]) -> None:
        """Retention may overtake a worker that is slow, and a topic may be deleted under it."""
        for partition, position in positions.items():
            first = (await consumer.beginning_offsets([partition]))[partition]
            end = (await consumer.end_offsets([partition]))[partition]
            error = out_of_range(partition, self.app.conf.id, position, first, end)
            if error is not None:
                raise error


class Pace:
    """How long inputs gather at the broker until they are fetched again. A chunk has its price, however small it is: on an idle machine no
    record waits; the busier the event loop, the longer they gather, so that it is not occupied by ever smaller chunks with all records in
    a queue behind them. What the router writes comes as its chunks come, and is fetched at once."""

    def __init__(self, fetcher: Any, inputs: Container[str]) -> None:
        self._inputs = inputs
        self._gather = 0.0  # seconds
        self._due = 0.0  # when inputs may be fetched again, of the monotonic clock
        self._at, self._spent = time.perf_counter(), time.thread_time()
        self._actions = fetcher._get_actions_per_node
        fetcher._get_actions_per_node = self._paced

    def look(self) -> None:
        """From the event loop."""
        now = time.perf_counter()
        if now - self._at >= WINDOW:
            spent = time.thread_time()
            self._gather = GATHER * (spent - self._spent) / (now - self._at)
            self._at, self._spent = now, spent

    def _paced(self, assignment: Any) -> Any:
        """In place of aiokafka's own: what to ask of each node, and when to look again."""
        requests, resets, again, *rest = self._actions(assignment)
        now = time.monotonic()
        left = self._due - now
        if left <= 0:
            if any(topic in self._inputs for _, request in requests for topic, _ in request.topics):
                self._due = now + self._gather
            return (requests, resets, again, *rest)
        held = []
        for node, request in requests:
            topics = [each for each in request.topics if each[0] not in self._inputs]
            if topics:
                request._topics, request._max_wait_ms = topics, math.ceil(1000 * left)
                held.append((node, request))
        return (held, resets, min(again, left), *rest)


class Unheld:
    """In place of the set of partitions that aiokafka hands records out for: those of `wanted` that nobody holds at that moment. True even
    if there is none of them: aiokafka takes an empty set for all."""

    def __init__(self, wanted: Container[TP], held: Container[TP]) -> None:
        self._wanted, self._held = wanted, held

    def __contains__(self, partition: Any) -> bool:
        return partition in self._wanted and partition not in self._held

    def __bool__(self) -> bool:
        return True


class Standing(NamedTuple):
    """Of a partition: the next offset that the consumer reads, and the end of what is committed; None: not known."""

    position: int | None
    end: int | None


class _Consumer(Consumer):
    """`handed`: the offset behind the last record that was handed out, by partition.

    `hold` stops the fetching of one partition. Faust's own `pause_partitions` would not do: it drops a poll that is on its way.
    """

    epoch = 0
    _pace: Pace
    _paced: Any = None  # the fetcher that has been given it

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.handed: dict[TP, int] = {}
        self._held: set[TP] = set()

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, thread_loop=self.loop, beacon=self.beacon)

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        return False

    async def perform_seek(self) -> None:
        """The seek is part of the takeover (`streams.worker.assignment`), after the old owner has been fenced."""

    def stop_flow(self) -> None:
        self.epoch += 1
        super().stop_flow()

    def hold(self, partition: TP, full: bool) -> None:
        """What has been fetched of a held partition stays where it is: one fetch at most."""
        if full:
            self._held.add(partition)
            return
        self._held.discard(partition)
        fetcher = self._thread._ensure_consumer()._fetcher
        for waiter in list(fetcher._fetch_waiters):
            fetcher._notify(waiter)  # what was fetched of it before is handed out now

    def release_all(self) -> None:
        """Whoever owns the partitions next holds none of them."""
        self._held.clear()

    # What Faust and aiokafka keep to themselves, for the assignment.

    def subscribed(self) -> frozenset[str]:
        """Topics; empty as long as there is no consumer."""
        consumer = self._thread._consumer
        return frozenset() if consumer is None else frozenset(consumer.subscription())

    def all_partitions(self) -> list[TopicPartition]:
        """Of the topics that it is subscribed to, whoever has them."""
        known = self._thread._consumer.partitions_for_topic
        return [TopicPartition(topic, number) for topic in self.subscribed() for number in known(topic) or ()]

    def stands_at(self, partition: TopicPartition) -> Standing:
        assignment = self._thread._consumer._subscription.subscription.assignment
        state = None if assignment is None else assignment.state_value(partition)
        if state is None:
            return Standing(None, None)
        end = None if state.lso is None else int(state.lso)
        return Standing(int(state.position) if state.has_valid_position else None, end)

    def begin_at(self, partition: TP, offset: int) -> None:
        """After a seek. Faust drops what is not above the last offset it has read."""
        self.handed[partition] = offset
        self._read_offset[partition] = None

    async def look_again(self) -> None:
        """For partitions of topics that it does not see."""
        await self._thread._consumer._client.force_metadata_update()

    def request_rejoin(self) -> None:
        self._thread._consumer._coordinator.request_rejoin()

    async def commit_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """With their metadata, as a member of the group's present generation."""
        await self._thread.call_thread(self._thread._consumer.commit, offsets)

    async def committed_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Asked of the broker, not of what was committed here."""
        fetch = self._thread._consumer._coordinator.fetch_committed_offsets
        found: dict[TopicPartition, OffsetAndMetadata] = await self._thread.call_thread(fetch, partitions)
        return found

    async def _getmany(self, active_partitions: Any, timeout: float) -> Any:
        epoch = self.epoch
        fetcher = self._thread._ensure_consumer()._fetcher
        if self._paced is not fetcher:
            self._pace, self._paced = Pace(fetcher, self.transport.inputs), fetcher
        self._pace.look()
        records = await super()._getmany(Unheld(active_partitions, self._held), timeout)
        return records if epoch == self.epoch else {}


class PollTransport(Transport):
    """`inputs`: topics whose records may gather."""

    Consumer = _Consumer
    inputs: Container[str] = ()


class NoTables(TableManager):
    """Faust gives agents a second to declare tables. There are none."""

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()
