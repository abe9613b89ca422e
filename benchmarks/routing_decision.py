"""What a routing decision of the product costs, in chunks of columns; and subscriptions one by one, which is their plain definition.

Conditions are parsed beforehand, and in bytes, as the router has them; reading these is part of the decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from pastforward.columns.vocabulary import SEMANTICS
from pastforward.matching.conditions.condition import Condition
from pastforward.streams.routing import (
    SCHEMES,
    Catalog,
    Publication,
    Publications,
    Subscription,
    Subscriptions,
    make_scheme,
)

PARTITIONS = 16
ATTRIBUTES = 10
# A millisecond of work: short enough that some of the runs are not interrupted.
CHUNK = 1_000


class Decision(NamedTuple):
    """The least of several runs; copies are means."""

    scheme: str
    publication_us: float
    subscription_us: float
    mixed_us: float  # subscriptions of all types, operators and semantics
    single_us: float  # the same subscriptions as in `subscription_us`, one by one
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


def mixed_subscriptions(count: int) -> list[Subscription]:
    """One, two or three disjuncts of three predicates: lists, open ranges, exclusions, patterns, shapes and absent attributes."""
    rng = np.random.default_rng(3)
    made = []
    for row in range(count):
        disjuncts = []
        for _ in range(rng.integers(1, 4)):
            low = int(rng.integers(900))
            predicates = [
                f"a{1 + 2 * rng.integers(5)} IN ('value {rng.integers(100)}', 'value {rng.integers(100)}')",
                f"a{1 + 2 * rng.integers(5)} = 'value {rng.integers(100)}'",
                f"a{1 + 2 * rng.integers(5)} LIKE '%{rng.integers(10)}'",
                f"a{1 + 2 * rng.integers(5)} IS NULL",
                f"a{2 * rng.integers(5)} > {low} AND a{2 * rng.integers(5)} < {low + 100}.5",
                f"NOT a{2 * rng.integers(5)} IN ({low}, {low + 1}, {low + 2})",
                f"a{2 * rng.integers(5)} >= {low}",
                f"overlaps(spot, BOX(0, 0, {low}, {low}))",
            ]
            disjuncts.append(" AND ".join(rng.choice(predicates, 3, replace=False)))
        condition = Condition.parse(" OR ".join(disjuncts)).disjuncts
        semantics = SEMANTICS[rng.choice(len(SEMANTICS), p=(0.8, 0.1, 0.1))]
        made.append(Subscription(f"subscription-{row}", condition=condition, semantics=semantics))
    return made


def measure_decisions(*, quick: bool = False) -> list[Decision]:
    chunk, wanted, known = publications(CHUNK), subscriptions(CHUNK), catalog()
    stored, mixed = Subscriptions.of(wanted), Subscriptions.of(mixed_subscriptions(CHUNK))
    some = wanted[: 100 if quick else 500]
    found = []
    for name in SCHEMES:
        scheme = make_scheme(name, PARTITIONS, depth=2, catalog=known)
        sent, held = scheme.route_publications(chunk), scheme.route_subscriptions(stored)
        found.append(
            Decision(
                name,
                _least(partial(scheme.route_publications, chunk)) / CHUNK * 1e6,
                _least(partial(scheme.route_subscriptions, stored)) / CHUNK * 1e6,
                _least(partial(scheme.route_subscriptions, mixed)) / CHUNK * 1e6,
                _least(lambda scheme=scheme: [scheme.subscription(s) for s in some]) / len(some) * 1e6,  # type: ignore[misc]
                len(sent.partition) / CHUNK,
                len(held.partition) / CHUNK,
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
