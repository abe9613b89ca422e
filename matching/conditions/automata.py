"""A regular expression as a small automaton over UTF-8, for a kernel to run: exactly what RE2 decides, in time linear in the text.

Each set of bytes in the expression is a position, one bit of 64 (Glushkov's construction). So are its beginning and its end, which match a
mark before the text and one after it. `program_of` writes:

    8 bytes each      positions that can come first; last; whose only followers are themselves and the next; that follow themselves;
                      that the next one follows; that the mark before the text matches; that the one after it matches
    1 byte, 7 spare   1: every text matches
    256 bytes         the class of each byte; the highest bit is set if a match can begin with it
    128 x 8 at most   for each class the positions that its bytes match
    64 x 8 at most    for each position those that can follow it
    the expression    as it was written

with two bytes of the spare ones telling how many classes and positions there are.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from pastforward.matching.conditions.expressions import (
    LAST,
    Chars,
    Choice,
    Node,
    Place,
    Ranges,
    Sequence,
    Star,
    Unreadable,
    read,
)

POSITIONS: Final = 64
_CLASSES: Final = 127  # of bytes; the eighth bit says that a match can begin
_REMEMBERED: Final = 4_096  # programs: a busy partition compiles what its subscriptions share once

# where the parts of a program are
FIRST, LAST_ONES, SIMPLE, LOOPS, CHAINS, BEGINS, ENDS, ALWAYS, SIZES, BYTES = 0, 8, 16, 24, 32, 40, 48, 56, 57, 64
MASKS: Final = BYTES + 256

_CONTINUATION: Final = ((1 << 64) - 1) << 128  # bytes 0x80 to 0xBF, as a set: bit i is byte i
_ALL_BYTES: Final = (1 << 256) - 1
_ASCII: Final = (1 << 128) - 1
_BEYOND_ASCII: Final = _ALL_BYTES ^ _ASCII
_WIDTHS: Final = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, LAST))  # of UTF-8, in bytes


@lru_cache(_REMEMBERED)
def program_of(expression: str) -> bytes | None:
    """None: it is left to RE2."""
    try:
        return _Builder().program(expression)
    except Unreadable:
        return None


def expression_of(program: bytes) -> str:
    classes, positions = program[SIZES], program[SIZES + 1]
    return program[MASKS + 8 * (classes + positions) :].decode()


def _span(low: int, high: int) -> int:
    return (1 << (high + 1)) - (1 << low)


class _Builder:
    def __init__(self) -> None:
        self._sets: list[int] = []  # of bytes, by position; 0: the mark before the text or after it
        self._follow: list[int] = []
        self._begins = 0
        self._ends = 0

    def program(self, expression: str) -> bytes:
        nullable, first, last = self._build(read(expression))
        self._check_places()
        classes, masks = self._classes(first)
        loops = chains = simple = 0
        for place, following in enumerate(self._follow):
            bit = 1 << place
            loops |= following & bit
            chains |= bit if following & (bit << 1) else 0
            simple |= bit if not following & ~(bit | bit << 1) else 0
        head = struct.pack("<7Q", first, last, simple, loops, chains, self._begins, self._ends)
        sizes = bytes((nullable, len(masks), len(self._sets))) + bytes(5)
        tables = struct.pack(f"<{len(masks) + len(self._follow)}Q", *masks, *self._follow)
        return head + sizes + bytes(classes) + tables + expression.encode()

    def _classes(self, first: int) -> tuple[bytes, list[int]]:
        """The class of each byte, and the positions that the bytes of each class match."""
        kinds = [_ALL_BYTES]
        for members in set(self._sets):
            kinds = [part for kind in kinds for part in (kind & members, kind & ~members) if part]
        if len(kinds) > _CLASSES:
            raise Unreadable
        kinds.sort(key=int.bit_count, reverse=True)
        masks = []
        classes = bytearray()
        for number, kind in enumerate(kinds):
            mask = sum(1 << place for place, members in enumerate(self._sets) if kind & members)
            masks.append(mask)
            number |= 0x80 if mask & first else 0
            if not classes:  # the largest, and so what all others are written over
                classes = bytearray([number]) * 256
                continue
            while kind:
                classes[(kind & -kind).bit_length() - 1] = number
                kind &= kind - 1
        return bytes(classes), masks

    def _check_places(self) -> None:
        """A mark is met once, so an automaton cannot pass two places that are the same place."""
        for place, following in enumerate(self._follow):
            bit = 1 << place
            if (bit & self._begins and following & self._begins) or (
                bit & self._ends and following & (self._begins | self._ends)
            ):
                raise Unreadable

    def _position(self, members: int) -> tuple[bool, int, int]:
        if len(self._sets) >= POSITIONS:
            raise Unreadable
        bit = 1 << len(self._sets)
        self._sets.append(members)
        self._follow.append(0)
        return False, bit, bit

    def _link(self, last: int, first: int) -> None:
        while last:
            self._follow[(last & -last).bit_length() - 1] |= first
            last &= last - 1

    def _build(self, node: Node) -> tuple[bool, int, int]:
        """Whether nothing at all will do, the positions that can come first, and those that can come last."""
        match node:
            case Chars(ranges):
                return self._chars(ranges)
            case Place(at_end):
                found = self._position(0)
                if at_end:
                    self._ends |= found[1]
                else:
                    self._begins |= found[1]
                return found
            case Choice(parts):
                return self._choice([self._build(part) for part in parts])
            case Star(part):
                return self._star(part)
            case Sequence(parts):
                whole = True, 0, 0
                for part in parts:
                    whole = self._then(whole, self._build(part))
                return whole

    @staticmethod
    def _choice(parts: list[tuple[bool, int, int]]) -> tuple[bool, int, int]:
        nullable, first, last = False, 0, 0
        for one in parts:
            nullable, first, last = nullable or one[0], first | one[1], last | one[2]
        return nullable, first, last

    def _then(self, one: tuple[bool, int, int], other: tuple[bool, int, int]) -> tuple[bool, int, int]:
        self._link(one[2], other[1])
        first = one[1] | other[1] if one[0] else one[1]
        last = one[2] | other[2] if other[0] else other[2]
        return one[0] and other[0], first, last

    def _star(self, part: Node) -> tuple[bool, int, int]:
        if isinstance(part, Chars) and part.ranges[-1] == (part.ranges[-1][0], LAST) and part.ranges[-1][0] <= 128:
            # All bytes beyond ASCII will do, so one position is enough: between them nothing else can begin or end.
            members = _BEYOND_ASCII | _ascii_of(part.ranges)
            _, first, last = self._position(members)
        else:
            _, first, last = self._build(part)
        self._link(last, first)
        return True, first, last

    def _chars(self, ranges: Ranges) -> tuple[bool, int, int]:
        sequences: list[tuple[int, ...]] = []
        ascii_only = _ascii_of(ranges)
        beyond = tuple((max(low, 128), high) for low, high in ranges if high > 127)
        if beyond == ((128, LAST),):
            return self._any_beyond(ascii_only)
        for low, high in beyond:
            for least, most in _WIDTHS[1:]:
                if low <= most and high >= least:
                    sequences += _byte_sets(max(low, least), min(high, most))
        found = [self._position(ascii_only)] if ascii_only else []
        for members in sequences:
            whole = True, 0, 0
            for one in members:
                whole = self._then(whole, self._position(one))
            found.append(whole)
        return self._choice(found)

    def _any_beyond(self, ascii_only: int) -> tuple[bool, int, int]:
        """A text is valid UTF-8, so the first byte of a character says how many follow."""
        found = [self._position(ascii_only)] if ascii_only else []
        tail = self._position(_span(0xF0, 0xF4))
        for leading in (_span(0xE0, 0xEF), _span(0xC2, 0xDF)):
            tail = self._then(tail, self._position(_CONTINUATION))
            tail = self._choice([tail, self._position(leading)])
        return self._choice([*found, self._then(tail, self._position(_CONTINUATION))])


def _ascii_of(ranges: Ranges) -> int:
    found = 0
    for low, high in ranges:
        if low < 128:
            found |= _span(low, min(high, 127))
    return found


def _byte_sets(low: int, high: int) -> list[tuple[int, ...]]:
    """Characters of one width in UTF-8, as sequences of sets of bytes."""
    if low <= 0xDFFF and high >= 0xD800:  # what is no character
        before = _byte_sets(low, 0xD7FF) if low < 0xD800 else []
        return before + (_byte_sets(0xE000, high) if high > 0xDFFF else [])
    first, last = chr(low).encode(), chr(high).encode()
    return [tuple(_span(a, b) for a, b in one) for one in _spans(first, last)]


def _spans(first: bytes, last: bytes) -> list[list[tuple[int, int]]]:
    if len(first) == 1:
        return [[(first[0], last[0])]]
    if first[0] == last[0]:
        return [[(first[0], first[0]), *rest] for rest in _spans(first[1:], last[1:])]
    lowest, highest = bytes([0x80] * (len(first) - 1)), bytes([0xBF] * (len(first) - 1))
    found: list[list[tuple[int, int]]] = []
    low, high = first[0], last[0]
    if first[1:] != lowest:
        found += [[(low, low), *rest] for rest in _spans(first[1:], highest)]
        low += 1
    if last[1:] != highest:
        high -= 1
    if low <= high:
        found.append([(low, high), *[(0x80, 0xBF)] * len(lowest)])
    if last[1:] != highest:
        found += [[(last[0], last[0]), *rest] for rest in _spans(lowest, last[1:])]
    return found
