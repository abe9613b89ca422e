"""The engine, by chunks, against the reference, record by record, on random logs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from matching.normal_form import ALWAYS
from schemas import (
    Best,
    BestOffer,
    CanonicalPublication,
    CanonicalSubscription,
    Notification,
    Rendezvous,
    Version,
    encode,
)
from state import open_store
from streams import repeats
from streams.auctions import KEY
from streams.engine import Before, Effects, Engine, pack, unpack
from streams.progress import decode_progress, encode_progress
from streams.reference import Partition
from streams.routing import Directory
from tests.streams.logs import HOT, SECOND, START, chains, form, logs

EXAMPLES = int(os.environ.get("ENGINE_EXAMPLES", "25"))


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Logs are short here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "BLOCK", 8)
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
    )


def by_auction(offer: BestOffer) -> str:
    return offer.publication_id


def requested(effects: Any) -> list[tuple[Any, ...]]:
    return [
        (r.subscription.subscription_id, str(r.subscription.version), r.horizon, r.log_time, r.cut, r.covers)
        for r in effects.requests
    ]


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
    """An engine that can be stopped and started between chunks, from its store or from what Kafka would have."""

    def __init__(self, directory: str, layout: str, in_memory: bool, version: int = 1) -> None:
        self._directory, self._layout, self._in_memory, self._version = directory, layout, in_memory, version
        self._number = 0
        self.hot = HOT
        self.changelog: dict[bytes, bytes] = {}
        self._log: list[Rendezvous] = []
        self._last = 0  # where the last chunk begins
        self.engine = self._open()
        if version > 1:
            self.engine.begin(entry_of(version))

    def _open(self) -> Engine:
        place = f"{self._directory}/{self._number}"
        store = open_store(place, self._layout, hot_window=self.hot, lateness=self.hot, budget=32 << 20)
        return Engine(0, self.hot, store, in_memory=self._in_memory, version=self._version)

    def feed(self, chunk: list[Rendezvous]) -> Effects:
        self._last = len(self._log)
        effects = feed(self.engine, chunk, self._last)
        self._log += chunk
        self._write(effects)
        return effects

    def _write(self, effects: Effects) -> None:
        for name, record in effects.live.items():
            if record is None:
                self.changelog.pop(name, None)
            else:
                self.changelog[name] = record

    def commit(self) -> None:
        self.engine.commit(len(self._log))

    def restart(self, piece: int) -> None:
        """What was committed, and then the rest of the log, in other chunks; what they lead to was sent before."""
        self.engine.close()
        self.engine = self._open()
        offset = self.engine.offset
        assert offset is not None
        self.engine.load()
        for start in range(offset, len(self._log), piece):
            feed(self.engine, self._log[start : start + piece], start)
        self.commit()

    def rebuild(self, earlier: int = 0, behind: bool = False) -> None:
        """As `streams.recovery` does it: the publications of the last two hot windows, then the changelog.

        `earlier`: what was routed late was stamped later than it arrived, so that the stretch begins so many records earlier.
        `behind`: the offset of the last chunk was not committed.
        """
        progress, reached = decode_progress(encode_progress(self.engine.progress, self.engine.applied))
        assert reached == len(self._log)
        self.engine.close()
        self._number += 1
        self.engine = self._open()
        self.engine.rebuild(progress)
        times = list(accumulate((envelope.arrived_at for envelope in self._log), max))
        first = self.engine.rebuilt_from(progress.log_time)
        start = next((i for i, at in enumerate(times) if at >= first), len(times))
        start = max(0, start - earlier)
        self.engine.repeats.restore(
            {name: value for name, value in self.changelog.items() if name.startswith(repeats.KEY)}
        )
        if start < len(self._log):
            self._remember(start, times, progress.log_time)
        auctions = {name: value for name, value in self.changelog.items() if name.startswith(KEY)}
        live = [value for name, value in self.changelog.items() if not name.startswith(b"\0")]
        self.engine.adopt(live, auctions, progress, reached)
        self.engine.commit(self._last if behind else len(self._log))

    def _remember(self, start: int, times: list[int], log_time: int) -> None:
        values = [encode(envelope) for envelope in self._log[start:]]
        self.engine.remember(values, times[start:], range(start, len(self._log)), log_time)

    def again(self) -> Effects:
        """The last chunk once more: at least once, its changelog was written before its offset."""
        effects = feed(self.engine, self._log[self._last :], self._last)
        self._write(effects)
        return effects


some_cuts = st.lists(st.integers(0, 100), max_size=6)
some_layout = st.sampled_from(["dual", "two"])
some_faults = st.lists(
    st.sampled_from(["go on", "commit", "restart", "rebuild", "rebuild again", "window", "window rebuild"]),
    min_size=7,
    max_size=7,
)
some_losses = st.lists(st.sampled_from(["restart", "rebuild", "rebuild", "rebuild again"]), min_size=7, max_size=7)
some_delay = st.sampled_from([0, 0, 3, 40])  # records that a rebuild reads too many
some_size = st.integers(1, 10)
long = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(logs(), some_cuts, some_layout, some_faults, some_delay, some_size, st.sampled_from([0, 0, 5, 15, 30]))
@long
def test_chunks_give_what_single_records_give(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
    old: int,
) -> None:
    agree(in_memory, log, cuts, layout, between, earlier, piece, old)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(chains(), some_cuts, some_layout, some_losses, some_delay, some_size)
@long
def test_ids_that_come_again_and_again(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
) -> None:
    agree(in_memory, log, cuts, layout, between, earlier, piece)


def agree(
    in_memory: bool,
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    between: list[str],
    earlier: int,
    piece: int,
    old: int = 0,
) -> None:
    version = 2 if old else 1
    reference = Partition(0, HOT, version)
    if old:
        log = tagged(log, old)
        reference.begin(entry_of(version))
    offset = 0
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(directory, layout, in_memory, version)
        try:
            for chunk, then in zip(chunks(log, cuts), between, strict=False):
                found = [reference.apply(envelope, offset + i) for i, envelope in enumerate(chunk)]
                effects = engines.feed(chunk)
                offset += len(chunk)
                wanted = [shown(n) for f in found for n in f.notifications]
                assert sorted(map(shown, effects.notifications)) == sorted(wanted)
                # of one auction in order; two that end at the same record have none
                offers = [offer for f in found for offer in f.offers]
                assert sorted(effects.offers, key=by_auction) == sorted(offers, key=by_auction)
                assert requested(effects) == [r for f in found for r in requested(f)]
                assert engines.engine.progress.log_time == reference.progress.log_time
                assert engines.engine.progress.seen == reference.progress.seen
                live = {name.decode() for name in engines.engine.subscribers.names()}
                assert live == set(reference.subscriptions)
                if then == "commit" or (then == "restart" and engines.engine.offset is None):
                    engines.commit()
                if then == "restart":
                    engines.restart(piece)
                elif then.startswith("window"):
                    engines.commit()
                    engines.hot = {HOT: 3 * HOT, 3 * HOT: HOT // 2, HOT // 2: HOT}[engines.hot]
                    reference.change_window(engines.hot)
                    engines.rebuild(earlier) if then == "window rebuild" else engines.restart(piece)
                elif then.startswith("rebuild"):
                    engines.rebuild(earlier, then == "rebuild again")
                    if then == "rebuild again":
                        nothing = engines.again()
                        assert not nothing.notifications + nothing.offers + nothing.requests
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


@given(st.binary(), st.none() | st.binary(min_size=1), st.lists(st.text(min_size=1), max_size=5))
def test_payloads_survive(value: bytes, previous: bytes | None, earlier: list[str]) -> None:
    before = Before(previous, tuple(earlier))
    assert unpack(pack(value, before)) == (value, before)
