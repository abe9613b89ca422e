"""Batches that are handed over whole hold what aiokafka's own loop gives, one by one."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, FetchResult, PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from streams.transport import bare_records

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


def test_what_was_fetched_before_a_seek_is_not_handed_over() -> None:
    whole, assignment = fetched("plain", 0)
    assignment.position = 3
    assert bare_records(whole) == []
