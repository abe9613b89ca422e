"""Reads the records of frames as aiokafka reads a log."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from aiokafka.record.memory_records import MemoryRecords

from pastforward.streams.stages.frames import Deferred, Frame
from pastforward.streams.stages.outgoing import Outgoing, Records
from pastforward.streams.transport.producer import Framed


def records_of(frames: Iterable[Frame | Deferred]) -> Records:
    found: list[Any] = []
    for frame in chain.from_iterable([each] if isinstance(each, Frame) else each for each in frames):
        built = Framed(Frame(frame.count, bytearray(frame.data)), transactional=False)
        records = MemoryRecords(bytes(built._build()))
        batch: Any = records.next_batch()
        assert not records.has_next()
        assert batch.validate_crc()
        found += [(record.key, record.value) for record in batch]
        assert built.record_count() == frame.count
    return found


def told_in(outgoing: Outgoing, topic: str) -> list[bytes]:
    """Values of the records of a topic, partition by partition."""
    return [
        value
        for (name, _), frames in sorted(outgoing.frames.items())
        if name == topic
        for _, value in records_of(frames)
        if value is not None
    ]
