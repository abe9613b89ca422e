"""Arrays that grow: copied into more room, or in place, where the system maps more pages behind them."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)


CACHE_LINE = 64
_LARGE: Final = 1 << 22  # bytes from which on pages of two megabytes are worth while


def aligned(room: int, dtype: Any) -> npt.NDArray[Any]:
    """Zeros that begin at a cache line: a vector that lies across two lines takes twice as long to load."""
    kind = np.dtype(dtype)
    if room * kind.itemsize >= _LARGE:
        # of the system: the allocator may hand out memory that was used before, and would have to write all the zeros
        pages = mmap.mmap(-1, room * kind.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # a kernel without large pages does with small ones
            pages.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(pages, kind)
    bytes_ = np.zeros(room * kind.itemsize + CACHE_LINE, np.uint8)
    begin = -bytes_.__array_interface__["data"][0] % CACHE_LINE
    return bytes_[begin : begin + room * kind.itemsize].view(kind)


def longer(array: npt.NDArray[Scalar], room: int, fill: Any = 0) -> npt.NDArray[Scalar]:
    """The same with room for more. Zeros are not touched until they are used, so they take no memory."""
    fresh: npt.NDArray[Scalar] = aligned(room, array.dtype) if fill == 0 else np.full(room, fill, array.dtype)
    fresh[: len(array)] = array
    return fresh


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
        if self.length * self._row >= _LARGE:
            with suppress(OSError):  # a kernel without large pages
                self._pages.madvise(mmap.MADV_HUGEPAGE)

    def array(self) -> npt.NDArray[Any]:
        array = np.frombuffer(self._pages, self._dtype, self.length * max(1, self._columns))
        return array.reshape(self.length, self._columns) if self._columns else array
