"""The worker's web port: two on one host, any free one, one that is taken."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pastforward.broker import Broker
from pastforward.errors import UserError
from pastforward.settings import load
from pastforward.streams.worker.web import listen, url_of
from tests.conftest import StartWorker
from tests.outside import WorkerUnderTest


@contextmanager
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def web_of(worker: WorkerUnderTest) -> str:
    """Where its log says it is."""
    (line,) = (line for line in worker.said().splitlines() if "metrics and health at " in line)
    return line.partition("metrics and health at ")[2]


def test_the_usual_port_is_tried_and_then_a_free_one() -> None:
    with taken() as port:
        settings = load({}, environment={})
        object.__setattr__(settings, "web_port", port)
        with listen(settings) as found:
            assert found.getsockname()[1] != port
            assert url_of(found) == f"http://127.0.0.1:{found.getsockname()[1]}"


def test_zero_is_any_free_one() -> None:
    settings = load({"web_port": "0"}, environment={})
    with listen(settings) as first, listen(settings) as second:
        assert first.getsockname()[1] != second.getsockname()[1]


@pytest.mark.parametrize(
    ("bind", "says"), [("127.0.0.1", "is taken"), ("192.0.2.1", "WEB_BIND"), ("no.such.host.invalid", "WEB_BIND")]
)
def test_a_port_that_was_chosen_and_cannot_be_had_is_an_error(bind: str, says: str) -> None:
    with taken() as port, pytest.raises(UserError, match=says):
        listen(load({"web_port": str(port), "web_bind": bind}, environment={}))


@pytest.mark.parametrize(("bind", "url"), [("0.0.0.0", "http://127.0.0.1:"), ("localhost", "http://127.0.0.1:")])
def test_where_it_is_reached_from_here(bind: str, url: str) -> None:
    with listen(load({"web_port": "0", "web_bind": bind}, environment={})) as found:
        assert url_of(found).startswith(url)


@pytest.mark.broker
def test_two_workers_at_once_and_a_third_with_a_port_that_is_taken(
    broker: Broker, start_worker: StartWorker, tmp_path: Path
) -> None:
    """The first two with default settings but for their directory: one of them, or both if something else has it, gets another port."""
    workers = [start_worker(topic_prefix="ports.", partitions=1, web_port=None) for _ in range(2)]
    workers.append(start_worker(topic_prefix="ports.", partitions=1, web_port=0))
    for worker in workers:
        worker.wait_said("metrics and health at ")
        with urllib.request.urlopen(f"{web_of(worker)}/health", timeout=60) as answer:
            assert json.load(answer)["status"] == "ok"
    ports = {web_of(worker).rpartition(":")[2] for worker in workers}
    assert len(ports) == 3
    last = start_worker(topic_prefix="ports.", web_port=ports.pop())
    assert last.process.wait(60) == 1
    said = last.said()
    assert "is taken" in said
    assert len(said.splitlines()) == 1, said
