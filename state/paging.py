"""Answers from RocksDB, when the index does not fit in the budget.

For each chunk the rows that its operations may meet are read from RocksDB into a small index, and the same kernels decide as
ever; at the commit the small index is forgotten. What is read is bounded as in memory: the lists of the topics above from
the latest row to the first that is too early, and the range below. Ranges that several operations share are read once.

A publication that is taken reads nothing: `state.filters` say that its id and its topic are new, and `state.kernels.heads` are what came
before it. Only where they cannot tell is the disk asked.

Which rows an id has is kept on disk then, in the family of the rows, and goes with it:
    key    00 | kind | id
    value  u64 sequence, then for each row u16 length and its key
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from pastforward.state.families import Family
from pastforward.state.kernels import probes, records
from pastforward.state.kernels.records import Array, Operations, Rows
from pastforward.state.keys import ID_ENTRY, MARK
from pastforward.state.rocks import SLICE, to_rows

_TIME_TOP: Final = (1 << 63) - 1
_PUBLICATION_BYTE: Final = 2
_SKIP: Final = b"\xff" * 10
"""After a path and a kind: past every time and id."""


SLICE_BYTES: Final = 16 << 20
_TIMES: Final = Struct("<qq")  # of a value: the other time and the arrival

Ids: TypeAlias = Callable[[int], bytes]
"""The id of an operation, as keys have it."""


class Earlier(NamedTuple):
    """The topics of a chunk, by number: of how many earlier publications the disk is asked, and whether all that there were have been read.
    What has expired by `log_time`, or arrived before `oldest`, does not count."""

    limit: Array
    complete: Array
    log_time: int
    oldest: int


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
        self._bytes = 0
        self.rows_read = 0

    def rows(self) -> Rows:
        return to_rows(self._keys, self._values, self._slots)

    def _of(self, kind: int) -> list[Family]:
        return [family for family in self._families if family.series == self._series[kind] and family.holds(kind)]

    def by_ids(self, kind: int, identities: list[bytes]) -> None:
        """The rows of these ids."""
        for family in self._of(kind):
            self._read_ids(family, [id_key(kind, identity) for identity in identities])

    def by_hashes(self, kind: int, ids: Ids, rows: Array, hashes: Array) -> None:
        """The rows of the ids that these operations have, in the families whose filters know them."""
        if not len(rows):
            return
        for family in self._of(kind):
            held = np.zeros(len(rows), np.bool_)
            family.filter.find(hashes, held)
            if held.any():
                self._read_ids(family, [id_key(kind, ids(row)) for row in rows[held].tolist()])

    def topics_on_disk(self, hashes: Array) -> Array:
        """Which of these topics may have publications there."""
        held = np.zeros(len(hashes), np.bool_)
        for family in self._of(records.PUBLICATION):
            family.filter.find(hashes, held)
        return held

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
        self._bytes += len(value)

    def by_ranges(
        self, scalars: Array, operations: Operations, find: tuple[bool, bool], deepest: int, earlier: Earlier
    ) -> None:
        """The rows that these operations may meet."""
        lists, wanted = _merge(scalars, operations, find, deepest, earlier)
        for family in self._families:
            at: list[tuple[bytes, bytes]] = []
            below: dict[bytes, tuple[int | None, int | None]] = {}
            for kind in (records.SUBSCRIPTION, records.PUBLICATION):
                if family.series != self._series[kind] or not family.holds(kind):
                    continue
                for path, low in lists[kind].items():
                    at.append(_range(path, kind, low))
                for path, low in lists[2 + kind].items():
                    lows = below.get(path, (None, None))
                    below[path] = (low, lows[1]) if kind == records.SUBSCRIPTION else (lows[0], low)
            if at or below:
                for _ in self._read(family, sorted(at), below):
                    pass
            if wanted and family.series == self._series[records.PUBLICATION] and family.holds(records.PUBLICATION):
                self._read_latest(family, wanted, earlier)

    def past(self, scalars: Array, operations: Operations, deepest: int) -> Iterator[Rows]:
        """The publications that the subscriptions among these operations may find, each once, a slice at a time."""
        nothing = np.zeros(int(operations.topics[-1]), np.int64)
        lists, _ = _merge(scalars, operations, (True, False), deepest, Earlier(nothing, nothing, 0, 0))
        at, below = _disjoint(lists[records.PUBLICATION], lists[2 + records.PUBLICATION])
        ranges = sorted(_range(path, records.PUBLICATION, low) for path, low in at.items())
        for family in self._of(records.PUBLICATION):
            for _ in self._read(family, ranges, {path: (None, low) for path, low in below.items()}):
                yield self._taken()
        if self._keys:
            yield self._taken()

    def _taken(self) -> Rows:
        rows = self.rows()
        self._keys, self._values, self._slots, self._bytes = [], [], [], 0
        return rows

    def _read_latest(self, family: Family, wanted: dict[bytes, tuple[int, list[int]]], earlier: Earlier) -> None:
        """The first publications of some topics, until there are as many as are asked for that have not expired."""
        iterator = family.rdict.iter()
        for path, (low, topics) in sorted(wanted.items()):
            start, end = _range(path, records.PUBLICATION, low)
            limit = max(int(earlier.limit[topic]) for topic in topics)
            last = b""  # of one time, keys stand by their ids, and the latest in the log may be any of them
            iterator.seek(start)
            while iterator.valid():
                key = iterator.key()
                self.rows_read += 1
                if key > end:
                    break
                if limit <= 0 and not key.startswith(last):
                    earlier.complete[topics] = False
                    break
                value = iterator.value()
                self._take(key, value, family.slot)
                if limit > 0 and _valid(value, earlier.log_time, earlier.oldest):
                    limit -= 1
                    last = key[: len(start) + 8]
                iterator.next()
            else:
                iterator.status()
        del iterator

    def _read(
        self, family: Family, at: list[tuple[bytes, bytes]], below: dict[bytes, tuple[int | None, int | None]]
    ) -> Iterator[None]:
        """Stops whenever there is a slice."""
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
                if self._full:
                    yield
                following()
            else:
                iterator.status()
                break
        for path, lows in sorted(below.items()):
            yield from self._read_below(iterator, family.slot, path, lows)
        del iterator

    @property
    def _full(self) -> bool:
        return len(self._keys) >= SLICE or self._bytes >= SLICE_BYTES

    def _read_below(self, iterator: Any, slot: int, path: bytes, lows: tuple[int | None, int | None]) -> Iterator[None]:
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
            if self._full:
                yield
            iterator.next()
        iterator.status()


def _range(path: bytes, kind: int, low: int) -> tuple[bytes, bytes]:
    """Of a list, from its latest row to the first that is too early."""
    start = path + bytes((1 + kind,))
    return start, start + (_TIME_TOP - low).to_bytes(8, "big") + b"\xff"


def _valid(value: bytes, log_time: int, oldest: int) -> bool:
    """Whether a publication's row may still be found then. See `state.kernels.disk_rows` for the value."""
    expires, arrived = _TIMES.unpack_from(value, 8)
    return bool(expires > log_time and arrived >= oldest)


def _disjoint(at: dict[bytes, int], below: dict[bytes, int]) -> tuple[dict[bytes, int], dict[bytes, int]]:
    """The same lists and subtrees without those that lie in another subtree, which reaches as far back then."""
    whole: dict[bytes, int] = {}
    top: bytes | None = None
    for path, low in sorted(below.items()):
        if top is None or not path.startswith(top):
            top = path
        whole[top] = min(low, whole.get(top, low))
    alone: dict[bytes, int] = {}
    for path, low in at.items():
        over = next((path[:end] for end in range(len(path)) if path[:end] in whole), None)
        if over is None:
            alone[path] = low
        else:
            whole[over] = min(low, whole[over])
    return alone, whole


Lists: TypeAlias = tuple[dict[bytes, int], dict[bytes, int], dict[bytes, int], dict[bytes, int]]


def _merge(
    scalars: Array, operations: Operations, find: tuple[bool, bool], deepest: int, earlier: Earlier
) -> tuple[Lists, dict[bytes, tuple[int, list[int]]]]:
    """By what is wanted: paths, each with the earliest time that matters to any row; and those whose first publications are wanted, with
    the topics that want them."""
    topics = int(operations.topics[-1])
    components = int(operations.paths[-1])
    room = 2 * (components + topics) + 3 * topics
    paths = np.zeros(9 * components + 1, np.uint8)
    path_of, ends, lows, topic_of = (np.zeros(room, np.int64) for _ in range(4))
    what = np.zeros(room, np.uint8)
    past, subscribers = find
    count = probes.ranges(
        scalars, operations, past, subscribers, deepest, earlier.limit > 0, paths, path_of, what, ends, lows, topic_of
    )
    merged: tuple[dict[bytes, int], ...] = ({}, {}, {}, {})
    latest: dict[bytes, tuple[int, list[int]]] = {}
    text = paths.tobytes()
    columns = (what[:count], path_of[:count], ends[:count], lows[:count], topic_of[:count])
    for kind, begin, length, low, topic in zip(*(column.tolist() for column in columns), strict=True):
        path = text[begin : begin + length]
        if kind == probes.EARLIER:
            latest.setdefault(path, (low, []))[1].append(topic)
            continue
        known = merged[kind].get(path)
        if known is None or low < known:
            merged[kind][path] = low
    return (merged[0], merged[1], merged[2], merged[3]), latest
