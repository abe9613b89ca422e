"""What is learnt from subscriptions and publications: samples of values, which pairs of attributes stand together, which are carried."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.scalars import Int
from pastforward.matching.blocks.codes import MAX_BOUND, pair_cell
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.view import (
    EQUAL_TWO,
    EVENTS,
    PAIR,
    PAIR_CELLS,
    PLANNED,
    RANDOM,
    RESERVOIR,
    SAMPLED,
    SEEN,
    Blocks,
)
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.records import (
    BOUNDED,
    EQUAL,
    INCLUDED,
    constraints,
    list_key,
    part_count,
    parts_begin,
    payload,
)
from pastforward.matching.index.verification import Known

I32 = npt.NDArray[np.int32]


_PLANNED: Final = 8192  # slots that a plan of pairs is made from
_PAIRS: Final = 28  # of eight attributes
_TURNS: Final = 256  # pairs in a plan, at most
_LISTED: Final = 4  # values of a list that are learnt from
_KEEPS: Final = 8  # the reservoir looks back over about this many times its size


@inner
def random(blocks: Blocks) -> Int:
    x = np.uint64(blocks.state[RANDOM])
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    blocks.state[RANDOM] = np.int64(x)
    return x


@inner
def _sampled(blocks: Blocks, attribute: Int, key: Int) -> None:
    count = np.int64(blocks.constrained[attribute])
    blocks.constrained[attribute] += np.uint32(1)
    if count < RESERVOIR:
        at = count
    else:
        at = np.int64(random(blocks) % np.uint64(min(count, _KEEPS * RESERVOIR)))
        if at >= RESERVOIR:
            return
    blocks.reservoir[attribute * RESERVOIR + at] = key


@inner
def _count_pair(blocks: Blocks, kind: Int, a: Int, b: Int, stride: Int) -> None:
    at = pair_cell(kind, a, b) + SEEN
    blocks.pairs[at] = min(np.int64(blocks.pairs[at]) + stride, 1 << 30)


@inner
def _sample_lists(blocks: Blocks, known: Known, slot: Int) -> None:
    """Of a list some of its values, not only its ends: how many values there are decides how it is reached."""
    words = known.records.words
    at = np.int64(known.records.offset[slot])
    count = part_count(words, at)
    at = parts_begin(words, at)
    for _ in range(count):
        attribute = np.int64(words[at] >> np.uint32(12))
        if (words[at] >> np.uint32(7)) & np.uint32(31) == INCLUDED and attribute < MAX_BOUND:
            items = np.uint64(words[at + 1]) + np.uint64(words[at + 2])
            for _turn in range(_LISTED):
                _sampled(blocks, attribute, list_key(words, at, np.int64(random(blocks) % items), known.strings))
        at += 1 + payload(words, at)


@inner
def sample_slots(blocks: Blocks, known: Known, slots: I32, stride: Int, s: Scratch) -> None:
    """Learns from one in `stride` slots which values and which pairs of attributes subscriptions ask for."""
    at = np.int64(0)
    while at < len(slots):
        i = at
        # not every so many: what is written may come in turns
        at += 1 if stride == 1 else 1 + np.int64(random(blocks) % np.uint64(2 * stride - 1))
        blocks.state[SAMPLED] += 1
        n = constraints(known.records, known.strings, np.int64(slots[i]), s.attribute, s.kind, s.low, s.high, s.value)
        _sample_lists(blocks, known, np.int64(slots[i]))
        for k in range(n):
            if s.attribute[k] < MAX_BOUND and (s.kind[k] == EQUAL or s.kind[k] == BOUNDED):
                _sampled(blocks, s.attribute[k], s.low[k])
                if s.kind[k] == BOUNDED:
                    _sampled(blocks, s.attribute[k], s.high[k])
        # pairs of many attributes would be many; the first eight will do
        for k in range(min(n, 8)):
            for m in range(k + 1, min(n, 8)):
                _count_pair(blocks, PAIR, np.int64(s.attribute[k]), np.int64(s.attribute[m]), stride)
                if s.kind[k] == EQUAL and s.kind[m] == EQUAL:
                    _count_pair(blocks, EQUAL_TWO, np.int64(s.attribute[k]), np.int64(s.attribute[m]), stride)


@inner
def plan_pairs(blocks: Blocks, known: Known, slots: I32, s: Scratch) -> None:
    """Which pairs of attributes shall lead to ranges: a greedy cover of a sample. The pair that most slots have comes first, then the
    one that most of the others have, and so on; so slots gather under few pairs, and their leaves are small."""
    stride = max(1, len(slots) // _PLANNED)
    most = (len(slots) + stride - 1) // stride
    pairs = np.empty((most, _PAIRS), np.int32)
    width = np.zeros(most, np.int64)
    count = np.zeros(4 * PAIR_CELLS, np.int32)
    touched = np.empty(most * _PAIRS, np.int32)
    cells = 0
    total = 0
    for i in range(0, len(slots), stride):
        n = constraints(known.records, known.strings, np.int64(slots[i]), s.attribute, s.kind, s.low, s.high, s.value)
        for k in range(min(n, 8)):
            for m in range(k + 1, min(n, 8)):
                if s.kind[k] == BOUNDED and s.kind[m] == BOUNDED:
                    at = pair_cell(PAIR, s.attribute[k], s.attribute[m])
                    if count[at] == 0:
                        touched[cells] = at
                        cells += 1
                    count[at] += 1
                    pairs[total, width[total]] = at
                    width[total] += 1
        total += 1
    for i in range(cells):
        blocks.pairs[touched[i] + PLANNED] = 0
    for _ in range(_TURNS):
        best = -1
        for i in range(cells):
            if best < 0 or count[touched[i]] > count[best]:
                best = np.int64(touched[i])
        # what so few have is as well left to chance
        if best < 0 or 1000 * count[best] < total:
            return
        blocks.pairs[best + PLANNED] = np.int64(count[best]) * stride
        for i in range(total):
            for k in range(width[i]):
                if pairs[i, k] == best:
                    for m in range(width[i]):
                        count[pairs[i, m]] -= 1
                    width[i] = 0
                    break


@inner
def note_publications(blocks: Blocks, batch: Batch, stride: Int) -> None:
    """Learns how often attributes are carried. Older publications count less."""
    if blocks.state[EVENTS] > 1 << 16:
        blocks.state[EVENTS] >>= 1
        for a in range(len(blocks.seen)):
            blocks.seen[a] >>= np.uint32(1)
    for row in range(0, len(batch.carried), stride):
        blocks.state[EVENTS] += 1
        for e in range(batch.start[row], batch.start[row + 1]):
            if batch.attribute[e] < len(blocks.seen):
                blocks.seen[batch.attribute[e]] += np.uint32(1)
