"""Publications by columns, as they lie on disk: slices of the log, in blocks of at most 4,096, a RocksDB value for each column of a block.

    key    00 04 | slice u32 | column u16 | block u16 | part u16      a slice's own columns have block 0
    key    00 05 | slice u32                                          what is in memory of a slice, see `state.slices`

A slice is sorted by topic, as keys are, and then latest first. Numbers are stored as differences from the least, in as few bytes as the
greatest needs; RocksDB compresses the values with LZ4.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import numpy as np

from pastforward.state.kernels.records import Array

BLOCK: Final = 4096
"""Publications: a column of numbers is some 8 to 32 KB, which is read in 10 to 20 us."""
BLOCK_BYTES: Final = 4 << 20
"""Of payloads: large ones make short blocks."""
PART: Final = 256
"""Payloads of one value: whoever finds a few does not read a megabyte for each."""
PART_BYTES: Final = 1 << 16

# Columns of a block.
TOPICS: Final = 0
TIMES: Final = 1
IDS: Final = 2
SUBSCRIBERS: Final = 3
PAYLOAD_ENDS: Final = 4
PAYLOADS: Final = 5
ID_HASHES: Final = 6
TOPIC_HASHES: Final = 7
ATTRIBUTES: Final = 8  # two for each: values, and of texts the first eight bytes

PREFIX: Final = b"\x00\x04"
SLICE_PREFIX: Final = b"\x00\x05"
_KEY: Final = Struct(">2sIHHH")
_NUMBERS: Final = Struct("<qq")
_KINDS: Final = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64))
_MASK: Final = (1 << 64) - 1


def key(slice_: int, column: int, block: int = 0, part: int = 0) -> bytes:
    return _KEY.pack(PREFIX, slice_, column, block, part)


def slice_key(slice_: int) -> bytes:
    return SLICE_PREFIX + slice_.to_bytes(4, "big")


def pack(values: Array) -> bytes:
    """int64, at least one: the least, bytes of a difference (0: all are equal), differences."""
    low = int(values.min())
    span = int(values.max()) - low
    if not span:
        return _NUMBERS.pack(low, 0)
    kind = _KINDS[(span > 0xFF) + (span > 0xFFFF) + (span > 0xFFFFFFFF)]
    narrow = (values.view(np.uint64) - np.uint64(low & _MASK)).astype(kind)
    return _NUMBERS.pack(low, kind.itemsize) + narrow.tobytes()


def unpack(data: bytes | memoryview, count: int) -> Array:
    low, size = _NUMBERS.unpack_from(data)
    if not size:
        return np.full(count, low, np.int64)
    narrow = np.frombuffer(data, _KINDS[size.bit_length() - 1], count, _NUMBERS.size)
    return (narrow.astype(np.uint64) + np.uint64(low & _MASK)).view(np.int64)


def join(parts: Sequence[bytes]) -> bytes:
    """Lengths, u32, and the parts."""
    return b"".join([np.array(list(map(len, parts)), "<u4").tobytes(), *parts])


def split(data: bytes, count: int) -> list[memoryview]:
    sizes = np.frombuffer(data, "<u4", count).tolist()
    view, at, parts = memoryview(data), 4 * count, []
    for size in sizes:
        parts.append(view[at : at + size])
        at += size
    return parts


def pack_texts(data: Array, ends: Array) -> bytes:
    """`ends` begin with the beginning of the first, and need not begin at 0."""
    return join([pack(np.diff(ends)), data[int(ends[0]) : int(ends[-1])].tobytes()])


def unpack_texts(data: bytes, count: int) -> tuple[Array, Array]:
    """The bytes, and where each begins and the last ends."""
    lengths, text = split(data, 2)
    at = np.zeros(count + 1, np.int64)
    np.cumsum(unpack(lengths, count), out=at[1:])
    return np.frombuffer(bytearray(text), np.uint8), at


def bounds_of(columns: Sequence[Array]) -> list[int]:
    """Least and greatest of each."""
    return [int(bound) for column in columns for bound in (column.min(), column.max())]


def array(data: Any, kind: Any, count: int = -1) -> Array:
    """A writable copy, as kernels take it."""
    return np.frombuffer(bytearray(data), kind, count)
