"""The keys on disk: order-preserving bytes for a Dewey path, a kind, a time and an id.

    component*  |  kind  |  time, latest first  |  id
    mark, n bytes  01 or 02   8 bytes                8 bytes, or UTF-8

1. A component is a mark `10 + n` (hex) and its n big-endian bytes, as few as it needs: more bytes is a greater number and
   a greater mark, so bytes sort as numbers do, and `1.9` comes before `1.10`.
2. No component is a prefix of another (the mark gives the length), so neither is a path: paths sort component by component.
3. The kind sorts before every mark: what stands at a topic comes before what stands below it, and both are one range,
   from the path's bytes to the same bytes and `ff`. Ancestors are the path's own prefixes: as many look-ups as it is deep.
4. The time is `2^63 - 1 - t`, unsigned: the latest comes first. It is `published_at`, and for subscriptions `ends_at`, so a
   scan stops at the first publication that is too old, or the first subscription that has ended.
5. The id ends the key, so an append needs no read: a list of values is a range of keys. An integer id has its sign flipped.

`00` begins what is no row: the entries that lead from an id to its rows (see `paging`).
"""

from __future__ import annotations

from typing import Final

from pastforward.columns import dewey
from pastforward.state.errors import OperationError

SUBSCRIPTION: Final = "subscription"
PUBLICATION: Final = "publication"

ID_ENTRY: Final = 0x00
KIND_BYTES: Final = {SUBSCRIPTION: b"\x01", PUBLICATION: b"\x02"}
MARK: Final = 0x10
AFTER: Final = b"\xff"
"""Greater than every kind and mark: ends the range of a subtree."""

_TIME_TOP: Final = (1 << 63) - 1
_SIGN: Final = 1 << 63


def parse_topic(text: str) -> tuple[int, ...]:
    """`"1.4.2"` as numbers; the empty text is the root."""
    try:
        return dewey.parse(text)
    except dewey.PathError as error:
        raise OperationError(f"topic: {error}") from None


def encode_topic(text: str) -> bytes:
    """The path's part of a key, and the prefix of everything at the topic and below."""
    encoded = bytearray()
    for component in parse_topic(text):
        size = (component.bit_length() + 7) // 8
        encoded.append(MARK + size)
        encoded += component.to_bytes(size, "big")
    return bytes(encoded)


def subtree(text: str) -> tuple[bytes, bytes]:
    """The range `[low, high)` of keys at the topic and below."""
    low = encode_topic(text)
    return low, low + AFTER


def ancestors(text: str) -> list[str]:
    """The topics above, root first."""
    components = parse_topic(text)
    return [dewey.text_of(components[:depth]) for depth in range(len(components))]


def encode_key(topic: str, kind: str, time: int, identity: int | str) -> bytes:
    return encode_topic(topic) + KIND_BYTES[kind] + (_TIME_TOP - time).to_bytes(8, "big") + encode_id(identity)


def decode_key(key: bytes, *, integer_ids: bool) -> tuple[str, str, int, int | str]:
    """Topic, kind, time and id of a row's key."""
    components = []
    position = 0
    while key[position] >= MARK:
        size = key[position] - MARK
        components.append(int.from_bytes(key[position + 1 : position + 1 + size], "big"))
        position += 1 + size
    kind = SUBSCRIPTION if key[position] == KIND_BYTES[SUBSCRIPTION][0] else PUBLICATION
    time = _TIME_TOP - int.from_bytes(key[position + 1 : position + 9], "big")
    return dewey.text_of(tuple(components)), kind, time, decode_id(key[position + 9 :], integer_ids=integer_ids)


def encode_id(identity: int | str) -> bytes:
    if isinstance(identity, int):
        return ((identity + _SIGN) & ((1 << 64) - 1)).to_bytes(8, "big")
    return identity.encode()


def decode_id(encoded: bytes, *, integer_ids: bool) -> int | str:
    if integer_ids:
        return int.from_bytes(encoded, "big") - _SIGN
    return encoded.decode()
