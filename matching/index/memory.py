"""How much memory Python's objects take, and giving memory back to the system."""

from __future__ import annotations

import ctypes
from sys import getsizeof

import pyarrow as pa

from pastforward.matching.conditions.values import Box, Circle, Point

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """What Arrow and the C library keep for later. Without glibc only Arrow's."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)


def size_of(value: object) -> int:
    """Bytes of a constraint, or of what one is made of. What several share is counted for each."""
    if value is None or isinstance(value, bool):
        return 0
    if isinstance(value, tuple):
        return getsizeof(value) + sum(map(size_of, value))
    if isinstance(value, Point | Circle | Box):
        return getsizeof(value) + sum(getsizeof(getattr(value, name)) for name in value.__slots__)
    return getsizeof(value)
