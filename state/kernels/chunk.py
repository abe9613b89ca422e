"""A chunk of operations in log order: each row looks up what came before it, then is stored."""

from __future__ import annotations

from pastforward.columns.kernel import bare
from pastforward.state.kernels import change, heap, ids, topics
from pastforward.state.kernels.records import (
    COPY,
    DEAD,
    DUPLICATES,
    EARLIER_LIMIT,
    IS_PUBLICATION,
    LOG_TIME,
    NONE,
    PUBLICATION,
    QUESTION,
    RECORDS_READ,
    SELF_JOIN,
    SEQUENCE,
    STAGED,
    SUBSCRIPTION,
    SUBTREE,
    USED,
    VALID,
    WITHDRAWAL,
    Array,
    Found,
    Memory,
    Operations,
)
from pastforward.state.kernels.rules import ended_before, horizon, lives, publication_kept
from pastforward.state.kernels.walk import (
    EARLIER,
    FULL,
    OVERLAPPING,
    PAST,
    SUBSCRIBERS,
    SUBSCRIBERS_BELOW,
    Probe,
    scan,
    scan_above,
    scan_below,
)

FIND_PAST = 1
FIND_SUBSCRIBERS = 2
REPLAY = 4  # a publication whose id is kept replaces it: which ones are duplicates was decided before, perhaps under another window


@bare
def _look_up(
    memory: Memory, operations: Operations, row: int, probe: Probe, find: int, found: Found, count: int
) -> int:
    kind = operations.kind[row]
    flags = operations.flags[row]
    for topic in range(operations.topics[row], operations.topics[row + 1]):
        low = operations.paths[topic]
        high = operations.paths[topic + 1]
        node = topics.descend(memory, operations.components, low, high)
        own = memory.nodes[node].depth == high - low
        if kind == PUBLICATION:
            if find & FIND_SUBSCRIBERS and probe.ends > operations.arrived[row]:
                count = scan_above(memory, SUBSCRIBERS, node, probe, found, count)
                if own and count != FULL:
                    count = scan_below(memory, SUBSCRIBERS_BELOW, node, probe, found, count)
            if operations.earlier[row] > 0 and own and count != FULL:
                count = scan(memory, EARLIER, node, probe, found, count)
        else:
            if find & FIND_PAST:
                if not flags & SUBTREE:
                    count = scan_above(memory, PAST, node, probe, found, count)
                elif own:
                    count = scan(memory, PAST, node, probe, found, count)
                if own and count != FULL:
                    count = scan_below(memory, PAST, node, probe, found, count)
            if flags & SELF_JOIN and count != FULL:
                count = scan_above(memory, OVERLAPPING, node, probe, found, count)
                if own and count != FULL:
                    count = scan_below(memory, OVERLAPPING, node, probe, found, count)
        if count == FULL:
            return FULL
    return count


@bare
def _once(memory: Memory, found: Found, first: int, count: int) -> int:
    """A pair that met at several topics stays once: the first time it was seen."""
    size = 16
    while size < 2 * (count - first):
        size *= 2
    seen = found.seen
    for slot in range(size):
        seen[slot] = NONE
    kept = first
    for at in range(first, count):
        sequence = memory.items[found.item[at]].sequence
        slot = (sequence * 0x9E3779B1) & (size - 1)
        while seen[slot] != NONE and seen[slot] != sequence:
            slot = (slot + 1) & (size - 1)
        if seen[slot] == NONE:
            seen[slot] = sequence
            found.item[kept] = found.item[at]
            kept += 1
    return kept


@bare
def _has_copies(memory: Memory, found: Found, first: int, count: int) -> bool:
    at = first
    while at < count and not memory.items[found.item[at]].many:
        at += 1
    return at < count


@bare
def _store(memory: Memory, operations: Operations, row: int, slot: int, payload_high: int, journal: Array) -> None:
    kind = operations.kind[row]
    scalars = memory.scalars
    blob = heap.store_blob(
        memory,
        operations.id_bytes,
        operations.id_low[row],
        operations.id_high[row],
        operations.subscriber_bytes,
        operations.subscriber_low[row],
        operations.subscriber_high[row],
        operations.payload_bytes,
        operations.payload_low[row],
        payload_high,
    )
    first = NONE
    last = NONE
    for topic in range(operations.topics[row], operations.topics[row + 1]):
        low = operations.paths[topic]
        high = operations.paths[topic + 1]
        node = topics.descend(memory, operations.components, low, high)
        node = topics.intern(memory, node, operations.components, low, high)
        item = change.new_item(memory)
        held = memory.items[item]
        held.time = operations.time[row]
        held.other = operations.other[row]
        held.arrived = operations.arrived[row]
        held.id = operations.id[row]
        held.sequence = scalars[SEQUENCE]
        held.blob = blob
        held.copy = NONE
        held.family = NONE
        held.many = operations.topics[row + 1] - operations.topics[row] > 1
        held.flags = operations.flags[row] | USED | STAGED
        if kind == PUBLICATION:
            held.flags |= IS_PUBLICATION
        if first == NONE:
            first = item
        else:
            held.flags |= COPY
            memory.items[last].copy = item
        last = item
        change.attach(memory, item, node)
    ids.put(memory, slot, first)
    change.come(memory, journal, first)


@bare
def apply_rows(
    memory: Memory,
    operations: Operations,
    start: int,
    find: int,
    found: Found,
    count: int,
    journal: Array,
    duplicates: Array,
) -> tuple[int, int]:
    """Applies rows from `start` on. Returns the row to go on with and the count of pairs so far.

    It stops early, before a row, when `found` is full: grow it and go on. Everything else has been reserved.
    `duplicates[row]` becomes true for a publication whose id is still kept: it finds nothing and is not stored, but for a replay.
    """
    scalars = memory.scalars
    for row in range(start, len(operations.kind)):
        kind = operations.kind[row]
        log_time = max(scalars[LOG_TIME], operations.arrived[row], operations.now[row])
        map_kind = PUBLICATION if kind == PUBLICATION else SUBSCRIPTION
        slot = ids.find(
            memory,
            map_kind,
            operations.id[row],
            operations.id_bytes,
            operations.id_low[row],
            operations.id_high[row],
        )
        known = memory.item_map[slot]
        alive = known != NONE and not memory.items[known].flags & DEAD
        if kind == WITHDRAWAL:
            if alive:
                change.die(memory, journal, known)
            scalars[LOG_TIME] = log_time
            continue
        if kind == PUBLICATION and not find & REPLAY and alive and lives(memory, known, log_time):
            duplicates[row] = True
            scalars[DUPLICATES] += 1
            scalars[LOG_TIME] = log_time
            continue

        probe = Probe(
            row,
            operations.time[row] if kind == PUBLICATION else operations.other[row],
            operations.other[row] if kind == PUBLICATION else operations.time[row],
            operations.flags[row] & VALID != 0,
            log_time,
            max(operations.horizon[row], horizon(scalars, log_time)),
            ended_before(scalars, log_time),
            memory.items[known].sequence if known != NONE else NONE,
            min(operations.earlier[row], scalars[EARLIER_LIMIT]),
            operations.subscriber_bytes,
            operations.subscriber_low[row],
            operations.subscriber_high[row],
        )
        read = scalars[RECORDS_READ]
        more = _look_up(memory, operations, row, probe, find, found, count)
        if more == FULL:
            scalars[RECORDS_READ] = read
            return row, count
        if more - count > 1 and (
            operations.topics[row + 1] - operations.topics[row] > 1 or _has_copies(memory, found, count, more)
        ):
            more = _once(memory, found, count, more)
        count = more

        scalars[LOG_TIME] = log_time
        scalars[SEQUENCE] += 1
        if kind == QUESTION:
            continue
        if alive:
            change.die(memory, journal, known)
        payload_high = operations.payload_high[row]
        if kind == PUBLICATION:
            if not publication_kept(scalars, log_time, operations.arrived[row], operations.other[row]):
                continue
            if operations.time[row] < horizon(scalars, log_time):
                # Too old to be found again: only its id is kept, so that a repeat is known.
                payload_high = operations.payload_low[row]
        elif operations.time[row] < ended_before(scalars, log_time):
            continue
        _store(memory, operations, row, slot, payload_high, journal)
    return len(operations.kind), count
