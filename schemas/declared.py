"""The types that a catalog declares: a wrong one is refused, in what is published as in a condition.

Integers and floats compare as exact numbers: of an attribute that is declared a float both are taken, of an integer integers alone. A
condition may hold either against any number.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import numpy as np

from pastforward.columns.attributes import BOOLEAN, FLOAT, INTEGER, PATH, STRING, TIMESTAMP, Attributes
from pastforward.matching.conditions.normal_form import PREVIOUS, Family, NormalForm
from pastforward.matching.conditions.values import Path, Value
from pastforward.schemas.errors import SchemaError

Types = Mapping[str, str]  # by attribute, in the words of the catalog

_PLAIN: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    datetime: "timestamp",
    Path: "path",
}
_ARTICLE: Final = {"integer": "an"}
_TAGS: Final[dict[str, tuple[int, ...]]] = {
    "boolean": (BOOLEAN,),
    "integer": (INTEGER,),
    "float": (FLOAT, INTEGER),
    "string": (STRING,),
    "timestamp": (TIMESTAMP,),
    "path": (PATH,),
}
_FAMILIES: Final = {
    "boolean": Family.BOOLEAN,
    "integer": Family.NUMBER,
    "float": Family.NUMBER,
    "string": Family.STRING,
    "timestamp": Family.TIMESTAMP,
    "path": Family.PATH,
}


def check_values(attributes: Mapping[str, Value], types: Types) -> None:
    for name, value in attributes.items():
        if name in types and not _is(value, types[name]):
            raise _wrong(name, types[name], f"not {type_of(value)}")


def type_of(value: Value) -> str:
    """In the words of the catalog; of a shape that of Python."""
    found = next((name for kind, name in _PLAIN.items() if type(value) is kind), None)
    return _with_article(found or type(value).__name__.lower())


def wrong_rows(attributes: Attributes, types: Types) -> list[int]:
    """Rows for which `check_values` may raise."""
    rows: list[int] = []
    for number, name in enumerate(attributes.names):
        if name in types:
            wrong = (attributes.name == number) & ~np.isin(attributes.tag, _TAGS[types[name]])
            rows += (np.searchsorted(attributes.start, np.flatnonzero(wrong), side="right") - 1).tolist()
    return sorted(set(rows))


def check_form(form: NormalForm, types: Types) -> None:
    """`IS NULL` and `IS NOT NULL` say nothing of a type."""
    for disjunct in form if types else ():
        for name, constraint in disjunct:
            declared = types.get(name.removeprefix(PREVIOUS))
            if declared is None or constraint.family in (Family.NULL, Family.ANY):
                continue
            if constraint.family != _FAMILIES[declared]:
                family = Family(constraint.family).name.lower()
                raise _wrong(name, declared, f"but the condition compares it with {_with_article(family)}")


def _is(value: Any, declared: str) -> bool:
    return _PLAIN.get(type(value)) in ((declared, "integer") if declared == "float" else (declared,))


def _wrong(name: str, declared: str, instead: str) -> SchemaError:
    return SchemaError("wrong_type", f"attribute {name[:60]!r} is {_with_article(declared)} by the catalog, {instead}")


def _with_article(name: str) -> str:
    return f"{_ARTICLE.get(name, 'a')} {name}"
