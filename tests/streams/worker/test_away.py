"""A worker whose broker goes away: it ends when it is told to, whatever it is doing, and its log stays short."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import faust
import pytest
from aiokafka.errors import KafkaConnectionError

from pastforward.absence import Absence
from pastforward.settings import load
from pastforward.streams.routing import Directory
from pastforward.streams.worker import process as run
from pastforward.streams.worker.broker_watch import BrokerWatch, RepeatedLines
from pastforward.streams.worker.routing_change import Change
from pastforward.streams.worker.shutdown import Ending
from tests.conftest import OwnBroker, StartWorker
from tests.outside import PATIENCE, WorkerUnderTest
from tests.streams.system import Setup, System

BOUND = 15  # seconds from the signal to the end
LINES = 15  # of the log: a hundred a second came before
AWAY = "does not answer"


def until(there: Callable[[], bool], worker: WorkerUnderTest) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < deadline, worker.fate()
        time.sleep(0.05)


def ends(worker: WorkerUnderTest) -> int:
    worker.process.terminate()
    try:
        return worker.process.wait(BOUND)
    except subprocess.TimeoutExpired:
        worker.process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        raise AssertionError(f"the worker does not end:\n{worker.said()}") from None


def is_short(worker: WorkerUnderTest) -> None:
    said = worker.said()
    assert len(said.splitlines()) <= LINES, said
    assert "Traceback" not in said, said


def idle(system: System) -> list[WorkerUnderTest]:
    system.start_all()
    system.wait_ready()
    return system.workers


def working(system: System) -> list[WorkerUnderTest]:
    """In a transaction, or between two."""
    idle(system)
    system.load.burst(3000)
    before = sum(system.log.committed("rendezvous").values())
    until(lambda: sum(system.log.committed("rendezvous").values()) > before, system.workers[0])
    return system.workers


def starting(system: System) -> list[WorkerUnderTest]:
    """With a state to recover."""
    idle(system)
    system.load.burst(1000)
    system.wait()
    system.workers[0].kill()
    worker = system.start(1)
    until(lambda: "metrics and health" in worker.said(), worker)
    return [worker]


def rebalancing(system: System) -> list[WorkerUnderTest]:
    idle(system)
    second = system.start(1)
    until(lambda: "metrics and health" in second.said(), second)
    return [system.workers[0], second]


def changing(system: System) -> list[WorkerUnderTest]:
    """Two versions of the routing run."""
    idle(system)
    settings = load({"topic_prefix": system.setup.prefix, "hot_window": system.setup.hot_window}, environment={})
    change = Change(settings, system.bootstrap, lambda _: None)
    change.begin(Directory(0, "dewey", 3, 1, None))
    change.close()
    until(lambda: system.workers[0].said().count("owner of") > 1, system.workers[0])
    return system.workers


@pytest.mark.broker
@pytest.mark.parametrize("state", [idle, working, starting, rebalancing, changing])
def test_a_worker_without_its_broker_ends_when_it_is_told_to(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path, state: Callable[[System], list[WorkerUnderTest]]
) -> None:
    system = System(own_broker.bootstrap, start_worker, tmp_path, Setup("away."))
    workers = state(system)
    own_broker.end(signal.SIGTERM if state is idle else signal.SIGKILL)
    for worker in workers:
        # one that starts may also say that there is no broker, and end by itself
        until(lambda: AWAY in worker.said() or worker.process.poll() is not None, worker)  # noqa: B023
        code = ends(worker) if worker.process.poll() is None else worker.process.returncode
        assert code == (1 if "the worker stops" in worker.said() else 0), worker.said()
        is_short(worker)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("away", [True, False])
def test_what_breaks_on_the_way_out_without_a_broker_is_no_failure(away: bool, told: bool) -> None:
    """`told` to end, or failed by itself. Which step the missing broker breaks, and how far the others are then, is chance."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    worker = run._Worker(faust.App("breaks", broker="kafka://nowhere:1"), loop=loop, override_logging=False)
    worker.broker = SimpleNamespace(away=away)  # type: ignore[assignment]
    worker.ending = Ending(lambda: away, lambda _: None)
    worker.ending.begin(failed=not told)
    worker._watching = SimpleNamespace(cancel=lambda: None)  # type: ignore[assignment]
    worker._crash(KafkaConnectionError("what it needed is gone"))
    with nullcontext() if away and told else pytest.raises(KafkaConnectionError):
        worker._shutdown_loop()


@pytest.mark.broker
@pytest.mark.parametrize("delivery", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.soak)])
def test_a_worker_whose_broker_hangs_ends_when_it_is_told_to(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path, delivery: str
) -> None:
    """It takes connections, and answers nothing."""
    system = System(own_broker.bootstrap, start_worker, tmp_path, Setup("hangs.", delivery=delivery))
    (worker,) = working(system)
    own_broker.end(signal.SIGSTOP)
    assert ends(worker) in {0, 1}
    is_short(worker)


@pytest.mark.broker
def test_a_worker_says_that_its_broker_is_back_and_goes_on(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path
) -> None:
    system = System(own_broker.bootstrap, start_worker, tmp_path, Setup("back."))
    (worker,) = idle(system)
    own_broker.end(signal.SIGKILL)
    until(lambda: AWAY in worker.said(), worker)
    own_broker.restart()
    until(lambda: "answers again" in worker.said(), worker)
    system.load.burst(100)
    system.wait(revive=True)
    said = worker.said()
    assert (said.count(AWAY), said.count("answers again")) == (1, 1), said
    is_short(worker)


# ------------------------------------------------------------------------------------------------------------- without a broker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_absence_is_said_at_growing_intervals() -> None:
    clock, said = Clock(), []
    absence = Absence("Kafka", lambda line: said.append((clock.now, line)), clock)
    for second in range(1200):
        clock.now = second
        absence.missed("no connection")
    assert [when for when, _ in said] == [0, 5, 15, 35, 75, 155, 315, 615, 915]
    assert absence.away
    absence.answered()
    absence.answered()
    assert said[-1] == (1199, "Kafka answers again, after 1199 s")
    assert not absence.away
    absence.missed("again")
    assert len(said) == 11


def record(name: str, message: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, message, (), None)


def test_complaints_are_handed_on_when_the_broker_is_well() -> None:
    asyncio.run(_complaints())


async def _complaints() -> None:
    said: list[str] = []
    well = False

    async def ask() -> None:
        if not well:
            raise ConnectionRefusedError("refused")

    watch = BrokerWatch(ask, Absence("Kafka", said.append), lambda held: said.append(held.getMessage()))
    assert watch.filter(record("pastforward.worker", "hello"))
    for _ in range(1000):
        assert not watch.filter(record("aiokafka.consumer", "no node"))
    await watch.look()
    for _ in range(1000):
        assert not watch.filter(record("aiokafka.consumer", "no fetch"))
        await watch.look()
    assert said == ["Kafka does not answer: refused"]
    assert watch.away
    well = True
    await watch.look()
    for _ in range(1000):
        assert not watch.filter(record("aiokafka.conn", "a broken record"))
        await watch.look()
    assert said[1:] == ["Kafka answers again, after 0 s", "a broken record"]
    assert [watch.filter(record("faust.app", "hm")) for _ in range(3)] == [True, False, False]
    assert not watch.filter(record("mode.worker", "[^Worker]: Crashed reason=1"))
    watch.refused = said.append
    assert not watch.filter(record("aiokafka", "Attempt to join group failed due to fatal error: no session"))
    assert said[-1] == "no session"


def test_a_message_that_repeats_is_shown_at_growing_intervals() -> None:
    clock = Clock()
    repeats = RepeatedLines(clock)
    shown = []
    for second in range(1, 1000):
        clock.now = second
        if repeats.passes(record("aiokafka", "no")):
            shown.append(second)
    assert shown == [1, 6, 16, 36, 76, 156, 316, 616, 916]
    assert repeats.passes(record("aiokafka", "another"))


def test_who_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("pastforward.streams.worker.shutdown.GRACE", 0.2)
    monkeypatch.setattr("pastforward.streams.worker.shutdown.AWAY", 0.0)
    for away, failed, code in [(True, False, 0), (True, True, 1), (False, False, 1), (False, True, 1)]:
        left: list[int] = []
        ending = Ending(lambda away=away: away, left.append)  # type: ignore[misc]
        ending.begin(failed=failed)
        ending.begin(failed=not failed)
        assert ending._thread is not None
        ending._thread.join()
        assert left == [code]
    assert caplog.text.count("cut off") == 4
