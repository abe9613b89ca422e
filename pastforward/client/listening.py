"""What the client reads: notifications, best offers, and what was refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import overload

from confluent_kafka import Message

from pastforward.client.core import Core
from pastforward.client.group import GroupStream, group_properties
from pastforward.client.letters import check_sendable, fault
from pastforward.client.models import converter_of
from pastforward.client.moments import Moment, micros
from pastforward.client.notification import Notification
from pastforward.client.partitions import partition_of
from pastforward.client.refusals import Refusal
from pastforward.client.stream import Stream
from pastforward.client.tokens import read_token
from pastforward.client.workers import SLACK
from pastforward.errors import UserError
from pastforward.schemas import BestOffer, Subscription, decode_best_offer, decode_dead_letter, decode_notification
from pastforward.schemas.quick import read_notification


class Listening(Core):
    @overload
    def notifications(
        self,
        recipient_id: str | None = None,
        *,
        since: Moment = None,
        after: str | None = None,
        group: None = None,
        model: type | None = None,
        timeout: float | None = None,
    ) -> Stream[Notification]: ...

    @overload
    def notifications(
        self,
        recipient_id: str,
        *,
        since: Moment = None,
        group: str,
        model: type | None = None,
        timeout: float | None = None,
    ) -> GroupStream: ...

    def notifications(
        self,
        recipient_id: str | None = None,
        *,
        since: Moment = None,
        after: str | None = None,
        group: str | None = None,
        model: type | None = None,
        timeout: float | None = None,
    ) -> Stream[Notification]:
        """Everything that is notified from now on, since a moment, or after a token; to one recipient, or to all.

        Ends after `timeout` seconds without a notification; never, if that is None. Reads committed records only, and of one
        recipient the one partition that has them. The place in the log is fixed before this returns, so what is published
        afterwards will be seen. `after`: the `token` of a stream or a notification; `TokenExpired` if retention has passed it.

        `group`: a named reader, which keeps its position in Kafka. `ack(notification)` says that this one and all before it are done;
        what was not acknowledged comes again, when it is read anew or by another member of the group. One of them reads, the others
        stand by. `since` and now are where a group begins that has no position yet.

        `model`: a dataclass, a msgspec struct or a pydantic model. `data` of each notification is an instance of it, by its attributes;
        where they do not fit, `data` raises and `error` says which field is wrong. The notification comes in any case.
        """
        self._check_open("notifications were asked for")
        if group is not None:
            if recipient_id is None or after is not None:
                raise UserError(
                    "group needs a recipient, and keeps its position in Kafka: give recipient_id, and no after"
                )
            return self._group_stream(recipient_id, group, micros(since, self._now(), "since"), timeout, model)
        if since is not None and after is not None:
            raise UserError("give either since or after, not both: a token says where to go on")
        begin = self._begin(self._partitions_of(recipient_id), micros(since, self._now(), "since"), after)
        return self._stream_of(recipient_id, begin, timeout, model=model)

    def _stream_of(
        self,
        recipient_id: str | None,
        begin: Mapping[int, int],
        timeout: float | None = None,
        accept: Callable[[Notification], bool] | None = None,
        model: type | None = None,
    ) -> Stream[Notification]:
        return Stream(
            self._reader().assign(self._topics.notifications, begin),
            begin,
            self._reads(model),
            key=recipient_id,
            accept=accept,
            timeout=timeout,
            closed=self._closed,
        )

    def _group_stream(
        self, recipient_id: str, group: str, since: int | None, timeout: float | None, model: type | None
    ) -> GroupStream:
        properties = group_properties(self._settings, recipient_id, group)
        (partition,) = partitions = self._partitions_of(recipient_id)
        return GroupStream(
            self._reader(1, **properties),
            self._topics.notifications,
            partition,
            lambda: self._begin(partitions, since, None)[partition],
            self._reads(model),
            key=recipient_id,
            timeout=timeout,
            closed=self._closed,
        )

    def _own_notifications(
        self, subscription: Subscription, begin: tuple[int, int], model: type | None = None
    ) -> Stream[Notification]:
        name = subscription.subscription_id
        return self._stream_of(
            subscription.subscriber_id,
            dict([begin]),
            accept=lambda n: n.record.subscription_id == name and n.record.role == "subscriber",
            model=model,
        )

    def _reads(self, model: type | None) -> Callable[[Message], Notification]:
        registry, convert = self._registry, None if model is None else converter_of(model)

        def read(message: Message) -> Notification:
            value = message.value()
            record = read_notification(value) or decode_notification(value, registry=registry)
            return Notification(record, message.partition(), message.offset(), convert)

        return read

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
