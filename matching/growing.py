"""Arrays that grow."""

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
