"""The kernel that finds the cell of each publication of a chunk, and what its twin for subscriptions shares with it.

Replaces `Constraints.publication`: 10 us with two attributes; this takes 0.13 us (`pastforward bench routing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import FLOAT, INTEGER, PATH, STRING
from pastforward.columns.kernel import kernel
from pastforward.matching.conditions.normal_form import Family
from pastforward.matching.conditions.types import path_text
from pastforward.streams.routing.cells import OTHER, Axis
from pastforward.streams.routing.columns import EntryColumns
from pastforward.streams.routing.kernel import TWO_63, at_most, family_of

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_FAMILIES: Final = len(Family)
_DOT: Final = 46


class Grid(NamedTuple):
    """Of axis `a` and family `f`: its cells begin at `cell[a, f]` (-1: it has none), its constants are
    `first[a, f]:last[a, f]`. A constant is an integer, the bits of a double if `is_float`, or a text in `heap`."""

    stride: I64
    cell: I64
    first: I64
    last: I64
    is_float: U8
    bits: I64
    length: I32
    heap: U8


def pack_grid(axes: Sequence[Axis]) -> Grid:
    shape = (len(axes), _FAMILIES)
    cell, first, last = np.full(shape, -1, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    is_float: list[int] = []
    bits: list[int] = []
    length: list[int] = []
    heap = bytearray()
    for a, axis in enumerate(axes):
        for family, constants in axis.constants.items():
            cell[a, family] = axis.first[family]
            first[a, family] = len(bits)
            for constant in constants:
                text = b""
                is_float.append(isinstance(constant, float))
                if isinstance(constant, str | tuple):
                    text = (constant if isinstance(constant, str) else path_text(constant)).encode()
                    bits.append(len(heap))
                elif isinstance(constant, float):
                    bits.append(int(np.float64(constant).view(np.int64)))
                else:
                    bits.append(constant)
                length.append(len(text))
                heap += text
            last[a, family] = len(bits)
    sizes = [axis.size for axis in axes]
    stride = np.array([int(np.prod(sizes[a + 1 :], dtype=np.int64)) for a in range(len(axes))], np.int64)
    return Grid(
        stride,
        cell,
        first,
        last,
        np.array(is_float, np.uint8),
        np.array(bits, np.int64),
        np.array(length, np.int32),
        np.frombuffer(heap, np.uint8),
    )


@kernel
def _number_below(a_float: bool, a: int, b_float: bool, b: int) -> Any:
    """a < b, exactly. A float here is never integral within 64 bits, so that it never equals an integer."""
    if a_float and b_float:
        return np.int64(a).view(np.float64) < np.int64(b).view(np.float64)
    if a_float:
        x = np.int64(a).view(np.float64)
        return x < -TWO_63 or (x < TWO_63 and np.int64(np.floor(x)) < b)
    if b_float:
        y = np.int64(b).view(np.float64)
        return y >= TWO_63 or (y >= -TWO_63 and a <= np.int64(np.floor(y)))
    return a < b


@kernel
def _path_below(a: U8, a_at: Any, a_length: int, b: U8, b_at: Any, b_length: int) -> Any:
    """a < b, component by component. No component begins with a zero: the longer is the larger."""
    a_end = a_at + a_length
    b_end = b_at + b_length
    while a_at < a_end and b_at < b_end:
        size = 0
        order = np.int64(0)
        while a_at + size < a_end and b_at + size < b_end and a[a_at + size] != _DOT and b[b_at + size] != _DOT:
            if order == 0:
                order = np.int64(a[a_at + size]) - np.int64(b[b_at + size])
            size += 1
        a_ends = a_at + size == a_end or a[a_at + size] == _DOT
        b_ends = b_at + size == b_end or b[b_at + size] == _DOT
        if not a_ends or not b_ends:
            return a_ends
        if order:
            return order < 0
        a_at += size + 1
        b_at += size + 1
    return a_at >= a_end and b_at < b_end


@kernel
def _same(a: U8, a_at: int, b: U8, b_at: int, length: int) -> bool:
    for i in range(length):  # noqa: SIM110
        if a[a_at + i] != b[b_at + i]:
            return False
    return True


@kernel
def position_of(grid: Grid, first: int, last: int, tag: int, bits: int, length: int, heap: U8) -> Any:
    """Twice the number of constants below the value, and one more if the next is equal to it."""
    below = first
    above = last
    is_float = tag == FLOAT
    while below < above:
        middle = (below + above) // 2
        if tag == STRING:
            less = not at_most(heap, bits, length, grid.heap, grid.bits[middle], np.int64(grid.length[middle]))
        elif tag == PATH:
            less = _path_below(grid.heap, grid.bits[middle], np.int64(grid.length[middle]), heap, bits, length)
        else:
            less = _number_below(grid.is_float[middle] != 0, grid.bits[middle], is_float, bits)
        if less:
            below = middle + 1
        else:
            above = middle
    equal = 0
    if below < last:
        if tag in (STRING, PATH):
            size = np.int64(grid.length[below])
            equal = int(size == length and _same(grid.heap, grid.bits[below], heap, bits, length))
        else:
            equal = int((grid.is_float[below] != 0) == is_float and grid.bits[below] == bits)
    return 2 * (below - first) + equal


@kernel
def locate_rows(grid: Grid, entries: EntryColumns, axis: I32, cell: I64) -> None:
    """-1 for a row that Python must place: one of its attributes is a path."""
    for row in range(len(entries.start) - 1):
        place = np.int64(0)
        for entry in range(entries.start[row], entries.start[row + 1]):
            a = axis[entries.name[entry]]
            if a < 0:
                continue
            tag = np.int64(entries.tag[entry])
            bits = entries.bits[entry]
            if tag == PATH:
                place = np.int64(-1)
                break
            family = family_of(tag)
            found = np.int64(OTHER)
            if family >= 0 and grid.cell[a, family] >= 0:
                known = True
                if tag == FLOAT:
                    number = np.int64(bits).view(np.float64)
                    known = number == number
                    if -TWO_63 <= number < TWO_63 and np.float64(np.int64(number)) == number:
                        tag = np.int64(INTEGER)
                        bits = np.int64(number)
                if known:
                    position = position_of(
                        grid,
                        grid.first[a, family],
                        grid.last[a, family],
                        tag,
                        bits,
                        np.int64(entries.length[entry]),
                        entries.heap,
                    )
                    found = grid.cell[a, family] + position
            place += found * grid.stride[a]
        cell[row] = place
