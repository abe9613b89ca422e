"""What is known in memory of the publications in slices, so that taking one does not read the disk: of each topic the latest that has not
ended, which is the `previous` of the next one.

A node that is `known` says: each publication of its topic that is not in memory has ended by `beyond`, or was not published after `floor`
and comes after those in memory that were.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import mix_positive
from pastforward.columns.kernel import bare
from pastforward.state.kernels import ids, topics
from pastforward.state.kernels.records import (
    DEAD,
    EARLIER_LIMIT,
    HOT_WINDOW,
    IS_PUBLICATION,
    LOG_TIME,
    NONE,
    PUBLICATION,
    SUBSCRIPTION,
    Array,
    Int,
    Memory,
    Operations,
)
from pastforward.state.kernels.rules import ahead, horizon
from pastforward.state.kernels.topics import ROOT

_PATH = np.uint64(0x9E3779B97F4A7C15)


@bare
def id_hash(identity: Int, kind: int) -> int:
    return mix_positive(np.uint64(identity) * np.uint64(2) + np.uint64(kind))


@bare
def _path_hash(components: Array, low: int, high: int) -> int:
    value = mix_positive(_PATH)
    for at in range(low, high):
        value = mix_positive((np.uint64(value) ^ components[at]) * _PATH)
    return value


@bare
def node_hash(memory: Memory, node: int) -> int:
    """The same for a node."""
    stack = memory.stack
    depth = len(stack)
    while memory.nodes[node].parent != NONE:
        depth -= 1
        stack[depth] = memory.nodes[node].component
        node = memory.nodes[node].parent
    return _path_hash(stack, depth, len(stack))


@bare
def item_hashes(memory: Memory, items: Array, of_ids: Array) -> None:
    for at in range(len(items)):
        held = memory.items[items[at]]
        of_ids[at] = id_hash(held.id, held.flags & IS_PUBLICATION)


@bare
def unknown_ids(memory: Memory, operations: Operations, published: bool, rows: Array, hashes: Array) -> int:
    """Rows whose id has to be looked for on disk, unless a filter knows better. Returns how many."""
    count = 0
    kind = PUBLICATION if published else SUBSCRIPTION
    for row in range(len(operations.kind)):
        if (operations.kind[row] == PUBLICATION) != published:
            continue
        slot = ids.find(
            memory,
            kind,
            operations.id[row],
            operations.id_bytes,
            operations.id_low[row],
            operations.id_high[row],
        )
        item = memory.item_map[slot]
        if item != NONE and (published or not memory.items[item].many):
            continue
        rows[count] = row
        hashes[count] = id_hash(operations.id[row], kind)
        count += 1
    return count


@bare
def latest_time(scalars: Array, operations: Operations) -> int:
    """Log time at the end of these operations."""
    time = scalars[LOG_TIME]
    for row in range(len(operations.kind)):
        time = max(time, operations.arrived[row], operations.now[row])
    return int(time)


@bare
def _valid(memory: Memory, item: int, log_time: int, oldest: int) -> bool:
    held = memory.items[item]
    return bool(not held.flags & DEAD and held.other > log_time and held.arrived >= oldest and held.time >= oldest)


@bare
def _answers(memory: Memory, node: int, log_time: int, limit: int) -> bool:
    """Is what memory has of the topic enough, at any time up to this one?"""
    if not memory.nodes[node].known:
        return False
    if memory.nodes[node].beyond <= memory.scalars[LOG_TIME]:
        return True
    oldest = horizon(memory.scalars, log_time)
    floor = memory.nodes[node].floor
    count = 0
    item = memory.lists[2 * node + PUBLICATION].head
    while item != NONE and count < limit and memory.items[item].time > floor:
        count += _valid(memory, item, log_time, oldest)
        item = memory.items[item].next
    return count >= limit


@bare
def unknown_topics(
    memory: Memory, operations: Operations, log_time: int, wanted: Array, hashes: Array, limits: Array
) -> int:
    """Topics of publications whose earlier ones have to be looked for on disk, unless a filter knows better. Returns how many."""
    count = 0
    for row in range(len(operations.kind)):
        limit = min(operations.earlier[row], memory.scalars[EARLIER_LIMIT])
        if operations.kind[row] != PUBLICATION or limit <= 0:
            continue
        for topic in range(operations.topics[row], operations.topics[row + 1]):
            low = operations.paths[topic]
            high = operations.paths[topic + 1]
            node = topics.descend(memory, operations.components, low, high)
            if memory.nodes[node].depth == high - low and _answers(memory, node, log_time, limit):
                continue
            wanted[count] = topic
            limits[count] = limit
            hashes[count] = _path_hash(operations.components, low, high)
            count += 1
    return count


@bare
def know_topics(memory: Memory, operations: Operations, asked: Array, beyond: Array, floor: Array) -> None:
    """What a look at the slices, or at their filters, has told of topics of a chunk, if they have nodes."""
    for at in range(len(asked)):
        low = operations.paths[asked[at]]
        high = operations.paths[asked[at] + 1]
        node = topics.descend(memory, operations.components, low, high)
        if memory.nodes[node].depth == high - low:
            memory.nodes[node].known = 1
            memory.nodes[node].beyond = beyond[at]
            memory.nodes[node].floor = floor[at]


@bare
def know(memory: Memory, items: Array, beyond: Array, floor: Array) -> None:
    """The same for the topics of these items."""
    for at in range(len(items)):
        node = memory.items[items[at]].node
        memory.nodes[node].known = 1
        memory.nodes[node].beyond = beyond[at]
        memory.nodes[node].floor = floor[at]


@bare
def _ends(scalars: Array, time: int, other: int, arrived: int) -> int:
    """The log time from which on it is not found any more."""
    if scalars[HOT_WINDOW] < 0:
        return other
    return min(other, ahead(min(time, arrived), scalars[HOT_WINDOW]) + 1)


@bare
def heads(memory: Memory, items: Array, beyond: Array, floor: Array) -> int:
    """The latest publication of each known topic, with what is to be known without the others. Returns how many."""
    nodes = memory.nodes
    now = memory.scalars[LOG_TIME]
    oldest = horizon(memory.scalars, now)
    count = 0
    node = ROOT
    while True:
        if nodes[node].known:
            first = NONE
            until: Int = nodes[node].beyond
            below: Int = nodes[node].floor
            item = memory.lists[2 * node + PUBLICATION].head
            while item != NONE:
                held = memory.items[item]
                if _valid(memory, item, now, oldest):
                    if first == NONE:
                        if held.time <= below and until > now:
                            break
                        first = item
                    else:
                        # of one time, the first is the last in the log
                        below = max(below, min(held.time, memory.items[first].time - 1))
                        until = max(until, _ends(memory.scalars, held.time, held.other, held.arrived))
                item = held.next
            if first != NONE:
                items[count] = first
                beyond[count] = until
                floor[count] = below
                count += 1
        if nodes[node].child != NONE:
            node = nodes[node].child
            continue
        while node != ROOT and nodes[node].sibling == NONE:
            node = nodes[node].parent
        if node == ROOT:
            return count
        node = nodes[node].sibling


@bare
def node_hashes(memory: Memory, nodes: Array, hashes: Array) -> None:
    for at in range(len(nodes)):
        hashes[at] = node_hash(memory, nodes[at])
