"""Dewey paths in records: what is no path is a `SchemaError`."""

from __future__ import annotations

from pastforward.columns import dewey
from pastforward.schemas.errors import SchemaError

path_text = dewey.text_of


def path_components(text: str, most: int = dewey.MAX_DEPTH) -> tuple[int, ...]:
    """The components of a path, `most` of them. Raises `SchemaError` if the text is none."""
    try:
        return dewey.parse(text, most)
    except dewey.PathError as error:
        raise SchemaError("bad_path", str(error)) from None


def check_path(text: str) -> str:
    """The text itself. Raises `SchemaError` if it is no path."""
    path_components(text)
    return text
