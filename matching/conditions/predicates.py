"""Predicates: the structured form of a condition, and how each becomes a constraint.

A predicate is an attribute, an operator and a value. The operators, and the families their values may have:

| operator                                          | value                                                        |
| `=` `!=`                                          | any                                                          |
| `in` `not in`                                     | a list of values of one family                               |
| `<` `<=` `>` `>=`                                 | number, string, timestamp, path                              |
| `between` `not between`                           | the same; `high` is the other end, both ends in              |
| `prefix` `suffix` `substring`, each with `not`    | string                                                       |
| `like`, `not like`                                | string: `%`, `_`, and backslash before what stands for itself |
| `matches`, `not matches`                          | string: an RE2 expression, found anywhere                    |
| `overlaps` `contains` `within`, each with `not`   | point, box or circle; path                                   |
| `is null`, `is not null`                          | none                                                         |

Most become one constraint. Some become two, one of which must hold: `not between` is below or above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.columns.vocabulary import OPERATORS
from pastforward.matching.conditions.errors import ConditionError, shown
from pastforward.matching.conditions.limits import (
    MAX_DISJUNCTS,
    MAX_MEMBERS,
    MAX_NAME_BYTES,
    MAX_PATH_DEPTH,
    MAX_PATTERN_LENGTH,
    MAX_REGEX_INSTRUCTIONS,
)
from pastforward.matching.conditions.merge import below_path, limited, meet, of_members, with_prefix
from pastforward.matching.conditions.normal_form import (
    ANY,
    NULL,
    Constraint,
    Disjunct,
    Family,
    Pattern,
    PatternKind,
    Relation,
    Test,
    path_after_subtree,
    string_after_prefix,
)
from pastforward.matching.conditions.patterns import (
    ANY_ONE,
    ESCAPE,
    BadPattern,
    compile_like,
    compile_regex,
    folded_like,
    folded_texts,
    has_case,
    like_pattern,
    read_like,
)
from pastforward.matching.conditions.types import classify, is_encodable, path_text, value_of
from pastforward.matching.conditions.values import Path, Value


class Predicate(NamedTuple):
    """One test of one attribute. `high` is used by `between` and `not between` alone."""

    attribute: str
    operator: str
    value: Value | tuple[Value, ...] | None = None
    high: Value | None = None


class BadConstant(ValueError):
    """A constant that its operator cannot take."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


ORDERED: Final = frozenset((Family.NUMBER, Family.STRING, Family.TIMESTAMP, Family.PATH))

_PATTERNS: Final = {
    "suffix": PatternKind.SUFFIX,
    "substring": PatternKind.SUBSTRING,
    "matches": PatternKind.REGEX,
}
_RELATIONS: Final = {
    "overlaps": Relation.OVERLAPS,
    "contains": Relation.CONTAINS,
    "within": Relation.WITHIN,
}
_PLAIN_ONES: Final = 64  # so many `_` never exceed RE2's budget, so such a pattern need not be compiled to be taken
FAMILY_NAMES: Final = {
    Family.BOOLEAN: "a boolean",
    Family.NUMBER: "a number",
    Family.STRING: "a string",
    Family.TIMESTAMP: "a timestamp",
    Family.PATH: "a path",
    Family.GEOMETRY: "a point, box or circle",
}

# From constants of one family to what they admit; None if that is nothing.
Builder = Callable[[Family, Any], Constraint | None]


def _equal(family: Family, constant: Any) -> Constraint | None:
    return Constraint(family, None, True, None, True, (constant,))


def _unequal(family: Family, constant: Any) -> Constraint | None:
    return _not_in(family, [constant])


def _in(family: Family, constants: Any) -> Constraint | None:
    return of_members(family, constants)


def _not_in(family: Family, constants: Any) -> Constraint | None:
    if family is Family.BOOLEAN:
        return of_members(family, [constant for constant in (False, True) if constant not in constants])
    return limited(family, excluded=set(constants))


def _below(family: Family, constant: Any) -> Constraint | None:
    if family is Family.NUMBER:
        return None if constant == -inf else Constraint(family, None, True, constant, False)
    return limited(family, high=constant, high_closed=False)


def _at_most(family: Family, constant: Any) -> Constraint | None:
    if constant == -inf:
        return _equal(family, constant)
    if family is Family.NUMBER or family is Family.TIMESTAMP:
        return Constraint(family, None, True, constant, True)
    return limited(family, high=constant)


def _above(family: Family, constant: Any) -> Constraint | None:
    if family is Family.NUMBER:
        return None if constant == inf else Constraint(family, constant, False)
    return limited(family, low=constant, low_closed=False)


def _at_least(family: Family, constant: Any) -> Constraint | None:
    if constant == inf:
        return _equal(family, constant)
    if family is Family.NUMBER or family is Family.TIMESTAMP:
        return Constraint(family, constant)
    return limited(family, low=constant)


def between(family: Family, low: Any, high: Any) -> Constraint | None:
    """Both ends in."""
    if low < high and (family is Family.NUMBER or family is Family.TIMESTAMP):
        return Constraint(family, low, True, high, True)
    return limited(family, low, True, high, True)


def _prefix(_: Family, text: Any) -> Constraint | None:
    return with_prefix(text)


def _not_prefix(_: Family, text: Any) -> Constraint | None:
    pattern = Pattern(PatternKind.PREFIX, text, True)
    if text and string_after_prefix(text) is not None:
        return Constraint(Family.STRING, patterns=(pattern,))
    return limited(Family.STRING, patterns={pattern})


def _pattern(kind: PatternKind, negated: bool) -> Builder:
    def build(_: Family, text: Any) -> Constraint | None:
        if kind is PatternKind.REGEX:
            _compiled(compile_regex, text)
        elif not text and not negated:
            return Constraint(Family.STRING)
        return limited(Family.STRING, patterns={Pattern(kind, text, negated)})

    return build


def _like(_: Family, text: Any) -> Constraint | None:
    return like(text, ESCAPE, False)


def _not_like(_: Family, text: Any) -> Constraint | None:
    return like(text, ESCAPE, True)


def like(text: str, escape: str | None, negated: bool) -> Constraint | None:
    """What a LIKE pattern admits, by the simplest means: equality, a range, a suffix, a substring, or a general pattern."""
    if escape is None and text.find("%") == len(text) - 1 and "_" not in text:
        # The commonest by far: `I-%`.
        return (_not_prefix if negated else _prefix)(Family.STRING, text[:-1])
    try:
        kind, simple = like_pattern(read_like(text, escape))
    except BadPattern as error:
        raise BadConstant(str(error), "Double the escape character, or leave ESCAPE away") from error
    if kind is None:
        return (_unequal if negated else _equal)(Family.STRING, simple)
    if kind is PatternKind.PREFIX:
        return (_not_prefix if negated else _prefix)(Family.STRING, simple)
    if kind is PatternKind.LIKE and (len(simple) > MAX_PATTERN_LENGTH or simple.count(ANY_ONE) > _PLAIN_ONES):
        _compiled(compile_like, simple)
    return limited(Family.STRING, patterns={Pattern(kind, simple, negated)})


def ilike(text: str, escape: str | None, negated: bool) -> Constraint | None:
    """LIKE without regard to case: a regular expression, unless there is nothing in it that has a case."""
    if not has_case(text):
        return like(text, escape, negated)
    try:
        expression = folded_like(read_like(text, escape))
    except BadPattern as error:
        raise BadConstant(str(error), "Double the escape character, or leave ESCAPE away") from error
    return _pattern(PatternKind.REGEX, negated)(Family.STRING, expression)


def folded(texts: list[str], negated: bool) -> Constraint | None:
    """Equal to one of these without regard to case."""
    if not any(map(has_case, texts)):
        return (_not_in if negated else _in)(Family.STRING, texts)
    return _pattern(PatternKind.REGEX, negated)(Family.STRING, folded_texts(sorted(set(texts))))


def _compiled(compiler: Callable[[str], Any], text: str) -> None:
    if len(text) > MAX_PATTERN_LENGTH:
        raise BadConstant(f"the pattern is longer than {MAX_PATTERN_LENGTH:,} characters", "Use a shorter one")
    try:
        size = compiler(text).programsize
    except BadPattern as error:
        raise BadConstant(
            f"the regular expression is not understood: {error}",
            "See the syntax of RE2: it has no look-around and no back-references",
        ) from error
    if size > MAX_REGEX_INSTRUCTIONS:
        raise BadConstant(
            f"the regular expression is {size:,} instructions long; the limit is {MAX_REGEX_INSTRUCTIONS:,}",
            "Use shorter counted repetitions, or several subscriptions",
        )


def _test(relation: Relation, negated: bool) -> Builder:
    def build(family: Family, shape: Any) -> Constraint | None:
        if family is Family.PATH:
            return _path_test(relation, negated, shape)
        return limited(Family.GEOMETRY, tests={Test(relation, shape, negated)})

    return build


def _path_test(relation: Relation, negated: bool, path: tuple[int, ...]) -> Constraint | None:
    if relation is Relation.WITHIN and not negated:
        return below_path(path)
    if relation is Relation.CONTAINS:
        ancestors = [path[:depth] for depth in range(len(path) + 1)]
        return (_not_in if negated else _in)(Family.PATH, ancestors)
    raise AssertionError("more than one constraint: see `alternatives`")


def after_subtree(_: Family, path: Any) -> Constraint | None:
    """The paths that come after everything at or below this one."""
    after = path_after_subtree(path)
    return None if after is None else limited(Family.PATH, low=after)


BUILDERS: Final[dict[str, Builder]] = {
    "=": _equal,
    "!=": _unequal,
    "in": _in,
    "not in": _not_in,
    "<": _below,
    "<=": _at_most,
    ">": _above,
    ">=": _at_least,
    "prefix": _prefix,
    "not prefix": _not_prefix,
    "like": _like,
    "not like": _not_like,
    **{operator: _pattern(kind, False) for operator, kind in _PATTERNS.items()},
    **{f"not {operator}": _pattern(kind, True) for operator, kind in _PATTERNS.items()},
    **{operator: _test(relation, False) for operator, relation in _RELATIONS.items()},
    **{f"not {operator}": _test(relation, True) for operator, relation in _RELATIONS.items()},
}


def takes(operator: str) -> frozenset[Family]:
    """The families that an operator can be used with."""
    base = operator.removeprefix("not ")
    if base in _RELATIONS:
        return frozenset((Family.GEOMETRY, Family.PATH))
    if base in _PATTERNS or base in ("prefix", "like"):
        return frozenset((Family.STRING,))
    if operator in ("<", "<=", ">", ">=", "between", "not between"):
        return ORDERED
    return frozenset(FAMILY_NAMES)


def alternatives(predicate: Predicate) -> list[Constraint]:
    """The constraints of one predicate of the structured form, one of which must hold. Raises `ConditionError`."""
    operator = predicate.operator
    if not isinstance(operator, str) or operator not in OPERATORS:
        raise ConditionError(f"there is no operator {shown(operator)}", f"Use one of {', '.join(sorted(OPERATORS))}")
    if operator == "is null":
        return [NULL]
    if operator == "is not null":
        return [ANY]
    try:
        found = _alternatives(predicate)
    except BadConstant as error:
        raise ConditionError(f"{predicate.attribute} {operator} …: {error.problem}", error.hint) from error
    return [constraint for constraint in found if constraint is not None]


def build(predicate: Predicate) -> Constraint | None:
    """The constraint of a predicate that `predicates_of` has made: those have one; None if nothing satisfies it."""
    found = alternatives(predicate)
    assert len(found) <= 1
    return found[0] if found else None


def multiplied_out(asked: Sequence[tuple[str, list[Constraint]]]) -> list[Disjunct]:
    """The disjuncts that say the same as predicates joined by AND, each with its attribute and its alternatives."""
    found: list[dict[str, Constraint]] = [{}]
    for name, constraints in asked:
        longer = []
        for disjunct in found:
            known = disjunct.get(name)
            for constraint in constraints:
                both = constraint if known is None else meet(known, constraint)
                if both is not None:
                    longer.append({**disjunct, name: both})
        found = longer
        if len(found) > MAX_DISJUNCTS:
            raise too_many_disjuncts()
    return [tuple(sorted(disjunct.items())) for disjunct in found]


def too_many_disjuncts() -> ConditionError:
    return ConditionError(f"there are more than {MAX_DISJUNCTS} disjuncts", "Use several subscriptions")


def checked_name(name: object) -> str:
    """The name of an attribute. Raises `ConditionError`."""
    if not isinstance(name, str) or not name:
        raise ConditionError(f"{shown(name)} cannot be the name of an attribute", "Give a string that is not empty")
    if "\0" in name:
        raise ConditionError(f"the name {shown(name)} has a zero byte", "Leave it out")
    if not is_encodable(name):
        raise ConditionError(f"{shown(name)} cannot be the name of an attribute", "Give valid Unicode")
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        raise ConditionError(f"the name is longer than {MAX_NAME_BYTES} bytes", "Use a shorter attribute name")
    return name


def _alternatives(predicate: Predicate) -> list[Constraint | None]:
    operator = predicate.operator
    if operator in ("in", "not in"):
        return [_build_members(predicate)]
    family, constant = _constant(predicate, predicate.value)
    if operator in ("between", "not between"):
        high_family, high = _constant(predicate, predicate.high)
        if operator == "not between":
            return [_below(family, constant), _above(high_family, high)]
        return [between(family, constant, high) if family is high_family else None]
    if family is Family.PATH and operator.removeprefix("not ") in _RELATIONS:
        return _path_alternatives(operator, constant)
    return [BUILDERS[operator](family, constant)]


def _path_alternatives(operator: str, path: tuple[int, ...]) -> list[Constraint | None]:
    """Two paths overlap when one is at or below the other. What is not below comes before the subtree or after it."""
    if operator == "overlaps":
        return [below_path(path), _path_test(Relation.CONTAINS, False, path)]
    if operator == "not within":
        return [_below(Family.PATH, path), after_subtree(Family.PATH, path)]
    if operator == "not overlaps":
        before, others = _below(Family.PATH, path), _path_test(Relation.CONTAINS, True, path)
        both = None if before is None or others is None else meet(before, others)
        return [both, after_subtree(Family.PATH, path)]
    return [BUILDERS[operator](Family.PATH, path)]


def _build_members(predicate: Predicate) -> Constraint | None:
    values = predicate.value
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise BadConstant(f"{shown(values)} is no list", "Give a list of values")
    if len(values) > MAX_MEMBERS:
        raise BadConstant(*too_many_members())
    constants = [_constant(predicate, value) for value in values]
    families = {family for family, _ in constants}
    if len(families) != 1:
        raise BadConstant("the list is empty, or holds values of several types", "Give values of one type")
    return BUILDERS[predicate.operator](families.pop(), [constant for _, constant in constants])


def too_many_members() -> tuple[str, str]:
    return f"the list has more than {MAX_MEMBERS:,} values", "Use several subscriptions, or a range"


def _constant(predicate: Predicate, value: object) -> tuple[Family, Any]:
    classified = classify(value)
    if classified is None:
        raise BadConstant(
            f"{shown(value)} is no value that compares with anything",
            "Give a boolean, a number of 64 bits, a string, a datetime, a path or a valid shape",
        )
    family, constant = classified
    if family not in takes(predicate.operator):
        raise BadConstant(f"it does not take {FAMILY_NAMES[family]}", "Use an operator of that type")
    if isinstance(constant, tuple) and len(constant) > MAX_PATH_DEPTH:
        raise BadConstant(f"the path has more than {MAX_PATH_DEPTH} components", "Use a shorter path")
    if family is Family.TIMESTAMP and not _is_datetime(constant):
        raise BadConstant(f"{shown(value)} is beyond the years 1 to 9999 in UTC", "Give a moment within them")
    return family, constant


# Back from a constraint to predicates.


def predicates_of(attribute: str, constraint: Constraint) -> list[Predicate]:
    """The fewest predicates that merge into this constraint."""
    family = constraint.family
    if family is Family.NULL:
        return [Predicate(attribute, "is null")]
    if family is Family.ANY:
        return [Predicate(attribute, "is not null")]
    if constraint.included is not None:
        values = tuple(value_of(family, constant) for constant in constraint.included)
        return [Predicate(attribute, "=", values[0]) if len(values) == 1 else Predicate(attribute, "in", values)]
    found = _bounds(attribute, constraint)
    if constraint.excluded:
        values = tuple(value_of(family, constant) for constant in constraint.excluded)
        found.append(
            Predicate(attribute, "!=", values[0]) if len(values) == 1 else Predicate(attribute, "not in", values)
        )
    for pattern in constraint.patterns:
        name = "matches" if pattern.kind is PatternKind.REGEX else pattern.kind.name.lower()
        found.append(Predicate(attribute, f"not {name}" if pattern.negated else name, pattern.text))
    for test in constraint.tests:
        name = test.relation.name.lower()
        found.append(Predicate(attribute, f"not {name}" if test.negated else name, test.shape))
    if not found:
        # Every value of one family: only strings and paths have a predicate that says so and nothing else.
        found.append(
            Predicate(attribute, "prefix", "") if family is Family.STRING else Predicate(attribute, "within", Path(""))
        )
    return found


def _bounds(attribute: str, constraint: Constraint) -> list[Predicate]:
    family, low, high = constraint.family, constraint.low, constraint.high
    if isinstance(low, str) and high == string_after_prefix(low):
        return [Predicate(attribute, "prefix", low)]
    if isinstance(low, tuple) and high == path_after_subtree(low):
        return [Predicate(attribute, "within", Path(path_text(low)))]
    if low is not None and high is not None and family in (Family.NUMBER, Family.TIMESTAMP):
        closed = constraint.low_closed and constraint.high_closed
        if closed and (family is Family.NUMBER or (_is_datetime(low) and _is_datetime(high))):
            return [Predicate(attribute, "between", value_of(family, low), value_of(family, high))]
    found = []
    if low is not None:
        found.append(_low(attribute, family, low, constraint.low_closed))
    if high is not None:
        found.append(_high(attribute, family, high, constraint.high_closed))
    return found


def _is_datetime(constant: Any) -> bool:
    return bool(MIN_TIME <= constant <= MAX_TIME)


def _low(attribute: str, family: Family, low: Any, closed: bool) -> Predicate:
    operator = ">=" if closed else ">"
    if family is Family.TIMESTAMP and low > MAX_TIME:
        operator, low = ">", low - 1
    elif family in (Family.STRING, Family.PATH) and _is_next(low):
        operator, low = ">", low[:-1]
    return Predicate(attribute, operator, value_of(family, low))


def _high(attribute: str, family: Family, high: Any, closed: bool) -> Predicate:
    operator = "<=" if closed else "<"
    if family is Family.TIMESTAMP and high < MIN_TIME:
        operator, high = "<", high + 1
    elif family in (Family.STRING, Family.PATH) and _is_next(high):
        operator, high = "<=", high[:-1]
    return Predicate(attribute, operator, value_of(family, high))


def _is_next(constant: Any) -> bool:
    """Whether the string or path comes directly after another: it ends with the least character or component."""
    return bool(constant) and constant[-1] in ("\0", 0)
