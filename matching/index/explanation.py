"""Why a pair matches, or does not: the predicate that failed and the value it failed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pastforward.matching.conditions.errors import shown
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.normal_form import NULL, PREVIOUS, Constraint
from pastforward.matching.conditions.predicates import predicates_of
from pastforward.matching.conditions.printing import predicate_text
from pastforward.matching.index import records as r
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.slot_contents import flags_of, parts_of, window_of


@dataclass(frozen=True, slots=True)
class Explanation:
    """`reasons` is empty when the pair matches; else it has at least one line per disjunct."""

    subscription_id: int | str
    matches: bool
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        if self.matches:
            return f"{self.subscription_id!r} matches"
        return f"{self.subscription_id!r} does not match: " + "; ".join(self.reasons)


def explain(
    subscription_id: int | str,
    registry: Registry,
    slots: Sequence[int],
    attributes: Mapping[str, object],
    topic: str,
    published_at: int | None,
    expires_at: int | None,
) -> Explanation:
    # the slots of a subscription differ in their disjunct, and in their topic if it names several
    away = [place_and_time(registry, slot, topic, published_at, expires_at) for slot in slots]
    near = [slot for slot, elsewhere in zip(slots, away, strict=True) if not elsewhere]
    if not near:
        return Explanation(subscription_id, False, tuple(dict.fromkeys(line for lines in away for line in lines)))
    here = window_of(registry, near[0]).topic  # at another topic that fits too, the disjuncts are the same
    reasons: list[str] = []
    alternatives = [slot for slot in near if window_of(registry, slot).topic == here]
    for number, slot in enumerate(alternatives):
        failed = failures(registry, slot, attributes)
        if not failed:
            return Explanation(subscription_id, True, ())
        where = f"alternative {number + 1}: " if len(alternatives) > 1 else ""
        reasons += [where + line for line in failed]
    return Explanation(subscription_id, False, tuple(reasons))


def place_and_time(
    registry: Registry, slot: int, topic: str, published_at: int | None, expires_at: int | None
) -> list[str]:
    wanted = window_of(registry, slot)
    lines = []
    here, there = _components(topic), _components(wanted.topic)
    below = here[: len(there)] == there
    if not below and (wanted.subtree or there[: len(here)] != here):
        asked = "at or below" if wanted.subtree else "above, at or below"
        lines.append(f"the topic {topic!r} is not {asked} {wanted.topic!r}")
    if published_at is None:
        return lines
    starts = r.SMALLEST if wanted.starts_at is None else wanted.starts_at
    ends = r.LARGEST if wanted.ends_at is None else wanted.ends_at
    if wanted.valid:
        until = r.LARGEST if expires_at is None else expires_at
        if not max(starts, published_at) < min(ends, until):
            lines.append(f"valid from {published_at} to {expires_at}, which the window {starts}..{ends} does not meet")
    elif not (starts <= published_at and (published_at < ends or wanted.ends_at is None)):
        lines.append(f"published_at {published_at} is outside the window {starts}..{ends}")
    return lines


def failures(registry: Registry, slot: int, attributes: Mapping[str, object]) -> list[str]:
    lines = []
    flags = flags_of(registry, slot)
    relaxed = bool(flags & (r.SYMMETRIC | r.INTERSECT))
    disjunct = parts_of(registry, slot)
    for name, constraint in disjunct:
        value = attributes.get(name)
        if constraint is None:
            lines.append(f"what is asked of {name} can never be true")
            continue
        if value is None and relaxed and not name.startswith(PREVIOUS):
            continue
        if not satisfies(constraint, value):
            lines.append(_failure(name, constraint, value))
    if flags & r.SYMMETRIC:
        named = {name for name, _ in disjunct}
        for name, value in attributes.items():
            if value is not None and name not in named and not name.startswith(PREVIOUS):
                lines.append(f"{name} is {shown(value)}, and the subscription does not speak of it")
    return lines


def _failure(name: str, constraint: Constraint, value: object) -> str:
    asked = " AND ".join(predicate_text(predicate) for predicate in predicates_of(name, constraint))
    if value is None:
        return f"{asked} failed: {name} is absent"
    if constraint == NULL:
        return f"{asked} failed: {name} is {shown(value)}"
    return f"{asked} failed on {shown(value)}"


def _components(topic: str) -> list[str]:
    return topic.split(".") if topic else []
