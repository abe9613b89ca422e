"""What stands around the exactly-once core: zombies, logs that are shorter than they were, offsets and stores that are gone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from pastforward import topics
from pastforward.broker import Broker
from pastforward.errors import UserError
from pastforward.schemas import decode_notification, decode_rendezvous
from pastforward.settings import load
from pastforward.state import open_store
from pastforward.streams.matcher.engine import PROGRESS
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.worker.sender import AtLeastOnce, Chunk
from tests.conftest import OwnBroker, StartWorker
from tests.outside import PATIENCE, WorkerUnderTest
from tests.streams.system import Setup, System, check, check_inputs

pytestmark = pytest.mark.broker


def until(there: Callable[[], Any], *workers: WorkerUnderTest) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < deadline, "\n".join(worker.fate() for worker in workers)
        time.sleep(0.02)


class Plain(System):
    """A system that is given its records one by one, by name."""

    at: int | None = None  # the stamp that records are given, in milliseconds

    def subscribe(self, name: str, where: str, starts_at: int | None = None) -> None:
        fields = {"subscriber_id": name, "topic": "1", "where": where}
        self.send("subscriptions", name, fields if starts_at is None else {**fields, "starts_at": starts_at})

    def publish(self, name: str, **attributes: int) -> None:
        self.send("publications", name, {"topic": "1", "attributes": attributes})

    def send(self, topic: str, key: str, value: Any) -> None:
        text = None if value is None else json.dumps(value)
        stamp = {} if self.at is None else {"timestamp": self.at}
        self.load.producer.produce(self.setup.prefix + topic, key=key, value=text, **stamp)

    def flush(self) -> None:
        assert self.load.producer.flush(PATIENCE) == 0

    def told(self) -> set[tuple[str, str]]:
        """Publications and who was told of them."""
        found = (decode_notification(message.value()) for message in self.log.each("notifications"))
        return {(one.publication_id, one.subscription_id) for one in found}


# ---------------------------------------------------------------------------------------------- a clock that steps back


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_broker_whose_clock_steps_back(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, delivery: str
) -> None:
    """Also between two workers: what replaces and withdraws counts, and what is published arrives no earlier than what came before."""
    system = Plain(
        broker.bootstrap,
        start_worker,
        tmp_path,
        Setup(f"clock-{delivery}.", delivery=delivery, partitions=1, workers=1),
    )
    system.start_all()
    system.wait_ready()
    begin = int(time.time() * 1000)
    stamped(system, "CreateTime")  # from here on the stamps are the test's
    system.at = begin + 60_000
    system.subscribe("replaced", "x = 1")
    system.subscribe("withdrawn", "x > 0")
    system.publish("first", x=1)
    system.flush()
    system.wait()
    system.at = begin - 60_000
    system.subscribe("replaced", "x = 2")
    system.send("subscriptions", "withdrawn", None)
    system.publish("bad", **{"previous.x": 1})
    system.publish("second", x=2)
    system.flush()
    system.finish()
    system.at = None
    stamped(system, "LogAppendTime")
    for _ in range(3):  # after the first of them nothing is left to be read: each hands on what the one before has said
        idle = system.workers[0] = system.start(0)
        idle.wait_ready()
        system.wait()
        idle.kill()
    worker = system.workers[0] = system.start(0)
    worker.wait_ready()
    system.publish("third", x=2)
    system.flush()
    system.wait()
    system.subscribe("replaced", "x = 3")
    system.publish("fourth", x=3)
    system.flush()
    system.wait()
    system.finish()
    check_inputs(system.log, repeats=delivery == "at-least-once")
    check(system.log, repeats=delivery == "at-least-once")
    live = {("first", "replaced"), ("first", "withdrawn"), ("second", "replaced"), ("third", "replaced")}
    assert live <= system.told()
    arrived = [decode_rendezvous(message.value()) for message in system.log.each("rendezvous")]
    times = [each.arrived_at for each in arrived if each.origin == "publications"]
    assert set(times) == {(begin + 60_000) * 1000}


def stamped(system: System, by: str) -> None:
    for topic in ("subscriptions", "publications"):
        system.log.stamp(topic, by)


# ------------------------------------------------------------------------------------------------------------------ zombies


def stops_before_it_flushes() -> None:
    """In the worker: stopped when it has told of subscriptions, and before changelog and offset follow. Once."""
    flush = AtLeastOnce._flush

    async def stopping(self: AtLeastOnce, chunks: list[Chunk]) -> None:
        matched = [chunk for chunk in chunks if chunk.partition.topic == "stale.rendezvous"]
        logged = Outgoing.joined(chunk.outgoing for chunk in matched).changelog
        if any(key is not None and key.startswith(b"s") for records in logged.values() for key, _ in records):
            AtLeastOnce._flush = flush  # type: ignore[method-assign]
            os.kill(os.getpid(), signal.SIGSTOP)
        await flush(self, chunks)

    AtLeastOnce._flush = stopping  # type: ignore[method-assign]


def is_stopped(worker: WorkerUnderTest) -> bool:
    return Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_zombie_leaves_no_trace_in_the_changelog_at_least_once(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Stopped with work that is sent and not committed. Another one takes over, replaces and withdraws; the zombie wakes, and the state
    is rebuilt from Kafka alone: what was withdrawn is not back, what was replaced is as it was replaced."""
    setup = Setup("stale.", delivery="at-least-once", partitions=1, workers=1)
    system = Plain(broker.bootstrap, start_worker, tmp_path, setup)
    setup.more = {"prepare": stops_before_it_flushes}
    system.start_all()
    system.wait_ready()
    setup.more = {}
    zombie = system.workers[0]
    system.publish("past", x=1)
    system.flush()
    system.wait()
    names = [f"s{number}" for number in range(20)]
    for name in names:
        system.subscribe(name, "x = 1", starts_at=0)
    system.flush()
    until(lambda: is_stopped(zombie), zombie)
    assert system.told()
    assert system.log.committed("rendezvous") != system.log.ends("rendezvous")
    other = system.start(1)
    try:
        other.wait_ready()
        until(lambda: "owner of 3" in other.said(), other)
        for name in names[::2]:
            system.subscribe(name, "x = 2")
        for name in names[1::2]:
            system.send("subscriptions", name, None)
        system.flush()
        system.log.wait(lambda: None)
    finally:
        zombie.process.send_signal(signal.SIGCONT)
    until(lambda: zombie.said().count("owner of") > 1 or zombie.process.poll() is not None, zombie, other)
    system.workers.append(other)
    system.finish(revive=True)
    for number in range(2):
        shutil.rmtree(system.directory(number) / "worker")
    fresh = system.workers[0] = system.start(0)
    fresh.wait_ready()
    system.publish("one", x=1)
    system.publish("two", x=2)  # what comes later shows that nothing came of the first
    system.flush()
    until(lambda: {("two", name) for name in names[::2]} <= system.told(), fresh)
    told = {pair for pair in system.told() if pair[1] in names and pair[0] != "past"}
    assert told == {("two", name) for name in names[::2]}


# ------------------------------------------------------------------------------------------- logs that are not what they were


def refused(worker: WorkerUnderTest) -> str:
    """What a worker says that ends by itself."""
    until(lambda: worker.process.poll() is not None, worker)
    assert worker.process.returncode == 1, worker.fate()
    return worker.said()


def make_anew(system: System, topic: str) -> None:
    name = system.setup.prefix + topic
    for future in system.log.admin.delete_topics([name]).values():
        future.result()
    until(lambda: name not in system.log.admin.list_topics(timeout=PATIENCE).topics)
    settings = load({"topic_prefix": system.setup.prefix, "partitions": str(system.setup.partitions)}, environment={})

    def made() -> bool:
        try:
            topics.ensure(settings, topics.connect(settings, system.bootstrap))
        except UserError:
            return False  # it is still being deleted
        return True

    until(made)


def delete_records(system: System, topic: str, before: int) -> None:
    """What retention does, at once."""
    place = TopicPartition(system.setup.prefix + topic, 0, before)
    for future in system.log.admin.delete_records([place]).values():
        future.result()


def one_partition(broker: Broker, start_worker: StartWorker, tmp_path: Path, prefix: str, **more: Any) -> Plain:
    """A system with ten subscriptions and a publication, all through."""
    system = Plain(broker.bootstrap, start_worker, tmp_path, Setup(prefix, partitions=1, **more))
    system.start_all()
    system.wait_ready()
    for number in range(10):
        system.subscribe(f"s{number}", "x = 1")
    system.publish("first", x=1)
    system.flush()
    system.wait()
    return system


def test_retention_that_overtakes_a_running_worker_is_an_error(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    system = one_partition(broker, start_worker, tmp_path, "overtaken.")
    worker = system.workers[0]
    worker.process.send_signal(signal.SIGSTOP)
    system.publish("fetched", x=1)  # a fetch waits at the broker, and brings this one
    system.flush()
    for number in range(500):
        system.publish(f"p{number}", x=number)
    system.flush()
    end = system.log.ends("publications")[0]
    delete_records(system, "publications", end - 100)
    worker.process.send_signal(signal.SIGCONT)
    said = refused(worker)
    position = end - 500
    assert f"overtaken.publications partition 0 was read up to offset {position}" in said
    assert f"begins at {end - 100} and ends at {end}: up to 400 records are gone" in said
    assert "--reset-offsets" in said
    again = system.start(0)
    assert "up to 400 records are gone" in refused(again)  # at the start as well


@pytest.mark.parametrize(
    ("topic", "grown"),
    [
        ("publications", 50),
        pytest.param("publications", 5, marks=pytest.mark.soak),
        ("rendezvous", 5),
        pytest.param("rendezvous", 50, marks=pytest.mark.soak),
        pytest.param("subscriptions", 50, marks=pytest.mark.soak),
    ],
)
def test_a_topic_that_was_made_anew_is_refused(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, topic: str, grown: int
) -> None:
    """Whether its log is still shorter than what was read of the old one, or has outgrown it."""
    system = one_partition(broker, start_worker, tmp_path, f"anew-{topic}-{grown}.")
    for number in range(9):
        system.publish(f"q{number}", x=1)
    system.flush()
    system.finish()
    committed = system.log.committed(topic)[0]
    assert 5 < committed < 50
    make_anew(system, topic)
    for number in range(grown):
        system.send(topic, f"p{number}", {"topic": "1", "attributes": {"x": 1}})
    system.flush()
    said = refused(system.start(0))
    assert f"{system.setup.prefix}{topic}" in said
    assert f"read up to offset {committed}" in said
    assert "made anew" in said
    assert "TOPIC_PREFIX" in said


@pytest.mark.parametrize(
    ("topic", "grown", "seen"),
    [
        ("publications", 5, True),
        ("publications", 200, True),
        ("publications", 200, False),
        ("live-changelog", 0, False),
        pytest.param("publications", 5, False, marks=pytest.mark.soak),
        pytest.param("subscriptions", 200, True, marks=pytest.mark.soak),
        pytest.param("rendezvous", 200, False, marks=pytest.mark.soak),
    ],
)
def test_a_topic_that_is_made_anew_under_a_running_worker_is_an_error(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, topic: str, grown: int, seen: bool
) -> None:
    """Whether the worker has seen that it was gone in between, or reads on as if nothing had happened; whether the new log is longer than
    what was read of the old one or not. Nobody who is started after it forgets that."""
    system = one_partition(broker, start_worker, tmp_path, f"running-{topic}-{grown}-{seen}.")
    for number in range(9):
        system.publish(f"q{number}", x=1)
    system.flush()
    system.wait()
    worker = system.workers[0]
    before = topic_id(system, topic)
    if not seen:
        worker.process.send_signal(signal.SIGSTOP)
    make_anew(system, topic)
    for number in range(grown):
        system.send(topic, f"p{number}", {"topic": "1", "attributes": {"x": 1}})
    system.flush()
    if not seen:
        worker.process.send_signal(signal.SIGCONT)
    said = refused(worker), refused(system.start(0))
    for each in said:
        assert f"{system.setup.prefix}{topic} " in each
        assert "made anew" in each
        assert "TOPIC_PREFIX" in each
        assert "read on from" not in each
    assert f"its id was {before}, and is {topic_id(system, topic)}" in said[1]


def test_a_topic_that_is_deleted_under_a_running_worker_is_an_error(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    system = one_partition(broker, start_worker, tmp_path, "deleted.")
    before = topic_id(system, "publications")
    for future in system.log.admin.delete_topics(["deleted.publications"]).values():
        future.result()
    said = refused(system.workers[0])
    assert f"deleted.publications, whose id was {before}, is not there any more" in said
    assert "TOPIC_PREFIX" in said


def topic_id(system: System, topic: str) -> str:
    name = system.setup.prefix + topic
    (found,) = topics.topic_ids(system.log.admin, [name]).values()
    assert found is not None
    return found


def test_what_earlier_versions_committed_without_the_id_of_the_topic_is_taken(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    system = one_partition(broker, start_worker, tmp_path, "unmarked.")
    system.finish()
    forget_marks(system)
    goes_on(system)


@pytest.mark.parametrize("topic", ["publications", pytest.param("rendezvous", marks=pytest.mark.soak)])
def test_a_log_that_is_shorter_than_the_committed_offset_is_refused(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, topic: str
) -> None:
    """Also if nobody knows whether it is the same topic."""
    system = one_partition(broker, start_worker, tmp_path, f"short-{topic}.")
    for number in range(9):
        system.publish(f"q{number}", x=1)
    system.flush()
    system.finish()
    places = read_up_to(system)
    make_anew(system, topic)
    forget_marks(system, places)
    for number in range(5):
        system.send(topic, f"p{number}", {"topic": "1", "attributes": {"x": 1}})
    system.flush()
    said = refused(system.start(0))
    assert f"short-{topic}.{topic} partition 0 was read up to offset {places[topic]}, but its log begins at 0" in said
    assert f"ends at {system.log.ends(topic)[0]}: the log was truncated" in said
    assert "TOPIC_PREFIX" in said


def read_up_to(system: System) -> dict[str, int]:
    return {topic: system.log.committed(topic)[0] for topic in ("subscriptions", "publications", "rendezvous")}


def forget_marks(system: System, committed: dict[str, int] | None = None) -> None:
    """Commits the same offsets, with nothing beside them."""
    prefix = system.setup.prefix
    places = [TopicPartition(prefix + topic, 0, at) for topic, at in (committed or read_up_to(system)).items()]
    asked = system.log.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(f"{prefix}worker", places)])
    for future in asked.values():
        future.result()


def goes_on(system: Plain) -> WorkerUnderTest:
    """A worker takes over, and tells all ten of the next publication, once."""
    worker = system.workers[0] = system.start(0)
    worker.wait_ready()
    system.publish("next", x=1)
    system.flush()
    system.wait()
    told = [decode_notification(message.value()) for message in system.log.each("notifications")]
    assert sorted(one.subscription_id for one in told if one.publication_id == "next") == [f"s{n}" for n in range(10)]
    return worker


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_an_idle_log_that_retention_has_emptied(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, how: str
) -> None:
    """Its log ends with the marker of a transaction, and begins behind it when all is deleted."""
    system = one_partition(broker, start_worker, tmp_path, f"emptied-{how}.")
    if how == "stopped":
        system.finish()
    else:
        system.workers[0].kill()
    for topic in ("publications", "rendezvous"):
        delete_records(system, topic, -1)
        assert len(system.log.each(topic)) == 0
    goes_on(system)


@pytest.mark.parametrize(
    ("disk", "emptied"),
    [
        ("kept", False),
        ("lost", True),
        pytest.param("kept", True, marks=pytest.mark.soak),
        pytest.param("lost", False, marks=pytest.mark.soak),
    ],
)
def test_group_offsets_that_have_expired(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, disk: str, emptied: bool
) -> None:
    """The changelogs tell how far everything was read."""
    system = one_partition(broker, start_worker, tmp_path, f"expired-{disk}-{emptied}.")
    system.finish()
    for future in system.log.admin.delete_consumer_groups([f"{system.setup.prefix}worker"]).values():
        future.result()
    if disk == "lost":
        shutil.rmtree(system.directory(0) / "worker")
    if emptied:
        for topic in ("publications", "rendezvous"):
            delete_records(system, topic, -1)
    worker = goes_on(system)
    assert "where the changelogs say" in worker.said()
    assert len(system.log.each("notifications")) == 20  # each of both publications, once


@pytest.mark.parametrize("changelog", ["live-changelog", "routes-changelog"])
def test_a_changelog_that_was_deleted_is_an_error(
    broker: Broker, start_worker: StartWorker, tmp_path: Path, changelog: str
) -> None:
    """With the local state that it was made from as well: the next one who has none would begin without its subscriptions."""
    system = one_partition(broker, start_worker, tmp_path, f"unlogged-{changelog}.")
    system.finish()
    make_anew(system, changelog)
    said = refused(system.start(0))
    assert f"unlogged-{changelog}.{changelog} was deleted and made anew" in said
    assert "TOPIC_PREFIX" in said


def test_a_changelog_that_was_deleted_is_an_error_without_its_id_too(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    system = one_partition(broker, start_worker, tmp_path, "unlogged.")
    system.finish()
    forget_marks(system)
    make_anew(system, "live-changelog")
    shutil.rmtree(system.directory(0) / "worker")
    said = refused(system.start(0))
    assert "unlogged.live-changelog is empty" in said
    assert "TOPIC_PREFIX" in said


# ---------------------------------------------------------------------------------------------------------- a store that is no good


def torn(name: str) -> Callable[[Path], None]:
    def tear(store: Path) -> None:
        for file in (store / "db").glob(name):
            file.write_bytes(b"torn")

    return tear


def marker(**other: Any) -> Callable[[Path], None]:
    def change(store: Path) -> None:
        file = store / "db" / "STORE"
        file.write_text(json.dumps({**json.loads(file.read_text()), **other}))

    return change


def unlinked(store: Path) -> None:
    (store / "db" / "CURRENT").unlink()


def ahead(store: Path) -> None:
    with open_store(store, hot_window=30_000_000, lateness=30_000_000) as opened:
        opened.commit(1_000_000)


def progress(store: Path) -> None:
    with open_store(store, hot_window=30_000_000, lateness=30_000_000) as opened:
        kept = opened.get_meta(PROGRESS)
        assert kept is not None
        opened.put_meta(PROGRESS, json.dumps({**json.loads(kept), "format": 0}).encode())
        opened.commit(opened.offset)


STORES = {
    "manifest": torn("MANIFEST-*"),
    "current-torn": torn("CURRENT"),
    "current-missing": unlinked,
    "marker": torn("STORE"),
    "format": marker(format=99),
    "layout": marker(layout="two"),
    "ahead": ahead,
    "progress": progress,
}


def test_a_store_that_is_no_good_is_set_aside_and_rebuilt(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    system = one_partition(broker, start_worker, tmp_path, "aside.")
    system.finish()
    store = system.directory(0) / "worker" / "state" / "aside.0"
    for number, (what, harm) in enumerate(STORES.items(), 1):
        harm(store)
        worker = system.start(0)
        worker.wait_ready()
        said = worker.said()
        assert said.count("is set aside as") == number, what  # all of them write into one log
        (kept,) = store.parent.glob("aside.0.aside-*")  # the last one
        assert str(kept) in said, what
        assert 'pastforward_dropped_total{reason="state"} 1.0' in worker.get("metrics")[1], what
        assert worker.stop() == 0, worker.fate()
    goes_on(system)


# ---------------------------------------------------------------------------------------------------------- a broker that hangs


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("session_timeout", ["3s", "30s"])
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_broker_that_is_paused_again_and_again(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path, delivery: str, session_timeout: str
) -> None:
    """With two workers, of which either may be thrown out of the group when the broker wakes."""
    setup = Setup("pauses.", delivery=delivery, session_timeout=session_timeout, workers=2)
    system = System(own_broker.bootstrap, start_worker, tmp_path, setup)
    system.start_all()
    system.wait_ready()
    for pause in (12, 30):
        system.load.burst(500)
        own_broker.end(signal.SIGSTOP)
        time.sleep(pause)  # the length is what is tested
        own_broker.end(signal.SIGCONT)
        system.load.burst(100)
        system.wait()
    system.finish()
    repeats = delivery == "at-least-once"
    assert check(system.log, repeats=repeats) > 100
    check_inputs(system.log, repeats=repeats)


@pytest.mark.soak
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_worker_that_waits_for_its_broker_ends_when_it_is_told_to(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path, delivery: str
) -> None:
    system = System(own_broker.bootstrap, start_worker, tmp_path, Setup("waits.", delivery=delivery))
    system.start_all()
    system.wait_ready()
    system.load.burst(500)
    own_broker.end(signal.SIGSTOP)
    worker = system.workers[0]
    worker.wait_said("taken over again")
    worker.process.terminate()
    assert worker.process.wait(15) in {0, 1}, worker.fate()
    assert len(worker.said().splitlines()) <= 15, worker.said()


@pytest.mark.parametrize("delivery", ["exactly-once", pytest.param("at-least-once", marks=pytest.mark.soak)])
def test_a_broker_that_is_paused_for_long(
    own_broker: OwnBroker, start_worker: StartWorker, tmp_path: Path, delivery: str
) -> None:
    """Longer than every time-out of worker and broker. The worker goes on by itself, and nothing is lost or repeated."""
    system = System(own_broker.bootstrap, start_worker, tmp_path, Setup("paused.", delivery=delivery))
    system.start_all()
    system.wait_ready()
    system.load.burst(1000)
    own_broker.end(signal.SIGSTOP)
    try:
        system.workers[0].wait_said("taken over again")  # or it would wait for its transaction
    finally:
        own_broker.end(signal.SIGCONT)
    system.load.burst(300)
    system.finish()
    said = system.workers[0].said()
    assert delivery == "at-least-once" or "a transaction has not come to an end" in said
    assert "IN_TRANSACTION" not in said
    repeats = delivery == "at-least-once"
    assert check(system.log, repeats=repeats) > 100
    check_inputs(system.log, repeats=repeats)
