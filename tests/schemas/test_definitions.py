"""The `.avsc` files themselves."""

from __future__ import annotations

import json
from typing import Any

import avro.compatibility
import avro.schema
import fastavro.schema
import pytest

from pastforward.schemas.definitions import FOLDER, NAMES, canonical_form, current, released
from pastforward.schemas.fingerprint import crc_64_avro
from pastforward.schemas.subschema import named_types

# A released copy stands for records that lie on somebody's topics: it never changes. One line for each.
RELEASED = {
    ("subscription", 1): "22e61cb4f702773f",
    ("subscription", 2): "f1b66551223b8a05",
    ("publication", 1): "0b989fca1fba1d60",
    ("notification", 1): "cbac867df38e1191",
    ("notification", 2): "a7b5133342483607",
    ("dead_letter", 1): "5ab9ba572af7ad01",
    ("backfill_request", 1): "6f2a801bb451c6c6",
    ("backfill_request", 2): "d1ce7bbefe4d92f0",
    ("backfill_request", 3): "a9cea3c01ff1d0db",
    ("rendezvous", 1): "79ae8a07a88898c8",
    ("rendezvous", 2): "e9863aeaa37817c8",
    ("subscription", 3): "044cb7a4fea5577f",
    ("publication", 2): "766900beedf04c9d",
    ("notification", 3): "ac139f9f44a37fd2",
    ("backfill_request", 4): "0d551a973c8a991a",
    ("rendezvous", 3): "5bb765e548dc066c",
    ("best_offer", 1): "fb7b542cbb915e06",
}


def _records(name: str) -> list[dict[str, Any]]:
    return [each for each in named_types(current(name).schema).values() if each["type"] == "record"]


def test_every_schema_file_is_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.avsc")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_type_and_field_is_explained(name: str) -> None:
    for each in named_types(current(name).schema).values():
        assert each["doc"].endswith("."), each["name"]
        for field in each.get("fields", ()):
            assert field["doc"].endswith("."), f"{each['name']}.{field['name']}"


@pytest.mark.parametrize("name", NAMES)
def test_every_field_that_may_be_null_has_a_default(name: str) -> None:
    for each in _records(name):
        for field in each["fields"]:
            if isinstance(field["type"], list) and "null" in field["type"]:
                assert field["type"][0] == "null", f"{each['name']}.{field['name']}"
                assert field["default"] is None, f"{each['name']}.{field['name']}"


def test_a_type_is_the_same_wherever_it_occurs() -> None:
    seen: dict[str, str] = {}
    for name in NAMES:
        named = named_types(current(name).schema)
        for each in named:
            # Later mentions are by name: spelling all of them out makes definitions comparable.
            spelled = repr(_spelled(named[each], named))
            assert seen.setdefault(each, spelled) == spelled, each


def _spelled(schema: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_spelled(branch, named) for branch in schema]
    if isinstance(schema, str):
        return _spelled(named[schema], named) if schema in named else schema
    return {
        key: [{**field, "type": _spelled(field["type"], named)} for field in value]
        if key == "fields"
        else _spelled(value, named)
        if key in ("items", "values")
        else value
        for key, value in schema.items()
        if key != "namespace"
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_fingerprint_is_avros(name: str) -> None:
    definition = current(name)
    form = fastavro.schema.to_parsing_canonical_form(definition.schema)
    # fastavro prints the eight bytes as they stand in the single-object encoding.
    assert definition.fingerprint.hex() == fastavro.schema.fingerprint(form, "CRC-64-AVRO")
    assert canonical_form(definition.schema) == form


def test_the_fingerprint_of_the_specifications_example() -> None:
    assert crc_64_avro(b'"null"') == 0x63DD24E7CC258F8A
    assert crc_64_avro(b'"string"') == 0x8F014872634503C7


# --------------------------------------------------------------------------------------------------------- compatibility


def incompatibilities(reader: str, writer: str) -> list[str]:
    """What keeps a reader from reading what the writer wrote."""
    result = avro.compatibility.ReaderWriterCompatibilityChecker().get_compatibility(
        avro.schema.parse(reader), avro.schema.parse(writer)
    )
    if result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return []
    return list(result.messages) or ["incompatible"]


@pytest.mark.parametrize("name", NAMES)
def test_the_current_schema_reads_every_released_one(name: str) -> None:
    for number, old in enumerate(released(name), 1):
        problems = incompatibilities(current(name).text, old.text)
        assert not problems, (
            f"schemas/{name}.avsc cannot read what was written under schemas/history/{name}.{number}.avsc: {'; '.join(problems)}. "
            "Give new fields a default, keep old fields' types and symbols; what must change goes into a new field."
        )


@pytest.mark.parametrize("name", NAMES)
def test_the_current_schema_is_released(name: str) -> None:
    copies = released(name)
    assert copies, f"no copy of {name}: cp schemas/{name}.avsc schemas/history/{name}.1.avsc"
    assert copies[-1].text == current(name).text, (
        f"schemas/{name}.avsc has changed. If the test above says that it is compatible: "
        f"cp schemas/{name}.avsc schemas/history/{name}.{len(copies) + 1}.avsc, and add its fingerprint "
        f"{current(name).fingerprint.hex()} to RELEASED in {__file__}."
    )


def test_released_schemas_never_change() -> None:
    found = {
        (name, number): definition.fingerprint.hex()
        for name in NAMES
        for number, definition in enumerate(released(name), 1)
    }
    assert found == RELEASED


def _changed(name: str, **changes: Any) -> str:
    schema = json.loads(current(name).text)
    for field, change in changes.items():
        place = next(index for index, each in enumerate(schema["fields"]) if each["name"] == field)
        schema["fields"][place] = change
    return json.dumps(schema)


def test_the_check_notices_incompatible_changes() -> None:
    old = current("subscription").text
    other_type = {"name": "topic", "type": "long", "doc": "", "default": 0}
    without_default = {"name": "region", "type": "string", "doc": ""}
    fewer_symbols = {
        "name": "scope",
        "type": {"type": "enum", "name": "Scope", "symbols": ["overlap"]},
        "default": "overlap",
    }
    assert incompatibilities(_changed("subscription", topic=other_type), old)
    assert incompatibilities(_changed("subscription", topic=without_default), old)
    assert incompatibilities(_changed("subscription", scope=fewer_symbols), old)
    assert not incompatibilities(_changed("subscription", topic={**without_default, "default": ""}), old)
