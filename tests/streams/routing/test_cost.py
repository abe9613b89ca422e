"""The cost model against a plain simulation of what it models."""

import numpy as np
import pytest

from pastforward.streams.routing.cost import KeyLoads, PaperModel, rendezvous_brokers


@pytest.mark.parametrize("keys", [1, 20, 300, 2_000])
def test_rendezvous_brokers_are_the_owners_of_keys(keys):
    rng = np.random.default_rng(keys)
    even = np.mean([len(np.unique(rng.integers(0, 500, keys))) for _ in range(60)])
    assert rendezvous_brokers(500, keys, ring=False) == pytest.approx(even, rel=0.03)
    on_ring = []
    for _ in range(60):
        nodes = np.sort(rng.random(500))
        on_ring.append(len(np.unique(np.searchsorted(nodes, rng.random(keys)) % 500)))
    assert rendezvous_brokers(500, keys, ring=True) == pytest.approx(np.mean(on_ring), rel=0.03)


@pytest.mark.parametrize("ring", [False, True])
def test_key_loads_predict_a_random_mapping(ring):
    rng = np.random.default_rng(5)
    brokers, keys = 40, 60
    stored, sent = 2_000 * rng.random(keys) ** 4, 300 * rng.random(keys)
    loads = KeyLoads(stored, stored * 3, sent, ring=ring)
    deviations, matchings = [], []
    for _ in range(800):
        if ring:
            owner = np.searchsorted(np.sort(rng.random(brokers)), rng.random(keys)) % brokers
        else:
            owner = rng.integers(0, brokers, keys)
        count = np.bincount(owner, rng.poisson(stored), brokers)
        deviations.append(count[np.unique(owner)].std() ** 2)
        matchings.append((sent * np.bincount(owner, stored * 3, brokers)[owner]).sum())
    costs = loads.costs(brokers, hops=6)
    assert costs.matching == pytest.approx(np.mean(matchings), rel=0.05)
    assert loads.deviation(brokers) == pytest.approx(np.sqrt(np.mean(deviations)), rel=0.07)
    assert costs.storing == pytest.approx(6 * stored.sum())
    assert costs.delivery == pytest.approx(6 * costs.keeping)


def test_the_papers_formulas():
    """Lo and Chiu, 3.3, by hand: 4,096 brokers, six hops, 10 keys an event, 2 attributes a subscription."""
    model = PaperModel(10_000, 30_000, 4_096, 2.0, 10.0, 6.0)
    rendezvous = rendezvous_brokers(4_096, 20, ring=False)
    pan, iim = model.costs(20), model.costs(20, copies=8)
    assert (pan.storing, pan.delivery, pan.keeping) == (60_000, 1_800_000, 300_000)
    assert pan.matching == pytest.approx(30_000 * 10 * 10_000 / rendezvous * 2)
    assert (iim.storing, iim.matching) == (8 * pan.storing, pytest.approx(8 * pan.matching))
    ferry = model.costs(20, everywhere=True)
    assert ferry.delivery == pytest.approx(30_000 * rendezvous * 6)
    assert ferry.matching == pytest.approx(30_000 * 10_000 * 2)
    assert pan.total == pan.storing + pan.delivery + pan.matching + pan.keeping
