"""Between plain data (what JSON and Avro hold) and records: the one place where records are checked.

JSON and Avro give the same plain data but for three things, all taken here: a time may be text (RFC 3339), bytes may be
base64 text, and an unknown field is an error in JSON, while Avro's resolution leaves out what the reader does not know.
"""

from __future__ import annotations

from typing import Any, Final

from pastforward.columns.times import datetime_of
from pastforward.columns.vocabulary import DELIVERIES, SCOPES, SEMANTICS, TIME_BASES, TRANSITIONS
from pastforward.schemas.avro_plain import Plain
from pastforward.schemas.condition_fields import normal_form, plain_normal_form, plain_where, where
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.fields import (
    Check,
    flag,
    identifier,
    integer,
    many,
    moment,
    one_of,
    optional,
    own_identifier,
    raw,
    read_fields,
    small,
    text,
    topic,
    topics,
    wrong_type,
)
from pastforward.schemas.records import (
    BackfillRequest,
    Best,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Content,
    DeadLetter,
    Entity,
    Notification,
    Publication,
    Record,
    Rendezvous,
    Subscription,
    Version,
    Withdrawal,
)
from pastforward.schemas.value_fields import attribute_name, attribute_value, attributes, plain_value, undressed

_SCOPE: Final = one_of(*SCOPES)
_TIME: Final = one_of(*TIME_BASES)
_SEMANTICS: Final = one_of(*SEMANTICS)
_DELIVER: Final = one_of(*DELIVERIES)

_SUBSCRIPTION: Final[dict[str, Check[Any]]] = {
    "subscription_id": optional(own_identifier),
    "subscriber_id": identifier,
    "topic": topics,
    "scope": _SCOPE,
    "starts_at": optional(moment),
    "ends_at": optional(moment),
    "time": optional(_TIME),
    "where": where,
    "semantics": _SEMANTICS,
    "self_join": flag,
    "deliver": _DELIVER,
    "transitions": flag,
    "paused": flag,
}


def subscription(value: Plain, key: str | None, strict: bool) -> Subscription:
    found = read_fields(
        value, "the record", _SUBSCRIPTION, strict, subscription_id=None, topic="", scope="overlap", starts_at=None,
        ends_at=None, time=None, where=None, semantics="classical", self_join=False, deliver="content", transitions=False,
        paused=False,
    )  # fmt: skip
    found[0] = same_id(found[0], key, "subscription_id")
    if found[0] is None:
        raise SchemaError("missing", "the subscription has no id: set the Kafka key, or subscription_id")
    record = Subscription(*found)
    check_window(record.starts_at, record.ends_at, "starts_at", "ends_at")
    return record


def same_id(value: str | None, key: str | None, what: str) -> str | None:
    if value is not None and key is not None and value != key:
        raise SchemaError(
            "bad_id", f"{what} is {value[:60]!r} but the key is {key[:60]!r}: leave one out, or make them equal"
        )
    return key if value is None else value


def check_window(starts_at: int | None, ends_at: int | None, start: str, end: str) -> None:
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise SchemaError(
            "bad_window", f"the window ends before it begins: {end} is {_time(ends_at)}, {start} is {_time(starts_at)}"
        )


def _time(micros: int) -> str:
    """As people write it; beyond the years that Python knows, the number."""
    try:
        return datetime_of(micros).isoformat()
    except OverflowError:
        return str(micros)


_BEST: Final[dict[str, Check[Any]]] = {"attribute": attribute_name, "prefer": one_of("highest", "lowest")}


def _best(strict: bool) -> Check[Best]:
    return lambda value, what: Best(*read_fields(value, what, _BEST, strict))


def _publication_fields(strict: bool) -> dict[str, Check[Any]]:
    return {
        "publication_id": optional(own_identifier),
        "publisher_id": optional(identifier),
        "topic": topic,
        "published_at": optional(moment),
        "expires_at": optional(moment),
        "attributes": attributes,
        "where": where,
        "best": optional(_best(strict)),
        "self_join": flag,
        "body": optional(raw),
        "entity": flag,
    }


_PUBLICATION: Final = {strict: _publication_fields(strict) for strict in (False, True)}


def publication(value: Plain, key: str | None, strict: bool) -> Publication:
    found = read_fields(
        value, "the record", _PUBLICATION[strict], strict, publication_id=None, publisher_id=None, topic="",
        published_at=None, expires_at=None, attributes={}, where=None, best=None, self_join=False, body=None,
        entity=False,
    )  # fmt: skip
    found[0] = same_id(found[0], key, "publication_id")
    record = Publication(*found)
    check_window(record.published_at, record.expires_at, "published_at", "expires_at")
    return record


_CONTENT: Final[dict[str, Check[Any]]] = {
    "attributes": attributes,
    "where": optional(text),
    "body": optional(raw),
    "publisher_id": optional(text),
    "expires_at": optional(moment),
}


def content(value: Any, what: str) -> Content:
    return Content(
        *read_fields(
            value, what, _CONTENT, False, attributes={}, where=None, body=None, publisher_id=None, expires_at=None
        )
    )


_NOTIFICATION: Final[dict[str, Check[Any]]] = {
    "notification_id": text,
    "subscription_id": text,
    "subscription_version": text,
    "publication_id": text,
    "recipient_id": text,
    "role": one_of("subscriber", "publisher"),
    "topic": topic,
    "published_at": moment,
    "matched_at": moment,
    "phase": one_of("past", "live", "backfill", "best"),
    "earlier_ids": many(text),
    "value": optional(attribute_value),
    "content": optional(content),
    "transition": optional(one_of(*TRANSITIONS)),
    "set_version": optional(text),
    "publication_version": optional(text),
}


def notification(value: Plain, strict: bool) -> Notification:
    return Notification(
        *read_fields(
            value,
            "the record",
            _NOTIFICATION,
            strict,
            earlier_ids=(),
            value=None,
            content=None,
            transition=None,
            set_version=None,
            publication_version=None,
        )
    )


_DEAD_LETTER: Final[dict[str, Check[Any]]] = {
    "topic": text,
    "partition": small,
    "offset": integer,
    "arrived_at": integer,
    "kind": text,
    "reason": text,
    "key": optional(raw),
    "value": optional(raw),
}


def dead_letter(value: Plain, strict: bool) -> DeadLetter:
    return DeadLetter(*read_fields(value, "the record", _DEAD_LETTER, strict, key=None, value=None))


def version(value: Any, what: str) -> Version:
    partition, offset, arrived_at = read_fields(
        value, what, {"partition": small, "offset": integer, "arrived_at": integer}, False
    )
    return Version(arrived_at, partition, offset)


def _cuts(value: Any, what: str) -> dict[int, int]:
    return dict(many(_cut)(value, what))


def _cut(value: Any, what: str) -> tuple[int, int]:
    partition, offset = read_fields(value, what, {"partition": small, "offset": integer}, False)
    return partition, offset


_CANONICAL_SUBSCRIPTION: Final[dict[str, Check[Any]]] = {
    "subscription_id": identifier,
    "subscriber_id": identifier,
    "version": version,
    "topic": topics,
    "scope": _SCOPE,
    "starts_at": moment,
    "ends_at": optional(moment),
    "time": _TIME,
    "where": normal_form,
    "semantics": _SEMANTICS,
    "self_join": flag,
    "deliver": _DELIVER,
    "transitions": flag,
    "paused": flag,
    "set_version": optional(version),
    "pause": optional(_cuts),
}
_WITHDRAWAL: Final[dict[str, Check[Any]]] = {"subscription_id": identifier, "version": version, "replaced": flag}
_ENTITY: Final[dict[str, Check[Any]]] = {"before": many(small), "previous": optional(attributes), "digest": raw}


def _entity(value: Any, what: str) -> Entity:
    return Entity(*read_fields(value, what, _ENTITY, False, previous=None))


_CANONICAL_PUBLICATION: Final[dict[str, Check[Any]]] = {
    "publication_id": identifier,
    "publisher_id": optional(identifier),
    "topic": topic,
    "published_at": moment,
    "expires_at": optional(moment),
    "best": optional(_best(False)),
    "self_join": flag,
    "attributes": attributes,
    "where": optional(normal_form),
    "body": optional(raw),
    "entity": optional(_entity),
}


def canonical(value: Any, what: str) -> CanonicalSubscription | Withdrawal | CanonicalPublication:
    """Which of the three it is, is told by its fields."""
    if type(value) is dict and "publication_id" in value:
        return CanonicalPublication(
            *read_fields(
                value,
                what,
                _CANONICAL_PUBLICATION,
                False,
                publisher_id=None,
                expires_at=None,
                best=None,
                where=None,
                body=None,
                entity=None,
            )
        )
    if type(value) is dict and "subscriber_id" in value:
        # one that an earlier version has written says nothing of `deliver`, nor of what follows it
        found = read_fields(
            value, what, _CANONICAL_SUBSCRIPTION, False, ends_at=None, deliver="content", transitions=False, paused=False,
            set_version=None, pause=None,
        )  # fmt: skip
        return CanonicalSubscription(*found)
    return Withdrawal(*read_fields(value, what, _WITHDRAWAL, False, replaced=False))


_RENDEZVOUS: Final[dict[str, Check[Any]]] = {
    "origin": one_of("subscriptions", "publications", "none"),
    "partition": small,
    "offset": integer,
    "arrived_at": integer,
    "routing_version": small,
    "partitions": many(small),
    "record": optional(canonical),
}


def rendezvous(value: Plain, strict: bool) -> Rendezvous:
    return Rendezvous(*read_fields(value, "the record", _RENDEZVOUS, strict, record=None))


def _canonical_subscription(value: Any, what: str) -> CanonicalSubscription:
    found = canonical(value, what)
    if not isinstance(found, CanonicalSubscription):
        raise wrong_type(what, "a canonical subscription", value)
    return found


_BACKFILL_REQUEST: Final[dict[str, Check[Any]]] = {
    "subscription": _canonical_subscription,
    "rendezvous_partition": small,
    "horizon": integer,
    "log_time": integer,
    "routing_version": small,
    "cut": _cuts,
    "covers": many(_canonical_subscription),
    "above": _cuts,
}


def backfill_request(value: Plain, strict: bool) -> BackfillRequest:
    return BackfillRequest(*read_fields(value, "the record", _BACKFILL_REQUEST, strict, covers=(), above={}))


_BEST_OFFER: Final[dict[str, Check[Any]]] = {
    "publication_id": text,
    "topic": topic,
    "subscription_id": optional(text),
    "subscription_version": optional(text),
    "subscriber_id": optional(text),
    "value": optional(attribute_value),
    "changed_at": moment,
    "offset": integer,
    "final": flag,
}


def best_offer(value: Plain, strict: bool) -> BestOffer:
    return BestOffer(
        *read_fields(
            value,
            "the record",
            _BEST_OFFER,
            strict,
            subscription_id=None,
            subscription_version=None,
            subscriber_id=None,
            value=None,
            final=False,
        )
    )


def plain_record(record: Record) -> dict[str, Plain]:
    """All fields, in the order of the schema. Of records that people make, of plain types."""
    plain = _slots(record)
    if isinstance(record, Subscription | Publication):
        plain = {name: undressed(value) for name, value in plain.items()}
        plain["where"] = plain_where(record.where)
    if isinstance(record, Publication):
        plain["attributes"] = {undressed(name): plain_value(value) for name, value in record.attributes.items()}
        best = record.best
        plain["best"] = None if best is None else {name: undressed(value) for name, value in _slots(best).items()}
    elif isinstance(record, Notification):
        plain["earlier_ids"] = list(record.earlier_ids)
        plain["value"] = plain_value(record.value)
        plain["content"] = None if record.content is None else plain_content(record.content)
    elif isinstance(record, BestOffer):
        plain["value"] = plain_value(record.value)
    elif isinstance(record, Rendezvous):
        plain["partitions"] = list(record.partitions)
        plain["record"] = None if record.record is None else plain_canonical(record.record)
    elif isinstance(record, BackfillRequest):
        plain["subscription"] = plain_canonical(record.subscription)
        plain["cut"], plain["above"] = _plain_cuts(record.cut), _plain_cuts(record.above)
        plain["covers"] = [plain_canonical(each) for each in record.covers]
    return plain


def _plain_cuts(cut: dict[int, int]) -> Plain:
    return [{"partition": partition, "offset": offset} for partition, offset in cut.items()]


def _plain_version(version: Version) -> dict[str, Plain]:
    return {each: getattr(version, each) for each in ("partition", "offset", "arrived_at")}


def plain_content(content: Content) -> dict[str, Plain]:
    plain = _slots(content)
    plain["attributes"] = {name: plain_value(value) for name, value in content.attributes.items()}
    return plain


def plain_canonical(record: CanonicalSubscription | Withdrawal | CanonicalPublication) -> dict[str, Plain]:
    plain = _slots(record)
    if isinstance(record, CanonicalPublication):
        plain["attributes"] = {name: plain_value(value) for name, value in record.attributes.items()}
        plain["where"] = None if record.where is None else plain_normal_form(record.where)
        plain["best"] = None if record.best is None else _slots(record.best)
        if record.entity is not None:
            previous = record.entity.previous
            plain["entity"] = _slots(record.entity) | {
                "before": list(record.entity.before),
                "previous": None
                if previous is None
                else {name: plain_value(value) for name, value in previous.items()},
            }
    else:
        if record.version is None:
            raise SchemaError("missing", "the withdrawal has no version: the router sets it")
        plain["version"] = _plain_version(record.version)
        if isinstance(record, CanonicalSubscription):
            plain["where"] = plain_normal_form(record.where)
            plain["set_version"] = None if record.set_version is None else _plain_version(record.set_version)
            plain["pause"] = None if record.pause is None else _plain_cuts(record.pause)
    return plain


def _slots(record: Any) -> dict[str, Plain]:
    return {name: getattr(record, name) for name in record.__slots__}
