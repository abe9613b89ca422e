"""Which slots keys reach for less than blocks, and under which of their parts."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import FLOAT, INTEGER, STRING, TIMESTAMP
from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.blocks.access import choose
from pastforward.matching.blocks.describe import carried_share, describe
from pastforward.matching.blocks.postings import (
    HAS_ENDS,
    HAS_PIECES,
    HAS_VALUES,
    ITEM,
    LONGEST_END,
    NO_TEXT,
    PIECE,
    find_key,
    folded_bit,
    key_of,
    longer_end,
    post,
    text_key,
    value_key,
)
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.view import (
    ENDING,
    HOLDING,
    KEY_CELLS,
    LISTED,
    LIVE,
    LIVE_KEYS,
    LIVE_POSTINGS,
    POSTED,
    POSTED_HOME,
    Blocks,
)
from pastforward.matching.index.keys import equality_hash
from pastforward.matching.index.like import ESCAPE, ONE, RUN
from pastforward.matching.index.records import (
    FOLDED,
    INCLUDED,
    LIKE,
    NEGATED,
    OF_STRINGS,
    OF_TIMESTAMPS,
    SUBSTRING,
    SUFFIX,
    RecordView,
    part_count,
    parts_begin,
    payload,
    read_64,
)
from pastforward.matching.index.strings import StringView
from pastforward.matching.index.verification import Known

I32 = npt.NDArray[np.int32]


# Nanoseconds, measured on one core: a candidate that has to be verified, by its share of publications.
VERIFIED: Final = 25.0
# The share of texts that are thought to hold a piece of so many bytes, and no more.
_HOLD_ONE: Final = 0.5
_HOLD_TWO: Final = 0.1
_HOLD_THREE: Final = 0.03
_HOLD_FOUR: Final = 0.01  # or more
_FEW: Final = 256  # constraints on an attribute until which lists are taken to be of many values


@inner
def _item_hash(words: npt.NDArray[np.uint32], at: Int, i: Int) -> Int:
    """Of the i-th value of a list."""
    flags = np.int64(words[at]) & 63
    tag = np.int64(INTEGER)
    if flags == OF_STRINGS:
        tag = np.int64(STRING)
    elif flags == OF_TIMESTAMPS:
        tag = np.int64(TIMESTAMP)
    elif i >= np.int64(words[at + 1]):
        tag = np.int64(FLOAT)
    return equality_hash(tag, read_64(words, at + 3 + 2 * i))


@inner
def _literal(strings: StringView, number: Int) -> tuple[Int, Int]:
    """Where the longest literal of a LIKE pattern begins in it, and its bytes. Escapes end a literal."""
    heap = strings.heap
    begin = strings.offset[number]
    size = np.int64(strings.length[number])
    best = np.int64(0)
    longest = np.int64(0)
    first = np.int64(0)
    i = np.int64(0)
    while i <= size:
        if i == size or heap[begin + i] == RUN or heap[begin + i] == ONE or heap[begin + i] == ESCAPE:
            if i - first > longest:
                longest = i - first
                best = first
            if i < size and heap[begin + i] == ESCAPE:
                i += 1
                first = i
            else:
                first = i + 1
        i += 1
    return best, longest


@inner
def _kind(words: npt.NDArray[np.uint32], at: Int) -> Int:
    return np.int64((words[at] >> np.uint32(7)) & np.uint32(31))


@inner
def _demands(words: npt.NDArray[np.uint32], at: Int, strings: StringView) -> tuple[Int, Int]:
    """The bytes that a pattern demands: how many, and where in its text they begin. None of what is forbidden."""
    kind = _kind(words, at)
    if (kind != SUFFIX and kind != SUBSTRING and kind != LIKE) or words[at] & np.uint32(NEGATED):
        return 0, 0
    number = np.int64(words[at + 1])
    if kind == LIKE:
        begin, size = _literal(strings, number)
        return size, begin
    return np.int64(strings.length[number]), 0


@inner
def _share(blocks: Blocks, words: npt.NDArray[np.uint32], at: Int, strings: StringView) -> Float:
    """Of publications with the attribute, the share that a part's keys are thought to lead to; 2: it has none."""
    attribute = np.int64(words[at] >> np.uint32(12))
    kind = _kind(words, at)
    if kind == INCLUDED:
        count = np.float64(words[at + 1]) + np.float64(words[at + 2])
        values = max(np.float64(blocks.distinct[attribute]), np.float64(blocks.value_keys[attribute]))
        if blocks.constrained[attribute] < _FEW:
            values = max(values, 64.0 * count)
        return min(count / max(values, 1.0), 1.0)
    size, _ = _demands(words, at, strings)
    if not size:
        return 2.0
    if kind == SUFFIX:
        return 1.0 / (np.float64(blocks.end_keys[attribute]) + 4.0)
    if size == 1:
        return _HOLD_ONE
    return _HOLD_TWO if size == 2 else _HOLD_THREE if size == 3 else _HOLD_FOUR


@inner
def best_part(blocks: Blocks, records: RecordView, strings: StringView, slot: Int) -> tuple[Int, Float]:
    """Where the part is whose keys are cheapest, -1: none has any; and nanoseconds a publication."""
    words = records.words
    at = np.int64(records.offset[slot])
    count = part_count(words, at)
    at = parts_begin(words, at)
    best = np.int64(-1)
    least = 2.0
    for _ in range(count):
        kind = _kind(words, at)
        if kind == INCLUDED or (kind >= SUFFIX and kind <= LIKE):
            share = _share(blocks, words, at, strings)
            if share < 2.0:
                share *= carried_share(blocks, np.int64(words[at] >> np.uint32(12)))
                if share < least:
                    least = share
                    best = at
        at += 1 + payload(words, at)
    return best, VERIFIED * least


@inner
def in_blocks(blocks: Blocks, known: Known, slot: Int, hashing: Bool, s: Scratch) -> tuple[Int, Int, Int, Float]:
    """What `choose` says, with what it costs to verify what passes the lanes."""
    n = describe(blocks, known, slot, s)
    kind, first, second, cost = choose(blocks, known, slot, n, hashing, s)
    passing = 1.0
    for k in range(n):
        passing *= min(s.fraction[k], 1.0)
    return kind, first, second, cost + VERIFIED * passing


@inner
def way(records: RecordView, at: Int) -> Int:
    """What kind of keys a part has."""
    kind = _kind(records.words, at)
    return LISTED if kind == INCLUDED else ENDING if kind == SUFFIX else HOLDING


@inner
def _keys_needed(records: RecordView, at: Int) -> Int:
    words = records.words
    return np.int64(words[at + 1]) + np.int64(words[at + 2]) if _kind(words, at) == INCLUDED else 1


@inner
def post_slots(
    blocks: Blocks, known: Known, slots: I32, begin: Int, rest: I32, left: Int, s: Scratch
) -> tuple[Int, Int, Int]:
    """Posts those slots that keys reach for less, and collects the others. Returns the next position, how many others there are, and how
    many keys need room before it can go on."""
    records = known.records
    for i in range(begin, len(slots)):
        slot = np.int64(slots[i])
        at, cost = best_part(blocks, records, known.strings, slot)
        if at >= 0 and cost <= in_blocks(blocks, known, slot, True, s)[3]:
            need = _keys_needed(records, at)
            state = blocks.state
            if (
                state[LIVE_POSTINGS] + need + 2 > len(blocks.posting_slot)
                or state[LIVE_KEYS] + need + 2 > len(blocks.key_first)
                or 2 * (state[KEY_CELLS] + need + 1) > len(blocks.key_cells)
            ):
                return i, left, need
            _post_slot(blocks, known, slot, at)
        else:
            rest[left] = slot
            left += 1
    return len(slots), left, 0


@inner
def _post_slot(blocks: Blocks, known: Known, slot: Int, at: Int) -> None:
    words = known.records.words
    strings = known.strings
    attribute = np.int64(words[at] >> np.uint32(12))
    kind = _kind(words, at)
    first = np.int64(0)
    if kind == INCLUDED:
        for i in range(_keys_needed(known.records, at)):
            key = key_of(blocks, value_key(attribute, _item_hash(words, at, i)), attribute)
            first = post(blocks, slot, key, first, i, ITEM)
        blocks.key_kinds[attribute] |= np.uint16(HAS_VALUES)
    elif kind == SUFFIX:
        number = np.int64(words[at + 1])
        size = min(np.int64(strings.length[number]), LONGEST_END)
        end = strings.offset[number] + np.int64(strings.length[number])
        text = np.uint64(0)
        for i in range(size):
            text = longer_end(text, strings.heap[end - 1 - i])
        key = key_of(blocks, text_key(attribute, 64 + size, text), -attribute - 2)
        first = post(blocks, slot, key, 0, number, np.int64(strings.length[number]) - size)
        blocks.key_kinds[attribute] |= np.uint16(HAS_ENDS)
        blocks.end_lengths[attribute] |= np.uint64(1) << np.uint64(size)
    else:
        first = _post_piece(blocks, strings, slot, attribute, at, words)
    blocks.home[slot] = POSTED_HOME - first
    blocks.state[POSTED] += 1
    blocks.state[LIVE] += 1


@inner
def _post_piece(
    blocks: Blocks, strings: StringView, slot: Int, attribute: Int, at: Int, words: npt.NDArray[np.uint32]
) -> Int:
    """Under the piece that the fewest others stand under."""
    number = np.int64(words[at + 1])
    size, begin = _demands(words, at, strings)
    length = min(size, PIECE)
    if length == 5 or length == 7:
        length -= 1  # each length that there is costs every text a look at each of its places
    base = strings.offset[number] + begin
    folded = _kind(words, at) == LIKE and words[at] & np.uint32(FOLDED) != np.uint32(0)
    mark = 128 if folded else 0
    best = np.int64(0)
    least = np.int64(1) << 60
    best_hash = np.uint64(0)
    for place in range(size - length + 1):
        text = np.uint64(0)
        for k in range(length):
            text = (text << np.uint64(8)) | np.uint64(strings.heap[base + place + k])
        hash_of = text_key(attribute, mark + length, text)
        key = find_key(blocks, hash_of)
        count = np.int64(blocks.key_count[key]) if key else np.int64(0)
        if count < least:
            least = count
            best = place
            best_hash = hash_of
    key = key_of(blocks, best_hash, -1)
    blocks.key_kinds[attribute] |= np.uint16(folded_bit(length) if folded else HAS_PIECES << (length - 1))
    plain = _kind(words, at) != LIKE
    return post(blocks, slot, key, 0, number if plain else NO_TEXT, best if plain else 0)
