"""Subscriptions in columnar clusters behind access predicates, found through hash tables.

An access predicate is a set of equalities, one for each attribute of its table's schema; a subscription (one slot) is behind one access
predicate, all of whose equalities it asks for. Behind an access predicate lie clusters, one for each number of predicates that are left
to check. A cluster of size n is a block of words: the line of slots, then n columns of predicate numbers, all `capacity` long, so that a
check reads one column from end to end and the others only where the first held.

Tables: 0 has an empty schema, and one access predicate, which every publication satisfies; 1 stands for all schemas of one attribute,
whose access predicates are found by the predicate index itself; from 2 on, schemas of several attributes. Room is made from Python: a
kernel that runs out of it stops before it has changed anything for the slot at hand, and goes on after `ClusterStore.grow`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.hashing import mix
from pastforward.columns.kernel import inlined, inner, kernel
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.papers.fabret.predicate_index import IS, PredicateView, longer, selectivity

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

# Attributes of a schema, at most. Four equalities select so well that a fifth would save less than its hashing.
MAX_SCHEMA: Final = 4

ROOT: Final = 0
SINGLES: Final = 1
FIRST_TABLE: Final = 2

# columns of a table
SCHEMA: Final = 0  # MAX_SCHEMA columns
WIDTH: Final = 4  # attributes of the schema
STATUS: Final = 5
MEMBERS: Final = 6  # slots
FIRST: Final = 7  # access predicate; -1
_TABLE_COLUMNS: Final = 8
# status
NO_TABLE: Final = 0
OPEN: Final = 1
CLOSING: Final = 2  # takes nothing any more

# columns of an access predicate; one cache line
TABLE: Final = 0
HELD: Final = 1  # slots
CLUSTERS: Final = 2  # the first cluster; -1
NEXT: Final = 3  # of the same table
PREVIOUS: Final = 4
FLAGS: Final = 5  # for whoever maintains the tables
NUMBERS: Final = 6  # MAX_SCHEMA columns: predicates, -1 beyond the schema
EPOCH: Final = 10  # of the tables, when its slots were last looked at
_ACCESS_COLUMNS: Final = 16

# columns of a cluster; half a cache line
OWNER: Final = 0  # access predicate; -1 for a free row
SIZE: Final = 1
BASE: Final = 2  # in units of words
CLASS: Final = 3
CAPACITY: Final = 4
COUNT: Final = 5
FOLLOWING: Final = 6
_CLUSTER_COLUMNS: Final = 8

# state
_ACCESS_EVER: Final = 0
_ACCESS_FREE: Final = 1
_CLUSTER_EVER: Final = 2
_CLUSTER_FREE: Final = 3
_CELLS: Final = 4
_UNITS: Final = 5  # ever used
TABLES: Final = 6  # rows ever used
EPOCHS: Final = 7
CHECKS: Final = 8  # slots that matches looked at
_FREE_UNITS: Final = 9
_STATE: Final = 10

# Blocks come in units of four words, the least that a lonely slot with a few predicates needs, and in sizes of two steps an octave, so
# that at most a third is spare and a freed block fits the next cluster of its class.
UNIT: Final = 4
_CLASSES: Final = 58
_CLASS_UNITS: Final = np.array(
    [1] + [(1 << ((k + 1) // 2)) if k % 2 else 3 << (k // 2 - 1) for k in range(1, _CLASSES)], np.int64
)


class ClusterView(NamedTuple):
    tables: I32  # table, column
    access: I32  # access predicate, column
    cells: I32  # of all tables with several attributes: access predicate + 1, 0 for never used, -1 for released
    clusters: I32  # cluster, column
    words: U32
    slot_cluster: I32  # -1: not here
    slot_place: I32
    free_access: I32
    free_clusters: I32
    free_blocks: I64  # by class: the first free block's unit, -1; the next stands in its first word
    settled: F32  # by access predicate: for whoever maintains the tables
    state: I64


@inlined
def _cell(table: Int, numbers: I32, width: Int, mask: Int) -> Int:
    h = np.uint64(table)
    for k in range(width):
        h = mix(h * np.uint64(0x9E3779B97F4A7C15) + np.uint64(numbers[k]))
    return np.int64(h & np.uint64(mask))


@kernel
def find_access(view: ClusterView, table: Int, numbers: I32, width: Int) -> Int:
    """Of a table with several attributes."""
    mask = len(view.cells) - 1
    at = _cell(table, numbers, width, mask)
    while True:
        entry = view.cells[at]
        if entry == 0:
            return -1
        if entry > 0:
            access = np.int64(entry) - 1
            same = view.access[access, TABLE] == table
            for k in range(width):
                same = same and view.access[access, NUMBERS + k] == numbers[k]
            if same:
                return access
        at = (at + 1) & mask


@kernel
def _class_for(words: Int) -> Int:
    k = 0
    while _CLASS_UNITS[k] * UNIT < words:
        k += 1
    return k


@inner
def _allocate(view: ClusterView, k: Int) -> Int:
    """The unit at which a block of class `k` begins; -1 if there is no room."""
    unit = view.free_blocks[k]
    if unit >= 0:
        view.free_blocks[k] = np.int64(view.words[unit * UNIT]) - 1
        view.state[_FREE_UNITS] -= _CLASS_UNITS[k]
        return unit
    unit = view.state[_UNITS]
    if (unit + _CLASS_UNITS[k]) * UNIT > len(view.words):
        return -1
    view.state[_UNITS] += _CLASS_UNITS[k]
    return unit


@kernel
def _free(view: ClusterView, unit: Int, k: Int) -> None:
    view.words[unit * UNIT] = np.uint32(view.free_blocks[k] + 1)
    view.free_blocks[k] = unit
    view.state[_FREE_UNITS] += _CLASS_UNITS[k]


@inner
def _new_access(view: ClusterView, predicates: PredicateView, table: Int, numbers: I32, width: Int) -> Int:
    state = view.state
    if state[_ACCESS_FREE] > 0:
        state[_ACCESS_FREE] -= 1
        access = np.int64(view.free_access[state[_ACCESS_FREE]])
    else:
        access = state[_ACCESS_EVER]
        state[_ACCESS_EVER] += 1
    view.access[access, TABLE] = table
    view.access[access, HELD] = 0
    view.access[access, CLUSTERS] = -1
    view.access[access, FLAGS] = 0
    view.access[access, EPOCH] = np.int32(state[EPOCHS])
    view.settled[access] = 0.0
    for k in range(MAX_SCHEMA):
        view.access[access, NUMBERS + k] = numbers[k] if k < width else -1
    following = view.tables[table, FIRST]
    view.access[access, NEXT] = following
    view.access[access, PREVIOUS] = -1
    if following >= 0:
        view.access[following, PREVIOUS] = access
    view.tables[table, FIRST] = access
    if table == SINGLES:
        predicates.access[numbers[0]] = access
    elif table != ROOT:
        mask = len(view.cells) - 1
        at = _cell(table, numbers, width, mask)
        while view.cells[at] > 0:
            at = (at + 1) & mask
        if view.cells[at] == 0:
            state[_CELLS] += 1
        view.cells[at] = access + 1
    return access


@inner
def _drop_access(view: ClusterView, predicates: PredicateView, access: Int) -> None:
    row = view.access[access]
    table = np.int64(row[TABLE])
    if row[PREVIOUS] < 0:
        view.tables[table, FIRST] = row[NEXT]
    else:
        view.access[row[PREVIOUS], NEXT] = row[NEXT]
    if row[NEXT] >= 0:
        view.access[row[NEXT], PREVIOUS] = row[PREVIOUS]
    if table == SINGLES:
        predicates.access[row[NUMBERS]] = -1
    elif table != ROOT:
        mask = len(view.cells) - 1
        at = _cell(table, row[NUMBERS:], np.int64(view.tables[table, WIDTH]), mask)
        while view.cells[at] != access + 1:
            at = (at + 1) & mask
        view.cells[at] = -1
    row[TABLE] = -1
    row[FLAGS] = 0
    view.free_access[view.state[_ACCESS_FREE]] = access
    view.state[_ACCESS_FREE] += 1


@kernel
def put(
    view: ClusterView, predicates: PredicateView, slot: Int, table: Int, numbers: I32, count: Int, key: I32, width: Int
) -> Int:
    """Puts a slot behind the access predicate `key[:width]` of a table; `numbers[:count]` are all its predicates, equalities first.
    Returns the access predicate, or -1 when there is no room: then nothing has changed."""
    state = view.state
    if (
        state[_ACCESS_EVER] - state[_ACCESS_FREE] >= len(view.access)
        or state[_CLUSTER_EVER] - state[_CLUSTER_FREE] >= len(view.clusters)
        or 2 * state[_CELLS] >= len(view.cells)
    ):
        return -1
    access = np.int64(-1)
    if table == ROOT:
        access = np.int64(view.tables[ROOT, FIRST])
    elif table == SINGLES:
        access = np.int64(predicates.access[key[0]])
    else:
        access = find_access(view, table, key, width)
    size = count - width
    cluster = np.int64(-1)
    if access >= 0:
        cluster = np.int64(view.access[access, CLUSTERS])
        while cluster >= 0 and view.clusters[cluster, SIZE] != size:
            cluster = np.int64(view.clusters[cluster, FOLLOWING])
    if cluster < 0 or view.clusters[cluster, COUNT] == view.clusters[cluster, CAPACITY]:
        held = np.int64(view.clusters[cluster, COUNT]) if cluster >= 0 else np.int64(0)
        k = _class_for((held + 1) * (size + 1))
        unit = _allocate(view, k)
        if unit < 0:
            return -1
        capacity = _CLASS_UNITS[k] * UNIT // (size + 1)
        if cluster < 0:
            if access < 0:
                access = _new_access(view, predicates, table, key, width)
            if state[_CLUSTER_FREE] > 0:
                state[_CLUSTER_FREE] -= 1
                cluster = np.int64(view.free_clusters[state[_CLUSTER_FREE]])
            else:
                cluster = state[_CLUSTER_EVER]
                state[_CLUSTER_EVER] += 1
            view.clusters[cluster, OWNER] = access
            view.clusters[cluster, SIZE] = size
            view.clusters[cluster, COUNT] = 0
            view.clusters[cluster, FOLLOWING] = view.access[access, CLUSTERS]
            view.access[access, CLUSTERS] = cluster
        else:
            old = np.int64(view.clusters[cluster, BASE]) * UNIT
            new = unit * UNIT
            for c in range(size + 1):
                for j in range(held):
                    view.words[new + c * capacity + j] = view.words[old + c * view.clusters[cluster, CAPACITY] + j]
            _free(view, np.int64(view.clusters[cluster, BASE]), np.int64(view.clusters[cluster, CLASS]))
        view.clusters[cluster, BASE] = np.int32(unit)
        view.clusters[cluster, CLASS] = np.int32(k)
        view.clusters[cluster, CAPACITY] = np.int32(capacity)
    place = np.int64(view.clusters[cluster, COUNT])
    at = np.int64(view.clusters[cluster, BASE]) * UNIT + place
    step = np.int64(view.clusters[cluster, CAPACITY])
    view.words[at] = np.uint32(slot)
    for i in range(count):
        known = False
        for k in range(width):
            known = known or key[k] == numbers[i]
        if not known:
            at += step
            view.words[at] = np.uint32(numbers[i])
    view.clusters[cluster, COUNT] += 1
    view.access[access, HELD] += 1
    view.tables[table, MEMBERS] += 1
    view.slot_cluster[slot] = np.int32(cluster)
    view.slot_place[slot] = np.int32(place)
    return access


@inner
def predicates_at(view: ClusterView, cluster: Int, place: Int, out: I32) -> tuple[Int, Int]:
    """All predicates of the slot at a place: those of its access predicate, then the others. Returns how many, and how many of the
    former. Equalities come first, since access predicates are made of them and columns hold them first."""
    access = np.int64(view.clusters[cluster, OWNER])
    width = 0
    while width < MAX_SCHEMA and view.access[access, NUMBERS + width] >= 0:
        out[width] = view.access[access, NUMBERS + width]
        width += 1
    size = np.int64(view.clusters[cluster, SIZE])
    at = np.int64(view.clusters[cluster, BASE]) * UNIT + place
    step = np.int64(view.clusters[cluster, CAPACITY])
    for c in range(size):
        at += step
        out[width + c] = np.int32(view.words[at])
    return width + size, width


@inner
def take_out(view: ClusterView, predicates: PredicateView, cluster: Int, place: Int) -> None:
    """Closes the gap with the last slot; forgets a cluster and an access predicate with nothing left."""
    access = np.int64(view.clusters[cluster, OWNER])
    size = np.int64(view.clusters[cluster, SIZE])
    base = np.int64(view.clusters[cluster, BASE]) * UNIT
    step = np.int64(view.clusters[cluster, CAPACITY])
    last = np.int64(view.clusters[cluster, COUNT]) - 1
    if place != last:
        for c in range(size + 1):
            view.words[base + c * step + place] = view.words[base + c * step + last]
        moved = view.words[base + place]
        view.slot_place[moved] = np.int32(place)
    view.clusters[cluster, COUNT] = np.int32(last)
    view.access[access, HELD] -= 1
    view.tables[view.access[access, TABLE], MEMBERS] -= 1
    if last == 0:
        _free(view, np.int64(view.clusters[cluster, BASE]), np.int64(view.clusters[cluster, CLASS]))
        at = np.int64(view.access[access, CLUSTERS])
        if at == cluster:
            view.access[access, CLUSTERS] = view.clusters[cluster, FOLLOWING]
        else:
            while view.clusters[at, FOLLOWING] != cluster:
                at = np.int64(view.clusters[at, FOLLOWING])
            view.clusters[at, FOLLOWING] = view.clusters[cluster, FOLLOWING]
        view.clusters[cluster, OWNER] = -1
        view.free_clusters[view.state[_CLUSTER_FREE]] = cluster
        view.state[_CLUSTER_FREE] += 1
        # the root stays: every match visits it
        if view.access[access, HELD] == 0 and view.access[access, TABLE] != ROOT:
            _drop_access(view, predicates, access)


# Two selectivities this near are taken as the same: estimates are no better, and then the shorter list of clusters decides.
_NEAR: Final = 0.95


@kernel
def choose(
    view: ClusterView,
    predicates: PredicateView,
    numbers: I32,
    equalities: Int,
    informed: Bool,
    by_attribute: I32,
    key: I32,
) -> tuple[Int, Int, Float]:
    """The best access predicate for a slot among the tables that are open: least selectivity, then fewest slots. Without statistics
    (`informed`) fewest slots alone. `by_attribute` is all -1 and left so. Returns table and width, and fills `key`; the selectivity."""
    best = 1.0
    table: Int = np.int64(ROOT)
    width: Int = np.int64(0)
    fewest = np.int64(2**62)
    for i in range(equalities):
        number = np.int64(numbers[i])
        chance = selectivity(predicates, number) if informed else 0.5
        access = predicates.access[number]
        held = np.int64(view.access[access, HELD]) if access >= 0 else np.int64(0)
        if table == ROOT or chance < best * _NEAR or (chance * _NEAR < best and held < fewest):
            best = chance
            fewest = held
            table = SINGLES
            width = 1
            key[0] = np.int32(number)
        by_attribute[predicates.attribute[number]] = np.int32(number)
    for t in range(FIRST_TABLE, view.state[TABLES]):
        if view.tables[t, STATUS] != OPEN or view.tables[t, WIDTH] > equalities:
            continue
        fits = True
        chance = 1.0
        for k in range(view.tables[t, WIDTH]):
            if view.tables[t, SCHEMA + k] >= len(by_attribute) or by_attribute[view.tables[t, SCHEMA + k]] < 0:
                fits = False
                break
            chance *= selectivity(predicates, np.int64(by_attribute[view.tables[t, SCHEMA + k]]))
        if fits and chance < best * _NEAR:
            best = chance
            table = t
            width = np.int64(view.tables[t, WIDTH])
            for k in range(width):
                key[k] = by_attribute[view.tables[t, SCHEMA + k]]
    for i in range(equalities):
        by_attribute[predicates.attribute[numbers[i]]] = -1
    return table, width, best


@inner
def access_selectivity(view: ClusterView, predicates: PredicateView, access: Int) -> Float:
    """Of independent equalities."""
    chance = 1.0
    for k in range(MAX_SCHEMA):
        number = view.access[access, NUMBERS + k]
        if number < 0:
            break
        chance *= selectivity(predicates, np.int64(number))
    return chance


@inner
def count_equalities(predicates: PredicateView, numbers: I32, count: Int) -> Int:
    n = 0
    while n < count and predicates.operator[numbers[n]] == IS:
        n += 1
    return n


@kernel
def replace_all(
    view: ClusterView,
    predicates: PredicateView,
    slots: I32,
    first: Int,
    numbers: I32,
    by_attribute: I32,
    moves: I64,
) -> Int:
    """Moves slots to the best open table, from `first` on. Returns how far it came: less than all means that room is needed."""
    key = np.empty(MAX_SCHEMA, np.int32)
    for i in range(first, len(slots)):
        slot = np.int64(slots[i])
        cluster = np.int64(view.slot_cluster[slot])
        place = np.int64(view.slot_place[slot])
        count, _width = predicates_at(view, cluster, place, numbers)
        equalities = count_equalities(predicates, numbers, count)
        table, width, _chance = choose(view, predicates, numbers, equalities, True, by_attribute, key)
        if same_access(view, np.int64(view.clusters[cluster, OWNER]), table, key, width):
            continue
        if put(view, predicates, slot, table, numbers, count, key, width) < 0:
            return i
        take_out(view, predicates, cluster, place)
        moves[0] += 1
    return len(slots)


@inner
def same_access(view: ClusterView, access: Int, table: Int, key: I32, width: Int) -> Bool:
    same = view.access[access, TABLE] == table
    for k in range(width):
        same = same and view.access[access, NUMBERS + k] == key[k]
    return same


@kernel
def _rebuild(view: ClusterView) -> Int:
    mask = len(view.cells) - 1
    used = 0
    for access in range(view.state[_ACCESS_EVER]):
        row = view.access[access]
        if row[TABLE] < FIRST_TABLE:
            continue
        at = _cell(np.int64(row[TABLE]), row[NUMBERS:], np.int64(view.tables[row[TABLE], WIDTH]), mask)
        while view.cells[at] != 0:
            at = (at + 1) & mask
        view.cells[at] = access + 1
        used += 1
    return used


class ClusterStore:
    """One writer; `view` is what kernels read."""

    def __init__(self) -> None:
        state = np.zeros(_STATE, np.int64)
        tables = np.zeros((8, _TABLE_COLUMNS), np.int32)
        tables[:, FIRST] = -1
        tables[:FIRST_TABLE, STATUS] = OPEN
        state[TABLES] = FIRST_TABLE
        access = np.zeros((64, _ACCESS_COLUMNS), np.int32)
        # the root's access predicate, which every publication satisfies
        access[0, [CLUSTERS, NEXT, PREVIOUS]] = -1
        access[0, NUMBERS : NUMBERS + MAX_SCHEMA] = -1
        tables[ROOT, FIRST] = 0
        state[_ACCESS_EVER] = 1
        self.view = ClusterView(
            tables,
            access,
            np.zeros(256, np.int32),
            np.zeros((64, _CLUSTER_COLUMNS), np.int32),
            np.zeros(1024, np.uint32),
            np.full(64, -1, np.int32),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.zeros(64, np.int32),
            np.full(_CLASSES, -1, np.int64),
            np.zeros(64, np.float32),
            state,
        )

    @property
    def access_predicates(self) -> int:
        return int(self.view.state[_ACCESS_EVER] - self.view.state[_ACCESS_FREE])

    @property
    def access_limit(self) -> int:
        return int(self.view.state[_ACCESS_EVER])

    @property
    def clusters(self) -> int:
        return int(self.view.state[_CLUSTER_EVER] - self.view.state[_CLUSTER_FREE])

    @property
    def nbytes(self) -> int:
        """Pages that were never written are not there."""
        view, state = self.view, self.view.state
        rows = int(state[_ACCESS_EVER]) * 4 * (_ACCESS_COLUMNS + 2) + int(state[_CLUSTER_EVER]) * 4 * (
            _CLUSTER_COLUMNS + 1
        )
        by_slot = view.slot_cluster.nbytes + view.slot_place.nbytes
        return rows + by_slot + view.cells.nbytes + view.tables.nbytes + int(state[_UNITS]) * UNIT * 4

    def slots(self) -> I32:
        """All that are here."""
        return np.flatnonzero(self.view.slot_cluster >= 0).astype(np.int32)

    def schemas(self) -> list[tuple[int, ...]]:
        """Of the tables with several attributes that are open."""
        rows = self.view.tables[FIRST_TABLE : int(self.view.state[TABLES])]
        return [tuple(row[SCHEMA : SCHEMA + row[WIDTH]].tolist()) for row in rows if row[STATUS] == OPEN]

    def members(self, schema: tuple[int, ...]) -> int:
        """How many slots a table holds."""
        table = self.find_table(schema)
        return int(self.view.tables[table, MEMBERS]) if table else 0

    def find_table(self, schema: tuple[int, ...]) -> int:
        """0 if there is none."""
        for table in range(FIRST_TABLE, int(self.view.state[TABLES])):
            row = self.view.tables[table]
            if row[STATUS] == OPEN and tuple(row[SCHEMA : SCHEMA + row[WIDTH]].tolist()) == schema:
                return table
        return 0

    def add_table(self, schema: tuple[int, ...]) -> int:
        view = self.view
        tables = view.tables
        ever = int(view.state[TABLES])
        free = np.flatnonzero(tables[FIRST_TABLE:ever, STATUS] == NO_TABLE)
        if len(free):
            table = FIRST_TABLE + int(free[0])
        else:
            table = ever
            if table == len(tables):
                tables = longer(tables, 2 * table)
                self.view = view._replace(tables=tables)
            view.state[TABLES] += 1
        tables[table, SCHEMA : SCHEMA + len(schema)] = schema
        tables[table, WIDTH] = len(schema)
        tables[table, STATUS] = OPEN
        tables[table, MEMBERS] = 0
        tables[table, FIRST] = -1
        view.state[EPOCHS] += 1
        return table

    def reserve_slots(self, limit: int) -> None:
        view = self.view
        if limit > len(view.slot_cluster):
            room = max(limit, len(view.slot_cluster) + len(view.slot_cluster) // 2)
            clusters = longer(view.slot_cluster, room)
            clusters[len(view.slot_cluster) :] = -1
            self.view = view._replace(slot_cluster=clusters, slot_place=longer(view.slot_place, room))

    def grow(self, largest: int) -> None:
        """More room where it is short; `largest` is the number of predicates of a slot, at most."""
        view, state = self.view, self.view.state
        if self.access_predicates >= len(view.access):
            room = 2 * len(view.access)
            view = view._replace(
                access=longer(view.access, room),
                settled=longer(view.settled, room),
                free_access=longer(view.free_access, room),
            )
        if self.clusters >= len(view.clusters):
            room = 2 * len(view.clusters)
            view = view._replace(clusters=longer(view.clusters, room), free_clusters=longer(view.free_clusters, room))
        if 2 * int(state[_CELLS]) >= len(view.cells):
            cells = 256
            while cells < 4 * self.access_predicates:
                cells *= 2
            view = view._replace(cells=np.zeros(cells, np.int32))
            state[_CELLS] = _rebuild(view)
        # a full cluster moves to a block half as large again; the largest may be as large as all the rest
        need = max(int(view.clusters[: int(state[_CLUSTER_EVER]), CLASS].max(initial=0)) + 2, _class_for(largest + 1))
        end = (int(state[_UNITS]) + int(_CLASS_UNITS[need])) * UNIT
        if end > len(view.words):
            view = view._replace(words=longer(view.words, max(end, len(view.words) + len(view.words) // 2)))
        self.view = view
