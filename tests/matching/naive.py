"""Conditions as they are written, with a naive evaluator in three-valued logic: what the normal form is held against.

Nothing here uses the code under test, but for the geometry of shapes and the value types. Regular expressions are RE2's by definition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import isinf, isnan
from typing import Any

import re2

from pastforward.matching.conditions import geometry
from pastforward.matching.conditions.values import Box, Circle, Path, Point


@dataclass(frozen=True)
class Leaf:
    """An operator of SQL as written; `value` is a constant, a pair, a list or nothing."""

    attribute: str
    operator: str
    value: Any = None


@dataclass(frozen=True)
class Node:
    connective: str  # AND, OR, NOT
    parts: tuple[Any, ...]


def text(tree: Any) -> str:
    if isinstance(tree, Node):
        if tree.connective == "NOT":
            return f"NOT ({text(tree.parts[0])})"
        return f" {tree.connective} ".join(f"({text(part)})" for part in tree.parts)
    if isinstance(tree, bool):
        return "TRUE" if tree else "FALSE"
    name = '"' + tree.attribute.replace('"', '""') + '"'
    operator, value = tree.operator, tree.value
    if operator in ("IS NULL", "IS NOT NULL"):
        return f"{name} {operator}"
    if operator == "":
        return name
    if operator in ("BETWEEN", "NOT BETWEEN"):
        return f"{name} {operator} {literal(value[0])} AND {literal(value[1])}"
    if operator in ("IN", "NOT IN"):
        return f"{name} {operator} ({', '.join(map(literal, value))})"
    if operator in ("overlaps", "contains", "within"):
        return f"{operator}({name}, {literal(value)})"
    if operator.startswith("mirrored "):
        return f"{literal(value)} {operator.removeprefix('mirrored ')} {name}"
    if operator.endswith("LIKE"):
        return f"{name} {operator} {literal(value)} ESCAPE '!'"
    if operator.endswith("LOWER ="):
        return f"LOWER({name}) {'!=' if operator.startswith('NOT') else '='} {literal(value)}"
    return f"{name} {operator} {literal(value)}"


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, Path):
        return f"PATH '{value.text}'"
    if isinstance(value, Point):
        return f"POINT({value.lon}, {value.lat})"
    if isinstance(value, Circle):
        return f"CIRCLE({value.lon}, {value.lat}, {value.radius_m})"
    return f"BOX({value.min_x}, {value.min_y}, {value.max_x}, {value.max_y})"


_WRITTEN = {"between": "BETWEEN", "in": "IN", "like": "LIKE", "matches": "REGEXP", "is null": "IS NULL"}
_AROUND = {"prefix": ("", "%"), "suffix": ("%", ""), "substring": ("%", "%")}


def written(attribute: str, operator: str, value: Any = None, high: Any = None) -> Any:
    """A predicate of the structured form as SQL has it."""
    if operator == "is not null":
        return Leaf(attribute, "IS NOT NULL")
    if operator.startswith("not "):
        return Node("NOT", (written(attribute, operator.removeprefix("not "), value, high),))
    if operator in _AROUND:
        before, after = _AROUND[operator]
        return Leaf(attribute, "LIKE", before + re.sub("([!%_])", r"!\1", value) + after)
    if operator == "like":
        return Leaf(attribute, "LIKE", value.replace("\\", "!"))
    return Leaf(attribute, _WRITTEN.get(operator, operator), (value, high) if operator == "between" else value)


def truth(tree: Any, attributes: Mapping[str, Any]) -> bool | None:
    """True, False, or None for unknown."""
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, Leaf):
        return leaf_truth(tree, attributes.get(tree.attribute))
    parts = [truth(part, attributes) for part in tree.parts]
    if tree.connective == "NOT":
        return None if parts[0] is None else not parts[0]
    decisive = tree.connective == "OR"
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def leaf_truth(leaf: Leaf, value: Any) -> bool | None:
    operator, wanted = leaf.operator, leaf.value
    if operator == "IS NULL":
        return value is None
    if operator == "IS NOT NULL":
        return value is not None
    if operator.startswith("NOT "):
        positive = leaf_truth(Leaf(leaf.attribute, operator.removeprefix("NOT "), wanted), value)
        return None if positive is None else not positive
    if operator == "":
        return value if isinstance(value, bool) else None
    if operator == "BETWEEN":
        return truth(Node("AND", (Leaf("x", ">=", wanted[0]), Leaf("x", "<=", wanted[1]))), {"x": value})
    if operator == "IN":
        return truth(Node("OR", tuple(Leaf("x", "=", member) for member in wanted)), {"x": value})
    if operator.startswith("mirrored "):
        mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
        return leaf_truth(Leaf(leaf.attribute, mirrored[operator.removeprefix("mirrored ")], wanted), value)
    mine, theirs = comparable(value), comparable(wanted)
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return None
    return compare(operator, mine[1], theirs[1])


def compare(operator: str, mine: Any, theirs: Any) -> bool:
    match operator:
        case "=":
            return bool(mine == theirs)
        case "!=":
            return bool(mine != theirs)
        case "<":
            return bool(mine < theirs)
        case "<=":
            return bool(mine <= theirs)
        case ">":
            return bool(mine > theirs)
        case ">=":
            return bool(mine >= theirs)
        case "LIKE":
            return bool(re.fullmatch(like_regex(theirs), mine, re.DOTALL))
        case "ILIKE":
            return bool(re.fullmatch(like_regex(folded(theirs)), folded(mine), re.DOTALL))
        case "LOWER =":
            return folded(mine) == folded(theirs)
        case "REGEXP":
            return bool(re2.search(theirs, mine))
    if isinstance(theirs, list):
        below, above = mine[: len(theirs)] == theirs, theirs[: len(mine)] == mine
        return {"overlaps": below or above, "contains": above, "within": below}[operator]
    return {"overlaps": geometry.overlaps, "contains": geometry.contains, "within": geometry.within}[operator](
        mine, theirs
    )


def folded(written: str) -> str:
    """Without regard to case: one character becomes one."""
    return "".join(next((c for c in (one.casefold(), one.lower()) if len(c) == 1), one) for one in written)


def like_regex(pattern: str) -> str:
    """Escape character `!`."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if character == "!":
            parts.append(re.escape(next(characters)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return "".join(parts)


def comparable(value: Any) -> tuple[str, Any] | None:
    """The type, and something that Python compares as conditions do."""
    if isinstance(value, bool):
        return "boolean", value
    if isinstance(value, int | float):
        if isinstance(value, float) and isnan(value):
            return None
        if isinstance(value, float) and isinf(value):
            return "number", value
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return None
        return "number", Fraction(value)
    if isinstance(value, str):
        return None if any(0xD800 <= ord(character) < 0xE000 for character in value) else ("string", value)
    if isinstance(value, datetime):
        return "timestamp", value.astimezone(UTC)
    if isinstance(value, Path):
        if ".." in value.text:
            return None
        return "path", [int(part) for part in value.text.split(".")] if value.text else []
    if isinstance(value, Point | Box | Circle):
        bad = (isinstance(value, Point) and isnan(value.lon)) or (isinstance(value, Box) and value.min_x > value.max_x)
        return None if bad else ("geometry", value)
    return None
