"""What a rendezvous partition does with its log, a chunk at a time: the same findings as `streams.reference`, by columns.

The store remembers (`state`), the index decides (`matching`). A chunk mixes subscriptions and publications, and gives exactly what one
record after the other would: new subscriptions are put into the index before the chunk's publications are matched, replaced ones are
taken out after it, and a pair counts if the subscription was there at the publication's place in the log. The past of a subscription
comes from the store, which applies the same chunk in the same order.

What is staged by `process` becomes durable with `commit`. A failing `process` leaves the engine unusable: the worker ends.
"""

from __future__ import annotations

import contextlib
import heapq
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from matching import Index, oracle
from matching.attributes import Attributes
from matching.index import NewSubscription
from matching.normal_form import ALWAYS, PREVIOUS, NormalForm
from matching.oracle import SEMANTICS
from matching.publications import attributes_of as columns_of
from matching.values import Value
from schemas import (
    NEVER,
    BackfillRequest,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Notification,
    RendezvousColumns,
    Version,
    attributes_of,
    decode_rendezvous,
    decode_rendezvous_chunk,
)
from schemas.columns import (
    FROM_NONE,
    FROM_PUBLICATIONS,
    FROM_SUBSCRIPTIONS,
    NO_BEST,
    PUBLICATION,
    SUBSCRIPTION,
    WITHDRAWAL,
)
from state import Store
from streams import auctions
from streams.attributes import take
from streams.auctions import Auctions, Bidder, Changes
from streams.identity import notification_id
from streams.progress import Progress, decode_progress, encode_progress
from streams.reference import EARLIER, offer_of, query_of
from streams.routing import reports
from streams.subscribers import Subscriber, Subscribers

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KINDS: Final = pa.array(["subscription", "publication", "withdrawal"])
SCOPES: Final = ("overlap", "subtree")
TIMES: Final = ("published", "valid")
ORIGINS: Final = {FROM_SUBSCRIPTIONS: "subscriptions", FROM_PUBLICATIONS: "publications"}
PROGRESS: Final = b"progress"
BATCH: Final = 10_000  # subscriptions a step when a state is loaded
LATE: Final = 1 << 62  # a place behind every chunk
MARK: Final = b"\x01"  # records begin with 0xC3 or, with a registry, with 0x00


@dataclass(slots=True)
class Effects:
    """What a chunk has led to. `live`: the raw rendezvous record of a subscription that is held, or None for one that is not; auctions
    in the same way, under their key."""

    notifications: list[Notification] = field(default_factory=list)
    offers: list[BestOffer] = field(default_factory=list)
    requests: list[BackfillRequest] = field(default_factory=list)
    live: dict[bytes, bytes | None] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    moved: list[bytes] = field(default_factory=list)  # subscriptions that came through two partitions of the input


class Before(NamedTuple):
    """What came before a publication on its topic, fixed when it came: the record of the previous one, and ids."""

    previous: bytes | None = None
    earlier: tuple[str, ...] = ()


NOTHING: Final = Before()


class _Found:
    """What the store has found for the rows of a chunk."""

    def __init__(self, table: Any, stored: Rows) -> None:
        self.rows: list[int] = stored[table["operation"].to_numpy()].tolist()
        self.kinds: list[str] = table["found_kind"].to_pylist()
        self.payloads: list[bytes] = table["payload"].to_pylist()
        self._ids = table["found_id"]

    def before(self, columns: RendezvousColumns) -> dict[int, Before]:
        """By row of a publication. The store finds the latest first."""
        published = columns.kind == PUBLICATION
        found: dict[int, list[int]] = {}
        for i, (row, kind) in enumerate(zip(self.rows, self.kinds, strict=True)):
            if kind == "publication" and published[row]:
                found.setdefault(row, []).append(i)
        names = self._ids.to_pylist() if found and columns.self_join.any() else []
        return {
            row: Before(unpack(self.payloads[at[0]])[0], tuple(names[i] for i in at) if columns.self_join[row] else ())
            for row, at in found.items()
        }


@dataclass(slots=True)
class _Publications:
    """Publications to be matched: of the chunk itself, or found in the store."""

    columns: RendezvousColumns
    rows: Rows
    before: list[Before]
    names: list[bytes]
    topics: list[bytes]

    def partitions(self, i: int) -> tuple[int, ...]:
        return _partitions(self.columns, int(self.rows[i]))


class Engine:
    """The state of one rendezvous partition, over a store and, if subscriptions are looked up in memory, an index."""

    def __init__(self, number: int, hot_window: int, store: Store, *, in_memory: bool) -> None:
        self.number = number
        self.hot_window = hot_window
        self.progress = Progress()
        self.subscribers = Subscribers()
        self.auctions = Auctions(store)
        self._store = store
        self._index = Index() if in_memory else None
        self.cut: dict[int, int] = {}  # highest offset of each publications partition before the chunk
        self._ending: list[tuple[int, int, Version]] = []  # by `ends_at`: handles to take out when it is over
        self._alone = (number,)

    # ------------------------------------------------------------------------------------------ a chunk

    def process(self, values: Sequence[bytes], timestamps: Sequence[int], offsets: Sequence[int]) -> Effects:
        """`timestamps`: microseconds that Kafka gave the rendezvous records; the time of a tick. `offsets`: theirs."""
        columns = decode_rendezvous_chunk(values)
        if columns.errors:
            row, error = columns.errors[0]
            raise ValueError(f"record {row} of the chunk is no rendezvous record: {error.reason}")
        effects = Effects()
        fresh = self._fresh(columns, effects)
        chunk = _Chunk(self, columns, list(values), fresh, self._log_times(columns, timestamps, fresh), effects)
        chunk.run(offsets)
        return effects

    def _fresh(self, columns: RendezvousColumns, effects: Effects) -> Flags:
        """Not at or below the highest offset seen of their origin."""
        fresh = np.ones(len(columns), np.bool_)
        origin, partition, offset = columns.origin, columns.partition, columns.offset
        pairs = (origin.astype(np.int64) << 32) | partition
        for pair in np.unique(pairs[origin != FROM_NONE]).tolist():
            rows = np.flatnonzero(pairs == pair)
            key = (ORIGINS[pair >> 32], pair & 0xFFFFFFFF)
            seen = np.maximum.accumulate(np.concatenate(([self.progress.seen.get(key, -1)], offset[rows])))
            fresh[rows] = offset[rows] > seen[:-1]
            self.progress.seen[key] = int(seen[-1])
        repeats = len(fresh) - int(fresh.sum())
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
        self._store.put_meta(PROGRESS, encode_progress(self.progress, offset))
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

    def load(self) -> None:
        """From a store that has been used before."""
        value = self._store.get_meta(PROGRESS)
        if value is None:
            raise ValueError(f"{self._store.path} was not written by a worker")
        self.progress, _ = decode_progress(value)
        self.cut = self.progress.cut()
        for slot, payload in self.auctions.stored():
            self.auctions.open(*auction_of(payload), payload, slot)
        for batch in self._store.scan("subscription", ("payload",)):
            self._hold(batch["payload"].to_pylist())
        for batch in self._store.scan("publication", ("time", "arrived_at", "expires_at")):
            published, arrived = batch["time"].to_numpy(), batch["arrived_at"].to_numpy()
            expires = batch["expires_at"].fill_null(NEVER).to_numpy()
            self.progress.gone.add(np.minimum(published, arrived).tolist(), published.tolist(), expires.tolist())
        self.progress.gone.fold(self.horizon(self.progress.log_time))
        self.auctions.settle(Changes(0, self.progress.log_time))  # as it was; nobody is told again

    def remember(self, values: Sequence[bytes], timestamps: Sequence[int]) -> None:
        """Publications of a stretch of the log, and its time, without finding anything: what a lost store is rebuilt from."""
        columns = decode_rendezvous_chunk(values)
        fresh = (columns.kind == PUBLICATION) | (columns.kind == 0)
        chunk = _Chunk(self, columns, list(values), fresh, self._log_times(columns, timestamps, fresh), Effects())
        chunk.remember()

    def adopt(self, values: Sequence[bytes], open_auctions: Sequence[bytes], progress: Progress) -> None:
        """Live subscriptions and open auctions as the changelog has them, and how far they had come. After the publications."""
        gone = self.progress.gone
        gone.published, gone.expires = progress.gone.published, progress.gone.expires
        self.progress = Progress(progress.log_time, progress.seen, progress.complete_from, gone)
        self.cut = self.progress.cut()
        for payload in open_auctions:
            self.auctions.open(*auction_of(payload), payload)
        for start in range(0, len(values), BATCH):
            part = list(values[start : start + BATCH])
            columns = decode_rendezvous_chunk(part)
            log_time = np.full(len(part), progress.log_time, np.int64)
            chunk = _Chunk(self, columns, part, np.ones(len(part), np.bool_), log_time, Effects())
            chunk.adopt()
            self._hold(part)
        self.auctions.settle(Changes(0, self.progress.log_time))

    def _hold(self, values: list[bytes]) -> None:
        new = []
        for subscriber, asked in read_subscriptions(decode_rendezvous_chunk(values), range(len(values))):
            if self.over(subscriber.ends_at, self.progress.log_time):
                continue
            handle = self.subscribers.add(subscriber)
            self.watch_end(handle)
            if len(self.auctions) and subscriber.ends_at > self.progress.log_time:
                self.auctions.offer(_bidder(subscriber), _query(asked))
            new.append(_named(asked, handle))
        if self._index is not None:
            self._index.add_many(new)

    # ------------------------------------------------------------------------------------------ what a chunk uses

    def horizon(self, log_time: int) -> int:
        return max(log_time - self.hot_window, self.progress.complete_from)

    def over(self, ends_at: int, log_time: int) -> bool:
        return ends_at != NEVER and log_time > ends_at + self.hot_window

    def watch_end(self, handle: int) -> None:
        subscriber = self.subscribers[handle]
        if subscriber.ends_at != NEVER:
            heapq.heappush(self._ending, (subscriber.ends_at, handle, subscriber.version))

    def ended(self, log_time: int) -> Iterator[int]:
        """Handles of subscriptions that are over, and still the version in force."""
        while self._ending and self.over(self._ending[0][0], log_time):
            _, handle, version = heapq.heappop(self._ending)
            if self.subscribers.holds(handle, version):
                yield handle


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
        self.names: list[Any] = list(columns.id)
        self.topics: list[Any] = list(columns.topic)
        self.parties: list[Any] = list(columns.party_id)
        self.added: dict[int, int] = {}  # handle → its row
        self.removed: dict[int, int] = {}
        self.handles: dict[int, int] = {}  # row → its handle
        self.repeats: set[int] = set()  # rows of publications that the store has dropped
        self.amended: dict[bytes, bytes] = {}

    def run(self, offsets: Sequence[int]) -> None:
        self._subscriptions()
        found = self._store("both" if self.engine._index is None else "past")
        publications = self._publications(found)
        if len(publications.rows):
            self._live(publications, found)
        self._past(found)
        self._auctions(publications, found, offsets)
        self._requests(publications.rows)
        self._finish()

    def remember(self) -> None:
        found = self._store("none")
        publications = self._publications(found)
        self._requests(publications.rows)

    def adopt(self) -> None:
        self._store("none")

    # ------------------------------------------------------------------------------------------ subscriptions

    def _subscriptions(self) -> None:
        """Who comes and who goes, in order. New ones are in the index from here on."""
        engine, columns = self.engine, self.columns
        rows = np.flatnonzero(((columns.kind == SUBSCRIPTION) | (columns.kind == WITHDRAWAL)) & self.fresh).tolist()
        coming = [row for row in rows if columns.kind[row] == SUBSCRIPTION]
        read = dict(zip(coming, read_subscriptions(columns, coming), strict=True))
        new: list[NewSubscription] = []
        for row in rows:
            known = engine.subscribers.find(self.names[row])
            version = _version(columns, row)
            if known is not None and engine.subscribers[known].version.partition != version.partition:
                self.effects.moved.append(self.names[row])
            if row not in read:
                if known is None or engine.subscribers[known].version > version or self._ended_by(known, row):
                    self.effects.dropped["unknown_withdrawal"] += 1
                    self.fresh[row] = False
                    continue
                self._remove(known, row)
                continue
            subscriber, asked = read[row]
            if known is not None and self._ended_by(known, row):
                self._remove(known, row)
                known = None
            if known is not None and engine.subscribers[known].version >= version:
                self.effects.dropped["older_version"] += 1
                self.fresh[row] = False
                continue
            if known is not None:
                self._remove(known, row)
            handle = engine.subscribers.add(subscriber)
            self.handles[row] = handle
            self.added[handle] = row
            new.append(_named(asked, handle))
            if engine.over(subscriber.ends_at, int(self.log_time[row])):
                # answered from the past, and not held
                self._remove(handle, row)
            else:
                self.effects.live[subscriber.name] = self.values[row]
        if new and engine._index is not None:
            engine._index.add_many(new)

    def _ended_by(self, handle: int, row: int) -> bool:
        return self.engine.over(self.engine.subscribers[handle].ends_at, int(self.log_time[row]))

    def _remove(self, handle: int, row: int) -> None:
        self.removed[handle] = row
        name = self.engine.subscribers[handle].name
        self.engine.subscribers.retire(name)
        self.effects.live[name] = None

    # ------------------------------------------------------------------------------------------ the store

    def _store(self, find: str) -> _Found | None:
        columns = self.columns
        rows = np.flatnonzero(self.fresh & (columns.kind != 0))
        if not len(rows):
            self.engine._store.tick(int(self.log_time[-1]))
            return None
        published = columns.kind[rows] == PUBLICATION
        withdrawn = columns.kind[rows] == WITHDRAWAL
        begins, ends = columns.begins_at[rows], columns.ends_at[rows]
        endless = (ends == NEVER) | withdrawn
        order = rows.tolist()
        codes = np.where(published, 1, np.where(withdrawn, 2, 0)).astype(np.int8)
        table = pa.table(
            {
                "kind": pa.DictionaryArray.from_arrays(pa.array(codes), KINDS),
                "id": pa.array([self.names[row] for row in order], pa.binary()),
                "topic": pa.array([self.topics[row] or b"" for row in order], pa.binary()),
                "time": np.where(published, begins, self.log_time[rows]),
                "arrived_at": np.where(published, columns.arrived_at[rows], self.log_time[rows]),
                "starts_at": pa.array(begins, mask=published | withdrawn),
                "ends_at": pa.array(ends, mask=published | endless),
                "expires_at": pa.array(ends, mask=~published | endless),
                "scope": pa.DictionaryArray.from_arrays(
                    pa.array(np.where(published | withdrawn, 0, columns.scope[rows]).astype(np.int8)), pa.array(SCOPES)
                ),
                "valid": pa.array((columns.time[rows] == 1) & ~published & ~withdrawn),
                "subscriber_id": pa.array([self.parties[row] for row in order], pa.binary()),
                "self_join": pa.array(columns.self_join[rows] & ~withdrawn),
                # the previous publication of each, and all that a self-joining one carries
                "earlier": np.where(published, np.where(columns.self_join[rows], EARLIER, 1), 0),
                "payload": pa.array([self.values[row] for row in order], pa.binary()),
            }
        )
        found = _Found(self.engine._store.apply(table, find=find, columns=("payload",)), rows)
        self.engine._store.tick(int(self.log_time[-1]))
        self.repeats = {order[i] for i in self.engine._store.repeats.tolist()}
        return found

    def _publications(self, found: _Found | None) -> _Publications:
        """The publications that were not dropped, each with what came before it on its topic, and stored with that."""
        columns = self.columns
        rows = np.flatnonzero((columns.kind == PUBLICATION) & self.fresh)
        if self.repeats:
            self.effects.dropped["repeated_publication"] += len(self.repeats)
            rows = np.array([row for row in rows.tolist() if row not in self.repeats], np.int64)
        order = rows.tolist()
        before = {} if found is None else found.before(columns)
        parts = [before.get(row, NOTHING) for row in order]
        names = [self.names[row] for row in order]
        amended = [i for i, part in enumerate(parts) if part is not NOTHING]
        if amended:
            packed = [pack(self.values[order[i]], parts[i]) for i in amended]
            self.engine._store.amend([names[i] for i in amended], packed)
            # what subscriptions of this chunk have found is what was stored before
            self.amended = dict(zip((self.values[order[i]] for i in amended), packed, strict=True))
        return _Publications(columns, rows, parts, names, [self.topics[row] or b"" for row in order])

    # ------------------------------------------------------------------------------------------ live

    def _live(self, publications: _Publications, found: _Found | None) -> None:
        """Publications of the chunk with the subscriptions that were there before them."""
        engine = self.engine
        if engine._index is None:
            pairs = self._live_on_disk(publications, found)
        else:
            pairs = self._live_in_memory(publications)
        matching: dict[int, list[Subscriber]] = {}
        for i, subscriber in pairs:
            matching.setdefault(i, []).append(subscriber)
        for i, subscribers in matching.items():
            partitions = publications.partitions(i)
            for subscriber in subscribers:
                if reports(engine.number, subscriber.partitions, partitions) and not (
                    subscriber.self_join and _covered(subscriber, subscribers)
                ):
                    self._notify(subscriber, publications, i, int(publications.rows[i]), "live")

    def _live_in_memory(self, publications: _Publications) -> list[tuple[int, Subscriber]]:
        subscribers = self.engine.subscribers
        return [(i, subscribers[handle]) for i, handle in self._live_handles(publications)]

    def _live_handles(self, publications: _Publications) -> list[tuple[int, int]]:
        engine, columns, rows = self.engine, self.columns, publications.rows
        assert engine._index is not None
        matched, handles = engine._index.match_attributes(
            self._attributes(publications, engine.subscribers.needing_previous > 0),
            topics=pa.array(publications.topics, pa.binary()).cast(pa.string()),
            published_at=columns.begins_at[rows],
            expires_at=columns.ends_at[rows],
            where=self._where(publications),
        )
        if not len(matched):
            return []
        by = handles.to_numpy().astype(np.int64)
        places = rows[matched]
        ends = engine.subscribers.ends_at[by]
        # expired on arrival, or a subscription that is over: the index knows neither
        keep = columns.ends_at[places] > columns.arrived_at[places]
        keep &= (ends == NEVER) | (self.log_time[places] <= np.where(ends == NEVER, 0, ends) + engine.hot_window)
        pairs = []
        for i, handle in zip(matched[keep].tolist(), by[keep].tolist(), strict=True):
            if self.added.get(handle, -1) < rows[i] < self.removed.get(handle, LATE):
                pairs.append((i, handle))
        return pairs

    def _live_on_disk(self, publications: _Publications, found: _Found | None) -> list[tuple[int, Subscriber]]:
        """The store has found the subscriptions that fit in topic and time; their conditions are tested here."""
        place_of = {row: i for i, row in enumerate(publications.rows.tolist())}
        return self._test(publications, self._candidates(found, place_of))

    def _candidates(self, found: _Found | None, place_of: dict[int, int]) -> list[tuple[int, bytes]]:
        if found is None:
            return []
        return [
            (place_of[row], payload)
            for row, kind, payload in zip(found.rows, found.kinds, found.payloads, strict=True)
            if kind == "subscription" and row in place_of
        ]

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
        candidates: list[tuple[int, bytes]] = []
        overlapping: dict[int, list[bytes]] = {}
        for row, kind, payload in zip(found.rows, found.kinds, found.payloads, strict=True):
            if row not in self.handles:
                continue
            if kind == "publication":
                candidates.append((row, self.amended.get(payload, payload)))
            else:
                overlapping.setdefault(row, []).append(payload)
        if not candidates:
            return
        unique = {payload: i for i, payload in enumerate(dict.fromkeys(payload for _, payload in candidates))}
        publications = _unpacked(list(unique))
        rows = np.array([unique[payload] for _, payload in candidates], np.int64)
        fits = self._past_fits(publications, candidates, rows)
        found_now: list[tuple[int, int, Subscriber]] = []
        for (row, _), i, fit in zip(candidates, rows.tolist(), fits.tolist(), strict=True):
            subscriber = self.engine.subscribers[self.handles[row]]
            if fit and reports(self.engine.number, subscriber.partitions, publications.partitions(i)):
                found_now.append((row, i, subscriber))
        covered = self._covered_before(found_now, publications, overlapping)
        for row, i, subscriber in found_now:
            if (row, i) not in covered:
                self._notify(subscriber, publications, i, row, "past")

    def _past_fits(self, publications: _Publications, candidates: list[tuple[int, bytes]], rows: Rows) -> Flags:
        engine = self.engine
        subscribers = [engine.subscribers[self.handles[row]] for row, _ in candidates]
        if all(s.always for s in subscribers) and all(form is None for form in publications.columns.where):
            return np.ones(len(rows), np.bool_)  # topic and time are the store's
        if engine._index is not None:
            handles = np.array([self.handles[row] for row, _ in candidates], np.int64)
            previous = any(subscriber.needs_previous for subscriber in subscribers)
            return self._match_pairs(engine._index, publications, rows, handles, previous)
        asked = [(i, self.values[row]) for i, (row, _) in zip(rows.tolist(), candidates, strict=True)]
        fitting = {(i, s.name, s.version) for i, s in self._test(publications, asked)}
        fits = [(i, s.name, s.version) in fitting for i, s in zip(rows.tolist(), subscribers, strict=True)]
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

    def _match_pairs(
        self, index: Index, publications: _Publications, rows: Rows, handles: Rows, previous: bool
    ) -> Flags:
        columns, at = publications.columns, publications.rows
        return index.match_pairs(
            self._attributes(publications, previous),
            rows,
            handles,
            topics=pa.array(publications.topics, pa.binary()).cast(pa.string()),
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
        forms = [publications.columns.where[row] for row in publications.rows.tolist()]
        return forms if any(form is not None for form in forms) else None

    def _notify(self, subscriber: Subscriber, publications: _Publications, i: int, row: int, phase: Any) -> None:
        """At the log time of `row`, the later of the two."""
        columns, at = publications.columns, int(publications.rows[i])
        told: list[tuple[Any, str]] = [("subscriber", subscriber.recipient.decode())]
        publisher = columns.party_id[at]
        if publisher is not None:
            told.append(("publisher", publisher.decode()))
        subscription, publication = subscriber.name.decode(), publications.names[i].decode()
        for role, recipient in told:
            self.effects.notifications.append(
                Notification(
                    notification_id(subscription, subscriber.version, publication, role),
                    subscription,
                    str(subscriber.version),
                    publication,
                    recipient,
                    role,
                    publications.topics[i].decode(),
                    int(columns.begins_at[at]),
                    int(self.log_time[row]),
                    phase,
                    publications.before[i].earlier if columns.self_join[at] else (),
                )
            )

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
            if not busy and engine.auctions.next_time > now:
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
            self.effects.notifications += changes.notifications
            self.effects.offers += changes.offers

    def _open(self, row: int, bidding: list[tuple[Subscriber, oracle.Subscription]]) -> None:
        engine, value = self.engine, self.values[row]
        payload = self.amended.get(value, value)
        auction = engine.auctions.open(*auction_of(payload), payload)
        self.effects.live[auctions.KEY + self.names[row]] = payload
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
        several = _Publications(
            self.columns,
            rows,
            [publications.before[i] for i in chosen.tolist()],
            [publications.names[i] for i in chosen.tolist()],
            [publications.topics[i] for i in chosen.tolist()],
        )
        if engine._index is not None:
            for i, handle in self._live_handles(several):
                form, semantics = engine._index.condition(handle)
                query = oracle.Subscription(form, semantics=semantics)
                matching[int(rows[i])].append((engine.subscribers[handle], query))
            return matching
        place_of = {row: i for i, row in enumerate(rows.tolist())}
        for i, subscriber, payload in self._tested(several, self._candidates(found, place_of)):
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
        for row, handle in self.handles.items():
            until = int(np.searchsorted(rows, row))
            gone.add(held[added:until].tolist(), begins[added:until].tolist(), ends[added:until].tolist())
            added = until
            now = int(self.log_time[row])
            gone.fold(engine.horizon(now))
            subscriber = engine.subscribers[handle]
            if gone.asked_by(subscriber.starts_at, bool(columns.time[row]), now):
                self.effects.requests.append(
                    BackfillRequest(
                        canonical(columns, row, subscriber),
                        engine.number,
                        engine.horizon(now),
                        now,
                        int(columns.routing_version[row]),
                        self._cut(row),
                    )
                )
        gone.add(held[added:].tolist(), begins[added:].tolist(), ends[added:].tolist())
        gone.fold(engine.horizon(int(self.log_time[-1])))

    def _cut(self, row: int) -> dict[int, int]:
        """The highest offsets of publications seen before a row."""
        columns = self.columns
        cut = dict(self.engine.cut)
        for other in np.flatnonzero((columns.origin == FROM_PUBLICATIONS)[:row]).tolist():
            partition = int(columns.partition[other])
            cut[partition] = max(cut.get(partition, -1), int(columns.offset[other]))
        return cut

    def _finish(self) -> None:
        engine = self.engine
        now = int(self.log_time[-1])
        for handle in self.added:
            if handle not in self.removed:
                engine.watch_end(handle)
        for handle in engine.ended(now):
            self._remove(handle, len(self.values))
        if self.removed:
            if engine._index is not None:
                engine._index.remove_many(np.array(list(self.removed), np.int64))
            for handle in self.removed:
                engine.subscribers.release(handle)
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
    names: list[Any] = list(columns.id)
    topics = [topic or b"" for topic in columns.topic]
    return _Publications(columns, np.arange(len(parts)), [before for _, before in parts], names, topics)


def _attributes_in(value: bytes) -> dict[str, Value]:
    record: Any = decode_rendezvous(value).record
    attributes: dict[str, Value] = record.attributes
    return attributes


__all__ = ["Before", "Effects", "Engine", "pack", "unpack"]
