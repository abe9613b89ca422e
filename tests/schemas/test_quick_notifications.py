"""The quick reader of notifications says what the strict one says, or leaves it to that one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pastforward.schemas import Notification, decode_notification, encode
from pastforward.schemas.codec import SINGLE_OBJECT
from pastforward.schemas.definitions import released
from pastforward.schemas.quick_notifications import read_notification
from tests.schemas.strategies import notifications


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
