"""Partitions that this worker owns: taken over in an order that loses and repeats nothing, and released.

On assignment: start the sender; fence old owners and read the committed offsets (`streams.claims`); bring the state of each stage to its
offset without emitting; seek; process. Every step is undone if another rebalance overtakes it.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata
from faust.types import TP

from pastforward.errors import UserError
from state.errors import StoreError
from streams.claims import Claim, claim
from streams.connection import Connection
from streams.courtesy import Courtesy
from streams.delivery import Offsets, Sender
from streams.lane import Lane
from streams.matcher import Matcher
from streams.memory import give_back
from streams.metrics import Metrics
from streams.owned import OVERTAKEN, Owned
from streams.readback import first_offsets
from streams.stage import Stage

log = logging.getLogger("pastforward.worker")

FULL: Final = os.strerror(errno.ENOSPC)  # RocksDB says it in the same words
MakeSender = Callable[[], Sender]
MakeStage = Callable[[TopicPartition, int], Awaitable[Stage]]


class Ownership:
    """All partitions of this worker. Used from the event loop of the Faust app only."""

    def __init__(
        self,
        app: Any,
        connection: Connection,
        make_sender: MakeSender,
        refresh: Callable[[], Awaitable[None]],
        make_stage: MakeStage,
        metrics: Metrics,
        courtesy: Courtesy | None = None,
    ) -> None:
        self._app = app
        self._connection = connection
        self._make_sender = make_sender
        self._refresh = refresh
        self._make_stage = make_stage
        self._metrics = metrics
        self._courtesy = courtesy
        self._owned: dict[TP, Owned] = {}
        self._lanes: dict[TP, Lane] = {}
        self._sender: Sender | None = None
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

    @property
    def delay(self) -> float:
        """Seconds that the oldest record in the works has been there."""
        return max((one.delay for one in self._owned.values()), default=0.0)

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

    async def put(self, polled: Mapping[TP, Sequence[Any]]) -> None:
        for partition, records in polled.items():
            lane = self._lanes.get(partition)
            if (
                lane is not None
            ):  # else: polled before a rebalance took the partition away; its new owner reads it again
                await lane.put(records)

    async def nudge(self) -> None:
        for owned in list(self._owned.values()):
            await owned.nudge()

    async def retire(self) -> None:
        """This version of the routing is over: its group may give what it likes, nothing is taken any more."""
        await self.close()
        await self._rest()

    async def close(self) -> None:
        """For good: a takeover that is under way comes to nothing."""
        self._retired = True
        await self.release()

    async def _rest(self) -> None:
        self._app.consumer.pause_partitions(self._app.consumer.assignment())
        self._complete = True

    async def release(self) -> None:
        self._complete = False
        lanes, owned = list(self._lanes.values()), list(self._owned.values())
        self._lanes.clear()
        self._owned.clear()
        await asyncio.gather(*(one.release() for one in owned))
        await asyncio.gather(*(lane.stop() for lane in lanes))
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.stop()

    async def takeover(self) -> None:
        if self._retired:
            await self._rest()
            return
        generation = self._app.consumer_generation_id
        await self.release()
        partitions = sorted(TopicPartition(*partition) for partition in self._app.consumer.assignment())
        sender = self._make_sender()
        await sender.start()
        try:
            positions = await claim(partitions, sender.name, self._connection, self._claims, self._begin, self.commit)
            await self._refresh()  # what the last owners have said to the directory counts
        except BaseException as error:
            await sender.stop()
            if isinstance(error, OVERTAKEN) or self._retired or generation != self._app.consumer_generation_id:
                return  # the group has gone on, and will call again
            raise
        taken = await asyncio.gather(*(self._own(p, positions[p], sender) for p in partitions), return_exceptions=True)
        # What is there now stays: a collection that looks at all of it again stops every lane for a tenth of a second.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        await asyncio.to_thread(give_back)  # what the rebuilding needed
        owned = [one for one in taken if isinstance(one, Owned)]
        errors = [error for error in taken if isinstance(error, BaseException)]
        if owned and not errors and generation == self._app.consumer_generation_id:
            await self._app.consumer.seek_wait({one.partition: one.position for one in owned})
        overtaken = self._retired or generation != self._app.consumer_generation_id
        if overtaken or errors:
            for one in owned:
                await one.release()
            await sender.stop()
            if errors and not overtaken:
                raise errors[0]
            return
        self._sender = sender
        for one in owned:
            key = TP(*one.partition)
            self._app.consumer._read_offset[key] = None  # Faust drops what is not above the last offset it has read
            self._owned[key] = one
            self._lanes[key] = Lane(one.handle, one.silent, self.failed)
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

    async def _own(self, partition: TopicPartition, position: int, sender: Sender) -> Owned:
        stage = await self._make_stage(partition, position)
        return Owned(partition, sender, stage, position, self._metrics, self._courtesy)

    async def commit(self, offsets: Offsets) -> None:
        """Refused to whoever is not a member of the present generation."""
        thread = self._app.consumer._thread
        await thread.call_thread(thread._consumer.commit, offsets)

    async def _claims(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Claim]:
        thread = self._app.consumer._thread
        coordinator = thread._consumer._coordinator
        found = await thread.call_thread(coordinator.fetch_committed_offsets, list(partitions))
        none = OffsetAndMetadata(-1, "")
        claims = {partition: found.get(partition, none) for partition in partitions}
        return {p: Claim(None if c.offset < 0 else c.offset, c.metadata or "") for p, c in claims.items()}

    async def _begin(self, claims: dict[TopicPartition, Claim]) -> dict[TopicPartition, int]:
        first = await first_offsets(self._connection, claims) if claims else {}
        for partition, (committed, _) in claims.items():
            if committed is not None and committed < first[partition]:
                raise UserError(
                    f"{partition.topic} partition {partition.partition} was read up to offset {committed}, but its log begins "
                    f"at {first[partition]}: {first[partition] - committed} records are gone. Raise the topic's retention; to go on "
                    f"without them, set the group's offset with kafka-consumer-groups --reset-offsets"
                )
        return {p: first[p] if claim.offset is None else claim.offset for p, claim in claims.items()}
