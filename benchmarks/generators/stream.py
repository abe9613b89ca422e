"""The loads of the stream figures: what is put on the topics before a worker is started.

| load         | subscriptions                                                     | publications                             |
| publications | on 1,024 topics: an equality, two ranges; 1 in a million matches  | 10 attributes, a level below; 0.1 told   |
| fan-out      | 10,000, as many to a topic as a publication shall match           | 5 attributes, on those topics            |
| drivers      | a cell of 250,000, from 10 s ago to 10 s ahead, no condition      | the same cells, gone after 20 s          |

Records are drawn from a pool of values, so that the topics can be filled faster than the worker reads them; every record has a key,
and so an id, of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pastforward.columns.times import SECOND
from pastforward.columns.vocabulary import Deliver
from pastforward.schemas import Publication, Subscription, encode
from pastforward.schemas.codec import Format

POOL: Final = 50_000  # different values of publications
CELLS: Final = 250_000  # as in Qader and Hristidis: 500 x 500
KINDS: Final = 20
SEVERITIES: Final = 1_000


class Record(NamedTuple):
    topic: str  # without the prefix
    key: bytes
    value: bytes


def _place(draw: random.Random) -> str:
    return f"{draw.randint(1, 64)}.{draw.randint(1, 16)}"


class Interest(NamedTuple):
    """What a subscription asks for: that topic and kind, a severity from here to 200 above, a speed from here to 13 above."""

    number: int
    topic: str
    kind: str
    severity: int
    speed: int


def interests(count: int) -> Iterator[Interest]:
    """Of a publication's topic one in 1,024 speaks, of its kind one in 20, of its severity a fifth, of its speed a tenth: of 100,000
    subscriptions 0.1 match."""
    draw = random.Random(1)
    for number in range(count):
        severity, speed = draw.randint(1, SEVERITIES * 4 // 5), draw.randint(0, 116)
        yield Interest(number, _place(draw), f"k{draw.randint(1, KINDS)}", severity, speed)


def subscriptions(count: int, deliver: Deliver = "content") -> Iterator[Record]:
    for number, topic, kind, severity, speed in interests(count):
        record = Subscription(
            f"s{number}",
            f"u{number % 10_000}",
            topic,
            where=f"kind = '{kind}' AND severity BETWEEN {severity} AND {severity + SEVERITIES // 5} "
            f"AND speed >= {speed} AND speed < {speed + 13}",
            deliver=deliver,
        )
        yield Record("subscriptions", record.subscription_id.encode(), encode(record))


def samples(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Topics and the ten attributes of publications."""
    draw = random.Random(2)
    return [
        (
            f"{_place(draw)}.{draw.randint(1, 40)}",
            {
                "kind": f"k{draw.randint(1, KINDS)}",
                "severity": draw.randint(1, SEVERITIES),
                "speed": draw.random() * 130,
                "road": f"I-{draw.randint(1, 99)}",
                "lane": draw.randint(1, 4),
                "direction": draw.choice(["north", "east", "south", "west"]),
                "wet": draw.random() < 0.3,
                "vehicles": draw.randint(1, 9),
                "temperature": round(draw.gauss(12, 8), 1),
                "source": f"camera-{draw.randint(1, 500)}",
            },
        )
        for _ in range(count)
    ]


def publications(count: int, form: Format = "avro", number_of_run: int = 0) -> Iterator[Record]:
    """A run has ids of its own: what comes again within the hot window is dropped."""
    run = f"{number_of_run}-" if number_of_run else ""
    values = [
        encode(Publication(None, None, topic, attributes=said), form) for topic, said in samples(min(count, POOL))
    ]
    for number in range(count):
        yield Record("publications", f"{form}-{run}{number}".encode(), values[number % len(values)])


def drivers(count: int, rate: float, share: float = 0.75) -> Iterator[Record]:
    """Subscriptions and publications of moving drivers, mixed, at that rate at most: windows go by the clock, so that more a second would
    meet more."""
    draw = random.Random(3)
    began = time.perf_counter()
    for number in range(count):
        if number % 100 == 0:
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        now = time.time_ns() // 1000
        cell = str(draw.randint(1, CELLS))
        record: Any
        if draw.random() < share:
            record = Subscription(
                f"s{number}", f"u{number}", cell, starts_at=now - 10 * SECOND, ends_at=now + 10 * SECOND
            )
            yield Record("subscriptions", b"s%d" % number, encode(record))
        else:
            record = Publication(None, None, cell, expires_at=now + 20 * SECOND)
            yield Record("publications", b"p%d" % number, encode(record))


SUBSCRIBED: Final = 10_000  # subscriptions of the loads of fan-out


def told_subscriptions(fan_out: int, deliver: Deliver) -> Iterator[Record]:
    """As many to a topic as a publication on it is to match."""
    for number in range(SUBSCRIBED):
        topic = str(1 + number % (SUBSCRIBED // fan_out))
        record = Subscription(f"s{number}", f"u{number}", topic, where="severity >= 1", deliver=deliver)
        yield Record("subscriptions", record.subscription_id.encode(), encode(record))


def told_publications(count: int, fan_out: int, run: int) -> Iterator[Record]:
    draw = random.Random(4)
    for number in range(count):
        attributes: dict[str, Any] = {
            "kind": f"k{draw.randint(1, KINDS)}",
            "severity": draw.randint(1, SEVERITIES),
            "speed": draw.random() * 130,
            "road": f"I-{draw.randint(1, 99)}",
            "lane": draw.randint(1, 4),
        }
        record = Publication(None, None, str(1 + number % (SUBSCRIBED // fan_out)), attributes=attributes)
        yield Record("publications", b"p%d-%d" % (run, number), encode(record))
