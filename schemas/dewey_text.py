"""Dewey paths in records: what is no path is a `SchemaError`."""

from __future__ import annotations

from collections.abc import Sequence

from pastforward.columns import dewey
from pastforward.schemas.errors import SchemaError

path_text = dewey.text_of


def path_components(text: str, most: int = dewey.MAX_DEPTH) -> tuple[int, ...]:
    """The components of a path, `most` of them. Raises `SchemaError` if the text is none."""
    try:
        return dewey.parse(text, most)
    except dewey.PathError as error:
        raise SchemaError("bad_path", str(error)) from None


def check_topics(value: str | Sequence[str]) -> str:
    """One text of the topics of a subscription, given as a text or a list. Raises `SchemaError` if one is no path."""
    if isinstance(value, str) and "," not in value:
        return check_path(value)
    given = dewey.topics_of(value) if isinstance(value, str) else value
    if isinstance(value, str) and "" in given:
        raise SchemaError(
            "bad_path", f"the topics {value[:80]!r} have an empty one: write 1 to 8 paths joined by commas"
        )
    try:
        return dewey.joined(given)
    except dewey.PathError as error:
        raise SchemaError("bad_path", str(error)) from None


def check_path(text: str) -> str:
    """The text itself. Raises `SchemaError` if it is no path."""
    path_components(text)
    return text
