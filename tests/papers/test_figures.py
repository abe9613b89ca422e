"""The papers' figures: names, contenders that must agree, results that are kept, and a page made from them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pastforward.papers.figures import catalogue as figures
from pastforward.papers.figures import contenders, qader
from pastforward.papers.figures.page import write
from pastforward.papers.figures.points import DiffersError, Figure, Finding, Plot, Point, Points, Results, Unit
from pastforward.papers.loads import begen, tomasic
from pastforward.papers.loads.predicates import expected
from pastforward.papers.sql import Relational

NAMED = (
    *(f"mishra-{n}" for n in (7, 8, 9)), *(f"lo-{n}" for n in ("2", "3", "4", "5a", "5b", "6", "7")),
    *(f"qader-{n}" for n in range(10, 18)), *(f"fabret-{n}" for n in ("3a", "3b", "3c", "3d", "4a", "4b")),
    "fabret-6.2.2-domain", "fabret-6.2.2-predicates", *(f"tomasic-{n}" for n in (4, 5, 6, 7)),
)  # fmt: skip


def test_every_figure_is_there_at_both_scales() -> None:
    assert set(NAMED) <= set(figures.FIGURES)
    for figure in figures.FIGURES.values():
        for scale in ("quick", "full"):
            keys = [unit.key for unit in figure.units(scale)]  # type: ignore[arg-type]
            assert keys
            assert len(keys) == len(set(keys))


def test_a_figure_is_named_in_full_by_author_or_by_number() -> None:
    assert [f.name for f in figures.resolve(["3a", "mishra-8"])] == ["fabret-3a", "mishra-8"]
    assert [f.name for f in figures.resolve(["mishra"])] == ["mishra-7", "mishra-8", "mishra-9"]
    with pytest.raises(ValueError, match="several papers have a figure 7: mishra-7, lo-7, tomasic-7"):
        figures.resolve(["7"])
    with pytest.raises(ValueError, match="no figure 'x'; there are mishra-7"):
        figures.resolve(["x"])


@pytest.mark.parametrize("engine", ["SQLite", "DuckDB"])
@pytest.mark.parametrize("name", tomasic.LOADS)
def test_the_relational_baseline_against_the_oracle(engine: str, name: str) -> None:
    load = tomasic.make(name, 1_000, 20)
    found = contenders.ordered(Relational(load, engine).match(20))
    rows, ids = expected(load, 20)
    assert found[0].tolist() == rows.tolist()
    assert found[1].tolist() == ids.tolist()


class Forgetful:
    """Misses the last pair of every answer."""

    nbytes = 0
    candidates = None

    def __init__(self, load: contenders.Load) -> None:
        self._inner = contenders.be_tree(load)

    def match(self, rows: int) -> tuple[contenders.I64, contenders.I64]:
        found, ids = self._inner.match(rows)
        return found[:-1], ids[:-1]


def test_no_time_counts_where_answers_differ() -> None:
    load = begen.make(begen.Mix(500, dimensions=30, match_probability=0.1, publications=5))
    good = {"BE-Tree": contenders.be_tree, "auto": contenders.indexed("auto"), "Siena": contenders.indexed("counting")}
    points = Points(contenders.compare(load, good, 1, patience=0.001))
    assert {p.contender for p in points.all if p.measure == "us"} == set(good)
    with pytest.raises(DiffersError, match="Forgetful finds"):
        list(contenders.compare(load, {**good, "Forgetful": Forgetful}, 1, patience=0.001))


@pytest.mark.parametrize("self_join", [False, True])
def test_the_oracle_of_cells_against_a_plain_loop(self_join: bool) -> None:
    operations = qader.Operations(600, 1, 1, self_join=self_join, chunk=100)
    rows = [
        (chunk.kind, cell, time)
        for chunk in operations.chunks()
        for cell, time in zip(chunk.table["topic"].to_pylist(), chunk.table["time"].to_pylist(), strict=True)
    ]
    plain = {
        (i, j)
        for i, (kind, cell, time) in enumerate(rows)
        for j, (other, at, before) in enumerate(rows[:i])
        if cell == at and (kind != other or self_join) and time - before <= operations.window
    }
    assert qader.expected(operations, 600) == plain


def _toy(value: float, ran: list[str]) -> Figure:
    def unit(key: str) -> Unit:
        def work() -> Iterator[Point]:
            ran.append(key)
            yield Point("", "auto", len(ran), "us", value)

        return Unit(key, 1, work)

    return Figure(
        "toy-1", "Toy", "A toy", "it is flat", "x", (Plot("us", "us"),), lambda _: [unit("toy-a"), unit("toy-b")],
        lambda points: Finding("holds", f"{points.last('auto', 'us'):g} us"),
    )  # fmt: skip


def test_results_are_kept_with_where_they_were_made_and_come_back_joined(tmp_path: Path) -> None:
    results = Results(tmp_path / "a")
    results.keep("quick", "u", [Point("p", "auto", 1, "us", 2.5)])
    (row,) = results.rows("quick", "u")
    assert {"machine", "versions", "seed", "commit", "at"} <= set(row)
    results.join("quick", ["u"], tmp_path / "b")
    joined = Results(tmp_path / "b")
    assert joined.has("quick", "u")
    assert joined.points("quick", ["u"]).line("auto", "us", "p") == {1: 2.5}
    results.forget("quick", "u")
    assert not results.has("quick", "u")


def test_the_page_names_claim_number_and_verdict(tmp_path: Path) -> None:
    figure = _toy(3.0, [])
    results = Results(tmp_path / "results")
    for unit in figure.units("quick"):
        results.keep("quick", unit.key, list(unit.run()))
    page = tmp_path / "docs" / "papers.md"
    other = replace(figure, name="toy-2", units=lambda _: [Unit("toy-c", 1, list)])
    assert write([figure, other], results, page, results) == ["toy-2"]
    text = page.read_text()
    assert "| [toy-1](#toy-1) | A toy | it is flat | **holds** | quick |" in text
    assert "3 us" in text
    assert "Not measured yet: toy-2." in text
    assert (tmp_path / "docs" / "img" / "papers-toy-1.svg").exists()


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """All but one unit are there; what is kept is not measured again."""
    figure = figures.FIGURES["lo-6"]
    results = Results(tmp_path)
    first, *others = figure.units("quick")
    for unit in others:
        results.keep("quick", unit.key, [Point("bare", "kept", 1, "latency", 7.0)])
    command = [sys.executable, "-m", "pastforward.papers.figures", "lo-6", "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lo-6" in done.stdout
    assert results.has("quick", first.key)
    for unit in others:
        assert results.points("quick", [unit.key]).line("kept", "latency", "bare") == {1: 7.0}
    assert np.isfinite(results.points("quick", [first.key]).last("ferry", "latency", "bare"))
