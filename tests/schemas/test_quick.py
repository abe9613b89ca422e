"""The quick readers say what the strict ones say, or leave it to those."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pastforward.schemas import (
    Notification,
    SchemaError,
    Subscription,
    decode_notification,
    decode_subscription,
    encode,
)
from pastforward.schemas.codec import SINGLE_OBJECT
from pastforward.schemas.definitions import current, released
from pastforward.schemas.quick import read_notification, read_subscription
from tests.schemas.strategies import ids, moments, notifications, paths, subscriptions


@given(notifications)
def test_it_reads_what_the_strict_one_reads(record: Notification) -> None:
    value = encode(record)
    assert read_notification(value) == decode_notification(value) == record


def test_it_reads_every_version_of_the_schema() -> None:
    record = Notification("n", "s", "2-1", "p", "anna", "subscriber", "1.4", 1, 2, "live")
    plain = {name: getattr(record, name) for name in record.__slots__} | {"earlier_ids": []}
    for definition in released("notification"):
        raw = bytearray(SINGLE_OBJECT + definition.fingerprint)
        definition.write(plain, raw)
        assert read_notification(bytes(raw)) == record


@given(notifications, st.data())
def test_what_is_cut_or_longer_is_left_to_the_strict_one(record: Notification, data: st.DataObject) -> None:
    value = encode(record)
    assert read_notification(value[: data.draw(st.integers(0, len(value) - 1))]) is None
    assert read_notification(value + b"\0") is None
    assert read_notification(b'{"notification_id": "n"}') is None


@given(subscriptions())
def test_a_subscription_is_what_the_strict_reader_says(record: Subscription) -> None:
    key, value = record.subscription_id.encode(), encode(record)
    found = read_subscription(key, value)
    assert found in (None, decode_subscription(key, value))
    plain = key.isascii() and record.subscriber_id.isascii() and isinstance(record.where, str | None)
    assert (found is None) == (not plain)


@given(
    key=ids | st.sampled_from(["s", "~s", "x" * 513]),
    own=st.none() | ids,
    subscriber=ids | st.sampled_from(["", "a\0b"]),
    topic=paths | st.sampled_from(["1..2", "01", "1,,2", "2,1", "1,1.2", "x", ",".join("123456789")]),
    begin=st.none() | moments | st.integers(-(2**63), 2**63 - 1),
    end=st.none() | moments | st.integers(-(2**63), 2**63 - 1),
)
def test_what_the_strict_reader_refuses_is_left_to_it(
    key: str, own: str | None, subscriber: str, topic: str, begin: int | None, end: int | None
) -> None:
    """Whoever writes to the topic may write anything."""
    definition = current("subscription")
    fields = decode_plain(Subscription("s", "anna"))
    fields |= {"subscription_id": own, "subscriber_id": subscriber, "topic": topic, "starts_at": begin, "ends_at": end}
    raw = bytearray(SINGLE_OBJECT + definition.fingerprint)
    definition.write(fields, raw)
    found = read_subscription(key.encode(), bytes(raw))
    if found is not None:
        assert found == decode_subscription(key.encode(), bytes(raw))
    else:
        try:
            read = decode_subscription(key.encode(), bytes(raw))
        except SchemaError:
            return
        assert not (key.isascii() and subscriber.isascii()), read


def decode_plain(record: Subscription) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__slots__}
