"""Answers from RocksDB, when the index does not fit in the budget.

For each chunk the rows that its operations may meet are read from RocksDB into a small index, and the same kernels decide as
ever; at the commit the small index is forgotten. What is read is bounded as in memory: the lists of the topics above from
the latest row to the first that is too early, and the range below. Ranges that several operations share are read once.

Which rows an id has is kept on disk then, in the family of the rows, and goes with it:
    key    00 | kind | id
    value  u64 sequence, then for each row u16 length and its key
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from pastforward.state.families import Family
from pastforward.state.kernels import probes, records
from pastforward.state.kernels.records import Array, Operations, Rows
from pastforward.state.keys import ID_ENTRY, MARK
from pastforward.state.rocks import to_rows

_TIME_TOP: Final = (1 << 63) - 1
_PUBLICATION_BYTE: Final = 2
_SKIP: Final = b"\xff" * 10
"""After a path and a kind: past every time and id."""


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
    """Reads rows for one chunk. `rows_read` counts every row looked at, those that ended a scan too."""

    def __init__(self, families: list[Family], series: tuple[str, str]) -> None:
        self._families = families
        self._series = series
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._slots: list[int] = []
        self.rows_read = 0

    def rows(self) -> Rows:
        return to_rows(self._keys, self._values, self._slots)

    def _of(self, kind: int) -> list[Family]:
        return [family for family in self._families if family.series == self._series[kind] and family.holds(kind)]

    def by_ids(self, kind: int, identities: list[bytes]) -> None:
        """The rows of these ids."""
        if not identities:
            return
        entries = [id_key(kind, identity) for identity in identities]
        for family in self._of(kind):
            wanted: list[bytes] = []
            for value in family.rdict.get(entries):
                if value is not None:
                    wanted += read_id_value(value)[1]
            if not wanted:
                continue
            for key, value in zip(wanted, family.rdict.get(wanted), strict=True):
                self.rows_read += 1
                if value is not None:
                    self._take(key, value, family.slot)

    def _take(self, key: bytes, value: bytes, slot: int) -> None:
        self._keys.append(key)
        self._values.append(value)
        self._slots.append(slot)

    def by_ranges(self, scalars: Array, operations: Operations, find: tuple[bool, bool], deepest: int) -> None:
        """The rows that these operations may meet."""
        wanted = _merge(scalars, operations, find, deepest)
        for family in self._families:
            at: list[tuple[bytes, bytes]] = []
            below: dict[bytes, tuple[int | None, int | None]] = {}
            for kind in (records.SUBSCRIPTION, records.PUBLICATION):
                if family.series != self._series[kind] or not family.holds(kind):
                    continue
                for path, low in wanted[kind].items():
                    start = path + bytes((1 + kind,))
                    at.append((start, start + (_TIME_TOP - low).to_bytes(8, "big") + b"\xff"))
                for path, low in wanted[2 + kind].items():
                    lows = below.get(path, (None, None))
                    below[path] = (low, lows[1]) if kind == records.SUBSCRIPTION else (lows[0], low)
            if at or below:
                self._read(family, sorted(at), below)

    def _read(
        self, family: Family, at: list[tuple[bytes, bytes]], below: dict[bytes, tuple[int | None, int | None]]
    ) -> None:
        iterator = family.rdict.iter()
        seek, valid, key_of, value_of, following = (
            iterator.seek, iterator.valid, iterator.key, iterator.value, iterator.next,
        )  # fmt: skip
        slot = family.slot
        keys, values, slots = self._keys, self._values, self._slots
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
                keys.append(here)
                values.append(value_of())
                slots.append(slot)
                following()
            else:
                iterator.status()
                break
        for path, lows in sorted(below.items()):
            self._read_below(iterator, slot, path, lows)
        del iterator

    def _read_below(self, iterator: Any, slot: int, path: bytes, lows: tuple[int | None, int | None]) -> None:
        """The range below a path, passing over kinds that are not wanted and what is too early."""
        last = [None if low is None else (_TIME_TOP - low).to_bytes(8, "big") for low in lows]
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
            bound = last[key[kind_at] == _PUBLICATION_BYTE]
            if bound is None or key[kind_at + 1 : kind_at + 9] > bound:
                iterator.seek(key[: kind_at + 1] + _SKIP)
                continue
            self._take(key, iterator.value(), slot)
            iterator.next()
        iterator.status()


def _merge(
    scalars: Array, operations: Operations, find: tuple[bool, bool], deepest: int
) -> tuple[dict[bytes, int], dict[bytes, int], dict[bytes, int], dict[bytes, int]]:
    """By what is wanted: paths, each with the earliest time that matters to any row."""
    topics = int(operations.topics[-1])
    components = int(operations.paths[-1])
    room = 2 * (components + topics) + 3 * topics
    paths = np.zeros(9 * components + 1, np.uint8)
    path_of, ends, lows = (np.zeros(room, np.int64) for _ in range(3))
    what = np.zeros(room, np.uint8)
    past, subscribers = find
    count = probes.ranges(scalars, operations, past, subscribers, deepest, paths, path_of, what, ends, lows)
    merged: tuple[dict[bytes, int], ...] = ({}, {}, {}, {})
    text = paths.tobytes()
    columns = (what[:count], path_of[:count], ends[:count], lows[:count])
    for kind, begin, length, low in zip(*(column.tolist() for column in columns), strict=True):
        path = text[begin : begin + length]
        known = merged[kind].get(path)
        if known is None or low < known:
            merged[kind][path] = low
    return merged[0], merged[1], merged[2], merged[3]
