"""Hashes that are the same in every process, on every machine and in the kernels: two routers must agree for ever.

All are 64-bit. Texts go through CRC-32 first, because the standard library has it at C speed; `mix` then spreads the bits.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

_MASK: Final = 2**64 - 1
# The increment and the two multipliers of SplitMix64's finaliser: every input bit changes every output bit with probability one half.
GOLDEN: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB


def mix(number: int) -> int:
    """Spreads the bits of a number over 64."""
    z = (number + GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * MIX_2) & _MASK
    return z ^ (z >> 31)


def combine(seed: int, number: int) -> int:
    """The hash of a sequence: `combine(combine(0, a), b)`. The order counts."""
    return mix(seed ^ mix(number & _MASK))


def text_hash(text: str) -> int:
    return mix(crc32(text.encode()))
