"""Checks operations, and brings them to the columns that are applied."""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import hash_id
from pastforward.columns.kernel import bare
from pastforward.state.kernels.records import (
    EARLIEST,
    LATEST,
    PUBLICATION,
    SELF_JOIN,
    SUBTREE,
    VALID,
    WITHDRAWAL,
    Array,
)

FINE = 0
BAD_ID = 1
NO_TIME = 2
FAR = 3  # and the columns that follow, in their order
LONG_SUBSCRIBER = 16


@bare
def _far(time: int, farthest: int, exempt: int) -> bool:
    return time != exempt and (time > farthest or time < -farthest)


@bare
def prepare(
    kind: Array, time: Array, arrived: Array, starts: Array, ends: Array, expires: Array, now: Array, horizon: Array,
    subtree: Array, valid: Array, self_join: Array, earlier: Array, id_bytes: Array, id_low: Array, id_high: Array,
    subscriber_low: Array, subscriber_high: Array, payload_low: Array, payload_high: Array, texts: bool, longest_id: int,
    farthest: int, identity: Array, flags: Array, out_time: Array, out_other: Array, out_earlier: Array,
) -> tuple[int, int, int]:  # fmt: skip
    """Returns (FINE, 0, bytes of all texts), or what is wrong, with which row, and 0. `texts`: ids are; else they are numbers."""
    size = 0
    for row in range(len(kind)):
        published = kind[row] == PUBLICATION
        if texts:
            length = id_high[row] - id_low[row]
            if length < 1 or length > longest_id:
                return BAD_ID, row, 0
            size += length
            identity[row] = hash_id(id_bytes, id_low[row], id_high[row])
        if time[row] == EARLIEST and kind[row] != WITHDRAWAL:
            return NO_TIME, row, 0
        if _far(time[row], farthest, EARLIEST):
            return FAR, row, 0
        if _far(arrived[row], farthest, EARLIEST):
            return FAR + 1, row, 0
        if _far(starts[row], farthest, EARLIEST):
            return FAR + 2, row, 0
        if _far(ends[row], farthest, LATEST):
            return FAR + 3, row, 0
        if _far(expires[row], farthest, LATEST):
            return FAR + 4, row, 0
        if _far(now[row], farthest, EARLIEST):
            return FAR + 5, row, 0
        if _far(horizon[row], farthest, EARLIEST):
            return FAR + 6, row, 0
        length = subscriber_high[row] - subscriber_low[row]
        if length > longest_id:
            return LONG_SUBSCRIBER, row, 0
        size += length + payload_high[row] - payload_low[row]
        flag = SELF_JOIN if self_join[row] else 0
        if published:
            out_time[row], out_other[row], out_earlier[row] = time[row], expires[row], earlier[row]
        else:
            out_time[row], out_other[row], out_earlier[row] = ends[row], starts[row], 0
            if subtree[row]:
                flag |= SUBTREE
            if valid[row]:
                flag |= VALID
        flags[row] = np.uint8(flag)
    return FINE, 0, size
