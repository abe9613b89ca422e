"""Arrays that grow."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)


def longer(array: npt.NDArray[Scalar], room: int, fill: Any = 0) -> npt.NDArray[Scalar]:
    """The same with room for more. Zeros are not touched until they are used, so they take no memory."""
    fresh: npt.NDArray[Scalar] = np.zeros(room, array.dtype) if fill == 0 else np.full(room, fill, array.dtype)
    fresh[: len(array)] = array
    return fresh
