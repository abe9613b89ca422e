"""What a further hash table would save, for every schema that a sample of slots could use.

A schema is a set of attributes; a slot can use it if it asks an equality of each of them. The gain of a slot is how much less often it
would be looked at: the selectivity of its access predicate now, less that of its access predicate in the new table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pastforward.columns.hashing import mix
from pastforward.columns.kernel import kernel
from pastforward.columns.scalars import Bool, Int
from pastforward.papers.fabret.clusters import (
    MAX_SCHEMA,
    OWNER,
    ClusterView,
    access_selectivity,
    count_equalities,
    predicates_at,
)
from pastforward.papers.fabret.predicate_index import PredicateView, selectivity

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

# Equalities of a slot that are combined, the most selective ones: 154 schemas of two to four attributes.
_COMBINED: Final = 8
# Schemas that are weighed at most; those met first. Any that many slots share is among them.
_MAX_CELLS: Final = 1 << 17


class Sample(NamedTuple):
    """Slot `i` has `count[i]` equalities; `current[i]` is how often it is looked at, `width[i]` the attributes of its table."""

    attribute: I32  # slot, equality
    chance: F64
    equalities: I32
    current: F64
    width: I32


class Gains(NamedTuple):
    """Per schema: attributes in order, -1 beyond them; sums over the sample's slots that would move."""

    schema: I32
    saved: F64
    benefit: F64  # of what is behind an access predicate: how often it is not looked at
    movers: I64
    narrower: I64  # attributes of the tables that they would leave


@kernel
def _read(view: ClusterView, predicates: PredicateView, slots: I32, singly: Bool, numbers: I32, sample: Sample) -> Int:
    n = 0
    for i in range(len(slots)):
        cluster = np.int64(view.slot_cluster[slots[i]])
        count, width = predicates_at(view, cluster, np.int64(view.slot_place[slots[i]]), numbers)
        equalities = count_equalities(predicates, numbers, count)
        if equalities < 2:
            continue
        kept = 0
        for k in range(equalities):
            chance = selectivity(predicates, np.int64(numbers[k]))
            at = kept
            if kept == _COMBINED:
                if chance >= sample.chance[n, kept - 1]:
                    continue
                at -= 1
            else:
                kept += 1
            while at > 0 and sample.chance[n, at - 1] > chance:
                sample.chance[n, at] = sample.chance[n, at - 1]
                sample.attribute[n, at] = sample.attribute[n, at - 1]
                at -= 1
            sample.chance[n, at] = chance
            sample.attribute[n, at] = predicates.attribute[numbers[k]]
        sample.equalities[n] = kept
        if singly:
            sample.current[n] = sample.chance[n, 0]
            sample.width[n] = 1
        else:
            sample.current[n] = access_selectivity(view, predicates, np.int64(view.clusters[cluster, OWNER]))
            sample.width[n] = width
        n += 1
    return n


@kernel
def _weigh(sample: Sample, cells: I32, gains: Gains) -> Int:
    mask = len(cells) - 1
    most = len(gains.saved)
    used = 0
    attributes = np.empty(MAX_SCHEMA, np.int32)
    for i in range(len(sample.current)):
        for chosen in range(3, 1 << sample.equalities[i]):
            width = 0
            chance = 1.0
            for k in range(sample.equalities[i]):
                if (chosen >> k) & 1:
                    if width == MAX_SCHEMA:
                        width += 1
                        break
                    attribute = sample.attribute[i, k]
                    at = width
                    while at > 0 and attributes[at - 1] > attribute:
                        attributes[at] = attributes[at - 1]
                        at -= 1
                    attributes[at] = attribute
                    chance *= sample.chance[i, k]
                    width += 1
            if width < 2 or width > MAX_SCHEMA or chance >= sample.current[i]:
                continue
            for k in range(width, MAX_SCHEMA):
                attributes[k] = -1
            h = np.uint64(0)
            for k in range(MAX_SCHEMA):
                h = mix(h * np.uint64(0x9E3779B97F4A7C15) + np.uint64(np.int64(attributes[k]) + 1))
            cell = np.int64(h & np.uint64(mask))
            found: Int = -1
            while cells[cell] > 0:
                entry = np.int64(cells[cell]) - 1
                same = True
                for k in range(MAX_SCHEMA):
                    same = same and gains.schema[entry, k] == attributes[k]
                if same:
                    found = entry
                    break
                cell = (cell + 1) & mask
            if found < 0:
                if used == most:
                    continue
                found = used
                used += 1
                cells[cell] = found + 1
                for k in range(MAX_SCHEMA):
                    gains.schema[found, k] = attributes[k]
            gains.saved[found] += sample.current[i] - chance
            gains.benefit[found] += 1.0 - chance
            gains.movers[found] += 1
            gains.narrower[found] += sample.width[i]
    return used


@kernel
def improve(sample: Sample, schema: I32, width: Int) -> None:
    """The sample as it would be with one more table."""
    for i in range(len(sample.current)):
        chance = 1.0
        found = 0
        for k in range(sample.equalities[i]):
            for j in range(width):
                if sample.attribute[i, k] == schema[j]:
                    chance *= sample.chance[i, k]
                    found += 1
        if found == width and chance < sample.current[i]:
            sample.current[i] = chance
            sample.width[i] = width


def read_sample(view: ClusterView, predicates: PredicateView, slots: I32, largest: int, *, singly: bool) -> Sample:
    """Slots with two equalities at least; as if behind their best single equality (`singly`), or as they are."""
    count = len(slots)
    sample = Sample(
        np.empty((count, _COMBINED), np.int32),
        np.empty((count, _COMBINED), np.float64),
        np.empty(count, np.int32),
        np.empty(count, np.float64),
        np.empty(count, np.int32),
    )
    n = int(_read(view, predicates, slots, singly, np.empty(largest, np.int32), sample))
    return Sample(sample.attribute[:n], sample.chance[:n], sample.equalities[:n], sample.current[:n], sample.width[:n])


def weigh(sample: Sample) -> Gains:
    """The gains of all schemas that some slot of the sample would move to."""
    subsets = int(np.minimum(1 << sample.equalities.astype(np.int64), 154).sum())
    cells = 64
    while cells < 2 * subsets and cells < _MAX_CELLS:
        cells *= 2
    room = cells // 2
    gains = Gains(
        np.empty((room, MAX_SCHEMA), np.int32),
        np.zeros(room, np.float64),
        np.zeros(room, np.float64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )
    used = int(_weigh(sample, np.zeros(cells, np.int32), gains))
    return Gains(
        gains.schema[:used], gains.saved[:used], gains.benefit[:used], gains.movers[:used], gains.narrower[:used]
    )
