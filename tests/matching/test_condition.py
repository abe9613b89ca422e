"""What conditions say of themselves: normal form, cost, explanation, and the awkward numbers."""

from __future__ import annotations

import pytest

from pastforward.matching import Circle, Condition, Path
from pastforward.matching.conditions.normal_form import (
    Constraint,
    Family,
    Pattern,
    PatternKind,
    path_after_subtree,
    string_after_prefix,
)
from pastforward.matching.conditions.predicates import Predicate


def only(text: str) -> Constraint:
    ((named,),) = Condition.parse(text).disjuncts
    return named[1]


def test_repeated_predicates_merge_into_a_range_with_exclusions() -> None:
    assert only("x > 3 AND x <= 9 AND x != 5 AND x != 20") == Constraint(
        Family.NUMBER, 3, False, 9, True, excluded=(5,)
    )


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("x LIKE 'ab%'", Constraint(Family.STRING, "ab", True, "ac", False)),
        ("x > 'a'", Constraint(Family.STRING, "a\0")),
        ("x LIKE '%'", Constraint(Family.STRING)),
        ("x NOT LIKE 'ab%'", Constraint(Family.STRING, patterns=(Pattern(PatternKind.PREFIX, "ab", True),))),
        ("x >= 'ab' AND x NOT LIKE 'ab%'", Constraint(Family.STRING, "ac")),
        ("x > TIMESTAMP '1970-01-01'", Constraint(Family.TIMESTAMP, 1)),
        ("within(x, PATH '1.4')", Constraint(Family.PATH, (1, 4), True, (1, 5), False)),
        ("contains(x, PATH '1.4')", Constraint(Family.PATH, included=((), (1,), (1, 4)))),
        ("x >= 3 AND x <= 3.0", Constraint(Family.NUMBER, included=(3,))),
        ("x IS NOT NULL AND x < 3", Constraint(Family.NUMBER, None, True, 3, False)),
    ],
)
def test_the_normal_form_is_canonical(text: str, constraint: Constraint) -> None:
    assert only(text) == constraint


@pytest.mark.parametrize(
    "text",
    [
        "FALSE",
        "x > 3 AND x < 3",
        "x = 1 AND x = 'a'",
        "x = 1 AND x IS NULL",
        "x NOT IN (1, 'a')",
        "x NOT LIKE '%'",
        "x LIKE '%a' AND x LIKE '%b'",
        "x LIKE '%ab%' AND x NOT LIKE '%a%'",
        "x LIKE '%ab' AND x NOT LIKE '%b'",
        "x LIKE 'ab%' AND x NOT LIKE 'a%'",
        "x REGEXP 'a' AND x NOT REGEXP 'a'",
        "x < ''",
        "x < -INFINITY",
        "x > INFINITY",
        "x > TIMESTAMP '2026-01-01T00:00:00Z' AND x < TIMESTAMP '2026-01-01T00:00:00.000001Z'",
        "x > PATH '1' AND x < PATH '1.0'",
        "within(x, BOX(0, 0, 1, 1)) AND within(x, BOX(2, 2, 3, 3))",
        "within(x, BOX(0, 0, 1, 1)) AND contains(x, POINT(5, 5))",
        "contains(x, POINT(1, 1)) AND NOT overlaps(x, BOX(0, 0, 2, 2))",
        "overlaps(x, POINT(1, 1)) AND NOT overlaps(x, BOX(0, 0, 2, 2))",
        "within(x, POINT(1, 1)) AND NOT within(x, BOX(0, 0, 2, 2))",
        "contains(x, BOX(0, 0, 2, 2)) AND NOT contains(x, POINT(1, 1))",
    ],
)
def test_what_can_never_be_true_says_so(text: str) -> None:
    condition = Condition.parse(text)
    assert condition.never
    assert str(condition) == "FALSE"
    assert str(condition.explain({"x": 1})) == "the condition can never be true"


@pytest.mark.parametrize("text", ["TRUE", "NOT FALSE", "x = 1 OR TRUE", "TRUE AND TRUE"])
def test_what_always_holds_says_so(text: str) -> None:
    assert Condition.parse(text).always
    assert Condition.parse(text).holds({})


def test_one_integer_above_what_a_float_can_tell() -> None:
    condition = Condition.parse("x = 9007199254740993")
    assert condition.holds({"x": 2**53 + 1})
    assert not condition.holds({"x": 2**53})
    assert not condition.holds({"x": float(2**53)})
    assert not Condition.parse("x = 9223372036854775807").holds({"x": float(2**63)})
    assert Condition.parse("x < 9223372036854775808.0").holds({"x": 2**63 - 1})


def test_names_are_case_sensitive_and_keywords_are_not() -> None:
    condition = Condition.parse(
        'Speed > 1 and speed < 5 AnD "Select" iS nUlL AND `odd``name` = 1 AND previous.speed < 3'
    )
    assert condition.attributes == {"Speed", "speed", "Select", "odd`name", "previous.speed"}
    assert condition.needs_previous
    assert not Condition.parse("speed < 3").needs_previous


def test_words_with_a_meaning_can_be_names_where_it_is_clear() -> None:
    assert Condition.parse("timestamp > 3 AND path = 'a' AND point = 1 AND within = 2").attributes == {
        "timestamp",
        "path",
        "point",
        "within",
    }


def test_infix_and_function_are_the_same() -> None:
    for name in ("overlaps", "contains", "within"):
        infix, function = (Condition.parse(t) for t in (f"x {name} BOX(0,0,1,1)", f"{name}(x, BOX(0,0,1,1))"))
        assert infix == function
        assert Condition.parse(f"x NOT {name} BOX(0,0,1,1)") == Condition.parse(f"NOT {name}(x, BOX(0,0,1,1))")
    texts = ("x ~ 'a'", "x REGEXP 'a'", "x RLIKE 'a'", "x MATCHES 'a'", "matches(x, 'a')", "regexp_like(x, 'a')")
    assert len({Condition.parse(text) for text in texts}) == 1
    assert Condition.parse("x !~ 'a'") == Condition.parse("NOT x ~ 'a'")


def test_cost_counts_what_is_dear() -> None:
    cost = Condition.parse("(kind = 'a' AND road REGEXP 'x+') OR note LIKE '%b%' OR lane IN (1, 2, 3)").cost
    assert (cost.disjuncts, cost.predicates, cost.members, cost.patterns, cost.expressions) == (3, 4, 4, 2, 1)
    assert cost.unselective == 1
    assert Condition.parse("within(x, CIRCLE(0, 0, 1))").cost.tests == 1


def test_explain_names_predicate_and_value() -> None:
    condition = Condition.parse("severity BETWEEN 3 AND 9 AND kind = 'accident' AND lane != 4")
    explanation = condition.explain({"severity": 2, "kind": "accident"})
    assert str(explanation) == "lane != 4 fails: lane is absent\nseverity BETWEEN 3 AND 9 fails: severity is 2"
    assert str(condition.explain({"severity": 3, "kind": "accident", "lane": 1})) == "the condition holds"
    either = Condition.parse("x = 'a' OR within(p, PATH '1')").explain({"x": 3, "p": Path("2")})
    assert str(either) == (
        "alternative 1: x = 'a' fails: x is 3\nalternative 2: within(p, PATH '1') fails: p is PATH '2'"
    )


def test_structured_form_of_every_kind() -> None:
    text = "a = 1 AND b > 2 AND c LIKE 'p%' AND d NOT LIKE '%s' AND e REGEXP 'r' AND f IS NULL AND g IN (1, 2)"
    assert Condition.parse(text).to_structured() == [
        [
            Predicate("a", "=", 1),
            Predicate("b", ">", 2),
            Predicate("c", "prefix", "p"),
            Predicate("d", "not suffix", "s"),
            Predicate("e", "matches", "r"),
            Predicate("f", "is null"),
            Predicate("g", "in", (1, 2)),
        ]
    ]
    assert Condition.from_predicates([[("x", "within", Circle(0, 0, 5))]]) == Condition.parse(
        "within(x, CIRCLE(0, 0, 5))"
    )
    assert Condition.from_predicates([[("x", "=", 1)], [("x", "=", 2)]]) == Condition.parse("x IN (1, 2)")
    assert Condition.from_predicates([[("x", "=", 1), ("x", "=", 2)]]).never
    assert Condition.from_predicates([[]]) == Condition.parse("TRUE")


def test_conditions_are_values() -> None:
    assert (
        len(
            {
                Condition.parse("x = 1"),
                Condition.parse("x = 1.0"),
                Condition.parse("1 = x"),
                Condition.parse("x IN (1)"),
            }
        )
        == 1
    )
    assert Condition() == Condition.parse("TRUE")


def test_successors() -> None:
    assert string_after_prefix("a\ud7ff") == "a\ue000"
    assert string_after_prefix("a\U0010ffff") == "b"
    assert string_after_prefix("\U0010ffff") is None
    assert path_after_subtree((1, 2**63 - 1)) == (2,)
    assert path_after_subtree(()) is None


def test_nothing_lies_beyond_the_calendar() -> None:
    """A bound a microsecond behind the last moment could be written into a record, and not be read again."""
    first, last = "TIMESTAMP '0001-01-01T00:00:00Z'", "TIMESTAMP '9999-12-31T23:59:59.999999Z'"
    for text in (f"z > {last}", f"z < {first}", f"z >= {last} AND z != {last}", f"z NOT BETWEEN {first} AND {last}"):
        assert Condition.parse(text).never
        assert Condition.parse(f"{text} OR z = {last}") == Condition.parse(f"z = {last}")
