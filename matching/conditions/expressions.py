"""Reads a regular expression of RE2 into a tree of sets of characters, as far as `automata` can decide it.

What is read here means the same as RE2's; what is not certain (word boundaries, lines, Unicode classes, flags other than `i`, `s` and
`U`) is refused, and left to RE2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

LAST: Final = 0x10FFFF
_MAX_DEPTH: Final = 50  # groups within each other: the reader recurses a few frames for each
_MAX_COPIES: Final = 64  # of what is repeated: no automaton has more positions

Ranges: TypeAlias = tuple[tuple[int, int], ...]  # of code points, both ends in, ascending, apart from each other


class Unreadable(Exception):
    """The expression has something that only RE2 decides."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of these."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Place:
    """The beginning of the text, or its end."""

    at_end: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Star:
    part: Node


Node: TypeAlias = Chars | Place | Sequence | Choice | Star

EMPTY: Final = Sequence(())

_DIGITS: Final = ((48, 57),)
_WORDS: Final = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Final = ((9, 10), (12, 13), (32, 32))
_CLASSES: Final[dict[str, Ranges]] = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_NAMED: Final[dict[str, Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_GROUP: Final = re.compile(r"\(\?(?:P?<\w+>|([isU]*)(?:-([isU]*))?([:)]))")
_COUNT: Final = re.compile(r"\{(\d+)(,(\d*))?\}")
_LAST_CASED: Final = 0x1E943  # beyond, no character has another case


def read(expression: str) -> Node:
    """Raises `Unreadable`. RE2 has compiled the expression, so it is well formed."""
    reader = _Reader(expression)
    try:
        return reader.whole()
    except (IndexError, ValueError) as error:
        raise Unreadable from error


def united(ranges: list[tuple[int, int]]) -> Ranges:
    """Ascending, and joined where they touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


def outside(ranges: Ranges) -> Ranges:
    """All other characters."""
    found = []
    following = 0
    for low, high in ranges:
        if low > following:
            found.append((following, low - 1))
        following = high + 1
    if following <= LAST:
        found.append((following, LAST))
    return tuple(found)


def _folded(character: str) -> str:
    """Simple case folding of Unicode: one character to one."""
    for found in (character.casefold(), character.lower()):
        if len(found) == 1:
            return found
    return character


@cache
def _cases() -> dict[int, tuple[int, ...]]:
    """The characters that are the same as another one without regard to case, and which those are. Takes 30 ms, once."""
    alike: dict[str, list[int]] = {}
    for code in (*range(0xD800), *range(0xE000, _LAST_CASED + 1)):
        character = chr(code)
        if character.casefold() != character or character.upper() != character:
            alike.setdefault(_folded(character), []).append(code)
    return {code: tuple(codes) for codes in alike.values() if len(codes) > 1 for code in codes}


def _with_other_case(ranges: Ranges) -> Ranges:
    found = list(ranges)
    cases = _cases()
    if all(low == high for low, high in ranges):
        codes: Iterable[int] = (low for low, _ in ranges)
    else:
        codes = (code for code in cases if any(low <= code <= high for low, high in ranges))
    for code in codes:
        found += [(other, other) for other in cases.get(code, ())]
    return united(found)


class _Reader:
    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._depth = 0
        self._fold = False
        self._any = False  # whether the dot is any character, line breaks too

    def whole(self) -> Node:
        found = self._choice()
        if self._at < len(self._text):
            raise Unreadable
        return found

    def _next(self) -> str:
        character = self._text[self._at]
        self._at += 1
        return character

    def _ahead(self) -> str:
        return self._text[self._at : self._at + 1]

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unreadable
        choices = [self._sequence()]
        while self._ahead() == "|":
            self._at += 1
            choices.append(self._sequence())
        self._depth -= 1
        return choices[0] if len(choices) == 1 else Choice(tuple(choices))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._ahead() not in ("", "|", ")"):
            part = self._part()
            if part is not None:
                parts.append(self._repeated(part))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _part(self) -> Node | None:
        """None: a change of flags."""
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        if character == "\\":
            return self._escape()
        if character == ".":
            return Chars(((0, LAST),) if self._any else ((0, 9), (11, LAST)))
        if character in "^$":
            return Place(character == "$")
        if character in "*+?{":
            raise Unreadable
        return self._literal(ord(character))

    def _literal(self, code: int) -> Node:
        ranges = ((code, code),)
        return Chars(_with_other_case(ranges) if self._fold else ranges)

    def _group(self) -> Node | None:
        flags = self._fold, self._any
        if self._ahead() == "?":
            match = _GROUP.match(self._text, self._at - 1)
            if match is None:
                raise Unreadable
            self._at = match.end()
            on, off, end = match.groups()
            if end is not None:
                self._fold = (self._fold or "i" in on) and "i" not in (off or "")
                self._any = (self._any or "s" in on) and "s" not in (off or "")
                if end == ")":
                    return None
        inside = self._choice()
        if self._next() != ")":
            raise Unreadable
        self._fold, self._any = flags
        return inside

    def _repeated(self, part: Node) -> Node:
        character = self._ahead()
        if not character or character not in "*+?{":
            return part
        least, most = 0, 1
        if character == "{":
            match = _COUNT.match(self._text, self._at)
            if match is None:
                raise Unreadable  # a brace that stands for itself
            self._at = match.end()
            least = int(match[1])
            most = least if match[2] is None else int(match[3]) if match[3] else -1
        else:
            self._at += 1
            least, most = (1 if character == "+" else 0), (1 if character == "?" else -1)
        if self._ahead() == "?":
            self._at += 1  # as few as possible: the same texts match
        if self._ahead() and self._ahead() in "*+?{":
            raise Unreadable
        if max(least, most) > _MAX_COPIES:
            raise Unreadable
        copies: list[Node] = [part] * least
        if most < 0:
            copies.append(Star(part))
        else:
            copies += [Choice((part, EMPTY))] * (most - least)
        return copies[0] if len(copies) == 1 else Sequence(tuple(copies))

    def _escape(self) -> Node:
        character = self._next()
        if character in "Az":
            return Place(character == "z")
        if character.lower() in _CLASSES:
            return Chars(self._perl_class(character))
        return self._literal(self._escaped(character))

    def _perl_class(self, character: str) -> Ranges:
        if self._fold and character not in "dD":
            raise Unreadable
        ranges = _CLASSES[character.lower()]
        return ranges if character.islower() else outside(ranges)

    def _escaped(self, character: str) -> int:
        """The character that an escape stands for."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            if self._ahead() == "{":
                end = self._text.index("}", self._at)
                digits, self._at = self._text[self._at + 1 : end], end + 1
            else:
                digits, self._at = self._text[self._at : self._at + 2], self._at + 2
            return int(digits, 16)
        if character.isalnum() or not character.isascii():
            raise Unreadable
        return ord(character)

    def _class(self) -> Node:
        negated = self._ahead() == "^"
        self._at += negated
        found: list[tuple[int, int]] = []
        first = True
        while first or self._ahead() != "]":
            first = False
            found += self._member()
        self._at += 1
        ranges = united(found)
        if self._fold:
            ranges = _with_other_case(ranges)
        ranges = outside(ranges) if negated else ranges
        if not ranges:
            raise Unreadable
        return Chars(ranges)

    def _member(self) -> Ranges:
        """Of a class in brackets: a range, a character, or a class by name."""
        if self._text.startswith("[:", self._at):
            end = self._text.index(":]", self._at)
            name = self._text[self._at + 2 : end]
            named = _NAMED.get(name.removeprefix("^"))
            if named is None or self._fold:
                raise Unreadable
            self._at = end + 2
            return outside(named) if name.startswith("^") else named
        character = self._next()
        if character == "\\" and self._ahead().lower() in _CLASSES:
            found = self._perl_class(self._next())
            if self._ahead() == "-" and self._text[self._at + 1] != "]":
                raise Unreadable
            return found
        low = self._escaped(self._next()) if character == "\\" else ord(character)
        if self._ahead() != "-" or self._text[self._at + 1] == "]":
            return ((low, low),)
        self._at += 1
        character = self._next()
        high = self._escaped(self._next()) if character == "\\" else ord(character)
        if high < low:
            raise Unreadable
        return ((low, high),)
