"""What a rendezvous partition does with its log, a chunk at a time: the same findings as `streams.reference`, by columns.

The store remembers (`state`), the index decides (`matching`). A chunk mixes subscriptions and publications, and gives exactly what one
record after the other would: new subscriptions are put into the index before the chunk's publications are matched, replaced ones are
taken out after it, and a pair counts if the subscription was there at the publication's place in the log. The past of a subscription
comes from the store, which applies the same chunk in the same order.

What is staged by `process` becomes durable with `commit`. A chunk is atomic: when it raises, the engine is as it was before.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.schemas import (
    NEVER,
    RendezvousColumns,
    decode_rendezvous_chunk,
)
from pastforward.schemas.columns import (
    FROM_NONE,
    PUBLICATION,
)
from pastforward.state import Store
from pastforward.streams.matcher import best_offers as auctions
from pastforward.streams.matcher import pauses
from pastforward.streams.matcher.best_offers import Auction, Auctions, Changes
from pastforward.streams.matcher.bidding import bidder_of, bids, query_of_new
from pastforward.streams.matcher.chunk import Chunk
from pastforward.streams.matcher.cold import FOREVER, NOT_YET, Cold
from pastforward.streams.matcher.duplicates import Duplicates, Refusals
from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.endings import Endings
from pastforward.streams.matcher.held import auction_of
from pastforward.streams.matcher.log_order import fresh_among, log_times, loud_from
from pastforward.streams.matcher.memory_index import MemoryIndex
from pastforward.streams.matcher.past import Parts
from pastforward.streams.matcher.progress import Progress, decode_progress, encode_progress
from pastforward.streams.matcher.records import flags_of, read_subscriptions
from pastforward.streams.matcher.searches import Asked, Refused, Resuming, Searches, make_search
from pastforward.streams.matcher.storing import store_rows, withdrawals
from pastforward.streams.matcher.subscribers import Subscribers
from pastforward.streams.routing import Directory
from pastforward.streams.stages.guard import in_halves

log = logging.getLogger("pastforward.matcher")

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PROGRESS: Final = b"progress"
MUCH: Final = 10_000  # held items: to look at them takes 40 ms
ORIGIN_AT: Final = 10  # in a rendezvous record, behind its header
FROM_SUBSCRIPTIONS_BYTE: Final = b"\0"
BATCH: Final = 10_000  # subscriptions a step when a state is loaded
MOST_UNCOMMITTED: Final = (
    50_000  # records that are taken while a search keeps the state from being made durable; then it goes first
)


class Engine:
    """The state of one rendezvous partition, over a store and, if subscriptions are looked up in memory, an index."""

    def __init__(
        self, number: int, hot_window: int, store: Store, *, in_memory: bool, version: int = 1, algorithm: str = "auto"
    ) -> None:
        self.number = number
        self.version = version  # of the routing; a pair of two records from before it is another engine's to report
        self.hot_window = self._configured = hot_window
        self.progress = Progress(hot_window=hot_window)
        self.lost: Counter[str] = Counter()  # what a recovery could not take, by reason
        self.subscribers = Subscribers()
        self.auctions = Auctions(store)
        self.duplicates = Duplicates(store)
        self.refusals = Refusals(store)
        self.applied = 0  # up to which offset; at least once, a rebuilt state may be ahead of what is read again
        self.store = store
        self.index = MemoryIndex(number, algorithm) if in_memory else None  # None: subscriptions are looked up on disk
        self.endings = Endings(self.subscribers)
        self.cut: dict[int, int] = {}  # highest offset of each publications partition before the chunk
        self.searches = Searches()  # of the past, that go on behind their chunks
        self.resuming: Resuming | None = None  # while the log is read again: what was notified is known
        self.uncommitted = 0  # records since the state was made durable
        self._owed: dict[bytes, bytes | None] = {}  # to the changelog: the next chunk writes it

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
            if chunk.later is not None:
                self.searches.add(chunk.later)
            self.progress.searching = len(self.searches) > 0
            yield chunk.effects
        self.uncommitted += len(values)
        self.refusals.ahead.difference_update(offsets)
        self._owed.clear()
        self._release(chunk)

    def search(self) -> tuple[Effects, list[Refused]]:
        """A part of a search of the past, while there is any."""
        effects, refused = self.searches.step()
        self.progress.searching = len(self.searches) > 0
        return effects, refused

    def resumed(self) -> None:
        """The log has been read up to where it was left: what was found from here on is to be notified."""
        if self.resuming is not None and self.resuming.notes:
            if self.searches:
                self.searches.inherited = self.resuming.notes
            else:
                self._owed |= dict.fromkeys(self.resuming.notes)
        self.resuming = None
        self.progress.searching = len(self.searches) > 0

    def room(self, values: Sequence[bytes]) -> int:
        """How many of these records may be processed now: searches under way hold what they need, and keep the state from being made
        durable."""
        if not self.searches:
            return len(values)
        if self.uncommitted >= MOST_UNCOMMITTED:
            return 0
        if not self.searches.full:
            return len(values)
        return next((i for i, value in enumerate(values) if _of_subscription(value)), len(values))

    def looks_far_back(self, values: Sequence[bytes]) -> bool:
        """Whether a subscription is among these records, and there is much that it may have to look at. They are not read."""
        stats = self.store.stats
        if stats.in_memory and stats.items <= MUCH:
            return False
        return any(map(_of_subscription, values))

    def refuse(self, offset: int) -> None:
        """The record there has no effect from here on, but for the time that it tells: now, in a replay, and in a rebuild."""
        self.refusals.ahead.add(offset)

    def owe(self, offset: int) -> None:
        """The changelog does not know yet that this one was refused."""
        self._owed |= [self.refusals.entry(offset)]

    def skip(self, offset: int, timestamp: int = NOT_YET) -> dict[bytes, bytes]:
        """Passes a record that cannot even tell the time, but for what Kafka says; what the changelog is to hold of it."""
        self.applied = max(self.applied, offset + 1)
        if offset not in self.refusals.ahead:
            return {}
        self.refusals.ahead.discard(offset)
        return self._note_refused(np.array([offset]), np.array([max(self.progress.log_time, timestamp)]))

    @contextlib.contextmanager
    def _atomic(self) -> Iterator[None]:
        """Whatever raises within leaves nothing behind. What cannot be undone comes after it."""
        progress, cut, applied = self.progress.copy(), self.cut, self.applied
        savepoint = self.store.savepoint()
        self.subscribers.begin()
        self.auctions.begin()
        self.duplicates.begin()
        self.refusals.begin()
        self.endings.begin()
        self.searches.begin()
        try:
            yield
        except BaseException:
            self.progress, self.cut, self.applied = progress, cut, applied
            self.searches.undo()
            self.store.rollback_to(savepoint)
            taken = self.subscribers.taken
            self.subscribers.undo()
            self.auctions.undo()
            self.duplicates.undo()
            self.refusals.undo()
            self.endings.undo()
            if self.index is not None:
                self.index.undo(taken, self.subscribers, self.store)
            raise

    def _release(self, chunk: Chunk) -> None:
        """What nobody refers to any more when a chunk has come to its end."""
        removed = list(chunk.removed)
        stuck: set[int] = set()
        if self.index is not None:
            if removed:
                self.index.remove(removed)
            stuck = self.index.stuck
        self.subscribers.release([handle for handle in [*removed, *chunk.unused] if handle not in stuck])

    def _run(self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int]) -> Chunk:
        columns = decode_rendezvous_chunk(values)
        if columns.errors:
            row, error = columns.errors[0]
            raise ValueError(f"offset {offsets[row]} of the rendezvous log is no record of ours: {error.reason}")
        effects = Effects(live=dict(self._owed))
        fresh = fresh_among(self.progress, columns, effects)
        # a tick that is read again has told its time; what came after it must not be ended by it
        fresh &= (columns.origin != FROM_NONE) | (np.asarray(offsets, np.int64) >= self.applied)
        chunk = Chunk(self, columns, list(values), fresh, log_times(self.progress, columns, timestamps, fresh), effects)
        chunk.loud_from = loud_from(self.progress, self.version, columns, fresh)
        if self.refusals:
            refused = self.refusals.among(np.asarray(offsets, np.int64))
            if refused.any():
                chunk.withhold(refused)
                effects.live.update(self._note_refused(np.asarray(offsets, np.int64)[refused], chunk.log_time[refused]))
        chunk.run(offsets)
        if effects.dropped:
            self._note_duplicates(chunk, np.asarray(offsets, np.int64))
        before = self.rebuilt_from(self.progress.log_time)
        if self.duplicates:
            effects.live.update((key, None) for key, _ in self.duplicates.forget(before))
        if self.refusals:
            for key, last in self.refusals.forget(before):
                effects.live[key] = None
                self.progress.refused_from = max(self.progress.refused_from, last + 1)
        self.applied = max(self.applied, offsets[-1] + 1)
        return chunk

    def _note_refused(self, offsets: Rows, log_times: Rows) -> dict[bytes, bytes]:
        """With the time that they may have told themselves."""
        self.progress.refused_until = max(self.progress.refused_until, int(offsets[-1]) + 1)
        return dict(self.refusals.note(offsets, log_times))

    def _note_duplicates(self, chunk: Chunk, offsets: Rows) -> None:
        """Publications that were dropped; but for those that are read again, of which the first reading has decided."""
        dropped = (chunk.columns.kind == PUBLICATION) & ~chunk.came
        dropped[chunk.duplicates] = True
        rows = np.flatnonzero(dropped & (offsets >= self.applied))
        chunk.effects.live.update(self.duplicates.note(offsets[rows], chunk.log_time[rows]))

    def rebuilt_from(self, log_time: int) -> int:
        """What arrived earlier is not held, nor was it there when what is held came. A search under way may have to be made again."""
        since = self.searches.since
        return (log_time if since is None else min(since, log_time)) - 2 * self.hot_window

    def commit(self, offset: int) -> None:
        """Rows, progress and offset in one write; not while a search is under way: whoever comes after makes it again, from its place in
        the log."""
        if self.searches:
            return
        self.uncommitted = 0
        self.store.put_meta(PROGRESS, encode_progress(self.progress, max(self.applied, offset)))
        self.store.commit(offset)

    def commit_part(self, offset: int) -> None:
        """In the middle of a rebuild: without its progress a state is not taken for one."""
        self.store.commit(offset)

    def close(self) -> None:
        self.searches.close()
        self.store.close()

    # ------------------------------------------------------------------------------------------ how it begins

    @property
    def offset(self) -> int | None:
        """Where the store stands; None: it is new."""
        return self.store.offset

    @property
    def size(self) -> tuple[int, int]:
        """Subscriptions and items held."""
        return len(self.subscribers), self.store.stats.items

    def begin(self, entry: Directory, open_auctions: Iterable[bytes] = ()) -> None:
        """A version of the routing that is made on a running system reads publications from a point on; what was before is gone, but for
        auctions that are still open."""
        for payload in open_auctions:
            self._reopen(payload)
        self.progress.seen = {("publications", p): at - 1 for p, at in enumerate(entry.starts)}
        self.cut = self.progress.cut()
        if any(entry.starts):
            self.progress.complete_from = entry.begins_at
            self.progress.cold = Cold(FOREVER, FOREVER)
        self.progress.silent = True

    def load(self) -> None:
        """From a store that has been used before."""
        value = self.store.get_meta(PROGRESS)
        if value is None:
            raise ValueError(f"{self.store.path} was not written by a worker")
        self.progress, self.applied = decode_progress(value)
        self.store.drop_before(self.progress.change_window(self.hot_window))
        self.cut = self.progress.cut()
        self.duplicates.load()
        self.refusals.load()
        for slot, payload in self.auctions.stored():
            self._reopen(payload, slot)
        for batch in self.store.scan("subscription", ("payload",)):
            in_halves(self._hold, self._cannot_hold, batch["payload"].to_pylist())
        for published, arrived, expires in self.store.publication_times():
            self.progress.cold.add_columns(np.minimum(published, arrived), published, expires)
        self.progress.cold.fold(self.horizon(self.progress.log_time))
        self.auctions.resolve(Changes(0, self.progress.log_time))  # as it was; nobody is told again

    def rebuild(self, known: Progress) -> None:
        """First of all: what is rebuilt was fixed under the window that was in force then."""
        if known.hot_window:
            self._set_window(known.hot_window)

    def _set_window(self, hot_window: int) -> None:
        if hot_window != self.hot_window:
            self.hot_window = hot_window
            self.store.change_windows(hot_window, hot_window)

    def remember(
        self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int], log_time: int
    ) -> None:
        """`remember_publications`, and searches that were under way are made again where their subscriptions stand in the log."""
        places = {} if self.resuming is None else self.resuming.places
        asking = [i for i, offset in enumerate(offsets) if offset in places]
        with self._atomic():
            for low, high in pairwise([0, *asking, len(values)]):
                if high > low:
                    self._remember(values[low:high], timestamps[low:high], offsets[low:high], log_time)
                if high < len(values):
                    self._search_again(values[high], offsets[high])

    def _search_again(self, value: bytes, offset: int) -> None:
        """The subscription is there for that moment alone: those that are held come after the publications."""
        assert self.resuming is not None
        _, log_time, horizon, covers, resumed = self.resuming.places[offset]
        columns = decode_rendezvous_chunk([value])
        chunk = Chunk(self, columns, [value], np.ones(1, np.bool_), np.array([log_time]), Effects())
        found = store_rows(chunk, "past")
        search = self.store.search()
        self.store.apply_columns(withdrawals(chunk), find="none")
        times = np.array([log_time]), np.array([horizon])
        asked = Asked([value], [offset], *times, {0: covers} if covers else {}, {0: resumed} if resumed else {})
        holds = self.number, self.version, self.index is not None
        stored = np.zeros(0 if found is None else len(found.stored), np.int64)
        self.searches.add(make_search(*holds, Parts(search), stored, asked, {}, self.resuming))

    def _remember(
        self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int], log_time: int
    ) -> None:
        """Publications of a stretch of the log, and its time, without finding anything: what a lost store is rebuilt from.

        After duplicates and refusals. `log_time`: that at the end of the log. A stretch goes by stamps, and what was routed late is stamped
        long after its arrival: nobody knows any more which of that were duplicates, and it is not needed.
        """
        columns = decode_rendezvous_chunk(values)
        # subscriptions tell the time as well, though they come from elsewhere
        times = log_times(self.progress, columns, timestamps, np.ones(len(columns), np.bool_))
        wanted = (columns.kind == PUBLICATION) & (columns.arrived_at >= self.rebuilt_from(log_time))
        at = np.asarray(offsets, np.int64)
        wanted &= ~self.duplicates.among(at) & ~self.refusals.among(at)
        Chunk(self, columns, list(values), wanted, times, Effects()).remember()

    def adopt(
        self, values: Sequence[bytes], open_auctions: Mapping[bytes, bytes], progress: Progress, reached: int
    ) -> None:
        """Live subscriptions and open auctions as the changelog has them, and how far they had come. After the publications."""
        self.applied = reached
        cold = self.progress.cold
        cold.published, cold.expires = progress.cold.published, progress.cold.expires
        self.progress = replace(progress, cold=cold)
        self._set_window(self._configured)
        self.store.drop_before(self.progress.change_window(self.hot_window))
        self.cut = self.progress.cut()
        for key, payload in open_auctions.items():
            auction = self._reopen(payload)
            if auction is not None and key != auctions.KEY + auction.name.encode():
                # as the first version has written it
                self._owed |= {key: None, auctions.KEY + auction.name.encode(): payload}
        for start in range(0, len(values), BATCH):
            in_halves(self._adopt, self._cannot_hold, values[start : start + BATCH])
        self.auctions.resolve(Changes(0, self.progress.log_time))

    def _adopt(self, values: Sequence[bytes]) -> None:
        with self._atomic():
            columns = decode_rendezvous_chunk(values)
            log_time = np.full(len(values), self.progress.log_time, np.int64)
            Chunk(self, columns, list(values), np.ones(len(values), np.bool_), log_time, Effects()).adopt()
            self._hold_columns(columns, values)

    def _hold(self, values: Sequence[bytes]) -> None:
        with self._atomic():
            self._hold_columns(decode_rendezvous_chunk(values), values)

    def _cannot_hold(self, value: bytes, error: Exception) -> None:
        log.error("partition %d: a subscription cannot be held any more: %r", self.number, value[:200], exc_info=error)
        self.lost["unheld_subscription"] += 1

    def _reopen(self, payload: bytes, slot: int | None = None) -> Auction | None:
        def cannot(_: bytes, error: Exception) -> None:
            log.error("partition %d: an auction cannot be opened again", self.number, exc_info=error)
            self.lost["unopened_auction"] += 1

        def reopen(payloads: Sequence[bytes]) -> Auction | None:
            return self.auctions.open(*auction_of(payloads[0]), payloads[0], slot)

        return in_halves(reopen, cannot, [payload])[0]

    def _hold_columns(self, columns: RendezvousColumns, values: Sequence[bytes]) -> None:
        ends = columns.ends_at
        over = self.all_over(ends, np.full(len(ends), self.progress.log_time))
        rows = np.flatnonzero(~over)
        if over.any():  # under a shorter window than before: the changelog still has them
            self._owed |= dict.fromkeys(name or b"" for name in columns.id.take(np.flatnonzero(over)))
        names: list[Any] = list(columns.id.take(rows))
        handles = self.subscribers.take(columns, rows, names, flags_of(columns, rows, self.version))
        self.subscribers.enforce_all(handles, names)
        pauses.recover(self.subscribers, columns, values, rows, handles)
        self.endings.watch(handles)
        if len(self.auctions):
            for subscriber, asked in read_subscriptions(columns, rows.tolist()):
                if bids(subscriber, self.progress.log_time):
                    self.auctions.offer(bidder_of(subscriber), query_of_new(asked))
        if self.index is not None:
            self.index.add(columns, rows, np.array(handles, np.int64))

    # ------------------------------------------------------------------------------------------ what a chunk uses

    def horizon(self, log_time: int) -> int:
        return max(log_time - self.hot_window, self.progress.complete_from)

    def over(self, ends_at: int, log_time: int) -> bool:
        return ends_at != NEVER and log_time > ends_at + self.hot_window

    def all_over(self, ends_at: Rows, log_time: Rows) -> Flags:
        """The same by columns."""
        ending: Flags = ends_at != NEVER
        return ending & (log_time > np.where(ending, ends_at, 0) + self.hot_window)


def _of_subscription(value: bytes) -> bool:
    """Read from its bytes alone."""
    return value[ORIGIN_AT : ORIGIN_AT + 1] == FROM_SUBSCRIPTIONS_BYTE
