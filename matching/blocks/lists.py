"""Lists of numbers that kernels fill and lengthen, and in what steps they do."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Int

I32 = npt.NDArray[np.int32]


STEP: Final = 64  # leaves and publications between two looks at whether there is room
AHEAD: Final = 8  # nodes and leaves asked for early: up to five cache lines each, about what a core keeps in flight


@inner
def lengthened(array: I32, need: Int) -> I32:
    longer = np.empty(max(2 * len(array), need), np.int32)
    longer[: len(array)] = array
    return longer
