"""A store: subscriptions and publications of one rendezvous partition, durable in RocksDB."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pastforward.columns.hashing import hash_id
from pastforward.columns.texts import Texts
from pastforward.state import found, operations, rocks
from pastforward.state.budget import Budget
from pastforward.state.clock import Clock
from pastforward.state.disk import Disk
from pastforward.state.errors import OperationError, StoreError
from pastforward.state.families import Family
from pastforward.state.kernels import change, chunk, disk_rows, heap, records
from pastforward.state.kernels.records import Array, Found, Notes
from pastforward.state.keys import PUBLICATION, SUBSCRIPTION, encode_id
from pastforward.state.publications import Publications
from pastforward.state.sealing import Reader
from pastforward.state.search import EVERYTHING, Filter, Search
from pastforward.state.searching import PastSearch, questions_of
from pastforward.state.stage import Savepoint, Stage, journal_with_room, restore
from pastforward.state.subscriptions import Subscriptions

FIND: Final = {
    "both": chunk.FIND_PAST | chunk.FIND_SUBSCRIBERS,
    "past": chunk.FIND_PAST,
    "none": 0,
    "replay": chunk.REPLAY,
}
_KINDS: Final = {SUBSCRIPTION: records.SUBSCRIPTION, PUBLICATION: records.PUBLICATION}
_KEPT_FOUND: Final = 1 << 18
"""Pairs for which room is kept between two chunks."""
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
    """Subscriptions in memory and publications, what time has removed but nobody has swept yet included."""
    in_memory: bool
    """False: the budget does not hold the subscriptions, they are read from RocksDB."""
    index_bytes: int
    families: int
    slices: int


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
        reader: Reader | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.layout = layout
        self._budget = budget
        self._subscriptions = Subscriptions(budget)
        index = self._subscriptions.index
        self._clock = Clock(index, hot_window, lateness, earlier_limit)
        self._stage: Stage | None = None
        self._duplicates: Array = np.empty(0, np.int64)
        self._found = _room_for_found(4096)
        self._asked: tuple[operations.Parsed, Notes] | None = None
        self._offset: int | None = None
        self._closed = False
        self._disk = Disk(path, layout, budget)
        self._publications = Publications(self._disk, budget, index, reader)
        self._sized = (index, self._disk, self._publications)
        for sized in self._sized:
            budget.register(sized)
        budget.stores += 1
        try:
            self._resume(self._disk.state)
        except Exception as error:
            self.close()
            if rocks.is_failure(error):
                raise self._disk.damaged(error) from error
            raise

    def _resume(self, state: dict[str, Any]) -> None:
        longer = 0
        if state:
            self._offset = state["offset"]
            longer = self._clock.resume(state)
        self._publications.load(state)
        self._lengthen(longer)
        if self._subscriptions.load(self._disk):
            self._ids_are(self._disk.has_ids)

    def _lengthen(self, longer: int) -> None:
        """Windows are longer than those which the rows were written for: their families stay for the difference."""
        for family in self._disk.families:
            family.until = min(records.LATEST, family.until + longer)
        self._publications.lengthen(longer)

    def change_windows(self, hot_window: int, lateness: int) -> None:
        """From here on, between two commits. What a shorter window has dropped stays away: `complete_from` says from where all is here."""
        self._lengthen(self._clock.change_windows(hot_window, lateness))

    def _state(self) -> dict[str, Any]:
        return {"offset": self._offset, **self._clock.state(), "slices": self._publications.record()}

    def close(self) -> None:
        """Gives up what is staged, and the directory. Closing again does nothing."""
        if not self._closed:
            self._closed = True
            self._publications.close()
            for sized in self._sized:
                self._budget.unregister(sized)
            self._budget.stores -= 1
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
        return self._clock.log_time

    @property
    def complete_from(self) -> int | None:
        """Publications held before this may be gone: a subscription's horizon is never earlier."""
        time = self._clock.complete_from
        return None if time == records.EARLIEST else time

    @property
    def duplicates(self) -> Array:
        """Rows of the last `apply` that were dropped: publications whose id is still kept."""
        return self._duplicates

    @property
    def stats(self) -> Stats:
        subscriptions, publications = self._subscriptions, self._publications
        scalars, opened = subscriptions.index.scalars, publications.open.scalars
        read = subscriptions.rows_read + publications.rows_read
        return Stats(
            records_read=int(scalars[records.RECORDS_READ] + opened[records.RECORDS_READ]) + read,
            duplicates=int(scalars[records.DUPLICATES]),
            items=len(subscriptions.index) + len(publications),
            in_memory=subscriptions.in_memory,
            index_bytes=sum(sized.size for sized in self._sized),
            families=len(self._disk.families),
            slices=len(publications.slices),
        )

    # Staging.

    def _begin(self) -> Stage:
        if self._closed:
            raise StoreError(f"{self.path} has been closed; open it again with open_store")
        if self._stage is None:
            self._stage = Stage.begin(self._clock.scalars)
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
        wanted, names = _wanted(find), tuple(columns)
        rows, items = self._apply(operations.parse(table), wanted)
        mine = items >= 0
        parts = [
            found.table(self._subscriptions.index.memory, rows[mine], items[mine], names),
            found.table(self._publications.open.memory, rows[~mine], -1 - items[~mine], names),
        ]
        if wanted & chunk.FIND_PAST:
            parts += self._search(None).table(names)
        parts = [part for part in parts if len(part)] or parts[:1]
        pairs = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()
        if len(parts) == 1:
            return pairs
        return pairs.take(pa.array(np.argsort(pairs["operation"].to_numpy(), kind="stable")))

    def apply_columns(self, batch: operations.Batch, *, find: str = "both") -> found.Found:
        """The same for who goes on in columns: of small chunks Arrow would be half of the price. Ids must be strings, and each row must
        tell the time (`now`). What subscriptions find of the past may be all that there is: see `search`."""
        rows, items = self._apply(operations.parse(batch), _wanted(find))
        mine = items >= 0
        subscribed = found.columns(self._subscriptions.index.memory, rows[mine], items[mine])
        if mine.all():
            return subscribed
        published = found.columns(self._publications.open.memory, rows[~mine], -1 - items[~mine])
        return published if not mine.any() else found.together(published, subscribed)

    def search(self, filters: Mapping[int, Filter] | None = None) -> Search:
        """What the subscriptions of the last `apply_columns` find of the past: of all of them, or of the rows that `filters` has, each with
        what it must satisfy. To be made before anything else is applied."""
        return self._search(filters)

    def _search(self, filters: Mapping[int, Filter] | None) -> PastSearch:
        if self._asked is None:
            raise StoreError("there is nothing to search for: call apply_columns first, with find='past' or 'both'")
        rows, questions = questions_of(*self._asked, filters)
        return PastSearch(self._publications, questions, rows, filters, EVERYTHING)

    def past(self) -> Iterator[found.Past]:
        """The pieces of a search for all subscriptions of the last `apply_columns`."""
        if self._asked is not None:
            search = self.search()
            while (piece := search.take()) is not None:
                yield piece

    def _apply(self, parsed: operations.Parsed, find: int) -> tuple[Array, Array]:
        self._begin()
        self._clock.check_ids(parsed, self.path)
        subscriptions, publications = self._subscriptions, self._publications
        count = len(parsed)
        subscriptions.page_in(self._disk, parsed, find)
        publications.prepare(parsed, find)
        if (parsed.columns.kind == records.SUBSCRIPTION).any():
            subscriptions.index.reserve(parsed.items, parsed.nodes, parsed.heap_units)
        entries = [int(index.scalars[records.JOURNAL]) for index in (subscriptions.index, publications.open)]
        subscriptions.journal = journal_with_room(subscriptions.journal, entries[0], count)
        publications.journal = journal_with_room(publications.journal, entries[1], count)
        notes = Notes(
            subscriptions.journal,
            publications.journal,
            np.zeros(count, np.bool_),
            *(np.zeros(count, np.int64) for _ in range(3)),
        )
        read = subscriptions.index.scalars[records.RECORDS_READ]
        result = self._apply_rows(parsed, find, notes)
        if not subscriptions.in_memory:
            # What was looked at has been counted when it was read from disk.
            subscriptions.index.scalars[records.RECORDS_READ] = read
        publications.applied(parsed)
        self._duplicates = np.flatnonzero(notes.duplicates)
        self._asked = (parsed, notes) if find & chunk.FIND_PAST else None
        return result

    def _apply_rows(self, parsed: operations.Parsed, find: int, notes: Notes) -> tuple[Array, Array]:
        index, held = self._subscriptions.index, self._publications.open
        row = count = 0
        while True:
            row, count = chunk.apply_rows(
                index.memory, held.memory, parsed.columns, row, find, self._found, count, notes
            )
            if row == len(parsed):
                break
            larger = _room_for_found(2 * len(self._found.row))
            larger.row[:count] = self._found.row[:count]
            larger.item[:count] = self._found.item[:count]
            self._found = larger
        rows, items = self._found.row[:count].copy(), self._found.item[:count].astype(np.int64)
        if len(self._found.row) > _KEPT_FOUND:
            self._found = _room_for_found(_KEPT_FOUND)
        return rows, items

    def amend(
        self,
        identities: Sequence[bytes] | pa.Array | Texts,
        payloads: Sequence[bytes] | pa.Array | Texts,
    ) -> None:
        """Other payloads for staged publications, by UTF-8 id: what they found may have to be kept with them. Lists, Arrow's binary, or
        `Texts`. Ids that are not staged are passed over.
        """
        self._begin()
        index = self._publications.open
        if self._clock.scalars[records.INTEGER_IDS] == 1:
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
        self._clock.tick(log_time)

    def drop_before(self, time: int) -> None:
        """Publications held before that time are not here any more, whatever the hot window says: `complete_from` is not earlier."""
        self._clock.drop_before(time)

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
        self._subscriptions.rollback_to(0)
        self._publications.rollback_to(0)
        self._stage.restore(self._clock.scalars)
        self._stage = None

    def savepoint(self) -> Savepoint:
        """Where `rollback_to` can return to."""
        stage, scalars = self._stage, self._clock.scalars
        if stage is None:
            return Savepoint(scalars, 0, 0, {}, False)
        held = int(self._publications.open.scalars[records.JOURNAL])
        return Savepoint(scalars.copy(), int(scalars[records.JOURNAL]), held, dict(stage.meta), True)

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Forgets what was staged since then, and keeps what was staged before."""
        if not savepoint.staged:
            self.rollback()
            return
        stage = self._begin()
        change.undo(self._subscriptions.index.memory, self._subscriptions.journal, savepoint.entries)
        self._publications.rollback_to(savepoint.held_entries)
        restore(self._clock.scalars, savepoint.scalars)
        stage.meta.clear()
        stage.meta.update(savepoint.meta)

    def commit(self, offset: int) -> None:
        """Writes all that is staged, and the offset, in one batch."""
        stage = self._begin()
        disk, publications = self._disk, self._publications
        previous = self._offset
        self._offset = int(offset)
        passed: list[Family] = []
        try:
            batch = rocks.batch()
            written = self._subscriptions.write(disk, batch)
            sealed = publications.write(batch)
            for key, value in stage.meta.items():
                disk.put_meta(batch, key, value)
            passed = disk.take_passed(int(self._clock.scalars[records.LOG_TIME]), publications.families_read())
            publications.drop_passed(int(self._clock.scalars[records.LOG_TIME]))
            state = self._state()
            state["slices"] += [[made.serial, made.until] for made in sealed.slices]
            disk.write(batch, state)
        except Exception as error:
            self._offset = previous
            disk.families = passed + disk.families  # the last of a class is the open one, and is used again
            if rocks.is_failure(error):
                raise StoreError(
                    f"{self.path}: offset {offset} was not committed ({error}); nothing was written"
                ) from error
            raise
        self._stage = None
        disk.drop(passed, int(self._clock.scalars[records.SWEEPS]))
        publications.committed(sealed)
        if self._subscriptions.committed(disk, written):
            self._ids_are(disk.has_ids)

    def _ids_are(self, there: bool) -> None:
        batch = rocks.batch()
        if not there:
            self._disk.forget_ids(batch)
        self._disk.write(batch, self._state())

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
        number = _KINDS[kind]
        if self._clock.scalars[records.INTEGER_IDS] != int(isinstance(identity, int)):
            return None
        text = np.frombuffer(bytearray(encode_id(identity)), np.uint8)
        plain = identity if isinstance(identity, int) else int(hash_id(text, 0, len(text)))
        subscriptions, publications = self._subscriptions, self._publications
        index = subscriptions.index
        if number == records.PUBLICATION:
            index = publications.know_id(plain)
        else:
            subscriptions.page_in_id(self._disk, encode_id(identity))
        item = disk_rows.item_of(index.memory, number, plain, text)
        row: dict[str, Any] | None = None
        if item != records.NONE:
            row = found.batch(index.memory, np.array([item], np.int64), found.COLUMNS).to_pylist()[0]
        if self._stage is None:
            subscriptions.forget()
            publications.trim()
        return row

    def publication_times(self) -> Iterator[tuple[Array, Array, Array]]:
        """When the publications that are there were published, arrived, and expire."""
        return self._publications.times()

    def scan(self, kind: str, columns: Sequence[str] = _SCAN_COLUMNS) -> Iterator[Any]:
        """All that is there of a kind, staged changes included, as Arrow record batches: `kind`, `id` and the columns.

        Do not apply, commit or roll back before the iterator has ended.
        """
        if kind not in _KINDS:
            raise OperationError(f"kind is {kind!r}; it must be one of {', '.join(_KINDS)}")
        if kind == SUBSCRIPTION:
            return self._subscriptions.scan(self._disk, tuple(columns))
        return self._publications.scan(tuple(columns))


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
