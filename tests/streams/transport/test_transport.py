"""Batches that are handed over whole hold what aiokafka's own loop gives, one by one."""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, Fetcher, FetchResult, PartitionRecords
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import TopicPartitionState
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord
from faust.transport.consumer import Consumer as FaustConsumer
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer

from pastforward.streams.transport import consumer as transport
from pastforward.streams.transport.consumer import Pace, PollScheduler, bare, bare_records

TP = TopicPartition("t", 0)
ABORT, COMMIT = 0, 1


def batch(base: int, count: int, producer: int = -1, marker: int | None = None) -> bytes:
    """A batch of the log: records of a producer, in a transaction if it has one, or the marker that ends one."""
    builder = DefaultRecordBatchBuilder(2, 0, int(producer >= 0), producer, 0, 0, 1 << 20)
    for i in range(count):
        if marker is None:
            builder.append(i, 1_000 + i, b"k%d" % (base + i), b"v%d" % (base + i), [])
        else:
            builder.append(i, 1_000, struct.pack(">hh", 0, marker), b"", [])
    raw = bytearray(builder.build())
    raw[0:8] = base.to_bytes(8, "big")
    if marker is not None:
        raw[22] |= 0x20  # a control batch
    return bytes(raw)


LOGS = {
    "plain": (batch(0, 3) + batch(3, 2), []),
    "compacted": (batch(0, 2) + batch(7, 2), []),
    "committed": (batch(0, 3, 5) + batch(3, 1, 5, COMMIT) + batch(4, 2), []),
    "aborted": (
        batch(0, 3, 5) + batch(3, 2, 6) + batch(5, 1, 5, ABORT) + batch(6, 1, 6, COMMIT) + batch(7, 2, 5),
        [(5, 0)],
    ),
    "nothing but markers": (batch(0, 1, 5, COMMIT), []),
}


class Assignment:
    """Where the consumer stands."""

    active = True
    paused = False

    def __init__(self, position: int) -> None:
        self.position = position

    def state_value(self, _: Any) -> Assignment:
        return self

    def consumed_to(self, position: int) -> None:
        self.position = position


def fetched(log: str, position: int) -> tuple[FetchResult, Assignment]:
    raw, aborted = LOGS[log]
    records = PartitionRecords(TP, MemoryRecords(raw), list(aborted), position, None, None, False, READ_COMMITTED)
    assignment = Assignment(position)
    return FetchResult(TP, assignment=assignment, partition_records=records, backoff=0), assignment


@pytest.mark.parametrize("position", [0, 1, 4])
@pytest.mark.parametrize("log", LOGS)
def test_whole_batches_hold_what_single_records_are(log: str, position: int) -> None:
    single, stood = fetched(log, position)
    whole, stands = fetched(log, position)
    wanted = [(record.offset, record.timestamp, record.key, record.value) for record in single.getall()]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in bare_records(whole)] == wanted
    assert stands.position == stood.position
    assert not whole.has_more()


def compressed(base: int, count: int, size: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, DefaultRecordBatch.CODEC_ZSTD, 0, -1, 0, 0, 1 << 30)
    for i in range(count):
        builder.append(i, 1_000, b"k", bytes(size), [])
    raw = bytearray(builder.build())
    raw[0:8] = base.to_bytes(8, "big")
    return bytes(raw)


@pytest.mark.parametrize("position", [0, 70, 199])
@pytest.mark.parametrize("most", [1, 1_000, 7_000, 1 << 30])
def test_what_was_compressed_is_handed_over_by_what_it_holds(
    monkeypatch: pytest.MonkeyPatch, most: int, position: int
) -> None:
    """A fetch of a few kilobytes may hold gigabytes."""
    monkeypatch.setattr(transport, "HANDED_BYTES", most)
    monkeypatch.setattr(transport, "SLICE", 3)
    raw = compressed(0, 200, 100) + compressed(200, 10, 100) + batch(210, 3)
    records = PartitionRecords(TP, MemoryRecords(raw), [], position, None, None, True, READ_COMMITTED)
    assignment = Assignment(position)
    result = FetchResult(TP, assignment=assignment, partition_records=records, backoff=0)
    found = []
    while result.has_more():
        records = bare_records(result)
        assert transport.nbytes_of(records[:-3]) <= most
        found += [record.offset for record in records]
        assert assignment.position == (213 if found and found[-1] == 212 else found[-1] + 1 if found else position)
    assert found == list(range(position, 213))


def test_what_comes_while_somebody_waits_for_it_is_not_wrapped_either() -> None:
    fetcher = SimpleNamespace(_records=OrderedDict())
    bare(fetcher)
    result, _ = fetched("plain", 0)
    fetcher._records[TP] = result  # as aiokafka does it when an answer has come
    records = fetcher._records[TP].getall()
    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    assert not any(isinstance(record, ConsumerRecord) for record in records)
    held = fetcher._records
    bare(fetcher)
    assert fetcher._records is held


def test_what_was_fetched_before_a_seek_is_not_handed_over() -> None:
    whole, assignment = fetched("plain", 0)
    assignment.position = 3
    assert bare_records(whole) == []


def test_a_poll_is_one_message_for_each_topic() -> None:
    a, b, c, empty = (TopicPartition(*place) for place in (("in", 0), ("in", 1), ("log", 0), ("log", 1)))
    polled = {a: [_Record(3), _Record(4)], b: [_Record(9)], c: [_Record(7)], empty: []}
    messages = list(PollScheduler().iterate(polled))
    assert [(tuple(tp), message.offset, message.value) for tp, message in messages] == [
        (("in", 0), 4, {a: polled[a], b: polled[b]}),
        (("log", 0), 7, {c: polled[c]}),
    ]


class _Record:
    timestamp, timestamp_type = 5, 1

    def __init__(self, offset: int) -> None:
        self.offset = offset


class _Fetcher:
    """What aiokafka would ask of its only node: all three topics."""

    def _get_actions_per_node(self, _: Any) -> Any:
        topics = [(name, [(0, 5, 1 << 20)]) for name in ("subscriptions", "publications", "rendezvous")]
        return [(1, FetchRequest(500, 1, 1 << 20, 1, topics))], {}, 0.2, False, []


def test_inputs_gather_when_the_loop_is_busy_and_the_log_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(transport.time, "monotonic", lambda: clock[0])
    fetcher = _Fetcher()
    pace = Pace(fetcher, ("subscriptions", "publications"))

    def asked() -> tuple[list[str], int, float]:
        ((_, request),), _, again, *_ = fetcher._get_actions_per_node(None)
        return [name for name, _ in request.topics], request._max_wait_ms, again

    everything = ["subscriptions", "publications", "rendezvous"]
    assert asked() == (everything, 500, 0.2)
    assert asked() == (everything, 500, 0.2)  # an idle loop: nothing waits
    pace._gather = 0.03
    assert asked() == (everything, 500, 0.2)
    clock[0] += 0.01
    names, wait, again = asked()
    assert (names, wait) == (["rendezvous"], 20)
    assert again == pytest.approx(0.02)
    clock[0] += 0.021
    assert asked() == (everything, 500, 0.2)


def test_the_private_parts_of_aiokafka_that_the_producers_use_are_there() -> None:
    """`streams.transport.producer` names them: a new version that has changed one fails here, not in a worker."""

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers="nowhere:1", transactional_id="t")
        assert producer._sender.sender_task is None
        assert inspect.iscoroutinefunction(producer._sender.close)
        assert producer._closed is False
        transactions = producer._txn_manager
        assert list(inspect.signature(transactions.maybe_add_partition_to_txn).parameters) == ["tp"]
        assert list(transactions._pending_txn_offsets) == []
        assert transactions._transaction_waiter is None
        batch = producer.create_batch()
        assert batch._relative_offset == 0
        assert batch._builder.append(0, None, b"k", b"v", []) is not None
        await producer.stop()

    asyncio.run(run())


def test_the_private_parts_of_aiokafka_and_faust_that_the_consumer_uses_are_there() -> None:
    async def run() -> None:
        consumer = AIOKafkaConsumer("t", bootstrap_servers="nowhere:1", group_id="g")
        assert consumer._subscription.subscription.assignment is None
        assert hasattr(consumer, "_coordinator")
        assert hasattr(consumer, "_fetcher")
        assert list(inspect.signature(consumer._client.force_metadata_update).parameters) == []

    asyncio.run(run())
    assert list(inspect.signature(GroupCoordinator.request_rejoin).parameters) == ["self"]
    assert inspect.iscoroutinefunction(GroupCoordinator.fetch_committed_offsets)
    assert {"position", "has_valid_position"} <= set(dir(TopicPartitionState))
    assert "lso" in inspect.getsource(TopicPartitionState)
    assert "_fetch_waiters" in inspect.getsource(Fetcher.__init__)
    assert list(inspect.signature(Fetcher._notify).parameters) == ["self", "future"]
    for name in ("_create_worker_consumer", "_fetch_records", "_ensure_consumer", "call_thread"):
        assert hasattr(AIOKafkaConsumerThread, name), name
    for name in ("_new_consumer_thread", "_getmany", "commit", "perform_seek", "stop_flow"):
        assert hasattr(Consumer, name), name
    assert "_read_offset" in inspect.getsource(FaustConsumer.__init__)
