"""Which partition reports a pair that matches, for live and past alike, and the notifications of those that are reported here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pastforward.streams.matcher.deciding import Deciding
from pastforward.streams.matcher.held import Publications
from pastforward.streams.matcher.notifications import notifications_of_pairs
from pastforward.streams.matcher.subscribers import ALONE, OLD, PAUSED, SELF_JOIN
from pastforward.streams.routing import reports

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def reported(
    deciding: Deciding,
    publications: Publications,
    matched: Rows,
    handles: Rows,
    fits: Flags,
    covered: Callable[[Rows], Flags],
) -> Flags:
    """Of pairs that `fits` says match: which are reported here, and not covered by an earlier subscription of the same subscriber.

    `matched`, `handles`: publication and subscription of each pair. `covered` is asked about the pairs that join themselves.
    """
    engine, subscribers = deciding.engine, deciding.engine.subscribers
    flags = subscribers.flags[handles]
    columns, at = publications.columns, publications.rows[matched]
    # One of the two has come under this version of the routing; else the earlier version reports the pair.
    reported_here: Flags = (
        fits & ((flags & PAUSED) == 0) & (((flags & OLD) == 0) | (columns.routing_version[at] >= engine.version))
    )
    # If one of the two is here alone, here is where they meet.
    start = columns.partitions_start
    several = ((flags & ALONE) == 0) & (start[at + 1] - start[at] > 1)
    for pair in np.flatnonzero(reported_here & several).tolist():
        partitions = publications.partitions(int(matched[pair]))
        reported_here[pair] = reports(engine.number, subscribers.partitions[int(handles[pair])], partitions)
    joining = np.flatnonzero(reported_here & ((flags & SELF_JOIN) != 0))
    if len(joining):
        reported_here[joining] = ~covered(joining)
    return reported_here


def notify(
    deciding: Deciding, publications: Publications, matched: Rows, handles: Rows, rows: Rows, phase: int
) -> None:
    """Each at the log time of its row, that of the later of the two."""
    if not len(matched):
        return
    columns, at, subscribers = publications.columns, publications.rows[matched], deciding.engine.subscribers
    made = notifications_of_pairs(subscribers, handles, columns, at, deciding.log_time[rows], phase)
    for i in columns.self_join[at].nonzero()[0].tolist():
        earlier = publications.before[int(matched[i])].earlier
        if earlier:
            for notified in made:
                for place in notified.places(i):
                    notified.columns.earlier_ids[place] = earlier
    deciding.effects.pairs += [each.columns for each in made]
