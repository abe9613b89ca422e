"""Matching side by side: every contender gets the same load, must give the same answers, and is then timed.

A time is processor time of one thread, the least of several; publications come in one batch, as many as take a moment.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pastforward.matching import Index
from pastforward.papers.betree import BETree
from pastforward.papers.figures.points import DiffersError, Point
from pastforward.papers.loads.predicates import Load, expected

I64 = npt.NDArray[np.int64]

ORACLE_ROWS = 2  # publications that are also decided by testing every predicate
CHECKED_ROWS = 20  # publications whose answers are compared among contenders
REPETITIONS = 3
COUNTING_AT_ONCE = 5_000  # subscriptions


class Contender(Protocol):
    def match(self, rows: int) -> tuple[I64, I64]:
        """Rows and subscriptions of the pairs of the first publications."""

    @property
    def nbytes(self) -> int: ...

    @property
    def candidates(self) -> float | None:
        """Subscriptions tested for a publication, if that is known."""


@dataclass
class Indexed:
    load: Load
    index: Index

    def match(self, rows: int) -> tuple[I64, I64]:
        if rows == 1:  # one alone, as a program would ask
            ids = np.array(self.index.match(self.load.first), np.int64)
            return np.zeros(len(ids), np.int64), ids
        pairs = self.index.match_table(self.load.publications.slice(0, rows))
        return pairs["row"].to_numpy(), pairs["subscription_id"].to_numpy()

    @property
    def nbytes(self) -> int:
        return self.index.nbytes

    @property
    def candidates(self) -> float | None:
        return None


@dataclass
class OfTree:
    load: Load
    tree: BETree
    tested: float = 0.0

    def match(self, rows: int) -> tuple[I64, I64]:
        values, carried = self.load.dense
        found_rows, found, tested = self.tree.match(values[:rows], carried[:rows])
        self.tested = tested / rows
        return found_rows, found

    @property
    def nbytes(self) -> int:
        return self.tree.nbytes

    @property
    def candidates(self) -> float | None:
        return self.tested


Make = Callable[[Load], Contender]


def indexed(algorithm: str, at_once: int = 0, **options: Any) -> Make:
    """`at_once`: subscriptions in a batch of loading; 0 takes all."""

    def make(load: Load) -> Contender:
        index = Index(algorithm=algorithm, **options)
        counting = algorithm == "counting"
        batch = at_once or (COUNTING_AT_ONCE if counting else load.subscriptions)
        ends = np.searchsorted(load.ids, np.arange(0, load.subscriptions + batch, batch))
        for begin, end in pairwise(ends):
            if counting:
                # Its lists grow by half whenever any of its tables is full; room made beforehand keeps that in bounds.
                index._members.algorithm._reserve(2 * (end - begin) + 128)  # type: ignore[attr-defined]
            index.add_predicates(load.predicates.slice(begin, end - begin))
        return Indexed(load, index)

    return make


def be_tree(load: Load) -> Contender:
    return OfTree(load, BETree(load))


def ordered(pairs: tuple[I64, I64]) -> tuple[I64, I64]:
    order = np.lexsort((pairs[1], pairs[0]))
    return pairs[0][order], pairs[1][order]


def same(name: str, found: tuple[I64, I64], other: str, expected_pairs: tuple[I64, I64], rows: int) -> None:
    """Raises if the pairs of the first rows differ."""
    a, b = ordered(found), ordered(expected_pairs)
    a, b = tuple(side[a[0] < rows] for side in a), tuple(side[b[0] < rows] for side in b)  # type: ignore[assignment]
    if not (np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])):
        raise DiffersError(
            f"{name} finds {len(a[0])} pairs for {rows} publications, {other} {len(b[0])}: no time of either counts"
        )


def compare(
    load: Load, contenders: dict[str, Make], x: float, panel: str = "", *, patience: float, small: Load | None = None
) -> Iterator[Point]:
    """Loads, checks and times each. `patience`: seconds for one repetition. `small`: a load to compile the kernels with."""
    oracle = expected(load, min(ORACLE_ROWS, load.publications.num_rows))
    first: tuple[str, tuple[I64, I64]] | None = None
    load.predicates, load.dense, load.first  # made once, and not while somebody is timed  # noqa: B018
    for name, make in contenders.items():
        make(small or load).match(1)
        gc.collect()
        begin = time.process_time()
        contender = make(load)
        loading = time.process_time() - begin
        checked = min(CHECKED_ROWS, load.publications.num_rows)
        begin = time.process_time()
        found = contender.match(1)
        once = time.process_time() - begin
        if once * checked > 2 * patience:
            checked = ORACLE_ROWS
        found = contender.match(checked)
        same(name, found, "the oracle", oracle, ORACLE_ROWS)
        if first is None:
            first = name, found
        same(name, found, first[0], first[1], min(checked, int(first[1][0].max(initial=0)) + 1))
        rows, best = timed(contender, load.publications.num_rows, patience)
        yield Point(panel, name, x, "us", best * 1e6)
        yield Point(panel, name, x, "load_s", loading)
        yield Point(panel, name, x, "bytes", contender.nbytes / load.subscriptions)
        yield Point(panel, name, x, "matches", len(found[0]) / checked)
        yield Point(panel, name, x, "publications", rows)
        if contender.candidates is not None:
            yield Point(panel, name, x, "tested", contender.candidates)
        del contender, found
        gc.collect()


def timed(contender: Contender, most: int, patience: float) -> tuple[int, float]:
    """How many publications were matched at once, and seconds for each."""
    rows = 1
    while True:
        begin = time.process_time()
        contender.match(rows)
        spent = time.process_time() - begin
        if rows == most or spent * 4 > patience:
            break
        rows = min(most, max(rows + 1, min(10 * rows, int(rows * patience / max(spent, 1e-6) / 2))))
    for _ in range(REPETITIONS - 1):
        begin = time.process_time()
        contender.match(rows)
        spent = min(spent, time.process_time() - begin)
    return rows, spent / rows
