"""Records copied one after the other under new numbers, when the registry is compacted."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import kernel
from pastforward.columns.scalars import Int
from pastforward.matching.index.records import (
    EQUAL_STRING,
    EXCLUDED,
    EXPRESSION,
    HAS_TOPIC,
    INCLUDED,
    NO_WORD,
    OF_STRINGS,
    PREFIX,
    PYTHON,
    STRINGS,
    part_count,
    parts_begin,
    payload,
    record_size,
)
from pastforward.matching.index.slots import words_taken

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]


class Numbers(NamedTuple):
    """The new number of each old one."""

    attribute: I32
    string: I32
    topic: I32
    python: I32


@kernel
def used_attributes(words: U32, offset: U32, slots: Int, used: U8) -> None:
    """Marks the attributes that records name."""
    for slot in range(slots):
        at = np.int64(offset[slot])
        if at == 0:
            continue
        parts = part_count(words, at)
        at = parts_begin(words, at)
        for _ in range(parts):
            used[words[at] >> np.uint32(12)] = 1
            at += 1 + payload(words, at)


@kernel
def words_of(words: U32, offset: U32, slots: I32) -> Int:
    total = 0
    for i in range(len(slots)):
        total += words_taken(record_size(words, np.int64(offset[slots[i]])))
    return total


@kernel
def renumber(words: U32, offset: U32, slots: I32, to: U32, to_offset: U32, numbers: Numbers) -> Int:
    """Copies records one after the other, with new numbers. Returns where they end. Strings of a set stay in order, since the new numbers
    are in the order of the old ones."""
    attribute, string, topic, python = numbers
    end = 2  # an offset of 0 is an empty slot
    for i in range(len(slots)):
        begin = np.int64(offset[slots[i]])
        size = record_size(words, begin)
        for k in range(size):
            to[end + k] = words[begin + k]
        to_offset[i] = np.uint32(end)
        if to[end] & np.uint32(HAS_TOPIC):
            to[end + 1] = np.uint32(topic[to[end + 1]])
        parts = part_count(to, end)
        at = parts_begin(to, end)
        for _ in range(parts):
            header = to[at]
            to[at] = (np.uint32(attribute[header >> np.uint32(12)]) << np.uint32(12)) | (header & np.uint32(0xFFF))
            kind = (header >> np.uint32(7)) & np.uint32(31)
            if kind == EQUAL_STRING or (kind >= PREFIX and kind <= EXPRESSION):
                to[at + 1] = np.uint32(string[to[at + 1]])
            elif kind == STRINGS:
                for k in range(1, 3):
                    if to[at + k] != np.uint32(NO_WORD):
                        to[at + k] = np.uint32(string[to[at + k]])
            elif (kind == INCLUDED or kind == EXCLUDED) and header & np.uint32(63) == np.uint32(OF_STRINGS):
                for k in range(to[at + 1]):
                    to[at + 3 + 2 * k] = np.uint32(string[to[at + 3 + 2 * k]])
            elif kind == PYTHON:
                to[at + 1] = np.uint32(python[to[at + 1]])
            at += 1 + payload(to, at)
        end += words_taken(size)
    return end
