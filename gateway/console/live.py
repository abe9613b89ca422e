"""What the overview and the map show, as it happens. Read only while somebody looks: a page that nobody sees costs nothing."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from typing import Any, Final

from pastforward import topics
from pastforward.client import Standing
from pastforward.client.fields import condition_of
from pastforward.client.moments import now_micros
from pastforward.client.reader import Reader
from pastforward.client.status import look
from pastforward.columns.places import bounds
from pastforward.gateway.api.subscriptions import topics_of
from pastforward.gateway.context import Gateway
from pastforward.gateway.identity import Identity
from pastforward.gateway.records import fields_of
from pastforward.matching import Condition
from pastforward.matching.conditions.values import Box, Circle, Point
from pastforward.schemas import SchemaError, decode_publication
from pastforward.settings import Settings

FRESH: Final = 1.0  # seconds that numbers are shown again, to whoever else looks
SAMPLE: Final = 4000  # publications a look takes at most: of more the latest
DRAWN: Final = 5000  # subscriptions on a map
DEGREE: Final = 111_320.0  # metres


class Numbers:
    """Rates from the ends of the logs: they cost the same at any speed."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._names = topics.Topics(gateway.settings.topic_prefix)
        self._before: deque[tuple[float, dict[str, int]]] = deque(maxlen=6)
        self._lock = asyncio.Lock()
        self._found: tuple[float, dict[str, Any]] | None = None

    async def now(self) -> dict[str, Any]:
        async with self._lock:
            if self._found is None or time.monotonic() - self._found[0] > FRESH:
                self._found = (time.monotonic(), await self._gateway.call(self._look))
            return self._found[1]

    def _look(self) -> dict[str, Any]:
        gateway = self._gateway
        status = look(gateway.settings, gateway.client)
        offsets = gateway.client.offsets
        by_topic = {
            name: offsets.ends(full, offsets.partitions(full))
            for name, full in (
                ("subscriptions", self._names.subscriptions),
                ("publications", self._names.publications),
                ("notifications", self._names.notifications),
            )
        }
        rates = self._rates({name: sum(ends.values()) for name, ends in by_topic.items()})
        latency = self._latency()
        cards = {
            "publications": f"{rates['publications']:,.1f}",
            "notifications": f"{rates['notifications']:,.1f}",
            "latency": latency,
            "lag": f"{sum(status.lag.values()):,}",
            "subscriptions": f"{gateway.standings.count():,}",
            "workers": f"{len(status.workers):,}",
            "letters": f"{status.dead_letters:,}",
            "listeners": f"{len(gateway.hub.listeners):,}",
        }
        return {
            "cards": cards,
            "trouble": status.trouble,
            "partitions": status.partitions,
            # addresses inside are for whoever is inside
            "workers": status.workers
            if not gateway.authenticator.asks
            else [f"worker {n + 1}" for n in range(len(status.workers))],
            "by_partition": self._lag_by_partition(),
            "publications": rates["publications"],
            "notifications": rates["notifications"],
        }

    def _rates(self, ends: dict[str, int]) -> dict[str, float]:
        """Over the last few looks."""
        now = time.monotonic()
        self._before.append((now, ends))
        began, first = self._before[0]
        return {name: (end - first[name]) / max(now - began, 0.5) for name, end in ends.items()}

    def _lag_by_partition(self) -> dict[str, list[int]]:
        workers, offsets = self._gateway.client.workers, self._gateway.client.offsets
        names = topics.Topics(self._names.prefix, max(1, workers.version()))
        found = {}
        for full in (names.subscriptions, names.publications, names.rendezvous):
            partitions = offsets.partitions(full)
            ends, done = offsets.ends(full, partitions), workers.committed(full, partitions)
            found[full.removeprefix(names.prefix)] = [max(0, ends[p] - done[p]) for p in partitions]
        return found

    def _latency(self) -> str:
        """From the arrival of the publication to this gateway, of what came last and was live."""
        found = []
        for came, delivered in list(self._gateway.hub.recent):
            record = fields_of(delivered)
            if record["phase"] == "live" and came - record["published_at"] / 1e6 < 60:
                found.append(max(0.0, came - record["published_at"] / 1e6))
        if not found:
            return "-"
        found.sort()
        return f"{found[len(found) // 2] * 1000:.0f} / {found[int(len(found) * 0.99)] * 1000:.0f} ms"


CARDS: Final = (
    ("publications", "Publications a second"),
    ("notifications", "Notifications a second"),
    ("latency", "Latency, p50 / p99"),
    ("lag", "Records still to read"),
    ("subscriptions", "Subscriptions"),
    ("workers", "Workers"),
    ("letters", "Dead letters kept"),
    ("listeners", "Connections that listen"),
)


def boxes_of(standing: Standing) -> list[tuple[float, float, float, float]]:
    """Where a subscription is on the map: the shapes of its condition, or else the cell that its topic is."""
    found = [box for shape in _shapes(condition_of(standing)) if (box := bounds_of(shape)) is not None]
    if found:
        return found
    cells = (cell_box(topic) for topic in topics_of(standing.record))
    return [box for box in cells if box is not None]


def _shapes(where: str) -> list[Any]:
    if not where:
        return []
    return [
        test.shape
        for disjunct in Condition.parse(where).disjuncts
        for _, constraint in disjunct
        for test in constraint.tests
        if not test.negated
    ]


def bounds_of(shape: Any) -> tuple[float, float, float, float] | None:
    if isinstance(shape, Box):
        return shape.min_x, shape.min_y, shape.max_x, shape.max_y
    if isinstance(shape, Circle):
        high = shape.radius_m / DEGREE
        wide = high / max(math.cos(math.radians(shape.lat)), 0.01)
        return shape.lon - wide, shape.lat - high, shape.lon + wide, shape.lat + high
    if isinstance(shape, Point):
        return shape.lon, shape.lat, shape.lon, shape.lat
    return None


def cell_box(topic: str) -> tuple[float, float, float, float] | None:
    """None: the path is no cell."""
    if not topic or any(component not in ("1", "2", "3", "4") for component in topic.split(".")):
        return None
    return bounds(topic)


def drawn(gateway: Gateway, identity: Identity) -> list[dict[str, Any]]:
    found = []
    for standing in gateway.standings.page(lambda each: each.state == "live", subscriber=identity.name):
        boxes = boxes_of(standing)
        if boxes:
            found.append({"id": standing.subscription_id, "boxes": boxes})
            if len(found) == DRAWN:
                break
    return found


class Publications:
    """The latest publications, read from where they are: of more than a look can take, the latest are taken."""

    def __init__(self, settings: Settings, gateway: Gateway) -> None:
        self._gateway = gateway
        self._topic = topics.Topics(settings.topic_prefix).publications
        offsets = gateway.client.offsets
        self._positions = offsets.ends(self._topic, offsets.partitions(self._topic))
        self._reader = Reader(settings, gateway.client.bootstrap_servers, SAMPLE)
        self._reader.assign(self._topic, self._positions)

    def look(self, identity: Identity) -> list[dict[str, Any]]:
        """Those with a place that have come since. Waits a moment for the first."""
        found = []
        for message in self._reader.arrived(0.2):
            try:
                read = decode_publication(message.key(), message.value(), self._gateway.client.registry)
            except SchemaError:
                continue
            if not identity.sees_publication(read.topic, read.publication_id):
                continue
            place = next((each for each in read.attributes.values() if isinstance(each, Point)), None)
            if place is not None:
                entity = bool(getattr(read, "entity", False))
                name = read.publication_id or f"{message.partition()}-{message.offset()}"
                found.append({"id": name, "lon": place.lon, "lat": place.lat, "entity": entity})
        return found

    def close(self) -> None:
        self._reader.close()


def counted(gateway: Gateway, since: int) -> tuple[Counter[str], int, bool]:
    """Publications by topic since a moment; how many were looked at, and whether that was not all."""
    offsets = gateway.client.offsets
    name = topics.Topics(gateway.settings.topic_prefix).publications
    partitions = offsets.partitions(name)
    begin, ends = offsets.since(name, partitions, since), offsets.ends(name, partitions)
    share = 20 * SAMPLE // len(partitions)
    cut = any(ends[p] - begin[p] > share for p in partitions)
    begin = {p: max(begin[p], ends[p] - share) for p in partitions}
    found: Counter[str] = Counter()
    seen = 0
    reader = Reader(gateway.settings, gateway.client.bootstrap_servers, SAMPLE)
    try:
        reader.assign(name, begin)
        open_ones = {p for p in partitions if begin[p] < ends[p]}
        deadline = time.monotonic() + 10
        while open_ones and time.monotonic() < deadline:
            for message in reader.arrived(0.1):
                try:
                    read = decode_publication(message.key(), message.value(), gateway.client.registry)
                except SchemaError:
                    continue
                found[read.topic] += 1
                seen += 1
                if message.offset() + 1 >= ends[message.partition()]:
                    open_ones.discard(message.partition())
            open_ones -= {p for p, end in reader.ends.items() if end >= ends.get(p, 0)}
    finally:
        reader.close()
    return found, seen, cut


def tree_of(gateway: Gateway, identity: Identity, minutes: int) -> dict[str, Any]:
    """Three levels of the topics, with what was published and is subscribed at or below each."""
    counts, seen, cut = counted(gateway, now_micros() - minutes * 60_000_000)
    held: Counter[str] = Counter()
    for standing in gateway.standings.page(lambda _: True, subscriber=identity.name):
        held.update(topics_of(standing.record))
    nodes: dict[str, list[int]] = {}
    for which, counter in enumerate((counts, held)):
        for topic, count in counter.items():
            if not identity.sees_publication(topic, None):
                continue
            parts = topic.split(".") if topic else []
            for depth in range(min(len(parts), 3) + 1):
                nodes.setdefault(".".join(parts[:depth]), [0, 0])[which] += count
    most = max((published for published, _ in nodes.values()), default=0) or 1
    span = minutes * 60

    def branch(topic: str, depth: int) -> dict[str, Any]:
        published, subscribed = nodes[topic]
        below = [
            name
            for name in nodes
            if name and name != topic and name.count(".") == depth and (not topic or name.startswith(topic + "."))
        ]
        return {
            "topic": topic,
            "rate": published / span,
            "share": round(100 * published / most),
            "subscriptions": subscribed,
            "children": [branch(name, depth + 1) for name in sorted(below, key=lambda n: -nodes[n][0])[:30]],
        }

    tree = [branch("", 0)] if "" in nodes else []
    return {"tree": tree, "seen": seen, "cut": cut, "minutes": minutes}
