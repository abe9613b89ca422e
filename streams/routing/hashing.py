"""Hashes that are the same in every process, on every machine and in the kernels: two routers must agree for ever.

All are 64-bit. Texts go through CRC-32 first, which the standard library has at C speed; `mix` then spreads the bits.
Functions whose name begins with `k_` are their twins for kernels, on unsigned 64-bit numbers.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inlined, kernel

_MASK: Final = 2**64 - 1
# The increment and the two multipliers of SplitMix64: every bit that goes in changes half of those that come out.
GOLDEN: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB

# CRC-32 of each byte, for the kernels.
CRC_TABLE: Final[npt.NDArray[np.uint32]] = np.array(
    [crc32(bytes([byte])) ^ crc32(b"\0") for byte in range(256)], np.uint32
)


def mix(number: int) -> int:
    """Spreads the bits of a number over 64."""
    z = (number + GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * MIX_2) & _MASK
    return z ^ (z >> 31)


def combine(seed: int, number: int) -> int:
    """The hash of a sequence: `combine(combine(0, a), b)`. The order counts; a negative number wraps."""
    return mix(seed ^ mix(number & _MASK))


def text_hash(text: str) -> int:
    return mix(crc32(text.encode()))


@inlined
def k_mix(number: np.uint64) -> np.uint64:
    z = number + np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


@inlined
def k_combine(seed: np.uint64, number: np.uint64) -> np.uint64:
    mixed: np.uint64 = k_mix(seed ^ k_mix(number))
    return mixed


@kernel
def k_crc32(heap: npt.NDArray[np.uint8], offset: int, length: int) -> np.uint64:
    crc = np.uint32(0xFFFFFFFF)
    for i in range(offset, offset + length):
        crc = CRC_TABLE[(crc ^ heap[i]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return np.uint64(crc ^ np.uint32(0xFFFFFFFF))


@kernel
def k_text_hashes(
    heap: npt.NDArray[np.uint8],
    offset: npt.NDArray[np.int64],
    length: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint64],
) -> None:
    """`text_hash` of each text of a column."""
    for row in range(len(offset)):
        out[row] = k_mix(k_crc32(heap, offset[row], np.int64(length[row])))
