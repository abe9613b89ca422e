"""Parts of a schema that stand alone: names that were defined elsewhere in the whole are defined where first mentioned."""

from __future__ import annotations

from pastforward.schemas.avro_plain import JsonSchema


def named_types(schema: JsonSchema) -> dict[str, JsonSchema]:
    """All records, enums and fixed types of a schema by their bare names."""
    found: dict[str, JsonSchema] = {}
    _collect(schema, found)
    return found


def _collect(schema: JsonSchema, found: dict[str, JsonSchema]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found.setdefault(bare_name(schema["name"]), schema)
        for key in ("type", "items", "values"):
            if key in schema:
                _collect(schema[key], found)
        for each in schema.get("fields", ()):
            _collect(each["type"], found)


def bare_name(name: str) -> str:
    return name.rpartition(".")[2]


def field_type(schema: JsonSchema, name: str, named: dict[str, JsonSchema]) -> JsonSchema:
    """The type of a field of a record, able to stand alone."""
    return standalone(next(each["type"] for each in schema["fields"] if each["name"] == name), named, set())


def standalone(schema: JsonSchema, named: dict[str, JsonSchema], done: set[str]) -> JsonSchema:
    if isinstance(schema, list):
        return [standalone(branch, named, done) for branch in schema]
    if isinstance(schema, str):
        if bare_name(schema) not in named or bare_name(schema) in done:
            return schema
        return standalone(named[bare_name(schema)], named, done)
    copy = dict(schema)
    if "name" in copy:
        if bare_name(copy["name"]) in done:
            return copy["name"]
        done.add(bare_name(copy["name"]))
    for key in ("items", "values"):
        if key in copy:
            copy[key] = standalone(copy[key], named, done)
    if "fields" in copy:
        copy["fields"] = [{**each, "type": standalone(each["type"], named, done)} for each in copy["fields"]]
    return copy
