"""The auctions of a chunk, record by record: who holds one depends on everything before. Auctions are few."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pastforward.matching.conditions import oracle
from pastforward.matching.index.subscription import NewSubscription
from pastforward.schemas import (
    decode_rendezvous,
)
from pastforward.schemas.columns import (
    NO_BEST,
)
from pastforward.streams.matcher import best_offers as auctions
from pastforward.streams.matcher.best_offers import Bidder, Changes
from pastforward.streams.matcher.conditions import which_match_with_records
from pastforward.streams.matcher.held import FoundRows, Publications, auction_of
from pastforward.streams.matcher.live import candidates, match_in_memory
from pastforward.streams.matcher.records import read_subscriptions
from pastforward.streams.matcher.subscribers import Subscriber
from pastforward.streams.reference import query_of

if TYPE_CHECKING:
    from pastforward.streams.matcher.chunk import Chunk

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def run_auctions(chunk: Chunk, publications: Publications, found: FoundRows | None, offsets: Sequence[int]) -> None:
    """Record by record: who holds an auction depends on everything before. Auctions are few."""
    engine, columns = chunk.engine, chunk.columns
    rows = publications.rows
    asking = (columns.best[rows] != NO_BEST) & (columns.ends_at[rows] > columns.arrived_at[rows])
    if not asking.any() and not len(engine.auctions):
        return
    opening = _opening(chunk, publications, np.flatnonzero(asking), found)
    leaving: dict[int, list[int]] = {}
    for handle, row in chunk.removed.items():
        leaving.setdefault(row, []).append(handle)
    for row, now in enumerate(chunk.log_time.tolist()):
        busy = row in opening or row in leaving or row in chunk.handles
        if not busy and (engine.auctions.next_time > now or not chunk.came[row]):
            continue
        changes = Changes(offsets[row], now)
        for name in engine.auctions.close(changes):
            chunk.effects.live[auctions.KEY + name.encode()] = None
        for handle in leaving.get(row, ()):
            engine.auctions.withdraw(engine.subscribers[handle].name.decode())
        if row in chunk.handles and bids(engine.subscribers[chunk.handles[row]], now):
            ((subscriber, asked),) = read_subscriptions(columns, [row])
            engine.auctions.offer(bidder_of(subscriber), query_of_new(asked))
        if row in opening:
            _open(chunk, row, opening[row])
        engine.auctions.resolve(changes)
        if row >= chunk.loud_from:
            chunk.effects.best += changes.notifications
            chunk.effects.offers += changes.offers


def _open(chunk: Chunk, row: int, bidding: list[tuple[Subscriber, oracle.Subscription]]) -> None:
    engine, value = chunk.engine, chunk.values[row]
    payload = chunk.as_amended().get(value, value)
    auction = engine.auctions.open(*auction_of(payload), payload)
    chunk.effects.live[auctions.KEY + auction.name.encode()] = payload
    for subscriber, query in bidding:
        if bids(subscriber, int(chunk.log_time[row])):
            made = auction.bid_of(query)
            if made is not None:
                engine.auctions.bid(auction, bidder_of(subscriber), made)


def _opening(
    chunk: Chunk, publications: Publications, chosen: Rows, found: FoundRows | None
) -> dict[int, list[tuple[Subscriber, oracle.Subscription]]]:
    """By row of a publication that opens an auction: the subscriptions that match it, with their conditions."""
    engine, rows = chunk.engine, publications.rows[chosen]
    matching: dict[int, list[tuple[Subscriber, oracle.Subscription]]] = {row: [] for row in rows.tolist()}
    if not matching:
        return matching
    several = Publications(chunk.columns, rows, [publications.before[i] for i in chosen.tolist()])
    if engine.index is not None:
        matched, handles = match_in_memory(chunk, several)
        for i, handle in zip(matched.tolist(), handles.tolist(), strict=True):
            form, semantics = engine.index.index.condition(handle)
            query = oracle.Subscription(form, semantics=semantics)
            matching[int(rows[i])].append((engine.subscribers[handle], query))
        return matching
    for i, subscriber, payload in which_match_with_records(chunk, several, candidates(chunk, found, rows)):
        record: Any = decode_rendezvous(payload).record
        matching[int(rows[i])].append((subscriber, query_of(record)))
    return matching


def bids(subscriber: Subscriber, now: int) -> bool:
    """Who has ended, or is paused, does not."""
    return subscriber.ends_at > now and not subscriber.paused


def bidder_of(subscriber: Subscriber) -> Bidder:
    name, recipient = subscriber.name.decode(), subscriber.recipient.decode()
    return Bidder(name, recipient, subscriber.version, subscriber.ends_at, subscriber.ids_alone)


def query_of_new(asked: NewSubscription) -> oracle.Subscription:
    starts_at, ends_at = asked.starts_at, asked.ends_at
    assert not isinstance(starts_at, datetime)
    assert not isinstance(ends_at, datetime)
    return oracle.Subscription(
        asked.disjuncts, asked.topic, asked.scope, starts_at, ends_at, asked.time, asked.semantics
    )
