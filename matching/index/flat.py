"""Conditions in columns, for who reads subscriptions by the thousand: no Python object is made of any of them.

Subscription i has the disjuncts `first[i]:first[i + 1]`, disjunct d the parts `start[d]:start[d + 1]`, in any order, of each attribute one.
A part is what `matching.index.records` says, with these differences: `name` is a number in `names`; strings are numbers of rows in `texts`.
Each row of `texts` is used by one part, once, so that what is held is released as often.
Kinds that may come: NULL, ANY, BOOLEANS, NUMBER, TIMESTAMPS, STRINGS, EQUAL_STRING.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel
from pastforward.columns.texts import Texts
from pastforward.matching.index.records import EQUAL_STRING, HAS_HIGH, HAS_LOW, STRINGS

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
def sort_parts(
    start: I64, name: I32, kind_in: U8, flags_in: U8, low_in: I64, high_in: I64, numbers: I32, texts: I32, attribute: I32,
    kind: U8, flags: U8, low: I64, high: I64,
) -> None:  # fmt: skip
    """Parts by attribute, as records have them, and strings by their numbers."""
    for d in range(len(start) - 1):
        for p in range(start[d], start[d + 1]):
            at = p
            number = numbers[name[p]]
            while at > start[d] and attribute[at - 1] > number:
                attribute[at] = attribute[at - 1]
                kind[at] = kind[at - 1]
                flags[at] = flags[at - 1]
                low[at] = low[at - 1]
                high[at] = high[at - 1]
                at -= 1
            first = low_in[p]
            last = high_in[p]
            if kind_in[p] == EQUAL_STRING:
                first = np.int64(texts[first])
            elif kind_in[p] == STRINGS:
                first = np.int64(texts[first]) if flags_in[p] & HAS_LOW else 0
                last = np.int64(texts[last]) if flags_in[p] & HAS_HIGH else 0
            attribute[at] = number
            kind[at] = kind_in[p]
            flags[at] = flags_in[p]
            low[at] = first
            high[at] = last
