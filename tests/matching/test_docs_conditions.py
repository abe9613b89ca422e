"""Every example of docs/conditions.md is run."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from math import nan
from pathlib import Path as File
from typing import Any

import pytest

from pastforward.columns.vocabulary import SEMANTICS
from pastforward.matching import Condition, ConditionError
from pastforward.matching.conditions import limits
from pastforward.matching.conditions.oracle import Publication, Subscription, matches
from pastforward.matching.conditions.types import value_of

PAGE = File(__file__).parents[2] / "docs" / "conditions.md"
TEXT = PAGE.read_text(encoding="utf-8")


def rows(*header: str) -> list[list[str]]:
    """The rows of all tables with this header."""
    found = []
    inside = False
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if tuple(cells) == header:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and cells[0] != "---":
            found.append(cells)
    assert found, f"no table with the header {header}"
    return found


def code(cell: str) -> str:
    assert cell.startswith("`"), cell
    assert cell.endswith("`"), cell
    return cell[1:-1]


def values(cell: str) -> Iterator[Any]:
    for written in re.findall(r"`[^`]*`|\w+", cell):
        if written == "absent":
            yield None
        elif written == "NaN":
            yield nan
        else:
            ((((_, constraint),),)) = Condition.parse(f"x = {code(written)}").disjuncts
            assert constraint.included is not None
            (constant,) = constraint.included
            # 2^53 is shown as an integer and as a float: they must not come out the same here.
            yield (
                float(code(written))
                if re.fullmatch(r"\d+\.\d+", code(written))
                else value_of(constraint.family, constant)
            )


@pytest.mark.parametrize(("condition", "holds", "fails"), rows("condition", "holds for", "does not hold for"))
def test_what_holds_and_what_does_not(condition: str, holds: str, fails: str) -> None:
    parsed = Condition.parse(code(condition))
    for value in values(holds):
        assert parsed.holds({"x": value}), value
    for value in values(fails):
        assert not parsed.holds({"x": value}), value


@pytest.mark.parametrize(("condition", "becomes"), rows("condition", "becomes"))
def test_what_conditions_become(condition: str, becomes: str) -> None:
    assert str(Condition.parse(code(condition))) == code(becomes)
    assert Condition.parse(code(becomes)) == Condition.parse(code(condition))


@pytest.mark.parametrize(("condition", "error"), rows("condition", "error"))
def test_errors_are_as_shown(condition: str, error: str) -> None:
    with pytest.raises(ConditionError) as caught:
        Condition.parse(code(condition))
    assert str(caught.value) == error


@pytest.mark.parametrize("row", rows("subscription", "publication", *SEMANTICS))
def test_semantics(row: list[str]) -> None:
    wanted, offered = Condition.parse(code(row[0])), Condition.parse(code(row[1]))
    for semantics, answer in zip(SEMANTICS, row[2:], strict=True):
        assert answer in ("yes", "no")
        subscription = Subscription(wanted.disjuncts, semantics=semantics)
        assert matches(subscription, Publication(where=offered.disjuncts)) is (answer == "yes"), semantics
        constants = _constants(offered)
        if constants is not None:
            assert matches(subscription, Publication(constants)) is (answer == "yes"), semantics


def _constants(condition: Condition) -> dict[str, Any] | None:
    """The attributes that say the same as the condition, if constants can say it."""
    if len(condition.disjuncts) != 1:
        return None
    found = {}
    for name, constraint in condition.disjuncts[0]:
        if constraint.included is None or len(constraint.included) != 1:
            return None
        found[name] = value_of(constraint.family, constraint.included[0])
    return found


def test_limits_are_as_stated() -> None:
    stated = [row[1] for row in rows("limit", "value")]
    assert stated == [
        f"{limit:,}"
        for limit in (
            limits.MAX_TEXT_LENGTH,
            limits.MAX_DEPTH,
            limits.MAX_WRITTEN_PREDICATES,
            limits.MAX_WRITTEN_CONSTANTS,
            limits.MAX_DISJUNCTS,
            limits.MAX_PREDICATES,
            limits.MAX_MEMBERS,
            limits.MAX_PATTERN_LENGTH,
            limits.MAX_REGEX_INSTRUCTIONS,
            limits.MAX_NAME_BYTES,
            limits.MAX_PATH_DEPTH,
        )
    ]


def test_sql_blocks_parse() -> None:
    blocks = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    assert blocks
    for block in blocks:
        assert not Condition.parse(block).never


def test_the_session_runs_as_shown() -> None:
    sessions = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    for session in sessions:
        test = doctest.DocTestParser().get_doctest(session, {}, "conditions.md", str(PAGE), 0)
        assert test.examples
        result = doctest.DocTestRunner().run(test)
        assert result.failed == 0
