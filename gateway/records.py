"""A notification from the topic as the JSON that is sent on: the record as `NOTIFICATION_FORMAT=json` writes it, whatever it was.

Replaces: `decode_notification` and `encode` (47 and 30 us a notification of four attributes).
This: fastavro's reader in C, and one pass for what JSON cannot hold (see `pastforward bench gateway`).
Records of another schema version, or of a registry, take the long way.
"""

from __future__ import annotations

import math
from functools import cache
from io import BytesIO
from typing import Any, Final

import orjson
from fastavro import parse_schema, schemaless_reader

from pastforward.client.tokens import write_token
from pastforward.schemas import Registry, SchemaError, decode_notification, encode
from pastforward.schemas.codec import SINGLE_OBJECT, finite_json, to_json
from pastforward.schemas.definitions import current

_HEADER: Final = 10  # bytes: two of the format, eight of the fingerprint


class Delivered:
    """A notification on its way to whoever listens. What each form of it costs is paid once, however many listen."""

    __slots__ = ("_data", "_event", "_registry", "_value", "offset", "partition", "recipient")

    def __init__(
        self, partition: int, offset: int, recipient: bytes, value: bytes, registry: Registry | None = None
    ) -> None:
        self.partition, self.offset, self.recipient = partition, offset, recipient
        self._value, self._registry = value, registry
        self._data: bytes | None = None
        self._event: bytes | None = None

    @property
    def data(self) -> bytes:
        if self._data is None:
            self._data = to_json_text(self._value, self._registry)
        return self._data

    @property
    def token(self) -> str:
        return write_token({self.partition: self.offset + 1})

    @property
    def event(self) -> bytes:
        """For a reader of this one partition: an event of a stream, whose id is the token behind it."""
        if self._event is None:
            self._event = event_of(self.token, self.data)
        return self._event

    @property
    def size(self) -> int:
        return len(self._value) + 64


def event_of(token: str, data: bytes) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (token.encode(), data)


def to_json_text(value: bytes, registry: Registry | None = None) -> bytes:
    """One line: JSON has no line end outside of what it escapes."""
    if value[:1] == b"{":
        return value if b"\n" not in value and b"\r" not in value else orjson.dumps(orjson.loads(value))
    if value[:2] == SINGLE_OBJECT and value[2:_HEADER] == current("notification").fingerprint:
        schema = _schema()
        if schema is not None:
            plain: Any = schemaless_reader(BytesIO(value[_HEADER:]), schema, None)
            return to_json(plain if _is_finite(plain) else finite_json(plain))
    return encode(decode_notification(value, registry), "json")


def fields_of(delivered: Delivered) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(delivered.data)
    return found


def _is_finite(plain: dict[str, Any]) -> bool:
    """Whether it has no number that JSON lacks. Only values can be: an attribute, or of a best offer."""
    value = plain.get("value")
    content = plain.get("content")
    values: list[Any] = [value, *content["attributes"].values()] if content is not None else [value]
    for each in values:
        kind = type(each)
        if kind is float:
            if not math.isfinite(each):
                return False
        elif (kind is dict or kind is list) and finite_json(each) != each:
            return False
    return True


@cache
def _schema() -> Any:
    """Without logical types, which would make datetimes of the integers that stand in JSON."""
    return parse_schema(_without_logical_types(current("notification").schema))


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_logical_types(each) for name, each in schema.items() if name != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    return schema


__all__ = ["Delivered", "SchemaError", "event_of", "fields_of", "to_json_text"]
