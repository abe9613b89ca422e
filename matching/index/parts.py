"""From conditions in normal form to the parts of records."""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import FLOAT, INTEGER
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.scalars import Int
from pastforward.matching.conditions.automata import expression_of, program_of
from pastforward.matching.conditions.geometry import shape_numbers
from pastforward.matching.conditions.merge import canonical
from pastforward.matching.conditions.normal_form import (
    Constant,
    Constraint,
    Disjunct,
    Family,
    Pattern,
    PatternKind,
    Relation,
    Test,
)
from pastforward.matching.conditions.required import necessary_like, necessary_pieces
from pastforward.matching.conditions.types import path_text
from pastforward.matching.conditions.values import Box, Circle, Point
from pastforward.matching.index import records as r
from pastforward.matching.index.keys import (
    BOOLEAN_KEY,
    GEOMETRY_KEY,
    NUMBER_KEY,
    PATH_KEY,
    STRING_KEY,
    TIMESTAMP_KEY,
    boolean_key,
    number_key,
    path_key,
    string_key,
    timestamp_key,
)
from pastforward.matching.index.records import (
    EQUAL_STRING,
    EXCLUDED,
    EXPRESSION,
    HAS_HIGH,
    HAS_LOW,
    INCLUDED,
    NUMBER,
    OF_STRINGS,
    PREFIX,
    STRINGS,
)
from pastforward.matching.index.strings import Strings, joined

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

_BOTH: Final = r.HAS_LOW | r.HAS_HIGH
_HALF_OPEN: Final = _BOTH | r.HIGH_OPEN
# by name: a member of an enumeration takes longer to look up than to compare
_OF_NUMBERS: Final = Family.NUMBER
_OF_STRINGS: Final = Family.STRING

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
    PatternKind.LIKE: r.LIKE,
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
        return GEOMETRY_KEY << 61
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
    low = key << 61 if constraint.low is None else constant_key(family, constraint.low)
    high = ((key + 1) << 61) - 1 if constraint.high is None else constant_key(family, constraint.high)
    return low, high


def signed(key: int) -> int:
    """The same 64 bits as a signed number."""
    return key - 2**64 if key >= 2**63 else key


class PartsBuilder:
    """Collects disjuncts and hands them over as `Parts`. Thousands a call, so what is common stands in `add` itself, what strings need is
    done for all at once, and nothing is held before `parts`."""

    def __init__(self, strings: Strings, number: Callable[[str], int], numbers: Mapping[str, int]) -> None:
        """`numbers` are those of known attributes, `number` gives one to an attribute that is new."""
        self._strings = strings
        self._number = number
        self._numbers = numbers
        self._start = [0]
        self._flat: list[int] = []  # five each: attribute, kind, flags, low, high; strings by their place in `_texts`
        self._texts: list[bytes] = []
        self._items: list[int] = []
        self._records: list[int] = []  # four each: topic, starts_at, ends_at, flags
        self.python: list[Constraint] = []

    def __len__(self) -> int:
        return len(self._start) - 1

    def add(self, disjunct: Disjunct, topic: int, flags: int, starts_at: int | None, ends_at: int | None) -> None:
        numbers = self._numbers
        flat = self._flat
        texts = self._texts
        for name, constraint in disjunct:
            number = numbers.get(name)
            if number is None:
                number = self._number(name)
            family, low, low_closed, high, high_closed, included, excluded, _, _ = constraint
            if family is _OF_NUMBERS:
                if included is None:
                    if type(low) is int and type(high) is int and low_closed and not excluded:
                        flat += (number, NUMBER, _BOTH if high_closed else _HALF_OPEN, low, high)
                        continue
                elif len(included) == 1 and type(included[0]) is int:
                    flat += (number, NUMBER, _BOTH, included[0], included[0])
                    continue
            elif family is _OF_STRINGS and included is not None and len(included) == 1:
                flat += (number, EQUAL_STRING, 0, len(texts), 0)
                texts.append(included[0].encode())  # type: ignore[union-attr]
                continue
            self._constraint(number, constraint)
        self._start.append(len(flat) // 5)
        if topic:
            flags |= r.HAS_TOPIC
        if starts_at is None:
            starts_at = 0
        else:
            flags |= r.HAS_START
        if ends_at is None:
            ends_at = 0
        else:
            flags |= r.HAS_END
        self._records += (topic, starts_at, ends_at, flags)

    def parts(self) -> r.Parts:
        """Strings are interned, and so held. Constraints that only Python can decide are numbered from 0, in the order of `python`."""
        start = np.array(self._start, np.int64)
        flat = np.array(array("q", self._flat), np.int64)
        items = np.array(array("q", self._items), np.int64)
        records = np.array(array("q", self._records), np.int64).reshape(-1, 4)
        texts = self._strings.intern(*joined(self._texts))
        count = len(flat) // 5
        attribute, kind, flags = np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count, np.uint8)
        low, high = np.empty(count, np.int64), np.empty(count, np.int64)
        _sort_parts(start, flat, items, texts, (attribute, kind, flags, low, high))
        topic, starts_at, ends_at, record_flags = records.T
        return r.Parts(
            start, attribute, kind, flags, low, high, items, topic.astype(np.int32), np.ascontiguousarray(starts_at),
            np.ascontiguousarray(ends_at), record_flags.astype(np.uint8),
        )  # fmt: skip

    def _text(self, text: Any) -> int:
        self._texts.append(text.encode())
        return len(self._texts) - 1

    def _part(self, attribute: int, kind: int, flags: int = 0, low: int = 0, high: int = 0) -> None:
        self._flat += (attribute, kind, flags, low, high)

    def _constraint(self, attribute: int, constraint: Constraint) -> None:
        family = constraint.family
        if family is Family.NUMBER:
            self._number_constraint(attribute, constraint)
        elif family is Family.NULL:
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
        elif family is Family.TIMESTAMP:
            self._timestamps(attribute, constraint)
        elif family is Family.GEOMETRY and (constraint.included is None or len(constraint.included) == 1):
            self._shape_constraint(attribute, constraint)
        elif family is Family.STRING:
            self._string_constraint(attribute, constraint)
        else:
            self._python(attribute, constraint)

    def _python(self, attribute: int, constraint: Constraint) -> None:
        low, high = hull(constraint)
        self._part(attribute, r.PYTHON, 0, len(self.python), len(self._items))
        self._items += (signed(low), signed(high))
        self.python.append(constraint)

    def _set(self, attribute: int, kind: int, family: int, first: list[int], second: list[int]) -> None:
        self._part(attribute, kind, family, len(self._items), len(first) | (len(second) << 32))
        self._items += sorted(first) + sorted(second)

    def _number_constraint(self, attribute: int, constraint: Constraint) -> None:
        if constraint.included is not None and len(constraint.included) == 1:
            (value,) = constraint.included
            bits, is_float = _number(value)
            flags = _BOTH | ((r.LOW_FLOAT | r.HIGH_FLOAT) if is_float else 0)
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

    def _shape_constraint(self, attribute: int, constraint: Constraint) -> None:
        for shape in constraint.included or ():
            self._shape(attribute, r.EQUALS, False, shape)
        for shape in constraint.excluded:
            self._shape(attribute, r.EQUALS, True, shape)
        for test in constraint.tests:
            self._shape(attribute, int(test.relation), test.negated, test.shape)

    def _shape(self, attribute: int, relation: int, negated: bool, constant: Any) -> None:
        shape, *numbers = shape_numbers(constant)
        flags = relation | (r.NOT_SO if negated else 0) | (shape << r.SHAPE_SHIFT)
        self._part(attribute, r.GEOMETRY, flags, len(self._items))
        self._items += [float_bits(number) for number in numbers[: 2 + shape]]

    def _string_constraint(self, attribute: int, constraint: Constraint) -> None:
        if constraint.included is not None:
            self._set(attribute, r.INCLUDED, r.OF_STRINGS, [self._text(text) for text in constraint.included], [])
            return
        flags, low, high = 0, 0, 0
        if constraint.low is not None:
            low = self._text(constraint.low)
            flags |= r.HAS_LOW | (0 if constraint.low_closed else r.LOW_OPEN)
        if constraint.high is not None:
            high = self._text(constraint.high)
            flags |= r.HAS_HIGH | (0 if constraint.high_closed else r.HIGH_OPEN)
        if flags or not (constraint.excluded or constraint.patterns):
            self._part(attribute, r.STRINGS, flags, low, high)
        if constraint.excluded:
            self._set(attribute, r.EXCLUDED, r.OF_STRINGS, [self._text(text) for text in constraint.excluded], [])
        for pattern in constraint.patterns:
            negated = r.NEGATED if pattern.negated else 0
            if pattern.kind is not PatternKind.REGEX:
                self._part(attribute, _FAST_PATTERNS[pattern.kind], negated, self._text(pattern.text))
                continue
            program = program_of(pattern.text)
            flags = r.IMPLIED | (0 if program is None else r.DECIDED)
            needed = None if negated else necessary_like(pattern.text)
            if needed is None and not negated:
                needed = necessary_pieces(pattern.text)
                flags |= r.FOLDED
            if needed is not None:
                self._part(attribute, r.LIKE, flags, self._text(needed))
            if program is None:
                self._python(attribute, Constraint(Family.STRING, patterns=(pattern,)))
            else:
                self._part(attribute, r.EXPRESSION, negated, len(self._texts))
                self._texts.append(program)


@inner
def put_part(out: Any, begin: Int, p: Int, part: Any, texts: I32, items: I64) -> None:
    """Writes the part that comes as the p-th among those of its disjunct, which begin at `begin` and are sorted by attribute, otherwise in
    order. `part`: attribute, kind, flags, low, high. Strings get the numbers that `texts` gives them."""
    attribute, kind, flags, low, high = out
    a, k, f, first, last = part
    at = p
    while at > begin and attribute[at - 1] > a:
        attribute[at] = attribute[at - 1]
        kind[at] = kind[at - 1]
        flags[at] = flags[at - 1]
        low[at] = low[at - 1]
        high[at] = high[at - 1]
        at -= 1
    if k == EQUAL_STRING or (k >= PREFIX and k <= EXPRESSION):
        first = np.int64(texts[first])
    elif k == STRINGS:
        first = np.int64(texts[first]) if f & HAS_LOW else np.int64(0)
        last = np.int64(texts[last]) if f & HAS_HIGH else np.int64(0)
    elif (k == INCLUDED or k == EXCLUDED) and f == OF_STRINGS:
        _by_number(items, first, first + (last & 0xFFFFFFFF), texts)
    attribute[at] = a
    kind[at] = k
    flags[at] = f
    low[at] = first
    high[at] = last


@kernel
def _sort_parts(start: I64, flat: I64, items: I64, texts: I32, out: Any) -> None:
    for d in range(len(start) - 1):
        for p in range(start[d], start[d + 1]):
            part = flat[5 * p], flat[5 * p + 1], flat[5 * p + 2], flat[5 * p + 3], flat[5 * p + 4]
            put_part(out, start[d], p, part, texts, items)


@inner
def _by_number(items: I64, begin: Int, end: Int, texts: I32) -> None:
    """A set of strings is sorted by their numbers: a shell sort, since a set may be long."""
    for i in range(begin, end):
        items[i] = texts[items[i]]
    gap = 1
    while gap < end - begin:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(begin + gap, end):
            item = items[i]
            at = i
            while at - gap >= begin and items[at - gap] > item:
                items[at] = items[at - gap]
                at -= gap
            items[at] = item
        gap //= 3


def _number(value: Any) -> tuple[int, bool]:
    return (value, False) if isinstance(value, int) else (float_bits(value), True)


def _split(values: tuple[Constant, ...]) -> tuple[list[int], list[int]]:
    numbers = [_number(value) for value in values]
    return [bits for bits, is_float in numbers if not is_float], [bits for bits, is_float in numbers if is_float]


def constraint_of_part(words: Any, at: int, strings: Strings, python: list[Constraint | None]) -> Constraint | None:
    """The inverse, for explanations and for what Python decides: the constraint that one part stands for, as a condition has it; None if
    nothing satisfies it."""
    if (int(words[at]) >> 7) & 31 == r.PYTHON:
        return python[int(words[at + 1])]
    return canonical(_constraint_of_part(words, at, strings))


def _constraint_of_part(words: Any, at: int, strings: Strings) -> Constraint:
    header = int(words[at])
    kind, flags = (header >> 7) & 31, header & 63
    if kind == r.ANY:
        return Constraint(Family.ANY)
    if kind == r.NULL:
        return Constraint(Family.NULL)
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
    if kind == r.GEOMETRY:
        return _shape_test(words, at, flags)
    if kind == r.EXPRESSION:
        pattern, text = PatternKind.REGEX, expression_of(strings.text(int(words[at + 1])))
    else:
        pattern = {stored: kind for kind, stored in _FAST_PATTERNS.items()}[kind]
        text = strings.text(int(words[at + 1])).decode()
    return Constraint(Family.STRING, patterns=(Pattern(pattern, text, bool(flags & r.NEGATED)),))


def _shape_test(words: Any, at: int, flags: int) -> Constraint:
    shape = flags >> r.SHAPE_SHIFT
    kind: Any = (Point, Circle, Box)[shape]
    constant = kind(*(_float(int(r.read_64(words, at + 1 + 2 * i))) for i in range(2 + shape)))
    negated = bool(flags & r.NOT_SO)
    if flags & r.RELATION:
        return Constraint(Family.GEOMETRY, tests=(Test(Relation(flags & r.RELATION), constant, negated),))
    if negated:
        return Constraint(Family.GEOMETRY, excluded=(constant,))
    return Constraint(Family.GEOMETRY, included=(constant,))


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
