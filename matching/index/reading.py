"""From publications to pairs: the short ways for few, the ordinary way for batches, and candidates that were found elsewhere. Without
locks: `Index` has those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.matching.index.answers import NO
from pastforward.matching.index.arrow import Layouts, int64_column
from pastforward.matching.index.batch import NEVER_EXPIRES, NO_TIME, Batch
from pastforward.matching.index.checking import answers_of, check
from pastforward.matching.index.deciding import decide
from pastforward.matching.index.linear import scan_all
from pastforward.matching.index.members import Members
from pastforward.matching.index.publications import FromTable, Publications, moment
from pastforward.matching.index.single import One
from pastforward.matching.index.small_batches import ROWS, Few
from pastforward.matching.index.subscription import Identity, Moment

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matches:
    """Pairs, by row: the publication's number in the batch, and the subscription's head slot. `Ids` names them."""

    rows: I32
    slots: I32


class Reading:
    """Matches publications against `members`. It remembers numbers of attributes, so it is made anew when members are laid out anew."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._one = One()
        self._few = Few()
        self._layouts = Layouts()

    def one(
        self, attributes: Mapping[str, object], published_at: Moment | None, expires_at: Moment | None
    ) -> list[Identity] | None:
        """The short way for one plain publication at the root; None if it has to go the ordinary way."""
        members = self._members
        registry = members.registry
        auto = members.auto
        if auto is None or members.relaxed_slots or registry.has_disjunctions:
            return None
        when = NO_TIME if published_at is None else moment(published_at)
        until = NEVER_EXPIRES if expires_at is None else moment(expires_at)
        slots = self._one.slots(registry, auto.blocks_address, attributes, when, until)
        return None if slots is None else members.ids.names(registry.slots.ids[slots])

    def table(self, table: pa.Table) -> pa.Table:
        """`row` and `subscription_id`, sorted by row."""
        members = self._members
        auto = members.auto if table.num_rows <= ROWS else None
        if auto and not (members.ids.are_texts or members.relaxed_slots or members.registry.has_disjunctions):
            quick = self._few.match(table, members.registry, self._layouts, auto.blocks_address)
            if quick is not None:
                return quick
        found = self.matches(FromTable(table, members.registry, self._layouts))
        columns = [int64_column(found.rows.astype(np.int64)), members.ids.column(found.slots)]
        return pa.Table.from_arrays(columns, names=["row", "subscription_id"])

    def matches(self, publications: Publications) -> Matches:
        """The ordinary way: candidates, verified; each pair of publication and subscription once."""
        members = self._members
        registry = members.registry
        if members.auto is not None and not members.relaxed_slots:
            rows, slots, answers, unsure = members.auto.matches(publications.address, publications.rows)
        else:
            rows, slots = self._candidates(publications.batch)
            if not len(rows):
                return Matches(rows, slots)
            rows, slots, answers, unsure = check(
                registry.known_at, publications.address, rows, slots, len(registry.names)
            )
        if unsure:
            decide(registry, publications, rows, slots, answers)
            keep = answers != NO
            rows, slots = rows[keep], slots[keep]
        if not registry.has_disjunctions and publications.one_row_each:
            rows = publications.batch.publication[rows] if publications.renumbered else rows
        else:
            pairs = (publications.batch.publication[rows].astype(np.int64) << 32) | registry.slots.head[slots]
            pairs = np.unique(pairs)
            rows, slots = (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
        return Matches(rows, slots)

    def pairs(
        self, publications: Publications, rows: I64, subscription_ids: Sequence[Identity] | I64
    ) -> npt.NDArray[np.bool_]:
        """Which pairs match: publication `rows[i]` with the i-th subscription."""
        registry = self._members.registry
        heads = self._members.ids.heads(subscription_ids)
        # a publication has a row for each disjunct that it publishes, a subscription a slot for each of its own
        pair, batch_rows = _each_of(publications.batch.publication, np.asarray(rows, np.int64))
        pair, batch_rows = pair[heads[pair] >= 0], batch_rows[heads[pair] >= 0]
        slots = heads[pair]
        if registry.has_disjunctions:
            known = np.unique(slots)
            several = [registry.slots_of(np.array([head], np.int32)) for head in known.tolist()]
            owner = np.repeat(known, [len(some) for some in several])
            at, slot_at = _each_of(owner, slots)
            slots = np.concatenate(several)[slot_at] if several else slots
            pair, batch_rows = pair[at], batch_rows[at]
        answer = np.zeros(len(heads), np.bool_)
        if len(pair):
            fits = self._fit(publications, batch_rows.astype(np.int32), slots.astype(np.int32))
            answer[pair[fits]] = True
        return answer

    def _candidates(self, batch: Batch) -> tuple[I32, I32]:
        members = self._members
        found = [(np.empty(0, np.int32), np.empty(0, np.int32))]
        if members.registry.slots_in_use > members.relaxed_slots:
            if not members.algorithm.takes_conditions and (batch.vague.any() or (batch.low != batch.high).any()):
                found.append(scan_all(members.registry, batch, relaxed=False))
            else:
                found.append(members.algorithm.candidates(batch))
        if members.relaxed_slots:
            found.append(members.relaxed.candidates(batch))
        return np.concatenate([rows for rows, _ in found]), np.concatenate([slots for _, slots in found])

    def _fit(self, publications: Publications, rows: I32, slots: I32) -> npt.NDArray[np.bool_]:
        """Which candidates match, exactly. Rows and slots in any order."""
        registry = self._members.registry
        answers = answers_of(registry.known_at, publications.address, rows, slots, len(registry.names))
        decide(registry, publications, rows, slots, answers)
        fits: npt.NDArray[np.bool_] = answers != NO
        return fits


def _each_of(owner: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> tuple[I64, I64]:
    """Every place in `owner`, which ascends, that has `wanted[i]`: i and the place."""
    low, high = np.searchsorted(owner, wanted, "left"), np.searchsorted(owner, wanted, "right")
    count = high - low
    number = np.repeat(np.arange(len(wanted)), count)
    place = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return number, place
