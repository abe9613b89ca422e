"""The engine, by chunks, against the reference, record by record, on random logs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastforward.columns.times import SECOND
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.matching.conditions.values import Value
from pastforward.schemas import (
    NEVER,
    Best,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Content,
    Notification,
    Rendezvous,
    Version,
    encode,
)
from pastforward.state import Budget, Limits, blocks, open_store, searching
from pastforward.streams.matcher import duplicates
from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.engine import Engine
from pastforward.streams.matcher.held import Before, attributes_of, auction_of, pack, unpack
from pastforward.streams.matcher.matcher import PROGRESS
from pastforward.streams.matcher.progress import encode_progress
from pastforward.streams.reference import Partition
from pastforward.streams.routing import Directory
from pastforward.streams.worker.recovery import StaleError
from tests.streams.kept import Kept
from tests.streams.logs import HOT, START, auctions, chains, form, logs, pauses

# What `make soak` runs of this file is the file, with more examples.
SOAK = bool(os.environ.get("HYPOTHESIS_SOAK"))
EXAMPLES = 2_000 if SOAK else 25
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Logs are short here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "BLOCK", 8)
        patch.setattr(blocks, "BLOCK", 5)
        patch.setattr(searching, "FEW", 0)
        patch.setattr(searching, "PIECES", Limits(blocks=2, publications=3))
        yield


def shown(notification: Notification) -> tuple[Any, ...]:
    return (
        notification.notification_id,
        notification.subscription_id,
        notification.publication_id,
        notification.recipient_id,
        notification.role,
        notification.phase,
        notification.matched_at,
        notification.earlier_ids,
        str(notification.value),
        carried(notification.content),
    )


def carried(content: Content | None) -> str:
    if content is None:
        return ""
    attributes = sorted((name, type(value).__name__, plainly(value)) for name, value in content.attributes.items())
    return repr((attributes, content.where, content.body, content.publisher_id, content.expires_at))


def plainly(value: Value) -> str:
    """A moment is one in any zone."""
    return str(value.astimezone(UTC) if isinstance(value, datetime) else value)


def by_auction(offer: BestOffer) -> tuple[str, str]:
    return offer.publication_id, offer.topic


def requested(effects: Any) -> list[tuple[Any, ...]]:
    return [
        (r.subscription.subscription_id, str(r.subscription.version), r.horizon, r.log_time, r.cut, r.covers, r.above)
        for r in effects.requests
    ]


# ---------------------------------------------------------------------------------------------- what is held


def subscriptions_of(engine: Engine) -> dict[str, tuple[Any, ...]]:
    found = {}
    for name in engine.subscribers.names():
        handle = engine.subscribers.find(name)
        assert handle is not None
        held = engine.subscribers[handle]
        ends_at = None if held.ends_at == NEVER else held.ends_at
        pause = engine.subscribers.pauses.get(handle)
        found[name.decode()] = (held.version, held.partitions, held.topic.decode(), held.starts_at, pause, ends_at)
    return found


def publications_of(engine: Engine) -> list[tuple[Any, ...]]:
    """What the store has, but for what has expired or left the window: when it lets go of that is its own affair."""
    found = []
    now = engine.progress.log_time
    for batch in engine.store.scan("publication"):
        for row in batch.to_pylist():
            expires_at = NEVER if row["expires_at"] is None else row["expires_at"]
            if min(row["time"], row["arrived_at"]) >= engine.horizon(now) and expires_at > now:
                record, offer, earlier = auction_of(row["payload"])
                found.append((row["arrived_at"], *held_form(record, offer.previous, earlier)))
    return sorted(found, key=repr)


def held_form(record: CanonicalPublication, previous: Any, earlier: tuple[str, ...]) -> tuple[Any, ...]:
    times = (record.published_at, record.expires_at)
    return (record.publication_id, record.topic, *times, record.attributes, record.where, previous, earlier)


def auctions_of(engine: Engine) -> dict[str, tuple[Any, ...]]:
    found = {}
    for name, auction in engine.auctions._open.items():
        holder = auction.holder and (auction.holder[0].name, auction.holder[0].version, auction.holder[1])
        found[name] = (*held_form(auction.publication, auction.offer.previous, auction.earlier), holder)
    return found


def assert_holds(engine: Engine, reference: Partition, dropped: dict[int, int], window: int) -> None:
    """`dropped`: offsets of publications that had come before, with the log time then. `window`: the shortest so far."""
    progress, now = engine.progress, reference.progress.log_time
    assert (progress.log_time, progress.seen) == (now, reference.progress.seen)
    assert engine.horizon(now) == reference.horizon
    # one that is over under the shortest window is let go of when that is in force, or comes back with a longer one: it has ended
    held = {
        name: (r.version, live.partitions, r.topic, r.starts_at, live.pause, r.ends_at)
        for name, live in reference.subscriptions.items()
        for r in [live.record]
    }
    standing = [
        {name: each for name, each in some.items() if each[-1] is None or now <= each[-1] + window}
        for some in (subscriptions_of(engine), held)
    ]
    assert standing[0] == standing[1]
    assert publications_of(engine) == sorted(
        (
            (held.arrived_at, *held_form(held.record, held.offer.previous, held.earlier))
            for held in reference.publications
            if held.held_at >= reference.horizon and held.expires_at > now
        ),
        key=repr,
    )
    assert auctions_of(engine) == {
        name: (
            *held_form(auction.held.record, auction.held.offer.previous, auction.held.earlier),
            auction.holder and (auction.holder[0].subscription_id, auction.holder[0].version, auction.holder[1]),
        )
        for name, auction in reference.auctions.items()
    }
    offsets = np.arange(max(dropped, default=-1) + 1)
    known = set(np.flatnonzero(engine.duplicates.among(offsets)).tolist())
    needed = {at for at, time in dropped.items() if time >= now - 2 * window}
    assert (sorted(needed - known), sorted(known - set(dropped))) == ([], [])


def chunks(log: list[Rendezvous], cuts: list[int]) -> list[list[Rendezvous]]:
    edges = sorted({0, len(log), *(cut % len(log) for cut in cuts if log)})
    return [log[a:b] for a, b in pairwise(edges)]


def feed(engine: Engine, chunk: list[Rendezvous], offset: int) -> Effects:
    return engine.process(
        [encode(envelope) for envelope in chunk],
        [envelope.arrived_at for envelope in chunk],
        range(offset, offset + len(chunk)),
    )


def entry_of(version: int) -> Directory:
    return Directory(version, "dewey", 1)


def tagged(log: list[Rendezvous], old: int) -> list[Rendezvous]:
    """So many records, at first, came under the version of the routing before."""
    return [replace(envelope, routing_version=1 if i < old else 2) for i, envelope in enumerate(log)]


class Engines:
    """An engine that can be stopped and started between chunks, from its store or from what Kafka has."""

    def __init__(self, directory: str, layout: str, in_memory: bool, version: int = 1, room: str = "ample") -> None:
        self._directory, self._layout, self._in_memory, self._version = directory, layout, in_memory, version
        self._room = room
        self._number = 0
        self.hot = HOT
        self.kafka = Kept()
        self._last = 0  # where the last chunk begins
        self.set_aside = 0  # stores that could not be used
        self._take_over(0)

    def _open(self) -> Engine:
        place = f"{self._directory}/{self._number}"
        budget = Budget(32 << 20)
        if self._room == "none":
            budget.for_indexes = -1
        store = open_store(
            place, self._layout, hot_window=self.hot, lateness=self.hot, budget=budget, reader=attributes_of
        )
        if self._room == "spilled":
            store._subscriptions.spill(store._disk)
            store._publications.most = 1
        return Engine(0, self.hot, store, in_memory=self._in_memory, version=self._version)

    def _take_over(self, committed: int, piece: int = 7, earlier: int = 0) -> None:
        self.engine = self._open()
        try:
            self.kafka.recover(self.engine, committed, entry_of(self._version), piece, earlier)
        except StaleError:  # as a worker does: the store is set aside
            self.set_aside += 1
            self.engine.close()
            self._number += 1
            self._take_over(committed, piece, earlier)

    @property
    def changelog(self) -> dict[bytes, bytes]:
        """What compaction leaves of it, but for the progress."""
        last = dict(self.kafka.changelog)
        return {key: value for key, value in last.items() if value is not None and key != PROGRESS}

    def feed(self, chunk: list[Rendezvous]) -> Effects:
        self._last = len(self.kafka.log)
        effects = feed(self.engine, chunk, self._last)
        self.kafka.log += chunk
        self._write(effects)
        return effects

    def _write(self, effects: Effects) -> None:
        progress = encode_progress(self.engine.progress, self.engine.applied)
        self.kafka.changelog += [*effects.live.items(), (PROGRESS, progress)]

    def commit(self) -> None:
        self.engine.commit(len(self.kafka.log))

    def restart(self, piece: int) -> None:
        """What was committed, and then the rest of the log, in other chunks; what they lead to was sent before."""
        self.engine.close()
        self._take_over(len(self.kafka.log), piece)

    def rebuild(self, earlier: int = 0, behind: bool = False) -> None:
        """From Kafka alone. `behind`: the offset of the last chunk was not committed."""
        self.engine.close()
        self._number += 1
        self._take_over(self._last if behind else len(self.kafka.log), earlier=earlier)

    def again(self) -> Effects:
        """The last chunk once more: at least once, its changelog was written before its offset."""
        effects = feed(self.engine, self.kafka.log[self._last :], self._last)
        self._write(effects)
        return effects


some_cuts = st.lists(st.integers(0, 100), max_size=6)
some_layout = st.sampled_from(["dual", "two"])
some_room = st.sampled_from(["ample", "spilled", "none"])  # for what is held: in memory, or beyond it
some_faults = st.lists(
    st.sampled_from(["go on", "commit", "restart", "rebuild", "rebuild again", "window", "window rebuild"]),
    min_size=7,
    max_size=7,
)
some_returns = st.lists(
    st.sampled_from(["go on", "commit", "restart", "rebuild", "rebuild again"]), min_size=7, max_size=7
)
some_losses = st.lists(st.sampled_from(["restart", "rebuild", "rebuild", "rebuild again"]), min_size=7, max_size=7)
some_delay = st.sampled_from([0, 0, 3, 40])  # records that a rebuild reads too many
some_size = st.integers(1, 10)
long = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(
    logs(), some_cuts, some_layout, some_faults, some_delay, some_size, some_room, st.sampled_from([0, 0, 5, 15, 30])
)
@long
def test_chunks_give_what_single_records_give(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
    room: str,
    old: int,
) -> None:
    agree(in_memory, log, cuts, layout, between, earlier, piece, room, old)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(chains(), some_cuts, some_layout, some_losses, some_delay, some_size, some_room)
@long
def test_ids_that_come_again_and_again(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
    room: str,
) -> None:
    agree(in_memory, log, cuts, layout, between, earlier, piece, room)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(
    auctions(), some_cuts, some_layout, some_faults, some_delay, some_size, some_room, st.sampled_from([0, 0, 5, 15])
)
@long
def test_auctions_that_are_open_meanwhile(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
    room: str,
    old: int,
) -> None:
    agree(in_memory, log, cuts, layout, between, earlier, piece, room, old)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(pauses(), some_cuts, some_layout, some_returns, some_delay, some_size, some_room)
@long
def test_subscriptions_that_are_paused_and_resumed(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
    room: str,
) -> None:
    agree(in_memory, log, cuts, layout, between, earlier, piece, room)


def agree(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
    room: str,
    old: int = 0,
) -> None:
    version = 2 if old else 1
    reference = Partition(0, HOT, version)
    if old:
        log = tagged(log, old)
        reference.begin(entry_of(version))
    offset = 0
    dropped: dict[int, int] = {}
    shortest = HOT
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, layout, in_memory, version, room)
        try:
            for chunk, then in zip(chunks(log, cuts), between, strict=False):
                found = []
                for envelope in chunk:
                    found.append(reference.apply(envelope, offset))
                    if found[-1].dropped and isinstance(envelope.record, CanonicalPublication):
                        dropped[offset] = reference.progress.log_time
                    offset += 1
                effects = engines.feed(chunk)
                wanted = [shown(n) for f in found for n in f.notifications]
                assert sorted(map(shown, effects.notifications)) == sorted(wanted)
                # of one auction in order; two that end at the same record have none
                offers = [offer for f in found for offer in f.offers]
                assert sorted(effects.offers, key=by_auction) == sorted(offers, key=by_auction)
                assert requested(effects) == [r for f in found for r in requested(f)]
                assert_holds(engines.engine, reference, dropped, shortest)
                if then == "commit" or (then == "restart" and engines.engine.offset is None):
                    engines.commit()
                if then == "restart":
                    engines.restart(piece)
                elif then.startswith("window"):
                    engines.commit()
                    engines.hot = {HOT: 3 * HOT, 3 * HOT: HOT // 2, HOT // 2: HOT}[engines.hot]
                    shortest = min(shortest, engines.hot)
                    reference.change_window(engines.hot)
                    engines.rebuild(earlier) if then == "window rebuild" else engines.restart(piece)
                elif then.startswith("rebuild"):
                    engines.rebuild(earlier, then == "rebuild again")
                    if then == "rebuild again":
                        nothing = engines.again()
                        assert not nothing.notifications + nothing.offers + nothing.requests
                if not then.startswith("window"):  # what is over under it goes with the next record
                    assert_holds(engines.engine, reference, dropped, shortest)
        finally:
            engines.engine.close()


def test_a_repeat_does_not_end_an_auction(tmp_path: Path) -> None:
    """One that has expired when it comes late is ended by the next record that counts."""
    offer = CanonicalPublication(
        "p", None, "1", START - 2, START - 1, Best("x", "highest"), False, {}, None
    )  # expired in log time, not on arrival
    first = CanonicalSubscription("s", "anna", Version(START, 0, 0), "1", "overlap", START, None, "published", ALWAYS)
    log = [
        Rendezvous("subscriptions", 0, 0, START, 1, (0,), first),
        Rendezvous("publications", 0, 0, START - 2, 1, (0,), offer),
        Rendezvous("subscriptions", 0, 0, START, 1, (0,), first),
        Rendezvous("none", 0, 0, START, 1, (0,)),
    ]
    reference = Partition(0, HOT)
    wanted = [reference.apply(envelope, at).offers for at, envelope in enumerate(log)]
    assert [len(offers) for offers in wanted] == [0, 0, 0, 1]
    engine = Engine(0, HOT, open_store(tmp_path, "dual", hot_window=HOT, lateness=HOT), in_memory=True)
    assert feed(engine, log, 0).offers == wanted[3]
    engine.close()


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
def test_who_has_ended_does_not_bid_for_what_comes_late(tmp_path: Path, in_memory: bool) -> None:
    """The publication had expired in log time when it came, and the subscription had ended: after that expiry, but before it came."""

    def at(seconds: int) -> int:
        return START + seconds * SECOND

    bids = CanonicalSubscription(
        "s", "anna", Version(START, 0, 0), "1", "overlap", START, at(3), "published", form("x <= 5")
    )
    asks = CanonicalPublication("p", None, "1", at(1), at(2), Best("x", "highest"), False, {}, form("x >= 1"))
    log = [
        Rendezvous("subscriptions", 0, 0, START, 1, (0,), bids),
        Rendezvous("none", 0, 0, at(5), 1, (0,)),
        Rendezvous("publications", 0, 0, at(1), 1, (0,), asks),
        Rendezvous("none", 0, 0, at(6), 1, (0,)),
    ]
    reference = Partition(0, HOT)
    wanted = [reference.apply(envelope, offset) for offset, envelope in enumerate(log)]
    engine = Engine(0, HOT, open_store(tmp_path, "dual", hot_window=HOT, lateness=HOT), in_memory=in_memory)
    effects = feed(engine, log, 0)
    engine.close()
    assert [n.phase for n in effects.notifications] == ["live"]
    assert [(offer.subscription_id, offer.final) for offer in effects.offers] == [(None, True)]
    assert effects.notifications == [n for found in wanted for n in found.notifications]
    assert effects.offers == [offer for found in wanted for offer in found.offers]


# ---------------------------------------------------------------------------------------------- what happens at the same moment


def subscribed(name: str, offset: int, ends_at: int | None, where: str = "x <= 5") -> Rendezvous:
    record = CanonicalSubscription(
        name, name, Version(START, 0, offset), "1", "overlap", START, ends_at, "published", form(where), "intersect"
    )
    return Rendezvous("subscriptions", 0, offset, START, 1, (0,), record)


def asked(name: str, offset: int, expires_at: int | None) -> Rendezvous:
    record = CanonicalPublication(
        name, None, "1", START, expires_at, Best("x", "highest"), False, {}, form("x BETWEEN 0 AND 9")
    )
    return Rendezvous("publications", 0, offset, START, 1, (0,), record)


def tick(at: int) -> Rendezvous:
    return Rendezvous("none", 0, 0, at, 1, (0,))


def one_by_one(directory: Path, in_memory: bool, log: list[Rendezvous]) -> list[Effects]:
    """What each record leads to, which is what the reference says."""
    reference = Partition(0, HOT)
    engines = Engines(str(directory), "dual", in_memory)
    found = []
    for offset, envelope in enumerate(log):
        wanted = reference.apply(envelope, offset)
        effects = engines.feed([envelope])
        assert sorted(map(shown, effects.notifications)) == sorted(map(shown, wanted.notifications))
        assert effects.offers == wanted.offers
        found.append(effects)
    engines.engine.close()
    return found


both = pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])


@both
def test_what_expires_as_it_arrives_is_not_told(tmp_path: Path, in_memory: bool) -> None:
    def published(offset: int, expires_at: int) -> Rendezvous:
        record = CanonicalPublication(f"p{offset}", None, "1", START, expires_at, None, False, {"x": 1}, None)
        return Rendezvous("publications", 0, offset, START + SECOND, 1, (0,), record)

    log = [subscribed("s", 0, None), published(0, START + SECOND), published(1, START + SECOND + 1)]
    found = one_by_one(tmp_path, in_memory, log)
    assert [len(effects.notifications) for effects in found] == [0, 0, 1]


@both
def test_bids_that_end_together_all_end(tmp_path: Path, in_memory: bool) -> None:
    end = START + SECOND
    log = [
        asked("p", 0, None),
        subscribed("best", 0, end, "x <= 5"),
        subscribed("second", 1, end, "x <= 4"),
        subscribed("third", 2, None, "x <= 3"),
        tick(end),
    ]
    found = one_by_one(tmp_path, in_memory, log)
    assert [offer.subscription_id for offer in found[-1].offers] == ["third"]


@both
def test_a_bid_that_ends_with_its_auction_has_won_it(tmp_path: Path, in_memory: bool) -> None:
    end = START + SECOND
    found = one_by_one(tmp_path, in_memory, [asked("p", 0, end), subscribed("s", 0, end), tick(end)])
    assert [(offer.subscription_id, offer.final) for offer in found[-1].offers] == [("s", True)]


@both
@pytest.mark.parametrize("after", [0, 1])
def test_a_subscription_stands_for_a_hot_window_after_its_end_and_no_longer(
    tmp_path: Path, in_memory: bool, after: int
) -> None:
    """For what was published before its end and comes late."""
    end = START + SECOND
    record = CanonicalPublication("p", None, "1", START, None, None, False, {"x": 1}, None)
    late = Rendezvous("publications", 0, 0, end + HOT + after, 1, (0,), record)
    found = one_by_one(tmp_path, in_memory, [subscribed("s", 0, end), tick(end + HOT + after), late])
    assert len(found[-1].notifications) == 1 - after


def test_auctions_do_not_take_the_places_of_others_after_a_restart(tmp_path: Path) -> None:
    engines = Engines(str(tmp_path), "dual", True)
    for offset in range(3):
        engines.feed([asked(f"p{offset}", offset, None)])
        engines.commit()
        engines.restart(1)
    assert sorted(auctions_of(engines.engine)) == [f"p{offset}\0" + "1" for offset in range(3)]
    engines.engine.close()


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
def test_an_id_that_comes_again_in_one_chunk_after_its_time(tmp_path: Path, in_memory: bool) -> None:
    """The first one has another before it, which is stored with it; the second one has not, and must not be stored with the first's."""
    later = START + HOT + SECOND

    def published(name: str, offset: int, at: int) -> Rendezvous:
        record = CanonicalPublication(name, None, "1", at, None, None, False, {}, None)
        return Rendezvous("publications", 0, offset, at, 1, (0,), record)

    asks = CanonicalSubscription("s", "anna", Version(later, 0, 0), "1", "overlap", START, None, "published", ALWAYS)
    log = [
        published("other", 0, START),
        published("p", 1, START),
        published("p", 2, later),
        Rendezvous("subscriptions", 0, 0, later, 1, (0,), asks),
    ]
    reference = Partition(0, HOT)
    wanted = [n for at, envelope in enumerate(log) for n in reference.apply(envelope, at).notifications]
    assert [(n.publication_id, n.published_at) for n in wanted] == [("p", later)]
    engine = Engine(0, HOT, open_store(tmp_path, "dual", hot_window=HOT, lateness=HOT), in_memory=in_memory)
    assert feed(engine, log[:3], 0).notifications == []
    assert feed(engine, log[3:], 3).notifications == wanted
    engine.close()


def test_a_rebuilt_publication_has_the_earlier_ones_of_its_time(tmp_path: Path) -> None:
    """A subscription had told the time: what expired before it was not valid any more when the next publication came, late."""

    def published(number: int, arrived: int, lasts: int | None = None) -> Rendezvous:
        until = None if lasts is None else arrived + lasts
        record = CanonicalPublication(f"p{number}", None, "1", arrived, until, None, True)
        return Rendezvous("publications", 0, number, arrived, 1, (0,), record)

    def subscribed(number: int, arrived: int) -> Rendezvous:
        version = Version(arrived, 0, number)
        record = CanonicalSubscription(f"s{number}", "anna", version, "1", "overlap", START, None, "published", ALWAYS)
        return Rendezvous("subscriptions", 0, number, arrived, 1, (0,), record)

    engines = Engines(str(tmp_path), "dual", True)
    late = START + 2 * SECOND
    engines.feed([published(0, START, 3 * SECOND), subscribed(0, START + 4 * SECOND), published(1, late)])
    engines.rebuild()
    found = engines.feed([subscribed(1, START + 5 * SECOND)]).notifications
    engines.engine.close()
    assert [(n.publication_id, n.earlier_ids) for n in found] == [("p1", ())]


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
def test_a_rebuilt_partition_knows_which_publication_of_an_id_counts(tmp_path: Path, in_memory: bool) -> None:
    """Of 0, 15 and 30 s the second is a repeat of the first, and the third is none; what is rebuilt begins behind the first."""

    def published(offset: int, seconds: int) -> Rendezvous:
        at = START + seconds * SECOND
        record = CanonicalPublication("p", None, "1", at, None, None, False, {}, None)
        return Rendezvous("publications", 0, offset, at, 1, (0,), record)

    def subscribed(seconds: int) -> Rendezvous:
        at = START + seconds * SECOND
        record = CanonicalSubscription("s", "anna", Version(at, 0, 0), "1", "overlap", START, None, "published", ALWAYS)
        return Rendezvous("subscriptions", 0, 0, at, 1, (0,), record)

    log = [published(0, 0), published(1, 15), published(2, 30), Rendezvous("none", 0, 0, START + 45 * SECOND, 1, (0,))]
    engines = Engines(str(tmp_path), "dual", in_memory)
    assert engines.feed(log).dropped == {"repeated_publication": 1}
    engines.rebuild()
    found = engines.feed([subscribed(45)]).notifications
    engines.engine.close()
    assert [n.published_at for n in found] == [START + 30 * SECOND]


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
def test_a_longer_window_does_not_make_a_rebuild_drop_what_has_counted(tmp_path: Path, in_memory: bool) -> None:
    """Both publications counted, as the window was shorter than the time between them; then it was raised, and the disk was lost."""

    def published(offset: int, seconds: int) -> Rendezvous:
        at = START + seconds * SECOND
        record = CanonicalPublication("p", None, "1", at, None, None, False, {}, None)
        return Rendezvous("publications", 0, offset, at, 1, (0,), record)

    later = START + 31 * SECOND
    asks = CanonicalSubscription("s", "anna", Version(later, 0, 0), "1", "overlap", START, None, "published", ALWAYS)
    engines = Engines(str(tmp_path), "dual", in_memory)
    assert engines.feed([published(0, 0), published(1, 30)]).dropped == {}
    engines.commit()
    engines.hot = 3 * HOT
    engines.restart(1)
    engines.rebuild()
    found = engines.feed([Rendezvous("subscriptions", 0, 0, later, 1, (0,), asks)]).notifications
    engines.engine.close()
    assert [n.published_at for n in found] == [START + 30 * SECOND]


def test_a_tick_that_is_read_again_ends_nothing(tmp_path: Path) -> None:
    """At least once: the auction came after it, late, when it had expired. The next record ends it, and not one before it."""
    asks = CanonicalPublication("p", None, "1", START - 2, START - 1, Best("x", "highest"), False, {}, None)
    tick = Rendezvous("none", 0, 0, START, 1, (0,))
    engines = Engines(str(tmp_path), "dual", True)
    assert engines.feed([tick, Rendezvous("publications", 0, 0, START - 2, 1, (0,), asks)]).offers == []
    engines.rebuild(0, True)
    assert engines.again().offers == []
    assert [offer.offset for offer in engines.feed([tick]).offers] == [2]
    engines.engine.close()


@given(st.binary(), st.none() | st.binary(min_size=1), st.lists(st.text(min_size=1), max_size=5))
def test_payloads_survive(value: bytes, previous: bytes | None, earlier: list[str]) -> None:
    before = Before(previous, tuple(earlier))
    assert unpack(pack(value, before)) == (value, before)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(
    st.lists(st.integers(0, 15), min_size=1, max_size=12),
    st.integers(0, 12),
    st.sampled_from([0, 1, 10, 19, 20, 21, 39, 45, 500]),
    st.sampled_from([0, 0, 4]),
)
@long
def test_what_retention_has_left_of_the_log_is_found_here_and_all_before_it_is_asked_of_the_history(
    in_memory: bool, gaps: list[int], gone: int, later: int, earlier: int
) -> None:
    """The disk is lost, and the log begins anywhere, or is empty. The next subscription misses nothing, and nothing is told twice: what is
    held before its horizon is the history's to tell."""
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, "dual", in_memory)
        times = [START + sum(gaps[: i + 1]) * SECOND for i in range(len(gaps))]
        for i, at in enumerate(times):
            record = CanonicalPublication(f"p{i}", None, "1", at, None, None)
            engines.feed([Rendezvous("publications", 0, i, at, 1, (0,), record)])
        engines.commit()
        engines.kafka.first = min(gone, len(times))
        engines.rebuild(earlier)
        now = times[-1] + later * SECOND
        asks = CanonicalSubscription("s", "anna", Version(now, 0, 0), "1", "overlap", 0, None, "published", ALWAYS)
        effects = engines.feed([Rendezvous("subscriptions", 0, 0, now, 1, (0,), asks)])
        engines.engine.close()
    told = sorted(n.publication_id for n in effects.notifications)
    horizon = max((request.horizon for request in effects.requests), default=0)
    assert told == sorted(f"p{i}" for i, at in enumerate(times) if at >= horizon)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(
    st.lists(st.tuples(st.integers(0, 19), st.integers(0, 3)), min_size=3, max_size=15),
    st.sampled_from([0, 1, 5, 19]),
    st.sampled_from([0, 0, 3]),
)
@long
def test_what_is_rebuilt_has_before_it_what_was_there_when_it_came(
    in_memory: bool, published: list[tuple[int, int]], later: int, earlier: int
) -> None:
    """What is held from the last hot window looks back for another one: two windows of the log are needed, and no less."""
    now, log = START, []
    for number, (gap, x) in enumerate(published):
        now += gap * SECOND
        record = CanonicalPublication(f"p{number}", None, "1", now, None, None, True, {"x": x})
        log.append(Rendezvous("publications", 0, number, now, 1, (0,), record))
    now += later * SECOND
    asked = []
    for number, where in enumerate([ALWAYS, form("previous.x < 2"), form("previous.x IS NULL")]):
        version = Version(now, 0, number)
        asks = CanonicalSubscription(
            f"s{number}", f"{number}", version, "1", "overlap", START, None, "published", where, "classical", True
        )
        asked.append(Rendezvous("subscriptions", 0, number, now, 1, (0,), asks))
    reference = Partition(0, HOT)
    wanted = [n for at, envelope in enumerate(log + asked) for n in reference.apply(envelope, at).notifications]
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, "dual", in_memory)
        engines.feed(log)
        engines.rebuild(earlier)
        found = engines.feed(asked).notifications
        engines.engine.close()
    assert sorted(map(shown, found)) == sorted(map(shown, wanted))


some_windows = st.sampled_from([HOT // 2, HOT, 2 * HOT, 3 * HOT])
some_moves = st.lists(
    st.tuples(
        st.integers(0, 12), st.sampled_from(["go on", "go on", "restart", "rebuild", "window", "window rebuild"])
    ),
    min_size=3,
    max_size=7,
)


@given(st.data(), st.booleans(), some_moves, st.sampled_from([0, 5, 15]))
@long
def test_windows_that_change_again_and_again_on_a_state_that_is_kept(
    data: st.DataObject, in_memory: bool, moves: list[tuple[int, str]], later: int
) -> None:
    """A longer one begins with what a shorter one has left, and that is remembered by whoever starts next."""
    reference = Partition(0, HOT)
    now = START

    def asks(number: int) -> Rendezvous:
        version = Version(now, 0, number)
        record = CanonicalSubscription(f"s{number}", "anna", version, "1", "overlap", 0, None, "published", ALWAYS)
        return Rendezvous("subscriptions", 0, number, now, 1, (0,), record)

    def same(offset: int, envelope: Rendezvous) -> None:
        wanted, found = reference.apply(envelope, offset), engines.feed([envelope])
        assert sorted(map(shown, found.notifications)) == sorted(map(shown, wanted.notifications))
        assert requested(found) == requested(wanted)

    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, "dual", in_memory)
        try:
            for number, (gap, then) in enumerate(moves):
                now += gap * SECOND
                record = CanonicalPublication(f"p{number}", None, "1", now, None, None)
                same(2 * number, Rendezvous("publications", 0, number, now, 1, (0,), record))
                same(2 * number + 1, asks(number))
                if then.startswith("window"):
                    engines.hot = data.draw(some_windows, "window")
                    reference.change_window(engines.hot)
                if then != "go on":
                    engines.commit()
                    engines.rebuild() if then.endswith("rebuild") else engines.restart(3)
            now += later * SECOND
            same(2 * len(moves), asks(len(moves)))
        finally:
            engines.engine.close()


def test_a_subscription_that_may_look_at_much_is_told_from_a_publication(tmp_path: Path, monkeypatch: Any) -> None:
    """Without reading the records: what looks far back is not for the event loop."""
    monkeypatch.setattr("pastforward.streams.matcher.engine.MUCH", 1)
    engine = Engine(0, HOT, open_store(tmp_path, "dual", hot_window=HOT, lateness=HOT), in_memory=True)
    tick = encode(Rendezvous("none", 0, 0, START, 1, (0,)))
    offers = [
        Rendezvous(
            "publications", 0, n, START, 1, (0,),
            CanonicalPublication(f"p{n}", None, "1", START, None, None, False, {}, None),
        )
        for n in range(3)
    ]  # fmt: skip
    asks = encode(subscribed("s", 5, None))
    assert not engine.looks_far_back([asks])
    feed(engine, offers, 0)
    assert engine.looks_far_back([tick, asks])
    assert not engine.looks_far_back([tick, *map(encode, offers)])
    engine.close()
