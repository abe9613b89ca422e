"""Searches of the past that go on behind the chunk that began them, a part at a time.

Whatever comes meanwhile, a search decides as of its subscriptions' places in the log: it has a snapshot of the store (`state.search`), and
subscriptions, conditions and log times of its own. What is notified of a part leaves in one transaction with a note in the changelog that
says which pairs these were; when the search has come to its end, its notes are deleted. A restart or a rebuild reaches the subscription's
place in the log again, makes the search anew, and leaves out the pairs that the notes have: so it does not depend on the order in which a
store finds them. Until the search has ended the store is not made durable beyond that place (`Engine.commit`).

A note's key: `KEY`, the offset of the chunk in the rendezvous log (u64), its number (u32). Its value: a line of JSON, and behind it row of
`versions` and where the publication came from, of each pair (int64, little-endian, one column after the other).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from pastforward.schemas import Version, decode_rendezvous_chunk
from pastforward.streams.matcher.effects import Effects
from pastforward.streams.matcher.memory_index import MemoryIndex
from pastforward.streams.matcher.past import Known, Parts, Told, decide
from pastforward.streams.matcher.records import flags_of, version_at
from pastforward.streams.matcher.subscribers import Subscribers
from pastforward.streams.stages.guard import in_halves

Rows = npt.NDArray[np.int64]

KEY: Final = b"\0past"  # no id holds a zero byte
NOTED: Final = 1 << 14  # pairs of a note: 400 KB, below what the changelog takes in one record
ROWS: Final = 1_000  # subscriptions of a note
COVERS: Final = 512 << 10  # bytes of those that they overlap, and of where pauses began, unless one alone has more
CUT: Final = 32  # bytes of where a pause began in one partition, at most

# A partition under way with so much takes no further subscription until one of its searches has ended; publications go on.
MOST_SEARCHES: Final = 32
MOST_SUBSCRIPTIONS: Final = 20_000


@dataclass(slots=True)
class Refused:
    """A subscription whose search was given up, and why."""

    offset: int
    value: bytes
    error: Exception


@dataclass(slots=True)
class Asked:
    """Subscriptions that search, by row: their records, and what was true when they came. `offsets`: in the rendezvous log. `resumed`: of
    those that ended a pause, what had been seen when it began."""

    values: list[bytes]
    offsets: list[int]
    log_time: Rows
    horizon: Rows
    overlapping: dict[int, list[bytes]]
    resumed: dict[int, dict[int, int]]


class _Holding:
    """Subscriptions of a search: those of the partition may be replaced meanwhile."""

    def __init__(self, number: int, version: int, values: list[bytes], in_memory: bool) -> None:
        self.number, self.version = number, version
        self.subscribers = Subscribers()
        columns = decode_rendezvous_chunk(values)
        rows = np.arange(len(values))
        names = [name or b"" for name in columns.id]
        handles = self.subscribers.take(columns, rows, names, flags_of(columns, rows, version))
        assert handles == rows.tolist()
        self.index = MemoryIndex(number, "linear") if in_memory else None
        if self.index is not None:
            self.index.add(columns, rows, rows)
        self.versions = [version_at(columns, row) for row in range(len(values))]


class PastSearch:
    """`row_of`: by row of the store's operations, the row in `asked`; -1: not of this search."""

    def __init__(
        self,
        holding: _Holding,
        parts: Parts,
        row_of: Rows,
        asked: Asked,
        amended: Mapping[bytes, bytes],
        known: Known | None,
        number: int = 0,
    ) -> None:
        self.engine, self.asked = holding, asked
        self.values, self.log_time, self.overlapping = asked.values, asked.log_time, asked.overlapping
        self.resumed = asked.resumed
        self.effects = Effects()
        self.recipient = holding.subscribers.recipient[0]
        self._parts, self._row_of, self._amended, self._known = parts, row_of, amended, known
        # the last one: of rows that are not of this search
        self._handle_of = np.append(np.arange(len(asked.values)), -1)
        self.notes: list[bytes] = []
        self._number = number
        self.refused: list[Refused] = []

    @property
    def done(self) -> bool:
        return self._parts.done or not (self._handle_of >= 0).any()

    def close(self) -> None:
        self._parts.close()

    def opened(self, told: Sequence[Told]) -> dict[bytes, bytes | None]:
        """What the changelog is to know before anything else: who searches, and what their chunk has notified already."""
        asked = self.asked
        notes: dict[bytes, bytes | None] = {}
        covers = {
            row: [base64.b64encode(payload).decode() for payload in payloads]
            for row, payloads in asked.overlapping.items()
        }
        begin = 0
        while begin < len(asked.values):
            end, size = begin, 0
            while end < len(asked.values) and end - begin < ROWS and (end == begin or size < COVERS):
                size += sum(map(len, covers.get(end, ()))) + CUT * len(asked.resumed.get(end, ()))
                end += 1
            head = {
                "offsets": asked.offsets[begin:end],
                "log_time": asked.log_time[begin:end].tolist(),
                "horizon": asked.horizon[begin:end].tolist(),
                "covers": {str(row - begin): covers[row] for row in range(begin, end) if row in covers},
                "resumed": {
                    str(row - begin): {str(partition): last for partition, last in asked.resumed[row].items()}
                    for row in range(begin, end)
                    if row in asked.resumed
                },
            }
            notes |= self._note(list(range(begin, end)), head, Told(*np.empty((2, 0), np.int64)))
            begin = end
        for some in told:
            notes |= self._noted(some)
        return notes

    def _noted(self, told: Told) -> dict[bytes, bytes | None]:
        notes: dict[bytes, bytes | None] = {}
        for begin in range(0, len(told.row), NOTED):
            row, origin = (column[begin : begin + NOTED] for column in told)
            rows, places = np.unique(row, return_inverse=True)
            notes |= self._note(rows.tolist(), {}, Told(places.astype(np.int64), origin))
        return notes

    def _note(self, rows: list[int], head: dict[str, Any], told: Told) -> dict[bytes, bytes | None]:
        key = KEY + self.asked.offsets[0].to_bytes(8, "big") + self._number.to_bytes(4, "big")
        self._number += 1
        self.notes.append(key)
        versions = [astuple(self.engine.versions[row]) for row in rows]
        line = orjson.dumps({"versions": versions, **head})
        return {key: b"\n".join([line, np.concatenate(told).astype("<i8").tobytes()])}

    def step(self) -> Effects:
        """The next part. A subscription that it fails on is given up, and the others go on."""
        self.effects = Effects()
        part = self._parts.take()
        told: list[Told] = []
        if part is not None and len(part.row):
            rows = self._row_of[part.row]

            def search(some: Sequence[int]) -> None:
                handle_of = np.full_like(self._handle_of, -1)
                handle_of[list(some)] = self._handle_of[list(some)]
                before = len(self.effects.pairs)
                try:
                    told.append(decide(self, part, rows, handle_of, self._amended, self._known))
                except BaseException:
                    del self.effects.pairs[before:]
                    raise

            in_halves(search, self._refuse, np.unique(rows[rows >= 0]).tolist())
        if self.done:
            self.effects.live.update(dict.fromkeys(self.notes))
            self.close()
        else:
            for some in told:
                self.effects.live.update(self._noted(some))
        return self.effects

    def _refuse(self, row: int, error: Exception) -> None:
        self._handle_of[row] = -1
        self.refused.append(Refused(self.asked.offsets[row], self.values[row], error))


@dataclass(slots=True)
class Resuming:
    """What the notes in a changelog say: `known` by version what it has notified, `places` by offset in the rendezvous log what was true of
    the subscription there."""

    notes: list[bytes] = field(default_factory=list)
    known: dict[Version, Rows] = field(default_factory=dict)
    places: dict[int, tuple[Version, int, int, list[bytes], dict[int, int]]] = field(default_factory=dict)

    @classmethod
    def read(cls, notes: Mapping[bytes, bytes]) -> Resuming:
        found = cls(list(notes))
        told_by: dict[Version, list[Rows]] = {}
        for value in notes.values():
            line, told = value.split(b"\n", 1)
            head = orjson.loads(line)
            versions = [Version(*version) for version in head["versions"]]
            rows, origins = np.frombuffer(told, "<i8").astype(np.int64).reshape(2, -1)
            for row, version in enumerate(versions):
                told_by.setdefault(version, []).append(origins[rows == row])
            for row, place in enumerate(head.get("offsets", ())):
                covers = [base64.b64decode(text) for text in head["covers"].get(str(row), ())]
                cut = {int(partition): last for partition, last in head.get("resumed", {}).get(str(row), {}).items()}
                found.places[place] = versions[row], head["log_time"][row], head["horizon"][row], covers, cut
        found.known = {version: np.concatenate(some) for version, some in told_by.items()}
        return found

    @property
    def number(self) -> int:
        """Above those of all notes."""
        return 1 + max((int.from_bytes(key[-4:], "big") for key in self.notes), default=-1)

    @property
    def log_time(self) -> int | None:
        """When the first of them came."""
        return min((log_time for _, log_time, *_ in self.places.values()), default=None)

    def known_by(self, versions: Sequence[Version], horizon: Rows) -> Known:
        return Known([self.known[version] for version in versions], horizon)


class Searches:
    """Those of a partition. Of each subscriber the first one goes on; subscribers take turns."""

    def __init__(self) -> None:
        self._waiting: list[PastSearch] = []
        self._served: list[bytes] = []  # subscribers, the last one served at the end
        self._added = 0
        self.inherited: list[bytes] = []  # notes of a worker before, until all that they speak of has ended

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """Those that are not behind another one of the same subscriber."""
        return len({search.recipient for search in self._waiting})

    @property
    def full(self) -> bool:
        subscriptions = sum(len(search.values) for search in self._waiting)
        return len(self) >= MOST_SEARCHES or subscriptions >= MOST_SUBSCRIPTIONS

    @property
    def since(self) -> int | None:
        """The log time when the first of them came."""
        return min((int(search.log_time[0]) for search in self._waiting), default=None)

    def begin(self) -> None:
        self._added = 0

    def add(self, search: PastSearch) -> None:
        self._waiting.append(search)
        self._added += 1

    def undo(self) -> None:
        for _ in range(self._added):
            self._waiting.pop().close()
        self._added = 0

    def step(self) -> tuple[Effects, list[Refused]]:
        """A part of the search whose subscriber has waited longest."""
        firsts: dict[bytes, PastSearch] = {}
        for search in self._waiting:
            firsts.setdefault(search.recipient, search)
        recipient = min(firsts, key=lambda name: self._served.index(name) if name in self._served else -1)
        search = firsts[recipient]
        self._served = [name for name in self._served if name in firsts and name != recipient] + [recipient]
        effects = search.step()
        refused, search.refused = search.refused, []
        if search.done:
            self._waiting.remove(search)
            if not self._waiting:
                effects.live.update(dict.fromkeys(self.inherited))
                self.inherited = []
        return effects, refused

    def close(self) -> None:
        for search in self._waiting:
            search.close()
        self._waiting.clear()


def make_search(
    number: int,
    version: int,
    in_memory: bool,
    parts: Parts,
    row_of: Rows,
    asked: Asked,
    amended: Mapping[bytes, bytes],
    resuming: Resuming | None,
) -> PastSearch:
    holding = _Holding(number, version, asked.values, in_memory)
    known = None if resuming is None else resuming.known_by(holding.versions, asked.horizon)
    first = 0 if resuming is None else resuming.number
    return PastSearch(holding, parts, row_of, asked, amended, known, first)
