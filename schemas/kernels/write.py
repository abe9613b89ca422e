"""The pieces of which records are written: integers and texts as Avro has them, strings and words as JSON has them.

Replaces fastavro's writer, which wants a dictionary of each record first: 17 us for a publication of ten attributes; the kernels of which
these are the pieces take 0.35 us (`pastforward bench codecs`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOOLEAN, FLOAT, INTEGER, PATH, STRING, TIMESTAMP
from pastforward.columns.kernel import bare
from pastforward.columns.times import NEVER
from pastforward.schemas.kernels.kinds import Array, Number, Result

_SEVEN = np.uint64(7)
_MASK = np.uint64(0x7F)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8).copy()


def _short_escapes() -> npt.NDArray[np.uint8]:
    """The letter behind the backslash of characters that have one in JSON."""
    table = np.zeros(128, dtype=np.uint8)
    for character, letter in zip(b'\b\t\n\f\r"\\', b'btnfr"\\', strict=True):
        table[character] = letter
    return table


_SHORT_ESCAPES = _short_escapes()


@bare
def put_long(out: Array, at: Number, value: Number) -> Result:
    rest = np.uint64(value << 1) ^ np.uint64(value >> 63)
    while rest > _MASK:
        out[at] = np.uint8(rest & _MASK) | 0x80
        rest >>= _SEVEN
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@bare
def put_raw(out: Array, at: Number, data: Array, begin: Number, length: Number) -> Result:
    for index in range(length):
        out[at + index] = data[begin + index]
    return at + length


@bare
def put_text(out: Array, at: Number, data: Array, begin: Number, length: Number) -> Result:
    return put_raw(out, put_long(out, at, np.int64(length)), data, begin, length)


@bare
def put_nullable_text(out: Array, at: Number, data: Array, begin: Number, length: Number) -> Result:
    if length < 0:
        out[at] = 0
        return at + 1
    out[at] = 2
    return put_text(out, at + 1, data, begin, length)


@bare
def put_row(out: Array, at: Number, text: Any, row: Number) -> Result:
    """The text of a row. `text`: what `Texts.for_kernel` gives."""
    heap, begin, length = text
    return put_text(out, at, heap, begin[row], length[row])


@bare
def put_nullable_row(out: Array, at: Number, text: Any, row: Number) -> Result:
    heap, begin, length = text
    return put_nullable_text(out, at, heap, begin[row], length[row])


@bare
def put_end(out: Array, at: Number, time: Number) -> Result:
    """A time, or null for NEVER."""
    if time == NEVER:
        out[at] = 0
        return at + 1
    out[at] = 2
    return put_long(out, at + 1, time)


@bare
def text_bytes_of(length: Array, rows: Array) -> Result:
    total = np.int64(0)
    for row in rows:
        total += max(length[row], 0)
    return total


@bare
def attribute_bytes_of(rows: Array, attributes: Any, around: Number) -> Result:
    """Names and texts of the rows' attributes, and for each as much `around` it."""
    _, start, name, _, _, length, _, name_start, _ = attributes
    total = np.int64(0)
    for row in rows:
        for entry in range(start[row], start[row + 1]):
            number = name[entry]
            total += name_start[number + 1] - name_start[number] + length[entry] + around
    return total


@bare
def put_value(out: Array, at: Number, heap: Array, tag: Number, bits: Number, length: Number) -> Result:
    """What follows the branch of a value in Avro."""
    if tag in (INTEGER, TIMESTAMP):
        return put_long(out, at, bits)
    if tag == FLOAT:
        for index in range(8):
            out[at + index] = (bits >> np.int64(8 * index)) & 0xFF
        return at + 8
    if tag == BOOLEAN:
        out[at] = bits
        return at + 1
    if tag in (STRING, PATH):
        return put_text(out, at, heap, bits, length)
    return put_raw(out, at, heap, bits, length)


@bare
def put_attributes(out: Array, at: Number, row: Number, attributes: Any) -> Result:
    """`attributes`: the entries of `columns.attributes`, the names' bytes and where each begins, and the branch of each tag."""
    (
        heap,
        start,
        attribute_name,
        attribute_tag,
        attribute_bits,
        attribute_length,
        name_text,
        name_start,
        branch_of_tag,
    ) = attributes
    begin, end = start[row], start[row + 1]
    if end > begin:
        at = put_long(out, at, np.int64(end - begin))
        for entry in range(begin, end):
            number = attribute_name[entry]
            at = put_text(out, at, name_text, name_start[number], name_start[number + 1] - name_start[number])
            tag = attribute_tag[entry]
            out[at] = 2 * branch_of_tag[tag]
            at = put_value(out, at + 1, heap, tag, attribute_bits[entry], attribute_length[entry])
    out[at] = 0
    return at + 1


@bare
def put_json_string(out: Array, at: Number, data: Array, begin: Number, length: Number) -> Result:
    """At most six times the length, and two quotes."""
    out[at] = 0x22
    at += 1
    for index in range(begin, begin + length):
        byte = data[index]
        if byte >= 0x20 and byte != 0x22 and byte != 0x5C:
            out[at] = byte
            at += 1
            continue
        out[at] = 0x5C
        short = _SHORT_ESCAPES[byte]
        if short:
            out[at + 1] = short
            at += 2
            continue
        out[at + 1] = 0x75
        out[at + 2] = 0x30
        out[at + 3] = 0x30
        out[at + 4] = 0x30 + (byte >> 4)
        out[at + 5] = _HEX_DIGITS[byte & 15]
        at += 6
    out[at] = 0x22
    return at + 1


@bare
def put_json_row(out: Array, at: Number, text: Any, row: Number) -> Result:
    heap, begin, length = text
    return put_json_string(out, at, heap, begin[row], length[row])


@bare
def put_word(out: Array, at: Number, words: Any, number: Number) -> Result:
    """`words`: their bytes, and where each ends."""
    data, ends = words
    begin = ends[number - 1] if number else 0
    return put_raw(out, at, data, begin, ends[number] - begin)
