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
from pastforward.matching.conditions.normal_form import Constraint
from pastforward.matching.conditions.predicates import (
    checked_name,
)
from pastforward.matching.index import records as r
from pastforward.matching.index.batch import string_column
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


def read_predicates(table: pa.Table, registry: Registry, text_ids: bool | None) -> PredicateBatch:
    for name in _REQUIRED:
        if name not in table.column_names:
            raise ValueError(f"the table has no column {name!r}; it has {', '.join(table.column_names)}")
        if table.column(name).null_count:
            raise ValueError(f"the column {name!r} has nulls; every predicate needs one")
    rows = table.num_rows
    id_column = table.column("subscription_id")
    is_text = not pa.types.is_integer(id_column.type)
    if text_ids is not None and text_ids != is_text:
        raise TypeError(f"the ids of this index are {'strings' if text_ids else 'integers'}, the table's are not")
    if is_text:
        run_key, id_names = word_codes(id_column, None, 0)
    else:
        run_key, id_names = raw_bits(id_column, INT_VALUE), []
    disjunct = None
    if "disjunct" in table.column_names:
        disjunct = table.column("disjunct").cast(pa.int64()).fill_null(0).to_numpy()
        disjunct = disjunct if disjunct.any() else None
    order, ordered_key, start, first = grouped(run_key, disjunct)

    codes, names = word_codes(table.column("attribute"), None, 0)
    operator = word_codes(table.column("operator"), OPERATORS, OP_PYTHON)[0].astype(np.uint8)
    value, high = read_values(table, "value"), read_values(table, "high")
    slow = np.empty(rows, np.uint8)
    needs_python(operator, value.kind, high.kind, value.bits, high.bits, *value.binary, slow)
    if (operator == OP_IS_NULL).any():
        mark_doubtful(start, order, codes, operator, slow)
    for name in names:
        checked_name(name)
    settings = Settings(table, order, start, first)
    # what contradicts itself must be found there: under these semantics an attribute that nobody names is not looked at
    slow_id = settings.relaxed
    if slow.any():
        slow_id = slow_id | np.logical_or.reduceat(slow[order] != 0, start[first[:-1]])
    any_slow = bool(slow_id.any())
    by_python = {}
    if any_slow:
        by_python = disjuncts_by_python(table, order, start, first, slow_id)

    numbers = np.array([registry.number(name) for name in names] or [0], np.int32)
    attribute = numbers[codes]
    fast_order, fast_start = order, start
    fast_slot = np.ones(len(start) - 1, bool)
    fast = np.ones(rows, bool)
    if any_slow:
        fast_slot = ~np.repeat(slow_id, np.diff(first))
        fast_order = order[np.repeat(fast_slot, np.diff(start))]
        fast_start = np.append(0, np.cumsum(np.diff(start)[fast_slot]))
        fast[:] = False
        fast[fast_order] = True
    sort_by_attribute(fast_start, fast_order, attribute)
    text, high_text = (
        _intern(registry, value, fast, rows),
        _intern(registry, high, fast & (operator == OP_BETWEEN), rows),
    )
    count = len(fast_order)
    room = count + len(value.binary[0]) // 8
    kind, flags = np.empty(count, np.uint8), np.empty(count, np.uint8)
    low_bits, high_bits, items = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(room, np.int64)
    n = read_rows(
        fast_order, operator, value.kind, high.kind, value.bits, high.bits, text, high_text,
        *value.binary, kind, flags, low_bits, high_bits, items,
    )  # fmt: skip
    topic, starts_at, ends_at, record_flags = settings.columns(registry)
    chosen = np.repeat(np.arange(len(first) - 1), np.diff(first))[fast_slot]
    parts = Parts(
        fast_start, attribute[fast_order], kind, flags, low_bits, high_bits, items[:n].copy(),
        topic[chosen], starts_at[chosen], ends_at[chosen], record_flags[chosen],
    )  # fmt: skip
    python: list[Constraint] = []
    id_order, fast_first = np.arange(len(slow_id)), first
    if any_slow:
        id_order, slow_ids = np.flatnonzero(~slow_id), np.array([i for i in by_python if by_python[i]], np.int64)
        fast_first = np.append(0, np.cumsum(np.diff(first)[id_order]))
        builder = PartsBuilder(registry.strings, registry.number, registry.numbers)
        sizes = []
        for i in slow_ids.tolist():
            disjuncts = by_python[i]
            for d in disjuncts:
                builder.add(
                    d, int(topic[i]), int(record_flags[i]),
                    int(starts_at[i]) if record_flags[i] & r.HAS_START else None,
                    int(ends_at[i]) if record_flags[i] & r.HAS_END else None,
                )  # fmt: skip
            sizes.append(len(disjuncts))
        parts = _joined(parts, builder.parts())
        python = builder.python
        fast_first = np.concatenate([fast_first, fast_first[-1] + np.cumsum(np.array(sizes, np.int64))])
        id_order = np.concatenate([id_order, slow_ids])
    settings.hold(registry, topic, np.diff(fast_first), id_order)
    none = np.array([i for i in by_python if not by_python[i]], np.int64)
    if (topic[none] > 0).any():
        registry.topics.release(topic[none[topic[none] > 0]])
    key_of_id = ordered_key[start[first[:-1]]]
    identities = key_of_id[id_order]
    if is_text:
        wanted = [id_names[i] for i in identities.tolist()]
        heap, offset, length = string_column(pa.array(wanted, pa.large_string()))
        identities = registry.id_strings.intern(heap, offset, length).astype(np.int64)
    never = [
        (id_names[key] if is_text else key, semantics_of(int(record_flags[i])))
        for i, key in zip(none.tolist(), key_of_id[none].tolist(), strict=True)
    ]
    return PredicateBatch(parts, identities.astype(np.int64), fast_first.astype(np.int64), python, is_text, never)


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
