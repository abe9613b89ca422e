"""Some rows of a batch of attributes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import Attributes


def take(attributes: Attributes, rows: npt.NDArray[np.int64]) -> Attributes:
    """The attributes of some rows, in their order."""
    if len(rows) == len(attributes):
        return attributes
    first, count = attributes.start[rows], attributes.start[rows + 1] - attributes.start[rows]
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(count, out=start[1:])
    at = np.repeat(first - start[:-1], count) + np.arange(int(start[-1]))
    return Attributes(
        attributes.names,
        start,
        attributes.name[at],
        attributes.tag[at],
        attributes.bits[at],
        attributes.length[at],
        attributes.heap,
    )
