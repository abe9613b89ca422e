"""What is proposed for loads whose answer is known."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from pastforward.matching.conditions.condition import Condition
from pastforward.streams.routing import Catalog, Publication, RoutingError, Subscription, make_scheme
from pastforward.streams.routing.infer import infer_catalog, infer_division
from pastforward.streams.routing.intervals import with_intervals
from pastforward.streams.routing.propose import propose


def load(topics, texts, count=150):
    """Subscriptions from SQL texts with %d, publications with kind and size."""
    rng = np.random.default_rng(3)
    subscriptions = [
        Subscription(f"s{n}", topics(rng), condition=Condition.parse(texts(rng)).disjuncts) for n in range(count)
    ]
    publications = [
        Publication(f"p{n}", topics(rng), {"kind": f"k{rng.integers(50)}", "size": int(rng.integers(1_000))})
        for n in range(count)
    ]
    return subscriptions, publications


def one_topic(rng):
    return "1.1.1.1.1"


def many_topics(rng):
    return f"{rng.integers(1, 50)}.{rng.integers(1, 50)}"


def by_kind(rng):
    return f"kind = 'k{rng.integers(50)}'"


def by_size(rng):
    low = rng.integers(900)
    return f"size BETWEEN {low} AND {low + 50}"


def test_topics_that_are_spread_are_routed_by_topic():
    proposal = propose(*load(many_topics, by_kind), 8)
    assert proposal.taken.scheme == "dewey"
    assert proposal.taken.publication_copies < 1.2


def test_one_topic_is_routed_by_content():
    proposal = propose(*load(one_topic, by_kind), 8)
    assert proposal.taken.scheme in ("hybrid", "pav", "iim", "constraints")
    dewey = next(estimate for estimate in proposal.estimates if estimate.scheme == "dewey")
    assert dewey.balance == pytest.approx(8)  # all of it in one partition
    assert proposal.taken.busiest < dewey.busiest / 3


def test_ranges_on_one_topic_are_cut():
    """By names alone all of it would be in one partition."""
    proposal = propose(*load(one_topic, by_size), 8)
    assert proposal.taken.scheme in ("iim", "constraints")
    assert {"dewey", "ferry", "pan", "pav", "hybrid", "iim", "constraints"} == {e.scheme for e in proposal.estimates}


def test_estimates_are_what_the_schemes_do():
    subscriptions, publications = load(one_topic, by_size)
    proposal = propose(subscriptions, publications, 8)
    for estimate in proposal.estimates:
        scheme = make_scheme(estimate.scheme, 8, estimate.depth, proposal.catalog)
        copies = sum(len(scheme.publication(publication)) for publication in publications)
        assert estimate.publication_copies == pytest.approx(copies / len(publications))
        assert estimate.keeping > 0


def test_self_joins_need_dewey():
    subscriptions, publications = load(one_topic, by_kind)
    joining = [replace(subscriptions[0], self_join=True), *subscriptions[1:]]
    proposal = propose(joining, publications, 8)
    assert proposal.taken.scheme == "dewey"
    assert "nothing else is possible" in proposal.advice()


def test_an_empty_sample():
    subscriptions, publications = load(one_topic, by_kind, 3)
    for samples in (([], publications), (subscriptions, [])):
        with pytest.raises(RoutingError, match="at least one subscription and one publication"):
            propose(*samples, 8)


def test_more_live_subscriptions_cost_more_matching():
    samples = load(one_topic, by_kind)
    few, many = propose(*samples, 8), propose(*samples, 8, live=1_500_000)
    for a, b in zip(few.estimates, many.estimates, strict=True):
        if a.intervals is None:  # the best interval number may be another
            assert b.matching == pytest.approx(a.matching * 10_000)


def test_a_proposal_can_be_shown_and_written(tmp_path):
    proposal = propose(*load(one_topic, by_size), 4)
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(proposal.table())
    text = console.export_text()
    assert "taken" in text
    assert proposal.taken.scheme in text
    proposal.plot(tmp_path / "costs.svg")
    assert (tmp_path / "costs.svg").read_text().count("<path") > 10
    again = json.loads(json.dumps(proposal.to_json()))
    assert Catalog.from_json(again["catalog"]) == proposal.catalog
    assert again["taken"] == proposal.taken.scheme


def test_a_catalog_from_samples():
    subscriptions = [
        Subscription(f"s{n}", condition=Condition.parse(text).disjuncts)
        for n, text in enumerate(
            [
                "kind = 'a' AND size < 10 AND mixed = 3",
                "kind IN ('a', 'b') AND level > 0.5",
                "size BETWEEN 3 AND 7 AND road >= 'm'",
                "size = 4 AND open = TRUE AND odd IS NULL",
                "at > TIMESTAMP '2024-01-01 00:00:00' AND size > -2",
            ]
        )
    ]
    publications = [
        Publication("p", attributes={"size": 900, "road": "a", "level": 9.5, "unasked": 1}),
        Publication("q", attributes={"mixed": "not a number", "road": "z"}),
    ]
    catalog = infer_catalog(subscriptions, publications)
    found = {a.name: (a.type, a.kind, a.domain if a.type != "string" else None) for a in catalog.attributes}
    assert found == {
        "size": ("integer", "range", (-2, 900)),
        "kind": ("string", "equality", None),
        "at": ("timestamp", "equality", None),  # one moment is no domain
        "level": ("float", "range", (0.5, 9.5)),
        "open": ("boolean", "equality", None),
        "road": ("string", "range", None),
    }
    assert catalog.attributes[0].name == "size"  # the most frequent first
    assert Catalog.from_toml(catalog.to_toml()) == catalog


def test_a_division_spreads_publications_evenly():
    subscriptions, publications = load(one_topic, by_size)
    division = infer_division(subscriptions, publications, 8)
    scheme = make_scheme("constraints", 8, catalog=Catalog(partitions=division))
    counts = np.bincount([scheme.publication(publication)[0] for publication in publications], minlength=8)
    assert counts.max() < 2 * counts.mean()
    assert infer_division(subscriptions, [Publication("p", attributes={"size": 1})] * 9, 8) is None


def test_only_equal_intervals_are_changed():
    catalog = Catalog.from_toml(
        '[[attribute]]\nname = "a"\ntype = "integer"\nkind = "range"\ndomain = [0, 9]\n'
        '[[attribute]]\nname = "b"\ntype = "integer"\nkind = "range"\nintervals = [[0, 5], [5, 9]]\n'
    )
    changed = with_intervals(catalog, 3)
    assert [attribute.intervals for attribute in changed.attributes] == [3, (0, 5)]
