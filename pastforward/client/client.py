"""The client itself."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, overload

from confluent_kafka import Message

from pastforward import broker, topics
from pastforward.client.arguments import changed, check_where, checked_attributes, checked_body
from pastforward.client.complete import Completion
from pastforward.client.delivery import Delivery, Key, Receipt
from pastforward.client.dictionaries import PlainWriter, new_names, publication_of, subscription_of
from pastforward.client.group import GroupStream, group_properties
from pastforward.client.handle import Handle
from pastforward.client.letters import check_sendable, fault
from pastforward.client.listing import Listing, Standing, accept_condition
from pastforward.client.moments import Instant, Moment, micros, now_micros
from pastforward.client.notification import Notification
from pastforward.client.offsets import Offsets
from pastforward.client.partitions import partition_of
from pastforward.client.reader import CHUNK, Reader
from pastforward.client.refusals import Refusal
from pastforward.client.rules import RoutingRules
from pastforward.client.stream import Stream
from pastforward.client.tokens import read_token
from pastforward.client.trial import Asked, Trial, try_condition
from pastforward.client.workers import SLACK, Workers
from pastforward.columns.vocabulary import Deliver, Scope, Semantics, TimeBasis
from pastforward.errors import BrokerError, ClientClosed, DeliveryError, UserError
from pastforward.matching.conditions.values import Value
from pastforward.registry import open_registry
from pastforward.schemas import (
    Best,
    BestOffer,
    Publication,
    Registry,
    Subscription,
    decode_best_offer,
    decode_dead_letter,
    decode_notification,
    encode,
)
from pastforward.schemas.acceptance import accept_publication, accept_subscription
from pastforward.schemas.dewey_text import check_path, check_topics
from pastforward.schemas.fields import own_identifier
from pastforward.schemas.records import Where
from pastforward.settings import Settings, load


class Client:
    def __init__(
        self,
        bootstrap_servers: str | None = None,
        *,
        settings: Settings | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Without `bootstrap_servers` the settings decide; without those, the embedded broker that runs here."""
        self._settings = settings or load()
        self._bootstrap = bootstrap_servers or broker.bootstrap_of(self._settings)
        self._topics = topics.Topics(self._settings.topic_prefix)
        self._registry = registry or open_registry(self._settings)
        self._rules = RoutingRules(self._settings, self._bootstrap)
        self._delivery = Delivery(self._settings, self._bootstrap)
        self._offsets = Offsets(self._settings, self._bootstrap, self._delivery.patience)
        self._workers = Workers(self._settings, self._bootstrap, self._registry)
        self._listing = Listing(self._settings, self._bootstrap, self._offsets, self._registry)
        self._plain, self._names = PlainWriter(), new_names()
        self._made_at = self._now()
        self._closed = threading.Event()

    # ------------------------------------------------------------ subscriptions

    def subscribe(
        self,
        where: Where = None,
        *,
        subscriber_id: str,
        subscription_id: str | None = None,
        topic: str | Sequence[str] = "",
        scope: Scope = "overlap",
        starts_at: Moment = None,
        ends_at: Moment = None,
        time: TimeBasis = "published",
        semantics: Semantics = "classical",
        self_join: bool = False,
        deliver: Deliver = "content",
    ) -> Handle:
        """`starts_at="-10m"` reaches ten minutes back. The same id again replaces. `topic`: one, or a list of up to eight.

        What can be checked is checked here, and raises `SchemaError`; `Handle.wait` says what the workers make of it. The handle gives
        the notifications of the subscription, from before it was sent.
        """
        now = self._now()
        check_where(where)
        record = Subscription(
            uuid.uuid4().hex if subscription_id is None else subscription_id,
            subscriber_id,
            check_topics(topic),
            scope,
            micros(starts_at, now, "starts_at"),
            micros(ends_at, now, "ends_at"),
            time,
            where,
            semantics,
            self_join,
            deliver,
        )
        return self._subscribe(record)

    def _subscribe(self, record: Subscription) -> Handle:
        self._check_open("a subscription was sent")
        value = encode(record, registry=self._registry)
        self._rules.accept(partial(accept_subscription, record), record.self_join)
        name = record.subscription_id
        try:
            begin = self._ends_of(record.subscriber_id)
        except BrokerError as error:
            raise DeliveryError([(name, str(error))]) from error
        receipts: dict[str, Receipt] = {}
        self._delivery.send(self._topics.subscriptions, [(name, value)], receipts)
        return Handle(self, record, receipts[name], begin)

    def subscribe_many(self, subscriptions: Iterable[Subscription | Mapping[str, Any]]) -> list[Handle]:
        """Pipelined, all of them or an error. A dictionary has what `subscribe` takes. One that is wrong is refused before any is sent."""
        self._check_open("subscriptions were sent")
        records = [subscription_of(each, self._now(), self._names) for each in subscriptions]
        sent: list[tuple[str, bytes | None]] = []
        for record in records:
            sent.append((record.subscription_id, encode(record, registry=self._registry)))
            if record.self_join or not isinstance(record.where, str | None):
                self._rules.accept(partial(accept_subscription, record), record.self_join)
            else:
                accept_condition(record.where, False)
        name = self._topics.notifications
        partitions = self._offsets.partitions(name)
        begin = self._offsets.ends(name, partitions)
        receipts: dict[str, Receipt] = {}
        self._delivery.send(self._topics.subscriptions, sent, receipts)
        places = (partition_of(record.subscriber_id.encode(), len(partitions)) for record in records)
        return [
            Handle(self, record, receipts[record.subscription_id], (at, begin[at]))
            for record, at in zip(records, places, strict=True)
        ]

    def unsubscribe(self, subscription_id: str) -> None:
        """An id that nobody subscribed under has no effect."""
        self._send(self._topics.subscriptions, [(own_identifier(subscription_id, "subscription_id"), None)])

    def subscriptions(self, subscriber_id: str | None = None) -> list[Standing]:
        """Those that stand on the topic now, all or of one subscriber, by id: withdrawn ones are not among them, ended ones are."""
        self._check_open("subscriptions were asked for")
        return self._listing.subscriptions(subscriber_id)

    def subscription(self, subscription_id: str) -> Standing | None:
        """None: there is none under that id, or it was withdrawn."""
        self._check_open("a subscription was asked for")
        return self._listing.subscription(subscription_id)

    def replace(self, subscription_id: str, /, **changes: Any) -> Handle:
        """Sends the subscription as it stands, with other values of what `subscribe` takes. Its window begins where it began."""
        standing = self.subscription(subscription_id)
        if standing is None:
            raise UserError(
                f"there is no subscription {subscription_id!r}: it was withdrawn, or never sent; subscribe instead"
            )
        return self._subscribe(changed(standing, changes, self._now()))

    def extend(self, subscription_id: str, ends_at: Moment) -> Handle:
        """Another end of its window; None: no end."""
        return self.replace(subscription_id, ends_at=ends_at)

    def publication(self, publication_id: str, topic: str | None = None) -> Publication | None:
        """The first that came under that id, at that topic or at any. None: there is none on the topic, which keeps a week."""
        self._check_open("a publication was asked for")
        return self._listing.publication(publication_id, topic)

    def try_condition(
        self,
        where: str | None,
        *,
        topic: str = "",
        scope: Scope = "overlap",
        semantics: Semantics = "classical",
        since: Moment = None,
        examples: int = 5,
    ) -> Trial:
        """What a subscription would have been told of all that was published since a moment, by default in the hot window of the settings.

        How many, the latest of them, and by which predicate others were missed; nothing is sent.
        """
        self._check_open("a condition was tried")
        check_where(where)
        now = self._now()
        begin = micros(since, now, "since") or now - self._settings.hot_window
        asked = Asked(where, check_path(topic), scope, semantics)
        published = self._listing.published(begin)
        return try_condition(asked, published, Instant.of(begin), Instant.of(now), examples)

    def _was_taken(self, name: str, receipt: Receipt) -> bool:
        """Whether the router has come to a record and taken it; raises `Refused` if it did not take it."""
        if not self._workers.have_read(receipt.topic, {receipt.partition: receipt.offset + 1}):
            return False
        topic = self._topics.dead_letters
        partition = partition_of(name.encode(), len(self._offsets.partitions(topic)))
        begin = self._offsets.since(topic, [partition], receipt.arrived_at - SLACK)[partition]
        refusal = self._workers.refusal(name, receipt[:3], partition, begin)
        if refusal is not None:
            raise refusal
        return True

    def _completion(self, name: str, receipt: Receipt, partition: int) -> Completion:
        place = (self._topics.notifications, partition)
        return Completion(self._topics, self._offsets, self._workers, receipt, name, place)

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap

    @property
    def offsets(self) -> Offsets:
        """The ends of the topics' logs."""
        return self._offsets

    @property
    def workers(self) -> Workers:
        """How far the workers have come."""
        return self._workers

    @property
    def registry(self) -> Registry | None:
        return self._registry

    # ------------------------------------------------------------ publications

    def publish(
        self,
        attributes: Mapping[str, Value] | None = None,
        *,
        topic: str = "",
        publication_id: str | None = None,
        publisher_id: str | None = None,
        published_at: Moment = None,
        expires_at: Moment = None,
        where: Where = None,
        best: Best | None = None,
        self_join: bool = False,
        body: bytes | None = None,
    ) -> str:
        """Returns the publication's id."""
        now = self._now()
        check_where(where)
        record = Publication(
            uuid.uuid4().hex if publication_id is None else publication_id,
            publisher_id,
            topic,
            micros(published_at, now, "published_at"),
            micros(expires_at, now, "expires_at"),
            checked_attributes(attributes),
            where,
            best,
            self_join,
            checked_body(body),
        )
        self.publish_many([record])
        return str(record.publication_id)

    def publish_many(self, publications: Iterable[Publication | Mapping[str, Any]]) -> int:
        """Pipelined; returns how many were delivered, all of them, or raises. A dictionary has the fields of `Publication`."""
        return self._send(self._topics.publications, map(self._published, publications))

    def _published(self, given: Publication | Mapping[str, Any]) -> tuple[str, bytes]:
        """Key and value."""
        if not isinstance(given, Publication):
            if self._registry is None:
                value = self._plain.write(given)
                if value is not None:
                    return given.get("publication_id") or next(self._names), value
            given = publication_of(given, self._now())
        if given.publication_id is None:
            given.publication_id = next(self._names)
        value = encode(given, registry=self._registry)
        self._rules.accept(partial(accept_publication, given), given.best is not None)
        return given.publication_id, value

    # ------------------------------------------------------------ notifications

    @overload
    def notifications(
        self,
        recipient_id: str | None = None,
        *,
        since: Moment = None,
        after: str | None = None,
        group: None = None,
        timeout: float | None = None,
    ) -> Stream[Notification]: ...

    @overload
    def notifications(
        self, recipient_id: str, *, since: Moment = None, group: str, timeout: float | None = None
    ) -> GroupStream: ...

    def notifications(
        self,
        recipient_id: str | None = None,
        *,
        since: Moment = None,
        after: str | None = None,
        group: str | None = None,
        timeout: float | None = None,
    ) -> Stream[Notification]:
        """Everything that is notified from now on, since a moment, or after a token; to one recipient, or to all.

        Ends after `timeout` seconds without a notification; never, if that is None. Reads committed records only, and of one
        recipient the one partition that has them. The place in the log is fixed before this returns, so what is published
        afterwards will be seen. `after`: the `token` of a stream or a notification; `TokenExpired` if retention has passed it.

        `group`: a named reader, which keeps its position in Kafka. `ack(notification)` says that this one and all before it are done;
        what was not acknowledged comes again, when it is read anew or by another member of the group. One of them reads, the others
        stand by. `since` and now are where a group begins that has no position yet.
        """
        self._check_open("notifications were asked for")
        if group is not None:
            if recipient_id is None or after is not None:
                raise UserError(
                    "group needs a recipient, and keeps its position in Kafka: give recipient_id, and no after"
                )
            return self._group_stream(recipient_id, group, micros(since, self._now(), "since"), timeout)
        if since is not None and after is not None:
            raise UserError("give either since or after, not both: a token says where to go on")
        begin = self._begin(self._partitions_of(recipient_id), micros(since, self._now(), "since"), after)
        return self._stream_of(recipient_id, begin, timeout)

    def _stream_of(
        self,
        recipient_id: str | None,
        begin: Mapping[int, int],
        timeout: float | None = None,
        accept: Callable[[Notification], bool] | None = None,
    ) -> Stream[Notification]:
        return Stream(
            self._reader().assign(self._topics.notifications, begin),
            begin,
            self._read_notification,
            key=recipient_id,
            accept=accept,
            timeout=timeout,
            closed=self._closed,
        )

    def _group_stream(self, recipient_id: str, group: str, since: int | None, timeout: float | None) -> GroupStream:
        properties = group_properties(self._settings, recipient_id, group)
        (partition,) = partitions = self._partitions_of(recipient_id)
        return GroupStream(
            self._reader(1, **properties),
            self._topics.notifications,
            partition,
            lambda: self._begin(partitions, since, None)[partition],
            self._read_notification,
            key=recipient_id,
            timeout=timeout,
            closed=self._closed,
        )

    def _own_notifications(self, subscription: Subscription, begin: tuple[int, int]) -> Stream[Notification]:
        name = subscription.subscription_id
        return self._stream_of(
            subscription.subscriber_id,
            dict([begin]),
            accept=lambda n: n.record.subscription_id == name and n.record.role == "subscriber",
        )

    def _read_notification(self, message: Message) -> Notification:
        record = decode_notification(message.value(), registry=self._registry)
        return Notification(record, message.partition(), message.offset())

    def _partitions_of(self, recipient_id: str | None) -> tuple[int, ...]:
        there = self._offsets.partitions(self._topics.notifications)
        return there if recipient_id is None else (partition_of(recipient_id.encode(), len(there)),)

    def _ends_of(self, recipient_id: str) -> tuple[int, int]:
        ((partition, end),) = self._offsets.ends(self._topics.notifications, self._partitions_of(recipient_id)).items()
        return partition, end

    def _begin(self, partitions: tuple[int, ...], since: int | None, after: str | None) -> dict[int, int]:
        """Where in each partition to begin to read."""
        name = self._topics.notifications
        if after is not None:
            return self._offsets.checked(name, partitions, read_token(after))
        return self._offsets.ends(name, partitions) if since is None else self._offsets.since(name, partitions, since)

    def best_offers(self, publication_id: str | None = None, *, timeout: float | None = None) -> Stream[BestOffer]:
        """Who holds the best offer: as it stands, and every change from then on; of one publication, or of all.

        Ends after `timeout` seconds without a change; never, if that is None.
        """
        self._check_open("best offers were asked for")
        name = self._topics.best_offers
        begin = {p: self._offsets.bounds(name, p)[0] for p in self._offsets.partitions(name)}

        def read(message: Message) -> BestOffer:
            return decode_best_offer(message.value(), registry=self._registry)

        return Stream(
            self._reader().assign(name, begin), begin, read, key=publication_id, timeout=timeout, closed=self._closed
        )

    def refusals(
        self, *, everyone: bool = False, since: Moment = None, timeout: float | None = None
    ) -> Stream[Refusal]:
        """What the workers could not take of all that this client has sent, or since a moment of what everyone has; and from then on."""
        self._check_open("refusals were asked for")
        name = self._topics.dead_letters
        asked = micros(since, self._now(), "since")
        moment = self._made_at - SLACK if asked is None else asked
        begin = self._offsets.since(name, self._offsets.partitions(name), moment)
        own = self._delivery.own

        def accept(refusal: Refusal) -> bool:
            letter = refusal.letter
            return everyone or (letter.topic, letter.partition, letter.offset) in own

        def read(message: Message) -> Refusal:
            letter = decode_dead_letter(message.value(), registry=self._registry)
            return Refusal(letter, message.partition(), message.offset())

        return Stream(
            self._reader().assign(name, begin), begin, read, accept=accept, timeout=timeout, closed=self._closed
        )

    def dead_letters(self, since: Moment = None) -> Iterator[Refusal]:
        """What the workers could not take, of everyone, as it is on the topic now: all of the week that it keeps, or since a moment."""
        self._check_open("dead letters were asked for")
        return self._listing.dead_letters(micros(since, self._now(), "since"))

    def fault(self, refusal: Refusal) -> str | None:
        """Why its record would be refused again; None: it would be taken now, as far as that can be told here."""
        return fault(refusal.letter, self._topics, self._registry)

    def check_sendable(self, refusal: Refusal) -> None:
        """Raises `UserError` for a letter whose record cannot be sent again as it was."""
        check_sendable(refusal.letter, self._topics)

    def resend(self, refusal: Refusal) -> None:
        """Sends its record again as it was, to the topic that it came from."""
        check_sendable(refusal.letter, self._topics)
        self._send(refusal.letter.topic, [(refusal.letter.key, refusal.letter.value)])

    def _now(self) -> int:
        """What a moment from now is counted from, in microseconds."""
        return now_micros()

    def _reader(self, chunk: int = CHUNK, **properties: Any) -> Reader:
        return Reader(self._settings, self._bootstrap, chunk, **properties)

    def _check_open(self, what: str) -> None:
        if self._closed.is_set():
            raise ClientClosed(what)

    # ------------------------------------------------------------ delivery

    def _send(self, topic: str, records: Iterable[tuple[Key, bytes | None]]) -> int:
        return self._delivery.send(topic, records)

    def close(self) -> None:
        """Sends what waits, or raises `DeliveryError`; whoever iterates, in whichever thread, comes to an end."""
        self._closed.set()
        self._offsets.close()
        self._delivery.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt | DeliveryError):
            self._delivery.drop()
        self.close()
