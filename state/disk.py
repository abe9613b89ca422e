"""The rows on disk: which family they go to, what a commit writes, and how they come back.

Changes are collected in a write batch of the caller's; nothing is on disk before `write`. Making and dropping a column family
is not part of a batch: a family that no state names was made or given up by a commit that did not come to its end, and is
dropped at the next opening.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pastforward.state import rocks
from pastforward.state.budget import Budget
from pastforward.state.directory import Directory
from pastforward.state.errors import DirectoryError
from pastforward.state.families import SERIES, SHORTEST, Family
from pastforward.state.filters import Filter
from pastforward.state.kernels import disk_rows, heads, records
from pastforward.state.kernels.records import Array, Memory, Rows
from pastforward.state.paging import Pager, id_key, id_value, read_id_value

_STATE: Final = b"state"
_META: Final = b"meta:"
ENTRIES, ENTRIES_END = b"\x00\x01", b"\x00\x04"
"""Of ids and filters: what begins with 00 04 and 00 05 are slices."""


@dataclass(slots=True)
class Encoded:
    """Items as rows."""

    keys: list[bytes]
    values: list[bytes]
    leading: Array  # to sort by
    id_at: Array  # where the id begins in each key


class Disk:
    """The database of one store. Holds the directory from the beginning until `close`."""

    def __init__(self, path: str | os.PathLike[str], layout: str, budget: Budget) -> None:
        self.series = SERIES[layout]
        self.families: list[Family] = []
        self.deepest = 0
        self.has_ids = False
        """Ids can be found on disk, and filters know them."""
        self.unread = True
        """Rows are only written, until the next opening: what reads them calls `make_readable` first."""
        self._serial = 0
        self._retired: list[Family] = []
        self._budget = budget
        self._directory = Directory(path, layout)
        self._rocks = self._open()
        try:
            self.state = self._read_state()
        except Exception as error:
            self.close()
            if rocks.is_failure(error) or isinstance(error, (ValueError, KeyError, TypeError)):
                raise self._directory.damaged(error) from error
            raise

    def _open(self) -> rocks.Rocks:
        directory = self._directory
        made = directory.open()
        try:
            if not made:
                rocks.Rocks(directory.unfinished(), self._budget).close()
                directory.finish()
            return self._open_database()
        except Exception as error:
            directory.close()
            if rocks.is_failure(error):
                raise directory.damaged(error) from error
            raise

    def _open_database(self) -> rocks.Rocks:
        path = self._directory.database
        return rocks.Rocks(path, self._budget, rocks.Rocks.families_at(path))

    def _read_state(self) -> dict[str, Any]:
        """Empty for a new store."""
        names = set(rocks.Rocks.families_at(self._directory.database)) - {"default"}
        text = self._rocks.get(_STATE)
        state: dict[str, Any] = json.loads(text) if text else {}
        for slot, (name, series, life, opened_at, until, rows, kinds) in enumerate(state.get("families", [])):
            family = Family(name, series, life, opened_at, until, rows, kinds, slot)
            if family.name not in names:
                raise ValueError(f"column family {family.name} is missing")
            names.remove(family.name)
            family.rdict, family.handle = self._rocks.open_family(family.name)
            self.families.append(family)
        for name in names:
            self._rocks.drop_family(name)
        if state:
            self._serial = state["serial"]
            self.deepest = state["deepest"]
            # an earlier version has written ids without filters
            self.has_ids = state["has_ids"] and state.get("has_filters", False)
            if self.has_ids:
                for family in self.families:
                    family.filter.load(family.rdict)
        return state

    @property
    def size(self) -> int:
        """Bytes that the filters take in memory."""
        return sum(family.filter.size for family in list(self.families))

    def damaged(self, what: object) -> DirectoryError:
        return self._directory.damaged(what)

    def close(self) -> None:
        self._close_database()
        self._directory.close()

    def _close_database(self) -> None:
        for family in self.families:
            family.handle = None
            family.rdict = None
        self._rocks.close()

    def make_readable(self) -> None:
        """Opens the database anew: from now on what is written can be read at once, and costs more to write."""
        if not self.unread:
            return
        self._close_database()
        try:
            self._rocks = self._open_database()
        except Exception as error:
            if rocks.is_failure(error):
                raise self.damaged(error) from error
            raise
        for family in self.families:
            family.rdict, family.handle = self._rocks.open_family(family.name)
        self.unread = False

    # Reading.

    def get_meta(self, key: bytes) -> bytes | None:
        return self._rocks.get(_META + key)

    def estimated_rows(self) -> int:
        """Entries of ids are counted too, and what has been deleted may be."""
        there = [family for family in self.families if family.holds(records.SUBSCRIPTION)]
        return sum(family.rdict.property_int_value("rocksdb.estimate-num-keys") or 0 for family in there)

    def slices(self) -> Iterator[Rows]:
        """All rows, a slice at a time."""
        for family in self.families:
            if family.holds(records.SUBSCRIPTION):
                yield from rocks.read_slices(family.rdict, family.slot)

    def values(self, prefix: bytes, rdict: Any = None) -> Iterator[tuple[int, bytes]]:
        """Of numbered keys that begin so, in their order."""
        iterator = (rdict or self._rocks.rdict).iter()
        iterator.seek(prefix)
        while iterator.valid() and iterator.key().startswith(prefix):
            yield int.from_bytes(iterator.key()[len(prefix) :], "big"), iterator.value()
            iterator.next()
        iterator.status()  # what is damaged ends it as well
        del iterator

    def pager(self) -> Pager:
        return Pager([family for family in self.families if family.holds(records.SUBSCRIPTION)])

    # Writing.

    def put_meta(self, batch: Any, key: bytes, value: bytes | None) -> None:
        if value is None:
            batch.delete(_META + key)
        else:
            batch.put(_META + key, value)

    def write(self, batch: Any, state: dict[str, Any]) -> None:
        """Writes the batch together with the state: what the store knows of itself, and the families there are."""
        record = {
            **state,
            "serial": self._serial,
            "deepest": self.deepest,
            "has_ids": self.has_ids,
            "has_filters": self.has_ids,
            "families": [family.record() for family in self.families],
        }
        batch.put(_STATE, json.dumps(record).encode())
        self._rocks.write(batch)

    def put_rows(self, batch: Any, memory: Memory, items: Array) -> None:
        """Rows of the items, copies included, each in the family of its class. The items take note of it."""
        if not len(items):
            return
        classes = np.empty(len(items), np.int64)
        until = np.empty(len(items), np.int64)
        disk_rows.classify(memory, items, SHORTEST, classes, until)
        self.deepest = max(self.deepest, int(memory.nodes["depth"][memory.items["node"][items]].max()))
        slots = np.empty(len(items), np.int16)
        for life in np.unique(classes).tolist():
            chosen = classes == life
            family = self._family_for(self.series[records.SUBSCRIPTION], life, memory.scalars)
            family.rows += int(chosen.sum())
            family.kinds |= 1 << records.SUBSCRIPTION
            family.until = max(family.until, int(until[chosen].max()))
            slots[chosen] = family.slot
        memory.items["family"][items] = slots
        rows = encode(memory, items)
        handles = self._handles()
        put = batch.put
        keys, values, slot_of = rows.keys, rows.values, slots.tolist()
        for at in np.argsort(rows.leading).tolist():
            put(keys[at], values[at], handles[slot_of[at]])
        if self.has_ids:
            for entry, (slot, sequence, of_id) in _id_entries(memory, items, rows).items():
                put(entry, id_value(sequence, of_id), handles[slot])
            self._put_hashes(batch, memory, items)

    def _put_hashes(self, batch: Any, memory: Memory, items: Array) -> None:
        """The filters learn them, and keep them on disk."""
        hashes = np.empty(len(items), np.int64)
        heads.item_hashes(memory, items, hashes)
        slots = memory.items["family"][items]
        for family in self.families:
            mine = hashes[slots == family.slot]
            if len(mine):
                family.filter.add(mine)
                batch.put(*family.filter.row(mine), family.handle)

    def delete_rows(self, batch: Any, memory: Memory, items: Array) -> None:
        """Rows of items that were withdrawn or replaced."""
        if not len(items):
            return
        handles = self._handles()
        rows = encode(memory, items)
        # A family that has been dropped has taken its rows with it.
        for key, slot in zip(rows.keys, memory.items["family"][items].tolist(), strict=True):
            if slot in handles:
                batch.delete(key, handles[slot])
        if self.has_ids:
            for entry, (slot, _, _) in _id_entries(memory, items, rows).items():
                if slot in handles:
                    batch.delete(entry, handles[slot])

    def write_ids(self, memory: Memory, items: Array) -> None:
        """Entries from ids to rows, for items whose rows are on disk. Written at once, in a batch without a state."""
        rows = encode(memory, items)
        by_slot = {family.slot: family for family in self.families}
        batch = rocks.batch()
        for entry, (slot, sequence, of_id) in _id_entries(memory, items, rows).items():
            family = by_slot.get(slot)
            if family is None:
                continue
            known = family.rdict.get(entry)
            if known is not None:
                # Rows of one id may come in several parts.
                before, others = read_id_value(known)
                if before > sequence:
                    continue
                if before == sequence:
                    of_id = sorted({*of_id, *others})
            batch.put(entry, id_value(sequence, of_id), family.handle)
        self._put_hashes(batch, memory, items)
        self._rocks.write(batch)

    def forget_ids(self, batch: Any) -> None:
        self.has_ids = False
        for family in self.families:
            batch.delete_range(ENTRIES, ENTRIES_END, family.handle)
            family.filter = Filter()

    # Families.

    def publications_family(self, life: int, scalars: Array) -> Family:
        """Where slices of this class go."""
        return self._family_for(self.series[records.PUBLICATION], life, scalars)

    def _handles(self) -> dict[int, Any]:
        return {family.slot: family.handle for family in self.families}

    def _family_for(self, series: str, life: int, scalars: Array) -> Family:
        """The open family of a class."""
        log_time = int(scalars[records.LOG_TIME])
        for family in reversed(self.families):
            if family.series == series and family.life == life:
                if family.full(log_time):
                    break
                return family
        self._serial += 1
        name = f"{series}-{life:02d}-{self._serial:08d}"
        family = Family(
            name, series, life, log_time, records.EARLIEST, 0, 0, self._free_slot(int(scalars[records.SWEEPS]))
        )
        # slices are read at any time
        unread = self.unread and series != self.series[records.PUBLICATION]
        family.rdict, family.handle = self._rocks.create_family(name, unread=unread)
        self.families.append(family)
        return family

    def _free_slot(self, sweeps: int) -> int:
        """A number that no item carries any more: a dropped family's items are gone after two full sweeps."""
        self._retired = [family for family in self._retired if family.dropped_at_sweep + 2 > sweeps]
        taken = {family.slot for family in self.families + self._retired}
        return next(slot for slot in range(1 << 15) if slot not in taken)

    def release_slots(self) -> None:
        """No item is left that could carry the number of a dropped family."""
        self._retired.clear()

    def take_passed(self, log_time: int, read: set[str]) -> list[Family]:
        """The families whose rows nobody can need after log time, but for those that are still read; they are in the state no more."""
        passed = [family for family in self.families if family.passed(log_time) and family.name not in read]
        if passed:
            names = {family.name for family in passed}
            self.families = [family for family in self.families if family.name not in names]
        return passed

    def drop(self, families: list[Family], sweeps: int) -> None:
        """Their files go."""
        for family in families:
            family.handle = None
            family.rdict = None
            family.dropped_at_sweep = sweeps
            self._retired.append(family)
            self._rocks.drop_family(family.name)


def encode(memory: Memory, items: Array) -> Encoded:
    rows, leading, id_at = encode_rows(memory, items)
    return Encoded(_pieces(rows.keys, rows.key_ends), _pieces(rows.values, rows.value_ends), leading, id_at)


def encode_rows(memory: Memory, items: Array) -> tuple[Rows, Array, Array]:
    """End to end, with the beginnings of the keys, and where in them the ids begin."""
    key_ends = np.empty(len(items), np.int64)
    value_ends = np.empty(len(items), np.int64)
    disk_rows.measure(memory, items, key_ends, value_ends)
    rows = Rows(
        keys=np.empty(int(key_ends[-1]), np.uint8),
        key_ends=key_ends,
        values=np.empty(int(value_ends[-1]), np.uint8),
        value_ends=value_ends,
        family=memory.items["family"][items],
    )
    leading = np.empty(len(items), np.uint64)
    id_at = np.empty(len(items), np.int64)
    disk_rows.encode(memory, items, rows, leading, id_at)
    return rows, leading, id_at


def _pieces(data: Array, ends: Array) -> list[bytes]:
    text = data.tobytes()
    every = ends.tolist()
    return [text[start:end] for start, end in zip([0, *every], every, strict=False)]


def _id_entries(memory: Memory, items: Array, rows: Encoded) -> dict[bytes, tuple[int, int, list[bytes]]]:
    """By entry: family, sequence and the rows' keys. Items that are copies of one another share an entry."""
    entries: dict[bytes, tuple[int, int, list[bytes]]] = {}
    slots = memory.items["family"][items].tolist()
    sequences = memory.items["sequence"][items].tolist()
    for key, id_at, slot, sequence in zip(rows.keys, rows.id_at.tolist(), slots, sequences, strict=True):
        entry = id_key(key[id_at - 9] - 1, key[id_at:])
        known = entries.get(entry)
        if known is not None and known[1] == sequence:
            known[2].append(key)
        else:
            entries[entry] = (slot, sequence, [key])
    return entries
