"""Splits the text of a condition into its shape and its constants.

Two texts of one shape differ in their constants only, so a shape is compiled once (`shapes`) and then only bound to
other constants. A run of constants in an IN list counts as one, whatever its length. One pass of one regular expression,
linear in the text; what is no constant is left as it stands, and looked at when the shape is compiled.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

# A constant as written (a string with its quotes, a number with its sign), or those of an IN list.
Slot: TypeAlias = str | list[str]

# What stands in a shape for a constant.
STRING_MARK: Final = "'"
NUMBER_MARK: Final = "0"
STRINGS_MARK: Final = "''"
NUMBERS_MARK: Final = "00"

# Quotes that are never closed run to the end, so that no text is scanned twice; `is_closed` finds them.
# The first character is asked for first: the engine then skips the rest of a text three times as fast.
_TOKENS: Final = re.compile(
    r"""(
    ['"`.0-9+-]
    (?: (?<=')[^']*+(?:''[^']*+)*+(?:'|\Z)             # a string
      | (?<=")[^"]*+(?:""[^"]*+)*+(?:"|\Z)             # a quoted name
      | (?<=`)[^`]*+(?:``[^`]*+)*+(?:`|\Z)             # a quoted name, as MySQL and Spark write it
      | (?<![\w.].)                                    # a number, not the end of a name
        (?: (?<=[0-9])[0-9]*+\.?[0-9]*+
          | (?<=[-+])[ ]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)
          | (?<=\.)[0-9]++
        )
        (?:[eE][-+]?[0-9]++)?(?![\w.])
    ))""",
    re.VERBOSE,
)


UNCLOSED: Final = "\0"  # behind a string that is not closed: it must not pass for a known shape


class Scan(NamedTuple):
    """`shape` alternates text and marks, beginning and ending with a text; quoted names are part of the texts."""

    shape: tuple[str, ...]
    slots: list[Slot]


def scan(text: str) -> Scan:
    pieces = _TOKENS.split(text)
    shape: list[str] = []
    slots: list[Slot] = []
    before = pieces[0]
    place, last = 1, len(pieces)
    while place < last:
        constant = pieces[place]
        after = pieces[place + 1]
        place += 2
        first = constant[0]
        if first == '"' or first == "`":
            before += constant + after
            continue
        mark = STRING_MARK if first == "'" else NUMBER_MARK
        opened = before.rstrip()
        if opened[-1:] == "(" and opened[:-1].rstrip()[-2:].upper() == "IN":
            members = [constant]
            is_string = first == "'"
            while place < last and after.strip() == ",":
                following = pieces[place]
                if (following[0] == "'") is not is_string or following[0] in '"`':
                    break
                members.append(following)
                after = pieces[place + 1]
                place += 2
            slots.append(members)
            mark += mark
        else:
            slots.append(constant)
        shape += (before, mark)
        before = after
    if not before and last > 1 and pieces[-2][0] == "'" and not is_closed(pieces[-2]):
        before = UNCLOSED
    shape.append(before)
    return Scan(tuple(shape), slots)


def positions(text: str) -> list[list[int]]:
    """Where each slot's constants begin: for error messages only."""
    constants: list[int] = []
    offset = 0
    for place, piece in enumerate(_TOKENS.split(text)):
        if place % 2 and piece[0] not in '"`':
            constants.append(offset)
        offset += len(piece)
    following = iter(constants)
    counts = [len(slot) if isinstance(slot, list) else 1 for slot in scan(text).slots]
    return [list(islice(following, count)) for count in counts]


def is_closed(quoted: str) -> bool:
    """Whether a quoted string or name ends with its quote."""
    return quoted.count(quoted[0]) % 2 == 0
