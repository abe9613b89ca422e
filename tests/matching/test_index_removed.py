"""What was removed is found by nobody, whatever way led to it: a published condition asks more than a value does."""

from __future__ import annotations

from typing import Any

import pytest

from pastforward.matching import Condition, Index
from pastforward.matching.conditions import oracle
from pastforward.matching.index.publications import attributes_of

CONDITIONS = (
    "text = 'ab' AND x IN (1, 2)",
    "x IN (1, 2, 3)",
    "text LIKE '%b'",
    "text LIKE '%ab%'",
    "text LIKE 'a%b%'",
    "text MATCHES 'ab[0-9]'",
    "x BETWEEN 1 AND 3",
    "within(place, BOX(0, 0, 1, 1))",
    "y = 2",
    "x IS NULL",
)
PUBLISHED = ("y > 1 OR x = 3", "x IN (1, 2)", "text LIKE 'a%'")


def found(index: Index, attributes: dict[str, Any], where: str) -> list[Any]:
    _, ids = index.match_attributes(attributes_of([attributes]), where=[Condition.parse(where).disjuncts])
    return sorted(ids.to_pylist())


@pytest.mark.parametrize("semantics", ["classical", "symmetric", "intersect"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_was_removed_does_not_meet_a_published_condition(condition: str, semantics: Any) -> None:
    parsed = Condition.parse(condition)
    index = Index()
    index.add(0, "stays = 1")  # it does, so that the index is not empty
    for number in range(1, 40):
        index.add(number, parsed, semantics=semantics)
    for number in range(1, 40):
        index.remove(number)
    for where in PUBLISHED:
        assert found(index, {"y": 2}, where) == []
    # slots that are used again belong to whom has them now
    for number in range(50, 60):
        index.add(number, parsed, semantics=semantics)
    for where in PUBLISHED:
        for attributes in ({"y": 2}, {"text": "ab1", "x": 1}, {}):
            publication = oracle.Publication(attributes, Condition.parse(where).disjuncts)
            query = oracle.Subscription(parsed.disjuncts, semantics=semantics)
            wanted = list(range(50, 60)) if oracle.matches(query, publication) else []
            assert found(index, attributes, where) == wanted
