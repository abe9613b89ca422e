"""The simulated experiments: the ring against lookups step by step, the kernels against plain loops."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pastforward.papers.chord import BITS, Ring
from pastforward.papers.lo_chiu.experiments import SCHEMES, run_task, tasks
from pastforward.papers.lo_chiu.model import Model, choice_probability
from pastforward.papers.lo_chiu.simulation import HASHINGS, NAME, Brokers, interval_step
from pastforward.papers.loads.lo_chiu import Setting, make_load

SMALL = Setting(attributes=6, subscriptions=60, events=80, nodes=64, min_range=40, gap=10)


def lookup(ring: Ring, node: int, key: int) -> tuple[int, int]:
    """Owner and hops, as a node would find them that knows its fingers alone."""

    def owner_of(point: int) -> int:
        return int(ring.owner(np.array([point % (1 << BITS)]))[0])

    owner = owner_of(key)
    hops = 0
    while node != owner:
        hops += 1
        ahead = (owner - node) % ring.nodes
        if ahead == 1:
            return owner, hops
        fingers = {(owner_of(int(ring.position[node]) + (1 << bit)) - node) % ring.nodes for bit in range(BITS)}
        node = (node + max(finger for finger in fingers if finger < ahead)) % ring.nodes
    return owner, hops


def test_hops_are_those_of_lookups():
    ring = Ring(50, 1)
    rng = np.random.default_rng(1)
    for _ in range(25):
        node, key = int(rng.integers(50)), int(rng.integers(1 << BITS))
        owner, hops = lookup(ring, node, key)
        assert ring.position[owner] >= key or owner == 0
        assert ring.hops[node, owner] == hops


def test_on_a_full_ring_each_hop_is_a_power_of_two():
    ring = Ring(64, 0, "full")
    for a, b in product(range(0, 64, 7), range(64)):
        node, hops = a, 0
        while node != b:
            node = (node + (1 << (((b - node) % 64).bit_length() - 1))) % 64
            hops += 1
        assert ring.hops[a, b] == hops
    assert ring.owner(ring.position).tolist() == list(range(64))
    with pytest.raises(ValueError, match="power of two"):
        Ring(50, 0, "full")


def test_a_ring_has_a_way_of_half_the_logarithm():
    """To the node before a key; one more to the owner."""
    assert Ring(1024, 3).hops.mean() == pytest.approx(10 / 2 + 1, abs=0.3)


@pytest.mark.parametrize("hashing", HASHINGS)
@pytest.mark.parametrize("scheme", ["pan", "pav", "hybrid", "iim:5"])
def test_the_kernels_count_what_plain_loops_count(scheme, hashing):
    load = make_load(SMALL, 4)
    ring = Ring(SMALL.nodes, 4)
    brokers = Brokers(ring, load.schema, hashing, 4)
    schema = load.schema
    width = schema.width

    def keys(attribute: int, low: int, high: int) -> set[int]:
        by_name = scheme == "pan" or (scheme == "hybrid" and not schema.is_equality[attribute])
        if by_name:
            return {int(brokers.name[attribute])}
        step = 1
        if scheme.startswith("iim") and not schema.is_equality[attribute]:
            step = int(interval_step(schema, 5)[attribute])
        return {int(brokers.value[attribute, value // step * step]) for value in range(low, high + 1)}

    storing = delivery = overhead = latency = 0
    stored: dict[int, list[int]] = {}
    for s in range(SMALL.subscriptions):
        for broker in keys(load.chosen[s], load.low[s], load.high[s]):
            stored.setdefault(broker, []).append(int(load.size[s]))
            storing += int(ring.hops[load.subscriber[s], broker])
    for e in range(SMALL.events):
        reached = set()
        for key in load.event_key[e]:
            attribute, value = divmod(int(key), width)
            reached |= keys(attribute, value, value)
        examined = [sum(stored.get(broker, [])) for broker in reached]
        delivery += sum(int(ring.hops[load.publisher[e], broker]) for broker in reached)
        overhead += sum(examined)
        latency += max(examined)
    found = brokers.run(load, scheme)
    assert (found.storing, found.delivery, found.overhead, found.latency) == (storing, delivery, overhead, latency)
    assert set(stored) <= set(brokers._rendezvous(*_table(brokers, scheme)).tolist())


def _table(brokers, scheme):
    schema = brokers.schema
    step = interval_step(schema, 5) if scheme == "iim:5" else np.full(len(schema.top), scheme == "pav")
    by_value = np.where(schema.is_equality, scheme != "pan", step != NAME)
    steps = np.where(by_value, np.where(schema.is_equality, 1, step), NAME).astype(np.int32)
    return np.where(by_value[:, None], brokers.value, brokers.name[:, None]), steps


def test_ferry_stores_at_the_broker_before_the_subscriber():
    load = make_load(SMALL, 2)
    ring = Ring(SMALL.nodes, 2)
    brokers = Brokers(ring, load.schema, "bare", 2)
    rendezvous = sorted(set(brokers.name.tolist()))
    storing = 0
    for node in load.subscriber.tolist():
        before = [broker for broker in rendezvous if broker < node]
        storing += int(ring.hops[node, before[-1] if before else rendezvous[-1]])
    found = brokers.run(load, "ferry")
    assert found.storing == storing
    assert found.overhead == int(load.size.sum()) * SMALL.events


def test_how_likely_a_subscription_is_stored_by_an_attribute():
    rng = np.random.default_rng(0)
    probability = np.array([1.0, 0.5, 0.2, 0.1])
    has = rng.random((40_000, 4)) < probability
    chosen = np.argmax(rng.random(has.shape) * has, 1)
    assert choice_probability(probability) == pytest.approx(np.bincount(chosen, minlength=4) / 40_000, abs=0.01)


def test_the_model_predicts_the_simulation():
    """Means over seeds; the ring's own spread of hops is the rest."""
    setting = Setting(subscriptions=3_000, events=1_000, nodes=512)
    for scheme, spacing in product(("pan", "hybrid", "iim:12"), ("full", "random")):
        setting = replace(setting, spacing=spacing)
        found, predicted = [], []
        for seed in range(5):
            load = make_load(setting, seed)
            costs = Brokers(Ring(setting.nodes, seed, spacing), load.schema, "qualified", seed).run(load, scheme)
            model = Model(setting, load.schema).predict(scheme, "qualified")
            found.append((costs.storing, costs.delivery, costs.overhead, costs.deviation))
            predicted.append((model.ours.storing, model.ours.delivery, model.ours.matching, model.deviation))
        assert np.mean(predicted, 0) == pytest.approx(np.mean(found, 0), rel=0.15), (scheme, spacing)


def test_the_quick_form_has_all_experiments():
    work = list(tasks(quick=True))
    assert {task.experiment for task in work} == {"A", "BCD", "random", "E", "F", "F random"}
    for experiment in ("A", "BCD", "F"):
        rows = run_task(next(task for task in work if task.experiment == experiment))
        assert {row["hashing"] for row in rows} == set(HASHINGS)
        assert all(row["model_storing"] > 0 and row["storing"] > 0 for row in rows)
        if experiment != "F":
            assert {row["scheme"] for row in rows} == set(SCHEMES)
