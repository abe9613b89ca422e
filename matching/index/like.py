"""LIKE in the kernels. A pattern is the text that `conditions.patterns.like_text` writes, in UTF-8: `%` any run, `_` one character, a
backslash before what stands for itself."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int

U8 = npt.NDArray[np.uint8]

RUN: Final = 37  # %
ONE: Final = 95  # _
ESCAPE: Final = 92  # a backslash


@inner
def _after(text: U8, at: Int, end: Int) -> Int:
    """Where the next character begins."""
    at += 1
    while at < end and text[at] & np.uint8(0xC0) == np.uint8(0x80):
        at += 1
    return at


@kernel
def like_holds(pattern: U8, begin: Int, size: Int, text: U8, offset: Int, length: Int) -> Bool:
    """Each literal is taken where it first fits after a `%`; when what follows does not fit, the last `%` takes a character more."""
    p = begin
    pattern_end = begin + size
    t = offset
    end = offset + length
    run = np.int64(-1)
    taken = offset
    while t < end:
        if p < pattern_end:
            byte = pattern[p]
            if byte == RUN:
                p += 1
                run = p
                taken = t
                continue
            if byte == ONE:
                p += 1
                t = _after(text, t, end)
                continue
            step = 1
            if byte == ESCAPE:
                byte = pattern[p + 1]
                step = 2
            if text[t] == byte:
                p += step
                t += 1
                continue
        if run < 0:
            return False
        if run == pattern_end:
            return True
        taken = _after(text, taken, end)
        p = run
        byte = pattern[p]
        if byte != ONE and byte != ESCAPE:
            while taken < end and text[taken] != byte:
                taken += 1
        t = taken
    while p < pattern_end and pattern[p] == RUN:
        p += 1
    return p == pattern_end
