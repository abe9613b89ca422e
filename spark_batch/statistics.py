"""Learns what publications and subscriptions look like, in one pass, and proposes the catalog that routing and `Index(algorithm="static")`
read."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from pastforward.errors import UserError
from pastforward.settings import Settings
from pastforward.spark_batch.blame import Note, Tally, in_halves, not_noted, skipped_row
from pastforward.spark_batch.kafka import MakeRegistry, bootstrap_of
from pastforward.spark_batch.page import write_page
from pastforward.spark_batch.refused import read_taken
from pastforward.spark_batch.shown import Summary, watched
from pastforward.spark_batch.sketch import Sketch, Values
from pastforward.spark_batch.tables import MAPS, Places, spark_schema
from pastforward.spark_batch.usage import Usage, read_usage
from pastforward.streams.routing import Attribute, Catalog, Seen
from pastforward.streams.routing.catalog import DEFAULT_INTERVALS, Type

_SKETCHES: Final = pa.schema([pa.field("sketch", pa.binary())])
_JOINERS: Final = 4  # tasks that join the sketches of all others, so that only these come to the driver
FEW_VALUES: Final = 100  # a number with fewer is compared by equality, if no subscription says otherwise

_TYPES: Final = {
    "booleans": "boolean",
    "integers": "integer",
    "floats": "float",
    "timestamps": "timestamp",
    "strings": "string",
    "paths": "path",
}
_MEASURED: Final = ("integers", "floats", "timestamps")


def _sketcher(note: Note) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def sketch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = Sketch()
        for batch in batches:
            add_rows(found, batch, note)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found)], pa.binary())], schema=_SKETCHES)

    return sketch


def add_rows(found: Sketch, batch: pa.RecordBatch, note: Note) -> None:
    """A row that cannot be added is noted, and left out."""
    random = np.random.default_rng()

    def sketch(begin: int, end: int) -> Sketch:
        part = Sketch()
        part.add(batch.slice(begin, end - begin), random)
        return part

    for part in in_halves(0, batch.num_rows, sketch, lambda row, error: note(skipped_row(batch, row, error))):
        found.join(part)


def _join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = Sketch()
    for batch in batches:
        for each in batch.column("sketch").to_pylist():
            found.join(pickle.loads(each))
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found)], pa.binary())], schema=_SKETCHES)


def sketch_history(history: Any, note: Note = not_noted) -> Sketch:
    schema = spark_schema(_SKETCHES)
    rows = history.select("partition", "offset", "condition", *MAPS)
    parts = rows.mapInArrow(_sketcher(note), schema).repartition(_JOINERS).mapInArrow(_join, schema)
    whole = Sketch()
    for row in parts.toLocalIterator():
        whole.join(pickle.loads(row["sketch"]))
    return whole


def propose_catalog(sketch: Sketch, usage: Usage) -> Catalog:
    """Attributes that can be routed by: one type, and either compared by equality or measured. The most used first."""
    found: list[tuple[tuple[int, int], Attribute]] = []
    kinds: dict[str, list[str]] = {}
    for name, kind in sketch.values:
        kinds.setdefault(name, []).append(kind)
    for name, of_name in kinds.items():
        if len(of_name) == 1 and of_name[0] in _TYPES:
            values = sketch.values[name, of_name[0]]
            attribute = _attribute(name, of_name[0], values, usage)
            if attribute is not None:
                use = usage.attributes.get(name)
                found.append(((-(use.total if use else 0), -values.count), attribute))
    ordered = sorted(found, key=lambda each: (each[0], each[1].name))
    return Catalog(tuple(attribute for _, attribute in ordered), statistics=tuple(_seen(sketch)))


def _seen(sketch: Sketch) -> Iterator[Seen]:
    """Of every attribute, whatever its types: an attribute has one in each publication."""
    for name in sorted({name for name, _ in sketch.values}):
        of_name = [values for (each, _), values in sketch.values.items() if each == name]
        present = sum(values.count for values in of_name) / sketch.rows
        yield Seen(name, round(present, 6) or 1e-6, max(1, sum(values.distinct for values in of_name)))


def _attribute(name: str, kind: str, values: Values, usage: Usage) -> Attribute | None:
    use = usage.attributes.get(name)
    type_ = cast(Type, _TYPES[kind])
    if use is not None and use.total:
        by_equality = use.equality == use.total
    else:
        by_equality = kind not in _MEASURED or values.distinct <= FEW_VALUES
    if by_equality:
        return Attribute(name, type_, "equality")
    if kind not in _MEASURED or values.low is None or values.high is None or values.low >= values.high:
        return None
    low, high = (values.low, values.high) if kind == "floats" else (int(values.low), int(values.high))
    # no precision: the reader chooses one that the domain's width allows
    return Attribute(name, type_, "range", (low, high), DEFAULT_INTERVALS)


def statistics(
    spark: Any,
    settings: Settings,
    *,
    catalog: Path,
    page: Path | None,
    without_kafka: bool = False,
    quiet: bool = False,
) -> Summary:
    started = time.monotonic()
    tally = Tally(spark)
    usage = Usage()
    if not without_kafka:
        usage = read_usage(settings, bootstrap_of(settings), MakeRegistry.of(settings)())
    with watched(spark, "reading the history", quiet):
        sketch = sketch_history(read_taken(spark, Places(settings.history)), tally.note)
    proposed = propose_catalog(sketch, usage)
    try:
        catalog.write_text(proposed.to_toml(), "utf-8")
        if page is not None:
            write_page(page, sketch, usage, proposed)
    except OSError as error:
        raise UserError(f"cannot write {error.filename}: {error.strerror}") from error
    seconds = time.monotonic() - started
    facts = {
        "publications": sketch.rows,
        "subscriptions": usage.subscriptions,
        "attributes": len({name for name, _ in sketch.values}),
        "routable": len(proposed.attributes),
        "catalog": str(catalog),
        "page": None if page is None else str(page),
        "seconds": round(seconds, 1),
    }
    line = (
        f"{sketch.rows:,} publications, {usage.subscriptions:,} subscriptions, {facts['attributes']} attributes; "
        f"{len(proposed.attributes)} of them in {catalog}"
    )
    line += (f", plots in {page}" if page else "") + f"; {seconds:.1f} s"
    return Summary(tally.report(facts, line), facts)
