"""Which of given pairs match: the conditions of candidates that topic and time have left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import Attributes
from pastforward.matching import Index
from pastforward.matching.conditions.normal_form import PREVIOUS, NormalForm
from pastforward.matching.index.publications import attributes_of as columns_of
from pastforward.matching.index.subscription import NewSubscription
from pastforward.schemas import (
    attributes_of,
    decode_rendezvous_chunk,
)
from pastforward.streams.matcher.deciding import Deciding
from pastforward.streams.matcher.held import Publications, attributes_in
from pastforward.streams.matcher.records import read_subscriptions
from pastforward.streams.matcher.subscribers import Subscriber
from pastforward.streams.stages.attributes import take

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def which_match(
    deciding: Deciding, publications: Publications, asked: list[tuple[int, bytes]]
) -> list[tuple[int, Subscriber]]:
    return [(i, subscriber) for i, subscriber, _ in which_match_with_records(deciding, publications, asked)]


def which_match_with_records(
    deciding: Deciding, publications: Publications, asked: list[tuple[int, bytes]]
) -> list[tuple[int, Subscriber, bytes]]:
    """Which of the candidates, given by the raw records of their subscriptions, match."""
    unique = {payload: handle for handle, payload in enumerate(dict.fromkeys(payload for _, payload in asked))}
    if not unique:
        return []
    read = list(read_subscriptions(decode_rendezvous_chunk(list(unique)), range(len(unique))))
    index = Index(algorithm="linear")
    index.add_many([_named(new, handle) for handle, (_, new) in enumerate(read)])
    fits = match_pairs(
        deciding,
        index,
        publications,
        np.array([i for i, _ in asked], np.int64),
        np.array([unique[payload] for _, payload in asked], np.int64),
        any(subscriber.needs_previous for subscriber, _ in read),
    )
    return [
        (i, read[unique[payload]][0], payload) for (i, payload), fit in zip(asked, fits.tolist(), strict=True) if fit
    ]


def match_pairs(
    deciding: Deciding, index: Index, publications: Publications, rows: Rows, handles: Rows, previous: bool
) -> Flags:
    columns, at = publications.columns, publications.rows
    return index.match_pairs(
        attributes_for(deciding, publications, previous),
        rows,
        handles,
        topics=publications.topics(),
        published_at=columns.begins_at[at],
        expires_at=columns.ends_at[at],
        where=published_conditions(deciding, publications),
    )


def attributes_for(deciding: Deciding, publications: Publications, previous: bool) -> Attributes:
    columns, rows = publications.columns, publications.rows
    if not previous:
        return take(columns.attributes, rows)
    said: list[dict[str, object]] = []
    for i, row in enumerate(rows.tolist()):
        mine: dict[str, object] = dict(attributes_of(columns.attributes, row))
        before = publications.before[i].previous
        if before is not None:
            mine.update({PREVIOUS + name: value for name, value in attributes_in(before).items()})
        said.append(mine)
    return columns_of(said)


def published_conditions(deciding: Deciding, publications: Publications) -> list[NormalForm | None] | None:
    where = publications.columns.where
    if not where.present()[publications.rows].any():
        return None
    return [where[row] for row in publications.rows.tolist()]


def _named(new: NewSubscription, handle: int) -> NewSubscription:
    return replace(new, subscription_id=handle)
