"""Subscriptions from RocksDB, when their index does not fit in the budget.

For each chunk the rows that its operations may meet are read from RocksDB into a small index, and the same kernels decide as
ever; at the commit the small index is forgotten. What is read is bounded as in memory: the lists of the topics above from
the latest row to the first that is too early, and the range below. Ranges that several operations share are read once.

Which rows an id has is kept on disk then, in the family of the rows, and goes with it; `state.filters` say that an id is new:
    key    00 | kind | id
    value  u64 sequence, then for each row u16 length and its key
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np

from pastforward.state.families import Family
from pastforward.state.kernels import probes, records
from pastforward.state.kernels.records import Array, Operations, Rows
from pastforward.state.keys import ID_ENTRY, MARK
from pastforward.state.rocks import to_rows

_TIME_TOP: Final = (1 << 63) - 1
_SUBSCRIPTION_BYTE: Final = 1
_SKIP: Final = b"\xff" * 10
"""After a path and a kind: past every time and id."""

Ids: TypeAlias = Callable[[int], bytes]
"""The id of an operation, as keys have it."""


def id_key(kind: int, identity: bytes) -> bytes:
    return bytes((ID_ENTRY, 1 + kind)) + identity


def id_value(sequence: int, keys: Iterable[bytes]) -> bytes:
    return sequence.to_bytes(8, "little") + b"".join(len(key).to_bytes(2, "little") + key for key in keys)


def read_id_value(value: bytes) -> tuple[int, list[bytes]]:
    keys = []
    at = 8
    while at < len(value):
        length = int.from_bytes(value[at : at + 2], "little")
        keys.append(value[at + 2 : at + 2 + length])
        at += 2 + length
    return int.from_bytes(value[:8], "little"), keys


class Pager:
    """Reads subscriptions for one chunk. `rows_read` counts every row looked at, those that ended a scan too."""

    def __init__(self, families: list[Family]) -> None:
        """`families`: those that hold any."""
        self._families = families
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._slots: list[int] = []
        self.rows_read = 0

    def rows(self) -> Rows:
        return to_rows(self._keys, self._values, self._slots)

    def by_ids(self, identities: list[bytes]) -> None:
        """The rows of these ids."""
        for family in self._families:
            self._read_ids(family, [id_key(records.SUBSCRIPTION, identity) for identity in identities])

    def by_hashes(self, ids: Ids, rows: Array, hashes: Array) -> None:
        """The rows of the ids that these operations have, in the families whose filters know them."""
        if not len(rows):
            return
        for family in self._families:
            held = np.zeros(len(rows), np.bool_)
            family.filter.find(hashes, held)
            if held.any():
                self._read_ids(family, [id_key(records.SUBSCRIPTION, ids(row)) for row in rows[held].tolist()])

    def _read_ids(self, family: Family, entries: list[bytes]) -> None:
        wanted: list[bytes] = []
        for value in family.rdict.get(entries):
            if value is not None:
                wanted += read_id_value(value)[1]
        if not wanted:
            return
        for key, value in zip(wanted, family.rdict.get(wanted), strict=True):
            self.rows_read += 1
            if value is not None:
                self._take(key, value, family.slot)

    def _take(self, key: bytes, value: bytes, slot: int) -> None:
        self._keys.append(key)
        self._values.append(value)
        self._slots.append(slot)

    def by_ranges(self, scalars: Array, operations: Operations, find_subscribers: bool, deepest: int) -> None:
        """The rows that these operations may meet."""
        lists, below = _merge(scalars, operations, find_subscribers, deepest)
        if not lists and not below:
            return
        ranges = sorted(_range(path, low) for path, low in lists.items())
        for family in self._families:
            self._read(family, ranges, below)

    def _read(self, family: Family, at: list[tuple[bytes, bytes]], below: dict[bytes, int]) -> None:
        iterator = family.rdict.iter()
        seek, valid, key_of, value_of, following = (
            iterator.seek, iterator.valid, iterator.key, iterator.value, iterator.next,
        )  # fmt: skip
        here = b""
        for start, end in at:
            # The scan of the last list may have ended at or before the first row of this one: then there is no need to seek.
            if not here or here < start:
                seek(start)
            while valid():
                here = key_of()
                self.rows_read += 1
                if here > end:
                    break
                self._take(here, value_of(), family.slot)
                following()
            else:
                iterator.status()
                break
        for path, low in sorted(below.items()):
            self._read_below(iterator, family.slot, path, low)
        del iterator

    def _read_below(self, iterator: Any, slot: int, path: bytes, low: int) -> None:
        """The range below a path, passing over what has ended."""
        bound = (_TIME_TOP - low).to_bytes(8, "big")
        iterator.seek(path + bytes((MARK,)))
        end = path + b"\xff"
        while iterator.valid():
            key = iterator.key()
            self.rows_read += 1
            if key > end:
                return
            kind_at = len(path)
            while key[kind_at] >= MARK:
                kind_at += 1 + key[kind_at] - MARK
            if key[kind_at] != _SUBSCRIPTION_BYTE or key[kind_at + 1 : kind_at + 9] > bound:
                iterator.seek(key[: kind_at + 1] + _SKIP)
                continue
            self._take(key, iterator.value(), slot)
            iterator.next()
        iterator.status()


def _range(path: bytes, low: int) -> tuple[bytes, bytes]:
    """Of a list, from its latest row to the first that has ended."""
    start = path + bytes((_SUBSCRIPTION_BYTE,))
    return start, start + (_TIME_TOP - low).to_bytes(8, "big") + b"\xff"


def _merge(
    scalars: Array, operations: Operations, find_subscribers: bool, deepest: int
) -> tuple[dict[bytes, int], dict[bytes, int]]:
    """Lists and subtrees that are wanted: paths, each with the earliest time that matters to any row."""
    topics = int(operations.topics[-1])
    components = int(operations.paths[-1])
    room = components + 2 * topics
    paths = np.zeros(9 * components + 1, np.uint8)
    path_of, ends, lows = (np.zeros(room, np.int64) for _ in range(3))
    below = np.zeros(room, np.bool_)
    count = probes.ranges(scalars, operations, find_subscribers, deepest, paths, (path_of, ends, lows), below)
    merged: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
    text = paths.tobytes()
    columns = (below[:count], path_of[:count], ends[:count], lows[:count])
    for under, begin, length, low in zip(*(column.tolist() for column in columns), strict=True):
        path = text[begin : begin + length]
        known = merged[under].get(path)
        if known is None or low < known:
            merged[under][path] = low
    return merged
