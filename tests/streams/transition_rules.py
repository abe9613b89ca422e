"""The rules of transitions alone: one subscription, one entity, a few versions of each, partitions that see them in any order.

`told` says what each partition tells, from its own log; `fold` is what a reader makes of it. A case is drawn with its truth, so that
`result_is_true` can hold the two together. No record, no condition and no clock: whether a pair matches is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

PARTITIONS: Final = 3

Kind = Literal["entered", "updated", "left"]
Places = tuple[int, ...]


class Transition(NamedTuple):
    """`begun`: the version of the subscription that its set began with."""

    kind: Kind
    subscription: int
    entity: int
    begun: int
    recipient: str


@dataclass(slots=True)
class Asked:
    """A version of the subscription. `places`: by version of the routing."""

    places: tuple[Places, Places]
    recipient: str = "anna"
    transitions: bool = True
    paused: bool = False
    withdrawn: bool = False
    begun: int = 0


@dataclass(slots=True)
class Said:
    """A version of the entity. `expires` within the case; `first`: the one before has been withdrawn, or has expired by arrival."""

    places: tuple[Places, Places]
    withdrawn: bool = False
    expires: bool = False
    first: bool = True


@dataclass(slots=True)
class Case:
    asked: list[Asked]
    said: list[Said]
    matches: dict[tuple[int, int], bool]
    change: tuple[int, int] | None = None  # how many versions of each the first version of the routing takes
    told: list[Transition] = field(default_factory=list)

    @property
    def truth(self) -> bool:
        """Is the entity in the set, when all has come?"""
        asked, said = self.asked[-1], self.said[-1]
        gone = asked.withdrawn or asked.paused or said.withdrawn or said.expires
        met = any(set(asked.places[routing]) & set(said.places[routing]) for routing in (0, 1))
        return asked.transitions and not gone and met and self.matches[len(self.asked) - 1, len(self.said) - 1]


def draw(rng: random.Random) -> Case:
    def places() -> tuple[Places, Places]:
        meet = rng.random() < 0.9  # under one routing as under the other

        def some() -> Places:
            return tuple(range(PARTITIONS)) if rng.random() < 0.4 or not meet else (rng.randrange(PARTITIONS),)

        return some(), some()

    asked = [Asked(places()) for _ in range(rng.randint(1, 5))]
    said = [Said(places()) for _ in range(rng.randint(1, 4))]
    for i, each in enumerate(asked):
        each.withdrawn = 0 < i < len(asked) - 1 and rng.random() < 0.12
        each.paused = not each.withdrawn and rng.random() < 0.15
        each.recipient = "ben" if rng.random() < 0.1 else "anna"
        each.transitions = rng.random() < 0.9
        before = asked[i - 1] if i else None
        anew = before is None or before.withdrawn or before.paused
        anew = anew or (before.recipient, before.transitions) != (each.recipient, each.transitions)
        each.begun = i if anew or before is None else before.begun
    for j, version in enumerate(said):
        version.withdrawn = 0 < j < len(said) - 1 and rng.random() < 0.15
        version.expires = not version.withdrawn and rng.random() < 0.3
        version.first = not j or said[j - 1].withdrawn or (said[j - 1].expires and rng.random() < 0.5)
    # what one routing lets meet the other lets meet too: the truth does not depend on it
    matches = {
        (i, j): rng.random() < 0.65 and all(set(a.places[r]) & set(b.places[r]) for r in (0, 1))
        for i, a in enumerate(asked)
        for j, b in enumerate(said)
    }
    case = Case(asked, said, matches)
    if rng.random() < 0.4:
        case.change = rng.randint(0, len(asked)), rng.randint(0, len(said))
    case.told = list(_sent(case, rng))
    return case


# ---------------------------------------------------------------- what a partition does


def _log(
    case: Case, routing: int, partition: int, since: tuple[int, int], until: tuple[int, int], rng: random.Random
) -> list[tuple[str, int]]:
    """The records of one partition in one order that may come, and when versions of the entity expire there."""
    subscriptions = [
        ("asked", i)
        for i in range(since[0], until[0])
        if partition in case.asked[i].places[routing] or (i and partition in case.asked[i - 1].places[routing])
    ]
    entities: list[tuple[str, int]] = []
    for j in range(since[1], until[1]):
        version, before = case.said[j], case.said[j - 1] if j else None
        if before is not None and before.expires and (version.first or rng.random() < 0.5):
            entities.append(("expired", j - 1))
        comes = partition in version.places[routing] and not version.withdrawn
        if comes or (before is not None and not version.first and partition in before.places[routing]):
            entities.append(("said", j))
    if until[1] == len(case.said) and case.said[-1].expires:
        entities.append(("expired", len(case.said) - 1))
    log = []
    while subscriptions or entities:
        source = subscriptions if subscriptions and (not entities or rng.random() < 0.5) else entities
        log.append(source.pop(0))
    return log


@dataclass(slots=True)
class Partition:
    """What it holds: a version of the subscription and one of the entity."""

    case: Case
    routing: int
    number: int
    asked: int | None = None
    said: int | None = None

    def reports(self, asked: int | None, said: int | None) -> bool:
        if asked is None or said is None or self.case.asked[asked].paused or self.case.asked[asked].withdrawn:
            return False
        shared = set(self.case.asked[asked].places[self.routing]) & set(self.case.said[said].places[self.routing])
        return bool(shared) and min(shared) == self.number and self.case.matches[asked, said]

    def apply(self, kind: str, number: int) -> Iterator[Transition]:
        asked, said = self.asked, self.said
        if kind == "asked":
            version = self.case.asked[number]
            here = self.number in version.places[self.routing] and not version.withdrawn
            self.asked = number if here else None
            yield from self._replaced(asked, number)
        elif kind == "said":
            version_ = self.case.said[number]
            here = self.number in version_.places[self.routing] and not version_.withdrawn
            self.said = number if here else None
            yield from self._changed(said)
        elif said == number:
            self.said = None
            yield from self._changed(said)

    def _changed(self, before: int | None) -> Iterator[Transition]:
        was, is_ = self.reports(self.asked, before), self.reports(self.asked, self.said)
        if is_:
            yield self._transition("updated" if was else "entered", self.asked, self.said)
        elif was:
            yield self._transition("left", self.asked, before)

    def _replaced(self, before: int | None, by: int) -> Iterator[Transition]:
        """A withdrawal tells nothing, nor does the end of a set that another takes the place of."""
        goes_on = before is not None and self.case.asked[by].begun == self.case.asked[before].begun
        was, is_ = goes_on and self.reports(before, self.said), self.reports(self.asked, self.said)
        if is_ and not was:
            yield self._transition("entered", self.asked, self.said)
        if was and not is_ and not self.case.asked[by].withdrawn:
            yield self._transition("left", before, self.said)

    def _transition(self, kind: Kind, asked: int | None, said: int | None) -> Transition:
        assert asked is not None
        assert said is not None
        version = self.case.asked[asked]
        return Transition(kind, asked, said, version.begun, version.recipient)


def _sent(case: Case, rng: random.Random) -> Iterator[Transition]:
    """All that is told, in one of the orders in which it may lie in the recipient's partition."""
    everything = len(case.asked), len(case.said)
    phases = [((0, 0), everything)] if case.change is None else [((0, 0), case.change), (case.change, everything)]
    late: list[list[Transition]] = []
    for routing, (since, until) in enumerate(phases):
        queues = late
        late = []
        for number in range(PARTITIONS):
            partition = Partition(case, routing, number)
            for kind, at in _log(case, routing, number, (0, 0), since, rng):  # in silence
                list(partition.apply(kind, at))
            queue = [
                t for kind, at in _log(case, routing, number, since, until, rng) for t in partition.apply(kind, at)
            ]
            queues.append([t for t in queue if case.asked[t.subscription].transitions])
            last = case.said[partition.said] if partition.said is not None else None
            if last is not None and last.expires and routing + 1 < len(phases) and rng.random() < 0.5:
                # the version of the routing that goes may read on for a while, and see the time pass
                late.append(
                    [
                        t
                        for t in partition.apply("expired", partition.said or 0)
                        if case.asked[t.subscription].transitions
                    ]
                )
        while any(queues):
            yield rng.choice([queue for queue in queues if queue]).pop(0)


# ---------------------------------------------------------------- what a reader does


def fold(told: list[Transition], recipient: str, begun: int, *, forgets: bool = False) -> bool:
    """Is the entity in the set? `begun`: the version that the reader knows to have begun its set, or an earlier one.
    `forgets`: the versions of what has left."""
    held: tuple[int, int] | None = None
    inside = False
    for each in told:
        if each.recipient != recipient or each.begun < begun:
            continue
        if each.begun > begun:
            begun, held, inside = each.begun, None, False
        named = each.entity, each.subscription
        if held is not None and named < held:
            continue
        inside = each.kind != "left"
        held = None if forgets and not inside else named
    return inside


def result_is_true(case: Case, *, forgets: bool = False) -> bool:
    last = case.asked[-1]
    if not last.transitions:
        return True  # there is no set
    return fold(case.told, last.recipient, last.begun, forgets=forgets) == case.truth
