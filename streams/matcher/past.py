"""Subscriptions of a chunk with the publications that were there before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pastforward.schemas.columns import (
    PAST,
)
from pastforward.streams.matcher.conditions import match_pairs, which_match
from pastforward.streams.matcher.held import FoundRows, Publications, unpacked
from pastforward.streams.matcher.pauses import came_after
from pastforward.streams.matcher.reporting import notify, reported
from pastforward.streams.matcher.self_join import covered_before
from pastforward.streams.matcher.subscribers import ALWAYS as ALWAYS_MATCHES
from pastforward.streams.matcher.subscribers import NEEDS_PREVIOUS
from pastforward.streams.stages.packed import Packed

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def match_past(chunk: Chunk, found: FoundRows | None) -> None:
    """Subscriptions of the chunk with the publications that were there before them, a piece of the past at a time."""
    if found is None or not chunk.handles:
        return
    others = np.flatnonzero(~found.published)
    if len(others):
        for row, payload in zip(found.rows[others].tolist(), found.payload(others), strict=True):
            if row in chunk.handles:
                chunk.overlapping.setdefault(row, []).append(payload)
    handle_of = np.full(len(chunk.columns), -1, np.int64)
    handle_of[list(chunk.handles)] = list(chunk.handles.values())
    amended = chunk.as_amended() if chunk.replaced else {}
    for piece in chunk.engine.store.past():
        rows = found.stored[piece.row]
        mine = handle_of[rows] >= 0
        if mine.any():
            payloads = Packed(piece.data, piece.at)
            if amended:
                payloads = Packed.of([amended.get(payload, payload) for payload in payloads.list()])
            _match_piece(chunk, unpacked(payloads), rows[mine], piece.publication[mine], handle_of[rows[mine]])


def _match_piece(chunk: Chunk, publications: Publications, rows: Rows, matched: Rows, handles: Rows) -> None:
    """`rows`, `matched`, `handles`: row of the chunk, publication and subscription of each pair."""
    subscribers = chunk.engine.subscribers

    def covered_by_earlier(pairs: Rows) -> Flags:
        asked = [(int(rows[pair]), int(matched[pair]), subscribers[int(handles[pair])]) for pair in pairs.tolist()]
        found = covered_before(chunk, asked, publications, chunk.overlapping)
        return np.array([(row, i) in found for row, i, _ in asked], np.bool_)

    fits = _fits(chunk, publications, rows, matched, handles) & came_after(chunk, publications, rows, matched)
    reported_here = reported(chunk, publications, matched, handles, fits, covered_by_earlier)
    notify(chunk, publications, matched[reported_here], handles[reported_here], rows[reported_here], PAST)


def _fits(chunk: Chunk, publications: Publications, rows: Rows, matched: Rows, handles: Rows) -> Flags:
    engine = chunk.engine
    flags = engine.subscribers.flags[handles]
    if (flags & ALWAYS_MATCHES).all() and not publications.columns.where.present().any():
        return np.ones(len(rows), np.bool_)  # topic and time are the store's
    if engine.index is not None:
        previous = bool((flags & NEEDS_PREVIOUS).any())
        return match_pairs(chunk, engine.index.index, publications, matched, handles, previous)
    asked = [(i, chunk.values[row]) for i, row in zip(matched.tolist(), rows.tolist(), strict=True)]
    fitting = {(i, s.name, s.version) for i, s in which_match(chunk, publications, asked)}
    subscribers = [engine.subscribers[handle] for handle in handles.tolist()]
    fits = [(i, s.name, s.version) in fitting for i, s in zip(matched.tolist(), subscribers, strict=True)]
    return np.array(fits, np.bool_)
