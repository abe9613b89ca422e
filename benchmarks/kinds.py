"""Figures of one kind of condition each, beside the best that PyPI has for it, on the same load in the same run: what a publication costs
in batches of 1,000 and alone, in microseconds of processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pastforward.benchmarks.generators import kinds as loads
from pastforward.matching import Condition, Index
from pastforward.matching.conditions.predicates import Predicate
from pastforward.matching.index.publications import attributes_of
from pastforward.matching.index.subscription import NewSubscription

BATCH: Final = 1000
REPEATED: Final = 10


def least(run: Callable[[], object], repetitions: int = REPEATED) -> float:
    """Seconds of processor time."""
    best = float("inf")
    for _ in range(repetitions):
        begin = time.process_time()
        run()
        best = min(best, time.process_time() - begin)
    return best


def peer(name: str) -> Any:
    """A library that only the benchmarks need; None if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


def of_index(what: str, index: Index, publications: pa.Table) -> dict[str, float]:
    """In batches, alone, and matches a publication."""
    batch = publications.slice(0, BATCH)
    found = index.match_table(batch).num_rows  # learns as well
    alone = [publications.slice(i, 1) for i in range(50)]
    return {
        f"{what}: us a publication": least(partial(index.match_table, batch)) / batch.num_rows * 1e6,
        f"{what}: us alone": float(np.median([least(partial(index.match_table, row)) for row in alone])) * 1e6,
        f"{what}: matches a publication": found / batch.num_rows,
    }


def places(scale: int) -> dict[str, float]:
    """Circles and points; shapely's tree finds boxes, which are then held against the distance."""
    measured: dict[str, float] = {}
    publications = loads.points()
    for count, radius_m in ((23_000, 100_000.0), (100_000, 10_000.0), (1_000_000, 10_000.0)):
        load = loads.circles(max(count // scale, 1000), radius_m)
        what = f"{len(load.lon):,} circles of {radius_m / 1000:.0f} km"
        index = Index()
        begin = time.process_time()
        index.add_predicates(load.predicates)
        measured[f"{what}: loading, s"] = time.process_time() - begin
        measured.update(of_index(what, index, publications))
        measured.update(shapely_tree(what, load, publications.slice(0, BATCH)))
    return measured


def shapely_tree(what: str, load: loads.Circles, batch: pa.Table) -> dict[str, float]:
    """Boxes around the circles in an STR tree, asked for all points at once, and then the haversine formula. It misses circles across the
    antimeridian, which is to its advantage."""
    shapely = peer("shapely")
    if shapely is None:
        return {}
    reach = np.degrees(load.radius_m / 6_371_008.8)
    half = reach / np.maximum(np.cos(np.radians(load.lat)), 0.01)
    boxes = shapely.box(load.lon - half, load.lat - reach, load.lon + half, load.lat + reach)
    tree = shapely.STRtree(boxes)
    position = batch["position"].combine_chunks()
    lon, lat = (position.field(i).to_numpy() for i in range(2))

    def found() -> Any:
        which, boxes_of = tree.query(shapely.points(lon, lat))
        phi, other = np.radians(lat[which]), np.radians(load.lat[boxes_of])
        by_lat = np.sin((other - phi) / 2)
        by_lon = np.sin(np.radians(load.lon[boxes_of] - lon[which]) / 2)
        apart = np.arcsin(np.sqrt(by_lat**2 + np.cos(phi) * np.cos(other) * by_lon**2)) * 2 * 6_371_008.8
        return which[apart <= load.radius_m]

    return {f"{what}: us a publication, shapely's tree": least(found) / batch.num_rows * 1e6}


def texts(scale: int) -> dict[str, float]:
    """Texts of 200 characters. Of 200,000 words half are asked for: 13 of those are in a text."""
    measured: dict[str, float] = {}
    count = max(100_000 // scale, 1000)
    vocabulary = loads.words(2 * count)
    asked = vocabulary[:count]
    titles = loads.texts(vocabulary, 200)
    publications = pa.table({"title": titles})
    turned = asked[count // 2 :] + asked[: count // 2]
    patterns = {
        "substrings": ("substring", asked),
        "suffixes": ("suffix", [f"{one} {other}" for one, other in zip(asked, turned, strict=True)]),
        "general LIKE": ("like", [f"%{one}%{other}_" for one, other in zip(asked, turned, strict=True)]),
        "expressions": ("matches", [f"{one[:4]}[0-9]+" for one in asked]),
    }
    for name, (operator, chosen) in patterns.items():
        what = f"{count:,} {name}"
        predicates = loads.text_predicates(operator, chosen)
        index = Index()
        begin = time.process_time()
        index.add_predicates(predicates)
        measured[f"{what}: loading, s"] = time.process_time() - begin
        measured[f"{what}: bytes each"] = index.nbytes / count
        measured.update(of_index(what, index, publications))
    measured.update(aho_corasick(f"{count:,} substrings", asked, titles[:BATCH]))
    return measured


def aho_corasick(what: str, patterns: list[str], titles: list[str]) -> dict[str, float]:
    """pyahocorasick: each pattern once a text, which takes a set."""
    library = peer("ahocorasick")
    if library is None:
        return {}
    automaton = library.Automaton()
    for number, pattern in enumerate(patterns):
        automaton.add_word(pattern, number)
    automaton.make_automaton()

    def found() -> list[set[int]]:
        return [{number for _, number in automaton.iter(title)} for title in titles]

    return {f"{what}: us a publication, pyahocorasick": least(found) / len(titles) * 1e6}


def lists(scale: int) -> dict[str, float]:
    """Lists of 100 values of 100,000: 20 of 20,000 hold a value."""
    measured: dict[str, float] = {}
    for count, members in ((20_000, 100), (200, 10_000)):
        held = loads.lists(max(count // scale, 100), members, 100_000)
        what = f"{len(held):,} lists of {members:,} values"
        index = Index()
        begin = time.process_time()
        for at in range(0, len(held), BATCH):
            index.add_many(
                [
                    NewSubscription(
                        at + i, Condition.from_predicates([[Predicate("code", "in", tuple(row))]]).disjuncts
                    )
                    for i, row in enumerate(held[at : at + BATCH].tolist())
                ]
            )
        measured[f"{what}: loading, s"] = time.process_time() - begin
        measured[f"{what}: bytes a value"] = index.nbytes / held.size
        values = np.random.default_rng(6).integers(0, 100_000, 2 * BATCH)
        measured.update(of_index(what, index, pa.table({"code": values})))
        by_value: dict[int, list[int]] = {}
        for number, row in enumerate(held.tolist()):
            for value in set(row):
                by_value.setdefault(value, []).append(number)
        asked = values[:BATCH].tolist()
        taken = least(lambda asked=asked, by_value=by_value: [by_value.get(value, ()) for value in asked])  # type: ignore[misc]
        measured[f"{what}: us a publication, a dictionary of lists"] = taken / BATCH * 1e6
    return measured


def published(scale: int) -> dict[str, float]:
    """Published conditions of six ranges, a fifth of the values each, against subscriptions of three ranges of a tenth; 20 attributes."""
    measured: dict[str, float] = {}
    count, publications = max(100_000 // scale, 1000), 200
    random = np.random.default_rng(7)
    names = np.array([f"a{i}" for i in range(20)])
    asked = np.argsort(random.random((count, 20)), axis=1)[:, :3]
    low = random.integers(0, 900, (count, 3))
    said = np.argsort(random.random((publications, 20)), axis=1)[:, :6].tolist()
    begins = random.integers(0, 800, (publications, 6)).tolist()
    where = [
        Condition.from_predicates(
            [[Predicate(f"a{a}", "between", begin, begin + 200) for a, begin in zip(one, first, strict=True)]]
        ).disjuncts
        for one, first in zip(said, begins, strict=True)
    ]
    bounds = np.full((2, 20, count), -np.inf), np.zeros((20, count), bool)
    bounds[0][1] = np.inf
    for k in range(3):
        bounds[0][0, asked[:, k], np.arange(count)] = low[:, k]
        bounds[0][1, asked[:, k], np.arange(count)] = low[:, k] + 100
        bounds[1][asked[:, k], np.arange(count)] = True
    for semantics in ("classical", "symmetric", "intersect"):
        what = f"{count:,} subscriptions, published ranges, {semantics}"
        index = Index()
        index.add_predicates(
            pa.table(
                {
                    "subscription_id": np.repeat(np.arange(count), 3),
                    "attribute": names[asked.ravel()],
                    "operator": ["between"] * (3 * count),
                    "value_int64": low.ravel(),
                    "high_int64": low.ravel() + 100,
                    "semantics": [semantics] * (3 * count),
                }
            )
        )
        for name, some in ((what, publications), (f"{what}, alone", 1)):
            empty = attributes_of([{}] * some)
            rows, _ = index.match_attributes(empty, where=where[:some])
            taken = least(lambda empty=empty, some=some, index=index: index.match_attributes(empty, where=where[:some]))  # type: ignore[misc]
            measured[f"{name}: us a publication"] = taken / some * 1e6
            measured[f"{name}: matches a publication"] = len(rows) / some

        def compared(needed: int = {"classical": 3, "symmetric": 6, "intersect": 0}[semantics]) -> int:
            found = 0
            for one, first in zip(said[:10], begins[:10], strict=True):
                holds, covered = np.ones(count, bool), np.zeros(count, np.int64)
                for a, begin in zip(one, first, strict=True):
                    holds &= (bounds[0][0, a] <= begin + 200) & (bounds[0][1, a] >= begin)
                    covered += bounds[1][a]
                found += len(np.flatnonzero(holds & (covered >= needed)))
            return found

        measured[f"{what}: us a publication, NumPy"] = least(compared, 3) / 10 * 1e6
    return measured


PIECES: Final[dict[str, Callable[[int], dict[str, float]]]] = {
    "places": places,
    "texts": texts,
    "lists": lists,
    "published": published,
}
