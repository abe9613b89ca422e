"""What a rendezvous partition does with its log, record by record: the definition, in plain loops.

Every record finds what came before it in the log, then is stored. "Now" is the log time: the highest arrival seen. The same log
gives the same findings, whoever reads it. Whatever is faster is tested against this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pastforward.columns.vocabulary import Transition
from pastforward.matching.conditions import oracle
from pastforward.matching.conditions.bids import Bid, bid
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.matching.conditions.values import Value
from pastforward.schemas import (
    BackfillRequest,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Notification,
    Rendezvous,
    Version,
    Withdrawal,
)
from pastforward.schemas.acceptance import content_of
from pastforward.schemas.records import Phase
from pastforward.streams.matcher.cold import FOREVER, Cold
from pastforward.streams.matcher.notification_id import event_name, notification_id
from pastforward.streams.matcher.progress import Progress
from pastforward.streams.reference_entities import Entities
from pastforward.streams.routing import Directory, reports

EARLIER: Final = 100  # ids of earlier publications that a self-joining publication carries, at most


@dataclass(slots=True)
class Live:
    """A subscription that is held. `pause`: of a paused one, what of each publications partition had been seen when the pause began."""

    record: CanonicalSubscription
    partitions: tuple[int, ...]
    query: oracle.Subscription
    tag: int  # version of the routing under which it came
    pause: dict[int, int] | None = None


@dataclass(slots=True)
class Held:
    """A publication that is held. `earlier` and, in the offer, `previous` were fixed when it came. `origin`: where its record lies; of an
    entity its version."""

    record: CanonicalPublication
    arrived_at: int
    partitions: tuple[int, ...]
    offer: oracle.Publication
    earlier: tuple[str, ...]
    tag: int
    origin: Version

    @property
    def held_at(self) -> int:
        return min(self.record.published_at, self.arrived_at)

    def came_after(self, cut: dict[int, int] | None) -> bool:
        return cut is None or self.origin.offset > cut.get(self.origin.partition, -1)

    @property
    def expires_at(self) -> int:
        return FOREVER if self.record.expires_at is None else self.record.expires_at


@dataclass(slots=True)
class Auction:
    """Open until its publication expires. `came_at`: log time when it came. `holder`: who holds it, and what is bid."""

    held: Held
    came_at: int
    holder: tuple[CanonicalSubscription, Bid] | None = None


@dataclass(slots=True)
class Found:
    """What one record of the log has led to."""

    notifications: list[Notification] = field(default_factory=list)
    offers: list[BestOffer] = field(default_factory=list)
    requests: list[BackfillRequest] = field(default_factory=list)
    kept: list[Live] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    dropped: str | None = None


class Partition:
    """The state of one rendezvous partition under one version of the routing."""

    def __init__(self, number: int, hot_window: int, version: int = 1) -> None:
        self.number = number
        self.version = version
        self.hot_window = hot_window
        self.progress = Progress()
        self.subscriptions: dict[str, Live] = {}
        self.publications: list[Held] = []  # in log order
        self.arrivals: dict[str, int] = {}  # event → arrival, within the hot window
        self.auctions: dict[str, Auction] = {}  # open ones, by event
        self.entities = Entities(self)

    def begin(self, entry: Directory) -> None:
        """A version of the routing that is made on a running system reads publications from a point on."""
        self.progress.seen = {("publications", p): at - 1 for p, at in enumerate(entry.starts)}
        if any(entry.starts):
            self.progress.complete_from = entry.begins_at
            self.progress.cold = Cold(FOREVER, FOREVER)
        self.progress.silent = True

    def change_window(self, hot_window: int) -> None:
        """Between two records. What a shorter window has dropped stays with the history."""
        if hot_window > self.hot_window:
            self.progress.complete_from = self.horizon
        if hot_window < self.hot_window:
            self.progress.cold = Cold(FOREVER, FOREVER)
        self.hot_window = hot_window

    # ---------------------------------------------------------------- one record

    def apply(self, envelope: Rendezvous, offset: int = 0) -> Found:
        """`offset`: that of the record in the rendezvous log."""
        found = Found()
        if envelope.origin != "none":
            origin = (envelope.origin, envelope.partition)
            if envelope.offset <= self.progress.seen.get(origin, -1):
                found.dropped = "repeat"
                return found
            self.progress.seen[origin] = envelope.offset
            if envelope.routing_version >= self.version:
                self.progress.silent = False
        self.progress.log_time = max(self.progress.log_time, envelope.arrived_at)
        self._close_auctions(offset, found)
        self._expire(found)
        match envelope.record:
            case CanonicalSubscription() as subscription:
                self._subscribe(subscription, envelope, found)
            case Withdrawal() as withdrawal:
                self._withdraw(withdrawal, found)
            case CanonicalPublication(entity=None) as event:
                self._publish(event, envelope, found)
            case CanonicalPublication() as entity:
                self.entities.change(entity, envelope, found)
        for auction in self._at_stake():
            self._award(auction, self.progress.log_time, offset, found)
        if self.progress.silent:
            found.offers.clear()
            found.notifications = [n for n in found.notifications if n.phase != "best"]
        return found

    def _subscribe(self, record: CanonicalSubscription, envelope: Rendezvous, found: Found) -> None:
        before = self.subscriptions.get(record.subscription_id)
        if before is not None and before.record.version >= record.version:
            found.dropped = "older_version"
            return
        live = Live(record, envelope.partitions, query_of(record), envelope.routing_version)
        pause = None if before is None else before.pause
        if record.paused:
            live.pause = self.progress.cut() if pause is None else pause
        if before is not None:
            del self.subscriptions[record.subscription_id]
        horizon = self.horizon
        now = self.progress.log_time
        for held in self._near(live):
            valid = held.held_at >= horizon and held.expires_at > now and held.came_after(pause)
            if valid and self._matches(live, held):
                self._notify(live.record, held, "past", found)
        self.entities.replace(before, live, found)
        asks = self.progress.cold.asked_by(record.starts_at, record.time == "valid", now) and not record.paused
        if asks and envelope.routing_version >= self.version:
            version, cut = envelope.routing_version, self.progress.cut()
            found.requests.append(
                BackfillRequest(record, self.number, horizon, now, version, cut, self._covers(record), pause or {})
            )
        if not self._over(record):
            self.subscriptions[record.subscription_id] = live
            found.kept.append(live)
        elif before is not None:
            found.removed.append(record.subscription_id)

    def _withdraw(self, record: Withdrawal, found: Found) -> None:
        before = self.subscriptions.get(record.subscription_id)
        if before is None or record.version is None or before.record.version > record.version:
            found.dropped = "unknown_withdrawal"
            return
        del self.subscriptions[record.subscription_id]
        found.removed.append(record.subscription_id)
        if record.replaced:
            self.entities.replace(before, None, found)

    def _publish(self, record: CanonicalPublication, envelope: Rendezvous, found: Found) -> None:
        event = event_name(record.publication_id, record.topic)
        if event in self.arrivals:
            found.dropped = "repeated_publication"
            return
        self.arrivals[event] = envelope.arrived_at
        earlier = self._earlier(record.topic)
        offer = offer_of(record, earlier[0].record.attributes if earlier else {})
        ids = tuple(h.record.publication_id for h in earlier[:EARLIER]) if record.self_join else ()
        held = held_of(record, envelope, offer, ids)
        if held.expires_at > envelope.arrived_at:
            for live in self.subscriptions.values():
                if self._matches(live, held):
                    self._notify(live.record, held, "live", found)
            if record.best is not None:
                self.auctions[event] = Auction(held, self.progress.log_time)
        self.progress.cold.add([held.held_at], [record.published_at], [held.expires_at])
        if held.held_at >= self.horizon:
            self.publications.append(held)

    # ---------------------------------------------------------------- what a record is held against: everything

    def _at_stake(self) -> Iterable[Auction]:
        return self.auctions.values()

    def _around(self, auction: Auction) -> Iterable[Live]:
        return self.subscriptions.values()

    def _near(self, live: Live) -> Iterable[Held]:
        return self.publications

    def _on(self, topic: str) -> Iterable[Held]:
        return (held for held in self.publications if held.record.topic == topic)

    # ---------------------------------------------------------------- pairs

    def _matches(self, live: Live, held: Held) -> bool:
        """Does this partition report the pair?"""
        return (
            not live.record.paused
            and max(live.tag, held.tag) >= self.version
            and reports(self.number, live.partitions, held.partitions)
            and oracle.matches(live.query, held.offer)
            and not (live.record.self_join and self._covered(live, held))
        )

    def _covered(self, live: Live, held: Held) -> bool:
        """Has an earlier overlapping subscription of the same subscriber the publication already?"""
        return any(oracle.matches(query_of(other), held.offer) for other in self._covers(live.record))

    def _covers(self, record: CanonicalSubscription) -> tuple[CanonicalSubscription, ...]:
        """Those that may; none, if the subscription is no self-join."""
        others = (other.record for other in self.subscriptions.values() if record.self_join)
        covering = (
            other
            for other in others
            if other.subscriber_id == record.subscriber_id
            and other.version < record.version
            and overlap(other, record)
            and not other.paused
        )
        return tuple(sorted(covering, key=lambda other: other.version))

    def _notify(
        self,
        subscription: CanonicalSubscription,
        held: Held,
        phase: Phase,
        found: Found,
        value: Value | None = None,
        change: int | None = None,
        *,
        publisher: bool = True,
        transition: Transition | None = None,
    ) -> None:
        publication = held.record
        entity = publication.entity is not None
        recipients = [("subscriber", subscription.subscriber_id)]
        if publisher and publication.publisher_id is not None:
            recipients.append(("publisher", publication.publisher_id))
        for role, recipient in recipients:
            found.notifications.append(
                Notification(
                    notification_id(
                        subscription.subscription_id,
                        subscription.version,
                        publication.publication_id,
                        publication.topic,
                        role,
                        change,
                        (held.origin, transition or "") if entity else None,
                    ),
                    subscription.subscription_id,
                    str(subscription.version),
                    publication.publication_id,
                    recipient,
                    "subscriber" if role == "subscriber" else "publisher",
                    publication.topic,
                    publication.published_at,
                    self.progress.log_time,
                    phase,
                    held.earlier,
                    value,
                    content_of(publication, publication.where) if subscription.deliver == "content" else None,
                    transition,
                    None if transition is None else str(subscription.set_began),
                    str(held.origin) if entity else None,
                )
            )

    # ---------------------------------------------------------------- best offers

    def _close_auctions(self, offset: int, found: Found) -> None:
        """Those that have expired. What stood just before decides, and not the record that has told the time. One that came late, when
        it had expired in log time, is not offered to who had ended by then: time does not go back."""
        for name, auction in list(self.auctions.items()):
            if auction.held.expires_at <= self.progress.log_time:
                self._award(auction, max(auction.held.expires_at - 1, auction.came_at), offset, found)
                found.offers.append(self._offer(auction, offset, final=True))
                del self.auctions[name]

    def _award(self, auction: Auction, moment: int, offset: int, found: Found) -> None:
        """Who holds it then? The best bid of the subscriptions that have not ended; of equal ones the earlier."""
        best = auction.held.record.best
        assert best is not None
        highest = best.prefer == "highest"
        holder: tuple[CanonicalSubscription, Bid] | None = None
        for live in sorted(self._around(auction), key=lambda live: live.record.version):
            if live.record.paused or (live.record.ends_at is not None and live.record.ends_at <= moment):
                continue
            if not oracle.matches(live.query, auction.held.offer):
                continue
            made = bid(live.query.disjuncts, live.query.semantics, auction.held.offer, best.attribute, highest=highest)
            if made is None:
                continue
            if holder is None or (made > holder[1] if highest else made < holder[1]):
                holder = (live.record, made)
        before, auction.holder = auction.holder, holder
        if holder == before:
            return
        # without a value: to who holds it no more. The publisher is told once of a change.
        if before is not None and (holder is None or not _same_bidder(holder[0], before[0])):
            self._notify(before[0], auction.held, "best", found, None, offset, publisher=holder is None)
        if holder is not None:
            self._notify(holder[0], auction.held, "best", found, holder[1].value, offset)
        found.offers.append(self._offer(auction, offset))

    def _offer(self, auction: Auction, offset: int, *, final: bool = False) -> BestOffer:
        publication, now = auction.held.record, self.progress.log_time
        if auction.holder is None:
            return BestOffer(
                publication.publication_id, publication.topic, None, None, None, None, now, offset, final=final
            )
        subscription, made = auction.holder
        return BestOffer(
            publication.publication_id,
            publication.topic,
            subscription.subscription_id,
            str(subscription.version),
            subscription.subscriber_id,
            made.value,
            now,
            offset,
            final=final,
        )

    def _earlier(self, topic: str) -> list[Held]:
        """The valid publications on exactly that topic: the greatest `published_at` first, then the later in the log."""
        now = self.progress.log_time
        valid = [held for held in self._on(topic) if held.expires_at > now]
        valid.reverse()
        valid.sort(key=lambda held: -held.record.published_at)
        return valid

    # ---------------------------------------------------------------- time

    @property
    def horizon(self) -> int:
        """Publications held before it are the history's."""
        return max(self.progress.log_time - self.hot_window, self.progress.complete_from)

    def _over(self, record: CanonicalSubscription) -> bool:
        """Late publications may still fall into a window for as long as the hot window lasts."""
        return record.ends_at is not None and self.progress.log_time > record.ends_at + self.hot_window

    def _expire(self, found: Found) -> None:
        self.entities.expire(found)
        self._forget(self.progress.log_time - self.hot_window)
        self.progress.cold.fold(self.horizon)
        for name in [name for name, live in self.subscriptions.items() if self._over(live.record)]:
            del self.subscriptions[name]
            found.removed.append(name)

    def _forget(self, oldest: int) -> None:
        now = self.progress.log_time
        self.publications = [h for h in self.publications if h.held_at >= oldest and h.expires_at > now]
        self.arrivals = {name: at for name, at in self.arrivals.items() if at >= oldest}


def held_of(
    record: CanonicalPublication, envelope: Rendezvous, offer: oracle.Publication, earlier: tuple[str, ...] = ()
) -> Held:
    origin = Version(envelope.arrived_at, envelope.partition, envelope.offset)
    return Held(record, envelope.arrived_at, envelope.partitions, offer, earlier, envelope.routing_version, origin)


def query_of(record: CanonicalSubscription) -> oracle.Subscription:
    return oracle.Subscription(
        record.where, record.topic, record.scope, record.starts_at, record.ends_at, record.time, record.semantics
    )


def offer_of(record: CanonicalPublication, previous: dict[str, Value]) -> oracle.Publication:
    where = ALWAYS if record.where is None else record.where
    return oracle.Publication(record.attributes, where, record.topic, record.published_at, record.expires_at, previous)


def _same_bidder(a: CanonicalSubscription, b: CanonicalSubscription) -> bool:
    return (a.subscription_id, a.subscriber_id) == (b.subscription_id, b.subscriber_id)


def overlap(a: CanonicalSubscription, b: CanonicalSubscription) -> bool:
    """In topic and in time."""
    if not any(
        oracle.topics_fit(oracle.Subscription(topic=a.topic), oracle.Publication(topic=t)) for t in b.topic.split(",")
    ):
        return False
    ends = min(e for e in (a.ends_at, b.ends_at, FOREVER) if e is not None)
    return max(a.starts_at, b.starts_at) < ends
