"""Errors say where, what, and what to write instead; limits are enforced before they hurt."""

from __future__ import annotations

import pytest

from pastforward.matching import Condition, ConditionError
from pastforward.matching.conditions.limits import (
    MAX_DEPTH,
    MAX_DISJUNCTS,
    MAX_MEMBERS,
    MAX_NAME_BYTES,
    MAX_PATH_DEPTH,
    MAX_PATTERN_LENGTH,
    MAX_PREDICATES,
    MAX_TEXT_LENGTH,
    MAX_WRITTEN_CONSTANTS,
    MAX_WRITTEN_PREDICATES,
)
from pastforward.matching.conditions.predicates import Predicate


def error_of(text: str) -> ConditionError:
    with pytest.raises(ConditionError) as caught:
        Condition.parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("", 0, "empty"),
        ("  \n", 0, "empty"),
        ("speed > limit", 8, "two attributes"),
        ("kind = accident", 7, "a text stands in single quotes: 'accident'"),
        ('kind = "accident"', 7, "a text stands in single quotes: 'accident'"),
        ('kind = "the driver\'s"', 7, "a text stands in single quotes: 'the driver''s'"),
        ("x = 1 && y = 2", 6, "&& is no operator of conditions. Write AND"),
        ("x = 1 || y = 2", 6, "|| is no operator of conditions. Write OR"),
        ("x = 1 & y = 2", 6, "operators on bits"),
        ("!(x = 1)", 0, "Write NOT"),
        ("speed + 1 > 2", 6, "arithmetic"),
        ("speed - 1 > 2", 6, "arithmetic"),
        ("speed-1 > 2", 5, "arithmetic"),
        ("upper(kind) = 'a'", 0, "upper()"),
        ("kind ~ 'a.{900}z'", 7, "shorter counted repetitions"),
        ("lower(kind)", 6, "LOWER(x) is no condition"),
        ("lower(kind) < 'a'", 6, "has no order"),
        ("lower(kind) = 3", 6, "something else than a string"),
        ("kind ILIKE 'a!' ESCAPE '!'", 11, "ends with its escape"),
        ("kind = 'a' kind = 'b'", 11, "operator is missing"),
        ("kind = NULL", 0, "IS NULL"),
        ("kind IN (1, NULL)", 0, "IS NULL"),
        ("kind = 'a", 7, "not closed"),
        ('kind = "a', 7, "not closed"),
        ("(kind = 'a'", 11, "not closed"),
        ("kind = 'a')", 10, "not opened"),
        ("x = 1.2.3", 4, "PATH"),
        ("x = 9223372036854775808", 4, "out of range"),
        ("x = -9223372036854775809", 4, "out of range"),
        ("x = 1e400", 4, "out of range"),
        ("x IN (1, 2, 99999999999999999999)", 12, "out of range"),
        ("x REGEXP '('", 9, "not understood"),
        ("x REGEXP '(?=a)'", 9, "not understood"),
        ("t > TIMESTAMP '2026-13-01'", 14, "not a timestamp"),
        ("t > TIMESTAMP '2026-01-01T00:00:00.1234567Z'", 14, "not a timestamp"),
        ("t > DATE '2026-01-01'", 9, "DATE"),
        ("p = PATH '1.04'", 9, "not a path"),
        ("within(x, BOX(1, 2, 3))", 21, "BOX takes 4"),
        ("within(x, BOX(3, 0, 1, 1))", 14, "antimeridian"),
        ("within(x, CIRCLE(0, 91, 1))", 17, "radius"),
        ("within(x, CIRCLE(0, 0, -1))", 17, "radius"),
        ("within(x, 3)", 10, "does not take a number"),
        ("within(x)", 7, "two arguments"),
        ("x < TRUE", 0, "boolean"),
        ("x < POINT(1, 2)", 4, "does not take"),
        ("x IS TRUE", 0, "NULL"),
        ("x LIKE 3", 7, "does not take a number"),
        ("x LIKE 'a' ESCAPE 'bc'", 18, "one character"),
        ("x LIKE 'a!' ESCAPE '!'", 7, "ends with its escape"),
        ("x LIKE 'a!b' ESCAPE '!'", 7, "escape"),
        ("1 = 1", 0, "two constants"),
        ("3 BETWEEN low AND high", 0, "BETWEEN"),
        ("x IN ()", 6, "missing"),
        ("x IN (1,, 2)", 8, "missing"),
        ("x IN (y)", 6, "two attributes"),
        ("x IN (SELECT 1)", 13, "queries"),
        ("AND x", 0, "missing before AND"),
        ("x AND", 5, "missing at the end"),
        ("x = = 1", 4, "missing before ="),
        ("x NOT 1", 6, "operator is missing"),
        ("x BETWEEN 1 OR 2", 12, ""),
        ("x = 1; DROP TABLE y", 5, ";"),
        ("x = 1 -- why", 6, "comments"),
        ("a..b = 1", 2, "after the dot"),
        ("(a OR b) = TRUE", 1, "only an attribute"),
        ("'a'", 0, "constant is no condition"),
        ('"" = 1', 0, "name"),
        ("x = '\ud800'", 4, "Unicode"),
    ],
)
def test_errors_point_at_the_place(text: str, position: int, said: str) -> None:
    error = error_of(text)
    assert error.position == position, str(error)
    assert said in str(error)
    assert error.hint


def test_an_error_in_a_known_shape_points_at_the_place_too() -> None:
    Condition.parse("t > TIMESTAMP '2026-01-01' AND x IN (1, 2)")
    assert error_of("t > TIMESTAMP '2026-01-99' AND x IN (1, 2)").position == 14
    assert error_of("t > TIMESTAMP '2026-01-01' AND x IN (1, 2, 99999999999999999999)").position == 43


def test_message_shows_place_problem_and_hint() -> None:
    assert str(error_of("speed > limit")) == (
        "at character 9, near 'limit': two attributes cannot be compared. Compare each with a constant, or use previous.<attribute>; "
        "a text stands in single quotes: 'limit'"
    )


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("x = '" + "a" * MAX_TEXT_LENGTH + "'", MAX_TEXT_LENGTH),
        ("(" * (MAX_DEPTH + 1) + "x" + ")" * (MAX_DEPTH + 1), MAX_DEPTH),
        ("NOT " * (MAX_DEPTH + 1) + "x", MAX_DEPTH),
        ("NOT (" * MAX_DEPTH + "x" + ")" * MAX_DEPTH, MAX_DEPTH),
        (" AND ".join(f"(a{i} < 1 OR a{i} > 2)" for i in range(9)), MAX_DISJUNCTS),
        (" OR ".join(f"a < {i}" for i in range(MAX_DISJUNCTS + 1)), MAX_DISJUNCTS),
        (" AND ".join(f"a{i} = 1" for i in range(MAX_WRITTEN_PREDICATES + 1)), MAX_WRITTEN_PREDICATES),
        (
            " AND ".join(f"(a{i} < 1 OR a{i} > 2)" for i in range(8)) + "".join(f" AND b{i} = 1" for i in range(20)),
            MAX_PREDICATES,
        ),
        ("x IN (" + ",".join(["1"] * (MAX_MEMBERS + 1)) + ")", MAX_MEMBERS),
        ("x IN (" + ",".join(["TRUE", *["1"] * (MAX_WRITTEN_CONSTANTS + 1)]) + ")", MAX_WRITTEN_CONSTANTS),
        ("x REGEXP '" + "a" * (MAX_PATTERN_LENGTH + 1) + "'", MAX_PATTERN_LENGTH),
        ("x LIKE 'b_" + "a" * MAX_PATTERN_LENGTH + "'", MAX_PATTERN_LENGTH),
        ("x" * (MAX_NAME_BYTES + 1) + " = 1", MAX_NAME_BYTES),
        ("p = PATH '" + ".".join(["1"] * (MAX_PATH_DEPTH + 1)) + "'", MAX_PATH_DEPTH),
    ],
)
def test_limits_are_named(text: str, limit: int) -> None:
    assert f"{limit:,}" in str(error_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH,
        "NOT " * MAX_DEPTH + "x",
        "NOT (" * (MAX_DEPTH // 2) + "x" + ")" * (MAX_DEPTH // 2),
        " AND ".join(f"(a{i} < 1 OR a{i} > 2)" for i in range(8)),
        " OR ".join(f"a{i} = 1" for i in range(MAX_DISJUNCTS)),
        " AND ".join(f"a{i} = 1" for i in range(MAX_WRITTEN_PREDICATES)),
        "x IN (" + ",".join(map(str, range(MAX_MEMBERS))) + ")",
    ],
)
def test_what_is_just_within_the_limits_is_taken(text: str) -> None:
    assert not Condition.parse(text).never


@pytest.mark.parametrize(
    "unit", ["'", '"', "`", "(", "'\"", "\"'", "-", "1", "NOT ", "x IN (1,", " ", "/*", "1e", "a.", "'' "]
)
def test_hostile_texts_are_refused_in_linear_time(unit: str) -> None:
    assert error_of((unit * MAX_TEXT_LENGTH)[:MAX_TEXT_LENGTH]).hint


def test_many_alternatives_of_one_attribute_are_a_list() -> None:
    assert (
        str(Condition.parse(" OR ".join(f"x = {i}" for i in range(500)))) == f"x IN ({', '.join(map(str, range(500)))})"
    )


@pytest.mark.parametrize(
    "predicate",
    [
        ("x", "like a"),
        ("x", "=", None),
        ("x", "=", 2**63),
        ("x", "=", float("nan")),
        ("x", "<", True),
        ("x", "prefix", 3),
        ("x", "matches", "("),
        ("x", "in", ()),
        ("x", "in", (1, "a")),
        ("x", "in", 3),
        ("x", "overlaps", "a"),
        ("", "=", 1),
        ("\ud800", "=", 1),
        ("n" * 256, "=", 1),
        (3, "=", 1),
    ],
)
def test_the_structured_form_is_checked_as_well(predicate: tuple[object, ...]) -> None:
    with pytest.raises(ConditionError) as caught:
        Condition.from_predicates([[predicate]])
    assert caught.value.hint


def test_the_structured_form_has_limits() -> None:
    with pytest.raises(ConditionError, match="256 disjuncts"):
        Condition.from_predicates([[Predicate(f"x{i}", "<", 1)] for i in range(MAX_DISJUNCTS + 1)])
    with pytest.raises(ConditionError, match="10,000 values"):
        Condition.from_predicates([[Predicate("x", "in", tuple(range(MAX_MEMBERS + 1)))]])
    with pytest.raises(ConditionError, match="4,096 predicates"):
        Condition.from_predicates([[Predicate("x", "<", 1)] * (MAX_PREDICATES + 1)])


def test_a_string_that_is_not_closed_does_not_pass_for_a_known_shape() -> None:
    Condition.parse("kind = 'a'")
    Condition.parse("kind IN ('a', 'b')")
    assert error_of("kind = 'a").position == 7
    assert error_of("kind IN ('a', 'b").position == 14
