"""Records that must be refused, and records at the very limits that must be taken: one catalogue for the router and the history.

A scheme is assumed that any routing with `dewey` and depth 1 has.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final, NamedTuple

from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.schemas import Best, Predicate, Publication, SchemaError, Subscription, encode
from pastforward.schemas.limits import MAX_RECORD_BYTES

PUBLICATIONS, SUBSCRIPTIONS = "publications", "subscriptions"


class Sent(NamedTuple):
    """`kind` of the dead letter; None: it is taken. A key of None: none is sent; the name of the case stands for `KEY`."""

    name: str
    topic: str
    value: bytes | None
    kind: str | None
    key: Any = "KEY"


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _nested(depth: int) -> bytes:
    return b'{"attributes": {"x": ' + b"[" * depth + b"1" + b"]" * depth + b"}}"


# in normal form a long constant stands in each of a hundred alternatives: 6 MB
EXPLODING: Final = f"x = '{'a' * 60_000}' AND (" + " OR ".join(f"a{i} = 1" for i in range(100)) + ")"
DEEP: Final = ".".join(["1"] * 65)
DEEPEST: Final = ".".join(["9223372036854775807"] * 64)


def _padded(value: bytes, size: int) -> bytes:
    """JSON of exactly that many bytes."""
    return value[:-1] + b" " * (size - len(value)) + value[-1:]


def _bodied(name: str, size: int) -> bytes:
    """Avro of exactly that many bytes."""
    around = len(encode(Publication(name, topic="1.2", body=b"b" * 100_000))) - 100_000
    return encode(Publication(name, topic="1.2", body=b"b" * (size - around)))


def _both(name: str, kind: str | None, **fields: Any) -> list[Sent]:
    """A publication in JSON, and in Avro as far as our own encoder writes it: different kernels read them."""
    found = [Sent(f"{name}-json", PUBLICATIONS, _json(**fields), kind)]
    with contextlib.suppress(SchemaError):
        found.append(Sent(f"{name}-avro", PUBLICATIONS, encode(Publication(f"{name}-avro", **fields)), kind))
    assert kind is not None or len(found) == 2
    return found


CONTROL: Final = "\x01" * 1_000_000


def _offering(name: str, **fields: Any) -> Publication:
    return Publication(name, topic=f"7.{len(name)}", best=Best("x", "highest"), **fields)


# Of several attributes the one that is reserved may stand anywhere.
_PLACES: Final = {"first": 0, "middle": 1, "last": 2}


def _among(place: int, name: str) -> dict[str, int]:
    names = ["a", "b"]
    names.insert(place, name)
    return {each: number for number, each in enumerate(names)}


EXACT: Final = [
    Sent("largest-json", PUBLICATIONS, _padded(_json(topic="1.2"), MAX_RECORD_BYTES), None),
    Sent("too-large-json", PUBLICATIONS, _padded(_json(topic="1.2"), MAX_RECORD_BYTES + 1), "too_large"),
    Sent("largest-avro", PUBLICATIONS, _bodied("largest-avro", MAX_RECORD_BYTES), None),
    Sent("too-large-avro", PUBLICATIONS, _bodied("too-large-avro", MAX_RECORD_BYTES) + b"\0", "too_large"),
    *_both("publisher-512", None, publisher_id="p" * 512),
    *_both("publisher-513", "bad_id", publisher_id="p" * 513),
    *_both("publisher-wide-512", None, publisher_id="ü" * 256),
    *_both("publisher-wide-514", "bad_id", publisher_id="ü" * 257),
    *_both("name-wide-254", None, attributes={"ü" * 127: 1}),
    *_both("name-wide-256", "bad_id", attributes={"ü" * 128: 1}),
    *_both("name-255", None, attributes={"n" * 255: 1}),
    *_both("name-256", "bad_id", attributes={"n" * 256: 1}),
    *_both("depth-64", None, topic=".".join(["1"] * 64)),
    *_both("depth-65", "bad_path", topic=DEEP),
    *_both("component-most", None, topic=f"1.{2**63 - 1}"),
    *_both("component-more", "bad_path", topic=f"1.{2**63}"),
    *_both("first-moment", None, published_at=MIN_TIME),
    *_both("before-first-moment", "bad_value", published_at=MIN_TIME - 1),
    *_both("last-moment", None, published_at=MAX_TIME),
    *_both("after-last-moment", "bad_value", published_at=MAX_TIME + 1),
    *(each for place, at in _PLACES.items() for each in _both(f"reserved-{place}", "bad_value", attributes=_among(at, "previous.x"))),
    *(each for place, at in _PLACES.items() for each in _both(f"long-name-{place}", "bad_id", attributes=_among(at, "n" * 256))),
    Sent("made-up-key", PUBLICATIONS, b"{}", "bad_id", b"~0-1"),
    Sent("made-up-id", PUBLICATIONS, _json(publication_id="~0-1"), "bad_id", None),
    Sent("tilde-within", PUBLICATIONS, _json(topic="1"), None, b"a~"),
]  # fmt: skip

PUBLISHED: Final = [
    *EXACT,
    Sent("empty", PUBLICATIONS, b"", "malformed"),
    Sent("null", PUBLICATIONS, None, "missing"),
    Sent("no-record", PUBLICATIONS, b"no record", "malformed"),
    Sent("not-avro", PUBLICATIONS, b"\xc3\x01 nothing", "malformed"),
    Sent("cut", PUBLICATIONS, encode(Publication("cut", topic="1.2", attributes={"x": 1}))[:-3], "malformed"),
    Sent("confluent", PUBLICATIONS, b"\x00\x00\x00\x00\x01abc", "malformed"),
    Sent("no-json", PUBLICATIONS, b'{"topic": ', "malformed"),
    Sent("list", PUBLICATIONS, b" [1]", "malformed"),
    *(Sent(f"nested-{depth}", PUBLICATIONS, _nested(depth), "malformed") for depth in (33, 400, 900, 100_000)),
    Sent("nested-and-large", PUBLICATIONS, b'{"a": 1e300, ' + _nested(600)[1:], "malformed"),
    Sent("digits", PUBLICATIONS, b'{"published_at": ' + b"9" * 5_000 + b"}", "malformed"),
    Sent("lon", PUBLICATIONS, b'{"attributes": {"p": {"lon": 1' + b"0" * 300 + b', "lat": 1}}}', "bad_value"),
    Sent("surrogate", PUBLICATIONS, b'{"attributes": {"x": "\\ud800"}}', "malformed"),
    Sent("utf-8", PUBLICATIONS, b'{"attributes": {"x": "\xff"}}', "malformed"),
    Sent("unknown-field", PUBLICATIONS, _json(topics="1"), "unknown_field"),
    Sent("wrong-type", PUBLICATIONS, _json(topic=1), "wrong_type"),
    Sent("value-type", PUBLICATIONS, _json(attributes={"x": None}), "wrong_type"),
    Sent("big-integer", PUBLICATIONS, _json(attributes={"x": 2**63}), "bad_value"),
    Sent("another-id", PUBLICATIONS, _json(publication_id="another"), "bad_id"),
    Sent("no-utf-8-key", PUBLICATIONS, b"{}", "bad_id", b"\xff\xfe"),
    Sent("empty-key", PUBLICATIONS, b"{}", "bad_id", b""),
    Sent("zero-key", PUBLICATIONS, b"{}", "bad_id", b"a\0b"),
    Sent("long-key", PUBLICATIONS, b"{}", "bad_id", b"k" * 513),
    Sent("huge-key", PUBLICATIONS, b"{}", "bad_id", b"k" * (5 << 20)),
    Sent("huge-value", PUBLICATIONS, b"{" + b" " * (5 << 20), "too_large"),
    Sent("long-publisher", PUBLICATIONS, _json(publisher_id="p" * 513), "bad_id"),
    Sent("empty-component", PUBLICATIONS, _json(topic="1..2"), "bad_path"),
    Sent("deep", PUBLICATIONS, _json(topic=DEEP), "bad_path"),
    Sent("large-component", PUBLICATIONS, _json(topic="9223372036854775808"), "bad_path"),
    Sent("deep-value", PUBLICATIONS, _json(attributes={"x": {"path": DEEP}}), "bad_path"),
    Sent("year-0", PUBLICATIONS, _json(published_at="0000-01-01T00:00:00Z"), "bad_value"),
    Sent("year-10000", PUBLICATIONS, _json(published_at=253_402_300_800_000_000), "bad_value"),
    Sent("window", PUBLICATIONS, _json(published_at=5, expires_at=4), "bad_window"),
    Sent("long-name", PUBLICATIONS, _json(attributes={"n" * 256: 1}), "bad_id"),
    Sent("longer-name", PUBLICATIONS, _json(attributes={"n" * 513: 1}), "bad_id"),
    Sent("empty-name", PUBLICATIONS, _json(attributes={"": 1}), "bad_id"),
    Sent("reserved", PUBLICATIONS, _json(topic="1.2", attributes={"previous.x": 1, "x": 2}), "bad_value"),
    Sent("reserved-avro", PUBLICATIONS, encode(Publication("reserved-avro", attributes={"previous.x": 1})), "bad_value"),
    Sent("condition", PUBLICATIONS, _json(where="x >"), "bad_condition"),
    Sent("never", PUBLICATIONS, _json(where="x > 1 AND x < 1"), "bad_condition"),
    Sent("of-previous", PUBLICATIONS, _json(topic="1.2", where="previous.x > 1"), "bad_condition"),
    Sent("or-previous", PUBLICATIONS, _json(topic="1.2", where="x = 1 OR previous.x > 1"), "bad_condition"),
    Sent(
        "of-previous-avro",
        PUBLICATIONS,
        encode(Publication("of-previous-avro", where=((Predicate("previous.x", ">", 1),),))),
        "bad_condition",
    ),
    Sent("deep-condition", PUBLICATIONS, _json(where=f"x = PATH '{DEEP}'"), "bad_condition"),
    Sent("condition-component", PUBLICATIONS, _json(where="x = PATH '9223372036854775808'"), "bad_condition"),
    Sent("condition-name", PUBLICATIONS, _json(where="n" * 256 + " = 1"), "bad_condition"),
    Sent("condition-zero-name", PUBLICATIONS, _json(where='"a\0b" = 1'), "bad_condition"),
    Sent("condition-point", PUBLICATIONS, _json(where="x = POINT(200, 0)"), "bad_condition"),
    Sent("exploding", PUBLICATIONS, _json(where=EXPLODING), "too_large"),
    Sent("best-root", PUBLICATIONS, _json(best={"attribute": "x", "prefer": "highest"}), "bad_value"),
    Sent("best-name", PUBLICATIONS, _json(topic="1", best={"attribute": "n" * 256, "prefer": "highest"}), "bad_id"),
    Sent("best-prefer", PUBLICATIONS, _json(topic="1", best={"attribute": "x", "prefer": "most"}), "bad_value"),
    # a control character has six bytes in the JSON of a notification
    Sent("best-text", PUBLICATIONS, encode(_offering("best-text", attributes={"x": CONTROL})), "too_large"),
    Sent("best-bound", PUBLICATIONS, encode(_offering("best-bound", where=((Predicate("x", "<", CONTROL),),))), "too_large"),
    Sent("body", PUBLICATIONS, _json(body="no base64!"), "bad_value"),
    # at the limits
    Sent("longest-key", PUBLICATIONS, _json(topic="1.2"), None, b"k" * 512),
    Sent("longest-key-deepest", PUBLICATIONS, _json(topic=DEEPEST), None, b"d" * 512),
    Sent("no-key", PUBLICATIONS, _json(topic="1.2"), None, None),
    Sent("longest-name", PUBLICATIONS, _json(topic="1.2", attributes={"n" * 255: 1, "ü" * 127: 2}), None),
    Sent("deepest", PUBLICATIONS, _json(topic=DEEPEST, attributes={"x": {"path": DEEPEST}}), None),
    Sent("deepest-condition", PUBLICATIONS, _json(topic="1.2", where=f"x = PATH '{DEEPEST}' OR {'n' * 255} = 1"), None),
    Sent("deepest-bound", PUBLICATIONS, _json(topic="1.2", where=f"x > PATH '{DEEPEST}'"), None),
    Sent("other-text", PUBLICATIONS, encode(_offering("other-text", attributes={"y": CONTROL}, where="z = '\x01'")), None),
    Sent("plain-best", PUBLICATIONS, encode(_offering("plain-best", attributes={"x": "a" * 1_000_000})), None),
    Sent("longest-best", PUBLICATIONS, _json(topic="1", best={"attribute": "n" * 255, "prefer": "highest"}), None),
    Sent("year-1", PUBLICATIONS, _json(topic="1.2", published_at="0001-01-01T00:00:00Z"), None),
    Sent("year-9999", PUBLICATIONS, _json(topic="1.2", published_at="9999-12-31T23:59:59.999999Z"), None),
    Sent("old-attribute", PUBLICATIONS, _json(attributes={"t": {"timestamp": "0001-01-01T00:00:00Z"}}), None),
    Sent("large", PUBLICATIONS, _json(topic="1.2", attributes={"x": "a" * 1_000_000}), None),
    Sent("many", PUBLICATIONS, _json(attributes={f"a{i}": 1.5 for i in range(20_000)}), None),
    Sent("previously", PUBLICATIONS, _json(topic="1.2", attributes={"previous": 1, "previously.x": 2}), None),
]  # fmt: skip


def _subscribed(name: str, kind: str | None, key: Any = "KEY", **fields: Any) -> Sent:
    return Sent(f"s-{name}", SUBSCRIPTIONS, _json(**{"subscriber_id": "s", **fields}), kind, key)


SUBSCRIBED: Final = [
    *(
        Sent(f"s-json-{more}", SUBSCRIPTIONS, _padded(_json(subscriber_id="s"), MAX_RECORD_BYTES + more), kind)
        for more, kind in ((0, None), (1, "too_large"))
    ),
    Sent("s-made-up", SUBSCRIPTIONS, _json(subscriber_id="s"), "bad_id", b"~0-1"),
    _subscribed("subscriber-wide", None, subscriber_id="ü" * 256),
    _subscribed("subscriber-wider", "bad_id", subscriber_id="ü" * 257),
    *(
        each._replace(name=f"s-{each.name}", topic=SUBSCRIPTIONS)
        for each in PUBLISHED
        if each.name in ("empty", "no-record", "not-avro", "no-json", "list", "nested-400", "unknown-field", "no-utf-8-key", "long-key",
                         "huge-key", "huge-value")
    ),
    Sent("s-no-key", SUBSCRIPTIONS, _json(subscriber_id="s"), "missing", None),
    Sent("s-no-subscriber", SUBSCRIPTIONS, b"{}", "missing"),
    _subscribed("long-subscriber", "bad_id", subscriber_id="s" * 513),
    _subscribed("deep", "bad_path", topic=DEEP),
    _subscribed("window", "bad_window", starts_at=5, ends_at=4),
    _subscribed("past-window", "bad_window", ends_at=4),
    _subscribed("condition", "bad_condition", where="x >"),
    _subscribed("never", "bad_condition", where="x > 1 AND x < 1"),
    _subscribed("previous", "bad_condition", where="previous.x > 1"),
    _subscribed("deep-condition", "bad_condition", where=f"x = PATH '{DEEP}'"),
    _subscribed("condition-name", "bad_condition", where="n" * 256 + " = 1"),
    _subscribed("condition-zero-name", "bad_condition", where='"a\0b" = 1'),
    _subscribed("condition-point", "bad_condition", where="x = POINT(200, 0)"),
    _subscribed("exploding", "too_large", where=EXPLODING),
    Sent("s-bid", SUBSCRIPTIONS, encode(Subscription("s-bid", "s", where=((Predicate("x", "<", CONTROL),),))), "too_large"),
    _subscribed("scope", "bad_value", scope="all"),
    # at the limits
    _subscribed("longest-key", None, b"s" * 512, topic="1.2"),
    _subscribed("longest-subscriber", None, subscriber_id="s" * 512),
    _subscribed("deepest", None, topic=DEEPEST),
    _subscribed("joined", None, topic="1.2", self_join=True, where="previous.x > 1"),
    _subscribed("deepest-condition", None, where=f"x = PATH '{DEEPEST}' OR {'n' * 255} = 1"),
    _subscribed("deepest-bound", None, where=f"x > PATH '{DEEPEST}'"),
    Sent("s-avro", SUBSCRIPTIONS, encode(Subscription("s-avro", "s", where=((Predicate("x", ">", 1),),))), None),
]  # fmt: skip

ALL: Final = [*PUBLISHED, *SUBSCRIBED]


def key_of(sent: Sent) -> bytes | None:
    return sent.name.encode() if sent.key == "KEY" else sent.key
