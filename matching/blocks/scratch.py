"""Room that the kernels of the block index write to on their way, allocated once."""

# mypy: disable-error-code="assignment, operator, arg-type, call-overload, return-value, no-any-return"
# Numba widens and narrows numbers by rules of its own, which mypy does not know.
from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.matching.blocks.lanes import TABLE

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]


ROOM: Final = 1100  # members of a chunk: 32 by 32, and some


class Scratch(NamedTuple):
    """Room for one slot's constraints, and for the members of a chunk."""

    attribute: I32
    kind: U8
    low: U64
    high: U64
    value: U64
    fraction: F64
    carried: F64
    rough: F64
    first: U8  # codes of today
    last: U8
    chosen: I32
    own_lanes: U8  # of one slot, nine bytes
    own_codes: U8  # four
    member: I32
    member_lanes: U8  # nine bytes each
    member_codes: U8  # four each: low and high in both dimensions
    order: I32
    other: I32
    counts: I32
    bounds: I32
    table: U8


def scratch(longest: int, members: int = ROOM) -> Scratch:
    """`longest`: constraints of a slot. `members`: those of a chunk, or of a whole group when it is laid out at once."""
    room = longest + 1
    return Scratch(
        np.empty(room, np.int32), np.empty(room, np.uint8), np.empty(room, np.uint64), np.empty(room, np.uint64),
        np.empty(room, np.uint64), np.empty(room, np.float64), np.empty(room, np.float64), np.empty(room, np.float64),
        np.empty(room, np.uint8), np.empty(room, np.uint8), np.empty(room, np.int32), np.empty(9, np.uint8),
        np.empty(4, np.uint8),
        np.empty(members, np.int32), np.empty(members * 9, np.uint8), np.empty(members * 4, np.uint8),
        np.empty(members, np.int32), np.empty(members, np.int32), np.empty(1 << 13, np.int32), np.empty(256, np.int32),
        np.empty(TABLE, np.uint8),
    )  # fmt: skip
