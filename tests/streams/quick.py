"""The reference for long logs: a record is held only against what it can touch. `test_quick` holds it against the reference itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache

from pastforward.matching.conditions import oracle
from pastforward.schemas import CanonicalPublication, Rendezvous
from pastforward.streams.matcher.cold import FOREVER
from pastforward.streams.matcher.notification_id import event_name
from pastforward.streams.reference import Auction, Found, Held, Live, Partition


class Quick(Partition):
    """What time has removed stays for a while longer, and is passed over."""

    def __init__(self, number: int, hot_window: int, version: int = 1) -> None:
        super().__init__(number, hot_window, version)
        self._before: dict[str, Live] = {}  # subscriptions, as they were before the record
        self._opened: list[Auction] = []  # by the record
        self._next_end = self._next_expiry = FOREVER  # of a holder, of an auction; or earlier
        self._by_topic: defaultdict[str, list[Held]] = defaultdict(list)  # publications
        self._oldest = 0
        self._forgotten = 0  # up to when time has removed what it had to

    def apply(self, envelope: Rendezvous, offset: int = 0) -> Found:
        self._before, self._opened = dict(self.subscriptions), []
        return super().apply(envelope, offset)

    # ---------------------------------------------------------------- auctions

    def _at_stake(self) -> list[Auction]:
        """The new one, those whose holder has ended, and those on whose topic a subscription has come or gone."""
        before, after, now = self._before, self.subscriptions, self.progress.log_time
        changed = [
            live
            for one, other in ((before, after), (after, before))
            for name, live in one.items()
            if other.get(name) is not live
        ]
        if not changed and now < self._next_end:
            return self._opened
        ended = [auction for auction in self.auctions.values() if _end(auction) <= now]
        self._next_end = min((end for end in map(_end, self.auctions.values()) if end > now), default=FOREVER)
        topics = {auction.held.record.topic for auction in self.auctions.values()}
        topics = {topic for topic in topics if any(_fits(live, topic) for live in changed)}
        near = [auction for auction in self.auctions.values() if auction.held.record.topic in topics]
        return [*{id(auction): auction for auction in (*self._opened, *ended, *near)}.values()]

    def _around(self, auction: Auction) -> Iterable[Live]:
        return (live for live in self.subscriptions.values() if _fits(live, auction.held.record.topic))

    def _award(self, auction: Auction, moment: int, offset: int, found: Found) -> None:
        super()._award(auction, moment, offset, found)
        self._next_end = min(self._next_end, _end(auction))

    def _close_auctions(self, offset: int, found: Found) -> None:
        if self.progress.log_time >= self._next_expiry:
            super()._close_auctions(offset, found)
            self._next_expiry = min((auction.held.expires_at for auction in self.auctions.values()), default=FOREVER)

    # ---------------------------------------------------------------- publications

    def _forget(self, oldest: int) -> None:
        self._oldest = oldest
        if oldest - self._forgotten > self.hot_window // 20:
            self._forgotten = oldest
            super()._forget(oldest)
            self._by_topic.clear()
            for held in self.publications:
                self._by_topic[held.record.topic].append(held)

    def _publish(self, record: CanonicalPublication, envelope: Rendezvous, found: Found) -> None:
        event = event_name(record.publication_id, record.topic)
        if self.arrivals.get(event, self._oldest) < self._oldest:
            del self.arrivals[event]
        before, auction = len(self.publications), self.auctions.get(event)
        super()._publish(record, envelope, found)
        self._by_topic[record.topic] += self.publications[before:]
        opened = self.auctions.get(event)
        if opened is not None and opened is not auction:
            self._opened = [opened]
            self._next_expiry = min(self._next_expiry, opened.held.expires_at)

    def _on(self, topic: str) -> Iterable[Held]:
        return (held for held in self._by_topic.get(topic, ()) if held.held_at >= self._oldest)

    def _near(self, live: Live) -> Iterable[Held]:
        return (held for topic, some in self._by_topic.items() if _fits(live, topic) for held in some)


def _end(auction: Auction) -> int:
    """When its holder ends."""
    ends_at = None if auction.holder is None else auction.holder[0].ends_at
    return FOREVER if ends_at is None else ends_at


def _fits(live: Live, topic: str) -> bool:
    return _topics_fit(live.record.topic, live.record.scope, topic)


@cache
def _topics_fit(wanted: str, scope: str, offered: str) -> bool:
    return oracle.topics_fit(oracle.Subscription(topic=wanted, scope=scope), oracle.Publication(topic=offered))
