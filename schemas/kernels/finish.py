"""What follows when the fields of all rows are read: keys and ids are held against each other, windows are checked."""

from __future__ import annotations

from numba import njit

from schemas.kernels.columns import NULL_LONG, SLOW
from schemas.kernels.kinds import Array, Number, Result
from schemas.kernels.names import same_bytes
from schemas.kernels.text import is_id


@njit(cache=True, nogil=True)
def _put_decimal(data: Array, at: Number, value: Number) -> Result:
    digits = 1
    rest = value // 10
    while rest:
        digits += 1
        rest //= 10
    for index in range(digits):
        data[at + digits - 1 - index] = 0x30 + value % 10
        value //= 10
    return at + digits


@njit(cache=True, nogil=True)
def finish_rows(
    data: Array,
    key_at: Array,
    key_length: Array,
    spare_at: Number,
    partition: Number,
    offsets: Array,
    needs_party: Number,
    id_at: Array,
    id_length: Array,
    party_length: Array,
    begin: Array,
    end: Array,
    result: Array,
) -> None:
    """Rows that are not right go to the plain path. `spare_at`: room for ids that are made up; -1: an id must be given."""
    for row in range(len(result)):
        if result[row] == SLOW:
            continue
        size = key_length[row]
        if size >= 0:
            if not is_id(data, key_at[row], key_at[row] + size):
                result[row] = SLOW
            elif id_length[row] < 0:
                id_at[row] = key_at[row]
                id_length[row] = size
            elif id_length[row] != size or not same_bytes(data, id_at[row], key_at[row], size):
                result[row] = SLOW
        elif id_length[row] < 0:
            if spare_at < 0:
                result[row] = SLOW
            else:
                id_at[row] = spare_at
                at = _put_decimal(data, spare_at, partition)
                data[at] = 0x2D
                spare_at = _put_decimal(data, at + 1, offsets[row])
                id_length[row] = spare_at - id_at[row]
        if needs_party and party_length[row] < 0:
            result[row] = SLOW
        if begin[row] != NULL_LONG and end[row] != NULL_LONG and end[row] < begin[row]:
            result[row] = SLOW
