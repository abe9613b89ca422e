"""Requests to the history, for windows that begin before the hot one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.vocabulary import VALID
from pastforward.schemas import (
    BackfillRequest,
    CanonicalSubscription,
    decode_rendezvous_chunk,
)
from pastforward.schemas.columns import FROM_PUBLICATIONS
from pastforward.schemas.limits import MAX_CANONICAL_BYTES
from pastforward.streams.matcher.records import canonical, read_subscriptions
from pastforward.streams.matcher.self_join import covered
from pastforward.streams.matcher.subscribers import OLD, PAUSED, Subscriber

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# bytes of other subscriptions in a request: the broker takes twice that, with its own
MOST_COVERS: Final = 2 << 20


def request_backfill(chunk: Chunk, rows: Rows) -> None:
    """Windows that begin before the hot one. `cold` goes on with the log, so that each row sees what was cold then."""
    engine, columns = chunk.engine, chunk.columns
    cold = engine.progress.cold
    begins, ends = columns.begins_at[rows], columns.ends_at[rows]
    held = np.minimum(begins, columns.arrived_at[rows])
    added = 0
    asking = np.array(list(chunk.handles), np.int64)
    if len(asking):
        # what is cold only grows: who has nothing to ask at the end of the chunk had nothing to ask before
        after = cold.copy()
        after.add_columns(held, begins, ends)
        after.fold(engine.horizon(int(chunk.log_time[-1])))
        valid = columns.time[asking] == VALID
        if not after.asked_by_any(columns.begins_at[asking], valid, chunk.log_time[asking]):
            engine.progress.cold = after
            return
        until_of = np.searchsorted(rows, asking)
        if not cold.folds(held, engine.horizon(int(chunk.log_time[-1]))):
            until_of[:] = 0  # none of them is cold when the chunk ends: it is all the same when they are added
        times = zip(
            chunk.handles.items(),
            _cuts(chunk),
            until_of.tolist(),
            chunk.log_time[asking].tolist(),
            columns.begins_at[asking].tolist(),
            columns.time[asking].tolist(),
            strict=True,
        )
        for (row, handle), cut, until, now, starts_at, valid in times:
            if until > added:
                cold.add_columns(held[added:until], begins[added:until], ends[added:until])
                added = until
            cold.fold(engine.horizon(now))
            if not engine.subscribers.flags[handle] & (OLD | PAUSED) and cold.asked_by(starts_at, bool(valid), now):
                subscriber = engine.subscribers[handle]
                chunk.effects.requests.append(
                    BackfillRequest(
                        canonical(columns, row, subscriber),
                        engine.number,
                        engine.horizon(now),
                        now,
                        int(columns.routing_version[row]),
                        dict(cut),
                        _covers(chunk, row, subscriber),
                        chunk.resumed.get(row, {}),
                    )
                )
    cold.add_columns(held[added:], begins[added:], ends[added:])
    cold.fold(engine.horizon(int(chunk.log_time[-1])))


def _covers(chunk: Chunk, row: int, subscriber: Subscriber) -> tuple[CanonicalSubscription, ...]:
    """What `covered` would look at: the history knows it from the request alone."""
    if not subscriber.self_join or row not in chunk.overlapping:
        return ()
    payloads, room = chunk.overlapping[row], min(MOST_COVERS, MAX_CANONICAL_BYTES - 2 * len(chunk.values[row]))
    columns = decode_rendezvous_chunk(payloads)
    found = []
    for at, (other, _) in enumerate(read_subscriptions(columns, range(len(payloads)))):
        if covered(subscriber, [other]):
            room -= len(payloads[at])
            if room < 0:
                break
            found.append(canonical(columns, at, other))
    return tuple(sorted(found, key=lambda other: other.version))


def _cuts(chunk: Chunk) -> Iterator[dict[int, int]]:
    """The highest offsets of publications seen before each row of a subscription, in their order."""
    columns = chunk.columns
    cut = dict(chunk.engine.cut)
    rows = np.flatnonzero(columns.origin == FROM_PUBLICATIONS)
    seen = list(zip(columns.partition[rows].tolist(), columns.offset[rows].tolist(), strict=True))
    begin = 0
    for until in np.searchsorted(rows, np.array(list(chunk.handles), np.int64)).tolist():
        for partition, offset in seen[begin:until]:
            cut[partition] = max(cut.get(partition, -1), offset)
        begin = max(begin, until)
        yield cut
