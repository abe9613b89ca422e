"""What a subscription asks of one attribute, read from its record."""

from __future__ import annotations

import numpy as np

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.index.records import (
    EQUAL_STRING,
    NEGATED,
    NULL,
    PREFIX,
    SUBSTRING,
    RecordView,
    part_count,
    part_hull,
    parts_begin,
    payload,
)
from pastforward.matching.index.records import SUFFIX as SUFFIX_PART
from pastforward.matching.index.strings import StringView
from pastforward.papers.pubsub.forest import ATTRIBUTE as STRUCTURE_ATTRIBUTE
from pastforward.papers.pubsub.forest import (
    EQUALITIES,
    HEADER,
    I32,
    I64,
    MASK_BITS,
    NONE,
    OWNER,
    PARENT_BUCKET,
    RANGES,
    SUBSTRINGS,
    SUFFIXES,
    Forest,
)


@inner
def mask_bit(attribute: Int) -> Int:
    return np.uint64(1) << np.uint64(np.uint32(attribute) % np.uint32(MASK_BITS))


@inner
def _kind(header: np.uint32) -> np.uint32:
    return (header >> np.uint32(7)) & np.uint32(31)


@inner
def needed(records: RecordView, slot: Int) -> Int:
    """The bits of the attributes that must be present."""
    words = records.words
    at = np.int64(records.offset[slot])
    count = part_count(words, at)
    at = parts_begin(words, at)
    mask = np.uint64(0)
    for _ in range(count):
        header = words[at]
        if _kind(header) != np.uint32(NULL):
            mask |= mask_bit(header >> np.uint32(12))
        at += 1 + payload(words, at)
    return mask


@inner
def first_part(records: RecordView, slot: Int, attribute: Int) -> Int:
    """Where the parts of an attribute begin in the words of a record, -1 if it has none, or asks that there be none."""
    words = records.words
    at = np.int64(records.offset[slot])
    count = part_count(words, at)
    at = parts_begin(words, at)
    for _ in range(count):
        header = words[at]
        if np.int64(header >> np.uint32(12)) == attribute:
            return -1 if _kind(header) == np.uint32(NULL) else at
        at += 1 + payload(words, at)
    return -1


@inner
def _record_end(records: RecordView, slot: Int) -> Int:
    words = records.words
    at = np.int64(records.offset[slot])
    count = part_count(words, at)
    at = parts_begin(words, at)
    for _ in range(count):
        at += 1 + payload(words, at)
    return at


@inner
def hull_on(records: RecordView, strings: StringView, slot: Int, attribute: Int) -> tuple[Int, Int, Int]:
    """Order keys that hold every value that satisfies the attribute's predicate; the hash of its value for an equality, else 0."""
    words = records.words
    at = first_part(records, slot, attribute)
    end = _record_end(records, slot)
    low, high, value = part_hull(words, at, strings)
    at += 1 + payload(words, at)
    while at < end and np.int64(words[at] >> np.uint32(12)) == attribute:
        part_low, part_high, part_value = part_hull(words, at, strings)
        low = max(low, part_low)
        high = min(high, part_high)
        if part_value:
            value = part_value
        at += 1 + payload(words, at)
    return low, high, value


@inner
def pattern_on(records: RecordView, strings: StringView, slot: Int, attribute: Int) -> tuple[Int, Bool]:
    """The longest string that the attribute's value must contain, and whether it must end with it; -1 if there is none."""
    words = records.words
    at = first_part(records, slot, attribute)
    end = _record_end(records, slot)
    found = np.int64(-1)
    anchored = False
    while at < end and np.int64(words[at] >> np.uint32(12)) == attribute:
        kind = _kind(words[at])
        if kind == np.uint32(EQUAL_STRING) or (
            kind >= np.uint32(PREFIX) and kind <= np.uint32(SUBSTRING) and words[at] & np.uint32(NEGATED) == 0
        ):
            text = np.int64(words[at + 1])
            if found < 0 or strings.length[text] > strings.length[found]:
                found = text
                anchored = kind == np.uint32(EQUAL_STRING) or kind == np.uint32(SUFFIX_PART)
        at += 1 + payload(words, at)
    return found, anchored


@inner
def next_attribute(forest: Forest, records: RecordView, rank: I32, slot: Int, bucket: Int) -> Int:
    """The first attribute, rarest first, that no structure on the way from the header to `bucket` belongs to; -1 if there is none."""
    words = records.words
    at = np.int64(records.offset[slot])
    count = part_count(words, at)
    at = parts_begin(words, at)
    best = np.int64(NONE)
    for _ in range(count):
        header = words[at]
        attribute = np.int64(header >> np.uint32(12))
        if (
            _kind(header) != np.uint32(NULL)
            and (best < 0 or rank[attribute] < rank[best])
            and not _on_the_way(forest, bucket, attribute)
        ):
            best = attribute
        at += 1 + payload(words, at)
    return best


@inner
def _on_the_way(forest: Forest, bucket: Int, attribute: Int) -> Bool:
    while bucket != HEADER:
        structure = forest.places[bucket, OWNER]
        if forest.structures[structure, STRUCTURE_ATTRIBUTE] == attribute:
            return True
        bucket = np.int64(forest.structures[structure, PARENT_BUCKET])
    return False


@kernel
def count_uses(records: RecordView, strings: StringView, slots: I32, uses: I64, step: Int) -> None:
    """Adds `step` to what the predicates of the slots count for."""
    words = records.words
    for i in range(len(slots)):
        at = np.int64(records.offset[slots[i]])
        count = part_count(words, at)
        at = parts_begin(words, at)
        for _ in range(count):
            header = words[at]
            kind = _kind(header)
            attribute = np.int64(header >> np.uint32(12))
            if kind == np.uint32(SUBSTRING) and header & np.uint32(NEGATED) == 0:
                uses[attribute, SUBSTRINGS] += step
            elif kind == np.uint32(SUFFIX_PART) and header & np.uint32(NEGATED) == 0:
                uses[attribute, SUFFIXES] += step
            elif kind != np.uint32(NULL):
                _low, _high, value = part_hull(words, at, strings)
                uses[attribute, EQUALITIES if value else RANGES] += step
            at += 1 + payload(words, at)
