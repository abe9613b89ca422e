"""Pairs that kernels leave open are decided by the definition, in Python: regular expressions, and published conditions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.vocabulary import Semantics
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.normal_form import Constraint, Disjunct
from pastforward.matching.conditions.oracle import disjuncts_fit
from pastforward.matching.index import records as r
from pastforward.matching.index.answers import UNSURE
from pastforward.matching.index.publications import Publications, without_previous
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.slot_contents import disjunct_of, flags_of, python_constraints

I32 = npt.NDArray[np.int32]


def decide(
    registry: Registry, publications: Publications, rows: I32, slots: I32, answers: npt.NDArray[np.uint8]
) -> None:
    """Replaces each answer that is UNSURE."""
    unsure = np.flatnonzero(answers == UNSURE)
    if not len(unsure):
        return
    said_by: dict[int, tuple[dict[str, object], dict[str, object]]] = {}
    asked_by: dict[int, Disjunct | None] = {}
    constants_by: dict[int, dict[str, object]] = {}
    parts_by: dict[int, list[tuple[str, Constraint]]] = {}
    vague = publications.batch.vague.tolist()
    for i, row, slot in zip(unsure.tolist(), rows[unsure].tolist(), slots[unsure].tolist(), strict=True):
        if not vague[row]:
            # constants, and what only Python can decide of them; all else has been decided
            constants = constants_by.get(row)
            if constants is None:
                constants = constants_by[row] = publications.values(row)
            parts = parts_by.get(slot)
            if parts is None:
                parts = parts_by[slot] = python_constraints(registry, slot)
            answers[i] = all(name not in constants or satisfies(asked, constants[name]) for name, asked in parts)
            continue
        if row not in said_by:
            said_by[row] = without_previous(publications.said(row))
        if slot not in asked_by:
            asked_by[slot] = disjunct_of(registry, slot)
        asked = asked_by[slot]
        flags = flags_of(registry, slot)
        semantics: Semantics = "intersect" if flags & (r.SYMMETRIC | r.INTERSECT) else "classical"
        # coverage under `symmetric` has been counted by the kernel
        answers[i] = asked is not None and disjuncts_fit(semantics, asked, *said_by[row])
