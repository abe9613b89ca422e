"""Subscriptions from an Arrow table of predicates: the structured form, for hundreds of thousands a second.

| column                                                       | meaning                                                                 |
| subscription_id                                              | int64 or string; rows of one id belong together, wherever they stand    |
| disjunct                                                     | int32, optional: rows of one number are joined by AND, numbers by OR    |
| attribute, operator                                          | strings; operators as in `conditions.predicates`                          |
| value_…, high_… : int64, float64, string, timestamp          | the one that is not null gives the type; `high_…` for (`not`) `between` |
| value_bool, value_binary                                     | binary: the doubles of a point (2), circle (3) or box (4)               |
| value_path, high_path                                        | strings: Dewey paths                                                    |
| topic, scope, starts_at, ends_at, time, semantics            | optional, the same in all rows of a subscription: the first row counts  |

Several rows `in` on one attribute of a disjunct are one list. What kernels know is read by kernels; what needs Python (expressions,
lists) goes through `matching.conditions.predicates`, subscription by subscription.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.vocabulary import Semantics
from pastforward.matching.conditions.normal_form import Constraint, Disjunct
from pastforward.matching.conditions.predicates import checked_name
from pastforward.matching.index import records as r
from pastforward.matching.index.parts import PartsBuilder
from pastforward.matching.index.predicate_columns import Values, grouped, raw_bits, read_values, word_codes
from pastforward.matching.index.predicate_objects import disjuncts_by_python
from pastforward.matching.index.predicate_rows import (
    INT_VALUE,
    OP_BETWEEN,
    OP_IS_NULL,
    OP_PYTHON,
    OPERATORS,
    mark_doubtful,
    needs_python,
    read_rows,
    sort_by_attribute,
)
from pastforward.matching.index.predicate_settings import Settings, semantics_of
from pastforward.matching.index.records import (
    EXCLUDED,
    GEOMETRY,
    INCLUDED,
    PYTHON,
    Parts,
)
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.tables import string_column

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


_REQUIRED: Final = ("subscription_id", "attribute", "operator")


class PredicateBatch(NamedTuple):
    """Ready for `Registry.add`. Strings and topics are held. `never`: ids of subscriptions that nothing satisfies; they have no records."""

    parts: Parts
    identities: I64
    first: I64
    python: list[Constraint]
    text_ids: bool
    never: list[tuple[int | str, Semantics]]


class _Columns(NamedTuple):
    """By row: numbers of attributes among `names`, operators, values."""

    attribute: I64
    names: list[str]
    operator: npt.NDArray[np.uint8]
    value: Values
    high: Values

    def for_kernel(self) -> tuple[npt.NDArray[np.generic], ...]:
        return self.operator, self.value.kind, self.high.kind, self.value.bits, self.high.bits


class _Groups(NamedTuple):
    """See `predicate_columns.grouped`."""

    order: I64
    key: I64
    start: I64
    first: I64


# By subscription: topic, starts_at, ends_at, flags.
_Records = tuple[I32, I64, I64, npt.NDArray[np.uint8]]


def read_predicates(table: pa.Table, registry: Registry, text_ids: bool | None) -> PredicateBatch:
    is_text = _has_text_ids(table, text_ids)
    if is_text:
        run_key, id_names = word_codes(table.column("subscription_id"), None, 0)
    else:
        run_key, id_names = raw_bits(table.column("subscription_id"), INT_VALUE), []
    groups = _Groups(*grouped(run_key, _disjuncts(table)))
    columns = _read_columns(table)
    settings = Settings(table, groups.order, groups.start, groups.first)
    slow = _slow_ids(columns, settings, groups)
    by_python = disjuncts_by_python(table, groups.order, groups.start, groups.first, slow) if slow.any() else {}

    # nothing is held before this line, from which on nothing is refused
    records = settings.columns(registry)
    parts, first = _parts_by_kernels(registry, columns, groups, slow, records)
    python: list[Constraint] = []
    ids = np.flatnonzero(~slow)
    if by_python:
        slow_ids = [i for i in by_python if by_python[i]]
        builder = _parts_by_python(registry, by_python, slow_ids, records)
        parts, python = _joined(parts, builder.parts()), builder.python
        sizes = np.array([len(by_python[i]) for i in slow_ids], np.int64)
        first = np.concatenate([first, first[-1] + np.cumsum(sizes)])
        ids = np.concatenate([ids, np.array(slow_ids, np.int64)])
    topic, _, _, flags = records
    settings.hold(registry, topic, np.diff(first), ids)
    none = np.array([i for i in by_python if not by_python[i]], np.int64)
    if (topic[none] > 0).any():
        registry.topics.release(topic[none[topic[none] > 0]])
    key_of_id = groups.key[groups.start[groups.first[:-1]]]
    identities = key_of_id[ids]
    if is_text:
        wanted = [id_names[i] for i in identities.tolist()]
        identities = registry.id_strings.intern(*string_column(pa.array(wanted, pa.large_string()))).astype(np.int64)
    never = [
        (id_names[key] if is_text else key, semantics_of(int(flags[i])))
        for i, key in zip(none.tolist(), key_of_id[none].tolist(), strict=True)
    ]
    return PredicateBatch(parts, identities.astype(np.int64), first.astype(np.int64), python, is_text, never)


def _has_text_ids(table: pa.Table, wanted: bool | None) -> bool:
    for name in _REQUIRED:
        if name not in table.column_names:
            raise ValueError(f"the table has no column {name!r}; it has {', '.join(table.column_names)}")
        if table.column(name).null_count:
            raise ValueError(f"the column {name!r} has nulls; every predicate needs one")
    found = not pa.types.is_integer(table.column("subscription_id").type)
    if wanted is not None and wanted != found:
        raise TypeError(f"the ids of this index are {'strings' if wanted else 'integers'}, the table's are not")
    return found


def _disjuncts(table: pa.Table) -> I64 | None:
    if "disjunct" not in table.column_names:
        return None
    numbers: I64 = table.column("disjunct").cast(pa.int64()).fill_null(0).to_numpy()
    return numbers if numbers.any() else None


def _read_columns(table: pa.Table) -> _Columns:
    codes, names = word_codes(table.column("attribute"), None, 0)
    operator = word_codes(table.column("operator"), OPERATORS, OP_PYTHON)[0].astype(np.uint8)
    for name in names:
        checked_name(name)
    return _Columns(codes, names, operator, read_values(table, "value"), read_values(table, "high"))


def _slow_ids(columns: _Columns, settings: Settings, groups: _Groups) -> npt.NDArray[np.bool_]:
    """Subscriptions that Python reads."""
    slow = np.empty(len(columns.operator), np.uint8)
    needs_python(columns.for_kernel(), columns.value.binary, slow)
    if (columns.operator == OP_IS_NULL).any():
        mark_doubtful(groups.start, groups.order, columns.attribute, columns.operator, slow)
    # what contradicts itself must be found there: under these semantics an attribute that nobody names is not looked at
    found = settings.relaxed
    if slow.any():
        found = found | np.logical_or.reduceat(slow[groups.order] != 0, groups.start[groups.first[:-1]])
    return found


def _parts_by_kernels(
    registry: Registry, columns: _Columns, groups: _Groups, slow: npt.NDArray[np.bool_], records: _Records
) -> tuple[Parts, I64]:
    """The parts of all other subscriptions, and with which of them each begins."""
    order, _, start, first = groups
    rows = len(columns.operator)
    numbers = np.array([registry.number(name) for name in columns.names] or [0], np.int32)
    attribute = numbers[columns.attribute]
    chosen, fast = np.repeat(np.arange(len(first) - 1), np.diff(first)), np.ones(rows, bool)
    if slow.any():
        fast_slot = ~np.repeat(slow, np.diff(first))
        order = order[np.repeat(fast_slot, np.diff(start))]
        start = np.append(0, np.cumsum(np.diff(start)[fast_slot]))
        first = np.append(0, np.cumsum(np.diff(first)[~slow]))
        chosen = chosen[fast_slot]
        fast[:] = False
        fast[order] = True
    sort_by_attribute(start, order, attribute)
    texts = (
        _intern(registry, columns.value, fast, rows),
        _intern(registry, columns.high, fast & (columns.operator == OP_BETWEEN), rows),
    )
    count, shapes = len(order), columns.value.binary
    kind, flags = np.empty(count, np.uint8), np.empty(count, np.uint8)
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    items = np.empty(count + len(shapes[0]) // 8, np.int64)
    used = read_rows(order, columns.for_kernel(), texts, shapes, (kind, flags, low, high, items))
    topic, starts_at, ends_at, record_flags = records
    parts = Parts(
        start, attribute[order], kind, flags, low, high, items[:used].copy(),
        topic[chosen], starts_at[chosen], ends_at[chosen], record_flags[chosen],
    )  # fmt: skip
    return parts, first


def _parts_by_python(
    registry: Registry, by_python: dict[int, list[Disjunct]], ids: list[int], records: _Records
) -> PartsBuilder:
    topic, starts_at, ends_at, flags = records
    builder = PartsBuilder(registry.strings, registry.number, registry.numbers)
    for i in ids:
        begins = int(starts_at[i]) if flags[i] & r.HAS_START else None
        ends = int(ends_at[i]) if flags[i] & r.HAS_END else None
        for disjunct in by_python[i]:
            builder.add(disjunct, int(topic[i]), int(flags[i]), begins, ends)
    return builder


def _intern(registry: Registry, values: Values, wanted: npt.NDArray[np.bool_], rows: int) -> I32:
    if values.text is None:
        return np.full(rows, -1, np.int32)
    heap, offset, length = values.text
    return registry.strings.intern(heap, offset, np.where(wanted, length, -1).astype(np.int32))


def _joined(a: Parts, b: Parts) -> Parts:
    low, high = b.low.copy(), b.high.copy()
    sets = (b.kind == INCLUDED) | (b.kind == EXCLUDED)
    low[sets | (b.kind == GEOMETRY)] += len(a.items)
    high[b.kind == PYTHON] += len(a.items)
    b = b._replace(low=low, high=high, start=b.start[1:] + a.start[-1])
    return Parts(*(np.concatenate([x, y]) for x, y in zip(a, b, strict=True)))
