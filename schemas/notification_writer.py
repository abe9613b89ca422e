"""Writes notifications: what publications carry once for a lot of them, the rest in one pass over any of its rows."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.texts import Texts, as_kernel
from pastforward.columns.vocabulary import TRANSITIONS
from pastforward.schemas.avro_plain import Writer, compile_writer
from pastforward.schemas.codec import Format, Registry, avro_header, finite_json, to_json
from pastforward.schemas.columns import Longs, NotificationColumns
from pastforward.schemas.contents import carried, header_bytes, joined_words
from pastforward.schemas.definitions import current
from pastforward.schemas.kernels import write_notifications as kernels
from pastforward.schemas.subschema import field_type, named_types
from pastforward.schemas.value_fields import plain_value

Bytes = npt.NDArray[np.uint8]

_ESCAPED: Final = 6  # bytes of a character in JSON, to one of UTF-8, at most
_INTEGERS: Final = 17 * 10  # all integers, lengths and branches of a notification, and its header
_JSON_NUMBERS: Final = 2 * 20 + 6 * 2  # digits and signs of two integers, quotes of six texts
_LAST: Final = ("transition", "set_version", "publication_version")
_ROLES: Final = ("subscriber", "publisher")
_PHASES: Final = ("past", "live", "backfill", "best")
_NO_TAIL: Final = {"avro": b"\x00\x00", "json": b',"earlier_ids":[],"value":null'}  # no earlier ids, no value
_NO_LAST: Final = {
    "avro": b"\x00\x00\x00",
    "json": b',"transition":null,"set_version":null,"publication_version":null',
}


def encode_notifications(
    columns: NotificationColumns, format: Format = "avro", registry: Registry | None = None
) -> list[bytes]:
    found: list[Any] = list(NotificationWriter(columns, format, registry).write())
    return found


class NotificationWriter:
    """`sizes`: bytes of each, at most."""

    def __init__(self, columns: NotificationColumns, format: Format = "avro", registry: Registry | None = None) -> None:
        self._format = format
        self._header = header_bytes(avro_header("notification", registry))
        self._texts = (
            columns.notification_id,
            columns.subscription_id,
            columns.subscription_version,
            columns.publication_id,
            columns.recipient_id,
            columns.topic,
        )
        if columns.earlier_ids or columns.value:
            self._tails = Texts.of([_tail(columns, row, format) for row in range(len(columns))])
        else:
            self._tails = Texts.alike(header_bytes(_NO_TAIL[format]), len(columns))
        self._last = _lasts(columns, format)
        self._role, self._phase = as_kernel(columns.role, np.uint8), as_kernel(columns.phase, np.uint8)
        self._published_at = as_kernel(columns.published_at, np.int64)
        self._matched_at = as_kernel(columns.matched_at, np.int64)
        self._content, self._content_ends, self._carries = carried(columns, format)
        self.sizes = self._sizes()

    def _sizes(self) -> Longs:
        sizes = np.zeros(len(self._role), np.int64)
        for text in self._texts:
            sizes += np.maximum(text.length, 0)
        if self._format == "json":
            sizes *= _ESCAPED
            sizes += len(_words()[0]) + _JSON_NUMBERS
        else:
            sizes += _INTEGERS
        sizes += self._tails.length
        sizes += self._last.length
        if len(self._content_ends) > 1:
            sizes += np.where(self._carries < 0, 0, np.diff(self._content_ends)[self._carries])
        return sizes

    def write(self, rows: Longs | None = None) -> Texts:
        """The bytes of some, or of all, in one heap."""
        texts = self._texts if rows is None else tuple(text.take(rows) for text in self._texts)
        tails, last = (text if rows is None else text.take(rows) for text in (self._tails, self._last))
        role, published, matched, phase, carries = (
            column if rows is None else column[rows]
            for column in (self._role, self._published_at, self._matched_at, self._phase, self._carries)
        )
        parts = (
            tuple(text.for_kernel() for text in texts),
            (role, published, matched, phase),
            tails.for_kernel(),
            (self._content, self._content_ends, carries),
            last.for_kernel(),
        )
        out = np.empty(int((self.sizes if rows is None else self.sizes[rows]).sum()), dtype=np.uint8)
        ends = np.zeros(len(role) + 1, dtype=np.int64)
        if self._format == "json":
            kernels.write_json_notifications(out, ends[1:], _words(), *parts)
        else:
            kernels.write_notifications(out, ends[1:], self._header, *parts)
        return Texts(out, ends[:-1], np.diff(ends).astype(np.int32))


def _tail(columns: NotificationColumns, row: int, format: Format) -> bytes:
    """What follows the phase: earlier_ids and value."""
    if row not in columns.earlier_ids and row not in columns.value:
        return _NO_TAIL[format]
    earlier, value = list(columns.earlier_ids.get(row, ())), plain_value(columns.value.get(row))
    if format == "json":
        return b"," + to_json({"earlier_ids": earlier, "value": finite_json(value)})[1:-1]
    out = bytearray()
    _part_writer("earlier_ids")(earlier, out)
    _part_writer("value")(value, out)
    return bytes(out)


def _lasts(columns: NotificationColumns, format: Format) -> Texts:
    """What follows the content: transition, set_version and publication_version."""
    about = columns.about_entities
    if about is None:
        return Texts.alike(header_bytes(_NO_LAST[format]), len(columns))
    rows = zip(about.transition.tolist(), about.set_version, about.publication_version, strict=True)
    return Texts.of([_last(format, *row) for row in rows])


def _last(format: Format, transition: int, set_version: bytes | None, publication_version: bytes | None) -> bytes:
    if format == "json":
        versions = [None if text is None else text.decode() for text in (set_version, publication_version)]
        named = TRANSITIONS[transition - 1] if transition else None
        return b"," + to_json(dict(zip(_LAST, (named, *versions), strict=True)))[1:-1]
    out = bytearray((2, 2 * (transition - 1)) if transition else (0,))
    for text in (set_version, publication_version):
        out += b"\0" if text is None else b"\x02" + _long(len(text)) + text
    return bytes(out)


def _long(value: int) -> bytes:
    """Of a length, as Avro writes it."""
    rest, out = 2 * value, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
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
def _part_writer(field: str) -> Writer:
    schema = current("notification").schema
    return compile_writer(field_type(schema, field, named_types(schema)))
