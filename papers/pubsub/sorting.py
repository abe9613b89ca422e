"""The order of pairs of keys; small, so that it compiles in no time, and stable."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner
from pastforward.papers.pubsub.forest import I32, U64


@inner
def order_of(first: U64, second: U64) -> I32:
    """Positions by the first keys, then the second: runs of growing length are merged."""
    count = len(first)
    order = np.arange(count).astype(np.int32)
    merged = np.empty(count, np.int32)
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle = min(low + width, count)
            high = min(low + 2 * width, count)
            a = low
            b = middle
            for to in range(low, high):
                take_b = a == middle
                if not take_b and b < high:
                    x = order[a]
                    y = order[b]
                    take_b = first[y] < first[x] or (first[y] == first[x] and second[y] < second[x])
                if take_b:
                    merged[to] = order[b]
                    b += 1
                else:
                    merged[to] = order[a]
                    a += 1
        order, merged = merged, order
        width *= 2
    return order
