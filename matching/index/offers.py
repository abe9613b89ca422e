"""Published conditions as rows of a batch: one for each of their disjuncts that the publication's constants do not contradict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.normal_form import Constraint, Disjunct, Family, NormalForm
from pastforward.matching.index.batch import SAID_ABSENT, Batch
from pastforward.matching.index.keys import OTHER, PUBLISHED
from pastforward.matching.index.parts import hull
from pastforward.matching.index.places import published_range
from pastforward.matching.index.published import described, finish, is_ordered
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.values import encoded_constant

_NO_AXES: Final = np.zeros(0, np.int32)
_OF_ENTRIES: Final = slice(1, 8)  # of a batch's fields: those that entries have


class Offers:
    """Collects rows. `offered[row]` are a row's constraints, where it has no constant."""

    def __init__(self, batch: Batch, registry: Registry) -> None:
        self._batch = batch
        self._registry = registry
        self._heap = bytearray()
        self._base = len(batch.heap)
        self._start = [0]
        self._taken: list[int] = []  # entries of the batch, -1 for what is said
        self._said: list[
            tuple[int, ...]
        ] = []  # the fields of entries, and whether their order keys are still to be found
        self._values: list[tuple[int, ...]] = []  # of lists: the fields of entries
        self._carried: list[int] = []
        self._vague: list[bool] = []
        self._publication: list[int] = []
        self.offered: dict[int, dict[str, Constraint]] = {}

    def plain(self, publication: int) -> None:
        """A publication without a condition."""
        self._row(publication, 0, False)

    def condition(self, publication: int, form: NormalForm, constants: dict[str, object]) -> None:
        for disjunct in form:
            if all(satisfies(asked, constants[name]) for name, asked in disjunct if name in constants):
                self._disjunct(publication, disjunct, constants)

    def _disjunct(self, publication: int, disjunct: Disjunct, constants: dict[str, object]) -> None:
        offered = {name: constraint for name, constraint in disjunct if name not in constants}
        for name, constraint in offered.items():
            number = self._registry.numbers.get(name)
            if number is not None:
                self._say(number, constraint)
        if offered:
            self.offered[len(self._carried)] = offered
        named = sum(constraint.family is not Family.NULL for constraint in offered.values())
        self._row(publication, named, bool(offered))

    def _row(self, publication: int, named: int, vague: bool) -> None:
        batch = self._batch
        self._taken += range(int(batch.start[publication]), int(batch.start[publication + 1]))
        self._start.append(len(self._taken))
        self._carried.append(int(batch.carried[publication]) + named)
        self._vague.append(vague)
        self._publication.append(publication)

    def _say(self, number: int, constraint: Constraint) -> None:
        ordered = is_ordered(constraint)
        low, high = (0, 0) if ordered else hull(constraint)
        at = self._base + described(constraint, self._heap, len(self._values))
        bits = SAID_ABSENT if constraint.family is Family.NULL else 0
        self._taken.append(-1)
        self._said.append((number, PUBLISHED, bits, at, 0, low, high, ordered))
        for constant in constraint.included or ():
            tag, value, text = encoded_constant(constraint.family, constant)
            offset = self._base + len(self._heap)
            self._heap += text or b""
            self._values.append((number, tag, value, offset, len(text or b""), 0, 0))
        for axis, place in self._registry.axes_of(number):
            ends = published_range(axis, constraint)
            if ends is not None:
                self._taken.append(-1)
                self._said.append((place, OTHER, 0, 0, 0, *ends, False))

    def batch(self) -> Batch:
        batch = self._batch
        taken = np.array(self._taken, np.int64)
        said = np.flatnonzero(taken < 0)
        ordered = np.zeros(len(taken), np.uint8)
        entries: list[Any] = []
        columns = list(zip(*self._said, strict=True)) or [()] * 8
        values = list(zip(*self._values, strict=True)) or [()] * 7
        for source, column, listed in zip(batch[_OF_ENTRIES], columns, values, strict=False):
            made = np.empty(len(taken) + len(listed), source.dtype)
            if len(source):
                made[: len(taken)] = source[taken]
            made[said] = np.array(column, source.dtype)
            made[len(taken) :] = np.array(listed, source.dtype)
            entries.append(made)
        ordered[said] = np.array(columns[7], np.uint8)
        chosen = np.array(self._publication, np.int32)
        out = Batch._make(
            [
                np.array(self._start, np.int64),
                *entries,
                np.concatenate([batch.heap, np.frombuffer(bytes(self._heap), np.uint8)]),
                np.array(self._carried, np.int32),
                np.array(self._vague, np.uint8),
                batch.topic[chosen],
                batch.exact[chosen],
                batch.published_at[chosen],
                batch.expires_at[chosen],
                chosen,
            ]
        )
        finish(out, self._registry.known.strings, _NO_AXES, ordered)
        return out


def expanded(
    batch: Batch,
    where: Sequence[NormalForm | None],
    registry: Registry,
    constants: Callable[[int], dict[str, object]],
) -> tuple[Batch, dict[int, dict[str, Constraint]]]:
    """The rows, and by row what they offer."""
    offers = Offers(batch, registry)
    for publication in range(batch.rows):
        form = where[publication]
        if form is None or form == ((),):
            offers.plain(publication)
        else:
            offers.condition(publication, form, constants(publication))
    return offers.batch(), offers.offered
