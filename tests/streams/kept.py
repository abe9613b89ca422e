"""What Kafka keeps of one rendezvous partition, in lists: its log and its changelog, read by `streams.worker.recovery` itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from pastforward.schemas import Rendezvous, encode
from pastforward.streams.matcher.engine import Engine
from pastforward.streams.routing import Directory
from pastforward.streams.worker import recovery
from pastforward.topics import Topics

TOPICS = Topics("")


class Micros(int):
    """Kafka's stamps are milliseconds; the logs here are finer."""

    def __mul__(self, other: int) -> int:
        return int(self)


def as_records(log: list[Rendezvous], offset: int = 0) -> list[Any]:
    """As the broker stamps them: its clock does not go back."""
    stamps = accumulate((envelope.arrived_at for envelope in log), max)
    return [
        SimpleNamespace(offset=offset + i, timestamp=Micros(stamp), key=b"k", value=encode(envelope))
        for i, (envelope, stamp) in enumerate(zip(log, stamps, strict=True))
    ]


class Kept:
    """In place of `streams.transport.readback`. `first`: where retention has let the log begin."""

    def __init__(self) -> None:
        self.log: list[Rendezvous] = []
        self.changelog: list[tuple[bytes, bytes | None]] = []
        self.first = 0

    def recover(self, engine: Engine, committed: int, entry: Directory, piece: int = 7, earlier: int = 0) -> None:
        """Brings an engine to an offset, as a worker that takes over does it.

        `piece`: records of a poll. `earlier`: what was routed late was stamped later than it arrived, so that the stretch that is found by
        stamps begins so many records earlier.
        """

        async def bounds(_: Any, partition: TopicPartition) -> tuple[int, int]:
            if partition.topic == TOPICS.live:
                return 0, len(self.changelog)
            return self.first, len(self.log)

        async def stretch(_: Any, partition: TopicPartition, start: int, end: int) -> AsyncIterator[list[Any]]:
            records = self._records(partition)
            assert start >= end or start >= (await bounds(_, partition))[0], "what is gone cannot be read"
            for at in range(start, end, piece):
                yield records[at : min(at + piece, end)]

        async def offset_at(_: Any, partition: TopicPartition, micros: int) -> int | None:
            found = (record.offset for record in self._records(partition) if record.timestamp * 1000 >= micros)
            at = next((offset for offset in found if offset >= self.first), None)
            return None if at is None else max(self.first, at - earlier)

        with pytest.MonkeyPatch.context() as patch:
            for function in (bounds, stretch, offset_at):
                patch.setattr(recovery, function.__name__, function)
            connection: Any = None
            asyncio.run(recovery.recover_engine(connection, TOPICS, engine, committed, entry))

    def _records(self, partition: TopicPartition) -> list[Any]:
        if partition.topic == TOPICS.rendezvous:
            return as_records(self.log)
        assert partition.topic == TOPICS.live
        return [SimpleNamespace(offset=at, key=key, value=value) for at, (key, value) in enumerate(self.changelog)]
