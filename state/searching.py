"""A search of the past, over the index that is open and the slices: see `state.search`.

It keeps the slices that there were when it was made, and of what its subscriptions look for no more than a few numbers each. Which
publications came before a subscription is told by their positions in the log, so that what comes later does no harm.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from pastforward.columns import dewey
from pastforward.state import blocks, operations
from pastforward.state.filtering import Columns, Tests
from pastforward.state.found import Past
from pastforward.state.found import table as tabulate
from pastforward.state.kernels import chunk, gather, records
from pastforward.state.kernels.records import Array, Found, Notes, Operations
from pastforward.state.keys import encode_topic
from pastforward.state.memory import Index
from pastforward.state.publications import Publications
from pastforward.state.sealing import Dense, cut, payloads_of
from pastforward.state.search import PIECES, Filter, Limits
from pastforward.state.slices import ARRIVED, OTHER, SEQUENCE, TIME, Slice, Times, Values

_ROOM: Final = 1 << 16
_TOGETHER: Final = 1 << 22
"""Pairs in the open index that are sorted by publication, so that one that several subscriptions have found comes once."""

FEW = 256
"""Publications in the open index that a question has found are not tested if they are fewer: to verify them is cheaper."""


class Hits(NamedTuple):
    """What a block has: pairs of a question and one of `size` publications. `payloads` gives bytes and ends; `items` indexes
    with items and their places among the publications."""

    question: Array
    publication: Array
    size: int
    payloads: Callable[[], tuple[Array, Array]]
    items: Callable[[], list[tuple[Index, Array, Array]]]


class _Question(NamedTuple):
    paths: list[bytes]
    above: bool
    low: int  # of published_at
    starts: int
    ends: int
    valid: bool
    log_time: int
    horizon: int
    bound: int  # its position in the log
    tests: Tests


class PastSearch:
    """`rows`: of the questions, in the table they came in."""

    def __init__(
        self,
        publications: Publications,
        questions: Operations,
        rows: Array,
        filters: Mapping[int, Filter] | None,
        everything: Filter,
    ) -> None:
        self._publications = publications
        self._columns = questions
        self._rows = rows
        self._questions = _read(questions, rows, filters, everything)
        self._index: Index | None = publications.open
        """Stays as it is if it is sealed meanwhile, but for what came later."""
        self._slices = publications.slices[::-1]
        self._replaced = publications.replaced
        self.blocks_read = 0
        self.done = not len(rows)
        self._steps: Iterator[Hits | None] | None = None if self.done else self._all()
        if not self.done:
            publications.searches.add(self)

    @property
    def families(self) -> set[str]:
        """Those that it may still read."""
        return set() if self.done else {held.family.name for held in self._slices}

    def close(self) -> None:
        self.done = True
        self._steps = None
        self._index = None
        self._slices = []
        self._publications.searches.discard(self)

    def take(self, limits: Limits | None = None) -> Past | None:
        limits = limits or PIECES
        if self._steps is None:
            return None
        questions, places, data, ends = [], [], [], [np.zeros(1, np.int64)]
        publications = nbytes = pairs = 0
        read = self.blocks_read
        while (
            self.blocks_read - read < limits.blocks
            and publications < limits.publications
            and nbytes < limits.nbytes
            and pairs < limits.pairs
        ):
            try:
                hits = next(self._steps)
            except StopIteration:
                self.close()
                break
            if hits is None:
                continue
            some, at = hits.payloads()
            questions.append(self._rows[hits.question])
            places.append(hits.publication + publications)
            data.append(some)
            ends.append(at[1:] + nbytes)
            publications += hits.size
            nbytes += len(some)
            pairs += len(hits.question)
        if not questions:
            none = np.empty(0, np.int64)
            return None if self.done else Past(none, none, np.empty(0, np.uint8), np.zeros(1, np.int64))
        return Past(np.concatenate(questions), np.concatenate(places), np.concatenate(data), np.concatenate(ends))

    def table(self, columns: tuple[str, ...]) -> list[Any]:
        """All of it as `Store.apply` gives it, in parts."""
        parts = []
        for hits in self._steps or ():
            if hits is None:
                continue
            for index, items, places in hits.items():
                position = np.full(hits.size, -1, np.int64)
                position[places] = np.arange(len(places))
                at = position[hits.publication]
                mine = at >= 0
                rows = self._rows[hits.question[mine]]
                parts.append(tabulate(index.memory, rows, items[at[mine]], columns))
        self.close()
        return parts

    def _all(self) -> Iterator[Hits | None]:
        if self._index is not None:
            yield from self._in_index(self._index)
        self._index = None
        while self._slices:
            first = self._slices[0]
            yield from self._in_slice(first)
            self._slices = self._slices[1:]

    # In the open index.

    def _in_index(self, index: Index) -> Iterator[Hits | None]:
        row = 0
        found = _room(_ROOM)
        while row < len(self._columns.kind):
            rows, items, total = [], [], 0
            while row < len(self._columns.kind) and total < _TOGETHER:
                following, count = chunk.past_rows(index.memory, self._columns, row, found)
                if following == row:
                    found = _room(2 * len(found.row))
                    continue
                row = following
                rows.append(found.row[:count].copy())
                items.append(found.item[:count].astype(np.int64))
                total += count
            yield from self._of_items(index, np.concatenate(rows), np.concatenate(items))

    def _of_items(self, index: Index, questions: Array, items: Array) -> Iterator[Hits | None]:
        memory = index.memory
        if len(self._columns.paths) > len(self._columns.topics) or memory.items["many"][items].any():
            # through several topics, of the question or the publication
            sequence = memory.items["sequence"][items]
            order = np.lexsort((sequence, questions))
            new = np.diff(sequence[order], prepend=-1) != 0
            new |= np.diff(questions[order], prepend=-1) != 0
            keep = np.sort(order[new])
            questions, items = questions[keep], items[keep]
        order = np.argsort(items, kind="stable")
        questions, items = questions[order], items[order]
        first = np.flatnonzero(np.diff(items, prepend=-1))
        distinct, ends = items[first], np.append(first, len(items))
        at = np.empty(len(distinct) + 1, np.int64)
        gather.byte_offsets(memory, distinct, gather.PAYLOAD, at)
        del memory
        cuts = cut(at, blocks.BLOCK, blocks.BLOCK_BYTES).tolist() if len(distinct) else [0]
        for low, high in itertools.pairwise(cuts):
            pairs = slice(int(ends[low]), int(ends[high]))
            place = np.repeat(np.arange(high - low), np.diff(ends[low : high + 1]))
            yield self._fitting(index, questions[pairs], place, distinct[low:high])

    def _fitting(self, index: Index, questions: Array, place: Array, items: Array) -> Hits | None:
        self.blocks_read += 1
        asking = np.flatnonzero(np.bincount(questions) >= FEW).tolist()
        if not all(self._questions[q].tests.everything for q in asking):
            reader = self._publications.reader
            attributes = None if reader is None else reader(payloads_of(index.memory, items))
            columns = _OfItems(Dense(attributes, len(items)))
            keep = []
            order = np.argsort(questions, kind="stable")
            ends = np.append(np.flatnonzero(np.diff(questions[order], prepend=-1)), len(order)).tolist()
            for low, high in itertools.pairwise(ends):
                mine = order[low:high]
                tests = self._questions[int(questions[mine[0]])].tests
                if high - low >= FEW and not tests.everything:
                    passing = np.zeros(len(items), np.bool_)
                    passing[tests.rows(columns, place[mine])] = True
                    mine = mine[passing[place[mine]]]
                keep.append(mine)
            kept = np.sort(np.concatenate(keep))
            questions, place = questions[kept], place[kept]
            some, place = np.unique(place, return_inverse=True)
            items = items[some]
        if not len(items):
            return None

        def payloads() -> tuple[Array, Array]:
            texts = payloads_of(index.memory, items)
            return texts.heap, np.append(texts.at, len(texts.heap))

        return Hits(questions, place, len(items), payloads, lambda: [(index, items, np.arange(len(items)))])

    # In slices.

    def _in_slice(self, held: Slice) -> Iterator[Hits | None]:
        asked: dict[int, list[int]] = {}
        for q, question in enumerate(self._questions):
            for block in _blocks_for(held, question):
                asked.setdefault(block, []).append(q)
        seen: set[tuple[int, int]] = set()
        for block in sorted(asked):
            self.blocks_read += 1
            yield self._in_block(_Block(held, block), asked[block], seen)

    def _in_block(self, block: _Block, asked: list[int], seen: set[tuple[int, int]]) -> Hits | None:
        held = block.held
        questions, rows = [], []
        for q in asked:
            question = self._questions[q]
            mine = self._in_time(block, question, block.rows_of(question))
            mine = question.tests.rows(block, mine)
            if held.many and len(mine):
                mine = _new(block.times, q, mine, seen)
            if len(mine):
                questions.append(np.full(len(mine), q, np.int64))
                rows.append(mine)
        if not rows:
            return None
        distinct, place = np.unique(np.concatenate(rows), return_inverse=True)
        return Hits(
            np.concatenate(questions),
            place.astype(np.int64),
            len(distinct),
            lambda: held.payloads(block.number, distinct),
            lambda: self._publications.loaded(held, block.number, distinct),
        )

    def _in_time(self, block: _Block, question: _Question, rows: Array) -> Array:
        bounds = block.held.bounds[block.number]
        replaced = len(self._replaced) > 0
        if not replaced and not question.valid and _all_in_time(bounds, question):
            return rows
        times = block.times
        time, other = times.time[rows], times.other[rows]
        fits = (time >= question.low) & (time < question.ends) & (other > question.log_time)
        fits &= (times.arrived[rows] >= question.horizon) & (times.sequence[rows] < question.bound)
        if question.valid:
            fits &= np.maximum(time, question.starts) < np.minimum(other, question.ends)
        if replaced:
            fits &= ~np.isin(times.sequence[rows], self._replaced)
        return rows[fits]


class _OfItems(Columns):
    def __init__(self, dense: Dense) -> None:
        self._dense = dense
        self._at = {name: at for at, name in enumerate(dense.names)}
        self.complete = dense.complete

    def has(self, name: str) -> bool:
        return name in self._at

    def values(self, name: str, *, leading: bool) -> Values:
        at = self._at[name]
        return Values(self._dense.kinds[at], self._dense.bits[at], self._dense.leading[at])


class _Block(Columns):
    """A block that is looked at: each column is read once."""

    def __init__(self, held: Slice, number: int) -> None:
        self.held, self.number = held, number
        self.complete = held.complete
        self._times: Times | None = None
        self._values: dict[tuple[str, bool], Values] = {}

    @property
    def times(self) -> Times:
        if self._times is None:
            self._times = self.held.times(self.number)
        return self._times

    def has(self, name: str) -> bool:
        return name in self.held.attributes

    def values(self, name: str, *, leading: bool) -> Values:
        known = self._values.get((name, leading))
        if known is None:
            known = self._values[name, leading] = self.held.values(self.number, name, leading=leading)
        return known

    def rows_of(self, question: _Question) -> Array:
        held, number = self.held, self.number
        if any(held.within(number, path) for path in question.paths):
            return np.arange(held.count(number))
        spans = set()
        for path in question.paths:
            spans.update(held.spans(number, path, above=question.above, below=True))
        rows = [np.arange(low, high) for low, high in spans]
        if not rows:
            return np.empty(0, np.int64)
        return rows[0] if len(rows) == 1 else np.unique(np.concatenate(rows))


def _blocks_for(held: Slice, question: _Question) -> list[int]:
    if question.paths == [b""]:
        found = np.arange(len(held.first))
    else:
        every: set[int] = set()
        for path in question.paths:
            every.update(held.blocks_of(path, above=question.above, below=True))
        found = np.array(sorted(every), np.int64)
    if not len(found):
        return []
    bounds = held.bounds[found]
    fits = (bounds[:, TIME + 1] >= question.low) & (bounds[:, TIME] < question.ends)
    fits &= (bounds[:, OTHER + 1] > question.log_time) & (bounds[:, ARRIVED + 1] >= question.horizon)
    fits &= bounds[:, SEQUENCE] < question.bound
    found = found[fits]
    if len(found) and not question.tests.everything:
        found = found[question.tests.blocks(held)[found]]
    numbers: list[int] = found.tolist()
    return numbers


def _all_in_time(bounds: Array, question: _Question) -> bool:
    return bool(
        bounds[TIME] >= question.low
        and bounds[TIME + 1] < question.ends
        and bounds[OTHER] > question.log_time
        and bounds[ARRIVED] >= question.horizon
        and bounds[SEQUENCE + 1] < question.bound
    )


def _new(times: Times, question: int, rows: Array, seen: set[tuple[int, int]]) -> Array:
    """Without those that were found in another block of the slice, or at another topic: a publication may stand at several."""
    keep = []
    for row, sequence, flags in zip(
        rows.tolist(), times.sequence[rows].tolist(), times.flags[rows].tolist(), strict=True
    ):
        if flags & records.MANY_ON_DISK:
            if (question, sequence) in seen:
                continue
            seen.add((question, sequence))
        keep.append(row)
    return np.array(keep, np.int64)


def _room(length: int) -> Found:
    return Found(np.empty(length, np.int64), np.empty(length, np.int32), np.empty(0, np.int64))


def questions_of(
    parsed: operations.Parsed, notes: Notes, filters: Mapping[int, Filter] | None
) -> tuple[Array, Operations]:
    """The rows that look for the past, and no more of their table than is needed for that."""
    columns = parsed.columns
    asks = (columns.kind == records.SUBSCRIPTION) | (columns.kind == records.QUESTION)
    if filters is not None:
        mine = np.zeros(len(asks), np.bool_)
        mine[list(filters)] = True
        asks &= mine
    rows = np.flatnonzero(asks)
    counts = columns.topics[rows + 1] - columns.topics[rows]
    topics = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=topics[1:])
    which = _ranges(columns.topics[rows], counts)
    depths = columns.paths[which + 1] - columns.paths[which]
    paths = np.zeros(len(which) + 1, np.int64)
    np.cumsum(depths, out=paths[1:])
    none, nothing = np.empty(0, np.uint8), np.zeros(len(rows), np.int64)
    return rows, Operations(
        kind=columns.kind[rows],
        flags=columns.flags[rows],
        time=columns.time[rows],
        other=columns.other[rows],
        arrived=nothing,
        now=notes.log_time[rows],
        horizon=notes.horizon[rows],
        earlier=nothing,
        id=notes.sequence[rows],
        id_low=nothing,
        id_high=nothing,
        id_bytes=none,
        subscriber_low=nothing,
        subscriber_high=nothing,
        subscriber_bytes=none,
        payload_low=nothing,
        payload_high=nothing,
        payload_bytes=none,
        topics=topics,
        paths=paths,
        components=columns.components[_ranges(columns.paths[which], depths)],
    )


def _ranges(starts: Array, counts: Array) -> Array:
    """Numbers from each start on, one range behind the other."""
    ends = np.cumsum(counts)
    begin = np.repeat(starts - (ends - counts), counts)
    return begin + np.arange(int(ends[-1]) if len(ends) else 0)


def _read(
    columns: Operations, rows: Array, filters: Mapping[int, Filter] | None, everything: Filter
) -> list[_Question]:
    known: dict[Filter, Tests] = {}
    paths = columns.paths.tolist()
    components = columns.components.tolist()
    questions = []
    for q, row in enumerate(rows.tolist()):
        given = everything if filters is None else filters[row]
        tests = known.setdefault(given, Tests(given)) if given not in known else known[given]
        topics = range(int(columns.topics[q]), int(columns.topics[q + 1]))
        texts = [encode_topic(dewey.text_of(tuple(components[paths[t] : paths[t + 1]]))) for t in topics]
        flags, horizon = int(columns.flags[q]), int(columns.horizon[q])
        valid = bool(flags & records.VALID)
        starts = int(columns.other[q])
        questions.append(
            _Question(
                paths=texts,
                above=not flags & records.SUBTREE,
                low=horizon if valid else max(starts, horizon),
                starts=starts,
                ends=int(columns.time[q]),
                valid=valid,
                log_time=int(columns.now[q]),
                horizon=horizon,
                bound=int(columns.id[q]),
                tests=tests,
            )
        )
    return questions
