"""Whole chunks: the kernels say the same as the plain path, row by row, whatever the rows are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pastforward import schemas
from pastforward.columns.texts import Texts
from pastforward.columns.vocabulary import DELIVERIES, SCOPES, SEMANTICS, TIME_BASES, TRANSITIONS
from pastforward.matching.conditions.normal_form import Constraint, Family
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.schemas import (
    NEVER,
    CanonicalPublication,
    CanonicalSubscription,
    Content,
    EntityWithdrawal,
    Notification,
    NotificationColumns,
    Predicate,
    Publication,
    PublicationColumns,
    Rendezvous,
    RendezvousColumns,
    SchemaError,
    Subscription,
    SubscriptionColumns,
    Version,
    Withdrawal,
    codec,
    plain,
)
from pastforward.schemas.codec import SINGLE_OBJECT
from pastforward.schemas.columns import AboutEntities
from pastforward.schemas.condition_bytes import condition_bytes
from pastforward.schemas.contents import content_at, contents_of
from pastforward.schemas.definitions import NAMES, current, released
from pastforward.schemas.kernels import finish, write_notifications, write_rendezvous
from pastforward.schemas.limits import MAX_CANONICAL_BYTES, MAX_RECORD_BYTES
from pastforward.schemas.program import FIELDS, avro_program
from pastforward.schemas.records import Best
from tests.schemas import strategies as some

PARTITION = 3
ARRIVED = 1_700_000_000_000_000
PREFERS = ("", "highest", "lowest")


def clock(rows: int) -> tuple[Any, Any]:
    return np.arange(rows, dtype=np.int64) + 10**12, np.arange(rows, dtype=np.int64) + ARRIVED


def text(column: Texts, row: int) -> str | None:
    raw = column[row]
    return None if raw is None else raw.decode()


def publication_of(columns: PublicationColumns, row: int) -> tuple[Any, ...]:
    best = Best(text(columns.best_attribute, row) or "", PREFERS[columns.best[row]]) if columns.best[row] else None  # type: ignore[arg-type]
    return (
        text(columns.publication_id, row),
        text(columns.publisher_id, row),
        text(columns.topic, row),
        int(columns.published_at[row]),
        None if columns.expires_at[row] == NEVER else int(columns.expires_at[row]),
        best,
        bool(columns.self_join[row]),
        schemas.attributes_of(columns.attributes, row),
        columns.where[row],
        columns.body[row],
        bool(columns.entity[row]),
    )


def plain_publication(key: bytes | None, value: bytes | None, row: int) -> tuple[Any, ...] | str:
    offset, arrived_at = clock(row + 1)
    try:
        record = codec.decode_published(key, value)
    except SchemaError as error:
        return error.reason
    if isinstance(record, EntityWithdrawal):
        return (record.publication_id,)
    found = schemas.canonical_publication(record, PARTITION, int(offset[row]), int(arrived_at[row]), None)
    return (
        found.publication_id, found.publisher_id, found.topic, found.published_at, found.expires_at, found.best, found.self_join,
        found.attributes, record.where, found.body, record.entity,
    )  # fmt: skip


def check_publications(keys: list[bytes | None], values: list[bytes | None]) -> PublicationColumns:
    columns = schemas.decode_publications(keys, values, PARTITION, *clock(len(values)))
    reasons = {row: error.reason for row, error in columns.errors}
    assert len(reasons) == len(columns.errors)
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        expected = plain_publication(key, value, row)
        assert columns.ok[row] == (not isinstance(expected, str))
        assert columns.withdrawn[row] == (len(expected) == 1)
        if columns.withdrawn[row]:
            assert text(columns.publication_id, row) == expected[0]
            continue
        # NaN is not equal to itself, its name is.
        assert repr(reasons[row] if row in reasons else publication_of(columns, row)) == repr(expected)
        if row in reasons:
            assert columns.publication_id[row] is None
            assert schemas.attributes_of(columns.attributes, row) == {}
    return columns


def subscription_of(columns: SubscriptionColumns, row: int) -> tuple[Any, ...]:
    return (
        text(columns.subscription_id, row),
        bool(columns.withdrawn[row]),
        text(columns.subscriber_id, row),
        text(columns.topic, row),
        SCOPES[columns.scope[row]],
        int(columns.starts_at[row]),
        None if columns.ends_at[row] == NEVER else int(columns.ends_at[row]),
        TIME_BASES[columns.time[row]],
        columns.where[row],
        SEMANTICS[columns.semantics[row]],
        bool(columns.self_join[row]),
        DELIVERIES[columns.deliver[row]],
        bool(columns.transitions[row]),
        bool(columns.paused[row]),
    )


def plain_subscription(key: bytes | None, value: bytes | None, row: int) -> tuple[Any, ...] | str:
    _, arrived_at = clock(row + 1)
    try:
        found = schemas.decode_subscription(key, value)
    except SchemaError as error:
        return error.reason
    if isinstance(found, Withdrawal):
        return (found.subscription_id, True)
    starts_at = int(arrived_at[row]) if found.starts_at is None else found.starts_at
    return (
        found.subscription_id, False, found.subscriber_id, found.topic, found.scope, starts_at, found.ends_at,
        codec.time_basis(found), found.where, found.semantics, found.self_join, found.deliver, found.transitions, found.paused,
    )  # fmt: skip


def check_subscriptions(keys: list[bytes | None], values: list[bytes | None]) -> None:
    columns = schemas.decode_subscriptions(keys, values, PARTITION, *clock(len(values)))
    reasons = {row: error.reason for row, error in columns.errors}
    for row, (key, value) in enumerate(zip(keys, values, strict=True)):
        expected = plain_subscription(key, value, row)
        assert columns.ok[row] == (not isinstance(expected, str))
        found = reasons[row] if row in reasons else subscription_of(columns, row)
        assert found == expected if isinstance(expected, str) else found[: len(expected)] == expected


# ------------------------------------------------------------------------------------------------------------- input


def damaged(data: st.DataObject, value: bytes) -> bytes:
    changed = bytearray(value)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(st.integers(0, 255) | st.sampled_from(list(b'{}",:\\0\x00\x01\x02')))
    return bytes(changed[: data.draw(st.integers(1, len(changed)) | st.just(len(changed)))])


def encoded(record: Publication | Subscription, form: str) -> bytes:
    if form == "spaced":
        return orjson.dumps(orjson.loads(schemas.encode(record, "json")), option=orjson.OPT_INDENT_2)
    if form == "escaped":
        return json.dumps(orjson.loads(schemas.encode(record, "json"))).encode()
    if form == "sparse":
        plain = orjson.loads(schemas.encode(record, "json"))
        return orjson.dumps({name: value for name, value in plain.items() if value not in (None, "", False, {})})
    return schemas.encode(record, form)  # type: ignore[arg-type]


FORMS = ["avro", "json", "spaced", "escaped", "sparse"]


def drawn(
    data: st.DataObject, records: st.SearchStrategy[Any], name: str
) -> tuple[list[bytes | None], list[bytes | None]]:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for record in data.draw(st.lists(records, max_size=6)):
        value: bytes | None = encoded(record, data.draw(st.sampled_from(FORMS)))
        assert value is not None
        identifier = getattr(record, name)
        own = None if identifier is None else identifier.encode()
        key = data.draw(st.sampled_from([own, None]))
        trouble = data.draw(st.integers(0, 9))
        if trouble == 0:
            value = damaged(data, value)
        elif trouble == 1:
            value = data.draw(st.binary(max_size=20) | st.none())
        elif trouble == 2:
            key = data.draw(st.binary(max_size=4) | st.just(b"a" * 513))
        keys.append(key)
        values.append(value)
    return keys, values


@settings(max_examples=60)
@given(st.data())
def test_publications_in_chunks_are_publications_one_by_one(data: st.DataObject) -> None:
    check_publications(*drawn(data, some.publications(), "publication_id"))


@settings(max_examples=40)
@given(st.data())
def test_subscriptions_in_chunks_are_subscriptions_one_by_one(data: st.DataObject) -> None:
    check_subscriptions(*drawn(data, some.subscriptions(), "subscription_id"))


@settings(max_examples=120)
@given(st.data(), some.publications(), st.sampled_from(FORMS))
def test_damaged_publications(data: st.DataObject, record: Publication, form: str) -> None:
    check_publications([None], [damaged(data, encoded(record, form))])


@settings(max_examples=60)
@given(st.data(), some.subscriptions(), st.sampled_from(FORMS))
def test_damaged_subscriptions(data: st.DataObject, record: Subscription, form: str) -> None:
    check_subscriptions([b"s"], [damaged(data, encoded(record, form))])


@settings(max_examples=200)
@given(st.text('{}[]":,\\ue0123456789.-truefalsn attributes', max_size=40))
def test_what_looks_like_json(text: str) -> None:
    check_publications([None] * 2, [f'{{"attributes":{{"a":{text}}}}}'.encode(), ("{" + text).encode()])


JSON_CASES = [
    b"{}",
    b" {} ",
    b"{} x",
    b'{"topic":"1.2",}',
    b'{"topic":"1.2" "self_join":true}',
    b'{"topic":"1.2","topic":"1.3"}',
    b'{"attributes":{"a":1,"a":2}}',
    b'{"attributes":{"a":1},"attributes":{"b":2}}',
    b'{"attributes":{"a":{"lon":1,"lon":2,"lat":3}}}',
    b'{"attributes":{"a":{"lon":1,"lat":2},"b":{"lon":1e0,"lat":2.0,"radius_m":5},"c":{"max_y":1,"max_x":1,"min_x":0,"min_y":0}}}',
    b'{"attributes":{"a":-0,"b":-0.0,"c":0e5,"d":1E+2,"e":1.0}}',
    b'{"attributes":{"a":9223372036854775807,"b":-9223372036854775808}}',
    b'{"attributes":{"a":9223372036854775808}}',
    b'{"attributes":{"a":0.1234567890123456789012345}}',
    b'{"attributes":{"a":1e999}}',
    b'{"attributes":{"a":5e-324,"b":1e-310,"c":1.7976931348623157e308}}',
    b'{"attributes":{"a":NaN}}',
    b'{"attributes":{"a":truefalse}}',
    b'{"attributes":{"a":tru}}',
    b'{"attributes":{"\\u0061\\n\\"\\\\\\/\\b\\f\\r\\t":"\\ud83d\\ude00\\u00e9"}}',
    b'{"attributes":{"a":"\\ud800"}}',
    b'{"attributes":{"a":"\\udc00\\ud800"}}',
    b'{"attributes":{"a":"\\x"}}',
    b'{"attributes":{"a":"\n"}}',
    b'{"attributes":{"a":"\xff"}}',
    b'{"attributes":{"\xff":1}}',
    b'{"attributes":{"a":"unfinished}}',
    b'{"body":"AAECAw=="}',
    b'{"body":"AAEC"}',
    b'{"body":""}',
    b'{"body":"AAE"}',
    b'{"body":"A==="}',
    b'{"body":"AA=A"}',
    b'{"body":"\\u0041AEC"}',
    b'{"body":"AA\\/+"}',
    b'{"body":null,"where":null,"best":null,"published_at":null}',
    b'{"topic":null}',
    b'{"best":{"attribute":"a","prefer":"lowest"}}',
    b'{"best":{"prefer":"highest","attribute":"a"}}',
    b'{"best":{"attribute":"a"}}',
    b'{"best":{"attribute":"a","prefer":"most"}}',
    b'{"best":{}}',
    b'{"published_at":"2025-01-31T12:00:00.5+01:00","expires_at":1999999999999999}',
    b'{"published_at":1.0}',
    b'{"published_at":"1970-01-01T00:00:00\\u005a"}',
    b'{"where":"a = 3","self_join":true}',
    b'{"where":{"disjuncts":[]}}',
    b'{"self_join":1}',
    b'{"topik":"1"}',
    "{\"attributes\":{\"größe\":\"ñ€😀\"}}".encode(),
]  # fmt: skip


def test_json_in_its_corners() -> None:
    check_publications([None] * len(JSON_CASES), list(JSON_CASES))
    for case in JSON_CASES:
        check_publications([b"p"], [case])


def test_the_usual_is_read_by_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain path would give the same, but slowly: here it is not there."""

    def refuse(*_: object) -> None:
        raise AssertionError("left to the plain path")

    monkeypatch.setattr(schemas.codec, "decode_publication", refuse)
    monkeypatch.setattr(schemas.codec, "decode_subscription", refuse)
    monkeypatch.setattr(schemas.codec, "decode_rendezvous", refuse)
    everything = [
        True,
        5,
        0.1 + 0.2,
        "ñ",
        some.A_MOMENT,
        Point(1.0, 2.0),
        Circle(1.0, 2.0, 3.0),
        Box(1.0, 2.0, 3.0, 4.0),
        Path("1.4"),
    ]
    attributes = dict(zip(some.VALUES, everything, strict=True))
    publication = Publication("p", "me", "1.4", 5, 6, attributes, "a = 1", Best("a", "lowest"), True, b"\x00")
    subscription = Subscription(
        "s", "me", "1.4", "subtree", 5, 6, "valid", ((Predicate("a", "=", 1),),), "symmetric", True
    )
    forms: list[Any] = ["avro", "json"]
    columns = schemas.decode_publications(
        [b"p", b"p"], [schemas.encode(publication, form) for form in forms], 0, *clock(2)
    )
    assert schemas.attributes_of(columns.attributes, 0) == attributes == schemas.attributes_of(columns.attributes, 1)
    subscription_text = Subscription("s", "me", "1.4", "subtree", 5, 6, "valid", "a = 1", "symmetric", True)
    found = schemas.decode_subscriptions(
        [b"s", b"s"], [schemas.encode(subscription), schemas.encode(subscription_text, "json")], 0, *clock(2)
    )
    assert found.where == [((Predicate("a", "=", 1),),), "a = 1"]


def test_one_bad_record_does_not_touch_the_others() -> None:
    good = [
        schemas.encode(Publication(f"p{row}", topic=f"1.{row}", attributes={"n": row, "s": "x" * row}))
        for row in range(100)
    ]
    values: list[bytes | None] = list(good)
    for row in range(0, 100, 7):
        values[row] = [b"", None, b"\xff", good[row][:-1], b'{"topic":"1..2"}'][row % 5]
    columns = schemas.decode_publications([None] * 100, values, 0, *clock(100))
    assert [row for row, _ in columns.errors] == list(range(0, 100, 7))
    for row in range(100):
        if row % 7:
            assert columns.publication_id[row] == f"p{row}".encode()
            assert schemas.attributes_of(columns.attributes, row) == {"n": row, "s": "x" * row}


def test_records_with_many_attributes_and_names() -> None:
    """More than the arrays have room for at first, in one row and over all rows."""
    for form in ("avro", "json"):
        records = [
            Publication(f"p{row}", attributes={f"{form}-{row}-{index}": index for index in range(300 * (row % 3))})
            for row in range(12)
        ]
        columns = schemas.decode_publications(
            [None] * 12, [schemas.encode(record, form) for record in records], 0, *clock(12)
        )  # fmt: skip
        assert not columns.errors
        for row, record in enumerate(records):
            assert schemas.attributes_of(columns.attributes, row) == record.attributes


def test_an_empty_chunk() -> None:
    assert len(schemas.decode_publications([], [], 0, *clock(0))) == 0
    assert len(schemas.decode_subscriptions([], [], 0, *clock(0))) == 0
    assert len(schemas.decode_rendezvous_chunk([])) == 0
    assert len(schemas.decode_notifications([])[0]) == 0


def test_of_a_name_that_comes_twice_the_last_value_counts() -> None:
    body = schemas.encode(Publication("p", attributes={"a": True, "b": 1}))
    twice = body.replace(b"\x04\x02a\x00\x01\x02b\x02\x02\x00", b"\x06\x02a\x00\x01\x02b\x02\x02\x02a\x02\x0e\x00")
    assert twice != body
    columns = check_publications([None], [twice])
    assert schemas.attributes_of(columns.attributes, 0) == {"a": 7, "b": 1}


def test_too_large_is_refused() -> None:
    value = b'{"where":"' + b" " * MAX_RECORD_BYTES + b'"}'
    columns = check_publications([None, None], [value, b"{}"])
    assert [error.kind for _, error in columns.errors] == ["too_large"]


@pytest.mark.parametrize("name", [name for name in NAMES if name in FIELDS])
def test_the_kernels_can_read_our_own_schemas(name: str) -> None:
    assert avro_program(current(name)) is not None


@settings(max_examples=100)
@given(st.binary(max_size=60), st.booleans())
def test_random_bytes_are_errors_or_records(body: bytes, header: bool) -> None:
    value = (b"\xc3\x01" + current("publication").fingerprint if header else b"") + body
    check_publications([None], [value])
    value = (b"\xc3\x01" + current("subscription").fingerprint if header else b"") + body
    check_subscriptions([b"s"], [value])


# -------------------------------------------------------------------------------------------------------- rendezvous


def rendezvous_of(columns: RendezvousColumns, row: int, value: bytes) -> Rendezvous:
    """`value`: its bytes, where the columns only say that there is more."""
    record: CanonicalSubscription | CanonicalPublication | Withdrawal | None = None
    version = Version(
        int(columns.version_arrived_at[row]), int(columns.version_partition[row]), int(columns.version_offset[row])
    )
    end = None if columns.ends_at[row] == NEVER else int(columns.ends_at[row])
    name, party, topic = text(columns.id, row), text(columns.party_id, row), text(columns.topic, row)
    begin, self_join, where = int(columns.begins_at[row]), bool(columns.self_join[row]), columns.where[row]
    kind = columns.kind[row]
    if kind == 1:
        assert name is not None
        assert party is not None
        assert topic is not None
        assert where is not None
        record = CanonicalSubscription(
            name, party, version, topic, SCOPES[columns.scope[row]], begin, end, TIME_BASES[columns.time[row]], where,
            SEMANTICS[columns.semantics[row]], self_join, DELIVERIES[columns.deliver[row]], bool(columns.transitions[row]),
            bool(columns.paused[row]),
        )  # type: ignore[arg-type]  # fmt: skip
        read: Any = schemas.decode_rendezvous(value).record
        record.pause = read.pause
        if columns.set_version.length[row] >= 0:
            record.set_version = read.set_version
    elif kind == 2:
        assert name is not None
        record = Withdrawal(name, version, bool(columns.replaced[row]))
    elif kind == 3:
        assert name is not None
        assert topic is not None
        best = Best(text(columns.best_attribute, row) or "", PREFERS[columns.best[row]]) if columns.best[row] else None  # type: ignore[arg-type]
        record = CanonicalPublication(
            name, party, topic, begin, end, best, self_join, schemas.attributes_of(columns.attributes, row), where, columns.body[row]
        )  # fmt: skip
        if columns.entity.length[row] >= 0:
            read = schemas.decode_rendezvous(value).record
            record.entity = read.entity
    return Rendezvous(
        ("subscriptions", "publications", "none")[columns.origin[row]],  # type: ignore[arg-type]
        int(columns.partition[row]),
        int(columns.offset[row]),
        int(columns.arrived_at[row]),
        int(columns.routing_version[row]),
        tuple(columns.partitions[columns.partitions_start[row] : columns.partitions_start[row + 1]].tolist()),
        record,
    )


@settings(max_examples=50)
@example([(Rendezvous("subscriptions", 0, 0, 0, 0, (), Withdrawal("s", Version(0, 0, -(2**63)))), "avro")])
@given(st.lists(st.tuples(some.rendezvous, st.sampled_from(["avro", "avro", "json", "bad"])), max_size=5))
def test_rendezvous_in_chunks(rows: list[tuple[Rendezvous, str]]) -> None:
    values = [b"\x01" if form == "bad" else schemas.encode(record, form) for record, form in rows]  # type: ignore[arg-type]
    columns = schemas.decode_rendezvous_chunk(values)
    assert [row for row, _ in columns.errors] == [row for row, (_, form) in enumerate(rows) if form == "bad"]
    for row, (record, form) in enumerate(rows):
        assert columns.ok[row] == (form != "bad")
        if form != "bad":
            assert rendezvous_of(columns, row, values[row]) == record


@settings(max_examples=50)
@given(st.data(), some.rendezvous)
def test_damaged_rendezvous(data: st.DataObject, record: Rendezvous) -> None:
    value = damaged(data, schemas.encode(record))
    columns = schemas.decode_rendezvous_chunk([value])
    reasons = [error.reason for _, error in columns.errors]
    if reasons:
        with pytest.raises(SchemaError) as raised:
            schemas.decode_rendezvous(value)
        assert reasons == [raised.value.reason]
    else:
        assert repr(rendezvous_of(columns, 0, value)) == repr(schemas.decode_rendezvous(value))


@settings(max_examples=40)
@given(st.data())
def test_publications_are_handed_on_as_the_plain_path_does(data: st.DataObject) -> None:
    keys, values = drawn(data, some.publications(), "publication_id")
    columns = schemas.decode_publications(keys, values, PARTITION, *clock(len(values)))
    rows = np.flatnonzero(columns.ok & ~columns.withdrawn)
    sent = [data.draw(st.lists(some.ints, max_size=3)) for _ in rows]
    where = {int(row): data.draw(some.normal_forms) for row in rows if data.draw(st.booleans())}
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    start[1:] = np.cumsum([len(each) for each in sent])
    partitions = np.array([number for each in sent for number in each], dtype=np.int32)
    written, errors = schemas.encode_rendezvous_publications(columns, rows, 7, start, partitions, where)
    assert not errors
    for index, row in enumerate(rows.tolist()):
        record = schemas.decode_publication(keys[row], values[row])
        offset, arrived_at = int(columns.offset[row]), int(columns.arrived_at[row])
        canonical = schemas.canonical_publication(record, PARTITION, offset, arrived_at, where.get(row))
        expected = Rendezvous("publications", PARTITION, offset, arrived_at, 7, tuple(sent[index]), canonical)
        assert repr(schemas.decode_rendezvous(written[index])) == repr(expected)


@settings(max_examples=40)
@given(st.data())
def test_subscriptions_are_handed_on_as_the_plain_path_does(data: st.DataObject) -> None:
    keys, values = drawn(data, some.subscriptions(), "subscription_id")
    columns = schemas.decode_subscriptions(keys, values, PARTITION, *clock(len(values)))
    rows = np.flatnonzero(columns.ok & ~columns.withdrawn & (columns.starts_at <= columns.ends_at))
    sent = [data.draw(st.lists(some.ints, max_size=3)) for _ in rows]
    where = [data.draw(some.normal_forms) for _ in rows]
    sets = [data.draw(st.none() | some.versions.filter(lambda version: version.offset >= 0)) for _ in rows]
    began = np.full((3, len(rows)), -1, np.int64)
    for index, version in enumerate(sets):
        if version is not None:
            began[:, index] = version.partition, version.offset, version.arrived_at
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    start[1:] = np.cumsum([len(each) for each in sent])
    partitions = np.array([number for each in sent for number in each], dtype=np.int32)
    written, errors = schemas.encode_rendezvous_subscriptions(
        columns, rows, 7, start, partitions, [condition_bytes(form) for form in where], began
    )
    assert not errors
    for index, row in enumerate(rows.tolist()):
        record = schemas.decode_subscription(keys[row], values[row])
        assert isinstance(record, Subscription)
        offset, arrived_at = int(columns.offset[row]), int(columns.arrived_at[row])
        canonical = schemas.canonical_subscription(record, Version(arrived_at, PARTITION, offset), where[index])
        canonical.set_version = sets[index]
        expected = Rendezvous("subscriptions", PARTITION, offset, arrived_at, 7, tuple(sent[index]), canonical)
        assert repr(schemas.decode_rendezvous(written[index])) == repr(expected)
        assert repr(schemas.decode_rendezvous_chunk([written[index]]).where[0]) == repr(where[index])


def test_a_condition_that_grew_too_large_is_an_error_of_its_row() -> None:
    columns = schemas.decode_publications([b"a", b"b"], [b"{}", b"{}"], 0, *clock(2))
    huge = ((("x", Constraint(Family.STRING, included=("y" * (MAX_CANONICAL_BYTES + 1),))),),)
    values, errors = schemas.encode_rendezvous_publications(
        columns, np.arange(2), 1, np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int32), {0: huge}
    )
    assert [(row, error.kind) for row, error in errors] == [(0, "too_large")]
    assert values[0] == b""
    assert schemas.decode_rendezvous(values[1]).record is not None


# ------------------------------------------------------------------------------------------------------ notifications

ROLES, PHASES = ("subscriber", "publisher"), ("past", "live", "backfill", "best")


def columns_of(records: list[Notification]) -> NotificationColumns:
    def texts(name: str) -> Texts:
        return Texts.of([getattr(record, name).encode() for record in records])

    carried = [row for row, record in enumerate(records) if record.content is not None]
    carries = np.full(len(records), -1, dtype=np.int64)
    carries[carried] = np.arange(len(carried))
    return NotificationColumns(
        texts("notification_id"),
        texts("subscription_id"),
        texts("subscription_version"),
        texts("publication_id"),
        texts("recipient_id"),
        np.array([ROLES.index(record.role) for record in records], dtype=np.uint8),
        texts("topic"),
        np.array([record.published_at for record in records], dtype=np.int64),
        np.array([record.matched_at for record in records], dtype=np.int64),
        np.array([PHASES.index(record.phase) for record in records], dtype=np.uint8),
        {row: record.earlier_ids for row, record in enumerate(records) if record.earlier_ids},
        {row: record.value for row, record in enumerate(records) if record.value is not None},
        contents_of([records[row].content or Content() for row in carried]),
        carries,
        AboutEntities(
            np.array(
                [0 if r.transition is None else 1 + TRANSITIONS.index(r.transition) for r in records], dtype=np.uint8
            ),
            optional_texts(records, "set_version"),
            optional_texts(records, "publication_version"),
        ),
    )


def optional_texts(records: list[Notification], name: str) -> Texts:
    found = (getattr(record, name) for record in records)
    return Texts.of([None if each is None else each.encode() for each in found])


def content_of(columns: NotificationColumns, row: int) -> Content | None:
    assert columns.contents is not None
    assert columns.carries is not None
    return content_at(columns.contents, int(columns.carries[row])) if columns.carries[row] >= 0 else None


@pytest.mark.parametrize("format", ["avro", "json"])
def test_notifications_in_chunks(format: Any) -> None:
    @settings(max_examples=50)
    @given(st.lists(some.notifications, max_size=5))
    def check(records: list[Notification]) -> None:
        written = schemas.encode_notifications(columns_of(records), format)
        assert written == [schemas.encode(record, format) for record in records]
        columns, errors = schemas.decode_notifications([*written, b"\x07"])
        assert columns.about_entities is not None
        assert [row for row, _ in errors] == [len(records)]
        for row, record in enumerate(records):
            found = Notification(
                text(columns.notification_id, row) or "",
                text(columns.subscription_id, row) or "",
                text(columns.subscription_version, row) or "",
                text(columns.publication_id, row) or "",
                text(columns.recipient_id, row) or "",
                ROLES[columns.role[row]],  # type: ignore[arg-type]
                text(columns.topic, row) or "",
                int(columns.published_at[row]),
                int(columns.matched_at[row]),
                PHASES[columns.phase[row]],  # type: ignore[arg-type]
                columns.earlier_ids.get(row, ()),
                columns.value.get(row),
                content_of(columns, row),
                None
                if columns.about_entities.transition[row] == 0
                else TRANSITIONS[columns.about_entities.transition[row] - 1],
                text(columns.about_entities.set_version, row),
                text(columns.about_entities.publication_version, row),
            )
            assert found == record

    check()


@pytest.mark.parametrize("format", ["avro", "json"])
@pytest.mark.parametrize("kind", some.VALUES)
def test_every_type_of_value_is_carried(kind: str, format: Any) -> None:
    """Whatever it is, and whoever shares it: the bytes are made once for all rows that carry the same."""
    values = some.VALUES[kind] | (st.floats() if kind == "float" else st.nothing())

    @settings(max_examples=40)
    @given(st.lists(st.dictionaries(some.ids, values, max_size=4), min_size=1, max_size=4), st.data())
    def check(attributes: list[Any], data: st.DataObject) -> None:
        carries = data.draw(st.lists(st.integers(-1, len(attributes) - 1), min_size=1, max_size=6))
        records = [Notification("n", "s", "1-2", "p", "anna", "subscriber", "1", 5, 6, "live") for _ in carries]
        columns = columns_of(records)
        columns.contents = contents_of([Content(each) for each in attributes])
        columns.carries = np.array(carries)
        written = schemas.encode_notifications(columns, format)
        for record, which, value in zip(records, carries, written, strict=True):
            record.content = None if which < 0 else Content(attributes[which])
            assert value == schemas.encode(record, format)
            found = schemas.decode_notification(value)
            # NaN is not equal to itself, its name is
            assert repr(found) == repr(record) if kind == "float" else found == record

    check()


def test_what_an_older_version_has_written_carries_nothing() -> None:
    """And asks for content: subscriptions of before `deliver`."""
    record = Notification("n", "s", "1-2", "p", "anna", "subscriber", "1", 5, 6, "live")
    old = released("notification")[0]
    fields = plain.plain_record(record)
    value = bytearray(SINGLE_OBJECT + old.fingerprint)
    old.write(fields, value)
    assert schemas.decode_notification(bytes(value)) == record
    columns, errors = schemas.decode_notifications([bytes(value)])
    assert not errors
    assert content_of(columns, 0) is None
    for name, written in (
        ("subscription", Subscription("s", "anna", time="published", deliver="ids")),
        ("rendezvous", Rendezvous("subscriptions", 0, 0, 1, 1, (0,), SUBSCRIBED)),
    ):
        old = released(name)[0]
        value, fields = bytearray(SINGLE_OBJECT + old.fingerprint), plain.plain_record(written)
        for later in ("deliver", "transitions", "paused", "set_version", "pause"):
            fields.get("record", fields).pop(later, None)
        old.write(fields, value)
        if name == "subscription":
            assert schemas.decode_subscription(b"s", bytes(value)) == Subscription("s", "anna", time="published")
            read: Any = schemas.decode_subscriptions([b"s"], [bytes(value)], PARTITION, *clock(1))
        else:
            record_read: Any = schemas.decode_rendezvous(bytes(value)).record
            assert record_read.deliver == "content"
            read = schemas.decode_rendezvous_chunk([bytes(value)])
        assert read.ok.all()
        assert DELIVERIES[read.deliver[0]] == "content"


SUBSCRIBED = CanonicalSubscription(
    "s", "anna", Version(1, 0, 0), "", "overlap", 1, None, "published", ((),), "classical", False, "ids"
)


def test_arrays_of_any_kind_cost_no_compilation() -> None:
    """Arrow hands out read-only arrays, numpy views with gaps: to a kernel they would be types of their own."""
    schemas.compile_kernels()
    kernels = (
        finish.finish_rows,
        write_rendezvous.write_publications,
        write_notifications.write_notifications,
        write_notifications.write_json_notifications,
    )
    before = [len(kernel.signatures) for kernel in kernels]
    clocks = np.arange(4, dtype=np.int32)[::2]
    columns = schemas.decode_publications([None, b"p"], [b"{}", b"{}"], 0, clocks, clocks)
    schemas.encode_rendezvous_publications(columns, clocks[:1], 1, clocks, np.array([5, 6]), {})
    records = [Notification("n", "s", "1-2", "p", "anna", "subscriber", "1", 5, 6, "live")]
    odd = columns_of(records)
    odd.topic.heap.flags.writeable = False
    odd.role = np.zeros(1, dtype=np.int64)  # type: ignore[assignment]
    odd.published_at = np.array([5], dtype=np.int32)  # type: ignore[assignment]
    for form in ("avro", "json"):
        assert schemas.encode_notifications(odd, form) == [schemas.encode(records[0], form)]  # type: ignore[arg-type]
    assert [len(kernel.signatures) for kernel in kernels] == before
