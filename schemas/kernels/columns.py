"""What the readers of Avro and JSON fill: plain arrays, one column per row of each, and how a step says where a field goes.

| array                     | shape           | holds                                                                       |
| text_at, text_length      | columns x rows  | a string or bytes, as a place in `data`; length -1: null                     |
| longs                     | columns x rows  | integers and times; NULL_LONG: null                                         |
| smalls                    | columns x rows  | booleans, symbols of enums, branches of unions                               |
| spans                     | 6 x rows        | where a row begins and ends in `data`; the first of its entries in `name`,   |
|                           |                 | `tag`, `bits`, `length` (see `columns.attributes`) and how many; the first  |
|                           |                 | of its integers in `items` and how many                                     |
| names                     | 4 x names       | where a name first stood and its length; the last row and entry that had it |

`fill` has four counters: entries, names, items, rows that were read.

Python hands these over as plain tuples, in the order of `Rows`, `Entries` and the first three fields of `Names`: Numba takes a tuple of
arrays as quickly as the arrays one by one, and a named one three times as slowly (7 us against 2 us for ten arrays).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from pastforward.columns.attributes import BOX, CIRCLE, POINT
from pastforward.columns.kernel import bare, kernel
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.names import find_slot
from pastforward.schemas.kernels.text import is_id

NULL_LONG: Final = -(2**63)

ENTRIES: Final = 0
NAMES: Final = 1
ITEMS: Final = 2
READ: Final = 3


class Rows(NamedTuple):
    spans: Array
    text_at: Array
    text_length: Array
    longs: Array
    smalls: Array
    result: Array
    items: Array
    fill: Array


class Entries(NamedTuple):
    name: Array
    tag: Array
    bits: Array
    length: Array


class Names(NamedTuple):
    """The attribute names of a chunk: see `kernels.names`."""

    table: Array
    seed: Number
    at: Array
    length: Array
    seen: Array
    seen_entry: Array


# Rows of `spans` and of `names`: few large arrays, since a kernel's caller pays for each.
BEGINS: Final = 0
ENDS: Final = 1
FIRST: Final = 2
COUNT: Final = 3
LIST_FIRST: Final = 4
LIST_COUNT: Final = 5
SPANS: Final = 6
NAME_AT: Final = 0
NAME_LENGTH: Final = 1
SEEN: Final = 2
SEEN_ENTRY: Final = 3

# Steps: how one field of a record is read. A row of `steps` is: operation, column, argument, branch of null or -1.
SKIP: Final = 0  # argument: the node to skip
TEXT: Final = 1  # argument: the check of `kernels.text`
LONG: Final = 2  # argument: bits, 32 or 64
TIME: Final = 3
FLAG: Final = 4
ENUM: Final = 5  # argument: the row of `symbols` that says what a symbol's number means to us
ATTRIBUTES: Final = 6
WHERE: Final = 7  # argument: the node; the text column holds the place, the small column of the same number the branch
BEST: Final = 8  # the text column holds the attribute, the small column of the same number 1 highest, 2 lowest
LIST: Final = 9  # an array of integers of 32 bits
RANGE: Final = 10  # argument: the node; the text column holds the place of its bytes
BRANCHES: Final = (
    11  # argument: the row of `symbols` that says at which step each branch goes on; column: the small one
)
VERSION: Final = 12  # partition, offset, arrived_at into three long columns
END: Final = 13

# The result of a row is the number of the pass that read it, or:
SLOW: Final = 0  # left to the plain path, which decodes it or says what is wrong


@bare
def intern(data: Array, at: Number, length: Number, names: Names, fill: Array) -> Result:
    """The number of a name; -1 if it is no name. There must be room for one more."""
    slot = find_slot(data, at, length, names.table, names.seed, names.at, names.length)
    number = names.table[slot]
    if number >= 0:
        return number
    if not is_id(data, at, at + length):
        return -1
    number = fill[NAMES]
    names.at[number] = at
    names.length[number] = length
    names.table[slot] = number
    fill[NAMES] = number + 1
    return number


@bare
def put_entry(
    number: Number, value: tuple[Any, Any, Any], stamp: Number, names: Names, entries: Entries, fill: Array
) -> None:
    """Tag, bits and length of an attribute. The row of this stamp may have one of that name: the later one counts."""
    if names.seen[number] == stamp:
        entry = names.seen_entry[number]
    else:
        entry = fill[ENTRIES]
        fill[ENTRIES] = entry + 1
        names.seen[number] = stamp
        names.seen_entry[number] = entry
    entries.name[entry] = number
    entries.tag[entry] = value[0]
    entries.bits[entry] = value[1]
    entries.length[entry] = value[2]


@kernel
def is_shape(tag: Number, lon: Number, lat: Number, third: Number, fourth: Number) -> Result:
    """Whether the numbers of a point, circle or box are in range. Comparisons with NaN are false."""
    if tag == POINT:
        return -180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0
    if tag == CIRCLE:
        return -180.0 <= lon <= 180.0 and -90.0 <= lat <= 90.0 and 0.0 <= third < np.inf
    if tag == BOX:
        return -np.inf < lon <= third < np.inf and -np.inf < lat <= fourth < np.inf
    return False
