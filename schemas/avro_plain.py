"""Avro's binary encoding, one value at a time, driven by a schema: strict, plain, and not fast.

Plain data: None, bool, int, float, str, bytes, list, dict; an enum is its symbol, a record and a map are a dict. A union
holds the datum of the branch itself: when writing, the branch is found by the datum's type, for a dict by its fields.
`timestamp-millis` is read as microseconds, other logical types as what they are made of.

The reader takes nothing that the specification does not allow, and needs memory in proportion to the bytes it is given.
It is the yardstick of the fast path, and reads what the fast path does not know: writers' schemas that are not ours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pastforward.schemas.errors import SchemaError

Plain: TypeAlias = Any
JsonSchema: TypeAlias = Any
Reader: TypeAlias = Callable[[bytes, int], tuple[Plain, int]]
Writer: TypeAlias = Callable[[Plain, bytearray], None]

_DOUBLE: Final = struct.Struct("<d")
_FLOAT: Final = struct.Struct("<f")
_LONG: Final = range(-(1 << 63), 1 << 63)
_INT: Final = range(-(1 << 31), 1 << 31)
_LONGEST_VARINT: Final = 10  # bytes of seven bits that hold 64
_MILLIS: Final = range(-(10**15), 10**15)  # times a thousand it is still a long

_PRIMITIVES: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class _Names:
    """Named types of one schema, so that a later mention finds the earlier definition."""

    def __init__(self) -> None:
        self._types: dict[str, list[Any]] = {}

    def full(self, schema: JsonSchema, namespace: str) -> tuple[str, str]:
        name = schema["name"]
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
        return (name if "." in name or not space else f"{space}.{name}"), space

    def declare(self, name: str) -> list[Any]:
        return self._types.setdefault(name, [])

    def find(self, name: str, namespace: str) -> list[Any]:
        for candidate in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if candidate in self._types:
                return self._types[candidate]
        raise SchemaError("malformed", f"the writer's schema mentions {name!r}, which it does not define")


def _bad(problem: str) -> SchemaError:
    return SchemaError("malformed", f"the Avro bytes {problem}")


def _cut_short() -> SchemaError:
    return _bad("end too early")


# -------------------------------------------------------------------------------- read


def read_long(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        if at >= len(data):
            raise _cut_short()
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), at
    raise _bad("have an integer of more than 64 bits")


def _read_null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    if at >= len(data):
        raise _cut_short()
    if data[at] > 1:
        raise _bad(f"have {data[at]} for a boolean")
    return data[at] == 1, at + 1


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_long(data, at)
    if value not in _INT:
        raise _bad(f"have {value} for an int of 32 bits")
    return value, at


def _read_millis(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_long(data, at)
    if value not in _MILLIS:
        raise _bad(f"have {value} for a time in milliseconds")
    return value * 1000, at


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    if at + 8 > len(data):
        raise _cut_short()
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    if at + 4 > len(data):
        raise _cut_short()
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = read_long(data, at)
    if length < 0:
        raise _bad("have a negative length")
    if length > len(data) - at:
        raise _cut_short()
    return data[at : at + length], at + length


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    raw, at = _read_bytes(data, at)
    try:
        return raw.decode(), at
    except UnicodeDecodeError:
        raise _bad("have a string that is no UTF-8") from None


def _fixed_reader(size: int) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if at + size > len(data):
            raise _cut_short()
        return data[at : at + size], at + size

    return read


def _enum_reader(symbols: list[str]) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(symbols):
            raise _bad(f"have symbol {index} of an enum of {len(symbols)}")
        return symbols[index], at

    return read


def _union_reader(branches: list[Reader]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Plain, int]:
        index, at = read_long(data, at)
        if not 0 <= index < len(branches):
            raise _bad(f"have branch {index} of a union of {len(branches)}")
        return branches[index](data, at)

    return read


def _blocks(data: bytes, at: int, item: Callable[[int], int]) -> int:
    """Reads the blocks of an array or a map; `item` reads one entry from a place and returns the place behind it."""
    read = 0
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return at
        end = -1
        if count < 0:
            count = -count
            size, at = read_long(data, at)
            end = at + size
            if size < 0 or end > len(data):
                raise _cut_short()
        read += count
        # Entries of no size would cost memory without costing bytes.
        if read > len(data):
            raise _bad("have more entries than bytes")
        for _ in range(count):
            at = item(at)
        if end not in (-1, at):
            raise _bad("have a block that is not as long as it says")


def _array_reader(items: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Plain], int]:
        found: list[Plain] = []

        def item(at: int) -> int:
            value, at = items(data, at)
            found.append(value)
            return at

        return found, _blocks(data, at, item)

    return read


def _map_reader(values: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Plain], int]:
        found: dict[str, Plain] = {}

        def item(at: int) -> int:
            name, at = _read_string(data, at)
            value, at = values(data, at)
            found[name] = value  # of a name that comes twice the last value counts
            return at

        return found, _blocks(data, at, item)

    return read


def _record_reader(fields: list[tuple[str, Reader]]) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Plain], int]:
        found: dict[str, Plain] = {}
        for name, reader in fields:
            found[name], at = reader(data, at)
        return found, at

    return read


_READERS: Final[dict[str, Reader]] = {
    "null": _read_null,
    "boolean": _read_boolean,
    "int": _read_int,
    "long": read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}


def _reader(schema: JsonSchema, names: _Names, space: str) -> Reader:
    if isinstance(schema, list):
        return _union_reader([_reader(branch, names, space) for branch in schema])
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _READERS[schema]
        slot = names.find(schema, space)
        return lambda data, at: slot[0](data, at)
    kind = schema["type"]
    if kind == "array":
        return _array_reader(_reader(schema["items"], names, space))
    if kind == "map":
        return _map_reader(_reader(schema["values"], names, space))
    if kind in ("record", "error", "enum", "fixed"):
        name, space = names.full(schema, space)
        slot = names.declare(name)
        if kind == "enum":
            reader = _enum_reader(schema["symbols"])
        elif kind == "fixed":
            reader = _fixed_reader(schema["size"])
        else:
            reader = _record_reader([(each["name"], _reader(each["type"], names, space)) for each in schema["fields"]])
        slot.append(reader)
        return reader
    if kind == "long" and schema.get("logicalType") == "timestamp-millis":
        return _read_millis
    return _reader(kind, names, space)


def compile_reader(schema: JsonSchema) -> Callable[[bytes, int], Plain]:
    """A function that reads one datum from a place to the end of the bytes. Raises `SchemaError` only."""
    reader = _reader(schema, _Names(), "")

    def read(data: bytes, at: int = 0) -> Plain:
        try:
            datum, at = reader(data, at)
        except RecursionError:
            raise _bad("are nested too deeply") from None
        if at != len(data):
            raise _bad(f"go on for {len(data) - at} bytes after the record")
        return datum

    return read


# -------------------------------------------------------------------------------- write


def write_long(value: int, out: bytearray) -> None:
    rest = (value << 1) ^ (value >> 63)
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _write_bytes(raw: bytes, out: bytearray) -> None:
    write_long(len(raw), out)
    out += raw


def _write_string(text: str, out: bytearray) -> None:
    _write_bytes(text.encode(), out)


_WRITERS: Final[dict[str, Writer]] = {
    "null": lambda datum, out: None,
    "boolean": lambda datum, out: out.append(1 if datum else 0),
    "int": write_long,
    "long": write_long,
    "float": lambda datum, out: out.extend(_FLOAT.pack(datum)),
    "double": lambda datum, out: out.extend(_DOUBLE.pack(datum)),
    "bytes": _write_bytes,
    "string": _write_string,
}

_PYTHON_TYPE: Final[dict[str, type]] = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
    "enum": str,
    "fixed": bytes,
    "array": list,
    "map": dict,
}


def _union_writer(branches: list[tuple[Any, Writer]]) -> Writer:
    """`branches`: for a record the set of its fields, for any other the Python type; and the writer."""
    index_of = {what: (index, writer) for index, (what, writer) in reversed(list(enumerate(branches)))}

    def write(datum: Plain, out: bytearray) -> None:
        what = frozenset(datum) if type(datum) is dict else type(datum)
        index, writer = index_of[what if what in index_of else type(datum)]
        write_long(index, out)
        writer(datum, out)

    return write


def _array_writer(items: Writer) -> Writer:
    def write(datum: Plain, out: bytearray) -> None:
        if datum:
            write_long(len(datum), out)
            for item in datum:
                items(item, out)
        out.append(0)

    return write


def _map_writer(values: Writer) -> Writer:
    def write(datum: Plain, out: bytearray) -> None:
        if datum:
            write_long(len(datum), out)
            for name, value in datum.items():
                _write_string(name, out)
                values(value, out)
        out.append(0)

    return write


def _record_writer(fields: list[tuple[str, Writer]]) -> Writer:
    def write(datum: Plain, out: bytearray) -> None:
        for name, writer in fields:
            writer(datum[name], out)

    return write


def _writer(schema: JsonSchema, names: _Names, space: str) -> tuple[Any, Writer]:
    if isinstance(schema, list):
        return list, _union_writer([_writer(branch, names, space) for branch in schema])
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PYTHON_TYPE[schema], _WRITERS[schema]
        what, writer = names.find(schema, space)
        return what, writer
    kind = schema["type"]
    if kind == "array":
        return list, _array_writer(_writer(schema["items"], names, space)[1])
    if kind == "map":
        return dict, _map_writer(_writer(schema["values"], names, space)[1])
    if kind in ("record", "enum", "fixed"):
        name, space = names.full(schema, space)
        slot = names.declare(name)
        if kind == "enum":
            index_of = {symbol: index for index, symbol in enumerate(schema["symbols"])}
            slot += [str, lambda datum, out: write_long(index_of[datum], out)]
        elif kind == "fixed":
            slot += [bytes, lambda datum, out: out.extend(datum)]
        else:
            fields = [(each["name"], _writer(each["type"], names, space)[1]) for each in schema["fields"]]
            slot += [frozenset(name for name, _ in fields), _record_writer(fields)]
        return slot[0], slot[1]
    return _writer(kind, names, space)


def compile_writer(schema: JsonSchema) -> Writer:
    """A function that appends one datum, which must fit the schema: that is not checked here."""
    return _writer(schema, _Names(), "")[1]
