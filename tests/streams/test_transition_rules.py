"""The fold of a subscription's transitions, in any interleaving of the partitions, is the set of what matches now."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest

from tests.streams import transition_rules
from tests.streams.transition_rules import Case, Partition, draw, fold, result_is_true

CASES: Final = 4_000


def wrong(cases: int, is_true: Callable[[Case], bool]) -> list[int]:
    return [seed for seed in range(cases) if not is_true(draw(random.Random(seed)))]


@pytest.mark.parametrize("forgets", [False, True])
def test_the_result_set_is_true(forgets: bool) -> None:
    """Also for a reader that keeps no versions of what has left: what comes late is followed by its own `left`."""
    assert not wrong(CASES, lambda case: result_is_true(case, forgets=forgets))


@pytest.mark.soak
def test_the_result_set_is_true_in_many_cases() -> None:
    assert not wrong(200_000, result_is_true)


def test_a_reader_needs_to_know_where_its_set_began() -> None:
    """A withdrawal tells nothing: until the next set tells its first transition, only who sent the record knows of it."""

    def unaware(case: Case) -> bool:
        last = case.asked[-1]
        return not last.transitions or fold(case.told, last.recipient, 0) == case.truth

    seeds = wrong(CASES, unaware)
    assert seeds
    for seed in seeds:
        case = draw(random.Random(seed))
        assert case.asked[-1].begun > 0
        assert not any(
            told.begun == case.asked[-1].begun for told in case.told if told.recipient == case.asked[-1].recipient
        )


def test_the_cases_tell_rules_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these rules looks plausible, and is wrong."""

    def folded(newer: Callable[[tuple[int, int], tuple[int, int]], bool]) -> Callable[[Case], bool]:
        def is_true(case: Case) -> bool:
            last, held, inside = case.asked[-1], (-1, -1), False
            for told in case.told:
                named = told.entity, told.subscription
                if (told.recipient, told.begun) == (last.recipient, last.begun) and newer(named, held):
                    held, inside = named, told.kind != "left"
            return not last.transitions or inside == case.truth

        return is_true

    assert wrong(CASES, folded(lambda named, held: True)), "without versions"
    assert wrong(CASES, folded(lambda named, held: named[0] >= held[0] and named[1] >= held[1])), "either version"
    assert wrong(CASES, folded(lambda named, held: named[::-1] >= held[::-1])), "the subscription's version first"

    replaced = Partition._replaced

    def names_the_new_version(self: Partition, before: int | None, by: int) -> object:
        return (t._replace(subscription=by) if t.kind == "left" else t for t in replaced(self, before, by))

    monkeypatch.setattr(transition_rules.Partition, "_replaced", names_the_new_version)
    assert wrong(CASES, result_is_true), "`left` with the version that has replaced the one it ends"

    def is_silent_where_it_left(self: Partition, before: int | None, by: int) -> object:
        return (t for t in replaced(self, before, by) if t.kind == "entered" or self.asked is not None)

    monkeypatch.setattr(transition_rules.Partition, "_replaced", is_silent_where_it_left)
    assert wrong(CASES, result_is_true), "partitions that the subscription leaves tell nothing"
