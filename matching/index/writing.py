"""The ways in: subscriptions one by one, in columns from a codec, and from a table of predicates. Without locks: `Index` has those."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.vocabulary import Semantics
from pastforward.matching.index import records as r
from pastforward.matching.index.batch import NEVER_EXPIRES
from pastforward.matching.index.flat import Flat, Places, sort_parts
from pastforward.matching.index.members import Members
from pastforward.matching.index.parts import PartsBuilder
from pastforward.matching.index.predicate_table import read_predicates
from pastforward.matching.index.publications import moment
from pastforward.matching.index.records import HAS_TOPIC, Parts
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.strings import joined
from pastforward.matching.index.subscription import Identity, NewSubscription, plain

I64 = npt.NDArray[np.int64]


def builder_of(registry: Registry) -> PartsBuilder:
    return PartsBuilder(registry.strings, registry.number, registry.numbers)


def latest_of(subscriptions: Sequence[NewSubscription]) -> list[tuple[Identity, NewSubscription, int]]:
    """By id, of an id that comes twice the last, each with the flags of its records. Raises if something about one is wrong."""
    latest = {plain(new.subscription_id): new for new in subscriptions}
    return [(identity, new, new.flags(identity)) for identity, new in latest.items()]


def add_subscriptions(members: Members, latest: list[tuple[Identity, NewSubscription, int]]) -> None:
    """What can be wrong with a subscription is found before its earlier version goes."""
    registry = members.registry
    builder = builder_of(registry)
    identities: list[Identity] = []
    never: dict[Identity, Semantics] = {}
    first = [0]
    topics: list[bytes] = []
    for identity, new, flags in latest:
        if not new.disjuncts:
            never[identity] = new.semantics
            continue
        starts_at, ends_at = new.starts_at, new.ends_at
        starts_at = None if starts_at is None else moment(starts_at)
        ends_at = None if ends_at is None else moment(ends_at)
        places = new.topic.encode().split(b",")
        for place in places:
            for disjunct in new.disjuncts:
                builder.add(disjunct, 0, flags, starts_at, ends_at)
            if flags & HAS_TOPIC:
                topics += [place] * len(new.disjuncts)
        identities.append(identity)
        first.append(first[-1] + len(places) * len(new.disjuncts))
    members.forget([identity for identity, _, _ in latest])
    members.never.update(never)
    if identities:
        parts = builder.parts()
        if topics:
            parts.topic[parts.record_flags & HAS_TOPIC != 0] = registry.topics.hold(*joined(topics))
        members.take(parts, members.ids.taken(identities), np.array(first, np.int64), builder.python)


def add_flat(members: Members, identities: I64, conditions: Flat, places: Places) -> None:
    """Subscriptions in columns, with different ids that are integers."""
    registry = members.registry
    members.drop_subscriptions(registry.find(identities))
    if members.never:
        members.forget_never(identities.tolist())
    numbers = np.array([registry.number(name) for name in conditions.names], np.int32)
    texts = registry.strings.intern(*conditions.texts.for_kernel())
    parts = len(conditions.name)
    attribute, kind, flags = np.empty(parts, np.int32), np.empty(parts, np.uint8), np.empty(parts, np.uint8)
    low, high = np.empty(parts, np.int64), np.empty(parts, np.int64)
    given = conditions.name, conditions.kind, conditions.flags, conditions.low, conditions.high
    items = np.empty(0, np.int64)
    sort_parts(conditions.start, given, numbers, texts, items, (attribute, kind, flags, low, high))
    # a record for each disjunct; each holds its topic
    owner = np.repeat(np.arange(len(identities)), np.diff(conditions.first))
    record_flags = places.flags[owner]
    heap, at, length = places.topics.for_kernel()
    below = np.flatnonzero(length[owner] > 0)
    topic = np.zeros(len(owner), np.int32)
    if len(below):
        topic[below] = registry.topics.hold(heap, at[owner[below]], length[owner[below]])
    record_flags = record_flags | np.where(topic > 0, r.HAS_TOPIC, 0).astype(np.uint8) | np.uint8(r.HAS_START)
    ends_at = places.ends_at[owner]
    endless = ends_at == NEVER_EXPIRES
    record_flags |= np.where(endless, 0, r.HAS_END).astype(np.uint8)
    members.take(
        Parts(
            conditions.start, attribute, kind, flags, low, high, items, topic,
            places.starts_at[owner], np.where(endless, 0, ends_at), record_flags,
        ),
        identities, conditions.first, [],
    )  # fmt: skip


def add_predicates(members: Members, table: pa.Table) -> int:
    """Returns how many subscriptions the table has."""
    batch = read_predicates(table, members.registry, members.ids.are_texts)
    added = len(batch.identities) + len(batch.never)
    if not added:
        return 0
    members.ids.are_texts = batch.text_ids
    members.drop_subscriptions(members.registry.find(batch.identities))
    if members.never:
        members.forget_never(members.ids.names(batch.identities))
    if batch.never:
        members.forget([identity for identity, _ in batch.never])
        members.never.update(batch.never)
    if len(batch.identities):
        members.take(batch.parts, batch.identities, batch.first, batch.python)
    return added


def remove(members: Members, subscription_ids: Iterable[Identity] | I64) -> int:
    """Returns how many were there."""
    if isinstance(subscription_ids, np.ndarray) and not members.ids.are_texts and not members.never:
        return members.drop_subscriptions(members.registry.find(np.unique(subscription_ids.astype(np.int64))))
    return members.forget([plain(identity) for identity in subscription_ids])
