"""The tasks of this worker, one for each partition that the group has given to it: taken over in an order that loses and repeats nothing,
and released.

On assignment: start the sender; fence old owners and read the committed offsets (`fencing`); bring the state of each stage to its
offset without emitting; seek; process. Every step is undone if another rebalance overtakes it.

When the broker has given a transaction up, because it was away or because somebody else owns the partitions by now, nobody here knows what
is safe. Then the worker joins its group again: it releases everything without a commit, and takes over what the group gives it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiokafka import TopicPartition
from faust.types import TP

from pastforward.streams.matcher.matcher import Matcher
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.stage import Stage
from pastforward.streams.transport.connection import Connection
from pastforward.streams.worker.committed_offsets import CommittedOffsets, Resume
from pastforward.streams.worker.fencing import claim
from pastforward.streams.worker.lane import Lane
from pastforward.streams.worker.memory import give_back
from pastforward.streams.worker.recovery import Meter
from pastforward.streams.worker.sender import Interrupted, Sender, is_interruption
from pastforward.streams.worker.task import OVERTAKEN, PartitionTask
from pastforward.streams.worker.throttle import Courtesy
from pastforward.streams.worker.topic_identities import TopicIds

log = logging.getLogger("pastforward.worker")

CHECKED: Final = 10.0  # seconds between two looks at the ids of the topics: one small request
REJOIN: Final = 1.0  # seconds until the group is joined again: a broker that was away is asked for much at once

MakeSender = Callable[[Mapping[str, str]], Sender]  # with the ids of the topics
MakeStage = Callable[[TopicPartition, int, int], Awaitable[Stage]]  # where it begins, and the highest arrival before


class Assignment:
    """All partitions of this worker. Used from the event loop of the Faust app only."""

    def __init__(
        self,
        app: Any,
        connection: Connection,
        make_sender: MakeSender,
        refresh: Callable[[], Awaitable[None]],
        make_stage: MakeStage,
        topic_ids: TopicIds,
        resume: Resume,
        metrics: Metrics,
        courtesy: Courtesy | None = None,
    ) -> None:
        self._app = app
        self._connection = connection
        self._make_sender = make_sender
        self._refresh = refresh
        self._make_stage = make_stage
        self._offsets = CommittedOffsets(app, connection, topic_ids, resume)
        self._metrics = metrics
        self._courtesy = courtesy
        self._turn = asyncio.Lock()
        self._tasks: dict[TP, PartitionTask] = {}
        self._lanes: dict[TP, Lane] = {}
        self._given_up: list[Lane] = []
        self._sender: Sender | None = None
        self._complete = False
        self._retired = False
        self._rejoining: asyncio.Task[None] | None = None
        self._taking: float | None = None  # since when a takeover has been under way
        self._takeovers: set[asyncio.Task[Any]] = set()

    @property
    def positions(self) -> dict[TP, int]:
        return {partition: task.position for partition, task in self._tasks.items()}

    def stages(self) -> dict[TP, Stage]:
        return {partition: task.stage for partition, task in self._tasks.items()}

    @property
    def ready(self) -> bool:
        """Does this worker process all that the group has given to it?"""
        return self._complete and not self._app.rebalancing

    @property
    def busy_seconds(self) -> float:
        """How long the slowest chunk has been in the works."""
        now = time.perf_counter()
        return max((now - task.busy_since for task in self._tasks.values() if task.busy_since is not None), default=0.0)

    @property
    def takeover_seconds(self) -> float:
        """How long a takeover has been under way without any progress: reading back what is large takes its time."""
        return 0.0 if self._taking is None else time.perf_counter() - max(self._taking, Meter.last)

    @property
    def delay(self) -> float:
        """Seconds that the oldest record in the works has been there."""
        return max((task.delay for task in self._tasks.values()), default=0.0)

    def measure(self) -> None:
        """Sets what is measured when somebody asks."""
        for partition, task in self._tasks.items():
            self._metrics.lag.labels(partition.topic, str(partition.partition)).set(self._lag(task))
            if isinstance(task.stage, Matcher):
                task.stage.measure()

    def lag(self) -> int:
        return sum(map(self._lag, self._tasks.values()))

    def _lag(self, task: PartitionTask) -> int:
        """Offsets up to the last committed one; the markers of transactions, which nobody reads, count as long as it is busy."""
        standing = self._app.consumer.stands_at(task.partition)
        if standing.end is None:
            return 0
        lane = self._lanes.get(TP(*task.partition))
        idle = task.busy_since is None and (lane is None or not lane.waiting)
        position = standing.position if idle and standing.position is not None else task.position
        return max(0, int(standing.end - position))

    async def put(self, polled: Mapping[TP, Sequence[Any]]) -> None:
        for partition, records in polled.items():
            lane = self._lanes.get(partition)
            if (
                lane is not None
            ):  # else: polled before a rebalance took the partition away; its new owner reads it again
                await lane.put(records)

    async def nudge(self) -> None:
        for task in list(self._tasks.values()):
            try:
                await task.nudge()
            except Exception as error:
                await self.failed(error)

    async def retire(self) -> None:
        """This version of the routing is over: its group may give what it likes, nothing is taken any more.

        Returns when nothing is open any more, that a takeover had opened either: its files may be deleted then.
        """
        await self.close()
        if self._takeovers:
            await asyncio.wait(self._takeovers)
        await self._rest()

    async def close(self) -> None:
        """For good: a takeover that is under way comes to nothing."""
        self._retired = True
        self._stop_rejoining()
        await self.release()

    async def _rest(self) -> None:
        self._app.consumer.pause_partitions(self._app.consumer.assignment())
        self._complete = True

    async def release(self) -> None:
        self._complete = False
        self._lanes_of_nobody()
        lanes, self._given_up = self._given_up, []
        tasks = list(self._tasks.values())
        self._tasks.clear()
        await asyncio.gather(*(task.release() for task in tasks))
        await asyncio.gather(*(lane.stop() for lane in lanes))
        if lanes:
            self._app.consumer.release_all()
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.stop()

    async def takeover(self) -> None:
        self._taking = time.perf_counter()
        task = asyncio.current_task()
        assert task is not None
        self._takeovers.add(task)
        try:
            await self._take_over()
        finally:
            self._taking = None
            self._takeovers.discard(task)

    async def _take_over(self) -> None:
        if self._retired:
            await self._rest()
            return
        self._stop_rejoining()
        generation = self._app.consumer_generation_id
        await self.release()
        partitions = sorted(TopicPartition(*partition) for partition in self._app.consumer.assignment())
        sender: Sender | None = None
        try:
            offsets = self._offsets
            offsets.topics.present = await offsets.topics.look_up()
            sender = self._make_sender(offsets.topics.present)
            await sender.start()
            positions = await claim(
                partitions, sender.name, self._connection, offsets.claims, offsets.begin, offsets.commit
            )
            await self._refresh()  # what the last owners have said to the directory counts
        except BaseException as error:
            if sender is not None:
                await sender.stop()
            if isinstance(error, OVERTAKEN) or self._retired or generation != self._app.consumer_generation_id:
                return  # the group has gone on, and will call again
            raise
        taken = await asyncio.gather(
            *(self._make_task(p, positions[p], sender) for p in partitions), return_exceptions=True
        )
        # What is there now stays: a collection that looks at all of it again stops every lane for a tenth of a second.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        await asyncio.to_thread(give_back)  # what the rebuilding needed
        tasks = [task for task in taken if isinstance(task, PartitionTask)]
        errors = [error for error in taken if isinstance(error, BaseException)]
        if tasks and not errors and generation == self._app.consumer_generation_id:
            await self._app.consumer.seek_wait({task.partition: task.position for task in tasks})
        overtaken = self._retired or generation != self._app.consumer_generation_id
        if overtaken or errors:
            for task in tasks:
                await task.release()
            await sender.stop()
            if errors and not overtaken:
                raise errors[0]
            return
        self._sender = sender
        for task in tasks:
            key = TP(*task.partition)
            self._app.consumer.begin_at(key, task.position)
            self._tasks[key] = task
            self._lanes[key] = Lane(
                task.handle, task.silent, self.failed, partial(self._app.consumer.hold, key), task.further
            )
        self._complete = True
        log.info("owner of %d partitions", len(tasks))

    async def check_topics(self) -> None:
        """A topic that is deleted and made anew goes by the same name, and aiokafka reads on in it, or not at all. Raises `UserError`."""
        if not self._complete or self._retired:
            return  # a takeover looks for itself
        topics = self._offsets.topics
        taken = topics.present
        try:
            present = await topics.look_up()
        except Interrupted as error:
            log.debug("%s; it is asked again", error)
            return
        if taken is not topics.present or self._retired:
            return
        for topic in sorted(taken):
            if taken[topic] != present[topic]:
                raise topics.anew(topic, taken[topic], present[topic])

    async def failed(self, error: BaseException) -> None:
        """Nothing may go on after a chunk has failed: what it has read is not committed, and is read again, here or after a restart."""
        if not is_interruption(error):
            await self._app.crash(error)
        elif (
            self._rejoining is None and not self._retired
        ):  # whoever lets go of everything has nothing to take over again
            log.warning("%s; the partitions are taken over again, nothing is lost", error)
            self._metrics.interruptions.inc()
            self._complete = False
            self._lanes_of_nobody()
            self._rejoining = asyncio.create_task(self._rejoin())

    def _lanes_of_nobody(self) -> None:
        """What is polled from now on is dropped: it is read again, from the committed offset."""
        self._given_up += self._lanes.values()
        self._lanes.clear()

    def _stop_rejoining(self) -> None:
        if self._rejoining is not None:
            self._rejoining.cancel()
            self._rejoining = None

    async def _rejoin(self) -> None:
        """A request that meets a join which is under way is forgotten, so it is made until a takeover has begun."""
        while True:
            await asyncio.sleep(REJOIN)
            if not self._app.rebalancing:
                self._app.consumer.request_rejoin()

    async def _make_task(self, partition: TopicPartition, position: int, sender: Sender) -> PartitionTask:
        stage = await self._make_stage(partition, position, self._offsets.arrived.get(partition, 0))
        return PartitionTask(
            partition, sender, stage, position, self._metrics, self._courtesy, self._passed, self._turn
        )

    def _passed(self, task: PartitionTask) -> int:
        """Where the consumer stands, if all that it has handed out is computed."""
        consumer = self._app.consumer
        if consumer.handed.get(TP(*task.partition), 0) > task.position:
            return task.position
        position = consumer.stands_at(task.partition).position
        return task.position if position is None else int(position)
