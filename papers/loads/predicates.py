"""Subscriptions as an Arrow table of predicates, publications as a table of attributes: what all matching loads share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I64 = npt.NDArray[np.int64]
BOOL = npt.NDArray[np.bool_]
LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Load:
    """Integers only: each predicate is the range from `low` to `high`, both ends in. Subscriptions are numbered from 0."""

    name: str
    subscriptions: int
    ids: I64  # of each predicate's subscription, ascending
    attributes: I64  # numbers of names
    low: I64
    high: I64
    names: Sequence[str]
    publications: pa.Table

    @cached_property
    def predicates(self) -> pa.Table:
        return predicate_table(self.ids, self.attributes, self.names, self.low, self.high)

    @cached_property
    def dense(self) -> tuple[I64, BOOL]:
        """A row for each publication, a column for each name: the value, and whether there is one."""
        return dense(self.publications, self.names)

    @cached_property
    def first(self) -> dict[str, int]:
        """The first publication as a dictionary."""
        row: dict[str, int | None] = self.publications.slice(0, 1).to_pylist()[0]
        return {name: value for name, value in row.items() if value is not None}


def predicate_table(ids: I64, attributes: I64, names: Sequence[str], low: I64, high: I64) -> pa.Table:
    """Operators as people write them: `=`, `<=`, `>=`, `between`."""
    equal, no_low, no_high = low == high, low == LOWEST, high == HIGHEST
    operator = np.select([equal, no_low, no_high], [0, 1, 2], 3).astype(np.int32)
    return pa.table(
        {
            "subscription_id": ids,
            "attribute": pa.DictionaryArray.from_arrays(pa.array(attributes.astype(np.int32)), pa.array(list(names))),
            "operator": pa.DictionaryArray.from_arrays(pa.array(operator), pa.array(["=", "<=", ">=", "between"])),
            "value_int64": np.where(no_low, high, low),
            "high_int64": pa.array(high, mask=operator != 3),
        }
    )


def dense(publications: pa.Table, names: Sequence[str]) -> tuple[I64, BOOL]:
    values = np.zeros((publications.num_rows, len(names)), np.int64)
    carried = np.zeros((publications.num_rows, len(names)), np.bool_)
    for number, name in enumerate(names):
        if name in publications.column_names:
            column = publications[name].combine_chunks()
            carried[:, number] = True if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
            values[:, number] = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    return values, carried


def expected(load: Load, rows: int) -> tuple[I64, I64]:
    """The oracle: the pairs of the first publications, by testing every predicate. Rows and subscriptions, in order."""
    values, carried = load.dense
    found_rows: list[I64] = []
    found: list[I64] = []
    for row in range(rows):
        value = values[row][load.attributes]
        holds = carried[row][load.attributes] & (load.low <= value) & (value <= load.high)
        failed = np.bincount(load.ids[~holds], minlength=load.subscriptions)
        matching = np.flatnonzero(failed == 0)
        found.append(matching)
        found_rows.append(np.full(len(matching), row))
    return np.concatenate(found_rows), np.concatenate(found)


def choices(random: np.random.Generator, rows: int, among: int, count: int) -> I64:
    """Different numbers in each row, below `among`."""
    if count == 0:
        return np.zeros((rows, 0), np.int64)
    drawn: Any = random.random((rows, among), dtype=np.float32)
    chosen: I64 = drawn.argpartition(count - 1, axis=1)[:, :count].astype(np.int64)
    return chosen
