"""Reads chunks of Avro records into columns, driven by steps that `schemas.program` makes from the writer's schema.

Takes exactly what `schemas.avro_plain` and `schemas.plain` take; a row with anything else is left to them.
"""

from __future__ import annotations

import numpy as np

from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, FLOAT, INTEGER, PATH, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import kernel
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
    intern,
    is_shape,
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


@kernel
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


@kernel
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


@kernel
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


@kernel
def read_attributes(
    data: Array,
    at: Number,
    end: Number,
    value_tags: Array,
    stamp: Number,
    table: Array,
    seed: Number,
    name_at: Array,
    name_length: Array,
    seen: Array,
    seen_entry: Array,
    name: Array,
    tag: Array,
    bits: Array,
    length: Array,
    fill: Array,
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
            if fill[ENTRIES] >= len(name) or 2 * fill[NAMES] + 2 > len(table):
                return np.int64(-2)
            size, at = read_length(data, at, end)
            if at < 0:
                return at
            number = intern(data, at, size, table, seed, name_at, name_length, fill)
            if number < 0:
                return np.int64(-1)
            at += size
            each_tag, each_bits, each_length, at = read_value(data, at, end, value_tags)
            if at < 0:
                return at
            if seen[number] == stamp:
                entry = seen_entry[number]
            else:
                entry = fill[ENTRIES]
                fill[ENTRIES] = entry + 1
                seen[number] = stamp
                seen_entry[number] = entry
            name[entry] = number
            tag[entry] = each_tag
            bits[entry] = each_bits
            length[entry] = each_length
        if stop >= 0 and at != stop:
            return np.int64(-1)


@kernel
def read_rows(
    data: Array,
    spans: Array,
    begin_row: Number,
    done: Number,
    header: Array,
    steps: Array,
    symbols: Array,
    nodes: Array,
    children: Array,
    value_tags: Array,
    text_at: Array,
    text_length: Array,
    longs: Array,
    smalls: Array,
    result: Array,
    table: Array,
    seed: Number,
    names: Array,
    name: Array,
    tag: Array,
    bits: Array,
    length: Array,
    items: Array,
    fill: Array,
) -> Result:
    """Reads the rows that begin with `header` and are not read. Returns the row that found no room, or the number of rows."""
    begins, ends, first, count = spans[BEGINS], spans[ENDS], spans[FIRST], spans[COUNT]
    list_first, list_count = spans[LIST_FIRST], spans[LIST_COUNT]
    name_at, name_length, seen, seen_entry = names[NAME_AT], names[NAME_LENGTH], names[SEEN], names[SEEN_ENTRY]
    for row in range(begin_row, len(result)):
        if result[row] != SLOW:
            continue
        at, end = begins[row], ends[row]
        if end - at < len(header):
            continue
        ours = True
        for index in range(len(header)):
            if data[at + index] != header[index]:
                ours = False
                break
        if not ours:
            continue
        at += len(header)
        entries, listed = fill[ENTRIES], fill[ITEMS]
        first[row] = entries
        list_first[row] = listed
        full = False
        good = True
        step = 0
        while good:
            operation, column, argument, null = steps[step, 0], steps[step, 1], steps[step, 2], steps[step, 3]
            step += 1
            if operation == END:
                break
            if null >= 0:
                branch, at = read_long(data, at, end)
                if at < 0 or not 0 <= branch <= 1:
                    good = False
                    break
                if branch == null:
                    continue
            if operation == TEXT:
                size, at = read_length(data, at, end)
                if at < 0 or not is_text(argument, data, at, at + size):
                    good = False
                    break
                text_at[column, row] = at
                text_length[column, row] = size
                at += size
            elif operation in (LONG, TIME):
                value, at = read_long(data, at, end)
                if operation == TIME:
                    good = at >= 0 and MIN_TIME <= value <= MAX_TIME
                else:
                    good = at >= 0 and (argument == 64 or -(2**31) <= value < 2**31)
                longs[column, row] = value
            elif operation == FLAG:
                good = at < end and data[at] <= 1
                if good:
                    smalls[column, row] = data[at]
                    at += 1
            elif operation == ENUM:
                value, at = read_long(data, at, end)
                good = at >= 0 and 0 <= value < symbols.shape[1] and symbols[argument, value] >= 0
                if good:
                    smalls[column, row] = symbols[argument, value]
            elif operation == ATTRIBUTES:
                at = read_attributes(
                    data, at, end, value_tags, row, table, seed, name_at, name_length, seen, seen_entry, name, tag, bits,
                    length, fill,
                )  # fmt: skip
                full = at == -2
                good = at >= 0
                if good:
                    count[row] = fill[ENTRIES] - entries
            elif operation == WHERE:
                begin = at
                branch, at = read_long(data, at, end)
                # the last number of the row is no branch: it is the node of the structured form
                good = at >= 0 and 0 <= branch < symbols.shape[1] - 1 and symbols[argument, branch] >= 0
                if good:
                    kind = symbols[argument, branch]
                    smalls[column, row] = kind
                    if kind == 1:
                        size, at = read_length(data, at, end)
                        good = at >= 0 and is_utf8(data, at, at + size)
                        text_at[column, row] = at
                        text_length[column, row] = size
                        at += size
                    elif kind == 2:
                        at = skip(nodes, children, np.int64(symbols[argument, symbols.shape[1] - 1]), data, begin, end)
                        good = at >= 0
                        text_at[column, row] = begin
                        text_length[column, row] = at - begin
            elif operation == BEST:
                size, at = read_length(data, at, end)
                good = at >= 0 and is_text(ID, data, at, at + size)
                if good:
                    text_at[column, row] = at
                    text_length[column, row] = size
                    value, at = read_long(data, at + size, end)
                    good = at >= 0 and 0 <= value <= 1
                    smalls[column, row] = value + 1
            elif operation == LIST:
                while good:
                    block, stop, at = read_block(data, at, end)
                    if at < 0 or block == 0:
                        good = at >= 0
                        break
                    for _ in range(block):
                        if fill[ITEMS] >= len(items):
                            full = True
                            good = False
                            break
                        value, at = read_long(data, at, end)
                        if at < 0 or not -(2**31) <= value < 2**31:
                            good = False
                            break
                        items[fill[ITEMS]] = value
                        fill[ITEMS] += 1
                    good = good and (stop < 0 or at == stop)
                list_count[row] = fill[ITEMS] - listed
            elif operation == VERSION:
                for index in range(3):
                    value, at = read_long(data, at, end)
                    if at < 0 or (index == 0 and not -(2**31) <= value < 2**31):
                        good = False
                        break
                    longs[column + index, row] = value
            elif operation == BRANCHES:
                value, at = read_long(data, at, end)
                good = at >= 0 and 0 <= value < symbols.shape[1] and symbols[argument, value] >= 0
                if good:
                    smalls[column, row] = value
                    step = symbols[argument, value]
            else:
                begin = at
                at = skip(nodes, children, np.int64(argument), data, at, end)
                good = at >= 0
                if operation == RANGE:
                    text_at[column, row] = begin
                    text_length[column, row] = at - begin
            good = good and at >= 0
        if full:
            fill[ENTRIES] = entries
            fill[ITEMS] = listed
            # What the row had interned stays; its stamps must not be taken for those of the next try.
            for number in range(fill[NAMES]):
                if seen[number] == row:
                    seen[number] = -1
            return row
        if good and at == end:
            result[row] = done
            fill[READ] += 1
        else:
            fill[ENTRIES] = entries
            fill[ITEMS] = listed
            count[row] = 0
            list_count[row] = 0
    return len(result)
