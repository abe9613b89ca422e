"""Filters: which hashes have certainly not been added. A block is one cache line, so a look-up touches one.

A hash table would hold 16 bytes a row; at 14 bits a row one look-up in 400 is a false alarm.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import mix_positive
from pastforward.columns.kernel import bare
from pastforward.state.kernels.records import Array, Int

WORDS = 8  # of a block: 512 bits
PROBES = 7  # bits that a hash sets; nine bits of a second hash choose each


@bare
def _second(value: Int) -> Int:
    return np.uint64(mix_positive(np.uint64(value) ^ np.uint64(0xD6E8FEB86659FD93)))


@bare
def add(words: Array, hashes: Array, start: int, end: int) -> None:
    mask = len(words) // WORDS - 1
    for row in range(start, end):
        block = (hashes[row] & mask) * WORDS
        bits = _second(hashes[row])
        for _ in range(PROBES):
            words[block + np.int64((bits >> np.uint64(6)) & np.uint64(7))] |= np.uint64(1) << (bits & np.uint64(63))
            bits >>= np.uint64(9)


@bare
def find(words: Array, hashes: Array, held: Array) -> None:
    """`held[row]` becomes true for what may have been added."""
    mask = len(words) // WORDS - 1
    for row in range(len(hashes)):
        if held[row]:
            continue
        block = (hashes[row] & mask) * WORDS
        bits = _second(hashes[row])
        there = True
        for _ in range(PROBES):
            word = words[block + np.int64((bits >> np.uint64(6)) & np.uint64(7))]
            if word & (np.uint64(1) << (bits & np.uint64(63))) == np.uint64(0):
                there = False
                break
            bits >>= np.uint64(9)
        held[row] = there
