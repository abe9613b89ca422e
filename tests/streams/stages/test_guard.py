"""No record ends a worker: each step of the matcher and the router is replaced by one that raises for some records of a chunk."""

from __future__ import annotations

import asyncio
import errno
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import KafkaConnectionError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pastforward.errors import UserError
from pastforward.matching import Index
from pastforward.matching.conditions.normal_form import ALWAYS
from pastforward.schemas import (
    Best,
    CanonicalPublication,
    CanonicalSubscription,
    Publication,
    Rendezvous,
    Version,
    decode_best_offer,
    decode_dead_letter,
    decode_notification,
    encode,
)
from pastforward.schemas.acceptance import accept_publication
from pastforward.schemas.codec import Format
from pastforward.schemas.limits import MAX_CANONICAL_BYTES, MAX_DEAD_LETTER_KEY_BYTES
from pastforward.state import Store, StoreError, open_store
from pastforward.streams.matcher import chunk as chunk_module
from pastforward.streams.matcher import duplicates, memory_index, reporting
from pastforward.streams.matcher import engine as engine_module
from pastforward.streams.matcher import matcher as matcher_module
from pastforward.streams.matcher.best_offers import Auctions
from pastforward.streams.matcher.duplicates import REFUSED, Duplicates, key_of
from pastforward.streams.matcher.engine import Effects, Engine
from pastforward.streams.matcher.matcher import Matcher, Sinks
from pastforward.streams.matcher.subscribers import Subscribers
from pastforward.streams.reference import Partition
from pastforward.streams.router import router as router_module
from pastforward.streams.router.router import PublicationRouter, SubscriptionRouter
from pastforward.streams.router.routes import Routes
from pastforward.streams.routing import Scheme, make_scheme
from pastforward.streams.routing.dewey import Dewey
from pastforward.streams.stages.guard import in_halves, is_fault
from pastforward.streams.stages.metrics import Metrics
from pastforward.streams.stages.outgoing import Outgoing
from pastforward.streams.worker.app import WorkerApp
from pastforward.streams.worker.recovery import open_whole
from pastforward.topics import Topics
from tests.streams.framed import told_in
from tests.streams.kept import as_records
from tests.streams.logs import HOT, START, logs
from tests.streams.matcher.test_engine import EXAMPLES, Engines, by_auction, chunks, shown, some_cuts, some_layout
from tests.streams.router.test_router import record as input_record
from tests.streams.router.test_router import router

TOPICS = Topics("")


class Boom(Exception):
    """What nobody expects."""


# ---------------------------------------------------------------------------------------------- the halves


@given(st.sets(st.integers(0, 40)), st.integers(1, 40))
def test_halves_find_who_raises_and_keep_the_order(bad: set[int], count: int) -> None:
    done: list[int] = []
    refused: list[int] = []

    def do(items: Sequence[int]) -> None:
        if bad & set(items):
            raise Boom
        done.extend(items)

    def refuse(item: int, error: Exception) -> None:
        assert isinstance(error, Boom)
        refused.append(item)

    in_halves(do, refuse, list(range(count)))
    assert done == [item for item in range(count) if item not in bad]
    assert refused == sorted(item for item in bad if item < count)


@pytest.mark.parametrize(
    "fault",
    [
        MemoryError(),
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EIO, "broken"),
        StoreError("broken"),
        KafkaConnectionError(),
        UserError("mend it"),
        Exception("IO error: While appending to file: No space left on device"),
        Exception("Corruption: block checksum mismatch"),
        ConnectionResetError(),
    ],
)
def test_faults_of_disk_memory_and_broker_are_nobodys_record(fault: Exception) -> None:
    def do(_: Sequence[int]) -> None:
        raise fault

    with pytest.raises(type(fault)):
        in_halves(do, lambda item, error: pytest.fail("refused"), [1, 2, 3])


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        RecursionError(),
        Exception("boom"),
        OverflowError(),
        OSError(errno.EOVERFLOW, "date"),
        SystemError(),
    ],
)
def test_other_exceptions_are_a_records(error: Exception) -> None:
    assert not is_fault(error)


# ---------------------------------------------------------------------------------------------- the matcher

# Each step of a chunk's way through the matcher, in the order in which they come.
STEPS: list[tuple[Any, str]] = [
    (engine_module, "decode_rendezvous_chunk"),
    (chunk_module, "apply_subscriptions"),
    (Subscribers, "take"),
    (Subscribers, "enforce"),
    (Subscribers, "retire"),
    (memory_index, "add_to"),
    (Index, "add_flat"),
    (Index, "add_many"),
    (chunk_module, "store_rows"),
    (Store, "apply_columns"),
    (Store, "tick"),
    (chunk_module, "take_publications"),
    (Store, "amend"),
    (chunk_module, "match_live"),
    (Index, "match_attributes"),
    (chunk_module, "match_past"),
    (Index, "match_pairs"),
    (reporting, "notifications_of_pairs"),
    (chunk_module, "run_auctions"),
    (Auctions, "close"),
    (Auctions, "withdraw"),
    (Auctions, "offer"),
    (Auctions, "open"),
    (Auctions, "bid"),
    (Auctions, "resolve"),
    (Store, "put_meta"),
    (chunk_module, "request_backfill"),
    (chunk_module.Chunk, "_finish"),
    (Engine, "_note_duplicates"),
    (Duplicates, "forget"),
    (Effects, "columns"),
    (matcher_module, "NotificationWriter"),
    (matcher_module, "check_size"),
    (matcher_module, "encode"),
    (matcher_module, "encode_progress"),
    (Outgoing, "send_keyed"),
    (Outgoing, "send_framed"),
    (Outgoing, "_spread"),
    (Outgoing, "send"),
    (Outgoing, "log"),
    (Matcher, "_count"),
    (Index, "remove_many"),
]
ALWAYS_REACHED = (
    "columns",
    "encode_progress",
    "_count",
    "decode_rendezvous_chunk",
    "_subscriptions",
    "_store",
    "_publications",
    "_auctions",
    "_finish",
)


@dataclass
class Trap:
    """Raises in a step whenever the chunk in the works has a record that is bad, and not refused yet."""

    bad: set[int]
    after: bool = False
    current: tuple[Engine, list[int]] | None = None

    def spring(self) -> None:
        if self.current is not None:
            engine, offsets = self.current
            if (np.isin(offsets, list(self.bad)) & ~engine.refusals.among(np.array(offsets, np.int64))).any():
                raise Boom("bäng")

    def set(self, patch: pytest.MonkeyPatch, place: Any, name: str) -> None:
        step, whole = getattr(place, name), Engine.chunk

        def trapped(*arguments: Any, **options: Any) -> Any:
            if not self.after:
                self.spring()
            result = step(*arguments, **options)
            if self.after:
                self.spring()
            return result

        @contextmanager
        def chunk(engine: Engine, values: Any, timestamps: Any, offsets: Any) -> Iterator[Any]:
            self.current = (engine, list(offsets))
            try:
                with whole(engine, values, timestamps, offsets) as effects:
                    yield effects
            finally:
                self.current = None

        patch.setattr(place, name, trapped)
        patch.setattr(Engine, "chunk", chunk)


class Matchers(Engines):
    """A matcher that is fed as a worker does it."""

    format: Format = "avro"

    def send(self, chunk: list[Rendezvous]) -> Outgoing:
        matcher = Matcher(self.engine, Sinks(TOPICS, 1, self.format, None), Metrics())
        records = as_records(chunk, len(self.kafka.log))
        outgoing = Outgoing.joined(in_halves(matcher.process, matcher.refuse, records))
        self._last = len(self.kafka.log)
        self.kafka.log += chunk
        self.kafka.changelog += [(key, value) for key, value in outgoing.changelog[TOPICS.live, 0] if key is not None]
        return outgoing


def letters_of(outgoing: Outgoing) -> list[Any]:
    return [decode_dead_letter(value) for _, value in outgoing.outputs.get((TOPICS.dead_letters, 0), []) if value]


some_bad = st.sets(st.integers(0, 40), min_size=1, max_size=15)
between_chunks = st.lists(st.sampled_from(["go on", "commit", "restart", "rebuild"]), min_size=7, max_size=7)


def named(step: tuple[Any, str]) -> str:
    return f"{step[0].__name__.rpartition('.')[2]}.{step[1]}"


@pytest.mark.parametrize("step", STEPS, ids=named)
@given(logs(), some_cuts, some_layout, some_bad, st.booleans(), st.booleans(), between_chunks, st.integers(1, 10))
@settings(max_examples=EXAMPLES // 4, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_matcher_raises_costs_the_record_that_causes_it(
    step: tuple[Any, str],
    log: list[Rendezvous],
    cuts: list[int],
    layout: str,
    bad: set[int],
    in_memory: bool,
    after: bool,
    between: list[str],
    piece: int,
) -> None:
    reference = Partition(0, HOT)
    offset = 0
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "BLOCK", 8)
        trap = Trap(bad, after)
        trap.set(patch, *step)
        matchers = Matchers(directory, layout, in_memory)
        try:
            for chunk, then in zip(chunks(log, cuts), between, strict=False):
                outgoing = matchers.send(chunk)
                letters = letters_of(outgoing)
                refused = {letter.offset for letter in letters}
                assert refused <= bad
                assert len(letters) == len(refused)
                assert all("Boom: bäng" in letter.reason and letter.kind == "internal" for letter in letters)
                if step[1] in ALWAYS_REACHED:
                    assert refused == bad & set(range(offset, offset + len(chunk)))
                found = [
                    reference.apply(replace(envelope, record=None) if at in refused else envelope, at)
                    for at, envelope in enumerate(chunk, offset)
                ]
                offset += len(chunk)
                told = [decode_notification(value) for value in told_in(outgoing, TOPICS.notifications)]
                assert sorted(map(shown, told)) == sorted(shown(n) for f in found for n in f.notifications)
                offers = [decode_best_offer(value) for _, value in outgoing.outputs[TOPICS.best_offers, 0] if value]
                wanted = [offer for f in found for offer in f.offers]
                assert sorted(offers, key=by_auction) == sorted(wanted, key=by_auction)
                assert len(outgoing.outputs[TOPICS.backfill_requests, 0]) == sum(len(f.requests) for f in found)
                same_state(matchers.engine, reference)
                if then == "commit":
                    matchers.commit()
                elif then == "restart":
                    matchers.restart(piece)
                elif then == "rebuild":
                    matchers.rebuild()
                same_state(matchers.engine, reference)
        finally:
            matchers.engine.close()


def same_state(engine: Engine, reference: Partition) -> None:
    assert engine.progress.log_time == reference.progress.log_time
    assert engine.progress.seen == reference.progress.seen
    assert {name.decode() for name in engine.subscribers.names()} == set(reference.subscriptions)
    assert {name for name in reference.auctions if name in engine.auctions} == set(reference.auctions)
    assert len(engine.auctions) == len(reference.auctions)


@pytest.mark.parametrize("then", ["restart", "rebuild"])
def test_what_was_refused_once_stays_refused_by_who_could_take_it(tmp_path: Any, then: str) -> None:
    """A replay of another version, or on another machine, may not raise: what it has told of the record would be a surprise."""
    matchers = Matchers(str(tmp_path), "dual", True)
    at = START
    published = [CanonicalPublication(f"p{number}", None, "1", at, None, None) for number in range(2)]
    records = [Rendezvous("publications", 0, n, at, 1, (0,), record) for n, record in enumerate(published)]
    matchers.send(records[:1])
    matchers.commit()
    with pytest.MonkeyPatch.context() as patch:
        Trap({1}).set(patch, chunk_module, "store_rows")
        assert [letter.offset for letter in letters_of(matchers.send(records[1:]))] == [1]
    matchers.restart(1) if then == "restart" else matchers.rebuild()
    asks = CanonicalSubscription("s", "anna", Version(at, 0, 0), "1", "overlap", at, None, "published", ALWAYS)
    told = matchers.feed([Rendezvous("subscriptions", 0, 0, at, 1, (0,), asks)]).notifications
    matchers.engine.close()
    assert [n.publication_id for n in told] == ["p0"]


MANY = 10_001  # refusals: more than a single record of the changelog could hold


def published(offset: int, at: int) -> Rendezvous:
    record = CanonicalPublication(f"p{offset}", None, "1", at)
    return Rendezvous("publications", 0, offset, at, 1, (0,), record)


def asked_for(at: int, number: int = 0) -> Rendezvous:
    record = CanonicalSubscription(
        f"s{number}", "anna", Version(at, 0, number), "1", "overlap", 0, None, "published", ALWAYS
    )
    return Rendezvous("subscriptions", 0, number, at, 1, (0,), record)


@pytest.mark.parametrize("then", ["restart", "restart with all of it behind", "rebuild", "rebuild twice"])
@pytest.mark.parametrize("every", [1, 2])
def test_however_many_were_refused_all_stay_refused(tmp_path: Any, every: int, then: str) -> None:
    matchers = Matchers(str(tmp_path), "dual", True)
    matchers.feed([published(0, START)])
    matchers.commit()
    count = every * MANY
    for first in range(1, count, 5_000):
        chunk = [published(offset, START) for offset in range(first, min(first + 5_000, count))]
        for record in chunk:
            if record.offset % every == 0:
                matchers.engine.refuse(record.offset)
        matchers.feed(chunk)
        if then == "restart":
            matchers.commit()
    if then.startswith("restart"):
        matchers.restart(5_000)
    else:
        matchers.rebuild()
        if then == "rebuild twice":
            matchers.rebuild()
    offsets = np.arange(count)
    assert (matchers.engine.refusals.among(offsets) == ((offsets % every == 0) & (offsets > 0))).all()
    told = matchers.feed([asked_for(START)]).notifications
    matchers.engine.close()
    assert {n.publication_id for n in told} == {f"p{offset}" for offset in range(count) if offset % every or not offset}


@pytest.mark.parametrize("behind", [False, True])
def test_what_was_refused_is_forgotten_when_nobody_can_ask_for_it(tmp_path: Any, behind: bool) -> None:
    """Two hot windows later. A store that stands before it is of no use then: it would take what was refused."""
    matchers = Matchers(str(tmp_path), "dual", True)
    matchers.feed([published(0, START)])
    if behind:
        matchers.commit()
    matchers.engine.refuse(1)
    matchers.feed([asked_for(START, 1)])
    if not behind:
        matchers.commit()
    assert [key for key in matchers.changelog if key.startswith(key_of(REFUSED))]
    matchers.feed([published(1, START + 2 * HOT + 1)])
    assert not [key for key in matchers.changelog if key.startswith(key_of(REFUSED))]
    matchers.restart(1)
    assert matchers.set_aside == behind
    assert list(matchers.engine.subscribers.names()) == []
    assert matchers.engine.progress.seen == {("publications", 0): 1, ("subscriptions", 0): 1}
    matchers.engine.close()


def test_a_replay_tells_the_changelog_what_it_refuses_itself(tmp_path: Any) -> None:
    matchers = Matchers(str(tmp_path), "dual", True)
    matchers.feed([published(0, START)])
    matchers.commit()
    matchers.feed([published(1, START)])
    with pytest.MonkeyPatch.context() as patch:
        Trap({1}).set(patch, chunk_module, "store_rows")
        matchers.restart(1)
    matchers.feed([published(2, START)])
    matchers.rebuild()
    told = matchers.feed([asked_for(START)]).notifications
    matchers.engine.close()
    assert sorted(n.publication_id for n in told) == ["p0", "p2"]


@pytest.mark.parametrize("key", [None, b"k", b"k" * (5 << 20)], ids=["no key", "key", "key of 5 MiB"])
def test_a_record_that_cannot_even_tell_the_time_is_passed(tmp_path: Any, key: bytes | None) -> None:
    """The next one goes on, and a restart passes it again. The letter fits its topic, whatever the key."""
    matchers = Matchers(str(tmp_path), "dual", True)
    matcher = Matcher(matchers.engine, Sinks(TOPICS, 1, "avro", None), Metrics())
    garbage = SimpleNamespace(offset=0, timestamp=5, key=key, value=b"no record of ours")
    tick = SimpleNamespace(offset=1, timestamp=6, key=None, value=encode(Rendezvous("none", 0, 0, 0, 1, (0,))))
    outgoing = Outgoing.joined(in_halves(matcher.process, matcher.refuse, [garbage, tick]))
    (letter,) = letters_of(outgoing)
    assert (letter.topic, letter.offset, letter.value) == (TOPICS.rendezvous, 0, garbage.value)
    assert "offset 0 of the rendezvous log is no record of ours" in letter.reason
    ((sent_key, sent_value),) = outgoing.outputs[TOPICS.dead_letters, 0]
    assert sent_key == (None if key is None else key[:MAX_DEAD_LETTER_KEY_BYTES])
    assert sent_value is not None
    assert len(sent_key or b"") + len(sent_value) <= MAX_CANONICAL_BYTES
    assert (matchers.engine.applied, matchers.engine.progress.log_time) == (2, 6000)
    assert matchers.engine.refusals.among(np.array([0, 1])).tolist() == [True, False]
    assert matchers.engine.refusals.entry(0) in outgoing.changelog[TOPICS.live, 0]
    matchers.engine.close()


def test_what_a_record_notifies_is_bounded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that notifies more is halved; a record that does so alone is refused, and nobody else."""
    monkeypatch.setattr(matcher_module, "MOST", 4_000)
    matchers = Matchers(str(tmp_path), "dual", True)
    matchers.send([asked_for(START)])
    sizes = [1_500, 1_500, 5_000, 1_500]
    chunk = []
    for number, size in enumerate(sizes):
        record = CanonicalPublication(f"p{number}", None, "1", START, body=b"b" * size)
        chunk.append(Rendezvous("publications", 0, number, START, 1, (0,), record))
    outgoing = matchers.send(chunk)
    matchers.engine.close()
    told = [decode_notification(value) for value in told_in(outgoing, TOPICS.notifications)]
    assert [(n.publication_id, len(n.content.body or b"")) for n in told if n.content] == [
        ("p0", 1_500),
        ("p1", 1_500),
        ("p3", 1_500),
    ]
    (letter,) = letters_of(outgoing)
    assert (letter.offset, letter.kind) == (3, "too_large")
    assert "notifications, all together," in letter.reason


def test_who_asks_for_an_offer_is_not_refused_for_its_size(tmp_path: Any) -> None:
    """What is told in JSON of the largest publication that is accepted fits: nobody else pays for it."""
    text = "\x01" * 600_000
    asked = Publication("lot", topic="1", attributes={"x": text}, best=Best("x", "highest"))
    accept_publication(asked)
    matchers = Matchers(str(tmp_path), "dual", True)
    matchers.format = "json"
    lot = CanonicalPublication("lot", "bea", "1", START, None, Best("x", "highest"), attributes={"x": text})
    assert letters_of(matchers.send([Rendezvous("publications", 0, 0, START, 1, (0,), lot)])) == []
    asks = CanonicalSubscription("s", "anna", Version(START, 0, 0), "1", "overlap", START, None, "published", ALWAYS)
    outgoing = matchers.send([Rendezvous("subscriptions", 0, 0, START, 1, (0,), asks)])
    matchers.engine.close()
    assert letters_of(outgoing) == []
    told = [decode_notification(value) for value in told_in(outgoing, TOPICS.notifications)]
    assert [n.recipient_id for n in told if n.value == text] == ["anna", "bea"]


# ---------------------------------------------------------------------------------------------- the routers

LETTER_STEPS: list[tuple[Any, str]] = [
    (router_module, "dead_letter"),
    (router_module, "dead_letter_key"),
    (router_module, "encode"),
    (Outgoing, "send"),
]
PUBLICATION_STEPS: list[tuple[Any, str]] = [
    (router_module, "decode_publications"),
    (router_module, "accept_publications"),
    (PublicationRouter, "_arrivals"),
    (PublicationRouter, "_send"),
    (Dewey, "route_publications"),
    (router_module, "encode_rendezvous_publications"),
    (Outgoing, "send_columns"),
    (Outgoing, "_spread"),
    (PublicationRouter, "_count"),
    *LETTER_STEPS,
]
SUBSCRIPTION_STEPS: list[tuple[Any, str]] = [
    (router_module, "decode_subscriptions"),
    (SubscriptionRouter, "_read"),
    (router_module, "accept_subscription_row"),
    (SubscriptionRouter, "_place"),
    (SubscriptionRouter, "_withdraw"),
    (SubscriptionRouter, "_send"),
    (router_module, "encode_rendezvous_subscriptions"),
    (router_module, "digest_of"),
    (SubscriptionRouter, "_arrivals"),
    (SubscriptionRouter, "_withdrawal"),
    (Dewey, "route_subscriptions"),
    (Routes, "advance"),
    (Routes, "get"),
    (Routes, "unchanged"),
    (Routes, "put"),
    (Routes, "remove"),
    (Outgoing, "log"),
    (SubscriptionRouter, "_count"),
    *LETTER_STEPS,
]


def trapped(step: Callable[..., Any], bad: set[int], current: list[int], after: bool) -> Callable[..., Any]:
    def spring() -> None:
        if bad & set(current):
            raise Boom("bäng")

    def call(*arguments: Any, **options: Any) -> Any:
        if not after:
            spring()
        result = step(*arguments, **options)
        if after:
            spring()
        return result

    return call


def sent(outgoings: Iterator[Outgoing] | list[Outgoing]) -> dict[tuple[str, int], Any]:
    """What goes to others but for dead letters, and what is remembered."""
    joined = Outgoing.joined(outgoings)
    found = {place: records for place, records in joined.outputs.items() if place[0] != TOPICS.dead_letters and records}
    return found | {place: records for place, records in joined.changelog.items() if records}


def check_router(
    make: Callable[[], Any], records: list[Any], cuts: list[int], bad: set[int], step: tuple[Any, str], after: bool
) -> None:
    tested, plain = make(), make()
    current: list[int] = []
    out: list[Outgoing] = []
    edges = sorted({0, len(records), *(cut % len(records) for cut in cuts)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step[0], step[1], trapped(getattr(*step), bad, current, after))

        def process(some: Sequence[Any]) -> Any:
            current[:] = [record.offset for record in some]
            return tested.process(some)

        def refuse(record: Any, error: Exception) -> Any:
            current.clear()
            return tested.refuse(record, error)

        for first, end in pairwise(edges):
            out += in_halves(process, refuse, records[first:end])
    letters = [decode_dead_letter(value) for _, value in Outgoing.joined(out).outputs[TOPICS.dead_letters, 0] if value]
    failed = {letter.offset for letter in letters if "Boom: bäng" in letter.reason}
    assert failed <= bad
    always = (
        "decode_publications",
        "accept_publications",
        "decode_subscriptions",
        "_read",
        "_arrivals",
        "advance",
        "_count",
    )
    if step[1] in always:
        assert failed == bad & {record.offset for record in records}
    assert sent(out) == sent([plain.process([record]) for record in records if record.offset not in failed])


def publications_router(scheme: Scheme | None = None) -> PublicationRouter:
    made = router(scheme)
    return PublicationRouter(
        made._partition._replace(topic=TOPICS.publications),
        "publications",
        TOPICS,
        made._scheme,
        1,
        made._view,
        Metrics(),
        None,
    )


some_publications = st.lists(
    st.sampled_from(
        [
            b'{"topic": "1.2", "attributes": {"x": 1}}',
            b'{"topic": "2", "where": "x > 1"}',
            b'{"topic": "", "attributes": {"text": "a"}}',
            b'{"no": "record"}',
            b"",
        ]
    ),
    min_size=1,
    max_size=12,
)
some_subscriptions = st.lists(
    st.tuples(
        st.sampled_from([b"s", b"t", b"u"]),
        st.none()
        | st.builds(
            lambda where, topic: json.dumps({"subscriber_id": "a", "where": where, "topic": topic}).encode(),
            st.sampled_from(["x = 1", "x > 1 OR y = 2", "x ="]),
            st.sampled_from(["", "1", "2.1"]),
        ),
    ),
    min_size=1,
    max_size=12,
)
some_few = st.sets(st.integers(0, 12), max_size=6)


@pytest.mark.parametrize("step", PUBLICATION_STEPS, ids=named)
@given(some_publications, some_cuts, some_few, st.booleans())
@settings(max_examples=EXAMPLES, deadline=None)
def test_whatever_the_router_of_publications_raises(
    step: tuple[Any, str], values: list[bytes], cuts: list[int], bad: set[int], after: bool
) -> None:
    records = [input_record(i, value, 5, b"p%d" % i) for i, value in enumerate(values)]
    check_router(lambda: publications_router(make_scheme("dewey", 3, 1)), records, cuts, bad, step, after)


@pytest.mark.parametrize("step", SUBSCRIPTION_STEPS, ids=named)
@given(some_subscriptions, some_cuts, some_few, st.booleans())
@settings(max_examples=EXAMPLES, deadline=None)
def test_whatever_the_router_of_subscriptions_raises(
    step: tuple[Any, str], asked: list[tuple[bytes, bytes | None]], cuts: list[int], bad: set[int], after: bool
) -> None:
    records = [input_record(i, value, 5, name) for i, (name, value) in enumerate(asked)]
    check_router(lambda: router(make_scheme("dewey", 3, 1)), records, cuts, bad, step, after)


# ---------------------------------------------------------------------------------------------- what a recovery cannot take


def test_what_a_recovery_cannot_take_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On /metrics, by reason."""
    engines = Engines(str(tmp_path / "state"), "dual", True)
    asks = CanonicalPublication("p", None, "1", START, None, Best("x", "highest"), False, {"x": 1}, None)
    wants = CanonicalSubscription("s", "s", Version(START, 0, 0), "1", "overlap", START, None, "published", ALWAYS)
    first = [
        Rendezvous("subscriptions", 0, 0, START, 1, (0,), wants),
        Rendezvous("publications", 0, 0, START, 1, (0,), asks),
    ]
    engines.feed(first)
    engines.commit()
    plain = replace(asks, publication_id="q", best=None)
    engines.feed([Rendezvous("publications", 0, 1, START, 1, (0,), plain)])

    def boom(*_: Any, **__: Any) -> Any:
        raise Boom

    found = []
    for cut, recover in (
        ({Engine: "_run"}, lambda: engines.restart(1)),
        ({Engine: "_hold_columns", Auctions: "open"}, lambda: engines.restart(1)),
        ({Engine: "remember"}, engines.rebuild),
    ):
        with monkeypatch.context() as patch:
            for kind, name in cut.items():
                patch.setattr(kind, name, boom)
            recover()
        found.append(dict(engines.engine.lost))
    engines.engine.close()
    assert found == [
        {"refused_in_replay": 1},
        {"unheld_subscription": 1, "unopened_auction": 1},
        {"refused_in_rebuild": 3},
    ]


def test_what_a_recovery_has_lost_is_on_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = WorkerApp.__new__(WorkerApp)
    made.metrics = Metrics()
    made._connection = made._topics = made._entry = None
    lost = SimpleNamespace(lost={"unheld_subscription": 2, "refused_in_replay": 1})
    monkeypatch.setattr(made, "_engine", lambda _: lost, raising=False)

    async def recovered(*_: Any) -> None:
        pass

    monkeypatch.setattr("pastforward.streams.worker.app.recover_engine", recovered)
    assert asyncio.run(made._recover(0, 0)) is lost
    for reason, count in lost.lost.items():
        assert f'pastforward_dropped_total{{reason="{reason}"}} {count}.0' in made.metrics.text()


def test_a_store_whose_rebuilding_was_cut_off_is_counted(tmp_path: Path) -> None:
    def opened() -> Store:
        return open_store(tmp_path / "state", "dual", hot_window=HOT, lateness=HOT)

    with opened() as store:
        store.commit(3)  # in the middle: without a progress
    counted: list[int] = []
    with open_whole(opened, lambda: counted.append(1)) as store:
        assert (store.offset, counted) == (None, [1])
