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

# ruff: noqa: SIM109  (kernels spell out what Numba compiles best)
from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pastforward.columns.attributes import BOX, CIRCLE, FLOAT, POINT
from pastforward.columns.kernel import inner, kernel
from pastforward.columns.machine import bits_of_float
from pastforward.columns.scalars import Bool, Int
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.columns.vocabulary import Semantics
from pastforward.matching.conditions.limits import MAX_DISJUNCTS
from pastforward.matching.conditions.normal_form import Constraint, Disjunct
from pastforward.matching.conditions.predicates import (
    Predicate,
    alternatives,
    checked_name,
    multiplied_out,
    too_many_disjuncts,
)
from pastforward.matching.conditions.types import Instant
from pastforward.matching.conditions.values import Box, Circle, Path, Point
from pastforward.matching.index import records as r
from pastforward.matching.index.batch import bytes_column, string_column, times
from pastforward.matching.index.keys import NAN, OTHER, canonical_float
from pastforward.matching.index.parts import PartsBuilder
from pastforward.matching.index.places import is_valid, read_double
from pastforward.matching.index.records import (
    ADMITS_FALSE,
    ADMITS_TRUE,
    ANY,
    BOOLEANS,
    CONTAINS,
    EQUAL_STRING,
    EXCLUDED,
    GEOMETRY,
    HAS_HIGH,
    HAS_LOW,
    HIGH_FLOAT,
    HIGH_OPEN,
    INCLUDED,
    LOW_FLOAT,
    LOW_OPEN,
    NOT_SO,
    NULL,
    NUMBER,
    OF_NUMBERS,
    OF_STRINGS,
    OF_TIMESTAMPS,
    OVERLAPS,
    PREFIX,
    PYTHON,
    SHAPE_SHIFT,
    STRINGS,
    SUBSTRING,
    SUFFIX,
    TIMESTAMPS,
    WITHIN,
    Parts,
)
from pastforward.matching.index.registry import Registry
from pastforward.matching.index.topics import first_wrong_topic

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# Operators that kernels read; everything else is Python's.
_EQ: Final = 0
_NE: Final = 1
_LT: Final = 2
_LE: Final = 3
_GT: Final = 4
_GE: Final = 5
_BETWEEN: Final = 6
_IS_NULL: Final = 7
_IS_NOT_NULL: Final = 8
_PREFIX: Final = 9
_SUFFIX: Final = 10
_SUBSTRING: Final = 11
_PYTHON: Final = 12
_RELATION: Final = 12  # and the relation
_NEGATED_RELATION: Final = 15
_OPERATORS: Final = {
    "=": _EQ,
    "!=": _NE,
    "<": _LT,
    "<=": _LE,
    ">": _GT,
    ">=": _GE,
    "between": _BETWEEN,
    "is null": _IS_NULL,
    "is not null": _IS_NOT_NULL,
    "prefix": _PREFIX,
    "suffix": _SUFFIX,
    "substring": _SUBSTRING,
    "overlaps": _RELATION + OVERLAPS,
    "contains": _RELATION + CONTAINS,
    "within": _RELATION + WITHIN,
    "not overlaps": _NEGATED_RELATION + OVERLAPS,
    "not contains": _NEGATED_RELATION + CONTAINS,
    "not within": _NEGATED_RELATION + WITHIN,
}

# Types of a value in its row.
_NONE: Final = 0
_INT: Final = 1
_FLOAT: Final = 2
_TEXT: Final = 3
_BOOL: Final = 4
_TIME: Final = 5
_BINARY: Final = 6
_PATH: Final = 7
_TWO: Final = 8  # more than one column is filled

_VALUE_COLUMNS: Final = {
    "int64": _INT,
    "float64": _FLOAT,
    "string": _TEXT,
    "bool": _BOOL,
    "timestamp": _TIME,
    "binary": _BINARY,
    "path": _PATH,
}
_REQUIRED: Final = ("subscription_id", "attribute", "operator")
_SETTINGS: Final = ("topic", "scope", "starts_at", "ends_at", "time", "semantics")


class PredicateBatch(NamedTuple):
    """Ready for `Registry.add`. Strings and topics are held. `never`: ids of subscriptions that nothing satisfies; they have no records."""

    parts: Parts
    identities: I64
    first: I64
    python: list[Constraint]
    text_ids: bool
    never: list[tuple[int | str, Semantics]]


@inner
def _tag_of(length: Int) -> Int:
    """Of a shape, by the bytes of its doubles; OTHER: it is none."""
    return POINT if length == 16 else CIRCLE if length == 24 else BOX if length == 32 else OTHER


@kernel
def _needs_python(
    operator: U8, kind: U8, high_kind: U8, bits: I64, high_bits: I64, heap: U8, at: I64, length: I32, out: U8
) -> None:
    """Rows that kernels do not read, wrong ones among them: Python then says what is wrong. `heap`, `at` and `length` are the bytes of
    shapes."""
    for i in range(len(operator)):
        op = operator[i]
        k = kind[i]
        ok = False
        if op == _IS_NULL or op == _IS_NOT_NULL:
            ok = True
        elif op == _BETWEEN:
            both_numbers = (k == _INT or k == _FLOAT) and (high_kind[i] == _INT or high_kind[i] == _FLOAT)
            ok = both_numbers or (k == high_kind[i] and (k == _TEXT or k == _TIME))
        elif op >= _PREFIX and op <= _SUBSTRING:
            ok = k == _TEXT
        elif op > _RELATION:
            ok = k == _BINARY and _tag_of(length[i]) != OTHER and is_valid(heap, at[i], _tag_of(length[i]))
        elif op <= _GE:
            # timestamps have closed bounds only
            ok = k == _INT or k == _FLOAT or k == _TEXT or (k == _BOOL and op == _EQ)
            ok = ok or (k == _TIME and op != _LT and op != _GT)
        if ok and k == _TIME:
            # only years that a datetime has; `high` counts with `between` alone
            ok = bits[i] >= MIN_TIME and bits[i] <= MAX_TIME
            ok = ok and (op != _BETWEEN or (high_bits[i] >= MIN_TIME and high_bits[i] <= MAX_TIME))
        if ok and k == _FLOAT and canonical_float(bits[i])[0] == NAN:
            ok = False
        if ok and op == _BETWEEN and high_kind[i] == _FLOAT and canonical_float(high_bits[i])[0] == NAN:
            ok = False
        out[i] = not ok


@kernel
def _mark_doubtful(start: I64, order: I64, attribute: I64, operator: U8, out: U8) -> None:
    """Rows that ask that an attribute be absent, beside another row on it: mostly a contradiction, which no record can hold."""
    for s in range(len(start) - 1):
        for p in range(start[s], start[s + 1]):
            if operator[order[p]] != _IS_NULL:
                continue
            for q in range(start[s], start[s + 1]):
                if q != p and attribute[order[q]] == attribute[order[p]]:
                    out[order[p]] = 1


@kernel
def _number(kind: Int, bits: Int) -> tuple[Int, Bool]:
    """Canonical bits, and whether they are a float's."""
    if kind == _FLOAT:
        tag, bits = canonical_float(bits)
        return bits, tag == FLOAT
    return bits, False


@kernel
def _read(
    order: I64,
    operator: U8,
    kind: U8,
    high_kind: U8,
    bits: I64,
    high_bits: I64,
    text: I32,
    high_text: I32,
    heap: U8,
    at: I64,
    length: I32,
    out_kind: U8,
    out_flags: U8,
    low: I64,
    high: I64,
    items: I64,
) -> Int:
    """One part per row, in the order given. Returns the number of items."""
    n = 0
    for p in range(len(order)):
        i = order[p]
        op = operator[i]
        k = kind[i]
        flags = 0
        low[p] = 0
        high[p] = 0
        if op == _IS_NULL:
            out_kind[p] = NULL
        elif op == _IS_NOT_NULL:
            out_kind[p] = ANY
        elif op > _RELATION:
            out_kind[p] = GEOMETRY
            negated = op > _NEGATED_RELATION
            numbers = np.int64(length[i]) >> 3
            flags = (op - (_NEGATED_RELATION if negated else _RELATION)) | (NOT_SO if negated else 0)
            flags |= (numbers - 2) << SHAPE_SHIFT
            low[p] = n
            for number in range(numbers):
                items[n] = bits_of_float(read_double(heap, at[i] + 8 * number))
                n += 1
        elif op >= _PREFIX:
            out_kind[p] = PREFIX if op == _PREFIX else SUFFIX if op == _SUFFIX else SUBSTRING
            low[p] = text[i]
        elif k == _BOOL:
            out_kind[p] = BOOLEANS
            flags = ADMITS_TRUE if bits[i] else ADMITS_FALSE
        elif op == _NE:
            out_kind[p] = EXCLUDED
            low[p] = n
            high[p] = 1
            if k == _TEXT:
                flags = OF_STRINGS
                items[n] = text[i]
            elif k == _TIME:
                flags = OF_TIMESTAMPS
                items[n] = bits[i]
            else:
                flags = OF_NUMBERS
                items[n], is_float = _number(k, bits[i])
                if is_float:
                    high[p] = np.int64(1) << 32
            n += 1
        else:
            lower = op == _EQ or op == _GT or op == _GE or op == _BETWEEN
            upper = op == _EQ or op == _LT or op == _LE or op == _BETWEEN
            flags = (HAS_LOW if lower else 0) | (HAS_HIGH if upper else 0)
            if op == _GT:
                flags |= LOW_OPEN
            if op == _LT:
                flags |= HIGH_OPEN
            if k == _TEXT:
                if op == _EQ:
                    out_kind[p] = EQUAL_STRING
                    low[p] = text[i]
                    flags = 0
                else:
                    out_kind[p] = STRINGS
                    low[p] = text[i] if lower else 0
                    high[p] = high_text[i] if op == _BETWEEN else text[i] if upper else 0
            elif k == _TIME:
                out_kind[p] = TIMESTAMPS
                flags = 0
                low[p] = bits[i] if lower else np.int64(-(2**63))
                high[p] = high_bits[i] if op == _BETWEEN else bits[i] if upper else np.int64(2**63 - 1)
            else:
                out_kind[p] = NUMBER
                value, is_float = _number(k, bits[i])
                if lower:
                    low[p] = value
                    flags |= LOW_FLOAT if is_float else 0
                if op == _BETWEEN:
                    value, is_float = _number(high_kind[i], high_bits[i])
                if upper:
                    high[p] = value
                    flags |= HIGH_FLOAT if is_float else 0
        out_flags[p] = flags
    return n


@kernel
def _sort_by_attribute(start: I64, order: I64, attribute: I32) -> None:
    """Within each slot; short, so by insertion."""
    for s in range(len(start) - 1):
        for p in range(start[s] + 1, start[s + 1]):
            row = order[p]
            q = p
            while q > start[s] and attribute[order[q - 1]] > attribute[row]:
                order[q] = order[q - 1]
                q -= 1
            order[q] = row


_NO_BYTES: Final = (np.zeros(1, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int32))


class _Values(NamedTuple):
    kind: U8
    bits: I64
    text: tuple[U8, I64, I32] | None
    binary: tuple[U8, I64, I32]


def _values(table: pa.Table, prefix: str) -> _Values:
    rows = table.num_rows
    kind = np.zeros(rows, np.uint8)
    bits: I64 | None = None
    text = None
    binary = _NO_BYTES
    for suffix, code in _VALUE_COLUMNS.items():
        name = f"{prefix}_{suffix}"
        if name not in table.column_names:
            continue
        column = table.column(name)
        if column.null_count == rows:
            continue
        given = column.is_valid().to_numpy() if column.null_count else np.True_
        kind = np.where(given, np.where(kind == _NONE, np.uint8(code), np.uint8(_TWO)), kind)
        if code == _TEXT:
            text = string_column(column)
        elif code == _BINARY:
            binary = bytes_column(column)
        elif code != _PATH:
            raw = _raw(column, code)
            bits = raw if bits is None else np.where(given, raw, bits)
    return _Values(kind, np.zeros(rows, np.int64) if bits is None else bits, text, binary)


def _raw(column: pa.ChunkedArray, code: int) -> I64:
    """64 bits a value; anything for nulls."""
    if code == _TIME:
        return times(column, 0)
    if code == _BOOL:
        truth: I64 = column.fill_null(False).to_numpy().astype(np.int64)
        return truth
    whole = one_chunk(column.cast(pa.int64() if code == _INT else pa.float64()))
    if not len(whole):
        return np.zeros(0, np.int64)
    # Arrow's own memory is not to be written, and to Numba that is another type
    return np.frombuffer(whole.buffers()[1], np.int64, len(whole), whole.offset * 8).copy()


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        return whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    return whole


def _codes(column: pa.ChunkedArray, mapping: Mapping[str, int] | None, default: int) -> tuple[I64, list[str]]:
    """Codes of a column of few different strings, and those strings; `mapping` gives other codes."""
    encoded = one_chunk(column)
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    names = [str(name) for name in encoded.dictionary.to_pylist()]
    codes = encoded.indices.to_numpy().astype(np.int64)
    if mapping is not None:
        codes = np.array([mapping.get(name, default) for name in names] or [default], np.int64)[codes]
    return codes, names


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
        run_key, id_names = _codes(id_column, None, 0)
    else:
        run_key, id_names = _raw(id_column, _INT), []
    disjunct = None
    if "disjunct" in table.column_names:
        disjunct = table.column("disjunct").cast(pa.int64()).fill_null(0).to_numpy()
        disjunct = disjunct if disjunct.any() else None
    order, ordered_key, start, first = _grouped(run_key, disjunct)

    codes, names = _codes(table.column("attribute"), None, 0)
    operator = _codes(table.column("operator"), _OPERATORS, _PYTHON)[0].astype(np.uint8)
    value, high = _values(table, "value"), _values(table, "high")
    slow = np.empty(rows, np.uint8)
    _needs_python(operator, value.kind, high.kind, value.bits, high.bits, *value.binary, slow)
    if (operator == _IS_NULL).any():
        _mark_doubtful(start, order, codes, operator, slow)
    for name in names:
        checked_name(name)
    settings = _Settings(table, order, start, first)
    # what contradicts itself must be found there: under these semantics an attribute that nobody names is not looked at
    slow_id = settings.relaxed
    if slow.any():
        slow_id = slow_id | np.logical_or.reduceat(slow[order] != 0, start[first[:-1]])
    any_slow = bool(slow_id.any())
    by_python = {}
    if any_slow:
        by_python = _python_subscriptions(table, order, start, first, slow_id)

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
    _sort_by_attribute(fast_start, fast_order, attribute)
    text, high_text = _intern(registry, value, fast, rows), _intern(registry, high, fast & (operator == _BETWEEN), rows)
    count = len(fast_order)
    room = count + len(value.binary[0]) // 8
    kind, flags = np.empty(count, np.uint8), np.empty(count, np.uint8)
    low_bits, high_bits, items = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(room, np.int64)
    n = _read(
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


def semantics_of(record_flags: int) -> Semantics:
    return "symmetric" if record_flags & r.SYMMETRIC else "intersect" if record_flags & r.INTERSECT else "classical"


def _grouped(key: I64, disjunct: I64 | None) -> tuple[I64, I64, I64, I64]:
    """Row numbers such that rows of one subscription, and of one disjunct in it, stand together, otherwise in order; their keys; where
    disjuncts begin, and with which of them subscriptions do."""
    rows = len(key)
    order = np.arange(rows)
    if disjunct is None:
        ids = np.flatnonzero(np.append(rows > 0, key[1:] != key[:-1])[:rows])
        run_keys = key[ids]
        if (run_keys[1:] > run_keys[:-1]).all() or len(np.unique(run_keys)) == len(ids):
            return order, key, np.append(ids, rows), np.arange(len(ids) + 1)
        disjunct = np.zeros(rows, np.int64)
    if not ((key[1:] > key[:-1]) | ((key[1:] == key[:-1]) & (disjunct[1:] >= disjunct[:-1]))).all():
        order = np.lexsort((order, disjunct, key))
        key, disjunct = key[order], disjunct[order]
    new_id = np.append(rows > 0, key[1:] != key[:-1])[:rows]
    new_slot = new_id.copy()
    new_slot[1:] |= disjunct[1:] != disjunct[:-1]
    start = np.append(np.flatnonzero(new_slot), rows)
    return order, key, start, np.append(np.searchsorted(start, np.flatnonzero(new_id)), len(start) - 1)


def _intern(registry: Registry, values: _Values, wanted: npt.NDArray[np.bool_], rows: int) -> I32:
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


class _Settings:
    """Topic, scope, window, time and semantics of each subscription: those of its first row."""

    def __init__(self, table: pa.Table, order: I64, start: I64, first: I64) -> None:
        rows = order[start[first[:-1]]] if table.num_rows else np.zeros(0, np.int64)
        names = [name for name in _SETTINGS if name in table.column_names]
        self._table = table.select(names).take(pa.array(rows)) if names else None
        self._count = len(rows)
        self._texts: tuple[U8, I64, I32] | None = None
        if self._has("topic"):
            heap, offset, length = string_column(self._column("topic"))
            self._texts = (heap, offset, np.maximum(length, 0).astype(np.int32))
            wrong = int(first_wrong_topic(heap, offset, self._texts[2]))
            if wrong >= 0:
                text = heap[offset[wrong] : offset[wrong] + length[wrong]].tobytes().decode()
                raise ValueError(f"the topic {text!r} is no Dewey path; write numbers and dots, like 1.4.2")
        self._flags = np.zeros(self._count, np.uint8)
        for name, known in _FLAGS.items():
            if self._has(name):
                given = self._column(name).combine_chunks().dictionary_encode()
                if isinstance(given, pa.ChunkedArray):
                    given = given.combine_chunks()
                words = given.dictionary.to_pylist()
                for word in words:
                    if word is not None and word not in known:
                        raise ValueError(f"{name} {word!r} is unknown; write one of {', '.join(known)}")
                flags = np.array([*(known.get(word, 0) for word in words), 0], np.uint8)
                self._flags |= flags[given.indices.fill_null(len(words)).to_numpy()]

    @property
    def relaxed(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = (self._flags & (r.SYMMETRIC | r.INTERSECT)) != 0
        return found

    def _has(self, name: str) -> bool:
        return self._table is not None and name in self._table.column_names

    def _column(self, name: str) -> pa.ChunkedArray:
        assert self._table is not None
        return self._table.column(name)

    def columns(self, registry: Registry) -> tuple[I32, I64, I64, U8]:
        """Topic nodes, held once each; times; flags of records."""
        flags = self._flags.copy()
        topic = np.zeros(self._count, np.int32)
        window = []
        if self._texts is not None:
            topic = registry.topics.hold(*self._texts)
            flags[topic > 0] |= r.HAS_TOPIC
        for name, flag in (("starts_at", r.HAS_START), ("ends_at", r.HAS_END)):
            bound = np.zeros(self._count, np.int64)
            if self._has(name):
                column = self._column(name)
                given = column.is_valid().to_numpy()
                bound = np.where(given, times(column, 0), 0)
                flags[given] |= flag
            window.append(bound)
        return topic, window[0], window[1], flags

    def hold(self, registry: Registry, topic: I32, disjuncts: I64, ids: I64) -> None:
        """A topic is held once per record: `columns` held it once per subscription."""
        if self._texts is None:
            return
        root = np.flatnonzero(topic == 0)
        if len(root):
            registry.topics.release(topic[root])
        heap, offset, length = self._texts
        again = np.repeat(ids, np.where(topic[ids] > 0, np.maximum(disjuncts - 1, 0), 0))
        if len(again):
            registry.topics.hold(heap, offset[again], length[again])


_FLAGS: Final[dict[str, dict[str, int]]] = {
    "scope": {"overlap": 0, "subtree": r.SUBTREE_SCOPE},
    "time": {"published": 0, "valid": r.VALID_TIME},
    "semantics": {"classical": 0, "symmetric": r.SYMMETRIC, "intersect": r.INTERSECT},
}


def _python_subscriptions(
    table: pa.Table, order: I64, start: I64, first: I64, chosen: npt.NDArray[np.bool_]
) -> dict[int, list[Disjunct]]:
    """The disjuncts of subscriptions that kernels cannot read; wrong predicates raise here, before anything is kept."""
    found: dict[int, list[Disjunct]] = {}
    for name in ("value_timestamp", "high_timestamp"):
        # a datetime has fewer years than the column, and no nanoseconds
        if name in table.column_names:
            column = table.column(name)
            micros = pa.array(times(column, 0), mask=column.is_null().to_numpy())
            table = table.set_column(table.column_names.index(name), name, micros)
    for i in np.flatnonzero(chosen).tolist():
        disjuncts: list[Disjunct] = []
        for slot in range(int(first[i]), int(first[i + 1])):
            numbers = order[int(start[slot]) : int(start[slot + 1])]
            # a contradiction is never true, and so no disjunct
            disjuncts += _disjuncts(table.take(pa.array(numbers)).to_pylist())
            if len(disjuncts) > MAX_DISJUNCTS:
                raise too_many_disjuncts()
        found[i] = disjuncts
    return found


def _disjuncts(rows: list[dict[str, Any]]) -> list[Disjunct]:
    lists: dict[tuple[str, str], list[Any]] = {}
    predicates = []
    for row in rows:
        attribute, operator = row["attribute"], row["operator"]
        if operator in ("in", "not in"):
            if (attribute, operator) not in lists:
                lists[attribute, operator] = []
                predicates.append(Predicate(attribute, operator))
            lists[attribute, operator].append(_constant(row, "value"))
        else:
            predicates.append(Predicate(attribute, operator, _constant(row, "value"), _constant(row, "high")))
    asked = []
    for predicate in predicates:
        if (predicate.attribute, predicate.operator) in lists:
            predicate = predicate._replace(value=tuple(lists[predicate.attribute, predicate.operator]))
        asked.append((predicate.attribute, alternatives(predicate)))
    return multiplied_out(asked)


def _constant(row: dict[str, Any], prefix: str) -> Any:
    given: list[tuple[str, Any]] = [(suffix, row.get(f"{prefix}_{suffix}")) for suffix in _VALUE_COLUMNS]
    given = [(suffix, value) for suffix, value in given if value is not None]
    if not given:
        return None
    if len(given) > 1:
        columns = ", ".join(f"{prefix}_{suffix}" for suffix, _ in given)
        raise ValueError(f"{row['attribute']} {row['operator']}: {columns} are all filled; one value is enough")
    suffix, value = given[0]
    if suffix == "binary":
        shape = {16: Point, 24: Circle, 32: Box}.get(len(value))
        if shape is None:
            raise ValueError(f"{row['attribute']}: {len(value)} bytes are no point (16), circle (24) or box (32)")
        return shape(*struct.unpack(f"<{len(value) // 8}d", value))
    if suffix == "path":
        return Path(value)
    if suffix == "timestamp" and isinstance(value, int):
        return Instant(value)
    return value
