"""What a slot asks, how selective each of its constraints is, and which three become lanes."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner
from pastforward.columns.machine import prefetch
from pastforward.columns.scalars import Float, Int
from pastforward.matching.blocks.codes import MAX_BOUND, binding_of, code_in_row
from pastforward.matching.blocks.scratch import Scratch
from pastforward.matching.blocks.view import (
    CODES,
    EPOCH,
    EQUAL_ONE,
    EQUAL_TWO,
    EVENTS,
    NAMES,
    PAIR,
    SAMPLED,
    SINGLE,
    SPLIT_ROW,
    Blocks,
)
from pastforward.matching.index.records import EQUAL, OPEN, PRESENT, constraints
from pastforward.matching.index.verification import Known

U8 = npt.NDArray[np.uint8]


@inner
def carried_share(blocks: Blocks, attribute: Int) -> Float:
    """The share of publications that carry an attribute. Until some have been seen: all, where attributes are few; where they are many,
    as many as subscriptions ask for it, and 32 of them on the whole."""
    sampled = np.float64(blocks.state[SAMPLED]) + 1.0
    asked = np.float64(blocks.constrained[attribute]) / (1.5 * sampled)
    prior = min(1.0, max(32.0 / max(np.float64(blocks.state[NAMES]), 1.0), asked))
    return (np.float64(blocks.seen[attribute]) + 8.0 * prior) / (np.float64(blocks.state[EVENTS]) + 8.0)


@inner
def describe(blocks: Blocks, known: Known, slot: Int, s: Scratch) -> Int:
    """Fills the constraints of a slot, their codes where there are any, and, as `fraction`, the share of publications that are thought to
    satisfy each."""
    n = constraints(known.records, known.strings, slot, s.attribute, s.kind, s.low, s.high, s.value)
    epoch = blocks.state[EPOCH]
    for k in range(n):
        # with many attributes their splits are far away
        if s.attribute[k] < MAX_BOUND:
            at = np.int64(blocks.split_row[2 * s.attribute[k]]) * SPLIT_ROW
            prefetch(blocks.splits, at)
            prefetch(blocks.splits, at + 8)
    for k in range(n):
        a = np.int64(s.attribute[k])
        carried = carried_share(blocks, a)
        s.carried[k] = carried
        if s.kind[k] == OPEN:
            s.fraction[k] = 2.0
            continue
        if s.kind[k] == PRESENT:
            s.fraction[k] = carried
            s.first[k] = 1
            s.last[k] = CODES
            continue
        share = 0.5
        if a < MAX_BOUND and blocks.split_row[2 * a]:
            one = 1.0 / max(np.float64(blocks.distinct[a]), 1.0)
            row = np.int64(blocks.split_row[binding_of(blocks, a, epoch)])
            first = code_in_row(blocks.splits, row, s.low[k])
            last = first
            share = one
            if s.kind[k] != EQUAL:
                # nothing satisfies a range that is inside out; anything will do for its codes
                last = max(code_in_row(blocks.splits, row, s.high[k]), first)
                share = max((last - first + 1) / CODES, one)
            s.first[k] = first
            s.last[k] = last
        elif s.kind[k] == EQUAL:
            share = 0.01
        s.fraction[k] = min(carried * share, 1.0)
    return n


@inner
def dimension(blocks: Blocks, group: Int, which: Int) -> Int:
    """An attribute, or -1."""
    table = blocks.group_table[group]
    kind = blocks.table_kind[table]
    if which == 0:
        return np.int64(blocks.table_a[table]) if kind == PAIR or kind == SINGLE else np.int64(-1)
    return np.int64(blocks.table_b[table]) if kind == PAIR else np.int64(-1)


@inner
def code_slot(blocks: Blocks, s: Scratch, n: Int, group: Int, lanes: U8, at: Int, codes: U8, codes_at: Int) -> None:
    """What a slot is placed by in a group, and tested by: lanes, and codes in the dimensions. The slot has just been described."""
    _make_lanes(blocks, s, n, np.int64(blocks.group_table[group]), lanes, at)
    for which in range(2):
        attribute = dimension(blocks, group, which)
        codes[codes_at + 2 * which] = 0
        codes[codes_at + 2 * which + 1] = 255
        for k in range(n):
            if s.attribute[k] == attribute:
                codes[codes_at + 2 * which] = s.first[k]
                codes[codes_at + 2 * which + 1] = s.last[k]


@inner
def _make_lanes(blocks: Blocks, s: Scratch, n: Int, table: Int, out: U8, at: Int) -> None:
    """Nine bytes: the three most selective constraints that the access predicates do not decide already, smallest cell first. The slot
    has just been described."""
    epoch = blocks.state[EPOCH]
    for k in range(3):
        out[at + 3 * k] = 0
        out[at + 3 * k + 1] = 0
        out[at + 3 * k + 2] = 255
    kind = blocks.table_kind[table]
    hashed = kind == EQUAL_TWO or kind == EQUAL_ONE
    a = blocks.table_a[table]
    b = blocks.table_b[table]
    for k in range(n):
        s.chosen[k] = 0
    made = 0
    for turn in range(2):
        # first those beyond the access predicates; then those too, which boxes decide only roughly
        while made < 3:
            best = -1
            for k in range(n):
                attribute = np.int64(s.attribute[k])
                if s.chosen[k] or s.kind[k] == OPEN or attribute >= MAX_BOUND or not blocks.split_row[2 * attribute]:
                    continue
                if s.kind[k] == PRESENT and s.fraction[k] > 0.9:
                    continue
                if (attribute == a or attribute == b) and (turn == 0 or hashed):
                    continue
                if best < 0 or s.fraction[k] < s.fraction[best]:
                    best = k
            if best < 0:
                break
            s.chosen[best] = 1
            first = s.first[best]
            last = s.last[best]
            cell = blocks.cell[binding_of(blocks, np.int64(s.attribute[best]), epoch)]
            # kept in the order of cells, so that the first lanes of many slots are of few attributes
            place = made
            while place > 0 and out[at + 3 * (place - 1)] > cell:
                for byte in range(3):
                    out[at + 3 * place + byte] = out[at + 3 * (place - 1) + byte]
                place -= 1
            out[at + 3 * place] = cell
            out[at + 3 * place + 1] = first
            out[at + 3 * place + 2] = last - first
            made += 1
