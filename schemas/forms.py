"""Conditions of rendezvous records, in normal form, read when they are asked for: a matcher that only moves a record never asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas import condition_fields
from pastforward.schemas.chunk_reader import part_reader
from pastforward.schemas.definitions import Definition

SUBSCRIPTION = "CanonicalSubscription"
PUBLICATION = "CanonicalPublication"


class Forms(Sequence["NormalForm | None"]):
    """By row; None for a row that has no condition. `at` and `length` say where in `heap` the bytes of each are; a length of -1: nowhere.
    `known` has those that were read already. Reading one may raise SchemaError: its record was not written by a router of ours."""

    def __init__(
        self,
        heap: npt.NDArray[np.uint8],
        at: npt.NDArray[np.int64],
        length: npt.NDArray[np.int32],
        schema: npt.NDArray[np.uint8],
        definitions: Mapping[int, Definition],
        subscribed: npt.NDArray[np.bool_],
        known: dict[int, NormalForm | None],
    ) -> None:
        self.heap, self.at, self.length = heap, at, length
        self.subscribed = subscribed
        self.known = known
        self._schema, self._definitions = schema, definitions

    def __len__(self) -> int:
        return len(self.at)

    @overload
    def __getitem__(self, row: int) -> NormalForm | None: ...

    @overload
    def __getitem__(self, row: slice) -> list[NormalForm | None]: ...

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        if row in self.known:
            return self.known[row]
        if self.length[row] < 0:
            if not 0 <= row < len(self):
                raise IndexError(row)
            return None
        raw = self.raw(row)
        kind = SUBSCRIPTION
        if not self.subscribed[row]:
            kind, raw = PUBLICATION, b"\x02" + raw  # the field is a union, whose second branch was read
        return _normal_form(self._definitions[int(self._schema[row])], kind, raw)

    def raw(self, row: int) -> bytes:
        """The bytes of a condition that is not in `known`."""
        at = int(self.at[row])
        return self.heap[at : at + int(self.length[row])].tobytes()

    def present(self) -> npt.NDArray[np.bool_]:
        """Which rows have one."""
        found: npt.NDArray[np.bool_] = self.length >= 0
        for row, form in self.known.items():
            found[row] = form is not None
        return found


# Many subscriptions differ in their place alone, and a normal form never changes. Some tens of megabytes at most.
@lru_cache(maxsize=8192)
def _normal_form(definition: Definition, record: str, raw: bytes) -> NormalForm:
    found: NormalForm = condition_fields.normal_form(part_reader(definition, (record, "where"))(raw, 0), "where")
    return found
