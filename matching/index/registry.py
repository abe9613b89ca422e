"""Every subscription the index holds: ids, records, strings and topics. Algorithms see slots, one per disjunct.

One writer. A slot keeps its number until its subscription is removed; then it is used again. The first slot of a subscription is its
head; `following` leads from the head through the other disjuncts. Ids are 64-bit integers, or strings, not both: a string is its
number in `id_strings`.
"""

from __future__ import annotations

from sys import getsizeof
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import Pinned, pin
from pastforward.columns.growing import longer
from pastforward.matching.conditions.normal_form import PREVIOUS, Constraint
from pastforward.matching.conditions.predicates import checked_name
from pastforward.matching.index import records as r
from pastforward.matching.index.memory import size_of
from pastforward.matching.index.places import AXES, add_ranges, axes_wanted
from pastforward.matching.index.records import (
    AXIS,
    GEOMETRY,
    INCLUDED,
    LIKE,
    PYTHON,
    Parts,
    RecordView,
    checked_parts,
)
from pastforward.matching.index.renumbering import Numbers, renumber, used_attributes, words_of
from pastforward.matching.index.slots import (
    CELLS,
    FREE_SLOTS,
    FREE_WORDS,
    SIZE_LISTS,
    SLOTS,
    SUBSCRIPTIONS,
    WORDS,
    SlotView,
    Space,
    add_slots,
    all_slots,
    collect_held,
    drop_slots,
    find_heads,
    measure_parts,
    rebuild_table,
)
from pastforward.matching.index.strings import Strings
from pastforward.matching.index.topics import Topics
from pastforward.matching.index.verification import Known

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


# Names of axes begin like no attribute's: a zero byte.
OF_AXIS: Final = "\0"
_AXIS_NAMES: Final = ("longitude", "latitude", "opposite longitude")
_PER_SLOT: Final = (
    8 + 4 * 4 + 4 + 6
)  # ids, head, following, offset, the list of free ones, where it is in an algorithm, cells


_NO_NUMBERS: Final = np.empty(0, np.int32)
_NOTHING: Final = (_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS)


def _same_arrays(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(_same_arrays(a, b) if isinstance(a, tuple) else a is b for a, b in zip(one, other, strict=True))


class Registry:
    known: Known  # what kernels are shown

    def __init__(self) -> None:
        self.strings = Strings()
        self.topics = Topics()
        self.id_strings = Strings()
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []
        self.python: list[Constraint | None] = []
        self.longest = 1  # parts of a record, at most
        self.has_disjunctions = False
        self.has_keyed = False  # lists, or patterns that are not prefixes
        self._sorts = np.zeros(64, np.uint8)
        self._axes = np.zeros(0, np.int32)
        self._free_python: list[int] = []
        self._python_bytes = 0
        self._name_bytes = 0
        self._state = np.zeros(6, np.int64)
        self._state[WORDS] = 2  # an offset of 0 is an empty slot
        self._free_records = np.zeros(SIZE_LISTS, np.int64)
        self._free_slots = np.zeros(64, np.int32)
        self._offset = np.zeros(64, np.uint32)
        self._words = np.zeros(1024, np.uint32)
        self.slots = SlotView(
            np.zeros(64, np.int64), np.zeros(64, np.int32), np.zeros(64, np.int32), np.zeros(256, np.int32)
        )
        self._pinned: Pinned | None = None
        self._see()

    def __len__(self) -> int:
        """Subscriptions."""
        return int(self._state[SUBSCRIPTIONS])

    @property
    def slot_limit(self) -> int:
        """All slots in use are below this."""
        return int(self._state[SLOTS])

    @property
    def slots_in_use(self) -> int:
        return int(self._state[SLOTS] - self._state[FREE_SLOTS])

    @property
    def nbytes(self) -> int:
        """Of all arrays, what is spare included, of names, and of the constraints that Python decides."""
        arrays = (*self.slots, self._offset, self._words, self._free_slots, self._free_records, self._sorts, self._axes)
        texts = self.strings.nbytes + self.topics.nbytes + self.id_strings.nbytes
        python = getsizeof(self.python) + getsizeof(self._free_python) + self._python_bytes
        names = getsizeof(self.numbers) + getsizeof(self.names) + self._name_bytes
        return sum(array.nbytes for array in arrays) + texts + python + names

    def number(self, name: str) -> int:
        """Of an attribute, given now if it is new."""
        found = self.numbers.get(name)
        if found is not None:
            return found
        checked_name(name)
        found = self._numbered(name, r.OF_PREVIOUS if name.startswith(PREVIOUS) else 0)
        self.numbers[name] = found
        self._see()
        return found

    def axes_of(self, attribute: int) -> list[tuple[int, int]]:
        """The axes of an attribute's places that subscriptions ask about, and the numbers of these."""
        if AXES * attribute >= len(self._axes):
            return []
        places = self._axes[AXES * attribute : AXES * (attribute + 1)].tolist()
        return [(axis, number) for axis, number in enumerate(places) if number]

    @property
    def has_axes(self) -> bool:
        return len(self._axes) > 0

    def _numbered(self, name: str, sort: int) -> int:
        found = len(self.names)
        if found >= r.MAX_ATTRIBUTES:
            raise ValueError(f"more than {r.MAX_ATTRIBUTES} attribute names; {name!r} is one too many")
        if found >= len(self._sorts):
            self._sorts = longer(self._sorts, 2 * found)
        self._sorts[found] = sort
        self.names.append(name)
        self._name_bytes += getsizeof(name)
        return found

    def _with_ranges(self, parts: Parts) -> Parts:
        """With the ranges by which tests of places are found."""
        if not (parts.kind == GEOMETRY).any():
            return parts
        parts = checked_parts(parts)
        pinned = pin(parts)
        wanted = np.zeros(AXES * len(self.names), np.uint8)
        added = int(axes_wanted(pinned.address, wanted))
        if not added:
            return parts
        if len(self._axes) < len(wanted):
            self._axes = longer(self._axes, len(wanted))
        for place in np.flatnonzero(wanted).tolist():
            if not self._axes[place]:
                attribute, axis = divmod(place, AXES)
                name = f"{OF_AXIS}{_AXIS_NAMES[axis]} of {self.names[attribute]}"
                self._axes[place] = self._numbered(name, int(self._sorts[attribute]) | AXIS)
        count = len(parts.kind) + added
        out = parts._replace(
            start=np.empty_like(parts.start),
            attribute=np.empty(count, np.int32),
            kind=np.empty(count, np.uint8),
            flags=np.empty(count, np.uint8),
            low=np.empty(count, np.int64),
            high=np.empty(count, np.int64),
        )
        add_ranges(pinned.address, self._axes, pin(out).address)
        return out

    def _moved_axes(self, used: U8, attribute: I32) -> I32:
        """When attributes get new numbers: those that are not `used` have none."""
        axes = np.zeros(0, np.int32)
        for place in np.flatnonzero(self._axes).tolist():
            old, axis = divmod(place, AXES)
            number = int(self._axes[place])
            if used[number]:
                new = AXES * int(attribute[old]) + axis
                axes = longer(axes, AXES * (int(attribute[old]) + 1)) if new >= len(axes) else axes
                axes[new] = attribute[number]
        return axes

    def add(self, parts: Parts, identities: I64, first: I64, python: list[Constraint]) -> I32:
        """Registers subscriptions whose ids are not known; returns their slots, in the order of `parts`."""
        parts = self._with_ranges(parts)
        count = len(parts.start) - 1
        per_slot = np.diff(parts.start)
        most = int(per_slot.max(initial=0))
        if most > r.MAX_PARTS:
            raise ValueError(f"a disjunct of {most} predicates; at most {r.MAX_PARTS} are possible")
        if python:
            self._keep_python(parts, python)
        pinned = pin(checked_parts(parts))
        words, longest = measure_parts(pinned.address)
        self._reserve(count, len(identities), words)
        self.longest = max(self.longest, most)
        self.has_disjunctions |= count > len(identities)
        self.has_keyed |= bool(np.isin(parts.kind, (INCLUDED, r.SUFFIX, r.SUBSTRING, LIKE)).any())
        out = np.empty(count, np.int32)
        add_slots(self.slots, self._space, pinned.address, identities, first, np.empty(longest, np.uint32), out)
        self._see()
        return out

    @property
    def _space(self) -> Space:
        return self._offset, self._words, self._free_records, self._free_slots, self._state

    @property
    def free_words(self) -> int:
        return int(self._state[FREE_WORDS])

    @property
    def wasted(self) -> int:
        """Bytes of slots, records, strings and topics that nobody uses."""
        records = _PER_SLOT * int(self._state[FREE_SLOTS]) + 4 * int(self._state[FREE_WORDS])
        return records + self.strings.wasted + self.topics.wasted + self.id_strings.wasted

    def attributes_used(self) -> int:
        """How many attributes subscriptions name. Looks at every record."""
        return int(self._used().sum())

    def _used(self) -> U8:
        used = np.zeros(len(self.names), np.uint8)
        used_attributes(self._words, self._offset, self.slot_limit, used)
        return used

    def compact(self, text_ids: bool) -> I32:
        """Numbers slots, attributes, strings and topics without gaps, in the same order; returns all slots. Whoever keeps such a number
        has to begin anew."""
        kept = np.flatnonzero(self._offset[: self.slot_limit]).astype(np.int32)
        slot = np.full(self.slot_limit + 1, -1, np.int32)  # and one more: no slot stays no slot
        slot[kept] = np.arange(len(kept), dtype=np.int32)
        used = self._used()
        attribute = (np.cumsum(used) - 1).astype(np.int32)
        numbered = np.array([constraint is not None for constraint in self.python], np.int32)
        python = (np.cumsum(numbered) - 1).astype(np.int32)
        string, topic = self.strings.compact(), self.topics.compact()
        words = np.zeros(max(2 + int(words_of(self._words, self._offset, kept)), 1024), np.uint32)
        room = max(len(kept), 64)
        offset = np.zeros(room, np.uint32)
        end = renumber(self._words, self._offset, kept, words, offset, Numbers(attribute, string, topic, python))
        ids = self.slots.ids[kept]
        if text_ids:
            ids = self.id_strings.compact()[ids].astype(np.int64)
        cells = 256
        while 2 * cells < 3 * len(self) + cells // 4:
            cells *= 2
        self.slots = SlotView(
            longer(ids, room),
            longer(slot[self.slots.head[kept]], room),
            longer(slot[self.slots.following[kept]], room),
            np.zeros(cells, np.int32),
        )
        self._words, self._offset, self._free_slots = words, offset, np.zeros(room, np.int32)
        self._free_records[:] = 0
        self.python = [constraint for constraint in self.python if constraint is not None]
        self._free_python = []
        self.names = [name for name, named in zip(self.names, used.tolist(), strict=True) if named]
        self.numbers = {name: number for number, name in enumerate(self.names) if not name.startswith(OF_AXIS)}
        self._axes = self._moved_axes(used, attribute)
        self._name_bytes = sum(map(getsizeof, self.names))
        sorts = self._sorts[: len(used)]
        self._sorts = np.zeros(max(len(self.names), 64), np.uint8)
        self._sorts[: len(self.names)] = sorts[used != 0]
        self.has_disjunctions = len(kept) > len(self)
        self._state[[SLOTS, FREE_SLOTS, WORDS, FREE_WORDS]] = len(kept), 0, end, 0
        self._state[CELLS] = rebuild_table(self.slots, self._offset, len(kept))
        self._see()
        return np.arange(len(kept), dtype=np.int32)

    def find(self, identities: I64) -> I32:
        """The heads of subscriptions, -1 for unknown ids."""
        out = np.empty(len(identities), np.int32)
        find_heads(self.slots, identities, out)
        return out

    def slots_of(self, heads: I32) -> I32:
        if not self.has_disjunctions:
            return heads[heads >= 0]
        out: I32 = all_slots(self.slots, heads)
        return out

    def drop(self, slots: I32) -> None:
        """Forgets whole subscriptions, given by all their slots."""
        counts = np.zeros(3, np.int64)
        collect_held(self._words, self._offset, slots, _NOTHING, counts)
        if counts.any():
            strings, topics, python = (np.empty(n, np.int32) for n in counts.tolist())
            collect_held(self._words, self._offset, slots, (strings, topics, python), counts)
            self.strings.release(strings)
            self.topics.release(topics)
            for number in python.tolist():
                self._python_bytes -= size_of(self.python[number])
                self.python[number] = None
                self._free_python.append(number)
        drop_slots(self.slots, self._space, slots)

    def _known(self) -> Known:
        return Known(
            RecordView(self._offset, self._words), self.strings.view, self.topics.view, self._sorts, self._axes
        )

    def _see(self) -> None:
        """What kernels are shown follows the arrays."""
        known = self._known()
        if self._pinned is not None and _same_arrays(known, self.known):
            return
        self.known = known
        self._pinned = pin(self.known)
        self.known_at = self._pinned.address

    def _keep_python(self, parts: Parts, python: list[Constraint]) -> None:
        """Gives Python's constraints their numbers, in the order in which `parts` counts them from 0."""
        given = []
        for constraint in python:
            self._python_bytes += size_of(constraint)
            if self._free_python:
                number = self._free_python.pop()
                self.python[number] = constraint
            else:
                number = len(self.python)
                self.python.append(constraint)
            given.append(number)
        chosen = parts.kind == PYTHON
        parts.low[chosen] = np.array(given, np.int64)[parts.low[chosen]]

    def _reserve(self, slots: int, subscriptions: int, words: int) -> None:
        used = int(self._state[SLOTS])
        need = used + max(0, slots - int(self._state[FREE_SLOTS]))
        view = self.slots
        if need > len(view.ids):
            # an eighth more, so that the first small write after a large one does not copy everything
            room = max(need + need // 8, used + used // 2)
            view = SlotView(longer(view.ids, room), longer(view.head, room), longer(view.following, room), view.table)
            self._offset = longer(self._offset, room)
            self._free_slots = longer(self._free_slots, room)
        end = int(self._state[WORDS]) + words
        if end > len(self._words):
            self._words = longer(self._words, max(end, len(self._words) + len(self._words) // 2))
        # at most two thirds full
        if 3 * (int(self._state[CELLS]) + subscriptions) > 2 * len(view.table):
            cells = 256
            while 2 * cells < 3 * (len(self) + subscriptions) + cells // 4:
                cells *= 2
            view = view._replace(table=np.zeros(cells, np.int32))
            self._state[CELLS] = rebuild_table(view, self._offset, used)
        self.slots = view
