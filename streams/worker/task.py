"""One partition that this worker owns: its chunks are computed one after the other, and sent while the next is computed."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError

from pastforward.streams.stages.guard import after_failure, in_halves, is_fault
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.stages.stage import Allowed, Stage
from pastforward.streams.transport.consumer import nbytes_of
from pastforward.streams.worker.memory import give_back
from pastforward.streams.worker.sender import TOGETHER, Chunk, Interrupted, Sender
from pastforward.streams.worker.throttle import PIECE, Courtesy

AGAIN: Final = 0.02  # seconds until a router that waits for another one looks again

# Small chunks are computed in the event loop: to a thread and back costs them several turns of a busy machine's scheduler.
SMALL: Final = 500  # records
SMALL_BYTES: Final = 64 << 10  # of their values: 10 ms, whatever they hold
QUICK: Final = 0.05  # seconds that the last chunk took at most

FIRST: Final = 200  # records of a first piece, before anything is known of what they lead to
LEAST: Final = 20
MOST: Final = 10_000
MOST_BYTES: Final = 4 << 20  # of a piece's values, unless one alone has more: some ten times that while it is computed
FLOOD: Final = 100_000  # records behind which, in a silent moment, memory is given back

AHEAD: Final = 2  # chunks on their way to the broker: one in the transaction that runs, one for the next
FLUSH_EVERY: Final = 0.5  # seconds of work that are done again, at most, from the local state
FLUSH_RECORDS: Final = 10_000  # and so many records at most

OVERTAKEN: Final = (
    CommitFailedError,
    IllegalStateError,
)  # what a commit says to whom the partition does not belong any more


class _Flight(NamedTuple):
    """A chunk on its way to the broker."""

    began: float  # seconds of the performance counter
    arrived: float  # its first record, seconds of the epoch
    computed: float
    records: int
    sent: asyncio.Task[None]


def _joined(parts: list[Outgoing]) -> Outgoing:
    return parts[0] if len(parts) == 1 else Outgoing.joined(parts)


def _first_of(records: Sequence[Any]) -> Sequence[Any]:
    """As many as a piece may have by their bytes; one at least."""
    together = 0
    for count, record in enumerate(records):
        together += len(record.value or b"")
        if together > MOST_BYTES and count:
            return records[:count]
    return records


class PartitionTask:
    """`position`: up to there everything is computed. `passed`: up to where nothing more will come than what has been handled, behind the
    markers of transactions and other holes; it is committed as well, as retention may leave a log that begins there. The state is made
    durable now and then, when everything computed is safe at the broker: so it is never ahead of the committed offset, and what it lacks is
    replayed from the log.

    `turn`: of all tasks of a worker, one at a time searches the past further."""

    def __init__(
        self,
        partition: TopicPartition,
        sender: Sender,
        stage: Stage,
        position: int,
        metrics: Metrics,
        courtesy: Courtesy | None = None,
        passed: Callable[[PartitionTask], int] | None = None,
        turn: asyncio.Lock | None = None,
    ) -> None:
        self.partition = partition
        self.sender = sender
        self.stage = stage
        self.position = position
        self._courtesy = courtesy
        self._passed = passed
        self._turn = asyncio.Lock() if turn is None else turn
        self._known = position  # up to there the stage knows
        self._computing: tuple[float, float] | None = None  # since when, and the arrival of the first record
        self._flights: deque[_Flight] = deque()
        self._unflushed = 0  # records
        self._flushed_at = time.perf_counter()
        self._piece = FIRST
        self._since = 0  # records handled since memory was given back
        self._computed = 2 * QUICK  # seconds, of the last chunk
        self._metrics = metrics
        self._lock = asyncio.Lock()
        self._released = False
        self._failed = False

    @property
    def busy_since(self) -> float | None:
        """When the oldest chunk that is in the works was begun."""
        return self._oldest[0] if self._oldest else None

    @property
    def delay(self) -> float:
        """Seconds since the oldest record that is in the works has arrived."""
        return max(0.0, time.time() - self._oldest[1]) if self._oldest else 0.0

    @property
    def _oldest(self) -> tuple[float, float] | None:
        return next((flight[:2] for flight in self._flights if not flight.sent.done()), self._computing)

    async def handle(self, records: Sequence[Any]) -> None:
        """In pieces, so that what a piece leads to has a bound: a flood of subscriptions may find a great deal."""
        while True:
            async with self._lock:
                if self._released:
                    return
                waiting = records
                if waiting and waiting[0].offset < self.position:
                    waiting = [record for record in waiting if record.offset >= self.position]
                before = self.position
                allowed = await self._allowed()
                within = waiting
                if allowed.limit is not None:
                    within = [record for record in waiting if record.offset < allowed.limit]
                    if waiting and not within:
                        self.position = max(self.position, allowed.limit)  # no record lies between
                guest = self._courtesy is not None and self._courtesy.guest()
                piece = _first_of(within[: min(self._piece, PIECE) if guest else self._piece])
                if self.stage.searching:
                    await self._search()
                    piece = piece[: self.stage.room(piece)]
                if piece:
                    searching = self.stage.searching
                    fitting = len(piece) * TOGETHER // max(await self._handle(piece), 1)
                    if self.stage.searching and not searching:
                        fitting = min(fitting, len(piece) // 2)  # fewer subscriptions at once find all that they find
                    self._piece = max(LEAST, min(fitting, 2 * self._piece, MOST))
                records = waiting[len(piece) :]
                if not records or (allowed.final and len(piece) == len(within)):
                    return  # behind a final limit records are another router's
                stuck = self.position == before and not self.stage.searching
            if stuck:
                await asyncio.sleep(AGAIN)

    async def _allowed(self) -> Allowed:
        """What a change of the routing lets the stage do; what it has to say for that is said when all before it is safe."""
        allowed = self.stage.allowed(self.position)
        if allowed.say is not None:
            await self._flush()
            await self.sender.send(Chunk(self.partition, allowed.say, None))
        return allowed

    async def nudge(self) -> None:
        """The directory has news."""
        async with self._lock:
            if not self._released:
                await self._allowed()

    async def _handle(self, records: Sequence[Any]) -> int:
        """Returns the number of records that are sent."""
        outgoing, begun = await self._compute(records)
        self.position = self._known = records[-1].offset + 1
        if self._passed is not None:
            self.position = max(self.position, self._passed(self))
        self._since += len(records)
        self._unflushed += len(records)
        await self._fly(Chunk(self.partition, outgoing, self.position, self.stage.arrived_at), *begun, len(records))
        return outgoing.count

    async def _fly(self, chunk: Chunk, began: float, arrived: float, records: int) -> None:
        sent = asyncio.create_task(self.sender.send(chunk))
        flight = _Flight(began, arrived, self._computed, records, sent)
        self._flights.append(flight)
        sent.add_done_callback(partial(self._count, flight))
        # At the same moments in all partitions, so that at least once, where settling is a transaction, they share it.
        if self._unflushed >= FLUSH_RECORDS or began // FLUSH_EVERY > self._flushed_at // FLUSH_EVERY:
            await self._flush()
        while len(self._flights) >= AHEAD or (self._flights and self._flights[0].sent.done()):
            await self._land()

    async def further(self) -> bool:
        """When no record waits. Returns whether there was anything to do."""
        async with self._lock:
            if self._released or not self.stage.searching:
                return False
            await self._search()
            return True

    async def _search(self) -> None:
        """A part of what is left to find; it leaves as a chunk does."""
        async with self._turn:
            began = self._computing = time.perf_counter(), time.time()
            outgoing = await asyncio.to_thread(self._search_in_thread)
            self._computing = None
        self._unflushed += 1
        self._since += outgoing.count
        if outgoing.count or outgoing.changelog:
            await self._fly(Chunk(self.partition, outgoing, None), *began, 0)

    def _search_in_thread(self) -> Outgoing:
        outgoing = self.stage.search()
        outgoing.measure()
        return outgoing

    async def _compute(self, records: Sequence[Any]) -> tuple[Outgoing, tuple[float, float]]:
        """Also: when it was begun, and when its first record had arrived."""
        process = self._process
        if self._courtesy is not None and self._courtesy.guest():
            async with self._courtesy:
                begun = time.perf_counter(), records[0].timestamp / 1000
                outgoing = await asyncio.to_thread(process, records)
        else:
            begun = self._computing = time.perf_counter(), records[0].timestamp / 1000
            quick = (
                len(records) <= SMALL
                and self._computed < QUICK
                and nbytes_of(records) <= SMALL_BYTES
                and not self.stage.takes_long(records)
            )
            outgoing = await self._quickly(records) if quick else await asyncio.to_thread(process, records)
        self._computed = time.perf_counter() - begun[0]
        self._computing = None
        return outgoing, begun

    def _process(self, records: Sequence[Any]) -> Outgoing:
        outgoing = _joined(in_halves(self.stage.process, self.stage.refuse, records))
        outgoing.measure()
        return outgoing

    async def _quickly(self, records: Sequence[Any]) -> Outgoing:
        """In the event loop, unless it fails: then it takes its time."""
        try:
            return self.stage.process(records)
        except Exception as error:
            if is_fault(error):
                raise
            stage = self.stage
            return _joined(await asyncio.to_thread(after_failure, error, stage.process, stage.refuse, records))

    async def _land(self) -> None:
        """Waits for the oldest flight."""
        try:
            await self._flights[0].sent
        except BaseException:
            self._failed = True
            raise
        self._flights.popleft()

    def _count(self, flight: _Flight, sent: asyncio.Task[None]) -> None:
        if not sent.cancelled() and sent.exception() is None:
            took = time.perf_counter() - flight.began
            self._metrics.chunk(self.partition.topic, flight.records, flight.computed, took - flight.computed)

    async def _flush(self) -> None:
        """Waits until all is safe, and makes the state durable."""
        while self._flights:
            await self._land()
        if self._unflushed:
            await self.sender.flush(self.partition)
            began = time.perf_counter()
            # however little there is to write: the state may move to disk, or a part of it may go
            await asyncio.to_thread(self.stage.committed, self.position)
            self._metrics.commit.labels(self.partition.topic).observe(time.perf_counter() - began)
            self._unflushed = 0
        self._flushed_at = time.perf_counter()

    async def silent(self) -> None:
        async with self._lock:
            if self._released:
                return
            await self._flush()
            if self._since > FLOOD:
                self._since = 0
                await asyncio.to_thread(give_back)
            await self._pass(self.stage.idle())

    async def _pass(self, outgoing: Outgoing | None = None) -> None:
        """Commits where the consumer stands, with what else there is to send."""
        passed = self.position if self._passed is None else max(self.position, self._passed(self))
        records = self.stage.passed(passed) if passed > self._known else None
        self._known = passed
        offset = passed if records is not None or passed > self.position else None
        parts = [part for part in (records, outgoing) if part is not None]
        if not parts and offset is None:
            return
        self.position = passed
        together = _joined(parts) if parts else Outgoing()
        await self.sender.send(Chunk(self.partition, together, offset, self.stage.arrived_at))
        if offset is not None:
            self._unflushed += 1
            await self._flush()

    async def release(self) -> None:
        """Lets what is in flight end."""
        self._released = True
        async with self._lock:
            try:
                if not self._failed:
                    await self._flush()
                    await self._pass()
            except (*OVERTAKEN, Interrupted):
                pass  # somebody else's by now, or to be taken over again: what was not committed is done again
            finally:
                await asyncio.gather(*(flight.sent for flight in self._flights), return_exceptions=True)
                self.stage.close()
