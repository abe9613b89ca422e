"""The baseline: publications are stored, subscriptions are kept aside and ask again and again (RepQueries).

A subscription asks about the past when it comes. Then it asks once every `every` microseconds of log time what was published
since it last asked, and a last time when it ends. Publishing reads nothing. What expires between two questions is missed, and
so is what comes late; everything else is told late by up to `every`. For comparison, not for production: subscriptions are not
on disk (a store that is opened again has none), and those that are over still take their room.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pastforward.state import operations
from pastforward.state.budget import Budget
from pastforward.state.errors import OperationError
from pastforward.state.families import SERIES
from pastforward.state.kernels import records
from pastforward.state.kernels.records import Array
from pastforward.state.store import Store

_NEVER: Final = records.LATEST
_GRAIN: Final = 64
"""Entries of the agenda for each span of `every`: so few subscriptions are looked at before their time."""

SERIES["repeated"] = ("none", "publications")


@dataclass(slots=True)
class _Aside:
    """Subscriptions in the order in which they came; a number is a position here."""

    count: int = 0
    identity: Array = field(default_factory=lambda: np.empty(1024, object))
    topic: Array = field(default_factory=lambda: np.empty(1024, object))
    subtree: Array = field(default_factory=lambda: np.zeros(1024, np.bool_))
    starts: Array = field(default_factory=lambda: np.zeros(1024, np.int64))
    ends: Array = field(default_factory=lambda: np.zeros(1024, np.int64))
    asked: Array = field(default_factory=lambda: np.zeros(1024, np.int64))  # everything published before this
    next: Array = field(default_factory=lambda: np.zeros(1024, np.int64))
    over: Array = field(default_factory=lambda: np.zeros(1024, np.bool_))  # withdrawn or replaced

    def add(self, count: int) -> Array:
        """Numbers for so many more."""
        first = self.count
        self.count += count
        if self.count > len(self.identity):
            for name in ("identity", "topic", "subtree", "starts", "ends", "asked", "next", "over"):
                old = getattr(self, name)
                larger = np.zeros(2 * self.count, old.dtype)
                larger[:first] = old[:first]
                setattr(self, name, larger)
        self.over[first : self.count] = False
        return np.arange(first, self.count)


@dataclass(slots=True)
class _Asked:
    """Rows for the store, each with the row of the caller's table it belongs to and who asks."""

    table: Any
    row: Array
    who: Array


@dataclass(slots=True)
class _Undo:
    """How things stood before a chunk."""

    count: int
    numbers: list[tuple[Any, int | None]] = field(default_factory=list)
    asked: tuple[Array, Array, Array] = field(default_factory=lambda: (np.empty(0, np.int64),) * 3)
    gone: list[int] = field(default_factory=list)


class Repeated(Store):
    """A store whose subscriptions are kept aside. Pairs have a further column, `subscription_id`: who asked."""

    def __init__(
        self, path: str | os.PathLike[str], budget: Budget, hot_window: int | None, every: int = 1_000_000
    ) -> None:
        """`every`: microseconds between two questions of a subscription."""
        if every <= 0:
            raise OperationError(f"every is {every}; it must be a positive number of microseconds")
        super().__init__(path, "repeated", budget, hot_window, 0, None)
        self._every = every
        self._aside = _Aside()
        self._agenda: dict[int, list[Array]] = {}
        self._numbers: dict[Any, int] = {}
        self._undo: list[_Undo] = []

    def apply(self, table: Any, *, find: str = "both", columns: Sequence[str] = ()) -> Any:
        """As ever, but `operation` is the row at which the question was asked: its own, or the one that let time pass."""
        parsed = operations.parse(table)
        if (parsed.columns.flags & (records.SELF_JOIN | records.VALID)).any() or parsed.items != len(parsed):
            raise OperationError(
                "layout 'repeated' knows neither self_join nor valid nor several topics; use dual or two"
            )
        if not len(parsed):
            return super().apply(table, find=find, columns=columns)
        asked = self._questions(table, parsed)
        pairs = super().apply(asked.table, find="past" if find == "both" else find, columns=columns)
        operation = pairs["operation"].to_numpy()
        who = pa.array(asked.who[operation].tolist(), pairs["found_id"].type)
        return pairs.set_column(0, "operation", pa.array(asked.row[operation])).append_column("subscription_id", who)

    def _questions(self, table: Any, parsed: operations.Parsed) -> _Asked:
        """The rows for the store: publications as they are, and every question where it is asked."""
        columns = parsed.columns
        before = self.log_time
        clock = np.maximum.accumulate(np.maximum(columns.arrived, columns.now))
        if before is not None:
            clock = np.maximum(clock, before)
        subscribed = np.flatnonzero(columns.kind == records.SUBSCRIPTION)
        published = np.flatnonzero(columns.kind == records.PUBLICATION)
        numbers, gone_at = self._take(table, parsed, subscribed, clock)
        asked, position, low, high, when = self._due(clock, numbers, gone_at)

        aside = self._aside
        who = np.concatenate([numbers, asked])
        row = np.concatenate([subscribed, position])
        starts = np.concatenate([aside.starts[numbers], low])
        ends = np.concatenate([np.minimum(aside.ends[numbers], clock[subscribed]), high])
        time = np.concatenate([clock[subscribed], when])
        # A question that time has brought comes before the row at which it did.
        order = np.concatenate([2 * subscribed + 1, 2 * position])
        asking = len(who)
        all_rows = np.concatenate([row, published])
        sort = np.lexsort((np.concatenate([time, clock[published]]), np.concatenate([order, 2 * published + 1])))
        questions = pa.table(
            {
                "kind": pa.array(["question"] * asking),
                "id": pa.array(aside.identity[who].tolist(), _plain_type(table["id"].type)),
                "topic": pa.array(aside.topic[who].tolist(), pa.string()),
                "time": pa.array(time),
                "starts_at": pa.array(starts, mask=starts == records.EARLIEST),
                "ends_at": pa.array(ends),
                "scope": pa.array(np.where(aside.subtree[who], "subtree", "overlap")),
            }
        )
        publications = operations.plain(table).take(published)
        merged = pa.concat_tables([questions, publications], promote_options="permissive")
        askers = np.concatenate([aside.identity[who], np.full(len(published), None, object)])
        return _Asked(merged.take(sort), all_rows[sort], askers[sort])

    def _take(
        self, table: Any, parsed: operations.Parsed, subscribed: Array, clock: Array
    ) -> tuple[Array, dict[int, int]]:
        """Keeps the new subscriptions aside. Returns their numbers, and at which row a number was withdrawn or replaced."""
        aside, columns = self._aside, parsed.columns
        self._undo.append(_Undo(aside.count))
        numbers = aside.add(len(subscribed))
        identities = table["id"].to_pylist()
        topics = table["topic"].to_pylist() if "topic" in table.schema.names else [None] * len(parsed)
        aside.identity[numbers] = [identities[row] for row in subscribed]
        aside.topic[numbers] = [topics[row] for row in subscribed]
        aside.subtree[numbers] = columns.flags[subscribed] & records.SUBTREE != 0
        aside.starts[numbers] = columns.other[subscribed]
        aside.ends[numbers] = columns.time[subscribed]
        aside.asked[numbers] = clock[subscribed]
        aside.next[numbers] = self._after(clock[subscribed], aside.ends[numbers])
        gone_at: dict[int, int] = {}
        number_at = dict(zip(subscribed.tolist(), numbers.tolist(), strict=True))
        for row in np.flatnonzero(columns.kind != records.PUBLICATION).tolist():
            old = self._numbers.pop(identities[row], None)
            self._undo[-1].numbers.append((identities[row], old))
            if old is not None:
                gone_at[old] = row
            if row in number_at:
                self._numbers[identities[row]] = number_at[row]
        return numbers, gone_at

    def _after(self, asked: Array, ends: Array) -> Array:
        """The time of the next question; never, after the last one."""
        return np.where(asked < ends, np.minimum(asked + self._every, ends), _NEVER)

    def _due(self, clock: Array, new: Array, gone_at: dict[int, int]) -> tuple[Array, Array, Array, Array, Array]:
        """Every question that this chunk's time brings: who asks, before which row, from when, to when, and its own time."""
        aside = self._aside
        last = int(clock[-1]) if len(clock) else records.EARLIEST
        waiting = [new]
        grain = max(1, self._every // _GRAIN)
        for bucket in [bucket for bucket in self._agenda if bucket <= last // grain]:
            waiting += self._agenda.pop(bucket)
        numbers = np.concatenate(waiting)
        numbers = numbers[~aside.over[numbers] & (aside.next[numbers] != _NEVER)]
        self._undo[-1].asked = (numbers, aside.asked[numbers], aside.next[numbers])
        self._undo[-1].gone = list(gone_at)
        rounds: list[tuple[Array, Array, Array, Array, Array]] = []
        while True:
            due = aside.next[numbers] <= last
            self._put_off(numbers[~due], grain)
            numbers = numbers[due]
            if not len(numbers):
                break
            when = aside.next[numbers]
            position = np.searchsorted(clock, when)
            if gone_at:
                staying = np.array([gone_at.get(n, len(clock)) for n in numbers.tolist()]) >= position
                numbers, when, position = numbers[staying], when[staying], position[staying]
            low = np.maximum(aside.starts[numbers], aside.asked[numbers])
            high = np.minimum(aside.ends[numbers], when)
            some = low < high
            rounds.append((numbers[some], position[some], low[some], high[some], when[some]))
            aside.asked[numbers] = when
            aside.next[numbers] = self._after(when, aside.ends[numbers])
            numbers = numbers[aside.next[numbers] != _NEVER]
        aside.over[list(gone_at)] = True
        if not rounds:
            empty = np.empty(0, np.int64)
            return empty, empty, empty, empty, empty
        asked, position, low, high, when = (np.concatenate(parts) for parts in zip(*rounds, strict=True))
        return asked, position, low, high, when

    def _put_off(self, numbers: Array, grain: int) -> None:
        if not len(numbers):
            return
        buckets = self._aside.next[numbers] // grain
        order = np.argsort(buckets, kind="stable")
        ordered = buckets[order]
        cuts = np.flatnonzero(np.diff(ordered)) + 1
        for part, bucket in zip(np.split(numbers[order], cuts), ordered[np.r_[0, cuts]].tolist(), strict=True):
            self._agenda.setdefault(bucket, []).append(part)

    def commit(self, offset: int) -> None:
        super().commit(offset)
        self._undo.clear()

    def rollback(self) -> None:
        super().rollback()
        if not self._undo:
            return
        aside = self._aside
        for step in reversed(self._undo):
            numbers, asked, following = step.asked
            aside.asked[numbers], aside.next[numbers], aside.over[step.gone] = asked, following, False
            for identity, number in reversed(step.numbers):
                if number is None:
                    self._numbers.pop(identity, None)
                else:
                    self._numbers[identity] = number
            aside.count = step.count
        self._undo.clear()
        # The agenda is made anew from what each subscription says itself.
        self._agenda.clear()
        every = np.arange(aside.count)
        waiting = every[~aside.over[: aside.count] & (aside.next[: aside.count] != _NEVER)]
        self._put_off(waiting, max(1, self._every // _GRAIN))


def _plain_type(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
