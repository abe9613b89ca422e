"""From Python's values to tags, bits and bytes, as `columns.attributes` has them."""

from __future__ import annotations

import struct
from typing import Any, Final

from pastforward.columns import attributes as tags
from pastforward.matching.conditions.normal_form import Constant, Family
from pastforward.matching.conditions.types import classify, path_text
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.matching.index.keys import OTHER
from pastforward.matching.index.parts import float_bits

Encoded = tuple[int, int, bytes | None]  # tag, bits, and bytes for the heap if it has any

# Of a shape's tag: how many doubles it has, and what it is.
DOUBLES: Final[dict[int, tuple[int, Any]]] = {tags.POINT: (2, Point), tags.CIRCLE: (3, Circle), tags.BOX: (4, Box)}


def encoded(value: object) -> Encoded:
    """What compares with nothing gets the tag OTHER."""
    # type(), because this is the hot path of a single match; subclasses take the slow way below
    kind = type(value)
    if kind is int and -(2**63) <= value < 2**63:  # type: ignore[operator]
        return tags.INTEGER, value, None  # type: ignore[return-value]
    if kind is float:
        return tags.FLOAT, float_bits(value), None  # type: ignore[arg-type]
    classified = classify(value)
    if classified is None:
        is_nan = isinstance(value, float)
        return (tags.FLOAT, float_bits(float("nan")), None) if is_nan else (OTHER, 0, None)
    if isinstance(value, Path):
        return tags.PATH, 0, value.text.encode()
    return encoded_constant(*classified)


def encoded_constant(family: Family, constant: Constant) -> Encoded:
    """Of a constant as the normal form has it."""
    if family is Family.BOOLEAN:
        return tags.BOOLEAN, int(bool(constant)), None
    if family is Family.NUMBER:
        if isinstance(constant, int):
            return tags.INTEGER, constant, None
        return tags.FLOAT, float_bits(constant), None  # type: ignore[arg-type]
    if family is Family.STRING:
        return tags.STRING, 0, constant.encode()  # type: ignore[union-attr]
    if family is Family.TIMESTAMP:
        return tags.TIMESTAMP, int(constant), None  # type: ignore[arg-type]
    if isinstance(constant, tuple):
        return tags.PATH, 0, path_text(constant).encode()
    for tag, (count, shape) in DOUBLES.items():
        if isinstance(constant, shape):
            return tag, 0, struct.pack(f"<{count}d", *(getattr(constant, part) for part in shape.__slots__))
    return OTHER, 0, None
