"""Publications that come as a table: Arrow's, or a data frame of pandas or Polars.

A column is an attribute, null is absent. Columns of the record itself begin with an underscore, as `Index.match_table` has them: `_topic`,
`_publication_id`, `_publisher_id`, `_published_at`, `_expires_at`. What a column can say is checked once for all its rows; a row then
costs a dictionary and orjson, and not a look at every value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, TypeGuard

import orjson

from pastforward.columns import extras
from pastforward.columns.times import MAX_TIME, MIN_TIME
from pastforward.matching.conditions.errors import shown
from pastforward.schemas import SchemaError
from pastforward.schemas.acceptance import check_name
from pastforward.schemas.dewey_text import check_path
from pastforward.schemas.fields import own_identifier
from pastforward.schemas.value_fields import attribute_name


class Table(Protocol):
    """What gives itself to Arrow: its own tables, data frames of pandas and Polars, DuckDB's relations."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


ROWS: Final = 10_000  # that are turned into Python values at once
OWN: Final = ("topic", "publication_id", "publisher_id", "published_at", "expires_at")
SHAPES: Final = {("lat", "lon"), ("lat", "lon", "radius_m"), ("max_x", "max_y", "min_x", "min_y")}
LARGEST: Final = 1 << 20  # bytes of a record; the router refuses what is beyond


def is_table(given: Any) -> TypeGuard[Table]:
    """Without importing anything: whoever has a table has its library."""
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")


def records_of(given: Any, names: Iterator[str], path_of: Callable[[str], str]) -> Iterator[tuple[str, bytes]]:
    """Keys and values. Raises `SchemaError` with the column and the value that is wrong, before a row of its batch is given."""
    extras.need("worker", "publishing a table")  # a data frame may come without pyarrow
    import pyarrow as pa

    table = pa.table(given)
    wrong = [name for name in table.column_names if name.startswith("_") and name[1:] not in OWN]
    if wrong:
        known = ", ".join(f"_{name}" for name in OWN)
        raise SchemaError("unknown_field", f"the table has a column {wrong[0]!r}: those that begin with _ are {known}")
    if len(set(table.column_names)) < len(table.column_names):
        raise SchemaError("bad_value", "the table has two columns of one name: an attribute has one value")
    attributes = [name for name in table.column_names if not name.startswith("_")]
    for name in attributes:
        attribute_name(name, "the name of a column")
        check_name(name)
    for batch in table.to_batches(max_chunksize=ROWS):
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        own = {name: _own(name, columns[f"_{name}"], path_of) for name in OWN if f"_{name}" in columns}
        values = [_attribute(name, columns[name]) for name in attributes]
        keys = own.pop("publication_id", None)
        full = not any(columns[name].null_count for name in attributes)
        rows = zip(*values, strict=True) if values else (() for _ in range(batch.num_rows))
        for number, row in enumerate(rows):
            said = dict(zip(attributes, row, strict=True))
            if not full:
                said = {name: value for name, value in said.items() if value is not None}
            record: dict[str, Any] = {"attributes": said}
            for name, column in own.items():
                if column[number] is not None:
                    record[name] = column[number]
            key = (None if keys is None else keys[number]) or next(names)
            value = orjson.dumps(record)
            if len(value) > LARGEST:
                raise SchemaError(
                    "too_large", f"row {number} has {len(value)} bytes in JSON: at most {LARGEST} are taken"
                )
            yield key, value


def _own(name: str, column: Any, path_of: Callable[[str], str]) -> list[Any]:
    if name in ("published_at", "expires_at"):
        return _times(f"_{name}", column)
    given = _texts(f"_{name}", column)
    if name == "topic":
        paths = {text: check_path(path_of(text)) for text in {*given} - {None}}
        return [None if text is None else paths[text] for text in given]
    for text in given:
        if text is not None:
            own_identifier(text, f"_{name}")
    return given


def _texts(name: str, column: Any) -> list[Any]:
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_text(kind) or pa.types.is_null(kind)):
        raise SchemaError("wrong_type", f"column {name!r} has type {kind}: write strings")
    return list(column.to_pylist())


def _times(name: str, column: Any) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            raise SchemaError("wrong_type", f"column {name!r} has times without a zone: give it one, such as UTC")
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    if not (pa.types.is_int64(column.type) or pa.types.is_null(column.type)):
        raise SchemaError(
            "wrong_type", f"column {name!r} has type {column.type}: write timestamps, or int64 microseconds"
        )
    found = list(column.to_pylist())
    for moment in found:
        if moment is not None and not MIN_TIME <= moment <= MAX_TIME:
            raise SchemaError("bad_value", f"column {name!r} has {moment}, which is no time in microseconds since 1970")
    return found


def _attribute(name: str, column: Any) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_boolean(kind) or _is_text(kind) or pa.types.is_null(kind):
        return list(column.to_pylist())
    if pa.types.is_integer(kind):
        if pa.types.is_uint64(kind) and (pc.max(column).as_py() or 0) >= 1 << 63:
            raise SchemaError("bad_value", f"column {name!r} has {pc.max(column).as_py()}, which does not fit 64 bits")
        return list(column.to_pylist())
    if pa.types.is_floating(kind):
        if not pc.all(pc.is_finite(column), skip_nulls=True).as_py() and len(column) > column.null_count:
            raise SchemaError(
                "bad_value", f"column {name!r} has a number that is not finite: write null where there is none"
            )
        return list(column.cast(pa.float64()).to_pylist())
    if pa.types.is_timestamp(kind):
        return [None if micros is None else {"timestamp": micros} for micros in _times(name, column)]
    if pa.types.is_struct(kind) and tuple(sorted(field.name for field in kind)) in SHAPES:
        return [_shape(name, each) for each in column.to_pylist()]
    raise SchemaError(
        "wrong_type",
        f"column {name!r} has type {kind}: write booleans, integers, floats, strings, timestamps, or structs of lon and lat",
    )


def _shape(name: str, fields: Any) -> Any:
    from pastforward.schemas.value_fields import attribute_value

    if fields is not None:
        if None in fields.values():
            raise SchemaError("bad_value", f"column {name!r} has {shown(fields)}: write null for the whole of it")
        attribute_value(fields, f"column {name!r}")
    return fields


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
