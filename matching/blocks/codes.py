"""Eight-bit codes: each attribute's order keys are cut into at most 254 pieces that hold about the same number of subscribed bounds.

A binding gives an attribute a cell in the publication's table and a row of splits. Up to 32 attributes have cells of their own; beyond
that they share, and a publication that carries two attributes of one cell is tested by intervals. When the bounds have drifted, the
attribute gets a second binding; leaves go over to it one by one, and the old one ends when none is left.
"""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import INTEGER
from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inner
from pastforward.columns.machine import float_of_bits
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.blocks.lanes import CELLS, TABLE
from pastforward.matching.blocks.view import (
    CODES,
    EPOCH,
    FENCES,
    PAIR_CELLS,
    RESERVOIR,
    SPLIT_ROW,
    SPLIT_ROWS,
    SPLITS,
    Blocks,
)
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.keys import NUMBER_KEY, number_key
from pastforward.matching.index.records import (
    LARGEST,
)

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]


NO_BINDING: Final = 255
MAX_BOUND: Final = 4096  # attributes with codes: 6 KB each; what comes later is verified only


@inner
def code_in_row(splits: U64, row: Int, key: Int) -> Int:
    """1 + how many splits are at or below the key. Among the fences, then among the sixteen before the next one: both are counted as
    vectors, without a branch that would be foretold wrongly every other time."""
    # numbers without sign: Numba then does not ask whether a position is to be counted from the end
    base = np.uint64(row * SPLIT_ROW)
    pieces = np.uint64(0)
    for i in range(FENCES - 1):
        pieces += np.uint64(splits[base + np.uint64(i)] <= key)
    begin = base + np.uint64(FENCES) * (pieces + np.uint64(1))
    passed = np.uint64(FENCES) * pieces
    for i in range(FENCES):
        passed += np.uint64(splits[begin + np.uint64(i)] <= key)
    # the highest key of all passes empty cells too
    return np.int64(min(passed, splits[base + np.uint64(FENCES - 1)])) + 1


@inner
def binding_of(blocks: Blocks, attribute: Int, epoch: Int) -> Int:
    """Position in `cell` and `split_row` of the binding that nodes of an epoch use."""
    return 2 * attribute + (0 if epoch >= blocks.bound_at[attribute] else 1)


@inner
def pair_cell(kind: Int, a: Int, b: Int) -> Int:
    """Where in `pairs` the cell begins; now and then it is that of another pair too."""
    key = (np.uint64(kind) << np.uint64(40)) | (np.uint64(a) << np.uint64(20)) | np.uint64(b)
    return np.int64(mix(key) & np.uint64(PAIR_CELLS - 1)) * 4


@inner
def _fresh_splits(blocks: Blocks, attribute: Int, out: U64) -> Float:
    """A row of splits from the reservoir; returns how many different values subscriptions seem to ask for."""
    count = min(np.int64(blocks.constrained[attribute]), RESERVOIR)
    keys = np.sort(blocks.reservoir[attribute * RESERVOIR : attribute * RESERVOIR + count])
    distinct = 0
    for i in range(count):
        if i == 0 or keys[i] != keys[i - 1]:
            distinct += 1
    out[:] = ~np.uint64(0)
    n = 0
    splits = out[FENCES:]
    if distinct < CODES - 1:
        for i in range(count):
            if i == 0 or keys[i] != keys[i - 1]:
                splits[n] = keys[i]
                n += 1
    else:
        for q in range(CODES - 1):
            key = keys[q * count // (CODES - 1)]
            if n == 0 or key != splits[n - 1]:
                splits[n] = key
                n += 1
    for i in range(FENCES - 1):
        out[i] = splits[FENCES * i + FENCES - 1]
    out[FENCES - 1] = np.uint64(n)
    if 2 * distinct > count:
        # most are different: about as many as one would need to see so few repeats
        return np.float64(count) * count / (2 * max(count - distinct, 1)) + distinct
    return np.float64(distinct)


@inner
def _least_integer(key: Int) -> Int:
    """The least integer whose order key is at or above that of a number; LARGEST if the key is no number's or too large to tell."""
    if key >> np.uint64(61) != np.uint64(NUMBER_KEY):
        return LARGEST
    raw = key << np.uint64(3)
    if raw >> np.uint64(63):
        raw ^= np.uint64(1) << np.uint64(63)
    else:
        raw = ~raw
    value = float_of_bits(np.int64(raw))
    # beyond, doubles are no longer every integer, and the search below would be long
    if not abs(value) < 281474976710656.0:
        return LARGEST
    least = np.int64(np.floor(value))
    while number_key(INTEGER, least) >= key:
        least -= 1
    while number_key(INTEGER, least) < key:
        least += 1
    return least


@inner
def _make_shortcut(blocks: Blocks, row: Int) -> None:
    """Integers find their code by their leading bits and a step or two, instead of a search. Of a row that is not of numbers alone the
    shortcut is none."""
    base = row * SPLITS
    splits = blocks.splits[row * SPLIT_ROW + FENCES : (row + 1) * SPLIT_ROW]
    blocks.shortcut_range[2 * row + 1] = -1
    count = 0
    while count < CODES - 1 and splits[count] != ~np.uint64(0):
        blocks.thresholds[base + count] = _least_integer(splits[count])
        if blocks.thresholds[base + count] == LARGEST:
            return
        count += 1
    if not count:
        return
    blocks.thresholds[base + count] = LARGEST
    first = blocks.thresholds[base]
    span = blocks.thresholds[base + count - 1] - first
    shift = 0
    while span >> shift >= SPLITS:
        shift += 1
    at = 0
    for i in range(SPLITS):
        # what lies below the piece's first integer
        while at < count and blocks.thresholds[base + at] <= first + (np.int64(i) << shift):
            at += 1
        blocks.shortcut[base + i] = at
    blocks.shortcut_range[2 * row] = first
    blocks.shortcut_range[2 * row + 1] = shift


@inner
def _code_of_integer(blocks: Blocks, row: Int, value: Int) -> Int:
    """The same as `code_in_row` of its key, by the shortcut; not for LARGEST, which ends the thresholds."""
    base = row * SPLITS
    first = blocks.shortcut_range[2 * row]
    if value < first:
        return 1
    piece = (value - first) >> blocks.shortcut_range[2 * row + 1]
    if piece < 0 or piece >= SPLITS:
        piece = SPLITS - 1
    at = np.int64(blocks.shortcut[base + piece])
    while blocks.thresholds[base + at] <= value:
        at += 1
    return at + 1


@inner
def _crowding(splits: U64, row: Int, keys: U64) -> Float:
    """How likely two keys share a code."""
    counts = np.zeros(256, np.int64)
    for i in range(len(keys)):
        counts[code_in_row(splits, row, keys[i])] += 1
    total = 0
    for i in range(256):
        total += counts[i] * counts[i]
    return total / (len(keys) * len(keys))


@inner
def bind(blocks: Blocks, attribute: Int) -> None:
    """Gives an attribute a binding, the first or a second. There is room for a row of splits."""
    use = np.zeros(CELLS, np.int64)
    for i in range(len(blocks.bound_at) * 2):
        if blocks.split_row[i] > 0:
            # an attribute that is seldom carried collides seldom
            use[blocks.cell[i]] += 1
    best = 0
    for c in range(CELLS):
        if use[c] < use[best]:
            best = c
    row = np.int64(0)
    rows = blocks.state[SPLIT_ROWS]
    taken = np.zeros(rows + 2, np.uint8)
    for i in range(len(blocks.bound_at) * 2):
        taken[blocks.split_row[i]] = 1
    for candidate in range(1, rows + 2):
        if not taken[candidate]:
            row = candidate
            break
    blocks.state[SPLIT_ROWS] = max(rows, row)
    fresh = blocks.splits[row * SPLIT_ROW : (row + 1) * SPLIT_ROW]
    blocks.distinct[attribute] = _fresh_splits(blocks, attribute, fresh)
    _make_shortcut(blocks, row)
    if blocks.split_row[2 * attribute]:
        blocks.state[EPOCH] += 1
        blocks.split_row[2 * attribute + 1] = blocks.split_row[2 * attribute]
        blocks.cell[2 * attribute + 1] = blocks.cell[2 * attribute]
        blocks.bound_at[attribute] = blocks.state[EPOCH]
    blocks.split_row[2 * attribute] = row
    blocks.cell[2 * attribute] = best


@inner
def unbind_old(blocks: Blocks) -> None:
    """Ends all second bindings: no node uses them any more."""
    for a in range(len(blocks.bound_at)):
        blocks.split_row[2 * a + 1] = 0


@inner
def unbound(blocks: Blocks, attributes: Int) -> I32:
    """Attributes that have been sampled and have no codes."""
    out = np.empty(min(attributes, MAX_BOUND), np.int32)
    n = 0
    for a in range(len(out)):
        if blocks.constrained[a] and not blocks.split_row[2 * a]:
            out[n] = a
            n += 1
    return out[:n]


@inner
def drifted(blocks: Blocks, attributes: Int) -> I32:
    """Attributes whose bounds crowd in their codes four times as much as they would in fresh ones: twice is what one sees when nothing has
    drifted, since the fresh ones are made from the very sample that they are held against."""
    out = np.empty(min(attributes, MAX_BOUND), np.int32)
    fresh = np.empty(SPLIT_ROW, np.uint64)
    n = 0
    for a in range(len(out)):
        row = np.int64(blocks.split_row[2 * a])
        count = min(np.int64(blocks.constrained[a]), RESERVOIR)
        if not row or count < 2:
            continue
        keys = blocks.reservoir[a * RESERVOIR : a * RESERVOIR + count]
        _fresh_splits(blocks, a, fresh)
        if _crowding(blocks.splits, row, keys) > 4 * _crowding(fresh, 0, keys):
            out[n] = a
            n += 1
    return out[:n]


@inner
def _put_code(low: U8, high: U8, at: Int, cell: Int, low_code: Int, high_code: Int) -> Bool:
    """Into both copies; returns whether the cell was taken already."""
    place = at + cell + (16 if cell >= 16 else 0)
    shared = high[place] != 0
    if shared:
        low_code = min(low_code, np.int64(low[place]))
        high_code = max(high_code, np.int64(high[place]))
    low[place] = low_code
    low[place + 16] = low_code
    high[place] = high_code
    high[place + 16] = high_code
    return shared


@inner
def encode(blocks: Blocks, batch: Batch, low: U8, high: U8) -> Bool:
    """The publications' tables. Returns whether points will not do: a cell is shared, a row is vague, or a shape
    reaches over a range."""
    rows = len(batch.carried)
    low[: rows * TABLE] = 255
    high[: rows * TABLE] = 0
    interval = False
    for row in range(rows):
        at = row * TABLE
        if batch.vague[row]:
            interval = True
        for e in range(batch.start[row], batch.start[row + 1]):
            attribute = np.int64(batch.attribute[e])
            if attribute >= len(blocks.bound_at):
                continue
            for b in range(2 * attribute, 2 * attribute + 2):
                split_row = np.int64(blocks.split_row[b])
                if not split_row:
                    continue
                value = batch.bits[e]
                if batch.tag[e] == INTEGER and value != LARGEST and blocks.shortcut_range[2 * split_row + 1] >= 0:
                    low_code = _code_of_integer(blocks, split_row, value)
                else:
                    low_code = code_in_row(blocks.splits, split_row, batch.low[e])
                high_code = low_code
                if batch.low[e] != batch.high[e]:
                    high_code = code_in_row(blocks.splits, split_row, batch.high[e])
                    interval = True
                if _put_code(low, high, at, np.int64(blocks.cell[b]), low_code, high_code):
                    interval = True
    return interval


@inner
def relax(low: U8, high: U8) -> None:
    """What is absent may be anything."""
    for i in range(len(high)):
        if high[i] == 0:
            low[i] = 1
            high[i] = CODES
