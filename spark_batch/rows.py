"""From batches of the table, as Spark hands them over, to the columns that kernels read.

A batch carries attributes in one of two ways. As whole maps, or picked: one column for each attribute and type that is asked about,
named by `Picked.column`. Converting maps to Arrow is what such a pass spends its time on, so it picks where it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns import attributes as tags
from pastforward.columns.arrow import texts_of
from pastforward.columns.attributes import Attributes
from pastforward.columns.kernel import kernel
from pastforward.columns.texts import Texts
from pastforward.columns.times import NEVER
from pastforward.matching.conditions.normal_form import PREVIOUS, NormalForm
from pastforward.schemas.acceptance import check_name
from pastforward.schemas.columns import Contents
from pastforward.schemas.contents import condition_text
from pastforward.spark_batch import conditions
from pastforward.spark_batch.tables import MAPS

I64 = npt.NDArray[np.int64]

TAGS: Final = {
    "booleans": tags.BOOLEAN,
    "integers": tags.INTEGER,
    "floats": tags.FLOAT,
    "timestamps": tags.TIMESTAMP,
    "strings": tags.STRING,
    "points": tags.POINT,
    "circles": tags.CIRCLE,
    "boxes": tags.BOX,
    "paths": tags.PATH,
}
PREVIOUS_MAP: Final = "previous_"  # before the name of a map: that of the previous publication


@dataclass(frozen=True, slots=True)
class Picked:
    """An attribute, and the map it is taken from."""

    name: str
    map: str

    def column(self, number: int) -> str:
        return f"picked_{number}"


@dataclass(slots=True)
class _Entries:
    """What one column adds: an entry for each of `row`, all of one type."""

    row: I64
    name: npt.NDArray[np.int32]
    tag: int
    bits: I64
    length: npt.NDArray[np.int32]


def micros(column: pa.Array, missing: int = NEVER) -> I64:
    found: I64 = column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def normal_forms(batch: pa.RecordBatch) -> list[NormalForm | None] | None:
    """The published conditions; None if there is none in the batch."""
    text, avro = batch.column("condition"), batch.column("condition_avro")
    if text.null_count == len(text) and avro.null_count == len(avro):
        return None
    return [conditions.read(t, a) for t, a in zip(text.to_pylist(), avro.to_pylist(), strict=True)]


class AttributeBuilder:
    """Collects the entries of one batch, column by column."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._names: dict[str, int] = {}
        self._parts: list[_Entries] = []
        self._heap: list[npt.NDArray[np.uint8]] = []
        self._heap_size = 0

    def picked(self, name: str, map_name: str, column: pa.Array) -> None:
        valid = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
        if len(valid):
            present = column if len(valid) == len(column) else column.drop_null()
            number = self._names.setdefault(name, len(self._names))
            self._add(valid, np.full(len(valid), number, np.int32), map_name, present)

    def map(self, map_name: str, column: pa.Array, prefix: str = "", *, checked: bool = True) -> None:
        """Raises `SchemaError` on names that the router refuses, unless they are not `checked`."""
        if column.null_count:
            rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
            column = column.drop_null()
        else:
            rows = np.arange(len(column), dtype=np.int64)
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        begin, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        if begin == end:
            return
        keys = column.keys.slice(begin, end - begin).dictionary_encode()
        if checked and not prefix:
            for name in keys.dictionary.to_pylist():
                check_name(name)  # a table of an earlier version may have names that are reserved
        known = [self._names.setdefault(prefix + name, len(self._names)) for name in keys.dictionary.to_pylist()]
        names = np.array(known, np.int32)[keys.indices.to_numpy(zero_copy_only=False)]
        self._add(np.repeat(rows, np.diff(offsets)), names, map_name, column.items.slice(begin, end - begin))

    def _add(self, row: I64, name: npt.NDArray[np.int32], map_name: str, values: pa.Array) -> None:
        tag = TAGS[map_name]
        length = np.zeros(len(values), np.int32)
        if tag in (tags.STRING, tags.PATH):
            bits, length = self._texts(values)
        elif tag in (tags.POINT, tags.CIRCLE, tags.BOX):
            bits, length = self._shapes(values)
        elif tag == tags.FLOAT:
            bits = values.to_numpy(zero_copy_only=False).astype(np.float64).view(np.int64)
        elif tag == tags.BOOLEAN:
            bits = values.to_numpy(zero_copy_only=False).astype(np.int64)
        else:
            bits = micros(values)
        self._parts.append(_Entries(row, name, tag, bits, length))

    def _texts(self, values: pa.Array) -> tuple[I64, npt.NDArray[np.int32]]:
        values = values.cast(pa.string())
        _, ends, data = values.buffers()
        bounds = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        base = self._keep(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8))
        return bounds[:-1] + base, np.diff(bounds).astype(np.int32)

    def _shapes(self, values: pa.Array) -> tuple[I64, npt.NDArray[np.int32]]:
        doubles = np.stack([field.to_numpy(zero_copy_only=False) for field in values.flatten()], axis=1)
        base = self._keep(np.ascontiguousarray(doubles, "<f8").view(np.uint8).reshape(-1))
        width = 8 * doubles.shape[1]
        return base + width * np.arange(len(values), dtype=np.int64), np.full(len(values), width, np.int32)

    def _keep(self, data: npt.NDArray[np.uint8]) -> int:
        base = self._heap_size
        self._heap.append(data)
        self._heap_size += len(data)
        return base

    def build(self) -> Attributes:
        parts = self._parts
        row = np.concatenate([part.row for part in parts]) if parts else np.empty(0, np.int64)
        start = np.zeros(self._rows + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=self._rows), out=start[1:])
        order = np.empty(len(row), np.int64)
        by_row(row, start[:-1].copy(), order)
        heap = np.concatenate([*self._heap, np.zeros(1, np.uint8)])

        def joined(columns: list[Any], kind: Any) -> Any:
            return np.concatenate(columns)[order] if columns else np.empty(0, kind)

        return Attributes(
            list(self._names),
            start,
            joined([part.name for part in parts], np.int32),
            joined([np.full(len(part.row), part.tag, np.uint8) for part in parts], np.uint8),
            joined([part.bits for part in parts], np.int64),
            joined([part.length for part in parts], np.int32),
            heap,
        )


def contents_of(batch: pa.RecordBatch) -> Contents:
    """What the publications of a batch carry. The rows have been matched: names are not looked at again."""
    builder = AttributeBuilder(batch.num_rows)
    for name in MAPS:
        builder.map(name, batch.column(name), checked=False)
    forms = normal_forms(batch) or [None] * batch.num_rows
    return Contents(
        builder.build(),
        Texts.of([None if form is None else condition_text(form).encode() for form in forms]),
        texts_of(batch.column("body")),
        texts_of(batch.column("publisher_id")),
        micros(batch.column("expires_at")),
    )


@kernel
def by_row(row: I64, next_at: I64, order: I64) -> None:
    """Where each entry goes, so that those of a row lie together."""
    for entry in range(len(row)):
        order[next_at[row[entry]]] = entry
        next_at[row[entry]] += 1


def attributes_of(batch: pa.RecordBatch, picked: Sequence[Picked] | None) -> Attributes:
    """The attributes of a batch: `picked` ones, or all of them, and those of the previous publication if it has them."""
    builder = AttributeBuilder(batch.num_rows)
    if picked is not None:
        for number, each in enumerate(picked):
            builder.picked(each.name, each.map, batch.column(each.column(number)))
        return builder.build()
    for name in MAPS:
        builder.map(name, batch.column(name))
        if PREVIOUS_MAP + name in batch.schema.names:
            builder.map(name, batch.column(PREVIOUS_MAP + name), PREVIOUS)
    return builder.build()
