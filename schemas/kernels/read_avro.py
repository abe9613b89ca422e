"""Reads chunks of Avro records into columns, driven by steps that `schemas.program` makes from the writer's schema.

Takes exactly what `schemas.avro_plain` and `schemas.plain` take; a row with anything else is left to them.

Replaces fastavro, which takes 13 us for a publication of ten attributes and gives a dictionary; this takes 0.7 us
(`pastforward bench codecs`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, FLOAT, INTEGER, PATH, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import bare, inlined, kernel
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.schemas.kernels.columns import (
    ATTRIBUTES,
    BEGINS,
    BEST,
    BRANCHES,
    COUNT,
    END,
    ENDS,
    ENTRIES,
    ENUM,
    FIRST,
    FLAG,
    ITEMS,
    LIST,
    LIST_COUNT,
    LIST_FIRST,
    LONG,
    NAME_AT,
    NAME_LENGTH,
    NAMES,
    NULL_LONG,
    RANGE,
    READ,
    SEEN,
    SEEN_ENTRY,
    SLOW,
    TEXT,
    TIME,
    VERSION,
    WHERE,
    Entries,
    Names,
    Rows,
    intern,
    is_shape,
    put_entry,
)
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.text import ID, is_path, is_text, is_utf8

# Kinds of nodes; a row of `nodes` is: kind, and two numbers that depend on it.
N_NULL = 0
N_BOOLEAN = 1
N_INT = 2
N_LONG = 3
N_FLOAT = 4
N_DOUBLE = 5
N_BYTES = 6
N_STRING = 7
N_FIXED = 8  # size
N_ENUM = 9  # number of symbols
N_UNION = 10  # first child in `children`, number of them
N_ARRAY = 11  # node of the items
N_MAP = 12  # node of the values
N_RECORD = 13  # first child in `children`, number of them
N_MILLIS = 14


class Program(NamedTuple):
    """What `schemas.program.AvroProgram` says."""

    steps: Array
    symbols: Array
    nodes: Array
    children: Array
    value_tags: Array


_SEVEN = np.uint64(7)
_ONE = np.uint64(1)
_MILLIS = 10**15


@kernel
def read_long(data: Array, at: Number, end: Number) -> Result:
    """The integer and the place behind it; the place is -1 if there is none."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for index in range(10):
        if at >= end:
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            if index == 9 and byte > _ONE:
                break
            return np.int64(value >> _ONE) ^ -np.int64(value & _ONE), np.int64(at)
        shift += _SEVEN
    return np.int64(0), np.int64(-1)


@kernel
def read_length(data: Array, at: Number, end: Number) -> Result:
    """The length of a string and the place of its bytes; the place is -1 if they are not there."""
    length, at = read_long(data, at, end)
    if at < 0 or length < 0 or length > end - at:
        return np.int64(0), np.int64(-1)
    return length, at


@kernel
def read_double(data: Array, at: Number) -> Result:
    bits = np.int64(0)
    for index in range(8):
        bits |= np.int64(data[at + index]) << np.int64(8 * index)
    return bits


@kernel
def as_double(bits: Number) -> Result:
    return np.int64(bits).view(np.float64)


@bare
def skip(nodes: Array, children: Array, node: Number, data: Array, at: Number, end: Number) -> Result:
    """The place behind a datum; -1 if it is malformed."""
    kind = nodes[node, 0]
    if kind == N_NULL:
        return at
    if kind == N_BOOLEAN:
        return at + 1 if at < end and data[at] <= 1 else np.int64(-1)
    if kind in (N_INT, N_LONG, N_ENUM, N_MILLIS):
        value, at = read_long(data, at, end)
        if kind == N_INT and not -(2**31) <= value < 2**31:
            return np.int64(-1)
        if kind == N_ENUM and not 0 <= value < nodes[node, 1]:
            return np.int64(-1)
        if kind == N_MILLIS and not -_MILLIS <= value < _MILLIS:
            return np.int64(-1)
        return at
    if kind in (N_FLOAT, N_DOUBLE, N_FIXED):
        size = 4 if kind == N_FLOAT else 8 if kind == N_DOUBLE else nodes[node, 1]
        return at + size if at + size <= end else np.int64(-1)
    if kind in (N_BYTES, N_STRING):
        length, at = read_length(data, at, end)
        if at < 0 or (kind == N_STRING and not is_utf8(data, at, at + length)):
            return np.int64(-1)
        return at + length
    if kind == N_UNION:
        branch, at = read_long(data, at, end)
        if at < 0 or not 0 <= branch < nodes[node, 2]:
            return np.int64(-1)
        return skip(nodes, children, np.int64(children[nodes[node, 1] + branch]), data, at, end)
    if kind == N_RECORD:
        for index in range(nodes[node, 2]):
            at = skip(nodes, children, np.int64(children[nodes[node, 1] + index]), data, at, end)
            if at < 0:
                return at
        return at
    total = np.int64(0)
    while True:
        count, stop, at = read_block(data, at, end)
        if at < 0 or count == 0:
            return at
        total += count
        if total > end:
            return np.int64(-1)
        for _ in range(count):
            if kind == N_MAP:
                length, at = read_length(data, at, end)
                if at < 0 or not is_utf8(data, at, at + length):
                    return np.int64(-1)
                at += length
            at = skip(nodes, children, np.int64(nodes[node, 1]), data, at, end)
            if at < 0:
                return at
        if stop >= 0 and at != stop:
            return np.int64(-1)


@bare
def read_block(data: Array, at: Number, end: Number) -> Result:
    """Entries of the next block (0: no more), where it says it ends (-1: it does not), and the place of the first entry."""
    count, at = read_long(data, at, end)
    stop = np.int64(-1)
    if at >= 0 and count < 0:
        if count == NULL_LONG:
            return np.int64(0), stop, np.int64(-1)
        count = -count
        size, at = read_long(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return np.int64(0), stop, np.int64(-1)
        stop = at + size
    if count > end:
        return np.int64(0), stop, np.int64(-1)
    return count, stop, at


@bare
def read_value(data: Array, at: Number, end: Number, value_tags: Array) -> Result:
    """Tag, bits, length of a value and the place behind it; the place is -1 if it is malformed or not in range."""
    failed = (np.uint8(0), np.int64(0), np.int32(0), np.int64(-1))
    branch, at = read_long(data, at, end)
    if at < 0 or not 0 <= branch < len(value_tags):
        return failed
    tag = value_tags[branch]
    if tag in (STRING, PATH):
        length, at = read_length(data, at, end)
        if at < 0:
            return failed
        if not (is_utf8(data, at, at + length) if tag == STRING else is_path(data, at, at + length)):
            return failed
        return np.uint8(tag), at, np.int32(length), at + length
    if tag in (INTEGER, TIMESTAMP):
        value, at = read_long(data, at, end)
        if tag == TIMESTAMP and not MIN_TIME <= value <= MAX_TIME:
            return failed
        return np.uint8(tag), value, np.int32(0), at
    if tag == FLOAT:
        if at + 8 > end:
            return failed
        return np.uint8(tag), read_double(data, at), np.int32(0), at + 8
    if tag == BOOLEAN:
        if at >= end or data[at] > 1:
            return failed
        return np.uint8(tag), np.int64(data[at]), np.int32(0), at + 1
    size = 16 if tag == POINT else 24 if tag == CIRCLE else 32 if tag == BOX else 0
    if size == 0 or at + size > end:
        return failed
    third = as_double(read_double(data, at + 16)) if size > 16 else 0.0
    fourth = as_double(read_double(data, at + 24)) if size > 24 else 0.0
    if not is_shape(tag, as_double(read_double(data, at)), as_double(read_double(data, at + 8)), third, fourth):
        return failed
    return np.uint8(tag), at, np.int32(size), at + size


@bare
def read_attributes(
    data: Array, at: Number, end: Number, value_tags: Array, stamp: Number, names: Names, entries: Entries, fill: Array
) -> Result:
    """The place behind the map; -1 if it is malformed, -2 if there is no room. Entries go behind the ones that are there."""
    total = np.int64(0)
    while True:
        count, stop, at = read_block(data, at, end)
        if at < 0 or count == 0:
            return at
        total += count
        if total > end:
            return np.int64(-1)
        for _ in range(count):
            if fill[ENTRIES] >= len(entries.name) or 2 * fill[NAMES] + 2 > len(names.table):
                return np.int64(-2)
            size, at = read_length(data, at, end)
            if at < 0:
                return at
            number = intern(data, at, size, names, fill)
            if number < 0:
                return np.int64(-1)
            tag, bits, length, at = read_value(data, at + size, end, value_tags)
            if at < 0:
                return at
            put_entry(number, (tag, bits, length), stamp, names, entries, fill)
        if stop >= 0 and at != stop:
            return np.int64(-1)


# The readers of one field return the place behind it; -1 if it is malformed, -2 if there is no room. They are put where they are called:
# the arrays that they need would take longer to hand over than a field to read.


@inlined
def _read_text(data: Array, at: Number, end: Number, check: Number, column: Number, row: Number, rows: Rows) -> Result:
    size, at = read_length(data, at, end)
    if at >= 0 and not is_text(check, data, at, at + size):
        at = np.int64(-1)
    if at >= 0:
        rows.text_at[column, row] = at
        rows.text_length[column, row] = size
        at += size
    return at


@inlined
def _read_where(
    data: Array, at: Number, end: Number, kinds: Array, column: Number, row: Number, program: Program, rows: Rows
) -> Result:
    begin = at
    branch, at = read_long(data, at, end)
    # the last number of the row is no branch: it is the node of the structured form
    last = len(kinds) - 1
    if at >= 0 and 0 <= branch < last and kinds[branch] >= 0:
        kind = kinds[branch]
        rows.smalls[column, row] = kind
        if kind == 1:
            size, at = read_length(data, at, end)
            if at >= 0 and is_utf8(data, at, at + size):
                rows.text_at[column, row] = at
                rows.text_length[column, row] = size
                at += size
            else:
                at = np.int64(-1)
        elif kind == 2:
            at = skip(program.nodes, program.children, np.int64(kinds[last]), data, begin, end)
            rows.text_at[column, row] = begin
            rows.text_length[column, row] = at - begin
    else:
        at = np.int64(-1)
    return at


@inlined
def _read_best(data: Array, at: Number, end: Number, column: Number, row: Number, rows: Rows) -> Result:
    size, at = read_length(data, at, end)
    if at >= 0 and is_text(ID, data, at, at + size):
        rows.text_at[column, row] = at
        rows.text_length[column, row] = size
        value, at = read_long(data, at + size, end)
        rows.smalls[column, row] = value + 1
        if not 0 <= value <= 1:
            at = np.int64(-1)
    else:
        at = np.int64(-1)
    return at


@bare
def _read_list(data: Array, at: Number, end: Number, items: Array, fill: Array) -> Result:
    while True:
        block, stop, at = read_block(data, at, end)
        if at < 0 or block == 0:
            return at
        for _ in range(block):
            if fill[ITEMS] >= len(items):
                return np.int64(-2)
            value, at = read_long(data, at, end)
            if at < 0 or not -(2**31) <= value < 2**31:
                return np.int64(-1)
            items[fill[ITEMS]] = value
            fill[ITEMS] += 1
        if stop >= 0 and at != stop:
            return np.int64(-1)


@inlined
def _read_version(data: Array, at: Number, end: Number, column: Number, row: Number, rows: Rows) -> Result:
    for index in range(3):
        value = np.int64(0)
        if at >= 0:
            value, at = read_long(data, at, end)
        if index == 0 and not -(2**31) <= value < 2**31:
            at = np.int64(-1)
        rows.longs[column + index, row] = value
    return at


@inlined
def _read_symbol(
    data: Array, at: Number, end: Number, symbols: Array, column: Number, row: Number, rows: Rows
) -> Result:
    """Of an enum, what its symbol means to us."""
    value, at = read_long(data, at, end)
    if at >= 0 and 0 <= value < len(symbols) and symbols[value] >= 0:
        rows.smalls[column, row] = symbols[value]
    else:
        at = np.int64(-1)
    return at


@inlined
def _read_number(data: Array, at: Number, end: Number, is_time: Number, bits: Number) -> Result:
    value, at = read_long(data, at, end)
    if is_time:
        if not MIN_TIME <= value <= MAX_TIME:
            at = np.int64(-1)
    elif bits != 64 and not -(2**31) <= value < 2**31:
        at = np.int64(-1)
    return value, at


@inlined
def _begins_with(data: Array, at: Number, end: Number, header: Array) -> Result:
    same = end - at >= len(header)
    if same:
        for index in range(len(header)):
            if data[at + index] != header[index]:
                same = False
                break
    return same


@bare
def read_rows(
    data: Array,
    begin_row: Number,
    done: Number,
    header: Array,
    program_: Any,
    rows_: Any,
    names_: Any,
    entries_: Any,
) -> Result:
    """Reads the rows that begin with `header` and are not read. Returns the row that found no room, or the number of rows."""
    program, rows, entries = Program(*program_), Rows(*rows_), Entries(*entries_)
    table, seed, places = names_
    names = Names(table, seed, places[NAME_AT], places[NAME_LENGTH], places[SEEN], places[SEEN_ENTRY])
    spans, fill = rows.spans, rows.fill
    for row in range(begin_row, len(rows.result)):
        at, end = spans[BEGINS, row], spans[ENDS, row]
        if rows.result[row] != SLOW or not _begins_with(data, at, end, header):
            continue
        at += len(header)
        before, listed = fill[ENTRIES], fill[ITEMS]
        spans[FIRST, row] = before
        spans[LIST_FIRST, row] = listed
        step = 0
        while at >= 0:
            operation, column = program.steps[step, 0], program.steps[step, 1]
            argument, null = program.steps[step, 2], program.steps[step, 3]
            step += 1
            if operation == END:
                break
            if null >= 0:
                branch, at = read_long(data, at, end)
                if at < 0 or not 0 <= branch <= 1:
                    at = np.int64(-1)
                    break
                if branch == null:
                    continue
            if operation == TEXT:
                at = _read_text(data, at, end, argument, column, row, rows)
            elif operation in (LONG, TIME):
                rows.longs[column, row], at = _read_number(data, at, end, operation == TIME, argument)
            elif operation == FLAG:
                if at < end and data[at] <= 1:
                    rows.smalls[column, row] = data[at]
                    at += 1
                else:
                    at = np.int64(-1)
            elif operation == ENUM:
                at = _read_symbol(data, at, end, program.symbols[argument], column, row, rows)
            elif operation == ATTRIBUTES:
                at = read_attributes(data, at, end, program.value_tags, row, names, entries, fill)
                spans[COUNT, row] = fill[ENTRIES] - before
            elif operation == WHERE:
                at = _read_where(data, at, end, program.symbols[argument], column, row, program, rows)
            elif operation == BEST:
                at = _read_best(data, at, end, column, row, rows)
            elif operation == LIST:
                at = _read_list(data, at, end, rows.items, fill)
                spans[LIST_COUNT, row] = fill[ITEMS] - listed
            elif operation == VERSION:
                at = _read_version(data, at, end, column, row, rows)
            elif operation == BRANCHES:
                branch, at = read_long(data, at, end)
                if at >= 0 and 0 <= branch < program.symbols.shape[1] and program.symbols[argument, branch] >= 0:
                    rows.smalls[column, row] = branch
                    step = program.symbols[argument, branch]
                else:
                    at = np.int64(-1)
            else:
                begin = at
                at = skip(program.nodes, program.children, np.int64(argument), data, at, end)
                if operation == RANGE:
                    rows.text_at[column, row] = begin
                    rows.text_length[column, row] = at - begin
        if at == end:
            rows.result[row] = done
            fill[READ] += 1
            continue
        fill[ENTRIES] = before
        fill[ITEMS] = listed
        if at == -2:
            # What the row had interned stays; its stamps must not be taken for those of the next try.
            for number in range(fill[NAMES]):
                if names.seen[number] == row:
                    names.seen[number] = -1
            return row
        spans[COUNT, row] = 0
        spans[LIST_COUNT, row] = 0
    return len(rows.result)
