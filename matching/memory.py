"""Giving memory back to the system."""

from __future__ import annotations

import ctypes

import pyarrow as pa

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """What Arrow and the C library keep for later. Without glibc only Arrow's."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)
