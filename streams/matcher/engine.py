"""What a rendezvous partition does with its log, a chunk at a time: the same findings as `streams.reference`, by columns.

The store remembers (`state`), the index decides (`matching`). A chunk mixes subscriptions and publications, and gives exactly what one
record after the other would: new subscriptions are put into the index before the chunk's publications are matched, replaced ones are
taken out after it, and a pair counts if the subscription was there at the publication's place in the log. The past of a subscription
comes from the store, which applies the same chunk in the same order.

What is staged by `process` becomes durable with `commit`. A chunk is atomic: when it raises, the engine is as it was before.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.matching import Index, oracle
from pastforward.matching.attributes import Attributes
from pastforward.matching.flat import Places
from pastforward.matching.flat import Texts as FlatTexts
from pastforward.matching.index import NewSubscription
from pastforward.matching.normal_form import ALWAYS, PREVIOUS, NormalForm
from pastforward.matching.oracle import SEMANTICS
from pastforward.matching.publications import attributes_of as columns_of
from pastforward.matching.records import INTERSECT, SUBTREE_SCOPE, SYMMETRIC, VALID_TIME
from pastforward.matching.values import Value
from pastforward.schemas import (
    NEVER,
    BackfillRequest,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Notification,
    NotificationColumns,
    RendezvousColumns,
    Texts,
    Version,
    attributes_of,
    decode_rendezvous,
    decode_rendezvous_chunk,
)
from pastforward.schemas.columns import (
    CLASSICAL,
    FROM_NONE,
    FROM_PUBLICATIONS,
    FROM_SUBSCRIPTIONS,
    LIVE,
    NO_BEST,
    PAST,
    PUBLICATION,
    SUBSCRIPTION,
    SUBTREE,
    VALID,
    WITHDRAWAL,
)
from pastforward.schemas.flat_conditions import flat_conditions
from pastforward.schemas.limits import MAX_CANONICAL_BYTES
from pastforward.state import EARLIEST, KIND, Batch, Found, Store, Text
from pastforward.streams.matcher import best_offers as auctions
from pastforward.streams.matcher.best_offers import Auction, Auctions, Bidder, Changes
from pastforward.streams.matcher.cold import FOREVER, Gone
from pastforward.streams.matcher.duplicates import Repeats
from pastforward.streams.matcher.notifications import as_columns, notifications_of, tell
from pastforward.streams.matcher.progress import Progress, decode_progress, encode_progress
from pastforward.streams.matcher.subscribers import ALONE, NEEDS_PREVIOUS, OLD, SELF_JOIN, Subscriber, Subscribers
from pastforward.streams.matcher.subscribers import ALWAYS as ALWAYS_MATCHES
from pastforward.streams.reference import EARLIER, offer_of, query_of
from pastforward.streams.routing import Directory, reports
from pastforward.streams.stages import kernels
from pastforward.streams.stages.attributes import take
from pastforward.streams.stages.guard import in_halves
from pastforward.streams.stages.kernels import event_ends, event_names, fresh_rows, pack_all, packed_ends
from pastforward.streams.stages.packed import Packed

log = logging.getLogger("pastforward.matcher")

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CODES: Final = np.zeros(4, np.uint8)  # a record's kind, as the store has it
CODES[[SUBSCRIPTION, PUBLICATION, WITHDRAWAL]] = KIND["subscription"], KIND["publication"], KIND["withdrawal"]
SCOPES: Final = ("overlap", "subtree")
TIMES: Final = ("published", "valid")
SCOPE_FLAGS: Final = np.array([0, SUBTREE_SCOPE], np.uint8)  # of the index's records, by their number in the columns
TIME_FLAGS: Final = np.array([0, VALID_TIME], np.uint8)
SEMANTICS_FLAGS: Final = np.array([0, SYMMETRIC, INTERSECT], np.uint8)
ORIGINS: Final = {FROM_SUBSCRIPTIONS: "subscriptions", FROM_PUBLICATIONS: "publications"}
PROGRESS: Final = b"progress"
BATCH: Final = 10_000  # subscriptions a step when a state is loaded
LATE: Final = 1 << 62  # a place behind every chunk
MOST_COVERS: Final = (
    2 << 20
)  # bytes of other subscriptions in a backfill request: the broker takes twice that, with its own
MARK: Final = bytes([kernels.MARK])
NO_CONDITION: Final = b"\x02\x00\x00"  # in Avro: one disjunct of no constraints


@dataclass(slots=True)
class Effects:
    """What a chunk has led to. `live`: the raw rendezvous record of a subscription that is held, or None for one that is not; auctions
    and repeats in the same way, under their keys."""

    told: list[NotificationColumns] = field(default_factory=list)
    best: list[Notification] = field(default_factory=list)
    offers: list[BestOffer] = field(default_factory=list)
    requests: list[BackfillRequest] = field(default_factory=list)
    live: dict[bytes, bytes | None] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    moved: list[bytes] = field(default_factory=list)  # subscriptions that came through two partitions of the input

    @property
    def notifications(self) -> list[Notification]:
        """One by one, for who wants to look at them."""
        return [notification for columns in self.told for notification in notifications_of(columns)] + self.best

    def columns(self) -> list[NotificationColumns]:
        """All of them."""
        return [*self.told, as_columns(self.best)] if self.best else self.told


class Before(NamedTuple):
    """What came before a publication on its topic, fixed when it came: the record of the previous one, and ids."""

    previous: bytes | None = None
    earlier: tuple[str, ...] = ()


NOTHING: Final = Before()


class _Found:
    """What the store has found for the rows of a chunk, by row."""

    def __init__(self, found: Found, stored: Rows) -> None:
        self.rows: Rows = stored[found.row]
        self.published: Flags = found.published
        self.payloads = Packed(found.payloads, found.payload_at)
        self.ids = Packed(found.ids, found.id_at)

    def payload(self, at: Rows) -> list[bytes]:
        return self.payloads.take(at).list()


class _Befores:
    """What came before each publication of a chunk: `first[i]:last[i]` of what the store has found, the latest first."""

    def __init__(self, found: _Found | None, columns: RendezvousColumns, rows: Rows) -> None:
        self._found, self._columns, self._rows = found, columns, rows
        self.first = self.last = np.zeros(len(rows), np.int64)
        if found is not None and len(rows):
            # of the rows that are publications, found publications come before found subscriptions or have none beside them
            mine = np.flatnonzero(found.published)
            self._at = mine
            self.first = np.searchsorted(found.rows[mine], rows, "left")
            self.last = np.searchsorted(found.rows[mine], rows, "right")

    def __getitem__(self, i: int) -> Before:
        if self.first[i] == self.last[i] or self._found is None:
            return NOTHING
        at = self._at[self.first[i] : self.last[i]]
        previous = unpack(self._found.payloads.text(int(at[0])))[0]
        if not self._columns.self_join[self._rows[i]]:
            return Before(previous)
        names = self._found.ids.take(at).list()
        return Before(previous, tuple(name.partition(b"\0")[0].decode() for name in names))

    def packed(self, values: Packed) -> tuple[Rows, Packed]:
        """The publications that have something before them, and what the store is to keep of them."""
        some = np.flatnonzero(self.last > self.first)
        if not len(some) or self._found is None:
            return some, Packed.of([])
        payloads, ids = self._found.payloads, self._found.ids
        if len(self._at) < len(self._found.rows):
            payloads, ids = payloads.take(self._at), ids.take(self._at)
        first, last, rows = self.first[some], self.last[some], self._rows[some]
        ends = np.zeros(len(some) + 1, np.int64)
        joins = self._columns.self_join
        suffix = 1 + np.maximum(self._columns.topic.length[rows], 0).astype(np.int64)
        packed_ends(first, last, rows, joins, payloads.data, payloads.at, ids.at, suffix, values.at, ends)
        out = np.empty(int(ends[-1]), np.uint8)
        pack_all(
            first, last, rows, joins, payloads.data, payloads.at, ids.data, ids.at, suffix, values.data, values.at, ends,
            out,
        )  # fmt: skip
        return some, Packed(out, ends)


@dataclass(slots=True)
class _Publications:
    """Publications to be matched: of the chunk itself, or found in the store."""

    columns: RendezvousColumns
    rows: Rows
    before: _Befores | list[Before]

    def partitions(self, i: int) -> tuple[int, ...]:
        return _partitions(self.columns, int(self.rows[i]))

    def topics(self) -> FlatTexts:
        return FlatTexts(*self.columns.topic.take(self.rows).for_kernel())


class Engine:
    """The state of one rendezvous partition, over a store and, if subscriptions are looked up in memory, an index."""

    def __init__(
        self, number: int, hot_window: int, store: Store, *, in_memory: bool, version: int = 1, algorithm: str = "auto"
    ) -> None:
        self.number = number
        self.version = version  # of the routing; a pair of two records from before it is another engine's to report
        self.hot_window = self._configured = hot_window
        self.progress = Progress(hot_window=hot_window)
        self.subscribers = Subscribers()
        self.auctions = Auctions(store)
        self.repeats = Repeats(store)
        self.applied = 0  # up to which offset; at least once, a rebuilt state may be ahead of what is read again
        self._store = store
        self._algorithm = algorithm
        self._index = Index(algorithm) if in_memory else None
        self.cut: dict[int, int] = {}  # highest offset of each publications partition before the chunk
        self._ending: list[
            tuple[int, int, tuple[int, int, int]]
        ] = []  # by `ends_at`: handles to take out when it is over
        self._popped: list[tuple[int, int, tuple[int, int, int]]] = []  # of them, by the chunk that is in the works
        self._owed: dict[bytes, bytes | None] = {}  # to the changelog: the next chunk writes it
        self._stuck: set[int] = set()  # handles that the index has failed to take out: they match nothing any more

    # ------------------------------------------------------------------------------------------ a chunk

    def process(self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int]) -> Effects:
        """`timestamps`: microseconds that Kafka gave the rendezvous records; the time of a tick. `offsets`: theirs."""
        with self.chunk(values, timestamps, offsets) as effects:
            return effects

    @contextlib.contextmanager
    def chunk(self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int]) -> Iterator[Effects]:
        """`process`, with what the caller does with the effects in the same atomic step."""
        with self._atomic():
            chunk = self._run(values, timestamps, offsets)
            yield chunk.effects
        self._owed.clear()
        self._release(chunk)

    def refuse(self, offset: int) -> None:
        """The record there has no effect from here on, but for the time that it tells: now, in a replay, and in a rebuild."""
        self.progress.refuse(offset)

    def skip(self, offset: int) -> None:
        """Passes a record that cannot even tell the time."""
        self.applied = max(self.applied, offset + 1)

    @contextlib.contextmanager
    def _atomic(self) -> Iterator[None]:
        """Whatever raises within leaves nothing behind. What cannot be undone comes after it."""
        progress, cut, applied = self.progress.copy(), self.cut, self.applied
        savepoint = self._store.savepoint()
        self.subscribers.begin()
        self.auctions.begin()
        self.repeats.begin()
        self._popped.clear()
        try:
            yield
        except BaseException:
            self.progress, self.cut, self.applied = progress, cut, applied
            self._store.rollback_to(savepoint)
            taken = self.subscribers.taken
            self.subscribers.undo()
            self.auctions.undo()
            self.repeats.undo()
            for ending in self._popped:
                heapq.heappush(self._ending, ending)
            self._restore_index(taken)
            raise

    def _restore_index(self, taken: list[int]) -> None:
        """As it was before a chunk that had taken these handles. If it cannot be brought there, it is made anew."""
        if self._index is None or not taken:
            return
        self._take_out(taken)
        if len(self._index) == len(self.subscribers) + len(self._stuck):
            return
        log.warning("partition %d: the index is made anew", self.number)
        self._index, self._stuck = Index(self._algorithm), set()
        for batch in self._store.scan("subscription", ("payload",)):
            columns = decode_rendezvous_chunk(batch["payload"].to_pylist())
            handles = [self.subscribers.find(name or b"") for name in columns.id]
            rows = [row for row, handle in enumerate(handles) if handle is not None]
            add_to(self._index, columns, np.array(rows, np.int64), np.array([handles[row] for row in rows], np.int64))

    def _take_out(self, handles: Sequence[int]) -> None:
        """From the index. It does not raise: what has happened cannot be undone any more."""
        if self._index is None:
            return
        index = self._index

        def stuck(handle: int, error: Exception) -> None:
            log.warning("partition %d: the index keeps a subscription that is over", self.number, exc_info=error)
            self._stuck.add(handle)

        in_halves(lambda some: index.remove_many(np.array(some, np.int64)), stuck, handles)

    def _release(self, chunk: _Chunk) -> None:
        """What nobody refers to any more when a chunk has come to its end."""
        removed = list(chunk.removed)
        if removed:
            self._take_out(removed)
        for handle in [*removed, *chunk.unused]:
            if handle not in self._stuck:
                self.subscribers.release(handle)

    def _run(self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int]) -> _Chunk:
        columns = decode_rendezvous_chunk(values)
        if columns.errors:
            row, error = columns.errors[0]
            raise ValueError(f"offset {offsets[row]} of the rendezvous log is no record of ours: {error.reason}")
        effects = Effects(live=dict(self._owed))
        fresh = self._fresh(columns, effects)
        # a tick that is read again has told its time; what came after it must not be ended by it
        fresh &= (columns.origin != FROM_NONE) | (np.asarray(offsets, np.int64) >= self.applied)
        chunk = _Chunk(self, columns, list(values), fresh, self._log_times(columns, timestamps, fresh), effects)
        chunk.loud_from = self._loud_from(columns, fresh)
        if self.progress.refused:
            refused = self._refused(offsets)
            chunk.withhold(refused)
            for row in np.flatnonzero(refused).tolist():
                self.progress.refused[offsets[row]] = int(chunk.log_time[row])  # which it may have told itself
        chunk.run(offsets)
        if effects.dropped:
            self._note_repeats(chunk, np.asarray(offsets, np.int64))
        before = self.rebuilt_from(self.progress.log_time)
        if self.repeats:
            effects.live.update(dict.fromkeys(self.repeats.forget(before)))
        if self.progress.refused:
            self.progress.forget_refused(before)
        self.applied = max(self.applied, offsets[-1] + 1)
        return chunk

    def _refused(self, offsets: Sequence[int]) -> Flags:
        refused = np.array(list(self.progress.refused), np.int64)
        return np.isin(np.asarray(offsets, np.int64), refused)

    def _note_repeats(self, chunk: _Chunk, offsets: Rows) -> None:
        """Publications that were dropped; but for those that are read again, of which the first reading has decided."""
        dropped = (chunk.columns.kind == PUBLICATION) & ~chunk.came
        dropped[chunk.repeats] = True
        rows = np.flatnonzero(dropped & (offsets >= self.applied))
        chunk.effects.live.update(self.repeats.note(offsets[rows], chunk.log_time[rows]))

    def rebuilt_from(self, log_time: int) -> int:
        """What arrived earlier is not held, nor was it there when what is held came."""
        return log_time - 2 * self.hot_window

    def _loud_from(self, columns: RendezvousColumns, fresh: Flags) -> int:
        """The first row from which on auctions are this version's: until it came, the earlier version has told what there was."""
        if not self.progress.silent:
            return 0
        new = np.flatnonzero((columns.routing_version >= self.version) & (columns.origin != FROM_NONE) & fresh)
        self.progress.silent = not len(new)
        return int(new[0]) if len(new) else len(columns)

    def _fresh(self, columns: RendezvousColumns, effects: Effects) -> Flags:
        """Not at or below the highest offset seen of their origin."""
        origin, partition = columns.origin, columns.partition
        fresh = np.empty(len(columns), np.bool_)
        seen = np.full((len(ORIGINS), int(partition.max(initial=0)) + 1), -1, np.int64)
        known = self.progress.seen
        for number, name in ORIGINS.items():
            for at in range(seen.shape[1]):
                seen[number, at] = known.get((name, at), -1)
        repeats = fresh_rows(origin, partition, columns.offset, FROM_NONE, seen, fresh)
        for number, name in ORIGINS.items():
            for at, highest in enumerate(seen[number].tolist()):
                if highest >= 0:
                    known[name, at] = highest
        if repeats:
            effects.dropped["repeat"] += repeats
        return fresh

    def _log_times(self, columns: RendezvousColumns, timestamps: Sequence[int], fresh: Flags) -> Rows:
        """The log time at each row, itself included."""
        tick = columns.origin == FROM_NONE
        if tick.any():
            columns.arrived_at[tick] = np.asarray(timestamps, np.int64)[tick]
        times = np.where(fresh, columns.arrived_at, self.progress.log_time)
        times = np.maximum.accumulate(np.maximum(times, self.progress.log_time))
        self.progress.log_time = int(times[-1])
        return times

    def commit(self, offset: int) -> None:
        """Rows, progress and offset in one write."""
        self._store.put_meta(PROGRESS, encode_progress(self.progress, max(self.applied, offset)))
        self._store.commit(offset)

    def commit_part(self, offset: int) -> None:
        """In the middle of a rebuild: without its progress a state is not taken for one."""
        self._store.commit(offset)

    def close(self) -> None:
        self._store.close()

    # ------------------------------------------------------------------------------------------ how it begins

    @property
    def offset(self) -> int | None:
        """Where the store stands; None: it is new."""
        return self._store.offset

    @property
    def size(self) -> tuple[int, int]:
        """Subscriptions and items held."""
        return len(self.subscribers), self._store.stats.items

    @property
    def index(self) -> Index | None:
        """None: subscriptions are looked up on disk."""
        return self._index

    def state_bytes(self) -> dict[str, int]:
        """What the store takes, in memory and on disk."""
        files = (os.path.join(at, name) for at, _, names in os.walk(self._store.path) for name in names)
        disk = 0
        for file in files:
            with contextlib.suppress(OSError):  # RocksDB has just removed it
                disk += os.stat(file).st_size
        return {"memory": self._store.stats.index_bytes, "disk": disk}

    def begin(self, entry: Directory, open_auctions: Iterable[bytes] = ()) -> None:
        """A version of the routing that is made on a running system reads publications from a point on; what was before is gone, but for
        auctions that are still open."""
        for payload in open_auctions:
            self._reopen(payload)
        self.progress.seen = {("publications", p): at - 1 for p, at in enumerate(entry.starts)}
        self.cut = self.progress.cut()
        if any(entry.starts):
            self.progress.complete_from = entry.begins_at
            self.progress.gone = Gone(FOREVER, FOREVER)
        self.progress.silent = True

    def load(self) -> None:
        """From a store that has been used before."""
        value = self._store.get_meta(PROGRESS)
        if value is None:
            raise ValueError(f"{self._store.path} was not written by a worker")
        self.progress, self.applied = decode_progress(value)
        self._change_window()
        self.cut = self.progress.cut()
        self.repeats.load()
        for slot, payload in self.auctions.stored():
            self._reopen(payload, slot)
        for batch in self._store.scan("subscription", ("payload",)):
            in_halves(self._hold, self._cannot_hold, batch["payload"].to_pylist())
        for batch in self._store.scan("publication", ("time", "arrived_at", "expires_at")):
            published, arrived = batch["time"].to_numpy(), batch["arrived_at"].to_numpy()
            expires = batch["expires_at"].fill_null(NEVER).to_numpy()
            self.progress.gone.add_columns(np.minimum(published, arrived), published, expires)
        self.progress.gone.fold(self.horizon(self.progress.log_time))
        self.auctions.settle(Changes(0, self.progress.log_time))  # as it was; nobody is told again

    def rebuild(self, known: Progress) -> None:
        """First of all: what is rebuilt was fixed under the window that was in force then, and without what was refused."""
        self.progress.refused = dict(known.refused)
        if known.hot_window:
            self._set_window(known.hot_window)

    def _set_window(self, hot_window: int) -> None:
        if hot_window != self.hot_window:
            self.hot_window = hot_window
            self._store.change_windows(hot_window, hot_window)

    def remember(
        self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int], log_time: int
    ) -> None:
        """Publications of a stretch of the log, and its time, without finding anything: what a lost store is rebuilt from.

        After the repeats. `log_time`: that at the end of the log. A stretch goes by stamps, and what was routed late is stamped long after
        its arrival: nobody knows any more which of that were repeats, and it is not needed.
        """
        with self._atomic():
            columns = decode_rendezvous_chunk(values)
            # subscriptions tell the time as well, though they come from elsewhere
            log_times = self._log_times(columns, timestamps, np.ones(len(columns), np.bool_))
            wanted = (columns.kind == PUBLICATION) & (columns.arrived_at >= self.rebuilt_from(log_time))
            wanted &= ~self.repeats.among(np.asarray(offsets, np.int64)) & ~self._refused(offsets)
            _Chunk(self, columns, list(values), wanted, log_times, Effects()).remember()

    def adopt(
        self, values: Sequence[bytes], open_auctions: Mapping[bytes, bytes], progress: Progress, reached: int
    ) -> None:
        """Live subscriptions and open auctions as the changelog has them, and how far they had come. After the publications."""
        self.applied = reached
        gone = self.progress.gone
        gone.published, gone.expires = progress.gone.published, progress.gone.expires
        self.progress = replace(progress, gone=gone)
        self._set_window(self._configured)
        self._change_window()
        self.cut = self.progress.cut()
        for key, payload in open_auctions.items():
            auction = self._reopen(payload)
            if auction is not None and key != auctions.KEY + auction.name.encode():
                # as the first version has written it
                self._owed |= {key: None, auctions.KEY + auction.name.encode(): payload}
        for start in range(0, len(values), BATCH):
            in_halves(self._adopt, self._cannot_hold, values[start : start + BATCH])
        self.auctions.settle(Changes(0, self.progress.log_time))

    def _adopt(self, values: Sequence[bytes]) -> None:
        with self._atomic():
            columns = decode_rendezvous_chunk(values)
            log_time = np.full(len(values), self.progress.log_time, np.int64)
            _Chunk(self, columns, list(values), np.ones(len(values), np.bool_), log_time, Effects()).adopt()
            self._hold_columns(columns)

    def _hold(self, values: Sequence[bytes]) -> None:
        with self._atomic():
            self._hold_columns(decode_rendezvous_chunk(values))

    def _cannot_hold(self, value: bytes, error: Exception) -> None:
        log.error("partition %d: a subscription cannot be held any more: %r", self.number, value[:200], exc_info=error)

    def _reopen(self, payload: bytes, slot: int | None = None) -> Auction | None:
        def cannot(_: bytes, error: Exception) -> None:
            log.error("partition %d: an auction cannot be opened again", self.number, exc_info=error)

        def reopen(payloads: Sequence[bytes]) -> Auction | None:
            return self.auctions.open(*auction_of(payloads[0]), payloads[0], slot)

        return in_halves(reopen, cannot, [payload])[0]

    def _hold_columns(self, columns: RendezvousColumns) -> None:
        ends = columns.ends_at
        over = self.all_over(ends, np.full(len(ends), self.progress.log_time))
        rows = np.flatnonzero(~over)
        if over.any():  # under a shorter window than before: the changelog still has them
            self._owed |= dict.fromkeys(name or b"" for name in columns.id.take(np.flatnonzero(over)))
        names: list[Any] = list(columns.id.take(rows))
        handles = self.subscribers.take(columns, rows, names, flags_of(columns, rows, self.version))
        self.subscribers.enforce_all(handles, names)
        self.watch_ends(handles)
        if len(self.auctions):
            for subscriber, asked in read_subscriptions(columns, rows.tolist()):
                if subscriber.ends_at > self.progress.log_time:
                    self.auctions.offer(_bidder(subscriber), _query(asked))
        if self._index is not None:
            add_to(self._index, columns, rows, np.array(handles, np.int64))

    # ------------------------------------------------------------------------------------------ what a chunk uses

    def _change_window(self) -> None:
        """What a shorter window has dropped is not here: the state is complete from where that window began. What a longer window has held
        is not looked at any more: the history may have to tell of anything."""
        progress = self.progress
        if progress.hot_window > self.hot_window:
            progress.gone = Gone(FOREVER, FOREVER)
        if progress.hot_window and progress.hot_window < self.hot_window:
            progress.complete_from = max(progress.complete_from, progress.log_time - progress.hot_window)
        self._store.drop_before(progress.complete_from)
        progress.hot_window = self.hot_window

    def horizon(self, log_time: int) -> int:
        return max(log_time - self.hot_window, self.progress.complete_from)

    def over(self, ends_at: int, log_time: int) -> bool:
        return ends_at != NEVER and log_time > ends_at + self.hot_window

    def all_over(self, ends_at: Rows, log_time: Rows) -> Flags:
        """The same by columns."""
        ending: Flags = ends_at != NEVER
        return ending & (log_time > np.where(ending, ends_at, 0) + self.hot_window)

    def watch_ends(self, handles: Sequence[int]) -> None:
        subscribers = self.subscribers
        at = np.array(handles, np.int64)
        at = at[subscribers.ends_at[at] != NEVER]
        columns = (subscribers.arrived_at, subscribers.partition, subscribers.offset)
        versions = zip(*(column[at].tolist() for column in columns), strict=True)
        for ending in zip(subscribers.ends_at[at].tolist(), at.tolist(), versions, strict=True):
            heapq.heappush(self._ending, ending)

    def ended(self, log_time: int) -> Iterator[int]:
        """Handles of subscriptions that are over, and still the version in force."""
        while self._ending and self.over(self._ending[0][0], log_time):
            ending = heapq.heappop(self._ending)
            self._popped.append(ending)
            _, handle, version = ending
            if self.subscribers.holds(handle, version):
                yield handle


def _text(texts: Texts, rows: Rows | None = None) -> Text:
    """Some rows of a column, or all; none is empty."""
    heap, at, length = texts.for_kernel() if rows is None else texts.take(rows).for_kernel()
    return Text(at, at + np.maximum(length, 0), heap)


class _Chunk:
    """One chunk on its way through an engine."""

    def __init__(
        self,
        engine: Engine,
        columns: RendezvousColumns,
        values: list[bytes],
        fresh: Flags,
        log_time: Rows,
        effects: Effects,
    ) -> None:
        self.engine, self.columns, self.values, self.effects = engine, columns, values, effects
        self.fresh, self.log_time = fresh, log_time
        self.came = fresh.copy()  # what has no effect is taken out of `fresh`, but lets time go on
        # publications and nothing else, as most chunks are: no row has to be picked
        self.plain = bool(((columns.kind == PUBLICATION) & fresh).all())
        self.added: dict[int, int] = {}  # handle → its row
        self.removed: dict[int, int] = {}
        self.handles: dict[int, int] = {}  # row → its handle
        self.unused: list[int] = []  # handles of versions that never came into force
        self.repeats: Rows = np.empty(0, np.int64)  # rows of publications that the store has dropped
        self.loud_from = 0
        self.amended: tuple[Rows, Packed] | None = None  # rows whose payload was stored once more, and how
        self.overlapping: dict[int, list[bytes]] = {}  # row of a self-joining subscription: records that it overlaps

    def withhold(self, refused: Flags) -> None:
        """These rows have no effect; they let time go on."""
        if refused.any():
            self.fresh &= ~refused
            self.plain = False

    def run(self, offsets: Sequence[int]) -> None:
        self._subscriptions()
        told = self._all_told()
        found = self._store("none" if told else "both" if self.engine._index is None else "past")
        publications = self._publications(found)
        if not told:
            if len(publications.rows):
                self._live(publications, found)
            self._past(found)
        self._auctions(publications, found, offsets)
        self._requests(publications.rows)
        self._finish()

    def _all_told(self) -> bool:
        """Nothing has come under this version of the routing yet: every pair is the earlier version's to report, and need not be found."""
        return self.engine.progress.silent and not (self.columns.best[self.fresh] != NO_BEST).any()

    def remember(self) -> None:
        found = self._store("replay")
        publications = self._publications(found)
        self._requests(publications.rows)

    def adopt(self) -> None:
        self._store("none")

    # ------------------------------------------------------------------------------------------ subscriptions

    def _subscriptions(self) -> None:
        """Who comes and who goes, in order. New ones are in the index from here on."""
        engine, columns = self.engine, self.columns
        if self.plain:
            return
        subscribers = engine.subscribers
        rows = np.flatnonzero(((columns.kind == SUBSCRIPTION) | (columns.kind == WITHDRAWAL)) & self.fresh)
        if not len(rows):
            return
        names: list[Any] = list(columns.id.take(rows))
        comes = columns.kind[rows] == SUBSCRIPTION
        coming = rows[comes]
        taken = iter(
            subscribers.take(
                columns,
                coming,
                [name for name, new in zip(names, comes.tolist(), strict=True) if new],
                flags_of(columns, coming, engine.version),
            )
        )
        over = engine.all_over(columns.ends_at[rows], self.log_time[rows])
        live, values = self.effects.live, self.values
        new: list[tuple[int, int]] = []
        for row, name, comes_, over_ in zip(rows.tolist(), names, comes.tolist(), over.tolist(), strict=True):
            known = subscribers.find(name)
            if known is not None and subscribers.partition[known] != columns.version_partition[row]:
                self.effects.moved.append(name)
            if not comes_:
                if known is None or subscribers.version(known) > _version(columns, row) or self._ended_by(known, row):
                    self.effects.dropped["unknown_withdrawal"] += 1
                    self.fresh[row] = False
                else:
                    self._remove(known, row)
                continue
            handle = next(taken)
            if known is not None:
                if self._ended_by(known, row):
                    self._remove(known, row)
                elif subscribers.version(known) >= _version(columns, row):
                    self.effects.dropped["older_version"] += 1
                    self.fresh[row] = False
                    self.unused.append(handle)
                    continue
                else:
                    self._remove(known, row)
            subscribers.enforce(handle)
            self.handles[row] = handle
            self.added[handle] = row
            new.append((row, handle))
            if over_:
                # answered from the past, and not held
                self._remove(handle, row)
            else:
                live[name] = values[row]
        if new and engine._index is not None:
            add_to(engine._index, columns, *np.array(new, np.int64).T)

    def _ended_by(self, handle: int, row: int) -> bool:
        return self.engine.over(int(self.engine.subscribers.ends_at[handle]), int(self.log_time[row]))

    def _remove(self, handle: int, row: int) -> None:
        self.removed[handle] = row
        name = self.engine.subscribers.name[handle]
        self.engine.subscribers.retire(name)
        self.effects.live[name] = None

    # ------------------------------------------------------------------------------------------ the store

    def _store(self, find: str) -> _Found | None:
        columns = self.columns
        rows = self._all if self.plain else np.flatnonzero(self.fresh & (columns.kind != 0))
        if not len(rows):
            self.engine._store.tick(int(self.log_time[-1]))
            return None
        self.packed = Packed.of(self.values)
        batch = self._publications_alone() if self.plain else self._batch(rows)
        found = _Found(self.engine._store.apply_columns(batch, find=find), rows)
        self.engine._store.tick(int(self.log_time[-1]))
        self.repeats = rows[self.engine._store.repeats]
        return found

    def _batch(self, rows: Rows) -> Batch:
        columns = self.columns
        published = columns.kind[rows] == PUBLICATION
        subscribed = columns.kind[rows] == SUBSCRIPTION
        begins, ends = columns.begins_at[rows], columns.ends_at[rows]
        joins = columns.self_join[rows] & (published | subscribed)
        return Batch(
            kind=CODES[columns.kind[rows]],
            id=self._names(rows),
            topic=_text(columns.topic, rows),
            time=np.where(published, begins, self.log_time[rows]),
            arrived_at=columns.arrived_at[rows],
            now=self.log_time[rows],
            starts_at=np.where(subscribed, begins, EARLIEST),
            ends_at=np.where(subscribed, ends, NEVER),
            expires_at=np.where(published, ends, NEVER),
            subtree=subscribed & (columns.scope[rows] == SUBTREE),
            valid=subscribed & (columns.time[rows] == VALID),
            self_join=joins,
            # the previous publication of each, and all that a self-joining one carries
            earlier=np.where(published, np.where(joins, EARLIER, 1), 0),
            subscriber_id=_text(columns.party_id, rows),
            payload=Text(self.packed.at[rows], self.packed.at[rows + 1], self.packed.data),
        )

    def _names(self, rows: Rows) -> Text:
        """What the store knows rows by: an event by its id and topic, a subscription by its id."""
        columns = self.columns
        ids, topics = columns.id.for_kernel(), columns.topic.for_kernel()
        published = columns.kind == PUBLICATION
        rows = np.require(rows, np.int64, ("C", "W"))
        ends = np.zeros(len(rows) + 1, np.int64)
        event_ends(ids[2], topics[2], published, rows, ends)
        names = np.empty(int(ends[-1]), np.uint8)
        event_names(*ids, *topics, published, rows, ends, names)
        return Text(ends[:-1], ends[1:], names)

    def _publications_alone(self) -> Batch:
        """The same for a plain chunk: small ones come often, and every step has its price."""
        columns, count = self.columns, len(self.columns)
        none = np.zeros(count, np.bool_)
        return Batch(
            kind=np.full(count, CODES[PUBLICATION], np.uint8),
            id=self._names(self._all),
            topic=_text(columns.topic),
            time=columns.begins_at,
            arrived_at=columns.arrived_at,
            now=self.log_time,
            starts_at=np.full(count, EARLIEST, np.int64),
            ends_at=np.full(count, NEVER, np.int64),
            expires_at=columns.ends_at,
            subtree=none,
            valid=none,
            self_join=columns.self_join,
            earlier=np.where(columns.self_join, EARLIER, 1),
            subscriber_id=_text(columns.party_id),
            payload=Text(self.packed.at[:-1], self.packed.at[1:], self.packed.data),
        )

    @property
    def _all(self) -> Rows:
        return np.arange(len(self.columns))

    def _publications(self, found: _Found | None) -> _Publications:
        """The publications that were not dropped, each with what came before it on its topic, and stored with that."""
        columns = self.columns
        rows = self._all if self.plain else np.flatnonzero((columns.kind == PUBLICATION) & self.fresh)
        if len(self.repeats):
            self.effects.dropped["repeated_publication"] += len(self.repeats)
            rows = np.setdiff1d(rows, self.repeats, assume_unique=True)
        before = _Befores(found, columns, rows)
        if len(rows) and found is not None:
            some, packed = before.packed(self.packed)
            if len(some):
                self.amended = rows[some], packed
                kept = self._last_of_its_id(rows)[some]
                if not kept.all():
                    some, packed = some[kept], packed.take(np.flatnonzero(kept))
                self.engine._store.amend(self._names(rows[some]), Text(packed.at[:-1], packed.at[1:], packed.data))
        return _Publications(columns, rows, before)

    def _last_of_its_id(self, rows: Rows) -> Flags:
        """An id may come again when its time has passed, in the same chunk: then the store knows the last one by it."""
        names = zip(self.columns.id.take(rows), self.columns.topic.take(rows), strict=True)
        last = {name: i for i, name in enumerate(names)}
        kept = np.zeros(len(rows), np.bool_)
        kept[list(last.values())] = True
        return kept

    def _as_amended(self) -> dict[bytes, bytes]:
        """What subscriptions of this chunk have found is what was stored before: own record → what is stored now."""
        if self.amended is None:
            return {}
        rows, packed = self.amended
        return dict(zip((self.values[row] for row in rows.tolist()), packed.list(), strict=True))

    # ------------------------------------------------------------------------------------------ live

    def _live(self, publications: _Publications, found: _Found | None) -> None:
        """Publications of the chunk with the subscriptions that were there before them."""
        if self.engine._index is None:
            self._tell(publications, *self._live_on_disk(publications, found))
        else:
            self._tell(publications, *self._live_in_memory(publications))

    def _tell(self, publications: _Publications, matched: Rows, handles: Rows) -> None:
        """Pairs that match, by publication: what of them is reported here, and not covered by an earlier subscription."""
        if not len(matched):
            return
        engine = self.engine
        subscribers = engine.subscribers
        flags = subscribers.flags[handles]
        start, at = publications.columns.partitions_start, publications.rows[matched]
        # one of the two is here alone: then here is where they meet
        told = ((flags & ALONE) != 0) | (start[at + 1] - start[at] == 1)
        for pair in (~told).nonzero()[0].tolist():
            partitions = publications.partitions(int(matched[pair]))
            told[pair] = reports(engine.number, subscribers.partitions[int(handles[pair])], partitions)
        for pair in (told & ((flags & SELF_JOIN) != 0)).nonzero()[0].tolist():
            low, high = (
                np.searchsorted(matched, matched[pair], "left"),
                np.searchsorted(matched, matched[pair], "right"),
            )
            others = [subscribers[handle] for handle in handles[low:high].tolist()]
            told[pair] = not _covered(subscribers[int(handles[pair])], others)
        told &= self._ours(publications, matched, flags)
        self._notify(publications, matched[told], handles[told], at[told], LIVE)

    def _live_in_memory(self, publications: _Publications) -> tuple[Rows, Rows]:
        engine, columns, rows = self.engine, self.columns, publications.rows
        assert engine._index is not None
        matched, found = engine._index.match_attributes(
            self._attributes(publications, engine.subscribers.needing_previous > 0),
            topics=publications.topics(),
            published_at=columns.begins_at[rows],
            expires_at=columns.ends_at[rows],
            where=self._where(publications),
        )
        by = found.to_numpy().astype(np.int64)
        if not len(matched):
            return matched, by
        places = rows[matched]
        ends = engine.subscribers.ends_at[by]
        # expired on arrival, or a subscription that is over: the index knows neither
        keep = columns.ends_at[places] > columns.arrived_at[places]
        keep &= ~engine.all_over(ends, self.log_time[places])
        if engine._stuck:
            keep &= ~np.isin(by, list(engine._stuck))
        if self.added or self.removed:
            added, removed = self.added, self.removed
            for pair in np.flatnonzero(keep).tolist():
                handle = int(by[pair])
                keep[pair] = added.get(handle, -1) < places[pair] < removed.get(handle, LATE)
        return matched[keep], by[keep]

    def _live_on_disk(self, publications: _Publications, found: _Found | None) -> tuple[Rows, Rows]:
        """The store has found the subscriptions that fit in topic and time; their conditions are tested here."""
        nothing = np.empty(0, np.int64)
        subscribers = self.engine.subscribers
        gone = {(subscribers.name[handle], subscribers.version(handle)): handle for handle in self.removed}
        pairs = []
        for i, subscriber in self._test(publications, self._candidates(found, publications.rows)):
            handle = gone.get((subscriber.name, subscriber.version))
            pairs.append((i, subscribers.find(subscriber.name) if handle is None else handle))
        if not pairs:
            return nothing, nothing
        matched, handles = zip(*sorted(pairs), strict=True)
        return np.array(matched, np.int64), np.array(handles, np.int64)

    def _candidates(self, found: _Found | None, rows: Rows) -> list[tuple[int, bytes]]:
        """Publications by their place among `rows`, each with the record of a subscription that the store has found for it."""
        if found is None:
            return []
        at = np.flatnonzero(~found.published & np.isin(found.rows, rows))
        return list(zip(np.searchsorted(rows, found.rows[at]).tolist(), found.payload(at), strict=True))

    def _test(self, publications: _Publications, asked: list[tuple[int, bytes]]) -> list[tuple[int, Subscriber]]:
        return [(i, subscriber) for i, subscriber, _ in self._tested(publications, asked)]

    def _tested(
        self, publications: _Publications, asked: list[tuple[int, bytes]]
    ) -> list[tuple[int, Subscriber, bytes]]:
        """Which of the candidates, given by the raw records of their subscriptions, match."""
        unique = {payload: handle for handle, payload in enumerate(dict.fromkeys(payload for _, payload in asked))}
        if not unique:
            return []
        read = list(read_subscriptions(decode_rendezvous_chunk(list(unique)), range(len(unique))))
        index = Index(algorithm="linear")
        index.add_many([_named(new, handle) for handle, (_, new) in enumerate(read)])
        fits = self._match_pairs(
            index,
            publications,
            np.array([i for i, _ in asked], np.int64),
            np.array([unique[payload] for _, payload in asked], np.int64),
            any(subscriber.needs_previous for subscriber, _ in read),
        )
        return [
            (i, read[unique[payload]][0], payload)
            for (i, payload), fit in zip(asked, fits.tolist(), strict=True)
            if fit
        ]

    # ------------------------------------------------------------------------------------------ past

    def _past(self, found: _Found | None) -> None:
        """Subscriptions of the chunk with the publications that were there before them."""
        if found is None or not self.handles:
            return
        asking = np.array(list(self.handles), np.int64)
        mine = np.isin(found.rows, asking)
        others = np.flatnonzero(mine & ~found.published)
        if len(others):
            for row, payload in zip(found.rows[others].tolist(), found.payload(others), strict=True):
                self.overlapping.setdefault(row, []).append(payload)
        at = np.flatnonzero(mine & found.published)
        if not len(at):
            return
        amended = self._as_amended()
        payloads = found.payload(at)
        if amended:
            payloads = [amended.get(payload, payload) for payload in payloads]
        unique = {payload: i for i, payload in enumerate(dict.fromkeys(payloads))}
        publications = _unpacked(list(unique))
        matched = np.array([unique[payload] for payload in payloads], np.int64)
        rows = found.rows[at]
        handles = np.array([self.handles[row] for row in rows.tolist()], np.int64)
        told = self._past_fits(publications, rows, matched, handles)
        subscribers = self.engine.subscribers
        flags = subscribers.flags[handles]
        start = publications.columns.partitions_start
        doubtful = ((flags & ALONE) == 0) & (start[matched + 1] - start[matched] > 1)
        for pair in np.flatnonzero(told & doubtful).tolist():
            partitions = publications.partitions(int(matched[pair]))
            told[pair] = reports(self.engine.number, subscribers.partitions[int(handles[pair])], partitions)
        joining = np.flatnonzero(told & ((flags & SELF_JOIN) != 0)).tolist()
        if joining:
            pairs = [(int(rows[pair]), int(matched[pair]), subscribers[int(handles[pair])]) for pair in joining]
            covered = self._covered_before(pairs, publications, self.overlapping)
            for pair in joining:
                told[pair] = (int(rows[pair]), int(matched[pair])) not in covered
        told &= self._ours(publications, matched, flags)
        self._notify(publications, matched[told], handles[told], rows[told], PAST)

    def _past_fits(self, publications: _Publications, rows: Rows, matched: Rows, handles: Rows) -> Flags:
        engine = self.engine
        flags = engine.subscribers.flags[handles]
        if (flags & ALWAYS_MATCHES).all() and not publications.columns.where.present().any():
            return np.ones(len(rows), np.bool_)  # topic and time are the store's
        if engine._index is not None:
            previous = bool((flags & NEEDS_PREVIOUS).any())
            return self._match_pairs(engine._index, publications, matched, handles, previous)
        asked = [(i, self.values[row]) for i, row in zip(matched.tolist(), rows.tolist(), strict=True)]
        fitting = {(i, s.name, s.version) for i, s in self._test(publications, asked)}
        subscribers = [engine.subscribers[handle] for handle in handles.tolist()]
        fits = [(i, s.name, s.version) in fitting for i, s in zip(matched.tolist(), subscribers, strict=True)]
        return np.array(fits, np.bool_)

    def _covered_before(
        self,
        pairs: list[tuple[int, int, Subscriber]],
        publications: _Publications,
        overlapping: dict[int, list[bytes]],
    ) -> set[tuple[int, int]]:
        """Rows and publications that an earlier subscription of the same subscriber has already. All are tested at once."""
        asked = {
            (i, payload): None
            for row, i, subscriber in pairs
            if subscriber.self_join
            for payload in overlapping.get(row, ())
        }
        matching = {(i, payload): other for i, other, payload in self._tested(publications, list(asked))}
        return {
            (row, i)
            for row, i, subscriber in pairs
            if subscriber.self_join
            and _covered(
                subscriber,
                [matching[i, payload] for payload in overlapping.get(row, ()) if (i, payload) in matching],
            )
        }

    # ------------------------------------------------------------------------------------------ both

    def _ours(self, publications: _Publications, matched: Rows, flags: npt.NDArray[np.uint8]) -> Flags:
        """One of the two has come under this version of the routing; else the earlier version reports the pair."""
        new: Flags = (flags & OLD) == 0
        new |= publications.columns.routing_version[publications.rows[matched]] >= self.engine.version
        return new

    def _match_pairs(
        self, index: Index, publications: _Publications, rows: Rows, handles: Rows, previous: bool
    ) -> Flags:
        columns, at = publications.columns, publications.rows
        return index.match_pairs(
            self._attributes(publications, previous),
            rows,
            handles,
            topics=publications.topics(),
            published_at=columns.begins_at[at],
            expires_at=columns.ends_at[at],
            where=self._where(publications),
        )

    def _attributes(self, publications: _Publications, previous: bool) -> Attributes:
        columns, rows = publications.columns, publications.rows
        if not previous:
            return take(columns.attributes, rows)
        said: list[dict[str, object]] = []
        for i, row in enumerate(rows.tolist()):
            mine: dict[str, object] = dict(attributes_of(columns.attributes, row))
            before = publications.before[i].previous
            if before is not None:
                mine.update({PREVIOUS + name: value for name, value in _attributes_in(before).items()})
            said.append(mine)
        return columns_of(said)

    def _where(self, publications: _Publications) -> list[NormalForm | None] | None:
        where = publications.columns.where
        if not where.present()[publications.rows].any():
            return None
        return [where[row] for row in publications.rows.tolist()]

    def _notify(self, publications: _Publications, matched: Rows, handles: Rows, rows: Rows, phase: int) -> None:
        """Each at the log time of its row, that of the later of the two."""
        if not len(matched):
            return
        columns, at, subscribers = publications.columns, publications.rows[matched], self.engine.subscribers
        told = tell(subscribers, handles, columns, at, self.log_time[rows], phase)
        for i in columns.self_join[at].nonzero()[0].tolist():
            earlier = publications.before[int(matched[i])].earlier
            if earlier:
                for columns_told in told:
                    for place in columns_told.places(i):
                        columns_told.columns.earlier_ids[place] = earlier
        self.effects.told += [each.columns for each in told]

    # ------------------------------------------------------------------------------------------ best offers

    def _auctions(self, publications: _Publications, found: _Found | None, offsets: Sequence[int]) -> None:
        """Record by record: who holds an auction depends on everything before. Auctions are few."""
        engine, columns = self.engine, self.columns
        rows = publications.rows
        asking = (columns.best[rows] != NO_BEST) & (columns.ends_at[rows] > columns.arrived_at[rows])
        if not asking.any() and not len(engine.auctions):
            return
        opening = self._opening(publications, np.flatnonzero(asking), found)
        leaving: dict[int, list[int]] = {}
        for handle, row in self.removed.items():
            leaving.setdefault(row, []).append(handle)
        for row, now in enumerate(self.log_time.tolist()):
            busy = row in opening or row in leaving or row in self.handles
            if not busy and (engine.auctions.next_time > now or not self.came[row]):
                continue
            changes = Changes(offsets[row], now)
            for name in engine.auctions.close(changes):
                self.effects.live[auctions.KEY + name.encode()] = None
            for handle in leaving.get(row, ()):
                engine.auctions.withdraw(engine.subscribers[handle].name.decode())
            if row in self.handles and engine.subscribers[self.handles[row]].ends_at > now:
                ((subscriber, asked),) = read_subscriptions(columns, [row])
                engine.auctions.offer(_bidder(subscriber), _query(asked))
            if row in opening:
                self._open(row, opening[row])
            engine.auctions.settle(changes)
            if row >= self.loud_from:
                self.effects.best += changes.notifications
                self.effects.offers += changes.offers

    def _open(self, row: int, bidding: list[tuple[Subscriber, oracle.Subscription]]) -> None:
        engine, value = self.engine, self.values[row]
        payload = self._as_amended().get(value, value)
        auction = engine.auctions.open(*auction_of(payload), payload)
        self.effects.live[auctions.KEY + auction.name.encode()] = payload
        for subscriber, query in bidding:
            if subscriber.ends_at > self.log_time[row]:
                made = auction.bid_of(query)
                if made is not None:
                    engine.auctions.bid(auction, _bidder(subscriber), made)

    def _opening(
        self, publications: _Publications, chosen: Rows, found: _Found | None
    ) -> dict[int, list[tuple[Subscriber, oracle.Subscription]]]:
        """By row of a publication that opens an auction: the subscriptions that match it, with their conditions."""
        engine, rows = self.engine, publications.rows[chosen]
        matching: dict[int, list[tuple[Subscriber, oracle.Subscription]]] = {row: [] for row in rows.tolist()}
        if not matching:
            return matching
        several = _Publications(self.columns, rows, [publications.before[i] for i in chosen.tolist()])
        if engine._index is not None:
            matched, handles = self._live_in_memory(several)
            for i, handle in zip(matched.tolist(), handles.tolist(), strict=True):
                form, semantics = engine._index.condition(handle)
                query = oracle.Subscription(form, semantics=semantics)
                matching[int(rows[i])].append((engine.subscribers[handle], query))
            return matching
        for i, subscriber, payload in self._tested(several, self._candidates(found, rows)):
            record: Any = decode_rendezvous(payload).record
            matching[int(rows[i])].append((subscriber, query_of(record)))
        return matching

    # ------------------------------------------------------------------------------------------ the end of a chunk

    def _requests(self, rows: Rows) -> None:
        """Windows that begin before the hot one. `gone` goes on with the log, so that each row sees what was gone then."""
        engine, columns = self.engine, self.columns
        gone = engine.progress.gone
        begins, ends = columns.begins_at[rows], columns.ends_at[rows]
        held = np.minimum(begins, columns.arrived_at[rows])
        added = 0
        asking = np.array(list(self.handles), np.int64)
        if len(asking):
            # what is gone only grows: who has nothing to ask at the end of the chunk had nothing to ask before
            after = gone.copy()
            after.add_columns(held, begins, ends)
            after.fold(engine.horizon(int(self.log_time[-1])))
            valid = columns.time[asking] == VALID
            if not after.asked_by_any(columns.begins_at[asking], valid, self.log_time[asking]):
                engine.progress.gone = after
                return
            until_of = np.searchsorted(rows, asking)
            if not gone.folds(held, engine.horizon(int(self.log_time[-1]))):
                until_of[:] = 0  # none of them is gone when the chunk ends: it is all the same when they are added
            times = zip(
                self.handles.items(),
                self._cuts(),
                until_of.tolist(),
                self.log_time[asking].tolist(),
                columns.begins_at[asking].tolist(),
                columns.time[asking].tolist(),
                strict=True,
            )
            for (row, handle), cut, until, now, starts_at, valid in times:
                if until > added:
                    gone.add_columns(held[added:until], begins[added:until], ends[added:until])
                    added = until
                gone.fold(engine.horizon(now))
                if not engine.subscribers.flags[handle] & OLD and gone.asked_by(starts_at, bool(valid), now):
                    subscriber = engine.subscribers[handle]
                    self.effects.requests.append(
                        BackfillRequest(
                            canonical(columns, row, subscriber),
                            engine.number,
                            engine.horizon(now),
                            now,
                            int(columns.routing_version[row]),
                            dict(cut),
                            self._covers(row, subscriber),
                        )
                    )
        gone.add_columns(held[added:], begins[added:], ends[added:])
        gone.fold(engine.horizon(int(self.log_time[-1])))

    def _covers(self, row: int, subscriber: Subscriber) -> tuple[CanonicalSubscription, ...]:
        """What `_covered` would look at: the history knows it from the request alone."""
        if not subscriber.self_join or row not in self.overlapping:
            return ()
        payloads, room = self.overlapping[row], min(MOST_COVERS, MAX_CANONICAL_BYTES - 2 * len(self.values[row]))
        columns = decode_rendezvous_chunk(payloads)
        found = []
        for at, (other, _) in enumerate(read_subscriptions(columns, range(len(payloads)))):
            if _covered(subscriber, [other]):
                room -= len(payloads[at])
                if room < 0:
                    break
                found.append(canonical(columns, at, other))
        return tuple(sorted(found, key=lambda other: other.version))

    def _cuts(self) -> Iterator[dict[int, int]]:
        """The highest offsets of publications seen before each row of a subscription, in their order."""
        columns = self.columns
        cut = dict(self.engine.cut)
        rows = np.flatnonzero(columns.origin == FROM_PUBLICATIONS)
        seen = list(zip(columns.partition[rows].tolist(), columns.offset[rows].tolist(), strict=True))
        begin = 0
        for until in np.searchsorted(rows, np.array(list(self.handles), np.int64)).tolist():
            for partition, offset in seen[begin:until]:
                cut[partition] = max(cut.get(partition, -1), offset)
            begin = max(begin, until)
            yield cut

    def _finish(self) -> None:
        engine = self.engine
        now = int(self.log_time[-1])
        if self.added:
            engine.watch_ends([handle for handle in self.added if handle not in self.removed])
        for handle in engine.ended(now):
            self._remove(handle, len(self.values))
        engine.cut = engine.progress.cut()


# ---------------------------------------------------------------------------------------------- records


def read_subscriptions(columns: RendezvousColumns, rows: Sequence[int]) -> Iterator[tuple[Subscriber, NewSubscription]]:
    names, parties, topics = columns.id, columns.party_id, columns.topic
    for row in rows:
        form = columns.where[row]
        where: NormalForm = ALWAYS if form is None else form
        topic = topics[row] or b""
        starts_at, ends_at = int(columns.begins_at[row]), int(columns.ends_at[row])
        semantics = SEMANTICS[columns.semantics[row]]
        subscriber = Subscriber(
            names[row] or b"",
            parties[row] or b"",
            _version(columns, row),
            _partitions(columns, row),
            topic,
            starts_at,
            ends_at,
            bool(columns.self_join[row]),
            any(name.startswith(PREVIOUS) for disjunct in where for name, _ in disjunct),
            where == ALWAYS and semantics == "classical",
        )
        yield (
            subscriber,
            NewSubscription(
                0,
                where,
                topic.decode(),
                SCOPES[columns.scope[row]],
                starts_at,
                None if ends_at == NEVER else ends_at,
                TIMES[columns.time[row]],
                semantics,
            ),
        )


def add_to(index: Index, columns: RendezvousColumns, rows: Rows, handles: Rows) -> None:
    """Puts subscriptions of a chunk into the index: by columns what kernels can read, the rest one by one."""
    conditions, read = flat_conditions(columns.where, rows)
    rest = np.flatnonzero(~read)
    if len(rest):
        index.add_many(new_subscriptions(columns, rows[rest].tolist(), handles[rest].tolist()))
    taken = np.flatnonzero(read)
    if not len(taken):
        return
    at = rows[taken]
    flags = SCOPE_FLAGS[columns.scope[at]] | TIME_FLAGS[columns.time[at]] | SEMANTICS_FLAGS[columns.semantics[at]]
    index.add_flat(
        handles[taken],
        # rows that were not read have no disjuncts
        conditions._replace(first=np.append(conditions.first[taken], conditions.first[-1])),
        Places(FlatTexts(*columns.topic.take(at).for_kernel()), columns.begins_at[at], columns.ends_at[at], flags),
    )


def new_subscriptions(columns: RendezvousColumns, rows: Sequence[int], handles: Sequence[int]) -> list[NewSubscription]:
    """What the index is told of some rows."""
    at = np.array(rows, np.int64)
    where = columns.where
    return [
        NewSubscription(
            handle,
            where[row] or ALWAYS,
            (topic or b"").decode(),
            SCOPES[scope],
            starts_at,
            None if ends_at == NEVER else ends_at,
            TIMES[time],
            SEMANTICS[semantics],
        )
        for handle, row, topic, scope, starts_at, ends_at, time, semantics in zip(
            handles,
            rows,
            columns.topic.take(at),
            columns.scope[at].tolist(),
            columns.begins_at[at].tolist(),
            columns.ends_at[at].tolist(),
            columns.time[at].tolist(),
            columns.semantics[at].tolist(),
            strict=True,
        )
    ]


def flags_of(columns: RendezvousColumns, rows: Rows, version: int) -> npt.NDArray[np.uint8]:
    """Of subscriptions: see `streams.matcher.subscribers`."""
    where = columns.where
    start = columns.partitions_start
    joins = columns.self_join[rows]
    flags = np.where(joins, SELF_JOIN, 0) | np.where(start[rows + 1] - start[rows] == 1, ALONE, 0)
    flags |= np.where(columns.routing_version[rows] < version, OLD, 0)
    at = where.at[rows]
    plain = where.length[rows] == len(NO_CONDITION)
    for i, byte in enumerate(NO_CONDITION):
        plain[plain] = where.heap[at[plain] + i] == byte
    flags |= np.where(plain & (columns.semantics[rows] == CLASSICAL), ALWAYS_MATCHES, 0)
    # the router takes `previous` from those alone that join
    for i in np.flatnonzero(joins).tolist():
        form: NormalForm = where[int(rows[i])] or ALWAYS
        if any(name.startswith(PREVIOUS) for disjunct in form for name, _ in disjunct):
            flags[i] |= NEEDS_PREVIOUS
    return flags.astype(np.uint8)


def canonical(columns: RendezvousColumns, row: int, subscriber: Subscriber) -> CanonicalSubscription:
    form = columns.where[row]
    return CanonicalSubscription(
        subscriber.name.decode(),
        subscriber.recipient.decode(),
        subscriber.version,
        subscriber.topic.decode(),
        SCOPES[columns.scope[row]],
        subscriber.starts_at,
        None if subscriber.ends_at == NEVER else subscriber.ends_at,
        TIMES[columns.time[row]],
        ALWAYS if form is None else form,
        SEMANTICS[columns.semantics[row]],
        subscriber.self_join,
    )


def _bidder(subscriber: Subscriber) -> Bidder:
    return Bidder(subscriber.name.decode(), subscriber.recipient.decode(), subscriber.version, subscriber.ends_at)


def _query(asked: NewSubscription) -> oracle.Subscription:
    starts_at, ends_at = asked.starts_at, asked.ends_at
    assert not isinstance(starts_at, datetime)
    assert not isinstance(ends_at, datetime)
    return oracle.Subscription(
        asked.disjuncts, asked.topic, asked.scope, starts_at, ends_at, asked.time, asked.semantics
    )


def auction_of(payload: bytes) -> tuple[CanonicalPublication, oracle.Publication, tuple[str, ...]]:
    """A publication that asks for offers, as the store and the changelog keep it."""
    value, before = unpack(payload)
    record: Any = decode_rendezvous(value).record
    previous = {} if before.previous is None else _attributes_in(before.previous)
    return record, offer_of(record, previous), before.earlier if record.self_join else ()


def _named(new: NewSubscription, handle: int) -> NewSubscription:
    return replace(new, subscription_id=handle)


def _version(columns: RendezvousColumns, row: int) -> Version:
    return Version(
        int(columns.version_arrived_at[row]), int(columns.version_partition[row]), int(columns.version_offset[row])
    )


def _partitions(columns: RendezvousColumns, row: int) -> tuple[int, ...]:
    return tuple(columns.partitions[columns.partitions_start[row] : columns.partitions_start[row + 1]].tolist())


def _covered(subscriber: Subscriber, others: Sequence[Subscriber]) -> bool:
    """Has an earlier overlapping subscription of the same subscriber the publication already?"""
    return any(
        other.recipient == subscriber.recipient and other.version < subscriber.version and _overlap(other, subscriber)
        for other in others
    )


def _overlap(a: Subscriber, b: Subscriber) -> bool:
    x, y = (s.topic.split(b".") if s.topic else [] for s in (a, b))
    shorter = min(len(x), len(y))
    return x[:shorter] == y[:shorter] and max(a.starts_at, b.starts_at) < min(a.ends_at, b.ends_at)


# ---------------------------------------------------------------------------------------------- payloads


def pack(value: bytes, before: Before) -> bytes:
    """What the store keeps of a publication that had others before it on its topic.

    A mark that no record begins with, u32 length of the previous one's record, that record, u16 number of earlier ids, each with
    its length as u16, and then the publication's own record. A publication without any before it is kept as its own record.
    """
    previous = before.previous or b""
    ids = [name.encode() for name in before.earlier]
    parts = [MARK, len(previous).to_bytes(4, "big"), previous, len(ids).to_bytes(2, "big")]
    for name in ids:
        parts += [len(name).to_bytes(2, "big"), name]
    return b"".join([*parts, value])


def unpack(payload: bytes) -> tuple[bytes, Before]:
    if payload[:1] != MARK:
        return payload, NOTHING
    size = int.from_bytes(payload[1:5], "big")
    previous = payload[5 : 5 + size]
    at = 5 + size
    count = int.from_bytes(payload[at : at + 2], "big")
    at += 2
    ids = []
    for _ in range(count):
        length = int.from_bytes(payload[at : at + 2], "big")
        ids.append(payload[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return payload[at:], Before(previous or None, tuple(ids))


def _unpacked(payloads: list[bytes]) -> _Publications:
    parts = [unpack(payload) for payload in payloads]
    columns = decode_rendezvous_chunk([value for value, _ in parts])
    return _Publications(columns, np.arange(len(parts)), [before for _, before in parts])


def _attributes_in(value: bytes) -> dict[str, Value]:
    record: Any = decode_rendezvous(value).record
    attributes: dict[str, Value] = record.attributes
    return attributes


__all__ = ["Before", "Effects", "Engine", "pack", "unpack"]
