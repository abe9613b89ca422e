"""Which ranges of the disk a chunk of operations needs, when the index in memory does not hold them."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import bare
from pastforward.state.kernels.disk_rows import MARK, _put_big_endian
from pastforward.state.kernels.records import (
    LATEST,
    LOG_TIME,
    PUBLICATION,
    SELF_JOIN,
    SUBTREE,
    VALID,
    WITHDRAWAL,
    Array,
    Operations,
)
from pastforward.state.kernels.rules import ended_before, horizon

SUBSCRIPTIONS_AT = 0
PUBLICATIONS_AT = 1
SUBSCRIPTIONS_BELOW = 2
PUBLICATIONS_BELOW = 3
EARLIER = 4  # publications, as many as are asked for


@bare
def _emit(count: int, what: int, end: int, low: int, row_what: Array, ends: Array, lows: Array) -> int:
    row_what[count] = what
    ends[count] = end
    lows[count] = low
    return count + 1


@bare
def ranges(
    scalars: Array,
    operations: Operations,
    find_past: bool,
    find_subscribers: bool,
    deepest: int,
    earlier: Array,
    paths: Array,
    path_of: Array,
    what: Array,
    ends: Array,
    lows: Array,
    topic_of: Array,
) -> int:
    """One entry for each list or subtree that a row must see. Returns how many. `earlier`: whether a topic's earlier publications are
    looked for.

    Entry e is for the topic `topic_of[e]`, and is the first `ends[e]` bytes of the encoded path that begins at `paths[path_of[e]]`;
    `lows[e]` is the earliest time that matters there. Log time only grows, so bounds that hold at the chunk's start are wide enough for
    every row.
    """
    count = 0
    at = 0
    log_time = scalars[LOG_TIME]
    oldest = horizon(scalars, log_time)
    ended = ended_before(scalars, log_time)
    for row in range(len(operations.kind)):
        kind = operations.kind[row]
        if kind == WITHDRAWAL:
            continue
        flags = operations.flags[row]
        if kind == PUBLICATION:
            wants_subscriptions = find_subscribers
            wants_publications = False
            after = operations.time[row]
        else:
            wants_subscriptions = flags & SELF_JOIN != 0
            wants_publications = find_past
            after = operations.other[row]
        subscriptions_low = max(after + 1 if after < LATEST else LATEST, ended)
        publications_low = oldest if flags & VALID else max(operations.other[row], oldest)
        for topic in range(operations.topics[row], operations.topics[row + 1]):
            begin = at
            first = operations.paths[topic]
            depth = operations.paths[topic + 1] - first
            for level in range(depth + 1):
                own = level == depth
                if wants_subscriptions:
                    path_of[count] = begin
                    count = _emit(count, SUBSCRIPTIONS_AT, at - begin, subscriptions_low, what, ends, lows)
                if wants_publications and (own or not flags & SUBTREE):
                    path_of[count] = begin
                    count = _emit(count, PUBLICATIONS_AT, at - begin, publications_low, what, ends, lows)
                if own:
                    break
                component = operations.components[first + level]
                size = 0
                rest = component
                while rest != np.uint64(0):
                    size += 1
                    rest >>= np.uint64(8)
                paths[at] = MARK + size
                at = _put_big_endian(paths, at + 1, component, size)
            if earlier[topic]:
                path_of[count] = begin
                topic_of[count] = topic
                count = _emit(count, EARLIER, at - begin, oldest, what, ends, lows)
            if depth < deepest:
                if wants_subscriptions:
                    path_of[count] = begin
                    count = _emit(count, SUBSCRIPTIONS_BELOW, at - begin, subscriptions_low, what, ends, lows)
                if wants_publications:
                    path_of[count] = begin
                    count = _emit(count, PUBLICATIONS_BELOW, at - begin, publications_low, what, ends, lows)
    return count
