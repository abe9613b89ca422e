"""Tokens: where a reader goes on, as a short text that a program keeps. What is in it is nobody else's business."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from pastforward.errors import UserError

_VERSION = 1


def write_token(positions: Mapping[int, int]) -> str:
    """`positions`: by partition, the offset of the next record."""
    raw = bytearray([_VERSION])
    for partition, offset in sorted(positions.items()):
        _write(partition, raw)
        _write(offset, raw)
    return base64.urlsafe_b64encode(bytes(raw)).decode().rstrip("=")


def read_token(token: str) -> dict[int, int]:
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        if raw[0] != _VERSION or len(raw) < 3:
            raise ValueError
        numbers = _read(raw)
        return dict(zip(numbers[::2], numbers[1::2], strict=True))
    except (ValueError, IndexError, TypeError):
        raise UserError(f"{token!r} is no token: pass what `token` of a stream gave, as it is") from None


def _write(number: int, raw: bytearray) -> None:
    while number > 0x7F:
        raw.append(number & 0x7F | 0x80)
        number >>= 7
    raw.append(number)


def _read(raw: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in raw[1:]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number, shift = 0, 0
    if shift:
        raise ValueError
    return numbers
