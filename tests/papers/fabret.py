"""The load W0 of Fabret et al., small, and what must hold of the structures at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pastforward.matching import Index
from pastforward.papers.fabret.clusters import (
    BASE,
    CAPACITY,
    CLUSTERS,
    COUNT,
    FIRST,
    FIRST_TABLE,
    FOLLOWING,
    HELD,
    MAX_SCHEMA,
    MEMBERS,
    NEXT,
    NO_TABLE,
    NUMBERS,
    OWNER,
    ROOT,
    SCHEMA,
    SINGLES,
    SIZE,
    STATUS,
    TABLE,
    TABLES,
    UNIT,
    WIDTH,
    find_access,
)
from pastforward.papers.fabret.predicate_index import IS
from pastforward.papers.fabret.propagation import Clustered


def algorithm_of(index: Index) -> Any:
    return index._members.algorithm


def equalities(rows: Sequence[Mapping[int, int]], first: int = 0) -> pa.Table:
    """A subscription per row: attribute numbers, and the values they must have."""
    asked = [(identity, number, value) for identity, row in enumerate(rows, first) for number, value in row.items()]
    return _predicates(*np.array(asked, np.int64).reshape(-1, 3).T)


def _predicates(identities: np.ndarray, attributes: np.ndarray, values: np.ndarray) -> pa.Table:
    names = pa.array([f"a{number:02}" for number in range(int(attributes.max(initial=0)) + 1)])
    return pa.table(
        {
            "subscription_id": identities,
            "attribute": names.take(pa.array(attributes)),
            "operator": pa.array(["="] * len(identities)),
            "value_int64": values,
        }
    )


def load(
    count: int,
    seed: int,
    *,
    names: range = range(32),
    values: int = 35,
    predicates: int = 5,
    fixed: int = 2,
    first: int = 0,
) -> pa.Table:
    """Equality predicates, the first `fixed` names in all subscriptions, the others at random."""
    random = np.random.default_rng(seed)
    free = np.argsort(random.random((count, len(names) - fixed)), axis=1)[:, : predicates - fixed] + fixed
    chosen = np.concatenate([np.tile(np.arange(fixed), (count, 1)), free], axis=1) + names.start
    identities = np.repeat(np.arange(first, first + count), predicates)
    return _predicates(identities, chosen.reshape(-1), random.integers(1, values + 1, count * predicates))


def events(count: int, seed: int, names: int = 32, values: int = 35) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({f"a{number:02}": random.integers(1, values + 1, count) for number in range(names)})


def check_structure(algorithm: Clustered) -> None:
    """Every slot is behind exactly one access predicate that it asks for; every count is right; everything is found by its hash."""
    view, predicates = algorithm.store.view, algorithm.predicates.view
    found: set[int] = set()
    holders: dict[int, int] = {}
    for table in range(int(view.state[TABLES])):
        if table >= FIRST_TABLE and view.tables[table, STATUS] == NO_TABLE:
            continue
        members = 0
        access = int(view.tables[table, FIRST])
        while access >= 0:
            row = view.access[access]
            assert row[TABLE] == table
            numbers = [int(number) for number in row[NUMBERS : NUMBERS + MAX_SCHEMA] if number >= 0]
            if table == SINGLES:
                assert len(numbers) == 1
                assert predicates.access[numbers[0]] == access
            elif table != ROOT:
                schema = view.tables[table, SCHEMA : SCHEMA + view.tables[table, WIDTH]]
                assert [predicates.attribute[number] for number in numbers] == schema.tolist()
                assert find_access(view, table, np.array(numbers, np.int32), len(numbers)) == access
            assert all(predicates.operator[number] == IS for number in numbers)
            held, sizes = 0, set()
            cluster = int(row[CLUSTERS])
            while cluster >= 0:
                head = view.clusters[cluster]
                assert head[OWNER] == access
                assert 0 < head[COUNT] <= head[CAPACITY]
                assert head[SIZE] not in sizes
                sizes.add(int(head[SIZE]))
                base, step = int(head[BASE]) * UNIT, int(head[CAPACITY])
                for place in range(int(head[COUNT])):
                    slot = int(view.words[base + place])
                    assert slot not in found
                    found.add(slot)
                    assert (view.slot_cluster[slot], view.slot_place[slot]) == (cluster, place)
                    left = [int(view.words[base + (c + 1) * step + place]) for c in range(int(head[SIZE]))]
                    operators = [predicates.operator[number] != IS for number in left]
                    assert operators == sorted(operators)
                    assert not set(left) & set(numbers)
                    for number in left + numbers:
                        holders[number] = holders.get(number, 0) + 1
                held += int(head[COUNT])
                cluster = int(head[FOLLOWING])
            assert held == row[HELD]
            assert held > 0 or table == ROOT
            members += held
            access = int(row[NEXT])
        assert members == view.tables[table, MEMBERS]
    assert sorted(found) == algorithm.store.slots().tolist()
    assert len(holders) == len(algorithm.predicates)
    assert all(predicates.holders[number] == count for number, count in holders.items())
