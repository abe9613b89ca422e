"""Lo and Chiu's five schemes on a Chord ring: where subscriptions and events of a load go, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pastforward.columns.hashing import text_hash
from pastforward.columns.kernel import kernel
from pastforward.papers.chord import BITS, Ring
from pastforward.papers.loads.lo_chiu import Load, Schema

U16 = npt.NDArray[np.uint16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

# What is hashed for a value: the bare number, as in the paper, or the attribute with it.
Hashing = Literal["bare", "qualified"]
HASHINGS: tuple[Hashing, ...] = ("bare", "qualified")

# The step over the values of a range: none for a scheme that hashes the name.
NAME = 0


@dataclass(frozen=True)
class Costs:
    """`deviation`: of the subscriptions per rendezvous broker. `overhead` and `latency` count attributes examined: at
    all brokers that an event reaches, and at the one with the most of them, summed over events."""

    rendezvous: int
    deviation: float
    storing: int
    delivery: int
    overhead: int
    latency: int


def interval_step(schema: Schema, intervals: int) -> I32:
    """Lo and Chiu: the length of the domain by the interval number, rounded up."""
    return np.maximum(-(-schema.top // intervals), 1).astype(np.int32)


class Brokers:
    """Which broker owns each name and each value of a schema, under one way of hashing."""

    def __init__(self, ring: Ring, schema: Schema, hashing: Hashing, seed: int) -> None:
        self.ring = ring
        self.schema = schema
        count, width = len(schema.top), schema.width
        salt = np.uint64(seed)
        self.name: U16 = ring.owner(_points([text_hash(f"{seed} A{a + 1}") for a in range(count)])).astype(np.uint16)
        numbers = np.arange(width, dtype=np.uint64)
        if hashing == "bare":
            keys = np.broadcast_to(_mix(numbers + (salt << np.uint64(32))), (count, width))
        else:
            attribute = (np.arange(count, dtype=np.uint64) + np.uint64(1)) << np.uint64(16)
            keys = _mix(numbers[None, :] + attribute[:, None] + (salt << np.uint64(32)))
        self.value: U16 = ring.owner((keys >> np.uint64(64 - BITS)).astype(np.int64)).astype(np.uint16)

    def ferry(self, load: Load) -> Costs:
        """Subscriptions go to the rendezvous broker before the subscriber on the ring, events to all of them."""
        rendezvous = np.unique(self.name)
        before = rendezvous[np.searchsorted(rendezvous, load.subscriber) - 1]
        count = np.bincount(before, minlength=self.ring.nodes)[rendezvous]
        weight = np.bincount(before, load.size, minlength=self.ring.nodes)[rendezvous]
        events = len(load.publisher)
        return Costs(
            len(rendezvous),
            float(count.std()),
            int(self.ring.hops[load.subscriber, before].sum()),
            int(self.ring.hops[:, rendezvous].astype(np.int64).sum(1)[load.publisher].sum()),
            int(weight.sum()) * events,
            int(weight.max()) * events,
        )

    def keyed(self, load: Load, equality_by_value: bool, step: I32) -> Costs:
        """The others: `step[a]` is how far apart the keys of a range are, NAME for the name of the attribute."""
        schema = self.schema
        by_value = np.where(schema.is_equality, equality_by_value, step != NAME)
        # an equality value is its own key
        steps = np.where(by_value, np.where(schema.is_equality, 1, step), NAME).astype(np.int32)
        table = _broker_of_value(self.value, self.name, steps)
        nodes = self.ring.nodes
        count, weight = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
        storing = _store(
            load.chosen, load.low, load.high, load.size, load.subscriber, table, steps, self.ring.hops, count, weight
        )
        delivery, overhead, latency = _deliver(
            load.event_key, load.publisher, table.reshape(-1), self.ring.hops, weight
        )
        rendezvous = self._rendezvous(table, steps)
        return Costs(
            len(rendezvous), float(count[rendezvous].std()), int(storing), int(delivery), int(overhead), int(latency)
        )

    def _rendezvous(self, table: U16, steps: I32) -> U16:
        """The owners of all keys there are."""
        schema = self.schema
        found = []
        for a, step in enumerate(steps):
            if step == NAME:
                found.append(table[a, :1])
            elif schema.is_equality[a]:
                found.append(table[a, schema.values[a]])
            else:
                found.append(table[a, : schema.top[a] + 1 : step])
        return np.unique(np.concatenate(found))

    def run(self, load: Load, scheme: str) -> Costs:
        """`ferry`, `pan`, `pav`, `hybrid` or `iim:I`."""
        ones = np.ones(len(self.schema.top), np.int32)
        if scheme == "ferry":
            return self.ferry(load)
        if scheme == "pan":
            return self.keyed(load, False, ones * NAME)
        if scheme == "hybrid":
            return self.keyed(load, True, ones * NAME)
        if scheme == "pav":
            return self.keyed(load, True, ones)
        return self.keyed(load, True, interval_step(self.schema, int(scheme.removeprefix("iim:"))))


def _points(hashes: list[int]) -> I64:
    return np.array([number >> (64 - BITS) for number in hashes], np.int64)


def _mix(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`columns.hashing.spread`, for an array."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@kernel
def _broker_of_value(value: U16, name: U16, steps: I32) -> U16:
    """The broker of each value of each attribute: that of its name, or of the key that its step leads to."""
    table = np.empty(value.shape, np.uint16)
    for a in range(len(steps)):
        if steps[a] == NAME:
            table[a] = name[a]
            continue
        for first in range(0, value.shape[1], steps[a]):
            table[a, first : first + steps[a]] = value[a, first]
    return table


@kernel
def _store(
    chosen: I32,
    low: I32,
    high: I32,
    size: I32,
    source: I32,
    table: U16,
    steps: I32,
    hops: U8,
    count: I64,
    weight: I64,
) -> int:
    """A subscription is sent once to each broker that owns one of its keys."""
    total = 0
    seen = np.full(len(count), -1, np.int32)
    for s in range(len(chosen)):
        attribute = chosen[s]
        step = steps[attribute]
        key = np.int64(0)
        last = np.int64(0)
        if step:
            key = np.int64(low[s]) // step * step
            last = np.int64(high[s])
        while key <= last:
            broker = table[attribute, key]
            if seen[broker] != s:
                seen[broker] = s
                total += hops[source[s], broker]
                count[broker] += 1
                weight[broker] += size[s]
            key += max(step, 1)
    return total


@kernel
def _deliver(key: npt.NDArray[np.uint32], source: I32, broker_of: U16, hops: U8, weight: I64) -> tuple[int, int, int]:
    """An event is sent once to each broker that owns one of its keys."""
    delivery = 0
    overhead = 0
    latency = 0
    seen = np.full(len(weight), -1, np.int32)
    for e in range(len(key)):
        most = 0
        for i in range(key.shape[1]):
            broker = broker_of[key[e, i]]
            if seen[broker] == e:
                continue
            seen[broker] = e
            delivery += hops[source[e], broker]
            overhead += weight[broker]
            most = max(most, weight[broker])
        latency += most
    return delivery, overhead, latency
