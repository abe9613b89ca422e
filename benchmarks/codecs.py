"""Codecs side by side: microseconds a record, in chunks, for a publication with ten attributes. One core, best of several rounds.

`python -m pastforward.benchmarks.codecs`; `--records` sets the size of a chunk. All contenders read the same records in the same run.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import time
from collections.abc import Callable
from typing import Any

import avro.io
import avro.schema
import click
import fastavro
import numpy as np
import orjson
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from rich.console import Console
from rich.table import Table

from pastforward import schemas
from pastforward.columns.texts import Texts
from pastforward.matching.conditions.values import Point
from pastforward.schemas import (
    Content,
    Notification,
    NotificationColumns,
    Publication,
    Rendezvous,
    encode_notifications,
)
from pastforward.schemas.codec import to_json
from pastforward.schemas.contents import contents_of, encode_contents
from pastforward.schemas.definitions import canonical_form, current
from pastforward.schemas.plain import plain_content, plain_record
from pastforward.streams.stages import sha256
from pastforward.streams.stages.frames import frames

HEADER = 10  # bytes of the single-object encoding before the record
_ROUNDS = 5  # at least


def publications(count: int) -> list[Publication]:
    draw = random.Random(1)
    begin = 1_700_000_000_000_000
    return [
        Publication(
            f"publication-{number}",
            "camera-17",
            f"{draw.randint(1, 4)}.{draw.randint(1, 4)}.{draw.randint(1, 40)}",
            begin + number,
            begin + number + 60_000_000,
            {
                "kind": draw.choice(["accident", "jam", "roadwork"]),
                "severity": draw.randint(0, 5),
                "speed": draw.random() * 130,
                "road": f"I-{draw.randint(1, 99)}",
                "lane": draw.randint(1, 4),
                "place": Point(draw.uniform(-180, 180), draw.uniform(-90, 90)),
                "wet": draw.random() < 0.3,
                "vehicles": draw.randint(1, 9),
                "temperature": round(draw.gauss(12, 8), 1),
                "source": f"camera-{draw.randint(1, 500)}",
            },
        )
        for number in range(count)
    ]


def notifications(count: int) -> tuple[list[Notification], NotificationColumns]:
    records = [
        Notification(
            f"{number:032x}", f"subscription-{number}", "2-1735", f"publication-{number}", "anna", "subscriber", "1.4.2", 5, 6, "live"
        )
        for number in range(count)
    ]  # fmt: skip
    zeros, times = np.zeros(count, dtype=np.uint8), np.full(count, 5, dtype=np.int64)
    columns = NotificationColumns(
        _texts(records, "notification_id"),
        _texts(records, "subscription_id"),
        _texts(records, "subscription_version"),
        _texts(records, "publication_id"),
        _texts(records, "recipient_id"),
        zeros,
        _texts(records, "topic"),
        times,
        times + 1,
        zeros + 1,
        {},
        {},
    )
    return records, columns


def _texts(records: list[Notification], name: str) -> Texts:
    return Texts.of([getattr(record, name).encode() for record in records])


def best_of(action: Callable[[], object], records: int, seconds: float) -> float:
    """Microseconds of processor time a record, so that neighbours on the machine count little; the best of some rounds."""
    action()  # kernels are loaded
    best = float("inf")
    rounds = 0
    end = time.perf_counter() + seconds
    while rounds < _ROUNDS or time.perf_counter() < end:
        begin = time.thread_time_ns()
        action()
        best = min(best, time.thread_time_ns() - begin)
        rounds += 1
    return best / records / 1e3


def contenders(count: int) -> dict[str, dict[str, tuple[Callable[[], object], int]]]:
    """By what is done: who does it, and on how many records."""
    records = publications(count)
    few = records[: max(1, count // 10)]  # the slow ones need not see all of them
    keys: list[bytes | None] = [(record.publication_id or "").encode() for record in records]
    values = [schemas.encode(record) for record in records]
    texts = [schemas.encode(record, "json") for record in records]
    offset = np.arange(count, dtype=np.int64)
    form = canonical_form(current("publication").schema)
    apache = avro.schema.parse(form)
    fast: Any = fastavro.parse_schema(json.loads(form))
    plain = [plain_record(record) for record in records]
    columns = schemas.decode_publications(keys, list(values), 0, offset, offset)
    start, partitions = np.arange(count + 1, dtype=np.int64), np.zeros(count, dtype=np.int32)
    handed_on, _ = schemas.encode_rendezvous_publications(columns, offset, 1, start, partitions, {})
    canonical = [
        Rendezvous("publications", 0, row, row, 1, (0,), schemas.canonical_publication(record, 0, row, row, None))
        for row, record in enumerate(few)
    ]

    def apache_read() -> object:
        reader = avro.io.DatumReader(apache)
        return [reader.read(avro.io.BinaryDecoder(io.BytesIO(value[HEADER:]))) for value in values[: len(few)]]

    def apache_write() -> None:
        writer = avro.io.DatumWriter(apache)
        for each in plain[: len(few)]:
            writer.write(each, avro.io.BinaryEncoder(io.BytesIO()))

    def fastavro_read() -> object:
        return [fastavro.schemaless_reader(io.BytesIO(value[HEADER:]), fast, fast) for value in values]

    def fastavro_write() -> None:
        for each in plain:
            fastavro.schemaless_writer(io.BytesIO(), fast, each)

    return {
        "publications, Avro to columns": {
            "apache avro (to dicts)": (apache_read, len(few)),
            "fastavro (to dicts)": (fastavro_read, count),
            "one by one": (lambda: [schemas.decode_publication(None, value) for value in values[: len(few)]], len(few)),
            "chunks": (lambda: schemas.decode_publications(keys, values, 0, offset, offset), count),
        },
        "publications, JSON to columns": {
            "orjson (to dicts, unchecked)": (lambda: [orjson.loads(value) for value in texts], count),
            "one by one": (lambda: [schemas.decode_publication(None, value) for value in texts[: len(few)]], len(few)),
            "chunks": (lambda: schemas.decode_publications(keys, texts, 0, offset, offset), count),
        },
        "publications, to Avro": {
            "apache avro (from dicts)": (apache_write, len(few)),
            "fastavro (from dicts)": (fastavro_write, count),
            "one by one": (lambda: [schemas.encode(record) for record in few], len(few)),
        },
        "rendezvous of publications, columns to Avro": {
            "one by one": (lambda: [schemas.encode(record) for record in canonical], len(few)),
            "chunks": (
                lambda: schemas.encode_rendezvous_publications(columns, offset, 1, start, partitions, {}),
                count,
            ),
        },
        "rendezvous of publications, Avro to columns": {
            "one by one": (lambda: [schemas.decode_rendezvous(value) for value in handed_on[: len(few)]], len(few)),
            "chunks": (lambda: schemas.decode_rendezvous_chunk(handed_on), count),
        },
    }


def notified(count: int) -> dict[str, dict[str, tuple[Callable[[], object], int]]]:
    """The same of notifications."""
    records, columns = notifications(count)
    few = records[: max(1, count // 10)]
    written = schemas.encode_notifications(columns)
    return {
        "notifications, columns to Avro": {
            "one by one": (lambda: [schemas.encode(record) for record in few], len(few)),
            "chunks": (lambda: schemas.encode_notifications(columns), count),
        },
        "notifications, columns to JSON": {
            "one by one": (lambda: [schemas.encode(record, "json") for record in few], len(few)),
            "chunks": (lambda: schemas.encode_notifications(columns, "json"), count),
        },
        "notifications, Avro to columns": {
            "one by one": (lambda: [schemas.decode_notification(value) for value in written[: len(few)]], len(few)),
            "chunks": (lambda: schemas.decode_notifications(written), count),
        },
    }


def outgoing(count: int) -> dict[str, dict[str, tuple[Callable[[], object], int]]]:
    """What stands between a match and the broker: content, ids, batches; beside it what was there before kernels."""
    records, offset = publications(count), np.arange(count, dtype=np.int64)
    carried = [Content(record.attributes, None, None, record.publisher_id, record.expires_at) for record in records]
    contents = contents_of(carried)
    values = encode_notifications(notifications(count)[1])
    text = Texts.of(values)
    names = [(record.publication_id or "").encode() for record in records]
    name, version, topic = Texts.of(names), Texts.of([b"2-1735"] * count), Texts.of([b"1.4.2"] * count)
    parts = (name.for_kernel(), version.for_kernel()), (name.for_kernel(), topic.for_kernel())
    scratch, ids = np.empty(1024, np.uint8), np.empty(sha256.ID * count, np.uint8)

    def hashed() -> object:
        return [
            hashlib.sha256(b"%b\0%b\0%b\0%b" % (each, b"2-1735", each, b"1.4.2")).hexdigest()[:32] for each in names
        ]

    def appended() -> None:
        builder = DefaultRecordBatchBuilder(2, 0, 1, 1, 0, 0, 1 << 30)
        for number, (key, value) in enumerate(list(zip(name, text, strict=True))):
            builder.append(number, None, key, value, [])

    return {
        "contents, columns to Avro": {
            "fields one by one": (lambda: [plain_content(content) for content in carried], count),
            "chunks": (lambda: encode_contents(contents, offset, "avro"), count),
        },
        "contents, columns to JSON": {
            "orjson one by one": (lambda: [to_json(plain_content(content)) for content in carried], count),
            "chunks": (lambda: encode_contents(contents, offset, "json"), count),
        },
        "ids of notifications": {
            "hashlib": (hashed, count),
            "chunks": (lambda: sha256.notification_ids(scratch, ids, offset, offset, *parts, ids[:0]), count),
        },
        "batches for the broker": {
            "objects, and aiokafka's append": (appended, count),
            "chunks": (lambda: list(frames(name, text)), count),
        },
    }


def measure(records: int, seconds: float) -> list[dict[str, Any]]:
    return [
        {"task": task, "contender": name, "records": count, "us_per_record": best_of(action, count, seconds)}
        for task, rows in {**contenders(records), **notified(records), **outgoing(records)}.items()
        for name, (action, count) in rows.items()
    ]


@click.command(help=__doc__)
@click.option("--records", type=click.IntRange(1), default=4096, show_default=True, help="Records in a chunk.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="How long each contender is measured.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of a table.")
def main(records: int, seconds: float, as_json: bool) -> None:
    results = measure(records, seconds)
    if as_json:
        for result in results:
            click.echo(json.dumps(result))
        return
    table = Table(title=f"Codecs, chunks of {records}, publications with 10 attributes")
    for column, justify in (
        ("task", "left"),
        ("contender", "left"),
        ("us a record", "right"),
        ("against chunks", "right"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    ours = {result["task"]: result["us_per_record"] for result in results if result["contender"] == "chunks"}
    last = ""
    for result in results:
        task, cost = result["task"], result["us_per_record"]
        ratio = f"{cost / ours[task]:.1f}x" if task in ours else ""
        table.add_row(task if task != last else "", result["contender"], f"{cost:.2f}", ratio)
        last = task
    Console().print(table)


if __name__ == "__main__":
    main()
