"""Codes: integers find theirs by a shortcut, and it is the one that a search over order keys finds."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from pastforward.columns.addressed import pin
from pastforward.columns.attributes import INTEGER
from pastforward.matching.blocks import codes
from pastforward.matching.blocks.references import blocks_at
from pastforward.matching.blocks.view import FENCES, RESERVOIR, SPLIT_ROW, empty_blocks
from pastforward.matching.index.keys import number_key

I64 = npt.NDArray[np.int64]

# one process compiles the kernels below
pytestmark = pytest.mark.xdist_group("tests/matching/test_index_codes.py")


@njit(cache=True)
def both(address, row, values):  # type: ignore[no-untyped-def]
    blocks = blocks_at(address)
    out = np.zeros((len(values), 2), np.int64)
    for i in range(len(values)):
        out[i, 0] = codes.code_in_row(blocks.splits, row, number_key(INTEGER, values[i]))
        out[i, 1] = codes._code_of_integer(blocks, row, values[i])
    return out


@njit(cache=True)
def searched(address, row, keys):  # type: ignore[no-untyped-def]
    blocks = blocks_at(address)
    out = np.zeros(len(keys), np.int64)
    for i in range(len(keys)):
        out[i] = codes.code_in_row(blocks.splits, row, keys[i])
    return out


@njit(cache=True)
def bind(address):  # type: ignore[no-untyped-def]
    codes.bind(blocks_at(address), 0)


integers = st.one_of(
    st.integers(-50, 50), st.integers(0, 1_000_000), st.integers(-(2**40), 2**40), st.integers(-(2**63), 2**63 - 2)
)


@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(st.one_of(st.integers(-50, 50), st.integers(-(2**46), 2**46)), min_size=1, max_size=RESERVOIR),
    values=st.lists(integers, min_size=1, max_size=50),
)
def test_shortcut_agrees_with_the_search(asked: list[int], values: list[int]) -> None:
    blocks = empty_blocks()
    blocks.reservoir[: len(asked)] = [int(number_key(INTEGER, value)) for value in asked]
    blocks.constrained[0] = len(asked)
    pinned = pin(blocks)
    bind(pinned.address)
    row = int(blocks.split_row[0])
    assert blocks.shortcut_range[2 * row + 1] >= 0
    around = [value + near for value in asked[:50] for near in (-1, 0, 1)]
    found = both(pinned.address, row, np.array(values + around, np.int64))
    assert (found[:, 0] == found[:, 1]).all()
    assert found.min() >= 1
    assert found.max() <= 254


@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(st.integers(1, 2**64 - 2), min_size=1, max_size=RESERVOIR),
    others=st.lists(st.integers(0, 2**64 - 1), max_size=50),
)
def test_a_code_is_the_number_of_splits_passed(asked: list[int], others: list[int]) -> None:
    blocks = empty_blocks()
    blocks.reservoir[: len(asked)] = np.array(asked, np.uint64)
    blocks.constrained[0] = len(asked)
    pinned = pin(blocks)
    bind(pinned.address)
    row = int(blocks.split_row[0])
    count = int(blocks.splits[row * SPLIT_ROW + FENCES - 1])
    splits = blocks.splits[row * SPLIT_ROW + FENCES :][:count].tolist()
    assert splits == sorted(set(splits))
    assert set(splits) <= set(asked)
    keys = [0, 2**64 - 1, *others, *asked, *(key + 1 for key in asked), *(key - 1 for key in asked)]
    found = searched(pinned.address, row, np.array(keys, np.uint64))
    assert found.tolist() == [1 + bisect_right(splits, key) for key in keys]


@pytest.mark.parametrize("asked", [[2**62], [-(2**60), 3]])
def test_no_shortcut_for_what_doubles_cannot_tell_apart(asked: list[int]) -> None:
    blocks = empty_blocks()
    blocks.reservoir[: len(asked)] = [int(number_key(INTEGER, value)) for value in asked]
    blocks.constrained[0] = len(asked)
    pinned = pin(blocks)
    bind(pinned.address)
    assert blocks.shortcut_range[2 * int(blocks.split_row[0]) + 1] == -1
