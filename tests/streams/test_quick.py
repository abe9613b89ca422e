"""The reference for long logs against the reference itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pastforward.schemas import Rendezvous
from pastforward.streams.reference import Found, Partition
from tests.streams.logs import HOT, chains, logs
from tests.streams.matcher.test_engine import entry_of, requested, shown, tagged
from tests.streams.quick import Quick


def told(found: Found) -> object:
    offers = sorted(found.offers, key=lambda offer: (offer.publication_id, offer.final))
    kept = [live.record for live in found.kept]
    return sorted(map(shown, found.notifications)), offers, requested(found), kept, found.removed, found.dropped


@given(logs(60) | chains(), st.sampled_from([0, 0, 5, 15]))
def test_the_same_is_found_record_by_record(log: list[Rendezvous], old: int) -> None:
    plain, quick = Partition(0, HOT, 2 if old else 1), Quick(0, HOT, 2 if old else 1)
    if old:
        log = tagged(log, old)
        plain.begin(entry_of(2))
        quick.begin(entry_of(2))
    for offset, envelope in enumerate(log):
        assert told(quick.apply(envelope, offset)) == told(plain.apply(envelope, offset))
        assert quick.auctions == plain.auctions
        assert quick.progress.seen == plain.progress.seen
        assert quick.subscriptions == plain.subscriptions
