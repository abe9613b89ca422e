"""Dewey paths as text: decimal components joined by dots, such as `1.4.2`. The empty text is the root.

Each path has one text: no sign, no leading zero, no space. So texts are equal exactly when paths are. Kernels read texts by columns
(`state.kernels.topics`, `matching.index.topics`, `schemas.kernels.text`), within these limits.
"""

from __future__ import annotations

import re
from typing import Final

MAX_DEPTH: Final = 64  # deep enough for any ontology, small enough for a stack in a kernel
MAX_COMPONENT: Final = 2**63 - 1  # the greatest signed 64-bit number, so that no reader is surprised

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
