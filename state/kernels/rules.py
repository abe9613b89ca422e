"""Who meets whom: the rules of time, in one place. Topics are the walker's business (see `walk`).

| a subscription lives | while log time <= `ends_at` + lateness |
| a publication is kept | with a hot window: while log time <= `arrived_at` + hot window; without: until it expires |
| the past of a subscription | kept, `expires_at` > log time, held (the earlier of published and arrived) at or after its horizon, in time |
| the live match of a publication | `expires_at` > its arrival; the subscription lives; in time |
| in time | `starts_at` <= `published_at` < `ends_at`; for `valid`: the two intervals intersect |
"""

from __future__ import annotations

from pastforward.columns.kernel import bare
from pastforward.state.kernels.records import (
    COMPLETE_FROM,
    EARLIEST,
    ENDED_BEFORE,
    HOT_WINDOW,
    IS_PUBLICATION,
    LATENESS,
    LATEST,
    Array,
    Memory,
)


@bare
def back(time: int, span: int) -> int:
    """`time - span`, stopping at the earliest time there is."""
    return time - span if time >= EARLIEST + span else EARLIEST


@bare
def ahead(time: int, span: int) -> int:
    return time + span if time <= LATEST - span else LATEST


@bare
def ended_before(scalars: Array, log_time: int) -> int:
    """Subscriptions whose `ends_at` is less than this are gone."""
    return int(max(back(log_time, scalars[LATENESS]), scalars[ENDED_BEFORE]))


@bare
def horizon(scalars: Array, log_time: int) -> int:
    """Publications held before this are not found any more."""
    if scalars[HOT_WINDOW] < 0:
        return int(scalars[COMPLETE_FROM])
    return int(max(back(log_time, scalars[HOT_WINDOW]), scalars[COMPLETE_FROM]))


@bare
def publication_kept(scalars: Array, log_time: int, arrived: int, expires: int) -> bool:
    if arrived < horizon(scalars, log_time):
        return False
    return bool(scalars[HOT_WINDOW] >= 0 or expires > log_time)


@bare
def lives(memory: Memory, item: int, log_time: int) -> bool:
    """False for what time alone has removed."""
    held = memory.items[item]
    if held.flags & IS_PUBLICATION:
        return publication_kept(memory.scalars, log_time, held.arrived, held.other)
    return bool(held.time >= ended_before(memory.scalars, log_time))


@bare
def kept_until(scalars: Array, flags: int, time: int, other: int, arrived: int) -> int:
    """The last log time at which the row may still be needed."""
    if flags & IS_PUBLICATION:
        if scalars[HOT_WINDOW] >= 0:
            return ahead(arrived, scalars[HOT_WINDOW])
        return other - 1 if other < LATEST else LATEST
    return ahead(time, scalars[LATENESS])
