"""What every condition becomes: the form that the oracle, the index, the scan on disk and Spark read.

A condition is a tuple of disjuncts, in the order written, none twice; it holds when one of them does. No disjunct at
all means: never. A disjunct is a tuple of `(attribute, Constraint)`, sorted by attribute, each attribute once; it holds
when all of them do. An empty disjunct means: always. An attribute of the previous publication has a name that begins
with `previous.`.

A `Constraint` is everything a disjunct says about one attribute, merged. There are three sorts of it:

| family                                          | holds for                                                   |
| `NULL`                                          | the absent attribute, nothing else                          |
| `ANY`                                           | every value of every type (`IS NOT NULL`), NaN included     |
| `BOOLEAN NUMBER STRING TIMESTAMP PATH GEOMETRY` | values of that family alone, within all of the limits below |

Limits of a constraint of one family. If `included` is not None it is the whole truth: a non-empty, sorted set of the
values that satisfy the constraint, and every other field has its default. Otherwise a value must satisfy all of:

| field                 | families                     | a value satisfies it when                                |
| `low`, `low_closed`   | NUMBER STRING TIMESTAMP PATH | above `low`, or equal if closed; None: no bound          |
| `high`, `high_closed` | the same                     | below `high`, or equal if closed; None: no bound         |
| `excluded`            | the same, GEOMETRY           | equal to none of them; sorted, strictly inside the bounds |
| `patterns`            | STRING                       | each matches it, or does not if `negated`                |
| `tests`               | GEOMETRY                     | each holds, or does not if `negated`                     |

Constants, so that kernels need few case distinctions:
- BOOLEAN: `bool`, and always `included`: one value or both.
- NUMBER: integers and floats are one family and compare as exact numbers. A constant is an `int` if it is integral and
  fits 64 bits, signed (so 3.0 is 3, -0.0 is 0), else a `float`: a fraction, a magnitude of 2^63 or more, an infinity.
  Never NaN: as a value, NaN compares with nothing and satisfies no NUMBER constraint, not even one of exclusions only.
  The only family whose bounds may be open or closed at either end; without a bound the end is closed. What lies
  between two bounds counts as non-empty, as on the whole line.
- STRING: `str` without surrogates, ordered by code point, which is the order of the UTF-8 bytes. Bounds are half-open:
  low closed, high open (`> 'a'` is from `a` with a zero character after it: nothing lies between).
  `LIKE 'ab%'` is the range from `ab` to `ac`: see `string_after_prefix`.
- TIMESTAMP: `int`, microseconds since 1970, UTC. Bounds are closed.
- PATH: tuple of `int`, ordered as tuples: an ancestor before what is below it, `1.9` before `1.10`. Bounds: half-open
  (`> PATH '1.4'` is from (1, 4, 0): nothing lies between). `within(x, PATH '1.4')` is the range from (1, 4) to (1, 5);
  what contains a path is the set of its ancestors and itself. So there is no path test.
- GEOMETRY: `Point`, `Box`, `Circle`. Equal means the same shape with the same numbers.
For STRING and PATH `high_closed` is False when there is a high bound, and True when there is none.
A range of one value is `included`. A constraint that nothing can satisfy never appears: its disjunct is dropped.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from pastforward.columns import dewey
from pastforward.matching.conditions.values import Box, Circle, Point

PREVIOUS: Final = "previous."

Shape: TypeAlias = Point | Box | Circle
Constant: TypeAlias = bool | int | float | str | tuple[int, ...] | Shape


class Family(IntEnum):
    """Which values a constraint speaks of. The numbers are stable: they go on the wire."""

    NULL = 0
    ANY = 1
    BOOLEAN = 2
    NUMBER = 3
    STRING = 4
    TIMESTAMP = 5
    PATH = 6
    GEOMETRY = 7


class PatternKind(IntEnum):
    """How `Pattern.text` is read. Positive prefixes are ranges, so `PREFIX` appears negated only."""

    PREFIX = 1
    SUFFIX = 2
    SUBSTRING = 3
    LIKE = 4  # `%` any run, `_` one code point, backslash before `%`, `_` or backslash: the character itself
    REGEX = 5  # RE2 syntax, found anywhere in the value


class Pattern(NamedTuple):
    kind: PatternKind
    text: str
    negated: bool = False


class Relation(IntEnum):
    """What the attribute's shape does to the constant's: `CONTAINS` reads "the attribute contains the constant"."""

    OVERLAPS = 1
    CONTAINS = 2
    WITHIN = 3


class Test(NamedTuple):
    relation: Relation
    shape: Shape
    negated: bool = False


class Constraint(NamedTuple):
    family: Family
    low: Constant | None = None
    low_closed: bool = True
    high: Constant | None = None
    high_closed: bool = True
    included: tuple[Constant, ...] | None = None
    excluded: tuple[Constant, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    tests: tuple[Test, ...] = ()


Disjunct: TypeAlias = tuple[tuple[str, Constraint], ...]
NormalForm: TypeAlias = tuple[Disjunct, ...]

NULL: Final = Constraint(Family.NULL)
ANY: Final = Constraint(Family.ANY)
ALWAYS: Final[NormalForm] = ((),)
NEVER: Final[NormalForm] = ()

_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


def string_after_prefix(prefix: str) -> str | None:
    """The least string above everything that begins with `prefix`; None if there is none."""
    kept = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return None
    after = ord(kept[-1]) + 1
    if after in _SURROGATES:
        after = _SURROGATES.stop
    return kept[:-1] + chr(after)


# Components of a path are at most this: they fit the signed 64-bit integers of every client.
MAX_COMPONENT: Final = dewey.MAX_COMPONENT


def path_after_subtree(path: tuple[int, ...]) -> tuple[int, ...] | None:
    """The least path above everything at or below `path`; None if there is none."""
    kept = len(path)
    while kept and path[kept - 1] == MAX_COMPONENT:
        kept -= 1
    if not kept:
        return None
    return (*path[: kept - 1], path[kept - 1] + 1)
