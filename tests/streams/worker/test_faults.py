"""Kills, takeovers, lost disks, zombies and broken brokers: a read-committed consumer sees each expected notification exactly once."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError as AsyncKafkaError

from pastforward.broker import Broker
from pastforward.settings import Settings, load
from pastforward.state import open_store
from pastforward.streams.matcher.engine import Engine
from pastforward.streams.routing import Directory
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.transport.connection import Connection
from pastforward.streams.worker.fencing import fence
from pastforward.streams.worker.recovery import open_whole, recover_engine
from pastforward.streams.worker.sender import Chunk, make_sender
from pastforward.topics import Topics, connect, ensure
from tests.conftest import OwnBroker, StartWorker
from tests.outside import PATIENCE
from tests.streams.system import FEW_SUBSCRIPTIONS, MANY_TOPICS, Log, Setup, System, check, check_inputs

pytestmark = pytest.mark.broker

# -------------------------------------------------------------------------------------------------------------------- kills


def some_progress(system: System, rng: random.Random, burst: int) -> None:
    """Returns somewhere in the work on a burst."""
    want = sum(system.log.committed("rendezvous").values()) + rng.randint(0, burst)
    deadline = time.monotonic() + 2
    while sum(system.log.committed("rendezvous").values()) < want and time.monotonic() < deadline:
        time.sleep(0.005)


def kill(system: System, victim: int, *, lose_disk: bool) -> None:
    system.workers[victim].kill()
    if lose_disk:
        shutil.rmtree(system.directory(victim) / "worker", ignore_errors=True)  # it may have died before it made it
    system.workers[victim] = system.start(victim)


def through_kills(system: System, kills: int, burst: int, lose: Callable[[int], bool]) -> None:
    rng = random.Random(7)
    system.start_all()
    system.wait_ready()
    for number in range(kills):
        system.load.burst(burst)
        victim = number % system.setup.workers
        if rng.random() < 0.8:  # else it is killed before it has come back
            system.workers[victim].wait_ready()
        some_progress(system, rng, burst)
        kill(system, victim, lose_disk=lose(number))
    system.load.burst(burst)
    system.finish()
    repeats = system.setup.delivery == "at-least-once"
    assert check(system.log, repeats=repeats) > 100
    check_inputs(system.log, repeats=repeats)


@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(Setup("kills-memory."), id="memory-dual"),
        pytest.param(Setup("kills-disk.", "disk", "two", workers=2, format="avro"), id="disk-two-two-workers"),
        pytest.param(Setup("kills-repeat.", delivery="at-least-once"), id="at-least-once"),
    ],
)
def test_kills_lose_and_repeat_nothing(broker: Broker, start_worker: StartWorker, tmp_path: Path, setup: Setup) -> None:
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    through_kills(system, 3, 250, lambda number: number % 2 == 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lose", [False, True], ids=["disk-kept", "disk-lost"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("index", ["memory", "disk"])
def test_fifty_kills(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, index: str, workers: int, lose: bool
) -> None:
    setup = Setup(
        f"fifty-{index}-{workers}-{lose}.",
        index,
        workers=workers,
        hot_window="5s",
        topics=MANY_TOPICS,
        weights=FEW_SUBSCRIPTIONS,
    )
    through_kills(System(broker.bootstrap, start_worker, tmp_path, setup), 50, 4000, lambda _: lose)


def test_a_rebuild_that_is_cut_off_begins_anew(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the publications, of which parts are durable by then, and the subscriptions."""
    system = System(broker.bootstrap, start_worker, tmp_path, Setup("cut-off.", partitions=1))
    system.start_all()
    system.wait_ready()
    system.load.burst(200)
    system.finish()
    settings = load({"topic_prefix": "cut-off.", "hot_window": "30s"}, environment={})
    committed = system.log.committed("rendezvous")[0]

    def engine_at(path: Path) -> Engine:
        hot = settings.hot_window
        store = open_whole(lambda: open_store(path, "dual", hot_window=hot, lateness=hot))
        return Engine(0, hot, store, in_memory=True)

    def recovered(engine: Engine) -> tuple[set[str], int]:
        connection = Connection.of(settings, broker.bootstrap)
        try:
            asyncio.run(recover_engine(connection, Topics("cut-off."), engine, committed, Directory(1, "dewey", 1)))
            return set(engine.subscribers.names()), engine.size[1]
        finally:
            engine.close()

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "adopt", None)
        with pytest.raises(TypeError):
            recovered(engine_at(tmp_path / "cut off"))
    found = recovered(engine_at(tmp_path / "cut off"))
    assert found == recovered(engine_at(tmp_path / "whole"))
    assert found == recovered(engine_at(tmp_path / "whole"))  # now it is there
    assert found[0]
    assert found[1] > len(found[0])


# ------------------------------------------------------------------------------------------------------- the broker itself


def through_broker_kills(system: System, own: OwnBroker, kills: int, burst: int) -> None:
    rng = random.Random(7)
    system.start_all()
    system.wait_ready()
    for _ in range(kills):
        system.load.burst(burst)
        some_progress(system, rng, burst)
        own.end(signal.SIGKILL)
        own.restart()
        system.revive()
    system.load.burst(burst)
    system.finish(revive=True)
    assert check(system.log) > 100
    check_inputs(system.log)


def test_a_broker_that_is_killed_and_comes_back(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path
) -> None:
    system = System(own_broker.bootstrap, start_worker, tmp_path, Setup("broken."))
    through_broker_kills(system, own_broker, 1, 400)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("workers", [1, 2])
def test_five_kills_of_the_broker(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path, workers: int
) -> None:
    setup = Setup(f"five-{workers}.", workers=workers, hot_window="5s", topics=MANY_TOPICS, weights=FEW_SUBSCRIPTIONS)
    through_broker_kills(System(own_broker.bootstrap, start_worker, tmp_path, setup), own_broker, 5, 33_400)


# ------------------------------------------------------------------------------------------------- rebalances and restarts


def test_rebalances_in_the_middle_of_chunks(broker: Broker, start_worker: StartWorker, tmp_path: Path) -> None:
    """A second worker comes and goes while the first has a burst to work on."""
    system = System(
        broker.bootstrap, start_worker, tmp_path, Setup("rebalance.", topics=MANY_TOPICS, weights=FEW_SUBSCRIPTIONS)
    )
    system.start_all()
    system.wait_ready()
    met = 0
    for _ in range(2):
        second = system.start(1)
        while second.get("ready")[0] != 200:
            system.load.burst(10)
            time.sleep(0.1)  # what is found grows with the square of what is there
            assert second.process.poll() is None, second.said()
        system.load.burst(500)
        met += system.log.ends("publications") != system.log.committed("publications")
        assert second.stop() == 0, second.said()
    assert met, "no rebalance met a chunk"
    system.finish()
    assert check(system.log) > 100
    check_inputs(system.log)


def test_a_rolling_restart_loses_and_repeats_nothing(broker: Broker, start_worker: StartWorker, tmp_path: Path) -> None:
    """In both deliveries: a worker that is stopped in order has committed what it has sent."""
    setup = Setup("rolling.", delivery="at-least-once", workers=2, session_timeout="10s")
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.start_all()
    system.wait_ready()
    for number in range(setup.workers):
        system.load.burst(500)
        assert system.workers[number].stop() == 0, system.workers[number].said()
        system.load.burst(500)
        system.workers[number] = system.start(number)
        system.workers[number].wait_ready()
    system.finish()
    assert check(system.log) > 100
    check_inputs(system.log)


# ------------------------------------------------------------------------------------------------------------------ zombies


def test_a_stopped_zombie_comes_back(broker: Broker, start_worker: StartWorker, tmp_path: Path) -> None:
    """Stopped in the middle of its work for longer than its session lasts, then woken: its partitions have another owner by then."""
    system = System(
        broker.bootstrap,
        start_worker,
        tmp_path,
        Setup("zombie.", workers=2, topics=MANY_TOPICS, weights=FEW_SUBSCRIPTIONS),
    )
    system.start_all()
    system.wait_ready()
    zombie = system.workers[0]
    system.load.burst(2000)
    some_progress(system, random.Random(3), 1000)
    zombie.process.send_signal(signal.SIGSTOP)
    try:
        # all of it is through: the other one owns every partition
        system.log.wait(lambda: None)
    finally:
        zombie.process.send_signal(signal.SIGCONT)
    system.load.burst(1000)
    system.finish(revive=True)
    assert check(system.log) > 100
    check_inputs(system.log)


def test_a_fenced_owner_cannot_commit(broker: Broker) -> None:
    """The last moment: outputs and offset are sent, the commit is about to be."""
    settings = load({"topic_prefix": "fenced.", "partitions": "1"}, environment={})
    ensure(settings, connect(settings, broker.bootstrap))
    asyncio.run(_fence(settings, broker.bootstrap))
    log = Log(broker.bootstrap, Setup("fenced.", partitions=1))
    assert [m.value() for m in log.each("notifications")] == [b"new owner"]
    assert log.committed("rendezvous") == {0: 7}


async def _fence(settings: Settings, bootstrap: str) -> None:
    topics = Topics(settings.topic_prefix)
    partition = TopicPartition(topics.rendezvous, 0)
    connection = Connection.of(settings, bootstrap)
    old, new = (make_sender(settings, "fenced.worker", connection, name, "rendezvous", {}) for name in ("old", "new"))
    await old.start()
    await new.start()
    producer = old._transactions._producer  # type: ignore[attr-defined]
    commit = producer.commit_transaction

    async def overtaken() -> None:
        await fence(connection, "old")
        await commit()

    producer.commit_transaction = overtaken
    with pytest.raises(AsyncKafkaError):
        await old.send(Chunk(partition, _saying(topics, b"old owner"), 5))
    await new.send(Chunk(partition, _saying(topics, b"new owner"), 7))
    with pytest.raises((AsyncKafkaError, AssertionError)):  # its producer is of no use any more
        await old.send(Chunk(partition, _saying(topics, b"old owner again"), 6))
    for sender in (old, new):
        with suppress(AsyncKafkaError):
            await sender.stop()


def _saying(topics: Topics, value: bytes) -> Outgoing:
    outgoing = Outgoing()
    outgoing.send(topics.notifications, (0,), b"key", value)
    return outgoing


# ---------------------------------------------------------------------------------------------------------------- full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if os.system(f"mount -t tmpfs -o size=24m tmpfs {place} 2>/dev/null"):
        pytest.skip("a small file system cannot be mounted here")
    yield place
    os.system(f"umount -l {place}")


def test_a_full_disk_stops_the_worker_until_there_is_room(
    broker: Broker, start_worker: StartWorker, small_disk: Path
) -> None:
    system = System(broker.bootstrap, start_worker, small_disk, Setup("full."))
    system.start_all()
    system.wait_ready()
    system.load.burst(300)
    system.wait()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    worker = system.workers[0]
    deadline = time.monotonic() + PATIENCE
    while worker.process.poll() is None:
        assert time.monotonic() < deadline, worker.said()
        system.load.burst(20)
        time.sleep(0.2)
    assert worker.process.returncode == 1
    filler.unlink()
    said = worker.said()
    assert "No space left" in said
    assert "make room" in said
    system.workers[0] = system.start(0)
    system.load.burst(300)
    system.finish()
    assert check(system.log) > 100
    check_inputs(system.log)
