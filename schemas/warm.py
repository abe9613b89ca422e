"""Compiles the kernels, by sending a record of each kind through them. What is compiled is kept on disk."""

from __future__ import annotations

import numpy as np

from pastforward.columns.texts import Texts
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.schemas.chunk_writer import (
    encode_rendezvous_publications,
    encode_rendezvous_subscriptions,
)
from pastforward.schemas.chunks import (
    decode_publications,
    decode_rendezvous_chunk,
    decode_subscriptions,
)
from pastforward.schemas.codec import encode
from pastforward.schemas.columns import NotificationColumns
from pastforward.schemas.contents import contents_of
from pastforward.schemas.notification_chunks import decode_notifications
from pastforward.schemas.notification_writer import encode_notifications
from pastforward.schemas.records import Content, Publication, Subscription


def compile_kernels() -> None:
    publication = Publication("p", "me", "1.4", 1, 2, {"a": 1})
    subscription = Subscription("s", "me", "1.4")
    offset = np.zeros(2, dtype=np.int64)
    values = [encode(publication), encode(publication, "json")]
    columns = decode_publications([b"p", None], values, 0, offset, offset)
    subscribed = decode_subscriptions(
        [b"s", b"s"], [encode(subscription), encode(subscription, "json")], 0, offset, offset
    )
    rows, start, partitions = np.arange(2), np.arange(3), np.zeros(2, dtype=np.int32)
    encode_rendezvous_subscriptions(subscribed, rows, 1, start, partitions, [b"", b""], np.full((3, 2), -1))
    written, _ = encode_rendezvous_publications(columns, rows, 1, start, partitions, {0: ALWAYS})
    decode_rendezvous_chunk(written)
    text = Texts.of([b"1"])
    small, long = np.zeros(1, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    contents = contents_of([Content({"a": 1, "b": 1.5})])
    notifications = NotificationColumns(
        text, text, text, text, text, small, text, long, long, small, {}, {}, contents, long
    )
    decode_notifications(encode_notifications(notifications) + encode_notifications(notifications, "json"))
