"""Subscriptions of a chunk: who comes and who goes, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pastforward.schemas.columns import (
    SUBSCRIPTION,
    WITHDRAWAL,
)
from pastforward.streams.matcher import pauses
from pastforward.streams.matcher.records import flags_of, version_at

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def apply_subscriptions(chunk: Chunk) -> None:
    """Who comes and who goes, in order. New ones are in the index from here on."""
    engine, columns = chunk.engine, chunk.columns
    if chunk.plain:
        return
    subscribers = engine.subscribers
    rows = np.flatnonzero(((columns.kind == SUBSCRIPTION) | (columns.kind == WITHDRAWAL)) & chunk.fresh)
    if not len(rows):
        return
    names: list[Any] = list(columns.id.take(rows))
    comes = columns.kind[rows] == SUBSCRIPTION
    coming = rows[comes]
    taken = iter(
        subscribers.take(
            columns,
            coming,
            [name for name, new in zip(names, comes.tolist(), strict=True) if new],
            flags_of(columns, coming, engine.version),
        )
    )
    over = engine.all_over(columns.ends_at[rows], chunk.log_time[rows])
    live, values = chunk.effects.live, chunk.values
    new: list[tuple[int, int]] = []
    for row, name, comes_, over_ in zip(rows.tolist(), names, comes.tolist(), over.tolist(), strict=True):
        known = subscribers.find(name)
        if known is not None and subscribers.partition[known] != columns.version_partition[row]:
            chunk.effects.moved.append(name)
        if not comes_:
            if known is None or subscribers.version(known) > version_at(columns, row) or _ended_by(chunk, known, row):
                chunk.effects.dropped["unknown_withdrawal"] += 1
                chunk.fresh[row] = False
            else:
                chunk.remove(known, row)
            continue
        handle = next(taken)
        if known is not None:
            if _ended_by(chunk, known, row):
                chunk.remove(known, row)
                known = None
            elif subscribers.version(known) >= version_at(columns, row):
                chunk.effects.dropped["older_version"] += 1
                chunk.fresh[row] = False
                chunk.unused.append(handle)
                continue
            else:
                chunk.remove(known, row)
        pauses.follow(chunk, row, known, handle)
        subscribers.enforce(handle)
        chunk.handles[row] = handle
        chunk.added[handle] = row
        new.append((row, handle))
        if over_:
            # answered from the past, and not held
            chunk.remove(handle, row)
        else:
            live[name] = values[row]
    if new and engine.index is not None:
        engine.index.add(columns, *np.array(new, np.int64).T)


def _ended_by(chunk: Chunk, handle: int, row: int) -> bool:
    return chunk.engine.over(int(chunk.engine.subscribers.ends_at[handle]), int(chunk.log_time[row]))
