"""Plays the scene against a running system, and shows it."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from rich.console import Console
from rich.live import Live

from pastforward.client import Client, Notification
from pastforward.columns.places import cell_of
from pastforward.demo.screen import Story, draw, plain_line
from pastforward.demo.world import DRIVER_LEVEL, INCIDENT_LEVEL, REMEMBERED, Driver, Incident, World
from pastforward.matching.conditions.values import Point
from pastforward.settings import Settings

STEP: Final = 0.2  # seconds between two steps of the scene
INCIDENTS: Final = 2.0  # a second
LINE: Final = 2.0  # seconds between two lines of the plain form
WINDOW: Final = timedelta(seconds=REMEMBERED)


class Ears(threading.Thread):
    """Listens to the notifications of the drivers and puts them, with the moment they came, into a queue."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.heard: queue.SimpleQueue[tuple[float, Notification]] = queue.SimpleQueue()
        self.failure: BaseException | None = None
        self._notifications = client.notifications()

    def run(self) -> None:
        try:
            for notification in self._notifications:
                self.heard.put((time.time(), notification))
        except Exception as error:
            self.failure = error


class Scene:
    def __init__(self, client: Client, drivers: int) -> None:
        self._client = client
        self.world = World.make(drivers, seed=1)
        self.story = Story(started=time.time())
        self._sent: dict[str, float] = {}  # by id of driver or incident: when its record was sent
        self._due = 0.0
        self._ears = Ears(client)
        self._ears.start()

    def step(self, seconds: float) -> None:
        now = time.time()
        self.world.move(seconds)
        self.world.forget(now)
        for driver in self.world.drivers:
            cell = cell_of(Point(driver.lon, driver.lat), DRIVER_LEVEL)
            if cell != driver.cell:
                self._enter(driver, cell)
        self._due += INCIDENTS * seconds
        while self._due >= 1:
            self._due -= 1
            self._report(self.world.happen(now))
        self._hear()

    def _enter(self, driver: Driver, cell: str) -> None:
        """The same id again: the subscription follows the driver."""
        driver.cell = cell
        self._sent[driver.name] = time.time()
        self._client.subscribe(
            "severity >= 2",
            subscription_id=driver.name,
            subscriber_id=driver.name,
            topic=cell,
            starts_at=-WINDOW,
            ends_at=WINDOW,
        )
        self.story.subscribed += 1

    def _report(self, incident: Incident) -> None:
        self._sent[incident.name] = time.time()
        self._client.publish(
            {"kind": incident.kind, "severity": incident.severity, "place": incident.place},
            publication_id=f"{incident.name}-{self.story.started:.0f}",  # a second scene must not repeat ids
            topic=cell_of(incident.place, INCIDENT_LEVEL),
            expires_at=WINDOW,
        )
        self.story.published += 1

    def _hear(self) -> None:
        if self._ears.failure:
            raise self._ears.failure
        while not self._ears.heard.empty():
            at, notification = self._ears.heard.get()
            later = notification.publication_id.rpartition("-")[0] if notification.phase == "live" else None
            sent = self._sent.get(later or notification.subscription_id)
            self.story.tell(notification, at, None if sent is None else at - sent)

    def leave(self) -> None:
        for driver in self.world.drivers:
            self._client.unsubscribe(driver.name)

    def hush(self) -> None:
        """Nobody listens any more, once the client is closed."""
        self._ears.join()


def play(
    settings: Settings,
    bootstrap: str,
    *,
    seconds: float | None,
    plain: bool,
    drivers: int,
    check: Callable[[], None],
    address: str | None = None,
) -> Story:
    """Until the time is over or a signal comes; `check` raises when the system behind it has failed. `address`: of the console."""
    console = Console()
    with Client(bootstrap, settings=settings) as client:
        scene = Scene(client, drivers)
        scene.story.address = address
        end = None if seconds is None else time.time() + seconds
        try:
            if plain or not console.is_terminal or not sys.stdout.isatty():
                _lines(scene, end, check)
            else:
                _screen(scene, end, check, console)
        finally:
            scene.leave()
    scene.hush()  # before the broker goes, or librdkafka complains of it
    return scene.story


def _turn(scene: Scene, check: Callable[[], None]) -> None:
    started = time.time()
    check()
    scene.step(STEP)
    time.sleep(max(0.0, STEP - (time.time() - started)))


def _lines(scene: Scene, end: float | None, check: Callable[[], None]) -> None:
    said = time.time()
    while end is None or time.time() < end:
        _turn(scene, check)
        if time.time() - said >= LINE:
            said = time.time()
            print(plain_line(scene.world, scene.story, said), flush=True)
    print(plain_line(scene.world, scene.story, time.time()), flush=True)


def _screen(scene: Scene, end: float | None, check: Callable[[], None], console: Console) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while end is None or time.time() < end:
            _turn(scene, check)
            live.update(draw(scene.world, scene.story, time.time(), console.width, console.height), refresh=True)
