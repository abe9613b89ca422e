"""What the client asks for: subscriptions, from the first version to the end."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pastforward import names
from pastforward.client.arguments import changed, check_end, check_where
from pastforward.client.complete import Completion
from pastforward.client.delivery import Receipt
from pastforward.client.dictionaries import subscription_of
from pastforward.client.handle import Handle
from pastforward.client.listening import Listening
from pastforward.client.listing import Standing, accept_condition
from pastforward.client.models import converter_of
from pastforward.client.moments import Instant, Moment, micros
from pastforward.client.partitions import partition_of
from pastforward.client.placing import Area, topics_near, where_near
from pastforward.client.trial import Asked, Trial, try_condition
from pastforward.client.workers import SLACK
from pastforward.columns.vocabulary import Deliver, Scope, Semantics, TimeBasis
from pastforward.errors import BrokerError, DeliveryError, UserError
from pastforward.matching.conditions.errors import shown
from pastforward.schemas import SchemaError, Subscription, encode
from pastforward.schemas.acceptance import accept_subscription
from pastforward.schemas.dewey_text import check_topics
from pastforward.schemas.fields import own_identifier
from pastforward.schemas.records import Where


class Subscribing(Listening):
    def subscribe(
        self,
        where: Where = None,
        *,
        subscriber_id: str,
        subscription_id: str | None = None,
        topic: str | Sequence[str] = "",
        near: Area | None = None,
        scope: Scope = "overlap",
        starts_at: Moment = None,
        ends_at: Moment = None,
        time: TimeBasis = "published",
        semantics: Semantics = "classical",
        self_join: bool = False,
        deliver: Deliver = "content",
        model: type | None = None,
    ) -> Handle:
        """`starts_at="-10m"` reaches ten minutes back. The same id again replaces. `topic`: a path, a name such as
        `roads/I-95`, or a list of up to eight of them.

        `near=Circle(lon, lat, radius_m)`: of what is published `at` a place there. Its topics are up to eight cells, below `topic`, and the
        exact place joins the condition. `model`: what `data` of its notifications is, see `notifications`.

        What can be checked is checked here, and raises `SchemaError`; `Handle.wait` says what the workers make of it. The handle gives
        the notifications of the subscription, from before it was sent.
        """
        now = self._now()
        check_where(where)
        topic, where = self._placed(topic, near, where)
        record = Subscription(
            uuid.uuid4().hex if subscription_id is None else subscription_id,
            subscriber_id,
            topic,
            scope,
            micros(starts_at, now, "starts_at"),
            micros(ends_at, now, "ends_at"),
            time,
            where,
            semantics,
            self_join,
            deliver,
        )
        return self._subscribe(record, model)

    def _placed(self, topic: Any, near: Area | None, where: Where) -> tuple[str, Where]:
        given = [topic] if isinstance(topic, str) else topic
        if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
            raise SchemaError(
                "wrong_type", f"topic must be a path such as '1.4', a name, or a list of them, not {shown(topic)}"
            )
        resolved = [self._book.resolved(each) for each in given]
        path = check_topics(resolved[0] if len(resolved) == 1 else resolved)
        return (path, where) if near is None else (topics_near(near, path), where_near(where, near))

    def _subscribe(self, record: Subscription, model: type | None = None) -> Handle:
        self._check_open("a subscription was sent")
        if model is not None:
            converter_of(model)
        value = encode(record, registry=self._registry)
        check_end(record, self._now())
        self._rules.accept(partial(accept_subscription, record), record.self_join)
        name = record.subscription_id
        try:
            begin = self._ends_of(record.subscriber_id)
        except BrokerError as error:
            raise DeliveryError([(name, str(error))]) from error
        receipts: dict[str, Receipt] = {}
        self._book.flush()
        self._delivery.send(self._topics.subscriptions, [(name, value)], receipts)
        return Handle(self, record, receipts[name], begin, model)

    def subscribe_many(self, subscriptions: Iterable[Subscription | Mapping[str, Any]]) -> list[Handle]:
        """Pipelined, all of them or an error. A dictionary has what `subscribe` takes. One that is wrong is refused before any is sent."""
        self._check_open("subscriptions were sent")
        records = [subscription_of(self._given(each), self._now(), self._names) for each in subscriptions]
        sent: list[tuple[str, bytes | None]] = []
        for record in records:
            check_end(record, self._now())
            sent.append((record.subscription_id, encode(record, registry=self._registry)))
            if record.self_join or record.transitions or record.paused or not isinstance(record.where, str | None):
                self._rules.accept(partial(accept_subscription, record), record.self_join)
            else:
                accept_condition(record.where, False)
        name = self._topics.notifications
        partitions = self._offsets.partitions(name)
        begin = self._offsets.ends(name, partitions)
        receipts: dict[str, Receipt] = {}
        self._book.flush()
        self._delivery.send(self._topics.subscriptions, sent, receipts)
        places = (partition_of(record.subscriber_id.encode(), len(partitions)) for record in records)
        return [
            Handle(self, record, receipts[record.subscription_id], (at, begin[at]))
            for record, at in zip(records, places, strict=True)
        ]

    def _given(self, given: Subscription | Mapping[str, Any]) -> Subscription | Mapping[str, Any]:
        if isinstance(given, Subscription):
            return given
        topic, near = given.get("topic", ""), given.get("near")
        if near is None and type(topic) is str and not names.is_name(topic):
            return given
        topic, where = self._placed(topic, near, given.get("where"))
        return {**{name: value for name, value in given.items() if name != "near"}, "topic": topic, "where": where}

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
        """Sends the subscription as it stands, with other values of what `subscribe` takes. Its window begins where it began. With `near`,
        `where` is needed as well: that of before has the earlier place in it.
        """
        standing = self.subscription(subscription_id)
        if standing is None:
            raise UserError(
                f"there is no subscription {subscription_id!r}: it was withdrawn, or never sent; subscribe instead"
            )
        return self._subscribe(changed(standing, self._moved(changes), self._now()))

    def _moved(self, changes: dict[str, Any]) -> dict[str, Any]:
        """With paths for names and cells for places."""
        near = changes.pop("near", None)
        if near is not None and "where" not in changes:
            raise UserError("near needs where beside it: the condition that stands has the earlier place in it")
        if near is None and "topic" not in changes:
            return changes
        topic, where = self._placed(changes.get("topic", ""), near, changes.get("where"))
        return {**changes, "topic": topic} if near is None else {**changes, "topic": topic, "where": where}

    def pause(self, subscription_id: str) -> Handle:
        """It stays listed and matches nothing until it is resumed."""
        return self.replace(subscription_id, paused=True)

    def resume(self, subscription_id: str) -> Handle:
        """From then on it is as it was. What came during the pause and lies in its window is notified, as `past`."""
        return self.replace(subscription_id, paused=False)

    def extend(self, subscription_id: str, ends_at: Moment) -> Handle:
        """Another end of its window; None: no end."""
        return self.replace(subscription_id, ends_at=ends_at)

    def try_condition(
        self,
        where: Where,
        *,
        topic: str | Sequence[str] = "",
        near: Area | None = None,
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
        path, placed = self._placed(topic, near, where)
        asked = Asked(placed, path, scope, semantics)
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
