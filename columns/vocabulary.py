"""The words that conditions, records and stores share: scopes, what a window compares, semantics, operators.

In a column of numbers a word is its place in its tuple.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Scope: TypeAlias = Literal["overlap", "subtree"]
TimeBasis: TypeAlias = Literal["published", "valid"]
Semantics: TypeAlias = Literal["classical", "symmetric", "intersect"]
Deliver: TypeAlias = Literal["content", "ids"]
Transition: TypeAlias = Literal["entered", "updated", "left"]

SCOPES: Final[tuple[Scope, ...]] = ("overlap", "subtree")
TIME_BASES: Final[tuple[TimeBasis, ...]] = ("published", "valid")
SEMANTICS: Final[tuple[Semantics, ...]] = ("classical", "symmetric", "intersect")
DELIVERIES: Final[tuple[Deliver, ...]] = ("content", "ids")
TRANSITIONS: Final[tuple[Transition, ...]] = ("entered", "updated", "left")

OVERLAP, SUBTREE = 0, 1
PUBLISHED, VALID = 0, 1
CLASSICAL, SYMMETRIC, INTERSECT = 0, 1, 2
CONTENT, IDS = 0, 1

# Avro's names for operators (symbols allow neither signs nor blanks), in the order of the enum.
SYMBOLS: Final[dict[str, str]] = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_or_equal": "<=",
    "greater": ">",
    "greater_or_equal": ">=",
    "between": "between",
    "not_between": "not between",
    "in": "in",
    "not_in": "not in",
    "prefix": "prefix",
    "not_prefix": "not prefix",
    "suffix": "suffix",
    "not_suffix": "not suffix",
    "substring": "substring",
    "not_substring": "not substring",
    "like": "like",
    "not_like": "not like",
    "matches": "matches",
    "not_matches": "not matches",
    "overlaps": "overlaps",
    "not_overlaps": "not overlaps",
    "contains": "contains",
    "not_contains": "not contains",
    "within": "within",
    "not_within": "not within",
    "is_null": "is null",
    "is_not_null": "is not null",
}
OPERATORS: Final = frozenset(SYMBOLS.values())

# Both ways. Not `between`: there the parser builds two comparisons.
NEGATED: Final = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<="}
NEGATED.update(
    (operator, opposite)
    for positive in ("in", "prefix", "suffix", "substring", "like", "matches", "overlaps", "contains", "within")
    for operator, opposite in ((positive, f"not {positive}"), (f"not {positive}", positive))
)
NEGATED.update({"is null": "is not null", "is not null": "is null"})
