"""Hashes, bit for bit the same in every process, on every machine and in the kernels. Partitions depend on some of them for ever; they do
not change.

| hash                                 | of                     | used by                                                    |
| `mix`                                | 64 bits                | tables of the index and the store, and the two below       |
| `hash_text`                          | bytes                  | strings of the index                                       |
| `hash_id`                            | bytes                  | ids in the store                                           |
| `hash_name`                          | bytes, with a seed     | names of attributes in a chunk                             |
| `spread`, `combine`, `text_hash`     | numbers, texts         | routing, in Python                                         |
| `k_spread`, `k_combine`, `k_crc32`   | the same               | routing, in kernels                                        |
| `partitions_of`                      | keys                   | Kafka's own partitions: murmur2, as Java's producer has it |
"""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import bare, inlined, inner, kernel
from pastforward.columns.scalars import Int
from pastforward.columns.texts import Texts

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

_MASK: Final = 2**64 - 1
# The increment and the two multipliers of SplitMix64: every bit that goes in changes half of those that come out.
GOLDEN: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB

# CRC-32 of each byte, for the kernels.
CRC_TABLE: Final[npt.NDArray[np.uint32]] = np.array(
    [crc32(bytes([byte])) ^ crc32(b"\0") for byte in range(256)], np.uint32
)


@bare
def mix(value: Int) -> Int:
    """A bijection of 64 unsigned bits in which every bit that goes in reaches every bit that comes out (SplitMix64's finaliser)."""
    value ^= value >> np.uint64(30)
    value *= np.uint64(MIX_1)
    value ^= value >> np.uint64(27)
    value *= np.uint64(MIX_2)
    return value ^ (value >> np.uint64(31))


@inner
def hash_text(heap: U8, offset: Int, length: Int) -> Int:
    """Eight bytes at a time."""
    h = np.uint64(length) * np.uint64(GOLDEN)
    word = np.uint64(0)
    for i in range(length):
        word = (word << np.uint64(8)) | np.uint64(heap[offset + i])
        if i & 7 == 7:
            h = mix(h ^ word)
            word = np.uint64(0)
    return mix(h ^ word)


@bare
def hash_id(data: U8, low: Int, high: Int) -> Any:
    """64-bit FNV-1a, mixed, without the sign."""
    value = np.uint64(0xCBF29CE484222325)
    for at in range(low, high):
        value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return mix_positive(value)


@bare
def mix_positive(value: Int) -> int:
    """`mix` as a signed number that is not negative."""
    return np.int64(mix(np.uint64(value)) & np.uint64(0x7FFFFFFFFFFFFFFF))  # type: ignore[return-value]


@kernel
def hash_name(data: U8, at: Int, length: Int, seed: Int) -> Any:
    """The seed is the process's own, so that nobody can send names that collide."""
    value = seed ^ np.uint64(length)
    for index in range(at, at + length):
        value = (value ^ np.uint64(data[index])) * np.uint64(GOLDEN)
        value ^= value >> np.uint64(29)
    return value


def spread(number: int) -> int:
    """Spreads the bits of a number over 64: a step of SplitMix64."""
    z = (number + GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * MIX_2) & _MASK
    return z ^ (z >> 31)


def combine(seed: int, number: int) -> int:
    """The hash of a sequence: `combine(combine(0, a), b)`. The order counts; a negative number wraps."""
    return spread(seed ^ spread(number & _MASK))


def text_hash(text: str) -> int:
    """CRC-32, which the standard library has at C speed, spread over 64 bits."""
    return spread(crc32(text.encode()))


@inlined
def k_spread(number: np.uint64) -> np.uint64:
    z = number + np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


@inlined
def k_combine(seed: np.uint64, number: np.uint64) -> np.uint64:
    mixed: np.uint64 = k_spread(seed ^ k_spread(number))
    return mixed


@kernel
def k_crc32(heap: U8, offset: int, length: int) -> np.uint64:
    crc = np.uint32(0xFFFFFFFF)
    for i in range(offset, offset + length):
        crc = CRC_TABLE[(crc ^ heap[i]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return np.uint64(crc ^ np.uint32(0xFFFFFFFF))


@kernel
def _text_hashes(heap: U8, at: I64, length: I32, out: U64) -> None:
    for row in range(len(at)):
        out[row] = k_spread(k_crc32(heap, at[row], np.int64(length[row])))


def text_hashes(texts: Texts) -> U64:
    """`text_hash` of each text of a column."""
    found = np.empty(len(texts), np.uint64)
    _text_hashes(*texts.for_kernel(), found)
    return found


@kernel
def partitions_of(heap: U8, at: I64, length: I32, count: Int, out: I32) -> None:
    """Where Java's producer puts keys: murmur2, without its sign, modulo the number of partitions."""
    m = np.uint32(0x5BD1E995)
    for row in range(len(at)):
        size = np.int64(length[row])
        begin = at[row]
        h = np.uint32(0x9747B28C) ^ np.uint32(size)
        for i in range(begin, begin + (size & ~3), 4):
            k = np.uint32(heap[i]) | np.uint32(heap[i + 1]) << np.uint32(8)
            k = np.uint32(k | np.uint32(heap[i + 2]) << np.uint32(16) | np.uint32(heap[i + 3]) << np.uint32(24))
            k = np.uint32(k * m)
            k = np.uint32(k ^ (k >> np.uint32(24)))
            k = np.uint32(k * m)
            h = np.uint32(np.uint32(h * m) ^ k)
        rest = begin + (size & ~3)
        if size & 3 == 3:
            h = np.uint32(h ^ np.uint32(heap[rest + 2]) << np.uint32(16))
        if size & 3 >= 2:
            h = np.uint32(h ^ np.uint32(heap[rest + 1]) << np.uint32(8))
        if size & 3 >= 1:
            h = np.uint32(np.uint32(h ^ np.uint32(heap[rest])) * m)
        h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * m)
        h = np.uint32(h ^ (h >> np.uint32(15)))
        out[row] = np.int64(h & np.uint32(0x7FFFFFFF)) % count
