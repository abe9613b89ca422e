"""What kernels decide of regular expressions is what RE2 decides."""

from __future__ import annotations

import numpy as np
import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from pastforward.matching import Index
from pastforward.matching.conditions.automata import expression_of, program_of
from pastforward.matching.index.automaton import expression_found

ATOMS = [
    *("a", "b", "é", "日", "[ab]", "[^a]", "[^é]", "[à-ü]", ".", r"\d", r"\w", r"\W", "[[:alpha:]]", "[^[:^digit:]]"),
    *("^", "$", r"\A", r"\z", "k", "s", r"[^\d]", r"\x{65e5}", r"[\x{700}-\x{10000}]", "(?i:k)", "(?i:[a-z])"),
    *(
        "(?s:.)",
        r"\n",
        "-",
        "[^a-z]",
        "(?i)",
        "[\ud7ff-\ue000]",
        "(?i:[à-ü])",
        "(?i:é)",
        "[]a]",
        "[a-]",
        "{",
        r"\b",
        "(?m)",
        "(?-i:K)",
    ),
]
LETTERS = "abéà日kKsſ\u212a1 -\n\U00010348\ue000Z_"


def expressions() -> st.SearchStrategy[str]:
    quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?"])
    return st.recursive(
        st.sampled_from(ATOMS),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=4).map("".join),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
            st.tuples(inner, quantifiers).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        ),
        max_leaves=6,
    )


def found(program: bytes, text: str) -> bool:
    heap = np.frombuffer(program, np.uint8).copy()
    content = text.encode()
    return bool(expression_found(heap, 0, np.frombuffer(content + b"\0", np.uint8).copy(), 0, len(content)))


@given(expressions(), st.lists(st.text(LETTERS, max_size=6), max_size=6))
def test_the_kernel_finds_what_re2_finds(expression: str, texts: list[str]) -> None:
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(expression, options)
    except re2.error:
        return
    program = program_of(expression)
    if program is None:
        return
    assert expression_of(program) == expression
    for text in [*texts, ""]:
        assert found(program, text) == (compiled.search(text) is not None), text


@pytest.mark.parametrize(
    "expression", ["a", "^I-[0-9]+$", "(?i)accident", "(?i)École", "a.*b", "[^,]*,x", "(foo|bar)+baz", "日.本", "^$"]
)
def test_what_people_write_is_decided_by_kernels(expression: str) -> None:
    assert program_of(expression) is not None
    assert Index().cost(f"t ~ '{expression}'").slow == 0


@pytest.mark.parametrize("expression", [r"\bword\b", "(?m)^a", r"\pL", "^^a", "a{100}", r"(?i)\w", r"\Qa.b\E"])
def test_what_is_not_certain_is_left_to_re2(expression: str) -> None:
    assert program_of(expression) is None
    index = Index()
    index.add("s", f"t ~ '{expression}'")
    assert index.cost(f"t ~ '{expression}'").slow == 1
    for text in ("word", "a", "aa", "x\na", "É", "a.b", "a" * 100):
        assert index.match({"t": text}) == (["s"] if re2.search(expression, text) else []), text


def test_removed_expressions_give_back_their_programs() -> None:
    index = Index()
    for number in range(2000):
        index.add(number, f"t ~ 'word{number}[0-9]+'")
    index.remove_many(range(2000))
    index.add(0, "t ~ 'word1[0-9]+' AND NOT t ~ 'x$'")
    assert index.match({"t": "a word17"}) == [0]
    assert index.match({"t": "a word17x"}) == []
    assert index.explain(0, {"t": "a word17x"}).reasons == ("t NOT REGEXP 'x$' failed on 'a word17x'",)
