"""JSON's texts: strings with their escapes, names of fields, words, base64; decoded over their own bytes.

Replaces what orjson does for a field; figures in the head of `read_json`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pastforward.columns.kernel import kernel
from pastforward.schemas.kernels.kinds import Array, Number, Result
from pastforward.schemas.kernels.text import is_utf8

QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C
_COMMA: Final = 0x2C
_COLON: Final = 0x3A
OPEN: Final = 0x7B
CLOSE: Final = 0x7D


@kernel
def skip_blank(data: Array, at: Number, end: Number) -> Result:
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
        if byte == QUOTE:
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
        elif byte != QUOTE and byte != _BACKSLASH and byte != 0x2F:
            break
        data[out] = byte
        out += 1
    return np.int64(out), np.int64(-1)


@kernel
def read_string(data: Array, at: Number, end: Number) -> Result:
    """Begin and end of the decoded string, and the place behind the quote; that is -1 if it is no string."""
    if at >= end or data[at] != QUOTE:
        return np.int64(0), np.int64(0), np.int64(-1)
    at += 1
    begin = at
    while at < end:
        byte = data[at]
        if byte == QUOTE:
            return np.int64(begin), np.int64(at), np.int64(at + 1)
        if byte == _BACKSLASH:
            out, at = _unescape(data, at, at, end)
            return np.int64(begin), np.int64(out), np.int64(at)
        if byte < 0x20:
            break
        at += 1
    return np.int64(0), np.int64(0), np.int64(-1)


@kernel
def which_name(
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
def read_key(data: Array, at: Number, end: Number) -> Result:
    """A field's name, and the place of its value; -1 if there is none."""
    begin, stop, at = read_string(data, at, end)
    if at < 0 or not is_utf8(data, begin, stop):
        return begin, stop, np.int64(-1)
    at = skip_blank(data, at, end)
    if at >= end or data[at] != _COLON:
        return begin, stop, np.int64(-1)
    return begin, stop, np.int64(skip_blank(data, at + 1, end))


@kernel
def read_next(data: Array, at: Number, end: Number) -> Result:
    """Behind a field: 1 and the place of the next name, 0 and the place behind the object, or -1."""
    at = skip_blank(data, at, end)
    if at < end and data[at] == _COMMA:
        return 1, np.int64(skip_blank(data, at + 1, end))
    if at < end and data[at] == CLOSE:
        return 0, np.int64(at + 1)
    return -1, np.int64(-1)


@kernel
def is_word(data: Array, at: Number, end: Number, word: Array) -> Result:
    if at + len(word) > end:
        return False
    for index in range(len(word)):  # noqa: SIM110
        if data[at + index] != word[index]:
            return False
    return True


TRUE: Final = np.frombuffer(b"true", dtype=np.uint8).copy()
FALSE: Final = np.frombuffer(b"false", dtype=np.uint8).copy()
NULL: Final = np.frombuffer(b"null", dtype=np.uint8).copy()


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
def decode_base64(data: Array, begin: Number, stop: Number) -> Result:
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
