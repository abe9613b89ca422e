"""A store: subscriptions and publications of one rendezvous partition, durable in RocksDB."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pastforward.columns.texts import Texts
from pastforward.state import found, operations, rocks
from pastforward.state.budget import Budget
from pastforward.state.disk import Disk, encode_rows
from pastforward.state.errors import OperationError, StoreError
from pastforward.state.families import Family
from pastforward.state.kernels import change, chunk, disk_rows, gather, heads, heap, records
from pastforward.state.kernels.records import Array, Found, Operations, Rows
from pastforward.state.keys import PUBLICATION, SUBSCRIPTION, encode_id
from pastforward.state.memory import Index
from pastforward.state.paging import Earlier, Pager
from pastforward.state.search import Filter, Search, Taken
from pastforward.state.stage import Savepoint, Stage, journal_with_room, restore

FIND: Final = {
    "both": chunk.FIND_PAST | chunk.FIND_SUBSCRIBERS,
    "past": chunk.FIND_PAST,
    "none": 0,
    "replay": chunk.REPLAY,
}
_KINDS: Final = {SUBSCRIPTION: records.SUBSCRIPTION, PUBLICATION: records.PUBLICATION}
_SWEEP_STEPS: Final = 4
"""Items looked at for each one written: a round ends before a quarter of the index has been written anew."""
_RELOAD_EVERY: Final = 256
"""Commits between two looks whether a store that answers from disk would fit in memory again."""
_LEAST_ITEM: Final = 128
"""Bytes of an item in the index, at least: what cannot fit even so need not be tried."""
_USUAL_ITEM: Final = 512
"""Bytes of an item, generously: what fits even so will not spill again at once."""
_KEPT_FOUND: Final = 1 << 18
"""Pairs for which room is kept between two chunks."""
_TOGETHER: Final = 1 << 22
"""Pairs that are sorted by publication, so that one that several subscriptions have found is read once."""
_SCAN_COLUMNS: Final = (
    "topic", "time", "starts_at", "ends_at", "expires_at", "arrived_at", "scope", "subscriber_id", "payload",
)  # fmt: skip


class Pair(NamedTuple):
    """What a single operation found."""

    kind: str
    id: int | str


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters since the store was opened, and how it stands."""

    records_read: int
    """Items looked at in memory and rows read from disk, for answers."""
    duplicates: int
    """Publications dropped because their id was still kept."""
    items: int
    """In the index, what time has removed but nobody has swept yet included."""
    in_memory: bool
    """False: the budget does not hold the index, answers come from RocksDB."""
    index_bytes: int
    families: int


class Store:
    """One rendezvous partition's memory. One thread at a time; one process at a time. Made by `open_store`.

    `apply` stages: later rows see it, the disk does not. `commit` writes all that is staged and the offset in one batch: after
    a crash the store is as it was after some commit. `rollback` forgets what is staged. A look-up costs what it finds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        layout: str,
        budget: Budget,
        hot_window: int | None,
        lateness: int,
        earlier_limit: int | None,
    ) -> None:
        self.path = os.fspath(path)
        self.layout = layout
        self._budget = budget
        self._index = Index()
        scalars = self._index.scalars
        scalars[records.HOT_WINDOW] = -1 if hot_window is None else hot_window
        scalars[records.LATENESS] = lateness
        scalars[records.EARLIER_LIMIT] = records.LATEST if earlier_limit is None else earlier_limit
        scalars[records.INTEGER_IDS] = -1
        self._journal: Array = np.empty(4096, np.int64)
        self._stage: Stage | None = None
        self._duplicates: Array = np.empty(0, np.int64)
        self._found = _room_for_found(4096)
        self._past: tuple[Array, Array] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._on_disk: tuple[int, Operations] | None = None
        self._offset: int | None = None
        self._in_memory = True
        self._paged: list[Array] = []  # items that were read from disk since the last commit
        self._keeps_heads = False  # somebody asks for what came before a publication
        self._commits = 0
        self._rows_read = 0
        self._closed = False
        self._disk = Disk(path, layout, budget)
        budget.register(self._index)
        budget.register(self._disk)
        try:
            self._resume(self._disk.state)
            self._load()
        except Exception as error:
            self.close()
            if rocks.is_failure(error):
                raise self._disk.damaged(error) from error
            raise

    def _resume(self, state: dict[str, Any]) -> None:
        if not state:
            return
        scalars = self._index.scalars
        self._offset = state["offset"]
        scalars[records.LOG_TIME] = state["log_time"]
        scalars[records.SEQUENCE] = state["sequence"]
        scalars[records.ENDED_BEFORE] = state["ended_before"]
        scalars[records.COMPLETE_FROM] = state["complete_from"]
        scalars[records.INTEGER_IDS] = state["integer_ids"]
        self._lengthen(state["hot_window"], state["lateness"])

    def _lengthen(self, hot_window: int, lateness: int) -> None:
        """Longer windows than these, which the rows were written for: their families stay for the difference."""
        scalars = self._index.scalars
        longer = max(0, int(scalars[records.LATENESS]) - lateness)
        if hot_window >= 0:
            if scalars[records.HOT_WINDOW] < 0:
                longer = records.LATEST
            longer = max(longer, int(scalars[records.HOT_WINDOW]) - hot_window)
        for family in self._disk.families:
            family.until = min(records.LATEST, family.until + longer)

    def change_windows(self, hot_window: int, lateness: int) -> None:
        """From here on, between two commits. What a shorter window has dropped stays away: `complete_from` says from where all is here."""
        scalars = self._index.scalars
        before = int(scalars[records.HOT_WINDOW]), int(scalars[records.LATENESS])
        scalars[records.COMPLETE_FROM] = self._complete_from()
        scalars[records.ENDED_BEFORE] = self._state()["ended_before"]
        scalars[records.HOT_WINDOW], scalars[records.LATENESS] = hot_window, lateness
        self._lengthen(*before)

    def _state(self) -> dict[str, Any]:
        scalars = self._index.scalars
        log_time = int(scalars[records.LOG_TIME])
        return {
            "offset": self._offset,
            "log_time": log_time,
            "sequence": int(scalars[records.SEQUENCE]),
            "ended_before": max(int(scalars[records.ENDED_BEFORE]), _back(log_time, int(scalars[records.LATENESS]))),
            "complete_from": self._complete_from(),
            "integer_ids": int(scalars[records.INTEGER_IDS]),
            "lateness": int(scalars[records.LATENESS]),
            "hot_window": int(scalars[records.HOT_WINDOW]),
        }

    def _complete_from(self) -> int:
        return self._horizon(int(self._index.scalars[records.LOG_TIME]))

    def _horizon(self, log_time: int) -> int:
        scalars = self._index.scalars
        time = int(scalars[records.COMPLETE_FROM])
        if scalars[records.HOT_WINDOW] < 0:
            return time
        return max(time, _back(log_time, int(scalars[records.HOT_WINDOW])))

    def close(self) -> None:
        """Gives up what is staged, and the directory. Closing again does nothing."""
        if not self._closed:
            self._closed = True
            self._budget.unregister(self._index)
            self._budget.unregister(self._disk)
            self._disk.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What can be asked at any time.

    @property
    def offset(self) -> int | None:
        """What the last commit said; None before the first."""
        return self._offset

    @property
    def log_time(self) -> int | None:
        """The highest arrival seen, staged ones too."""
        time = int(self._index.scalars[records.LOG_TIME])
        return None if time == records.EARLIEST else time

    @property
    def complete_from(self) -> int | None:
        """Publications held before this may be gone: a subscription's horizon is never earlier."""
        time = self._complete_from()
        return None if time == records.EARLIEST else time

    @property
    def duplicates(self) -> Array:
        """Rows of the last `apply` that were dropped: publications whose id is still kept."""
        return self._duplicates

    @property
    def stats(self) -> Stats:
        scalars = self._index.scalars
        return Stats(
            records_read=int(scalars[records.RECORDS_READ]) + self._rows_read,
            duplicates=int(scalars[records.DUPLICATES]),
            items=len(self._index),
            in_memory=self._in_memory,
            index_bytes=self._index.size + self._disk.size,
            families=len(self._disk.families),
        )

    # Staging.

    def _begin(self) -> Stage:
        if self._closed:
            raise StoreError(f"{self.path} has been closed; open it again with open_store")
        if self._stage is None:
            self._stage = Stage.begin(self._index.scalars)
        return self._stage

    def apply(self, table: Any, *, find: str = "both", columns: Sequence[str] = ()) -> Any:
        """Applies operations, a table or a `Batch`, in order: each row looks up what came before it, then is stored, until the commit.

        Returns an Arrow table of pairs, by row: `operation`, `found_kind`, `found_id`, and the `columns` asked for, of the item
        found (see `state.found.COLUMNS`). `find`: `both`; `past`, if publications need not look for subscriptions; `none`; `replay`,
        which finds nothing either, and of two publications with one id takes the later: which of them counts is known.
        A table that cannot be taken raises OperationError, and nothing of it is applied.
        """
        for name in columns:
            if name not in found.COLUMNS:
                raise OperationError(f"unknown column {name!r}; known are {', '.join(found.COLUMNS)}")
        rows, items = self._apply(operations.parse(table), _wanted(find))
        return found.table(self._index.memory, rows, items, tuple(columns))

    def apply_columns(self, batch: operations.Batch, *, find: str = "both") -> found.Found:
        """The same for who goes on in columns: of small chunks Arrow would be half of the price. Ids must be strings, and each row must
        tell the time (`now`). What subscriptions find of the past may be all that there is: `past` gives it a piece at a time."""
        parsed, wanted = operations.parse(batch), _wanted(find)
        log_time = int(self._index.scalars[records.LOG_TIME])
        rows, items = self._apply(parsed, wanted, paged=False)
        published = np.empty(len(items), np.bool_)
        gather.kinds(self._index.memory, items, published)
        past = published & (parsed.columns.kind[rows] == records.SUBSCRIPTION)
        self._past = rows[past], items[past]
        asks = not self._in_memory and wanted & chunk.FIND_PAST and (parsed.columns.kind == records.SUBSCRIPTION).any()
        self._on_disk = (log_time, parsed.columns) if asks else None
        return found.columns(self._index.memory, rows[~past], items[~past])

    def search(self, filters: Mapping[int, Filter] | None = None) -> Search:
        """What the subscriptions of the last `apply_columns` find of the past: of all of them, or of the rows that `filters` has, each with
        what it must satisfy. To be made before anything else is applied."""
        pieces = self.past()
        if filters is not None:
            rows = np.array(list(filters), np.int64)
            pieces = (found.of_rows(piece, rows) for piece in pieces)
        return Taken(pieces)

    def past(self) -> Iterator[found.Past]:
        """The publications that the subscriptions of the last `apply_columns` have found, as they are stored now. Nothing is to be applied,
        committed or rolled back before the end."""
        rows, items = self._past
        for start in range(0, len(rows), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            yield from found.pieces(self._index.memory, rows[some], items[some])
        if self._on_disk is not None:
            several = self._part()
            log_time, columns = self._on_disk
            several.scalars[records.LOG_TIME] = log_time
            kinds = np.where(columns.kind == records.SUBSCRIPTION, records.QUESTION, records.WITHDRAWAL)
            questions = columns._replace(kind=kinds.astype(columns.kind.dtype))
            pager = self._disk.pager()
            for slice_ in pager.past(several.scalars, questions, self._disk.deepest):
                part = Index()
                part.adopt(several)
                _take_rows(part, slice_, disk_rows.SINGLE)
                _take_rows(several, slice_, disk_rows.MANY)
                yield from self._answer(part, questions)
            self._rows_read += pager.rows_read
            yield from self._answer(several, questions)

    def _answer(self, part: Index, questions: Operations) -> Iterator[found.Past]:
        """What the rows of a part, on disk before the last `apply_columns`, say to subscriptions; those in memory as well have said
        it there. Pairs are handed over whenever there is no room for more."""
        if not len(part):
            return
        log_time = part.scalars[records.LOG_TIME]
        duplicates = np.zeros(len(questions.kind), np.bool_)
        at = _room_for_found(max(len(part), _KEPT_FOUND))  # for one question at least
        row = 0
        while row < len(questions.kind):
            row, count = chunk.apply_rows(
                part.memory, questions, row, chunk.FIND_PAST, at, 0, self._journal, duplicates
            )
            items = at.item[:count].astype(np.int64)
            absent = np.empty(count, np.bool_)
            disk_rows.absent_from(part.memory, self._index.memory, items, absent)
            yield from found.pieces(part.memory, at.row[:count][absent], items[absent])
        part.scalars[records.LOG_TIME] = log_time

    def _apply(self, parsed: operations.Parsed, find: int, *, paged: bool = True) -> tuple[Array, Array]:
        """`paged`: what subscriptions may find of the past is read from disk."""
        self._begin()
        self._check_ids(parsed)
        index = self._index
        self._keeps_heads |= bool((parsed.columns.earlier > 0).any())
        if not self._in_memory:
            self._page_in(parsed, find, paged)
        index.reserve(parsed.items, parsed.nodes, parsed.heap_units)
        rows = len(parsed)
        self._journal = journal_with_room(self._journal, int(index.scalars[records.JOURNAL]), rows)
        duplicates = np.zeros(rows, np.bool_)
        read = index.scalars[records.RECORDS_READ]
        found_rows, items = self._apply_rows(index, parsed.columns, find, duplicates)
        if not self._in_memory:
            # What was looked at has been counted when it was read from disk.
            index.scalars[records.RECORDS_READ] = read
        self._duplicates = np.flatnonzero(duplicates)
        return found_rows, items

    def _apply_rows(self, index: Index, columns: Operations, find: int, duplicates: Array) -> tuple[Array, Array]:
        row = count = 0
        while True:
            row, count = chunk.apply_rows(
                index.memory, columns, row, find, self._found, count, self._journal, duplicates
            )
            if row == len(columns.kind):
                break
            larger = _room_for_found(2 * len(self._found.row))
            larger.row[:count] = self._found.row[:count]
            larger.item[:count] = self._found.item[:count]
            self._found = larger
        found_rows, items = self._found.row[:count].copy(), self._found.item[:count].astype(np.int64)
        if len(self._found.row) > _KEPT_FOUND:
            self._found = _room_for_found(_KEPT_FOUND)
        return found_rows, items

    def _check_ids(self, parsed: operations.Parsed) -> None:
        if not len(parsed):
            return
        scalars = self._index.scalars
        if scalars[records.INTEGER_IDS] == -1:
            scalars[records.INTEGER_IDS] = int(parsed.integer_ids)
        elif scalars[records.INTEGER_IDS] != int(parsed.integer_ids):
            held, given = ("string", "int64") if parsed.integer_ids else ("int64", "string")
            raise OperationError(f"{self.path} holds {held} ids, these are {given}; ids of a store are of one type")

    def _page_in(self, parsed: operations.Parsed, find: int, past: bool) -> None:
        pager = self._disk.pager()
        index, columns = self._index, parsed.columns
        rows, hashes = np.empty(len(parsed), np.int64), np.empty(len(parsed), np.int64)
        count = heads.unknown_ids(index.memory, columns, rows, hashes)
        published = columns.kind[rows[:count]] == records.PUBLICATION
        for kind, mine in ((records.SUBSCRIPTION, ~published), (records.PUBLICATION, published)):
            pager.by_hashes(kind, parsed.identity, rows[:count][mine], hashes[:count][mine])
        earlier = self._ask_for_earlier(parsed, find, pager)
        wants = (past and bool(find & chunk.FIND_PAST), bool(find & chunk.FIND_SUBSCRIBERS))
        pager.by_ranges(index.scalars, columns, wants, self._disk.deepest, earlier)
        self._rows_read += pager.rows_read
        self._page(pager.rows())
        asked = np.flatnonzero(earlier.limit)
        if len(asked):
            beyond = np.where(earlier.complete[asked], records.EARLIEST, records.LATEST)
            heads.know_topics(index.memory, columns, asked, beyond)

    def _ask_for_earlier(self, parsed: operations.Parsed, find: int, pager: Pager) -> Earlier:
        """The topics whose earlier publications have to be read."""
        columns, scalars = parsed.columns, self._index.scalars
        topics = int(columns.topics[-1])
        log_time = heads.latest_time(scalars, columns)
        limit = np.zeros(topics, np.int64)
        earlier = Earlier(limit, np.ones(topics, np.bool_), log_time, self._horizon(log_time))
        if not (columns.earlier > 0).any():
            return earlier
        wanted, hashes, limits = (np.empty(topics, np.int64) for _ in range(3))
        count = heads.unknown_topics(self._index.memory, columns, log_time, wanted, hashes, limits)
        held = pager.topics_on_disk(hashes[:count])
        # What has been replaced since the last commit, or will be now, is still on disk.
        replaced = find & chunk.REPLAY or (self._journal[: int(scalars[records.JOURNAL])] < 0).any()
        limit[wanted[:count][held]] = records.LATEST if replaced else limits[:count][held]
        return earlier

    def _page(self, rows: Rows) -> None:
        """Rows of the disk into the index, until the commit."""
        items = _take_rows(self._index, rows)
        if len(items):
            self._paged.append(items)

    def _finish_commit(self, written: int) -> None:
        """After a commit, when the disk has all."""
        index = self._index
        if self._keeps_heads:
            entries = self._journal[: int(index.scalars[records.JOURNAL])]
            self._paged.append(entries[entries >= 0])
            change.close(index.memory, self._journal)
        self._evict()
        change.sweep(index.memory, _SWEEP_STEPS * (written + 16))
        if not len(index):
            self._disk.release_slots()

    def _evict(self) -> None:
        """Between two stages: only what the next publications ask for stays in memory."""
        index = self._index
        items, self._paged = self._paged, []
        if not self._keeps_heads:
            self._forget()
            return
        for some in items:
            heads.evict(index.memory, some)
        if self._budget.left < 0:
            self._keep_heads(complete=False)

    def _keep_heads(self, *, complete: bool) -> None:
        """The same for all that there is: in an index of its own, as the memory of one does not shrink. None stay if they would soon be
        too many. `complete`: all of the store is in memory."""
        index = self._index
        room = int(index.scalars[records.NODES]) + 1
        items, beyond = np.empty(room, np.int64), np.empty(room, np.int64)
        count = heads.heads(index.memory, complete, items, beyond) if self._keeps_heads else 0
        rows = encode_rows(index.memory, items[:count])[0] if count else None
        index.clear()
        if rows is not None:
            taken = _take_rows(index, rows)
            # the last row is taken first
            heads.know(index.memory, index.memory.items["node"][taken].astype(np.int64), beyond[:count][::-1].copy())
        if self._budget.left < self._budget.for_indexes // 4:
            index.clear()

    def amend(
        self,
        identities: Sequence[bytes] | pa.Array | Texts,
        payloads: Sequence[bytes] | pa.Array | Texts,
    ) -> None:
        """Other payloads for staged publications, by UTF-8 id: what they found may have to be kept with them. Lists, Arrow's binary, or
        `Texts`. Ids that are not staged are passed over.
        """
        self._begin()
        index = self._index
        if index.scalars[records.INTEGER_IDS] == 1:
            raise OperationError(
                f"{self.path} holds int64 ids; only payloads of publications with string ids can be amended"
            )
        ids, given = _spans(identities), _spans(payloads)
        if not len(ids.low):
            return
        # A block is at most an eighth larger than what it holds; and a header, rounded up.
        size = int((ids.high - ids.low).sum() + (given.high - given.low).sum())
        index.reserve(0, 0, size * 9 // (8 * heap.UNIT) + 3 * len(ids.low))
        change.amend(
            index.memory, ids.data, ids.low, ids.high, given.data, given.low, given.high, np.zeros(1, np.uint8)
        )

    def tick(self, log_time: int) -> None:
        """Time goes on without an operation. Staged."""
        self._begin()
        scalars = self._index.scalars
        scalars[records.LOG_TIME] = max(int(scalars[records.LOG_TIME]), log_time)

    def drop_before(self, time: int) -> None:
        """Publications held before that time are not here any more, whatever the hot window says: `complete_from` is not earlier."""
        scalars = self._index.scalars
        scalars[records.COMPLETE_FROM] = max(int(scalars[records.COMPLETE_FROM]), time)

    def put_meta(self, key: bytes, value: bytes | None) -> None:
        """A value of the caller's own, written by the same commit as the rows; None removes it. Staged."""
        self._begin().meta[bytes(key)] = value

    def get_meta(self, key: bytes) -> bytes | None:
        """Staged values included."""
        if self._stage is not None and key in self._stage.meta:
            return self._stage.meta[key]
        return self._disk.get_meta(key)

    def rollback(self) -> None:
        """Forgets everything since the last commit."""
        if self._stage is None:
            return
        if self._in_memory:
            change.undo(self._index.memory, self._journal, 0)
        else:
            self._forget()
        self._stage.restore(self._index.scalars)
        self._stage = None

    def _forget(self) -> None:
        """What is in memory, when the disk has all of it."""
        self._index.clear()
        self._paged.clear()

    def savepoint(self) -> Savepoint:
        """Where `rollback_to` can return to."""
        stage, scalars = self._stage, self._index.scalars
        if stage is None:
            return Savepoint(scalars, 0, {}, False)
        return Savepoint(scalars.copy(), int(scalars[records.JOURNAL]), dict(stage.meta), True)

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Forgets what was staged since then, and keeps what was staged before."""
        if not savepoint.staged:
            self.rollback()
            return
        stage = self._begin()
        change.undo(self._index.memory, self._journal, savepoint.entries)
        restore(self._index.scalars, savepoint.scalars)
        stage.meta.clear()
        stage.meta.update(savepoint.meta)

    def commit(self, offset: int) -> None:
        """Writes all that is staged, and the offset, in one batch."""
        stage = self._begin()
        disk, index = self._disk, self._index
        previous = self._offset
        self._offset = int(offset)
        passed: list[Family] = []
        try:
            batch = rocks.batch()
            if not self._in_memory:
                self._know_staged()
            written = self._write_rows(batch)
            for key, value in stage.meta.items():
                disk.put_meta(batch, key, value)
            passed = disk.take_passed(int(index.scalars[records.LOG_TIME]))
            disk.write(batch, self._state())
        except Exception as error:
            self._offset = previous
            disk.families = passed + disk.families  # the last of a class is the open one, and is used again
            if rocks.is_failure(error):
                raise StoreError(
                    f"{self.path}: offset {offset} was not committed ({error}); nothing was written"
                ) from error
            raise
        self._stage = None
        disk.drop(passed, int(index.scalars[records.SWEEPS]))
        if self._in_memory:
            change.close(index.memory, self._journal)
            change.sweep(index.memory, _SWEEP_STEPS * (written + 16))
            if self._budget.left < 0:
                self._spill()
        else:
            self._finish_commit(written)
            self._commits += 1
            if self._commits % _RELOAD_EVERY == 0 and disk.estimated_rows() // 2 * _USUAL_ITEM < self._budget.left:
                self._load()

    def _know_staged(self) -> None:
        """Topics that have their first publications: all of them are in memory."""
        index = self._index
        entries = int(index.scalars[records.JOURNAL])
        nodes, hashes = np.empty(entries, np.int64), np.empty(entries, np.int64)
        count = heads.staged_topics(index.memory, self._journal, entries, nodes, hashes)
        fresh = nodes[:count][~self._disk.pager().topics_on_disk(hashes[:count])]
        heads.know(index.memory, fresh, np.full(len(fresh), records.EARLIEST, np.int64))

    def _write_rows(self, batch: Any) -> int:
        index = self._index
        entries = int(index.scalars[records.JOURNAL])
        room = disk_rows.count_items(index.memory, self._journal, entries)
        puts, deletes = np.empty(room, np.int64), np.empty(room, np.int64)
        put, deleted = disk_rows.staged_items(index.memory, self._journal, entries, puts, deletes)
        self._disk.delete_rows(batch, index.memory, deletes[:deleted])
        self._disk.put_rows(batch, index.memory, puts[:put])
        return int(put + deleted)

    # One at a time.

    def subscribe(self, identity: int | str, topic: str | list[str] = "", *, time: int, **fields: Any) -> list[Pair]:
        """Stages one subscription; further fields as in an operations table. Returns what it found."""
        return self._one("subscription", identity, topic=topic, time=time, **fields)

    def publish(self, identity: int | str, topic: str | list[str] = "", *, time: int, **fields: Any) -> list[Pair]:
        """Stages one publication; further fields as in an operations table. Returns what it found."""
        return self._one("publication", identity, topic=topic, time=time, **fields)

    def remove(self, identity: int | str, *, time: int | None = None) -> bool:
        """Stages the withdrawal of a subscription. False if there is none."""
        known = self.get(identity) is not None
        self._one("withdrawal", identity, time=time)
        return known

    def _one(self, kind: str, identity: int | str, **fields: Any) -> list[Pair]:
        columns = {"kind": pa.array([kind]), "id": pa.array([identity])}
        for name, value in fields.items():
            columns[name] = pa.array([value])
        pairs = self.apply(pa.table(columns))
        return [
            Pair(*pair) for pair in zip(pairs["found_kind"].to_pylist(), pairs["found_id"].to_pylist(), strict=True)
        ]

    def get(self, identity: int | str, kind: str = SUBSCRIPTION) -> dict[str, Any] | None:
        """The current row of an id, staged changes included; None if there is none, or its time has passed."""
        index = self._index
        if not self._in_memory:
            pager = self._disk.pager()
            pager.by_ids(_KINDS[kind], [encode_id(identity)])
            self._page(pager.rows())
        if index.scalars[records.INTEGER_IDS] != int(isinstance(identity, int)):
            return None
        text = np.frombuffer(bytearray(encode_id(identity)), np.uint8)
        item = disk_rows.item_of(index.memory, _KINDS[kind], identity if isinstance(identity, int) else 0, text)
        row: dict[str, Any] | None = None
        if item != records.NONE:
            row = found.batch(index.memory, np.array([item], np.int64), found.COLUMNS).to_pylist()[0]
        if not self._in_memory and self._stage is None:
            self._evict()
        return row

    def scan(self, kind: str, columns: Sequence[str] = _SCAN_COLUMNS) -> Iterator[Any]:
        """All that is there of a kind, staged changes included, as Arrow record batches: `kind`, `id` and the columns.

        Do not apply, commit or roll back before the iterator has ended.
        """
        number = _KINDS.get(kind)
        if number is None:
            raise OperationError(f"kind is {kind!r}; it must be one of {', '.join(_KINDS)}")
        if not self._in_memory:
            several = self._part()
            for rows in self._disk.slices():
                part = self._part()
                _take_rows(part, rows, disk_rows.SINGLE)
                yield from _batches(part, number, columns, changed=self._index)
                _take_rows(several, rows, disk_rows.MANY)
            yield from _batches(several, number, columns, changed=self._index)
        needed = records.USED if self._in_memory else records.USED | records.STAGED
        yield from _batches(self._index, number, columns, needed=needed)

    # Between memory and disk.

    def _part(self) -> Index:
        """A small index with this store's clock and options."""
        part = Index()
        part.adopt(self._index)
        return part

    def _load(self) -> None:
        """Takes all rows into memory, if the budget holds them; else sees that ids can be found on disk."""
        fits = self._disk.estimated_rows() * _LEAST_ITEM <= self._budget.left
        if fits:
            for rows in self._disk.slices():
                _take_rows(self._index, rows)
                if self._budget.left < 0:
                    fits = False
                    break
        self._in_memory = fits
        self._disk.unread = fits
        if not fits:
            self._forget()
            if not self._disk.has_ids:
                for rows in self._disk.slices():
                    part = self._part()
                    _take_rows(part, rows)
                    self._write_ids(part)
                self._ids_are(True)
        elif self._disk.has_ids:
            self._ids_are(False)

    def _spill(self) -> None:
        """The budget does not hold the index any more: from now on answers come from RocksDB."""
        self._disk.make_readable()
        self._write_ids(self._index)
        self._ids_are(True)
        self._in_memory = False
        self._keep_heads(complete=True)

    def _write_ids(self, index: Index) -> None:
        for kind in _KINDS.values():
            for items in _living(index, kind):
                self._disk.write_ids(index.memory, found.with_copies(index.memory, items))

    def _ids_are(self, there: bool) -> None:
        batch = rocks.batch()
        if there:
            self._disk.has_ids = True
        else:
            self._disk.forget_ids(batch)
        self._disk.write(batch, self._state())


def _wanted(find: str) -> int:
    if find not in FIND:
        raise OperationError(f"find is {find!r}; it must be one of {', '.join(FIND)}")
    return FIND[find]


def _spans(values: Sequence[bytes] | pa.Array | Texts) -> operations.Spans:
    if isinstance(values, Texts):
        return operations.Spans.of(values)
    column = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
    return operations.Spans.of(operations.text_column(column, len(column)))


def _room_for_found(length: int) -> Found:
    return Found(np.empty(length, np.int64), np.empty(length, np.int32), np.empty(4 * length, np.int64))


def _back(time: int, span: int) -> int:
    return max(records.EARLIEST, time - span)


def _take_rows(index: Index, rows: Rows, which: int = disk_rows.ALL) -> Array:
    """Returns the items."""
    count = len(rows.key_ends)
    units, nodes = disk_rows.room_for(rows, 0, count)
    index.reserve(count, nodes, units)
    taken = np.empty(count, np.int64)
    return taken[: disk_rows.load(index.memory, rows, 0, count, which, taken)]


def _living(index: Index, kind: int, needed: int = records.USED) -> Iterator[Array]:
    start = 0
    while start < index.scalars[records.ITEM_TOP]:
        items = np.empty(rocks.SLICE, np.int64)
        count, start = disk_rows.living(index.memory, kind, start, needed, items)
        if count:
            yield items[:count]


def _batches(
    index: Index, kind: int, columns: Sequence[str], *, needed: int = records.USED, changed: Index | None = None
) -> Iterator[Any]:
    for items in _living(index, kind, needed):
        if changed is not None:
            items = items[: disk_rows.unchanged_in(index.memory, changed.memory, items)]
        if len(items):
            yield found.batch(index.memory, items, tuple(columns))
