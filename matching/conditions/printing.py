"""From the structured form back to SQL text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isinf
from typing import Final

from pastforward.matching.conditions.errors import shown
from pastforward.matching.conditions.lexer import RESERVED
from pastforward.matching.conditions.patterns import ESCAPE
from pastforward.matching.conditions.predicates import Predicate
from pastforward.matching.conditions.values import Box, Circle, Path, Point

_PLAIN_NAME: Final = re.compile(r"[^\W\d]\w*")


def condition_text(disjuncts: Sequence[Sequence[Predicate]]) -> str:
    if not disjuncts:
        return "FALSE"
    texts = [" AND ".join(map(predicate_text, predicates)) or "TRUE" for predicates in disjuncts]
    if len(texts) == 1:
        return texts[0]
    return " OR ".join(
        f"({text})" if len(predicates) > 1 else text for text, predicates in zip(texts, disjuncts, strict=True)
    )


def name_text(name: str) -> str:
    """The name, quoted where it must be."""
    return ".".join(_name_part(part) for part in name.split(".")) if _is_dotted(name) else _name_part(name)


def _is_dotted(name: str) -> bool:
    return all(name.split("."))


def _name_part(part: str) -> str:
    if _PLAIN_NAME.fullmatch(part) and part.upper() not in RESERVED:
        return part
    return '"' + part.replace('"', '""') + '"'


def value_text(value: object) -> str:
    """A constant as a condition writes it."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float() if isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        case int() | float():
            return shown(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat()}Z'"
        case Path():
            return f"PATH '{value.text}'"
        case Point():
            return f"POINT({value.lon!r}, {value.lat!r})"
        case Circle():
            return f"CIRCLE({value.lon!r}, {value.lat!r}, {value.radius_m!r})"
        case Box():
            return f"BOX({value.min_x!r}, {value.min_y!r}, {value.max_x!r}, {value.max_y!r})"
    return shown(value)


_WILDCARDS: Final = {
    "prefix": ("", "%"),
    "suffix": ("%", ""),
    "substring": ("%", "%"),
    "like": ("", ""),
}


def predicate_text(predicate: Predicate) -> str:
    attribute, operator, value, high = predicate
    name = name_text(attribute)
    base = operator.removeprefix("not ")
    negation = "NOT " if operator.startswith("not ") else ""
    if operator in ("is null", "is not null"):
        return f"{name} {operator.upper()}"
    if base == "in":
        assert isinstance(value, tuple)
        return f"{name} {negation}IN ({', '.join(map(value_text, value))})"
    if base in _WILDCARDS:
        assert isinstance(value, str)
        return f"{name} {negation}LIKE {_like_text(base, value)}"
    if base == "matches":
        return f"{name} {negation}REGEXP {value_text(value)}"
    if base in ("overlaps", "contains", "within"):
        return f"{negation}{base}({name}, {value_text(value)})"
    if operator == "between":
        return f"{name} BETWEEN {value_text(value)} AND {value_text(high)}"
    return f"{name} {operator} {value_text(value)}"


def _like_text(base: str, text: str) -> str:
    if base != "like":
        before, after = _WILDCARDS[base]
        for special in (ESCAPE, "%", "_"):
            text = text.replace(special, ESCAPE + special)
        text = before + text + after
    escape = f" ESCAPE '{ESCAPE}'" if ESCAPE in text else ""
    return value_text(text) + escape
