"""Reads a shape into the tokens that the parser is given.

The parser (sqlglot) knows far more SQL than conditions have. It gets a text that it cannot misread: attributes are
called `a0`, `a1`, …, constants are string literals that hold their number, and only our own keywords and operators stay.
What has no place in a condition is refused here, where it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import inf
from typing import Final

from pastforward.matching.conditions.errors import ConditionError
from pastforward.matching.conditions.limits import (
    MAX_DEPTH,
    MAX_NAME_BYTES,
    MAX_WRITTEN_CONSTANTS,
    MAX_WRITTEN_PREDICATES,
)
from pastforward.matching.conditions.normal_form import Family, Relation
from pastforward.matching.conditions.scan import NUMBER_MARK, NUMBERS_MARK, STRING_MARK, STRINGS_MARK, Slot, is_closed
from pastforward.matching.conditions.types import is_encodable

_WORDS: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<quoted>"(?:[^"]|"")*+"|`(?:[^`]|``)*+`)
  | (?P<infinity>[-+][ ]?(?i:infinity)\b)
  | (?P<word>[^\W\d]\w*)
  | (?P<operator><=|>=|<>|!=|!~|==|=|<|>|~)
  | (?P<punctuation>[(),.])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "REGEXP", "RLIKE")
)
RELATIONS: Final = {
    "OVERLAPS": Relation.OVERLAPS,
    "CONTAINS": Relation.CONTAINS,
    "WITHIN": Relation.WITHIN,
}
_MATCH_FUNCTIONS: Final = frozenset(("MATCHES", "REGEXP_LIKE"))
# How many numbers each shape takes, and how it is written.
SHAPES: Final = {
    "POINT": (2, "POINT(lon, lat)"),
    "CIRCLE": (3, "CIRCLE(lon, lat, radius_m)"),
    "BOX": (4, "BOX(min_x, min_y, max_x, max_y)"),
}
_TYPED: Final = {"TIMESTAMP": Family.TIMESTAMP, "PATH": Family.PATH}
# Names that would be read otherwise must be quoted: the printer asks this.
RESERVED: Final = KEYWORDS | RELATIONS.keys() | _MATCH_FUNCTIONS | SHAPES.keys() | _TYPED.keys() | {"INFINITY"}

_INSTEAD: Final = {
    "SIMILAR": "Write x REGEXP '…'",
    "GLOB": "Write x LIKE '…' with % and _",
    "DATE": "Write TIMESTAMP '2026-01-31T00:00:00Z'",
    "DATETIME": "Write TIMESTAMP '2026-01-31T00:00:00Z'",
    "SELECT": "A condition has no queries: list the values with IN",
    "CASE": "Write AND, OR and NOT",
    "XOR": "Write (a AND NOT b) OR (b AND NOT a)",
    "E": "Write the string without E; a quote inside it is written twice",
    "UPPER": "Write LOWER(x) = '…': it disregards case on both sides",
}

_SIGNS: Final = {"&&": "AND", "||": "OR"}


@dataclass(slots=True)
class Operand:
    """A constant of the shape: which family, and the slots it is read from. INFINITY is its own value."""

    family: Family
    slots: tuple[int, ...]
    position: int
    is_list: bool = False
    shape: str = ""  # POINT, CIRCLE or BOX
    infinity: float = 0.0
    relation: Relation | None = None  # of the infix operator before it


@dataclass(slots=True)
class Tokens:
    """`text` is what the parser reads; `places` gives for each piece of it (where in `text`, where in the original)."""

    text: str
    attributes: list[str]
    attribute_positions: list[int]
    operands: list[Operand]
    places: list[tuple[int, int]] = field(default_factory=list)

    def position(self, place: int) -> int:
        """Where in the original the piece began that covers `place` of the parser's text."""
        return max((original for here, original in self.places if here <= place), default=0)


@dataclass(slots=True)
class _Raw:
    kind: str  # word, quoted, infinity (with a sign), operator, punctuation, constant
    text: str
    position: int
    slot: int = -1


def _unknown(rest: str) -> tuple[str, str]:
    """What is wrong with the character that `rest` begins with, and what to write instead."""
    character = rest[0]
    if rest[:2] in _SIGNS:
        return f"{rest[:2]} is no operator of conditions", f"Write {_SIGNS[rest[:2]]}"
    if character == "!":
        return "! is no operator of conditions", "Write NOT, or != for unequal"
    if character in "+-*/%^|&":
        return (
            "arithmetic, comments and operators on bits are not part of conditions",
            "Compare an attribute with a constant",
        )
    if character in '"`':
        return "a quoted name is not closed", f"Write {character} where it ends"
    if character.isdigit():
        written = re.match(r"[\w.]+", rest)
        problem = f"{written.group() if written else character} is not a number"
        return problem, "Write names that begin with a digit in double quotes, and paths as PATH '1.4.2'"
    hint = "End the condition without it" if character == ";" else "Remove it, or write it inside a string"
    return f"{character!r} has no meaning here", hint


class Lexer:
    """One use for one shape."""

    def __init__(self, text: str, shape: tuple[str, ...], slots: list[Slot], starts: list[list[int]]) -> None:
        self._source = text
        self._raw = self._split(shape, slots, starts)
        self._at = 0
        self._out: list[str] = []
        self._tokens = Tokens("", [], [], [])
        self._names: dict[str, int] = {}
        self._operand_before = False  # whether what came last was an operand, after which only an operator can come
        self._depths: list[int] = []  # of the open parentheses: how deep each one is, with the NOTs before it
        self._depth = 0
        self._nots = 0
        self._relation: Relation | None = None
        self._length = 0
        self._mentions = 0

    def read(self) -> Tokens:
        while self._at < len(self._raw):
            self._step(self._raw[self._at])
        if self._raw and not self._operand_before:
            raise self._error(
                "something is missing at the end", "Write an attribute or a constant there", len(self._source.rstrip())
            )
        if self._depths:
            raise self._error("a parenthesis is not closed", "Write ) where it ends", len(self._source))
        self._tokens.text = "".join(self._out)
        return self._tokens

    def _error(self, problem: str, hint: str, position: int) -> ConditionError:
        return ConditionError(problem, hint, text=self._source, position=position)

    def _split(self, shape: tuple[str, ...], slots: list[Slot], starts: list[list[int]]) -> list[_Raw]:
        raw: list[_Raw] = []
        offset = slot = 0
        for place, piece in enumerate(shape):
            if place % 2:
                written = slots[slot]
                final = written[-1] if isinstance(written, list) else written
                if final[0] == "'" and not is_closed(final):
                    raise self._error(
                        "a string is not closed", "Write ' where it ends, and '' inside", starts[slot][-1]
                    )
                raw.append(_Raw("constant", piece, starts[slot][0], slot))
                offset = starts[slot][-1] + len(final)
                slot += 1
                continue
            for match in _WORDS.finditer(piece):
                kind, position = match.lastgroup or "", offset + match.start()
                if kind == "other":
                    problem, hint = _unknown(self._source[position:])
                    raise self._error(problem, hint, position)
                if kind != "space":
                    raw.append(_Raw(kind, match.group(), position))
            offset += len(piece)
        return raw

    def _peek(self, ahead: int = 0) -> _Raw:
        place = self._at + ahead
        return self._raw[place] if place < len(self._raw) else _Raw("end", "", len(self._source))

    def _emit(self, text: str, position: int) -> None:
        self._tokens.places.append((self._length, position))
        self._out.append(text + " ")
        self._length += len(text) + 1

    def _step(self, token: _Raw) -> None:
        upper = token.text.upper()
        if token.kind == "word" and self._peek(1).text != ".":
            if upper in RELATIONS and self._operand_before:
                self._relation = RELATIONS[upper]
                self._operator("OVERLAPS", token)  # the one operator of this precedence that the parser knows
                return
            if upper == "MATCHES" and self._operand_before:
                self._operator("RLIKE", token)
                return
            if self._peek(1).text == "(" and upper not in KEYWORDS:
                self._function(upper, token)
                return
            if upper == "INFINITY":
                self._infinity(token)
                return
            if upper in _TYPED and self._peek(1).text in (STRING_MARK, STRINGS_MARK):
                self._at += 1
                self._constant(self._peek(), _TYPED[upper], token.position)
                return
            if upper in KEYWORDS:
                self._keyword(upper, token)
                return
        if token.kind in ("word", "quoted"):
            self._attribute(token)
        elif token.kind == "constant":
            family = Family.STRING if token.text in (STRING_MARK, STRINGS_MARK) else Family.NUMBER
            self._constant(token, family, token.position)
        elif token.kind == "infinity":
            self._infinity(token)
        elif token.kind == "operator":
            if token.text == "!~":
                self._operator("NOT RLIKE", token)
            else:
                self._operator("RLIKE" if token.text == "~" else token.text, token)
        else:
            self._punctuation(token)

    def _operator(self, text: str, token: _Raw) -> None:
        if not self._operand_before:
            raise self._error(
                f"something is missing before {token.text}", "Write an attribute or a predicate there", token.position
            )
        self._emit(text, token.position)
        self._operand_before = False
        self._at += 1

    def _keyword(self, upper: str, token: _Raw) -> None:
        if upper in ("NULL", "TRUE", "FALSE"):
            self._before_operand(token.position)
            self._operand_before = True
            self._emit(upper, token.position)
            self._at += 1
            return
        if upper == "NOT":
            # After an operand it belongs to the operator that follows: x NOT IN (…). In front it nests.
            if not self._operand_before:
                self._nots += 1
                self._check_depth(token.position)
            self._emit(upper, token.position)
            self._at += 1
            return
        if upper in ("AND", "OR"):
            self._nots = 0
        self._operator(upper, token)

    def _check_depth(self, position: int) -> None:
        if self._depth + self._nots > MAX_DEPTH:
            raise self._error(
                f"parentheses and NOTs are nested more than {MAX_DEPTH} deep", "Write it flatter", position
            )

    def _punctuation(self, token: _Raw) -> None:
        if token.text == "(":
            if self._operand_before:
                raise self._error("an operator is missing before the parenthesis", "Write AND or OR", token.position)
            self._depths.append(self._depth)
            self._depth += self._nots + 1
            self._nots = 0
            self._check_depth(token.position)
            self._operand_before = False
        elif token.text == ")":
            if not self._depths:
                raise self._error("a parenthesis is closed that was not opened", "Remove it", token.position)
            if not self._operand_before:
                raise self._error(
                    "something is missing before the parenthesis",
                    "Write a predicate or a constant there",
                    token.position,
                )
            self._depth = self._depths.pop()
            self._nots = 0
            self._operand_before = True
        elif token.text == ",":
            if not self._operand_before:
                raise self._error("something is missing before the comma", "Write a constant there", token.position)
            self._operand_before = False
        else:
            raise self._error("a dot has no meaning here", "Write names like previous.speed", token.position)
        self._emit(token.text, token.position)
        self._at += 1

    def _before_operand(self, position: int) -> None:
        """Two operands in a row: the commonest mistake, and the one with the most causes."""
        if not self._operand_before:
            return
        here, previous = self._peek(), self._raw[self._at - 1]
        for word in (here.text.upper(), previous.text.upper()):
            if word in _INSTEAD:
                raise self._error(f"{word} is not part of conditions", _INSTEAD[word], position)
        if here.kind == "constant" and self._source[position] in "+-":
            raise self._error("arithmetic is not part of conditions", "Compare an attribute with a constant", position)
        raise self._error(
            "an operator is missing before this", "Write AND, OR, or a comparison such as = or >=", position
        )

    def _attribute(self, token: _Raw) -> None:
        self._before_operand(token.position)
        parts = [self._name_part(token)]
        self._at += 1
        while self._peek().text == "." and self._peek().kind == "punctuation":
            following = self._peek(1)
            if following.kind not in ("word", "quoted"):
                raise self._error(
                    "a name is missing after the dot", "Write names like previous.speed", following.position
                )
            parts.append(self._name_part(following))
            self._at += 2
        name = ".".join(parts)
        if len(name.encode("utf-8")) > MAX_NAME_BYTES:
            raise self._error(
                f"the name is longer than {MAX_NAME_BYTES} bytes", "Use a shorter attribute name", token.position
            )
        self._mentions += 1
        if self._mentions > MAX_WRITTEN_PREDICATES:
            raise self._error(
                f"there are more than {MAX_WRITTEN_PREDICATES:,} predicates",
                "Use IN for lists of values, or several subscriptions",
                token.position,
            )
        number = len(self._tokens.attributes)
        self._tokens.attributes.append(name)
        self._tokens.attribute_positions.append(token.position)
        self._emit(f"a{number}", token.position)
        self._operand_before = True

    def _name_part(self, token: _Raw) -> str:
        name = token.text
        if token.kind == "quoted":
            quote = name[0]
            name = name[1:-1].replace(quote * 2, quote)
        if not name or not is_encodable(name):
            raise self._error(
                "this cannot be the name of an attribute", "Write its name in double quotes", token.position
            )
        if "\0" in name:
            raise self._error("the name of an attribute has a zero byte", "Leave it out", token.position)
        return name

    def _constant(self, token: _Raw, family: Family, position: int) -> None:
        self._before_operand(position)
        is_list = token.text in (STRINGS_MARK, NUMBERS_MARK)
        self._operand(Operand(family, (token.slot,), position, is_list=is_list))

    def _infinity(self, token: _Raw) -> None:
        self._before_operand(token.position)
        self._operand(Operand(Family.NUMBER, (), token.position, infinity=-inf if token.text[0] == "-" else inf))

    def _operand(self, operand: Operand) -> None:
        if len(self._tokens.operands) == MAX_WRITTEN_CONSTANTS:
            raise self._error(
                f"there are more than {MAX_WRITTEN_CONSTANTS:,} constants",
                "Use several subscriptions",
                operand.position,
            )
        operand.relation, self._relation = self._relation, None
        self._emit(f"'{len(self._tokens.operands)}'", operand.position)
        self._tokens.operands.append(operand)
        self._operand_before = True
        self._at += 1

    def _function(self, upper: str, token: _Raw) -> None:
        if upper in SHAPES:
            self._shape(upper, token)
            return
        self._before_operand(token.position)
        if upper in RELATIONS or upper in _MATCH_FUNCTIONS or upper == "LOWER":
            self._emit("f_" + ("matches" if upper in _MATCH_FUNCTIONS else upper.lower()), token.position)
            self._at += 1
            return
        raise self._error(
            f"the function {token.text}() is not part of conditions",
            _INSTEAD.get(
                upper, "There are overlaps, contains, within, matches and lower, and the shapes POINT, BOX and CIRCLE"
            ),
            token.position,
        )

    def _shape(self, upper: str, token: _Raw) -> None:
        self._before_operand(token.position)
        count, written = SHAPES[upper]
        slots = []
        self._at += 2
        for place in range(count):
            number = self._peek()
            if number.kind != "constant" or number.text != NUMBER_MARK:
                raise self._error(f"{upper} takes {count} numbers", f"Write {written}", number.position)
            slots.append(number.slot)
            closing = self._peek(1)
            if closing.text != ("," if place < count - 1 else ")"):
                raise self._error(f"{upper} takes {count} numbers", f"Write {written}", closing.position)
            self._at += 2
        self._at -= 1
        self._operand(Operand(Family.GEOMETRY, tuple(slots), token.position, shape=upper))
