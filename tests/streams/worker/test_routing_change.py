"""The routing changes while traffic goes on: no pair is lost, none is reported twice, whoever dies meanwhile.

Each version has a rendezvous log of its own. The reference reads both, and reports a pair under the higher of its two tags; what was
notified must be the sum of the two.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from pastforward.broker import Broker
from pastforward.errors import UserError
from pastforward.schemas import decode_notification, decode_rendezvous
from pastforward.settings import load
from pastforward.streams.reference import Partition
from pastforward.streams.router import router
from pastforward.streams.routing import Directory
from pastforward.streams.routing.change import STATE, State, Turn, View, turn
from pastforward.streams.worker.directory import group_of, read_directory
from pastforward.streams.worker.routing_change import Change
from pastforward.topics import Topics
from tests import forks
from tests.conftest import StartWorker
from tests.outside import PATIENCE, Outside, WorkerUnderTest
from tests.streams.system import Setup, System, check_letters, fields_of, findings, read_inputs

pytestmark = pytest.mark.broker

CATALOG = """
[[attribute]]
name = "x"
type = "integer"
kind = "range"
domain = [0, 10]
intervals = 5
precision = 1

[[attribute]]
name = "kind"
type = "string"
kind = "equality"
"""


class Stream:
    """Traffic that does not stop."""

    def __init__(self, system: System, burst: int) -> None:
        self._system, self._burst = system, burst
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self._system.load.burst(self._burst)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def routing(system: System, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = ["routing", command, "--bootstrap-servers", system.bootstrap, "--topic-prefix", system.setup.prefix]
    return forks.run([*arguments, *options], system.directory(0).parent, timeout=4 * PATIENCE)


def apply(system: System, *options: str) -> subprocess.CompletedProcess[str]:
    return routing(system, "apply", "--json", "--hot-window", system.setup.hot_window, *options)


def view_of(system: System) -> View:
    return read_directory(settings_of(system), system.bootstrap)


def becomes(system: System, state: State) -> bool:
    """A transaction that was committed is seen by readers a moment later."""
    deadline = time.monotonic() + PATIENCE
    while (found := view_of(system).current()) != state:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return True


def until(there: Callable[[], bool], changing: Future[subprocess.CompletedProcess[str]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert not changing.done(), changing.result().stderr
        assert time.monotonic() < deadline


def settings_of(system: System) -> Any:
    return load({"topic_prefix": system.setup.prefix}, environment={})


def committed(system: System, version: int, topic: str) -> dict[int, int]:
    asked = [ConsumerGroupTopicPartitions(group_of(settings_of(system), version))]
    (future,) = system.log.admin.list_consumer_group_offsets(asked).values()
    return {tp.partition: tp.offset for tp in future.result().topic_partitions if tp.topic == topic}


def wait(system: System, version: int) -> None:
    """Until everything sent so far is through the version in force."""
    names = Topics(system.setup.prefix, version)
    deadline = time.monotonic() + 4 * PATIENCE
    for topic in (names.subscriptions, names.publications, names.rendezvous):
        ends = system.log.ends(topic.removeprefix(system.setup.prefix))
        while any(committed(system, version, topic).get(p, 0) < end for p, end in ends.items()):
            system.revive()
            assert time.monotonic() < deadline, f"{topic}: {committed(system, version, topic)} of {ends}"
            time.sleep(0.1)


def expected(system: System, entry: Directory) -> Counter[tuple[Any, ...]]:
    """What a version has to report, by its own log."""
    topic = Topics(system.setup.prefix, entry.version).rendezvous
    until = committed(system, entry.version, topic)
    found: Counter[tuple[Any, ...]] = Counter()
    for number, messages in system.log.read(topic.removeprefix(system.setup.prefix)).items():
        reference = Partition(number, system.setup.hot, entry.version)
        if entry.version > 1:
            reference.begin(entry)
        for each in findings(reference, messages, until.get(number, 0)):
            found.update(fields_of(n) for n in each.notifications)
    return found


def check_tags(system: System, view: View) -> None:
    """Each publication is in the log of every version that reads its offset, once a partition, with the tag that its offset says."""
    good = {
        (partition, message.offset())
        for partition, messages in system.log.read("publications").items()
        for message in messages
        if message.key().startswith(b"p")
    }
    for version, entry in view.versions.items():
        names = Topics(system.setup.prefix, version)
        flips = {p: at for (v, name, p), at in view.flips.items() if (v, name) == (version, "publications")}
        ends = {p: at for (v, name, p), at in view.flips.items() if (v, name) == (version + 1, "publications")}
        tags: dict[tuple[int, int], int] = {}
        for messages in system.log.read(names.rendezvous.removeprefix(system.setup.prefix)).values():
            found = [e for e in (decode_rendezvous(m.value()) for m in messages) if e.origin == "publications"]
            assert len({(e.partition, e.offset) for e in found}) == len(found)
            tags |= {(e.partition, e.offset): e.routing_version for e in found}
        starts = dict(enumerate(entry.starts))
        assert tags == {
            (p, at): version if at >= flips.get(p, 0) else version - 1
            for p, at in good
            if starts.get(p, 0) <= at < ends.get(p, 1 << 62)
        }


def check_bad(system: System) -> None:
    """Each version reads what is bad, and one of them has written its letter."""
    _, letters = read_inputs(system.log)
    assert {origin for origin, _, _ in letters} == {"subscriptions", "publications"}, "the test shows nothing"
    check_letters(system.log, letters)


def check(system: System) -> int:
    view = view_of(system)
    check_tags(system, view)
    check_bad(system)
    wanted: Counter[tuple[Any, ...]] = Counter()
    for entry in view.versions.values():
        mine = expected(system, entry)
        assert mine, f"version {entry.version} had nothing to report: the test shows nothing"
        wanted += mine
    told = Counter(fields_of(decode_notification(m.value())) for m in system.log.each("notifications"))
    assert told == wanted
    # a publication that is sent again after the hot window, or by content to other partitions, is another one
    again = {key for key, count in Counter(m.key() for m in system.log.each("publications")).items() if count > 1}
    ids = Counter(n[:4] for n in told.elements() if n[3].encode() not in again)
    assert max(ids.values()) == 1
    return len(told)


def test_the_number_of_partitions_changes_under_traffic_and_a_kill(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    setup = Setup("recount.", workers=2, hot_window="10s", auctions=False)
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.load.burst(200)
    system.start_all()
    system.wait_ready()
    traffic = Stream(system, 3)
    try:
        with ThreadPoolExecutor() as pool:
            changing = pool.submit(apply, system, "--partitions", "3")
            until(lambda: view_of(system).current().next == 2, changing)
            system.workers[0].kill()
            system.workers[0] = system.start(0)
        assert changing.result().returncode == 0, changing.result().stderr + "".join(w.said() for w in system.workers)
        system.load.burst(200)
        system.workers[0].wait_ready()
    finally:
        traffic.end()
    wait(system, 2)
    for worker in system.workers:
        assert worker.stop() == 0, worker.said()
    assert check(system) > 300


def dies_instead_of_flipping() -> None:
    """In the worker: what would be its first word of that kind is its end."""

    def watched(*arguments: Any) -> Turn:
        now = turn(*arguments)
        if now.say is not None and now.say[0].startswith(b"flip/"):
            os.kill(os.getpid(), signal.SIGKILL)
        return now

    router.turn = watched


def test_another_worker_takes_over_between_hold_and_flip(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    """With a disk of its own that is empty, and bad input before, meanwhile and behind: the word that was given counts."""
    setup = Setup("between.", hot_window="10s", auctions=False, weights=(45, 35, 5, 3, 12))
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.load.burst(200)
    setup.more = {"prepare": dies_instead_of_flipping}
    system.start_all()
    system.wait_ready()
    setup.more = {}
    with ThreadPoolExecutor() as pool:
        changing = pool.submit(apply, system, "--partitions", "3")
        until(lambda: system.workers[0].process.poll() is not None, changing)
        said = view_of(system)
        assert said.holds
        assert not said.flips
        system.load.burst(100)
        system.workers[0] = system.start(1)
    assert changing.result().returncode == 0, changing.result().stderr + system.workers[0].said()
    flips = view_of(system).flips
    assert flips.keys() >= said.holds.keys()
    assert all(flips[place] >= at for place, at in said.holds.items())
    system.load.burst(100)
    wait(system, 2)
    assert system.workers[0].stop() == 0, system.workers[0].said()
    assert check(system) > 100


def test_the_scheme_changes_under_traffic(broker: Broker, start_worker: StartWorker, tmp_path: Path) -> None:
    setup = Setup("reroute.", hot_window="10s", auctions=False, joins=False, format="avro")
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.load.burst(200)
    system.start_all()
    system.wait_ready()
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(CATALOG)
    traffic = Stream(system, 3)
    try:
        done = apply(system, "--scheme", "iim", "--catalog", str(catalog), "--partitions", "4")
        assert done.returncode == 0, done.stderr + system.workers[0].said()
        system.load.burst(200)
    finally:
        traffic.end()
    wait(system, 2)
    assert system.workers[0].stop() == 0, system.workers[0].said()
    assert check(system) > 300


def test_what_cannot_be_is_refused_and_nothing_changes(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    setup = Setup("unchanged.", partitions=1)
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    refused = apply(system, "--partitions", "3")
    assert (refused.returncode, "start a worker first" in refused.stderr) == (1, True)
    system.start_all()
    system.wait_ready()
    before = view_of(system)
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(CATALOG.replace('kind = "range"', 'kind = "sometimes"'))
    refused = apply(system, "--scheme", "pan", "--catalog", str(catalog))
    assert refused.returncode == 1
    assert "line 5" in refused.stderr
    assert "what is in force stays" in refused.stderr
    assert "is in force already" in apply(system, "--partitions", "1").stderr
    assert "no change is under way" in apply(system).stderr
    assert view_of(system) == before
    assert system.workers[0].stop() == 0


def test_a_change_is_dropped_while_it_goes_on_and_when_no_worker_runs(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Nothing is lost or told twice; the next change has a version of its own; no command goes on with what another has dropped."""
    setup = Setup("dropped.", hot_window="10s", auctions=False)
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.load.burst(200)
    system.start_all()
    system.wait_ready()
    settings = load({"topic_prefix": setup.prefix, "hot_window": setup.hot_window}, environment={})
    change = Change(settings, broker.bootstrap, lambda _: None)
    other = Change(settings, broker.bootstrap, lambda _: None)
    try:
        now = view_of(system).versions[1]
        change.begin(replace(now, partitions=3))
        system.workers[0].wait_said("version 2 of the routing begins")
        system.load.burst(100)
        assert other.abort() == 2
        with pytest.raises(UserError, match="taken over"):
            change._say([(STATE, State(1, 2, flipping=True).to_bytes())])
        system.workers[0].wait_said("version 2 of the routing is over")
        assert becomes(system, State(1))
        assert "no change is under way" in routing(system, "abort").stderr
        system.load.burst(100)
        wait(system, 1)
        assert system.workers[0].stop() == 0, system.workers[0].said()

        last = Change(settings, broker.bootstrap, lambda _: None)
        last.begin(replace(now, partitions=3))
        last.close()
        done = routing(system, "abort", "--json")
        assert json.loads(done.stdout) == {"dropped": 3, "version": 1}, done.stderr
    finally:
        change.close()
        other.close()
    system.workers[0] = system.start(0)
    system.workers[0].wait_ready()
    system.load.burst(100)
    wait(system, 1)
    assert apply(system, "--partitions", "3").returncode == 0
    assert becomes(system, State(4))
    system.load.burst(200)
    wait(system, 4)
    assert system.workers[0].stop() == 0, system.workers[0].said()
    view = view_of(system)
    told = Counter(fields_of(decode_notification(m.value())) for m in system.log.each("notifications"))
    assert told == expected(system, view.versions[1]) + expected(system, view.versions[4])
    check_bad(system)


def test_what_flips_cannot_be_dropped(broker: Broker, start_worker: StartWorker, tmp_path: Path) -> None:
    setup = Setup("flips.", partitions=1)
    system = System(broker.bootstrap, start_worker, tmp_path, setup)
    system.start_all()
    system.wait_ready()
    system.workers[0].stop()
    change = Change(load({"topic_prefix": setup.prefix}, environment={}), broker.bootstrap, lambda _: None)
    change.begin(replace(view_of(system).versions[1], partitions=2))
    change._say([(STATE, State(1, 2, flipping=True).to_bytes())])
    change.close()
    refused = routing(system, "abort")
    assert (refused.returncode, "cannot be dropped any more" in refused.stderr) == (1, True)
    system.workers[0] = system.start(0)
    assert apply(system).returncode == 0
    assert becomes(system, State(2))
    assert system.workers[0].stop() == 0


def test_an_auction_without_an_end_goes_along(broker: Broker, start_worker: StartWorker) -> None:
    """However old it is: what the new version does not read again, it inherits. Bids before and after the change compete."""
    prefix = "endless."
    worker = start_worker(topic_prefix=prefix, partitions=2, hot_window="10m", notification_format="json")
    worker.wait_ready()
    outside = Outside(broker.bootstrap, prefix)
    settings = load({"topic_prefix": prefix}, environment={})
    object.__setattr__(settings, "hot_window", 1)  # so that the publication lies before what is read again
    try:
        lots = [f"lot-{topic}" for topic in range(1, 5)]
        for topic, lot in enumerate(lots, 1):
            best = {"attribute": "price", "prefer": "highest"}
            outside.publish(lot, topic=f"{topic}.1", where="price >= 100", best=best)
            outside.stored(lot)
        outside.subscribe("anna", where="price <= 120", starts_at=0)
        for lot in lots:
            assert offers(outside, lot, 1) == [("anna", 120)]
        change = Change(settings, broker.bootstrap, lambda _: None)
        try:
            now = change.view().versions[1]
            for cannot in (replace(now, depth=3), replace(now, scheme="pan")):
                with pytest.raises(UserError, match="--drop-auctions"):
                    change.begin(cannot)
            change.begin(replace(now, partitions=3))
            assert change.finish() == 2
        finally:
            change.close()
        outside.subscribe("ben", where="price <= 150", starts_at=0)
        for lot in lots:
            assert offers(outside, lot, 2)[1:] == [("ben", 150)]
        outside.send("subscriptions", "ben", None)
        for lot in lots:
            assert offers(outside, lot, 3)[2:] == [("anna", 120)]
        # and after a restart from the changelog alone
        worker.kill()
        worker = start_worker(topic_prefix=prefix, partitions=2, hot_window="10m", notification_format="json")
        worker.wait_ready()
        outside.subscribe("carl", where="price <= 130", starts_at=0)
        for lot in lots:
            assert offers(outside, lot, 4)[3:] == [("carl", 130)]
        given_up = routing_in(broker, prefix, worker, "--scheme", "pan", "--drop-auctions")
        assert given_up.returncode == 0, given_up.stderr
        assert worker.stop() == 0, worker.said()
    finally:
        outside.close()


def offers(outside: Outside, publication: str, count: int) -> list[tuple[str, int]]:
    found = outside.wait("best-offers", lambda m: m.key() == publication.encode(), count)
    read = [json.loads(m.value()) for m in found]
    return [(offer["subscription_id"], offer["value"]) for offer in read]


def routing_in(broker: Broker, prefix: str, worker: WorkerUnderTest, *options: str) -> subprocess.CompletedProcess[str]:
    arguments = ["routing", "apply", "--bootstrap-servers", broker.bootstrap, "--topic-prefix", prefix, "--json"]
    return forks.run([*arguments, "--hot-window", "10m", *options], worker.log.parent, timeout=4 * PATIENCE)
