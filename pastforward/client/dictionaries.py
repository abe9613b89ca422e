"""Publications that come as dictionaries: with the fields of `Publication`, as a program has them at hand.

Writing each through `Publication` and the Avro codec, with all its checks, costs 50 us. What is plain, and most is, becomes JSON at
4 us, of which the checks are half: `pastforward bench client` measures both. Whatever is not plain takes the long way, which says what
is wrong with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from itertools import count
from typing import Any, Final

import orjson

from pastforward.client.arguments import check_where, checked_attributes, checked_body
from pastforward.client.moments import micros
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.matching.conditions.values import Point
from pastforward.schemas import Publication, SchemaError, Subscription
from pastforward.schemas.acceptance import check_name
from pastforward.schemas.dewey_text import check_path
from pastforward.schemas.limits import MAX_ID_BYTES
from pastforward.schemas.value_fields import attribute_name

ASKED: Final = {field.name for field in fields(Subscription)}
FIELDS: Final = {field.name for field in fields(Publication)}
_PLAIN: Final = frozenset(("publication_id", "publisher_id", "topic", "published_at", "expires_at", "attributes"))
_SMALL: Final = 100_000  # bytes: far from every limit, whatever is within
_KNOWN: Final = 10_000  # names and topics that need not be checked again
_MOST: Final = 100  # attributes
_INTEGERS: Final = 1 << 63


def new_names() -> Iterator[str]:
    """Ids that nobody else makes: at a tenth of what `uuid4` costs for each."""
    return map(f"{uuid.uuid4().hex[:24]}%08x".__mod__, count())  # threads may share it, as they could no generator


def publication_of(given: Mapping[str, Any], now: int) -> Publication:
    """The long way."""
    unknown = given.keys() - FIELDS
    if unknown:
        name = min(map(str, unknown))
        near = get_close_matches(name, FIELDS, n=1, cutoff=0.0)[0]
        raise SchemaError(
            "unknown_field", f"a publication has no {name}; did you mean {near}? What is said stands in attributes"
        )
    check_where(given.get("where"))
    times = {name: _micros(given[name], now, name) for name in ("published_at", "expires_at") if name in given}
    attributes, body = checked_attributes(given.get("attributes")), checked_body(given.get("body"))
    return Publication(**{**given, **times, "attributes": attributes, "body": body})


def subscription_of(given: Subscription | Mapping[str, Any], now: int, names: Iterator[str]) -> Subscription:
    """One with an id, made if it has none."""
    if isinstance(given, Subscription):
        return given
    unknown = given.keys() - ASKED
    if unknown:
        name = min(map(str, unknown))
        near = get_close_matches(name, ASKED, n=1, cutoff=0.0)[0]
        raise SchemaError("unknown_field", f"a subscription has no {name}; did you mean {near}?")
    if given.get("subscriber_id") is None:
        raise SchemaError("missing", "a subscription has no subscriber_id: who is notified?")
    check_where(given.get("where"))
    times = {name: _micros(given[name], now, name) for name in ("starts_at", "ends_at") if name in given}
    own = given.get("subscription_id")
    return Subscription(**{**given, **times, "subscription_id": next(names) if own is None else own})


def _micros(moment: Any, now: int, name: str) -> int | None:
    """A dictionary may be a record as it stands on the topic, where a time is integer microseconds."""
    return moment if type(moment) is int else micros(moment, now, name)


class PlainWriter:
    """Knows which names and topics it has checked."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._topics: set[str] = {""}

    def write(self, given: Mapping[str, Any]) -> bytes | None:
        """The record in JSON; None: it is not plain, or wrong."""
        if type(given) is not dict or not given.keys() <= _PLAIN:
            return None
        attributes = given.get("attributes")
        if attributes is None:
            return None
        if type(attributes) is not dict or len(attributes) > _MOST or not self._are_plain(attributes):
            return None
        topic = given.get("topic", "")
        if type(topic) is not str or (topic not in self._topics and not _learn(topic, self._topics, check_path)):
            return None
        if not _are_ids(given) or not _are_times(given):
            return None
        try:
            value = orjson.dumps({name: value for name, value in given.items() if value is not None})
        except orjson.JSONEncodeError:  # half of a surrogate pair
            return None
        return value if len(value) < _SMALL else None

    def _are_plain(self, attributes: dict[Any, Any]) -> bool:
        names = self._names
        for name, value in attributes.items():
            if name not in names and not (type(name) is str and _learn(name, names, _check_name)):
                return False
            kind = type(value)
            if kind is str or kind is bool:
                continue
            if kind is int:
                if not -_INTEGERS <= value < _INTEGERS:
                    return False
            elif kind is Point:
                lon, lat = value.lon, value.lat
                if type(lon) is not float or type(lat) is not float or not (-180 <= lon <= 180 and -90 <= lat <= 90):
                    return False
            elif kind is not float or not -_INTEGERS < value < _INTEGERS:  # as NaN is not either
                return False
        return True


def _check_name(name: str) -> None:
    attribute_name(name, "the name of an attribute")
    check_name(name)


def _learn(text: str, known: set[str], check: Callable[[str], object]) -> bool:
    try:
        check(text)
        text.encode()
    except (SchemaError, UnicodeEncodeError):
        return False
    if len(known) >= _KNOWN:
        known.clear()
    known.add(text)
    return True


def _are_ids(given: dict[str, Any]) -> bool:
    for name in ("publication_id", "publisher_id"):
        text = given.get(name)
        if text is not None and not (
            type(text) is str
            and text.isascii()
            and 1 <= len(text) <= MAX_ID_BYTES
            and text[0] != "~"
            and "\0" not in text
        ):
            return False
    return True


def _are_times(given: dict[str, Any]) -> bool:
    begin, end = given.get("published_at"), given.get("expires_at")
    for moment in (begin, end):
        if moment is not None and not (type(moment) is int and MIN_TIME <= moment <= MAX_TIME):
            return False
    return begin is None or end is None or begin <= end
