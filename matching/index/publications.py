"""A batch of publications with the Python values behind it: columns for the kernels, values for what only Python can decide."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pastforward.columns import attributes as tags
from pastforward.columns.addressed import pin
from pastforward.columns.attributes import Attributes
from pastforward.matching.conditions.errors import shown
from pastforward.matching.conditions.normal_form import PREVIOUS, Constraint, Family, NormalForm
from pastforward.matching.conditions.types import Instant, classify
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.matching.index.arrow import Layouts, export, fill, string_bytes
from pastforward.matching.index.batch import Batch, FlatBatch
from pastforward.matching.index.filling import Placed, filled
from pastforward.matching.index.offers import expanded
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.tables import batch_of_table, read_place_and_time
from pastforward.matching.index.values import DOUBLES, encoded


class Publications:
    """`batch` has a row per publication, or per disjunct of a published condition: `offers[row]` are then that disjunct's constraints."""

    def __init__(self, batch: Batch | FlatBatch, offers: dict[int, dict[str, Constraint]] | None = None) -> None:
        self._held: object
        if isinstance(batch, FlatBatch):
            self._batch = None
            self._held = self._flat = batch
            self.rows, self.address = batch.rows, batch.address
        else:
            self._batch = batch
            pinned = pin(batch)
            self._held = pinned
            self.rows, self.address = batch.rows, pinned.address
        self.offers = offers or {}
        # rows are no publications where one publishes several disjuncts, or none that its constants leave standing
        self.renumbered = offers is not None
        self.one_row_each = offers is None or len(self.batch.publication) == len(np.unique(self.batch.publication))

    @property
    def batch(self) -> Batch:
        if self._batch is None:
            self._batch = self._flat.arrays()
        return self._batch

    def values(self, row: int) -> dict[str, object]:
        """The constants of a row's publication."""
        raise NotImplementedError

    def said(self, row: int) -> dict[str, object]:
        """Everything the row says of attributes: constants, and constraints where it has no constant."""
        return {**self.offers.get(row, {}), **self.values(row)}


class FromTable(Publications):
    def __init__(self, table: pa.Table, registry: Registry, layouts: Layouts) -> None:
        """`layouts` remembers the schemas seen, across tables."""
        self._table = table
        batch: Batch | FlatBatch | None = self._plain(table, registry, layouts)
        if batch is None:
            batch = batch_of_table(table, registry)
        super().__init__(batch)

    @staticmethod
    def _plain(table: pa.Table, registry: Registry, layouts: Layouts) -> FlatBatch | None:
        """The quick way, for columns of plain layouts."""
        if not table.num_rows or not table.num_columns:
            return None
        known = layouts.of(table.schema, registry.numbers)
        if not known.plain:
            return None
        batches = table.to_batches()
        exported = export(batches[0] if len(batches) == 1 else table.combine_chunks().to_batches()[0])
        rows = table.num_rows
        text = int(string_bytes(exported.array, known.columns.address, rows)) if known.texts else 0
        out = FlatBatch(rows, rows * known.known, text)
        fill(out.address, registry.known_at, exported.array, known.columns.address)
        if known.special:
            read_place_and_time(out.arrays(), table, registry.known.topics)
        return out

    def values(self, row: int) -> dict[str, object]:
        values: dict[str, object] = {}
        for name, column in zip(self._table.column_names, self._table.columns, strict=True):
            if name in ("_topic", "_published_at", "_expires_at"):
                continue
            value = _of_cell(column[row])
            if value is not None:
                values[name] = value
        return values


def _of_cell(cell: pa.Scalar) -> object:
    if pa.types.is_timestamp(cell.type):
        # not by way of a datetime, which has fewer years and no nanoseconds
        return None if not cell.is_valid else Instant(cell.cast(pa.timestamp("us", cell.type.tz), safe=False).value)
    value = cell.as_py()
    return _shape(value) if isinstance(value, dict) else value


def _shape(value: dict[str, Any]) -> object:
    for kind in (Point, Circle, Box):
        if tuple(value) == kind.__slots__:
            return None if None in value.values() else kind(**{name: float(part) for name, part in value.items()})
    return value


class FromAttributes(Publications):
    def __init__(
        self,
        attributes: Attributes,
        registry: Registry,
        where: Sequence[NormalForm | None] | None,
        placed: Placed,
    ) -> None:
        flat = filled(attributes, registry.numbers, registry.known_at, placed, registry.has_axes)
        self._attributes = attributes
        if where is not None and any(form is not None and form != ((),) for form in where):
            super().__init__(*expanded(flat.arrays(), where, registry, self._constants))
        else:
            super().__init__(flat)

    def values(self, row: int) -> dict[str, object]:
        return self._constants(int(self.batch.publication[row]))

    def _constants(self, publication: int) -> dict[str, object]:
        a = self._attributes
        found: dict[str, object] = {}
        for e in range(int(a.start[publication]), int(a.start[publication + 1])):
            found[a.names[int(a.name[e])]] = _value(a, e)
        return found


def _value(a: Attributes, e: int) -> object:
    tag, bits = int(a.tag[e]), int(a.bits[e])
    if tag == tags.BOOLEAN:
        return bool(bits)
    if tag == tags.INTEGER:
        return bits
    if tag == tags.FLOAT:
        return struct.unpack("<d", struct.pack("<q", bits))[0]
    if tag == tags.TIMESTAMP:
        return Instant(bits)
    if tag == tags.STRING or tag == tags.PATH:
        text = a.heap[bits : bits + int(a.length[e])].tobytes().decode()
        return text if tag == tags.STRING else Path(text)
    if tag in DOUBLES:
        count, kind = DOUBLES[tag]
        return kind(*struct.unpack(f"<{count}d", a.heap[bits : bits + 8 * count].tobytes()))
    return _Unknown()


class _Unknown:
    """A value of a type that no predicate speaks of: present, and that is all."""


def attributes_of(rows: Sequence[Mapping[str, object]]) -> Attributes:
    """Columns of publications given as Python values; what compares with nothing gets the tag 0. None is absent."""
    names: dict[str, int] = {}
    start, name, tag, bits, length = [0], [], [], [], []
    heap = bytearray()
    for row in rows:
        for key, value in row.items():
            if value is None:
                continue
            name.append(names.setdefault(key, len(names)))
            kind, number, text = encoded(value)
            tag.append(kind)
            bits.append(len(heap) if text is not None else number)
            length.append(len(text) if text is not None else 0)
            if text is not None:
                heap += text
        start.append(len(name))
    return Attributes(
        list(names),
        np.array(start, np.int64),
        np.array(name, np.int32),
        np.array(tag, np.uint8),
        np.array(bits, np.int64),
        np.array(length, np.int32),
        np.frombuffer(bytes(heap) + b"\0", np.uint8).copy(),
    )


class FromValues(FromAttributes):
    """Publications as Python dictionaries."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, object]],
        registry: Registry,
        where: Sequence[NormalForm | None] | None,
        placed: Placed,
    ) -> None:
        self._rows = rows
        super().__init__(attributes_of(rows), registry, where, placed)

    def _constants(self, publication: int) -> dict[str, object]:
        return {name: value for name, value in self._rows[publication].items() if value is not None}


def moment(value: object) -> int:
    """Microseconds since 1970, UTC, of a datetime or of a number of them."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return value
    classified = classify(value)
    if classified is not None:
        family, constant = classified
        if family is Family.TIMESTAMP or (family is Family.NUMBER and isinstance(value, int | np.integer)):
            return int(constant)  # type: ignore[arg-type]
    raise TypeError(
        f"{shown(value)} is no moment; give a datetime, or microseconds since 1970 as an integer of 64 bits"
    )


def without_previous(said: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """What a publication says, and what it knows of the previous one (under plain names)."""
    named = {name: value for name, value in said.items() if not name.startswith(PREVIOUS)}
    previous = {name.removeprefix(PREVIOUS): value for name, value in said.items() if name.startswith(PREVIOUS)}
    return named, previous
