"""The test of 32 lanes: vector instructions and plain code say the same, and both what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from pastforward.matching.blocks import lanes

U8 = np.uint8


def tables(codes: np.ndarray) -> np.ndarray:
    """As publications have them: cells 0-15 twice, then 16-31 twice."""
    return np.concatenate([codes[:16], codes[:16], codes[16:], codes[16:]]).astype(U8)


def definition(block: np.ndarray, low: np.ndarray, high: np.ndarray, triples: int, interval: bool) -> int:
    passed = 0
    for lane in range(32):
        ok = True
        for k in range(triples):
            cell, first, width = (int(block[96 * k + 32 * part + lane]) for part in range(3))
            if interval:
                ok &= first <= high[cell] and low[cell] <= first + width
            else:
                ok &= (int(high[cell]) - first) % 256 <= width
        passed |= ok << lane
    return passed


def compiled(test: object) -> object:
    @njit
    def run(block, low, high):  # type: ignore[no-untyped-def]
        return test(block, 0, low, high, 0)  # type: ignore[operator]

    return run


FORMS = [(triples, interval) for triples in (2, 3) for interval in (False, True)]
PLAIN = {form: compiled(lanes._plain_test(*form)) for form in FORMS}
VECTOR = {form: compiled(lanes._vector_test(*form)) for form in FORMS} if lanes.has_avx2() else {}


@pytest.mark.parametrize(("triples", "interval"), FORMS)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_all_forms_agree(triples: int, interval: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = np.zeros(96 * triples, U8)
    for k in range(triples):
        first = rng.integers(0, 256, 32)
        block[96 * k : 96 * k + 32] = rng.integers(0, 32, 32)
        block[96 * k + 32 : 96 * k + 64] = first
        block[96 * k + 64 : 96 * k + 96] = rng.integers(0, 256 - first)
        # always true, and empty
        block[96 * k + 32], block[96 * k + 64] = 0, 255
    block[33], block[65] = 255, 0
    low = rng.integers(0, 255, 32)
    high = np.maximum(low, rng.integers(0, 255, 32))
    absent = rng.random(32) < 0.3
    low[absent], high[absent] = 255, 0
    wanted = definition(block, low, high, triples, interval)
    for run in (PLAIN, VECTOR):
        if run:
            assert int(run[triples, interval](block, tables(low), tables(high))) == wanted  # type: ignore[operator]
    assert not wanted & 2
