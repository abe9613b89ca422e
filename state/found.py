"""From items of the index to Arrow columns, without a Python object per value."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pastforward.columns.vocabulary import SCOPES
from pastforward.state.errors import OperationError
from pastforward.state.kernels import gather, records
from pastforward.state.kernels.records import Array, Memory

_KINDS: Final = pa.array(["subscription", "publication"])
_SCOPES: Final = pa.array(SCOPES)

COLUMNS: Final = (
    "topic", "topics", "time", "starts_at", "ends_at", "expires_at", "arrived_at", "sequence",
    "scope", "valid", "self_join", "subscriber_id", "payload",
)  # fmt: skip
"""What an item can tell. `topics` is for those that stand at several topics.

`time` is `published_at` of a publication, and the arrival of a subscription.
"""


PIECE: Final = 16_384
PIECE_BYTES: Final = 16 << 20
PIECE_PAIRS: Final = 1 << 18
"""Of the past, at most, that are looked at together: some tens of megabytes once they are decoded."""


def _numbers(memory: Memory, items: Array, field: int) -> Array:
    out = np.empty(len(items), np.int64)
    gather.numbers(memory, items, field, out)
    return out


def _flags(memory: Memory, items: Array) -> Array:
    out = np.empty(len(items), np.uint8)
    gather.flags_of(memory, items, out)
    return out


def _bytes(memory: Memory, items: Array, part: int, kind: Any) -> Any:
    offsets = np.empty(len(items) + 1, np.int64)
    gather.byte_offsets(memory, items, part, offsets)
    data = np.empty(int(offsets[-1]), np.uint8)
    gather.copy_bytes(memory, items, part, offsets, data)
    return _text_array(kind, offsets, data)


def _text_array(kind: Any, offsets: Array, data: Array) -> Any:
    # 32-bit offsets are what most readers expect; more than 2 GB stays large.
    if offsets[-1] < 2**31 - 1:
        offsets = offsets.astype(np.int32)
    else:
        kind = pa.large_binary() if kind == pa.binary() else pa.large_string()
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _paths(memory: Memory, items: Array) -> Any:
    offsets = np.empty(len(items) + 1, np.int64)
    gather.path_offsets(memory, items, offsets)
    data = np.empty(int(offsets[-1]), np.uint8)
    gather.copy_paths(memory, items, offsets, data)
    return _text_array(pa.string(), offsets, data)


def kinds(memory: Memory, items: Array) -> Any:
    out = np.empty(len(items), np.int8)
    gather.kinds(memory, items, out)
    return pa.DictionaryArray.from_arrays(pa.array(out), _KINDS)


def ids(memory: Memory, items: Array) -> Any:
    if memory.scalars[records.INTEGER_IDS] == 1:
        return pa.array(_numbers(memory, items, gather.IDENTITY))
    return _bytes(memory, items, gather.TEXT_ID, pa.string())


def _nullable(values: Array, absent: Array) -> Any:
    return pa.array(values, mask=absent)


def column(memory: Memory, items: Array, name: str) -> Any:
    """One of COLUMNS. A time that does not apply, or has no bound, is null."""
    if name == "topic":
        return _paths(memory, items)
    if name == "topics":
        return _all_topics(memory, items)
    if name == "payload":
        return _bytes(memory, items, gather.PAYLOAD, pa.binary())
    if name == "subscriber_id":
        text = _bytes(memory, items, gather.SUBSCRIBER, pa.string())
        return pc.replace_with_mask(text, pc.equal(text, ""), pa.scalar(None, text.type))
    if name == "arrived_at":
        return pa.array(_numbers(memory, items, gather.ARRIVED))
    if name == "sequence":
        return pa.array(_numbers(memory, items, gather.SEQUENCE))
    flags = _flags(memory, items)
    publication = (flags & records.IS_PUBLICATION) != 0
    if name == "scope":
        codes = ((flags & records.SUBTREE) != 0).astype(np.int8)
        return pa.DictionaryArray.from_arrays(pa.array(codes), _SCOPES)
    if name == "valid":
        return pa.array((flags & records.VALID) != 0)
    if name == "self_join":
        return pa.array((flags & records.SELF_JOIN) != 0)
    if name == "time":
        published = _numbers(memory, items, gather.TIME)
        return pa.array(np.where(publication, published, _numbers(memory, items, gather.ARRIVED)))
    if name == "starts_at":
        starts = _numbers(memory, items, gather.OTHER)
        return _nullable(starts, publication | (starts == records.EARLIEST))
    if name == "ends_at":
        ends = _numbers(memory, items, gather.TIME)
        return _nullable(ends, publication | (ends == records.LATEST))
    if name == "expires_at":
        expires = _numbers(memory, items, gather.OTHER)
        return _nullable(expires, ~publication | (expires == records.LATEST))
    raise OperationError(f"unknown column {name!r}; known are {', '.join(COLUMNS)}")


def table(memory: Memory, rows: Array, items: Array, columns: tuple[str, ...]) -> Any:
    """What `apply` returns."""
    arrays = {"operation": pa.array(rows), "found_kind": kinds(memory, items), "found_id": ids(memory, items)}
    for name in columns:
        arrays[name] = column(memory, items, name)
    return pa.table(arrays)


class Found(NamedTuple):
    """Pairs by columns: the operation's row, and of the item found whether it is a publication, its id and its payload: the i-th text is
    `data[at[i]:at[i + 1]]`."""

    row: Array
    published: Array
    ids: Array
    id_at: Array
    payloads: Array
    payload_at: Array


def columns(memory: Memory, rows: Array, items: Array) -> Found:
    """What `apply_columns` returns."""
    count = len(items)
    published = np.empty(count, np.bool_)
    id_at, payload_at = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    gather.pair_sizes(memory, items, published, id_at, payload_at)
    ids, payloads = np.empty(int(id_at[-1]), np.uint8), np.empty(int(payload_at[-1]), np.uint8)
    gather.copy_pairs(memory, items, id_at, ids, payload_at, payloads)
    return Found(rows, published, ids, id_at, payloads, payload_at)


class Past(NamedTuple):
    """A piece of what subscriptions have found of the past: the operation's row, and the publication, whose payload is
    `data[at[publication]:at[publication + 1]]`. A publication is in one piece, with all that have found it."""

    row: Array
    publication: Array
    data: Array
    at: Array


def together(first: Found, last: Found) -> Found:
    """One behind the other."""
    return Found(
        np.concatenate((first.row, last.row)),
        np.concatenate((first.published, last.published)),
        np.concatenate((first.ids, last.ids)),
        np.concatenate((first.id_at, last.id_at[1:] + first.id_at[-1])),
        np.concatenate((first.payloads, last.payloads)),
        np.concatenate((first.payload_at, last.payload_at[1:] + first.payload_at[-1])),
    )


def with_copies(memory: Memory, items: Array) -> Array:
    """Each item followed by its copies at further topics."""
    lengths = np.empty(len(items), np.int64)
    every = np.empty(gather.chain_lengths(memory, items, lengths), np.int64)
    gather.chains(memory, items, every)
    return every


def _all_topics(memory: Memory, items: Array) -> Any:
    lengths = np.empty(len(items), np.int64)
    gather.chain_lengths(memory, items, lengths)
    starts = np.zeros(len(items) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    return pa.ListArray.from_arrays(pa.array(starts), _paths(memory, with_copies(memory, items)))


def batch(memory: Memory, items: Array, columns: tuple[str, ...]) -> Any:
    """What `scan` yields."""
    arrays = {"kind": kinds(memory, items), "id": ids(memory, items)}
    for name in columns:
        arrays[name] = column(memory, items, name)
    return pa.RecordBatch.from_pydict(arrays)
