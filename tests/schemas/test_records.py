"""One record at a time: every record and every type of attribute, in all formats; and all that can be wrong with one."""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward import schemas
from pastforward.matching.conditions.types import classify
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.schemas import (
    Best,
    BestOffer,
    Predicate,
    Publication,
    SchemaError,
    Subscription,
    Version,
    Withdrawal,
    encode,
)
from pastforward.schemas import plain as checks
from pastforward.schemas.acceptance import normal_form
from pastforward.schemas.avro_plain import compile_reader
from pastforward.schemas.codec import Format
from pastforward.schemas.definitions import NAMES, current
from pastforward.schemas.limits import (
    MAX_CANONICAL_BYTES,
    MAX_DEAD_LETTER_BYTES,
    MAX_DEAD_LETTER_KEY_BYTES,
    MAX_RECORD_BYTES,
)
from pastforward.schemas.plain import plain_record
from tests.matching import strategies as language
from tests.schemas import reference
from tests.schemas import strategies as some

HEADER = 10
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "subscription": lambda value: schemas.decode_subscription(None, value),
    "publication": lambda value: schemas.decode_publication(None, value),
    "notification": schemas.decode_notification,
    "dead_letter": schemas.decode_dead_letter,
    "rendezvous": schemas.decode_rendezvous,
    "backfill_request": schemas.decode_backfill_request,
    "best_offer": schemas.decode_best_offer,
}


@pytest.mark.parametrize("format", ["avro", "json"])
@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name: str, format: Format) -> None:
    @settings(max_examples=40)
    @given(some.RECORDS[name])
    def check(record: Any) -> None:
        assert DECODERS[name](schemas.encode(record, format)) == record

    check()


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_other_avro_libraries(name: str) -> None:
    @settings(max_examples=30)
    @given(some.RECORDS[name])
    def check(record: Any) -> None:
        plain = plain_record(record)
        body = schemas.encode(record)[HEADER:]
        assert reference.apache_read(name, body) == plain
        assert reference.fastavro_read(name, body) == plain
        assert reference.fastavro_write(name, plain) == body
        assert current(name).read(body, 0) == plain

    check()


@pytest.mark.parametrize("format", ["avro", "json"])
@pytest.mark.parametrize("kind", some.VALUES)
def test_every_type_of_attribute(kind: str, format: Format) -> None:
    @settings(max_examples=40)
    @given(some.VALUES[kind])
    def check(value: Any) -> None:
        found = schemas.decode_publication(b"p", schemas.encode(Publication("p", attributes={"x": value}), format))
        assert found.attributes == {"x": value}
        assert type(found.attributes["x"]) is type(value)

    check()


@pytest.mark.parametrize("format", ["avro", "json"])
@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_numbers_that_json_has_not_are_carried(number: str, format: Format) -> None:
    where = ((Predicate("x", "=", float(number)),),)
    sent = Publication("p", attributes={"x": float(number), "y": 1.0}, where=where)
    value = schemas.encode(sent, format)
    assert repr(schemas.decode_publication(b"p", value)) == repr(sent)
    found = schemas.decode_publications([b"p"], [value], 0, *[np.zeros(1, np.int64)] * 2)
    assert repr(schemas.attributes_of(found.attributes, 0)) == repr(sent.attributes)
    told = BestOffer("p", "", None, None, None, float(number), 1, 1)
    assert repr(schemas.decode_best_offer(schemas.encode(told, format))) == repr(told)


@pytest.mark.parametrize("text", ['"inf"', "1.5", "null", '{"float": "NaN"}'])
def test_no_other_number_is_written_so(text: str) -> None:
    with pytest.raises(SchemaError, match=r"x'\.float must be one of NaN, Infinity, -Infinity"):
        schemas.decode_publication(None, b'{"attributes": {"x": {"float": %b}}}' % text.encode())


# ------------------------------------------------------------------------------------------------------------------ JSON


def test_json_as_people_write_it() -> None:
    value = b"""
    {"subscriber_id": "anna", "topic": "1.4.2", "scope": "subtree", "starts_at": "2025-01-31T12:00:00Z",
     "ends_at": 1738411200000000, "time": "valid", "where": "severity >= 3", "semantics": "intersect", "self_join": true}"""
    assert schemas.decode_subscription(b"s1", value) == Subscription(
        "s1",
        "anna",
        "1.4.2",
        "subtree",
        1738324800000000,
        1738411200000000,
        "valid",
        "severity >= 3",
        "intersect",
        True,
    )
    value = b"""{"publication_id": "p1", "attributes": {"a": true, "b": 3, "c": 41.5, "d": "text", "e": {"lon": 13, "lat": 52.5},
        "f": {"lat": 52.5, "lon": 13.4, "radius_m": 100}, "g": {"min_x": 0, "min_y": 0, "max_x": 1, "max_y": 1},
        "h": {"timestamp": "2025-01-31T12:00:00Z"}, "i": {"timestamp": 0}, "j": {"path": "1.4.2"}},
        "best": {"attribute": "c", "prefer": "lowest"}, "body": "AAE="}"""
    assert schemas.decode_publication(None, value) == Publication(
        "p1",
        attributes={
            "a": True,
            "b": 3,
            "c": 41.5,
            "d": "text",
            "e": Point(13.0, 52.5),
            "f": Circle(13.4, 52.5, 100.0),
            "g": Box(0.0, 0.0, 1.0, 1.0),
            "h": datetime(2025, 1, 31, 12, tzinfo=UTC),
            "i": datetime(1970, 1, 1, tzinfo=UTC),
            "j": Path("1.4.2"),
        },
        best=Best("c", "lowest"),
        body=b"\x00\x01",
    )


def test_a_structured_condition_in_json() -> None:
    value = b'{"where": {"disjuncts": [[{"attribute": "a", "operator": ">=", "value": 3}], []]}}'
    assert schemas.decode_publication(b"p", value).where == ((Predicate("a", ">=", 3),), ())


def test_the_smallest_records() -> None:
    assert schemas.decode_publication(None, b"{}") == Publication()
    assert schemas.decode_subscription(b"s", b'{"subscriber_id": "anna"}') == Subscription("s", "anna")
    assert schemas.decode_subscription(b"s", None) == Withdrawal("s")


# ------------------------------------------------------------------------------------------------------------- bad input

BAD_SUBSCRIPTIONS: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "malformed", "empty"),
    "no JSON": (b"{", "malformed", "JSON cannot be read"),
    "no object": (b" [1]", "malformed", "no object"),
    "list": (b"[1]", "malformed", "first byte is 0x5B"),
    "text": (b"hello", "malformed", "first byte is 0x68"),
    "not UTF-8": (b'{"subscriber_id": "\xff"}', "malformed", "JSON cannot be read"),
    "lone surrogate": (b'{"subscriber_id": "\\ud800"}', "malformed", "JSON cannot be read"),
    "two objects": (b'{"subscriber_id": "a"} {}', "malformed", "JSON cannot be read"),
    "unknown fingerprint": (b"\xc3\x0112345678", "malformed", "fingerprint"),
    "no fingerprint": (b"\xc3\x01", "malformed", "fingerprint"),
    "half a marker": (b"\xc3", "malformed", "first byte"),
    "no registry": (b"\x00\x00\x00\x00\x01abc", "malformed", "SCHEMA_REGISTRY_URL"),
    "unknown field": (b'{"subscriber_id": "a", "topik": "1"}', "unknown_field", "nearest known one is 'topic'"),
    "no subscriber": (b"{}", "missing", "subscriber_id"),
    "null subscriber": (b'{"subscriber_id": null}', "wrong_type", "subscriber_id must be a string"),
    "null topic": (b'{"subscriber_id": "a", "topic": null}', "wrong_type", "topic must be a string"),
    "number for topic": (b'{"subscriber_id": "a", "topic": 1.4}', "wrong_type", "topic must be a string, not 1.4"),
    "list for where": (b'{"subscriber_id": "a", "where": []}', "wrong_type", "where must be SQL text"),
    "text for flag": (b'{"subscriber_id": "a", "self_join": "yes"}', "wrong_type", "true or false"),
    "bad scope": (b'{"subscriber_id": "a", "scope": "below"}', "bad_value", "write one of overlap, subtree"),
    "bad path": (b'{"subscriber_id": "a", "topic": "1..2"}', "bad_path", "1..2"),
    "bad component": (b'{"subscriber_id": "a", "topic": "1.x"}', "bad_path", "'x'"),
    "bad time": (b'{"subscriber_id": "a", "starts_at": "yesterday"}', "bad_value", "RFC 3339"),
    "float time": (b'{"subscriber_id": "a", "starts_at": 1.5}', "wrong_type", "starts_at"),
    "boolean time": (b'{"subscriber_id": "a", "starts_at": true}', "wrong_type", "starts_at"),
    "far time": (b'{"subscriber_id": "a", "starts_at": 9223372036854775807}', "bad_value", "years 1 to 9999"),
    "window": (b'{"subscriber_id": "a", "starts_at": 2, "ends_at": 1}', "bad_window", "ends before it begins"),
    "long id": (b'{"subscriber_id": "' + b"a" * 513 + b'"}', "bad_id", "513 bytes"),
    "empty id": (b'{"subscriber_id": ""}', "bad_id", "0 bytes"),
    "zero byte": (b'{"subscriber_id": "a\\u0000b"}', "bad_id", "zero byte"),
    "other id": (b'{"subscriber_id": "a", "subscription_id": "t"}', "bad_id", "but the key is 's'"),
    "too large": (b'{"subscriber_id": "a", "where": "' + b" " * MAX_RECORD_BYTES + b'"}', "too_large", "at most 1048576"),
    "operator": (b'{"subscriber_id": "a", "where": {"disjuncts": [[{"attribute": "a", "operator": "~"}]]}}', "bad_condition", "'~'"),
    "no value": (b'{"subscriber_id": "a", "where": {"disjuncts": [[{"attribute": "a", "operator": "="}]]}}', "bad_condition", "needs"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SUBSCRIPTIONS)
def test_a_bad_subscription_says_what_is_wrong(case: str) -> None:
    value, kind, words = BAD_SUBSCRIPTIONS[case]
    with pytest.raises(SchemaError) as raised:
        schemas.decode_subscription(b"s", value)
    assert raised.value.kind == kind
    assert words in raised.value.reason


BAD_ATTRIBUTES: dict[str, tuple[bytes, str, str]] = {
    "null": (b"null", "wrong_type", "attribute 'x' must be"),
    "list": (b"[1]", "wrong_type", "attribute 'x' must be"),
    "unknown object": (b'{"lon": 1}', "wrong_type", "lon and lat"),
    "more fields": (b'{"lon": 1, "lat": 2, "radius": 3}', "wrong_type", "radius_m"),
    "empty object": (b"{}", "wrong_type", "attribute 'x' must be"),
    "longitude": (b'{"lon": 181, "lat": 0}', "bad_value", "-180 to 180"),
    "latitude": (b'{"lon": 0, "lat": 90.5}', "bad_value", "-90 to 90"),
    "text for a number": (b'{"lon": "1", "lat": 0}', "wrong_type", "a number"),
    "radius": (b'{"lon": 1, "lat": 0, "radius_m": -1}', "bad_value", "not negative"),
    "box": (b'{"min_x": 1, "min_y": 0, "max_x": 0, "max_y": 1}', "bad_value", "min_x <= max_x"),
    "path": (b'{"path": "1..2"}', "bad_path", "1..2"),
    "timestamp": (b'{"timestamp": "noon"}', "bad_value", "RFC 3339"),
    "above 63 bits": (b"9223372036854775808", "bad_value", "64 bits"),
    "above 64 bits": (b"36893488147419103233", "bad_value", "64 bits"),
    "below 64 bits": (b"-9223372036854775809", "bad_value", "64 bits"),
}


@pytest.mark.parametrize("case", BAD_ATTRIBUTES)
def test_a_bad_attribute_says_what_is_wrong(case: str) -> None:
    value, kind, words = BAD_ATTRIBUTES[case]
    with pytest.raises(SchemaError) as raised:
        schemas.decode_publication(b"p", b'{"attributes": {"x": ' + value + b"}}")
    assert raised.value.kind == kind
    assert words in raised.value.reason


BAD_PUBLICATIONS: dict[str, tuple[bytes | None, str, str]] = {
    "null": (None, "missing", "publications cannot be withdrawn"),
    "expiry": (b'{"published_at": 2, "expires_at": 1}', "bad_window", "expires_at is 1"),
    "no name": (b'{"attributes": {"": 1}}', "bad_id", "the name of an attribute"),
    "list of attributes": (b'{"attributes": []}', "wrong_type", "attributes by name"),
    "base64": (b'{"body": "A"}', "bad_value", "base64"),
    "no base64": (b'{"body": 1}', "wrong_type", "base64"),
    "best": (b'{"best": {"attribute": "a"}}', "missing", "best has no prefer"),
    "unknown of best": (b'{"best": {"attribute": "a", "prefer": "lowest", "x": 1}}', "unknown_field", "best has the unknown field"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_PUBLICATIONS)
def test_a_bad_publication_says_what_is_wrong(case: str) -> None:
    value, kind, words = BAD_PUBLICATIONS[case]
    with pytest.raises(SchemaError) as raised:
        schemas.decode_publication(None, value)
    assert raised.value.kind == kind
    assert words in raised.value.reason


@pytest.mark.parametrize(
    ("key", "words"), [(b"", "0 bytes"), (b"\xff", "no UTF-8"), (b"a\0", "zero byte"), (b"a" * 513, "513 bytes")]
)
def test_a_bad_key_says_what_is_wrong(key: bytes, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schemas.decode_publication(key, b"{}")


def test_no_key() -> None:
    with pytest.raises(SchemaError, match="set the Kafka key"):
        schemas.decode_subscription(None, b'{"subscriber_id": "a"}')
    with pytest.raises(SchemaError, match="has no key"):
        schemas.decode_subscription(None, None)


def test_an_exact_integer_in_json_is_kept_and_a_larger_one_refused() -> None:
    assert schemas.decode_publication(b"p", b'{"attributes": {"x": 9007199254740993}}').attributes == {"x": 2**53 + 1}
    # A float of that size is one, and stays.
    assert schemas.decode_publication(b"p", b'{"attributes": {"x": 1e20}}').attributes == {"x": 1e20}


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_a_record_or_an_error(name: str) -> None:
    definition = current(name)
    headers = st.sampled_from(
        [b"", b"{", b"\x00", b"\xc3\x01", b"\xc3\x01" + definition.fingerprint, b"\xc3\x01" + definition.fingerprint]
    )

    @settings(max_examples=150)
    @given(headers, st.binary(max_size=60))
    def check(header: bytes, body: bytes) -> None:
        with suppress(SchemaError):  # anything else fails the test
            DECODERS[name](header + body)

    check()


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_record_is_a_record_or_an_error(name: str) -> None:
    @settings(max_examples=60)
    @given(some.RECORDS[name], st.sampled_from(["avro", "json"]), st.data())
    def check(record: Any, format: Format, data: st.DataObject) -> None:
        value = bytearray(schemas.encode(record, format))
        place = data.draw(st.integers(0, len(value) - 1))
        value[place] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            del value[data.draw(st.integers(0, len(value) - 1)) :]
        with suppress(SchemaError):  # anything else fails the test
            DECODERS[name](bytes(value))

    check()


def test_json_of_any_shape_is_a_record_or_an_error() -> None:
    leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | some.finite | some.texts
    fields = st.sampled_from(
        [each["name"] for name in ("subscription", "publication") for each in current(name).schema["fields"]]
        + ["lon", "lat", "radius_m", "timestamp", "path", "disjuncts", "operator", "attribute", "prefer", "x"]
    )
    trees = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=5), max_leaves=12
    )

    @settings(max_examples=150)
    @given(st.dictionaries(fields, trees, max_size=6))
    def check(tree: Any) -> None:
        value = orjson.dumps(tree)
        for name in ("subscription", "publication"):
            with suppress(SchemaError):  # anything else fails the test
                DECODERS[name](value)

    check()


def test_what_cannot_be_read_is_not_written() -> None:
    with pytest.raises(SchemaError, match=r"1\.\.2"):
        schemas.encode(Publication("p", topic="1..2"))
    with pytest.raises(SchemaError, match="ends before it begins"):
        schemas.encode(Subscription("s", "a", starts_at=2, ends_at=1))
    with pytest.raises(SchemaError, match="64 bits"):
        schemas.encode(Publication("p", attributes={"x": 2**63}))
    with pytest.raises(SchemaError, match="UTF-8"):
        schemas.encode(Publication("p", attributes={"x": "\ud800"}))
    with pytest.raises(SchemaError, match="at most 1048576"):
        schemas.encode(Publication("p", body=bytes(MAX_RECORD_BYTES)))


def test_a_schema_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(SchemaError("bad_id", "why")))
    assert (error.kind, error.reason) == ("bad_id", "why")


# ---------------------------------------------------------------------------------------------------- dead letters, canonical


def test_a_dead_letter_keeps_the_original_bytes() -> None:
    letter = schemas.dead_letter(
        "pastforward.publications", 2, 7, 99, SchemaError("malformed", "why"), b"k", b"\x00\xff"
    )
    assert (letter.key, letter.value, letter.kind, letter.reason) == (b"k", b"\x00\xff", "malformed", "why")
    written = orjson.loads(schemas.encode(letter, "json"))
    assert base64.b64decode(written["value"]) == b"\x00\xff"


@pytest.mark.parametrize("format", ["avro", "json"])
def test_a_dead_letter_fits_its_topic(format: Format) -> None:
    value = bytes(10 << 20)
    letter = schemas.dead_letter("t", 0, 0, 0, SchemaError("too_large", "why"), None, value)
    assert letter.value is not None
    assert len(letter.value) <= MAX_DEAD_LETTER_BYTES
    assert "10485760 bytes" in letter.reason
    assert len(schemas.encode(letter, format)) < 4 << 20


@pytest.mark.parametrize("format", ["avro", "json"])
@pytest.mark.parametrize(
    "reason",
    ["why", "é" * 3_000_000, "\ud800" * 100, "\x01" * 5_000_000],
    ids=["short", "long", "surrogates", "control"],
)
def test_a_dead_letter_fits_its_topic_whatever_is_large(format: Format, reason: str) -> None:
    key, value = bytes(5 << 20), bytes(7 << 20)
    letter = schemas.dead_letter("t", 0, 0, 0, SchemaError("bad_id", reason), key, value)
    assert "key's 5242880 bytes" in letter.reason
    assert "value's 7340032 bytes" in letter.reason
    written = schemas.encode(letter, format)
    assert schemas.decode_dead_letter(written) == letter
    record_key = schemas.dead_letter_key(key)
    assert record_key is not None
    assert len(record_key) + len(written) < MAX_CANONICAL_BYTES
    assert letter.reason.startswith(("why", "é" * 2_000, "?" * 100, "\x01" * 4_000))


def test_the_key_of_a_dead_letter_is_that_of_the_record() -> None:
    assert schemas.dead_letter_key(None) is None
    assert schemas.dead_letter_key(b"") == b""
    longest = b"k" * MAX_DEAD_LETTER_KEY_BYTES
    assert schemas.dead_letter_key(longest) == longest
    assert schemas.dead_letter_key(longest + b"k") == longest


def test_canonical_records_have_all_defaults() -> None:
    version = Version(1_000, 2, 1735)
    assert str(version) == "2-1735"
    found = schemas.canonical_subscription(Subscription("s", "anna", ends_at=2_000), version, ())
    assert (found.starts_at, found.ends_at, found.version) == (1_000, 2_000, version)
    with pytest.raises(SchemaError, match="ends before it begins"):
        schemas.canonical_subscription(Subscription("s", "anna", ends_at=999), version, ())
    published = schemas.canonical_publication(Publication(), 2, 7, 1_000, None)
    assert (published.publication_id, published.published_at) == ("~2-7", 1_000)


def test_versions_are_ordered_by_arrival_then_partition_then_offset() -> None:
    assert Version(1, 9, 9) < Version(2, 0, 0) < Version(2, 1, 0) < Version(2, 1, 1)


# ---------------------------------------------------------------------------------------------------------- other writers


def test_a_clients_own_schema_is_resolved_by_names() -> None:
    """Fewer fields, others in between, times in milliseconds, values of one type: as a client in another language may have it."""
    schema = {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "sensor", "type": "string"},
            {"name": "published_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "topic", "type": "string"},
            {"name": "attributes", "type": {"type": "map", "values": "float"}},
        ],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(schema), {"sensor": "x", "published_at": 5, "topic": "1.2", "attributes": {"t": 1.5}}
    )
    found = checks.publication(compile_reader(schema)(out.getvalue(), 0), "p", False)
    assert found == Publication("p", topic="1.2", published_at=5_000, attributes={"t": 1.5})


def test_blocks_with_sizes_are_read() -> None:
    """Other writers end blocks of maps and arrays with their size in bytes, for those who skip."""
    definition = current("publication")
    body = schemas.encode(Publication("p", attributes={"a": True}))[HEADER:]
    plain_block = b"\x02\x02a\x00\x01\x00"  # one entry: "a", branch 0, true; end
    assert plain_block in body
    sized = body.replace(plain_block, b"\x01\x08\x02a\x00\x01\x00")  # minus one entry, four bytes
    value = b"\xc3\x01" + definition.fingerprint + sized
    assert schemas.decode_publication(None, value).attributes == {"a": True}
    wrong = body.replace(plain_block, b"\x01\x06\x02a\x00\x01\x00")
    with pytest.raises(SchemaError, match="not as long as it says"):
        schemas.decode_publication(None, b"\xc3\x01" + definition.fingerprint + wrong)


@pytest.mark.parametrize("key", [b"~", b"~0-5", "~é".encode()])
def test_ids_that_begin_as_those_that_are_made_here_are_refused(key: bytes) -> None:
    """Whoever published `0-5` kept a later publication without an id out."""
    now, offset = np.array([1], np.int64), np.array([5], np.int64)
    for values, keys in (([b"{}"], [key]), ([json.dumps({"publication_id": key.decode()}).encode()], [None])):
        ((row, error),) = schemas.decode_publications(keys, values, 0, offset, now).errors
        assert (row, error.kind) == (0, "bad_id")
        assert "begins with ~" in error.reason
    ((_, error),) = schemas.decode_subscriptions([key], [b'{"subscriber_id": "a"}'], 0, offset, now).errors
    assert error.kind == "bad_id"
    with pytest.raises(SchemaError, match="begins with ~"):
        schemas.encode(Publication(key.decode()))
    (made,) = schemas.decode_publications([None], [b"{}"], 0, offset, now).publication_id
    assert made == b"~0-5"


# ------------------------------------------------------------------------------------------------- values of other types


@given(language.constants, st.integers(0, 11), st.sampled_from(["avro", "json"]))
def test_values_may_be_of_numpy_or_subclasses(value: Any, which: int, format: Format) -> None:
    """Published, and as constants of the structured form."""
    dressed = language.dressed(value, which)
    name, text, where = (language.dressed(each, which) for each in ("x", "1.4", "y = 1"))
    best = Best(name, language.dressed("highest", which))
    sent = Publication(
        text, text, text, np.int64(5), language.Whole(6), {name: dressed}, where, best, np.bool_(True), np.bytes_(b"b")
    )
    plain = Publication("1.4", "1.4", "1.4", 5, 6, {"x": value}, "y = 1", Best("x", "highest"), True, b"b")
    assert encode(sent, format) == encode(plain, format)
    assert schemas.decode_publication(b"1.4", encode(sent, format)).attributes == {"x": value}
    asked: Any = ((Predicate(name, "in", values=(dressed, dressed)), Predicate(name, "=", dressed)),)
    same: Any = ((Predicate("x", "in", values=(value, value)), Predicate("x", "=", value)),)
    assert encode(Subscription(text, text, where=asked), format) == encode(
        Subscription("1.4", "1.4", where=same), format
    )
    assert normal_form(asked) == normal_form(same)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Point("a", "b"), "attribute 'x'.lon must be a number, not 'a'"),  # type: ignore[arg-type]
        (Point(10**400, 0), "attribute 'x'.lon is inf: write a finite number"),
        (Point(0, -(10**400)), "attribute 'x'.lat is -?inf: write a finite number"),
        (Point(True, False), "attribute 'x'.lon must be a number, not True"),
        (Point(np.True_, np.False_), "attribute 'x'.lon must be a number, not True"),  # type: ignore[arg-type]
        (Point(np.float64("nan"), 0), "attribute 'x'.lon is nan: write a finite number"),
        (Point(np.float32(181), 0), "attribute 'x'.lon is 181.0: write -180 to 180 degrees"),
        (Circle(0, 0, np.int8(-1)), "attribute 'x'.radius_m is -1.0: a radius is not negative"),
        (Box(0, 0, None, 0), "attribute 'x'.max_x must be a number, not None"),  # type: ignore[arg-type]
        (Path(5), "attribute 'x' must be a string, not 5"),  # type: ignore[arg-type]
        (np.uint64(2**64 - 1), "attribute 'x' is 18446744073709551615, which does not fit 64 bits"),
        (np.datetime64("NaT"), "is no time in the years 1 to 9999: write one, or leave it out"),
        (np.datetime64("20000-01-01"), "attribute 'x' is .* outside the years 1 to 9999"),
        (np.datetime64(2**62, "s"), "is no time in the years 1 to 9999"),
        (np.timedelta64(1, "s"), "attribute 'x' must be true, false, a number"),
        (np.timedelta64(1, "ns"), "attribute 'x' must be true, false, a number"),
        (np.array([1]), "attribute 'x' must be true, false, a number"),
        (np.bytes_(b"a"), "attribute 'x' must be true, false, a number"),
        (np.complex64(1), "attribute 'x' must be true, false, a number"),
        (Decimal(1), "attribute 'x' must be true, false, a number"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("format", ["avro", "json"])
def test_what_is_no_value_is_said(value: Any, said: str, format: Format) -> None:
    with pytest.raises(SchemaError, match=said):
        encode(Publication("p", attributes={"x": value}), format)
    # and conditions and the index treat it alike: it compares with nothing
    assert classify(value) is None or isinstance(value, np.datetime64)


def test_times_of_numpy_are_utc_and_cut_off_at_the_microsecond() -> None:
    fine = np.datetime64("2026-01-01T00:00:00.123456789")
    sent = encode(Publication("p", attributes={"x": fine, "y": np.datetime64("2026-01-01")}))
    read = schemas.decode_publication(b"p", sent).attributes
    assert read["x"] == datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert read["y"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert [classify(fine), classify(np.datetime64("2026-01-01"))] == [classify(read["x"]), classify(read["y"])]
