"""The state of a partition at its committed offset, rebuilt from Kafka alone, without emitting anything."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition

from pastforward.errors import UserError
from pastforward.topics import Topics
from state import Store
from streams import auctions, repeats
from streams.connection import Connection
from streams.engine import PROGRESS as KEPT_PROGRESS
from streams.engine import Engine
from streams.gone import FOREVER, Gone
from streams.matcher import PROGRESS
from streams.progress import Progress, decode_progress
from streams.readback import bounds, offset_at, stretch
from streams.routes import Routes
from streams.routing import Directory

log = logging.getLogger("pastforward.recovery")

REPORT_SECONDS: Final = 2.0  # longer work says how far it is


class Meter:
    """Says how far a recovery is, how fast, and how long it will take."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._started = self._said = time.monotonic()
        self._done = 0

    def add(self, records: int) -> None:
        self._done += records
        now = time.monotonic()
        if now - self._said >= REPORT_SECONDS:
            self._said = now
            rate = self._done / (now - self._started)
            left = max(0, self._total - self._done) / rate
            log.info(
                "%s: %d of %d records, %.0f a second, %.0f s left", self._what, self._done, self._total, rate, left
            )


async def _metered(connection: Connection, partition: TopicPartition, start: int, end: int) -> AsyncIterator[list[Any]]:
    meter = Meter(f"recovering {partition.topic} {partition.partition}", end - start)
    async for records in stretch(connection, partition, start, end):
        yield records
        meter.add(len(records))


async def recover_routes(connection: Connection, topics: Topics, number: int) -> Routes:
    """Where each subscription of an input partition went."""
    routes = Routes(topics.routes, number)
    changelog = TopicPartition(topics.routes, number)
    async for records in _metered(connection, changelog, *await bounds(connection, changelog)):
        routes.restore(records)
    return routes


def open_whole(make: Callable[[], Store]) -> Store:
    """A store as it was left. One whose rebuilding was cut off begins anew: it holds a part of the publications, and no subscription."""
    store = make()
    if store.offset is None or store.get_meta(KEPT_PROGRESS) is not None:
        return store
    log.info("the rebuilding of %s was cut off, and begins anew", store.path)
    store.close()
    shutil.rmtree(store.path)
    return make()


async def recover_engine(
    connection: Connection, topics: Topics, engine: Engine, committed: int, entry: Directory
) -> None:
    """Brings an engine to the committed offset: from its own store if that is not too old, else from Kafka alone."""
    rendezvous = TopicPartition(topics.rendezvous, engine.number)
    first, _ = await bounds(connection, rendezvous)
    if engine.offset is None:
        await _rebuild(connection, topics, engine, committed, rendezvous, first, entry)
        return
    if engine.offset > committed:
        raise UserError(
            f"the state of partition {engine.number} is at offset {engine.offset}, but the group has committed {committed}: "
            f"the topics are not those that it was made from. Move it away, and it is rebuilt from Kafka"
        )
    if engine.offset < first:
        raise UserError(
            f"the state of partition {engine.number} is at offset {engine.offset}, but its log begins at {first}. "
            f"Move it away, and it is rebuilt from Kafka"
        )
    await asyncio.to_thread(engine.load)
    async for records in _metered(connection, rendezvous, engine.offset, committed):
        values, stamps = [r.value for r in records], [r.timestamp * 1000 for r in records]
        await asyncio.to_thread(engine.process, values, stamps, [r.offset for r in records])
        engine.commit(records[-1].offset + 1)
    engine.commit(committed)


async def _rebuild(
    connection: Connection,
    topics: Topics,
    engine: Engine,
    committed: int,
    rendezvous: TopicPartition,
    first: int,
    entry: Directory,
) -> None:
    """Publications from the last two hot windows of the log, but for those that were repeats: what is held from the last one carries
    what was the previous publication then. After them the live subscriptions, from the changelog."""
    changelog = await _read_changelog(connection, TopicPartition(topics.live, engine.number))
    if changelog.progress is None:
        if committed > first:
            raise UserError(
                f"partition {engine.number} has been matched up to offset {committed}, but {topics.live} is empty: its "
                f"subscriptions are lost. Restore that topic, or use another TOPIC_PREFIX and subscribe again"
            )
        engine.begin(entry)
        return
    known, reached = changelog.progress
    engine.repeats.restore(changelog.repeats)
    start = await offset_at(connection, rendezvous, known.log_time - 2 * engine.hot_window)
    start = first if start is None else max(first, start)
    cut_off = start == first > 0
    async for records in _metered(connection, rendezvous, start, max(committed, reached)):
        if cut_off:
            # What arrived before the first record that is left may be missing, and nothing is known of it.
            known.complete_from = records[0].timestamp * 1000
            known.gone = Gone(FOREVER, FOREVER)
            cut_off = False
        values, stamps = [r.value for r in records], [r.timestamp * 1000 for r in records]
        await asyncio.to_thread(engine.remember, values, stamps, [r.offset for r in records], known.log_time)
        engine.commit_part(records[-1].offset + 1)
    await asyncio.to_thread(engine.adopt, changelog.live, changelog.auctions, known, max(committed, reached))
    engine.commit(committed)


class _Changelog(NamedTuple):
    """`progress`: with the offset that the changelog has reached. Live subscriptions, open auctions; repeats with their keys."""

    progress: tuple[Progress, int] | None
    live: list[bytes]
    auctions: list[bytes]
    repeats: dict[bytes, bytes]


async def _read_changelog(connection: Connection, changelog: TopicPartition) -> _Changelog:
    progress: tuple[Progress, int] | None = None
    held: dict[bytes, bytes] = {}
    async for records in _metered(connection, changelog, *await bounds(connection, changelog)):
        for record in records:
            if record.key == PROGRESS:
                progress = decode_progress(record.value)
            elif record.value is None:
                held.pop(record.key, None)
            else:
                held[record.key] = record.value
    others = {key: held.pop(key) for key in [key for key in held if key.startswith(b"\0")]}
    return _Changelog(
        progress,
        list(held.values()),
        [value for key, value in others.items() if key.startswith(auctions.KEY)],
        {key: value for key, value in others.items() if key.startswith(repeats.KEY)},
    )
