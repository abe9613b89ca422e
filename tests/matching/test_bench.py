"""The benchmark itself, on loads that take no time."""

from __future__ import annotations

from pathlib import Path

from pastforward.benchmarks import matching as bench
from pastforward.benchmarks.generators import matching as loads
from pastforward.matching import Index


def test_pieces_without_a_figure_draw_nothing(tmp_path: Path) -> None:
    kept = bench.Kept(tmp_path / "kept.json")
    bench.run((), ("auto",), 100, kept, tmp_path / "plot.svg")
    assert not (tmp_path / "plot.svg").exists()


def test_a_contender_is_measured_over_what_its_budget_allows(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    load = loads.equality_led(1000)
    index = Index()
    index.add_predicates(load.predicates)
    assert bench.batch_time(index, load.publications)[2] == load.publications.num_rows
    monkeypatch.setattr(bench, "BUDGET_S", 0.0)
    us, _, publications = bench.batch_time(index, load.publications)
    assert us > 0
    assert publications == 1


def test_structured_batches_hold_whole_subscriptions() -> None:
    predicates = loads.mix(2000, zipf=False, publications=10).predicates
    for size in (300, 10_000):
        assert bench.structured_rate(predicates, size) > 0


def test_answers_under_churn_are_right() -> None:
    measured = bench.churn(5000, seconds=1, rate=500)
    assert measured["churn at 5,000: publications held against a plain loop, all right"] == 10
