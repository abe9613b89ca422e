"""What a person sees of the scene: a map, counters, rates and latencies."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pastforward.client import Notification
from pastforward.demo.world import KINDS, REGION, World
from pastforward.matching.conditions.values import Point

GLOW: Final = 1.5  # seconds that a driver stays lit after a notification
STYLES: Final = {"past": "bold black on yellow", "live": "bold black on green"}
LATENCIES: Final = 500  # of the last notifications of a phase


@dataclass(slots=True)
class Story:
    """What has happened so far."""

    started: float
    published: int = 0
    subscribed: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    latencies: dict[str, deque[float]] = field(
        default_factory=lambda: {"past": deque(maxlen=LATENCIES), "live": deque(maxlen=LATENCIES)}
    )
    lines: deque[Text] = field(default_factory=lambda: deque(maxlen=8))
    lit: dict[str, tuple[float, str]] = field(default_factory=dict)
    address: str | None = None  # of the console

    def tell(self, notification: Notification, now: float, latency: float | None) -> None:
        phase = notification.phase
        self.phases[phase] += 1
        if latency is not None and phase in self.latencies:
            self.latencies[phase].append(latency)
        self.lit[notification.recipient_id] = (now, phase)
        line = Text(f"{phase:5}", STYLES.get(phase, ""))
        line.append(f" {notification.recipient_id} ← {notification.publication_id}", "")
        self.lines.append(line)

    def latency(self, phase: str) -> str:
        values = sorted(self.latencies[phase])
        if len(values) < 2:
            return "-"
        cuts = statistics.quantiles(values, n=100)
        return f"{cuts[49] * 1000:.0f} / {cuts[98] * 1000:.0f} ms"


def plain_line(world: World, story: Story, now: float) -> str:
    elapsed = now - story.started
    return (
        f"{elapsed:6.1f} s  subscriptions {story.subscribed} ({story.subscribed / elapsed:.1f}/s)  "
        f"publications {story.published} ({story.published / elapsed:.1f}/s)  "
        f"notifications past {story.phases['past']} live {story.phases['live']}  "
        f"latency p50/p99 past {story.latency('past')} live {story.latency('live')}"
    )


def draw(world: World, story: Story, now: float, width: int, height: int) -> RenderableType:
    layout = Layout()
    layout.split_row(
        Layout(Panel(_map(world, story, now, max(20, width - 58), max(6, height - 2)), title="drivers and incidents")),
        Layout(_side(story, now), size=54),
    )
    return layout


def _map(world: World, story: Story, now: float, columns: int, rows: int) -> Text:
    cells: dict[tuple[int, int], tuple[str, str]] = {}

    def put(place: Point, sign: str, style: str) -> None:
        x = (place.lon - REGION.min_x) / (REGION.max_x - REGION.min_x)
        y = (REGION.max_y - place.lat) / (REGION.max_y - REGION.min_y)
        cells[min(int(y * rows), rows - 1), min(int(x * columns), columns - 1)] = (sign, style)

    for incident in world.incidents:
        put(incident.place, KINDS[incident.kind], "bold red" if now - incident.at < 2 else "red")
    for driver in world.drivers:
        lit_at, phase = story.lit.get(driver.name, (0.0, ""))
        lit = now - lit_at < GLOW
        put(Point(driver.lon, driver.lat), "●", STYLES.get(phase, "") if lit else "cyan")
    text = Text()
    for row in range(rows):
        for column in range(columns):
            sign, style = cells.get((row, column), ("·" if row % 4 == 0 and column % 8 == 0 else " ", "dim"))
            text.append(sign, style)
        if row < rows - 1:
            text.append("\n")
    return text


def _side(story: Story, now: float) -> RenderableType:
    elapsed = max(now - story.started, 0.001)
    numbers = Table(box=None, show_header=False, padding=(0, 1))
    numbers.add_row("running", f"{elapsed:.0f} s")
    numbers.add_row("subscriptions", f"{story.subscribed:,}", f"{story.subscribed / elapsed:.1f} a second")
    numbers.add_row("publications", f"{story.published:,}", f"{story.published / elapsed:.1f} a second")
    for phase in ("past", "live"):
        count = story.phases[phase]
        numbers.add_row(Text(f" {phase} ", STYLES[phase]), f"{count:,}", f"{count / elapsed:.1f} a second")
        numbers.add_row("  p50 / p99", story.latency(phase))
    signs = (
        Text("● a driver, notified of the ")
        .append(" past ", STYLES["past"])
        .append(" or ")
        .append(" live ", STYLES["live"])
    )
    kinds = Text("  ".join(f"{sign} {kind}" for kind, sign in KINDS.items()), "red")
    why = Text(
        "Each driver subscribes to the cell it is in, from a minute ago to a minute ahead. "
        "What happened before it came is its past; what happens while it is there is live.",
        "dim",
    )
    console = [] if story.address is None else [Text(), Text(f"In the browser: {story.address}", "bold")]
    return Panel(Group(numbers, Text(), *story.lines, Text(), signs, kinds, Text(), why, *console), title="pastforward")
