"""From a schema to the tables that drive the kernels: which field goes into which column, and how to skip the rest.

Columns have the same numbers for all records, so that a canonical record lies where the one lay that it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pastforward.columns.attributes import BOOLEAN, BOX, CIRCLE, FLOAT, INTEGER, PATH, POINT, STRING, TIMESTAMP
from pastforward.schemas.avro_plain import JsonSchema
from pastforward.schemas.definitions import Definition, current
from pastforward.schemas.kernels import columns as op
from pastforward.schemas.kernels import read_avro as kind
from pastforward.schemas.kernels import text as check
from pastforward.schemas.kernels.read_avro import Program as AvroProgram
from pastforward.schemas.kernels.read_json import Program as JsonProgram
from pastforward.schemas.subschema import bare_name, named_types

# Columns of text.
ID: Final = 0  # of the subscription or publication
PARTY: Final = 1  # subscriber or publisher
TOPIC: Final = 2
WHERE: Final = 3
BEST: Final = 4
BODY: Final = 5
NOTIFICATION: Final = 6
SUBSCRIPTION: Final = 7
SUBSCRIPTION_VERSION: Final = 8
EARLIER: Final = 9
VALUE: Final = 10
CONTENT: Final = 11
SET_VERSION: Final = 12
PUBLICATION_VERSION: Final = 13
ENTITY: Final = 14
PAUSE: Final = 15
TEXTS: Final = 16

# Columns of longs.
BEGIN: Final = 0  # published_at or starts_at
END: Final = 1  # expires_at or ends_at
VERSION: Final = 2  # three of them: partition, offset, arrived_at
ORIGIN_PARTITION: Final = 5
ORIGIN_OFFSET: Final = 6
ARRIVED_AT: Final = 7
ROUTING_VERSION: Final = 8
MATCHED_AT: Final = 9
LONGS: Final = 10

# Columns of smalls. 3 and 4 are taken by `where` and `best`.
SELF_JOIN: Final = 0
SCOPE: Final = 1
TIME: Final = 2
SEMANTICS: Final = 5
ORIGIN: Final = 6
BRANCH: Final = 7
ROLE: Final = 8
PHASE: Final = 9
DELIVER: Final = 10
TRANSITIONS: Final = 11  # of a subscription
PAUSED: Final = 12
IS_ENTITY: Final = 13
REPLACED: Final = 14
TRANSITION: Final = 15
SMALLS: Final = 16

# Of an enum that may be null, the first symbol is 1, and 0 stands for null.
FIRST_SYMBOL: Final = {TRANSITION: 1}

Step = tuple[int, int, int]

# Operation, column, and for text the check.
FIELDS: Final[dict[str, dict[str, Step]]] = {
    "subscription": {
        "subscription_id": (op.TEXT, ID, check.ID),
        "subscriber_id": (op.TEXT, PARTY, check.ID),
        "topic": (op.TEXT, TOPIC, check.PATH),
        "scope": (op.ENUM, SCOPE, 0),
        "starts_at": (op.TIME, BEGIN, 0),
        "ends_at": (op.TIME, END, 0),
        "time": (op.ENUM, TIME, 0),
        "where": (op.WHERE, WHERE, 0),
        "semantics": (op.ENUM, SEMANTICS, 0),
        "self_join": (op.FLAG, SELF_JOIN, 0),
        "deliver": (op.ENUM, DELIVER, 0),
        "transitions": (op.FLAG, TRANSITIONS, 0),
        "paused": (op.FLAG, PAUSED, 0),
    },
    "publication": {
        "publication_id": (op.TEXT, ID, check.ID),
        "publisher_id": (op.TEXT, PARTY, check.ID),
        "topic": (op.TEXT, TOPIC, check.PATH),
        "published_at": (op.TIME, BEGIN, 0),
        "expires_at": (op.TIME, END, 0),
        "attributes": (op.ATTRIBUTES, 0, 0),
        "where": (op.WHERE, WHERE, 0),
        "best": (op.BEST, BEST, 0),
        "self_join": (op.FLAG, SELF_JOIN, 0),
        "body": (op.TEXT, BODY, check.BYTES),
        "entity": (op.FLAG, IS_ENTITY, 0),
    },
    "notification": {
        "notification_id": (op.TEXT, NOTIFICATION, check.PLAIN),
        "subscription_id": (op.TEXT, SUBSCRIPTION, check.PLAIN),
        "subscription_version": (op.TEXT, SUBSCRIPTION_VERSION, check.PLAIN),
        "publication_id": (op.TEXT, ID, check.PLAIN),
        "recipient_id": (op.TEXT, PARTY, check.PLAIN),
        "role": (op.ENUM, ROLE, 0),
        "topic": (op.TEXT, TOPIC, check.PATH),
        "published_at": (op.TIME, BEGIN, 0),
        "matched_at": (op.TIME, MATCHED_AT, 0),
        "phase": (op.ENUM, PHASE, 0),
        "earlier_ids": (op.RANGE, EARLIER, 0),
        "value": (op.RANGE, VALUE, 0),
        "content": (op.RANGE, CONTENT, 0),
        "transition": (op.ENUM, TRANSITION, 0),
        "set_version": (op.TEXT, SET_VERSION, check.PLAIN),
        "publication_version": (op.TEXT, PUBLICATION_VERSION, check.PLAIN),
    },
    "rendezvous": {
        "origin": (op.ENUM, ORIGIN, 0),
        "partition": (op.LONG, ORIGIN_PARTITION, 0),
        "offset": (op.LONG, ORIGIN_OFFSET, 0),
        "arrived_at": (op.LONG, ARRIVED_AT, 0),
        "routing_version": (op.LONG, ROUTING_VERSION, 0),
        "partitions": (op.LIST, 0, 0),
        "record": (op.BRANCHES, BRANCH, 0),
    },
    "CanonicalSubscription": {
        "subscription_id": (op.TEXT, ID, check.ID),
        "subscriber_id": (op.TEXT, PARTY, check.ID),
        "version": (op.VERSION, VERSION, 0),
        "topic": (op.TEXT, TOPIC, check.PATH),
        "scope": (op.ENUM, SCOPE, 0),
        "starts_at": (op.TIME, BEGIN, 0),
        "ends_at": (op.TIME, END, 0),
        "time": (op.ENUM, TIME, 0),
        "where": (op.RANGE, WHERE, 0),
        "semantics": (op.ENUM, SEMANTICS, 0),
        "self_join": (op.FLAG, SELF_JOIN, 0),
        "deliver": (op.ENUM, DELIVER, 0),
        "transitions": (op.FLAG, TRANSITIONS, 0),
        "paused": (op.FLAG, PAUSED, 0),
        "set_version": (op.RANGE, SET_VERSION, 0),
        "pause": (op.RANGE, PAUSE, 0),
    },
    "Withdrawal": {
        "subscription_id": (op.TEXT, ID, check.ID),
        "version": (op.VERSION, VERSION, 0),
        "replaced": (op.FLAG, REPLACED, 0),
    },
    "CanonicalPublication": {
        "publication_id": (op.TEXT, ID, check.ID),
        "publisher_id": (op.TEXT, PARTY, check.ID),
        "topic": (op.TEXT, TOPIC, check.PATH),
        "published_at": (op.TIME, BEGIN, 0),
        "expires_at": (op.TIME, END, 0),
        "best": (op.BEST, BEST, 0),
        "self_join": (op.FLAG, SELF_JOIN, 0),
        "attributes": (op.ATTRIBUTES, 0, 0),
        "where": (op.RANGE, WHERE, 0),
        "body": (op.TEXT, BODY, check.BYTES),
        "entity": (op.RANGE, ENTITY, 0),
    },
}

# Branches of a rendezvous record, as they stand in the union of our schema.
TICK: Final = 0
SUBSCRIBE: Final = 1
WITHDRAW: Final = 2
PUBLISH: Final = 3

_SYMBOL_WIDTH: Final = 17  # of the table of symbols: more than any enum that goes into a column has, and a node

_SIMPLE: Final = {
    "null": kind.N_NULL,
    "boolean": kind.N_BOOLEAN,
    "int": kind.N_INT,
    "long": kind.N_LONG,
    "float": kind.N_FLOAT,
    "double": kind.N_DOUBLE,
    "bytes": kind.N_BYTES,
    "string": kind.N_STRING,
}
_VALUES: Final = {"boolean": BOOLEAN, "long": INTEGER, "double": FLOAT, "string": STRING}
_SHAPES: Final = {
    "Timestamp": (TIMESTAMP, ("timestamp",), "long"),
    "Point": (POINT, ("lon", "lat"), "double"),
    "Circle": (CIRCLE, ("lon", "lat", "radius_m"), "double"),
    "Box": (BOX, ("min_x", "min_y", "max_x", "max_y"), "double"),
    "Path": (PATH, ("path",), "string"),
}


class Unsupported(Exception):
    """The kernels cannot read this schema; the plain path can."""


@dataclass
class _Compiler:
    defined: dict[str, JsonSchema]
    own_defined: dict[str, JsonSchema]
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)
    symbols: list[list[int]] = field(default_factory=list)
    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    value_tags: list[int] | None = None
    open: set[str] = field(default_factory=set)

    def resolve(self, schema: JsonSchema) -> JsonSchema:
        """The definition behind a name, the bare type behind one with properties."""
        if isinstance(schema, str) and schema not in _SIMPLE:
            found = self.defined.get(bare_name(schema))
            if found is None:
                raise Unsupported(schema)
            return found
        if isinstance(schema, dict) and schema["type"] in _SIMPLE and schema.get("logicalType") != "timestamp-millis":
            return schema["type"]
        return schema

    def own(self, schema: JsonSchema) -> JsonSchema:
        return self.own_defined[bare_name(schema)] if isinstance(schema, str) else schema

    def node(self, schema: JsonSchema) -> int:
        schema = self.resolve(schema)
        if isinstance(schema, str):
            return self._add(_SIMPLE[schema], 0, 0)
        if isinstance(schema, list):
            return self._family(kind.N_UNION, [self.node(branch) for branch in schema])
        sort = schema["type"]
        if sort == "array":
            return self._add(kind.N_ARRAY, self.node(schema["items"]), 0)
        if sort == "map":
            return self._add(kind.N_MAP, self.node(schema["values"]), 0)
        if sort == "enum":
            return self._add(kind.N_ENUM, len(schema["symbols"]), 0)
        if sort == "fixed":
            return self._add(kind.N_FIXED, schema["size"], 0)
        if sort == "record":
            if schema["name"] in self.open:
                raise Unsupported("a record within itself")
            self.open.add(schema["name"])
            members = [self.node(each["type"]) for each in schema["fields"]]
            self.open.discard(schema["name"])
            return self._family(kind.N_RECORD, members)
        if sort == "long":
            return self._add(kind.N_MILLIS, 0, 0)
        raise Unsupported(str(sort))

    def _add(self, sort: int, first: int, second: int) -> int:
        self.nodes.append((sort, first, second))
        return len(self.nodes) - 1

    def _family(self, sort: int, members: list[int]) -> int:
        self.children += members
        return self._add(sort, len(self.children) - len(members), len(members))

    def table(self, numbers: list[int], last: int = -1) -> int:
        if len(numbers) >= _SYMBOL_WIDTH:
            raise Unsupported("an enum of too many symbols")
        self.symbols.append(numbers + [-1] * (_SYMBOL_WIDTH - 1 - len(numbers)) + [last])
        return len(self.symbols) - 1

    def record(self, name: str, schema: JsonSchema, ours: JsonSchema) -> None:
        """Adds the steps of a record, and END. `ours` is our own schema of it, which says what symbols mean."""
        known = {each["name"]: each["type"] for each in ours["fields"]}
        branches: tuple[int, JsonSchema] | None = None
        for each in schema["fields"]:
            step = FIELDS[name].get(each["name"])
            if branches is not None:
                raise Unsupported("fields behind the branches")
            if step is None:
                self.steps.append((op.SKIP, 0, self.node(each["type"]), -1))
            elif step[0] == op.BRANCHES:
                branches = (len(self.steps), each["type"])
                self.steps.append((op.BRANCHES, step[1], 0, -1))
            else:
                self.field(step, each["type"], known[each["name"]])
        self.steps.append((op.END, 0, 0, 0))
        if branches is not None:
            self._branches(*branches, known["record"])

    def _branches(self, at: int, union: JsonSchema, ours: JsonSchema) -> None:
        starts = []
        for branch, own in zip(union, ours, strict=False):
            if branch == "null" == own:
                starts.append(len(self.steps) - 1)
                continue
            schema, own_schema = self.resolve(branch), self.own(own)
            if own_schema == "null" or bare_name(schema["name"]) != own_schema["name"]:
                raise Unsupported("branches in another order")
            starts.append(len(self.steps))
            self.record(own_schema["name"], schema, own_schema)
        operation, column, _, null = self.steps[at]
        self.steps[at] = (operation, column, self.table(starts), null)

    def field(self, step: Step, schema: JsonSchema, ours: JsonSchema) -> None:
        operation, column, argument = step
        if operation == op.WHERE:
            self._where(column, schema)
            return
        schema, null = self._nullable(schema, operation)
        _, own_null = self._nullable(ours, operation)
        if null >= 0 and own_null < 0:
            raise Unsupported("null for a field that must be there")
        schema = self.resolve(schema)
        if operation == op.TEXT:
            self._expect(schema, "bytes" if argument == check.BYTES else "string")
        elif operation == op.TIME:
            self._expect(schema, "long")
        elif operation == op.LONG:
            argument = 32 if schema == "int" else 64
            if schema != "int":
                self._expect(schema, "long")
        elif operation == op.FLAG:
            self._expect(schema, "boolean")
        elif operation == op.ENUM:
            symbols = self._type(schema, "enum")["symbols"]
            own = self.own(self._nullable(ours, operation)[0])["symbols"]
            first = FIRST_SYMBOL.get(column, 0)
            argument = self.table([first + own.index(symbol) if symbol in own else -1 for symbol in symbols])
        elif operation == op.ATTRIBUTES:
            self._values(self._type(schema, "map")["values"])
        elif operation == op.BEST:
            members = self._type(schema, "record")["fields"]
            if [each["name"] for each in members] != ["attribute", "prefer"]:
                raise Unsupported("other fields of best")
            self._expect(self.resolve(members[0]["type"]), "string")
            if self._type(self.resolve(members[1]["type"]), "enum")["symbols"] != ["highest", "lowest"]:
                raise Unsupported("other symbols of prefer")
        elif operation == op.LIST:
            self._expect(self.resolve(self._type(schema, "array")["items"]), "int")
        elif operation == op.VERSION:
            members = self._type(schema, "record")["fields"]
            if [each["name"] for each in members] != ["partition", "offset", "arrived_at"]:
                raise Unsupported("other fields of version")
        elif operation == op.RANGE:
            argument = self.node(schema)
        self.steps.append((operation, column, argument, null))

    def _where(self, column: int, schema: JsonSchema) -> None:
        if not isinstance(schema, list):
            raise Unsupported("a condition that is no union")
        meanings = []
        for branch in schema:
            resolved = self.resolve(branch)
            if resolved in ("null", "string"):
                meanings.append(0 if resolved == "null" else 1)
            elif isinstance(resolved, dict) and bare_name(resolved.get("name", "")) == "Condition":
                meanings.append(2)
            else:
                raise Unsupported("a condition of another kind")
        self.steps.append((op.WHERE, column, self.table(meanings, self.node(schema)), -1))

    def _nullable(self, schema: JsonSchema, operation: int) -> tuple[JsonSchema, int]:
        if not isinstance(schema, list) or (operation == op.RANGE and len(schema) != 2):
            return schema, -1
        if len(schema) != 2 or "null" not in schema:
            raise Unsupported("a union that is not one of null and another")
        return schema[1 - schema.index("null")], schema.index("null")

    def _values(self, union: JsonSchema) -> None:
        if not isinstance(union, list) or self.value_tags is not None:
            raise Unsupported("values that are no union")
        self.value_tags = []
        for branch in union:
            resolved = self.resolve(branch)
            if isinstance(resolved, str) and resolved in _VALUES:
                self.value_tags.append(_VALUES[resolved])
                continue
            if not isinstance(resolved, dict) or bare_name(resolved.get("name", "")) not in _SHAPES:
                raise Unsupported("values of another kind")
            tag, names, base = _SHAPES[bare_name(resolved["name"])]
            if tuple(each["name"] for each in resolved["fields"]) != names:
                raise Unsupported("a shape with other fields")
            for each in resolved["fields"]:
                self._expect(self.resolve(each["type"]), base)
            self.value_tags.append(tag)

    def _expect(self, schema: JsonSchema, wanted: str) -> None:
        if schema != wanted:
            raise Unsupported(f"not {wanted}")

    def _type(self, schema: JsonSchema, wanted: str) -> dict[str, Any]:
        if not isinstance(schema, dict) or schema["type"] != wanted:
            raise Unsupported(f"not {wanted}")
        return schema


@cache
def avro_program(definition: Definition) -> AvroProgram | None:
    """None if the kernels cannot read what was written under this definition."""
    ours = current(definition.name).schema
    if not isinstance(definition.schema, dict) or definition.schema.get("type") != "record":
        return None
    compiler = _Compiler(named_types(definition.schema), named_types(ours))
    try:
        compiler.record(definition.name, definition.schema, ours)
    except Unsupported:
        return None
    return AvroProgram(
        np.array(compiler.steps, dtype=np.int32).reshape(-1, 4),
        np.array(compiler.symbols, dtype=np.int32).reshape(-1, _SYMBOL_WIDTH),
        np.array(compiler.nodes, dtype=np.int32).reshape(-1, 3),
        np.array(compiler.children, dtype=np.int32),
        np.array(compiler.value_tags or [], dtype=np.uint8),
    )


@cache
def json_program(name: str) -> JsonProgram:
    """For the records that come as JSON, from our own schema."""
    fields: list[str] = []
    steps: list[tuple[int, int, int, int]] = []
    symbols: list[str] = []
    rows: list[tuple[int, int]] = []
    for each in current(name).schema["fields"]:
        operation, column, argument = FIELDS[name][each["name"]]
        if operation == op.RANGE:
            continue
        nullable = isinstance(each["type"], list) and "null" in each["type"]
        if operation == op.ENUM:
            argument = len(rows)
            kind = each["type"][1] if nullable else each["type"]
            rows.append((len(symbols), len(symbols) + len(kind["symbols"])))
            symbols += kind["symbols"]
        fields.append(each["name"])
        steps.append((operation, column, argument, 0 if nullable else -1))
    return JsonProgram(
        _bytes(fields), _ends(fields), np.array(steps, dtype=np.int32), _bytes(symbols), _ends(symbols),
        np.array(rows or [(0, 0)], dtype=np.int64),
    )  # fmt: skip


def _bytes(words: list[str]) -> npt.NDArray[np.uint8]:
    return np.frombuffer("".join(words).encode(), dtype=np.uint8).copy()


def _ends(words: list[str]) -> npt.NDArray[np.int64]:
    return np.cumsum([len(word) for word in words], dtype=np.int64)
