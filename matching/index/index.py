"""Which subscriptions does a publication satisfy? The public face of matching."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from sys import getsizeof
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.columns.vocabulary import Scope, Semantics, TimeBasis
from pastforward.matching.blocks.auto import Auto
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.errors import shown
from pastforward.matching.conditions.evaluate import satisfies
from pastforward.matching.conditions.normal_form import Constraint, Disjunct, NormalForm
from pastforward.matching.conditions.oracle import disjuncts_fit
from pastforward.matching.conditions.types import is_encodable, path_components
from pastforward.matching.index import records as r
from pastforward.matching.index.algorithms import create
from pastforward.matching.index.arrow import Layouts, int64_column
from pastforward.matching.index.batch import NEVER_EXPIRES, NO_TIME, Batch
from pastforward.matching.index.checking import answers_of, check
from pastforward.matching.index.explanation import Explanation, explain
from pastforward.matching.index.filling import Placed
from pastforward.matching.index.flat import Flat, Places, sort_parts
from pastforward.matching.index.linear import scan_all
from pastforward.matching.index.locks import ReadWriteLock
from pastforward.matching.index.memory import give_back
from pastforward.matching.index.parts import PartsBuilder
from pastforward.matching.index.predicate_settings import semantics_of
from pastforward.matching.index.predicate_table import read_predicates
from pastforward.matching.index.publications import (
    FromAttributes,
    FromTable,
    FromValues,
    Publications,
    moment,
    without_previous,
)
from pastforward.matching.index.records import HAS_TOPIC, Parts
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.single import One
from pastforward.matching.index.small_batches import ROWS, Few
from pastforward.matching.index.strings import gather, joined
from pastforward.matching.index.verification import NO, UNSURE

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Identity: TypeAlias = int | str
Moment: TypeAlias = datetime | int

_LARGE: Final = 100_000  # predicates of a table: reading more leaves tens of megabytes with the allocator

# When what was removed is cleared away: bytes, and attributes that nobody names any more.
_LITTLE: Final = 256 * 1024
_FEW_NAMES: Final = 32
_NAME_BYTES: Final = 9_000  # of an attribute: its splits, and a sample of its values
_SOME: Final = 256  # removed slots after which one looks; sooner where what they leave may be a good part of many names
_EMPTY: Final = 8_400_000  # bytes of an empty index, most of them never touched

_SEMANTICS: Final[dict[str, int]] = {"classical": 0, "symmetric": r.SYMMETRIC, "intersect": r.INTERSECT}
_SCOPES: Final[dict[str, int]] = {"overlap": 0, "subtree": r.SUBTREE_SCOPE}
_TIMES: Final[dict[str, int]] = {"published": 0, "valid": r.VALID_TIME}
_FLAGS: Final = {
    (semantics, scope, time): a | b | c
    for semantics, a in _SEMANTICS.items()
    for scope, b in _SCOPES.items()
    for time, c in _TIMES.items()
}
_TWO_63: Final = 2**63
# what is certainly a Dewey path; `path_components` decides about the rest, at ten times the cost
_USUAL_TOPIC: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.(?:0|[1-9][0-9]{0,17}))*").fullmatch


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs, by row: the publication's number in the batch, and the subscription's head slot. `Index.ids_of` names them."""

    rows: I32
    slots: I32


@dataclass(frozen=True, slots=True)
class SubscriptionCost:
    """`nanoseconds` that it adds to each publication, as `auto` expects (0 for other algorithms); `entries` in the index; `slow`
    predicates that Python decides; `access`: what leads to each entry."""

    nanoseconds: float
    entries: int
    slow: int
    access: tuple[str, ...]


class Index:
    """Subscriptions in memory, matched against batches of publications.

    One writer, many readers, from any threads. `add`, `add_many`, `add_predicates`, `remove` and `remove_many` are writes: each waits
    for the matches under way, and a match that comes meanwhile waits for it. So a reader sees the index as it was before a write or as
    it is after it, never half of a batch; matches run beside each other, the kernels without the interpreter's lock. Adaptation is
    done in bounded pieces inside writes. The ids are integers or strings, not both in one index.
    """

    def __init__(self, algorithm: str = "auto", **options: Any) -> None:
        self._registry = Registry()
        self._options = options
        self._begin(algorithm)
        self._never: dict[Identity, Semantics] = {}  # what nothing satisfies has no records
        self._relaxed_slots = 0
        self._text_ids: bool | None = None
        self._lock = ReadWriteLock()
        self._dropped = 0  # slots, since it was last looked what they leave behind
        self._names_then = 0  # attributes when it was last looked whether subscriptions still name them
        self._unnamed = 0  # attributes that nobody may name any more, at most

    def _begin(self, algorithm: str) -> None:
        """Everything that knows slots or attributes by number, as of an empty index."""
        self._algorithm = create(algorithm, self._registry, **self._options)
        self._auto = self._algorithm if isinstance(self._algorithm, Auto) else None  # its ways are shorter
        # what the papers' algorithms do not speak of
        self._relaxed = create("auto", self._registry, relaxed=True)
        self._one = One()
        self._few = Few()
        self._layouts = Layouts()

    def __len__(self) -> int:
        return len(self._registry) + len(self._never)

    def __contains__(self, subscription_id: Identity) -> bool:
        return subscription_id in self._never or self._head(subscription_id) >= 0

    @property
    def algorithm(self) -> str:
        return self._algorithm.name

    @property
    def nbytes(self) -> int:
        """Memory of records and structures, in bytes, what is spare included."""
        never = getsizeof(self._never) + sum(map(getsizeof, self._never))
        return self._registry.nbytes + self._algorithm.nbytes + self._relaxed.nbytes + never

    def counters(self) -> dict[str, int | float]:
        """What the algorithm keeps and has done."""
        return self._algorithm.counters()

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
        self.add_many(
            [
                NewSubscription(
                    subscription_id, normal_form(condition), topic, scope, starts_at, ends_at, time, semantics
                )
            ]
        )

    def add_many(self, subscriptions: Sequence[NewSubscription]) -> None:
        """Several in one write; of an id that comes twice the last counts. A hundred thousand a second in batches of hundreds."""
        latest = {_plain(new.subscription_id): new for new in subscriptions}
        flags_of = [new.flags(identity) for identity, new in latest.items()]
        self._check_kinds(latest)
        with self._lock.write():
            # whatever can be wrong with a subscription is found before its earlier version goes
            builder = self._builder()
            identities: list[Identity] = []
            never: dict[Identity, Semantics] = {}
            first = [0]
            topics: list[bytes] = []
            for (identity, new), flags in zip(latest.items(), flags_of, strict=True):
                if not new.disjuncts:
                    never[identity] = new.semantics
                    continue
                starts_at, ends_at = new.starts_at, new.ends_at
                starts_at = None if starts_at is None else moment(starts_at)
                ends_at = None if ends_at is None else moment(ends_at)
                for disjunct in new.disjuncts:
                    builder.add(disjunct, 0, flags, starts_at, ends_at)
                if flags & HAS_TOPIC:
                    topics += [new.topic.encode()] * len(new.disjuncts)
                identities.append(identity)
                first.append(first[-1] + len(new.disjuncts))
            self._forget(list(latest))
            self._never.update(never)
            if identities:
                parts = builder.parts()
                if topics:
                    parts.topic[parts.record_flags & HAS_TOPIC != 0] = self._registry.topics.hold(*joined(topics))
                self._take(parts, self._numbers_of(identities), np.array(first, np.int64), builder.python)
            self._tidy()

    def add_flat(self, identities: I64, conditions: Flat, places: Places) -> None:
        """The way in for codecs: subscriptions in columns, with different ids that are integers. See `matching.index.flat`."""
        with self._lock.write():
            self._check_kinds([0])
            heads = self._registry.find(identities)
            if (heads >= 0).any():
                self._drop(self._registry.slots_of(heads))
            if self._never:
                self._not_never(identities.tolist())
            numbers = np.array([self._registry.number(name) for name in conditions.names], np.int32)
            texts = self._registry.strings.intern(*conditions.texts.for_kernel())
            parts = len(conditions.name)
            attribute, kind, flags = np.empty(parts, np.int32), np.empty(parts, np.uint8), np.empty(parts, np.uint8)
            low, high = np.empty(parts, np.int64), np.empty(parts, np.int64)
            sort_parts(
                conditions.start, conditions.name, conditions.kind, conditions.flags, conditions.low, conditions.high, numbers,
                texts, attribute, kind, flags, low, high,
            )  # fmt: skip
            # a record for each disjunct; each holds its topic
            owner = np.repeat(np.arange(len(identities)), np.diff(conditions.first))
            record_flags = places.flags[owner]
            heap, at, length = places.topics.for_kernel()
            below = np.flatnonzero(length[owner] > 0)
            topic = np.zeros(len(owner), np.int32)
            if len(below):
                topic[below] = self._registry.topics.hold(heap, at[owner[below]], length[owner[below]])
            record_flags = record_flags | np.where(topic > 0, r.HAS_TOPIC, 0).astype(np.uint8) | np.uint8(r.HAS_START)
            ends_at = places.ends_at[owner]
            endless = ends_at == NEVER_EXPIRES
            record_flags |= np.where(endless, 0, r.HAS_END).astype(np.uint8)
            self._take(
                Parts(
                    conditions.start, attribute, kind, flags, low, high, np.empty(0, np.int64), topic,
                    places.starts_at[owner], np.where(endless, 0, ends_at), record_flags,
                ),
                identities, conditions.first, [],
            )  # fmt: skip
            self._tidy()

    def add_predicates(self, table: pa.Table) -> int:
        """Takes many subscriptions from an Arrow table of predicates; see `matching.index.predicate_table`. Returns how many."""
        with self._lock.write():
            batch = read_predicates(table, self._registry, self._text_ids)
            added = len(batch.identities) + len(batch.never)
            if not added:
                return 0
            self._text_ids = batch.text_ids
            heads = self._registry.find(batch.identities)
            heads = heads[heads >= 0]
            self._drop_subscriptions(heads)
            if self._never:
                self._not_never(self._names_of(batch.identities))
            if batch.never:
                self._forget([identity for identity, _ in batch.never])
                self._never.update(batch.never)
            if len(batch.identities):
                self._take(batch.parts, batch.identities, batch.first, batch.python)
            self._tidy()
            del batch, heads
        if table.num_rows > _LARGE:
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
            if isinstance(subscription_ids, np.ndarray) and not self._text_ids and not self._never:
                identities = np.unique(subscription_ids.astype(np.int64))
                heads = self._registry.find(identities)
                heads = heads[heads >= 0]
                self._drop(self._registry.slots_of(heads))
                gone = len(heads)
            else:
                gone = self._forget([_plain(identity) for identity in subscription_ids])
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
            try:
                quick = self._match_one(attributes, published_at, expires_at)
            except (AttributeError, TypeError):
                _check_attributes(attributes)  # looked at only now: this is the hot path
                raise
            if quick is not None:
                return quick
        if topic:
            _check_topic(topic)
        _check_attributes(attributes)
        if previous is not None:
            _check_attributes(previous)
        row = dict(attributes)
        if previous:
            row.update({f"previous.{name}": value for name, value in previous.items()})

        placed = Placed.of(
            pa.array([topic]) if topic else None,
            None if published_at is None else np.array([moment(published_at)], np.int64),
            None if expires_at is None else np.array([moment(expires_at)], np.int64),
        )
        self._lock.acquire_read()
        try:
            forms = None if where is None else [normal_form(where)]
            found = self._matches(FromValues([row], self._registry, forms, placed))
            return self._names_of(self._registry.slots.ids[found.slots])
        finally:
            self._lock.release_read()

    def match_table(self, table: pa.Table) -> pa.Table:
        """A column per attribute, null is absent; optional `_topic`, `_published_at`, `_expires_at`. Returns `row` and
        `subscription_id`, sorted by row."""
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        self._lock.acquire_read()
        try:
            auto = self._auto if table.num_rows <= ROWS else None
            if auto and not (self._text_ids or self._relaxed_slots or self._registry.has_disjunctions):
                quick = self._few.match(table, self._registry, self._layouts, auto.blocks_address)
                if quick is not None:
                    return quick
            found = self._matches(FromTable(table, self._registry, self._layouts))
            ids = self._id_column(found.slots)
        finally:
            self._lock.release_read()
        return pa.Table.from_arrays([int64_column(found.rows.astype(np.int64)), ids], names=["row", "subscription_id"])

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
            found = self._matches(FromAttributes(attributes, self._registry, where, placed))
            return found.rows.astype(np.int64), self._id_column(found.slots)
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
            publications = FromAttributes(attributes, self._registry, where, placed)
            heads = self._heads(subscription_ids)
            # a publication has a row for each disjunct that it publishes, a subscription a slot for each of its own
            pair, batch_rows = _each_of(publications.batch.publication, np.asarray(rows, np.int64))
            pair, batch_rows = pair[heads[pair] >= 0], batch_rows[heads[pair] >= 0]
            slots = heads[pair]
            if self._registry.has_disjunctions:
                known = np.unique(slots)
                several = [self._registry.slots_of(np.array([head], np.int32)) for head in known.tolist()]
                owner = np.repeat(known, [len(some) for some in several])
                at, slot_at = _each_of(owner, slots)
                slots = np.concatenate(several)[slot_at] if several else slots
                pair, batch_rows = pair[at], batch_rows[at]
            answer = np.zeros(len(heads), np.bool_)
            if len(pair):
                fits = self._fit(publications, batch_rows.astype(np.int32), slots.astype(np.int32))
                answer[pair[fits]] = True
            return answer
        finally:
            self._lock.release_read()

    def condition(self, subscription_id: Identity) -> tuple[NormalForm, Semantics]:
        """The condition of a subscription, and its semantics. The attributes of a disjunct come in no order."""
        self._lock.acquire_read()
        try:
            if subscription_id in self._never:
                return (), self._never[subscription_id]
            head = self._head(subscription_id)
            if head < 0:
                raise KeyError(f"no subscription {subscription_id!r} in this index")
            slots = self._registry.slots_of(np.array([head], np.int32)).tolist()
            disjuncts = [self._registry.disjunct(slot) for slot in slots]
            known = tuple(disjunct for disjunct in disjuncts if disjunct is not None)
            return known, semantics_of(self._registry.flags(slots[0]))
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
        _check_attributes(attributes)
        _check_attributes(previous or {})
        if topic:
            _check_topic(topic)
        self._lock.acquire_read()
        try:
            if subscription_id in self._never:
                return Explanation(subscription_id, False, ("the condition can never be true",))
            head = self._head(subscription_id)
            if head < 0:
                raise KeyError(f"no subscription {subscription_id!r} in this index")
            slots = self._registry.slots_of(np.array([head], np.int32)).tolist()
            row = {**attributes, **{f"previous.{name}": value for name, value in (previous or {}).items()}}
            when = None if published_at is None else moment(published_at)
            until = None if expires_at is None else moment(expires_at)
            return explain(subscription_id, self._registry, slots, row, topic, when, until)
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
        auto = self._relaxed if semantics != "classical" else self._algorithm
        with self._lock.write():
            builder = self._builder()
            for disjunct in new.disjuncts:
                builder.add(disjunct, self._hold_topic(topic), _SEMANTICS[semantics], None, None)
            python = len(builder.python)
            # an id that nobody has: the least one that is free, looked for from the end
            identity = next(i for i in range(-(2**63), 0) if self._registry.find(np.array([i], np.int64))[0] < 0)
            slots = self._registry.add(
                builder.parts(), np.array([identity], np.int64), np.array([0, len(builder)]), builder.python
            )
            try:
                found = [auto.appraise(slot) for slot in slots.tolist()] if isinstance(auto, Auto) else []
            finally:
                self._registry.drop(slots)
                self._tidy()
        return SubscriptionCost(
            sum(nanoseconds for _, nanoseconds in found),
            len(new.disjuncts),
            python,
            tuple(access for access, _ in found),
        )

    # inside

    def _matches(self, publications: Publications) -> Matches:
        registry = self._registry
        if self._auto is not None and not self._relaxed_slots:
            rows, slots, answers, unsure = self._auto.matches(publications.address, publications.rows)
        else:
            rows, slots = self._candidates(publications.batch)
            if not len(rows):
                return Matches(rows, slots)
            rows, slots, answers, unsure = check(
                registry.known_at, publications.address, rows, slots, len(registry.names)
            )
        if unsure:
            self._decide(publications, rows, slots, np.flatnonzero(answers == UNSURE), answers)
            keep = answers != NO
            rows, slots = rows[keep], slots[keep]
        if registry.has_disjunctions or publications.renumbered:
            pairs = (publications.batch.publication[rows].astype(np.int64) << 32) | registry.slots.head[slots]
            pairs = np.unique(pairs)
            rows, slots = (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
        return Matches(rows, slots)

    def _candidates(self, batch: Batch) -> tuple[I32, I32]:
        found = [(np.empty(0, np.int32), np.empty(0, np.int32))]
        if self._registry.slots_in_use > self._relaxed_slots:
            if not self._algorithm.takes_conditions and (batch.vague.any() or (batch.low != batch.high).any()):
                found.append(scan_all(self._registry, batch, relaxed=False))
            else:
                found.append(self._algorithm.candidates(batch))
        if self._relaxed_slots:
            found.append(self._relaxed.candidates(batch))
        return np.concatenate([rows for rows, _ in found]), np.concatenate([slots for _, slots in found])

    def _fit(self, publications: Publications, rows: I32, slots: I32) -> npt.NDArray[np.bool_]:
        """Which candidates match, exactly. Rows and slots in any order."""
        registry = self._registry
        answers = answers_of(registry.known_at, publications.address, rows, slots, len(registry.names))
        unsure = np.flatnonzero(answers == UNSURE)
        if len(unsure):
            self._decide(publications, rows, slots, unsure, answers)
        fits: npt.NDArray[np.bool_] = answers != NO
        return fits

    def _match_one(
        self, attributes: Mapping[str, object], published_at: Moment | None, expires_at: Moment | None
    ) -> list[Identity] | None:
        """The short way for one plain publication; None if it has to go the long way."""
        registry = self._registry
        when = NO_TIME if published_at is None else moment(published_at)
        until = NEVER_EXPIRES if expires_at is None else moment(expires_at)
        self._lock.acquire_read()
        try:
            if self._auto is None or self._relaxed_slots or registry.has_disjunctions:
                return None
            slots = self._one.slots(registry, self._auto.blocks_address, attributes, when, until)
            return None if slots is None else self._names_of(registry.slots.ids[slots])
        finally:
            self._lock.release_read()

    def _decide(
        self, publications: Publications, rows: I32, slots: I32, unsure: I64, answers: npt.NDArray[np.uint8]
    ) -> None:
        """By the definition, where kernels cannot."""
        said_by: dict[int, tuple[dict[str, object], dict[str, object]]] = {}
        asked_by: dict[int, Disjunct | None] = {}
        constants_by: dict[int, dict[str, object]] = {}
        parts_by: dict[int, list[tuple[str, Constraint]]] = {}
        vague = publications.batch.vague.tolist()
        for i, row, slot in zip(unsure.tolist(), rows[unsure].tolist(), slots[unsure].tolist(), strict=True):
            if not vague[row]:
                # constants, and what only Python can decide of them; all else has been decided
                constants = constants_by.get(row)
                if constants is None:
                    constants = constants_by[row] = publications.values(row)
                parts = parts_by.get(slot)
                if parts is None:
                    parts = parts_by[slot] = self._registry.python_constraints(slot)
                answers[i] = all(name not in constants or satisfies(asked, constants[name]) for name, asked in parts)
                continue
            if row not in said_by:
                said_by[row] = without_previous(publications.said(row))
            if slot not in asked_by:
                asked_by[slot] = self._registry.disjunct(slot)
            asked = asked_by[slot]
            flags = self._registry.flags(slot)
            semantics: Semantics = "intersect" if flags & (r.SYMMETRIC | r.INTERSECT) else "classical"
            # coverage under `symmetric` has been counted by the kernel
            answers[i] = asked is not None and disjuncts_fit(semantics, asked, *said_by[row])

    def _take(self, parts: Parts, identities: I64, first: I64, python: list[Constraint]) -> None:
        slots = self._registry.add(parts, identities, first, python)
        relaxed = (parts.record_flags & (r.SYMMETRIC | r.INTERSECT)) != 0
        if relaxed.any():
            self._relaxed_slots += int(relaxed.sum())
            self._relaxed.insert(slots[relaxed])
            slots = slots[~relaxed]
        if len(slots):
            self._algorithm.insert(slots)

    def _drop(self, slots: I32) -> None:
        if not len(slots):
            return
        self._dropped += len(slots)
        if self._relaxed_slots:
            words, offset = self._registry.known.records.words, self._registry.known.records.offset
            relaxed = (words[offset[slots]] & (r.SYMMETRIC | r.INTERSECT)) != 0
            self._relaxed_slots -= int(relaxed.sum())
            self._relaxed.remove(slots[relaxed])
            self._algorithm.remove(slots[~relaxed])
        else:
            self._algorithm.remove(slots)
        self._registry.drop(slots)

    def _tidy(self) -> None:
        """After a write: what was removed must not take more than a part of what is there. Then everything is laid out anew, which costs
        as much as a bulk load of what is left."""
        registry = self._registry
        if self._auto is None:
            return  # the papers' algorithms are measured as they are
        names = len(registry.names)
        if names > self._names_then + self._names_then // 2 + _FEW_NAMES:
            self._names_then = used = registry.attributes_used()
            sparse = names > used + used // 4 + _FEW_NAMES // 2
            if not sparse:
                self._names_then = names
        elif self._dropped > min(_SOME, max(_FEW_NAMES, names // 8)) or 4 * registry.free_words > _LITTLE:
            self._unnamed = min(names, self._unnamed + self._dropped * registry.longest)
            self._dropped = 0
            wasted = registry.wasted + self._auto.wasted + self._relaxed.wasted
            held = registry.nbytes + self._auto.nbytes + self._relaxed.nbytes - _EMPTY
            if _is_much(wasted + _NAME_BYTES * self._unnamed, held) and not _is_much(wasted, held):
                self._unnamed = names - registry.attributes_used()
            sparse = _is_much(wasted + _NAME_BYTES * self._unnamed, held)
        else:
            return
        if not sparse:
            return
        slots = registry.compact(bool(self._text_ids))
        self._begin(self._algorithm.name)
        self._names_then, self._unnamed = len(registry.names), 0
        words, offset = registry.known.records.words, registry.known.records.offset
        relaxed = (words[offset[slots]] & (r.SYMMETRIC | r.INTERSECT)) != 0
        for algorithm, chosen in ((self._algorithm, slots[~relaxed]), (self._relaxed, slots[relaxed])):
            if len(chosen):
                algorithm.insert(chosen)
        if len(slots) > _LARGE:
            give_back()

    def _forget(self, ids: list[Identity]) -> int:
        gone = self._not_never(ids)
        heads = self._heads(list(dict.fromkeys(ids)))
        heads = heads[heads >= 0]
        self._drop_subscriptions(heads)
        return gone + len(heads)

    def _not_never(self, ids: Iterable[Identity]) -> int:
        return sum(self._never.pop(identity, None) is not None for identity in ids) if self._never else 0

    def _drop_subscriptions(self, heads: I32) -> None:
        """With their ids, each of which holds its text once."""
        if not len(heads):
            return
        texts = self._registry.slots.ids[heads].astype(np.int32) if self._text_ids else None
        self._drop(self._registry.slots_of(heads))
        if texts is not None:
            self._registry.id_strings.release(texts)

    def _head(self, identity: Identity) -> int:
        return int(self._heads([identity])[0])

    def _heads(self, ids: Sequence[Identity] | I64) -> I32:
        """-1 for what is not there."""
        if isinstance(ids, np.ndarray) and not self._text_ids:
            return self._registry.find(ids.astype(np.int64))
        known = [_plain(identity) for identity in ids]
        heads = np.full(len(known), -1, np.int32)
        if self._text_ids is None:
            return heads
        numbers: I64 = np.full(len(known), -1, np.int64)
        if self._text_ids:
            ours = [i for i, identity in enumerate(known) if isinstance(identity, str) and is_encodable(identity)]
            numbers[ours] = self._registry.id_strings.find([known[i].encode() for i in ours])  # type: ignore[union-attr]
            ours = [i for i in ours if numbers[i] >= 0]
        else:
            ours = [
                i for i, identity in enumerate(known) if isinstance(identity, int) and -_TWO_63 <= identity < _TWO_63
            ]
            numbers[ours] = np.array([known[i] for i in ours], np.int64)
        heads[ours] = self._registry.find(numbers[ours])
        return heads

    def _numbers_of(self, ids: list[Identity]) -> I64:
        if self._text_ids:
            return self._registry.id_strings.intern(*joined([str(i).encode() for i in ids])).astype(np.int64)
        return np.array(ids, np.int64)

    def _builder(self) -> PartsBuilder:
        return PartsBuilder(self._registry.strings, self._registry.number, self._registry.numbers)

    def _names_of(self, numbers: I64) -> list[Identity]:
        if self._text_ids:
            return [self._registry.id_strings.text(number).decode() for number in numbers.tolist()]
        names: list[Identity] = numbers.tolist()
        return names

    def _id_column(self, slots: I32) -> pa.Array:
        numbers = self._registry.slots.ids.take(slots)
        if not self._text_ids:
            return int64_column(numbers)
        offsets, heap = gather(self._registry.id_strings.view, numbers)
        return pa.LargeStringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(heap))

    def _hold_topic(self, topic: str) -> int:
        return int(self._registry.topics.hold(*joined([topic.encode()]))[0]) if topic else 0

    def _check_kinds(self, ids: Iterable[Identity]) -> None:
        kinds = set(map(type, ids))
        if not kinds:
            return
        text = self._text_ids if self._text_ids is not None else str in kinds
        wrong = next((kind for kind in kinds if issubclass(kind, str) != text), None)
        if wrong is not None:
            kinds_of_ids = ("strings", "integers") if text else ("integers", "strings")
            example = next(i for i in ids if type(i) is wrong)
            raise TypeError(
                f"the ids of this index are {kinds_of_ids[0]}, {example!r} is not; keep {kinds_of_ids[1]} in another index"
            )
        self._text_ids = text


# not frozen: that would make each ten times as dear to create, and they come by the thousand
@dataclass(slots=True)
class NewSubscription:
    """What `Index.add` takes, as one object."""

    subscription_id: Identity
    disjuncts: NormalForm
    topic: str = ""
    scope: Scope = "overlap"
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    time: TimeBasis = "published"
    semantics: Semantics = "classical"

    def flags(self, identity: Identity) -> int:
        """Of its records. Raises if something about it is wrong. `identity` is its id, of a plain type."""
        topic = self.topic
        if type(identity) is not str and type(identity) is not int:
            raise TypeError(f"a subscription id is an integer or a string, not {shown(identity)}")
        if type(identity) is int and not -_TWO_63 <= identity < _TWO_63:
            raise ValueError(f"the subscription id {shown(identity)} does not fit 64 bits")
        if type(identity) is str and not is_encodable(identity):
            raise ValueError(f"the subscription id {identity!r} holds half a character; give valid Unicode")
        flags = _FLAGS.get((self.semantics, self.scope, self.time))
        if flags is None:
            for name, value, known in (
                ("scope", self.scope, _SCOPES),
                ("time", self.time, _TIMES),
                ("semantics", self.semantics, _SEMANTICS),
            ):
                if value not in known:
                    raise ValueError(f"{name} {value!r} is unknown; write one of {', '.join(known)}")
            raise AssertionError("unreachable")
        if not topic:
            return flags
        _check_topic(topic)
        return flags | HAS_TOPIC


def normal_form(condition: Condition | NormalForm | str | None) -> NormalForm:
    if condition is None:
        return ((),)
    if isinstance(condition, str):
        return Condition.parse(condition).disjuncts
    if isinstance(condition, Condition):
        return condition.disjuncts
    if not isinstance(condition, tuple | list) or not all(map(_is_disjunct, condition)):
        raise TypeError(
            f"{shown(condition)} is no condition; give a Condition, SQL text, or the disjuncts of a Condition"
        )
    return condition


def _is_disjunct(given: object) -> bool:
    if not isinstance(given, tuple | list):
        return False
    return all(isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[1], Constraint) for pair in given)


def _check_attributes(given: object) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{shown(given)} are no attributes; give a dictionary of names and values")
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{shown(name)} cannot be the name of an attribute; give a string")


def _check_topic(topic: str) -> None:
    if not isinstance(topic, str) or (not _USUAL_TOPIC(topic) and path_components(topic) is None):
        raise ValueError(f"the topic {shown(topic)} is no Dewey path; write numbers and dots, like 1.4.2")


def _is_much(wasted: int, held: int) -> bool:
    """So much that laying out the rest anew is worth it."""
    return wasted > _LITTLE and 4 * wasted > held


def _plain(identity: Any) -> Identity:
    """An id without NumPy's types and without subclasses."""
    kind = type(identity)
    if kind is int or kind is str or kind is bool:
        return identity  # type: ignore[no-any-return]
    if isinstance(identity, np.generic):
        identity = identity.item()
    if isinstance(identity, str):
        return str.__str__(identity)
    return int.__int__(identity) if isinstance(identity, int) and not isinstance(identity, bool) else identity


def _each_of(owner: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> tuple[I64, I64]:
    """Every place in `owner`, which ascends, that has `wanted[i]`: i and the place."""
    low, high = np.searchsorted(owner, wanted, "left"), np.searchsorted(owner, wanted, "right")
    count = high - low
    number = np.repeat(np.arange(len(wanted)), count)
    place = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return number, place
