"""The routing changes while traffic goes on: no pair is lost, none is reported twice, whoever dies meanwhile.

Each version has a rendezvous log of its own. The reference reads both, and reports a pair under the higher of its two tags; what was
notified must be the sum of the two.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from pastforward.broker import Broker
from pastforward.settings import load
from pastforward.topics import Topics
from schemas import decode_notification, decode_rendezvous
from streams.directory import group_of, read_directory
from streams.reference import Partition
from streams.routing import Directory
from streams.routing.change import View
from tests import forks
from tests.conftest import StartWorker
from tests.outside import PATIENCE
from tests.streams.system import FIELDS, Setup, System, findings

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


def apply(system: System, *options: str) -> subprocess.CompletedProcess[str]:
    setup = system.setup
    connection = [
        "--bootstrap-servers",
        system.bootstrap,
        "--topic-prefix",
        setup.prefix,
        "--hot-window",
        setup.hot_window,
    ]
    arguments = ["routing", "apply", "--json", *connection, *options]
    return forks.run(arguments, system.directory(0).parent, timeout=4 * PATIENCE)


def view_of(system: System) -> View:
    return read_directory(settings_of(system), system.bootstrap)


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
            found.update(FIELDS(n) for n in each.notifications)
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


def check(system: System) -> int:
    view = view_of(system)
    check_tags(system, view)
    wanted: Counter[tuple[Any, ...]] = Counter()
    for entry in view.versions.values():
        mine = expected(system, entry)
        assert mine, f"version {entry.version} had nothing to report: the test shows nothing"
        wanted += mine
    told = Counter(FIELDS(decode_notification(m.value())) for m in system.log.each("notifications"))
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
