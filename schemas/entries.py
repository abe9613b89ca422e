"""The entries of `columns.attributes.Attributes` while they are collected, in any order of rows."""

from __future__ import annotations

import struct
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import (
    BOOLEAN,
    BOX,
    CIRCLE,
    FLOAT,
    INTEGER,
    PATH,
    POINT,
    STRING,
    TIMESTAMP,
    Attributes,
)
from pastforward.columns.times import datetime_of
from pastforward.matching.conditions.values import Box, Circle, Path, Point, Value
from pastforward.schemas.times import micros_of

Which = slice | npt.NDArray[np.int64]

_SHAPES = {POINT: Point, CIRCLE: Circle, BOX: Box}


class EntryList:
    def __init__(self, capacity: int) -> None:
        self.name = np.empty(capacity, dtype=np.int32)
        self.tag = np.empty(capacity, dtype=np.uint8)
        self.bits = np.empty(capacity, dtype=np.int64)
        self.length = np.empty(capacity, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.name)

    def grow(self, used: int, capacity: int) -> None:
        for field in ("name", "tag", "bits", "length"):
            old = getattr(self, field)
            new = np.empty(capacity, dtype=old.dtype)
            new[:used] = old[:used]
            setattr(self, field, new)

    def put(self, at: int, name: int, value: Value, heap_size: int, extra: bytearray) -> None:
        """Writes one entry. What needs bytes is appended to `extra`, which is to follow a heap of `heap_size`."""
        tag, bits, raw = encode_value(value)
        if raw is not None:
            bits = heap_size + len(extra)
            extra += raw
        self.name[at] = name
        self.tag[at] = tag
        self.bits[at] = bits
        self.length[at] = 0 if raw is None else len(raw)

    def taken(
        self, names: list[str], start: npt.NDArray[np.int64], which: Which, heap: npt.NDArray[np.uint8]
    ) -> Attributes:
        return Attributes(names, start, self.name[which], self.tag[which], self.bits[which], self.length[which], heap)


def encode_value(value: Value) -> tuple[int, int, bytes | None]:
    """Tag and bits; or tag, 0, and the bytes for the heap."""
    if isinstance(value, bool):
        return BOOLEAN, int(value), None
    if isinstance(value, int):
        return INTEGER, value, None
    if isinstance(value, float):
        return FLOAT, struct.unpack("<q", struct.pack("<d", value))[0], None
    if isinstance(value, str):
        return STRING, 0, value.encode()
    if isinstance(value, datetime):
        return TIMESTAMP, micros_of(value), None
    if isinstance(value, Point):
        return POINT, 0, struct.pack("<2d", value.lon, value.lat)
    if isinstance(value, Circle):
        return CIRCLE, 0, struct.pack("<3d", value.lon, value.lat, value.radius_m)
    if isinstance(value, Box):
        return BOX, 0, struct.pack("<4d", value.min_x, value.min_y, value.max_x, value.max_y)
    return PATH, 0, value.text.encode()


def attributes_of(attributes: Attributes, row: int) -> dict[str, Value]:
    """The attributes of one row as Python values: for tests, explanations and whoever has only few."""
    return {
        attributes.names[attributes.name[entry]]: _value(attributes, entry)
        for entry in range(int(attributes.start[row]), int(attributes.start[row + 1]))
    }


def _value(attributes: Attributes, entry: int) -> Value:
    tag, bits = int(attributes.tag[entry]), int(attributes.bits[entry])
    if tag == BOOLEAN:
        return bool(bits)
    if tag == INTEGER:
        return bits
    if tag == FLOAT:
        return float(struct.unpack("<d", struct.pack("<q", bits))[0])
    if tag == TIMESTAMP:
        return datetime_of(bits)
    raw = attributes.heap[bits : bits + attributes.length[entry]].tobytes()
    if tag == STRING:
        return raw.decode()
    if tag == PATH:
        return Path(raw.decode())
    shape: Any = _SHAPES[tag]
    found: Value = shape(*struct.unpack(f"<{len(raw) // 8}d", raw))
    return found
