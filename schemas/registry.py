"""A Confluent schema registry, by confluent-kafka's client. Subjects are `<topic>-value`, as Confluent's own serialisers name them.

Schemas are looked up once for each id and kept: an id never changes its meaning. One instance may serve several threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from pastforward.schemas.definitions import NAMES, Definition, current
from pastforward.schemas.errors import RegistryUnavailable, SchemaError

# For an id that the registry does not know: a sender that makes ids up must not cost a request for each record, while
# a schema that is registered a little later shall be found.
_RETRY_UNKNOWN_AFTER_S: Final = 30.0
_MOST_UNKNOWN: Final = 10_000


class SchemaRegistry:
    """`topics` gives the topic of each kind of record, with its prefix; `client` is for tests."""

    def __init__(
        self,
        url: str,
        topics: Mapping[str, str],
        client: SchemaRegistryClient | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        unknown = set(topics) - set(NAMES)
        if unknown:
            raise ValueError(f"no such records: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        self._url = url
        self._client = SchemaRegistryClient.new_client({"url": url}) if client is None else client
        self._topics = dict(topics)
        self._found: dict[tuple[str, int], Definition] = {}
        self._unknown: dict[int, float] = {}
        self._ids: dict[str, int] = {}
        self._clock = clock

    def register(self) -> dict[str, int]:
        """Registers the current schemas; the registry refuses one that is not compatible. Returns their ids."""
        return {name: self.schema_id(name) for name in self._topics}

    def schema_id(self, name: str) -> int:
        if name not in self._ids:
            schema = Schema(current(name).text, "AVRO")
            try:
                self._ids[name] = int(self._client.register_schema(f"{self._topics[name]}-value", schema))
            except SchemaRegistryError as error:
                raise RegistryUnavailable(
                    f"the registry {self._url} refuses the schema of a {name}: {error}"
                ) from error
            except Exception as error:  # of the HTTP client, which differs between versions
                raise RegistryUnavailable(f"the registry {self._url} does not answer: {error}") from error
        return self._ids[name]

    def definition(self, name: str, schema_id: int) -> Definition:
        found = self._found.get((name, schema_id))
        if found is None:
            found = self._fetch(name, schema_id)
            self._found[name, schema_id] = found
        return found

    def _fetch(self, name: str, schema_id: int) -> Definition:
        if self._clock() < self._unknown.get(schema_id, -1.0):
            raise _no_such_id(schema_id)
        try:
            schema = self._client.get_schema(schema_id)
        except SchemaRegistryError as error:
            if error.http_status_code != 404:
                raise RegistryUnavailable(f"the registry {self._url} gave an error: {error}") from error
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[schema_id] = self._clock() + _RETRY_UNKNOWN_AFTER_S
            raise _no_such_id(schema_id) from None
        except Exception as error:  # of the HTTP client, which differs between versions
            raise RegistryUnavailable(f"the registry {self._url} does not answer: {error}") from error
        text = schema.schema_str
        if schema.schema_type != "AVRO" or text is None:
            raise SchemaError("malformed", f"schema {schema_id} of the registry is {schema.schema_type}, not AVRO")
        definition = Definition(name, text)
        _check_record(definition, schema_id)
        return definition


def _no_such_id(schema_id: int) -> SchemaError:
    return SchemaError("malformed", f"the registry has no schema {schema_id}: register it before sending")


def _check_record(definition: Definition, schema_id: int) -> None:
    """Compiles the reader. What senders register is input too: anything may be wrong with it."""
    try:
        record = isinstance(definition.schema, dict) and definition.schema.get("type") == "record"
        if record and callable(definition.read):
            return
        problem = "is no record"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"cannot be read: {error}"
    raise SchemaError("malformed", f"schema {schema_id} of the registry {problem}")
