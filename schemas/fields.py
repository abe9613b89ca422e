"""Checks of single fields of plain data. Each takes a value and what to call it, and returns the value or raises `SchemaError`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from pastforward.schemas.dewey_text import check_path, check_topics
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.limits import MADE_UP, MAX_ID_BYTES
from pastforward.schemas.times import check_micros, micros_of_text

T = TypeVar("T")
Check = Callable[[Any, str], T]

_LONG: Final = range(-(1 << 63), 1 << 63)
_INT: Final = range(-(1 << 31), 1 << 31)
_MISSING: Final = object()


def wrong_type(what: str, wanted: str, value: Any) -> SchemaError:
    shown = repr(value)
    return SchemaError("wrong_type", f"{what} must be {wanted}, not {shown if len(shown) <= 60 else shown[:60] + '…'}")


def text(value: Any, what: str) -> str:
    if type(value) is not str:
        raise wrong_type(what, "a string", value)
    return value


def identifier(value: Any, what: str) -> str:
    return check_id(text(value, what), what)


def check_id(value: str, what: str, said: int = MAX_ID_BYTES) -> str:
    """`said`: the limit that is told, if another comes later."""
    size = len(value) if value.isascii() else len(value.encode())
    if not 1 <= size <= MAX_ID_BYTES:
        raise SchemaError("bad_id", f"{what} has {size} bytes: write 1 to {said}")
    if "\0" in value:
        raise SchemaError("bad_id", f"{what} has a zero byte, which separates ids in keys: leave it out")
    return value


def own_identifier(value: Any, what: str) -> str:
    """An id that a sender chooses."""
    return check_own(identifier(value, what), what)


def check_own(value: str, what: str) -> str:
    if value.startswith(MADE_UP):
        raise SchemaError("bad_id", f"{what} begins with {MADE_UP}, as ids do that are made here: choose another")
    return value


def flag(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise wrong_type(what, "true or false", value)
    return value


def integer(value: Any, what: str) -> int:
    if type(value) is not int:
        raise wrong_type(what, "an integer", value)
    if value not in _LONG:
        raise SchemaError("bad_value", f"{what} is {value}, which does not fit 64 bits")
    return value


def small(value: Any, what: str) -> int:
    if integer(value, what) not in _INT:
        raise SchemaError("bad_value", f"{what} is {value}, which does not fit 32 bits")
    return int(value)


def moment(value: Any, what: str) -> int:
    if type(value) is int:
        return check_micros(value, what)
    if type(value) is str:
        return micros_of_text(value, what)
    raise wrong_type(what, "an RFC 3339 time or integer microseconds since 1970", value)


def raw(value: Any, what: str) -> bytes:
    if type(value) is bytes:
        return value
    if type(value) is not str:
        raise wrong_type(what, "a base64 string", value)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise SchemaError("bad_value", f"{what} is no base64 text") from None


def topic(value: Any, what: str) -> str:
    return check_path(text(value, what))


def topics(value: Any, what: str) -> str:
    """Of a subscription: a path, or several, as a list or joined by commas. One text for all of them."""
    if type(value) is not list:
        return check_topics(text(value, what))
    return check_topics([text(each, f"{what}[{index}]") for index, each in enumerate(value)])


def optional(check: Check[T]) -> Check[T | None]:
    return lambda value, what: None if value is None else check(value, what)


def many(check: Check[T]) -> Check[tuple[T, ...]]:
    def checked(value: Any, what: str) -> tuple[T, ...]:
        if type(value) is not list:
            raise wrong_type(what, "a list", value)
        return tuple(check(each, f"{what}[{index}]") for index, each in enumerate(value))

    return checked


def one_of(*symbols: str) -> Check[Any]:
    def checked(value: Any, what: str) -> str:
        if type(value) is not str:
            raise wrong_type(what, f"one of {', '.join(symbols)}", value)
        if value not in symbols:
            raise SchemaError("bad_value", f"{what} is {value[:60]!r}: write one of {', '.join(symbols)}")
        return value

    return checked


def read_fields(value: Any, what: str, known: dict[str, Check[Any]], strict: bool, /, **defaults: Any) -> list[Any]:
    """The checked fields of a record, in the order of `known`; what is left out has its default or is missing."""
    if type(value) is not dict:
        raise wrong_type(what, f"an object with {', '.join(known)}", value)
    if strict and not value.keys() <= known.keys():
        raise unknown_field(next(name for name in value if name not in known), what, known)
    found = []
    for name, check in known.items():
        each = value.get(name, _MISSING)
        if each is not _MISSING:
            found.append(check(each, name if what == "the record" else f"{what}.{name}"))
        elif name in defaults:
            found.append(defaults[name])
        else:
            raise SchemaError("missing", f"{what} has no {name}, which is needed")
    return found


def unknown_field(name: str, what: str, known: Iterable[str]) -> SchemaError:
    names = list(known)
    nearest = get_close_matches(name[:60], names, n=1, cutoff=0.0)[0] if names else ""
    return SchemaError(
        "unknown_field", f"{what} has the unknown field {name[:60]!r}; the nearest known one is {nearest!r}"
    )
