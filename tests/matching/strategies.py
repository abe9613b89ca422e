"""The one strategy that draws the whole language: conditions, attributes, published conditions, subscriptions, publications.

Index, engine and history are all held against the oracle with it, so a new type or operator is added here, once. Pools are small and an
attribute has a type that it mostly is of, so that constants meet; the awkward values are in the pools, the commonest at their beginning.

    texts(), structured()           what subscriptions ask: SQL text, or disjuncts of predicates
    conditions()                    either of them, read
    published_conditions()          what publications may say: the same without `previous.`
    attributes()                    constants of publications; `strange=True` adds what compares with nothing
    subscriptions(), publications() the oracle's records, with topics, scopes, windows and every semantics
    said_to(), meeting()            what is published in answer to a condition or a subscription: a good part of these match
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pastforward.columns.vocabulary import SEMANTICS
from pastforward.matching import Condition
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.limits import MAX_PATH_DEPTH
from pastforward.matching.conditions.normal_form import PREVIOUS, Constraint, NormalForm
from pastforward.matching.conditions.oracle import Publication, Subscription
from pastforward.matching.conditions.predicates import Predicate, predicates_of
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from tests.matching.naive import Leaf, Node, text

NUMBERS = [
    *(0, 1, 2, 0.5, 3, 5, -1, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(-0.0, 1.0, 2.5, 5e-324, float(2**53), float(2**63), -float(2**63), 1e300, inf, -inf, sys.float_info.max),
]
STRINGS = [
    "a",
    "ab",
    "",
    "b",
    "abc",
    "a\nb",
    "x" * 20,
    "x" * 20 + "y",
    "ba",
    "a%b",
    "a_",
    "é",
    "日本",
    "a\0",
    "\0",
    "it's",
    "\ud7ff",
    "\ue000x",
    "\U0010ffff",
    "A!",
    "AB",
    "É\u212aſ",
    "ékS",
]
TIMES = [
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 2, tzinfo=UTC),
    datetime(2026, 1, 1, 3, tzinfo=timezone(timedelta(hours=3))),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
]
DEEPEST = [Path(".".join([component] * MAX_PATH_DEPTH)) for component in ("1", "0", str(2**63 - 1))]
PATHS = [
    *(Path(path) for path in ("1.4", "1", "1.4.2", "", "0", "1.4.0", "1.5", "1.9", "1.10", "2", f"1.{2**63 - 1}")),
    *DEEPEST,
]
SHAPES = [
    *(Point(1.0, 1.0), Box(0.0, 0.0, 1.0, 1.0), Circle(0.5, 0.5, 200_000.0), Point(5.0, 5.0)),
    *(Point(0.0, 0.0), Point(180.0, 0.0), Point(-180.0, 0.0), Point(0.0, 90.0), Point(180.0, -90.0)),
    *(
        Box(1.0, 1.0, 2.0, 2.0),
        Box(-1.0, -1.0, 2.0, 2.0),
        Box(170.0, -5.0, 180.0, 5.0),
        Box(-180.0, -90.0, 180.0, 90.0),
        Box(-sys.float_info.max, 0.0, sys.float_info.max, 0.0),
    ),
    *(Circle(0.0, 0.0, 1000.0), Circle(179.9, 0.0, 50_000.0), Circle(0.0, 90.0, 1e6), Circle(-179.9, 1.0, 50_000.0)),
    *(Circle(90.0, 89.5, 1e5), Circle(45.0, 0.0, 1.2e7), Box(-180.0, -5.0, -170.0, 5.0), Box(200.0, 0.0, 300.0, 95.0)),
]
PATTERNS = [
    "a%",
    "%b",
    "%b%",
    "%",
    "%a",
    "a%b",
    "_",
    "a_%",
    "%_a",
    "abc",
    "a!%b",
    "!_%",
    "",
    "%%a%%",
    "\U0010ffff%",
    "_%_",
    "%B",
    "éK%",
    "%ks%",
]
EXPRESSIONS = ["a", "^a", "b$", "a.*b", "[0-9]+", "^(a|b)c?$", "日", r"\ba", "(?i)A$", "[^a]{2}", "^$", "é|\\x{10ffff}"]
_POOLS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "number": NUMBERS,
    "string": STRINGS,
    "timestamp": TIMES,
    "path": PATHS,
    "geometry": SHAPES,
}
LONGEST_NAME = "ñ" * 127 + "n"
# What an attribute mostly is.
FAVOURITES = {
    "x": "number",
    "y": "string",
    "z": "timestamp",
    "select": "geometry",
    "path": "path",
    "flag": "boolean",
    'o"dd name': "number",
    LONGEST_NAME: "path",
}
NAMES = list(FAVOURITES)
PREVIOUS_NAMES = ["previous.x", "previous.y"]
# Present, and comparable with nothing.
STRANGE = [
    nan,
    2**63,
    "\ud800",
    Path("1..2"),
    Point(nan, 0.0),
    Point(180.5, 0.0),
    Point(0.0, -91.0),
    Box(2.0, 0.0, 1.0, 0.0),
    b"bytes",
    [1],
]

TOPICS = ["", "1", "1.4", "1.4.2", "1.10", "2"]
SEVERAL_TOPICS = ["1.4.2,2", "1.4,1.10", "1.4.2,1.10,2,3"]
MOMENTS = [0, 10, 20, 30]

names = st.sampled_from(["x", "x", "y", "y", *NAMES])
own_or_previous = st.one_of(names, names, names, names, st.sampled_from(PREVIOUS_NAMES))


def _of(family: str) -> st.SearchStrategy[Any]:
    """Values of a type; its first few half of the time."""
    pool = _POOLS[family]
    return st.one_of(st.sampled_from(pool[:4]), st.sampled_from(pool))


def _family(name: str) -> st.SearchStrategy[str]:
    """Mostly the one that the attribute likes."""
    liked = FAVOURITES[name.removeprefix("previous.")]
    return st.sampled_from([*[liked] * 15, *_POOLS])


@st.composite
def constants_of(draw: st.DrawFn, name: str) -> Any:
    return draw(_of(draw(_family(name))))


constants: st.SearchStrategy[Any] = st.sampled_from(list(_POOLS)).flatmap(_of)
# What a publication may carry: also what compares with nothing.
values: st.SearchStrategy[Any] = st.one_of(
    constants,
    st.sampled_from([None, *STRANGE]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=4),
)

_COMPARISONS = ["<", "<=", ">", ">="]
_EQUALITIES = ["=", "!="]
_RELATIONS = ["overlaps", "contains", "within"]
_OPERATORS = {
    "boolean": [*_EQUALITIES, "IN", "NOT IN", ""],
    "number": [*_EQUALITIES, *_COMPARISONS, *_COMPARISONS, "BETWEEN", "BETWEEN", "NOT BETWEEN", "IN", "NOT IN"],
    "string": [
        *(*_EQUALITIES, *_COMPARISONS, "BETWEEN", "NOT BETWEEN", "IN", "NOT IN"),
        *("LIKE", "LIKE", "NOT LIKE", "NOT LIKE", "REGEXP", "NOT REGEXP"),
        *("ILIKE", "ILIKE", "NOT ILIKE", "LOWER =", "NOT LOWER ="),
    ],
    "timestamp": [*_EQUALITIES, *_COMPARISONS, "BETWEEN", "NOT BETWEEN", "IN", "NOT IN"],
    "path": [*_EQUALITIES, *_COMPARISONS, "BETWEEN", "NOT BETWEEN", "IN", "NOT IN", *_RELATIONS],
    "geometry": [*_EQUALITIES, "IN", "NOT IN", *_RELATIONS, *_RELATIONS],
}


@st.composite
def leaves_of(draw: st.DrawFn, some_names: st.SearchStrategy[str]) -> Leaf:
    """A predicate as SQL writes it, with constants of one type, now and then of two."""
    name = draw(some_names)
    family = draw(_family(name))
    operator = draw(st.sampled_from([*_OPERATORS[family] * 2, "IS NULL", "IS NULL", "IS NOT NULL"]))
    one = _of(family)
    match operator:
        case "IS NULL" | "IS NOT NULL" | "":
            return Leaf(name, operator)
        case "LOWER =" | "NOT LOWER =":
            return Leaf(name, operator, draw(one))
        case "LIKE" | "NOT LIKE" | "ILIKE" | "NOT ILIKE":
            return Leaf(name, operator, draw(st.one_of(st.sampled_from(PATTERNS[:4]), st.sampled_from(PATTERNS))))
        case "REGEXP" | "NOT REGEXP":
            return Leaf(name, operator, draw(st.sampled_from(EXPRESSIONS)))
        case "BETWEEN" | "NOT BETWEEN":
            other = _of(draw(st.sampled_from([family] * 9 + ["number"])))
            return Leaf(name, operator, (draw(one), draw(other)))
        case "IN" | "NOT IN":
            members = draw(st.lists(one, min_size=1, max_size=4))
            return Leaf(name, operator, members + draw(st.sampled_from([[]] * 7 + [[True], ["a"]])))
    if operator not in _RELATIONS and draw(st.booleans()):
        operator = f"mirrored {operator}"
    return Leaf(name, operator, draw(one))


def trees_of(some_names: st.SearchStrategy[str], max_leaves: int = 6) -> st.SearchStrategy[Any]:
    """Predicates under AND, OR and NOT; `tests.matching.naive` writes and evaluates them."""
    leaf = leaves_of(some_names)
    return st.recursive(
        st.one_of(leaf, leaf, leaf, leaf, leaf, leaf, st.booleans()),
        lambda inner: st.one_of(
            st.builds(lambda part: Node("NOT", (part,)), inner),
            st.builds(lambda parts: Node("AND", tuple(parts)), st.lists(inner, min_size=2, max_size=3)),
            st.builds(lambda parts: Node("AND", tuple(parts)), st.lists(inner, min_size=2, max_size=3)),
            st.builds(lambda parts: Node("OR", tuple(parts)), st.lists(inner, min_size=2, max_size=3)),
        ),
        max_leaves=max_leaves,
    )


_NAMES_OF_SQL = {"BETWEEN": "between", "NOT BETWEEN": "not between", "IN": "in", "NOT IN": "not in"}
_TEXT_OPERATORS = ["prefix", "suffix", "substring", "like", "matches"]


def _structured_operators(family: str) -> list[str]:
    """Those of the structured form for a type; what SQL writes with NOT around it has a name there."""
    if family == "string":
        common = [*_EQUALITIES, *_COMPARISONS, "between", "not between", "in", "not in"]
        return [*common, *_TEXT_OPERATORS, *_TEXT_OPERATORS, *(f"not {operator}" for operator in _TEXT_OPERATORS)]
    common = [_NAMES_OF_SQL.get(operator, operator) for operator in _OPERATORS[family] if operator]
    return [*common, *(f"not {operator}" for operator in _RELATIONS if operator in common)]


@st.composite
def predicates_on(draw: st.DrawFn, some_names: st.SearchStrategy[str]) -> Predicate:
    """A predicate of the structured form."""
    name = draw(some_names)
    family = draw(_family(name))
    operator = draw(st.sampled_from([*_structured_operators(family) * 2, "is null", "is null", "is not null"]))
    one = _of(family)
    match operator.removeprefix("not "):
        case "is null" | "is not null":
            return Predicate(name, operator)
        case "like":
            return Predicate(name, operator, draw(st.sampled_from(PATTERNS)).replace("!", "\\"))
        case "matches":
            return Predicate(name, operator, draw(st.sampled_from(EXPRESSIONS)))
        case "between":
            return Predicate(name, operator, draw(one), draw(one))
        case "in":
            return Predicate(name, operator, tuple(draw(st.lists(one, min_size=1, max_size=4))))
    return Predicate(name, operator, draw(one))


def structured(previous: bool = True, least: int = 0) -> st.SearchStrategy[list[list[Predicate]]]:
    """Conditions in the structured form. `least`: disjuncts, and predicates in each."""
    predicate = predicates_on(own_or_previous if previous else names)
    return st.lists(st.lists(predicate, min_size=least, max_size=4), min_size=least, max_size=3)


leaves = leaves_of(own_or_previous)
trees = trees_of(own_or_previous)


def texts(max_leaves: int = 6, previous: bool = True) -> st.SearchStrategy[str]:
    """Conditions as SQL text."""
    return trees_of(own_or_previous if previous else names, max_leaves).map(text)


def conditions(max_leaves: int = 6, previous: bool = True) -> st.SearchStrategy[Condition]:
    parsed = texts(max_leaves, previous).map(Condition.parse)
    return st.one_of(parsed, parsed, structured(previous).map(Condition.from_predicates))


def published_conditions(max_leaves: int = 4) -> st.SearchStrategy[Condition]:
    return conditions(max_leaves, previous=False)


@st.composite
def attributes_of(draw: st.DrawFn, strange: bool = True, most: int = 5) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in draw(st.lists(names, max_size=most, unique=True)):
        if strange and draw(st.integers(0, 9)) == 0:
            found[name] = draw(st.sampled_from([None, *STRANGE]))
        else:
            found[name] = draw(constants_of(name))
    return found


attributes = attributes_of()


def _admitted(constraint: Constraint) -> list[Any]:
    """Values of the pools that satisfy it."""
    return [value for pool in _POOLS.values() for value in pool if satisfies(constraint, value)]


@st.composite
def said_to(draw: st.DrawFn, asked: NormalForm, constants_too: bool = True) -> tuple[dict[str, Any], Condition]:
    """Constants and a condition, by somebody who has read one of the disjuncts: mostly on its attributes, mostly what it wants."""
    given: dict[str, Any] = {}
    predicates: list[Predicate] = []
    for name, constraint in draw(st.sampled_from(asked)) if asked else ():
        if name.startswith(PREVIOUS):
            continue
        how = draw(st.integers(0, 11))
        admitted = _admitted(constraint)
        if how < 4:
            predicates += predicates_of(name, constraint)
        elif how < 9 and admitted:
            value = draw(st.sampled_from(admitted))
            if constants_too and draw(st.booleans()):
                given[name] = value
            else:
                other = draw(constants_of(name))
                members = (value, other) if comparable_kind(value) == comparable_kind(other) else (value,)
                predicates.append(Predicate(name, "in", members))
        elif how < 10:
            predicates.append(Predicate(name, "is not null"))
        elif how < 11:
            predicates.append(draw(predicates_on(st.just(name))))
    if draw(st.integers(0, 7)) == 0:
        predicates.append(draw(predicates_on(names)))
    said = [predicates]
    if draw(st.integers(0, 3)) == 0:
        said += draw(structured(previous=False))
    return given, Condition.from_predicates(said)


def comparable_kind(value: Any) -> str:
    return next(family for family, pool in _POOLS.items() if any(type(value) is type(member) for member in pool))


@st.composite
def meeting(draw: st.DrawFn, subscription: Subscription) -> Publication:
    """A publication that answers a subscription: mostly where it is and when."""
    given, said = draw(said_to(subscription.disjuncts))
    previous = draw(attributes_of(most=2))
    for name, constraint in draw(st.sampled_from(subscription.disjuncts)) if subscription.disjuncts else ():
        if name.startswith(PREVIOUS) and (admitted := _admitted(constraint)):
            previous[name.removeprefix(PREVIOUS)] = draw(st.sampled_from(admitted))
    here = draw(st.integers(0, 3)) > 0
    return Publication(
        attributes=given,
        where=said.disjuncts,
        topic=draw(st.sampled_from(subscription.topic.split(","))) if here else draw(st.sampled_from(TOPICS)),
        published_at=subscription.starts_at or 0 if here else draw(st.sampled_from(MOMENTS)),
        expires_at=None if here else draw(st.sampled_from([None, *MOMENTS])),
        previous=previous,
    )


def subscriptions() -> st.SearchStrategy[Subscription]:
    return st.builds(
        Subscription,
        disjuncts=conditions().map(lambda condition: condition.disjuncts),
        topic=st.sampled_from([*[""] * 8, *TOPICS, *SEVERAL_TOPICS]),
        scope=st.sampled_from(("overlap", "subtree")),
        starts_at=st.sampled_from([*[None] * 6, *MOMENTS]),
        ends_at=st.sampled_from([*[None] * 6, *MOMENTS]),
        time=st.sampled_from(("published", "valid")),
        semantics=st.sampled_from(("classical", *SEMANTICS)),
    )


def publications(strange: bool = True) -> st.SearchStrategy[Publication]:
    """Some of constants alone, some with a condition as well, some with a condition alone."""

    def placed(given: st.SearchStrategy[Any], where: st.SearchStrategy[Condition]) -> st.SearchStrategy[Publication]:
        return st.builds(
            Publication,
            attributes=given,
            where=where.map(lambda condition: condition.disjuncts),
            topic=st.sampled_from([*[""] * 8, *TOPICS, "1.4.9", "3"]),
            published_at=st.sampled_from(MOMENTS),
            expires_at=st.sampled_from([*[None] * 4, *MOMENTS]),
            previous=attributes_of(strange, most=2),
        )

    said = published_conditions()
    return st.one_of(
        placed(attributes_of(strange), st.just(Condition())),
        placed(attributes_of(strange, most=2), said),
        placed(st.just({}), said),
    )


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not what it is"


class Whole(int):
    pass


class Real(float):
    pass


def dressed(value: Any, which: int) -> Any:
    """The same value of another type: a scalar of NumPy, or a subclass. `which` chooses."""
    if isinstance(value, bool):
        return (value, np.bool_(value))[which % 2]
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return (value, np.int64(value), Whole(value), np.int8(value) if -128 <= value < 128 else value)[which % 4]
    if isinstance(value, float):
        # as Python's floats: NumPy would compare as single ones, of which the least above zero is 1e-45
        exact = abs(value) < 1e30 and float(np.float32(value)) == value
        return (value, np.float64(value), Real(value), np.float32(value) if exact else value)[which % 4]
    if isinstance(value, str) and type(value) is str:
        return (value, np.str_(value), Text(value))[which % 3]
    if isinstance(value, Point | Box | Circle):
        return type(value)(*(dressed(getattr(value, name), which + 1) for name in value.__slots__))
    if isinstance(value, Path):
        return Path(dressed(value.text, which))
    if (
        isinstance(value, datetime)
        and which % 2
        and datetime(1970, 1, 1, tzinfo=UTC) < value < datetime(2200, 1, 1, tzinfo=UTC)
    ):
        return np.datetime64(value.astimezone(UTC).replace(tzinfo=None), "us")
    return value
