"""A worker process: it runs the versions of the routing that the directory names, and shows them on one web port.

Usually there is one. While a change goes on there are two; afterwards the old one lets go of everything, and rests until the process
ends: the web port is that of the version which was in force at the start.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

from faust.types import TP

from pastforward.schemas import Registry
from pastforward.settings import Settings
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.transport.connection import Connection
from pastforward.streams.worker.app import HUNG, WorkerApp
from pastforward.streams.worker.directory import Tail, open_directory
from pastforward.streams.worker.throttle import Courtesy
from pastforward.topics import Topics

log = logging.getLogger("pastforward.worker")


class Host:
    """`first` is the version to run; the others are started beside it when the directory says so."""

    def __init__(
        self, settings: Settings, bootstrap: str, inputs: int, registry: Registry | None, listening: socket.socket
    ) -> None:
        self._settings = settings
        self.connection = Connection.of(settings, bootstrap)
        self._inputs = inputs
        self._registry = registry
        view = open_directory(settings, bootstrap, inputs)
        self._tail = Tail(self.connection, Topics(settings.topic_prefix).directory, view)
        self.metrics = Metrics()
        self.running: dict[int, WorkerApp] = {}
        self.first = self._make(view.active()[0], listening)
        self._pages()

        @self.first.app.task
        async def follow() -> None:
            await self._follow()

    @property
    def ready(self) -> bool:
        active = self._tail.view.active()
        return all(version in self.running and self.running[version].assignment.ready for version in active)

    @property
    def positions(self) -> dict[TP, int]:
        """Of all partitions that are owned here, under all versions."""
        return {tp: at for made in self.running.values() for tp, at in made.assignment.positions.items()}

    @property
    def busy_seconds(self) -> float:
        return max((made.assignment.busy_seconds for made in self.running.values()), default=0.0)

    @property
    def takeover_seconds(self) -> float:
        return max((made.assignment.takeover_seconds for made in self.running.values()), default=0.0)

    def health(self) -> tuple[dict[str, Any], int]:
        """What `/health` says, and with which status: 503 when a chunk, or a takeover, has not gone on for longer than anything takes."""
        busy, taking = self.busy_seconds, self.takeover_seconds
        hung = max(busy, taking) > HUNG
        said = {"status": "hung" if hung else "ok", "busy_seconds": busy, "takeover_seconds": taking}
        return said, 503 if hung else 200

    def lag(self) -> int:
        return sum(made.assignment.lag() for made in self.running.values())

    def _measure(self) -> None:
        self.metrics.forget_partitions()
        for made in self.running.values():
            made.assignment.measure()

    def _make(self, version: int, listening: socket.socket | None = None) -> WorkerApp:
        entry = self._tail.view.versions[version]
        made = WorkerApp(
            self._settings,
            self.connection,
            self._inputs,
            self._registry,
            entry,
            self._tail,
            self.metrics,
            Courtesy(lambda: self._builds(version), self._delay),
            listening,
        )
        self.running[version] = made
        return made

    def _builds(self, version: int) -> bool:
        """Is that the version that a change is building?"""
        state = self._tail.view.current()
        return state.next == version and not state.flipping

    def _delay(self) -> float:
        made = self.running.get(self._tail.view.current().in_force)
        return 0.0 if made is None else made.assignment.delay

    async def _follow(self) -> None:
        try:
            adjusted = -1
            while True:
                # counted: a takeover that has read the news has not told the others
                if adjusted != self._tail.applied:
                    adjusted = self._tail.applied
                    await self._adjust()
                await self._tail.wait()
        finally:
            await self._tail.stop()

    async def _adjust(self) -> None:
        """Start what is new, tell the routers, retire what is over."""
        active = self._tail.view.active()
        for version in active:
            if version not in self.running:
                log.info("version %d of the routing begins", version)
                made = self._make(version)
                made.app.finalize()
                await self.first.app.add_runtime_dependency(made.app)
        for version, made in list(self.running.items()):
            if version in active:
                await made.assignment.nudge()
            else:
                log.info("version %d of the routing is over", version)
                del self.running[version]
                await made.retire()

    def _pages(self) -> None:
        app = self.first.app

        @app.page("/metrics")
        async def metrics(web: Any, request: Any) -> Any:
            self._measure()
            return web.text(self.metrics.text(), content_type="text/plain")

        @app.page("/health")
        async def health(web: Any, request: Any) -> Any:
            said, status = self.health()
            return web.json(said, status=status)

        @app.page("/ready")
        async def ready(web: Any, request: Any) -> Any:
            owned = {f"{tp.topic}-{tp.partition}": at for tp, at in sorted(self.positions.items())}
            return web.json({"ready": self.ready, "owned": owned}, status=200 if self.ready else 503)
