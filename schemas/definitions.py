"""The `.avsc` files: the current schema of each record, and all that were ever released, found by their fingerprints.

`schemas/<name>.avsc` is what we write. `schemas/history/<name>.<number>.avsc` are released copies, which never change:
a record written under any of them can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from fastavro.schema import to_parsing_canonical_form

from pastforward.schemas.avro_plain import JsonSchema, Plain, Writer, compile_reader, compile_writer
from pastforward.schemas.fingerprint import crc_64_avro

FOLDER: Final = Path(__file__).parent
HISTORY: Final = FOLDER / "history"
NAMES: Final = (
    "subscription",
    "publication",
    "notification",
    "dead_letter",
    "backfill_request",
    "rendezvous",
    "best_offer",
)


@dataclass(frozen=True)
class Definition:
    """One version of the schema of one record. Readers and writers are compiled when first used."""

    name: str
    text: str

    @cached_property
    def schema(self) -> JsonSchema:
        return json.loads(self.text)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes, as they stand in the single-object encoding."""
        return crc_64_avro(canonical_form(self.schema).encode()).to_bytes(8, "little")

    @cached_property
    def read(self) -> Callable[[bytes, int], Plain]:
        return compile_reader(self.schema)

    @cached_property
    def write(self) -> Writer:
        return compile_writer(self.schema)


def canonical_form(schema: JsonSchema) -> str:
    """Avro's parsing canonical form: what the fingerprint is taken of."""
    form: Any = to_parsing_canonical_form(schema)
    return str(form)


@cache
def current(name: str) -> Definition:
    return Definition(name, (FOLDER / f"{name}.avsc").read_text(encoding="utf-8"))


@cache
def released(name: str) -> tuple[Definition, ...]:
    """The copies in the history, oldest first."""
    found = {int(path.name.split(".")[1]): path for path in HISTORY.glob(f"{name}.*.avsc")}
    return tuple(Definition(name, found[number].read_text(encoding="utf-8")) for number in sorted(found))


@cache
def by_fingerprint(name: str) -> dict[bytes, Definition]:
    return {each.fingerprint: each for each in (*released(name), current(name))}
