"""Pieces of the columns of members and of groups: taken for a bucket, given back when it grows or goes."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Int
from pastforward.papers.pubsub.forest import GROUPS_END, MEMBERS_END, Forest, class_of_size, size_of_class

# A free piece holds the next one of its size, plus one, in its first row.


@inner
def take_members(forest: Forest, size: Int) -> tuple[Int, Int]:
    """Where the piece begins and its room."""
    kind = class_of_size(size)
    room = size_of_class(kind)
    offset = forest.free[0, kind] - 1
    if offset >= 0:
        forest.free[0, kind] = np.int64(forest.start[offset])
    else:
        offset = forest.state[MEMBERS_END]
        forest.state[MEMBERS_END] += room
    return offset, room


@inner
def free_members(forest: Forest, offset: Int, room: Int) -> None:
    if room:
        kind = class_of_size(room)
        forest.start[offset] = np.uint64(forest.free[0, kind])
        forest.free[0, kind] = offset + 1


@inner
def take_groups(forest: Forest, size: Int) -> tuple[Int, Int]:
    kind = class_of_size(size)
    room = size_of_class(kind)
    offset = forest.free[1, kind] - 1
    if offset >= 0:
        forest.free[1, kind] = forest.groups[offset, 0]
    else:
        offset = forest.state[GROUPS_END]
        forest.state[GROUPS_END] += room
    return offset, room


@inner
def free_groups(forest: Forest, offset: Int, room: Int) -> None:
    if room:
        kind = class_of_size(room)
        forest.groups[offset, 0] = np.int32(forest.free[1, kind])
        forest.free[1, kind] = offset + 1
