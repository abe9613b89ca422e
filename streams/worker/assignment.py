"""Partitions that this worker owns: taken over in an order that loses and repeats nothing, and released.

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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata
from faust.types import TP

from pastforward.errors import UserError
from pastforward.streams.matcher.matcher import Matcher
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.stage import Stage
from pastforward.streams.transport.connection import Connection
from pastforward.streams.transport.log_ends import another, deleted, lost_changelog, made_anew, out_of_range
from pastforward.streams.transport.readback import both_ends
from pastforward.streams.worker.fencing import Claim, claim
from pastforward.streams.worker.lane import Lane
from pastforward.streams.worker.memory import give_back
from pastforward.streams.worker.offset_metadata import mark, read_mark
from pastforward.streams.worker.recovery import Meter
from pastforward.streams.worker.sender import Interrupted, Offsets, Sender, is_interruption
from pastforward.streams.worker.task import OVERTAKEN, PartitionTask
from pastforward.streams.worker.throttle import Courtesy

log = logging.getLogger("pastforward.worker")

CHECKED: Final = 10.0  # seconds between two looks at the ids of the topics: one small request
UNKNOWN: Final = 5.0  # seconds that a topic may be unknown: not every broker hears at once of one that was just made
AGAIN: Final = 0.5  # seconds until it is asked for again
REJOIN: Final = 1.0  # seconds until the group is joined again: a broker that was away is asked for much at once

MakeSender = Callable[[Mapping[str, str]], Sender]  # with the ids of the topics
TopicIds = Callable[[Iterable[str]], Awaitable[dict[str, str | None]]]  # None: there is none of that name
Resume = Callable[[list[TopicPartition]], Awaitable[dict[TopicPartition, int]]]
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
        self._topic_ids = topic_ids
        self._resume = resume
        self._ids: dict[str, str] = {}
        self._arrived: dict[TopicPartition, int] = {}  # below where each partition was taken over
        self._metrics = metrics
        self._courtesy = courtesy
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
        return {partition: owned.position for partition, owned in self._tasks.items()}

    def stages(self) -> dict[TP, Stage]:
        return {partition: owned.stage for partition, owned in self._tasks.items()}

    @property
    def ready(self) -> bool:
        """Does this worker process all that the group has given to it?"""
        return self._complete and not self._app.rebalancing

    @property
    def busy_seconds(self) -> float:
        """How long the slowest chunk has been in the works."""
        now = time.perf_counter()
        return max((now - one.busy_since for one in self._tasks.values() if one.busy_since is not None), default=0.0)

    @property
    def takeover_seconds(self) -> float:
        """How long a takeover has been under way without any progress: reading back what is large takes its time."""
        return 0.0 if self._taking is None else time.perf_counter() - max(self._taking, Meter.last)

    @property
    def delay(self) -> float:
        """Seconds that the oldest record in the works has been there."""
        return max((one.delay for one in self._tasks.values()), default=0.0)

    def measure(self) -> None:
        """Sets what is measured when somebody asks."""
        for partition, owned in self._tasks.items():
            self._metrics.lag.labels(partition.topic, str(partition.partition)).set(self._lag(owned))
            if isinstance(owned.stage, Matcher):
                owned.stage.measure()

    def lag(self) -> int:
        return sum(self._lag(owned) for owned in self._tasks.values())

    def _lag(self, owned: PartitionTask) -> int:
        """Offsets up to the last committed one; the markers of transactions, which nobody reads, count as long as it is busy."""
        standing = self._app.consumer.stands_at(owned.partition)
        if standing.end is None:
            return 0
        lane = self._lanes.get(TP(*owned.partition))
        idle = owned.busy_since is None and (lane is None or not lane.waiting)
        position = standing.position if idle and standing.position is not None else owned.position
        return max(0, int(standing.end - position))

    async def put(self, polled: Mapping[TP, Sequence[Any]]) -> None:
        for partition, records in polled.items():
            lane = self._lanes.get(partition)
            if (
                lane is not None
            ):  # else: polled before a rebalance took the partition away; its new owner reads it again
                await lane.put(records)

    async def nudge(self) -> None:
        for owned in list(self._tasks.values()):
            try:
                await owned.nudge()
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
        owned = list(self._tasks.values())
        self._tasks.clear()
        await asyncio.gather(*(one.release() for one in owned))
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
            self._ids = await self._present_ids()
            sender = self._make_sender(self._ids)
            await sender.start()
            positions = await claim(partitions, sender.name, self._connection, self._claims, self._begin, self.commit)
            await self._refresh()  # what the last owners have said to the directory counts
        except BaseException as error:
            if sender is not None:
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
        owned = [one for one in taken if isinstance(one, PartitionTask)]
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
            self._app.consumer.begin_at(key, one.position)
            self._tasks[key] = one
            self._lanes[key] = Lane(one.handle, one.silent, self.failed, partial(self._app.consumer.hold, key))
        self._complete = True
        log.info("owner of %d partitions", len(owned))

    @property
    def _subscribed(self) -> set[str]:
        return set(self._app.consumer.subscribed())

    async def check_topics(self) -> None:
        """A topic that is deleted and made anew goes by the same name, and aiokafka reads on in it, or not at all. Raises `UserError`."""
        if not self._complete or self._retired:
            return  # a takeover looks for itself
        taken = self._ids
        try:
            present = await self._present_ids()
        except Interrupted as error:
            log.debug("%s; it is asked again", error)
            return
        if taken is not self._ids or self._retired:
            return
        for topic in sorted(taken):
            if taken[topic] != present[topic]:
                raise self._anew(topic, taken[topic], present[topic])

    async def _present_ids(self) -> dict[str, str]:
        """Raises `UserError` if one of the topics is not there, and `Interrupted` if nobody answers."""
        waited = 0.0
        while True:
            found = await self._topic_ids(self._subscribed)
            missing = sorted(topic for topic, topic_id in found.items() if topic_id is None)
            if not missing:
                break
            if waited >= UNKNOWN:
                raise deleted(missing[0], (await self._earlier_ids()).get(missing[0], ()))
            await asyncio.sleep(AGAIN)
            waited += AGAIN
        return {topic: topic_id for topic, topic_id in found.items() if topic_id is not None}

    async def _see_all(self) -> None:
        """The group gives nothing of a topic that its consumers do not see: they look again, and join again. Raises `Interrupted`."""
        unseen = sorted(self._subscribed - {partition.topic for partition in self._app.consumer.all_partitions()})
        if unseen:
            await self._app.consumer.look_again()
            raise Interrupted(f"the partitions of {unseen[0]} were not seen")

    def _anew(self, topic: str, before: str, now: str) -> UserError:
        return another(topic, before, now) if topic in self._subscribed else lost_changelog(topic, before, now)

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

    async def _own(self, partition: TopicPartition, position: int, sender: Sender) -> PartitionTask:
        stage = await self._make_stage(partition, position, self._arrived.get(partition, 0))
        return PartitionTask(partition, sender, stage, position, self._metrics, self._courtesy, self._passed)

    def _passed(self, owned: PartitionTask) -> int:
        """Where the consumer stands, if all that it has handed out is computed."""
        consumer = self._app.consumer
        if consumer.handed.get(TP(*owned.partition), 0) > owned.position:
            return owned.position
        position = consumer.stands_at(owned.partition).position
        return owned.position if position is None else int(position)

    async def commit(self, offsets: Offsets) -> None:
        """Refused to whoever is not a member of the present generation."""
        marked = {
            p: (offset, mark(owner, self._ids, self._arrived.get(p, 0))) for p, (offset, owner) in offsets.items()
        }
        await self._app.consumer.commit_offsets(marked)

    async def _claims(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Claim]:
        found = await self._app.consumer.committed_offsets(list(partitions))
        none = OffsetAndMetadata(-1, "")
        claims = {partition: found.get(partition, none) for partition in partitions}
        return {p: Claim(None if c.offset < 0 else c.offset, *read_mark(c.metadata or "")) for p, c in claims.items()}

    async def _begin(self, claims: dict[TopicPartition, Claim]) -> dict[TopicPartition, int]:
        """Raises `UserError` if what was committed does not fit the log that is there."""
        self._arrived = {partition: found.arrived_at for partition, found in claims.items()}
        ends = await both_ends(self._connection, claims)
        missing = [partition for partition, found in claims.items() if found.offset is None]
        known = await self._resume(missing) if missing else {}
        positions = {
            partition: known.get(partition, ends[partition][0]) if found.offset is None else found.offset
            for partition, found in claims.items()
        }
        await self._check_earlier_ids(positions, ends)
        await self._see_all()
        if known:
            log.warning(
                "the group %s has no offset of %d partitions, although they were read: it was deleted or has expired. They are "
                "read on from where the changelogs say",
                self._app.conf.id,
                len(known),
            )
        for partition, position in positions.items():
            error = out_of_range(partition, self._app.conf.id, position, *ends[partition])
            if error is not None:
                raise error
        return positions

    async def _check_earlier_ids(
        self, positions: dict[TopicPartition, int], ends: dict[TopicPartition, tuple[int, int]]
    ) -> None:
        """All topics, also those of which the group has given nothing to this worker, or nothing at all: what is committed next says
        that all of them are the present ones."""
        for topic, ids in sorted((await self._earlier_ids()).items()):
            now = self._ids.get(topic)
            others = ids - {now}
            if now is None or not others:
                continue
            here = min((partition for partition in positions if partition.topic == topic), default=None)
            if here is None:
                raise self._anew(topic, min(others), now)
            raise made_anew(here, positions[here], *ends[here], min(others), now)

    async def _earlier_ids(self) -> dict[str, set[str]]:
        """The ids of the topics when offsets were committed, whoever committed them."""
        earlier: dict[str, set[str]] = {}
        for found in (await self._claims(self._app.consumer.all_partitions())).values():
            for topic, topic_id in found.topic_ids.items():
                earlier.setdefault(topic, set()).add(topic_id)
        return earlier
