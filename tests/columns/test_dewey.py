"""Paths as text, one and several."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.columns import dewey
from pastforward.columns.texts import Texts
from pastforward.matching.conditions.oracle import topic_fits

paths = st.lists(st.integers(0, 3), max_size=4).map(lambda parts: ".".join(map(str, parts)))
some = st.lists(paths, min_size=1, max_size=8)


@given(some, paths)
def test_several_topics_reach_what_one_of_them_reaches(topics: list[str], published: str) -> None:
    text = dewey.joined(topics)
    for scope in ("overlap", "subtree"):
        reached = [
            any(topic_fits(each, scope, published) for each in given) for given in (topics, dewey.topics_of(text))
        ]
        assert reached[0] == reached[1]
    kept = dewey.topics_of(text)
    assert dewey.joined(kept) == text == dewey.joined(reversed(kept))
    assert not any(a != b and topic_fits(a, "subtree", b) for a in kept for b in kept)


@given(some, some)
def test_whether_some_topics_overlap_others(a: list[str], b: list[str]) -> None:
    expected = any(topic_fits(x, "overlap", y) for x in a for y in b)
    assert dewey.any_overlap(dewey.joined(a), dewey.joined(b)) == expected


def test_there_are_one_to_eight() -> None:
    with pytest.raises(dewey.PathError, match="there are 9 topics: write 1 to 8"):
        dewey.joined(["1"] * 9)
    with pytest.raises(dewey.PathError, match="there are 0 topics"):
        dewey.joined([])
    assert dewey.joined(["10", "9", "9.1", "1.10", "1.9"]) == "1.9,1.10,9,10"


def test_which_texts_have_a_comma() -> None:
    texts = Texts.of([b"1,2", b"", None, b"1.2", b"3,4"])
    assert texts.having(dewey.COMMA).tolist() == [True, False, False, False, True]
    assert texts.take(np.array([3, 0])).having(dewey.COMMA).tolist() == [False, True]
