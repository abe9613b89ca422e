"""From publications to candidates by keys: their values, the ends of their texts, each piece of them."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import FLOAT, INTEGER, STRING, TIMESTAMP
from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Int
from pastforward.matching.blocks.lists import lengthened
from pastforward.matching.blocks.postings import (
    HAS_ENDS,
    HAS_FOLDED,
    HAS_PIECES,
    HAS_VALUES,
    ITEM,
    LONGEST_END,
    NO_TEXT,
    PIECE,
    find_key,
    folded_bit,
    longer_end,
    text_key,
    value_key,
)
from pastforward.matching.blocks.view import (
    POSTED,
    POSTED_HOME,
    Blocks,
)
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.keys import OTHER, equality_hash
from pastforward.matching.index.records import (
    OF_STRINGS,
    OF_TIMESTAMPS,
    read_64,
)
from pastforward.matching.index.strings import equal_bytes
from pastforward.matching.index.verification import Known, proven_slot

I32 = npt.NDArray[np.int32]


_A: Final = 65
_Z: Final = 90
_PLAIN_PIECES: Final = HAS_FOLDED - HAS_PIECES
_ONE_PART: Final = 1 << 8  # the first word of a record that asks one thing, of whatever place and time


@inner
def _is_item(words: npt.NDArray[np.uint32], at: Int, i: Int, tag: Int, bits: Int) -> Bool:
    """Whether the i-th value of the list of the part at `at` is this one."""
    flags = np.int64(words[at]) & 63
    asked = np.int64(INTEGER)
    if flags == OF_STRINGS:
        asked = np.int64(STRING)
    elif flags == OF_TIMESTAMPS:
        asked = np.int64(TIMESTAMP)
    elif i >= np.int64(words[at + 1]):
        asked = np.int64(FLOAT)
    return tag == asked and bits == read_64(words, at + 3 + 2 * i)


@inner
def _take_postings(
    blocks: Blocks, known: Known, batch: Batch, entry: Int, place: Int, key: Int, row: Int, rows: I32, slots: I32, n: Int
) -> tuple[I32, I32, Int]:  # fmt: skip
    """All slots below a key. `place`: where in the entry's text the key is; the rest of a posting's text is compared. -1: it is a value."""
    strings = known.strings
    records = known.records
    posting = np.int64(blocks.key_first[key])
    while posting:
        following = np.int64(blocks.posting_next[posting])
        if following:
            prefetch(blocks.posting_slot, following)
            prefetch(blocks.posting_next, following)
        # two keys of different kinds may have one hash
        fits = (place < 0) == (blocks.posting_at[posting] == ITEM)
        number = np.int64(blocks.posting_text[posting])
        if fits and place >= 0 and number != NO_TEXT:
            begin = place - np.int64(blocks.posting_at[posting])
            size = np.int64(strings.length[number])
            fits = begin >= 0 and begin + size <= batch.length[entry]
            if fits:
                fits = equal_bytes(batch.heap, batch.offset[entry] + begin, strings.heap, strings.offset[number], size)
        if fits:
            if n == len(rows):
                rows = lengthened(rows, 0)
                slots = lengthened(slots, 0)
            slot = np.int64(blocks.posting_slot[posting])
            at = np.int64(records.offset[slot])
            proven = number != NO_TEXT and records.words[at] == np.uint32(_ONE_PART)
            if proven and place < 0:
                proven = _is_item(records.words, at + 1, number, np.int64(batch.tag[entry]), batch.bits[entry])
            rows[n] = row
            slots[n] = proven_slot(slot) if proven else slot
            n += 1
        posting = following
    return rows, slots, n


@inner
def _reach_ends(
    blocks: Blocks, known: Known, batch: Batch, entry: Int, row: Int, rows: I32, slots: I32, n: Int
) -> tuple[I32, I32, Int]:
    attribute = np.int64(batch.attribute[entry])
    lengths = blocks.end_lengths[attribute]
    size = np.int64(batch.length[entry])
    end = batch.offset[entry] + size
    text = np.uint64(0)
    for i in range(1, min(size, LONGEST_END) + 1):
        if lengths >> np.uint64(i) == np.uint64(0):
            break
        text = longer_end(text, batch.heap[end - i])
        if (lengths >> np.uint64(i)) & np.uint64(1):
            key = find_key(blocks, text_key(attribute, 64 + i, text))
            if key:
                rows, slots, n = _take_postings(blocks, known, batch, entry, size - i, key, row, rows, slots, n)
    return rows, slots, n


@inner
def _reach_pieces(
    blocks: Blocks, known: Known, batch: Batch, entry: Int, folded: Bool, row: Int, rows: I32, slots: I32, n: Int
) -> tuple[I32, I32, Int]:
    """By every piece of the lengths that there are. `folded`: of the text with lower letters."""
    attribute = np.int64(batch.attribute[entry])
    kinds = np.int64(blocks.key_kinds[attribute])
    offset = batch.offset[entry]
    cells = blocks.key_cells
    mask = np.uint64(len(cells) - 1)
    mark = 128 if folded else 0
    text = np.uint64(0)
    for i in range(1, np.int64(batch.length[entry]) + 1):
        byte = batch.heap[offset + i - 1]
        if folded and byte >= _A and byte <= _Z:
            byte |= np.uint8(32)
        text = (text << np.uint64(8)) | np.uint64(byte)
        for length in range(1, min(i, PIECE) + 1):
            if not kinds & (folded_bit(length) if folded else HAS_PIECES << (length - 1)):
                continue
            hash_of = text_key(attribute, mark + length, text & (~np.uint64(0) >> np.uint64(64 - 8 * length)))
            # mostly there is none
            if cells[np.int64(hash_of & mask)] == 0:
                continue
            key = find_key(blocks, hash_of)
            if key:
                rows, slots, n = _take_postings(blocks, known, batch, entry, i - length, key, row, rows, slots, n)
    return rows, slots, n


@inner
def _each_once(slots: I32, begin: Int, end: Int) -> Int:
    """Drops what comes again; returns the new end."""
    if end - begin < 2:
        return end
    if end - begin > 16:
        slots[begin:end] = np.sort(slots[begin:end])
    else:
        for i in range(begin + 1, end):
            slot = slots[i]
            at = i
            while at > begin and slots[at - 1] > slot:
                slots[at] = slots[at - 1]
                at -= 1
            slots[at] = slot
    kept = begin + 1
    for i in range(begin + 1, end):
        if slots[i] != slots[kept - 1]:
            slots[kept] = slots[i]
            kept += 1
    return kept


@inner
def _reach_everything(blocks: Blocks, row: Int, rows: I32, slots: I32, n: Int) -> tuple[I32, I32, Int]:
    """Of a row that publishes a condition: what it says is no value to look up."""
    for slot in range(len(blocks.home)):
        if blocks.home[slot] < POSTED_HOME:
            if n == len(rows):
                rows = lengthened(rows, 0)
                slots = lengthened(slots, 0)
            rows[n] = row
            slots[n] = slot
            n += 1
    return rows, slots, n


@inner
def reach(blocks: Blocks, known: Known, batch: Batch, rows: I32, slots: I32, n: Int) -> tuple[I32, I32, Int]:
    """Adds the pairs that keys lead to, none twice."""
    if not blocks.state[POSTED]:
        return rows, slots, n
    for row in range(len(batch.carried)):
        if batch.vague[row]:
            rows, slots, n = _reach_everything(blocks, row, rows, slots, n)
            continue
        for entry in range(batch.start[row], batch.start[row + 1]):
            attribute = np.int64(batch.attribute[entry])
            if attribute >= len(blocks.key_kinds):
                continue
            kinds = np.int64(blocks.key_kinds[attribute])
            tag = batch.tag[entry]
            if not kinds or tag == OTHER:
                continue
            if kinds & HAS_VALUES:
                key = find_key(blocks, value_key(attribute, equality_hash(np.int64(tag), batch.bits[entry])))
                if key:
                    rows, slots, n = _take_postings(blocks, known, batch, entry, -1, key, row, rows, slots, n)
            if tag != STRING:
                continue
            if kinds & HAS_ENDS:
                rows, slots, n = _reach_ends(blocks, known, batch, entry, row, rows, slots, n)
            begin = n
            if kinds & _PLAIN_PIECES:
                rows, slots, n = _reach_pieces(blocks, known, batch, entry, False, row, rows, slots, n)
            if kinds >= HAS_FOLDED:
                rows, slots, n = _reach_pieces(blocks, known, batch, entry, True, row, rows, slots, n)
            n = _each_once(slots, begin, n)
    return rows, slots, n
