"""What stays in memory beyond the budget, so that taking a publication does not read the disk: of each topic the latest publication that
has not expired, which is the `previous` of the next one.

A node that is `known` says: each publication of the topic that is not in memory comes after the first one in memory, or has expired; and
all of those have expired by `beyond`.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import mix_positive
from pastforward.columns.kernel import bare
from pastforward.state.kernels import change, ids, topics
from pastforward.state.kernels.records import (
    COPY,
    DEAD,
    EARLIER_LIMIT,
    EARLIEST,
    IS_PUBLICATION,
    LOG_TIME,
    NONE,
    PUBLICATION,
    SUBSCRIPTION,
    USED,
    Array,
    Int,
    Memory,
    Operations,
)
from pastforward.state.kernels.rules import horizon, lives
from pastforward.state.kernels.topics import ROOT

_PATH = np.uint64(0x9E3779B97F4A7C15)


@bare
def _id_hash(identity: Int, kind: int) -> int:
    return mix_positive(np.uint64(identity) * np.uint64(2) + np.uint64(kind))


@bare
def _path_hash(components: Array, low: int, high: int) -> int:
    value = mix_positive(_PATH)
    for at in range(low, high):
        value = mix_positive((np.uint64(value) ^ components[at]) * _PATH)
    return value


@bare
def _node_hash(memory: Memory, node: int) -> int:
    """The same for a node."""
    stack = memory.stack
    depth = len(stack)
    while memory.nodes[node].parent != NONE:
        depth -= 1
        stack[depth] = memory.nodes[node].component
        node = memory.nodes[node].parent
    return _path_hash(stack, depth, len(stack))


@bare
def item_hashes(memory: Memory, items: Array, of_ids: Array, of_paths: Array) -> None:
    for at in range(len(items)):
        held = memory.items[items[at]]
        of_ids[at] = _id_hash(held.id, held.flags & IS_PUBLICATION)
        of_paths[at] = _node_hash(memory, held.node)


@bare
def unknown_ids(memory: Memory, operations: Operations, rows: Array, hashes: Array) -> int:
    """Rows whose id has to be looked for on disk, unless a filter knows better. Returns how many."""
    count = 0
    for row in range(len(operations.kind)):
        kind = PUBLICATION if operations.kind[row] == PUBLICATION else SUBSCRIPTION
        slot = ids.find(
            memory,
            kind,
            operations.id[row],
            operations.id_bytes,
            operations.id_low[row],
            operations.id_high[row],
        )
        item = memory.item_map[slot]
        if item != NONE and not memory.items[item].many:
            continue
        rows[count] = row
        hashes[count] = _id_hash(operations.id[row], kind)
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
def _answers(memory: Memory, node: int, log_time: int, limit: int) -> bool:
    """Is what memory has of the topic enough, at any time up to this one?"""
    if not memory.nodes[node].known:
        return False
    if memory.nodes[node].beyond <= memory.scalars[LOG_TIME]:
        return True
    item = memory.lists[2 * node + PUBLICATION].head
    if limit > 1 or item == NONE:
        return False
    held = memory.items[item]
    oldest = horizon(memory.scalars, log_time)
    return bool(not held.flags & DEAD and held.other > log_time and held.arrived >= oldest and held.time >= oldest)


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
def know(memory: Memory, nodes: Array, beyond: Array) -> None:
    """What a look at the disk, or at its filters, has told."""
    for at in range(len(nodes)):
        memory.nodes[nodes[at]].known = 1
        memory.nodes[nodes[at]].beyond = beyond[at]


@bare
def know_topics(memory: Memory, operations: Operations, asked: Array, beyond: Array) -> None:
    """The same for topics of a chunk, if they have nodes."""
    for at in range(len(asked)):
        low = operations.paths[asked[at]]
        high = operations.paths[asked[at] + 1]
        node = topics.descend(memory, operations.components, low, high)
        if memory.nodes[node].depth == high - low:
            memory.nodes[node].known = 1
            memory.nodes[node].beyond = beyond[at]


@bare
def staged_topics(memory: Memory, journal: Array, entries: int, nodes: Array, hashes: Array) -> int:
    """Nodes that are not known, of publications that are staged. Returns how many."""
    count = 0
    for entry in range(entries):
        item = journal[entry]
        if item < 0 or not memory.items[item].flags & IS_PUBLICATION or memory.items[item].many:
            continue
        node = memory.items[item].node
        if not memory.nodes[node].known:
            nodes[count] = node
            hashes[count] = _node_hash(memory, node)
            count += 1
    return count


@bare
def _drop(memory: Memory, item: int) -> None:
    """The item is on disk, and leaves memory."""
    held = memory.items[item]
    if held.flags & IS_PUBLICATION:
        if held.many:
            at = item
            while at != NONE:
                memory.nodes[memory.items[at].node].known = 0
                at = memory.items[at].copy
        elif lives(memory, item, memory.scalars[LOG_TIME]):
            beyond = memory.nodes[held.node].beyond
            memory.nodes[held.node].beyond = max(beyond, held.other)
    change.remove(memory, item)


@bare
def _is_head(memory: Memory, item: int) -> bool:
    held = memory.items[item]
    now = memory.scalars[LOG_TIME]
    return bool(not held.many and held.other > now and lives(memory, item, now))


@bare
def _first_item(memory: Memory, item: int) -> int:
    """The one that a further topic of it belongs to."""
    if not memory.items[item].flags & COPY:
        return item
    return memory.item_map[ids.slot_of(memory, item)]  # type: ignore[no-any-return]


@bare
def evict(memory: Memory, items: Array) -> None:
    """Of these items, and what stands at their topics, the first of each known topic stays. Between stages, all of it on disk."""
    for at in range(len(items)):
        item = items[at]
        held = memory.items[item]
        if not held.flags & USED:
            continue
        if not held.flags & IS_PUBLICATION or held.many or not memory.nodes[held.node].known:
            _drop(memory, _first_item(memory, item))
            continue
        node = held.node
        item = memory.lists[2 * node + PUBLICATION].head
        kept = False
        while item != NONE:
            following = memory.items[item].next
            if not kept and _is_head(memory, item):
                kept = True
            else:
                _drop(memory, _first_item(memory, item))
            item = following


@bare
def heads(memory: Memory, complete: bool, items: Array, beyond: Array) -> int:
    """The items that stay, with what their nodes are to know. `complete`: all that there is stands in memory. Returns how many."""
    nodes = memory.nodes
    count = 0
    node = ROOT
    while True:
        if complete or nodes[node].known:
            first = NONE
            several = False
            until: Int = EARLIEST if complete else nodes[node].beyond
            item = memory.lists[2 * node + PUBLICATION].head
            while item != NONE:
                held = memory.items[item]
                several |= held.many != 0
                if first == NONE and _is_head(memory, item):
                    first = item
                elif lives(memory, item, memory.scalars[LOG_TIME]):
                    until = max(until, held.other)
                item = held.next
            if first != NONE and not several:
                items[count] = first
                beyond[count] = until
                count += 1
        if nodes[node].child != NONE:
            node = nodes[node].child
            continue
        while node != ROOT and nodes[node].sibling == NONE:
            node = nodes[node].parent
        if node == ROOT:
            return count
        node = nodes[node].sibling
