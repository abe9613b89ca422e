"""What a subscription would cost, before it is taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pastforward.matching.blocks.auto import Auto
from pastforward.matching.index.members import Members
from pastforward.matching.index.strings import joined
from pastforward.matching.index.subscription import SEMANTICS, NewSubscription
from pastforward.matching.index.writing import builder_of


@dataclass(frozen=True, slots=True)
class SubscriptionCost:
    """`nanoseconds` that it adds to each publication, as `auto` expects (0 for other algorithms); `entries` in the index; `slow`
    predicates that Python decides; `access`: what leads to each entry."""

    nanoseconds: float
    entries: int
    slow: int
    access: tuple[str, ...]


def appraise(members: Members, new: NewSubscription) -> SubscriptionCost:
    """Registers its records for as long as the algorithm looks at them."""
    registry = members.registry
    auto = members.relaxed if new.semantics != "classical" else members.algorithm
    builder = builder_of(registry)
    for place in new.topic.encode().split(b","):
        for disjunct in new.disjuncts:
            topic = int(registry.topics.hold(*joined([place]))[0]) if place else 0
            builder.add(disjunct, topic, SEMANTICS[new.semantics], None, None)
    # an id that nobody has: the least one that is free, looked for from the end
    identity = next(i for i in range(-(2**63), 0) if registry.find(np.array([i], np.int64))[0] < 0)
    python = len(builder.python)
    slots = registry.add(builder.parts(), np.array([identity], np.int64), np.array([0, len(builder)]), builder.python)
    try:
        found = [auto.appraise(slot) for slot in slots.tolist()] if isinstance(auto, Auto) else []
    finally:
        registry.drop(slots)
    return SubscriptionCost(
        sum(nanoseconds for _, nanoseconds in found),
        len(slots),
        python,
        tuple(access for access, _ in found),
    )
