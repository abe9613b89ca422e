"""Subscriptions of a chunk with the publications that were there before them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.schemas.columns import PAST
from pastforward.state.found import Past
from pastforward.state.search import EVERYTHING, Search
from pastforward.streams.matcher.conditions import match_pairs, which_match
from pastforward.streams.matcher.deciding import Deciding
from pastforward.streams.matcher.filters import filters_of
from pastforward.streams.matcher.held import FoundRows, Publications, unpacked
from pastforward.streams.matcher.pauses import came_after
from pastforward.streams.matcher.records import version_at
from pastforward.streams.matcher.reporting import notify, reported
from pastforward.streams.matcher.self_join import covered_before
from pastforward.streams.matcher.subscribers import ALWAYS as ALWAYS_MATCHES
from pastforward.streams.matcher.subscribers import NEEDS_PREVIOUS
from pastforward.streams.stages.packed import Packed

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PAIRS: Final = 1 << 16  # of a part: a tenth of a second, and some ten megabytes
PART_BYTES: Final = 16 << 20  # of the publications of a part, each as often as it is found
# What a chunk decides itself. A flood of subscriptions that find a few hundred each is answered at once, and its chunks become smaller.
CHUNK_PAIRS: Final = 1 << 17
CHUNK_PARTS: Final = 16


class Told(NamedTuple):
    """Pairs that were notified: row of the subscription, and where the publication came from (`origin_of`)."""

    row: Rows
    origin: Rows


class Parts:
    """The pieces of a search, cut by predicted pairs and bytes: a publication that many have found may be in several parts."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._left: deque[Past] = deque()

    @property
    def done(self) -> bool:
        return not self._left and self._search.done

    def take(self) -> Past | None:
        """It may be empty: what has been read held nothing. None when all has been taken."""
        if not self._left:
            piece = self._search.take()
            if piece is None:
                return None
            self._left.extend(_parts(piece))
        return self._left.popleft()

    def close(self) -> None:
        self._left.clear()
        self._search.close()


def _parts(piece: Past) -> list[Past]:
    if not len(piece.row):
        return [piece]
    order = np.argsort(piece.publication, kind="stable")
    row, publication = piece.row[order], piece.publication[order]
    share = np.cumsum(1 / PAIRS + np.diff(piece.at)[publication] / PART_BYTES).astype(np.int64)
    parts = []
    for low, high in pairwise([0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(row)]):
        first, last = int(publication[low]), int(publication[high - 1]) + 1
        begin, end = int(piece.at[first]), int(piece.at[last])
        at = piece.at[first : last + 1] - begin
        parts.append(Past(row[low:high], publication[low:high] - first, piece.data[begin:end], at))
    return parts


def match_past(chunk: Chunk, found: FoundRows | None) -> None:
    """What is more than a chunk's share is left for later: `streams.matcher.searches`."""
    if found is None or not chunk.handles:
        return
    others = np.flatnonzero(~found.published)
    if len(others):
        for row, payload in zip(found.rows[others].tolist(), found.payload(others), strict=True):
            if row in chunk.handles:
                chunk.overlapping.setdefault(row, []).append(payload)
    asking = [row for row in chunk.handles if not chunk.columns.paused[row]]
    resuming = chunk.engine.resuming
    if resuming is not None:
        # The log is read again: what was found is known, but for searches that were under way.
        asking = [row for row in asking if version_at(chunk.columns, row) in resuming.known]
    if not asking:
        return
    amended = chunk.as_amended() if chunk.replaced else {}
    parts = Parts(_search(chunk, found, asking))
    if resuming is not None:
        chunk.leave(parts, found.stored, asking, amended, [])
        return
    handle_of = np.full(len(chunk.columns), -1, np.int64)
    handle_of[asking] = [chunk.handles[row] for row in asking]
    told, pairs = [], 0
    try:
        for _ in range(CHUNK_PARTS):
            part = parts.take()
            if part is None:
                break
            pairs += len(part.row)
            told.append(decide(chunk, part, found.stored[part.row], handle_of, amended))
            if pairs >= CHUNK_PAIRS:
                break
        if not parts.done:
            chunk.leave(parts, found.stored, asking, amended, told)
    except BaseException:
        parts.close()
        raise
    if parts.done:
        parts.close()


def _search(chunk: Chunk, found: FoundRows, rows: list[int]) -> Search:
    """For subscriptions of these rows. Without slices there are no columns, and what is in memory is matched at once."""
    store = chunk.engine.store
    places = np.searchsorted(found.stored, rows).tolist()
    if not store.stats.slices:
        return store.search(dict.fromkeys(places, EVERYTHING))
    return store.search(dict(zip(places, filters_of(chunk.columns, rows, chunk.log_time), strict=True)))


class Known:
    """What a search that goes on behind a restart has notified before: by row, the publications by where they came from.

    `horizon`: by row; what was held before it is the history's. A state that is rebuilt may hold more.
    """

    def __init__(self, told: Sequence[Rows], horizon: Rows) -> None:
        self._told, self._horizon = told, horizon

    def new(self, rows: Rows, publications: Publications, matched: Rows) -> Flags:
        columns, at = publications.columns, publications.rows[matched]
        held_at = np.minimum(columns.begins_at[at], columns.arrived_at[at])
        new: Flags = held_at >= self._horizon[rows]
        origins = origin_of(columns.partition[at], columns.offset[at])
        for row in np.unique(rows).tolist():
            mine = rows == row
            new[mine] &= ~np.isin(origins[mine], self._told[row])
        return new


def origin_of(partition: npt.NDArray[Any], offset: npt.NDArray[Any]) -> Rows:
    """Where records came from, as one number each: no partition has 2^48 records."""
    return (partition.astype(np.int64) << 48) | offset.astype(np.int64)


def decide(
    deciding: Deciding,
    part: Past,
    rows: Rows,
    handle_of: Rows,
    amended: Mapping[bytes, bytes],
    known: Known | None = None,
) -> Told:
    """`rows`: of the subscription of each pair. `handle_of`: by row; -1: its pairs do not count. `known`: what was notified before."""
    mine = handle_of[rows] >= 0
    if not mine.any():
        return Told(*np.empty((2, 0), np.int64))
    payloads = Packed(part.data, part.at)
    if amended:
        payloads = Packed.of([amended.get(payload, payload) for payload in payloads.list()])
    publications = unpacked(payloads)
    rows, matched = rows[mine], part.publication[mine]
    if known is not None:
        new = known.new(rows, publications, matched)
        rows, matched = rows[new], matched[new]
    handles = handle_of[rows]

    def covered_by_earlier(pairs: Rows) -> Flags:
        subscribers = deciding.engine.subscribers
        asked = [(int(rows[pair]), int(matched[pair]), subscribers[int(handles[pair])]) for pair in pairs.tolist()]
        found = covered_before(deciding, asked, publications, deciding.overlapping)
        return np.array([(row, i) in found for row, i, _ in asked], np.bool_)

    fits = _fits(deciding, publications, rows, matched, handles)
    fits &= came_after(deciding.resumed, publications, rows, matched)
    here = reported(deciding, publications, matched, handles, fits, covered_by_earlier)
    notify(deciding, publications, matched[here], handles[here], rows[here], PAST)
    columns, at = publications.columns, publications.rows[matched[here]]
    return Told(rows[here], origin_of(columns.partition[at], columns.offset[at]))


def _fits(deciding: Deciding, publications: Publications, rows: Rows, matched: Rows, handles: Rows) -> Flags:
    engine = deciding.engine
    flags = engine.subscribers.flags[handles]
    if (flags & ALWAYS_MATCHES).all() and not publications.columns.where.present().any():
        return np.ones(len(rows), np.bool_)  # topic and time are the store's
    if engine.index is not None:
        previous = bool((flags & NEEDS_PREVIOUS).any())
        return match_pairs(deciding, engine.index.index, publications, matched, handles, previous)
    asked = [(i, deciding.values[row]) for i, row in zip(matched.tolist(), rows.tolist(), strict=True)]
    fitting = {(i, s.name, s.version) for i, s in which_match(deciding, publications, asked)}
    subscribers = [engine.subscribers[handle] for handle in handles.tolist()]
    fits = [(i, s.name, s.version) in fitting for i, s in zip(matched.tolist(), subscribers, strict=True)]
    return np.array(fits, np.bool_)
