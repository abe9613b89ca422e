"""Which ranges of the disk a chunk of operations needs, when the subscriptions are not in memory."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import bare
from pastforward.state.kernels.disk_rows import MARK, _put_big_endian
from pastforward.state.kernels.records import (
    LATEST,
    LOG_TIME,
    PUBLICATION,
    SELF_JOIN,
    WITHDRAWAL,
    Array,
    Operations,
)
from pastforward.state.kernels.rules import ended_before


@bare
def ranges(
    scalars: Array,
    operations: Operations,
    find_subscribers: bool,
    deepest: int,
    paths: Array,
    entries: tuple[Array, Array, Array],
    below: Array,
) -> int:
    """One entry for each list or subtree that a row must see. Returns how many.

    Entry e is the first `ends[e]` bytes of the encoded path that begins at `paths[path_of[e]]`, or the subtree below it; `lows[e]` is the
    earliest time that matters there. Log time only grows, so bounds that hold at the chunk's start are wide enough for every row.
    """
    path_of, ends, lows = entries
    count = 0
    at = 0
    ended = ended_before(scalars, scalars[LOG_TIME])
    for row in range(len(operations.kind)):
        kind = operations.kind[row]
        published = kind == PUBLICATION
        wanted = find_subscribers if published else operations.flags[row] & SELF_JOIN != 0
        if kind == WITHDRAWAL or not wanted:
            continue
        after = operations.time[row] if published else operations.other[row]
        low = max(after + 1 if after < LATEST else LATEST, ended)
        for topic in range(operations.topics[row], operations.topics[row + 1]):
            begin = at
            first = operations.paths[topic]
            depth = operations.paths[topic + 1] - first
            for level in range(depth + 1):
                path_of[count] = begin
                ends[count] = at - begin
                lows[count] = low
                below[count] = False
                count += 1
                if level == depth:
                    break
                component = operations.components[first + level]
                size = 0
                rest = component
                while rest != np.uint64(0):
                    size += 1
                    rest >>= np.uint64(8)
                paths[at] = MARK + size
                at = _put_big_endian(paths, at + 1, component, size)
            if depth < deepest:
                path_of[count] = begin
                ends[count] = at - begin
                lows[count] = low
                below[count] = True
                count += 1
    return count
