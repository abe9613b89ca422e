"""Regular expressions in the kernels: runs what `conditions.automata` writes.

Replaces a call of RE2 for each candidate, by way of Python. A publication against 100,000 expressions of one shape took 1,900 us, and
takes 70.
Measured by `pastforward bench matching --only texts`.
"""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import trailing_zeros
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.conditions.automata import (
    ALWAYS,
    BEGINS,
    BYTES,
    CHAINS,
    ENDS,
    FIRST,
    LAST_ONES,
    LOOPS,
    MASKS,
    SIMPLE,
    SIZES,
)

U8 = npt.NDArray[np.uint8]


@inner
def _word(heap: U8, at: Int) -> Int:
    word = np.uint64(0)
    for i in range(8):
        word |= np.uint64(heap[at + i]) << np.uint64(8 * i)
    return word


@inner
def _followers(heap: U8, table: Int, complicated: Int) -> Int:
    """Of the positions whose followers stand in the table."""
    found = np.uint64(0)
    while complicated:
        low = np.uint32(complicated & np.uint64(0xFFFFFFFF))
        if low:
            place = trailing_zeros(low)
        else:
            place = 32 + trailing_zeros(np.uint32(complicated >> np.uint64(32)))
        complicated &= complicated - np.uint64(1)
        found |= _word(heap, table + 8 * place)
    return found


@kernel
def expression_found(heap: U8, program: Int, text: U8, offset: Int, length: Int) -> Bool:
    """Whether the program at `program` finds its expression anywhere in the text."""
    if heap[program + ALWAYS]:
        return True
    first = _word(heap, program + FIRST)
    last = _word(heap, program + LAST_ONES)
    loops = _word(heap, program + LOOPS)
    chains = _word(heap, program + CHAINS)
    complicated = ~_word(heap, program + SIMPLE)
    table = program + MASKS + 8 * np.int64(heap[program + SIZES])
    states = first & _word(heap, program + BEGINS)
    if states & last:
        return True
    at = offset
    end = offset + length
    while at < end:
        code = heap[program + BYTES + np.int64(text[at])]
        at += 1
        if states == np.uint64(0) and not code & np.uint8(0x80):
            continue
        following = first | (states & loops) | ((states & chains) << np.uint64(1))
        if states & complicated:
            following |= _followers(heap, table, states & complicated)
        states = following & _word(heap, program + MASKS + 8 * np.int64(code & np.uint8(0x7F)))
        if states & last:
            return True
    following = first | _followers(heap, table, states)
    return following & _word(heap, program + ENDS) & last != np.uint64(0)
