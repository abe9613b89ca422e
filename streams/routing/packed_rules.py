"""Rules in the columns that the kernel reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pastforward.columns.hashing import text_hashes
from pastforward.columns.texts import as_kernel
from pastforward.matching.conditions.normal_form import Family
from pastforward.streams.routing.columns import (
    I32,
    I64,
    Placement,
    Publications,
    Subscriptions,
    entry_columns,
)
from pastforward.streams.routing.conditions import Names
from pastforward.streams.routing.kernel import INTERVAL, NAME, VALUE, RuleColumns, route_rows
from pastforward.streams.routing.rules import ByInterval, ByName, ByValue, Rule
from pastforward.streams.routing.store_kernel import store_rows


class PackedRules:
    """Immutable once made; any number of threads may route."""

    def __init__(self, rules: Sequence[Rule], partitions: int, silence: int) -> None:
        self._partitions = partitions
        self._silence = silence
        self._rule = {rule.attribute.name: index for index, rule in enumerate(rules)}
        self._names = Names(list(self._rule))
        self._columns = _pack(rules)

    def route(self, publications: Publications) -> Placement:
        attributes = publications.attributes
        rule = np.array([self._rule.get(name, -1) for name in attributes.names] or [-1], np.int32)
        rows = len(publications)
        start = np.empty(rows + 1, np.int64)
        # each attribute is one key; a row without any has one as well
        partition = np.empty(len(attributes.name) + rows, np.int32)
        used = route_rows(
            self._columns,
            rule,
            entry_columns(attributes),
            publications.ids.for_kernel(),
            self._partitions,
            self._silence,
            start,
            partition,
        )
        return Placement(start, partition[:used])

    def store(self, subscriptions: Subscriptions) -> Placement:
        conditions = self._names.read(subscriptions.conditions)
        stored = as_kernel(subscriptions.semantics, np.uint8), text_hashes(subscriptions.ids)

        def store(row: int, start: I64, out: I32) -> Any:
            return store_rows(self._columns, conditions, stored, self._partitions, self._silence, row, start, out)

        return Placement.filled(len(subscriptions), self._partitions, store)


def _pack(rules: Sequence[Rule]) -> RuleColumns:
    count = len(rules)
    kind, family = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    partition, seed = np.zeros(count, np.int32), np.zeros(count, np.uint64)
    first, width = np.zeros(count + 1, np.int64), np.zeros(count, np.float64)
    table: list[int] = []
    low: list[float] = []
    texts: list[bytes] = []
    for r, rule in enumerate(rules):
        family[r] = rule.attribute.family
        if isinstance(rule, ByName):
            kind[r] = NAME
            partition[r] = rule.partition
        elif isinstance(rule, ByValue):
            kind[r] = VALUE
            seed[r] = rule.seed
        elif isinstance(rule, ByInterval):
            kind[r] = INTERVAL
            table += rule.table
            width[r] = rule.width
            strings = rule.attribute.family is Family.STRING
            low += [0.0] * len(rule.lows) if strings else rule.lows
            texts += rule.lows if strings else [b""] * len(rule.lows)
        first[r + 1] = len(table)
    length = np.array([len(text) for text in texts], np.int32)
    offset = np.zeros(len(texts), np.int64)
    np.cumsum(length[:-1], out=offset[1:])
    heap = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    return RuleColumns(
        kind,
        family,
        partition,
        seed,
        first,
        np.array(table, np.int32),
        np.array(low, np.float64),
        width,
        heap,
        offset,
        length,
    )
