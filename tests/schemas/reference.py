"""Other people's Avro, to hold ours against: the apache package is the reference, fastavro a second opinion.

Writing is fastavro's alone: of a union the apache package writes a boolean as a double.
"""

from __future__ import annotations

import io
import json
from typing import Any

import avro.io
import avro.schema
import fastavro

from pastforward.schemas.definitions import canonical_form, current

# Without logical types, so that a time stays the integer that it is in the bytes.
_APACHE: dict[str, Any] = {}
_FAST: dict[str, Any] = {}


def _apache(name: str) -> Any:
    if name not in _APACHE:
        _APACHE[name] = avro.schema.parse(canonical_form(current(name).schema))
    return _APACHE[name]


def _fast(name: str) -> Any:
    if name not in _FAST:
        _FAST[name] = fastavro.parse_schema(json.loads(canonical_form(current(name).schema)))
    return _FAST[name]


def apache_read(name: str, body: bytes) -> Any:
    return avro.io.DatumReader(_apache(name)).read(avro.io.BinaryDecoder(io.BytesIO(body)))


def fastavro_write(name: str, plain: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _fast(name), plain)
    return out.getvalue()


def fastavro_read(name: str, body: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(body), _fast(name))
