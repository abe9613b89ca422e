"""Slots reached by keys: the values of a list, the end of a text, a piece of a text.

Blocks filter by ranges of codes, which say nothing of a list of values or of what is within a text. Such a slot stands under keys: a list
under each of its values, an end under itself, any other pattern under one piece of it, of up to eight bytes: the one that the fewest others
stand under. A publication asks for its values, its ends, and each piece of its texts. Of a plain pattern the rest of the text is then
compared at once, so that few candidates are left to verify.

Postings of one key are linked both ways, those of one slot one way, so a slot leaves in as many steps as it has keys.
"""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import FLOAT, INTEGER, STRING, TIMESTAMP
from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.blocks.codes import Scratch
from pastforward.matching.blocks.describe import carried_share, describe
from pastforward.matching.blocks.place import choose
from pastforward.matching.blocks.view import (
    ENDING,
    FREE_KEY,
    FREE_POSTING,
    HOLDING,
    KEY_CELLS,
    KEYS,
    LISTED,
    LIVE,
    LIVE_KEYS,
    LIVE_POSTINGS,
    POSTED,
    POSTED_HOME,
    POSTINGS,
    Blocks,
)
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.keys import OTHER, equality_hash
from pastforward.matching.index.like import ESCAPE, ONE, RUN
from pastforward.matching.index.records import (
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
from pastforward.matching.index.strings import StringView, equal_bytes
from pastforward.matching.index.verification import Known, proven_slot

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]

NO_TEXT: Final = -1
ITEM: Final = 65535  # instead of a place: the posting is one of a list, and `posting_text` which
_ONE_PART: Final = 1 << 8  # the first word of a record that asks one thing, of whatever place and time
PIECE: Final = 8  # bytes of a key that is a piece of a text, at most
LONGEST_END: Final = 63  # bytes of a key that is an end, at most
# bits of `key_kinds`
_VALUES: Final = 1
_ENDS: Final = 2
_PIECES: Final = 4  # and the next seven

# Nanoseconds, measured on one core: a candidate that has to be verified, by its share of publications.
VERIFIED: Final = 25.0
# The share of texts that are thought to hold a piece of so many bytes, and no more.
_HOLD_ONE: Final = 0.5
_HOLD_TWO: Final = 0.1
_HOLD_THREE: Final = 0.03
_HOLD_FOUR: Final = 0.01  # or more
_FEW: Final = 256  # constraints on an attribute until which lists are taken to be of many values


@inner
def _value_key(attribute: Int, value: Int) -> Int:
    return mix(value + np.uint64(attribute) * np.uint64(0x9E3779B97F4A7C15))


@inner
def _text_key(attribute: Int, length: Int, text: Int) -> Int:
    """`length`: of a piece; of an end, and 64."""
    return mix(text + ((np.uint64(attribute) << np.uint64(8)) | np.uint64(length)) * np.uint64(0x9E3779B97F4A7C15))


@inner
def _longer_end(text: Int, byte: Int) -> Int:
    """Of an end with one more byte before it."""
    return (text ^ np.uint64(byte)) * np.uint64(0x100000001B3)


@inner
def _find_key(blocks: Blocks, key: Int) -> Int:
    mask = len(blocks.key_cells) - 1
    at = np.int64(key & np.uint64(mask))
    while True:
        entry = np.int64(blocks.key_cells[at])
        if entry == 0:
            return 0
        if entry > 0 and blocks.key_hash[entry] == key:
            return entry
        at = (at + 1) & mask


@inner
def _make_key(blocks: Blocks, hash_of: Int, attribute: Int) -> Int:
    state = blocks.state
    key = state[FREE_KEY]
    if key:
        state[FREE_KEY] = np.int64(blocks.key_first[key])
    else:
        key = state[KEYS]
        state[KEYS] += 1
    state[LIVE_KEYS] += 1
    blocks.key_hash[key] = hash_of
    blocks.key_first[key] = 0
    blocks.key_count[key] = 0
    blocks.key_attribute[key] = attribute
    mask = len(blocks.key_cells) - 1
    at = np.int64(hash_of & np.uint64(mask))
    while blocks.key_cells[at] > 0:
        at = (at + 1) & mask
    if blocks.key_cells[at] == 0:
        state[KEY_CELLS] += 1
    blocks.key_cells[at] = key
    return key


@inner
def _free_key(blocks: Blocks, key: Int) -> None:
    mask = len(blocks.key_cells) - 1
    at = np.int64(blocks.key_hash[key] & np.uint64(mask))
    while blocks.key_cells[at] != key:
        at = (at + 1) & mask
    blocks.key_cells[at] = -1
    attribute = np.int64(blocks.key_attribute[key])
    if attribute >= 0:
        blocks.value_keys[attribute] -= 1
    elif attribute < -1:
        blocks.end_keys[-attribute - 2] -= 1
    blocks.key_count[key] = -1
    blocks.key_first[key] = blocks.state[FREE_KEY]
    blocks.state[FREE_KEY] = key
    blocks.state[LIVE_KEYS] -= 1


@inner
def rebuild_key_cells(blocks: Blocks) -> None:
    mask = len(blocks.key_cells) - 1
    used = 0
    for key in range(1, blocks.state[KEYS]):
        if blocks.key_count[key] <= 0:
            continue
        at = np.int64(blocks.key_hash[key] & np.uint64(mask))
        while blocks.key_cells[at] != 0:
            at = (at + 1) & mask
        blocks.key_cells[at] = key
        used += 1
    blocks.state[KEY_CELLS] = used


@inner
def _post(blocks: Blocks, slot: Int, key: Int, more: Int, text: Int, place: Int) -> Int:
    """A posting below a key. `more`: the slot's postings so far. Returns the new one."""
    state = blocks.state
    posting = state[FREE_POSTING]
    if posting:
        state[FREE_POSTING] = np.int64(blocks.posting_next[posting])
    else:
        posting = state[POSTINGS]
        state[POSTINGS] += 1
    state[LIVE_POSTINGS] += 1
    first = blocks.key_first[key]
    blocks.posting_slot[posting] = slot
    blocks.posting_next[posting] = first
    blocks.posting_before[posting] = -key
    blocks.posting_more[posting] = more
    blocks.posting_text[posting] = text
    blocks.posting_at[posting] = place
    if first:
        blocks.posting_before[first] = posting
    blocks.key_first[key] = posting
    blocks.key_count[key] += 1
    return posting


@inner
def unpost(blocks: Blocks, slot: Int) -> None:
    """Takes a slot from all its keys."""
    state = blocks.state
    posting = POSTED_HOME - np.int64(blocks.home[slot])
    while posting:
        more = np.int64(blocks.posting_more[posting])
        after = np.int64(blocks.posting_next[posting])
        before = np.int64(blocks.posting_before[posting])
        if after:
            blocks.posting_before[after] = before
        if before > 0:
            blocks.posting_next[before] = after
        # how many there are says how common the key is; that many were there once will do
        if before < 0:
            blocks.key_first[-before] = after
            if not after:
                _free_key(blocks, -before)
        blocks.posting_next[posting] = state[FREE_POSTING]
        state[FREE_POSTING] = posting
        state[LIVE_POSTINGS] -= 1
        posting = more
    blocks.home[slot] = 0  # or a published condition, which asks all that are posted, would find it
    state[POSTED] -= 1
    state[LIVE] -= 1


@inner
def _key_of(blocks: Blocks, hash_of: Int, attribute: Int) -> Int:
    """`attribute`: as keys keep it: of a value itself, of an end -(attribute) - 2, of a piece -1."""
    key = _find_key(blocks, hash_of)
    if not key:
        key = _make_key(blocks, hash_of, attribute)
        if attribute >= 0:
            blocks.value_keys[attribute] += 1
        elif attribute < -1:
            blocks.end_keys[-attribute - 2] += 1
    return key


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
            key = _key_of(blocks, _value_key(attribute, _item_hash(words, at, i)), attribute)
            first = _post(blocks, slot, key, first, i, ITEM)
        blocks.key_kinds[attribute] |= np.uint16(_VALUES)
    elif kind == SUFFIX:
        number = np.int64(words[at + 1])
        size = min(np.int64(strings.length[number]), LONGEST_END)
        end = strings.offset[number] + np.int64(strings.length[number])
        text = np.uint64(0)
        for i in range(size):
            text = _longer_end(text, strings.heap[end - 1 - i])
        key = _key_of(blocks, _text_key(attribute, 64 + size, text), -attribute - 2)
        first = _post(blocks, slot, key, 0, number, np.int64(strings.length[number]) - size)
        blocks.key_kinds[attribute] |= np.uint16(_ENDS)
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
    best = np.int64(0)
    least = np.int64(1) << 60
    best_hash = np.uint64(0)
    for place in range(size - length + 1):
        text = np.uint64(0)
        for k in range(length):
            text = (text << np.uint64(8)) | np.uint64(strings.heap[base + place + k])
        hash_of = _text_key(attribute, length, text)
        key = _find_key(blocks, hash_of)
        count = np.int64(blocks.key_count[key]) if key else np.int64(0)
        if count < least:
            least = count
            best = place
            best_hash = hash_of
    key = _key_of(blocks, best_hash, -1)
    blocks.key_kinds[attribute] |= np.uint16(_PIECES << (length - 1))
    plain = _kind(words, at) != LIKE
    return _post(blocks, slot, key, 0, number if plain else NO_TEXT, best if plain else 0)


@inner
def _longer(array: I32, need: Int) -> I32:
    longer = np.empty(max(2 * len(array), need), np.int32)
    longer[: len(array)] = array
    return longer


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
                rows = _longer(rows, 0)
                slots = _longer(slots, 0)
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
        text = _longer_end(text, batch.heap[end - i])
        if (lengths >> np.uint64(i)) & np.uint64(1):
            key = _find_key(blocks, _text_key(attribute, 64 + i, text))
            if key:
                rows, slots, n = _take_postings(blocks, known, batch, entry, size - i, key, row, rows, slots, n)
    return rows, slots, n


@inner
def _reach_pieces(
    blocks: Blocks, known: Known, batch: Batch, entry: Int, row: Int, rows: I32, slots: I32, n: Int
) -> tuple[I32, I32, Int]:
    """By every piece of the lengths that there are."""
    attribute = np.int64(batch.attribute[entry])
    kinds = np.int64(blocks.key_kinds[attribute])
    offset = batch.offset[entry]
    cells = blocks.key_cells
    mask = np.uint64(len(cells) - 1)
    text = np.uint64(0)
    for i in range(1, np.int64(batch.length[entry]) + 1):
        text = (text << np.uint64(8)) | np.uint64(batch.heap[offset + i - 1])
        for length in range(1, min(i, PIECE) + 1):
            if not kinds & (_PIECES << (length - 1)):
                continue
            hash_of = _text_key(attribute, length, text & (~np.uint64(0) >> np.uint64(64 - 8 * length)))
            # mostly there is none
            if cells[np.int64(hash_of & mask)] == 0:
                continue
            key = _find_key(blocks, hash_of)
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
                rows = _longer(rows, 0)
                slots = _longer(slots, 0)
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
            if kinds & _VALUES:
                key = _find_key(blocks, _value_key(attribute, equality_hash(np.int64(tag), batch.bits[entry])))
                if key:
                    rows, slots, n = _take_postings(blocks, known, batch, entry, -1, key, row, rows, slots, n)
            if tag != STRING:
                continue
            if kinds & _ENDS:
                rows, slots, n = _reach_ends(blocks, known, batch, entry, row, rows, slots, n)
            begin = n
            if kinds >= _PIECES:
                rows, slots, n = _reach_pieces(blocks, known, batch, entry, row, rows, slots, n)
            n = _each_once(slots, begin, n)
    return rows, slots, n
