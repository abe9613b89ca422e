"""Whether an earlier subscription of the same subscriber has the publication already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pastforward.columns.dewey import any_overlap
from pastforward.streams.matcher.conditions import which_match_with_records
from pastforward.streams.matcher.held import Publications
from pastforward.streams.matcher.subscribers import Subscriber

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def covered_before(
    chunk: Chunk,
    pairs: list[tuple[int, int, Subscriber]],
    publications: Publications,
    overlapping: dict[int, list[bytes]],
) -> set[tuple[int, int]]:
    """Rows and publications that an earlier subscription of the same subscriber has already. All are tested at once."""
    asked = {
        (i, payload): None
        for row, i, subscriber in pairs
        if subscriber.self_join
        for payload in overlapping.get(row, ())
    }
    matching = {(i, payload): other for i, other, payload in which_match_with_records(chunk, publications, list(asked))}
    return {
        (row, i)
        for row, i, subscriber in pairs
        if subscriber.self_join
        and covered(
            subscriber,
            [matching[i, payload] for payload in overlapping.get(row, ()) if (i, payload) in matching],
        )
    }


def covered(subscriber: Subscriber, others: Sequence[Subscriber]) -> bool:
    """Has an earlier overlapping subscription of the same subscriber the publication already?"""
    return any(
        other.recipient == subscriber.recipient
        and other.version < subscriber.version
        and not other.paused
        and _overlap(other, subscriber)
        for other in others
    )


def _overlap(a: Subscriber, b: Subscriber) -> bool:
    if max(a.starts_at, b.starts_at) >= min(a.ends_at, b.ends_at):
        return False
    return any_overlap(a.topic.decode(), b.topic.decode())
