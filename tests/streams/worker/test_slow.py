"""A partition that is slow, and a takeover that hangs: the others go on, and `/health` sees it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from pastforward.broker import Broker
from pastforward.streams.transport.consumer import Unheld, _Consumer
from pastforward.streams.worker import app, host, lane
from pastforward.streams.worker.assignment import Assignment
from pastforward.streams.worker.host import Host
from pastforward.streams.worker.lane import Lane
from pastforward.streams.worker.recovery import Meter
from pastforward.streams.worker.task import PartitionTask
from tests.conftest import StartWorker
from tests.outside import PATIENCE, Outside

A, B = TP("t", 0), TP("t", 1)


def test_nobody_waits_for_a_full_lane_and_its_partition_is_held_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "LIMIT", 4)

    async def run() -> tuple[list[Any], list[list[int]]]:
        said: list[Any] = []
        handled: list[list[int]] = []
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def handle(records: list[Any]) -> None:
            begun.set()
            handled.append([record.offset for record in records])
            await go_on.wait()

        async def nothing(*_: Any) -> None: ...

        made = Lane(handle, nothing, nothing, said.append)
        await made.put([SimpleNamespace(offset=0, value=b"")])
        await begun.wait()
        for number in range(1, 8):  # nothing is handled meanwhile
            await asyncio.wait_for(made.put([SimpleNamespace(offset=number, value=b"")]), 5)
            said.append(number)
        go_on.set()
        while len(handled) < 2:
            await asyncio.sleep(0)
        await made.stop()
        return said, handled

    assert asyncio.run(run()) == ([1, 2, 3, True, 4, 5, 6, 7, False], [[0], [1, 2, 3, 4, 5, 6, 7]])


def test_what_is_held_is_not_handed_out_and_comes_when_it_is_released() -> None:
    from aiokafka.consumer.fetcher import Fetcher

    async def run() -> list[Any]:
        fetcher: Any = Fetcher.__new__(Fetcher)
        fetcher._records, fetcher._fetch_waiters, fetcher._closed = OrderedDict(), set(), False
        fetcher._loop, fetcher._wait_consume_future = asyncio.get_running_loop(), None
        fetcher._subscriptions = SimpleNamespace(reassignment_in_progress=False, is_assigned=lambda _: True)
        consumer: Any = _Consumer.__new__(_Consumer)
        consumer._held = set()
        consumer._thread = SimpleNamespace(_ensure_consumer=lambda: SimpleNamespace(_fetcher=fetcher))
        consumer.hold(A, True)
        wanted: Any = Unheld({A, B}, consumer._held)
        asked = asyncio.create_task(fetcher.fetched_records(wanted, timeout=60))
        await asyncio.sleep(0)
        assert not asked.done()
        fetcher._records[A] = _failing("of A")  # as aiokafka puts an answer, and wakes whoever waits
        for waiter in list(fetcher._fetch_waiters):
            fetcher._notify(waiter)
        await asyncio.sleep(0.01)
        assert not asked.done(), "it was held"
        consumer.hold(A, False)
        with pytest.raises(RuntimeError, match="of A"):
            await asyncio.wait_for(asked, 5)
        consumer.hold(A, True)
        consumer.hold(B, True)
        assert wanted, "aiokafka takes an empty set for everything"
        assert A not in wanted
        consumer.release_all()
        return [A in wanted, B in wanted, TP("t", 2) in wanted]

    assert asyncio.run(run()) == [True, True, False]


def _failing(text: str) -> Any:
    """An answer that tells that it was handed out."""

    def check_raise() -> None:
        raise RuntimeError(text)

    return SimpleNamespace(check_raise=check_raise)


def hang_while_there(path: Path) -> None:
    """In the worker: partition 0 of the rendezvous log is not matched as long as a file is there; lanes are short."""
    lane.LIMIT = 5  # type: ignore[misc]
    handle = PartitionTask.handle

    async def slow(owned: Any, records: Any) -> None:
        while owned.partition == ("stuck.rendezvous", 0) and path.exists():
            await asyncio.sleep(0.02)
        await handle(owned, records)

    owned: Any = PartitionTask
    owned.handle = slow


@pytest.mark.broker
def test_other_partitions_go_on_while_one_is_stuck(broker: Broker, start_worker: StartWorker, tmp_path: Path) -> None:
    stuck = tmp_path / "stuck"
    settings: dict[str, Any] = {"topic_prefix": "stuck.", "partitions": 2, "notification_format": "json"}
    worker = start_worker(**settings, prepare=partial(hang_while_there, stuck))
    worker.wait_ready()
    outside = Outside(broker.bootstrap, "stuck.")
    try:
        topics = _topics(outside)
        for partition, topic in topics.items():
            outside.subscribe(f"s{partition}", topic=topic)
        for partition in topics:
            outside.stored(f"s{partition}")
        stuck.touch()
        for number in range(60):  # more than fits in the lane of partition 0, and in the polls before it
            outside.publish(f"slow-{number}", topic=topics[0])
            outside.stored(f"slow-{number}")
        outside.publish("quick", topic=topics[1])
        outside.notified("s1")
        assert outside.notified("s0", 0) == []
        stuck.unlink()
        told = outside.notified("s0", 60)
        assert [n["publication_id"] for n in told] == [f"slow-{number}" for number in range(60)]
    finally:
        stuck.unlink(missing_ok=True)
        outside.close()


def _topics(outside: Outside) -> dict[int, str]:
    """A topic for each of two partitions of the rendezvous log."""
    found: dict[int, str] = {}
    for number in range(1, 40):
        name = f"probe-{number}"
        outside.publish(name, topic=str(number))
        (record,) = outside.wait("rendezvous", lambda m, name=name: m.key().decode() == name)
        found.setdefault(record.partition(), str(number))
        if len(found) == 2:
            return found
    raise AssertionError("all topics lie in one partition")


# ------------------------------------------------------------------------------------------------------------ health


def test_a_takeover_without_progress_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000.0]
    monkeypatch.setattr("pastforward.streams.worker.assignment.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(Meter, "last", 0.0)
    assignment = Assignment.__new__(Assignment)
    assignment._tasks, assignment._taking = {}, None
    made: Any = Host.__new__(Host)
    made.running = {1: SimpleNamespace(assignment=assignment)}

    def status() -> tuple[str, int]:
        said, code = made.health()
        return said["status"], code

    assert status() == ("ok", 200)
    assignment._taking = clock[0]
    clock[0] += app.HUNG
    assert status() == ("ok", 200)
    clock[0] += 1
    assert status() == ("hung", 503)
    Meter("recovering", 10).add(1)  # it reads on
    assert status() == ("ok", 200)
    clock[0] += app.HUNG + 1
    assert status() == ("hung", 503)


def hang_in_takeover(path: Path) -> None:
    host.HUNG = 0.2  # type: ignore[misc]
    recover = app.recover_routes

    async def hang(*arguments: Any) -> Any:
        while path.exists():
            await asyncio.sleep(0.02)
        return await recover(*arguments)

    app.recover_routes = hang  # type: ignore[assignment]


@pytest.mark.broker
def test_a_takeover_that_hangs_is_seen_from_outside(start_worker: StartWorker, tmp_path: Path) -> None:
    stuck = tmp_path / "stuck"
    stuck.touch()
    worker = start_worker(topic_prefix="hangs.", partitions=1, prepare=partial(hang_in_takeover, stuck))
    deadline = time.monotonic() + PATIENCE
    while worker.get("health")[0] != 503:
        assert time.monotonic() < deadline, worker.said()
        time.sleep(0.05)
    assert json.loads(worker.get("health")[1])["takeover_seconds"] > 0.2
    stuck.unlink()
    worker.wait_ready()
    assert worker.get("health")[0] == 200
