"""The routers of both versions while the routing changes: bad input, takeovers and words of the directory, in any order.

The routers and the partitions that they own are the product's; Kafka is in lists, and a chunk that is on its way there is safe when the
script says so, or lost with the worker that has sent it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.schemas import Publication, Subscription, decode_dead_letter, decode_rendezvous, encode
from pastforward.streams.router.router import PublicationRouter, SubscriptionRouter
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing import Directory, make_scheme
from pastforward.streams.routing.change import STATE, State, View, version_key
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.worker import task as module
from pastforward.streams.worker.sender import Chunk
from pastforward.streams.worker.task import PartitionTask
from pastforward.topics import Topics
from tests.streams.framed import records_of

INPUTS = ("subscriptions", "publications")
ROUTERS = [(version, name) for version in (1, 2) for name in INPUTS]
METRICS = Metrics()
BAD = [b"{", b"\xc3\x01 nothing", b'{"topic": "1..2", "subscriber_id": "s"}', b'{"subscriber_id": "s", "where": "x >"}']
LAST = 4  # rounds in which records still arrive, when everything is let go
ROUNDS = 60  # until a change has come to its end then


async def turns(count: int = 12) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Kafka:
    """`free`: whatever is sent is safe at once."""

    def __init__(self, exactly_once: bool) -> None:
        self.exactly_once = exactly_once
        self.inputs: dict[str, list[Any]] = {name: [] for name in INPUTS}
        self.bad: set[tuple[str, int]] = set()
        self.topics: defaultdict[str, list[bytes]] = defaultdict(list)
        self.changelogs: defaultdict[str, list[Any]] = defaultdict(list)
        self.committed: Counter[tuple[int, str]] = Counter()
        self.directory = [
            (version_key(1), Directory(1, "dewey", 1).to_bytes()),
            (version_key(2), Directory(2, "dewey", 1).to_bytes()),
            (STATE, State(1, 2).to_bytes()),
        ]
        self.free = False

    def arrive(self, name: str, bad: int | None) -> None:
        records = self.inputs[name]
        at = len(records)
        key = f"{name}-{at}"
        value = encode(Subscription(key, "me") if name == "subscriptions" else Publication(key, topic="1"))
        if bad is not None:
            self.bad.add((name, at))
            value = BAD[bad]
        records.append(SimpleNamespace(offset=at, timestamp=at, key=key.encode(), value=value))

    def write_outputs(self, outgoing: Outgoing) -> None:
        for (topic, _), records in outgoing.outputs.items():
            for key, value in records:
                if topic == Topics("").directory:
                    assert key is not None
                    assert value is not None
                    self._hear(key, value)
                else:
                    self.topics[topic].append(value or b"")
        for (topic, _), frames in outgoing.frames.items():
            self.topics[topic] += [value or b"" for _, value in records_of(frames)]

    def _hear(self, key: bytes, value: bytes) -> None:
        """A word is true when it can be read: all before the offset that it names has been routed, and that is safe."""
        kind, version, name, _ = key.decode().split("/")
        speaker = int(version) if kind == "hold" else int(version) - 1
        assert self.committed[speaker, name] >= int(value), f"{key!r} was said before it was so"
        self.directory.append((key, value))

    def commit(self, version: int, chunk: Chunk) -> None:
        for (topic, _), records in chunk.outgoing.changelog.items():
            self.changelogs[topic] += [SimpleNamespace(key=key, value=value) for key, value in records]
        if chunk.offset is not None:
            self.committed[version, chunk.partition.topic] = chunk.offset

    def view(self) -> View:
        view = View()
        for entry in self.directory:
            view.apply(*entry)
        return view


class Sender:
    """As those of `streams.worker.sender`: exactly once outputs and offset are one thing, at least once the offset follows."""

    name = "me"

    def __init__(self, kafka: Kafka, version: int) -> None:
        self._kafka, self._version = kafka, version
        self.on_their_way: deque[asyncio.Future[None]] = deque()
        self._unflushed: list[Chunk] = []
        self.dead = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def let_go(self) -> None:
        if self.on_their_way:
            self.on_their_way.popleft().set_result(None)

    async def send(self, chunk: Chunk) -> None:
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_their_way.append(sent)
        if self._kafka.free:
            self.let_go()
        await sent
        if self.dead:
            raise asyncio.CancelledError
        self._kafka.write_outputs(chunk.outgoing)
        if self._kafka.exactly_once:
            self._kafka.commit(self._version, chunk)
        else:
            self._unflushed.append(chunk)

    async def flush(self, partition: TopicPartition) -> None:
        for chunk in self._unflushed:
            self._kafka.commit(self._version, chunk)
        self._unflushed = []

    def die(self) -> None:
        self.dead = True
        for sent in self.on_their_way:
            sent.cancel()


class Worker:
    """What owns an input partition in one of the two versions."""

    def __init__(self, kafka: Kafka, version: int, name: str) -> None:
        self._kafka, self._version, self._name = kafka, version, name
        self._begin()

    def _begin(self) -> None:
        kafka, name = self._kafka, self._name
        topics = Topics("", self._version)
        self._view = View()
        self._known = 0
        self.learn(len(kafka.directory))  # a new owner reads all that the last one has said
        here = TopicPartition(name, 0)
        arguments = (here, name, topics, make_scheme("dewey", 1, 1), self._version, self._view, METRICS, None)
        router: PublicationRouter | SubscriptionRouter
        if name == "subscriptions":
            routes = Routes(topics.routes, 0)
            routes.restore(kafka.changelogs[topics.routes])
            router = SubscriptionRouter(*arguments, routes=routes)
        else:
            router = PublicationRouter(*arguments)  # type: ignore[arg-type]
        self.sender = Sender(kafka, self._version)
        self._polled = kafka.committed[self._version, name]
        self._owned = PartitionTask(here, self.sender, router, self._polled, METRICS)
        self._owned._computed = 0.0  # in the event loop: threads have turns of their own
        self._waiting: list[Any] = []
        self._task: asyncio.Task[None] | None = None
        self._nudges: list[asyncio.Task[None]] = []

    def learn(self, count: int) -> None:
        for entry in self._kafka.directory[self._known : self._known + count]:
            self._view.apply(*entry)
            self._known += 1

    def poll(self, count: int, back: int) -> None:
        first = max(0, self._polled - back)
        self._waiting += self._kafka.inputs[self._name][first : self._polled + count]
        self._polled = min(len(self._kafka.inputs[self._name]), self._polled + count)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._handle())

    async def _handle(self) -> None:
        while self._waiting:
            records, self._waiting = self._waiting, []
            await self._owned.handle(records)

    def nudge(self) -> None:
        self._nudges.append(asyncio.create_task(self._owned.nudge()))

    async def silent(self) -> None:
        await self._owned.silent()

    def end(self) -> None:
        self.sender.die()
        for task in [*self._nudges, *filter(None, [self._task])]:
            task.cancel()

    def replace(self) -> None:
        """Killed; another one takes over."""
        self.end()
        self._begin()

    def failures(self) -> list[BaseException]:
        done = [task for task in [*self._nudges, *filter(None, [self._task])] if task.done() and not task.cancelled()]
        return [error for task in done if (error := task.exception()) is not None]


Step = tuple[str, int, int]

some_steps = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "bad", "poll", "poll", "go", "go", "news", "news", "flip", "kill"]),
        st.integers(0, 3),
        st.integers(1, 5),
    ),
    max_size=60,
)


async def change_over(kafka: Kafka, script: list[Step], before: int) -> View:
    for at in range(before):
        for name in INPUTS:
            kafka.arrive(name, at % len(BAD) if at % 3 == 1 else None)
    workers = [Worker(kafka, *each) for each in ROUTERS]
    for what, which, amount in script:
        worker = workers[which]
        if what in ("arrive", "bad"):
            kafka.arrive(INPUTS[which % 2], which if what == "bad" else None)
        elif what == "poll":
            worker.poll(amount, back=which)
        elif what == "go":
            for _ in range(amount):
                worker.sender.let_go()
                await turns()
        elif what == "news":
            worker.learn(amount)
            worker.nudge()
        elif what == "flip":
            kafka.directory.append((STATE, State(1, 2, flipping=True).to_bytes()))
        else:
            worker.replace()
        await turns()
        assert not [error for each in workers for error in each.failures()]
    kafka.free = True
    kafka.directory.append((STATE, State(1, 2, flipping=True).to_bytes()))
    for number in range(ROUNDS):
        for worker in reversed(workers):
            for name in INPUTS if number < LAST else ():
                kafka.arrive(name, number if number % 2 else None)
            while worker.sender.on_their_way:
                worker.sender.let_go()
            worker.learn(100)
            worker.nudge()
            worker.poll(100, 0)
            await turns()
        assert not [error for each in workers for error in each.failures()]
        flips = kafka.view().flips
        if (
            number >= LAST
            and len(flips) == len(INPUTS)
            and all(
                worker._owned.position >= len(kafka.inputs[name])
                for worker, (version, name) in zip(workers, ROUTERS, strict=True)
                if version == 2
            )
        ):
            break
    else:
        raise AssertionError(f"the change does not come to its end: {kafka.directory}")
    for worker in workers:
        await worker.silent()
        worker.end()
    return kafka.view()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@settings(max_examples=150, deadline=None)
@given(some_steps, st.integers(0, 6))
def test_each_record_is_routed_under_one_tag_and_each_bad_one_has_one_letter(
    delivery: str, script: list[Step], before: int
) -> None:
    kafka = Kafka(delivery == "exactly-once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AGAIN", 0)
        view = asyncio.run(change_over(kafka, script, before))
    good = {(name, r.offset) for name in INPUTS for r in kafka.inputs[name] if (name, r.offset) not in kafka.bad}
    flips = {name: at for (_, name, _), at in view.flips.items()}
    wanted = {
        1: {(*place, 1) for place in good if place[1] < flips[place[0]]},
        2: {(*place, 1 if place[1] < flips[place[0]] else 2) for place in good},
    }
    for version in (1, 2):
        read = [decode_rendezvous(value) for value in kafka.topics[Topics("", version).rendezvous]]
        routed = Counter((each.origin, each.offset, each.routing_version) for each in read)
        assert set(routed) == wanted[version]
        assert delivery == "at-least-once" or max(routed.values(), default=1) == 1
    dead = [decode_dead_letter(value) for value in kafka.topics[Topics("").dead_letters]]
    letters = Counter((letter.topic, letter.offset) for letter in dead)
    assert set(letters) == kafka.bad
    assert delivery == "at-least-once" or max(letters.values(), default=1) == 1
