"""A chunk's rows in the store: what it is told of them, and what it finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.dewey import COMMA
from pastforward.columns.texts import Texts
from pastforward.columns.vocabulary import SUBTREE, VALID
from pastforward.schemas import NEVER
from pastforward.schemas.columns import PUBLICATION, SUBSCRIPTION, WITHDRAWAL
from pastforward.state import EARLIEST, KIND, Batch
from pastforward.streams.matcher.held import Befores, FoundRows, Publications
from pastforward.streams.reference import EARLIER
from pastforward.streams.stages.kernels import event_ends, event_names
from pastforward.streams.stages.packed import Packed

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CODES: Final = np.zeros(4, np.uint8)  # a record's kind, as the store has it
CODES[[SUBSCRIPTION, PUBLICATION, WITHDRAWAL]] = KIND["subscription"], KIND["publication"], KIND["withdrawal"]


def store_rows(chunk: Chunk, find: str) -> FoundRows | None:
    columns = chunk.columns
    rows = chunk.all_rows if chunk.plain else np.flatnonzero(chunk.fresh & (columns.kind != 0))
    if not len(rows):
        chunk.engine.store.tick(int(chunk.log_time[-1]))
        return None
    chunk.packed = Packed.of(chunk.values)
    batch = _publications_alone(chunk) if chunk.plain else _batch(chunk, rows)
    found = FoundRows(chunk.engine.store.apply_columns(batch, find=find), rows)
    chunk.engine.store.tick(int(chunk.log_time[-1]))
    chunk.duplicates = rows[chunk.engine.store.duplicates]
    return found


def _batch(chunk: Chunk, rows: Rows) -> Batch:
    columns = chunk.columns
    published = columns.kind[rows] == PUBLICATION
    subscribed = columns.kind[rows] == SUBSCRIPTION
    begins, ends = columns.begins_at[rows], columns.ends_at[rows]
    joins = columns.self_join[rows] & (published | subscribed)
    topic, row_topics = _topics(columns.topic.take(rows))
    return Batch(
        kind=CODES[columns.kind[rows]],
        id=_names(chunk, rows),
        topic=topic,
        time=np.where(published, begins, chunk.log_time[rows]),
        arrived_at=columns.arrived_at[rows],
        now=chunk.log_time[rows],
        starts_at=np.where(subscribed, begins, EARLIEST),
        ends_at=np.where(subscribed, ends, NEVER),
        expires_at=np.where(published, ends, NEVER),
        subtree=subscribed & (columns.scope[rows] == SUBTREE),
        valid=subscribed & (columns.time[rows] == VALID),
        self_join=joins,
        # the previous publication of each, and all that a self-joining one carries
        earlier=np.where(published, np.where(joins, EARLIER, 1), 0),
        subscriber_id=columns.party_id.take(rows),
        payload=chunk.packed.texts().take(rows),
        row_topics=row_topics,
    )


def withdrawals(chunk: Chunk) -> Batch:
    """Of the subscriptions that the chunk has stored."""
    rows = chunk.all_rows
    return replace(_batch(chunk, rows), kind=np.full(len(rows), CODES[WITHDRAWAL], np.uint8))


def _topics(topics: Texts) -> tuple[Texts, Rows | None]:
    """Those of each row, and where in them each row's begin, if a subscription names several."""
    several = topics.having(COMMA)
    if not several.any():
        return topics, None
    lists = [(text or b"").split(b",") if many else [text or b""] for text, many in zip(topics, several, strict=True)]
    starts = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(some) for some in lists], out=starts[1:])
    return Texts.of([text for some in lists for text in some]), starts


def _names(chunk: Chunk, rows: Rows) -> Texts:
    """What the store knows rows by: an event by its id and topic, a subscription by its id."""
    columns = chunk.columns
    ids, topics = columns.id.for_kernel(), columns.topic.for_kernel()
    published = columns.kind == PUBLICATION
    rows = np.require(rows, np.int64, ("C", "W"))
    ends = np.zeros(len(rows) + 1, np.int64)
    event_ends(ids[2], topics[2], published, rows, ends)
    names = np.empty(int(ends[-1]), np.uint8)
    event_names(ids, topics, published, rows, ends, names)
    return Packed(names, ends).texts()


def _publications_alone(chunk: Chunk) -> Batch:
    """The same for a plain chunk: small ones come often, and every step has its price."""
    columns, count = chunk.columns, len(chunk.columns)
    none = np.zeros(count, np.bool_)
    return Batch(
        kind=np.full(count, CODES[PUBLICATION], np.uint8),
        id=_names(chunk, chunk.all_rows),
        topic=columns.topic,
        time=columns.begins_at,
        arrived_at=columns.arrived_at,
        now=chunk.log_time,
        starts_at=np.full(count, EARLIEST, np.int64),
        ends_at=np.full(count, NEVER, np.int64),
        expires_at=columns.ends_at,
        subtree=none,
        valid=none,
        self_join=columns.self_join,
        earlier=np.where(columns.self_join, EARLIER, 1),
        subscriber_id=columns.party_id,
        payload=chunk.packed.texts(),
    )


def take_publications(chunk: Chunk, found: FoundRows | None) -> Publications:
    """The publications that were not dropped, each with what came before it on its topic, and stored with that."""
    columns = chunk.columns
    rows = chunk.all_rows if chunk.plain else np.flatnonzero((columns.kind == PUBLICATION) & chunk.fresh)
    if len(chunk.duplicates):
        chunk.effects.dropped["repeated_publication"] += len(chunk.duplicates)
        rows = np.setdiff1d(rows, chunk.duplicates, assume_unique=True)
    before = Befores(found, columns, rows)
    if len(rows) and found is not None:
        some, packed = before.packed(chunk.packed)
        if len(some):
            chunk.amended = rows[some], packed
            kept = _last_of_its_id(chunk, rows)[some]
            if not kept.all():
                chunk.replaced = True
                some, packed = some[kept], packed.take(np.flatnonzero(kept))
            chunk.engine.store.amend(_names(chunk, rows[some]), packed.texts())
    return Publications(columns, rows, before)


def _last_of_its_id(chunk: Chunk, rows: Rows) -> Flags:
    """An id may come again when its time has passed, in the same chunk: then the store knows the last one by it."""
    names = zip(chunk.columns.id.take(rows), chunk.columns.topic.take(rows), strict=True)
    last = {name: i for i, name in enumerate(names)}
    kept = np.zeros(len(rows), np.bool_)
    kept[list(last.values())] = True
    return kept
