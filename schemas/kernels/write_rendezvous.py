"""Writes rendezvous records from columns, in Avro. The order of fields is that of our current schema; a test holds it against it.

Replaces a record, plain data and a writer for each: 26 us for a publication of ten attributes; this takes 0.35 us
(`pastforward bench codecs`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pastforward.columns.kernel import bare
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.write import (
    put_attributes,
    put_end,
    put_long,
    put_nullable_text,
    put_raw,
    put_text,
)


@bare
def put_envelope(out: Array, at: Number, envelope: Any, index: Number, row: Number) -> Result:
    """What stands before the record itself. `envelope`: header, origin, branch of the record, partition, offsets, arrivals, routing
    version, and the rendezvous partitions of the i-th row: `partitions[start[i]:start[i + 1]]`."""
    header, origin, branch, partition, offset, arrived_at, routing_version, start, partitions = envelope
    at = put_raw(out, at, header, 0, len(header))
    at = put_long(out, at, np.int64(origin))
    at = put_long(out, at, np.int64(partition))
    at = put_long(out, at, offset[row])
    at = put_long(out, at, arrived_at[row])
    at = put_long(out, at, np.int64(routing_version))
    if start[index + 1] > start[index]:
        at = put_long(out, at, start[index + 1] - start[index])
        for each in range(start[index], start[index + 1]):
            at = put_long(out, at, np.int64(partitions[each]))
    out[at] = 0
    out[at + 1] = 2 * branch
    return at + 2


@bare
def write_publications(
    out: Array, ends: Array, rows: Array, envelope: Any, texts: Any, numbers: Any, attributes: Any, where: Any
) -> None:
    """`texts`: places of id, publisher, topic, best attribute and body in the attributes' heap. `numbers`: published_at, expires_at, best,
    self_join. `where`: the bytes of normal forms, of the i-th row; a length of -1: no condition. Empty: no row has one."""
    id_at, id_length, party_at, party_length, topic_at, topic_length, best_at, best_length, body_at, body_length = texts
    published_at, expires_at, best, self_join = numbers
    where_heap, where_at, where_length = where
    heap = attributes[0]
    at = np.int64(0)
    for index in range(len(rows)):
        row = rows[index]
        at = put_envelope(out, at, envelope, index, row)
        at = put_text(out, at, heap, id_at[row], id_length[row])
        at = put_nullable_text(out, at, heap, party_at[row], party_length[row])
        at = put_text(out, at, heap, topic_at[row], topic_length[row])
        at = put_long(out, at, published_at[row])
        at = put_end(out, at, expires_at[row])
        at = put_nullable_text(out, at, heap, best_at[row], best_length[row] if best[row] else -1)
        if best[row]:
            out[at] = 2 * (best[row] - 1)
            at += 1
        out[at] = self_join[row]
        at = put_attributes(out, at + 1, row, attributes)
        if len(where_length) == 0 or where_length[index] < 0:
            out[at] = 0
            at += 1
        else:
            out[at] = 2
            at = put_raw(out, at + 1, where_heap, where_at[index], where_length[index])
        at = put_nullable_text(out, at, heap, body_at[row], body_length[row])
        out[at] = 0  # no entity: those are written one by one
        at += 1
        ends[index] = at


@bare
def _put_set_version(out: Array, at: Number, set_versions: Array, index: Number) -> Result:
    """Partition, offset and arrival; an offset of -1: none."""
    if set_versions[1, index] < 0:
        out[at] = 0
        return at + 1
    out[at] = 2
    at += 1
    for part in range(3):
        at = put_long(out, at, set_versions[part, index])
    return at


@bare
def write_subscriptions(
    out: Array, ends: Array, rows: Array, envelope: Any, heap: Array, texts: Any, numbers: Any, where: Any
) -> None:
    """`texts`: places of id, subscriber and topic in `heap`. `numbers`: starts_at, ends_at, scope, time, semantics, self_join, deliver,
    transitions, paused, and of the i-th row the version that its set began with. `where`: the bytes of the normal form of the i-th row."""
    id_at, id_length, party_at, party_length, topic_at, topic_length = texts
    starts_at, ends_at, scope, time, semantics, self_join, deliver, transitions, paused, set_versions = numbers
    _, _, _, partition, offset, arrived_at, _, _, _ = envelope
    where_heap, where_at, where_length = where
    at = np.int64(0)
    for index in range(len(rows)):
        row = rows[index]
        at = put_envelope(out, at, envelope, index, row)
        at = put_text(out, at, heap, id_at[row], id_length[row])
        at = put_text(out, at, heap, party_at[row], party_length[row])
        # the version is where and when the record arrived
        at = put_long(out, at, np.int64(partition))
        at = put_long(out, at, offset[row])
        at = put_long(out, at, arrived_at[row])
        at = put_text(out, at, heap, topic_at[row], topic_length[row])
        out[at] = 2 * scope[row]
        at = put_long(out, at + 1, starts_at[row])
        at = put_end(out, at, ends_at[row])
        out[at] = 2 * time[row]
        at = put_raw(out, at + 1, where_heap, where_at[index], where_length[index])
        out[at] = 2 * semantics[row]
        out[at + 1] = self_join[row]
        out[at + 2] = 2 * deliver[row]
        out[at + 3] = transitions[row]
        out[at + 4] = paused[row]
        at = _put_set_version(out, at + 5, set_versions, index)
        out[at] = 0  # only a matcher knows when a pause began
        at += 1
        ends[index] = at
