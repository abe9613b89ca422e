"""One record at a time: between records and bytes, in Avro's single-object encoding, the Confluent wire format or JSON.

The first byte tells the form: `{` or white space is JSON; 0xC3 0x01 is single-object Avro, eight bytes of fingerprint
follow; 0x00 is the Confluent wire format, four bytes of schema id follow, and a registry is needed. All functions raise
`SchemaError` and nothing else on bytes that are no valid record.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import orjson

from pastforward.columns.vocabulary import TimeBasis
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas import plain, value_fields
from pastforward.schemas.avro_plain import Plain
from pastforward.schemas.definitions import Definition, by_fingerprint, current
from pastforward.schemas.errors import SchemaError, refusal
from pastforward.schemas.fields import check_id, check_own
from pastforward.schemas.limits import (
    MADE_UP,
    MAX_CANONICAL_BYTES,
    MAX_DEAD_LETTER_BYTES,
    MAX_DEAD_LETTER_KEY_BYTES,
    MAX_NESTING,
    MAX_NOTIFICATION_BYTES,
    MAX_REASON_BYTES,
    MAX_RECORD_BYTES,
)
from pastforward.schemas.records import (
    BackfillRequest,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    DeadLetter,
    EntityWithdrawal,
    Notification,
    Publication,
    Record,
    Rendezvous,
    Subscription,
    Version,
    Withdrawal,
)

Format: TypeAlias = Literal["avro", "json"]
T = TypeVar("T")

SINGLE_OBJECT: Final = b"\xc3\x01"
CONFLUENT: Final = b"\x00"
_HEADER: Final = 10  # marker and fingerprint
_CONFLUENT_HEADER: Final = 5  # marker and schema id
_JSON_STARTS: Final = b"{ \t\r\n"
_LIMIT: Final = {
    "subscription": MAX_RECORD_BYTES,
    "publication": MAX_RECORD_BYTES,
    "notification": MAX_NOTIFICATION_BYTES,
}
_EXACT: Final = 2.0**63  # orjson makes floats of integers above 64 bits

_NAME_OF: Final[dict[type, str]] = {
    Subscription: "subscription",
    Publication: "publication",
    Notification: "notification",
    DeadLetter: "dead_letter",
    BackfillRequest: "backfill_request",
    Rendezvous: "rendezvous",
    BestOffer: "best_offer",
}


class Registry(Protocol):
    """A schema registry, as far as codecs need it. Raises `SchemaError` for an id that is not there."""

    def definition(self, name: str, schema_id: int) -> Definition: ...

    def schema_id(self, name: str) -> int:
        """The id under which the current schema is registered."""
        ...


# -------------------------------------------------------------------------------- encode


def encode(record: Record, format: Format = "avro", registry: Registry | None = None) -> bytes:
    """The value of the Kafka record. Checks the record first, so that what is written can be read."""
    name = _NAME_OF[type(record)]
    fields = plain.plain_record(record)
    try:
        _check(name, fields)
        if format == "json" and not all(map(math.isfinite, _floats(fields))):
            fields = finite_json(fields)
        encoded = to_json(fields) if format == "json" else _to_avro(name, fields, registry)
    except UnicodeEncodeError as error:
        raise SchemaError("bad_value", f"the {name} has text that UTF-8 cannot hold: {error}") from None
    limit = _LIMIT.get(name, MAX_CANONICAL_BYTES)
    if len(encoded) > limit:
        raise SchemaError("too_large", f"the {name} has {len(encoded)} bytes: at most {limit} are taken")
    return encoded


def to_json(fields: Plain) -> bytes:
    try:
        return orjson.dumps(fields, default=_json_bytes)
    except orjson.JSONEncodeError as error:
        raise SchemaError("bad_value", f"the record has no JSON form: {error}") from None


def finite_json(plain: Plain) -> Plain:
    """Plain data in which NaN and the infinities stand as JSON has them."""
    if type(plain) is float and not math.isfinite(plain):
        return {"float": value_fields.NOT_FINITE[repr(plain)]}
    if type(plain) is dict:
        return {name: finite_json(each) for name, each in plain.items()}
    return [finite_json(each) for each in plain] if type(plain) is list else plain


def _to_avro(name: str, fields: Plain, registry: Registry | None) -> bytes:
    out = bytearray(avro_header(name, registry))
    current(name).write(fields, out)
    return bytes(out)


def avro_header(name: str, registry: Registry | None) -> bytes:
    if registry is None:
        return SINGLE_OBJECT + current(name).fingerprint
    return CONFLUENT + registry.schema_id(name).to_bytes(4, "big")


def _check(name: str, fields: dict[str, Plain]) -> None:
    if name == "subscription":
        plain.subscription(fields, None, True)
    elif name == "publication":
        plain.publication(fields, None, True)
    else:
        getattr(plain, name)(fields, True)


def _json_bytes(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise SchemaError("wrong_type", f"{type(value).__name__} has no JSON form")


def dead_letter(
    topic: str, partition: int, offset: int, arrived_at: int, error: SchemaError, key: bytes | None, value: bytes | None
) -> DeadLetter:
    """A dead letter that fits its topic: of key and value the first MiB is kept, of the reason 4 KiB. The reason says what was cut."""
    half = MAX_DEAD_LETTER_BYTES // 2
    cut = "".join(
        f" (of the {what}'s {len(original)} bytes the first {half} are kept)"
        for what, original in (("key", key), ("value", value))
        if original is not None and len(original) > half
    )
    return DeadLetter(
        topic,
        partition,
        offset,
        arrived_at,
        error.kind,
        _bounded(error.reason) + cut,
        None if key is None else key[:half],
        None if value is None else value[:half],
    )


def _bounded(reason: str) -> str:
    """Text that UTF-8 can hold, of bounded size."""
    raw = reason[:MAX_REASON_BYTES].encode("utf-8", "replace")
    if len(raw) <= MAX_REASON_BYTES and len(reason) <= MAX_REASON_BYTES:
        return raw.decode()
    return raw[:MAX_REASON_BYTES].decode("utf-8", "ignore") + "…"


def dead_letter_key(key: bytes | None) -> bytes | None:
    """The Kafka key of a dead letter: that of the refused record, or its first 64 KiB; the letter itself has more of it."""
    return None if key is None else key[:MAX_DEAD_LETTER_KEY_BYTES]


# -------------------------------------------------------------------------------- decode


def decode_subscription(
    key: bytes | None, value: bytes | None, registry: Registry | None = None
) -> Subscription | Withdrawal:
    """A null value withdraws the subscription that the key names."""
    name = decode_key(key)
    if value is None:
        if name is None:
            raise SchemaError("missing", "a withdrawal has no key: set it to the id of the subscription")
        return Withdrawal(name)
    return _decode(
        "subscription",
        value,
        MAX_RECORD_BYTES,
        registry,
        lambda fields, strict: plain.subscription(fields, name, strict),
    )


NO_VALUE: Final = SchemaError(
    "missing", "the publication has no value: publications cannot be withdrawn, set expires_at instead"
)


def decode_published(
    key: bytes | None, value: bytes | None, registry: Registry | None = None
) -> Publication | EntityWithdrawal:
    """A null value withdraws the entity that the key names."""
    if value is not None:
        return decode_publication(key, value, registry)
    name = decode_key(key)
    if name is None:
        raise SchemaError("missing", "the withdrawal of an entity has no key: set it to the id of the entity")
    return EntityWithdrawal(name)


def decode_publication(key: bytes | None, value: bytes | None, registry: Registry | None = None) -> Publication:
    name = decode_key(key)
    if value is None:
        raise NO_VALUE
    return _decode(
        "publication", value, MAX_RECORD_BYTES, registry, lambda fields, strict: plain.publication(fields, name, strict)
    )


def decode_notification(value: bytes, registry: Registry | None = None) -> Notification:
    return _decode("notification", value, MAX_NOTIFICATION_BYTES, registry, plain.notification)


def decode_dead_letter(value: bytes, registry: Registry | None = None) -> DeadLetter:
    return _decode("dead_letter", value, MAX_CANONICAL_BYTES, registry, plain.dead_letter)


def decode_rendezvous(value: bytes, registry: Registry | None = None) -> Rendezvous:
    return _decode("rendezvous", value, MAX_CANONICAL_BYTES, registry, plain.rendezvous)


def decode_backfill_request(value: bytes, registry: Registry | None = None) -> BackfillRequest:
    return _decode("backfill_request", value, MAX_CANONICAL_BYTES, registry, plain.backfill_request)


def decode_best_offer(value: bytes, registry: Registry | None = None) -> BestOffer:
    return _decode("best_offer", value, MAX_CANONICAL_BYTES, registry, plain.best_offer)


def decode_key(key: bytes | None) -> str | None:
    """The id that a Kafka key holds."""
    if key is None:
        return None
    try:
        return check_own(check_id(key.decode(), "the key"), "the key")
    except UnicodeDecodeError:
        raise SchemaError("bad_id", "the key is no UTF-8: write the id as UTF-8 text") from None


def _decode(name: str, value: bytes, limit: int, registry: Registry | None, build: Callable[[Plain, bool], T]) -> T:
    """`build` is given the plain data, and whether unknown fields are errors. What nobody has foreseen is the record's error too."""
    try:
        return build(*_plain(name, value, limit, registry))
    except Exception as error:
        raise refusal(error) from error


def _plain(name: str, value: bytes, limit: int, registry: Registry | None) -> tuple[Plain, bool]:
    if len(value) > limit:
        raise SchemaError("too_large", f"the record has {len(value)} bytes: at most {limit} are taken")
    if not value:
        raise SchemaError("malformed", "the value is empty: write JSON or Avro; to withdraw a subscription, write null")
    if value[0] in _JSON_STARTS:
        return parse_json(value), True
    if value[:2] == SINGLE_OBJECT:
        definition = by_fingerprint(name).get(value[2:_HEADER])
        if definition is None:
            raise SchemaError(
                "malformed",
                f"the Avro fingerprint {value[2:_HEADER].hex()} is of no schema that a {name} ever had here",
            )
        return definition.read(value, _HEADER), False
    if value[:1] == CONFLUENT:
        if registry is None:
            raise SchemaError("malformed", "the Confluent wire format needs a registry: set SCHEMA_REGISTRY_URL")
        if len(value) < _CONFLUENT_HEADER:
            raise SchemaError("malformed", "the Confluent header ends too early")
        definition = registry.definition(name, int.from_bytes(value[1:_CONFLUENT_HEADER], "big"))
        return definition.read(value, _CONFLUENT_HEADER), False
    raise SchemaError(
        "malformed",
        f"the first byte is 0x{value[0]:02X}: write a JSON object, single-object Avro, or Confluent's format",
    )


def parse_json(value: bytes) -> Plain:
    try:
        parsed = orjson.loads(value)
        if type(parsed) is not dict:
            raise SchemaError("malformed", "the JSON is no object")
        if any(abs(number) >= _EXACT for number in _floats(parsed)):
            # Only the slower parser keeps integers of any size, so that they are refused and not rounded.
            parsed = json.loads(value)
    except SchemaError:
        raise
    except ValueError as error:  # of both parsers; also for an integer with more digits than Python reads
        raise SchemaError("malformed", f"the JSON cannot be read: {error}") from None
    return parsed


def _floats(value: Plain) -> list[float]:
    """All floats of plain data. Without recursion, because data from outside may be nested as deep as it likes: it is refused here."""
    found: list[float] = []
    level = [value]
    for _ in range(MAX_NESTING + 1):
        inner: list[Plain] = []
        for each in level:
            kind = type(each)
            if kind is float:
                found.append(each)
            elif kind is dict:
                inner += each.values()
            elif kind is list:
                inner += each
        if not inner:
            return found
        level = inner
    raise SchemaError("malformed", f"objects and lists are nested more than {MAX_NESTING} deep")


# -------------------------------------------------------------------------------- canonical


def canonical_subscription(record: Subscription, version: Version, where: NormalForm) -> CanonicalSubscription:
    """Fills in the defaults of a subscription that arrived as `version`; `where` is its condition in normal form."""
    starts_at = version.arrived_at if record.starts_at is None else record.starts_at
    plain.check_window(starts_at, record.ends_at, "starts_at", "ends_at")
    return CanonicalSubscription(
        record.subscription_id,
        record.subscriber_id,
        version,
        record.topic,
        record.scope,
        starts_at,
        record.ends_at,
        time_basis(record),
        where,
        record.semantics,
        record.self_join,
        record.deliver,
        record.transitions,
        record.paused,
    )


def time_basis(record: Subscription) -> TimeBasis:
    return record.time or ("valid" if record.transitions else "published")


def canonical_publication(
    record: Publication, partition: int, offset: int, arrived_at: int, where: NormalForm | None
) -> CanonicalPublication:
    """Fills in the defaults of a publication that arrived there and then."""
    return CanonicalPublication(
        f"{MADE_UP}{partition}-{offset}" if record.publication_id is None else record.publication_id,
        record.publisher_id,
        record.topic,
        arrived_at if record.published_at is None else record.published_at,
        record.expires_at,
        record.best,
        record.self_join,
        record.attributes,
        where,
        record.body,
    )
