"""Workers that are killed in the middle of a long search of the past."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from pastforward.broker import Broker
from pastforward.schemas import decode_notification
from pastforward.streams.matcher import past, searches
from tests.conftest import StartWorker
from tests.outside import PATIENCE
from tests.streams.system import Setup, searches_in
from tests.streams.worker.test_edges import Plain
from tests.streams.worker.test_faults import kill

pytestmark = pytest.mark.broker


def searches_are_long() -> None:
    """In the worker: a part is a pair, and leaves in a transaction of its own."""
    past.PAIRS, past.CHUNK_PAIRS, past.CHUNK_PARTS = 1, 1, 1


def until_it_searches(system: Plain) -> None:
    deadline = time.monotonic() + PATIENCE
    while not searches_in(system.workers[0]):
        system.running()
        assert time.monotonic() < deadline, "no search goes on"


@pytest.mark.parametrize("index", ["memory", "disk"])
def test_the_search_goes_on_where_it_was(broker: Broker, start_worker: StartWorker, tmp_path: Path, index: str) -> None:
    """Nothing is lost, nothing comes again, and nothing is left of it in the changelog; what else comes is not held up."""
    setup = Setup(f"long-search-{index}.", index, partitions=1, more={"prepare": searches_are_long})
    system = Plain(broker.bootstrap, start_worker, tmp_path, setup)
    system.start_all()
    system.wait_ready()
    many = [f"p{number}" for number in range(400)]
    for name in many:
        system.publish(name, x=1)
    system.flush()
    system.wait()
    names = ["a", "b"]
    for name in names:
        system.subscribe(name, "x = 1", starts_at=0)
    system.flush()
    for lose_disk in (False, True):
        until_it_searches(system)
        kill(system, 0, lose_disk=lose_disk)
        system.workers[0].wait_ready()
    until_it_searches(system)
    system.publish("meanwhile", x=1)
    system.send("subscriptions", "b", None)  # withdrawn, and still answered
    system.flush()
    system.finish()
    found = [decode_notification(message.value()) for message in system.log.each("notifications")]
    notified = Counter((one.subscription_id, one.publication_id) for one in found)
    notified.pop(("b", "meanwhile"), None)  # the two inputs have no common order
    assert notified == Counter([("a", "meanwhile"), *((name, publication) for name in names for publication in many)])
    notes = {message.key(): message.value() for message in system.log.each("live-changelog")}
    mine = [value for key, value in notes.items() if key.startswith(searches.KEY)]
    assert mine
    assert set(mine) == {None}
