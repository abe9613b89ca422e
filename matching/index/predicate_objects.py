"""Predicates that Python reads: expressions, lists, paths, and all that is wrong."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.matching.conditions.limits import MAX_DISJUNCTS
from pastforward.matching.conditions.normal_form import Disjunct
from pastforward.matching.conditions.predicates import (
    Predicate,
    alternatives,
    multiplied_out,
    too_many_disjuncts,
)
from pastforward.matching.conditions.types import Instant
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.matching.index.predicate_columns import VALUE_COLUMNS
from pastforward.matching.index.tables import times

I64 = npt.NDArray[np.int64]


def disjuncts_by_python(
    table: pa.Table, order: I64, start: I64, first: I64, chosen: npt.NDArray[np.bool_]
) -> dict[int, list[Disjunct]]:
    """The disjuncts of subscriptions that kernels cannot read; wrong predicates raise here, before anything is kept."""
    found: dict[int, list[Disjunct]] = {}
    for name in ("value_timestamp", "high_timestamp"):
        # a datetime has fewer years than the column, and no nanoseconds
        if name in table.column_names:
            column = table.column(name)
            micros = pa.array(times(column, 0), mask=column.is_null().to_numpy())
            table = table.set_column(table.column_names.index(name), name, micros)
    for i in np.flatnonzero(chosen).tolist():
        disjuncts: list[Disjunct] = []
        for slot in range(int(first[i]), int(first[i + 1])):
            numbers = order[int(start[slot]) : int(start[slot + 1])]
            # a contradiction is never true, and so no disjunct
            disjuncts += _disjuncts(table.take(pa.array(numbers)).to_pylist())
            if len(disjuncts) > MAX_DISJUNCTS:
                raise too_many_disjuncts()
        found[i] = disjuncts
    return found


def _disjuncts(rows: list[dict[str, Any]]) -> list[Disjunct]:
    lists: dict[tuple[str, str], list[Any]] = {}
    predicates = []
    for row in rows:
        attribute, operator = row["attribute"], row["operator"]
        if operator in ("in", "not in"):
            if (attribute, operator) not in lists:
                lists[attribute, operator] = []
                predicates.append(Predicate(attribute, operator))
            lists[attribute, operator].append(_constant(row, "value"))
        else:
            predicates.append(Predicate(attribute, operator, _constant(row, "value"), _constant(row, "high")))
    asked = []
    for predicate in predicates:
        if (predicate.attribute, predicate.operator) in lists:
            predicate = predicate._replace(value=tuple(lists[predicate.attribute, predicate.operator]))
        asked.append((predicate.attribute, alternatives(predicate)))
    return multiplied_out(asked)


def _constant(row: dict[str, Any], prefix: str) -> Any:
    given: list[tuple[str, Any]] = [(suffix, row.get(f"{prefix}_{suffix}")) for suffix in VALUE_COLUMNS]
    given = [(suffix, value) for suffix, value in given if value is not None]
    if not given:
        return None
    if len(given) > 1:
        columns = ", ".join(f"{prefix}_{suffix}" for suffix, _ in given)
        raise ValueError(f"{row['attribute']} {row['operator']}: {columns} are all filled; one value is enough")
    suffix, value = given[0]
    if suffix == "binary":
        shape = {16: Point, 24: Circle, 32: Box}.get(len(value))
        if shape is None:
            raise ValueError(f"{row['attribute']}: {len(value)} bytes are no point (16), circle (24) or box (32)")
        return shape(*struct.unpack(f"<{len(value) // 8}d", value))
    if suffix == "path":
        return Path(value)
    if suffix == "timestamp" and isinstance(value, int):
        return Instant(value)
    return value
