"""Reads chunks of notifications into columns: by kernels, but for the fields that few of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pastforward.columns.vocabulary import TRANSITIONS
from pastforward.matching.conditions.values import Value
from pastforward.schemas import codec, plain, program, value_fields
from pastforward.schemas.chunk_reader import ChunkReader
from pastforward.schemas.chunks import contained, row_of
from pastforward.schemas.codec import Registry
from pastforward.schemas.columns import AboutEntities, Contents, Longs, NotificationColumns
from pastforward.schemas.contents import contents_of
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.limits import MAX_NOTIFICATION_BYTES
from pastforward.schemas.records import Content, Notification


def _carried(contents: dict[int, Content], rows: int) -> tuple[Contents, Longs]:
    carries = np.full(rows, -1, dtype=np.int64)
    carries[list(contents)] = np.arange(len(contents))
    return contents_of(list(contents.values())), carries


@dataclass(slots=True)
class _Notifications:
    columns: NotificationColumns
    errors: list[tuple[int, SchemaError]]


def decode_notifications(
    values: Sequence[bytes], registry: Registry | None = None
) -> tuple[NotificationColumns, list[tuple[int, SchemaError]]]:
    """Rows in error hold nothing."""
    found = contained(lambda _, values, kernels: _notifications(values, registry, kernels), values)
    return found.columns, found.errors


def _read_parts(
    reader: ChunkReader,
    earlier: dict[int, tuple[str, ...]],
    best: dict[int, Value],
    contents: dict[int, Content],
) -> None:
    """The fields that few notifications have, of each row that has any."""
    # Of both fields one byte says that there is nothing: an array without blocks, the first branch of a union.
    filled = (reader.text_length[program.EARLIER] > 1) | (reader.text_length[program.VALUE] > 1)
    filled |= reader.text_length[program.CONTENT] >= 0
    for row in np.flatnonzero(filled & reader.ok()).tolist():
        if reader.text_length[program.EARLIER, row] > 1:
            earlier[row] = tuple(reader.part_reader(row, "earlier_ids")(reader.part(program.EARLIER, row), 0))
        try:
            if reader.text_length[program.VALUE, row] > 1:
                raw = reader.part_reader(row, "value")(reader.part(program.VALUE, row), 0)
                best[row] = value_fields.attribute_value(raw, "value")
            if reader.text_length[program.CONTENT, row] >= 0:
                # the field is a union, whose second branch was read
                raw = reader.part_reader(row, "content")(b"\x02" + reader.part(program.CONTENT, row), 0)
                contents[row] = plain.content(raw, "content")
        except SchemaError:
            reader.leave(row)
            for known in (earlier, best, contents):
                known.pop(row, None)


def _notifications(values: Sequence[Any], registry: Registry | None, kernels: bool) -> _Notifications:
    reader = ChunkReader("notification", values, MAX_NOTIFICATION_BYTES, (), 0, kernels)
    reader.read(values, registry, json=False)
    earlier: dict[int, tuple[str, ...]] = {}
    best: dict[int, Value] = {}
    contents: dict[int, Content] = {}
    _read_parts(reader, earlier, best, contents)

    def put(row: int, record: Notification) -> None:
        reader.put_text(program.NOTIFICATION, row, record.notification_id)
        reader.put_text(program.SUBSCRIPTION, row, record.subscription_id)
        reader.put_text(program.SUBSCRIPTION_VERSION, row, record.subscription_version)
        reader.put_text(program.ID, row, record.publication_id)
        reader.put_text(program.PARTY, row, record.recipient_id)
        reader.put_text(program.TOPIC, row, record.topic)
        reader.smalls[program.ROLE, row] = ("subscriber", "publisher").index(record.role)
        reader.smalls[program.PHASE, row] = ("past", "live", "backfill", "best").index(record.phase)
        reader.longs[program.BEGIN, row] = record.published_at
        reader.longs[program.MATCHED_AT, row] = record.matched_at
        if record.earlier_ids:
            earlier[row] = record.earlier_ids
        if record.value is not None:
            best[row] = record.value
        if record.content is not None:
            contents[row] = record.content
        if record.transition is not None:
            reader.smalls[program.TRANSITION, row] = 1 + TRANSITIONS.index(record.transition)
        reader.put_text(program.SET_VERSION, row, record.set_version)
        reader.put_text(program.PUBLICATION_VERSION, row, record.publication_version)

    reader.read_rest(lambda row: codec.decode_notification(values[row], registry), put)
    reader.seal()
    if reader.errors:
        reader.longs[:, ~reader.ok()] = 0
    found = NotificationColumns(
        reader.texts(program.NOTIFICATION),
        reader.texts(program.SUBSCRIPTION),
        reader.texts(program.SUBSCRIPTION_VERSION),
        reader.texts(program.ID),
        reader.texts(program.PARTY),
        reader.smalls[program.ROLE],
        reader.texts(program.TOPIC),
        reader.longs[program.BEGIN],
        reader.longs[program.MATCHED_AT],
        reader.smalls[program.PHASE],
        earlier,
        best,
        *_carried(contents, len(reader)),
        AboutEntities(
            reader.smalls[program.TRANSITION],
            reader.texts(program.SET_VERSION),
            reader.texts(program.PUBLICATION_VERSION),
        ),
    )
    return _Notifications(found, sorted(reader.errors, key=row_of))
