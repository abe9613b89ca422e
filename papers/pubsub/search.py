"""Search, as the paper has it: from the header, into the structures of every attribute that the publication has, bucket by bucket."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import kernel
from pastforward.columns.scalars import Int
from pastforward.matching.index.batch import Batch
from pastforward.papers.pubsub.buckets import match_bucket
from pastforward.papers.pubsub.forest import ALWAYS, COUNT, HEADER, I32, STRUCTURES, Forest
from pastforward.papers.pubsub.predicates import mask_bit
from pastforward.papers.pubsub.structures import reach
from pastforward.papers.pubsub.table import find_structure

# A red-black tree of 2^31 leaves is at most this deep.
DEEPEST = 128


@kernel
def search(
    forest: Forest, batch: Batch, first: Int, entry_of: I32, waiting: I32, seen: I32, rows: I32, slots: I32
) -> tuple[Int, Int]:
    """From row `first` on; returns the next row and the number of pairs. Stops early at a row whose pairs might not fit.
    `entry_of` has a zero per attribute, and is left so; `waiting` has room for all buckets, `seen` too if strings have structures."""
    path = np.empty(DEEPEST, np.int32)
    n = 0
    for row in range(first, batch.start.shape[0] - 1):
        begin = n
        present = np.uint64(0)
        for e in range(batch.start[row], batch.start[row + 1]):
            entry_of[batch.attribute[e]] = e + 1
            present |= mask_bit(batch.attribute[e])
        full = False
        waiting[0] = HEADER
        waiting[1] = ALWAYS
        count = 2
        while count:
            count -= 1
            bucket = np.int64(waiting[count])
            if n + forest.buckets[bucket, COUNT] > len(rows):
                full = True
                break
            n = match_bucket(forest, batch, entry_of, ~present, bucket, row, rows, slots, n)
            if forest.buckets[bucket, STRUCTURES]:
                for e in range(batch.start[row], batch.start[row + 1]):
                    structure = find_structure(forest, bucket, batch.attribute[e])
                    if structure >= 0:
                        count = reach(forest, batch, structure, e, path, seen, row + 1, waiting, count)
        for e in range(batch.start[row], batch.start[row + 1]):
            entry_of[batch.attribute[e]] = 0
        if full:
            return row, begin
    return batch.start.shape[0] - 1, n
