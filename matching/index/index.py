"""Which subscriptions does a publication satisfy? The public face of matching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.columns.vocabulary import Scope, Semantics, TimeBasis
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.matching.index.appraisal import SubscriptionCost, appraise
from pastforward.matching.index.explanation import Explanation, explain
from pastforward.matching.index.filling import Placed
from pastforward.matching.index.flat import Flat, Places
from pastforward.matching.index.locks import ReadWriteLock
from pastforward.matching.index.members import LARGE, Members
from pastforward.matching.index.memory import give_back
from pastforward.matching.index.predicate_settings import semantics_of
from pastforward.matching.index.publications import FromAttributes, FromValues, moment
from pastforward.matching.index.reading import Reading
from pastforward.matching.index.slot_contents import disjunct_of, flags_of
from pastforward.matching.index.subscription import (
    Identity,
    Moment,
    NewSubscription,
    check_attributes,
    check_topic,
    normal_form,
)
from pastforward.matching.index.writing import add_flat, add_predicates, add_subscriptions, latest_of, remove

I64 = npt.NDArray[np.int64]


class Index:
    """Subscriptions in memory, matched against batches of publications.

    One writer, many readers, from any threads. `add`, `add_many`, `add_predicates`, `remove` and `remove_many` are writes: each waits
    for the matches under way, and a match that comes meanwhile waits for it. So a reader sees the index as it was before a write or as
    it is after it, never half of a batch; matches run beside each other, the kernels without the interpreter's lock. Adaptation is
    done in bounded pieces inside writes. The ids are integers or strings, not both in one index.
    """

    def __init__(self, algorithm: str = "auto", **options: Any) -> None:
        self._members = Members(algorithm, options)
        self._reading = Reading(self._members)
        self._lock = ReadWriteLock()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, subscription_id: Identity) -> bool:
        return subscription_id in self._members

    @property
    def algorithm(self) -> str:
        return self._members.algorithm.name

    @property
    def nbytes(self) -> int:
        """Memory of records and structures, in bytes, what is spare included."""
        return self._members.nbytes

    def counters(self) -> dict[str, int | float]:
        """What the algorithm keeps and has done."""
        return self._members.algorithm.counters()

    # writes

    def add(
        self,
        subscription_id: Identity,
        condition: Condition | NormalForm | str | None = None,
        *,
        topic: str = "",
        scope: Scope = "overlap",
        starts_at: Moment | None = None,
        ends_at: Moment | None = None,
        time: TimeBasis = "published",
        semantics: Semantics = "classical",
    ) -> None:
        """Takes a subscription, in place of any earlier one of that id."""
        disjuncts = normal_form(condition)
        self.add_many([NewSubscription(subscription_id, disjuncts, topic, scope, starts_at, ends_at, time, semantics)])

    def add_many(self, subscriptions: Sequence[NewSubscription]) -> None:
        """Several in one write; of an id that comes twice the last counts. A hundred thousand a second in batches of hundreds."""
        latest = latest_of(subscriptions)
        self._members.ids.check_kinds([identity for identity, _, _ in latest])
        with self._lock.write():
            add_subscriptions(self._members, latest)
            self._tidy()

    def add_flat(self, identities: I64, conditions: Flat, places: Places) -> None:
        """The way in for codecs: subscriptions in columns, with different ids that are integers. See `matching.index.flat`."""
        with self._lock.write():
            self._members.ids.check_kinds([0])
            add_flat(self._members, identities, conditions, places)
            self._tidy()

    def add_predicates(self, table: pa.Table) -> int:
        """Takes many subscriptions from an Arrow table of predicates; see `matching.index.predicate_table`. Returns how many."""
        with self._lock.write():
            added = add_predicates(self._members, table)
            if added:
                self._tidy()
        if added and table.num_rows > LARGE:
            give_back()
        return added

    def remove(self, subscription_id: Identity) -> bool:
        """Whether it was there."""
        return self.remove_many([subscription_id]) == 1

    def remove_many(self, subscription_ids: Iterable[Identity] | I64 | pa.Array) -> int:
        """Returns how many were there."""
        if isinstance(subscription_ids, pa.Array | pa.ChunkedArray):
            subscription_ids = (
                subscription_ids.to_numpy()
                if pa.types.is_integer(subscription_ids.type)
                else subscription_ids.to_pylist()
            )
        with self._lock.write():
            gone = remove(self._members, subscription_ids)
            self._tidy()
            return gone

    # reads

    def match(
        self,
        attributes: Mapping[str, object],
        *,
        topic: str = "",
        published_at: Moment | None = None,
        expires_at: Moment | None = None,
        where: Condition | NormalForm | str | None = None,
        previous: Mapping[str, object] | None = None,
    ) -> list[Identity]:
        """The ids of the subscriptions that a publication satisfies. Without `published_at` no window is asked about."""
        if not topic and where is None and not previous:
            self._lock.acquire_read()
            try:
                quick = self._reading.one(attributes, published_at, expires_at)
            except (AttributeError, TypeError):
                check_attributes(attributes)  # looked at only now: this is the hot path
                raise
            finally:
                self._lock.release_read()
            if quick is not None:
                return quick
        row = _row(attributes, previous, topic)
        placed = Placed.of(
            pa.array([topic]) if topic else None,
            None if published_at is None else np.array([moment(published_at)], np.int64),
            None if expires_at is None else np.array([moment(expires_at)], np.int64),
        )
        self._lock.acquire_read()
        try:
            forms = None if where is None else [normal_form(where)]
            found = self._reading.matches(FromValues([row], self._members.registry, forms, placed))
            return self._members.ids.names_of_slots(found.slots)
        finally:
            self._lock.release_read()

    def match_table(self, table: pa.Table) -> pa.Table:
        """A column per attribute, null is absent; optional `_topic`, `_published_at`, `_expires_at`. Returns `row` and
        `subscription_id`, sorted by row."""
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        self._lock.acquire_read()
        try:
            return self._reading.table(table)
        finally:
            self._lock.release_read()

    def match_attributes(
        self,
        attributes: Attributes,
        *,
        topics: pa.Array | Texts | None = None,
        published_at: I64 | None = None,
        expires_at: I64 | None = None,
        where: Sequence[NormalForm | None] | None = None,
    ) -> tuple[I64, pa.Array]:
        """The way in for codecs: rows and subscription ids, sorted by row. `where` holds the published conditions. An attribute of the
        previous publication has a name that begins with `previous.`."""

        placed = Placed.of(topics, published_at, expires_at)
        self._lock.acquire_read()
        try:
            found = self._reading.matches(FromAttributes(attributes, self._members.registry, where, placed))
            return found.rows.astype(np.int64), self._members.ids.column(found.slots)
        finally:
            self._lock.release_read()

    def match_pairs(
        self,
        attributes: Attributes,
        rows: I64,
        subscription_ids: Sequence[Identity] | I64,
        *,
        topics: pa.Array | Texts | None = None,
        published_at: I64 | None = None,
        expires_at: I64 | None = None,
        where: Sequence[NormalForm | None] | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Which of these pairs match: row `rows[i]` of the publications with the i-th subscription. One that is not there matches
        nothing. For whoever has found candidates elsewhere; the other arguments are those of `match_attributes`."""

        placed = Placed.of(topics, published_at, expires_at)
        self._lock.acquire_read()
        try:
            publications = FromAttributes(attributes, self._members.registry, where, placed)
            return self._reading.pairs(publications, rows, subscription_ids)
        finally:
            self._lock.release_read()

    def condition(self, subscription_id: Identity) -> tuple[NormalForm, Semantics]:
        """The condition of a subscription, and its semantics. The attributes of a disjunct come in no order."""
        self._lock.acquire_read()
        try:
            if subscription_id in self._members.never:
                return (), self._members.never[subscription_id]
            slots = self._members.slots_of(subscription_id)
            registry = self._members.registry
            disjuncts = [disjunct_of(registry, slot) for slot in slots]
            known = tuple(disjunct for disjunct in disjuncts if disjunct is not None)
            return known, semantics_of(flags_of(registry, slots[0]))
        finally:
            self._lock.release_read()

    def explain(
        self,
        subscription_id: Identity,
        attributes: Mapping[str, object],
        *,
        topic: str = "",
        published_at: Moment | None = None,
        expires_at: Moment | None = None,
        previous: Mapping[str, object] | None = None,
    ) -> Explanation:
        """Why a publication does or does not satisfy a subscription: which predicate failed, on which value."""
        row = _row(attributes, previous, topic)
        self._lock.acquire_read()
        try:
            if subscription_id in self._members.never:
                return Explanation(subscription_id, False, ("the condition can never be true",))
            slots = self._members.slots_of(subscription_id)
            when = None if published_at is None else moment(published_at)
            until = None if expires_at is None else moment(expires_at)
            return explain(subscription_id, self._members.registry, slots, row, topic, when, until)
        finally:
            self._lock.release_read()

    def cost(
        self,
        condition: Condition | NormalForm | str | None = None,
        *,
        topic: str = "",
        semantics: Semantics = "classical",
    ) -> SubscriptionCost:
        """How dear a subscription would be, before it is taken. Nothing is kept."""
        new = NewSubscription(0, normal_form(condition), topic, semantics=semantics)
        new.flags(0)
        if not new.disjuncts:
            return SubscriptionCost(0.0, 0, 0, ())
        with self._lock.write():
            try:
                return appraise(self._members, new)
            finally:
                self._tidy()

    def _tidy(self) -> None:
        if self._members.tidy():
            self._reading = Reading(self._members)


def _row(attributes: Mapping[str, object], previous: Mapping[str, object] | None, topic: str) -> dict[str, object]:
    """What a publication and the one before say, under one set of names."""
    if topic:
        check_topic(topic)
    check_attributes(attributes)
    if previous is None:
        return dict(attributes)
    check_attributes(previous)
    return {**attributes, **{f"previous.{name}": value for name, value in previous.items()}}
