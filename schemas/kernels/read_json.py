"""Reads chunks of JSON records into the same columns as Avro's reader, driven by a table of field names.

Takes what is written as usual and leaves everything else to the plain path: fields that are unknown or come twice, structured
conditions, integers of more than 64 bits. What is decoded (escapes, base64, the doubles of shapes) is written over its own text in
`data`, which is always at least as long.

Replaces orjson and the checks behind it: 12 us for a publication of ten attributes, of which orjson takes 1.9; this takes 1.3 us
(`pastforward bench codecs`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, PATH, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import bare, inlined, kernel
from pastforward.columns.times import MAX_TIME, MIN_TIME
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
    intern,
    is_shape,
    put_entry,
)
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.numbers import FAILED, INTEGER, NO_TIME, read_number, read_rfc3339
from pastforward.schemas.kernels.read_avro import as_double
from pastforward.schemas.kernels.text import BYTES, ID, is_path, is_text, is_utf8

_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_COMMA: Final = 0x2C
_COLON: Final = 0x3A
_OPEN: Final = 0x7B
_CLOSE: Final = 0x7D

# Fields of the objects that are values, and what a set of them is.
_SHAPE_FIELDS: Final = tuple(
    tuple(name) for name in (b"lon", b"lat", b"radius_m", b"min_x", b"min_y", b"max_x", b"max_y", b"timestamp", b"path")
)
_SHAPE_TEXT: Final = np.frombuffer(b"lonlatradius_mmin_xmin_ymax_xmax_ytimestamppath", dtype=np.uint8).copy()
_SHAPE_ENDS: Final = np.cumsum([len(name) for name in _SHAPE_FIELDS])
_TIMESTAMP_FIELD: Final = 7
_PATH_FIELD: Final = 8
_BEST_TEXT: Final = np.frombuffer(b"attributeprefer", dtype=np.uint8).copy()
_BEST_ENDS: Final = np.array([9, 15])
_PREFER_TEXT: Final = np.frombuffer(b"highestlowest", dtype=np.uint8).copy()
_PREFER_ENDS: Final = np.array([7, 13])


@kernel
def _blank(data: Array, at: Number, end: Number) -> Result:
    while at < end and (data[at] == 0x20 or data[at] == 0x0A or data[at] == 0x0D or data[at] == 0x09):
        at += 1
    return at


@kernel
def _hex(data: Array, at: Number, end: Number) -> Result:
    if at + 4 > end:
        return -1
    value: Number = 0
    for index in range(at, at + 4):
        digit = np.int64(data[index])
        if 0x30 <= digit <= 0x39:
            value = value * 16 + digit - 0x30
        elif 0x41 <= digit <= 0x46:
            value = value * 16 + digit - 0x37
        elif 0x61 <= digit <= 0x66:
            value = value * 16 + digit - 0x57
        else:
            return -1
    return value


@kernel
def _put_utf8(data: Array, out: Number, code: Number) -> Result:
    if code < 0x80:
        data[out] = code
        return out + 1
    if code < 0x800:
        data[out] = 0xC0 | code >> 6
        data[out + 1] = 0x80 | code & 0x3F
        return out + 2
    if code < 0x10000:
        data[out] = 0xE0 | code >> 12
        data[out + 1] = 0x80 | code >> 6 & 0x3F
        data[out + 2] = 0x80 | code & 0x3F
        return out + 3
    data[out] = 0xF0 | code >> 18
    data[out + 1] = 0x80 | code >> 12 & 0x3F
    data[out + 2] = 0x80 | code >> 6 & 0x3F
    data[out + 3] = 0x80 | code & 0x3F
    return out + 4


@kernel
def _unescape(data: Array, at: Number, out: Number, end: Number) -> Result:
    """Decodes the rest of a string from the first backslash on. The end of what was written, and the place behind the quote."""
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return out, at + 1
        if byte < 0x20:
            break
        if byte != _BACKSLASH:
            data[out] = byte
            out += 1
            at += 1
            continue
        if at + 1 >= end:
            break
        byte = data[at + 1]
        at += 2
        if byte == 0x75:
            code = _hex(data, at, end)
            at += 4
            if 0xD800 <= code < 0xDC00:
                if at + 6 > end or data[at] != _BACKSLASH or data[at + 1] != 0x75:
                    break
                low = _hex(data, at + 2, end)
                if not 0xDC00 <= low < 0xE000:
                    break
                at += 6
                code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
            elif code < 0 or 0xDC00 <= code < 0xE000:
                break
            out = _put_utf8(data, out, code)
            continue
        if byte == 0x6E:
            byte = 0x0A
        elif byte == 0x74:
            byte = 0x09
        elif byte == 0x72:
            byte = 0x0D
        elif byte == 0x62:
            byte = 0x08
        elif byte == 0x66:
            byte = 0x0C
        elif byte != _QUOTE and byte != _BACKSLASH and byte != 0x2F:
            break
        data[out] = byte
        out += 1
    return np.int64(out), np.int64(-1)


@kernel
def _string(data: Array, at: Number, end: Number) -> Result:
    """Begin and end of the decoded string, and the place behind the quote; that is -1 if it is no string."""
    if at >= end or data[at] != _QUOTE:
        return np.int64(0), np.int64(0), np.int64(-1)
    at += 1
    begin = at
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return np.int64(begin), np.int64(at), np.int64(at + 1)
        if byte == _BACKSLASH:
            out, at = _unescape(data, at, at, end)
            return np.int64(begin), np.int64(out), np.int64(at)
        if byte < 0x20:
            break
        at += 1
    return np.int64(0), np.int64(0), np.int64(-1)


@kernel
def _which(
    data: Array, begin: Number, stop: Number, names: Array, name_ends: Array, low: Number, high: Number
) -> Result:
    """Which of the names `low` to `high` a text is; -1 if none."""
    for index in range(low, high):
        name_begin = name_ends[index - 1] if index else 0
        size = stop - begin
        if name_ends[index] - name_begin != size:
            continue
        same = True
        for place in range(size):
            if names[name_begin + place] != data[begin + place]:
                same = False
                break
        if same:
            return index
    return -1


@kernel
def _key(data: Array, at: Number, end: Number) -> Result:
    """A field's name, and the place of its value; -1 if there is none."""
    begin, stop, at = _string(data, at, end)
    if at < 0 or not is_utf8(data, begin, stop):
        return begin, stop, np.int64(-1)
    at = _blank(data, at, end)
    if at >= end or data[at] != _COLON:
        return begin, stop, np.int64(-1)
    return begin, stop, np.int64(_blank(data, at + 1, end))


@kernel
def _next(data: Array, at: Number, end: Number) -> Result:
    """Behind a field: 1 and the place of the next name, 0 and the place behind the object, or -1."""
    at = _blank(data, at, end)
    if at < end and data[at] == _COMMA:
        return 1, np.int64(_blank(data, at + 1, end))
    if at < end and data[at] == _CLOSE:
        return 0, np.int64(at + 1)
    return -1, np.int64(-1)


@kernel
def _is_word(data: Array, at: Number, end: Number, word: Array) -> Result:
    if at + len(word) > end:
        return False
    for index in range(len(word)):  # noqa: SIM110
        if data[at + index] != word[index]:
            return False
    return True


_TRUE: Final = np.frombuffer(b"true", dtype=np.uint8).copy()
_FALSE: Final = np.frombuffer(b"false", dtype=np.uint8).copy()
_NULL: Final = np.frombuffer(b"null", dtype=np.uint8).copy()


@kernel
def _time(data: Array, at: Number, end: Number) -> Result:
    """Microseconds and the place behind; -1 if it is no time."""
    if at < end and data[at] == _QUOTE:
        begin, stop, at = _string(data, at, end)
        value = read_rfc3339(data, begin, stop) if at >= 0 else np.int64(NO_TIME)
        return value, at if value != NO_TIME else np.int64(-1)
    kind, value, at = read_number(data, at, end)
    if kind != INTEGER or not MIN_TIME <= value <= MAX_TIME:
        return np.int64(0), np.int64(-1)
    return value, np.int64(at)


@kernel
def _put_double(data: Array, at: Number, value: Number) -> None:
    bits = np.float64(value).view(np.int64)
    for index in range(8):
        data[at + index] = (bits >> np.int64(8 * index)) & 0xFF


@bare
def _object(data: Array, at: Number, end: Number, numbers: Array) -> Result:
    """Tag, bits, length and the place behind an object that is a value; the place is -1 if it is none."""
    failed = (np.uint8(0), np.int64(0), np.int32(0), np.int64(-1))
    begin = at
    at = _blank(data, at + 1, end)
    have = 0
    moment = np.int64(0)
    path_begin, path_stop = np.int64(0), np.int64(0)
    while True:
        name_begin, name_stop, at = _key(data, at, end)
        if at < 0:
            return failed
        field = _which(data, name_begin, name_stop, _SHAPE_TEXT, _SHAPE_ENDS, 0, len(_SHAPE_ENDS))
        if field < 0 or have >> field & 1:
            return failed
        have |= 1 << field
        if field == _TIMESTAMP_FIELD:
            moment, at = _time(data, at, end)
        elif field == _PATH_FIELD:
            path_begin, path_stop, at = _string(data, at, end)
        else:
            kind, bits, at = read_number(data, at, end)
            if kind == FAILED:
                return failed
            numbers[field] = np.float64(bits) if kind == INTEGER else as_double(bits)
        if at < 0:
            return failed
        more, at = _next(data, at, end)
        if more < 0:
            return failed
        if more == 0:
            break
    if have == 1 << _TIMESTAMP_FIELD:
        return np.uint8(TIMESTAMP), moment, np.int32(0), at
    if have == 1 << _PATH_FIELD:
        if not is_path(data, path_begin, path_stop):
            return failed
        return np.uint8(PATH), path_begin, np.int32(path_stop - path_begin), at
    if have == 0b11 or have == 0b111:
        tag = POINT if have == 0b11 else CIRCLE
        low, high = 0, 2 if tag == POINT else 3
    elif have == 0b1111000:
        tag, low, high = BOX, 3, 7
    else:
        return failed
    if not is_shape(tag, numbers[low], numbers[low + 1], numbers[low + 2], numbers[low + 3]):
        return failed
    for index in range(low, high):
        _put_double(data, begin + 8 * (index - low), numbers[index])
    return np.uint8(tag), np.int64(begin), np.int32(8 * (high - low)), at


@bare
def _value(data: Array, at: Number, end: Number, numbers: Array) -> Result:
    failed = (np.uint8(0), np.int64(0), np.int32(0), np.int64(-1))
    if at >= end:
        return failed
    byte = data[at]
    if byte == _QUOTE:
        begin, stop, at = _string(data, at, end)
        if at < 0 or not is_utf8(data, begin, stop):
            return failed
        return np.uint8(STRING), begin, np.int32(stop - begin), at
    if byte == _OPEN:
        return _object(data, at, end, numbers)
    if byte == 0x74:
        return (
            (np.uint8(BOOLEAN), np.int64(1), np.int32(0), np.int64(at + 4))
            if _is_word(data, at, end, _TRUE)
            else failed
        )
    if byte == 0x66:
        return (
            (np.uint8(BOOLEAN), np.int64(0), np.int32(0), np.int64(at + 5))
            if _is_word(data, at, end, _FALSE)
            else failed
        )
    kind, bits, at = read_number(data, at, end)
    if kind == FAILED:
        return failed
    return np.uint8(kind), bits, np.int32(0), np.int64(at)


@bare
def _attributes(
    data: Array, at: Number, end: Number, stamp: Number, numbers: Array, names: Names, entries: Entries, fill: Array
) -> Result:
    """The place behind the object; -1 if it is for the plain path."""
    if at >= end or data[at] != _OPEN:
        return np.int64(-1)
    at = _blank(data, at + 1, end)
    if at < end and data[at] == _CLOSE:
        return np.int64(at + 1)
    while True:
        begin, stop, at = _key(data, at, end)
        if at < 0:
            return at
        number = intern(data, begin, stop - begin, names, fill)
        if number < 0:
            return np.int64(-1)
        tag, bits, length, at = _value(data, at, end, numbers)
        if at < 0:
            return at
        put_entry(number, (tag, bits, length), stamp, names, entries, fill)
        more, at = _next(data, at, end)
        if more <= 0:
            return at


@kernel
def _sextet(byte: Number) -> Result:
    if 0x41 <= byte <= 0x5A:
        return np.int64(byte) - 0x41
    if 0x61 <= byte <= 0x7A:
        return np.int64(byte) - 0x47
    if 0x30 <= byte <= 0x39:
        return np.int64(byte) + 4
    return 62 if byte == 0x2B else 63 if byte == 0x2F else -1


@kernel
def _base64(data: Array, begin: Number, stop: Number) -> Result:
    """Decodes in place; the end of the bytes, or -1."""
    if (stop - begin) % 4:
        return np.int64(-1)
    out = begin
    for at in range(begin, stop, 4):
        pad = 0
        if at + 4 == stop and data[at + 3] == 0x3D:
            pad = 2 if data[at + 2] == 0x3D else 1
        group = np.int64(0)
        for index in range(4):
            sextet = _sextet(data[at + index]) if index < 4 - pad else 0
            if sextet < 0:
                return np.int64(-1)
            group = group << 6 | sextet
        for index in range(3 - pad):
            data[out + index] = (group >> (16 - 8 * index)) & 0xFF
        out += 3 - pad
    return np.int64(out)


@kernel
def _best(data: Array, at: Number, end: Number) -> Result:
    """Begin and end of the attribute, 1 highest or 2 lowest, and the place behind; -1 if it is for the plain path."""
    failed = (np.int64(0), np.int64(0), np.int64(0), np.int64(-1))
    if at >= end or data[at] != _OPEN:
        return failed
    at = _blank(data, at + 1, end)
    have = 0
    name_begin, name_stop, prefer = np.int64(0), np.int64(0), np.int64(0)
    while True:
        begin, stop, at = _key(data, at, end)
        if at < 0:
            return failed
        field = _which(data, begin, stop, _BEST_TEXT, _BEST_ENDS, 0, 2)
        begin, stop, at = _string(data, at, end)
        if at < 0 or field < 0 or have >> field & 1:
            return failed
        have |= 1 << field
        if field == 0:
            if not is_text(ID, data, begin, stop):
                return failed
            name_begin, name_stop = begin, stop
        else:
            prefer = np.int64(_which(data, begin, stop, _PREFER_TEXT, _PREFER_ENDS, 0, 2) + 1)
            if prefer == 0:
                return failed
        more, at = _next(data, at, end)
        if more < 0:
            return failed
        if more == 0:
            return (name_begin, name_stop, prefer, at) if have == 3 else failed


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
    begin, stop, at = _string(data, at, end)
    if at >= 0:
        if check == BYTES:
            stop = _base64(data, begin, stop)
        elif not is_text(check, data, begin, stop):
            stop = np.int64(-1)
        rows.text_at[column, row] = begin
        rows.text_length[column, row] = stop - begin
        if stop < 0:
            at = np.int64(-1)
    return at


@inlined
def _read_flag(data: Array, at: Number, end: Number, column: Number, row: Number, rows: Rows) -> Result:
    if _is_word(data, at, end, _TRUE):
        rows.smalls[column, row] = 1
        at += 4
    elif _is_word(data, at, end, _FALSE):
        rows.smalls[column, row] = 0
        at += 5
    else:
        at = np.int64(-1)
    return at


@inlined
def _read_symbol(
    data: Array, at: Number, end: Number, argument: Number, column: Number, row: Number, program: Program, rows: Rows
) -> Result:
    begin, stop, at = _string(data, at, end)
    if at >= 0:
        low, high = program.symbol_rows[argument, 0], program.symbol_rows[argument, 1]
        symbol = _which(data, begin, stop, program.symbol_text, program.symbol_ends, low, high)
        rows.smalls[column, row] = symbol - low
        if symbol < 0:
            at = np.int64(-1)
    return at


@inlined
def _read_best(data: Array, at: Number, end: Number, column: Number, row: Number, rows: Rows) -> Result:
    begin, stop, prefer, at = _best(data, at, end)
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
        at = _blank(data, spans[BEGINS, row], end)
        if rows.result[row] != SLOW or at >= end or data[at] != _OPEN:
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
        at = _blank(data, at + 1, end)
        if at < end and data[at] == _CLOSE:
            more = 0
            at += 1
        while more > 0:
            begin, stop, at = _key(data, at, end)
            field = -1
            if at >= 0:
                field = _which(data, begin, stop, program.field_text, program.field_ends, 0, len(program.field_ends))
            if field < 0 or have >> field & 1:
                more = -1
                break
            have |= 1 << field
            operation, column = program.field_steps[field, 0], program.field_steps[field, 1]
            argument, null = program.field_steps[field, 2], program.field_steps[field, 3]
            if at < end and data[at] == 0x6E:
                at = at + 4 if null == 0 and _is_word(data, at, end, _NULL) else np.int64(-1)
            elif operation == TEXT:
                at = _read_text(data, at, end, argument, column, row, rows)
            elif operation == WHERE:
                at = _read_text(data, at, end, 0, column, row, rows)
                rows.smalls[column, row] = 1
            elif operation == TIME:
                value, at = _time(data, at, end)
                rows.longs[column, row] = value
            elif operation == FLAG:
                at = _read_flag(data, at, end, column, row, rows)
            elif operation == ENUM:
                at = _read_symbol(data, at, end, argument, column, row, program, rows)
            elif operation == ATTRIBUTES:
                at = _attributes(data, at, end, row, numbers, names, entries, fill)
                spans[COUNT, row] = fill[ENTRIES] - before
            elif operation == BEST:
                at = _read_best(data, at, end, column, row, rows)
            else:
                at = np.int64(-1)
            if at < 0:
                more = -1
                break
            more, at = _next(data, at, end)
        if more == 0 and _blank(data, at, end) == end:
            rows.result[row] = done
            fill[READ] += 1
        else:
            fill[ENTRIES] = before
            spans[COUNT, row] = 0
    return len(rows.result)
