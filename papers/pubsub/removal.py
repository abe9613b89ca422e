"""Removal, the inverse of insertion: an empty bucket leaves its D, an empty structure leaves the table, and so on up to the header."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import kernel
from pastforward.papers.pubsub.buckets import bury, compact, live, position
from pastforward.papers.pubsub.forest import (
    ALWAYS,
    COUNT,
    DEAD,
    HEADER,
    I32,
    NONE,
    OWNER,
    PARENT_BUCKET,
    STRUCTURES,
    Forest,
)
from pastforward.papers.pubsub.structures import drop_bucket


@kernel
def remove_many(forest: Forest, slots: I32) -> None:
    for i in range(len(slots)):
        slot = np.int64(slots[i])
        bucket = np.int64(forest.home[slot])
        bury(forest, bucket, position(forest, bucket, slot))
        while bucket != HEADER and live(forest, bucket) == 0 and not forest.buckets[bucket, STRUCTURES]:
            if bucket == ALWAYS:
                compact(forest, bucket)
                break
            structure = np.int64(forest.places[bucket, OWNER])
            above = np.int64(forest.structures[structure, PARENT_BUCKET])
            if not drop_bucket(forest, bucket, structure):
                break
            bucket = above
        else:
            if bucket != HEADER and 2 * forest.buckets[bucket, DEAD] > forest.buckets[bucket, COUNT]:
                compact(forest, bucket)
        forest.home[slot] = NONE
