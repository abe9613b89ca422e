"""What the workers are held against, each in a process of its own: `python -m pastforward.benchmarks.stream_stock KIND BOOTSTRAP TOPIC N`.

`consumer`: a bare confluent-kafka consumer that does nothing with what it reads. `faust`: a stock Faust agent that only decodes each
record, Avro with fastavro, JSON with orjson. Both print the records a second, from the first record to the N-th.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import uuid
from io import BytesIO
from typing import Any

HEADER = 10  # bytes of the single-object encoding before the record


def consumer(bootstrap: str, topic: str, count: int) -> float:
    from confluent_kafka import Consumer

    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe([topic])
    seen, first, began = 0, 0, 0.0
    while seen < count:
        seen += len(reader.consume(10_000, 0.1))
        if seen and not began:
            first, began = seen, time.perf_counter()
    rate = (seen - first) / (time.perf_counter() - began)
    reader.close()
    return rate


def agent(bootstrap: str, topic: str, count: int) -> None:
    import fastavro
    import faust
    import orjson

    from pastforward.schemas.definitions import canonical_form, current

    schema: Any = fastavro.parse_schema(json.loads(canonical_form(current("publication").schema)))
    app = faust.App(
        f"stock-{uuid.uuid4().hex}",
        broker=f"kafka://{bootstrap}",
        store="memory://",
        datadir=tempfile.mkdtemp(prefix="pastforward-stock-"),
        topic_disable_leader=True,
        topic_allow_declare=False,
        consumer_auto_offset_reset="earliest",
        web_enabled=False,
    )
    seen, began = 0, 0.0

    @app.agent(app.topic(topic, value_serializer="raw"))
    async def decode(stream: Any) -> None:
        nonlocal seen, began
        async for value in stream:
            if value[:1] == b"{":
                orjson.loads(value)
            else:
                fastavro.schemaless_reader(BytesIO(value[HEADER:]), schema, None)
            if not seen:
                began = time.perf_counter()
            seen += 1
            if seen == count:
                print(f"rate={count / (time.perf_counter() - began)}", flush=True)
                os._exit(0)  # the figure is known; Faust takes seconds to leave its group

    faust.Worker(app, loglevel="ERROR", redirect_stdouts=False, quiet=True).execute_from_commandline()


if __name__ == "__main__":
    kind, bootstrap, topic, count = sys.argv[1:]
    if kind == "faust":
        agent(bootstrap, topic, int(count))
    else:
        print(f"rate={consumer(bootstrap, topic, int(count))}")
