"""Writes chunks of records from columns, in Avro and for notifications in JSON.

The order of fields is that of our current schemas; a test holds it against them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOOLEAN, FLOAT, INTEGER, PATH, STRING, TIMESTAMP
from pastforward.columns.kernel import kernel
from pastforward.schemas.kernels.kinds import Array, Number, Result

_SEVEN = np.uint64(7)
_MASK = np.uint64(0x7F)
_TEN = np.uint64(10)
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8).copy()


def _short_escapes() -> npt.NDArray[np.uint8]:
    """The letter behind the backslash of characters that have one in JSON."""
    table = np.zeros(128, dtype=np.uint8)
    for character, letter in zip(b'\b\t\n\f\r"\\', b'btnfr"\\', strict=True):
        table[character] = letter
    return table


_SHORT_ESCAPES = _short_escapes()


@kernel
def put_long(out: Array, at: Number, value: Number) -> Result:
    rest = np.uint64(value << 1) ^ np.uint64(value >> 63)
    while rest > _MASK:
        out[at] = np.uint8(rest & _MASK) | 0x80
        rest >>= _SEVEN
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@kernel
def put_raw(out: Array, at: Number, data: Array, begin: Number, length: Number) -> Result:
    for index in range(length):
        out[at + index] = data[begin + index]
    return at + length


@kernel
def put_text(out: Array, at: Number, data: Array, begin: Number, length: Number) -> Result:
    return put_raw(out, put_long(out, at, np.int64(length)), data, begin, length)


@kernel
def put_nullable_text(out: Array, at: Number, data: Array, begin: Number, length: Number) -> Result:
    if length < 0:
        out[at] = 0
        return at + 1
    out[at] = 2
    return put_text(out, at + 1, data, begin, length)


@kernel
def text_bytes(length: Array) -> Result:
    total = np.int64(0)
    for size in length:
        total += max(size, 0)
    return total


@kernel
def text_bytes_of(length: Array, rows: Array) -> Result:
    total = np.int64(0)
    for row in rows:
        total += max(length[row], 0)
    return total


@kernel
def attribute_bytes_of(
    rows: Array, start: Array, name_start: Array, attribute_name: Array, attribute_length: Array, around: Number
) -> Result:
    """Names and texts of the rows' attributes, and for each as much `around` it."""
    total = np.int64(0)
    for row in rows:
        for entry in range(start[row], start[row + 1]):
            number = attribute_name[entry]
            total += name_start[number + 1] - name_start[number] + attribute_length[entry] + around
    return total


@kernel
def put_attributes(
    out: Array,
    at: Number,
    heap: Array,
    begin: Number,
    end: Number,
    branch_of_tag: Array,
    name_text: Array,
    name_start: Array,
    attribute_name: Array,
    attribute_tag: Array,
    attribute_bits: Array,
    attribute_length: Array,
) -> Result:
    if end > begin:
        at = put_long(out, at, np.int64(end - begin))
        for entry in range(begin, end):
            number = attribute_name[entry]
            at = put_text(out, at, name_text, name_start[number], name_start[number + 1] - name_start[number])
            tag = attribute_tag[entry]
            bits = attribute_bits[entry]
            out[at] = 2 * branch_of_tag[tag]
            at += 1
            if tag in (INTEGER, TIMESTAMP):
                at = put_long(out, at, bits)
            elif tag == FLOAT:
                for index in range(8):
                    out[at + index] = (bits >> np.int64(8 * index)) & 0xFF
                at += 8
            elif tag == BOOLEAN:
                out[at] = bits
                at += 1
            elif tag in (STRING, PATH):
                at = put_text(out, at, heap, bits, attribute_length[entry])
            else:
                at = put_raw(out, at, heap, bits, attribute_length[entry])
    out[at] = 0
    return at + 1


@kernel
def write_publications(
    out: Array,
    ends: Array,
    rows: Array,
    header: Array,
    origin: Number,
    branch: Number,
    never: Number,
    branch_of_tag: Array,
    partition: Number,
    offset: Array,
    arrived_at: Array,
    routing_version: Number,
    partitions_start: Array,
    partitions: Array,
    heap: Array,
    id_at: Array,
    id_length: Array,
    party_at: Array,
    party_length: Array,
    topic_at: Array,
    topic_length: Array,
    published_at: Array,
    expires_at: Array,
    best: Array,
    best_at: Array,
    best_length: Array,
    self_join: Array,
    start: Array,
    name_text: Array,
    name_start: Array,
    attribute_name: Array,
    attribute_tag: Array,
    attribute_bits: Array,
    attribute_length: Array,
    where_heap: Array,
    where_at: Array,
    where_length: Array,
    body_at: Array,
    body_length: Array,
) -> None:
    """Rendezvous records of publications. `where_length` -1: no condition; else the bytes of its normal form. Empty: none has one."""
    at = np.int64(0)
    for index in range(len(rows)):
        row = rows[index]
        at = put_raw(out, at, header, 0, len(header))
        at = put_long(out, at, np.int64(origin))
        at = put_long(out, at, np.int64(partition))
        at = put_long(out, at, offset[row])
        at = put_long(out, at, arrived_at[row])
        at = put_long(out, at, np.int64(routing_version))
        if partitions_start[index + 1] > partitions_start[index]:
            at = put_long(out, at, partitions_start[index + 1] - partitions_start[index])
            for each in range(partitions_start[index], partitions_start[index + 1]):
                at = put_long(out, at, np.int64(partitions[each]))
        out[at] = 0
        out[at + 1] = 2 * branch
        at += 2
        at = put_text(out, at, heap, id_at[row], id_length[row])
        at = put_nullable_text(out, at, heap, party_at[row], party_length[row])
        at = put_text(out, at, heap, topic_at[row], topic_length[row])
        at = put_long(out, at, published_at[row])
        if expires_at[row] == never:
            out[at] = 0
            at += 1
        else:
            out[at] = 2
            at = put_long(out, at + 1, expires_at[row])
        at = put_nullable_text(out, at, heap, best_at[row], best_length[row] if best[row] else -1)
        if best[row]:
            out[at] = 2 * (best[row] - 1)
            at += 1
        out[at] = self_join[row]
        at = put_attributes(
            out, at + 1, heap, start[row], start[row + 1], branch_of_tag, name_text, name_start, attribute_name,
            attribute_tag, attribute_bits, attribute_length,
        )  # fmt: skip
        if len(where_length) == 0 or where_length[index] < 0:
            out[at] = 0
            at += 1
        else:
            out[at] = 2
            at = put_raw(out, at + 1, where_heap, where_at[index], where_length[index])
        at = put_nullable_text(out, at, heap, body_at[row], body_length[row])
        out[at] = 0  # no entity: those are written one by one
        at += 1
        ends[index] = at


@kernel
def write_subscriptions(
    out: Array,
    ends: Array,
    rows: Array,
    header: Array,
    origin: Number,
    branch: Number,
    never: Number,
    partition: Number,
    offset: Array,
    arrived_at: Array,
    routing_version: Number,
    partitions_start: Array,
    partitions: Array,
    heap: Array,
    id_at: Array,
    id_length: Array,
    party_at: Array,
    party_length: Array,
    topic_at: Array,
    topic_length: Array,
    scope: Array,
    starts_at: Array,
    ends_at: Array,
    time: Array,
    where_heap: Array,
    where_at: Array,
    where_length: Array,
    semantics: Array,
    self_join: Array,
    deliver: Array,
    transitions: Array,
    paused: Array,
    set_versions: Array,
) -> None:
    """Rendezvous records of subscriptions. `set_versions`: of each index partition, offset and arrival; an offset of -1: none."""
    at = np.int64(0)
    for index in range(len(rows)):
        row = rows[index]
        at = put_raw(out, at, header, 0, len(header))
        at = put_long(out, at, np.int64(origin))
        at = put_long(out, at, np.int64(partition))
        at = put_long(out, at, offset[row])
        at = put_long(out, at, arrived_at[row])
        at = put_long(out, at, np.int64(routing_version))
        if partitions_start[index + 1] > partitions_start[index]:
            at = put_long(out, at, partitions_start[index + 1] - partitions_start[index])
            for each in range(partitions_start[index], partitions_start[index + 1]):
                at = put_long(out, at, np.int64(partitions[each]))
        out[at] = 0
        out[at + 1] = 2 * branch
        at = put_text(out, at + 2, heap, id_at[row], id_length[row])
        at = put_text(out, at, heap, party_at[row], party_length[row])
        # the version is where and when the record arrived
        at = put_long(out, at, np.int64(partition))
        at = put_long(out, at, offset[row])
        at = put_long(out, at, arrived_at[row])
        at = put_text(out, at, heap, topic_at[row], topic_length[row])
        out[at] = 2 * scope[row]
        at = put_long(out, at + 1, starts_at[row])
        if ends_at[row] == never:
            out[at] = 0
            at += 1
        else:
            out[at] = 2
            at = put_long(out, at + 1, ends_at[row])
        out[at] = 2 * time[row]
        at = put_raw(out, at + 1, where_heap, where_at[index], where_length[index])
        out[at] = 2 * semantics[row]
        out[at + 1] = self_join[row]
        out[at + 2] = 2 * deliver[row]
        out[at + 3] = transitions[row]
        out[at + 4] = paused[row]
        at += 5
        if set_versions[1, index] < 0:
            out[at] = 0
            at += 1
        else:
            out[at] = 2
            at += 1
            for part in range(3):
                at = put_long(out, at, set_versions[part, index])
        out[at] = 0  # only a matcher knows when a pause began
        at += 1
        ends[index] = at


@kernel
def write_notifications(
    out: Array,
    ends: Array,
    header: Array,
    id_heap: Array,
    id_at: Array,
    id_length: Array,
    subscription_heap: Array,
    subscription_at: Array,
    subscription_length: Array,
    version_heap: Array,
    version_at: Array,
    version_length: Array,
    publication_heap: Array,
    publication_at: Array,
    publication_length: Array,
    recipient_heap: Array,
    recipient_at: Array,
    recipient_length: Array,
    role: Array,
    topic_heap: Array,
    topic_at: Array,
    topic_length: Array,
    published_at: Array,
    matched_at: Array,
    phase: Array,
    tail_heap: Array,
    tail_at: Array,
    tail_length: Array,
    content: Array,
    content_ends: Array,
    carries: Array,
    last_heap: Array,
    last_at: Array,
    last_length: Array,
) -> None:
    """`tail`: the bytes of earlier_ids and value; `last`: of what follows the content. Row i carries
    `content[content_ends[carries[i]]:content_ends[carries[i] + 1]]`; -1: nothing."""
    at = np.int64(0)
    for row in range(len(role)):
        at = put_raw(out, at, header, 0, len(header))
        at = put_text(out, at, id_heap, id_at[row], id_length[row])
        at = put_text(out, at, subscription_heap, subscription_at[row], subscription_length[row])
        at = put_text(out, at, version_heap, version_at[row], version_length[row])
        at = put_text(out, at, publication_heap, publication_at[row], publication_length[row])
        at = put_text(out, at, recipient_heap, recipient_at[row], recipient_length[row])
        out[at] = 2 * role[row]
        at = put_text(out, at + 1, topic_heap, topic_at[row], topic_length[row])
        at = put_long(out, at, published_at[row])
        at = put_long(out, at, matched_at[row])
        out[at] = 2 * phase[row]
        at = put_raw(out, at + 1, tail_heap, tail_at[row], tail_length[row])
        which = carries[row]
        if which < 0:
            out[at] = 0
            at += 1
        else:
            out[at] = 2
            begin = content_ends[which]
            at = put_raw(out, at + 1, content, begin, content_ends[which + 1] - begin)
        at = put_raw(out, at, last_heap, last_at[row], last_length[row])
        ends[row] = at


@kernel
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


@kernel
def put_decimal(out: Array, at: Number, value: Number) -> Result:
    rest = np.uint64(value)
    if value < 0:
        out[at] = 0x2D
        at += 1
        rest = ~rest + np.uint64(1)
    digits = 1
    left = rest // _TEN
    while left:
        digits += 1
        left //= _TEN
    for index in range(digits):
        out[at + digits - 1 - index] = 0x30 + rest % _TEN
        rest //= _TEN
    return at + digits


@kernel
def write_json_notifications(
    out: Array, ends: Array, words: Array, word_ends: Array,
    id_heap: Array, id_at: Array, id_length: Array,
    subscription_heap: Array, subscription_at: Array, subscription_length: Array,
    version_heap: Array, version_at: Array, version_length: Array,
    publication_heap: Array, publication_at: Array, publication_length: Array,
    recipient_heap: Array, recipient_at: Array, recipient_length: Array,
    role: Array, topic_heap: Array, topic_at: Array, topic_length: Array, published_at: Array, matched_at: Array, phase: Array,
    tail_heap: Array, tail_at: Array, tail_length: Array, content: Array, content_ends: Array, carries: Array,
    last_heap: Array, last_at: Array, last_length: Array,
) -> None:  # fmt: skip
    """`words`: what stands before each field, then the roles, then the phases, then what stands before the content, and null. `tail`: from
    behind the phase to there; `last`: from behind the content on."""
    at = np.int64(0)
    for row in range(len(role)):
        at = put_word(out, at, words, word_ends, 0)
        at = put_json_string(out, at, id_heap, id_at[row], id_length[row])
        at = put_word(out, at, words, word_ends, 1)
        at = put_json_string(out, at, subscription_heap, subscription_at[row], subscription_length[row])
        at = put_word(out, at, words, word_ends, 2)
        at = put_json_string(out, at, version_heap, version_at[row], version_length[row])
        at = put_word(out, at, words, word_ends, 3)
        at = put_json_string(out, at, publication_heap, publication_at[row], publication_length[row])
        at = put_word(out, at, words, word_ends, 4)
        at = put_json_string(out, at, recipient_heap, recipient_at[row], recipient_length[row])
        at = put_word(out, at, words, word_ends, 5)
        at = put_word(out, at, words, word_ends, 10 + role[row])
        at = put_word(out, at, words, word_ends, 6)
        at = put_json_string(out, at, topic_heap, topic_at[row], topic_length[row])
        at = put_word(out, at, words, word_ends, 7)
        at = put_decimal(out, at, published_at[row])
        at = put_word(out, at, words, word_ends, 8)
        at = put_decimal(out, at, matched_at[row])
        at = put_word(out, at, words, word_ends, 9)
        at = put_word(out, at, words, word_ends, 12 + phase[row])
        at = put_raw(out, at, tail_heap, tail_at[row], tail_length[row])
        at = put_word(out, at, words, word_ends, 16)
        which = carries[row]
        if which < 0:
            at = put_word(out, at, words, word_ends, 17)
        else:
            begin = content_ends[which]
            at = put_raw(out, at, content, begin, content_ends[which + 1] - begin)
        at = put_raw(out, at, last_heap, last_at[row], last_length[row])
        out[at] = 0x7D
        at += 1
        ends[row] = at


@kernel
def put_word(out: Array, at: Number, words: Array, word_ends: Array, number: Number) -> Result:
    begin = word_ends[number - 1] if number else 0
    return put_raw(out, at, words, begin, word_ends[number] - begin)
