"""Arrays that grow in place: the system maps more pages behind them, nothing is copied."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any, Final

import numpy as np

from pastforward.state.kernels.records import Array

_HUGE: Final = 4 << 20
"""Bytes from which large pages pay: an index is read at random, and would miss the TLB at every step."""


class Growing:
    """Zeroed memory. `array` gives a view of it; all views must be gone before it grows."""

    def __init__(self, dtype: Any, length: int, columns: int = 0) -> None:
        self._dtype = np.dtype(dtype)
        self._columns = columns
        self._row = self._dtype.itemsize * max(1, columns)
        self._pages = mmap.mmap(-1, self._size(length), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.length = length

    def _size(self, length: int) -> int:
        pages: int = -(-length * self._row // mmap.PAGESIZE)
        return pages * mmap.PAGESIZE

    def grow(self, length: int) -> None:
        self._pages.resize(self._size(length))
        self.length = length
        if self.length * self._row >= _HUGE:
            with contextlib.suppress(OSError):  # a kernel without large pages
                self._pages.madvise(mmap.MADV_HUGEPAGE)

    def array(self) -> Array:
        array = np.frombuffer(self._pages, self._dtype, self.length * max(1, self._columns))
        return array.reshape(self.length, self._columns) if self._columns else array
