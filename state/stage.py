"""What is staged until the commit, apart from the rows: they are in the index and its journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pastforward.state.kernels import records
from pastforward.state.kernels.records import Array

_RETURNING: tuple[int, ...] = (
    records.LOG_TIME,
    records.SEQUENCE,
    records.DUPLICATES,
    records.INTEGER_IDS,
)


@dataclass(slots=True)
class Stage:
    """Made by the first change after a commit or rollback."""

    scalars: Array  # as they were before
    meta: dict[bytes, bytes | None] = field(default_factory=dict)

    @classmethod
    def begin(cls, scalars: Array) -> Stage:
        return cls(scalars.copy())

    def restore(self, scalars: Array) -> None:
        restore(scalars, self.scalars)


def restore(scalars: Array, before: Array) -> None:
    for scalar in _RETURNING:
        scalars[scalar] = before[scalar]


class Savepoint(NamedTuple):
    """A point within a stage, to which it can be rolled back. Valid until the next commit, or a rollback to an earlier point."""

    scalars: Array
    entries: int  # of the journal of subscriptions
    held_entries: int  # of that of publications
    meta: dict[bytes, bytes | None]
    staged: bool  # False: nothing was staged then


def journal_with_room(journal: Array, used: int, rows: int) -> Array:
    """A row notes at most two changes."""
    needed = used + 2 * rows
    if needed <= len(journal):
        return journal
    larger = np.empty(max(needed, 2 * len(journal)), np.int64)
    larger[:used] = journal[:used]
    return larger
