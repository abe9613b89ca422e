"""Whatever one row causes is the refusal of that row, never the end of a job.

Work that raises is tried in halves until the rows that cause it are alone. Those are skipped, counted, and a few of them are named. Faults
of the machine (`schemas.is_fault`) end the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

import pyarrow as pa

from pastforward.schemas import SchemaError, halves, refusal

log = logging.getLogger("pastforward.history")

R = TypeVar("R")
Skip = Callable[[int, SchemaError], R | None]  # what stands for a row that is skipped, if anything

EXAMPLES: Final = 10  # rows that are named in warnings
MOST: Final = 10_000  # rows that are counted: each is remembered, with its reason
SHOWN: Final = 300  # characters of a reason


def in_halves(begin: int, end: int, work: Callable[[int, int], R], skip: Skip[R]) -> list[R]:
    """What `work` returns for the rows from `begin` to `end`, in as many parts as it takes."""

    def do(rows: Sequence[int]) -> R | None:
        assert isinstance(rows, range)
        return work(rows.start, rows.stop)

    parts = halves.in_halves(do, lambda row, error: skip(row, refusal(error)), range(begin, end))
    return [part for part in parts if part is not None]


def joined(parts: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    found = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Rows that were skipped: partition and offset, and why. By place, because Spark may run a pass more than once."""

    reasons: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Skipped) -> Skipped:
        joined = {**self.reasons, **other.reasons}
        return Skipped(joined if len(joined) <= MOST else dict(islice(joined.items(), MOST)))


def skipped_row(batch: Any, row: int, error: SchemaError) -> Skipped:
    """`batch`: with the columns `partition` and `offset`."""
    place = "-".join(str(batch.column(name)[row].as_py()) for name in ("partition", "offset"))
    return Skipped({place: error.reason[:SHOWN]})


Note = Callable[[Skipped], None]


def not_noted(_: Skipped) -> None:
    """For whoever does not ask."""


class Tally:
    """What tasks of Spark skip."""

    def __init__(self, spark: Any) -> None:
        from pyspark.accumulators import AccumulatorParam

        class Joined(AccumulatorParam):
            def zero(self, value: Any) -> Any:
                return Skipped()

            def addInPlace(self, value1: Any, value2: Any) -> Any:
                return value1 + value2

        self._sum = spark.sparkContext.accumulator(Skipped(), Joined())

    @property
    def note(self) -> Note:
        """Travels to the tasks."""
        added: Note = self._sum.add
        return added

    def report(self, facts: dict[str, Any], line: str) -> str:
        """Puts the count into the facts of a job, and into the line that it prints; warns of a few rows by name."""
        reasons: Mapping[str, str] = self._sum.value.reasons
        facts["skipped"] = len(reasons)
        for place, reason in islice(reasons.items(), EXAMPLES):
            log.warning("the publication at %s was skipped: %s", place, reason)
        if not reasons:
            return line
        count = f"{len(reasons):,}" + (" or more" if len(reasons) == MOST else "")
        return f"{line}; {count} publications could not be processed and were skipped"
