"""Qader and Hristidis: figures 10 to 17. Both layouts and RepQueries; variable against fixed granularity. Padres is not reproduced.

Each chunk is applied and committed; its processor time, RocksDB's threads included, belongs to the kind of its operations. What is
answered from memory needs no disk access, so a second, smaller run with a budget of 4 MB answers from RocksDB: the records that it
reads an operation stand beside the times.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import cos, radians
from pathlib import Path
from typing import Any

import numpy as np

from pastforward.columns.places import EARTH_RADIUS_M
from pastforward.columns.times import SECOND
from pastforward.papers.figures.points import DiffersError, Figure, Finding, Plot, Point, Points, Scale, Unit
from pastforward.papers.loads.cells import DEPTH, OPERATION, RADII, Chunk, Operations, circles
from pastforward.state import compile_kernels, open_store
from pastforward.state.rocks import Rocks

PAPER = "Qader, Hristidis: DualDB"
CHECKED = 20_000  # operations whose pairs are held against the oracle
DISK_BUDGET = 4 << 20
LAYOUTS = {"DualDB": "dual", "TwoDB": "two", "RepQueries": "repeated"}
Pairs = set[tuple[int, int]]


def expected(operations: Operations, count: int) -> Pairs:
    """The oracle for flat cells: every operation against all before it in its cell. Pairs are (later, earlier)."""
    places: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    found: Pairs = set()
    for chunk in replace(operations, count=count).chunks():
        publication = chunk.kind == "publication"
        for identity, cell in zip(chunk.table["id"].to_pylist(), chunk.table["topic"].to_pylist(), strict=True):
            for other, other_publication in places[cell]:
                if identity * OPERATION - other * OPERATION > operations.window:
                    continue
                if publication != other_publication or operations.self_join:
                    found.add((identity, other))
            places[cell].append((identity, publication))
    return found


@contextmanager
def block_reads() -> Iterator[Callable[[], int]]:
    """Blocks that RocksDB reads from files, of stores opened meanwhile: what the paper calls disk accesses."""
    made: list[Any] = []
    original = Rocks._options

    def counted(self: Rocks, *, unread: bool = False) -> Any:
        options = original(self, unread=unread)
        options.enable_statistics()
        made.append(options)
        return options

    def count() -> int:
        found = [re.search(r"rocksdb.block.cache.data.miss COUNT : (\d+)", o.get_statistics() or "") for o in made]
        return sum(int(number[1]) for number in found if number)

    Rocks._options = counted  # type: ignore[method-assign]
    try:
        yield count
    finally:
        Rocks._options = original  # type: ignore[method-assign]


class Run:
    """One store fed with all chunks: times by kind and place, and the pairs of the first operations."""

    def __init__(self, operations: Operations, layout: str, budget: int = 512 << 20, keep: int = CHECKED) -> None:
        self.spent: dict[tuple[str, str], float] = defaultdict(float)
        self.counted: dict[tuple[str, str], int] = defaultdict(int)
        self.pairs: Pairs = set()
        self.told = 0  # pairs told for the operations kept, repeats included
        self.found = 0
        self.late: list[int] = []
        self._repeated = layout == "repeated"
        folder = Path(tempfile.mkdtemp(prefix="pastforward-papers-"))
        try:
            with open_store(folder / "store", layout, budget=budget) as store:
                for number, chunk in enumerate(operations.chunks()):
                    self._apply(store, chunk, number, keep)
                stats = store.stats
                self.records = stats.records_read
                self.in_memory = stats.in_memory
            self.disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        finally:
            shutil.rmtree(folder)

    def _apply(self, store: Any, chunk: Chunk, number: int, keep: int) -> None:
        begin = time.process_time()
        pairs = store.apply(chunk.table)
        store.commit(number)
        spent = time.process_time() - begin
        key = chunk.kind, chunk.place
        self.spent[key] += spent
        self.counted[key] += chunk.table.num_rows
        self.found += pairs.num_rows
        ids = chunk.table["id"].to_numpy()
        if len(ids) and ids[-1] < keep:
            asked = ids[pairs["operation"].to_numpy()]
            found = pairs["found_id"].to_numpy()
            self.told += len(found)
            if self._repeated:
                # who asked may have come long before: told when the row let time pass
                who = pairs["subscription_id"].to_numpy()
                later = np.maximum(who, found)
                self.late += ((asked - later) * OPERATION).tolist()
                self.pairs.update(zip(later.tolist(), np.minimum(who, found).tolist(), strict=True))
            else:
                self.pairs.update(zip(asked.tolist(), found.tolist(), strict=True))

    def us(self, kind: str = "", place: str | None = None) -> float:
        chosen = [k for k in self.spent if (not kind or k[0] == kind) and (place is None or k[1] == place)]
        return sum(self.spent[k] for k in chosen) / sum(self.counted[k] for k in chosen) * 1e6


def _flat(figure: str, scale: Scale, subscriptions: int, publications: int, *, self_join: bool) -> list[Unit]:
    count = 120_000 if scale == "quick" else 15_000_000
    operations = Operations(count, subscriptions, publications, self_join=self_join)
    units = [Unit(f"qader-{figure}-check", 15, lambda: _check(operations))]
    for name, layout in LAYOUTS.items():
        if not (self_join and layout == "repeated"):
            units.append(Unit(f"qader-{figure}-{name}", 3 + count / 70_000, partial(_layout, operations, name, layout)))
    return units


def _check(operations: Operations) -> Iterator[Point]:
    """All layouts against the oracle on the first operations; reads from disk; what RepQueries misses, repeats and delays."""
    compile_kernels()
    oracle = expected(operations, CHECKED)
    few = replace(operations, count=CHECKED)
    for name, layout in LAYOUTS.items():
        if layout == "repeated":
            continue
        for budget in (512 << 20, DISK_BUDGET):
            with block_reads() as blocks:
                run = Run(few, layout, budget)
                read = blocks()
            if run.pairs != oracle or run.told != len(oracle):
                raise DiffersError(f"{name} finds {run.told} pairs of {CHECKED} operations, the oracle {len(oracle)}")
        if run.in_memory:
            raise DiffersError(
                f"a budget of {DISK_BUDGET} bytes holds {CHECKED} operations: nothing was read from disk"
            )
        yield Point("", name, 0, "records read an operation, from disk", run.records / CHECKED)
        yield Point("", name, 0, "blocks read an operation, from disk", read / CHECKED)
        yield Point("", name, 0, "us, from disk", run.us())
    if operations.self_join:
        return
    for short, life in (("", operations.life), (", publications of 0.5 s", SECOND // 2)):
        lived = replace(operations, count=4 * CHECKED, life=life)
        run = Run(lived, "repeated", keep=lived.count)
        exact = Run(lived, "dual", keep=lived.count)
        # a question that is due later than the last operation has not been asked: not a miss
        due = {pair for pair in exact.pairs if pair[0] * OPERATION < lived.count * OPERATION - SECOND}
        yield Point("", f"RepQueries{short}", 0, "missed %", 100 * len(due - run.pairs) / max(1, len(due)))
        yield Point(
            "", f"RepQueries{short}", 0, "told again %", 100 * (run.told - len(run.pairs)) / max(1, len(run.pairs))
        )
        yield Point("", f"RepQueries{short}", 0, "delay ms", float(np.mean(run.late or [0])) / 1000)
        if run.pairs - exact.pairs:
            raise DiffersError("RepQueries tells pairs that do not match")


def _layout(operations: Operations, name: str, layout: str) -> Iterator[Point]:
    compile_kernels()
    run = Run(operations, layout)
    for x, kind in ((0, ""), (1, "subscription"), (2, "publication")):
        yield Point("", name, x, "us", run.us(kind))
    yield Point("", name, 0, "pairs an operation", run.found / operations.count)
    yield Point("", name, 0, "records read a pair", run.records / max(1, run.found))
    yield Point("", name, 0, "disk MB", run.disk / (1 << 20))


def _places(space: str, scale: Scale) -> list[Unit]:
    count = 24_000 if scale == "quick" else 400_000
    operations = Operations(count, 1, 1, space=space, chunk=200)
    units = [Unit(f"qader-{space}-check", 15, lambda: _same_places(replace(operations, count=6_000)))]
    for name in ("variable", "fixed"):
        units.append(Unit(f"qader-{space}-{name}", 5 + count / 2_000, partial(_granularity, operations, name)))
    return units


def _same_places(operations: Operations) -> Iterator[Point]:
    """Both granularities find the same pairs, after the exact test where shapes are circles, and so does the oracle."""
    compile_kernels()
    variable = Run(operations, "dual", keep=operations.count).pairs
    fixed = Run(replace(operations, fixed=True), "dual", keep=operations.count).pairs
    truth = _true_pairs(operations)
    if operations.space == "circles":
        candidates = len(variable), len(fixed)
        if not (truth <= variable and truth <= fixed):
            raise DiffersError("a granularity misses circles that overlap")
        yield Point("", "variable", 0, "candidates a pair", candidates[0] / max(1, len(truth)))
        yield Point("", "fixed", 0, "candidates a pair", candidates[1] / max(1, len(truth)))
    elif not variable == fixed == truth:
        raise DiffersError(f"variable finds {len(variable)} pairs, fixed {len(fixed)}, the oracle {len(truth)}")
    yield Point("", "oracle", 0, "pairs an operation", len(truth) / operations.count)


def _true_pairs(operations: Operations) -> Pairs:
    kinds: list[str] = []
    shapes: list[Any] = []
    for chunk in operations.chunks():
        kinds += [chunk.kind] * chunk.table.num_rows
        shapes += chunk.table["topic"].to_pylist()
    publication = np.array(kinds) == "publication"
    number = np.arange(len(kinds))
    if operations.space == "circles":
        lon, lat, radius = _circles(operations)

        def near(i: int) -> Any:
            return _distance(lon[i], lat[i], lon[:i], lat[:i]) <= radius[i] + radius[:i]

    else:
        depth = np.array([text.count(".") + 1 for text in shapes])
        code = np.array([int(text.replace(".", "").ljust(DEPTH, "0")) for text in shapes])
        power = 10 ** (DEPTH - depth)

        def near(i: int) -> Any:
            unit = np.maximum(power[i], power[:i])
            return code[:i] // unit == code[i] // unit

    found: Pairs = set()
    for i in range(len(kinds)):
        fits = near(i) & (publication[:i] != publication[i]) & ((i - number[:i]) * OPERATION <= operations.window)
        found.update((i, int(j)) for j in np.flatnonzero(fits))
    return found


def _circles(operations: Operations) -> tuple[Any, Any, Any]:
    """The circles behind the operations: the same draws as `Operations.chunks` makes."""
    random = np.random.default_rng(operations.seed)
    drawn = []
    for first in range(0, operations.count, operations.chunk):
        radius = RADII[int(random.integers(len(RADII)))]
        pool = circles(radius)
        count = min(operations.chunk, operations.count - first)
        drawn += [pool[at] for at in random.integers(0, len(pool), count)]
    table = np.array([(c.lon, c.lat, c.radius_m) for c in drawn])
    return table[:, 0], table[:, 1], table[:, 2]


def _distance(lon: float, lat: float, lons: Any, lats: Any) -> Any:
    half = np.sin(np.radians(lats - lat) / 2) ** 2
    half = half + cos(radians(lat)) * np.cos(np.radians(lats)) * np.sin(np.radians(lons - lon) / 2) ** 2
    return 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(half))


def _granularity(operations: Operations, name: str) -> Iterator[Point]:
    compile_kernels()
    run = Run(replace(operations, fixed=name == "fixed"), "dual", keep=0)
    yield Point("all", name, 0, "us", run.us())
    yield Point("all", name, 1, "us", run.us("subscription"))
    yield Point("all", name, 2, "us", run.us("publication"))
    places = sorted({place for _, place in run.spent}, key=float)
    for place in places:
        yield Point("by place", name, float(place), "us", run.us("", place))
    yield Point("all", name, 0, "pairs an operation", run.found / operations.count)


def _judge_layouts(points: Points, margin: str, ahead_by: float) -> Finding:
    """`ahead_by`: the share that DualDB takes less than TwoDB in the paper; half of it counts as the same."""
    dual, two = points.line("DualDB", "us"), points.line("TwoDB", "us")
    text = f"DualDB {dual[0]:.1f} us, TwoDB {two[0]:.1f} us an operation ({dual[0] / two[0]:.2f} times)"
    disk = {name: points.line(name, "us, from disk")[0] for name in ("DualDB", "TwoDB")}
    reads = {name: points.line(name, "records read an operation, from disk")[0] for name in ("DualDB", "TwoDB")}
    blocks = {name: points.line(name, "blocks read an operation, from disk")[0] for name in ("DualDB", "TwoDB")}
    text += f"; from disk {disk['DualDB']:.0f} and {disk['TwoDB']:.0f} us, {reads['DualDB']:.1f} and {reads['TwoDB']:.1f} records and "
    text += f"{blocks['DualDB']:.2f} and {blocks['TwoDB']:.2f} blocks read an operation"
    repeated = points.line("RepQueries", "us")
    if repeated:
        text += f"; RepQueries {repeated[0]:.1f} us, {repeated[0] / dual[0]:.1f} times (PUBLISH {repeated[2]:.1f} against {dual[2]:.1f})"
        text += f", told {points.line('RepQueries', 'delay ms')[0]:.0f} ms late, of short-lived pairs "
        text += f"{points.line('RepQueries, publications of 0.5 s', 'missed %')[0]:.0f} % missed"
    less = 1 - dual[0] / two[0]
    ahead = less >= ahead_by / 2 if ahead_by else abs(less) <= 0.1
    if repeated and repeated[0] < 1.5 * dual[0]:
        return Finding("does not hold", text, "RepQueries asks an index in memory here")
    if repeated and repeated[0] < float(margin) * 0.5 * dual[0]:
        return Finding(
            "holds differently",
            text,
            "RepQueries asks an index in memory too, so a question costs a microsecond, not a disk access",
        )
    if not ahead:
        return Finding(
            "holds differently",
            text,
            "both layouts answer from the same index in memory; they differ in what RocksDB writes, and there little",
        )
    return Finding("holds", text)


def _judge_places(points: Points, factor: str) -> Finding:
    fixed, variable = points.line("fixed", "us", "all")[0], points.line("variable", "us", "all")[0]
    by = {
        x: f / points.line("variable", "us", "by place")[x] for x, f in points.line("fixed", "us", "by place").items()
    }
    gains = list(by.values())
    text = f"fixed {fixed:.0f} us, variable {variable:.0f} us: {fixed / variable:.1f} times; by place " + ", ".join(
        f"{x:g}: {g:.1f}" for x, g in by.items()
    )
    grows = gains[0] > gains[-1] if factor == "tree" else gains[-1] > gains[0]
    least = 3 if factor == "tree" else 2
    if fixed / variable >= 0.7 * least and grows:
        return Finding("holds", text)
    return Finding(
        "holds differently" if grows else "does not hold",
        text,
        "many results an operation cost the same in both, whatever the granularity",
    )


_KINDS = ("all", "SUBSCRIBE", "PUBLISH")
_BARS = (Plot("us", "us an operation", log_x=False, log_y=False, bars=_KINDS),)


def _figure(
    number: str,
    title: str,
    claim: str,
    subscriptions: int,
    publications: int,
    self_join: bool,
    margin: str,
    ahead_by: float,
) -> Figure:
    return Figure(
        f"qader-{number}", PAPER, title, claim, "", _BARS,
        lambda scale: _flat(number, scale, subscriptions, publications, self_join=self_join),
        lambda points: _judge_layouts(points, margin, ahead_by),
    )  # fmt: skip


def _place_figure(number: str, title: str, claim: str, space: str, panel: str) -> Figure:
    x = ("level" if space == "tree" else "radius / R") if panel == "by place" else ""
    bars = _KINDS if panel == "all" else ()
    return Figure(
        f"qader-{number}", PAPER, title, claim, x, (Plot("us", "us an operation", log_x=False, bars=bars, only=panel),),
        lambda scale: _places(space, scale), lambda points: _judge_places(points, space),
    )  # fmt: skip


FIGURES = (
    _figure(
        "10", "Simple, 3 to 1", "DualDB 5 % ahead of TwoDB; both about 10 times RepQueries", 3, 1, False, "10", 0.05
    ),
    _figure(
        "11",
        "Simple, 1 to 3",
        "DualDB = TwoDB; about 3 times RepQueries, whose PUBLISH alone is fast",
        1,
        3,
        False,
        "3",
        0.0,
    ),
    _figure(
        "12", "Self-join, 3 to 1", "DualDB 20 % ahead of TwoDB (PUBLISH 6 %, SUBSCRIBE 25 %)", 3, 1, True, "1", 0.2
    ),
    _figure("13", "Self-join, 1 to 3", "DualDB 12 % ahead of TwoDB", 1, 3, True, "1", 0.12),
    _place_figure("14", "Quad tree", "variable granularity is about 3 times fixed", "tree", "all"),
    _place_figure("15", "Circles", "variable granularity is about 2 times fixed", "circles", "all"),
    _place_figure("16", "Quad tree, by level", "the gain grows towards the root", "tree", "by place"),
    _place_figure("17", "Circles, by radius", "the gain grows with the radius", "circles", "by place"),
)
