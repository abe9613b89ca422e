"""The text of a Dewey path: decimal components joined by dots, such as `1.4.2`. The empty text is the root.

Each path has one text: no sign, no leading zero, no space. So texts are equal exactly when paths are.
"""

from __future__ import annotations

import re

from pastforward.schemas.errors import SchemaError
from pastforward.schemas.limits import MAX_PATH_COMPONENT, MAX_PATH_DEPTH

_COMPONENT = re.compile(r"0|[1-9][0-9]{0,18}")
_SHOWN = 80  # of a wrong path, enough to find it


def path_components(text: str, most: int = MAX_PATH_DEPTH) -> tuple[int, ...]:
    """The components of a path, `most` of them. Raises `SchemaError` if the text is none."""
    if not text:
        return ()
    parts = text.split(".", most)
    if len(parts) > most:
        raise SchemaError("bad_path", f"the path {_show(text)} is deeper than {most} components")
    return tuple(_component(part, text) for part in parts)


def check_path(text: str) -> str:
    """The text itself. Raises `SchemaError` if it is no path."""
    path_components(text)
    return text


def path_text(components: tuple[int, ...]) -> str:
    return ".".join(map(str, components))


def _component(part: str, text: str) -> int:
    if _COMPONENT.fullmatch(part) and int(part) <= MAX_PATH_COMPONENT:
        return int(part)
    if not part:
        problem = "has an empty component"
    elif part.isascii() and part.isdigit():
        problem = "has a component with a leading zero" if part[0] == "0" else "has a component above 2^63-1"
    else:
        problem = f"has the component {_show(part)}, which is no number"
    raise SchemaError("bad_path", f"the path {_show(text)} {problem}: write numbers joined by dots, such as 1.4.2")


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
