"""Conditions, between plain data and Python: the structured form that clients send, and the normal form that workers read."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pastforward.columns.vocabulary import SYMBOLS
from pastforward.matching.conditions.normal_form import (
    Constant,
    Constraint,
    Family,
    NormalForm,
    Pattern,
    PatternKind,
    Relation,
    Shape,
    Test,
)
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.schemas.avro_plain import Plain
from pastforward.schemas.dewey_text import path_components, path_text
from pastforward.schemas.errors import SchemaError
from pastforward.schemas.fields import Check, flag, many, one_of, optional, read_fields, text, wrong_type
from pastforward.schemas.limits import MAX_PATH_DEPTH
from pastforward.schemas.records import Disjuncts, Predicate, Where
from pastforward.schemas.times import micros_of
from pastforward.schemas.value_fields import attribute_name, attribute_value, plain_value, undressed

_SYMBOL_OF: Final = {operator: symbol for symbol, operator in SYMBOLS.items()}
_NO_VALUE: Final = frozenset(("is null", "is not null"))
_MANY_VALUES: Final = frozenset(("in", "not in"))
_TWO_VALUES: Final = frozenset(("between", "not between"))
_FAMILY_OF: Final = {("absent" if family is Family.NULL else family.name.lower()): family for family in Family}
_FAMILY_NAME: Final = {family: name for name, family in _FAMILY_OF.items()}


def _operator(value: Any, what: str) -> str:
    operator = SYMBOLS.get(text(value, what), value)
    if operator not in _SYMBOL_OF:
        raise SchemaError("bad_condition", f"{what} is {operator[:40]!r}: write one of {', '.join(_SYMBOL_OF)}")
    return str(operator)


_PREDICATE: Final[dict[str, Check[Any]]] = {
    "attribute": attribute_name,
    "operator": _operator,
    "value": optional(attribute_value),
    "high": optional(attribute_value),
    "values": many(attribute_value),
}


def _predicate(value: Any, what: str) -> Predicate:
    found = Predicate(*read_fields(value, what, _PREDICATE, True, value=None, high=None, values=()))
    operator = found.operator
    wanted = (operator not in _NO_VALUE | _MANY_VALUES, operator in _TWO_VALUES)
    if (found.value is not None, found.high is not None) != wanted or (found.values and operator not in _MANY_VALUES):
        needs = (
            "values"
            if operator in _MANY_VALUES
            else "value and high"
            if wanted[1]
            else "value"
            if wanted[0]
            else "none"
        )
        raise SchemaError(
            "bad_condition", f"{what} has the operator {operator!r}: of value, high and values it needs {needs}"
        )
    return found


_DISJUNCTS: Final = many(many(_predicate))


def where(value: Any, what: str) -> Where:
    if value is None or type(value) is str:
        return value
    if type(value) is dict:
        found: Disjuncts = read_fields(value, what, {"disjuncts": _DISJUNCTS}, True)[0]
        return found
    raise wrong_type(what, "SQL text", value)


def plain_where(value: Where) -> Plain:
    if value is None or isinstance(value, str):
        plain: Plain = undressed(value)
        return plain
    return {"disjuncts": [[_plain_predicate(each) for each in disjunct] for disjunct in value]}


def _plain_predicate(predicate: Predicate) -> Plain:
    return {
        "attribute": undressed(predicate.attribute),
        "operator": undressed(_SYMBOL_OF.get(predicate.operator, predicate.operator)),
        "value": plain_value(predicate.value),
        "high": plain_value(predicate.high),
        "values": [plain_value(each) for each in predicate.values],
    }


def _constant_reader(family: Family) -> Check[Constant]:
    def constant(value: Any, what: str) -> Constant:
        found = attribute_value(value, what)
        if family is Family.TIMESTAMP and isinstance(found, datetime):
            return micros_of(found)
        if family is Family.PATH and isinstance(found, Path):
            return path_components(found.text)
        if isinstance(found, datetime | Path):
            raise wrong_type(what, f"a constant of the family {family.name.lower()}", value)
        return found

    return constant


_CONSTANTS: Final = {family: _constant_reader(family) for family in Family}


def _path_bound(value: Any, what: str) -> Constant:
    """`> PATH '1.4'` is from 1.4.0: a bound has a component more than what was written, which may be as deep as any."""
    if type(value) is dict and value.keys() == {"path"}:
        return path_components(text(value["path"], what), MAX_PATH_DEPTH + 1)
    return _CONSTANTS[Family.PATH](value, what)


_BOUNDS: Final = {**_CONSTANTS, Family.PATH: _path_bound}


def _plain_constant(value: Constant | None, family: Family) -> Plain:
    if value is None:
        return None
    if isinstance(value, tuple):
        return {"path": path_text(value)}
    if family is Family.TIMESTAMP:
        return {"timestamp": value}
    return plain_value(value)


def _shape(value: Any, what: str) -> Shape:
    found = attribute_value(value, what)
    if not isinstance(found, Point | Circle | Box):
        raise wrong_type(what, "a point, circle or box", value)
    return found


_PATTERN_FIELDS: Final[dict[str, Check[Any]]] = {
    "kind": one_of(*(kind.name.lower() for kind in PatternKind)),
    "text": text,
    "negated": flag,
}
_TEST_FIELDS: Final[dict[str, Check[Any]]] = {
    "relation": one_of(*(relation.name.lower() for relation in Relation)),
    "shape": _shape,
    "negated": flag,
}


def _pattern(value: Any, what: str) -> Pattern:
    kind, pattern, negated = read_fields(value, what, _PATTERN_FIELDS, False)
    return Pattern(PatternKind[kind.upper()], pattern, negated)


def _test(value: Any, what: str) -> Test:
    relation, shape, negated = read_fields(value, what, _TEST_FIELDS, False)
    return Test(Relation[relation.upper()], shape, negated)


def _constraint(value: Any, what: str) -> tuple[str, Constraint]:
    if type(value) is not dict or type(value.get("family")) is not str or value["family"] not in _FAMILY_OF:
        raise wrong_type(what, "a constraint of a known family", value)
    family = _FAMILY_OF[value["family"]]
    constant, bound = _CONSTANTS[family], _BOUNDS[family]
    known: dict[str, Check[Any]] = {
        "attribute": text,
        "low": optional(bound),
        "low_closed": flag,
        "high": optional(bound),
        "high_closed": flag,
        "included": optional(many(constant)),
        "excluded": many(constant),
        "patterns": many(_pattern),
        "tests": many(_test),
    }
    name, *limits = read_fields(
        value, what, known, False, low=None, low_closed=True, high=None, high_closed=True, included=None, excluded=(),
        patterns=(), tests=(),
    )  # fmt: skip
    return name, Constraint(family, *limits)


def normal_form(value: Any, what: str) -> NormalForm:
    return many(many(_constraint))(value, what)


def plain_normal_form(form: NormalForm) -> Plain:
    return [[_plain_constraint(name, constraint) for name, constraint in disjunct] for disjunct in form]


def _plain_constraint(name: str, constraint: Constraint) -> Plain:
    family = constraint.family
    included = constraint.included
    return {
        "attribute": name,
        "family": _FAMILY_NAME[family],
        "low": _plain_constant(constraint.low, family),
        "low_closed": constraint.low_closed,
        "high": _plain_constant(constraint.high, family),
        "high_closed": constraint.high_closed,
        "included": None if included is None else [_plain_constant(each, family) for each in included],
        "excluded": [_plain_constant(each, family) for each in constraint.excluded],
        "patterns": [
            {"kind": each.kind.name.lower(), "text": each.text, "negated": each.negated} for each in constraint.patterns
        ],
        "tests": [
            {"relation": each.relation.name.lower(), "shape": plain_value(each.shape), "negated": each.negated}
            for each in constraint.tests
        ],
    }
