"""What a caller gives, before it is made a record: the codecs check the fields, and this what no codec would understand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, Final

from pastforward.client.listing import Standing
from pastforward.client.moments import Instant, micros
from pastforward.matching.conditions.errors import shown
from pastforward.matching.conditions.values import Value
from pastforward.schemas import SchemaError, Subscription

REPLACEABLE: Final = {field.name for field in fields(Subscription)} - {"subscription_id", "subscriber_id"}


def check_where(where: Any) -> None:
    if where is not None and not isinstance(where, str | tuple | list):
        raise SchemaError("wrong_type", f"where must be a text such as \"kind = 'accident'\", not {shown(where)}")


def checked_attributes(attributes: Any) -> dict[str, Value]:
    if attributes is None:
        return {}
    if not isinstance(attributes, Mapping):
        raise SchemaError("wrong_type", f"attributes must be a dictionary of names and values, not {shown(attributes)}")
    return dict(attributes)


def changed(standing: Standing, changes: dict[str, Any], now: int) -> Subscription:
    """The record as it stands, with other values. Where its window begins is written out, or it would begin anew."""
    unknown = changes.keys() - REPLACEABLE
    if unknown:
        name = min(unknown)
        near = get_close_matches(name, REPLACEABLE, n=1, cutoff=0.0)[0]
        raise SchemaError(
            "unknown_field", f"{name} is nothing that a subscription can be replaced by; did you mean {near}?"
        )
    for name in changes.keys() & {"starts_at", "ends_at"}:
        changes[name] = micros(changes[name], now, name)
    check_where(changes.get("where"))
    return replace(standing.record, **{"starts_at": standing.starts_at.micros, **changes})


def check_end(record: Subscription, now: int) -> None:
    """A window begins when its record arrives, if it does not say: then it may not have ended before."""
    if record.starts_at is None and record.ends_at is not None and record.ends_at <= now:
        shown_end = Instant.of(record.ends_at).isoformat()
        raise SchemaError(
            "bad_value",
            f"ends_at is {shown_end}, which is past, and the window begins now: give starts_at as well, such as '-10m'",
        )


def checked_body(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    raise SchemaError("wrong_type", f"body must be bytes, not {shown(body)}; a text has them with .encode()")
