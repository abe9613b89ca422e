"""Buckets: members in groups by their first unused attribute, each group sorted by the start of its ranges; late-comers behind, unordered.

A member that leaves is marked dead, and the bucket is made compact when half of it is. A bucket of few members stays unordered: then
coming and going is cheap, and reading it as well.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Int
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.records import RecordView
from pastforward.matching.index.strings import StringView
from pastforward.papers.pubsub.forest import (
    BUCKET_POOL,
    COUNT,
    DEAD,
    DEAD_MASK,
    DIRTY,
    DIRTY_COUNT,
    GROUP_ATTRIBUTE,
    GROUP_COUNT,
    GROUP_END,
    GROUP_ROOM,
    GROUPS,
    GROUPS_END,
    I32,
    KEEPS_ORDER,
    NODE,
    NONE,
    OFFSET,
    ORDERED,
    OWNER,
    ROOM,
    UNORDERED,
    Forest,
    free_row,
    take_row,
)
from pastforward.papers.pubsub.pieces import free_groups, free_members, take_groups, take_members
from pastforward.papers.pubsub.predicates import hull_on, next_attribute
from pastforward.papers.pubsub.sorting import order_of


@inner
def new_bucket(forest: Forest, structure: Int, node: Int) -> Int:
    bucket = take_row(forest.buckets, forest.state, BUCKET_POOL)
    forest.buckets[bucket, :] = 0
    waits = forest.places[bucket, DIRTY]  # one that went stays in the list of dirty buckets
    forest.places[bucket, :] = 0
    forest.places[bucket, DIRTY] = waits
    forest.places[bucket, OWNER] = structure
    forest.places[bucket, NODE] = node
    return bucket


@inner
def free_bucket(forest: Forest, bucket: Int) -> None:
    row = forest.buckets[bucket]
    free_members(forest, row[OFFSET], row[ROOM])
    free_groups(forest, row[GROUPS], forest.places[bucket, GROUP_ROOM])
    row[:] = 0
    free_row(forest.buckets, forest.state, BUCKET_POOL, bucket)


@inner
def live(forest: Forest, bucket: Int) -> Int:
    return forest.buckets[bucket, COUNT] - forest.buckets[bucket, DEAD]


@inner
def append(forest: Forest, bucket: Int, slot: Int, mask: Int) -> None:
    row = forest.buckets[bucket]
    if row[COUNT] == row[ROOM]:
        _grow(forest, bucket)
    at = row[OFFSET] + row[COUNT]
    forest.mask[at] = mask
    forest.slot[at] = slot
    forest.home[slot] = bucket
    row[COUNT] += 1
    if (
        row[COUNT] - row[ORDERED] > UNORDERED
        and not forest.places[bucket, DIRTY]
        and forest.state[KEEPS_ORDER]
        and forest.places[bucket, OWNER] >= 0
    ):
        forest.places[bucket, DIRTY] = 1
        forest.dirty[forest.state[DIRTY_COUNT]] = bucket
        forest.state[DIRTY_COUNT] += 1


@inner
def _grow(forest: Forest, bucket: Int) -> None:
    row = forest.buckets[bucket]
    count = row[COUNT]
    offset, room = take_members(forest, count + count // 4 + 1)
    old = row[OFFSET]
    for i in range(count):
        forest.start[offset + i] = forest.start[old + i]
        forest.end[offset + i] = forest.end[old + i]
        forest.mask[offset + i] = forest.mask[old + i]
        forest.slot[offset + i] = forest.slot[old + i]
    free_members(forest, old, row[ROOM])
    row[OFFSET] = offset
    row[ROOM] = room


@inner
def position(forest: Forest, bucket: Int, slot: Int) -> Int:
    """Where a live member stands; it is there. Whole stretches are compared at once, without a branch for each."""
    at = forest.buckets[bucket, OFFSET]
    end = at + forest.buckets[bucket, COUNT]
    stretch = 64
    while at < end:
        stop = min(at + stretch, end)
        found = np.int64(0)
        for i in range(at, stop):
            found |= np.int64(forest.slot[i] == slot)
        if found:
            while forest.slot[at] != slot:
                at += 1
            return at
        at = stop
    return -1


@inner
def bury(forest: Forest, bucket: Int, at: Int) -> None:
    """Marks the member at a position dead."""
    forest.mask[at] = DEAD_MASK
    forest.slot[at] = NONE
    forest.buckets[bucket, DEAD] += 1


@inner
def compact(forest: Forest, bucket: Int) -> None:
    """Without the dead, in the same order."""
    row = forest.buckets[bucket]
    offset = row[OFFSET]
    to = offset
    at = offset
    groups = 0
    for g in range(row[GROUP_COUNT] + 1):
        last = g == row[GROUP_COUNT]
        end = offset + (row[COUNT] if last else np.int64(forest.groups[row[GROUPS] + g, GROUP_END]))
        before = to
        while at < end:
            if forest.slot[at] >= 0:
                if to < at:
                    forest.start[to] = forest.start[at]
                    forest.end[to] = forest.end[at]
                    forest.mask[to] = forest.mask[at]
                    forest.slot[to] = forest.slot[at]
                to += 1
            at += 1
        if last:
            row[ORDERED] = before - offset
        elif to > before:
            forest.groups[row[GROUPS] + groups, GROUP_ATTRIBUTE] = forest.groups[row[GROUPS] + g, GROUP_ATTRIBUTE]
            forest.groups[row[GROUPS] + groups, GROUP_END] = to - offset
            groups += 1
    row[GROUP_COUNT] = groups
    row[COUNT] = to - offset
    row[DEAD] = 0


@kernel
def settle(forest: Forest, records: RecordView, strings: StringView, rank: I32) -> Int:
    """Puts the dirty buckets in order, from the last on. Returns 0, or how many groups there must be room for to go on."""
    state = forest.state
    while state[DIRTY_COUNT]:
        bucket = np.int64(forest.dirty[state[DIRTY_COUNT] - 1])
        need = 2 * forest.buckets[bucket, COUNT] + 8  # room is rounded up by a quarter at most
        if state[GROUPS_END] + need > len(forest.groups):
            return need
        forest.places[bucket, DIRTY] = 0
        state[DIRTY_COUNT] -= 1
        _put_in_order(forest, records, strings, rank, bucket)
    return 0


@inner
def _put_in_order(forest: Forest, records: RecordView, strings: StringView, rank: I32, bucket: Int) -> None:
    compact(forest, bucket)
    row = forest.buckets[bucket]
    offset = row[OFFSET]
    ordered = row[ORDERED]
    count = row[COUNT]
    late = count - ordered
    late_attribute = np.empty(late, np.uint64)  # plus one: those without come first
    late_start = np.empty(late, np.uint64)
    late_end = np.empty(late, np.uint64)
    for i in range(late):
        slot = np.int64(forest.slot[offset + ordered + i])
        attribute = next_attribute(forest, records, rank, slot, bucket)
        low = np.uint64(0)
        high = ~np.uint64(0)
        if attribute >= 0:
            low, high, _value = hull_on(records, strings, slot, attribute)
        late_attribute[i] = np.uint64(attribute + 1)
        late_start[i] = low
        late_end[i] = high
    by_both = order_of(late_attribute, late_start)

    start = np.empty(count, np.uint64)
    end = np.empty(count, np.uint64)
    mask = np.empty(count, np.uint64)
    slots = np.empty(count, np.int32)
    attributes = np.empty(count, np.int32)
    early = 0
    group = 0
    taken = 0
    for to in range(count):
        while group < row[GROUP_COUNT] and early == forest.groups[row[GROUPS] + group, GROUP_END]:
            group += 1
        from_late = early == ordered
        if taken < late and not from_late:
            attribute = np.uint64(np.int64(forest.groups[row[GROUPS] + group, GROUP_ATTRIBUTE]) + 1)
            i = by_both[taken]
            from_late = late_attribute[i] < attribute or (
                late_attribute[i] == attribute and late_start[i] < forest.start[offset + early]
            )
        if from_late:
            i = by_both[taken]
            at = offset + ordered + i
            start[to] = late_start[i]
            end[to] = late_end[i]
            attributes[to] = np.int64(late_attribute[i]) - 1
            taken += 1
        else:
            at = offset + early
            start[to] = forest.start[at]
            end[to] = forest.end[at]
            attributes[to] = forest.groups[row[GROUPS] + group, GROUP_ATTRIBUTE]
            early += 1
        mask[to] = forest.mask[at]
        slots[to] = forest.slot[at]
    for i in range(count):
        forest.start[offset + i] = start[i]
        forest.end[offset + i] = end[i]
        forest.mask[offset + i] = mask[i]
        forest.slot[offset + i] = slots[i]
    _write_groups(forest, bucket, attributes)


@inner
def _write_groups(forest: Forest, bucket: Int, attributes: I32) -> None:
    row = forest.buckets[bucket]
    count = len(attributes)
    groups = 0
    for i in range(count):
        if i == 0 or attributes[i] != attributes[i - 1]:
            groups += 1
    if groups > forest.places[bucket, GROUP_ROOM]:
        free_groups(forest, row[GROUPS], forest.places[bucket, GROUP_ROOM])
        place, room = take_groups(forest, groups)
        row[GROUPS] = place
        forest.places[bucket, GROUP_ROOM] = room
    at = row[GROUPS] - 1
    for i in range(count):
        if i == 0 or attributes[i] != attributes[i - 1]:
            at += 1
            forest.groups[at, GROUP_ATTRIBUTE] = attributes[i]
        forest.groups[at, GROUP_END] = i + 1
    row[GROUP_COUNT] = groups
    row[ORDERED] = count


@inner
def _up_to(start: np.ndarray, low: Int, high: Int, key: Int) -> Int:
    """The first position in low:high whose range starts after the key."""
    while low < high:
        middle = (low + high) >> 1
        if start[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def match_bucket(
    forest: Forest, batch: Batch, entry_of: I32, absent: Int, bucket: Int, row: Int, rows: I32, slots: I32, n: Int
) -> Int:
    """Appends the members that may match a row; returns the number of pairs. `rows` has room for all of them. `entry_of[attribute]`
    is the row's entry plus one, `absent` the bits of no attribute that the row has."""
    info = forest.buckets[bucket]
    offset = info[OFFSET]
    first = offset
    groups = info[GROUPS]
    for g in range(groups, groups + info[GROUP_COUNT]):
        attribute = forest.groups[g, GROUP_ATTRIBUTE]
        end = offset + np.int64(forest.groups[g, GROUP_END])
        if attribute < 0:
            for at in range(first, end):
                if forest.mask[at] & absent == 0:
                    rows[n] = row
                    slots[n] = forest.slot[at]
                    n += 1
        elif entry_of[attribute]:
            key = batch.low[entry_of[attribute] - 1]
            for at in range(first, _up_to(forest.start, first, end, key)):
                if forest.mask[at] & absent == 0 and key <= forest.end[at]:
                    rows[n] = row
                    slots[n] = forest.slot[at]
                    n += 1
        first = end
    for at in range(offset + info[ORDERED], offset + info[COUNT]):
        if forest.mask[at] & absent == 0:
            rows[n] = row
            slots[n] = forest.slot[at]
            n += 1
    return n
