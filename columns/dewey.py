"""Dewey paths as text: decimal components joined by dots, such as `1.4.2`. The empty text is the root.

Each path has one text: no sign, no leading zero, no space. So texts are equal exactly when paths are. Kernels read texts by columns
(`state.kernels.topics`, `matching.index.topics`, `schemas.kernels.text`), within these limits.

A subscription may name several topics: their texts joined by commas, such as `1.4,2.3`, in order, none of them at or below another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_DEPTH: Final = 64  # deep enough for any ontology, small enough for a stack in a kernel
MAX_COMPONENT: Final = 2**63 - 1  # the greatest signed 64-bit number, so that no reader is surprised
MOST_TOPICS: Final = (
    8  # of one subscription: as many cells cover a circle closely, and each costs an entry in index and store
)
COMMA: Final = ord(",")  # between the topics of a subscription

_COMPONENT: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_SHOWN: Final = 80  # characters of a wrong path, enough to find it


class PathError(ValueError):
    """The text is no path; the message says why, and what to write."""


def parse(text: str, most: int = MAX_DEPTH) -> tuple[int, ...]:
    """The components of a path, at most `most` of them."""
    if not text:
        return ()
    parts = text.split(".", most)
    if len(parts) > most:
        raise PathError(f"the path {_show(text)} is deeper than {most} components")
    return tuple(_component(part, text) for part in parts)


def text_of(components: tuple[int, ...]) -> str:
    return ".".join(map(str, components))


def topics_of(text: str) -> tuple[str, ...]:
    """The topics that the text of a subscription names."""
    return tuple(text.split(","))


def joined(topics: Iterable[str]) -> str:
    """The one text of several topics. What lies at or below another one of them adds nothing, and is left out."""
    given = list(topics)
    if not 1 <= len(given) <= MOST_TOPICS:
        raise PathError(f"there are {len(given)} topics: write 1 to {MOST_TOPICS}")
    kept: list[tuple[int, ...]] = []
    for path in sorted(set(map(parse, given))):  # an ancestor comes before what is below it
        if not any(path[: len(above)] == above for above in kept):
            kept.append(path)
    return ",".join(map(text_of, kept))


def any_overlap(some: str, others: str) -> bool:
    """Is one of these topics the same as one of those, or its ancestor, or below it?"""
    return any(_overlap(a, b) for a in topics_of(some) for b in topics_of(others))


def _overlap(a: str, b: str) -> bool:
    upper, lower = sorted((a, b), key=len)
    return not upper or lower == upper or lower.startswith(upper + ".")


def _component(part: str, text: str) -> int:
    if _COMPONENT.fullmatch(part) and int(part) <= MAX_COMPONENT:
        return int(part)
    if not part:
        problem = "has an empty component"
    elif part.isascii() and part.isdigit():
        problem = "has a component with a leading zero" if part[0] == "0" else "has a component above 2^63-1"
    else:
        problem = f"has the component {_show(part)}, which is no number"
    raise PathError(f"the path {_show(text)} {problem}: write numbers joined by dots, such as 1.4.2")


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
