"""A gateway as a process of its own, beside a worker, as a user starts it; and what a program says to it."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from pastforward.broker import Broker
from tests.conftest import _workers
from tests.forks import Forked
from tests.outside import PATIENCE

PREFIX = "gateway."
SECRET = b"a secret that is only for tests, and long enough"


class Served:
    """`pastforward serve`."""

    def __init__(self, bootstrap: str, directory: Path, *flags: str, prefix: str = PREFIX) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._command = ["serve", "--bootstrap-servers", bootstrap, "--topic-prefix", prefix, "--hot-window", "10m"]
        self._command += ["--history", str(directory / "history"), "--data-dir", str(directory), *flags]
        self.start("0")

    def start(self, port: str) -> None:
        self._out, self._errors = self.directory / "stdout", self.directory / "stderr"
        for file in (self._out, self._errors):
            file.write_bytes(b"")
        self.process = Forked([*self._command, "--port", port], (self._out, self._errors))
        self.url = self._wait()
        self.port = self.url.rpartition(":")[2]

    def _wait(self) -> str:
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.search(r"^console=(\S+)$", self._out.read_text(), re.MULTILINE)
            if found:
                return found[1]
            assert self.process.poll() is None, self._errors.read_text()
            assert time.monotonic() < deadline, self._errors.read_text()
            time.sleep(0.02)

    @property
    def said(self) -> str:
        return self._errors.read_text()

    def client(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=PATIENCE, **options)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def restart(self) -> None:
        self.start(self.port)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)


Serve = Callable[..., Served]


@pytest.fixture(scope="package")
def system(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Topics of the gateway's tests, and a worker."""
    with _workers(broker, tmp_path_factory) as start:
        start(topic_prefix=PREFIX, partitions=2, hot_window="10m").wait_ready()
        yield broker


@pytest.fixture(scope="package")
def served(system: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An open gateway."""
    found = Served(system.bootstrap, tmp_path_factory.mktemp("gateway"))
    yield found
    found.stop()


@pytest.fixture(scope="package")
def guarded(system: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One that asks who somebody is."""
    directory = tmp_path_factory.mktemp("guarded")
    (directory / "secret").write_bytes(SECRET)
    flags = ("--hs256-file", str(directory / "secret"), "--max-subscriptions", "3", "--max-rate", "200")
    found = Served(system.bootstrap, directory, *flags)
    yield found
    found.stop()


@pytest.fixture
def http(served: Served) -> Iterator[httpx2.Client]:
    with served.client() as client:
        yield client


def token(name: str = "anna", reads: Any = ("1",), writes: Any = ("1",), **claims: Any) -> str:
    body = {
        "sub": name,
        "exp": time.time() + 600,
        "pastforward_read": list(reads),
        "pastforward_write": list(writes),
        **claims,
    }
    return jwt.encode({k: v for k, v in body.items() if v is not None}, SECRET, algorithm="HS256")


class Events:
    """A stream of events, as an `EventSource` reads it."""

    def __init__(self, client: httpx2.Client, **asked: Any) -> None:
        headers = {"Accept": "text/event-stream", **asked.pop("headers", {})}
        self._open = contextlib.ExitStack()
        self.response = self._open.enter_context(
            client.stream("GET", "/v1/notifications", params=asked, headers=headers)
        )
        assert self.response.status_code == 200, self.response.read()
        self._lines = self.response.iter_lines()
        self.last_id = ""

    def next(self) -> tuple[str, str]:
        """Kind and data of the next one that has data."""
        kind, data = "message", ""
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "id":
                self.last_id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data = value
            elif not line and data:
                return kind, data
            elif not line:
                kind = "message"
        raise EOFError

    def notification(self) -> dict[str, Any]:
        kind, data = self.next()
        assert kind == "message", data
        found: dict[str, Any] = json.loads(data)
        return found

    def begun(self) -> str:
        """The token before the first event."""
        while not self.last_id:
            line = next(self._lines)
            if line.startswith("id: "):
                self.last_id = line[4:]
        return self.last_id

    def close(self) -> None:
        self._open.close()
