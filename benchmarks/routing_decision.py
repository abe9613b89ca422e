"""What a routing decision of the product costs: publications in chunks of columns, subscriptions one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from matching.condition import Condition
from streams.routing import SCHEMES, Catalog, Publication, Publications, Subscription, make_scheme

PARTITIONS = 16
ATTRIBUTES = 10
# A millisecond of work: short enough that some of the runs are not interrupted.
CHUNK = 1_000


class Decision(NamedTuple):
    """The least of several runs; copies are means."""

    scheme: str
    publication_us: float
    subscription_us: float
    publication_copies: float
    subscription_copies: float


def catalog_text() -> str:
    """Five equality attributes over texts, five range attributes over integers, and a division of the first of these."""
    tables = []
    for number in range(ATTRIBUTES):
        kind = (
            'type = "string"\nkind = "equality"'
            if number % 2
            else 'type = "integer"\nkind = "range"\ndomain = [0, 999]'
        )
        tables.append(f'[[attribute]]\nname = "a{number}"\n{kind}\n')
    width = 1_000 // PARTITIONS
    ends = [width * number for number in range(1, PARTITIONS)]
    wheres = [f"a0 < {ends[0]}", *(f"a0 >= {end} AND a0 < {end + width}" for end in ends[:-1]), f"a0 >= {ends[-1]}"]
    return "".join(tables) + "".join(f'[[partition]]\nwhere = "{where}"\n' for where in wheres)


def catalog() -> Catalog:
    return Catalog.from_toml(catalog_text())


def publications(count: int) -> Publications:
    rng = np.random.default_rng(1)
    return Publications.of(
        [
            Publication(
                f"publication-{row}",
                ".".join(map(str, rng.integers(1, 5, 5))),
                {
                    f"a{number}": f"value {rng.integers(100)}" if number % 2 else int(rng.integers(1_000))
                    for number in range(ATTRIBUTES)
                },
            )
            for row in range(count)
        ]
    )


def subscriptions(count: int) -> list[Subscription]:
    """Two equalities and a range of a tenth of its domain, on different attributes."""
    rng = np.random.default_rng(2)
    made = []
    for row in range(count):
        first, second = rng.choice([1, 3, 5, 7, 9], 2, replace=False)
        low = int(rng.integers(900))
        text = (
            f"a{first} = 'value {rng.integers(100)}' AND a{second} = 'value {rng.integers(100)}' "
            f"AND a{2 * rng.integers(5)} BETWEEN {low} AND {low + 100}"
        )
        topic = ".".join(map(str, rng.integers(1, 5, 5)))
        made.append(Subscription(f"subscription-{row}", topic, condition=Condition.parse(text).disjuncts))
    return made


def measure_decisions(*, quick: bool = False) -> list[Decision]:
    chunk, wanted, known = publications(CHUNK), subscriptions(100 if quick else 500), catalog()
    found = []
    for name in SCHEMES:
        scheme = make_scheme(name, PARTITIONS, depth=2, catalog=known)
        placement = scheme.route_publications(chunk)
        stored = [scheme.subscription(subscription) for subscription in wanted]
        found.append(
            Decision(
                name,
                _least(lambda scheme=scheme: scheme.route_publications(chunk)) / len(chunk) * 1e6,  # type: ignore[misc]
                _least(lambda scheme=scheme: [scheme.subscription(s) for s in wanted]) / len(wanted) * 1e6,  # type: ignore[misc]
                len(placement.partition) / len(chunk),
                sum(map(len, stored)) / len(stored),
            )
        )
    return found


def _least(action: Callable[[], object]) -> float:
    """Of many runs: on a machine with other work the least is what the code needs."""
    spent = []
    for _ in range(30):
        begun = time.perf_counter()
        action()
        spent.append(time.perf_counter() - begun)
    return min(spent)
