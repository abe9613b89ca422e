"""Reads a chunk of values: kernels first, then one by one what they leave.

Every row ends up read or in `errors`. The kernels only take what is right, so an error always has the words of the plain path.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import Attributes
from pastforward.columns.texts import Texts
from pastforward.schemas.avro_plain import Plain, compile_reader
from pastforward.schemas.codec import CONFLUENT, SINGLE_OBJECT, Registry
from pastforward.schemas.definitions import Definition, by_fingerprint
from pastforward.schemas.entries import EntryList, Which
from pastforward.schemas.errors import SchemaError, refusal
from pastforward.schemas.kernels import read_avro, read_json
from pastforward.schemas.kernels.columns import (
    BEGINS,
    COUNT,
    ENDS,
    ENTRIES,
    FIRST,
    ITEMS,
    LIST_COUNT,
    LIST_FIRST,
    NAME_AT,
    NAME_LENGTH,
    NAMES,
    NULL_LONG,
    READ,
    SEEN,
    SLOW,
    SPANS,
)
from pastforward.schemas.kernels.finish import put_starts
from pastforward.schemas.kernels.names import rehash
from pastforward.schemas.program import LONGS, SMALLS, TEXTS, avro_program, json_program
from pastforward.schemas.subschema import field_type, named_types

T = TypeVar("T")

# So that nobody can choose names that fall into one slot.
SEED: Final = np.uint64(int.from_bytes(os.urandom(8), "little"))

_JSON_PASS: Final = 127  # the passes of Avro's schemas are numbered from 1
_ENTRIES_AT_FIRST: Final = 12  # a row: grows if records have more
_NAMES_AT_FIRST: Final = 256
_SMALLEST_ENTRY: Final = 4  # bytes of an attribute in Avro: the name's length, one letter, a branch, a boolean


class ChunkReader:
    """One chunk on its way into columns. Not to be used twice."""

    def __init__(
        self,
        name: str,
        values: Sequence[bytes | None],
        limit: int,
        behind: Sequence[bytes],
        spare: int,
        kernels: bool = True,
    ) -> None:
        """`behind` is put into the heap behind the values, then `spare` bytes. Without `kernels` every row goes the plain way."""
        self._kernels = kernels
        self.name = name
        # What is missing or too large is for the plain path to refuse.
        parts = [value if value is not None and len(value) <= limit else b"" for value in values]
        rows = len(parts)
        sizes = np.fromiter(map(len, parts), dtype=np.int64, count=rows)
        self.spans = np.zeros((SPANS, rows), dtype=np.int64)
        np.add.accumulate(sizes, out=self.spans[ENDS])
        np.subtract(self.spans[ENDS], sizes, out=self.spans[BEGINS])
        self.behind_at = int(self.spans[ENDS, -1]) if rows else 0
        self._joined = bytearray().join((*parts, *behind, bytes(spare)))
        self.data: npt.NDArray[np.uint8] = np.frombuffer(self._joined, dtype=np.uint8)
        self.result = np.zeros(rows, dtype=np.uint8)
        self.text_at = np.zeros((TEXTS, rows), dtype=np.int64)
        self.text_length = np.empty((TEXTS, rows), dtype=np.int32)
        self.text_length.fill(-1)
        self.longs = np.empty((LONGS, rows), dtype=np.int64)
        self.longs.fill(NULL_LONG)
        self.smalls = np.zeros((SMALLS, rows), dtype=np.uint8)
        self.items = np.empty(4 * rows + 16, dtype=np.int32)
        self.fill = np.zeros(4, dtype=np.int64)
        self._table = np.empty(2 * _NAMES_AT_FIRST, dtype=np.int32)
        self._table.fill(-1)
        self._names = np.empty((4, _NAMES_AT_FIRST + 1), dtype=np.int64)
        self._names[SEEN].fill(-1)
        self.entries = EntryList(_ENTRIES_AT_FIRST * rows + 64)
        self.definitions: dict[int, Definition] = {}
        self.extra = bytearray()
        self.errors: list[tuple[int, SchemaError]] = []

    def __len__(self) -> int:
        return len(self.result)

    # ------------------------------------------------------------------------------------------------------------ kernels

    def read(self, values: Sequence[bytes | None], registry: Registry | None, json: bool) -> None:
        if not self._kernels:
            return
        for fingerprint, definition in by_fingerprint(self.name).items():
            if not self.left():
                return
            self._read_avro(SINGLE_OBJECT + fingerprint, definition)
        if registry is not None and self.left():
            for header, definition in self._registered(values, registry).items():
                self._read_avro(header, definition)
        if json and self.left():
            self._read_json()

    def left(self) -> int:
        """How many rows are not read."""
        return len(self.result) - int(self.fill[READ])

    def leave(self, row: int) -> None:
        """To the plain path, after all."""
        self.result[row] = SLOW
        self.fill[READ] -= 1

    def _registered(self, values: Sequence[bytes | None], registry: Registry) -> dict[bytes, Definition]:
        headers = {value[:5] for value in values if value and value[:1] == CONFLUENT and len(value) >= 5}
        found = {}
        for header in headers:
            try:
                found[header] = registry.definition(self.name, int.from_bytes(header[1:], "big"))
            except SchemaError:
                continue  # each of its rows goes the plain way, and gets this error there
        return found

    def _read_avro(self, header: bytes, definition: Definition) -> None:
        program = avro_program(definition)
        if program is None or len(self.definitions) + 1 >= _JSON_PASS:
            return
        number = len(self.definitions) + 1
        self.definitions[number] = definition
        marker = _marker(header)
        row = 0
        while True:
            row = read_avro.read_rows(self.data, row, number, marker, tuple(program), *self._into())
            if row == len(self):
                return
            self._grow(row)

    def _read_json(self) -> None:
        program, numbers = json_program(self.name), np.zeros(8)
        row = 0
        while True:
            row = read_json.read_rows(self.data, row, _JSON_PASS, tuple(program), *self._into(), numbers)
            if row == len(self):
                return
            self._grow(row)

    def _into(self) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """What the kernels fill: see `kernels.columns`."""
        entries = self.entries
        return (
            (
                self.spans, self.text_at, self.text_length, self.longs, self.smalls, self.result, self.items, self.fill,
            ),
            (self._table, SEED, self._names),
            (entries.name, entries.tag, entries.bits, entries.length),
        )  # fmt: skip

    def _grow(self, row: int) -> None:
        """Makes room for all that a row may hold, going by its size, and doubles at least what has to grow."""
        entries, names, items, _ = self.fill.tolist()
        size = int(self.spans[ENDS, row] - self.spans[BEGINS, row])
        most = size // _SMALLEST_ENTRY + 1
        if entries + most > len(self.entries):
            self.entries.grow(entries, max(2 * len(self.entries), entries + most))
        if items + size > len(self.items):
            self._grow_items(size)
        if 2 * (names + most) > len(self._table):
            slots = len(self._table)
            while 2 * (names + most) > slots:
                slots *= 2
            more = np.full((4, slots // 2 + 1 - self._names.shape[1]), -1, dtype=np.int64)
            self._names = np.concatenate((self._names, more), axis=1)
            self._table = np.empty(slots, dtype=np.int32)
            rehash(self.data, self._table, SEED, self._names[NAME_AT], self._names[NAME_LENGTH], names)

    def _grow_items(self, more: int) -> None:
        self.items = np.concatenate((self.items, np.empty(len(self.items) + more, dtype=np.int32)))

    # ------------------------------------------------------------------------------------------------------- row by row

    def read_rest(self, decode: Callable[[int], T], put: Callable[[int, T], None]) -> None:
        """Decodes what the kernels left; what cannot be decoded is an error."""
        if not self.left():
            return
        rest = np.flatnonzero(self.result == SLOW)
        self._clear(rest)
        for row in rest.tolist():
            try:
                put(row, decode(row))
                self.result[row] = _JSON_PASS
            except Exception as error:
                self.fail(row, refusal(error))

    def fail(self, row: int, error: SchemaError) -> None:
        self.errors.append((row, error))
        self.result[row] = SLOW
        self._clear(row)

    def _clear(self, rows: int | npt.NDArray[np.int64]) -> None:
        self.text_length[:, rows] = -1
        self.longs[:, rows] = NULL_LONG
        self.smalls[:, rows] = 0
        self.spans[COUNT, rows] = 0
        self.spans[LIST_COUNT, rows] = 0

    def put_text(self, column: int, row: int, value: str | bytes | None) -> None:
        if value is not None:
            raw = value.encode() if isinstance(value, str) else value
            self.text_at[column, row] = len(self.data) + len(self.extra)
            self.text_length[column, row] = len(raw)
            self.extra += raw

    def put_attributes(self, row: int, attributes: dict[str, Any]) -> None:
        at = int(self.fill[ENTRIES])
        self.spans[FIRST, row] = at
        self.spans[COUNT, row] = len(attributes)
        if at + len(attributes) > len(self.entries):
            self.entries.grow(at, 2 * (at + len(attributes)))
        numbers = self._numbers()
        for name, value in attributes.items():
            number = numbers.setdefault(name, len(numbers))
            self.entries.put(at, number, value, len(self.data), self.extra)
            at += 1
        self.fill[ENTRIES] = at

    _name_numbers: dict[str, int] | None = None

    def _numbers(self) -> dict[str, int]:
        if self._name_numbers is None:
            self._name_numbers = {name: number for number, name in enumerate(self._kernel_names())}
        return self._name_numbers

    def _kernel_names(self) -> list[str]:
        at, length = self._names[:SEEN, : self.fill[NAMES]].tolist()
        return [self._joined[begin : begin + size].decode() for begin, size in zip(at, length, strict=True)]

    # ------------------------------------------------------------------------------------------------------------ results

    def ok(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.result != SLOW
        return found

    def seal(self) -> None:
        """Joins what was added row by row to the heap. Texts and attributes may be taken from then on."""
        if self.extra:
            self.data = np.concatenate((self.data, np.frombuffer(bytes(self.extra), dtype=np.uint8)))

    def texts(self, column: int) -> Texts:
        return Texts(self.data, self.text_at[column], self.text_length[column])

    def attributes(self) -> Attributes:
        names = list(self._name_numbers) if self._name_numbers is not None else self._kernel_names()
        start, which = self._in_order(FIRST, COUNT)
        return self.entries.taken(names, start, which, self.data)

    def lists(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        start, which = self._in_order(LIST_FIRST, LIST_COUNT)
        return start, self.items[which]

    def _in_order(self, first: int, count: int) -> tuple[npt.NDArray[np.int64], Which]:
        """What was collected in any order of rows: where each row's part starts in the rows' order, and what to take for that."""
        begin, size = self.spans[first], self.spans[count]
        start = np.empty(len(self) + 1, dtype=np.int64)
        if put_starts(begin, size, start):
            return start, slice(int(start[-1]))
        return start, np.repeat(begin - start[:-1], size) + np.arange(start[-1])

    def put_list(self, row: int, numbers: Sequence[int]) -> None:
        at = int(self.fill[ITEMS])
        self.spans[LIST_FIRST, row] = at
        self.spans[LIST_COUNT, row] = len(numbers)
        if at + len(numbers) > len(self.items):
            self._grow_items(len(numbers))
        self.items[at : at + len(numbers)] = numbers
        self.fill[ITEMS] = at + len(numbers)

    def part(self, column: int, row: int) -> bytes:
        at = self.text_at[column, row]
        return self.data[at : at + self.text_length[column, row]].tobytes()

    def part_reader(self, row: int, *path: str) -> Callable[[bytes, int], Plain]:
        """Reads the bytes of a field under the schema that the row was written with."""
        return part_reader(self.definitions[int(self.result[row])], path)


@lru_cache(maxsize=256)  # as many schemas as a registry may have in use
def _marker(header: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(bytearray(header), dtype=np.uint8)


@cache
def part_reader(definition: Definition, path: tuple[str, ...]) -> Callable[[bytes, int], Plain]:
    """Reads one field of a record: `path` is the field's name, or a named record's and the field's."""
    named = named_types(definition.schema)
    *records, field = path
    schema = named[records[0]] if records else definition.schema
    found = field_type(schema, field, named)
    return compile_reader(found)
