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

from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Int
from pastforward.matching.blocks.view import (
    FREE_KEY,
    FREE_POSTING,
    KEY_CELLS,
    KEYS,
    LIVE,
    LIVE_KEYS,
    LIVE_POSTINGS,
    POSTED,
    POSTED_HOME,
    POSTINGS,
    Blocks,
)

NO_TEXT: Final = -1
ITEM: Final = 65535  # instead of a place: the posting is one of a list, and `posting_text` which
PIECE: Final = 8  # bytes of a key that is a piece of a text, at most
LONGEST_END: Final = 63  # bytes of a key that is an end, at most
# bits of `key_kinds`
HAS_VALUES: Final = 1
HAS_ENDS: Final = 2
HAS_PIECES: Final = 4  # and the next seven
HAS_FOLDED: Final = (
    1 << 10
)  # pieces of texts whose letters are lower ones: and the next five, of the six lengths that there are


@inner
def value_key(attribute: Int, value: Int) -> Int:
    return mix(value + np.uint64(attribute) * np.uint64(0x9E3779B97F4A7C15))


@inner
def text_key(attribute: Int, length: Int, text: Int) -> Int:
    """`length`: of a piece; of an end, and 64; of a folded piece, and 128."""
    return mix(text + ((np.uint64(attribute) << np.uint64(8)) | np.uint64(length)) * np.uint64(0x9E3779B97F4A7C15))


@inner
def folded_bit(length: Int) -> Int:
    """Of folded pieces of so many bytes: 1 to 4, 6 or 8."""
    return HAS_FOLDED << (length - 1 if length <= 4 else 4 + (length >> 3))


@inner
def longer_end(text: Int, byte: Int) -> Int:
    """Of an end with one more byte before it."""
    return (text ^ np.uint64(byte)) * np.uint64(0x100000001B3)


@inner
def find_key(blocks: Blocks, key: Int) -> Int:
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
def post(blocks: Blocks, slot: Int, key: Int, more: Int, text: Int, place: Int) -> Int:
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
def key_of(blocks: Blocks, hash_of: Int, attribute: Int) -> Int:
    """`attribute`: as keys keep it: of a value itself, of an end -(attribute) - 2, of a piece -1."""
    key = find_key(blocks, hash_of)
    if not key:
        key = _make_key(blocks, hash_of, attribute)
        if attribute >= 0:
            blocks.value_keys[attribute] += 1
        elif attribute < -1:
            blocks.end_keys[-attribute - 2] += 1
    return key
