"""The test kit, a pytest plugin: the fixture `pastforward` is a system of the test's own, with a clock that the test turns.

It is in memory, without a JVM. With the mark `pastforward_broker` the same test runs on a real embedded broker and a worker.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pastforward.testing.systems import MemorySystem, RealSystem, System

__all__ = ["MemorySystem", "RealSystem", "System", "pastforward"]

MARK = "pastforward_broker"


def __getattr__(name: str) -> Any:
    """A plugin is imported by every run of pytest: what it needs comes with the first test that asks for it."""
    if name in ("MemorySystem", "RealSystem", "System"):
        from pastforward.testing import systems

        return getattr(systems, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(**settings): run the test on a real embedded broker, not in memory")
    config.addinivalue_line("markers", "pastforward_settings(**settings): of the worker, such as hot_window='10m'")


@pytest.fixture
def pastforward(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system of the test's own: `client()`, `clock.advance("10m")`, `settle()`."""
    chosen = request.node.get_closest_marker("pastforward_settings")
    settings: dict[str, Any] = {} if chosen is None else dict(chosen.kwargs)
    mark = request.node.get_closest_marker(MARK)
    system: MemorySystem | RealSystem
    if mark is None:
        from pastforward.testing.systems import MemorySystem as Memory

        system = Memory(**settings)
    else:
        make = request.getfixturevalue("_pastforward_real")
        system = make({**settings, **mark.kwargs})
    yield system
    system.close()


@pytest.fixture(scope="session")
def _pastforward_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for all tests of the run, and its files in a folder of the run."""
    from pastforward import broker
    from pastforward.settings import load

    running = broker.start(load({"data_dir": tmp_path_factory.mktemp("pastforward")}))
    yield running.bootstrap
    running.stop()


@pytest.fixture
def _pastforward_real(_pastforward_broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Topics and a worker of the test's own."""
    from pastforward import topics
    from pastforward.cli.processes import WorkerProcess
    from pastforward.settings import load
    from pastforward.testing.systems import RealSystem as Real

    started: list[WorkerProcess] = []

    def make(given: dict[str, Any]) -> RealSystem:
        own = {"topic_prefix": f"test-{uuid.uuid4().hex[:8]}.", "partitions": 2, "web_port": 0}
        settings = load({**own, "data_dir": tmp_path_factory.mktemp("worker"), **given})
        topics.ensure(settings, topics.connect(settings, _pastforward_broker))
        worker = WorkerProcess(settings, _pastforward_broker)
        started.append(worker)
        worker.wait_ready()
        return Real(settings, _pastforward_broker)

    yield make
    for worker in started:
        worker.stop()
