"""Writes whole chunks: the bytes of all records of a chunk lie in one buffer, from which the values are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.texts import Texts, as_kernel
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas.codec import Registry, avro_header
from pastforward.schemas.columns import (
    FROM_PUBLICATIONS,
    FROM_SUBSCRIPTIONS,
    PUBLICATION,
    SUBSCRIPTION,
    Longs,
    PublicationColumns,
    SubscriptionColumns,
)
from pastforward.schemas.condition_bytes import condition_bytes
from pastforward.schemas.contents import attribute_arrays, header_bytes
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.kernels import write, write_rendezvous
from pastforward.schemas.limits import MAX_CANONICAL_BYTES

Bytes = npt.NDArray[np.uint8]

_LONGEST: Final = 10  # bytes of an integer
_ENVELOPE: Final = (
    20 * _LONGEST
)  # all integers, lengths, counts and branches of a record but those of items and attributes
_ENTRY: Final = 2 * _LONGEST + 1  # name's length, branch, and a number or length


def encode_rendezvous_publications(
    columns: PublicationColumns,
    rows: Longs,
    routing_version: int,
    partitions_start: Longs,
    partitions: npt.NDArray[np.int32],
    where: Mapping[int, NormalForm],
    registry: Registry | None = None,
) -> tuple[list[bytes], list[tuple[int, SchemaError]]]:
    """Rendezvous records of some rows. The i-th of `rows` goes to `partitions[partitions_start[i]:partitions_start[i + 1]]`.

    `where` has the normal forms of the rows that have a condition. Rows must be `ok`. One that would be too large for its topic is
    an error, and its bytes are empty.
    """
    header = header_bytes(avro_header("rendezvous", registry))
    rows = as_kernel(rows, np.int64)
    entries = attribute_arrays(columns.attributes)
    forms = Texts.of([condition_bytes(where[row]) if row in where else None for row in rows.tolist()] if where else ())
    texts = (columns.publication_id, columns.publisher_id, columns.topic, columns.best_attribute, columns.body)
    size = _size(rows, header, partitions, forms, texts)
    size += write.attribute_bytes_of(rows, entries, _ENTRY)
    out, ends = np.empty(size, dtype=np.uint8), np.empty(len(rows), dtype=np.int64)
    write_rendezvous.write_publications(
        out,
        ends,
        rows,
        (header, FROM_PUBLICATIONS, PUBLICATION, *_way(columns, routing_version, partitions_start, partitions)),
        _places(texts),
        (columns.published_at, columns.expires_at, columns.best, columns.self_join),
        entries,
        forms.for_kernel(),
    )
    return _checked(_cut(out, ends), ends)


def encode_rendezvous_subscriptions(
    columns: SubscriptionColumns,
    rows: Longs,
    routing_version: int,
    partitions_start: Longs,
    partitions: npt.NDArray[np.int32],
    where: Sequence[bytes],
    set_versions: Longs,
    registry: Registry | None = None,
) -> tuple[list[bytes], list[tuple[int, SchemaError]]]:
    """The same for subscriptions. Their version is where and when they arrived; `where` has the bytes of each row's normal form.
    `set_versions`: in three columns (partition, offset, arrival), of each row the version that its set of entities began with; an offset of
    -1: its own."""
    header = header_bytes(avro_header("rendezvous", registry))
    rows = as_kernel(rows, np.int64)
    forms = Texts.of(where)
    texts = (columns.subscription_id, columns.subscriber_id, columns.topic)
    size = _size(rows, header, partitions, forms, texts)
    out, ends = np.empty(size, dtype=np.uint8), np.empty(len(rows), dtype=np.int64)
    write_rendezvous.write_subscriptions(
        out,
        ends,
        rows,
        (header, FROM_SUBSCRIPTIONS, SUBSCRIPTION, *_way(columns, routing_version, partitions_start, partitions)),
        columns.topic.heap,
        _places(texts),
        (
            columns.starts_at,
            columns.ends_at,
            columns.scope,
            columns.time,
            columns.semantics,
            columns.self_join,
            columns.deliver,
            columns.transitions,
            columns.paused,
            as_kernel(set_versions, np.int64),
        ),
        forms.for_kernel(),
    )
    return _checked(_cut(out, ends), ends)


def _places(texts: Sequence[Texts]) -> tuple[npt.NDArray[np.generic], ...]:
    """In one tuple: Numba unpacks tuples within a tuple more slowly."""
    return tuple(array for text in texts for array in (text.at, text.length))


def _way(
    columns: PublicationColumns | SubscriptionColumns,
    routing_version: int,
    partitions_start: Longs,
    partitions: npt.NDArray[np.int32],
) -> tuple[Any, ...]:
    """Where the records come from, and where they go."""
    goes = as_kernel(partitions_start, np.int64), as_kernel(partitions, np.int32)
    return columns.partition, columns.offset, columns.arrived_at, routing_version, *goes


def _size(rows: Longs, header: Bytes, partitions: npt.NDArray[np.int32], forms: Texts, texts: Sequence[Texts]) -> int:
    """The most that rendezvous records need, but for attributes."""
    size = len(rows) * (_ENVELOPE + len(header)) + _LONGEST * len(partitions) + len(forms.heap)
    for each in texts:
        size += write.text_bytes_of(each.length, rows)
    return size


def _checked(values: list[bytes], ends: Longs) -> tuple[list[bytes], list[tuple[int, SchemaError]]]:
    errors: list[tuple[int, SchemaError]] = []
    if len(ends) == 0 or ends[-1] <= MAX_CANONICAL_BYTES:
        return values, errors  # not even all of them together are too large
    for index in np.flatnonzero(np.diff(ends, prepend=0) > MAX_CANONICAL_BYTES).tolist():
        reason = f"the record would have {len(values[index])} bytes within: at most {MAX_CANONICAL_BYTES} are taken"
        errors.append((index, SchemaError("too_large", reason)))
        values[index] = b""
    return values, errors


def _cut(out: Bytes, ends: Longs) -> list[bytes]:
    if len(ends) == 0:
        return []
    stops: list[int] = ends.tolist()
    raw = out[: stops[-1]].tobytes()
    return [raw[begin:stop] for begin, stop in zip((0, *stops[:-1]), stops, strict=True)]  # faster than pairwise
