"""Publications that a matcher has refused: the router has taken them, so they are in the table, but nobody is notified of them.

A matcher writes a dead letter with its record of the rendezvous log, whose first fields name the publication and the partitions it went
to. Dead letters are kept for a week, the history for ever: so ingest and backfill copy what matters of them into a table, and then note up
to where they have read. Whoever is killed in between, or reads the same letters at the same time, adds the same rows again.

A publication that all its partitions have refused is in no job's rows (`read_taken`). What only some of them have refused is left
out of the answers to their own requests; a later version of the routing, which writes no letters for what the earlier one has read, takes
the earlier one's word for it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import fastavro

from pastforward import topics
from pastforward.schemas import Registry, SchemaError, decode_dead_letter
from pastforward.schemas.codec import SINGLE_OBJECT
from pastforward.schemas.definitions import Definition, by_fingerprint
from pastforward.settings import Settings
from pastforward.spark_batch.kafka import read_topic
from pastforward.spark_batch.notes import Note
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.tables import REFUSED, Places, exists, read_publications, spark_schema
from pastforward.topics import Topics

_FINGERPRINT: Final = slice(2, 10)
_RENDEZVOUS: Final = "rendezvous"
_LETTER_BEGINS: Final = 512  # bytes of a letter that its first field, the name of a topic, lies in


class Refusal(NamedTuple):
    """By a partition of the rendezvous log of a version of the routing. `partitions`: all that the publication was sent to."""

    version: int
    rendezvous_partition: int
    partition: int
    offset: int
    partitions: tuple[int, ...]


def learn(spark: Any, settings: Settings, bootstrap: str, places: Places, registry: Registry | None) -> None:
    """Reads the dead letters that have come since they were last read."""
    topic = Topics(settings.topic_prefix).dead_letters
    if topic not in topics.existing(topics.connect(settings, bootstrap)):
        return  # no worker has run yet
    note = Note(spark, places, "letters")
    read = {int(partition): int(at) for partition, at in (note.read() or {}).get(topic, {}).items()}
    reached = dict(read)
    found: list[Refusal] = []
    for message in read_topic(settings, bootstrap, topic, lambda partition: read.get(partition, 0)):
        reached[message.partition()] = message.offset() + 1
        found += refusals_in(settings.topic_prefix, [message.value()], registry)
    if found:
        rows = spark.createDataFrame([tuple(each) for each in found], spark_schema(REFUSED))
        rows.coalesce(1).write.format("delta").mode("append").save(places.refused)
    if reached != read:
        note.write({topic: reached})


def refusals_in(prefix: str, letters: Iterable[bytes | None], registry: Registry | None) -> list[Refusal]:
    """Publications that matchers have refused, among all letters."""
    found: list[Refusal] = []
    for value in letters:
        if value is None or _RENDEZVOUS.encode() not in value[:_LETTER_BEGINS]:
            continue
        try:
            letter = decode_dead_letter(value, registry)
        except SchemaError:
            continue  # not written by a worker
        name, _, version = letter.topic.removeprefix(prefix).partition("-")
        origin = _origin(letter.value or b"")
        if name == _RENDEZVOUS and (not version or version.isdigit()) and origin is not None:
            found.append(Refusal(int(version or 1), letter.partition, origin[0], origin[1], origin[2]))
    return found


def _origin(value: bytes) -> tuple[int, int, tuple[int, ...]] | None:
    """Partition and offset of the publication, and where it was sent. A letter has the first MiB of a record, so it may be cut."""
    definition = by_fingerprint(_RENDEZVOUS).get(value[_FINGERPRINT]) if value.startswith(SINGLE_OBJECT) else None
    if definition is None:
        return None
    try:
        read: Any = fastavro.schemaless_reader(io.BytesIO(value[_FINGERPRINT.stop :]), _beginning(definition), None)
    except (EOFError, ValueError, IndexError):
        return None  # no record of a router
    if read["origin"] != "publications":
        return None
    return read["partition"], read["offset"], tuple(read["partitions"])


@cache
def _beginning(definition: Definition) -> Any:
    """The schema of a record that ends before what it carries."""
    fields = definition.schema["fields"]
    return {**definition.schema, "fields": fields[: [each["name"] for each in fields].index("record")]}


def refusals(spark: Any, places: Places) -> list[Refusal]:
    """Each once."""
    if not exists(spark, places.refused):
        return []
    rows = spark.read.format("delta").load(places.refused).collect()
    return sorted({Refusal(**{**row.asDict(), "partitions": tuple(row["partitions"])}) for row in rows})


def refused_by_all(found: Sequence[Refusal]) -> list[tuple[int, int]]:
    """Partition and offset of publications that all their partitions have refused, under some version."""
    by: dict[tuple[int, int, int], set[int]] = {}
    for each in found:
        by.setdefault((each.version, each.partition, each.offset), set()).add(each.rendezvous_partition)
    whole = {(each.version, each.partition, each.offset): set(each.partitions) for each in found}
    return sorted({place[1:] for place, refusing in by.items() if refusing >= whole[place]})


def taken(spark: Any, places: Places, rows: Any) -> Any:
    """Rows of the table without those that all have refused."""
    return _without(spark, rows, refused_by_all(refusals(spark, places)), ["partition", "offset"])


def read_taken(spark: Any, places: Places) -> Any:
    return taken(spark, places, read_publications(spark, places))


def without_refused(spark: Any, pairs: Any, requests: Sequence[Open], found: Sequence[Refusal]) -> Any:
    """Pairs without publications that the partition of the request has refused. `asked`: the number of the request, all of one version."""
    here = [each.request.rendezvous_partition for each in requests]
    version = max((each.request.routing_version for each in requests), default=0)
    refused = {
        (partition, each.partition, each.offset)
        for each in found
        for partition in set(here)
        if each.version < version or (each.version, each.rendezvous_partition) == (version, partition)
    }
    if not refused:
        return pairs
    asked = _frame(spark, list(enumerate(here)), ["asked", "rendezvous_partition"])
    names = ["rendezvous_partition", "partition", "offset"]
    return _without(spark, pairs.join(asked, "asked"), sorted(refused), names).select(*pairs.columns)


def _without(spark: Any, rows: Any, gone: Sequence[tuple[int, ...]], names: list[str]) -> Any:
    return rows.join(_frame(spark, gone, names), names, "leftanti").select(*rows.columns) if gone else rows


def _frame(spark: Any, rows: Sequence[tuple[int, ...]], names: list[str]) -> Any:
    from pyspark.sql import functions as f

    types = {name: "bigint" if name == "offset" else "int" for name in names}
    return f.broadcast(spark.createDataFrame(list(rows), ", ".join(f"{name} {types[name]}" for name in names)))
