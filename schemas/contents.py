"""What publications carry into notifications: columns of it, and its bytes, made once for each publication."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts, as_kernel
from pastforward.columns.times import NEVER
from pastforward.matching import Condition
from pastforward.matching.conditions.normal_form import NormalForm
from pastforward.schemas.codec import Format
from pastforward.schemas.columns import Contents, Longs, NotificationColumns
from pastforward.schemas.definitions import current
from pastforward.schemas.entries import EntryList, attributes_of
from pastforward.schemas.forms import Forms
from pastforward.schemas.kernels import write
from pastforward.schemas.kernels import write_contents as kernels
from pastforward.schemas.program import avro_program
from pastforward.schemas.records import Content

Bytes = npt.NDArray[np.uint8]

_LONGEST: Final = 10  # bytes of an integer
_AROUND: Final = 8 * _LONGEST  # of all lengths, branches and times of a content
_ENTRY: Final = 2 * _LONGEST + 1  # name's length, branch, and a number or length
_JSON_AROUND: Final = 160  # the names of the fields, their quotes, and a time
_JSON_ENTRY: Final = 192  # an attribute beside its texts: at most the four numbers of a box, and their names
_ESCAPED: Final = 6  # bytes of a character in JSON, to one of UTF-8, at most
_SHORT: Final = 2048  # bytes of a condition whose text is kept
_NO_ROWS: Final = np.empty(0, dtype=np.int64)
_NO_BYTES: Final = np.empty(0, dtype=np.uint8)


def contents_of(contents: Sequence[Content]) -> Contents:
    entries = EntryList(sum(len(each.attributes) for each in contents))
    numbers: dict[str, int] = {}
    extra = bytearray()
    at = 0
    for each in contents:
        for name, value in each.attributes.items():
            entries.put(at, numbers.setdefault(name, len(numbers)), value, 0, extra)
            at += 1
    start = np.array([0, *accumulate(len(each.attributes) for each in contents)], dtype=np.int64)
    expires = [NEVER if each.expires_at is None else each.expires_at for each in contents]
    return Contents(
        entries.taken(list(numbers), start, slice(None), np.frombuffer(extra, dtype=np.uint8)),
        Texts.of([None if each.where is None else each.where.encode() for each in contents]),
        Texts.of([each.body for each in contents]),
        Texts.of([None if each.publisher_id is None else each.publisher_id.encode() for each in contents]),
        np.array(expires, dtype=np.int64),
    )


def content_at(contents: Contents, row: int) -> Content:
    where, publisher = contents.where[row], contents.publisher_id[row]
    expires_at = int(contents.expires_at[row])
    return Content(
        attributes_of(contents.attributes, row),
        None if where is None else where.decode(),
        contents.body[row],
        None if publisher is None else publisher.decode(),
        None if expires_at == NEVER else expires_at,
    )


def condition_text(form: NormalForm) -> str:
    return str(Condition(form))


def condition_texts(forms: Forms, rows: Longs) -> Texts:
    """Of the published conditions of some rows; all other rows have none."""
    length = np.full(len(forms), -1, dtype=np.int32)
    at = np.zeros(len(forms), dtype=np.int64)
    heap = bytearray()
    for row in np.unique(rows[forms.present()[rows]]).tolist():
        form = forms[row]
        if form is not None:
            short = 0 <= forms.length[row] <= _SHORT
            raw = (_short_text(form) if short else condition_text(form)).encode()
            at[row], length[row] = len(heap), len(raw)
            heap += raw
    return Texts(np.frombuffer(heap, dtype=np.uint8), at, length)


# Publishers repeat their conditions. Some megabytes at most.
_short_text = lru_cache(maxsize=1024)(condition_text)


def carried(columns: NotificationColumns, format: Format) -> tuple[Bytes, Longs, Longs]:
    """The bytes of the contents that any row carries, where each ends, after a zero; and for each row which of them, or -1."""
    contents, carries = columns.contents, columns.carries
    if contents is None or carries is None:
        return _NO_BYTES, np.zeros(1, dtype=np.int64), np.full(len(columns), -1, dtype=np.int64)
    carries = as_kernel(carries, np.int64)
    slot, used = np.full(len(contents), -1, dtype=np.int64), np.empty(len(contents), dtype=np.int64)
    rows = used[: kernels.number_used(carries, slot, used)]
    data, ends = encode_contents(contents, rows, format)
    return data, ends, np.where(carries < 0, -1, slot[carries]) if len(slot) else carries


def encode_contents(contents: Contents, rows: Longs, format: Format) -> tuple[Bytes, Longs]:
    """Of some rows, one behind the other, and where each ends, after a zero."""
    attributes = attribute_arrays(contents.attributes)
    rows = as_kernel(rows, np.int64)
    texts = tuple(each.for_kernel() for each in (contents.where, contents.body, contents.publisher_id))
    expires_at = as_kernel(contents.expires_at, np.int64)
    text_bytes = sum(write.text_bytes_of(length, rows) for _, _, length in texts)
    ends = np.zeros(len(rows) + 1, dtype=np.int64)
    if format == "json":
        size = _ESCAPED * text_bytes + len(rows) * _JSON_AROUND
        size += _ESCAPED * write.attribute_bytes_of(rows, attributes, _JSON_ENTRY // _ESCAPED)
        out = np.empty(size, dtype=np.uint8)
        numbers = _numbers(rows, attributes)
        kernels.write_json_contents(out, ends, rows, _words(), numbers, attributes, texts, expires_at)
    else:
        size = text_bytes + len(rows) * _AROUND + write.attribute_bytes_of(rows, attributes, _ENTRY)
        out = np.empty(size, dtype=np.uint8)
        kernels.write_contents(out, ends, rows, attributes, texts, expires_at)
    return out, ends


def attribute_arrays(attributes: Attributes) -> tuple[Any, ...]:
    """What kernels take of attributes to write them: the entries, the names' bytes and where each begins, the branch of each tag."""
    names = [name.encode() for name in attributes.names]
    return (
        as_kernel(attributes.heap, np.uint8),
        as_kernel(attributes.start, np.int64),
        as_kernel(attributes.name, np.int32),
        as_kernel(attributes.tag, np.uint8),
        as_kernel(attributes.bits, np.int64),
        as_kernel(attributes.length, np.int32),
        joined_bytes(names),
        np.array([0, *accumulate(map(len, names))], dtype=np.int64),
        branch_of_tag(),
    )


def _numbers(rows: Longs, attributes: tuple[Any, ...]) -> Bytes:
    """All doubles as one JSON array: orjson writes the shortest text of each, and is asked once."""
    count = kernels.gather_doubles(rows, attributes, _NO_ROWS)
    if not count:
        return _NO_BYTES
    found = np.empty(count, dtype=np.int64)
    kernels.gather_doubles(rows, attributes, found)
    raw = orjson.dumps(found.view(np.float64), option=orjson.OPT_SERIALIZE_NUMPY)
    return as_kernel(np.frombuffer(raw, dtype=np.uint8), np.uint8)


@cache
def _words() -> tuple[Bytes, Longs]:
    return joined_words(kernels.WORDS)


@cache
def branch_of_tag() -> Bytes:
    """Branches of a value, the same in all our schemas."""
    program = avro_program(current("rendezvous"))
    assert program is not None, "the kernels read our own schemas"
    branches = np.zeros(int(program.value_tags.max()) + 1, dtype=np.uint8)
    branches[program.value_tags] = np.arange(len(program.value_tags))
    return branches


def joined_words(words: Sequence[str]) -> tuple[Bytes, Longs]:
    """Words for kernels: their bytes, and where each ends."""
    raw = [word.encode() for word in words]
    return joined_bytes(raw), np.cumsum([len(word) for word in raw], dtype=np.int64)


def joined_bytes(parts: Sequence[bytes]) -> Bytes:
    """Writable, as the arrays are that kernels were compiled for."""
    return np.frombuffer(bytearray().join(parts), dtype=np.uint8)


@lru_cache(maxsize=64)
def header_bytes(raw: bytes) -> Bytes:
    """For kernels: headers, and whatever else is the same again and again."""
    return joined_bytes((raw,))
