"""Two constraints on one attribute become one: what satisfies both.

`meet` is also what "the two intersect" means when both sides are conditions: they do if `meet` finds something. For
booleans, numbers, timestamps, paths and strings without patterns that is exact. Beyond that it is decided by these
rules, and where no rule says that nothing can satisfy both, they intersect:
- Strings: prefixes are ranges, hence exact. Two suffixes must agree; what must end with or hold a text cannot be
  forbidden to hold a part of it; no pattern can be both demanded and forbidden. Expressions are compared by their text.
- Geometry: each two tests must be compatible (see `_shapes_exclude`).
"""

from __future__ import annotations

from math import inf
from typing import Any

from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.matching.conditions import geometry
from pastforward.matching.conditions.normal_form import (
    Constant,
    Constraint,
    Family,
    Pattern,
    PatternKind,
    Relation,
    Test,
    path_after_subtree,
    string_after_prefix,
)
from pastforward.matching.conditions.patterns import matches
from pastforward.matching.conditions.values import Box, Circle, Point


def admits(constraint: Constraint, constant: Any) -> bool:
    """Whether a constant of the constraint's own family satisfies it."""
    if constraint.included is not None:
        return constant in constraint.included
    low, high = constraint.low, constraint.high
    if low is not None and not (low < constant or (constraint.low_closed and low == constant)):
        return False
    if high is not None and not (constant < high or (constraint.high_closed and high == constant)):
        return False
    if constant in constraint.excluded:
        return False
    if any(matches(pattern, constant) is pattern.negated for pattern in constraint.patterns):
        return False
    return not any(geometry.holds(test.relation, constant, test.shape) is test.negated for test in constraint.tests)


def meet(a: Constraint, b: Constraint) -> Constraint | None:
    """The constraint that holds for what satisfies both; None if nothing does."""
    if a == b:
        return a
    if a.family is Family.NULL or b.family is Family.NULL:
        return None
    if a.family is Family.ANY:
        return b
    if b.family is Family.ANY:
        return a
    if a.family is not b.family:
        return None
    if a.included is not None or b.included is not None:
        if a.included is None or (b.included is not None and len(b.included) < len(a.included)):
            a, b = b, a
        assert a.included is not None
        return of_members(a.family, [constant for constant in a.included if admits(b, constant)])
    low, low_closed = _higher_low(a, b)
    high, high_closed = _lower_high(a, b)
    return limited(
        a.family,
        low,
        low_closed,
        high,
        high_closed,
        {*a.excluded, *b.excluded},
        {*a.patterns, *b.patterns},
        {*a.tests, *b.tests},
    )


def of_members(family: Family, members: list[Any]) -> Constraint | None:
    """The constraint that holds for these values alone."""
    if not members:
        return None
    if len(members) > 1:
        members = sorted(set(members), key=_shape_order if family is Family.GEOMETRY else None)
    return Constraint(family, included=tuple(members))


def _in_one_form(bottom: Any, low: Any, low_closed: bool, high: Any, high_closed: bool) -> tuple[Any, bool, Any, bool]:
    """Of timestamps both bounds closed; of what is ordered like texts, which `bottom` begins, the lower closed and the upper open."""
    if bottom is None:
        if low is not None and not low_closed:
            low, low_closed = low + 1, True
        if high is not None and not high_closed:
            high, high_closed = high - 1, True
        return low, low_closed, high, high_closed
    if low is None:
        low = bottom
    elif not low_closed:
        low, low_closed = _next(low), True
    if high is not None and high_closed:
        high, high_closed = _next(high), False
    return low, low_closed, high, high_closed


def limited(
    family: Family,
    low: Any = None,
    low_closed: bool = True,
    high: Any = None,
    high_closed: bool = True,
    excluded: set[Constant] | None = None,
    patterns: set[Pattern] | None = None,
    tests: set[Test] | None = None,
) -> Constraint | None:
    """The canonical constraint of these limits; None if they admit nothing. Booleans come as members, not here."""
    bottom: Any = "" if family is Family.STRING else () if family is Family.PATH else None
    if bottom is not None or family is Family.TIMESTAMP:
        low, low_closed, high, high_closed = _in_one_form(bottom, low, low_closed, high, high_closed)
    unmet = set(patterns or ())
    stable = not (unmet or excluded)
    while not stable:
        before = low, high
        if unmet:
            low, high = _trim_by_prefixes(low, high, unmet)
            high_closed = high is None
        if excluded:
            low, low_closed, high, high_closed = _drop_excluded_ends(
                family, low, low_closed, high, high_closed, excluded
            )
        stable = before == (low, high) or _is_empty(low, low_closed, high, high_closed)
    if _is_empty(low, low_closed, high, high_closed) or (unmet and _patterns_exclude(unmet)):
        return None
    if family is Family.TIMESTAMP and ((low is not None and low > MAX_TIME) or (high is not None and high < MIN_TIME)):
        return None  # beyond the calendar
    if low is not None and (low == high or (bottom is not None and high == _next(low))):
        only = Constraint(family, excluded=tuple(excluded or ()), patterns=tuple(unmet))
        return of_members(family, [low] if admits(only, low) else [])
    if bottom is not None and low == bottom:
        low = None
    if tests and _tests_exclude(tests):
        return None
    inside: list[Any] = []
    if excluded:
        bounds_only = Constraint(family, low, low_closed, high, high_closed)
        inside = [constant for constant in excluded if admits(bounds_only, constant)]
        inside.sort(key=_shape_order if family is Family.GEOMETRY else None)
    return Constraint(
        family,
        low,
        low_closed,
        high,
        high_closed,
        None,
        tuple(inside),
        tuple(sorted(unmet)) if unmet else (),
        tuple(sorted(tests, key=_test_order)) if tests else (),
    )


def canonical(constraint: Constraint) -> Constraint | None:
    """The same as a condition has it; None if nothing satisfies it. Of a table of predicates the records have other forms as well: bounds
    of strings that are open or closed, positive prefixes, numbers beyond infinity, ends that leave nothing between them."""
    family, low, high = constraint.family, constraint.low, constraint.high
    if family in (Family.NULL, Family.ANY) or constraint.included is not None:
        return constraint
    if low == inf and high is None:
        return of_members(family, [inf] if constraint.low_closed else [])
    if high == -inf and low is None:
        return of_members(family, [-inf] if constraint.high_closed else [])
    plain: set[Pattern] = set()
    found: Constraint | None = Constraint(family)
    for pattern in constraint.patterns:
        if pattern.negated or (pattern.text and pattern.kind is not PatternKind.PREFIX):
            plain.add(pattern)
        elif pattern.text:
            found = with_prefix(pattern.text)
    limits = limited(
        family,
        low,
        constraint.low_closed,
        high,
        constraint.high_closed,
        set(constraint.excluded),
        plain,
        set(constraint.tests),
    )
    return None if limits is None or found is None else meet(limits, found)


def below_path(path: tuple[int, ...]) -> Constraint:
    """A path at or below this one."""
    after = path_after_subtree(path)
    return Constraint(Family.PATH, path or None, True, after, after is None)


def with_prefix(prefix: str) -> Constraint:
    after = string_after_prefix(prefix)
    return Constraint(Family.STRING, prefix or None, True, after, after is None)


def _higher_low(a: Constraint, b: Constraint) -> tuple[Any, bool]:
    x: Any = a.low
    y: Any = b.low
    if x is None:
        return y, b.low_closed
    if y is None or x > y:
        return x, a.low_closed
    if x == y:
        return x, a.low_closed and b.low_closed
    return y, b.low_closed


def _lower_high(a: Constraint, b: Constraint) -> tuple[Any, bool]:
    x: Any = a.high
    y: Any = b.high
    if x is None:
        return y, b.high_closed
    if y is None or x < y:
        return x, a.high_closed
    if x == y:
        return x, a.high_closed and b.high_closed
    return y, b.high_closed


def _next(constant: Any) -> Any:
    """The least string or path above this one."""
    return constant + "\0" if isinstance(constant, str) else (*constant, 0)


def _drop_excluded_ends(
    family: Family, low: Any, low_closed: bool, high: Any, high_closed: bool, excluded: set[Constant]
) -> tuple[Any, bool, Any, bool]:
    """Bounds that are not excluded: `>= 3` without 3 is `> 3`."""
    if family is Family.NUMBER:
        return low, low_closed and low not in excluded, high, high_closed and high not in excluded
    while low in excluded:
        low = low + 1 if family is Family.TIMESTAMP else _next(low)
    if family is Family.TIMESTAMP:
        while high in excluded:
            high -= 1
    return low, low_closed, high, high_closed


def _is_empty(low: Any, low_closed: bool, high: Any, high_closed: bool) -> bool:
    if low is None or high is None:
        return False
    return bool(low > high or (low == high and not (low_closed and high_closed)))


def _trim_by_prefixes(low: Any, high: Any, patterns: set[Pattern]) -> tuple[Any, Any]:
    """Bounds without the ends that a forbidden prefix takes away. Removes from `patterns` what the bounds now say."""
    for pattern in sorted(patterns):
        if pattern.kind is not PatternKind.PREFIX:
            continue
        first, after = pattern.text, string_after_prefix(pattern.text)
        if (high is not None and high <= first) or (after is not None and low >= after):
            patterns.discard(pattern)  # nothing in the range begins so
        elif low >= first:
            patterns.discard(pattern)
            low = high if after is None else after
            if low is None:
                low = high = ""  # everything begins so: an empty range
        elif after is None or (high is not None and high <= after):
            patterns.discard(pattern)
            high = first
    return low, high


def _patterns_exclude(patterns: set[Pattern]) -> bool:
    """Whether two of the patterns cannot both be met; a suffix that a longer one implies is removed."""
    suffixes = sorted(
        (p for p in patterns if p.kind is PatternKind.SUFFIX and not p.negated), key=lambda p: len(p.text)
    )
    for shorter in suffixes[:-1]:
        if not suffixes[-1].text.endswith(shorter.text):
            return True
        patterns.discard(shorter)
    demanded = [p for p in patterns if not p.negated]
    for forbidden in [p for p in patterns if p.negated]:
        if forbidden._replace(negated=False) in patterns:
            return True
        for positive in demanded:
            holds_text = positive.kind in (PatternKind.SUFFIX, PatternKind.SUBSTRING)
            if forbidden.kind is PatternKind.SUBSTRING and holds_text and forbidden.text in positive.text:
                return True
            both_suffix = forbidden.kind is positive.kind is PatternKind.SUFFIX
            if both_suffix and positive.text.endswith(forbidden.text):
                return True
    return any(p.negated and not p.text and p.kind is not PatternKind.REGEX for p in patterns)


def _tests_exclude(tests: set[Test]) -> bool:
    return any(_shapes_exclude(a, b) for a in tests for b in tests if a is not b)


def _shapes_exclude(a: Test, b: Test) -> bool:
    """Whether no shape x can pass both tests; tried in both orders. A is the first test's shape, B the second's."""
    overlaps, contains = geometry.overlaps, geometry.contains
    match a.relation, a.negated, b.relation, b.negated:
        case Relation.WITHIN, False, (Relation.WITHIN | Relation.OVERLAPS), False:
            return not overlaps(a.shape, b.shape)  # x inside A touches B only where A does
        case Relation.WITHIN, False, Relation.CONTAINS, False:
            return not contains(a.shape, b.shape)  # B inside x inside A
        case Relation.WITHIN, False, (Relation.WITHIN | Relation.OVERLAPS), True:
            return contains(b.shape, a.shape)  # x inside A, so inside B
        case Relation.CONTAINS, False, Relation.OVERLAPS, True:
            return overlaps(a.shape, b.shape)  # A inside x, so x touches B where A does
        case Relation.CONTAINS, False, Relation.CONTAINS, True:
            return contains(a.shape, b.shape)  # B inside A inside x
        case Relation.OVERLAPS, False, Relation.OVERLAPS, True:
            return contains(b.shape, a.shape)  # x touches A, so B
    return False


def _shape_order(shape: Any) -> tuple[int, tuple[float, ...]]:
    match shape:
        case Point():
            return 0, (shape.lon, shape.lat)
        case Circle():
            return 1, (shape.lon, shape.lat, shape.radius_m)
        case Box():
            return 2, (shape.min_x, shape.min_y, shape.max_x, shape.max_y)
    raise TypeError(f"{shape!r} is not a point, a circle or a box")


def _test_order(test: Test) -> tuple[int, bool, tuple[int, tuple[float, ...]]]:
    return test.relation, test.negated, _shape_order(test.shape)
