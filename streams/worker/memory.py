"""Gives memory that is free, but still held by allocators, back to the system: a flood of subscriptions or a rebuild leaves much."""

from __future__ import annotations

import ctypes
from typing import Final

import pyarrow as pa

_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it


def give_back() -> None:
    """Takes a tenth of a second of a gigabyte; lets other threads run."""
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)
