"""The steps of dynamic clustering on columns: who is looked at too often, moving slots to better tables, what cannot be helped yet.

The benefit margin of an access predicate is how many of its slots a publication looks at, on average: its selectivity times its slots.
An access predicate whose margin is excessive stands in a ring, until its slots have been offered to all tables; if the margin is still
excessive then, it waits among the unrepaired for a table that does not exist yet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.papers.fabret.clusters import (
    BASE,
    CLOSING,
    CLUSTERS,
    COUNT,
    EPOCH,
    EPOCHS,
    FIRST,
    FLAGS,
    FOLLOWING,
    HELD,
    MAX_SCHEMA,
    NEXT,
    OWNER,
    ROOT,
    STATUS,
    TABLE,
    UNIT,
    ClusterView,
    access_selectivity,
    choose,
    count_equalities,
    predicates_at,
    put,
    same_access,
    take_out,
)
from pastforward.papers.fabret.predicate_index import PredicateView

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# flags of an access predicate
_QUEUED: Final = 1
_UNREPAIRED: Final = 2

# state of the work
_HEAD: Final = 0
_LENGTH: Final = 1
_UNREPAIRED_COUNT: Final = 2
_CURSOR_CLUSTER: Final = 3
_CURSOR_PLACE: Final = 4
_SWEEP: Final = 5
MOVED: Final = 6
REDISTRIBUTED: Final = 7
_STATE: Final = 8

# A slot moves when it would be looked at this much less often: less is within the error of the statistics, and it would move back.
_BETTER: Final = 0.75
# An access predicate that was looked at in vain is tried again when its margin has grown by this, or a table has come.
_GROWN: Final = 1.25
# After a table has come, this share of an excessive margin is enough to be offered to it.
_WORTH_OFFERING: Final = 0.1


class Work(NamedTuple):
    ring: I32
    unrepaired: I32
    state: I64


def empty_work(room: int) -> Work:
    state = np.zeros(_STATE, np.int64)
    state[_CURSOR_CLUSTER] = -1
    return Work(np.zeros(room, np.int32), np.zeros(room, np.int32), state)


def larger_work(work: Work, room: int) -> Work:
    """The ring is laid out from its head."""
    ring = np.zeros(room, np.int32)
    ring[: len(work.ring)] = np.roll(work.ring, -int(work.state[_HEAD]))
    work.state[_HEAD] = 0
    unrepaired = np.zeros(room, np.int32)
    unrepaired[: len(work.unrepaired)] = work.unrepaired
    return Work(ring, unrepaired, work.state)


def waiting(work: Work) -> int:
    return int(work.state[_LENGTH])


def unrepaired(work: Work) -> int:
    return int(work.state[_UNREPAIRED_COUNT])


@inner
def _push(view: ClusterView, work: Work, access: Int) -> None:
    """When the ring is full, the access predicate is met again by the next sweep."""
    if view.access[access, FLAGS] & _QUEUED or work.state[_LENGTH] == len(work.ring):
        return
    view.access[access, FLAGS] |= _QUEUED
    work.ring[(work.state[_HEAD] + work.state[_LENGTH]) % len(work.ring)] = np.int32(access)
    work.state[_LENGTH] += 1


@inner
def _notice(view: ClusterView, predicates: PredicateView, work: Work, access: Int, limit: Float) -> None:
    """Queues an access predicate with an excessive margin, unless it was looked at and nothing has changed since."""
    table = view.access[access, TABLE]
    if table < 0 or table == ROOT or view.access[access, FLAGS] & _QUEUED:
        return
    if view.tables[table, STATUS] == CLOSING:
        _push(view, work, access)
        return
    margin = access_selectivity(view, predicates, access) * view.access[access, HELD]
    if view.access[access, EPOCH] != np.int32(view.state[EPOCHS]):
        if margin > limit * _WORTH_OFFERING:
            _push(view, work, access)
    elif margin > limit and margin > view.settled[access] * _GROWN:
        _push(view, work, access)


@kernel
def notice(view: ClusterView, predicates: PredicateView, work: Work, slots: I32, limit: Float) -> None:
    """After slots have come."""
    for i in range(len(slots)):
        _notice(view, predicates, work, np.int64(view.clusters[view.slot_cluster[slots[i]], OWNER]), limit)


@kernel
def sweep(view: ClusterView, predicates: PredicateView, work: Work, ever: Int, steps: Int, limit: Float) -> None:
    """A few access predicates more, round and round: selectivities change without a slot coming or going."""
    for _ in range(min(steps, ever)):
        access = work.state[_SWEEP]
        if access >= ever:
            access = np.int64(0)
        work.state[_SWEEP] = access + 1
        _notice(view, predicates, work, access, limit)


@kernel
def queue_table(view: ClusterView, work: Work, table: Int) -> None:
    access = np.int64(view.tables[table, FIRST])
    while access >= 0:
        _push(view, work, access)
        access = np.int64(view.access[access, NEXT])


@kernel
def redistribute(
    view: ClusterView,
    predicates: PredicateView,
    work: Work,
    budget: Int,
    limit: Float,
    numbers: I32,
    by_attribute: I32,
) -> tuple[Bool, Int]:
    """Offers the slots of queued access predicates to all open tables. Stops when the budget of slots is spent, or room is needed.
    Returns whether it is room, and the budget that is left."""
    state = work.state
    key = np.empty(MAX_SCHEMA, np.int32)
    while state[_LENGTH] > 0 and budget > 0:
        access = np.int64(work.ring[state[_HEAD]])
        if view.access[access, FLAGS] & _QUEUED:
            forced = view.tables[view.access[access, TABLE], STATUS] == CLOSING
            now = access_selectivity(view, predicates, access)
            cluster = np.int64(view.access[access, CLUSTERS])
            place = np.int64(view.clusters[cluster, COUNT]) - 1
            # where the last call stopped, if it still is a cluster of this one
            if state[_CURSOR_CLUSTER] >= 0 and view.clusters[state[_CURSOR_CLUSTER], OWNER] == access:
                cluster = state[_CURSOR_CLUSTER]
                place = min(state[_CURSOR_PLACE], np.int64(view.clusters[cluster, COUNT]) - 1)
            state[_CURSOR_CLUSTER] = -1
            while cluster >= 0:
                following = np.int64(view.clusters[cluster, FOLLOWING])
                while place >= 0:
                    if budget <= 0:
                        state[_CURSOR_CLUSTER] = cluster
                        state[_CURSOR_PLACE] = place
                        return False, 0
                    budget -= 1
                    count, _width = predicates_at(view, cluster, place, numbers)
                    equalities = count_equalities(predicates, numbers, count)
                    table, width, chance = choose(view, predicates, numbers, equalities, True, by_attribute, key)
                    if (forced or chance < now * _BETTER) and not same_access(view, access, table, key, width):
                        slot = np.int64(view.words[np.int64(view.clusters[cluster, BASE]) * UNIT + place])
                        to = put(view, predicates, slot, table, numbers, count, key, width)
                        if to < 0:
                            state[_CURSOR_CLUSTER] = cluster
                            state[_CURSOR_PLACE] = place
                            return True, budget + 1
                        take_out(view, predicates, cluster, place)
                        state[MOVED] += 1
                        _notice(view, predicates, work, to, limit)
                    place -= 1
                cluster = following
                if cluster >= 0:
                    place = np.int64(view.clusters[cluster, COUNT]) - 1
            # gone if all its slots have moved
            if view.access[access, TABLE] >= 0:
                margin = now * view.access[access, HELD]
                view.settled[access] = np.float32(margin)
                view.access[access, EPOCH] = np.int32(view.state[EPOCHS])
                view.access[access, FLAGS] &= ~_QUEUED
                if (
                    margin > limit
                    and not view.access[access, FLAGS] & _UNREPAIRED
                    and state[_UNREPAIRED_COUNT] < len(work.unrepaired)
                ):
                    view.access[access, FLAGS] |= _UNREPAIRED
                    work.unrepaired[state[_UNREPAIRED_COUNT]] = np.int32(access)
                    state[_UNREPAIRED_COUNT] += 1
            state[REDISTRIBUTED] += 1
        state[_HEAD] = (state[_HEAD] + 1) % len(work.ring)
        state[_LENGTH] -= 1
    return False, budget


@kernel
def still_unrepaired(view: ClusterView, predicates: PredicateView, work: Work, limit: Float) -> tuple[Int, Float]:
    """Drops those whose margin is excessive no more. Returns the slots and the margin of the rest."""
    kept = 0
    slots = np.int64(0)
    total = 0.0
    for i in range(work.state[_UNREPAIRED_COUNT]):
        access = np.int64(work.unrepaired[i])
        if not view.access[access, FLAGS] & _UNREPAIRED:
            continue
        view.access[access, FLAGS] &= ~_UNREPAIRED
        margin = access_selectivity(view, predicates, access) * view.access[access, HELD]
        if margin <= limit:
            continue
        work.unrepaired[kept] = np.int32(access)
        kept += 1
        slots += view.access[access, HELD]
        total += margin
    for i in range(kept):
        view.access[work.unrepaired[i], FLAGS] |= _UNREPAIRED
    work.state[_UNREPAIRED_COUNT] = kept
    return slots, total


@kernel
def sample_unrepaired(view: ClusterView, work: Work, step: Int, out: I32) -> Int:
    """Every `step`-th slot behind them."""
    n = 0
    skip = 0
    for i in range(work.state[_UNREPAIRED_COUNT]):
        cluster = np.int64(view.access[work.unrepaired[i], CLUSTERS])
        while cluster >= 0:
            base = np.int64(view.clusters[cluster, BASE]) * UNIT
            for j in range(view.clusters[cluster, COUNT]):
                if skip == 0:
                    if n == len(out):
                        return n
                    out[n] = np.int32(view.words[base + j])
                    n += 1
                    skip = step
                skip -= 1
            cluster = np.int64(view.clusters[cluster, FOLLOWING])
    return n


@kernel
def queue_unrepaired(view: ClusterView, work: Work) -> None:
    """To be offered to a table that has come."""
    for i in range(work.state[_UNREPAIRED_COUNT]):
        access = np.int64(work.unrepaired[i])
        if view.access[access, FLAGS] & _UNREPAIRED:
            view.access[access, FLAGS] &= ~_UNREPAIRED
            _push(view, work, access)
    work.state[_UNREPAIRED_COUNT] = 0
