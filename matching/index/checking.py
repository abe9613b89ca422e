"""From candidates to matches, as one kernel: sorted by row, verified, and what fails dropped."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import reference
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Int
from pastforward.matching.index.answers import NO, UNSURE
from pastforward.matching.index.batch import Batch
from pastforward.matching.index.verification import Known, sort_by_row, verify

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]

known_at = reference(Known)
batch_at = reference(Batch)


@kernel
def answers_of(known_address: Int, batch_address: Int, rows: I32, slots: I32, attributes: Int) -> U8:
    """NO, YES or UNSURE for each pair, as they stand."""
    answers = np.empty(len(rows), np.uint8)
    where = np.full(attributes + 1, -1, np.int32)
    verify(known_at(known_address), batch_at(batch_address), rows, slots, where, answers)
    return answers


@inner
def checked(known: Known, batch: Batch, rows: I32, slots: I32, attributes: Int) -> tuple[I32, I32, U8, Int]:
    """Rows, slots and answers (YES or UNSURE) of the pairs that are not refuted, by row, and how many are unsure."""
    rows, slots = sort_by_row(rows, slots, len(batch.carried))
    answers = np.empty(len(rows), np.uint8)
    where = np.full(attributes + 1, -1, np.int32)
    verify(known, batch, rows, slots, where, answers)
    kept = 0
    unsure = 0
    for i in range(len(rows)):
        if answers[i] != NO:
            unsure += answers[i] == UNSURE
            rows[kept] = rows[i]
            slots[kept] = slots[i]
            answers[kept] = answers[i]
            kept += 1
    return rows[:kept], slots[:kept], answers[:kept], unsure


@kernel
def check(known_address: Int, batch_address: Int, rows: I32, slots: I32, attributes: Int) -> tuple[I32, I32, U8, Int]:
    """The same for Python. Overwrites what it is given."""
    return checked(known_at(known_address), batch_at(batch_address), rows, slots, attributes)
