"""What the steps of a record's way cost, so that unlike things can be added up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """Microseconds on one core. Only their ratios matter; measure your own if they differ much."""

    # a copy of a subscription: through the rendezvous log, into the index, onto disk
    store: float = 16.0
    # a copy of a publication: through the rendezvous log, at 110,000 records a second
    send: float = 9.0
    # the same copy, kept for the hot window
    keep: float = 5.0
    # an attribute of a subscription, as if examined: the index answers from 1,000,000 subscriptions of 5 in 8 us
    examine: float = 1.6e-6
