"""Keys: order, ranges and round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.columns.dewey import MAX_COMPONENT, text_of
from pastforward.state import OperationError
from pastforward.state.keys import (
    ancestors,
    decode_key,
    encode_key,
    encode_topic,
    parse_topic,
    subtree,
)

COMPONENT = (
    st.integers(0, MAX_COMPONENT) | st.integers(0, 300) | st.sampled_from([0, 1, 255, 256, 65535, 65536, 2**63 - 1])
)
PATH = st.lists(COMPONENT, max_size=6).map(tuple) | st.lists(COMPONENT, max_size=64).map(tuple)
KIND = st.sampled_from(["subscription", "publication"])
TIME = st.integers(-(2**62), 2**62) | st.integers(-3, 3)
INTEGER_ID = st.integers(-(2**63), 2**63 - 1)
TEXT_ID = st.text(min_size=1, max_size=40)


def sort_key(path: tuple[int, ...], kind: str, time: int, identity: int | str) -> tuple[object, ...]:
    """What the bytes must sort by: what stands at a topic before what stands below it, the latest first."""
    ident = identity if isinstance(identity, int) else identity.encode()
    rank = -2 if kind == "subscription" else -1
    return (*path, rank, -time, ident)


@given(st.lists(st.tuples(PATH, KIND, TIME, INTEGER_ID), min_size=2, max_size=12))
def test_bytes_sort_as_paths_do(rows: list[tuple[tuple[int, ...], str, int, int]]) -> None:
    by_bytes = sorted(rows, key=lambda row: encode_key(text_of(row[0]), *row[1:]))
    assert by_bytes == sorted(rows, key=lambda row: sort_key(*row))


@given(PATH, KIND, TIME, INTEGER_ID | TEXT_ID)
def test_round_trip(path: tuple[int, ...], kind: str, time: int, identity: int | str) -> None:
    topic = text_of(path)
    key = encode_key(topic, kind, time, identity)
    assert decode_key(key, integer_ids=isinstance(identity, int)) == (topic, kind, time, identity)
    assert parse_topic(topic) == path


@given(PATH, PATH, KIND, TIME, TEXT_ID)
def test_a_subtree_is_one_range(
    top: tuple[int, ...], path: tuple[int, ...], kind: str, time: int, identity: str
) -> None:
    low, high = subtree(text_of(top))
    for candidate in (path, top + path[:3]):
        if len(candidate) <= 64:
            key = encode_key(text_of(candidate), kind, time, identity)
            assert (low <= key < high) == (candidate[: len(top)] == top)


def test_examples() -> None:
    assert encode_topic("") == b""
    assert encode_topic("0") == b"\x10"
    assert encode_topic("1.256") == b"\x11\x01\x12\x01\x00"
    assert encode_topic("1.9") < encode_topic("1.10")
    assert encode_topic(str(2**63 - 1)) == b"\x18\x7f" + b"\xff" * 7
    assert ancestors("1.4.2") == ["", "1", "1.4"]


@pytest.mark.parametrize("topic", ["1..2", ".1", "1.", "a", "01", "-1", "1,2", str(2**63 + 1), "1.²", " 1"])
def test_what_is_no_path(topic: str) -> None:
    with pytest.raises(OperationError, match="topic"):
        parse_topic(topic)


def test_too_deep() -> None:
    parse_topic(".".join(["1"] * 64))
    with pytest.raises(OperationError, match="deeper than 64"):
        parse_topic(".".join(["1"] * 65))
