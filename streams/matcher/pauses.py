"""Paused subscriptions: they are held, and match nothing. The version that resumes one finds what came after the pause began.

When that was only the matcher knows: what of each publications partition it had seen by then. That is put into the record as it is stored
and written to the changelog, and goes on from version to version for as long as the pause lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pastforward.schemas import CanonicalSubscription, RendezvousColumns, decode_rendezvous, encode
from pastforward.schemas.columns import FROM_PUBLICATIONS
from pastforward.streams.matcher.held import Publications

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk
    from pastforward.streams.matcher.subscribers import Subscribers

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def follow(chunk: Chunk, row: int, before: int | None, handle: int) -> None:
    """The subscription of this row comes in the place of another, given by its handle: one of the two may be paused, or both."""
    subscribers = chunk.engine.subscribers
    if before is not None and before in subscribers.pauses:
        chunk.resumed[row] = subscribers.pauses[before]
    if not chunk.columns.paused[row]:
        return
    cut = chunk.resumed[row] if row in chunk.resumed else seen_before(chunk, row)
    subscribers.pauses[handle] = cut
    envelope = decode_rendezvous(chunk.values[row])
    assert isinstance(envelope.record, CanonicalSubscription)
    chunk.values[row] = encode(replace(envelope, record=replace(envelope.record, pause=cut)))


def seen_before(chunk: Chunk, row: int) -> dict[int, int]:
    """The highest offset of each publications partition in the log before a row."""
    columns, cut = chunk.columns, dict(chunk.engine.cut)
    rows = np.flatnonzero(columns.origin[:row] == FROM_PUBLICATIONS)
    for partition, offset in zip(columns.partition[rows].tolist(), columns.offset[rows].tolist(), strict=True):
        cut[partition] = max(cut.get(partition, -1), offset)
    return cut


def came_after(
    resumed: Mapping[int, Mapping[int, int]], publications: Publications, rows: Rows, matched: Rows
) -> Flags:
    """Of pairs that the past has given: has the publication come after the pause that the subscription of the row has ended, if any?

    `resumed`: by row, what of each publications partition had been seen when the pause began.
    """
    if not resumed or not len(rows):
        return np.ones(len(rows), np.bool_)
    columns, at = publications.columns, publications.rows[matched]
    partition = columns.partition[at]
    number = np.zeros(
        1 + max(int(rows.max()), *resumed), np.int64
    )  # row of `seen`, by row; the first: of those that ended no pause
    seen = np.full((1 + len(resumed), 1 + int(partition.max())), -1, np.int64)
    for i, (row, cut) in enumerate(resumed.items(), 1):
        number[row] = i
        for each, last in cut.items():
            if each < seen.shape[1]:
                seen[i, each] = last
    after: Flags = columns.offset[at] > seen[number[rows], partition]
    return after


def recover(
    subscribers: Subscribers, columns: RendezvousColumns, values: Sequence[bytes], rows: Rows, handles: Iterable[int]
) -> None:
    """Of subscriptions that are held again, from their records."""
    for row, handle in zip(rows.tolist(), handles, strict=True):
        if columns.paused[row]:
            record = decode_rendezvous(values[row]).record
            assert isinstance(record, CanonicalSubscription)
            subscribers.pauses[handle] = record.pause or {}
