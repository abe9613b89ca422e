"""Reads chunks of JSON records into the same columns as Avro's reader, driven by a table of field names.

Takes what is written as usual and leaves everything else to the plain path: fields that are unknown or come twice, structured
conditions, integers of more than 64 bits. What is decoded (escapes, base64, the doubles of shapes) is written over its own text in
`data`, which is always at least as long.

Replaces orjson and the checks behind it: 12 us for a publication of ten attributes, of which orjson takes 1.9; this takes 1.3 us
(`pastforward bench codecs`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pastforward.columns.kernel import bare, inlined
from pastforward.schemas.kernels.columns import (
    ATTRIBUTES,
    BEGINS,
    BEST,
    COUNT,
    ENDS,
    ENTRIES,
    ENUM,
    FIRST,
    FLAG,
    NAME_AT,
    NAME_LENGTH,
    NAMES,
    READ,
    SEEN,
    SEEN_ENTRY,
    SLOW,
    TEXT,
    TIME,
    WHERE,
    Entries,
    Names,
    Rows,
)
from pastforward.schemas.kernels.json_text import (
    CLOSE,
    FALSE,
    NULL,
    OPEN,
    TRUE,
    decode_base64,
    is_word,
    read_key,
    read_next,
    read_string,
    skip_blank,
    which_name,
)
from pastforward.schemas.kernels.json_values import read_attributes, read_best, read_time
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.text import BYTES, is_text


class Program(NamedTuple):
    """What `schemas.program.JsonProgram` says. A row of `field_steps` is as a step; the last number is 0 if the field may be null.
    `symbol_rows` gives for the argument of an enum its first and last symbol."""

    field_text: Array
    field_ends: Array
    field_steps: Array
    symbol_text: Array
    symbol_ends: Array
    symbol_rows: Array


# The readers of one field return the place behind it, -1 if it is for the plain path. They are put where they are called.


@inlined
def _read_text(data: Array, at: Number, end: Number, check: Number, column: Number, row: Number, rows: Rows) -> Result:
    begin, stop, at = read_string(data, at, end)
    if at >= 0:
        if check == BYTES:
            stop = decode_base64(data, begin, stop)
        elif not is_text(check, data, begin, stop):
            stop = np.int64(-1)
        rows.text_at[column, row] = begin
        rows.text_length[column, row] = stop - begin
        if stop < 0:
            at = np.int64(-1)
    return at


@inlined
def _read_flag(data: Array, at: Number, end: Number, column: Number, row: Number, rows: Rows) -> Result:
    if is_word(data, at, end, TRUE):
        rows.smalls[column, row] = 1
        at += 4
    elif is_word(data, at, end, FALSE):
        rows.smalls[column, row] = 0
        at += 5
    else:
        at = np.int64(-1)
    return at


@inlined
def _read_symbol(
    data: Array, at: Number, end: Number, argument: Number, column: Number, row: Number, program: Program, rows: Rows
) -> Result:
    begin, stop, at = read_string(data, at, end)
    if at >= 0:
        low, high = program.symbol_rows[argument, 0], program.symbol_rows[argument, 1]
        symbol = which_name(data, begin, stop, program.symbol_text, program.symbol_ends, low, high)
        rows.smalls[column, row] = symbol - low
        if symbol < 0:
            at = np.int64(-1)
    return at


@inlined
def _read_best_field(data: Array, at: Number, end: Number, column: Number, row: Number, rows: Rows) -> Result:
    begin, stop, prefer, at = read_best(data, at, end)
    rows.text_at[column, row] = begin
    rows.text_length[column, row] = stop - begin
    rows.smalls[column, row] = prefer
    return at


@bare
def read_rows(
    data: Array,
    begin_row: Number,
    done: Number,
    program_: Any,
    rows_: Any,
    names_: Any,
    entries_: Any,
    numbers: Array,
) -> Result:
    """Reads the rows that begin as JSON and are not read. Returns the row that may find no room, or the number of rows. `numbers`: room for
    eight doubles."""
    program, rows, entries = Program(*program_), Rows(*rows_), Entries(*entries_)
    table, seed, places = names_
    names = Names(table, seed, places[NAME_AT], places[NAME_LENGTH], places[SEEN], places[SEEN_ENTRY])
    spans, fill = rows.spans, rows.fill
    for row in range(begin_row, len(rows.result)):
        end = spans[ENDS, row]
        at = skip_blank(data, spans[BEGINS, row], end)
        if rows.result[row] != SLOW or at >= end or data[at] != OPEN:
            continue
        # The text of an attribute has at least five bytes ("":1, with its comma). The row is read once only, since that changes
        # its bytes: so there must be room for all that it may hold.
        most = (end - at) // 5 + 1
        if fill[ENTRIES] + most > len(entries.name) or 2 * (fill[NAMES] + most) > len(table):
            return row
        before = fill[ENTRIES]
        spans[FIRST, row] = before
        have = 0
        more = 1
        at = skip_blank(data, at + 1, end)
        if at < end and data[at] == CLOSE:
            more = 0
            at += 1
        while more > 0:
            begin, stop, at = read_key(data, at, end)
            field = -1
            if at >= 0:
                field = which_name(
                    data, begin, stop, program.field_text, program.field_ends, 0, len(program.field_ends)
                )
            if field < 0 or have >> field & 1:
                more = -1
                break
            have |= 1 << field
            operation, column = program.field_steps[field, 0], program.field_steps[field, 1]
            argument, null = program.field_steps[field, 2], program.field_steps[field, 3]
            if at < end and data[at] == 0x6E:
                at = at + 4 if null == 0 and is_word(data, at, end, NULL) else np.int64(-1)
            elif operation == TEXT:
                at = _read_text(data, at, end, argument, column, row, rows)
            elif operation == WHERE:
                at = _read_text(data, at, end, 0, column, row, rows)
                rows.smalls[column, row] = 1
            elif operation == TIME:
                value, at = read_time(data, at, end)
                rows.longs[column, row] = value
            elif operation == FLAG:
                at = _read_flag(data, at, end, column, row, rows)
            elif operation == ENUM:
                at = _read_symbol(data, at, end, argument, column, row, program, rows)
            elif operation == ATTRIBUTES:
                at = read_attributes(data, at, end, row, numbers, names, entries, fill)
                spans[COUNT, row] = fill[ENTRIES] - before
            elif operation == BEST:
                at = _read_best_field(data, at, end, column, row, rows)
            else:
                at = np.int64(-1)
            if at < 0:
                more = -1
                break
            more, at = read_next(data, at, end)
        if more == 0 and skip_blank(data, at, end) == end:
            rows.result[row] = done
            fill[READ] += 1
        else:
            fill[ENTRIES] = before
            spans[COUNT, row] = 0
    return len(rows.result)
