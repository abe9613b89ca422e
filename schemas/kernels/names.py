"""Interning of attribute names: each name that occurs in a chunk gets a number, in the order of appearance.

An open hash table of numbers, at most half full. The hash is mixed with a seed of the process, so that nobody can send names that
collide. `name_at`, `name_length` say where a name's bytes first stood.

Replaces a dictionary of byte strings, which needs an object for each name that is met: 0.09 us a name; this takes 0.05, and needs nobody
to cut the names out (part of what `pastforward bench codecs` measures).
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.hashing import hash_name
from pastforward.columns.kernel import kernel
from pastforward.schemas.kernels.kinds import Array, Number, Result


@kernel
def same_bytes(data: Array, first: Number, second: Number, length: Number) -> Result:
    for index in range(length):  # noqa: SIM110
        if data[first + index] != data[second + index]:
            return False
    return True


@kernel
def find_slot(
    data: Array, at: Number, length: Number, table: Array, seed: Number, name_at: Array, name_length: Array
) -> Result:
    """The slot that holds the name's number, or the empty one (-1) where it belongs."""
    mask = np.uint64(len(table) - 1)
    slot = hash_name(data, at, length, seed) & mask
    while True:
        number = table[slot]
        if number < 0 or (name_length[number] == length and same_bytes(data, name_at[number], at, length)):
            return slot
        slot = (slot + np.uint64(1)) & mask


@kernel
def rehash(data: Array, table: Array, seed: Number, name_at: Array, name_length: Array, count: Number) -> None:
    table[:] = -1
    for number in range(count):
        table[find_slot(data, name_at[number], name_length[number], table, seed, name_at, name_length)] = number
