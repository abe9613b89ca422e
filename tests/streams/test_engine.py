"""The engine, by chunks, against the reference, record by record, on random logs."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas import Notification, Rendezvous, encode
from state import open_store
from streams.engine import Before, Effects, Engine, pack, unpack
from streams.reference import Partition
from tests.streams.logs import HOT, logs


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
    )


def requested(effects: Any) -> list[tuple[Any, ...]]:
    return [
        (r.subscription.subscription_id, str(r.subscription.version), r.horizon, r.log_time, r.cut)
        for r in effects.requests
    ]


def chunks(log: list[Rendezvous], cuts: list[int]) -> list[list[Rendezvous]]:
    edges = sorted({0, len(log), *(cut % len(log) for cut in cuts)})
    return [log[a:b] for a, b in pairwise(edges)]


def feed(engine: Engine, chunk: list[Rendezvous]) -> Effects:
    return engine.process([encode(envelope) for envelope in chunk], [envelope.arrived_at for envelope in chunk])


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "disk"])
@given(logs(), st.lists(st.integers(0, 100), max_size=6), st.sampled_from(["dual", "two"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_chunks_give_what_single_records_give(
    in_memory: bool, log: list[Rendezvous], cuts: list[int], layout: str
) -> None:
    reference = Partition(0, HOT)
    with (
        tempfile.TemporaryDirectory() as directory,
        open_store(directory, layout, hot_window=HOT, lateness=HOT, budget=32 << 20) as store,
    ):
        engine = Engine(0, HOT, store, in_memory=in_memory)
        offset = 0
        for chunk in chunks(log, cuts):
            found = [reference.apply(envelope) for envelope in chunk]
            effects = feed(engine, chunk)
            offset += len(chunk)
            engine.commit(offset)
            wanted = [shown(n) for f in found for n in f.notifications]
            assert sorted(map(shown, effects.notifications)) == sorted(wanted)
            assert requested(effects) == [r for f in found for r in requested(f)]
            assert engine.progress.log_time == reference.progress.log_time
            assert engine.progress.seen == reference.progress.seen
            live = {name.decode() for name in engine.subscribers.names()}
            assert live == set(reference.subscriptions)


@given(st.binary(), st.none() | st.binary(min_size=1), st.lists(st.text(min_size=1), max_size=5))
def test_payloads_survive(value: bytes, previous: bytes | None, earlier: list[str]) -> None:
    before = Before(previous, tuple(earlier))
    assert unpack(pack(value, before)) == (value, before)
