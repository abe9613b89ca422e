"""Where Java's producer puts a key, and so every client and worker here: murmur2 of its bytes.

The workers' kernel (`streams/stages/kernels.py`) does so for columns; this is for a key at a time, without Numba's second of import.
"""

from __future__ import annotations

from typing import Final

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_WORD: Final = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    size = len(key)
    h = _SEED ^ size
    whole = size & ~3
    for begin in range(0, whole, 4):
        k = int.from_bytes(key[begin : begin + 4], "little") * _M & _WORD
        k = (k ^ k >> 24) * _M & _WORD
        h = (h * _M & _WORD) ^ k
    if size > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _WORD
    h = (h ^ h >> 13) * _M & _WORD
    h ^= h >> 15
    return (h & 0x7FFFFFFF) % partitions
