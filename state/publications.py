"""The held publications of a store: the latest in an index in memory, which is open, the others in slices on disk.

A commit writes the publications of its stage as one value of the default family (key `open:` and a number). When the index has taken as
many as it may, the commit writes a slice instead, removes those values, and a new index is opened. It begins with the latest publication of
each topic, which the next one may ask for; so taking a publication reads nothing.

What is read from slices because a row needs it (an id that comes again, earlier publications of a topic) is put into the index as well.
Such items have a family, and are not found by searches, which find them in their slices.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pastforward.columns import dewey
from pastforward.state import blocks, found, operations
from pastforward.state.budget import Budget
from pastforward.state.disk import Disk, encode_rows
from pastforward.state.families import SHORTEST
from pastforward.state.kernels import change, chunk, disk_rows, gather, heads, records, sealing
from pastforward.state.kernels.records import Array, Rows
from pastforward.state.keys import encode_topic
from pastforward.state.memory import Index
from pastforward.state.sealing import Order, Reader, Sealer, in_order
from pastforward.state.slices import SEQUENCE, TIME, Slice
from pastforward.state.subscriptions import batches, living, take_rows
from pastforward.state.whereabouts import Whereabouts

MOST: Final = 1 << 17
"""Publications of a slice: a search on one topic reads a block or two of each, and a commit that seals takes 100 ms."""
CARRIED: Final = 1 << 16
"""Topics whose latest publication is carried over into the next index."""
OPEN: Final = b"open:"
_OPEN_END: Final = b"open;"
_REPLACED: Final = b"replaced:"
_SHARE: Final = 4
"""Of what the budget has for indexes, a part of this size is for open publications, of all stores together."""


@dataclass(slots=True)
class Sealed:
    """What a commit has written, to be taken over when it has succeeded."""

    slices: list[Slice]
    hashes: list[tuple[Array, Array]]  # of ids and topics, by slice
    index: Index | None
    carried: int
    replaced: Array


class Publications:
    def __init__(self, disk: Disk, budget: Budget, clock: Index, reader: Reader | None) -> None:
        self._disk, self._budget, self._clock, self.reader = disk, budget, clock, reader
        self.open = Index()
        self.journal: Array = np.empty(4096, np.int64)
        self.slices: list[Slice] = []
        self.most = MOST
        self.replaced: Array = np.empty(0, np.int64)
        """Positions in the log of publications in slices that a replay has replaced, sorted."""
        self.rows_read = 0
        self.searches: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those under way."""
        self._ids, self._topics = Whereabouts(), Whereabouts()
        self._carried = 0
        self._serial = 0
        self._next_open = 0
        self._next_replaced = 0
        self._asked: tuple[Array, Array, Array] | None = None

    @property
    def size(self) -> int:
        """Bytes in memory."""
        slices = sum(held.size for held in list(self.slices))
        return self.open.size + self._ids.size + self._topics.size + slices

    def __len__(self) -> int:
        return len(self.open) - self._carried + sum(held.rows for held in list(self.slices))

    @property
    def scalars(self) -> Array:
        return self.open.scalars

    def _share(self) -> int:
        return self._budget.for_indexes // (_SHARE * max(1, self._budget.stores))

    # How it begins.

    def load(self, state: dict[str, Any]) -> None:
        """From disk. The clock has been set."""
        self.open.adopt(self._clock)
        untils = dict(state.get("slices", []))
        for family in self._disk.families:
            for _serial, data in self._disk.values(blocks.SLICE_PREFIX, family.rdict):
                held = Slice.read(data, family)
                self._serial = max(self._serial, held.serial + 1)
                if held.serial in untils:
                    held.until = untils[held.serial]
                    self.slices.append(held)
        self.slices.sort(key=lambda held: held.serial)
        for held in self.slices:
            self._ids.add(held.id_hashes(), held.serial)
            self._topics.add(held.topic_hashes(), held.serial)
        for number, data in self._disk.values(OPEN):
            self._next_open = number + 1
            take_rows(self.open, _rows_from(data))
        noted = [self.replaced]
        for number, data in self._disk.values(_REPLACED):
            self._next_replaced = number + 1
            noted.append(blocks.array(data, np.int64))
        self.replaced = np.unique(np.concatenate(noted))

    def record(self) -> list[Any]:
        """For the store's state."""
        return [[held.serial, held.until] for held in self.slices]

    def lengthen(self, longer: int) -> None:
        """Windows have become longer."""
        for held in self.slices:
            held.until = min(records.LATEST, held.until + longer)
        self.open.memory.nodes["known"][:] = 0

    # Before and after rows are applied.

    def prepare(self, parsed: operations.Parsed, find: int) -> None:
        """Reads from slices what these rows need to know."""
        index, columns = self.open, parsed.columns
        index.adopt(self._clock)
        published = int((columns.kind == records.PUBLICATION).sum())
        if not published:
            self._asked = None
            return
        known = True
        if self.slices:
            rows, hashes = np.empty(len(parsed), np.int64), np.empty(len(parsed), np.int64)
            count = heads.unknown_ids(index.memory, columns, True, rows, hashes)
            known = count < published
            if count:
                known |= self._take_ids(hashes[:count])
        self._asked = self._look_for_earlier(parsed, bool(find & chunk.REPLAY) and known)
        index.reserve(parsed.items, parsed.nodes, parsed.heap_units)

    def applied(self, parsed: operations.Parsed) -> None:
        if self._asked is not None:
            heads.know_topics(self.open.memory, parsed.columns, *self._asked)

    def _take_ids(self, hashes: Array) -> bool:
        """Takes publications from slices into the index, by the hashes of their ids. Whether there were any."""
        wanted: dict[int, list[int]] = {}
        for row, serial in self._ids.find(hashes):
            wanted.setdefault(serial, []).append(row)
        found = False
        for held in self._with_serials(wanted):
            rows = np.flatnonzero(np.isin(held.id_hashes(), hashes[wanted[held.serial]]))
            block_of = np.searchsorted(held.starts, rows, "right") - 1
            for block in np.unique(block_of).tolist():
                found |= self._take(held, block, rows[block_of == block] - held.starts[block])
        return found

    def _with_serials(self, serials: Iterable[int]) -> list[Slice]:
        """The latest first."""
        wanted = set(serials)
        return [held for held in reversed(self.slices) if held.serial in wanted]

    def _take(self, held: Slice, block: int, rows: Array) -> bool:
        if len(self.replaced):
            rows = rows[~np.isin(held.times(block).sequence[rows], self.replaced)]
        if not len(rows):
            return False
        self.rows_read += len(rows)
        before = len(self.open)
        taken = take_rows(self.open, held.rows_at(block, rows))
        self._carried += len(self.open) - before  # an earlier one of the same id may have left
        return len(taken) > 0

    def _look_for_earlier(self, parsed: operations.Parsed, replaced: bool) -> tuple[Array, Array, Array] | None:
        """Topics of the chunk, and what is known of their earlier publications once those that were wanted are in the index. `replaced`:
        what is in memory may be replaced by these rows, so what comes after it counts too."""
        columns = parsed.columns
        if not (columns.earlier > 0).any():
            return None
        memory = self.open.memory
        if replaced:
            memory.nodes["known"][:] = 0
        log_time = heads.latest_time(memory.scalars, columns)
        room = int(columns.topics[-1])
        wanted, hashes, limits = (np.empty(room, np.int64) for _ in range(3))
        count = heads.unknown_topics(memory, columns, log_time, wanted, hashes, limits)
        wanted, hashes, limits = wanted[:count], hashes[:count], limits[:count]
        beyond, floor = np.full(count, records.EARLIEST, np.int64), np.full(count, records.EARLIEST, np.int64)
        if not self.slices or not count:
            return wanted, beyond, floor
        serials: dict[int, set[int]] = {}
        for row, serial in self._topics.find(hashes):
            serials.setdefault(row, set()).add(serial)
        at_once: dict[int, list[int]] = {}
        for row in serials:
            at_once.setdefault(int(hashes[row]), []).append(row)
        horizon = _horizon(memory.scalars, log_time)
        for rows in at_once.values():
            first = rows[0]
            path = _path(columns, int(wanted[first]))
            limit = records.LATEST if replaced else int(limits[rows].max())
            there = self._with_serials(set().union(*(serials[row] for row in rows)))
            beyond[rows], floor[rows] = self._take_earlier(there, path, limit, log_time, horizon)
        return wanted, beyond, floor

    def _take_earlier(
        self, slices: list[Slice], path: bytes, limit: int, log_time: int, oldest: int
    ) -> tuple[int, int]:
        """The first publications of a topic that are valid, and what is known of the others: see `state.kernels.heads`."""
        valid: list[int] = []
        least = records.LATEST  # position in the log of what has been read
        beyond = floor = records.EARLIEST
        for held in slices:
            latest = int(held.bounds[:, TIME + 1].max())
            if len(valid) >= limit and valid[limit - 1] >= latest and int(held.bounds[:, SEQUENCE + 1].max()) < least:
                beyond, floor = records.LATEST, max(floor, latest - 1)
                continue
            least = min(least, int(held.bounds[:, SEQUENCE].min()))
            found, valid_from = 0, records.EARLIEST
            for block in held.blocks_of(path, above=False, below=False):
                for low, high in held.spans(block, path, above=False, below=False):
                    if found >= limit:
                        beyond, floor = records.LATEST, max(floor, valid_from)
                        break
                    times = held.times(block)
                    fits = (times.other[low:high] > log_time) & (times.arrived[low:high] >= oldest)
                    fits &= times.time[low:high] >= oldest
                    if len(self.replaced):
                        fits &= ~np.isin(times.sequence[low:high], self.replaced)
                    places = np.flatnonzero(fits)[: limit - found]
                    end = high if found + len(places) < limit else low + int(places[-1]) + 1
                    found += len(places)
                    valid += times.time[low + places].tolist()
                    valid_from = int(times.time[end - 1]) - 1
                    if end < high:
                        beyond, floor = records.LATEST, max(floor, valid_from)
                    self._take(held, block, np.arange(low, end))
            valid.sort(reverse=True)
        return beyond, floor

    def know_id(self, identity: int) -> Index:
        """The index, which then has the publication of an id, if there is one. `identity`: the number, or the text's hash."""
        self.open.adopt(self._clock)
        if self.slices:
            self._take_ids(np.array([heads.id_hash(identity, records.PUBLICATION)], np.int64))
        return self.open

    def families_read(self) -> set[str]:
        """Those that searches under way may still read."""
        read: set[str] = set()
        for search in list(self.searches):
            read |= search.families
        return read

    def close(self) -> None:
        for search in list(self.searches):
            search.close()

    def trim(self) -> None:
        """Between two stages: lets go of what was only looked at."""
        if len(self.open) == self._carried and self._carried and self.open.size > self._share():
            self._open_anew(Index(), 0)

    # What is there.

    def _elsewhere(self) -> Index:
        """An index that takes whatever it is given, whether it has expired or not."""
        index = Index()
        index.adopt(self._clock)
        index.scalars[records.LOG_TIME] = index.scalars[records.COMPLETE_FROM] = records.EARLIEST
        return index

    def loaded(self, held: Slice, block: int, rows: Array) -> list[tuple[Index, Array, Array]]:
        """Publications of a slice as items of an index, or of several: with their places in `rows`."""
        index = self._elsewhere()
        taken = take_rows(index, held.rows_at(block, rows))
        if len(taken) == len(rows):
            if held.many:
                self._load_copies(index, held, block, rows)
            return [(index, taken[::-1], np.arange(len(rows)))]
        # an id that came again
        parts = []
        for at in range(len(rows)):
            index = self._elsewhere()
            parts.append((index, take_rows(index, held.rows_at(block, rows[at : at + 1])), np.array([at])))
        return parts

    def _load_copies(self, index: Index, held: Slice, block: int, rows: Array) -> None:
        """Publications stand at further topics."""
        many = rows[held.times(block).flags[rows] & records.MANY_ON_DISK != 0]
        if not len(many):
            return
        hashes = held.id_hashes()
        others = np.flatnonzero(np.isin(hashes, hashes[many + held.starts[block]]))
        block_of = np.searchsorted(held.starts, others, "right") - 1
        for number in np.unique(block_of).tolist():
            take_rows(index, held.rows_at(number, others[block_of == number] - held.starts[number]))

    def times(self) -> Iterator[tuple[Array, Array, Array]]:
        """Of those whose time has not passed: published, arrived, and expires."""
        self.open.adopt(self._clock)
        scalars = self.open.scalars
        log_time = int(scalars[records.LOG_TIME])
        oldest = _horizon(scalars, log_time)
        numbers = (gather.TIME, gather.ARRIVED, gather.OTHER)
        for items in living(self.open, records.PUBLICATION):
            some = items[self.open.memory.items["family"][items] == records.NONE]
            columns = [np.empty(len(some), np.int64) for _ in numbers]
            for field, column in zip(numbers, columns, strict=True):
                gather.numbers(self.open.memory, some, field, column)
            yield columns[0], columns[1], columns[2]
        for held in self.slices:
            for block in range(len(held.first)):
                times = held.times(block)
                kept = times.arrived >= oldest
                if scalars[records.HOT_WINDOW] < 0:
                    kept &= times.other > log_time
                yield times.time[kept], times.arrived[kept], times.other[kept]

    def scan(self, columns: tuple[str, ...]) -> Iterator[Any]:
        """All that there are, as record batches. Of an id that came again, the last."""
        staged = self.open
        staged.adopt(self._clock)
        for items in living(staged, records.PUBLICATION):
            mine = items[staged.memory.items["family"][items] == records.NONE]
            if len(mine):
                yield found.batch(staged.memory, mine, columns)
        for held in self.slices:
            several = Index()
            several.adopt(self._clock)
            for rows in held.all_rows(self.replaced):
                part = Index()
                part.adopt(self._clock)
                take_rows(part, rows, disk_rows.SINGLE)
                yield from self._unreplaced(part, columns)
                take_rows(several, rows, disk_rows.MANY)
            yield from self._unreplaced(several, columns)

    def _unreplaced(self, part: Index, columns: tuple[str, ...]) -> Iterator[Any]:
        return batches(part, records.PUBLICATION, columns, changed=self.open)

    # Staging and commits.

    def rollback_to(self, entries: int) -> None:
        change.undo(self.open.memory, self.journal, entries)

    def write(self, batch: Any) -> Sealed:
        """What is staged, into the batch of a commit."""
        index = self.open
        index.adopt(self._clock)
        entries = int(index.scalars[records.JOURNAL])
        room = disk_rows.count_items(index.memory, self.journal, entries)
        puts, rest = np.empty(room, np.int64), np.empty(max(room, entries), np.int64)
        count, _ = disk_rows.staged_items(index.memory, self.journal, entries, puts, rest)
        replaced = rest[: sealing.replaced(index.memory, self.journal, entries, rest)].copy()
        if len(replaced):
            batch.put(_REPLACED + self._next_replaced.to_bytes(8, "big"), replaced.tobytes())
        sealed = Sealed([], [], None, 0, replaced)
        own = len(index) - self._carried
        if own and (own >= self.most or index.size > self._share()):
            self._seal(batch, sealed)
        elif count:
            rows, _, _ = encode_rows(index.memory, puts[:count])
            batch.put(OPEN + self._next_open.to_bytes(8, "big"), _rows_to(rows))
        return sealed

    def committed(self, sealed: Sealed) -> None:
        """The batch is on disk."""
        change.close_held(self.open.memory, self.journal)
        self._next_open += 1
        if len(sealed.replaced):
            self._next_replaced += 1
            self.replaced = np.unique(np.concatenate((self.replaced, sealed.replaced)))
        for made, (ids, topics) in zip(sealed.slices, sealed.hashes, strict=True):
            self.slices.append(made)
            self._ids.add(ids, made.serial)
            self._topics.add(topics, made.serial)
        if sealed.index is not None:
            self._open_anew(sealed.index, sealed.carried)
        self.trim()

    def drop_passed(self, log_time: int) -> None:
        """Slices whose time has passed are not looked at any more."""
        if any(held.until < log_time for held in self.slices):
            self.slices = [held for held in self.slices if held.until >= log_time]
            alive = {held.serial for held in self.slices}
            self._ids.forget(alive)
            self._topics.forget(alive)

    def _open_anew(self, index: Index, carried: int) -> None:
        index.adopt(self._clock)
        for scalar in (records.RECORDS_READ, records.DUPLICATES):
            index.scalars[scalar] = self.open.scalars[scalar]
        self.open, self._carried = index, carried

    def _seal(self, batch: Any, sealed: Sealed) -> None:
        memory = self.open.memory
        order = in_order(memory)
        if len(order.items):
            classes, until = np.empty(len(order.items), np.int64), np.empty(len(order.items), np.int64)
            disk_rows.classify(memory, order.items, SHORTEST, classes, until)
            for life in np.unique(classes).tolist():
                mine = classes == life
                some = order._replace(items=order.items[mine], ranks=order.ranks[mine])
                self._seal_class(batch, sealed, some, life, int(until[mine].max()))
        batch.delete_range(OPEN, _OPEN_END)
        sealed.index = Index()
        sealed.carried = self._carry(sealed.index)

    def _seal_class(self, batch: Any, sealed: Sealed, order: Order, life: int, until: int) -> None:
        memory = self.open.memory
        family = self._disk.publications_family(life, memory.scalars)
        family.rows += len(order.items)
        family.kinds |= 1 << records.PUBLICATION
        family.until = max(family.until, until)
        sealer = Sealer(memory, order, self._serial, family, batch.put)
        self._serial += 1
        made = sealer.seal(self.reader, until)
        ids = np.empty(len(order.items), np.int64)
        heads.item_hashes(memory, order.items, ids)
        sealed.slices.append(made)
        topics = order.hashes[np.unique(order.ranks)]
        batch.put(blocks.key(made.serial, blocks.TOPIC_HASHES), topics.tobytes(), family.handle)
        sealed.hashes.append((ids, topics))

    def _carry(self, index: Index) -> int:
        """The latest publication of each topic that somebody asks for, into another index: the last ones, if there is no room for all."""
        index.adopt(self._clock)
        memory = self.open.memory
        room = int(memory.scalars[records.NODES]) + 1
        items, beyond, floor = (np.empty(room, np.int64) for _ in range(3))
        count = heads.heads(memory, items, beyond, floor)
        average = self.open.size // max(1, len(self.open))
        most = min(CARRIED, max(0, self._share()) // 2 // max(1, average))
        if not most or not count:
            return 0
        if count > most:
            last = np.argpartition(memory.items["sequence"][items[:count]], count - most)[count - most :]
            items[:most], beyond[:most], floor[:most] = items[last], beyond[last], floor[last]
            count = most
        rows, _, _ = encode_rows(memory, items[:count])
        taken = take_rows(index, rows._replace(family=np.zeros(count, np.int16)))
        if len(taken) == count:  # else their topics are looked up again; the last row is taken first
            heads.know(index.memory, taken, beyond[:count][::-1].copy(), floor[:count][::-1].copy())
        return len(taken)


def _horizon(scalars: Array, log_time: int) -> int:
    complete, window = int(scalars[records.COMPLETE_FROM]), int(scalars[records.HOT_WINDOW])
    return complete if window < 0 else max(complete, log_time - window)


def _path(columns: records.Operations, topic: int) -> bytes:
    low, high = int(columns.paths[topic]), int(columns.paths[topic + 1])
    return encode_topic(dewey.text_of(tuple(columns.components[low:high].tolist())))


def _rows_to(rows: Rows) -> bytes:
    parts = (rows.keys, rows.key_ends, rows.values, rows.value_ends)
    return blocks.join([part.tobytes() for part in parts])


def _rows_from(data: bytes) -> Rows:
    keys, key_ends, values, value_ends = blocks.split(data, 4)
    ends = blocks.array(key_ends, np.int64)
    return Rows(
        keys=blocks.array(keys, np.uint8),
        key_ends=ends,
        values=blocks.array(values, np.uint8),
        value_ends=blocks.array(value_ends, np.int64),
        family=np.full(len(ends), records.NONE, np.int16),
    )
