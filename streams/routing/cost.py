"""What a mapping of records to brokers costs: Lo and Chiu's model, and one that knows how popular each key is.

Costs are in hops (messages from broker to broker; with Kafka, where every partition is one hop away, copies) and in
attributes examined. To the paper's three, storing, delivery and matching, comes `keeping`: here publications are stored
as well, one copy at each broker that they are sent to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, sqrt

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def rendezvous_brokers(brokers: int, keys: float, *, ring: bool) -> float:
    """How many of the brokers own at least one of the keys, on average: the paper's N_b f(|D|).

    The partitions of Kafka are equally likely to own a key. The nodes of a ring are not: they own the stretches between
    points that fell at random, and the long ones take the keys of the short.
    """
    if ring:
        return brokers * keys / (brokers + keys)
    return float(brokers * -np.expm1(keys * np.log1p(-1 / brokers))) if brokers > 1 else 1.0


def chord_hops(brokers: int) -> float:
    """The mean way through a Chord ring to the node before a key, which is what Lo and Chiu count."""
    return log2(brokers) / 2


@dataclass(frozen=True, slots=True)
class Costs:
    storing: float
    delivery: float
    matching: float
    keeping: float

    @property
    def total(self) -> float:
        """Lo and Chiu's sum, which their best interval number minimises, and what keeping adds to it."""
        return self.storing + self.delivery + self.matching + self.keeping


@dataclass(frozen=True, slots=True)
class PaperModel:
    """Lo and Chiu, section 3.3: every broker that has subscriptions has equally many.

    `subscription_attributes` is ATT_s, `publication_keys` ATT_e. A scheme is given by `keys`, |D|, and by `copies`, how
    many brokers store a subscription. `everywhere`: publications go to all of them, which is Ferry.
    """

    subscriptions: int
    publications: int
    brokers: int
    subscription_attributes: float
    publication_keys: float
    hops: float
    ring: bool = False

    def costs(self, keys: float, copies: float = 1.0, *, everywhere: bool = False) -> Costs:
        rendezvous = rendezvous_brokers(self.brokers, keys, ring=self.ring)
        sent = self.publications * (rendezvous if everywhere else self.publication_keys)
        stored = self.subscriptions * copies
        return Costs(
            storing=stored * self.hops,
            delivery=sent * self.hops,
            matching=sent * stored / rendezvous * self.subscription_attributes,
            keeping=sent,
        )


@dataclass(frozen=True, slots=True)
class KeyLoads:
    """What each key expects: `stored` subscriptions, with `examined` attributes in all, and `sent` publications.

    Unlike the paper's model it knows that some keys are popular. Keys are hashed to brokers at random, so that a
    publication also meets what the other keys of its brokers store.
    """

    stored: F64
    examined: F64
    sent: F64
    ring: bool = False

    def costs(self, brokers: int, hops: float) -> Costs:
        beside = (self.examined.sum() - self.examined) * self.together(brokers)
        return Costs(
            storing=float(self.stored.sum()) * hops,
            delivery=float(self.sent.sum()) * hops,
            matching=float((self.sent * (self.examined + beside)).sum()),
            keeping=float(self.sent.sum()),
        )

    def together(self, brokers: int) -> float:
        """How likely two keys are at one broker; twice as likely on a ring, where stretches vary in length."""
        return min((2 if self.ring else 1) / brokers, 1.0)

    def deviation(self, brokers: int) -> float:
        """Standard deviation of the subscriptions stored at a broker, over those that own a key."""
        total, squares = float(self.stored.sum()), float((self.stored**2).sum())
        # keys that fall together, then the noise of counting
        square = (squares + (total**2 - squares) * self.together(brokers) + total) / brokers
        share = rendezvous_brokers(brokers, len(self.stored), ring=self.ring) / brokers
        mean = total / brokers / share
        return sqrt(max(square / share - mean**2, 0.0))
