"""What one pass over the history remembers of each attribute, in bounded memory, and how two such memories are joined.

Distinct values are estimated by HyperLogLog, quantiles from a uniform sample, frequent values by counters that forget the rarest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.spark_batch.tables import MAPS

U64 = npt.NDArray[np.uint64]

REGISTERS: Final = 1 << 12  # of HyperLogLog: a standard error of 1.6 %
SAMPLE: Final = 1_024  # values kept for quantiles: a histogram of 32 bars is then right within a few percent
HITTERS: Final = 512  # values that are counted; what is reported is a tenth of that
PAIRED: Final = 64  # attributes whose co-occurrence is counted: the first that come
MOST_NAMES: Final = 4_096  # attributes that are counted each by itself; names beyond that are only counted

_ORDERED: Final = ("integers", "floats", "timestamps")


@dataclass
class Values:
    """One attribute as one type."""

    count: int = 0
    low: float | None = None
    high: float | None = None
    registers: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(REGISTERS, np.uint8))
    sample: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    priority: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    hitters: Counter[Any] = field(default_factory=Counter)

    def add(self, values: pa.Array, ordered: bool, random: np.random.Generator) -> None:
        """`values` has no null."""
        counts = values.value_counts()
        distinct, times = counts.field("values"), counts.field("counts").to_numpy()
        self.count += len(values)
        self._estimate(_hashes(distinct))
        if ordered:
            numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            numbers = numbers[np.isfinite(numbers)]
            if len(numbers):
                self.low = _least(self.low, float(numbers.min()), min)
                self.high = _least(self.high, float(numbers.max()), max)
                self._keep(numbers, random.random(len(numbers)))
        frequent = np.argsort(-times)[:HITTERS]
        named = distinct.take(pa.array(frequent)).to_pylist()
        self.hitters.update({_key(value): int(times[i]) for value, i in zip(named, frequent.tolist(), strict=True)})
        self._forget()

    def join(self, other: Values) -> None:
        self.count += other.count
        self.low = _least(self.low, other.low, min)
        self.high = _least(self.high, other.high, max)
        np.maximum(self.registers, other.registers, out=self.registers)
        self._keep(other.sample, other.priority)
        self.hitters.update(other.hitters)
        self._forget()

    def _keep(self, numbers: npt.NDArray[np.float64], priority: npt.NDArray[np.float64]) -> None:
        """The values with the least priorities of all: a uniform sample, however it was divided."""
        numbers, priority = np.concatenate([self.sample, numbers]), np.concatenate([self.priority, priority])
        if len(numbers) > SAMPLE:
            chosen = np.argpartition(priority, SAMPLE)[:SAMPLE]
            numbers, priority = numbers[chosen], priority[chosen]
        self.sample, self.priority = numbers, priority

    def _estimate(self, hashes: U64) -> None:
        slots = (hashes & np.uint64(REGISTERS - 1)).astype(np.int64)
        rest = hashes >> np.uint64(12)
        # the rank is the place of the lowest bit that is set, of 52
        lowest = rest & (~rest + np.uint64(1))
        rank = np.where(rest == 0, 53, np.log2(np.maximum(lowest, np.uint64(1)).astype(np.float64)) + 1)
        np.maximum.at(self.registers, slots, rank.astype(np.uint8))

    def _forget(self) -> None:
        if len(self.hitters) > 4 * HITTERS:
            self.hitters = Counter(dict(self.hitters.most_common(HITTERS)))

    @property
    def distinct(self) -> int:
        zeros = int((self.registers == 0).sum())
        alpha = 0.7213 / (1 + 1.079 / REGISTERS)
        estimate = alpha * REGISTERS**2 / float(np.sum(2.0 ** -self.registers.astype(np.float64)))
        if estimate < 2.5 * REGISTERS and zeros:
            estimate = REGISTERS * float(np.log(REGISTERS / zeros))
        return round(estimate)


def _least(a: float | None, b: float | None, choose: Any) -> float | None:
    if a is None or b is None:
        return a if b is None else b
    return float(choose(a, b))


def _hashes(values: pa.Array) -> U64:
    from pandas.util import hash_array  # type: ignore[import-untyped]

    if pa.types.is_struct(values.type):
        parts = [_hashes(part) for part in values.flatten()]
        mixed = parts[0]
        for part in parts[1:]:
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + part
        return mixed
    if pa.types.is_string(values.type):
        return np.asarray(hash_array(np.array(values.to_pylist(), dtype=object)), np.uint64)
    numbers = values.cast(pa.int64()) if not pa.types.is_floating(values.type) else values
    return np.asarray(hash_array(numbers.to_numpy(zero_copy_only=False)), np.uint64)


def _key(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value


@dataclass
class Sketch:
    """All attributes of some rows."""

    rows: int = 0
    with_condition: int = 0
    beyond: int = 0  # attributes that came after the first MOST_NAMES names
    values: dict[tuple[str, str], Values] = field(default_factory=dict)
    paired: list[str] = field(default_factory=list)
    together: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((PAIRED, PAIRED), np.int64))

    def add(self, batch: pa.RecordBatch, random: np.random.Generator) -> None:
        self.rows += batch.num_rows
        condition = batch.column("condition")
        self.with_condition += len(condition) - condition.null_count
        present = np.zeros((batch.num_rows, PAIRED), np.float32)
        for name in MAPS:
            column = batch.column(name)
            offsets = column.offsets.to_numpy(zero_copy_only=False)
            begin, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
            if begin == end:
                continue
            row = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
            keys = column.keys.slice(begin, end - begin).dictionary_encode()
            items = column.items.slice(begin, end - begin)
            number = keys.indices.to_numpy(zero_copy_only=False)
            # one sort for all names: a look for each would cost their number times that of the entries
            order = np.argsort(number, kind="stable")
            ends = np.searchsorted(number[order], np.arange(len(keys.dictionary) + 1))
            for each, key in enumerate(keys.dictionary.to_pylist()):
                chosen = order[ends[each] : ends[each + 1]]
                self._add(key, name, items.take(pa.array(chosen)), random)
                at = self._place(key)
                if at >= 0:
                    present[row[chosen], at] = 1
        self.together += (present.T @ present).astype(np.int64)

    def _add(self, name: str, kind: str, values: pa.Array, random: np.random.Generator) -> None:
        known = self.values.get((name, kind))
        if known is None:
            if len(self.values) >= MOST_NAMES:
                self.beyond += len(values)
                return
            known = self.values[name, kind] = Values()
        known.add(values, kind in _ORDERED, random)

    def _place(self, name: str) -> int:
        if name in self.paired:
            return self.paired.index(name)
        if len(self.paired) == PAIRED:
            return -1
        self.paired.append(name)
        return len(self.paired) - 1

    def join(self, other: Sketch) -> None:
        self.rows += other.rows
        self.with_condition += other.with_condition
        self.beyond += other.beyond
        for place, values in other.values.items():
            if place in self.values:
                self.values[place].join(values)
            elif len(self.values) < MOST_NAMES:
                self.values[place] = values
            else:
                self.beyond += values.count
        places = np.array([self._place(name) for name in other.paired], np.int64)
        kept = np.flatnonzero(places >= 0)
        self.together[np.ix_(places[kept], places[kept])] += other.together[np.ix_(kept, kept)]

    def pairs(self) -> list[tuple[str, str, int]]:
        """Attributes that occur together, the most frequent first."""
        found = [
            (self.paired[i], self.paired[j], int(self.together[i, j]))
            for i in range(len(self.paired))
            for j in range(i)
            if self.together[i, j]
        ]
        return sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))
