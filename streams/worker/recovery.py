"""The state of a partition at its committed offset, rebuilt from Kafka alone, without emitting anything."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from aiokafka import TopicPartition

from pastforward.errors import UserError
from pastforward.schemas import SchemaError
from pastforward.state import Store, UnusableError
from pastforward.state.rocks import is_corruption
from pastforward.streams.matcher import best_offers as auctions
from pastforward.streams.matcher import duplicates, searches
from pastforward.streams.matcher.cold import FOREVER, Cold
from pastforward.streams.matcher.engine import PROGRESS as KEPT_PROGRESS
from pastforward.streams.matcher.engine import Engine
from pastforward.streams.matcher.matcher import PROGRESS
from pastforward.streams.matcher.progress import Progress, decode_progress, is_current
from pastforward.streams.matcher.searches import Resuming
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing import Directory
from pastforward.streams.stages.guard import in_halves, warn
from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.readback import both_ends, bounds, offset_at, stretch
from pastforward.streams.worker.task import AHEAD, MOST
from pastforward.topics import Topics

log = logging.getLogger("pastforward.recovery")

TAIL: Final = 16  # records at the end of a changelog: the last one is the progress, transactions leave markers
BACK: Final = AHEAD * MOST  # records of an input whose outputs may have been on their way when a worker ended
REPORT_SECONDS: Final = 2.0  # longer work says how far it is


class StaleError(UserError):
    """The local state does not fit the log. Kafka alone has all that is needed to rebuild it."""


class Meter:
    """Says how far a recovery is, how fast, and how long it will take."""

    last: ClassVar[float] = 0.0  # when any recovery of this process went on, of the performance counter

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._started = self._said = time.monotonic()
        self._done = 0

    def add(self, records: int) -> None:
        self._done += records
        Meter.last = time.perf_counter()
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


def is_useless(error: Exception) -> bool:
    """Whether a local state is what cannot be used, and not the machine or the broker."""
    return isinstance(error, StaleError | UnusableError) or is_corruption(error)


def open_whole(make: Callable[[], Store], anew: Callable[[], None] = lambda: None) -> Store:
    """A store as it was left. One whose rebuilding was cut off begins anew, and `anew` is called: it holds a part of the publications, and
    no subscription. Raises `StaleError` if it is whole, but what another version has written."""
    store = make()
    progress = store.get_meta(KEPT_PROGRESS)
    if store.offset is None or is_current(progress):
        return store
    store.close()
    if progress is not None:
        raise StaleError(f"it is of another version ({progress[:60]!r})")
    log.warning("%s is not whole, as its rebuilding was cut off: it is rebuilt from Kafka", store.path)
    shutil.rmtree(store.path)
    anew()
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
        raise StaleError(f"it is at offset {engine.offset}, but the group has committed {committed}")
    if engine.offset < first:
        raise StaleError(f"it is at offset {engine.offset}, but its log begins at {first}")
    try:
        await asyncio.to_thread(engine.load)
    except SchemaError as error:
        raise StaleError(f"it cannot be read: {error}") from error
    engine.resuming = Resuming()
    if engine.offset < committed:
        await _learn(connection, TopicPartition(topics.live, engine.number), engine)
    async for records in _metered(connection, rendezvous, engine.offset, committed):
        await asyncio.to_thread(_replay, engine, records)
        engine.commit(records[-1].offset + 1)
    engine.resumed()
    engine.commit(committed)


async def _learn(connection: Connection, changelog: TopicPartition, engine: Engine) -> None:
    """What was refused behind the store's offset, which another worker, or a later moment of this one, has noted in the changelog; and
    which searches of the past go on."""
    latest = await _latest_progress(connection, changelog)
    if latest is None or engine.offset is None:
        return
    known = latest[0]
    if known.searching:
        engine.resuming = Resuming.read((await _read_changelog(connection, changelog)).past)
        first = min(engine.resuming.places, default=engine.offset)
        if first < engine.offset:
            raise StaleError(f"it is at offset {engine.offset}, and a search goes on from offset {first}")
        if known.hot_window != engine.hot_window:
            raise StaleError("the hot window has changed, and a search goes on that began under the one before")
    if engine.offset < known.refused_from:
        raise StaleError(
            f"it is at offset {engine.offset}, and what was refused between there and {known.refused_from} is forgotten"
        )
    if engine.offset < known.refused_until:
        engine.refusals.restore((await _read_changelog(connection, changelog)).refused)


def _replay(engine: Engine, records: Sequence[Any]) -> None:
    """What the worker that came here first has refused is known; what raises for other reasons is refused as well."""

    def process(some: Sequence[Any]) -> None:
        engine.process([r.value for r in some], [r.timestamp * 1000 for r in some], [r.offset for r in some])

    in_halves(process, partial(_refuse, engine, process), records)


def _refuse(engine: Engine, process: Callable[[Sequence[Any]], None], record: Any, error: Exception) -> None:
    warn(f"replay of rendezvous partition {engine.number}", record.offset, error)
    engine.lost["refused_in_replay"] += 1

    def skip(refused: Any, _: Exception) -> None:
        engine.skip(refused.offset, refused.timestamp * 1000)

    engine.refuse(record.offset)
    in_halves(process, skip, [record])
    engine.owe(record.offset)


async def resume(
    connection: Connection, topics: Topics, partitions: int, wanted: Sequence[TopicPartition], *, exactly_once: bool
) -> dict[TopicPartition, int]:
    """Where partitions were read up to, as the changelogs say, for which the group has no offset any more. Of what has never been read
    they know nothing.

    A rendezvous partition: the offset of its last progress, which was written together with its outputs. An input: behind the last record
    of it that any rendezvous partition has seen, as all before that one has been routed; what is routed again is recognised there. At least
    once, records before it may have been on their way to other partitions.
    """
    changelogs = [TopicPartition(topics.live, number) for number in range(partitions)]
    written = [changelog for changelog, (_, end) in (await both_ends(connection, changelogs)).items() if end]
    found = await asyncio.gather(*(_latest_progress(connection, changelog) for changelog in written))
    reached: dict[TopicPartition, int] = {}
    inputs = {"subscriptions": topics.subscriptions, "publications": topics.publications}
    for changelog, latest in zip(written, found, strict=True):
        if latest is None:
            continue
        progress, offset = latest
        reached[TopicPartition(topics.rendezvous, changelog.partition)] = offset
        for (origin, number), at in progress.seen.items():
            place = TopicPartition(inputs[origin], number)
            reached[place] = max(reached.get(place, 0), at + 1)
    ends = await both_ends(connection, [place for place in wanted if place in reached])
    return {
        place: _adjusted(reached[place], *ends[place], place.topic == topics.rendezvous, exactly_once) for place in ends
    }


def _adjusted(reached: int, first: int, end: int, rendezvous: bool, exactly_once: bool) -> int:
    if exactly_once:
        # A log that retention has emptied begins behind the marker of the transaction that its last record came in.
        return first if rendezvous and reached + 1 == first == end else reached
    return reached if rendezvous else max(min(first, reached), reached - BACK)


async def _latest_progress(connection: Connection, changelog: TopicPartition) -> tuple[Progress, int] | None:
    """The last one in the changelog, which every chunk writes at its end: the first look at the tail finds it."""
    first, end = await bounds(connection, changelog)
    tail = TAIL
    while True:
        start = max(first, end - tail)
        latest = None
        async for records in stretch(connection, changelog, start, end):
            latest = next((record for record in reversed(records) if record.key == PROGRESS), latest)
        if latest is not None:
            return decode_progress(latest.value)
        if start == first:
            return None
        tail *= 64


async def _rebuild(
    connection: Connection,
    topics: Topics,
    engine: Engine,
    committed: int,
    rendezvous: TopicPartition,
    first: int,
    entry: Directory,
) -> None:
    """Publications from the last two hot windows of the log, but for those that were duplicates: what is held from the last one carries
    what was the previous publication then. After them the live subscriptions, from the changelog."""
    changelog = await _read_changelog(connection, TopicPartition(topics.live, engine.number))
    if changelog.progress is None:
        if committed > first:
            raise UserError(
                f"partition {engine.number} has been matched up to offset {committed}, but {topics.live} is empty: its "
                f"subscriptions are lost. Restore that topic, or use another TOPIC_PREFIX and subscribe again"
            )
        engine.begin(entry, changelog.auctions.values())
        if changelog.auctions:
            engine.commit(committed)  # a chunk that fails must not take them along
        return
    known, reached = changelog.progress
    engine.resuming = Resuming.read(changelog.past)
    since = engine.resuming.log_time
    log_time = known.log_time if since is None else min(since, known.log_time)
    engine.duplicates.restore(changelog.duplicates)
    engine.refusals.restore(changelog.refused)
    engine.rebuild(known)
    start = await offset_at(connection, rendezvous, engine.rebuilt_from(log_time))
    start = first if start is None else max(first, start)
    left_from: int | None = None
    async for records in _metered(connection, rendezvous, start, max(committed, reached)):
        if left_from is None:
            left_from = records[0].timestamp * 1000
        await asyncio.to_thread(_remember, engine, records, log_time)
        engine.commit_part(records[-1].offset + 1)
    if start == first > 0:
        # What arrived up to the first record that is left, or at all if there is none, may be missing, and nothing is known of it.
        missing = known.log_time if left_from is None else left_from
        known.complete_from = max(known.complete_from, missing + 1)
        known.cold = Cold(FOREVER, FOREVER)
    await asyncio.to_thread(engine.adopt, changelog.live, changelog.auctions, known, max(committed, reached))
    engine.resumed()
    engine.commit(committed)


def _remember(engine: Engine, records: Sequence[Any], log_time: int) -> None:
    def remember(some: Sequence[Any]) -> None:
        values, stamps = [r.value for r in some], [r.timestamp * 1000 for r in some]
        engine.remember(values, stamps, [r.offset for r in some], log_time)

    def refuse(record: Any, error: Exception) -> None:
        warn(f"rebuild of rendezvous partition {engine.number}", record.offset, error)
        engine.lost["refused_in_rebuild"] += 1

    in_halves(remember, refuse, records)


class _Changelog(NamedTuple):
    """`progress`: with the offset that the changelog has reached. Live subscriptions, open auctions; duplicates, refusals with keys."""

    progress: tuple[Progress, int] | None
    live: list[bytes]
    auctions: dict[bytes, bytes]
    duplicates: dict[bytes, bytes]
    refused: dict[bytes, bytes]
    past: dict[bytes, bytes]  # notes of searches that go on


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
        *(
            {key: value for key, value in others.items() if key.startswith(begin)}
            for begin in (
                auctions.KEY,
                duplicates.key_of(duplicates.DUPLICATES),
                duplicates.key_of(duplicates.REFUSED),
                searches.KEY,
            )
        ),
    )
