"""Normal forms in columns, as routing reads them: every constraint, but of patterns and shapes only that they are there.

Row `i` has the disjuncts `first[i]:first[i + 1]`, disjunct `d` the constraints `start[d]:start[d + 1]`. A constraint has the
constants `constants[constraint.begin:constraint.end]`: its low end if it has one, its high end if it has one, then what it
includes, or, if it lists nothing, what it excludes. A constant is what `columns.attributes` says of an entry.

Replaces the plain reading of a normal form: 280 us for three predicates; this takes 0.35 us (`pastforward bench routing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, FLOAT, INTEGER, PATH, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import inlined, kernel
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.schemas.chunk_reader import SEED
from pastforward.schemas.kernels.names import find_slot, rehash
from pastforward.schemas.kernels.read_avro import read_double

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# names that nothing is routed by; those of the previous publication say nothing of the one to route
UNKNOWN: Final = -1
OF_PREVIOUS: Final = -2

# flags
HAS_LOW: Final = 1
LOW_OPEN: Final = 2
HAS_HIGH: Final = 4
HIGH_OPEN: Final = 8
LISTED: Final = 16

# Bytes of the smallest constraint: the name's length, family, two bounds and whether closed, and what there is not; of the
# smallest constant: branch and value.
_SMALLEST_CONSTRAINT: Final = 10
_SMALLEST_CONSTANT: Final = 2

# Tags by branch of the union of constants, null included; the shapes by branch of that of shapes, and their bytes by tag.
_TAGS: Final = np.array([0, BOOLEAN, INTEGER, FLOAT, STRING, TIMESTAMP, POINT, CIRCLE, BOX, PATH], np.uint8)
_SHAPES: Final = np.array([POINT, CIRCLE, BOX], np.uint8)
_SHAPE_BYTES: Final = np.array([0, 0, 0, 0, 0, 0, 16, 24, 32, 0], np.int64)
_PREVIOUS: Final = np.frombuffer(PREVIOUS.encode(), np.uint8)

# Rows instead of columns, and kernels that are inlined: Numba counts who uses an array each time it is handed over, which took
# half of the time.
CONSTRAINT: Final = np.dtype(
    [("name", np.int32), ("family", np.uint8), ("flags", np.uint8), ("begin", np.int64), ("end", np.int64)], align=True
)
CONSTANT: Final = np.dtype([("bits", np.int64), ("length", np.int32), ("tag", np.uint8)], align=True)


class Conditions(NamedTuple):
    first: I64
    start: I64
    constraints: Any  # of CONSTRAINT; a name is a number, UNKNOWN, or OF_PREVIOUS
    constants: Any  # of CONSTANT
    heap: U8


class Names:
    """Numbers for the names that routing knows. Immutable once made; any number of threads may read with it."""

    def __init__(self, names: Sequence[str]) -> None:
        encoded = [name.encode() for name in names]
        self._joined = b"".join(encoded)
        self._length = np.array([len(name) for name in encoded], np.int64)
        self._at = np.cumsum(self._length) - self._length
        # a power of two, at most half full
        self._table = np.full(2 << len(names).bit_length(), UNKNOWN, np.int32)
        heap = np.frombuffer(bytearray(self._joined), np.uint8)
        rehash(heap, self._table, SEED, self._at, self._length, len(names))

    def read(self, conditions: Sequence[bytes]) -> Conditions:
        """Of normal forms as `schemas.condition_bytes` writes them, and as nobody else does: they are not checked."""
        # names and conditions in one heap, which is what `find_slot` compares within
        heap = np.frombuffer(bytearray().join((self._joined, *conditions)), np.uint8)
        size = len(heap) - len(self._joined)
        found = Conditions(
            np.zeros(len(conditions) + 1, np.int64),
            np.zeros(size + 1, np.int64),
            np.empty(size // _SMALLEST_CONSTRAINT, CONSTRAINT),
            np.empty(size // _SMALLEST_CONSTANT, CONSTANT),
            heap,
        )
        _read(tuple(found), len(self._joined), (self._table, SEED, self._at, self._length))
        return found


@inlined
def _long(heap: U8, at: Any) -> Any:
    """The number and where it ends."""
    byte = np.uint64(heap[at])
    value = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte >= np.uint64(0x80):
        at += 1
        byte = np.uint64(heap[at])
        value |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at + 1


@kernel
def _read(conditions: Any, at: Any, names: Any) -> None:
    """`names`: the table, its seed, and where each name lies; see `schemas.kernels.names`."""
    first, start, constraints, constants, heap = conditions
    d = 0
    c = 0
    k = 0
    at = np.int64(at)
    for row in range(len(first) - 1):
        disjuncts, at = _long(heap, at)
        while disjuncts:
            for _ in range(disjuncts):
                count, at = _long(heap, at)
                while count:
                    for _ in range(count):
                        at, k = _read_constraint(heap, at, names, constraints[c], constants, k)
                        c += 1
                    count, at = _long(heap, at)
                d += 1
                start[d] = c
            disjuncts, at = _long(heap, at)
        first[row + 1] = d


@inlined
def _read_constraint(heap: U8, at: Any, names: Any, constraint: Any, constants: Any, k: int) -> Any:
    """Where it ends, and the number of constants so far."""
    table, seed, name_at, name_length = names
    length, at = _long(heap, at)
    constraint.name = table[find_slot(heap, at, length, table, seed, name_at, name_length)]
    if constraint.name == UNKNOWN and _is_of_previous(heap, at, length):
        constraint.name = OF_PREVIOUS
    constraint.begin = k
    at, k = _limits(heap, at + length, constraint, constants, k)
    constraint.end = k
    return _skip_tests(heap, _skip_patterns(heap, at)), k


@inlined
def _is_of_previous(heap: U8, at: int, length: int) -> bool:
    if length < len(_PREVIOUS):
        return False
    for i in range(len(_PREVIOUS)):  # noqa: SIM110
        if heap[at + i] != _PREVIOUS[i]:
            return False
    return True


@inlined
def _limits(heap: U8, at: Any, constraint: Any, constants: Any, k: int) -> Any:
    """Family, bounds, what is included and excluded. Returns where they end, and the number of constants so far."""
    family, at = _long(heap, at)
    flags = np.int64(0)
    branch, at = _long(heap, at)
    if branch:
        at = _constant(heap, at, branch, constants[k])
        k += 1
        flags |= HAS_LOW
    if not heap[at]:
        flags |= LOW_OPEN
    branch, at = _long(heap, at + 1)
    if branch:
        at = _constant(heap, at, branch, constants[k])
        k += 1
        flags |= HAS_HIGH
    if not heap[at]:
        flags |= HIGH_OPEN
    listed, at = _long(heap, at + 1)
    if listed:
        flags |= LISTED
        at, k = _constants(heap, at, constants, k)
    constraint.family = family
    constraint.flags = flags
    return _constants(heap, at, constants, k)


@inlined
def _constants(heap: U8, at: Any, constants: Any, k: int) -> Any:
    count, at = _long(heap, at)
    while count:
        for _ in range(count):
            branch, at = _long(heap, at)
            at = _constant(heap, at, branch + 1, constants[k])
            k += 1
        count, at = _long(heap, at)
    return at, k


@inlined
def _constant(heap: U8, at: Any, branch: int, constant: Any) -> Any:
    tag = _TAGS[branch]
    length = np.int64(0)
    if tag in (INTEGER, TIMESTAMP):
        bits, at = _long(heap, at)
    elif tag in (STRING, PATH):
        length, at = _long(heap, at)
        bits = at
    elif tag == FLOAT:
        bits = read_double(heap, at)
        at += 8
    elif tag == BOOLEAN:
        bits = np.int64(heap[at])
        at += 1
    else:
        length = _SHAPE_BYTES[tag]
        bits = at
    constant.tag = tag
    constant.bits = bits
    constant.length = length
    return at + length


@inlined
def _skip_patterns(heap: U8, at: Any) -> Any:
    count, at = _long(heap, at)
    while count:
        for _ in range(count):
            _, at = _long(heap, at)
            length, at = _long(heap, at)
            at += length + 1
        count, at = _long(heap, at)
    return at


@inlined
def _skip_tests(heap: U8, at: Any) -> Any:
    count, at = _long(heap, at)
    while count:
        for _ in range(count):
            _, at = _long(heap, at)
            branch, at = _long(heap, at)
            at += _SHAPE_BYTES[_SHAPES[branch]] + 1
        count, at = _long(heap, at)
    return at
