"""Tests of what is reached by keys: lists of values, ends of texts, pieces of texts, and what expressions require."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.matching import Condition, Index
from pastforward.matching.conditions.patterns import (
    ESCAPE,
    BadPattern,
    compile_like,
    compile_regex,
    like_text,
    read_like,
)
from pastforward.matching.conditions.predicates import Predicate
from pastforward.matching.conditions.required import necessary_like, required_texts
from pastforward.matching.index.like import like_holds
from pastforward.matching.index.subscription import NewSubscription

LETTERS = "ab%_é日\\"


@settings(max_examples=400, deadline=None)
@given(st.text(LETTERS, max_size=8), st.text(LETTERS, max_size=10))
def test_like_in_kernels_is_like(pattern: str, text: str) -> None:
    canonical = like_text(read_like(pattern.replace("\\", "\\\\"), ESCAPE))
    asked, given_text = canonical.encode(), text.encode()
    heaps = [np.frombuffer(b"x" + part + b"\0", np.uint8).copy() for part in (asked, given_text)]
    found = like_holds(heaps[0], 1, len(asked), heaps[1], 1, len(given_text))
    assert bool(found) is (compile_like(canonical).search(text) is not None)


_atoms = st.sampled_from(
    ["a", "b", "ab", "é", ".", "[ab]", "[^a]", "[]a]", "[[:alpha:]b]", r"\.", r"\d", r"\b", "^", "$", " ", "\\|"]
)
_quantified = st.builds(
    lambda atom, times: atom + times,
    _atoms,
    st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "+?", "*?", "{0}", "{2,x}", "{"]),
)
_expressions = st.recursive(
    st.lists(_quantified, min_size=1, max_size=5).map("".join),
    lambda inner: st.one_of(
        st.builds(lambda one, other: f"{one}|{other}", inner, inner),
        st.builds(lambda one, times, other: f"({one}){times}{other}", inner, st.sampled_from(["", "?", "+"]), inner),
        st.builds(lambda one, other: f"{one}(?:{other})", inner, inner),
        st.builds(lambda one, other: f"{one}(?i){other}", inner, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=600, deadline=None)
@given(_expressions, st.lists(st.text("abAB. é|2{x,}]", max_size=10), max_size=20))
def test_what_an_expression_requires_is_in_whatever_it_matches(expression: str, texts: list[str]) -> None:
    try:
        compiled = compile_regex(expression)
    except BadPattern:
        return
    needed = necessary_like(expression)
    if needed is not None:
        for text in texts:
            if compiled.search(text) is not None:
                assert compile_like(needed).search(text) is not None, (needed, text)


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("bridge closed", ["bridge closed"]),
        ("bridge[0-9]* (is )?closed", ["bridge", " ", "closed"]),
        ("ab+c", ["ab", "c"]),
        ("ab*c", ["a", "c"]),
        ("a{2}b{0,3}c", ["a", "c"]),
        (r"^I-\d+ \(north\)$", ["I-", " (north)"]),
        ("(?i)word", []),
        ("word|other", []),
        ("(word|other)", []),
        (r"\Qa.b\E", []),
        ("a%b_c", ["a%b_c"]),
        (r"x[]\]a]y", ["x", "y"]),
    ],
)
def test_examples_of_what_expressions_require(expression: str, texts: list[str]) -> None:
    assert re2.compile(expression)
    assert required_texts(expression) == texts


def some_condition(random: Random) -> str:
    def word(least: int = 1, most: int = 6) -> str:
        return "".join(random.choice("abcé") for _ in range(random.randint(least, most)))

    numbers = ", ".join(
        str(random.choice([random.randrange(40), random.randrange(40) / 2])) for _ in range(random.randint(2, 9))
    )
    words = ", ".join(f"'{word(1, 2)}'" for _ in range(random.randint(2, 9)))
    return random.choice(
        [
            f"t LIKE '%{word()}%'",
            f"t LIKE '%{word()}'",
            f"t LIKE '%{'abcé' * 20}{word()}'",
            f"t LIKE '{word(1, 2)}%{word(1, 2)}_{word(1, 2)}%'",
            f"t LIKE '%{word()}!%{word()}%_' ESCAPE '!'",
            f"t NOT LIKE '%{word(1, 2)}%'",
            f"t ~ '{word()}.{word()}'",
            f"t ~ '^({word()}|{word()})+$'",
            f"t ~ '{word()}' AND t LIKE '%{word()}%' AND t NOT LIKE '%{word()}'",
            f"x IN ({numbers})",
            f"x NOT IN ({numbers})",
            f"t IN ({words})",
            f"x IN ({numbers}) AND t LIKE '%{word()}%'",
            f"x IN ({numbers}) AND y = {random.randrange(3)}",
            f"t IN ({words}) OR x IN ({numbers}) OR t LIKE '%{word()}'",
            f"y = {random.randrange(3)} AND t LIKE '%{word()}%'",
            f"previous.t LIKE '%{word()}%'",
        ]
    )


def check(index: Index, held: dict[int, Condition], random: Random, rows: int) -> None:
    def text() -> str:
        return random.choice(["", "abcé" * 20]) + "".join(random.choice("abcé%") for _ in range(random.randrange(12)))

    table = pa.table(
        {
            "t": pa.array([random.choice([text(), text(), None]) for _ in range(rows)], pa.string()),
            "x": pa.array([random.choice([random.randrange(40) / 2, None]) for _ in range(rows)], pa.float64()),
            "y": pa.array([random.randrange(4) for _ in range(rows)], pa.int64()),
        }
    )
    publications = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
    wanted = [sorted(i for i, condition in held.items() if condition.holds(row)) for row in publications]
    got: list[list[int]] = [[] for _ in publications]
    found = index.match_table(table)
    for row, identity in zip(found["row"].to_pylist(), found["subscription_id"].to_pylist(), strict=True):
        got[row].append(identity)
    assert [sorted(ids) for ids in got] == wanted
    assert [sorted(index.match(row)) for row in publications[:5]] == wanted[:5]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_answers_stay_right_while_they_come_and_go(size: int) -> None:
    random = Random(size)
    index = Index()
    held: dict[int, Condition] = {}
    for turn in range(6):
        fresh = {random.randrange(1500): Condition.parse(some_condition(random)) for _ in range(300)}
        new = [NewSubscription(i, condition.disjuncts) for i, condition in fresh.items()]
        for at in range(0, len(new), size):
            index.add_many(new[at : at + size])
        held.update(fresh)
        gone = random.sample(list(held), len(held) // 3)
        for at in range(0, len(gone), size):
            index.remove_many(gone[at : at + size])
        for identity in gone:
            del held[identity]
        check(index, held, random, 50 if turn % 2 else 3)
    assert index.counters()["posted"] > 100
    index.remove_many(list(held))
    assert index.counters()["posted"] == index.counters()["keys"] == 0


def test_a_text_that_comes_twice_is_found_once() -> None:
    index = Index()
    index.add(1, "t LIKE '%abab%'")
    index.add(2, "t LIKE '%a%b%' AND x IN (1, 2)")
    assert index.match({"t": "abababab", "x": 1}) == [1, 2]
    assert index.match({"t": "xx" * 50 + "abab" * 30}) == [1]


def test_a_list_of_ten_thousand_is_reached_by_value() -> None:
    index = Index()
    for i in range(3):
        index.add(i, Condition.from_predicates([[Predicate("x", "in", tuple(range(i, 30_000 + i, 3)))]]))
    for value in (0, 1, 2, 29_999, 30_000, 0.5):
        assert index.match({"x": value}) == [i for i in range(3) if value in range(i, 30_000 + i, 3)]
    assert index.counters()["posted"] == 3
    index.remove(1)
    assert index.match({"x": 4}) == []
    assert index.match({"x": 3}) == [0]


def test_few_values_beside_a_narrow_range_stay_in_blocks() -> None:
    """Each of the lists holds a third of what is published: the range is the better way in."""
    index = Index()
    kinds = ["'a'", "'b'", "'c'", "'d'", "'e'", "'f'"]
    new = [
        NewSubscription(
            i, Condition.parse(f"k IN ({kinds[i % 6]}, {kinds[(i + 1) % 6]}) AND x BETWEEN {i} AND {i + 9}").disjuncts
        )
        for i in range(3000)
    ]
    index.add_many(new)
    assert index.counters()["posted"] < 300
    assert sorted(index.match({"k": "a", "x": 1000})) == [i for i in range(991, 1001) if i % 6 in (0, 5)]


def test_what_is_published_as_a_condition_meets_lists_and_texts() -> None:
    index = Index()
    index.add(1, "x IN (1, 5, 9)")
    index.add(2, "t LIKE '%ab%'")
    index.add(3, "t ~ 'abc'")
    assert sorted(index.match({"t": "xabcx"}, where="x BETWEEN 4 AND 6")) == [1, 2, 3]
    assert sorted(index.match({}, where="x BETWEEN 6 AND 8 AND t LIKE 'ab%'")) == [2, 3]


def test_texts_of_any_case_are_reached_by_pieces_without_case() -> None:
    index = Index()
    wanted = {
        1: ("title ILIKE '%Accident%'", ["ACCIDENT on I-95", "an acCident"], ["incident", "acc ident"]),
        2: ("LOWER(title) = 'kiosk'", ["KIOSK", "\u212aio\u017f\u212a"], ["kiosks", "a kiosk"]),
        3: ("title ILIKE 'É%bridge_'", ["école: BRIDGE!", "ÉBridgeé"], ["E bridge!", "é bridge"]),
        4: ("LOWER(title) IN ('red', 'Blue')", ["RED", "blue"], ["redblue", ""]),
        5: ("title ~ '(?i)^word[0-9]'", ["WORD1", "word2x"], ["a word1", "word"]),
        6: ("title ILIKE 'Straße'", ["STRAẞE", "straße"], ["STRASSE"]),
        7: ("NOT title ILIKE '%x%'", ["abc"], ["aXc"]),
    }
    for number, (condition, _, _) in wanted.items():
        index.add(number, condition)
    assert index.counters()["posted"] == 5
    for number, (_, found, missed) in wanted.items():
        for title in found:
            assert number in index.match({"title": title}), title
        for title in missed:
            assert number not in index.match({"title": title}), title
        assert index.cost(wanted[number][0]).slow == 0
    index.remove_many(range(1, 7))
    assert index.match({"title": "ACCIDENT"}) == [7]


def test_what_it_costs_says_how_it_is_reached() -> None:
    index = Index()
    assert index.cost("x IN (1, 2, 3)").access == ("list of values of x",)
    assert index.cost("t LIKE '%word%'").access == ("text within t",)
    assert index.cost("t LIKE '%word'").access == ("end of t",)
    assert index.cost("t ~ 'word[0-9]'").access == ("text within t",)
    assert index.cost("t ~ 'word[0-9]'").slow == 0
    assert index.cost(r"t ~ 'word\b'").slow == 1
    assert index.cost("t LIKE 'a%word_'").slow == 0
    assert index.cost("t NOT LIKE '%word%'").nanoseconds > 20 * index.cost("t LIKE '%word%'").nanoseconds
