"""Publications of a chunk with the subscriptions that were there before them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pastforward.schemas.columns import (
    LIVE,
)
from pastforward.streams.matcher.conditions import attributes_for, published_conditions, which_match
from pastforward.streams.matcher.held import FoundRows, Publications
from pastforward.streams.matcher.reporting import notify, reported
from pastforward.streams.matcher.self_join import covered_among

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LATE: Final = 1 << 62  # a place behind every chunk


def match_live(chunk: Chunk, publications: Publications, found: FoundRows | None) -> None:
    """Reports each pair whose subscription was there before the publication."""
    if chunk.engine.index is None:
        matched, handles = _match_on_disk(chunk, publications, found)
    else:
        matched, handles = match_in_memory(chunk, publications)
    if not len(matched):
        return
    subscribers = chunk.engine.subscribers

    def covered_by_others(pairs: Rows) -> Flags:
        """The others that match the same publication are the neighbours of a pair."""
        answer = np.zeros(len(pairs), np.bool_)
        asked = matched[pairs]
        firsts = np.flatnonzero(np.diff(asked, prepend=-1))
        for first, last in pairwise([*firsts.tolist(), len(pairs)]):
            low, high = np.searchsorted(matched, asked[first], "left"), np.searchsorted(matched, asked[first], "right")
            others = [subscribers[handle] for handle in handles[low:high].tolist()]
            mine = [subscribers[handle] for handle in handles[pairs[first:last]].tolist()]
            answer[first:last] = covered_among(mine, others)
        return answer

    reported_here = reported(chunk, publications, matched, handles, np.ones(len(matched), np.bool_), covered_by_others)
    notify(
        chunk,
        publications,
        matched[reported_here],
        handles[reported_here],
        publications.rows[matched[reported_here]],
        LIVE,
    )


def match_in_memory(chunk: Chunk, publications: Publications) -> tuple[Rows, Rows]:
    engine, columns, rows = chunk.engine, chunk.columns, publications.rows
    assert engine.index is not None
    matched, found = engine.index.index.match_attributes(
        attributes_for(chunk, publications, engine.subscribers.needing_previous > 0),
        topics=publications.topics(),
        published_at=columns.begins_at[rows],
        expires_at=columns.ends_at[rows],
        where=published_conditions(chunk, publications),
    )
    by = found.to_numpy().astype(np.int64)
    if not len(matched):
        return matched, by
    places = rows[matched]
    ends = engine.subscribers.ends_at[by]
    # expired on arrival, or a subscription that is over: the index knows neither
    keep = columns.ends_at[places] > columns.arrived_at[places]
    keep &= ~engine.all_over(ends, chunk.log_time[places])
    if engine.index.stuck:
        keep &= ~np.isin(by, list(engine.index.stuck))
    if chunk.added or chunk.removed:
        added, removed = chunk.added, chunk.removed
        for pair in np.flatnonzero(keep).tolist():
            handle = int(by[pair])
            keep[pair] = added.get(handle, -1) < places[pair] < removed.get(handle, LATE)
    return matched[keep], by[keep]


def _match_on_disk(chunk: Chunk, publications: Publications, found: FoundRows | None) -> tuple[Rows, Rows]:
    """The store has found the subscriptions that fit in topic and time; their conditions are tested here."""
    nothing = np.empty(0, np.int64)
    subscribers = chunk.engine.subscribers
    gone = {(subscribers.name[handle], subscribers.version(handle)): handle for handle in chunk.removed}
    pairs = []
    for i, subscriber in which_match(chunk, publications, candidates(chunk, found, publications.rows)):
        handle = gone.get((subscriber.name, subscriber.version))
        pairs.append((i, subscribers.find(subscriber.name) if handle is None else handle))
    if not pairs:
        return nothing, nothing
    matched, handles = zip(*sorted(pairs), strict=True)
    return np.array(matched, np.int64), np.array(handles, np.int64)


def candidates(chunk: Chunk, found: FoundRows | None, rows: Rows) -> list[tuple[int, bytes]]:
    """Publications by their place among `rows`, each with the record of a subscription that the store has found for it."""
    if found is None:
        return []
    at = np.flatnonzero(~found.published & np.isin(found.rows, rows))
    return list(zip(np.searchsorted(rows, found.rows[at]).tolist(), found.payload(at), strict=True))
