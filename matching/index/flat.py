"""Conditions in columns, for who reads subscriptions by the thousand: no Python object is made of any of them.

Subscription i has the disjuncts `first[i]:first[i + 1]`, disjunct d the parts `start[d]:start[d + 1]`, in any order, of each attribute one.
A part is what `matching.index.records` says, with these differences: `name` is a number in `names`; strings are numbers of rows in `texts`.
Each row of `texts` is used by one part, once, so that what is held is released as often.
Kinds that may come: NULL, ANY, BOOLEANS, NUMBER, TIMESTAMPS, STRINGS, EQUAL_STRING.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel
from pastforward.columns.texts import Texts
from pastforward.matching.index.parts import put_part

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Flat(NamedTuple):
    first: I64
    start: I64
    name: I32
    kind: U8
    flags: U8
    low: I64
    high: I64
    names: list[str]
    texts: Texts


class Places(NamedTuple):
    """Of the same subscriptions. A topic of length 0 is the root; `flags` are those of records: semantics, scope, time."""

    topics: Texts
    starts_at: I64
    ends_at: I64
    flags: U8


@kernel
def sort_parts(start: I64, given: Any, numbers: I32, texts: I32, items: I64, out: Any) -> None:
    """Parts by attribute, as records have them, and strings by their numbers. `given`: name, kind, flags, low, high; `out`: the same, to be
    written, with attributes in place of names. `items`: none, as no kind that may come has any."""
    name, kind, flags, low, high = given
    for d in range(len(start) - 1):
        for p in range(start[d], start[d + 1]):
            part = np.int64(numbers[name[p]]), np.int64(kind[p]), np.int64(flags[p]), low[p], high[p]
            put_part(out, start[d], p, part, texts, items)
