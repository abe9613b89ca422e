"""Where the rows of a chunk stand in the log: which are new, and what time it is at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.schemas import (
    RendezvousColumns,
)
from pastforward.schemas.columns import (
    FROM_NONE,
    FROM_PUBLICATIONS,
    FROM_SUBSCRIPTIONS,
)
from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.progress import Progress
from pastforward.streams.stages.kernels import fresh_rows

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

ORIGINS: Final = {FROM_SUBSCRIPTIONS: "subscriptions", FROM_PUBLICATIONS: "publications"}


def fresh_among(progress: Progress, columns: RendezvousColumns, effects: Effects) -> Flags:
    """Not at or below the highest offset seen of their origin."""
    origin, partition = columns.origin, columns.partition
    fresh = np.empty(len(columns), np.bool_)
    seen = np.full((len(ORIGINS), int(partition.max(initial=0)) + 1), -1, np.int64)
    known = progress.seen
    for number, name in ORIGINS.items():
        for at in range(seen.shape[1]):
            seen[number, at] = known.get((name, at), -1)
    duplicates = fresh_rows(origin, partition, columns.offset, FROM_NONE, seen, fresh)
    for number, name in ORIGINS.items():
        for at, highest in enumerate(seen[number].tolist()):
            if highest >= 0:
                known[name, at] = highest
    if duplicates:
        effects.dropped["repeat"] += duplicates
    return fresh


def log_times(progress: Progress, columns: RendezvousColumns, timestamps: Sequence[int], fresh: Flags) -> Rows:
    """The log time at each row, itself included."""
    tick = columns.origin == FROM_NONE
    if tick.any():
        columns.arrived_at[tick] = np.asarray(timestamps, np.int64)[tick]
    times = np.where(fresh, columns.arrived_at, progress.log_time)
    times = np.maximum.accumulate(np.maximum(times, progress.log_time))
    progress.log_time = int(times[-1])
    return times


def loud_from(progress: Progress, version: int, columns: RendezvousColumns, fresh: Flags) -> int:
    """The first row from which on auctions are this version's: until it came, the earlier version has told what there was."""
    if not progress.silent:
        return 0
    new = np.flatnonzero((columns.routing_version >= version) & (columns.origin != FROM_NONE) & fresh)
    progress.silent = not len(new)
    return int(new[0]) if len(new) else len(columns)
