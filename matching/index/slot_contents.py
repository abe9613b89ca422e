"""What the record of a slot says, as objects: for explanations, and for what only Python decides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.matching.conditions.merge import meet
from pastforward.matching.conditions.normal_form import Constraint, Disjunct
from pastforward.matching.index import records as r
from pastforward.matching.index.parts import constraint_of_part
from pastforward.matching.index.records import AXIS, HAS_TOPIC, LIKE, PYTHON, part_count, parts_begin, payload, read_64
from pastforward.matching.index.registry import Registry


class Window(NamedTuple):
    """Place and time of a subscription."""

    topic: str
    subtree: bool
    starts_at: int | None
    ends_at: int | None
    valid: bool


def _record(registry: Registry, slot: int) -> tuple[npt.NDArray[np.uint32], int]:
    """The words of all records, and where this one begins."""
    offset, words = registry.known.records
    return words, int(offset[slot])


def disjunct_of(registry: Registry, slot: int) -> Disjunct | None:
    """The constraints of a slot, of each attribute one; None if nothing satisfies them, as a table of predicates may have it."""
    found: dict[str, Constraint] = {}
    for name, part in parts_of(registry, slot):
        merged = meet(found[name], part) if name in found and part is not None else part
        if merged is None:
            return None
        found[name] = merged
    return tuple(found.items())


def parts_of(registry: Registry, slot: int) -> list[tuple[str, Constraint | None]]:
    """What the record of a slot is made of; an attribute may come more than once. None: nothing satisfies it."""
    words, at = _record(registry, slot)
    parts, at = int(part_count(words, at)), int(parts_begin(words, at))
    found: list[tuple[str, Constraint | None]] = []
    for _ in range(parts):
        attribute = int(words[at]) >> 12
        implied = (int(words[at]) >> 7) & 31 == LIKE and int(words[at]) & r.IMPLIED
        if not (registry.known.sorts[attribute] & AXIS or implied):
            found.append((registry.names[attribute], constraint_of_part(words, at, registry.strings, registry.python)))
        at += 1 + int(payload(words, at))
    return found


def python_constraints(registry: Registry, slot: int) -> list[tuple[str, Constraint]]:
    """Those constraints of a slot that only Python can decide."""
    words, at = _record(registry, slot)
    parts, at = int(part_count(words, at)), int(parts_begin(words, at))
    found = []
    for _ in range(parts):
        header = int(words[at])
        if (header >> 7) & 31 == PYTHON:
            constraint = registry.python[int(words[at + 1])]
            assert constraint is not None
            found.append((registry.names[header >> 12], constraint))
        at += 1 + int(payload(words, at))
    return found


def window_of(registry: Registry, slot: int) -> Window:
    """Place and time of a slot."""
    words, at = _record(registry, slot)
    flags = int(words[at])
    at += 1
    topic, starts_at, ends_at = "", None, None
    if flags & HAS_TOPIC:
        topic = registry.topics.text(int(words[at]))
        at += 1
    if flags & r.HAS_START:
        starts_at = int(read_64(words, at))
        at += 2
    if flags & r.HAS_END:
        ends_at = int(read_64(words, at))
    return Window(topic, bool(flags & r.SUBTREE_SCOPE), starts_at, ends_at, bool(flags & r.VALID_TIME))


def flags_of(registry: Registry, slot: int) -> int:
    words, at = _record(registry, slot)
    return int(words[at]) & 255
