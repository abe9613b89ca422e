"""Arrays that grow."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)


CACHE_LINE = 64


def aligned(room: int, dtype: Any) -> npt.NDArray[Any]:
    """Zeros that begin at a cache line: a vector that lies across two lines takes twice as long to load."""
    kind = np.dtype(dtype)
    bytes_ = np.zeros(room * kind.itemsize + CACHE_LINE, np.uint8)
    begin = -bytes_.__array_interface__["data"][0] % CACHE_LINE
    return bytes_[begin : begin + room * kind.itemsize].view(kind)


def longer(array: npt.NDArray[Scalar], room: int, fill: Any = 0) -> npt.NDArray[Scalar]:
    """The same with room for more. Zeros are not touched until they are used, so they take no memory."""
    fresh: npt.NDArray[Scalar] = aligned(room, array.dtype) if fill == 0 else np.full(room, fill, array.dtype)
    fresh[: len(array)] = array
    return fresh
