"""Writes whole chunks: the bytes of all records of a chunk lie in one buffer, from which the values are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain
from typing import Final

import numpy as np
import numpy.typing as npt

from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas.avro_plain import Writer, compile_writer
from pastforward.schemas.codec import Format, Registry, avro_header, finite_json, to_json
from pastforward.schemas.columns import (
    FROM_PUBLICATIONS,
    FROM_SUBSCRIPTIONS,
    NEVER,
    PUBLICATION,
    SUBSCRIPTION,
    Longs,
    NotificationColumns,
    PublicationColumns,
    SubscriptionColumns,
    Texts,
    as_kernel,
)
from pastforward.schemas.condition_bytes import condition_bytes
from pastforward.schemas.contents import branch_of_tag, carried, carried_bytes, joined_bytes, joined_words
from pastforward.schemas.definitions import current
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.kernels import write
from pastforward.schemas.limits import MAX_CANONICAL_BYTES
from pastforward.schemas.subschema import field_type, named_types
from pastforward.schemas.value_fields import plain_value

Bytes = npt.NDArray[np.uint8]

_LONGEST: Final = 10  # bytes of an integer
_ENVELOPE: Final = (
    17 * _LONGEST
)  # all integers, lengths, counts and branches of a record but those of items and attributes
_ENTRY: Final = 2 * _LONGEST + 1  # name's length, branch, and a number or length
_ROLES: Final = ("subscriber", "publisher")
_PHASES: Final = ("past", "live", "backfill", "best")
_NO_TAIL: Final = {"avro": b"\x00\x00", "json": b',"earlier_ids":[],"value":null'}  # no earlier ids, no value
_JSON_NUMBERS: Final = 2 * 20 + 6 * 2  # digits and signs of two integers, quotes of six texts


def encode_rendezvous_publications(
    columns: PublicationColumns,
    rows: Longs,
    routing_version: int,
    partitions_start: Longs,
    partitions: npt.NDArray[np.int32],
    where: Mapping[int, NormalForm],
    registry: Registry | None = None,
) -> tuple[list[bytes], list[tuple[int, SchemaError]]]:
    """Rendezvous records of some rows. The i-th of `rows` goes to `partitions[partitions_start[i]:partitions_start[i + 1]]`.

    `where` has the normal forms of the rows that have a condition. Rows must be `ok`. One that would be too large for its topic is
    an error, and its bytes are empty.
    """
    header = _array(avro_header("rendezvous", registry))
    rows = as_kernel(rows, np.int64)
    attributes = columns.attributes
    names = [name.encode() for name in attributes.names]
    name_start = np.array([0, *accumulate(map(len, names))], dtype=np.int64)
    forms = Texts.of([condition_bytes(where[row]) if row in where else None for row in rows.tolist()] if where else ())
    texts = (columns.publication_id, columns.publisher_id, columns.topic, columns.best_attribute, columns.body)
    size = _size(rows, header, partitions, forms, texts)
    size += write.attribute_bytes_of(
        rows, attributes.start, name_start, attributes.name, attributes.length, _ENTRY
    )  # fmt: skip
    out, ends = np.empty(size, dtype=np.uint8), np.empty(len(rows), dtype=np.int64)
    write.write_publications(
        out, ends, rows, header, FROM_PUBLICATIONS, PUBLICATION, NEVER, branch_of_tag(), columns.partition, columns.offset,
        columns.arrived_at, routing_version,
        as_kernel(partitions_start, np.int64), as_kernel(partitions, np.int32), attributes.heap,
        columns.publication_id.at, columns.publication_id.length, columns.publisher_id.at, columns.publisher_id.length,
        columns.topic.at, columns.topic.length, columns.published_at, columns.expires_at, columns.best,
        columns.best_attribute.at, columns.best_attribute.length, columns.self_join, attributes.start,
        joined_bytes(names), name_start, attributes.name, attributes.tag, attributes.bits, attributes.length,
        forms.heap, forms.at, forms.length, columns.body.at, columns.body.length,
    )  # fmt: skip
    return _checked(_cut(out, ends), ends)


def encode_rendezvous_subscriptions(
    columns: SubscriptionColumns,
    rows: Longs,
    routing_version: int,
    partitions_start: Longs,
    partitions: npt.NDArray[np.int32],
    where: Sequence[bytes],
    registry: Registry | None = None,
) -> tuple[list[bytes], list[tuple[int, SchemaError]]]:
    """The same for subscriptions. Their version is where and when they arrived; `where` has the bytes of each row's normal form."""
    header = _array(avro_header("rendezvous", registry))
    rows = as_kernel(rows, np.int64)
    forms = Texts.of(where)
    size = _size(rows, header, partitions, forms, (columns.subscription_id, columns.subscriber_id, columns.topic))
    out, ends = np.empty(size, dtype=np.uint8), np.empty(len(rows), dtype=np.int64)
    write.write_subscriptions(
        out, ends, rows, header, FROM_SUBSCRIPTIONS, SUBSCRIPTION, NEVER, columns.partition, columns.offset,
        columns.arrived_at, routing_version, as_kernel(partitions_start, np.int64), as_kernel(partitions, np.int32),
        columns.topic.heap, columns.subscription_id.at, columns.subscription_id.length, columns.subscriber_id.at,
        columns.subscriber_id.length, columns.topic.at, columns.topic.length, columns.scope, columns.starts_at,
        columns.ends_at, columns.time, forms.heap, forms.at, forms.length, columns.semantics, columns.self_join,
        columns.deliver,
    )  # fmt: skip
    return _checked(_cut(out, ends), ends)


def _size(rows: Longs, header: Bytes, partitions: npt.NDArray[np.int32], forms: Texts, texts: Sequence[Texts]) -> int:
    """The most that rendezvous records need, but for attributes."""
    size = len(rows) * (_ENVELOPE + len(header)) + _LONGEST * len(partitions) + len(forms.heap)
    for each in texts:
        size += write.text_bytes_of(each.length, rows)
    return size


def _checked(values: list[bytes], ends: Longs) -> tuple[list[bytes], list[tuple[int, SchemaError]]]:
    errors: list[tuple[int, SchemaError]] = []
    if len(ends) == 0 or ends[-1] <= MAX_CANONICAL_BYTES:
        return values, errors  # not even all of them together are too large
    for index in np.flatnonzero(np.diff(ends, prepend=0) > MAX_CANONICAL_BYTES).tolist():
        reason = f"the record would have {len(values[index])} bytes within: at most {MAX_CANONICAL_BYTES} are taken"
        errors.append((index, SchemaError("too_large", reason)))
        values[index] = b""
    return values, errors


def encode_notifications(
    columns: NotificationColumns, format: Format = "avro", registry: Registry | None = None
) -> list[bytes]:
    return list(notification_texts(columns, format, registry))  # type: ignore[arg-type]


def notification_texts(
    columns: NotificationColumns, format: Format = "avro", registry: Registry | None = None
) -> Texts:
    """The bytes of all, in one heap."""
    rows = len(columns)
    if columns.earlier_ids or columns.value:
        tails = Texts.of([_tail(columns, row, format) for row in range(rows)])
    else:
        tails = Texts.alike(_array(_NO_TAIL[format]), rows)
    content, content_ends, carries = carried(columns, format)
    topic = columns.topic.for_kernel()
    texts = (
        columns.notification_id.for_kernel(),
        columns.subscription_id.for_kernel(),
        columns.subscription_version.for_kernel(),
        columns.publication_id.for_kernel(),
        columns.recipient_id.for_kernel(),
    )
    parts = (
        *chain.from_iterable(texts),
        as_kernel(columns.role, np.uint8),
        *topic,
        as_kernel(columns.published_at, np.int64),
        as_kernel(columns.matched_at, np.int64),
        as_kernel(columns.phase, np.uint8),
        *tails.for_kernel(),
        content,
        content_ends,
        carries,
    )
    size = write.text_bytes(topic[2])
    for _, _, length in texts:
        size += write.text_bytes(length)
    ends = np.empty(rows, dtype=np.int64)
    if format == "json":
        words, word_ends = _words()
        # Every byte of a text may become six.
        size = 6 * size + rows * (len(words) + _JSON_NUMBERS) + write.text_bytes(tails.length)
        size += carried_bytes(content_ends, carries)
        out = np.empty(size, dtype=np.uint8)
        write.write_json_notifications(out, ends, words, word_ends, *parts)
    else:
        header = _array(avro_header("notification", registry))
        size += rows * (_ENVELOPE + len(header)) + write.text_bytes(tails.length)
        size += carried_bytes(content_ends, carries)
        out = np.empty(size, dtype=np.uint8)
        write.write_notifications(out, ends, header, *parts)
    at = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))[:rows]
    return Texts(out, at, (ends - at).astype(np.int32))


def _tail(columns: NotificationColumns, row: int, format: Format) -> bytes:
    """What follows the phase: earlier_ids and value."""
    if row not in columns.earlier_ids and row not in columns.value:
        return _NO_TAIL[format]
    earlier, value = list(columns.earlier_ids.get(row, ())), plain_value(columns.value.get(row))
    if format == "json":
        return b"," + to_json({"earlier_ids": earlier, "value": finite_json(value)})[1:-1]
    out = bytearray()
    _part_writer("notification", "earlier_ids")(earlier, out)
    _part_writer("notification", "value")(value, out)
    return bytes(out)


@cache
def _words() -> tuple[Bytes, Longs]:
    """What stands before each field of a notification in JSON, up to the phase; then the roles, then the phases; then what stands before
    the content, and what stands for none."""
    fields = [f',"{each["name"]}":' for each in current("notification").schema["fields"][:10]]
    fields[0] = "{" + fields[0][1:]
    symbols = (f'"{symbol}"' for symbol in (*_ROLES, *_PHASES))
    return joined_words((*fields, *symbols, ',"content":', "null"))


@cache
def _part_writer(name: str, *path: str) -> Writer:
    schema = current(name).schema
    named = named_types(schema)
    *records, field = path
    return compile_writer(field_type(named[records[0]] if records else schema, field, named))


@lru_cache(maxsize=64)  # headers and tails
def _array(raw: bytes) -> Bytes:
    return joined_bytes((raw,))


def _cut(out: Bytes, ends: Longs) -> list[bytes]:
    if len(ends) == 0:
        return []
    stops: list[int] = ends.tolist()
    raw = out[: stops[-1]].tobytes()
    return [raw[begin:stop] for begin, stop in zip((0, *stops[:-1]), stops, strict=True)]  # faster than pairwise
