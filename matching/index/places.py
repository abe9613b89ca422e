"""Shapes in the kernels: the exact test, and where a shape lies on three axes, by which the index finds it.

An attribute that subscriptions test for its place has axes: attributes of the index that no publication names. What subscriptions ask of
them are ranges of integers, in ten-millionths of a degree; a publication's shape has one range on each, a point one value.

    X   longitude, or any other plane's x
    Y   latitude, or y
    Z   longitude counted from the antimeridian, for circles that lie across it

A range holds the whole shape and a little more; `geometry` decides. A circle that is near a pole, or lies across both meridians, has no
range of longitude.
"""

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from math import isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.addressed import reference
from pastforward.columns.attributes import BOX, CIRCLE, INTEGER, POINT
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import float_of_bits
from pastforward.columns.scalars import Bool, Float, Int
from pastforward.matching.conditions import geometry
from pastforward.matching.conditions.geometry import (
    DEGREE_M,
    EVERYWHERE,
    circle_reach,
    numbers_contain,
    numbers_overlap,
    on_globe,
    shape_numbers,
)
from pastforward.matching.conditions.normal_form import Constraint, Family, Relation
from pastforward.matching.index.keys import NUMBER_KEY, OTHER, first_key, last_key, number_key
from pastforward.matching.index.records import (
    EQUALS,
    GEOMETRY,
    HAS_HIGH,
    HAS_LOW,
    NOT_SO,
    NUMBER,
    OVERLAPS,
    RELATION,
    SHAPE_SHIFT,
    WITHIN,
    Parts,
)

geometry.for_kernels()

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

parts_at = reference(Parts)

X: Final = 0
Y: Final = 1
Z: Final = 2
AXES: Final = 3

_FINE: Final = 1e7  # places an axis has to a degree: a centimetre
_END: Final = 4e18  # of an axis
_HALF: Final = 180.0


@kernel
def axis_place(degrees: Float) -> Int:
    """Never falls when the degrees grow, so a range of degrees lies in the range of their places."""
    return np.int64(np.floor(min(max(degrees * _FINE, -_END), _END)))


@inner
def axis_range(axis: Int, shape: Int, a: Float, b: Float, c: Float, d: Float) -> tuple[Bool, Int, Int]:
    """Whether a shape is bounded on an axis, and the places from which to which it lies."""
    low = a
    high = a
    if shape == geometry.CIRCLE:
        half, reach = circle_reach(b, c)
        if axis == Y:
            low = b - reach
            high = b + reach
        else:
            if axis == Z:
                low = a - _HALF if a >= 0 else a + _HALF
            high = low + half
            low -= half
            if half == EVERYWHERE or low < -_HALF or high > _HALF:
                return False, 0, 0
    else:
        if shape == geometry.POINT:
            c = a
            d = b
        if axis == X:
            high = c
        elif axis == Y:
            low = b
            high = d
        else:
            # what lies beyond the globe meets no circle, and no other asks for this axis
            low = max(a, -_HALF)
            high = min(c, _HALF)
            if high < 0:
                low += _HALF
                high += _HALF
            elif low >= 0:
                low -= _HALF
                high -= _HALF
            else:
                return False, 0, 0
    return True, axis_place(low), axis_place(high)


@inner
def read_double(heap: U8, at: Int) -> Float:
    bits = np.uint64(0)
    for i in range(8):
        bits |= np.uint64(heap[at + i]) << np.uint64(8 * i)
    return float_of_bits(np.int64(bits))


@inner
def read_shape(heap: U8, at: Int, tag: Int) -> tuple[Int, Float, Float, Float, Float]:
    """What it is in `geometry`, and its numbers."""
    a = read_double(heap, at)
    b = read_double(heap, at + 8)
    c = 0.0
    d = 0.0
    shape = np.int64(geometry.POINT)
    if tag != POINT:
        c = read_double(heap, at + 16)
        shape = np.int64(geometry.CIRCLE)
    if tag == BOX:
        d = read_double(heap, at + 24)
        shape = np.int64(geometry.BOX)
    return shape, a, b, c, d


@inner
def is_shape(tag: Int) -> Bool:
    return tag == POINT or tag == CIRCLE or tag == BOX


@kernel
def is_valid(heap: U8, at: Int, tag: Int) -> Bool:
    """As `conditions.types.is_valid_shape` says."""
    shape, a, b, c, d = read_shape(heap, at, tag)
    if shape == geometry.BOX:
        finite = isfinite(a) and isfinite(b) and isfinite(c) and isfinite(d)
        return finite and a <= c and b <= d
    return on_globe(a, b) and isfinite(c) and c >= 0


@inner
def _word_double(words: U32, at: Int) -> Float:
    return float_of_bits(np.int64(np.uint64(words[at]) | (np.uint64(words[at + 1]) << np.uint64(32))))


@inner
def _constant(words: U32, at: Int) -> tuple[Int, Float, Float, Float, Float]:
    """The shape that a part asks about."""
    shape = np.int64(words[at] >> np.uint32(SHAPE_SHIFT)) & 3
    c = 0.0
    d = 0.0
    if shape != geometry.POINT:
        c = _word_double(words, at + 5)
    if shape == geometry.BOX:
        d = _word_double(words, at + 7)
    return shape, _word_double(words, at + 1), _word_double(words, at + 3), c, d


@kernel
def shape_holds(words: U32, at: Int, heap: U8, offset: Int, tag: Int) -> Bool:
    """Whether a publication's shape passes the test of the part at `at`."""
    flags = np.int64(words[at])
    relation = flags & RELATION
    asked, e, f, g, h = _constant(words, at)
    shape, a, b, c, d = read_shape(heap, offset, tag)
    if asked == geometry.CIRCLE and shape == geometry.POINT and abs(b - f) * DEGREE_M > g + 1.0:
        # most that the index names are refuted here, without sines
        found = False
    elif relation == EQUALS:
        found = shape == asked and a == e and b == f and c == g and d == h
    elif relation == OVERLAPS:
        found = numbers_overlap(shape, a, b, c, d, asked, e, f, g, h)
    elif relation == WITHIN:
        found = numbers_contain(asked, e, f, g, h, shape, a, b, c, d)
    else:
        found = numbers_contain(shape, a, b, c, d, asked, e, f, g, h)
    return found != (flags & NOT_SO != 0)


@inner
def put_axes(out: Any, at: Int, attribute: Int, tag: Int, heap: U8, offset: Int, axes: I32) -> Int:
    """The entries of a publication's shape on the axes that subscriptions ask about. Returns where the next entry goes."""
    if AXES * attribute >= len(axes):
        return at
    for axis in range(AXES):
        number = axes[AXES * attribute + axis]
        if not number:
            continue
        shape, a, b, c, d = read_shape(heap, offset, tag)
        bounded, low, high = axis_range(axis, shape, a, b, c, d)
        out.attribute[at] = number
        out.offset[at] = 0
        out.length[at] = 0
        if bounded and low == high:
            out.tag[at] = INTEGER
            out.bits[at] = low
        else:
            out.tag[at] = OTHER
            out.bits[at] = 0
        out.low[at] = number_key(INTEGER, low) if bounded else first_key(NUMBER_KEY)
        out.high[at] = number_key(INTEGER, high) if bounded else last_key(NUMBER_KEY)
        at += 1
    return at


@inner
def _shape_of_part(parts: Parts, p: Int) -> tuple[Int, Float, Float, Float, Float]:
    shape = (np.int64(parts.flags[p]) >> SHAPE_SHIFT) & 3
    at = parts.low[p]
    c = 0.0
    d = 0.0
    if shape != geometry.POINT:
        c = float_of_bits(parts.items[at + 2])
    if shape == geometry.BOX:
        d = float_of_bits(parts.items[at + 3])
    return shape, float_of_bits(parts.items[at]), float_of_bits(parts.items[at + 1]), c, d


@inner
def _ranges(parts: Parts, p: Int) -> tuple[Int, Int, Int, Int, Int]:
    """By which of X and Z a part is found (neither: -1) and its ranges there and on Y."""
    shape, a, b, c, d = _shape_of_part(parts, p)
    axis = np.int64(X)
    bounded, low, high = axis_range(X, shape, a, b, c, d)
    if not bounded:
        axis = np.int64(Z)
        bounded, low, high = axis_range(Z, shape, a, b, c, d)
    _, south, north = axis_range(Y, shape, a, b, c, d)
    # a range of one value would be an equality, which a publication's range is not looked up by
    return axis if bounded else np.int64(-1), low, max(high, low + 1), south, max(north, south + 1)


@inner
def _best(parts: Parts, begin: Int, end: Int) -> Int:
    """Of the tests of one attribute the one that leads to the least area, -1 if none leads anywhere. Only one: against published
    conditions each two are tested by themselves, so those that the ranges of two tests refute together may match."""
    best = np.int64(-1)
    least = np.inf
    for p in range(begin, end):
        if parts.kind[p] == GEOMETRY and not parts.flags[p] & NOT_SO:
            axis, low, high, south, north = _ranges(parts, p)
            width = np.float64(high) - np.float64(low) if axis >= 0 else EVERYWHERE * _FINE
            area = width * (np.float64(north) - np.float64(south))
            if best < 0 or area < least:
                best = np.int64(p)
                least = area
    return best


@inner
def _run_end(parts: Parts, begin: Int, end: Int) -> Int:
    """Where the parts of the attribute of the part at `begin` end."""
    p = begin
    while p < end and parts.attribute[p] == parts.attribute[begin]:
        p += 1
    return p


@kernel
def axes_wanted(parts_address: Int, wanted: U8) -> Int:
    """Marks axes of attributes. Returns how many parts they add."""
    parts = parts_at(parts_address)
    added = 0
    for s in range(len(parts.start) - 1):
        p = parts.start[s]
        while p < parts.start[s + 1]:
            end = _run_end(parts, p, parts.start[s + 1])
            best = _best(parts, p, end)
            if best >= 0:
                axis = _ranges(parts, best)[0]
                wanted[AXES * np.int64(parts.attribute[p]) + Y] = 1
                added += 1
                if axis >= 0:
                    wanted[AXES * np.int64(parts.attribute[p]) + axis] = 1
                    added += 1
            p = end
    return added


@inner
def _put_range(out: Parts, begin: Int, at: Int, attribute: Int, low: Int, high: Int) -> None:
    """In the order of attributes, among the parts of a slot from `begin` on."""
    while at > begin and out.attribute[at - 1] > attribute:
        out.attribute[at] = out.attribute[at - 1]
        out.kind[at] = out.kind[at - 1]
        out.flags[at] = out.flags[at - 1]
        out.low[at] = out.low[at - 1]
        out.high[at] = out.high[at - 1]
        at -= 1
    out.attribute[at] = attribute
    out.kind[at] = NUMBER
    out.flags[at] = HAS_LOW | HAS_HIGH
    out.low[at] = low
    out.high[at] = high


@kernel
def add_ranges(parts_address: Int, axes: I32, out_address: Int) -> None:
    """The same parts, and for each attribute with a test of its place the ranges by which it is found."""
    parts = parts_at(parts_address)
    out = parts_at(out_address)
    at = 0
    out.start[0] = 0
    for s in range(len(parts.start) - 1):
        begin = at
        for p in range(parts.start[s], parts.start[s + 1]):
            out.attribute[at] = parts.attribute[p]
            out.kind[at] = parts.kind[p]
            out.flags[at] = parts.flags[p]
            out.low[at] = parts.low[p]
            out.high[at] = parts.high[p]
            at += 1
        p = parts.start[s]
        while p < parts.start[s + 1]:
            end = _run_end(parts, p, parts.start[s + 1])
            best = _best(parts, p, end)
            if best >= 0:
                axis, low, high, south, north = _ranges(parts, best)
                first = AXES * np.int64(parts.attribute[p])
                _put_range(out, begin, at, np.int64(axes[first + Y]), south, north)
                at += 1
                if axis >= 0:
                    _put_range(out, begin, at, np.int64(axes[first + axis]), low, high)
                    at += 1
            p = end
        out.start[s + 1] = at


@kernel
def _range_of(axis: Int, shape: Int, a: Float, b: Float, c: Float, d: Float) -> tuple[Int, Int]:
    """Order keys."""
    bounded, low, high = axis_range(axis, shape, a, b, c, d)
    if not bounded:
        return first_key(NUMBER_KEY), last_key(NUMBER_KEY)
    return number_key(INTEGER, low), number_key(INTEGER, high)


def published_range(axis: int, constraint: Constraint) -> tuple[int, int] | None:
    """Order keys that hold the places, on an axis, of every shape that a published condition may mean; None if it means none. What is
    said to overlap or contain a shape may reach anywhere."""
    if constraint.family is Family.ANY:
        return 0, 2**64 - 1
    if constraint.family is not Family.GEOMETRY:
        return None
    shapes: list[Any] = list(constraint.included or ())
    if constraint.included is None:
        shapes = [t.shape for t in constraint.tests if t.relation is Relation.WITHIN and not t.negated][:1]
    if not shapes:
        return NUMBER_KEY << 61, ((NUMBER_KEY + 1) << 61) - 1
    keys = [_range_of(axis, *shape_numbers(shape)) for shape in shapes]
    return min(int(low) for low, _ in keys), max(int(high) for _, high in keys)
