"""From conditions in normal form to the parts of records."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from matching import records as r
from matching.attributes import FLOAT, INTEGER
from matching.families import path_text
from matching.keys import (
    BOOLEAN_KEY,
    GEOMETRY_KEY,
    NUMBER_KEY,
    PATH_KEY,
    STRING_KEY,
    TIMESTAMP_KEY,
    boolean_key,
    first_key,
    last_key,
    number_key,
    path_key,
    string_key,
    timestamp_key,
)
from matching.normal_form import Constant, Constraint, Disjunct, Family, Pattern, PatternKind
from matching.strings import Strings

_KEY_OF_FAMILY: Final = {
    Family.BOOLEAN: BOOLEAN_KEY,
    Family.NUMBER: NUMBER_KEY,
    Family.STRING: STRING_KEY,
    Family.TIMESTAMP: TIMESTAMP_KEY,
    Family.PATH: PATH_KEY,
    Family.GEOMETRY: GEOMETRY_KEY,
}
_FAST_PATTERNS: Final = {
    PatternKind.PREFIX: r.PREFIX,
    PatternKind.SUFFIX: r.SUFFIX,
    PatternKind.SUBSTRING: r.SUBSTRING,
}


def float_bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def constant_key(family: Family, constant: Constant) -> int:
    """The order key of a constant of the normal form."""
    if family is Family.BOOLEAN:
        return int(boolean_key(bool(constant)))
    if family is Family.NUMBER:
        if isinstance(constant, int):
            return int(number_key(INTEGER, constant))
        return int(number_key(FLOAT, float_bits(constant)))  # type: ignore[arg-type]
    if family is Family.TIMESTAMP:
        return int(timestamp_key(constant))
    if family is Family.GEOMETRY:
        return int(first_key(GEOMETRY_KEY))
    text = (path_text(constant) if isinstance(constant, tuple) else str(constant)).encode()
    heap = np.frombuffer(text + b"\0", np.uint8).copy()
    return int(path_key(heap, 0, len(text)) if family is Family.PATH else string_key(heap, 0, len(text)))


def hull(constraint: Constraint) -> tuple[int, int]:
    """Order keys that hold all values of a constraint."""
    family = constraint.family
    if family is Family.NULL or family is Family.ANY:
        return 0, 2**64 - 1
    if constraint.included is not None:
        keys = [constant_key(family, constant) for constant in constraint.included]
        return min(keys), max(keys)
    key = _KEY_OF_FAMILY[family]
    low = int(first_key(key)) if constraint.low is None else constant_key(family, constraint.low)
    high = int(last_key(key)) if constraint.high is None else constant_key(family, constraint.high)
    return low, high


def signed(key: int) -> int:
    """The same 64 bits as a signed number."""
    return key - 2**64 if key >= 2**63 else key


class PartsBuilder:
    """Collects disjuncts and hands them over as `Parts`. Strings are interned, and so held, as they come."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._start = [0]
        self._attribute: list[int] = []
        self._kind: list[int] = []
        self._flags: list[int] = []
        self._low: list[int] = []
        self._high: list[int] = []
        self._items: list[int] = []
        self._topic: list[int] = []
        self._starts_at: list[int] = []
        self._ends_at: list[int] = []
        self._record_flags: list[int] = []
        self.python: list[Constraint] = []

    def __len__(self) -> int:
        return len(self._start) - 1

    def add(
        self,
        disjunct: Disjunct,
        numbers: dict[str, int],
        topic: int,
        flags: int,
        starts_at: int | None,
        ends_at: int | None,
    ) -> None:
        """`numbers` knows every attribute of the disjunct."""
        for name, constraint in sorted(disjunct, key=lambda pair: numbers[pair[0]]):
            self._constraint(numbers[name], constraint)
        self._start.append(len(self._attribute))
        self._topic.append(topic)
        if topic:
            flags |= r.HAS_TOPIC
        if starts_at is not None:
            flags |= r.HAS_START
        if ends_at is not None:
            flags |= r.HAS_END
        self._starts_at.append(starts_at or 0)
        self._ends_at.append(ends_at or 0)
        self._record_flags.append(flags)

    def parts(self) -> r.Parts:
        """Constraints that only Python can decide are numbered from 0, in the order of `python`."""
        return r.Parts(
            np.array(self._start, np.int64),
            np.array(self._attribute, np.int32),
            np.array(self._kind, np.uint8),
            np.array(self._flags, np.uint8),
            np.array(self._low, np.int64),
            np.array(self._high, np.int64),
            np.array(self._items, np.int64),
            np.array(self._topic, np.int32),
            np.array(self._starts_at, np.int64),
            np.array(self._ends_at, np.int64),
            np.array(self._record_flags, np.uint8),
        )

    def _part(self, attribute: int, kind: int, flags: int = 0, low: int = 0, high: int = 0) -> None:
        self._attribute.append(attribute)
        self._kind.append(kind)
        self._flags.append(flags)
        self._low.append(low)
        self._high.append(high)

    def _constraint(self, attribute: int, constraint: Constraint) -> None:
        family = constraint.family
        if family is Family.NULL:
            self._part(attribute, r.NULL)
        elif family is Family.ANY:
            self._part(attribute, r.ANY)
        elif family is Family.BOOLEAN:
            included = constraint.included or ()
            self._part(
                attribute,
                r.BOOLEANS,
                (r.ADMITS_FALSE if False in included else 0) | (r.ADMITS_TRUE if True in included else 0),
            )
        elif family is Family.NUMBER:
            self._numbers(attribute, constraint)
        elif family is Family.TIMESTAMP:
            self._timestamps(attribute, constraint)
        elif family is Family.STRING and all(pattern.kind in _FAST_PATTERNS for pattern in constraint.patterns):
            self._texts(attribute, constraint)
        else:
            low, high = hull(constraint)
            self._part(attribute, r.PYTHON, 0, len(self.python), len(self._items))
            self._items += [signed(low), signed(high)]
            self.python.append(constraint)

    def _set(self, attribute: int, kind: int, family: int, first: list[int], second: list[int]) -> None:
        self._part(attribute, kind, family, len(self._items), len(first) | (len(second) << 32))
        self._items += sorted(first) + sorted(second)

    def _numbers(self, attribute: int, constraint: Constraint) -> None:
        if constraint.included is not None and len(constraint.included) == 1:
            (value,) = constraint.included
            bits, is_float = _number(value)
            flags = r.HAS_LOW | r.HAS_HIGH | ((r.LOW_FLOAT | r.HIGH_FLOAT) if is_float else 0)
            self._part(attribute, r.NUMBER, flags, bits, bits)
            return
        if constraint.included is not None:
            self._set(attribute, r.INCLUDED, r.OF_NUMBERS, *_split(constraint.included))
            return
        flags, low, high = 0, 0, 0
        if constraint.low is not None:
            low, is_float = _number(constraint.low)
            flags |= r.HAS_LOW | (r.LOW_FLOAT if is_float else 0) | (0 if constraint.low_closed else r.LOW_OPEN)
        if constraint.high is not None:
            high, is_float = _number(constraint.high)
            flags |= r.HAS_HIGH | (r.HIGH_FLOAT if is_float else 0) | (0 if constraint.high_closed else r.HIGH_OPEN)
        if flags or not constraint.excluded:
            self._part(attribute, r.NUMBER, flags, low, high)
        if constraint.excluded:
            self._set(attribute, r.EXCLUDED, r.OF_NUMBERS, *_split(constraint.excluded))

    def _timestamps(self, attribute: int, constraint: Constraint) -> None:
        if constraint.included is not None and len(constraint.included) > 1:
            self._set(attribute, r.INCLUDED, r.OF_TIMESTAMPS, list(constraint.included), [])  # type: ignore[arg-type]
            return
        low: Any = r.SMALLEST if constraint.low is None else constraint.low
        high: Any = r.LARGEST if constraint.high is None else constraint.high
        if constraint.included is not None:
            low = high = constraint.included[0]
        self._part(attribute, r.TIMESTAMPS, 0, low, high)
        if constraint.excluded:
            self._set(attribute, r.EXCLUDED, r.OF_TIMESTAMPS, list(constraint.excluded), [])  # type: ignore[arg-type]

    def _texts(self, attribute: int, constraint: Constraint) -> None:
        if constraint.included is not None:
            held = [self._hold(text) for text in constraint.included]
            if len(held) == 1:
                self._part(attribute, r.EQUAL_STRING, 0, held[0])
            else:
                self._set(attribute, r.INCLUDED, r.OF_STRINGS, held, [])
            return
        flags, low, high = 0, 0, 0
        if constraint.low is not None:
            low = self._hold(constraint.low)
            flags |= r.HAS_LOW | (0 if constraint.low_closed else r.LOW_OPEN)
        if constraint.high is not None:
            high = self._hold(constraint.high)
            flags |= r.HAS_HIGH | (0 if constraint.high_closed else r.HIGH_OPEN)
        if flags or not (constraint.excluded or constraint.patterns):
            self._part(attribute, r.STRINGS, flags, low, high)
        if constraint.excluded:
            self._set(attribute, r.EXCLUDED, r.OF_STRINGS, [self._hold(text) for text in constraint.excluded], [])
        for pattern in constraint.patterns:
            negated = r.NEGATED if pattern.negated else 0
            self._part(attribute, _FAST_PATTERNS[pattern.kind], negated, self._hold(pattern.text))

    def _hold(self, text: Any) -> int:
        return self._strings.hold(text.encode())


def _number(value: Any) -> tuple[int, bool]:
    return (value, False) if isinstance(value, int) else (float_bits(value), True)


def _split(values: tuple[Constant, ...]) -> tuple[list[int], list[int]]:
    numbers = [_number(value) for value in values]
    return [bits for bits, is_float in numbers if not is_float], [bits for bits, is_float in numbers if is_float]


def constraint_of_part(words: Any, at: int, strings: Strings, python: list[Constraint | None]) -> Constraint:
    """The inverse, for explanations and for what Python decides: the constraint that one part stands for."""
    header = int(words[at])
    kind, flags = (header >> 7) & 31, header & 63
    if kind == r.ANY:
        return Constraint(Family.ANY)
    if kind == r.NULL:
        return Constraint(Family.NULL)
    if kind == r.PYTHON:
        constraint = python[int(words[at + 1])]
        assert constraint is not None
        return constraint
    if kind == r.BOOLEANS:
        admitted = [value for value, bit in ((False, r.ADMITS_FALSE), (True, r.ADMITS_TRUE)) if flags & bit]
        return Constraint(Family.BOOLEAN, included=tuple(admitted))
    if kind in (r.EQUAL_32, r.EQUAL_INTEGER):
        read = r.read_32 if kind == r.EQUAL_32 else r.read_64
        return Constraint(Family.NUMBER, included=(int(read(words, at + 1)),))
    if kind == r.EQUAL_FLOAT:
        return Constraint(Family.NUMBER, included=(_float(int(r.read_64(words, at + 1))),))
    if kind == r.EQUAL_TIMESTAMP:
        return Constraint(Family.TIMESTAMP, included=(int(r.read_64(words, at + 1)),))
    if kind == r.EQUAL_STRING:
        return Constraint(Family.STRING, included=(strings.text(int(words[at + 1])).decode(),))
    low_closed, high_closed = not flags & r.LOW_OPEN, not flags & r.HIGH_OPEN
    if kind == r.RANGE_32:
        low, high = int(r.read_32(words, at + 1)), int(r.read_32(words, at + 2))
        return Constraint(Family.NUMBER, low, low_closed, high, high_closed)
    if kind == r.LOW_32:
        return Constraint(Family.NUMBER, int(r.read_32(words, at + 1)), low_closed)
    if kind == r.HIGH_32:
        return Constraint(Family.NUMBER, high=int(r.read_32(words, at + 1)), high_closed=high_closed)
    if kind == r.NUMBER:
        return Constraint(
            Family.NUMBER,
            _bound(words, at + 1, flags & r.HAS_LOW, flags & r.LOW_FLOAT),
            low_closed,
            _bound(words, at + 3, flags & r.HAS_HIGH, flags & r.HIGH_FLOAT),
            high_closed,
        )
    if kind == r.TIMESTAMPS:
        first, last = int(r.read_64(words, at + 1)), int(r.read_64(words, at + 3))
        return Constraint(
            Family.TIMESTAMP, None if first == r.SMALLEST else first, True, None if last == r.LARGEST else last
        )
    if kind == r.STRINGS:
        ends = [None if word == r.NO_WORD else strings.text(word).decode() for word in map(int, words[at + 1 : at + 3])]
        return Constraint(Family.STRING, ends[0], low_closed, ends[1], high_closed)
    if kind in (r.INCLUDED, r.EXCLUDED):
        family, members = _members(words, at, flags, strings)
        if kind == r.INCLUDED:
            return Constraint(family, included=members)
        return Constraint(family, excluded=members)
    pattern = {stored: kind for kind, stored in _FAST_PATTERNS.items()}[kind]
    text = strings.text(int(words[at + 1])).decode()
    return Constraint(Family.STRING, patterns=(Pattern(pattern, text, bool(flags & r.NEGATED)),))


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _bound(words: Any, at: int, given: int, is_float: int) -> int | float | None:
    if not given:
        return None
    bits = int(r.read_64(words, at))
    return _float(bits) if is_float else bits


def _members(words: Any, at: int, flags: int, strings: Strings) -> tuple[Family, tuple[Constant, ...]]:
    first, second = int(words[at + 1]), int(words[at + 2])
    items = [int(r.read_64(words, at + 3 + 2 * i)) for i in range(first + second)]
    if flags == r.OF_TIMESTAMPS:
        return Family.TIMESTAMP, tuple(items)
    if flags == r.OF_STRINGS:
        return Family.STRING, tuple(sorted(strings.text(item).decode() for item in items))
    return Family.NUMBER, tuple(sorted(items[:first] + [_float(item) for item in items[first:]]))
