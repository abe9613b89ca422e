"""A partition that is owned: chunks go ahead of each other's sending, the state never goes ahead of what is safe."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError
from hypothesis import given
from hypothesis import strategies as st

from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.stages.stage import Allowed
from pastforward.streams.worker import task as module
from pastforward.streams.worker.assignment import Assignment
from pastforward.streams.worker.sender import Chunk
from pastforward.streams.worker.task import PartitionTask

HERE = TopicPartition("t", 0)


def records(first: int, end: int) -> list[Any]:
    return [SimpleNamespace(offset=offset, timestamp=0, value=b"") for offset in range(first, end)]


class Steps:
    """A stage and a sender that write down what happens. Sends wait until they are let go."""

    name = "me"

    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None]] = []
        self.sends: list[asyncio.Future[None]] = []
        self.refuse: Exception | None = None

    # the sender

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def send(self, chunk: Chunk) -> None:
        self.steps.append(("send", chunk.offset))
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sends.append(sent)
        await sent
        self.steps.append(("safe", chunk.offset))

    async def flush(self, partition: TopicPartition) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.steps.append(("flush", None))

    # the stage

    arrived_at = 0
    dear = False

    def allowed(self, position: int) -> Allowed:
        return Allowed()

    def process(self, chunk: Sequence[Any]) -> Outgoing:
        self.steps.append(("compute", chunk[-1].offset + 1))
        return Outgoing()

    searching = False

    def search(self) -> Outgoing:
        raise AssertionError("nothing is to be searched")

    def room(self, records: Sequence[Any]) -> int:
        return len(records)

    def takes_long(self, records: Sequence[Any]) -> bool:
        return self.dear

    def idle(self) -> Outgoing | None:
        return None

    def passed(self, offset: int) -> Outgoing | None:
        self.steps.append(("passed", offset))
        return None

    def committed(self, offset: int) -> None:
        self.steps.append(("durable", offset))

    def close(self) -> None:
        self.steps.append(("close", None))


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def quick(made: PartitionTask) -> PartitionTask:
    """Computes in the event loop from the first chunk on: threads have turns of their own."""
    made._computed = 0.0
    return made


def test_the_next_chunk_is_computed_while_one_is_sent_and_not_one_more() -> None:
    async def run() -> list[tuple[str, int | None]]:
        steps = Steps()
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        await owned.handle(records(0, 2))
        second = asyncio.create_task(owned.handle(records(2, 3)))
        await turns()
        third = asyncio.create_task(owned.handle(records(3, 4)))
        await turns()
        seen = list(steps.steps)
        for sent in steps.sends:
            sent.set_result(None)
        await second
        await turns()
        steps.sends[2].set_result(None)
        await third
        return seen

    assert asyncio.run(run()) == [("compute", 2), ("send", 2), ("compute", 3), ("send", 3)]


def test_the_state_is_durable_only_when_all_that_was_computed_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_EVERY", 1e-9)

    async def run() -> list[tuple[str, int | None]]:
        steps = Steps()
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        handling = asyncio.create_task(owned.handle(records(0, 2)))
        await turns()
        assert not handling.done()
        assert owned.busy_since is not None
        steps.sends[0].set_result(None)
        await handling
        assert owned.busy_since is None
        return steps.steps

    assert asyncio.run(run()) == [("compute", 2), ("send", 2), ("safe", 2), ("flush", None), ("durable", 2)]


def test_silence_and_release_flush_what_is_left() -> None:
    async def run() -> tuple[list[str], list[str]]:
        steps = Steps()
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        await owned.handle(records(0, 2))
        await turns()
        steps.sends[0].set_result(None)
        await owned.silent()
        silent = [name for name, _ in steps.steps]
        await owned.handle(records(2, 3))
        await turns()
        steps.sends[1].set_result(None)
        await owned.release()
        return silent, [name for name, _ in steps.steps[len(silent) :]]

    silent, released = asyncio.run(run())
    assert silent == ["compute", "send", "safe", "flush", "durable"]
    assert released == ["compute", "send", "safe", "flush", "durable", "close"]


def test_a_chunk_that_cannot_be_sent_is_an_error_and_nothing_becomes_durable() -> None:
    async def run() -> list[str]:
        steps = Steps()
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        await owned.handle(records(0, 2))
        await turns()
        steps.sends[0].set_exception(ValueError("fenced"))
        with pytest.raises(ValueError, match="fenced"):
            await owned.silent()
        await owned.release()
        return [name for name, _ in steps.steps]

    assert asyncio.run(run()) == ["compute", "send", "close"]


def test_who_is_overtaken_while_it_lets_go_keeps_its_state_as_it_was() -> None:
    async def run() -> list[str]:
        steps = Steps()
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        await owned.handle(records(0, 2))
        await turns()
        steps.sends[0].set_result(None)
        steps.refuse = CommitFailedError("another generation")
        await owned.release()
        return [name for name, _ in steps.steps]

    assert asyncio.run(run()) == ["compute", "send", "safe", "close"]


def test_holes_behind_the_last_record_are_committed_with_it_in_silence_and_at_the_end() -> None:
    """The consumer has passed markers of transactions: a log that retention empties begins behind them."""

    async def run() -> list[tuple[str, int | None]]:
        steps = Steps()
        at = 3
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics(), passed=lambda _: at))

        async def silent_and_let_go(what: Any) -> None:
            doing = asyncio.create_task(what)
            while not doing.done():
                await turns()
                for sent in steps.sends:
                    if not sent.done():
                        sent.set_result(None)
            await doing

        await silent_and_let_go(owned.handle(records(0, 2)))
        await silent_and_let_go(owned.silent())
        await silent_and_let_go(owned.silent())  # nothing new
        at = 5
        await silent_and_let_go(owned.silent())
        at = 6
        await silent_and_let_go(owned.release())
        return [step for step in steps.steps if step[0] in {"send", "passed", "durable"}]

    assert asyncio.run(run()) == [
        ("send", 3),
        ("durable", 3),
        ("passed", 3),
        ("passed", 5),
        ("send", 5),
        ("durable", 5),
        ("passed", 6),
        ("send", 6),
        ("durable", 6),
    ]


class Counting(Steps):
    """Writes down each record that is computed, and where every chunk ends. Whatever is sent is safe at once."""

    def __init__(self, limits: Sequence[int | None] = ()) -> None:
        super().__init__()
        self.computed: list[int] = []
        self.offsets: list[int | None] = []
        self.limits = list(limits)

    def allowed(self, position: int) -> Allowed:
        return Allowed(self.limits.pop(0) if self.limits else None)

    def process(self, chunk: Sequence[Any]) -> Outgoing:
        self.computed += [record.offset for record in chunk]
        return Outgoing()

    async def send(self, chunk: Chunk) -> None:
        self.offsets.append(chunk.offset)


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=8),
    st.lists(st.none() | st.integers(0, 30), max_size=4),
    st.integers(1, 5),
)
def test_a_poll_that_begins_below_the_position_is_taken_from_there(
    position: int, polls: list[tuple[int, int]], limits: list[int | None], piece: int
) -> None:
    """Records that a takeover or an earlier poll has passed come again: none is computed twice, none is left out, no offset goes back."""

    async def run() -> Counting:
        steps = Counting(limits)
        owned = quick(PartitionTask(HERE, steps, steps, position, Metrics()))
        owned._piece = piece
        end = position
        for back, length in polls:
            first = max(0, end - back)
            end = max(end, first + length)
            await owned.handle(records(first, first + length))
        await owned.silent()
        assert steps.computed == list(range(position, end))
        assert owned.position == end
        return steps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AGAIN", 0)
        steps = asyncio.run(run())
    offsets = [offset for offset in steps.offsets if offset is not None]
    assert offsets == sorted(set(offsets))


@given(st.integers(0, 20), st.integers(1, 5), st.lists(st.integers(0, 8), min_size=1, max_size=5))
def test_behind_a_final_limit_nothing_is_computed_and_everything_below_is(
    limit: int, piece: int, polls: list[int]
) -> None:
    async def run() -> list[int]:
        steps = Counting()
        steps.allowed = lambda position: Allowed(limit, final=True)  # type: ignore[method-assign]
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        owned._piece = piece
        end = 0
        for length in polls:
            await owned.handle(records(end, end + length))
            end += length
        await owned.silent()
        return steps.computed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST", 1)
        assert asyncio.run(run()) == list(range(min(limit, sum(polls))))


class Speaking(Steps):
    """Has a word to say once it has come to an offset."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at
        self._said = False

    def allowed(self, position: int) -> Allowed:
        say = Outgoing() if position >= self._at and not self._said else None
        self._said = self._said or say is not None
        return Allowed(say=say)


@pytest.mark.parametrize("how", ["with the next records", "by news of the directory"])
def test_a_word_is_said_when_all_before_it_is_safe_and_nothing_is_done_until_it_is_safe_itself(how: str) -> None:
    """Whoever reads it relies on what lies before."""

    async def run() -> list[tuple[str, int | None]]:
        steps = Speaking(2)
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        await owned.handle(records(0, 2))
        nudged = asyncio.create_task(owned.nudge() if how == "by news of the directory" else turns(0))
        await turns()
        following = asyncio.create_task(owned.handle(records(2, 3)))
        for expected in (1, 2, 3):  # the chunk, the word, the next chunk
            await turns()
            assert len(steps.sends) == expected
            steps.sends[-1].set_result(None)
        await nudged
        await following
        await turns()
        return steps.steps

    assert asyncio.run(run()) == [
        ("compute", 2),
        ("send", 2),
        ("safe", 2),
        ("flush", None),
        ("durable", 2),
        ("send", None),
        ("safe", None),
        ("compute", 3),
        ("send", 3),
        ("safe", 3),
    ]


# ---------------------------------------------------------------------------------------------------------- all of a worker's partitions


def test_whoever_is_retired_waits_for_the_takeover_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has opened is closed before its files are deleted."""

    async def run() -> None:
        consumer = SimpleNamespace(pause_partitions=lambda _: None, assignment=set)
        needs: Any = [None] * 8
        assignment = Assignment(SimpleNamespace(consumer=consumer), *needs)
        opened, closed = asyncio.Event(), asyncio.Event()

        async def take_over() -> None:
            opened.set()
            for _ in range(10):
                await asyncio.sleep(0)
            closed.set()

        monkeypatch.setattr(assignment, "_take_over", take_over)
        taking = asyncio.create_task(assignment.takeover())
        await opened.wait()
        await assignment.retire()
        assert closed.is_set()
        await taking

    asyncio.run(run())


def test_what_the_last_owners_have_said_is_read_after_they_are_fenced_and_before_a_stage_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []

    class Stop(Exception):
        pass

    def step(name: str, result: Any = None, error: Exception | None = None) -> Any:
        async def take(*_: Any) -> Any:
            steps.append(name)
            if error is not None:
                raise error
            return result

        return take

    async def run() -> None:
        consumer = SimpleNamespace(assignment=lambda: {HERE}, subscribed=lambda: {HERE.topic})
        sender = SimpleNamespace(name="sender", start=step("start"), stop=step("stop"))
        assignment = Assignment(
            SimpleNamespace(consumer=consumer, consumer_generation_id=1),
            cast(Any, None),
            lambda _: cast(Any, sender),
            step("refresh"),
            step("stage", error=Stop()),
            step("ids", {HERE.topic: "id"}),
            step("resume"),
            Metrics(),
        )
        monkeypatch.setattr("pastforward.streams.worker.assignment.claim", step("claim", {HERE: 0}))
        with pytest.raises(Stop):
            await assignment.takeover()

    asyncio.run(run())
    assert steps == ["ids", "start", "claim", "refresh", "stage", "stop"]


class Placed(Steps):
    """Notes where it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[bool] = []

    def process(self, chunk: Sequence[Any]) -> Outgoing:
        self.threads.append(threading.current_thread() is threading.main_thread())
        return Outgoing()

    async def send(self, chunk: Chunk) -> None: ...


def test_few_records_that_take_long_are_not_for_the_event_loop() -> None:
    async def run() -> list[bool]:
        steps = Placed()
        owned = quick(PartitionTask(HERE, steps, steps, 0, Metrics()))
        await owned.handle(records(0, 1))
        steps.dear = True
        await owned.handle(records(1, 2))
        return steps.threads

    assert asyncio.run(run()) == [True, False]


def test_a_piece_is_bounded_by_bytes() -> None:
    some = records(0, 5)
    for record, size in zip(some, (1, 3, 9, 0, 2), strict=True):
        record.value = bytes(size)
    some[3].value = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_BYTES", 4)
        pieces = []
        while some:
            pieces.append(len(module._first_of(some)))
            some = some[pieces[-1] :]
    assert pieces == [2, 1, 2]
