"""Rendezvous records in columns, as the index, the registry of subscribers and the history want them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.dewey import COMMA
from pastforward.columns.vocabulary import CLASSICAL, IDS, SCOPES, SEMANTICS, TIME_BASES
from pastforward.matching import Index
from pastforward.matching.conditions.normal_form import ALWAYS, PREVIOUS, NormalForm
from pastforward.matching.index.flat import Places
from pastforward.matching.index.records import INTERSECT, SUBTREE_SCOPE, SYMMETRIC, VALID_TIME
from pastforward.matching.index.subscription import NewSubscription
from pastforward.schemas import (
    NEVER,
    CanonicalSubscription,
    RendezvousColumns,
    Version,
)
from pastforward.schemas.flat_conditions import flat_conditions
from pastforward.streams.matcher.subscribers import ALONE, IDS_ALONE, NEEDS_PREVIOUS, OLD, PAUSED, SELF_JOIN, Subscriber
from pastforward.streams.matcher.subscribers import ALWAYS as ALWAYS_MATCHES

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SCOPE_FLAGS: Final = np.array([0, SUBTREE_SCOPE], np.uint8)  # of the index's records, by their number in the columns
TIME_FLAGS: Final = np.array([0, VALID_TIME], np.uint8)
SEMANTICS_FLAGS: Final = np.array([0, SYMMETRIC, INTERSECT], np.uint8)
NO_CONDITION: Final = b"\x02\x00\x00"  # in Avro: one disjunct of no constraints


def read_subscriptions(columns: RendezvousColumns, rows: Sequence[int]) -> Iterator[tuple[Subscriber, NewSubscription]]:
    names, parties, topics = columns.id, columns.party_id, columns.topic
    for row in rows:
        form = columns.where[row]
        where: NormalForm = ALWAYS if form is None else form
        topic = topics[row] or b""
        starts_at, ends_at = int(columns.begins_at[row]), int(columns.ends_at[row])
        semantics = SEMANTICS[columns.semantics[row]]
        subscriber = Subscriber(
            names[row] or b"",
            parties[row] or b"",
            version_at(columns, row),
            partitions_at(columns, row),
            topic,
            starts_at,
            ends_at,
            bool(columns.self_join[row]),
            any(name.startswith(PREVIOUS) for disjunct in where for name, _ in disjunct),
            where == ALWAYS and semantics == "classical",
            columns.deliver[row] == IDS,
            bool(columns.paused[row]),
        )
        yield (
            subscriber,
            NewSubscription(
                0,
                where,
                topic.decode(),
                SCOPES[columns.scope[row]],
                starts_at,
                None if ends_at == NEVER else ends_at,
                TIME_BASES[columns.time[row]],
                semantics,
            ),
        )


def add_to(index: Index, columns: RendezvousColumns, rows: Rows, handles: Rows) -> None:
    """Puts subscriptions of a chunk into the index: by columns what kernels can read, the rest one by one."""
    conditions, read = flat_conditions(columns.where, rows)
    read &= ~columns.topic.take(rows).having(COMMA)  # columns have one topic a row
    rest = np.flatnonzero(~read)
    if len(rest):
        index.add_many(new_subscriptions(columns, rows[rest].tolist(), handles[rest].tolist()))
    taken = np.flatnonzero(read)
    if not len(taken):
        return
    at = rows[taken]
    flags = SCOPE_FLAGS[columns.scope[at]] | TIME_FLAGS[columns.time[at]] | SEMANTICS_FLAGS[columns.semantics[at]]
    index.add_flat(
        handles[taken],
        # rows that were not read have no disjuncts
        conditions._replace(first=np.append(conditions.first[taken], conditions.first[-1])),
        Places(columns.topic.take(at), columns.begins_at[at], columns.ends_at[at], flags),
    )


def new_subscriptions(columns: RendezvousColumns, rows: Sequence[int], handles: Sequence[int]) -> list[NewSubscription]:
    """What the index is told of some rows."""
    at = np.array(rows, np.int64)
    where = columns.where
    return [
        NewSubscription(
            handle,
            where[row] or ALWAYS,
            (topic or b"").decode(),
            SCOPES[scope],
            starts_at,
            None if ends_at == NEVER else ends_at,
            TIME_BASES[time],
            SEMANTICS[semantics],
        )
        for handle, row, topic, scope, starts_at, ends_at, time, semantics in zip(
            handles,
            rows,
            columns.topic.take(at),
            columns.scope[at].tolist(),
            columns.begins_at[at].tolist(),
            columns.ends_at[at].tolist(),
            columns.time[at].tolist(),
            columns.semantics[at].tolist(),
            strict=True,
        )
    ]


def flags_of(columns: RendezvousColumns, rows: Rows, version: int) -> npt.NDArray[np.uint8]:
    """Of subscriptions: see `streams.matcher.subscribers`."""
    where = columns.where
    start = columns.partitions_start
    joins = columns.self_join[rows]
    flags = np.where(joins, SELF_JOIN, 0) | np.where(start[rows + 1] - start[rows] == 1, ALONE, 0)
    flags |= np.where(columns.routing_version[rows] < version, OLD, 0)
    flags |= np.where(columns.deliver[rows] == IDS, IDS_ALONE, 0) | np.where(columns.paused[rows], PAUSED, 0)
    at = where.at[rows]
    plain = where.length[rows] == len(NO_CONDITION)
    for i, byte in enumerate(NO_CONDITION):
        plain[plain] = where.heap[at[plain] + i] == byte
    flags |= np.where(plain & (columns.semantics[rows] == CLASSICAL), ALWAYS_MATCHES, 0)
    # the router takes `previous` from those alone that join
    for i in np.flatnonzero(joins).tolist():
        form: NormalForm = where[int(rows[i])] or ALWAYS
        if any(name.startswith(PREVIOUS) for disjunct in form for name, _ in disjunct):
            flags[i] |= NEEDS_PREVIOUS
    return flags.astype(np.uint8)


def canonical(columns: RendezvousColumns, row: int, subscriber: Subscriber) -> CanonicalSubscription:
    form = columns.where[row]
    return CanonicalSubscription(
        subscriber.name.decode(),
        subscriber.recipient.decode(),
        subscriber.version,
        subscriber.topic.decode(),
        SCOPES[columns.scope[row]],
        subscriber.starts_at,
        None if subscriber.ends_at == NEVER else subscriber.ends_at,
        TIME_BASES[columns.time[row]],
        ALWAYS if form is None else form,
        SEMANTICS[columns.semantics[row]],
        subscriber.self_join,
        "ids" if subscriber.ids_alone else "content",
        paused=subscriber.paused,
    )


def version_at(columns: RendezvousColumns, row: int) -> Version:
    return Version(
        int(columns.version_arrived_at[row]), int(columns.version_partition[row]), int(columns.version_offset[row])
    )


def partitions_at(columns: RendezvousColumns, row: int) -> tuple[int, ...]:
    return tuple(columns.partitions[columns.partitions_start[row] : columns.partitions_start[row + 1]].tolist())
