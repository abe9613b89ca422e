"""Looking up: which items does an operation find, over the topics around its own.

Every list is read from its latest item on, and left at the first one that is too early to matter.
"""

from __future__ import annotations

from typing import NamedTuple

from pastforward.columns.kernel import bare
from pastforward.state.kernels.heap import same_bytes, subscriber_span
from pastforward.state.kernels.lists import search
from pastforward.state.kernels.records import (
    DEAD,
    LATEST,
    NONE,
    PUBLICATION,
    RECORDS_READ,
    SUBSCRIPTION,
    SUBTREE,
    VALID,
    Array,
    Found,
    Memory,
)

# What is looked for.
PAST = 0  # publications, for a subscription
SUBSCRIBERS = 1  # subscriptions at or above, for a publication
SUBSCRIBERS_BELOW = 2  # subscriptions below, for a publication: those that want overlap
OVERLAPPING = 3  # subscriptions, for a self-joining subscription
EARLIER = 4  # publications, for a self-joining publication

FULL = -1
"""Returned when the pairs do not fit; the row is looked up again from its start in larger arrays."""


class Probe(NamedTuple):
    """The operation that looks. Times as in its row."""

    row: int
    starts: int  # of a subscription; published_at of a publication
    ends: int  # of a subscription; expires_at of a publication
    valid: bool
    log_time: int
    horizon: int
    ended_before: int
    own_sequence: (
        int  # of the item that has this operation's id now: no partner for itself; of a search, its position in the log
    )
    earlier: int  # publications on its topic that a publication finds, at most
    subscriber: Array
    subscriber_low: int
    subscriber_high: int


@bare
def _same_subscriber(memory: Memory, probe: Probe, item: int) -> bool:
    length = probe.subscriber_high - probe.subscriber_low
    if length == 0:
        return True
    low, high = subscriber_span(memory, memory.items[item].blob)
    return high - low == length and same_bytes(memory.heap, low, probe.subscriber, probe.subscriber_low, length)


@bare
def _bounds(mode: int, probe: Probe) -> tuple[int, int]:
    """The list's times that matter: `[low, high)`."""
    if mode == PAST:
        return (probe.horizon if probe.valid else max(probe.starts, probe.horizon)), probe.ends
    if mode == EARLIER:
        return probe.horizon, LATEST
    after = probe.starts + 1 if probe.starts < LATEST else LATEST
    return max(after, probe.ended_before), LATEST


@bare
def _meets(memory: Memory, mode: int, probe: Probe, item: int) -> bool:
    held = memory.items[item]
    if held.flags & DEAD:
        return False
    if mode in (PAST, EARLIER):
        if held.other <= probe.log_time or held.arrived < probe.horizon:
            return False
        if mode == PAST and (held.family != NONE or held.sequence >= probe.own_sequence):
            return False  # found in its slice, or came later
        if mode == PAST and probe.valid:
            return bool(max(held.time, probe.starts) < min(held.other, probe.ends))
        return True
    if mode == OVERLAPPING:
        return bool(
            held.sequence != probe.own_sequence
            and max(held.other, probe.starts) < min(held.time, probe.ends)
            and _same_subscriber(memory, probe, item)
        )
    if mode == SUBSCRIBERS_BELOW and held.flags & SUBTREE:
        return False
    if held.flags & VALID:
        return bool(max(held.other, probe.starts) < min(held.time, probe.ends))
    return bool(held.other <= probe.starts)


@bare
def scan(memory: Memory, mode: int, node: int, probe: Probe, found: Found, count: int) -> int:
    """Adds what the node's list has to offer. Returns the new count, or FULL."""
    kind = PUBLICATION if mode in (PAST, EARLIER) else SUBSCRIPTION
    place = 2 * node + kind
    item = memory.lists[place].head
    if item == NONE:
        return count
    low, high = _bounds(mode, probe)
    if high < LATEST and memory.items[item].time >= high:
        # A window that lies back: pass over what is later.
        item = search(memory, place, high - 1, LATEST)
    limit = probe.earlier if mode == EARLIER else LATEST
    first = count
    read = 0
    while item != NONE:
        read += 1
        if memory.items[item].time < low or count - first >= limit:
            break
        if _meets(memory, mode, probe, item):
            if count == len(found.row):
                memory.scalars[RECORDS_READ] += read
                return FULL
            found.row[count] = probe.row
            found.item[count] = item
            count += 1
        item = memory.items[item].next
    memory.scalars[RECORDS_READ] += read
    return count


@bare
def scan_above(memory: Memory, mode: int, node: int, probe: Probe, found: Found, count: int) -> int:
    """The node and its ancestors."""
    while node != NONE and count != FULL:
        count = scan(memory, mode, node, probe, found, count)
        node = memory.nodes[node].parent
    return count


@bare
def scan_below(memory: Memory, mode: int, top: int, probe: Probe, found: Found, count: int) -> int:
    """The descendants of the node, without itself."""
    nodes = memory.nodes
    kind = PUBLICATION if mode in (PAST, EARLIER) else SUBSCRIPTION
    node = nodes[top].child
    if node == NONE or memory.lists[2 * top + kind].below == 0:
        return count
    while True:
        if memory.lists[2 * node + kind].below > 0:
            count = scan(memory, mode, node, probe, found, count)
            if count == FULL:
                return FULL
            if nodes[node].child != NONE:
                node = nodes[node].child
                continue
        while nodes[node].sibling == NONE:
            node = nodes[node].parent
            if node == top:
                return count
        node = nodes[node].sibling
