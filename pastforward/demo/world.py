"""The scene itself, without Kafka: where the drivers are, which cells they are in, where incidents happen."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Final

from pastforward.matching.conditions.values import Box, Point

# Northern Switzerland: wide enough for forty drivers, small enough that they meet incidents.
REGION: Final = Box(7.4, 46.8, 9.6, 47.8)
DRIVER_LEVEL: Final = 10  # cells of about 0.35 by 0.18 degrees: some 40 in the region
INCIDENT_LEVEL: Final = 14  # incidents are placed more precisely, below the drivers' cells
KINDS: Final = {"accident": "✖", "jam": "≡", "roadworks": "▲", "fog": "░"}
REMEMBERED: Final = 60.0  # seconds that an incident stays on the map, and that drivers look back


@dataclass(slots=True)
class Driver:
    name: str
    lon: float
    lat: float
    heading: float
    speed: float  # degrees a second: far too fast, so that there is something to see
    cell: str = ""


@dataclass(slots=True)
class Incident:
    name: str
    kind: str
    severity: int
    place: Point
    at: float


@dataclass(slots=True)
class World:
    """Deterministic for a seed and a sequence of steps."""

    drivers: list[Driver]
    random: random.Random
    incidents: list[Incident] = field(default_factory=list)
    count: int = 0

    @classmethod
    def make(cls, drivers: int, seed: int) -> World:
        rng = random.Random(seed)
        made = [
            Driver(
                f"driver-{number}",
                rng.uniform(REGION.min_x, REGION.max_x),
                rng.uniform(REGION.min_y, REGION.max_y),
                rng.uniform(0, 2 * math.pi),
                rng.uniform(0.01, 0.05),
            )
            for number in range(drivers)
        ]
        return cls(made, rng)

    def move(self, seconds: float) -> None:
        for driver in self.drivers:
            driver.heading += self.random.gauss(0, 0.5) * seconds
            driver.lon += math.cos(driver.heading) * driver.speed * seconds
            driver.lat += math.sin(driver.heading) * driver.speed * seconds
            inside_x = REGION.min_x < driver.lon < REGION.max_x
            inside_y = REGION.min_y < driver.lat < REGION.max_y
            if not (inside_x and inside_y):
                driver.lon = min(max(driver.lon, REGION.min_x), REGION.max_x)
                driver.lat = min(max(driver.lat, REGION.min_y), REGION.max_y)
                driver.heading += math.pi / 2

    def happen(self, now: float) -> Incident:
        self.count += 1
        place = Point(self.random.uniform(REGION.min_x, REGION.max_x), self.random.uniform(REGION.min_y, REGION.max_y))
        kind = self.random.choice(list(KINDS))
        incident = Incident(f"incident-{self.count}", kind, self.random.randint(1, 5), place, now)
        self.incidents.append(incident)
        return incident

    def forget(self, now: float) -> None:
        self.incidents = [incident for incident in self.incidents if now - incident.at < REMEMBERED]
