"""What an answer looks like in the outbox."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pastforward.schemas import (
    BackfillRequest,
    CanonicalSubscription,
    Content,
    Publication,
    Version,
    decode_notification,
    decode_publication,
    encode,
)
from pastforward.schemas.acceptance import content_of, normal_form
from pastforward.schemas.codec import Format
from pastforward.spark_batch import outbox
from pastforward.spark_batch.kafka import MakeRegistry
from pastforward.spark_batch.outbox import ANSWERS, Encoder
from pastforward.spark_batch.requests import Open
from pastforward.streams.matcher.notification_id import notification_id
from tests.spark_batch.records import rows_of
from tests.spark_batch.test_rows import named, publications


def request(name: str, offset: int) -> Open:
    subscription = CanonicalSubscription(name, f"{name}'s", Version(5, 1, offset), "", "overlap", 0, None, "published")
    return Open(f"{name}\0".encode(), offset, BackfillRequest(subscription, 0, 9, 70 + offset, 1, {}))


def answer(
    asked: int, publication: str | None, publisher: str | None = None, earlier: list[str] | None = None
) -> dict[str, object]:
    return {
        "asked": asked,
        "closes": publication is None,
        "publication_id": publication,
        "publisher_id": publisher,
        "topic": None if publication is None else "1.4",
        "published_at": None if publication is None else 3,
        "earlier_ids": earlier,
    }


@pytest.mark.parametrize("form", ["avro", "json"])
def test_notifications_in_order_then_the_row_that_closes(form: Format) -> None:
    requests = (request("s", 7), request("t", 8), request("u", 9))
    given = [
        [answer(0, "p"), answer(0, "q", "anna", ["p", "o"]), answer(0, "p")],
        [answer(0, "q", "anna"), answer(0, "r"), answer(0, None), answer(1, None), answer(2, "p")],
        [answer(2, None)],
    ]
    encoder = Encoder("run", requests, form, MakeRegistry(None, ()))
    batches = [pa.RecordBatch.from_pylist(rows, schema=ANSWERS) for rows in given]
    rows = pa.Table.from_batches(encoder.encode(batches)).to_pylist()
    assert {row["run"] for row in rows} == {"run"}
    found = []
    for row in rows:
        notification = None if row["closes"] else decode_notification(row["value"])
        shown = None
        if notification is not None:
            assert row["recipient"] == notification.recipient_id.encode()
            expected = notification_id(
                notification.subscription_id,
                Version(5, 1, row["request_offset"]),
                notification.publication_id,
                notification.topic,
                notification.role,
            )
            assert notification.notification_id == expected
            assert (notification.topic, notification.published_at, notification.phase) == ("1.4", 3, "backfill")
            assert notification.matched_at == 70 + row["request_offset"]
            shown = (
                notification.publication_id,
                notification.recipient_id,
                notification.role,
                notification.earlier_ids,
            )
        else:
            assert (row["recipient"], row["value"]) == (None, None)
        found.append((row["request"], row["request_offset"], shown))
    assert found == [
        (b"s\0", 7, ("p", "s's", "subscriber", ())),
        (b"s\0", 7, ("q", "s's", "subscriber", ("p", "o"))),
        (b"s\0", 7, ("q", "anna", "publisher", ("p", "o"))),
        (b"s\0", 7, ("r", "s's", "subscriber", ())),
        (b"s\0", 7, None),
        (b"t\0", 8, None),
        (b"u\0", 9, ("p", "u's", "subscriber", ())),
        (b"u\0", 9, None),
    ]


@given(st.lists(publications, min_size=1, max_size=5), st.sampled_from(["avro", "json"]))
@settings(max_examples=60, deadline=None)
def test_answers_carry_what_was_published(records: list[Publication], form: Format) -> None:
    """To who asks for it, as the stream does."""
    named(records)
    asks, declines = request("s", 7), request("t", 8)
    alone = replace(declines.request.subscription, deliver="ids")
    declines = replace(declines, request=replace(declines.request, subscription=alone))
    batch = rows_of(records)
    for number, asked in enumerate((asks, declines)):
        columns = {
            name: batch.column(name) if name in batch.schema.names else pa.nulls(len(records), ANSWERS.field(name).type)
            for name in ANSWERS.names
        }
        columns["asked"] = pa.array([number] * len(records), pa.int32())
        columns["closes"] = pa.array([False] * len(records))
        answers = pa.RecordBatch.from_arrays([columns[name] for name in ANSWERS.names], schema=ANSWERS)
        encoder = Encoder("run", (asks, declines), form, MakeRegistry(None, ()))
        rows = pa.Table.from_batches(encoder.encode([answers])).to_pylist()
        found = [decode_notification(row["value"]) for row in rows]
        assert {n.subscription_id for n in found} == {asked.request.subscription.subscription_id}
        for record in records:
            where = None if record.where is None else normal_form(record.where)
            content = content_of(decode_publication(None, encode(record)), where) if number == 0 else None
            for notification in found:
                if notification.publication_id == record.publication_id:
                    assert repr(by_name(notification.content)) == repr(by_name(content))


def by_name(content: Content | None) -> Content | None:
    """The table has attributes by type."""
    return None if content is None else replace(content, attributes=dict(sorted(content.attributes.items())))


def test_what_an_earlier_version_took_and_is_too_large_is_told_without_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_NOTIFICATION_BYTES", 300)
    requests = (request("s", 7),)
    batch = rows_of([Publication("p", published_at=3, body=b"b" * 400), Publication("q", published_at=3, body=b"b")])
    columns = {
        name: batch.column(name) if name in batch.schema.names else pa.nulls(2, ANSWERS.field(name).type)
        for name in ANSWERS.names
    }
    columns |= {"asked": pa.array([0, 0], pa.int32()), "closes": pa.array([False, False])}
    answers = pa.RecordBatch.from_arrays([columns[name] for name in ANSWERS.names], schema=ANSWERS)
    rows = pa.Table.from_batches(Encoder("run", requests, "avro", MakeRegistry(None, ())).encode([answers])).to_pylist()
    assert [decode_notification(row["value"]).content for row in rows] == [None, Content(body=b"b")]
