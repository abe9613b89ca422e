"""What an answer looks like in the outbox."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pastforward.schemas import BackfillRequest, CanonicalSubscription, Version, decode_notification
from pastforward.schemas.codec import Format
from pastforward.spark_batch.kafka import MakeRegistry
from pastforward.spark_batch.outbox import ANSWERS, Encoder
from pastforward.spark_batch.requests import Open
from pastforward.streams.matcher.notification_id import notification_id


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
