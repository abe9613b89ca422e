"""Values and attributes of a JSON record: numbers, times, shapes and paths, written as entries.

Replaces the checks behind orjson; figures in the head of `read_json`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, PATH, POINT, STRING, TIMESTAMP
from pastforward.columns.kernel import bare, kernel
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.schemas.kernels.columns import Entries, Names, intern, is_shape, put_entry
from pastforward.schemas.kernels.json_text import (
    CLOSE,
    FALSE,
    OPEN,
    QUOTE,
    TRUE,
    is_word,
    read_key,
    read_next,
    read_string,
    skip_blank,
    which_name,
)
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.numbers import FAILED, INTEGER, NO_TIME, read_number, read_rfc3339
from pastforward.schemas.kernels.read_avro import as_double
from pastforward.schemas.kernels.text import ID, is_path, is_text, is_utf8

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
def read_time(data: Array, at: Number, end: Number) -> Result:
    """Microseconds and the place behind; -1 if it is no time."""
    if at < end and data[at] == QUOTE:
        begin, stop, at = read_string(data, at, end)
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
def _read_object(data: Array, at: Number, end: Number, numbers: Array) -> Result:
    """Tag, bits, length and the place behind an object that is a value; the place is -1 if it is none."""
    failed = (np.uint8(0), np.int64(0), np.int32(0), np.int64(-1))
    begin = at
    at = skip_blank(data, at + 1, end)
    have = 0
    moment = np.int64(0)
    path_begin, path_stop = np.int64(0), np.int64(0)
    while True:
        name_begin, name_stop, at = read_key(data, at, end)
        if at < 0:
            return failed
        field = which_name(data, name_begin, name_stop, _SHAPE_TEXT, _SHAPE_ENDS, 0, len(_SHAPE_ENDS))
        if field < 0 or have >> field & 1:
            return failed
        have |= 1 << field
        if field == _TIMESTAMP_FIELD:
            moment, at = read_time(data, at, end)
        elif field == _PATH_FIELD:
            path_begin, path_stop, at = read_string(data, at, end)
        else:
            kind, bits, at = read_number(data, at, end)
            if kind == FAILED:
                return failed
            numbers[field] = np.float64(bits) if kind == INTEGER else as_double(bits)
        if at < 0:
            return failed
        more, at = read_next(data, at, end)
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
def read_value(data: Array, at: Number, end: Number, numbers: Array) -> Result:
    failed = (np.uint8(0), np.int64(0), np.int32(0), np.int64(-1))
    if at >= end:
        return failed
    byte = data[at]
    if byte == QUOTE:
        begin, stop, at = read_string(data, at, end)
        if at < 0 or not is_utf8(data, begin, stop):
            return failed
        return np.uint8(STRING), begin, np.int32(stop - begin), at
    if byte == OPEN:
        return _read_object(data, at, end, numbers)
    if byte == 0x74:
        return (
            (np.uint8(BOOLEAN), np.int64(1), np.int32(0), np.int64(at + 4)) if is_word(data, at, end, TRUE) else failed
        )
    if byte == 0x66:
        return (
            (np.uint8(BOOLEAN), np.int64(0), np.int32(0), np.int64(at + 5)) if is_word(data, at, end, FALSE) else failed
        )
    kind, bits, at = read_number(data, at, end)
    if kind == FAILED:
        return failed
    return np.uint8(kind), bits, np.int32(0), np.int64(at)


@bare
def read_attributes(
    data: Array, at: Number, end: Number, stamp: Number, numbers: Array, names: Names, entries: Entries, fill: Array
) -> Result:
    """The place behind the object; -1 if it is for the plain path."""
    if at >= end or data[at] != OPEN:
        return np.int64(-1)
    at = skip_blank(data, at + 1, end)
    if at < end and data[at] == CLOSE:
        return np.int64(at + 1)
    while True:
        begin, stop, at = read_key(data, at, end)
        if at < 0:
            return at
        number = intern(data, begin, stop - begin, names, fill)
        if number < 0:
            return np.int64(-1)
        tag, bits, length, at = read_value(data, at, end, numbers)
        if at < 0:
            return at
        put_entry(number, (tag, bits, length), stamp, names, entries, fill)
        more, at = read_next(data, at, end)
        if more <= 0:
            return at


@kernel
def read_best(data: Array, at: Number, end: Number) -> Result:
    """Begin and end of the attribute, 1 highest or 2 lowest, and the place behind; -1 if it is for the plain path."""
    failed = (np.int64(0), np.int64(0), np.int64(0), np.int64(-1))
    if at >= end or data[at] != OPEN:
        return failed
    at = skip_blank(data, at + 1, end)
    have = 0
    name_begin, name_stop, prefer = np.int64(0), np.int64(0), np.int64(0)
    while True:
        begin, stop, at = read_key(data, at, end)
        if at < 0:
            return failed
        field = which_name(data, begin, stop, _BEST_TEXT, _BEST_ENDS, 0, 2)
        begin, stop, at = read_string(data, at, end)
        if at < 0 or field < 0 or have >> field & 1:
            return failed
        have |= 1 << field
        if field == 0:
            if not is_text(ID, data, begin, stop):
                return failed
            name_begin, name_stop = begin, stop
        else:
            prefer = np.int64(which_name(data, begin, stop, _PREFER_TEXT, _PREFER_ENDS, 0, 2) + 1)
            if prefer == 0:
                return failed
        more, at = read_next(data, at, end)
        if more < 0:
            return failed
        if more == 0:
            return (name_begin, name_stop, prefer, at) if have == 3 else failed
