"""Whole chunks at once: what a router and a matcher call. None of these functions raises on bad input; `errors` tells. An exception that
nobody has foreseen is the error of the record that causes it (`contained`); only faults of the machine (`errors.is_fault`) are raised.

A chunk is what one poll of one partition gave: keys, values, offsets, and the times Kafka gave the records (microseconds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from pastforward.columns.texts import as_kernel
from pastforward.columns.vocabulary import DELIVERIES, PUBLISHED, SCOPES, SEMANTICS, TIME_BASES, VALID
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas import codec, condition_fields, plain, program
from pastforward.schemas.chunk_reader import ChunkReader
from pastforward.schemas.codec import Registry
from pastforward.schemas.columns import (
    Longs,
    PublicationColumns,
    RendezvousColumns,
    SubscriptionColumns,
)
from pastforward.schemas.errors import SchemaError, refusal
from pastforward.schemas.forms import Forms
from pastforward.schemas.kernels.columns import NULL_LONG
from pastforward.schemas.kernels.finish import fill_input, fill_rendezvous, finish_rows
from pastforward.schemas.limits import MADE_UP, MAX_CANONICAL_BYTES, MAX_RECORD_BYTES
from pastforward.schemas.records import (
    CanonicalPublication,
    CanonicalSubscription,
    EntityWithdrawal,
    Publication,
    Rendezvous,
    Subscription,
    Where,
    Withdrawal,
)

_ID_SIZE = 32  # room for ~<partition>-<offset>
_STRUCTURED = 2  # a `where` in the structured form
_UNSAID = len(TIME_BASES)  # the time basis that a subscription leaves out

Keys = Sequence[bytes | None]
Values = Sequence[bytes | None]

_ORIGINS = ("subscriptions", "publications", "none")
_PREFERS = ("", "highest", "lowest")


class _Read(Protocol):
    @property
    def errors(self) -> list[tuple[int, SchemaError]]: ...


C = TypeVar("C", bound=_Read)
_EMPTY = b""  # no record of any kind: it is refused by every reader


def contained(read: Callable[[slice, Values, bool], C], values: Values) -> C:
    """What `read` returns for a chunk. It is given the rows, their values, and whether to use kernels.

    If it raises, each record is read alone, to find those that cause it; they are errors, and the chunk is read again without them.
    """
    everything = slice(0, len(values))
    try:
        return read(everything, values, True)
    except Exception as error:
        refusal(error)  # raises a fault again
    blamed: dict[int, SchemaError] = {}
    for row in range(len(values)):
        try:
            read(slice(row, row + 1), values[row : row + 1], True)
        except Exception as error:
            blamed[row] = refusal(error)
    found = read(everything, [_EMPTY if row in blamed else value for row, value in enumerate(values)], False)
    found.errors[:] = [(row, blamed.get(row, error)) for row, error in found.errors]
    return found


def _input(
    read: Callable[[Keys, Values, int, Longs, Longs, Registry | None, bool], C],
    keys: Keys,
    values: Values,
    partition: int,
    offset: Longs,
    arrived_at: Longs,
    registry: Registry | None,
) -> C:
    """`contained` for a chunk of an input topic."""
    offset, arrived_at = as_kernel(offset, np.int64), as_kernel(arrived_at, np.int64)
    return contained(
        lambda rows, values, kernels: read(
            keys[rows], values, partition, offset[rows], arrived_at[rows], registry, kernels
        ),
        values,
    )


def decode_publications(
    keys: Keys, values: Values, partition: int, offset: Longs, arrived_at: Longs, registry: Registry | None = None
) -> PublicationColumns:
    return _input(_publications, keys, values, partition, offset, arrived_at, registry)


def _publications(
    keys: Keys,
    values: Values,
    partition: int,
    offset: Longs,
    arrived_at: Longs,
    registry: Registry | None,
    kernels: bool,
) -> PublicationColumns:
    reader, where = _input_reader("publication", keys, values, partition, offset, registry, kernels)
    withdrawn = np.zeros(len(reader), dtype=np.bool_)

    def put(row: int, record: Publication | EntityWithdrawal) -> None:
        if isinstance(record, EntityWithdrawal):
            withdrawn[row] = True
            reader.put_text(program.ID, row, record.publication_id)
            return
        name = f"{MADE_UP}{partition}-{offset[row]}" if record.publication_id is None else record.publication_id
        reader.put_text(program.ID, row, name)
        reader.put_text(program.PARTY, row, record.publisher_id)
        reader.put_text(program.TOPIC, row, record.topic)
        _put_long(reader, program.BEGIN, row, record.published_at)
        _put_long(reader, program.END, row, record.expires_at)
        reader.put_attributes(row, record.attributes)
        where[row] = record.where
        if record.best is not None:
            reader.put_text(program.BEST, row, record.best.attribute)
            reader.smalls[program.BEST, row] = _PREFERS.index(record.best.prefer)
        reader.smalls[program.SELF_JOIN, row] = record.self_join
        reader.put_text(program.BODY, row, record.body)
        reader.smalls[program.IS_ENTITY, row] = record.entity

    reader.read_rest(lambda row: codec.decode_published(keys[row], values[row], registry), put)
    reader.seal()
    _fill_input(reader, arrived_at)
    return PublicationColumns(
        partition,
        offset,
        arrived_at,
        reader.ok(),
        reader.texts(program.ID),
        reader.texts(program.PARTY),
        reader.texts(program.TOPIC),
        reader.longs[program.BEGIN],
        reader.longs[program.END],
        reader.attributes(),
        where,
        reader.smalls[program.BEST],
        reader.texts(program.BEST),
        reader.smalls[program.SELF_JOIN].view(np.bool_),
        reader.texts(program.BODY),
        reader.smalls[program.IS_ENTITY].view(np.bool_),
        withdrawn,
        sorted(reader.errors, key=row_of),
    )


def decode_subscriptions(
    keys: Keys, values: Values, partition: int, offset: Longs, arrived_at: Longs, registry: Registry | None = None
) -> SubscriptionColumns:
    return _input(_subscriptions, keys, values, partition, offset, arrived_at, registry)


def _subscriptions(
    keys: Keys,
    values: Values,
    partition: int,
    offset: Longs,
    arrived_at: Longs,
    registry: Registry | None,
    kernels: bool,
) -> SubscriptionColumns:
    reader, where = _input_reader("subscription", keys, values, partition, offset, registry, kernels)
    withdrawn = np.zeros(len(reader), dtype=np.bool_)

    def put(row: int, record: Subscription | Withdrawal) -> None:
        reader.put_text(program.ID, row, record.subscription_id)
        if isinstance(record, Withdrawal):
            withdrawn[row] = True
            return
        reader.put_text(program.PARTY, row, record.subscriber_id)
        reader.put_text(program.TOPIC, row, record.topic)
        _put_long(reader, program.BEGIN, row, record.starts_at)
        _put_long(reader, program.END, row, record.ends_at)
        where[row] = record.where
        reader.smalls[program.SCOPE, row] = SCOPES.index(record.scope)
        reader.smalls[program.TIME, row] = _UNSAID if record.time is None else TIME_BASES.index(record.time)
        reader.smalls[program.SEMANTICS, row] = SEMANTICS.index(record.semantics)
        reader.smalls[program.SELF_JOIN, row] = record.self_join
        reader.smalls[program.DELIVER, row] = DELIVERIES.index(record.deliver)
        reader.smalls[program.TRANSITIONS, row] = record.transitions
        reader.smalls[program.PAUSED, row] = record.paused

    reader.read_rest(lambda row: codec.decode_subscription(keys[row], values[row], registry), put)
    begin, end = reader.longs[program.BEGIN], reader.longs[program.END]
    _check_windows(reader, where)
    reader.seal()
    _fill_input(reader, arrived_at)
    time, transitions = reader.smalls[program.TIME], reader.smalls[program.TRANSITIONS].view(np.bool_)
    time = np.where(time == _UNSAID, np.where(transitions, VALID, PUBLISHED), time).astype(np.uint8)
    return SubscriptionColumns(
        partition,
        offset,
        arrived_at,
        reader.ok(),
        withdrawn,
        reader.texts(program.ID),
        reader.texts(program.PARTY),
        reader.texts(program.TOPIC),
        reader.smalls[program.SCOPE],
        begin,
        end,
        time,
        where,
        reader.smalls[program.SEMANTICS],
        reader.smalls[program.SELF_JOIN].view(np.bool_),
        reader.smalls[program.DELIVER],
        transitions,
        reader.smalls[program.PAUSED].view(np.bool_),
        sorted(reader.errors, key=row_of),
    )


def _check_windows(reader: ChunkReader, where: list[Where]) -> None:
    begin, end = reader.longs[program.BEGIN], reader.longs[program.END]
    for row in np.flatnonzero((begin != NULL_LONG) & (end != NULL_LONG) & (end < begin)).tolist():
        try:
            plain.check_window(int(begin[row]), int(end[row]), "starts_at", "ends_at")
        except SchemaError as error:
            reader.fail(row, error)
            where[row] = None


def decode_rendezvous_chunk(values: Sequence[bytes], registry: Registry | None = None) -> RendezvousColumns:
    return contained(lambda _, values, kernels: _rendezvous(values, registry, kernels), values)


def _rendezvous(values: Sequence[Any], registry: Registry | None, kernels: bool) -> RendezvousColumns:
    reader = ChunkReader("rendezvous", values, MAX_CANONICAL_BYTES, (), 0, kernels)
    reader.read(values, registry, json=False)
    known: dict[int, NormalForm | None] = {}

    def put(row: int, record: Rendezvous) -> None:
        reader.smalls[program.ORIGIN, row] = _ORIGINS.index(record.origin)
        reader.longs[program.ORIGIN_PARTITION, row] = record.partition
        reader.longs[program.ORIGIN_OFFSET, row] = record.offset
        reader.longs[program.ARRIVED_AT, row] = record.arrived_at
        reader.longs[program.ROUTING_VERSION, row] = record.routing_version
        reader.put_list(row, record.partitions)
        known[row] = _put_canonical(reader, row, record.record)

    reader.read_rest(lambda row: codec.decode_rendezvous(values[row], registry), put)
    reader.seal()
    start, partitions = reader.lists()
    kind = reader.smalls[program.BRANCH]
    begin, end = reader.longs[program.BEGIN], reader.longs[program.END]
    version = reader.longs[program.VERSION : program.VERSION + 3]
    fill_rendezvous(reader.result, kind, program.SUBSCRIBE, program.WITHDRAW, reader.longs, begin, end, version)
    return RendezvousColumns(
        reader.ok(),
        kind,
        reader.smalls[program.ORIGIN],
        reader.longs[program.ORIGIN_PARTITION].astype(np.int32),
        reader.longs[program.ORIGIN_OFFSET],
        reader.longs[program.ARRIVED_AT],
        reader.longs[program.ROUTING_VERSION].astype(np.int32),
        start,
        partitions,
        reader.texts(program.ID),
        reader.texts(program.PARTY),
        reader.texts(program.TOPIC),
        begin,
        end,
        reader.smalls[program.SELF_JOIN].view(np.bool_),
        _forms(reader, known),
        version[0].astype(np.int32),
        version[1],
        version[2],
        reader.smalls[program.SCOPE],
        reader.smalls[program.TIME],
        reader.smalls[program.SEMANTICS],
        reader.smalls[program.DELIVER],
        reader.smalls[program.BEST],
        reader.texts(program.BEST),
        reader.attributes(),
        reader.texts(program.BODY),
        reader.smalls[program.TRANSITIONS].view(np.bool_),
        reader.smalls[program.PAUSED].view(np.bool_),
        reader.smalls[program.REPLACED].view(np.bool_),
        reader.texts(program.SET_VERSION),
        reader.texts(program.ENTITY),
        sorted(reader.errors, key=row_of),
    )


def _forms(reader: ChunkReader, known: dict[int, NormalForm | None]) -> Forms:
    at, length = reader.text_at[program.WHERE], reader.text_length[program.WHERE]
    subscribes = reader.smalls[program.BRANCH] == program.SUBSCRIBE
    return Forms(reader.data, at, length, reader.result, reader.definitions, subscribes, known)


def _put_canonical(
    reader: ChunkReader, row: int, record: CanonicalSubscription | Withdrawal | CanonicalPublication | None
) -> NormalForm | None:
    if record is None:
        reader.smalls[program.BRANCH, row] = program.TICK
        return None
    if isinstance(record, CanonicalPublication):
        reader.smalls[program.BRANCH, row] = program.PUBLISH
        reader.put_text(program.ID, row, record.publication_id)
        reader.put_text(program.PARTY, row, record.publisher_id)
        _put_long(reader, program.BEGIN, row, record.published_at)
        _put_long(reader, program.END, row, record.expires_at)
        reader.put_attributes(row, record.attributes)
        if record.best is not None:
            reader.put_text(program.BEST, row, record.best.attribute)
            reader.smalls[program.BEST, row] = _PREFERS.index(record.best.prefer)
        reader.put_text(program.BODY, row, record.body)
        if record.entity is not None:
            reader.put_text(program.ENTITY, row, b"")
    else:
        reader.smalls[program.BRANCH, row] = program.WITHDRAW
        reader.put_text(program.ID, row, record.subscription_id)
        if record.version is not None:
            version = (record.version.partition, record.version.offset, record.version.arrived_at)
            reader.longs[program.VERSION : program.VERSION + 3, row] = version
        if isinstance(record, Withdrawal):
            reader.smalls[program.REPLACED, row] = record.replaced
            return None
        reader.smalls[program.BRANCH, row] = program.SUBSCRIBE
        reader.put_text(program.PARTY, row, record.subscriber_id)
        _put_long(reader, program.BEGIN, row, record.starts_at)
        _put_long(reader, program.END, row, record.ends_at)
        reader.smalls[program.SCOPE, row] = SCOPES.index(record.scope)
        reader.smalls[program.TIME, row] = TIME_BASES.index(record.time)
        reader.smalls[program.SEMANTICS, row] = SEMANTICS.index(record.semantics)
        reader.smalls[program.DELIVER, row] = DELIVERIES.index(record.deliver)
        reader.smalls[program.TRANSITIONS, row] = record.transitions
        reader.smalls[program.PAUSED, row] = record.paused
        if record.set_version is not None:
            reader.put_text(program.SET_VERSION, row, b"")
    reader.put_text(program.TOPIC, row, record.topic)
    reader.smalls[program.SELF_JOIN, row] = record.self_join
    return record.where


def _input_reader(
    name: str, keys: Keys, values: Values, partition: int, offset: Longs, registry: Registry | None, kernels: bool
) -> tuple[ChunkReader, list[Where]]:
    """What the kernels read, and the conditions of these rows."""
    sizes = np.array([-1 if key is None else len(key) for key in keys], dtype=np.int64)
    made_up = name == "publication"
    spare = _ID_SIZE * keys.count(None) if made_up else 0
    reader = ChunkReader(name, values, MAX_RECORD_BYTES, [key for key in keys if key is not None], spare, kernels)
    if name == "subscription":
        reader.smalls[program.TIME] = _UNSAID
    reader.read(values, registry, json=True)
    spare_at = len(reader.data) - spare if made_up else -1
    conditions = finish_rows(
        reader.data, reader.behind_at, sizes, spare_at, partition, offset, not made_up,
        (
            reader.text_at[program.ID], reader.text_length[program.ID], reader.text_length[program.PARTY],
            reader.longs[program.BEGIN], reader.longs[program.END], reader.smalls[program.WHERE], reader.result, reader.fill,
        ),
    )  # fmt: skip
    return reader, _input_where(reader) if conditions else [None] * len(reader)


def _input_where(reader: ChunkReader) -> list[Where]:
    where: list[Where] = [None] * len(reader)
    for row in np.flatnonzero((reader.smalls[program.WHERE] > 0) & reader.ok()).tolist():
        raw = reader.part(program.WHERE, row)
        if reader.smalls[program.WHERE, row] != _STRUCTURED:
            where[row] = raw.decode()
            continue
        try:
            where[row] = condition_fields.where(reader.part_reader(row, "where")(raw, 0), "where")
        except SchemaError:
            reader.leave(row)
    return where


def row_of(error: tuple[int, SchemaError]) -> int:
    return error[0]


def _put_long(reader: ChunkReader, column: int, row: int, value: int | None) -> None:
    if value is not None:
        reader.longs[column, row] = value


def _fill_input(reader: ChunkReader, arrived_at: Longs) -> None:
    topics, longs = reader.text_length[program.TOPIC], reader.longs
    fill_input(reader.result, topics, longs[program.BEGIN], longs[program.END], arrived_at)
