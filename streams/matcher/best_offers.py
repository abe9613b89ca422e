"""Publications that ask for the best offer, open until they expire, and what is bid for them.

After every record of the log the holder of an auction is a function of what the partition holds: the best bid of the subscriptions that
match and have not ended, the earlier version of equal ones. So nothing but the publication itself has to be remembered, and a bid is
looked at only when it comes, goes or ends. `streams.reference` has the same in plain loops.

An open auction is kept in the store, under a numbered key, and in the changelog, under the key `\\0auction\\0<publication id>\\0<topic>`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pastforward.columns.dewey import topics_of
from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.bids import Bid, best_of, bid
from pastforward.schemas import NEVER, BestOffer, CanonicalPublication, Notification, Version
from pastforward.schemas.acceptance import content_of
from pastforward.state import Store
from pastforward.streams.matcher.notification_id import event_name, notification_id

KEY: Final = b"\0auction\0"  # in the changelog: ids of subscriptions hold no zero byte
COUNT: Final = b"auctions"
SLOT: Final = b"auction "


class Bidder(NamedTuple):
    """One version of a subscription, as far as a bid needs it."""

    name: str
    recipient: str
    version: Version
    ends_at: int
    ids_alone: bool


@dataclass(slots=True)
class Auction:
    publication: CanonicalPublication
    offer: oracle.Publication
    earlier: tuple[str, ...]
    slot: int
    bids: dict[str, tuple[Bidder, Bid]] = field(default_factory=dict)
    holder: tuple[Bidder, Bid] | None = None

    @property
    def name(self) -> str:
        """Of the event that is offered."""
        return event_name(self.publication.publication_id, self.publication.topic)

    @property
    def expires_at(self) -> int:
        return NEVER if self.publication.expires_at is None else self.publication.expires_at

    @property
    def highest(self) -> bool:
        best = self.publication.best
        return best is not None and best.prefer == "highest"

    def bid_of(self, query: oracle.Subscription) -> Bid | None:
        best = self.publication.best
        assert best is not None
        return bid(query.disjuncts, query.semantics, self.offer, best.attribute, highest=self.highest)

    def better(self, a: Bid, b: Bid) -> bool:
        return a > b if self.highest else a < b

    def winner(self, moment: int) -> tuple[Bidder, Bid] | None:
        """Drops what has ended by that moment: time does not go back."""
        for name in [name for name, (bidder, _) in self.bids.items() if bidder.ends_at <= moment]:
            del self.bids[name]
        best = best_of((made for _, made in self.bids.values()), highest=self.highest)
        equal = (each for each in self.bids.values() if each[1] == best)
        return min(equal, key=lambda each: each[0].version, default=None)


class Changes:
    """What auctions lead to at one record of the log."""

    def __init__(self, offset: int, log_time: int) -> None:
        self.offset, self.log_time = offset, log_time
        self.notifications: list[Notification] = []
        self.offers: list[BestOffer] = []


@dataclass(slots=True)
class _Before:
    """How auctions were before a chunk: those that it has changed (None: there was none), moments that have passed, and slots."""

    free: list[int]
    slots: int
    auctions: dict[str, Auction | None] = field(default_factory=dict)
    times: list[tuple[int, str]] = field(default_factory=list)


class Auctions:
    """The open auctions of one partition."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: dict[str, Auction] = {}
        self._bidding: defaultdict[str, set[str]] = defaultdict(set)  # subscription → auctions it bids in
        self._below: defaultdict[str, set[str]] = defaultdict(set)  # topic → auctions there and below
        self._at: defaultdict[str, set[str]] = defaultdict(set)  # topic → auctions exactly there
        self._times: list[tuple[int, str]] = []  # when an auction may change by time alone
        self._touched: dict[str, None] = {}
        self._free: list[int] = []
        self._slots = 0
        self._before = _Before([], 0)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, event: str) -> bool:
        return event in self._open

    @property
    def next_time(self) -> int:
        """The log time at which something may change without any record."""
        return self._times[0][0] if self._times else NEVER

    # ------------------------------------------------------------------------------------------ what can be undone

    def begin(self) -> None:
        """From here on every change can be undone; what is staged in the store is the store's to undo."""
        self._before = _Before(list(self._free), self._slots)

    def undo(self) -> None:
        before = self._before
        self._free, self._slots = before.free, before.slots
        for time in before.times:
            heapq.heappush(self._times, time)
        for name, auction in before.auctions.items():
            if name in self._open:
                self._unlink(name)
            if auction is not None:
                self._link(auction)
                for subscription in auction.bids:
                    self._bidding[subscription].add(name)
        self._touched = {}
        self.begin()

    def _save(self, name: str) -> None:
        """Before the auction of that name is changed, opened or dropped."""
        if name not in self._before.auctions:
            auction = self._open.get(name)
            self._before.auctions[name] = None if auction is None else replace(auction, bids=dict(auction.bids))

    # ------------------------------------------------------------------------------------------ what comes and goes

    def open(
        self,
        publication: CanonicalPublication,
        offer: oracle.Publication,
        earlier: tuple[str, ...],
        payload: bytes,
        slot: int | None = None,
    ) -> Auction:
        """`slot`: where the store has it already."""
        name = event_name(publication.publication_id, publication.topic)
        self._save(name)
        if name in self._open:  # an id that comes again after the hot window is another publication
            self._drop(name)
        auction = Auction(publication, offer, earlier, self._store_in_slot(payload) if slot is None else slot)
        self._link(auction)
        if auction.expires_at != NEVER:
            heapq.heappush(self._times, (auction.expires_at, name))
        return auction

    def _link(self, auction: Auction) -> None:
        name, topic = auction.name, auction.publication.topic
        self._open[name] = auction
        self._at[topic].add(name)
        for above in _prefixes(topic):
            self._below[above].add(name)

    def _unlink(self, name: str) -> Auction:
        auction = self._open.pop(name)
        for subscription in auction.bids:
            _discard(self._bidding, subscription, name)
        _discard(self._at, auction.publication.topic, name)
        for topic in _prefixes(auction.publication.topic):
            _discard(self._below, topic, name)
        return auction

    def _store_in_slot(self, payload: bytes) -> int:
        if self._free:
            slot = self._free.pop()
        else:
            slot = self._slots
            self._slots += 1
            self._store.put_meta(COUNT, str(self._slots).encode())
        self._store.put_meta(SLOT + str(slot).encode(), payload)
        return slot

    def offer(self, bidder: Bidder, query: oracle.Subscription) -> None:
        """A subscription has come: it bids wherever it matches."""
        for name in self._near(query.topic):
            auction = self._open[name]
            if oracle.matches(query, auction.offer):
                made = auction.bid_of(query)
                if made is not None:
                    self.bid(auction, bidder, made)

    def _near(self, topic: str) -> list[str]:
        """Auctions at, above and below a topic, or each of several."""
        found: set[str] = set()
        for one in topics_of(topic):
            *above, here = _prefixes(one)
            found |= set(self._below.get(here, ()))
            for each in above:
                found |= self._at.get(each, set())
        return sorted(found)

    def bid(self, auction: Auction, bidder: Bidder, made: Bid) -> None:
        name = auction.name
        self._save(name)
        auction.bids[bidder.name] = (bidder, made)
        self._bidding[bidder.name].add(name)
        if auction.holder is None or not auction.better(auction.holder[1], made):
            self._touched[name] = None

    def withdraw(self, subscription_id: str) -> None:
        for name in self._bidding.pop(subscription_id, ()):
            auction = self._open.get(name)
            if auction is None:
                continue
            self._save(name)
            auction.bids.pop(subscription_id, None)
            if auction.holder is not None and auction.holder[0].name == subscription_id:
                self._touched[name] = None

    # ------------------------------------------------------------------------------------------ what it leads to

    def close(self, changes: Changes) -> list[str]:
        """Auctions that have expired by now: what stood just before decides. Before the record is applied; returns their names."""
        closed = []
        while self.next_time <= changes.log_time:
            time = heapq.heappop(self._times)
            self._before.times.append(time)
            name = time[1]
            auction = self._open.get(name)
            if auction is None:
                continue
            if auction.expires_at > changes.log_time:
                self._touched[name] = None  # its holder has ended
                continue
            self._award(auction, auction.expires_at - 1, changes)
            changes.offers.append(_offer(auction, changes, final=True))
            self._drop(name)
            closed.append(name)
        return closed

    def _drop(self, name: str) -> None:
        self._save(name)
        auction = self._unlink(name)
        self._touched.pop(name, None)
        self._store.put_meta(SLOT + str(auction.slot).encode(), None)
        self._free.append(auction.slot)

    def resolve(self, changes: Changes) -> None:
        """After the record was applied: has it changed who holds what?"""
        touched, self._touched = self._touched, {}
        for name in touched:
            self._award(self._open[name], changes.log_time, changes)

    def _award(self, auction: Auction, moment: int, changes: Changes) -> None:
        self._save(auction.name)
        before, auction.holder = auction.holder, auction.winner(moment)
        if auction.holder is not None and auction.holder[0].ends_at < auction.expires_at:
            heapq.heappush(self._times, (auction.holder[0].ends_at, auction.name))
        if auction.holder == before:
            return
        holder = auction.holder
        if before is not None and (holder is None or holder[0][:2] != before[0][:2]):
            changes.notifications += _notifications(auction, before[0], None, changes, publisher=holder is None)
        if holder is not None:
            changes.notifications += _notifications(auction, *holder, changes)
        changes.offers.append(_offer(auction, changes))

    # ------------------------------------------------------------------------------------------ how it begins

    def stored(self) -> list[tuple[int, bytes]]:
        """Slots and payloads of a store that has been used before."""
        self._slots = int(self._store.get_meta(COUNT) or 0)
        payloads = [(slot, self._store.get_meta(SLOT + str(slot).encode())) for slot in range(self._slots)]
        self._free = [slot for slot, payload in payloads if payload is None]
        return [(slot, payload) for slot, payload in payloads if payload is not None]


def _prefixes(topic: str) -> list[str]:
    """The topic's ancestors from the root on, and itself."""
    parts = topic.split(".") if topic else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]


def _discard(sets: defaultdict[str, set[str]], key: str, member: str) -> None:
    sets[key].discard(member)
    if not sets[key]:
        del sets[key]


def _notifications(
    auction: Auction, bidder: Bidder, made: Bid | None, changes: Changes, *, publisher: bool = True
) -> Iterator[Notification]:
    """To the subscriber and the publisher, who is told once of a change. Without a bid: this one holds it no more."""
    publication = auction.publication
    recipients = [("subscriber", bidder.recipient), ("publisher", publication.publisher_id if publisher else None)]
    for role, recipient in recipients:
        if recipient is not None:
            yield Notification(
                notification_id(
                    bidder.name,
                    bidder.version,
                    publication.publication_id,
                    publication.topic,
                    role,
                    changes.offset,
                ),
                bidder.name,
                str(bidder.version),
                publication.publication_id,
                recipient,
                "subscriber" if role == "subscriber" else "publisher",
                publication.topic,
                publication.published_at,
                changes.log_time,
                "best",
                auction.earlier,
                None if made is None else made.value,
                None if bidder.ids_alone else content_of(publication, publication.where),
            )


def _offer(auction: Auction, changes: Changes, *, final: bool = False) -> BestOffer:
    publication, holder = auction.publication, auction.holder
    return BestOffer(
        publication.publication_id,
        publication.topic,
        holder[0].name if holder else None,
        str(holder[0].version) if holder else None,
        holder[0].recipient if holder else None,
        holder[1].value if holder else None,
        changes.log_time,
        changes.offset,
        final,
    )
