"""Partitions that this worker owns: taken over in an order that loses and repeats nothing, and released.

On assignment: start the sender, which fences the old owner; read the committed offset, which now cannot change any more; bring
the stage's state to it without emitting; seek; process. Every step is undone if another rebalance overtakes it.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from aiokafka import TopicPartition
from faust.types import TP

from pastforward.errors import UserError
from state.errors import StoreError
from streams.delivery import Sender
from streams.lane import Lane
from streams.matcher import Matcher
from streams.metrics import Metrics
from streams.stage import Allowed, Stage

log = logging.getLogger("pastforward.worker")

FULL: Final = os.strerror(errno.ENOSPC)  # RocksDB says it in the same words
AGAIN: Final = 0.02  # seconds until a router that waits for another one looks again

FIRST: Final = 200  # records of a first piece, before anything is known of what they lead to
LEAST: Final = 20
MOST: Final = 20_000
OUTPUTS: Final = 200_000  # records that a piece should lead to at most: some 100 MB

MakeSender = Callable[[TopicPartition], Sender]
MakeStage = Callable[[TopicPartition, int], Awaitable[Stage]]


class Owned:
    """One partition: its sender, its stage, and the offset up to which everything is committed."""

    def __init__(
        self, partition: TopicPartition, sender: Sender, stage: Stage, position: int, metrics: Metrics
    ) -> None:
        self.partition = partition
        self.sender = sender
        self.stage = stage
        self.position = position
        self.busy_since: float | None = None  # seconds of the performance counter
        self._piece = FIRST
        self._metrics = metrics
        self._lock = asyncio.Lock()
        self._released = False

    async def handle(self, records: Sequence[Any]) -> None:
        """In pieces, a transaction each, so that what a piece leads to has a bound: a flood of subscriptions may find a great deal."""
        while True:
            async with self._lock:
                if self._released:
                    return
                waiting = [record for record in records if record.offset >= self.position]
                before = self.position
                allowed = await self._allowed()
                within = waiting
                if allowed.limit is not None:
                    within = [record for record in waiting if record.offset < allowed.limit]
                    if waiting and not within:
                        self.position = max(self.position, allowed.limit)  # no record lies between
                piece = within[: self._piece]
                if piece:
                    fitting = len(piece) * OUTPUTS // max(await self._handle(piece), 1)
                    self._piece = max(LEAST, min(fitting, 2 * self._piece, MOST))
                records = waiting[len(piece) :]
                if not records or (allowed.final and len(piece) == len(within)):
                    return  # behind a final limit records are another router's
                stuck = self.position == before
            if stuck:
                await asyncio.sleep(AGAIN)

    async def _allowed(self) -> Allowed:
        """What a change of the routing lets the stage do; what it has to say for that is said."""
        allowed = self.stage.allowed(self.position)
        if allowed.say is not None:
            await self.sender.send(allowed.say, None)
        return allowed

    async def nudge(self) -> None:
        """The directory has news."""
        async with self._lock:
            if not self._released:
                await self._allowed()

    async def _handle(self, records: Sequence[Any]) -> int:
        """Returns the number of records that were sent."""
        end = records[-1].offset + 1
        started = self.busy_since = time.perf_counter()
        outgoing = await asyncio.to_thread(self.stage.process, records)
        computed = time.perf_counter()
        await self.sender.send(outgoing, end)
        sent = time.perf_counter()
        await asyncio.to_thread(self.stage.committed, end)
        self.position = end
        done = time.perf_counter()
        self._metrics.chunk(self.partition.topic, len(records), computed - started, sent - computed, done - sent)
        self.busy_since = None
        return outgoing.count

    async def silent(self) -> None:
        async with self._lock:
            outgoing = None if self._released else self.stage.idle()
            if outgoing is not None:
                await self.sender.send(outgoing, None)

    async def release(self) -> None:
        """Lets the piece in flight end."""
        self._released = True
        async with self._lock:
            await self.sender.stop()
            self.stage.close()


class Ownership:
    """All partitions of this worker. Used from the event loop of the Faust app only."""

    def __init__(self, app: Any, make_sender: MakeSender, make_stage: MakeStage, metrics: Metrics) -> None:
        self._app = app
        self._make_sender = make_sender
        self._make_stage = make_stage
        self._metrics = metrics
        self._owned: dict[TP, Owned] = {}
        self._lanes: dict[TP, Lane] = {}
        self._complete = False
        self._retired = False

    @property
    def positions(self) -> dict[TP, int]:
        return {partition: owned.position for partition, owned in self._owned.items()}

    def stages(self) -> dict[TP, Stage]:
        return {partition: owned.stage for partition, owned in self._owned.items()}

    @property
    def ready(self) -> bool:
        """Does this worker process all that the group has given to it?"""
        return self._complete and not self._app.rebalancing

    @property
    def busy_seconds(self) -> float:
        """How long the slowest chunk has been in the works."""
        now = time.perf_counter()
        return max((now - one.busy_since for one in self._owned.values() if one.busy_since is not None), default=0.0)

    def measure(self) -> None:
        """Sets what is measured when somebody asks."""
        for partition, owned in self._owned.items():
            self._metrics.lag.labels(partition.topic, str(partition.partition)).set(self._lag(owned))
            if isinstance(owned.stage, Matcher):
                owned.stage.measure()

    def lag(self) -> int:
        return sum(self._lag(owned) for owned in self._owned.values())

    def _lag(self, owned: Owned) -> int:
        """Offsets up to the last committed one; the markers of transactions, which nobody reads, count as long as it is busy."""
        consumer = self._app.consumer._thread._consumer
        assignment = consumer._subscription.subscription.assignment
        state = None if assignment is None else assignment.state_value(owned.partition)
        if state is None or state.lso is None:
            return 0
        lane = self._lanes.get(TP(*owned.partition))
        idle = owned.busy_since is None and (lane is None or not lane.waiting)
        position = state.position if idle and state.has_valid_position else owned.position
        return max(0, int(state.lso) - int(position))

    async def put(self, partition: TP, records: Sequence[Any]) -> None:
        lane = self._lanes.get(partition)
        if lane is not None:  # else: polled before a rebalance took the partition away; its new owner reads it again
            await lane.put(records)

    async def nudge(self) -> None:
        for owned in list(self._owned.values()):
            await owned.nudge()

    async def retire(self) -> None:
        """This version of the routing is over: its group may give what it likes, nothing is taken any more."""
        self._retired = True
        await self.release()
        await self._rest()

    async def _rest(self) -> None:
        self._app.consumer.pause_partitions(self._app.consumer.assignment())
        self._complete = True

    async def release(self) -> None:
        self._complete = False
        lanes, owned = list(self._lanes.values()), list(self._owned.values())
        self._lanes.clear()
        self._owned.clear()
        for one in owned:
            await one.release()
        for lane in lanes:
            await lane.stop()

    async def takeover(self) -> None:
        if self._retired:
            await self._rest()
            return
        generation = self._app.consumer_generation_id
        await self.release()
        partitions = sorted(TP(*partition) for partition in self._app.consumer.assignment())
        taken = await asyncio.gather(*(self._take(TopicPartition(*p)) for p in partitions), return_exceptions=True)
        owned = [one for one in taken if isinstance(one, Owned)]
        errors = [error for error in taken if isinstance(error, BaseException)]
        overtaken = generation != self._app.consumer_generation_id
        if overtaken or errors:
            for one in owned:
                await one.release()
            if errors and not overtaken:
                raise errors[0]
            return
        if owned:
            await self._app.consumer.seek_wait({one.partition: one.position for one in owned})
        for one in owned:
            key = TP(*one.partition)
            self._app.consumer._read_offset[key] = None  # Faust drops what is not above the last offset it has read
            self._owned[key] = one
            self._lanes[key] = Lane(one.handle, one.silent, self.failed)
        # What is there now stays: a collection that looks at all of it again stops every lane for a tenth of a second.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._complete = True
        log.info("owner of %d partitions", len(owned))

    async def failed(self, error: BaseException) -> None:
        """Nothing may go on after a chunk has failed: what it has read is not committed, and is read again after a restart."""
        if FULL in str(error):
            log.error("the worker stops: the disk is full (%s); make room, and start it again: nothing is lost", error)
        else:
            clear = isinstance(error, UserError | StoreError)
            log.error("the worker stops: %s", error, exc_info=None if clear else error)
        await self._app.crash(error)

    async def _take(self, partition: TopicPartition) -> Owned:
        sender = self._make_sender(partition)
        await sender.start()
        try:
            position = await self._committed(partition)
            stage = await self._make_stage(partition, position)
        except BaseException:
            await sender.stop()
            raise
        return Owned(partition, sender, stage, position, self._metrics)

    async def _committed(self, partition: TopicPartition) -> int:
        thread = self._app.consumer._thread
        committed: int | None = await thread.call_thread(thread._consumer.committed, partition)
        first = (await self._app.consumer.earliest_offsets(partition))[partition]
        if committed is None:
            return int(first)
        if committed < first:
            raise UserError(
                f"{partition.topic} partition {partition.partition} was read up to offset {committed}, but its log begins "
                f"at {first}: {first - committed} records are gone. Raise the topic's retention; to go on without them, "
                f"set the group's offset with kafka-consumer-groups --reset-offsets"
            )
        return committed
