"""From a table or batch of operations to columns that kernels read. Everything is checked here, before anything is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pastforward.columns import dewey
from pastforward.columns.arrow import texts_of, whole
from pastforward.columns.texts import Texts
from pastforward.columns.times import FARTHEST
from pastforward.columns.vocabulary import SCOPES
from pastforward.state import keys
from pastforward.state.errors import OperationError
from pastforward.state.kernels import check, heap, records, topics
from pastforward.state.kernels.records import Array, Operations

LONGEST_ID: Final = 512 + 20 * dewey.MAX_DEPTH
"""Bytes of an id: whoever knows a thing by its key in Kafka (512 bytes) and its topic (19 digits and a dot a component) can say so."""

KIND: Final = {
    "subscription": records.SUBSCRIPTION,
    "publication": records.PUBLICATION,
    "withdrawal": records.WITHDRAWAL,
    "question": records.QUESTION,
}
"""The codes of a `Batch`."""
_KINDS: Final = pa.array(list(KIND))
_SCOPES: Final = pa.array(SCOPES)
_REQUIRED: Final = ("kind", "id", "time")
COLUMNS: Final = frozenset(
    {
        "kind", "id", "topic", "time", "starts_at", "ends_at", "expires_at",
        "arrived_at", "now", "horizon", "earlier", "scope", "valid", "subscriber_id", "self_join", "payload",
    }
)  # fmt: skip


class Spans(NamedTuple):
    """A text column as the store's kernels read it: the bytes of row r are `data[low[r]:high[r]]`. None is empty."""

    low: Array
    high: Array
    data: Array

    @classmethod
    def of(cls, texts: Texts) -> Spans:
        heap, at, length = texts.for_kernel()
        return cls(at, at + np.maximum(length, 0), heap)


@dataclass(slots=True)
class Batch:
    """Operations by columns, for who has them so already; a table is brought to this form. Arrays are contiguous and writable.

    `kind`: codes of `KIND`. Times that do not apply, or have no bound: EARLIEST for beginnings, LATEST for ends. An id may
    be a number. `row_topics`: None if each row has one topic.
    """

    kind: Array
    id: Texts | Array
    topic: Texts
    time: Array
    arrived_at: Array
    now: Array
    starts_at: Array
    ends_at: Array
    expires_at: Array
    subtree: Array
    valid: Array
    self_join: Array
    earlier: Array
    subscriber_id: Texts
    payload: Texts
    horizon: Array | None = None
    row_topics: Array | None = None


@dataclass(slots=True)
class Parsed:
    columns: Operations
    integer_ids: bool
    items: int
    nodes: int
    heap_units: int

    def __len__(self) -> int:
        return len(self.columns.kind)

    def identity(self, row: int) -> bytes:
        """The id of a row, as keys have it."""
        columns = self.columns
        if self.integer_ids:
            return keys.encode_id(int(columns.id[row]))
        return bytes(columns.id_bytes[columns.id_low[row] : columns.id_high[row]].tobytes())


Columns: TypeAlias = dict[str, Any]


def _columns(table: Any) -> Columns:
    """Contiguous arrays by name, decoded if they were dictionaries."""
    return {name: whole(column) for name, column in zip(table.schema.names, table.columns, strict=True)}


def plain(table: Any) -> Any:
    """The same table without dictionaries."""
    return pa.table(_columns(table))


def text_column(column: Any, rows: int) -> Texts:
    """Nulls and a missing column are empty texts."""
    if column is None or rows == 0 or pa.types.is_null(column.type):
        zeros = np.zeros(rows, np.int64)
        return Texts(np.empty(0, np.uint8), zeros, zeros.astype(np.int32))
    return texts_of(column.cast(pa.string()) if pa.types.is_integer(column.type) else column)


def _text(columns: Columns, name: str, rows: int) -> Texts:
    try:
        return text_column(columns.get(name), rows)
    except TypeError as error:
        raise OperationError(f"column {name!r} has type {error}; use string or binary") from None


def _times(columns: Columns, name: str, rows: int, missing: int) -> Array:
    """Nulls and a missing column become `missing`."""
    column = columns.get(name)
    if column is None or pa.types.is_null(column.type):
        return np.full(rows, missing, np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if not pa.types.is_integer(column.type):
        raise OperationError(f"column {name!r} has type {column.type}; use int64 microseconds since 1970, UTC")
    if column.type != pa.int64():
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(missing)
    times: Array = column.to_numpy(zero_copy_only=False).copy()
    return times


def _counts(columns: Columns, name: str, rows: int, unlimited: Array) -> Array:
    """How many; where the column says nothing, all of them for `unlimited` rows and none for others."""
    counts = np.where(unlimited, records.LATEST, 0)
    column = columns.get(name)
    if column is None or pa.types.is_null(column.type):
        return counts
    if not pa.types.is_integer(column.type):
        raise OperationError(f"column {name!r} has type {column.type}; use int64")
    known = column.is_valid().to_numpy(zero_copy_only=False)
    given: Array = column.fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(known, given, counts).astype(np.int64)


def _codes(columns: Columns, name: str, values: Any, rows: int, default: int | None) -> Array:
    column = columns.get(name)
    if column is None:
        return np.full(rows, default, np.uint8)
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise OperationError(f"column {name!r} has type {column.type}; use string")
    codes = pc.index_in(column, value_set=values if column.type == values.type else values.cast(column.type))
    if codes.null_count:
        unknown = codes.is_null().to_numpy(zero_copy_only=False)
        if default is not None:
            unknown &= ~column.is_null().to_numpy(zero_copy_only=False)
        if unknown.any():
            row = int(np.flatnonzero(unknown)[0])
            choices = ", ".join(values.to_pylist())
            raise OperationError(f"row {row}: {name} is {column[row].as_py()!r}; it must be one of {choices}")
        codes = codes.fill_null(default)
    numbers: Array = codes.to_numpy(zero_copy_only=False).astype(np.uint8)
    return numbers


def _flag(columns: Columns, name: str, rows: int) -> Array:
    column = columns.get(name)
    if column is None or pa.types.is_null(column.type):
        return np.zeros(rows, np.bool_)
    if not pa.types.is_boolean(column.type):
        raise OperationError(f"column {name!r} has type {column.type}; use bool")
    flags: Array = column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return flags


def _topics(columns: Columns, rows: int) -> tuple[Array | None, Texts]:
    """Topics of each row, and their texts."""
    column = columns.get("topic")
    if column is not None and (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        # Several topics for one id. Twice the same is once.
        lists = [sorted(set(topics_of)) if topics_of else [""] for topics_of in column.to_pylist()]
        starts = np.zeros(rows + 1, np.int64)
        np.cumsum([len(topics_of) for topics_of in lists], out=starts[1:])
        return starts, text_column(
            pa.array([topic for topics_of in lists for topic in topics_of], pa.string()), int(starts[-1])
        )
    try:
        return None, text_column(column, rows)
    except TypeError as error:
        raise OperationError(f"column 'topic' has type {error}; use string, or a list of strings") from None


def _paths(text: Spans, starts: Array) -> tuple[Array, Array]:
    """Where the components of each topic stand, and the components."""
    paths = np.zeros(len(text.low) + 1, np.int64)
    size = int((text.high - text.low).sum())
    components = np.zeros(size // 2 + len(text.low) + 1, np.uint64)
    wrong, topic = topics.parse_paths(
        text.data, text.low, text.high, dewey.MAX_DEPTH, np.uint64(dewey.MAX_COMPONENT), paths, components
    )
    if wrong:
        row = int(np.searchsorted(starts, topic, side="right")) - 1
        name = text.data[text.low[topic] : text.high[topic]].tobytes().decode(errors="replace")
        try:
            keys.parse_topic(name)
        except OperationError as error:
            raise OperationError(f"row {row}: {error}") from None
        raise AssertionError(f"two readers of topics disagree on {name!r}")
    return paths, components


def _ids(columns: Columns, rows: int) -> Texts | Array:
    column = columns["id"]
    if column.null_count:
        raise OperationError("column 'id' has nulls; every operation needs an id")
    if pa.types.is_integer(column.type):
        numbers: Array = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64, copy=True)
        return numbers
    try:
        return text_column(column, rows)
    except TypeError as error:
        raise OperationError(f"column 'id' has type {error}; use int64 or string") from None


def parse(given: Any) -> Parsed:
    """Reads a table, record batch or `Batch`, or raises OperationError and leaves everything as it is."""
    return _checked(given if isinstance(given, Batch) else batch_of(given))


def batch_of(table: Any) -> Batch:
    if not isinstance(table, (pa.Table, pa.RecordBatch)):
        raise OperationError(f"operations must be a pyarrow Table or RecordBatch, not {type(table).__name__}")
    names = table.schema.names
    for name in _REQUIRED:
        if name not in names:
            raise OperationError(f"column {name!r} is missing; there are {', '.join(names) or 'none'}")
    for name in names:
        if name not in COLUMNS:
            raise OperationError(f"unknown column {name!r}; known are {', '.join(sorted(COLUMNS))}")
    rows = table.num_rows
    columns = _columns(table)
    time = _times(columns, "time", rows, records.EARLIEST)
    arrived = _times(columns, "arrived_at", rows, records.EARLIEST)
    self_join = _flag(columns, "self_join", rows)
    row_topics, topic = _topics(columns, rows)
    return Batch(
        kind=_codes(columns, "kind", _KINDS, rows, None),
        id=_ids(columns, rows),
        topic=topic,
        time=time,
        arrived_at=np.where(arrived == records.EARLIEST, time, arrived),
        now=_times(columns, "now", rows, records.EARLIEST),
        starts_at=_times(columns, "starts_at", rows, records.EARLIEST),
        ends_at=_times(columns, "ends_at", rows, records.LATEST),
        expires_at=_times(columns, "expires_at", rows, records.LATEST),
        subtree=_codes(columns, "scope", _SCOPES, rows, 0) == 1,
        valid=_flag(columns, "valid", rows),
        self_join=self_join,
        earlier=_counts(columns, "earlier", rows, self_join),
        subscriber_id=_text(columns, "subscriber_id", rows),
        payload=_text(columns, "payload", rows),
        horizon=_times(columns, "horizon", rows, records.EARLIEST),
        row_topics=row_topics,
    )


_TIMES: Final = ("time", "arrived_at", "starts_at", "ends_at", "expires_at", "now", "horizon")
_NO_BYTES: Final = np.empty(0, np.uint8)


def _checked(batch: Batch) -> Parsed:
    rows = len(batch.kind)
    if isinstance(batch.id, Texts):
        integer_ids, id_text, identity = False, Spans.of(batch.id), np.empty(rows, np.int64)
    else:
        nowhere = np.full(rows, -1, np.int64)
        integer_ids, id_text, identity = True, Spans(nowhere, nowhere, _NO_BYTES), batch.id
    horizon = np.full(rows, records.EARLIEST, np.int64) if batch.horizon is None else batch.horizon
    subscriber, payload = Spans.of(batch.subscriber_id), Spans.of(batch.payload)
    flags = np.empty(rows, np.uint8)
    time, other, earlier = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    wrong, row, size = check.prepare(
        batch.kind, batch.time, batch.arrived_at, batch.starts_at, batch.ends_at, batch.expires_at, batch.now, horizon,
        batch.subtree, batch.valid, batch.self_join, batch.earlier, id_text.data, id_text.low, id_text.high,
        subscriber.low, subscriber.high, payload.low, payload.high, not integer_ids, LONGEST_ID, FARTHEST, identity, flags,
        time, other, earlier,
    )  # fmt: skip
    if wrong:
        raise _refusal(wrong, row, id_text)
    row_topics = np.arange(rows + 1, dtype=np.int64) if batch.row_topics is None else batch.row_topics
    paths, components = _paths(Spans.of(batch.topic), row_topics)
    return Parsed(
        Operations(
            kind=batch.kind,
            flags=flags,
            time=time,
            other=other,
            arrived=batch.arrived_at,
            now=batch.now,
            horizon=horizon,
            earlier=earlier,
            id=identity,
            id_low=id_text.low,
            id_high=id_text.high,
            id_bytes=id_text.data,
            subscriber_low=subscriber.low,
            subscriber_high=subscriber.high,
            subscriber_bytes=subscriber.data,
            payload_low=payload.low,
            payload_high=payload.high,
            payload_bytes=payload.data,
            topics=row_topics,
            paths=paths,
            components=components,
        ),
        integer_ids,
        items=int(row_topics[-1]),
        nodes=int(paths[-1]),
        # A block is at most an eighth larger than what it holds; and a header, rounded up.
        heap_units=size * 9 // (8 * heap.UNIT) + 3 * rows,
    )


def _refusal(wrong: int, row: int, ids: Spans) -> OperationError:
    if wrong == check.BAD_ID:
        length = ids.high[row] - ids.low[row]
        return OperationError(f"row {row}: the id has {length} bytes; 1 to {LONGEST_ID} are possible")
    if wrong == check.NO_TIME:
        return OperationError(f"row {row}: time is null; only a withdrawal may leave it out")
    if wrong == check.LONG_SUBSCRIBER:
        return OperationError(f"row {row}: subscriber_id has more than {LONGEST_ID} bytes")
    name = _TIMES[wrong - check.FAR]
    return OperationError(f"column {name!r} has a time beyond 2^62 microseconds; leave it null for no bound")
