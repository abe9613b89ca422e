"""Which publications of the history satisfy which subscriptions: one pass, in Spark's Python workers, by `matching.Index`.

The subscriptions travel to the workers once, and each worker builds its index once for all its tasks. What comes back is a row per
pair: the number of the subscription, and the publication's fields that a notification needs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.attributes import Attributes
from pastforward.matching import Index
from pastforward.matching.conditions.oracle import Subscription
from pastforward.matching.index.subscription import NewSubscription
from pastforward.spark_batch.blame import Note, in_halves, joined, not_noted, skipped_row
from pastforward.spark_batch.prune import all_of, columns_asked, reachable
from pastforward.spark_batch.rows import Picked, attributes_of, micros, normal_forms
from pastforward.spark_batch.tables import MAPS, PUBLICATIONS, spark_schema

I64 = npt.NDArray[np.int64]

_CARRIED: Final = (
    "published_at", "expires_at", "arrived_at", "partition", "offset", "publication_id", "publisher_id", "topic", "self_join"
)  # fmt: skip
PAIRS: Final = pa.schema(
    [pa.field("asked", pa.int32(), nullable=False), *(PUBLICATIONS.field(name) for name in _CARRIED)]
)


@dataclass(slots=True)
class Found:
    """Pairs of one batch: `row` of the batch, `asked` the number of the subscription. Sorted by row."""

    batch: pa.RecordBatch
    attributes: Attributes
    row: I64
    asked: I64


Choose = Callable[[Found], tuple[I64, I64]]  # which pairs stay, and as what number


def everything(found: Found) -> tuple[I64, I64]:
    return found.row, found.asked


@dataclass(frozen=True, slots=True)
class Asked:
    """Subscriptions on their way to the workers; `choose` decides there which pairs stay."""

    subscriptions: tuple[Subscription, ...]
    choose: Choose = everything
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def index(self) -> Index:
        """Built once in a process; the last one is kept, because tasks of one job follow each other."""
        if self.name not in _indexes:
            _indexes.clear()
            _indexes[self.name] = make_index(self.subscriptions)
        return _indexes[self.name]


_indexes: dict[str, Index] = {}


def make_index(subscriptions: Sequence[Subscription]) -> Index:
    index = Index()
    index.add_many(
        [
            NewSubscription(number, s.disjuncts, s.topic, s.scope, s.starts_at, s.ends_at, s.time, s.semantics)
            for number, s in enumerate(subscriptions)
        ]
    )
    return index


def match_batch(
    asked: Asked, batch: pa.RecordBatch, picked: Sequence[Picked] | None, note: Note = not_noted
) -> pa.RecordBatch:
    """Pairs of a batch. A row that cannot be matched is noted, and left out."""
    asked.index()  # if that raises, no row is to blame
    parts = in_halves(
        0,
        batch.num_rows,
        lambda begin, end: _match(asked, batch.slice(begin, end - begin), picked),
        lambda row, error: note(skipped_row(batch, row, error)),
    )
    return joined(parts, PAIRS)


def _match(asked: Asked, batch: pa.RecordBatch, picked: Sequence[Picked] | None) -> pa.RecordBatch:
    attributes = attributes_of(batch, picked)
    row, number = asked.index().match_attributes(
        attributes,
        topics=batch.column("topic"),
        published_at=micros(batch.column("published_at")),
        expires_at=micros(batch.column("expires_at")),
        where=normal_forms(batch),
    )
    numbers = number.to_numpy(zero_copy_only=False).astype(np.int64)
    row, numbers = asked.choose(Found(batch, attributes, row, numbers))
    taken = batch.select(_CARRIED).take(pa.array(row))
    columns = [pa.array(numbers.astype(np.int32)), *taken.columns]
    return pa.RecordBatch.from_arrays(columns, schema=PAIRS)


def matcher(
    asked: Any, picked: Sequence[Picked] | None, note: Note
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`. `asked` is a broadcast of `Asked`."""

    def match(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield match_batch(asked.value, batch, picked, note)

    return match


def find_pairs(
    spark: Any,
    history: Any,
    subscriptions: Sequence[Subscription],
    choose: Choose = everything,
    *,
    also: Any = None,
    whole: bool = False,
    note: Note = not_noted,
) -> Any:
    """A DataFrame of `PAIRS`. `also` is a further filter; `whole` hands all attributes to `choose`; `note` is called with skipped rows.

    A publication with a condition of its own needs all its constants: they may contradict it. So those take a way of their own.
    """
    from pyspark.sql import functions as f

    asked = spark.sparkContext.broadcast(Asked(tuple(subscriptions), choose))
    wanted = all_of([reachable(subscriptions), also])
    rows = history if wanted is None else history.where(wanted)
    has_previous = any(name.startswith("previous_") for name in history.columns)
    picked = None if whole or has_previous else columns_asked(subscriptions)
    if picked is None:
        return _pass(rows, asked, None, note)
    plain = f.col("condition").isNull() & f.col("condition_avro").isNull()
    return _pass(rows.where(plain), asked, picked, note).unionByName(_pass(rows.where(~plain), asked, None, note))


def _pass(rows: Any, asked: Any, picked: Sequence[Picked] | None, note: Note) -> Any:
    from pyspark.sql import functions as f

    if picked is None:
        carried = [f.col(name) for name in rows.columns if name in MAPS or name.startswith("previous_")]
    else:
        carried = [
            f.try_element_at(f.col(each.map), f.lit(each.name)).alias(each.column(number))
            for number, each in enumerate(picked)
        ]
    selected = rows.select(*_CARRIED, "condition", "condition_avro", *carried)
    return selected.mapInArrow(matcher(asked, picked, note), spark_schema(PAIRS))
