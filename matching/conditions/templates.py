"""Shapes: conditions without their constants, compiled once and then bound to any constants.

What a shape does to its constants is decided when it is compiled: which slot is read how, which predicate it builds, which
constraints meet in which disjunct. Binding reads the slots, builds each predicate once, and merges per attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from pastforward.columns.times import micros_of
from pastforward.matching.conditions.conjunctions import bind_by_predicate
from pastforward.matching.conditions.errors import ConditionError, shown
from pastforward.matching.conditions.lexer import SHAPES, Lexer, Operand
from pastforward.matching.conditions.limits import (
    MAX_MEMBERS,
    MAX_PATH_DEPTH,
    MAX_SHAPES,
    MAX_SHAPES_WEIGHT,
    MAX_TEXT_LENGTH,
)
from pastforward.matching.conditions.merge import meet, of_members
from pastforward.matching.conditions.normal_form import ANY, NULL, Constraint, Disjunct, Family, NormalForm
from pastforward.matching.conditions.predicates import (
    BUILDERS,
    BadConstant,
    after_subtree,
    between,
    folded,
    ilike,
    like,
    too_many_members,
)
from pastforward.matching.conditions.scan import Slot, positions, scan
from pastforward.matching.conditions.template_cache import Seen, ShapeCache
from pastforward.matching.conditions.types import (
    INT64_MAX,
    INT64_MIN,
    is_encodable,
    is_valid_shape,
    number,
    path_components,
)
from pastforward.matching.conditions.values import Box, Circle, Point

if TYPE_CHECKING:
    from pastforward.matching.conditions.parser import Atom

_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)

Read = Callable[[list[Slot]], Any]
Build = Callable[[list[Slot]], Constraint | None]


class BadSlot(ValueError):
    """A constant that cannot be read: problem, hint, slot, and which of a list."""

    def __init__(self, problem: str, hint: str, slot: int, member: int = 0) -> None:
        super().__init__(problem)
        self.problem, self.hint, self.slot, self.member = problem, hint, slot, member


@dataclass(frozen=True, slots=True)
class Shape:
    """`disjuncts`: per disjunct, per attribute in order, the numbers of the predicates that meet there."""

    builds: tuple[Build, ...]
    disjuncts: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]

    weight: int = 1

    def bind(self, slots: list[Slot]) -> NormalForm:
        built = [build(slots) for build in self.builds]
        bound: list[Disjunct] = []
        for disjunct in self.disjuncts:
            constraints = []
            for name, numbers in disjunct:
                constraint = built[numbers[0]]
                for other in numbers[1:]:
                    following = built[other]
                    if constraint is None or following is None:
                        constraint = None
                        break
                    constraint = meet(constraint, following)
                if constraint is None:
                    break
                constraints.append((name, constraint))
            else:
                bound.append(tuple(constraints))
        return tuple(bound) if len(bound) < 2 else distinct(bound)


def distinct(disjuncts: list[Disjunct]) -> NormalForm:
    """The disjuncts without repetition; those that list values of one and the same attribute alone become one."""
    found: dict[object, Disjunct] = {}
    for disjunct in disjuncts:
        if len(disjunct) == 1:
            name, constraint = disjunct[0]
            if constraint.included is not None:
                known = found.get((name, constraint.family))
                if known is not None:
                    members: Any = {*constraint.included, *(known[0][1].included or ())}
                    merged = _members(constraint.family, members)
                    disjunct = ((name, merged),)
                found[name, constraint.family] = disjunct
                continue
        found[disjunct] = disjunct
    return tuple(found.values())


_known: Final[ShapeCache[Shape]] = ShapeCache(MAX_SHAPES, MAX_SHAPES_WEIGHT)
_predicates: Final[ShapeCache[Shape]] = ShapeCache(MAX_SHAPES, MAX_SHAPES_WEIGHT)  # those of single predicates
_seen: Final = Seen(MAX_SHAPES)


def forget_shapes() -> None:
    """Empties the cache: for tests and benchmarks."""
    _known.clear()
    _predicates.clear()
    _seen.clear()


def bind(text: str) -> NormalForm:
    """The normal form of a text. Raises `ConditionError`. Texts of a known shape are not parsed again."""
    if not isinstance(text, str):
        raise ConditionError(f"a condition is a text, not {type(text).__name__}", "Write it as a string")
    if len(text) > MAX_TEXT_LENGTH:
        raise ConditionError(
            f"the condition is {len(text):,} characters long; the limit is {MAX_TEXT_LENGTH:,}",
            "Use several subscriptions",
            text=text,
            position=MAX_TEXT_LENGTH,
        )
    key, slots = scan(text)
    try:
        shape = _known.get(key)
        if shape is None:
            if not _seen.add(key):
                bound = _bind_by_predicate(key, slots)
                if bound is not None:
                    return bound
            shape = _compile(text, key, slots)
            _known.put(key, shape)
        return shape.bind(slots)
    except BadSlot as error:
        position = positions(text)[error.slot][error.member]
        raise ConditionError(error.problem, error.hint, text=text, position=position) from error
    except RecursionError as error:
        raise ConditionError(
            "the condition is nested too deeply here", "Write it flatter", text=text, position=0
        ) from error


def _bind_by_predicate(key: tuple[str, ...], slots: list[Slot]) -> NormalForm | None:
    """Of a shape that was not seen lately: most of those come once. What is wrong is found, and told, by the longer way."""
    try:
        return bind_by_predicate(key, slots, _bind_predicate)
    except (BadSlot, BadConstant, ConditionError):
        return None


def _bind_predicate(key: tuple[str, ...], slots: list[Slot]) -> NormalForm:
    shape = _predicates.get(key)
    if shape is None:
        text = _written(key, slots)
        shape = _compile(text, key, slots)
        _predicates.put(key, shape)
    return shape.bind(slots)


def _written(key: tuple[str, ...], slots: list[Slot]) -> str:
    """The text that `scan` has split."""
    constants = [slot if isinstance(slot, str) else ", ".join(slot) for slot in slots]
    return "".join(part for pair in zip(key[::2], [*constants, ""], strict=True) for part in pair)


def _compile(text: str, key: tuple[str, ...], slots: list[Slot]) -> Shape:
    if not text.strip():
        raise ConditionError("the condition is empty", "Leave it out, or write TRUE", text=text, position=0)
    tokens = Lexer(text, key, slots, positions(text)).read()
    from pastforward.matching.conditions.parser import (
        disjuncts_of,
        parse,
    )  # sqlglot: who writes no condition needs none

    found = disjuncts_of(
        parse(text, tokens), lambda problem, hint: ConditionError(problem, hint, text=text, position=0)
    )
    disjuncts = []
    for numbers in found.disjuncts:
        by_attribute: dict[str, list[int]] = {}
        for place in dict.fromkeys(numbers):
            by_attribute.setdefault(found.atoms[place].attribute, []).append(place)
        disjuncts.append(tuple((name, tuple(by_attribute[name])) for name in sorted(by_attribute)))
    weight = len(found.atoms) + sum(map(len, found.disjuncts)) + 1
    return Shape(tuple(_build_of(atom) for atom in found.atoms), tuple(disjuncts), weight)


# How predicates are built from slots.


def _build_of(atom: Atom) -> Build:
    if atom.operator == "is null":
        return lambda _: NULL
    if atom.operator == "is not null":
        return lambda _: ANY
    family = atom.family
    if family is Family.BOOLEAN:
        constraint = Constraint(Family.BOOLEAN, included=(atom.boolean,))
        return lambda _: constraint
    if atom.operator in ("in", "not in"):
        return _build_members(atom)
    read = _read_of(atom.operands[0])
    if atom.operator == "between":
        read_high = _read_of(atom.operands[1])
        return lambda slots: between(family, read(slots), read_high(slots))
    slot = atom.operands[0].slots[0] if atom.operands[0].slots else 0
    if atom.operator in ("like", "not like", "ilike", "not ilike"):
        return _build_like(atom, read, slot)
    if atom.operator in ("folded", "not folded"):
        return _build_folded(atom, slot)
    build = after_subtree if atom.operator == "after subtree" else BUILDERS[atom.operator]

    def build_one(slots: list[Slot]) -> Constraint | None:
        try:
            return build(family, read(slots))
        except BadConstant as error:
            raise BadSlot(error.problem, error.hint, slot) from error

    if atom.operator in ("matches", "not matches"):
        return build_one
    return lambda slots: build(family, read(slots))


def _build_members(atom: Atom) -> Build:
    reads = [_read_of(operand) for operand in atom.operands]
    first = atom.operands[0].slots[0] if atom.operands[0].slots else 0
    build, family = BUILDERS[atom.operator], atom.family
    if len(atom.operands) == 1 and atom.operands[0].is_list and atom.operator == "in":
        return _build_list(reads[0], family, first)

    def build_members(slots: list[Slot]) -> Constraint | None:
        constants: list[Any] = []
        for read, operand in zip(reads, atom.operands, strict=True):
            if operand.is_list:
                constants += read(slots)
            else:
                constants.append(read(slots))
        if len(constants) > MAX_MEMBERS:
            raise BadSlot(*too_many_members(), first)
        return build(family, constants)

    return build_members


def _build_list(read: Read, family: Family, slot: int) -> Build:
    """`IN` with strings or numbers alone: one slot, read at once."""

    def build_list(slots: list[Slot]) -> Constraint | None:
        constants = read(slots)
        if len(constants) > MAX_MEMBERS:
            raise BadSlot(*too_many_members(), slot)
        return of_members(family, constants)

    return build_list


def _build_like(atom: Atom, read: Read, slot: int) -> Build:
    read_escape = _read_of(atom.escape) if atom.escape is not None else None
    escape_slot = atom.escape.slots[0] if atom.escape is not None else 0
    negated = atom.operator.startswith("not ")
    build = ilike if atom.operator.endswith("ilike") else like

    def build_like(slots: list[Slot]) -> Constraint | None:
        escape = read_escape(slots) if read_escape is not None else None
        if escape is not None and len(escape) != 1:
            raise BadSlot("ESCAPE takes one character", r"Write ESCAPE '\'", escape_slot)
        try:
            return build(read(slots), escape, negated)
        except BadConstant as error:
            raise BadSlot(error.problem, error.hint, slot) from error

    return build_like


def _build_folded(atom: Atom, slot: int) -> Build:
    reads = [_read_of(operand) for operand in atom.operands]

    def build_folded(slots: list[Slot]) -> Constraint | None:
        texts: list[str] = []
        for read, operand in zip(reads, atom.operands, strict=True):
            texts += read(slots) if operand.is_list else [read(slots)]
        try:
            return folded(texts, atom.operator == "not folded")
        except BadConstant as error:
            raise BadSlot(error.problem, error.hint, slot) from error

    return build_folded


# How constants are read from slots.


def _read_of(operand: Operand) -> Read:
    if operand.infinity:
        value = operand.infinity
        return lambda _: value
    if operand.shape:
        return _read_shape(operand)
    slot = operand.slots[0]
    read_one = _READERS[operand.family]
    if operand.family is Family.NUMBER and not operand.is_list:
        return _read_plain_integer(slot)
    if operand.is_list:
        return lambda slots: [read_one(written, slot, place) for place, written in enumerate(slots[slot])]
    return lambda slots: read_one(slots[slot], slot, 0)


def _read_plain_integer(slot: int) -> Read:
    """The commonest constant, by the shortest way: fewer digits than the largest integer has, no sign."""

    def read(slots: list[Slot]) -> int | float:
        written: Any = slots[slot]
        return int(written) if len(written) < 19 and written.isdigit() else _read_number(written, slot, 0)

    return read


def _read_string(written: Any, slot: int, member: int) -> str:
    text: str = written[1:-1]
    if "'" in text:
        text = text.replace("''", "'")
    if not is_encodable(text):
        raise BadSlot(
            "the string holds half a character", "Write it in valid Unicode, without surrogates", slot, member
        )
    return text


def _read_number(written: Any, slot: int, member: int) -> int | float:
    if " " in written:
        written = written.replace(" ", "")
    if written.lstrip("+-").isdigit():
        # An integer of more digits than any of 64 bits has is not even read: reading takes quadratic time.
        if len(written) <= 20 and INT64_MIN <= (integer := int(written)) <= INT64_MAX:
            return integer
    else:
        value = float(written)
        if isfinite(value):
            return number(value)
    raise BadSlot(
        "the number is out of range",
        "Integers have 64 bits, -9223372036854775808 to 9223372036854775807; write 1e19 for a larger float",
        slot,
        member,
    )


def _read_timestamp(written: Any, slot: int, member: int) -> int:
    text = _read_string(written, slot, member)
    try:
        if not _TIMESTAMP.fullmatch(text):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
        return micros_of(moment.astimezone(UTC) if moment.tzinfo is not None else moment)
    except (ValueError, OverflowError) as error:
        raise BadSlot(
            f"{shown(text)} is not a timestamp",
            "Write TIMESTAMP '2026-01-31T12:00:00Z'; without a zone it is UTC",
            slot,
            member,
        ) from error


def _read_path(written: Any, slot: int, member: int) -> tuple[int, ...]:
    text = _read_string(written, slot, member)
    components = path_components(text)
    if components is None:
        raise BadSlot(f"{shown(text)} is not a path", "Write numbers with dots between: PATH '1.4.2'", slot, member)
    if len(components) > MAX_PATH_DEPTH:
        raise BadSlot(f"the path has more than {MAX_PATH_DEPTH} components", "Use a shorter path", slot, member)
    return components


_READERS: Final[dict[Family, Callable[[Any, int, int], Any]]] = {
    Family.STRING: _read_string,
    Family.NUMBER: _read_number,
    Family.TIMESTAMP: _read_timestamp,
    Family.PATH: _read_path,
}
_MAKERS: Final = {"POINT": Point, "CIRCLE": Circle, "BOX": Box}
_SHAPE_HINTS: Final = {
    "POINT": "lon is -180 to 180, lat -90 to 90",
    "CIRCLE": "lon is -180 to 180, lat -90 to 90, the radius in metres not negative",
    "BOX": "min_x <= max_x and min_y <= max_y; one across the antimeridian is two boxes, joined by OR",
}


def _read_shape(operand: Operand) -> Read:
    make: Callable[..., Point | Circle | Box] = _MAKERS[operand.shape]
    places = operand.slots

    def read(slots: list[Slot]) -> Point | Circle | Box:
        shape = make(*(float(_read_number(slots[slot], slot, 0)) for slot in places))
        if not is_valid_shape(shape):
            _, written = SHAPES[operand.shape]
            raise BadSlot(f"this is no {written}", _SHAPE_HINTS[operand.shape], places[0])
        return shape

    return read


def _members(family: Family, members: set[Any]) -> Constraint:
    constraint = BUILDERS["in"](family, list(members))
    assert constraint is not None
    return constraint
