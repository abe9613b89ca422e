"""Systems for tests: one in memory, and a real one, with the same face."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, Protocol

import pytest

from pastforward import topics
from pastforward.client import Client
from pastforward.client.dictionaries import PlainWriter, new_names
from pastforward.client.listing import Listing
from pastforward.client.moments import Instant, now_micros
from pastforward.client.naming import Names
from pastforward.client.reader import CHUNK
from pastforward.settings import Settings, load
from pastforward.testing.clock import Clock, micros_of
from pastforward.testing.memory import RULES, Delivery, Logs, Offsets, Reader, Worker, Workers

LONGEST: Final = 5.0  # seconds that a test on a real system waits for a clock that it cannot turn
PATIENCE: Final = 60.0  # seconds until a real system has matched what was sent


class Time(Protocol):
    @property
    def now(self) -> Instant: ...
    def advance(self, span: str | timedelta) -> None: ...


class System(Protocol):
    """What a test is given."""

    @property
    def clock(self) -> Time: ...

    def client(self) -> Client:
        """As a program would make it. It is closed at the end of the test."""
        ...

    def settle(self) -> None:
        """Returns when all that was sent has been matched."""
        ...


class _Rules:
    def accept(self, accept: Any, routed: bool) -> None:
        accept(RULES)


class _Listing(Listing):
    def __init__(self, settings: Settings, logs: Logs, offsets: Any, now: Any) -> None:
        super().__init__(settings, "memory", offsets, None, now)
        self._logs = logs

    def _scan(self, topic: str, partitions: tuple[int, ...], begin: Any = None) -> Iterator[Any]:
        return iter(self._logs.records[topic][(begin or {}).get(0, 0) :])


class MemoryClient(Client):
    """The client over logs in memory."""

    def __init__(self, system: MemorySystem) -> None:
        import threading

        self._system = system
        self._settings, self._bootstrap, self._registry = system.settings, "memory", None
        self._topics = topics.Topics(system.settings.topic_prefix)
        self._closed = threading.Event()
        offsets: Any = Offsets(system.logs)
        delivery: Any = Delivery(system.logs, system.worker.take)
        workers: Any = Workers(system.logs, offsets, self._topics)
        rules: Any = _Rules()
        self._offsets, self._delivery, self._workers, self._rules = offsets, delivery, workers, rules
        self._listing = _Listing(system.settings, system.logs, offsets, self._now)
        self._plain, self._names = PlainWriter(), new_names()
        self._book = Names(self._topics.names, self._listing, delivery)
        self._made_at = self._now()

    def _now(self) -> int:
        return self._system.clock.micros

    def _was_taken(self, name: str, receipt: Any) -> bool:
        for refusal in self._listing.dead_letters(None):
            letter = refusal.letter
            if (letter.topic, letter.partition, letter.offset) == receipt[:3]:
                raise refusal.as_error()
        return True

    def _reader(self, chunk: int = CHUNK, **properties: Any) -> Any:
        return Reader(self._system.logs, chunk, str(properties.get("group.id", uuid.uuid4())))


class MemorySystem:
    """A system in memory: one partition, a hot window, a history, and a clock that stands until it is turned."""

    def __init__(self, **settings: Any) -> None:
        """`settings`: of the worker, such as `hot_window="10m"`."""
        self.settings = load(settings, environment={})
        self.clock = Clock(self._turned)
        self.logs = Logs(lambda: self.clock.micros)
        self.worker = Worker(topics.Topics(self.settings.topic_prefix), self.logs, self.settings.hot_window)
        self._clients: list[Client] = []

    def client(self) -> Client:
        client = MemoryClient(self)
        self._clients.append(client)
        return client

    def settle(self) -> None:
        """Nothing is ever under way here."""

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _turned(self, moment: int) -> None:
        self.worker.tick(moment)


class RealClock:
    """The broker's, which nobody turns: a short while is waited for, a test that needs a longer one is skipped."""

    @property
    def now(self) -> Instant:
        return Instant.of(now_micros())

    def advance(self, span: str | timedelta) -> None:
        seconds = micros_of(span) / 1e6
        if seconds > LONGEST:
            pytest.skip(f"the clock of a real broker cannot be turned by {span}")
        time.sleep(seconds)


class RealSystem:
    """An embedded broker's topics and a worker of their own."""

    def __init__(self, settings: Settings, bootstrap: str) -> None:
        self.settings, self._bootstrap = settings, bootstrap
        self.clock = RealClock()
        self._clients: list[Client] = []

    def client(self) -> Client:
        client = Client(self._bootstrap, settings=self.settings)
        self._clients.append(client)
        return client

    def settle(self) -> None:
        client = self.client()
        names = client._topics
        deadline = time.monotonic() + PATIENCE
        for name in (names.subscriptions, names.publications, names.rendezvous):
            ends = client.workers.written(name, client.offsets.partitions(name))
            while not client.workers.have_read(name, ends):
                assert time.monotonic() < deadline, f"{name} was not read within {PATIENCE:.0f} s"
                time.sleep(0.02)

    def close(self) -> None:
        for client in self._clients:
            client.close()
