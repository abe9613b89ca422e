"""Whatever text or structure comes in, reading it gives a condition or a `ConditionError`, and the same whether its shape was known or not.

Texts are drawn from a grammar of the whole language, and most are then damaged: by tokens, by characters, by splicing two of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import numpy as np
import pytest

from pastforward.matching import Condition, ConditionError
from pastforward.matching.conditions import templates as shapes
from pastforward.matching.conditions.limits import MAX_SHAPES, MAX_SHAPES_WEIGHT
from pastforward.matching.conditions.predicates import BUILDERS, Predicate
from pastforward.matching.conditions.template_cache import ShapeCache
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from tests.matching.strategies import EXPRESSIONS, NUMBERS, PATHS, PATTERNS, SHAPES, STRINGS, TIMES

NAMES = ["x", "y", "previous.x", '"o""dd name"', "`tick``ed`", "select", "point", "infinity", "_é9", "previous . y"]
NUMERALS = [
    *("0", "1", "-1", "+1", "- 1", "5.", ".5", "-.5", "+.5", "- .5", "1e5", "1.e5", ".5e-3", "1E+5", "-0.0", "007"),
    *("9223372036854775807", "-9223372036854775808", "9223372036854775808", "9" * 19, "9" * 20, "9" * 5000, "1e308", "1e999"),
    *("-1e999", "1e-999", "0." + "0" * 400 + "1", "INFINITY", "-infinity", "+ Infinity"),
]  # fmt: skip
TEXTS = [
    "''",
    "'a'",
    "'it''s'",
    "'%'",
    "'a%'",
    "'%a'",
    "'%a%'",
    "'a_b%'",
    r"'\%'",
    "'é日本'",
    "'a\nb'",
    "'\x00'",
    "'\ud800'",
    "'1.4.2'",
]
TYPED = [
    *("TIMESTAMP '2026-01-31T12:00:00Z'", "timestamp '2026-01-31'", "TIMESTAMP '2026-02-30'", "TIMESTAMP '0001-01-01T00:00:00+23:59'"),
    *("TIMESTAMP '9999-12-31T23:59:59.999999-23:59'", "TIMESTAMP ''", "PATH '1.4.2'", "PATH ''", "path '1.'", "PATH '9223372036854775808'"),
    *("PATH '" + ".".join("1" * 300) + "'", "TRUE", "FALSE", "NULL"),
]  # fmt: skip
EXPRESSION_TEXTS = [
    "'a.*b'",
    "'('",
    "'[0-9]+'",
    "'(?=a)'",
    "'a{1000}{1000}'",
    "'\\C'",
    "'(?i)a'",
    "''",
    "'" + "(a|" * 600 + "'",
]
SPACES = [" ", " ", " ", "", "  ", "\n", "\t", "\u00a0"]
_SIGNS = "é ١ ² ½ Ⅷ ' \" ` ; -- /* */ # $1 ? :x @x {{ }} {% \\ || :: [ ] ( ) , . .. = ! ~ % e E 0"
STRANGE = [*_SIGNS.split(), "\x00", "\x1b", "\u200b", "\u2028", "\ufeff", "\ud800", "\udfff", "\U0010ffff"]
_WORDS = """
AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE FALSE REGEXP RLIKE OVERLAPS CONTAINS WITHIN MATCHES REGEXP_LIKE POINT BOX
CIRCLE TIMESTAMP PATH INFINITY ILIKE LOWER SELECT CASE WHEN END CAST AS INTERVAL DATE EXISTS ANY ALL SOME FROM WHERE DIV COLLATE
AT OVER FILTER ISNULL NOTNULL GLOB SIMILAR TO UNKNOWN DISTINCT VALUES LAMBDA MATCH AGAINST BINARY XOR SET USING E N X B R
"""
WORDS = _WORDS.split()


class Grammar:
    """Tokens of a valid condition, more or less: constants may be out of range, and of a type that the operator does not take."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def condition(self, depth: int = 0) -> list[str]:
        random = self._random
        choice = random.random()
        if depth > 3 or choice < 0.5:
            return self.predicate()
        if choice < 0.6:
            return ["NOT", *self.condition(depth + 1)]
        if choice < 0.75:
            return ["(", *self.condition(depth + 1), ")"]
        joined = self.condition(depth + 1)
        for _ in range(random.randint(1, 2)):
            joined += [random.choice(["AND", "OR", "and"]), *self.condition(depth + 1)]
        return joined

    def constant(self) -> str:
        random = self._random
        return random.choice(random.choice([NUMERALS, NUMERALS, TEXTS, TYPED, [self.shape()]]))

    def shape(self) -> str:
        random = self._random
        name, count = random.choice([("POINT", 2), ("CIRCLE", 3), ("BOX", 4), ("box", 4)])
        return f"{name}({', '.join(random.choice(['.5', '0', '1', '-1.5', '90', '1e3', '181']) for _ in range(count))})"

    def predicate(self) -> list[str]:
        random = self._random
        name = random.choice(NAMES)
        match random.randrange(12):
            case 0 | 1:
                return [name, random.choice(["=", "!=", "<>", "<", "<=", ">", ">=", "=="]), self.constant()]
            case 2:
                return [self.constant(), random.choice(["=", "!=", "<", ">="]), name]
            case 3:
                return [name, *random.choice([[], ["NOT"]]), "BETWEEN", self.constant(), "AND", self.constant()]
            case 4:
                pool = random.choice([NUMERALS, TEXTS, [*NUMERALS, *TEXTS, *TYPED]])
                members = [token for _ in range(random.randint(1, 4)) for token in (random.choice(pool), ",")]
                return [name, *random.choice([[], ["NOT"]]), "IN", "(", *members[:-1], ")"]
            case 5:
                escape = random.choice([[], [], ["ESCAPE", random.choice(["'!'", "'\\'", "''", "'ab'"])]])
                return [name, *random.choice([[], ["NOT"]]), "LIKE", random.choice(TEXTS), *escape]
            case 6:
                operator = random.choice(["REGEXP", "RLIKE", "MATCHES", "~", "!~", "NOT REGEXP"])
                return [name, operator, random.choice([*EXPRESSION_TEXTS, *TEXTS])]
            case 7:
                return [random.choice(["matches", "regexp_like"]), "(", name, ",", random.choice(EXPRESSION_TEXTS), ")"]
            case 8:
                relation = random.choice(["overlaps", "contains", "within"])
                return [relation, "(", name, ",", random.choice([self.shape(), "PATH '1.4'"]), ")"]
            case 9:
                relation = random.choice(["OVERLAPS", "CONTAINS", "WITHIN"])
                return [name, relation, random.choice([self.shape(), "PATH '1.4'"])]
            case 10:
                return [name, "IS", *random.choice([[], ["NOT"]]), "NULL"]
        return [random.choice([name, "TRUE", "FALSE"])]


def damaged(random: Random, grammar: Grammar, tokens: list[str]) -> str:
    tokens = list(tokens)
    for _ in range(random.choice([0, 0, 1, 1, 1, 2, 3])):
        at = random.randrange(len(tokens) + 1)
        match random.randrange(6):
            case 0:
                tokens[at : at + 1] = []
            case 1:
                tokens.insert(at, random.choice([*WORDS, *STRANGE, *NAMES, *NUMERALS, *TEXTS, *TYPED]))
            case 2:
                tokens[at : at + 1] = [random.choice([*WORDS, *STRANGE, *NAMES])]
            case 3:
                other = random.randrange(len(tokens) + 1)
                tokens[at : at + 1], tokens[other : other + 1] = tokens[other : other + 1], tokens[at : at + 1]
            case 4:
                tokens[at:at] = tokens[random.randrange(len(tokens) + 1) :][:3]
            case 5:
                tokens = [*tokens[:at], *grammar.condition()[random.randrange(3) :]]
    text = "".join(token + random.choice(SPACES) for token in tokens)
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice(["", random.choice(STRANGE)]) + text[at + random.randrange(2) :]
    return text


def outcome(read: Callable[[], Condition]) -> object:
    try:
        return read().disjuncts
    except ConditionError as error:
        return str(error)


def check_texts(seed: int, count: int) -> None:
    random = Random(seed)
    grammar = Grammar(random)
    warm: ShapeCache[shapes.Shape] = ShapeCache(MAX_SHAPES, MAX_SHAPES_WEIGHT)
    cold: ShapeCache[shapes.Shape] = ShapeCache(MAX_SHAPES, 0)  # keeps nothing
    kept = shapes._known
    read = 0
    try:
        for _ in range(count):
            text = damaged(random, grammar, grammar.condition())
            found = []
            for cache in (warm, warm, cold):
                shapes._known = cache  # type: ignore[misc]
                found.append(outcome(lambda: Condition.parse(text)))  # noqa: B023
            assert found[0] == found[1] == found[2], text
            if isinstance(found[0], tuple):
                read += 1
                written = str(Condition(found[0]))
                if len(written) < 60_000:
                    assert Condition.parse(written).disjuncts == found[0], text
    finally:
        shapes._known = kept  # type: ignore[misc]
    assert read > count // 10  # a fair part is valid


def test_any_text_is_read_or_refused() -> None:
    check_texts(seed=1, count=3000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 104))
def test_any_text_is_read_or_refused_long(seed: int) -> None:
    check_texts(seed, count=50_000)


@pytest.mark.parametrize(
    ("written", "value"),
    [(".5", 0.5), ("-.5", -0.5), ("+.5", 0.5), ("- .5", -0.5), ("5.", 5), ("1.e5", 100_000), (".5e-3", 0.0005), ("1E+2", 100)],
)  # fmt: skip
def test_numbers_as_sql_writes_them(written: str, value: float) -> None:
    one = Condition.from_predicates([[("x", "=", value)]])
    assert Condition.parse(f"x = {written}") == Condition.parse(f"{written} = x") == one
    assert Condition.parse(f"x IN ({written})") == Condition.parse(f"x BETWEEN {written} AND {written}") == one
    assert Condition.parse(f"x > {written}") == Condition.from_predicates([[("x", ">", value)]])
    assert Condition.parse(f"x = BOX({', '.join([written] * 4)})") == Condition.from_predicates(
        [[("x", "=", Box(*[float(value)] * 4))]]
    )


@pytest.mark.parametrize("text", ["x BETWEEN 1 IN y", "x BETWEEN 1 AND", "x IN IN", "x BETWEEN IN AND 1", "x = 1 = 1"])
def test_keywords_are_no_names(text: str) -> None:
    with pytest.raises(ConditionError):
        Condition.parse(text)


DEEP = [
    lambda n: "(" * n + "x = 1" + ")" * n,
    lambda n: "NOT " * n + "x = 1",
    lambda n: "NOT (" * n + "x = 1" + ")" * n,
    lambda n: "(" * n,
    lambda n: ")" * n,
    lambda n: "x = 1" + " AND x = 1" * n,
    lambda n: "x = 1" + " OR y = 1 AND x = 2" * n,
    lambda n: "(x = 1 OR y = 1)" + " AND (x = 2 OR y = 2)" * n,
    lambda n: "x = " + "-" * n + "1",
    lambda n: "x" + ".x" * n + " = 1",
    lambda n: "x IN (" + "1, " * n + "1)",
    lambda n: "x IN (" + "1, 'a', " * n + "1)",
    lambda n: "x IN " + "(" * n + "1" + ")" * n,
    lambda n: "'" * n,
    lambda n: '"' * n,
    lambda n: "x = '" + "''" * n,
    lambda n: "x LIKE '" + "%_" * n + "'",
    lambda n: "x REGEXP '" + "(" * n + ")" * n + "'",
    lambda n: "x = " + "1" * n,
    lambda n: "x = ." + "0" * n + "e" + "9" * n,
    lambda n: " " * n,
    lambda n: "x BETWEEN 1 AND 2 " * n,
    lambda n: "IN (" * n,
    lambda n: "within(" * n,
    lambda n: "BOX(" * n,
    lambda n: "x\0" * n,
    lambda n: "1 " * n,
]  # fmt: skip


@pytest.mark.parametrize("made", DEEP)
@pytest.mark.parametrize("size", [30, 300, 3_000, 30_000, 300_000])
def test_deep_and_long_texts_are_read_or_refused(made: Callable[[int], str], size: int) -> None:
    outcome(lambda: Condition.parse(made(size)))


def test_a_deep_stack_is_no_reason_to_fail_otherwise() -> None:
    text = "NOT (" * 10 + "x = 1 OR y = 2" + ")" * 10

    def below(frames: int) -> object:
        return below(frames - 1) if frames else outcome(lambda: Condition.parse(text))

    for spare in range(60, 400, 20):
        shapes.forget_shapes()
        depth = 0
        frame: Any = sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        below(sys.getrecursionlimit() - depth - spare)


def test_what_is_no_text_is_refused() -> None:
    for thing in (None, 1, b"x = 1", ["x = 1"], Condition()):
        with pytest.raises(ConditionError):
            Condition.parse(thing)  # type: ignore[arg-type]


THINGS: list[Any] = [
    *NUMBERS, *STRINGS, *TIMES, *PATHS, *SHAPES, *PATTERNS, *EXPRESSIONS, None, True, float("nan"), 2**63, 10**400, 10**5000,
    "\ud800", b"bytes", [], [1], (1, "a"), {}, {1}, object(), Predicate, 1j, Path(5), Path(None), Path("1..2"), Path("x" * 9),  # type: ignore[arg-type]
    Path(".".join("1" * 300)),
    Point(float("nan"), 0.0), Point("a", "b"), Point(None, None), Point(10**400, 0), Box(2.0, 0.0, 1.0, 0.0), Box("a", 0, 0, 0),  # type: ignore[arg-type]
    Circle(0.0, 91.0, 1.0), Circle(0.0, 0.0, -1.0), Circle([], 0, 0), np.float64(1), np.float32(0.5), np.int64(3), np.uint64(2**64 - 1),  # type: ignore[arg-type]
    np.bool_(True), np.str_("a"), np.float64("nan"), np.array([1, 2]), np.array(1), np.datetime64("2026-01-01"), np.datetime64("NaT"),
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=23))), datetime.min.replace(tzinfo=timezone(timedelta(hours=23))), datetime.max,
    "(" * 2000, "a" * 2000, "%_" * 2000, range(3), range(20_000),
]  # fmt: skip


def check_predicates(seed: int, count: int) -> None:
    random = Random(seed)
    operators: list[Any] = [*BUILDERS, "between", "is null", "is not null"]
    for _ in range(count):
        given: list[Any] = []
        for _ in range(random.randint(0, 3)):
            disjunct: list[Any] = []
            for _ in range(random.randint(0, 3)):
                thing = random.choice(THINGS)
                if random.random() < 0.2:
                    thing = random.choice([tuple, list])(random.choices(THINGS, k=random.randint(0, 3)))
                name = random.choice(["x", "y", "previous.x", "x", "", 5, None, "\0", "\ud800", "n" * 300, []])
                operator = random.choice([*operators, *operators, "", None, "=>", [], 5])
                predicate: Any = random.choice([tuple, list])([name, operator, thing, random.choice(THINGS)])
                disjunct.append(
                    random.choice([predicate, predicate, predicate[: random.randint(0, 4)], [*predicate, 1], thing])
                )
            given.append(random.choice([disjunct, disjunct, disjunct, tuple(disjunct), random.choice(THINGS)]))
        found = outcome(lambda: Condition.from_predicates(given))  # noqa: B023
        if isinstance(found, tuple):
            condition = Condition(found)
            assert Condition.from_predicates(condition.to_structured()) == condition
            hash(condition)


def test_any_structure_is_read_or_refused() -> None:
    check_predicates(seed=1, count=3000)


@pytest.mark.soak
def test_any_structure_is_read_or_refused_long() -> None:
    check_predicates(seed=2, count=200_000)
