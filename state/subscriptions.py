"""The subscriptions of a store: in an index in memory, or read from RocksDB as they are needed, when the budget does not hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from pastforward.state import found, operations, rocks
from pastforward.state.budget import Budget
from pastforward.state.disk import Disk
from pastforward.state.kernels import change, chunk, disk_rows, heads, records
from pastforward.state.kernels.records import Array, Rows
from pastforward.state.memory import Index

_SWEEP_STEPS: Final = 4
"""Items looked at for each one written: a round ends before a quarter of the index has been written anew."""
_RELOAD_EVERY: Final = 256
"""Commits between two looks whether subscriptions that are on disk would fit in memory again."""
_LEAST_ITEM: Final = 128
"""Bytes of an item in the index, at least: what cannot fit even so need not be tried."""
_USUAL_ITEM: Final = 512
"""Bytes of an item, generously: what fits even so will not spill again at once."""


class Subscriptions:
    """Its index keeps the store's clock as well."""

    def __init__(self, budget: Budget) -> None:
        self.index = Index()
        self.journal: Array = np.empty(4096, np.int64)
        self.in_memory = True
        self.rows_read = 0
        self._budget = budget
        self._commits = 0

    def page_in(self, disk: Disk, parsed: operations.Parsed, find: int) -> None:
        """What the rows may meet, if it is not in memory."""
        if self.in_memory:
            return
        pager = disk.pager()
        rows, hashes = np.empty(len(parsed), np.int64), np.empty(len(parsed), np.int64)
        count = heads.unknown_ids(self.index.memory, parsed.columns, False, rows, hashes)
        pager.by_hashes(parsed.identity, rows[:count], hashes[:count])
        pager.by_ranges(self.index.scalars, parsed.columns, bool(find & chunk.FIND_SUBSCRIBERS), disk.deepest)
        self.rows_read += pager.rows_read
        self._take(pager.rows())

    def page_in_id(self, disk: Disk, identity: bytes) -> None:
        if not self.in_memory:
            pager = disk.pager()
            pager.by_ids([identity])
            self._take(pager.rows())

    def _take(self, rows: Rows) -> None:
        if len(rows.key_ends):
            take_rows(self.index, rows)

    def forget(self) -> None:
        """What is in memory, when the disk has all of it."""
        if not self.in_memory:
            self.index.clear()

    # Commits.

    def rollback_to(self, entries: int) -> None:
        if self.in_memory or entries:
            change.undo(self.index.memory, self.journal, entries)
        else:
            self.index.clear()

    def write(self, disk: Disk, batch: Any) -> int:
        """What is staged, into the batch of a commit. Returns how many rows."""
        index = self.index
        entries = int(index.scalars[records.JOURNAL])
        if not entries:
            return 0
        room = disk_rows.count_items(index.memory, self.journal, entries)
        puts, deletes = np.empty(room, np.int64), np.empty(room, np.int64)
        put, deleted = disk_rows.staged_items(index.memory, self.journal, entries, puts, deletes)
        disk.delete_rows(batch, index.memory, deletes[:deleted])
        disk.put_rows(batch, index.memory, puts[:put])
        return int(put + deleted)

    def committed(self, disk: Disk, written: int) -> bool:
        """The batch is on disk. Whether ids have come to the disk, or have left it: the state has to be written again."""
        index = self.index
        if self.in_memory:
            change.close(index.memory, self.journal)
            change.sweep(index.memory, _SWEEP_STEPS * (written + 16))
            if self._budget.left < 0 and len(index):
                self.spill(disk)
                return True
            return False
        index.clear()
        disk.release_slots()
        self._commits += 1
        if self._commits % _RELOAD_EVERY == 0 and disk.estimated_rows() // 2 * _USUAL_ITEM < self._budget.left:
            return self.load(disk)
        return False

    # Between memory and disk.

    def load(self, disk: Disk) -> bool:
        """Takes all rows into memory, if the budget holds them; else sees that ids can be found on disk. Whether ids have come to the disk,
        or have left it."""
        fits = disk.estimated_rows() * _LEAST_ITEM <= self._budget.left
        if fits:
            for rows in disk.slices():
                take_rows(self.index, rows)
                if self._budget.left < 0:
                    fits = False
                    break
        self.in_memory = fits
        disk.unread = fits
        if fits:
            had = disk.has_ids
            disk.has_ids = False
            return had
        self.index.clear()
        if disk.has_ids:
            return False
        for rows in disk.slices():
            part = self.part()
            take_rows(part, rows)
            self._write_ids(disk, part)
        disk.has_ids = True
        return True

    def spill(self, disk: Disk) -> None:
        """The budget does not hold the index any more: from now on answers come from RocksDB."""
        disk.make_readable()
        self._write_ids(disk, self.index)
        disk.has_ids = True
        self.in_memory = False
        self.index.clear()

    def _write_ids(self, disk: Disk, index: Index) -> None:
        for items in living(index, records.SUBSCRIPTION):
            disk.write_ids(index.memory, found.with_copies(index.memory, items))

    def part(self) -> Index:
        """A small index with the store's clock and options."""
        part = Index()
        part.adopt(self.index)
        return part

    def scan(self, disk: Disk, columns: tuple[str, ...]) -> Iterator[Any]:
        if not self.in_memory:
            several = self.part()
            for rows in disk.slices():
                part = self.part()
                take_rows(part, rows, disk_rows.SINGLE)
                yield from batches(part, records.SUBSCRIPTION, columns, changed=self.index)
                take_rows(several, rows, disk_rows.MANY)
            yield from batches(several, records.SUBSCRIPTION, columns, changed=self.index)
        needed = records.USED if self.in_memory else records.USED | records.STAGED
        yield from batches(self.index, records.SUBSCRIPTION, columns, needed=needed)


def take_rows(index: Index, rows: Rows, which: int = disk_rows.ALL) -> Array:
    """Returns the items."""
    count = len(rows.key_ends)
    units, nodes = disk_rows.room_for(rows, 0, count)
    index.reserve(count, nodes, units)
    taken = np.empty(count, np.int64)
    return taken[: disk_rows.load(index.memory, rows, 0, count, which, taken)]


def living(index: Index, kind: int, needed: int = records.USED) -> Iterator[Array]:
    start = 0
    while start < index.scalars[records.ITEM_TOP]:
        items = np.empty(rocks.SLICE, np.int64)
        count, start = disk_rows.living(index.memory, kind, start, needed, items)
        if count:
            yield items[:count]


def batches(
    index: Index, kind: int, columns: tuple[str, ...], *, needed: int = records.USED, changed: Index | None = None
) -> Iterator[Any]:
    for items in living(index, kind, needed):
        if changed is not None:
            items = items[: disk_rows.unchanged_in(index.memory, changed.memory, items)]
        if len(items):
            yield found.batch(index.memory, items, columns)
