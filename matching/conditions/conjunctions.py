"""Conditions of a shape that nobody wrote before, if they are plain predicates joined by AND: bound predicate by predicate.

There are few shapes of predicates, and many of what they can be joined to. Whatever is not certainly such a condition takes the longer way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pastforward.matching.conditions.merge import meet
from pastforward.matching.conditions.normal_form import NEVER, Constraint, NormalForm
from pastforward.matching.conditions.scan import Slot

MOST: Final = 64  # predicates

# What comes between two constants: the end of a predicate, AND, and the beginning of the next one.
_HEAD: Final = r"[A-Za-z_][A-Za-z_0-9]*\s*(?:=|!=|<>|<=?|>=?|\sLIKE\s|\sBETWEEN\s|\sIN\s*\()\s*"
_BETWEEN: Final = re.compile(rf"(\)?)\s+AND\s+({_HEAD})", re.IGNORECASE)
_FIRST: Final = re.compile(rf"\s*{_HEAD}", re.IGNORECASE)
_LAST: Final = re.compile(r"\)?\s*")
_AND: Final = re.compile(r"\s+AND\s+", re.IGNORECASE)
_OPENS: Final = "BETWEEN"

# The shape of a predicate, its constants: what it says.
Bind = Callable[[tuple[str, ...], list[Slot]], NormalForm]


def bind_by_predicate(key: tuple[str, ...], slots: list[Slot], bind: Bind) -> NormalForm | None:
    """None: it is no such condition. `key` is the shape of the whole, as `scan` gives it."""
    predicates = _split(key)
    if predicates is None:
        return None
    found: dict[str, Constraint] = {}
    never = False
    first = 0
    for predicate in predicates:
        after = first + len(predicate) // 2
        bound = bind(predicate, slots[first:after])
        first = after
        if not bound:
            never = True
            continue
        if len(bound) != 1 or len(bound[0]) != 1:
            return None
        name, constraint = bound[0][0]
        known = found.get(name)
        both = constraint if known is None else meet(known, constraint)
        if both is None:
            never = True
        else:
            found[name] = both
    return NEVER if never else (tuple((name, found[name]) for name in sorted(found)),)


def _split(key: tuple[str, ...]) -> list[tuple[str, ...]] | None:
    """The shapes of its predicates."""
    if len(key) < 5 or len(key) > 4 * MOST or not _FIRST.fullmatch(key[0]):
        return None
    found: list[tuple[str, ...]] = []
    current = [key[0]]
    for place in range(1, len(key) - 1, 2):
        current.append(key[place])
        text = key[place + 1]
        if len(current) == 2 and current[0].rstrip().upper().endswith(_OPENS):
            if not _AND.fullmatch(text):
                return None
            current.append(text)
            continue
        if place + 2 == len(key):
            if not _LAST.fullmatch(text):
                return None
            current.append(text.rstrip())
            found.append(tuple(current))
            return found
        parted = _BETWEEN.fullmatch(text)
        if parted is None:
            return None
        current.append(parted[1])
        found.append(tuple(current))
        current = [parted[2]]
    return None
