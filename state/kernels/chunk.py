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
    Notes,
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
def _find_subscriptions(
    memory: Memory, operations: Operations, row: int, probe: Probe, find: int, found: Found, count: int
) -> int:
    kind = operations.kind[row]
    publication = kind == PUBLICATION
    if publication and not (find & FIND_SUBSCRIBERS and probe.ends > operations.arrived[row]):
        return count
    if not publication and not operations.flags[row] & SELF_JOIN:
        return count
    for topic in range(operations.topics[row], operations.topics[row + 1]):
        low = operations.paths[topic]
        high = operations.paths[topic + 1]
        node = topics.descend(memory, operations.components, low, high)
        own = memory.nodes[node].depth == high - low
        count = scan_above(memory, SUBSCRIBERS if publication else OVERLAPPING, node, probe, found, count)
        if own and count != FULL:
            count = scan_below(memory, SUBSCRIBERS_BELOW if publication else OVERLAPPING, node, probe, found, count)
        if count == FULL:
            return FULL
    return count


@bare
def _find_earlier(held: Memory, operations: Operations, row: int, probe: Probe, found: Found, count: int) -> int:
    if operations.kind[row] != PUBLICATION or operations.earlier[row] <= 0:
        return count
    for topic in range(operations.topics[row], operations.topics[row + 1]):
        low = operations.paths[topic]
        high = operations.paths[topic + 1]
        node = topics.descend(held, operations.components, low, high)
        if held.nodes[node].depth == high - low:
            count = scan(held, EARLIER, node, probe, found, count)
        if count == FULL:
            return FULL
    return count


@bare
def _find_past(held: Memory, operations: Operations, row: int, probe: Probe, found: Found, count: int) -> int:
    subtree = operations.flags[row] & SUBTREE
    for topic in range(operations.topics[row], operations.topics[row + 1]):
        low = operations.paths[topic]
        high = operations.paths[topic + 1]
        node = topics.descend(held, operations.components, low, high)
        own = held.nodes[node].depth == high - low
        if not subtree:
            count = scan_above(held, PAST, node, probe, found, count)
        elif own:
            count = scan(held, PAST, node, probe, found, count)
        if own and count != FULL:
            count = scan_below(held, PAST, node, probe, found, count)
        if count == FULL:
            return FULL
    return count


@bare
def past_rows(held: Memory, operations: Operations, start: int, found: Found) -> tuple[int, int]:
    """What questions find among publications that are not sealed. Of a question, `now`, `horizon` and `id` are log time, how far back it
    looks, and its position in the log. Returns the row to go on with, and the count of pairs; a pair may come twice."""
    count = 0
    for row in range(start, len(operations.kind)):
        probe = Probe(
            row,
            operations.other[row],
            operations.time[row],
            operations.flags[row] & VALID != 0,
            operations.now[row],
            operations.horizon[row],
            operations.now[row],
            operations.id[row],
            0,
            operations.subscriber_bytes,
            0,
            0,
        )
        more = _find_past(held, operations, row, probe, found, count)
        if more == FULL:
            return row, count
        count = more
    return len(operations.kind), count


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
def _distinct(memory: Memory, operations: Operations, row: int, found: Found, first: int, count: int) -> int:
    if count - first <= 1:
        return count
    several = operations.topics[row + 1] - operations.topics[row] > 1
    at = first
    while at < count and not several:
        several = memory.items[found.item[at]].many != 0
        at += 1
    return _once(memory, found, first, count) if several else count


@bare
def _pairs(
    memory: Memory, held: Memory, operations: Operations, row: int, probe: Probe, find: int, found: Found, count: int
) -> int:
    read = memory.scalars[RECORDS_READ]
    held_read = held.scalars[RECORDS_READ]
    more = _find_subscriptions(memory, operations, row, probe, find, found, count)
    if more != FULL:
        more = _distinct(memory, operations, row, found, count, more)
        first = more
        more = _find_earlier(held, operations, row, probe, found, first)
    if more == FULL:
        memory.scalars[RECORDS_READ] = read
        held.scalars[RECORDS_READ] = held_read
        return FULL
    more = _distinct(held, operations, row, found, first, more)
    for at in range(first, more):
        found.item[at] = -1 - found.item[at]
    return more


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
    memory: Memory, held: Memory, operations: Operations, start: int, find: int, found: Found, count: int, notes: Notes
) -> tuple[int, int]:
    """Applies rows from `start` on; `held` is the index of publications. Returns the row to go on with and the count of pairs so far.

    It stops early, before a row, when `found` is full: grow it and go on. Everything else has been reserved. A publication whose id is
    still kept finds nothing and is not stored, but for a replay. What subscriptions find of the past is asked later: see `past_rows`.
    """
    scalars = memory.scalars
    for row in range(start, len(operations.kind)):
        kind = operations.kind[row]
        log_time = max(scalars[LOG_TIME], operations.arrived[row], operations.now[row])
        published = kind == PUBLICATION
        home = held if published else memory
        slot = ids.find(
            home,
            PUBLICATION if published else SUBSCRIPTION,
            operations.id[row],
            operations.id_bytes,
            operations.id_low[row],
            operations.id_high[row],
        )
        known = home.item_map[slot]
        alive = known != NONE and not home.items[known].flags & DEAD
        if kind == WITHDRAWAL:
            if alive:
                change.die(memory, notes.journal, known)
            scalars[LOG_TIME] = log_time
            continue
        lasts = alive and published and lives(held, known, log_time)
        if lasts and not find & REPLAY:
            notes.duplicates[row] = True
            scalars[DUPLICATES] += 1
            scalars[LOG_TIME] = log_time
            continue

        probe = Probe(
            row,
            operations.time[row] if published else operations.other[row],
            operations.other[row] if published else operations.time[row],
            operations.flags[row] & VALID != 0,
            log_time,
            max(operations.horizon[row], horizon(scalars, log_time)),
            ended_before(scalars, log_time),
            memory.items[known].sequence if known != NONE and not published else NONE,
            min(operations.earlier[row], scalars[EARLIER_LIMIT]),
            operations.subscriber_bytes,
            operations.subscriber_low[row],
            operations.subscriber_high[row],
        )
        more = _pairs(memory, held, operations, row, probe, find, found, count)
        if more == FULL:
            return row, count
        count = more

        scalars[LOG_TIME] = log_time
        scalars[SEQUENCE] += 1
        notes.sequence[row] = scalars[SEQUENCE]
        notes.log_time[row] = log_time
        notes.horizon[row] = probe.horizon
        if kind == QUESTION:
            continue
        if lasts:
            change.die(held, notes.held_journal, known)
        elif alive and published:
            change.supersede(held, notes.held_journal, known)
        elif alive:
            change.die(memory, notes.journal, known)
        payload_high = operations.payload_high[row]
        if published:
            if not publication_kept(scalars, log_time, operations.arrived[row], operations.other[row]):
                continue
            if operations.time[row] < horizon(scalars, log_time):
                # Too old to be found again: only its id is kept, so that a repeat is known.
                payload_high = operations.payload_low[row]
        elif operations.time[row] < ended_before(scalars, log_time):
            continue
        held.scalars[SEQUENCE] = scalars[SEQUENCE]
        if published:
            _store(held, operations, row, slot, payload_high, notes.held_journal)
        else:
            _store(memory, operations, row, slot, payload_high, notes.journal)
    return len(operations.kind), count
