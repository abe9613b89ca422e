"""Normal forms in Avro, written without a detour: thousands of subscriptions a second are.

The order of fields is that of `rendezvous.avsc`; a test holds the bytes against those of the plain writer.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

from pastforward.matching.conditions.normal_form import Constraint, Family, NormalForm
from pastforward.matching.conditions.values import Box, Circle
from pastforward.schemas.dewey_text import path_text

_NULL: Final = b"\x00"
_CLOSED: Final = (b"\x00", b"\x01")
_NOTHING_MORE: Final = b"\x00\x00\x00\x00"  # nothing included, excluded, no patterns, no tests
# branches of the union of constants that may be null; without null they are one less
_BOOLEAN, _LONG, _DOUBLE, _STRING, _TIMESTAMP, _POINT, _CIRCLE, _BOX, _PATH = range(1, 10)
_SHORT: Final = [bytes((byte,)) for byte in range(0x80)]
_PACK_DOUBLE: Final = struct.Struct("<d").pack


def long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _SHORT[rest]
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _text(value: str) -> bytes:
    raw = value.encode()
    return long(len(raw)) + raw


@lru_cache(maxsize=4096)
def _begin(name: str, family: Family) -> bytes:
    return _text(name) + long(int(family))


def _constant(value: Any, family: Family, null: int) -> bytes:
    """`null`: 1 if null is the first branch of the union, else 0."""
    kind = type(value)
    if kind is int:
        branch = _TIMESTAMP if family is Family.TIMESTAMP else _LONG
        return long(branch - 1 + null) + long(value)
    if kind is str:
        return long(_STRING - 1 + null) + _text(value)
    if kind is float:
        return long(_DOUBLE - 1 + null) + _PACK_DOUBLE(value)
    if kind is bool:
        return long(_BOOLEAN - 1 + null) + _CLOSED[value]
    if kind is tuple:
        return long(_PATH - 1 + null) + _text(path_text(value))
    branch = _BOX if kind is Box else _CIRCLE if kind is Circle else _POINT
    return long(branch - 1 + null) + _shape(value)


def _shape(value: Any) -> bytes:
    return b"".join(_PACK_DOUBLE(getattr(value, part)) for part in value.__slots__)


def _many(items: list[bytes]) -> bytes:
    return long(len(items)) + b"".join(items) + _NULL if items else _NULL


def _constraint(name: str, constraint: Constraint) -> bytes:
    family, low, low_closed, high, high_closed, included, excluded, patterns, tests = constraint
    bounds = (
        _begin(name, family)
        + (_NULL if low is None else _constant(low, family, 1))
        + _CLOSED[low_closed]
        + (_NULL if high is None else _constant(high, family, 1))
        + _CLOSED[high_closed]
    )
    if included is None and not (excluded or patterns or tests):
        return bounds + _NOTHING_MORE
    return b"".join(
        (
            bounds,
            _NULL if included is None else long(1) + _many([_constant(value, family, 0) for value in included]),
            _many([_constant(value, family, 0) for value in excluded]),
            _many([long(p.kind - 1) + _text(p.text) + _CLOSED[p.negated] for p in patterns]),
            _many([long(t.relation - 1) + _of_shape(t.shape) + _CLOSED[t.negated] for t in tests]),
        )
    )


def _of_shape(shape: Any) -> bytes:
    return long(2 if type(shape) is Box else 1 if type(shape) is Circle else 0) + _shape(shape)


def condition_bytes(form: NormalForm) -> bytes:
    return _many([_many([_constraint(name, constraint) for name, constraint in disjunct]) for disjunct in form])
