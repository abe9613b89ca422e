"""The history against the clock: ingest, backfill, narrow reads, compaction. Two cores, 2 GB for the driver.

    python -m benchmarks.history                 all of it, in full size
    python -m benchmarks.history --scale 0.01    the same with less of everything: minutes, to see that it runs

Everything is compared within one run. Results go to `results/history.json`, the figure to `docs/img/history.svg`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from matching import Condition
from matching.oracle import Subscription
from pastforward import broker, topics
from pastforward.client import Client
from pastforward.settings import Settings, load
from schemas import BackfillRequest, CanonicalSubscription, Publication, Version, encode
from spark_batch.backfill import answers
from spark_batch.compact import compact
from spark_batch.ingest import ingest
from spark_batch.kafka import MakeRegistry
from spark_batch.order import order_text
from spark_batch.outbox import Encoder, write_run
from spark_batch.prune import reachable
from spark_batch.requests import Open
from spark_batch.session import make_session
from spark_batch.tables import (
    MAPS,
    PUBLICATIONS,
    Places,
    ensure_outbox,
    ensure_publications,
    read_publications,
    spark_schema,
)
from streams.routing import Directory

HOUR: Final = 3_600_000_000
DAYS: Final = 30
START: Final = 1_700_000_000_000_000
KINDS: Final = [f"kind-{number}" for number in range(20)]
INTEGERS: Final = [f"a{number}" for number in range(5)]  # of 10 attributes, five are integers up to 1,000
TOPICS: Final = (20, 50)  # first and second components: 1,000 topics
SINGLE: Final = 20  # requests that are also asked one by one
CORES: Final = 2
ALL: Final = ["ingest", "backfill", "compaction", "narrow"]


@dataclass
class Figures:
    rows: list[tuple[str, str, str, bool]] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)

    def add(self, load_: str, found: str, wanted: str, holds: bool) -> None:
        self.rows.append((load_, found, wanted, holds))
        # at once, so that a run that fails later has not measured in vain
        print(f"{load_}: {found} ({wanted} wanted)", file=sys.stderr, flush=True)


def generate(seed: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows of the table from numbers: 10 attributes, spread over 30 days and 1,000 topics."""

    def make(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            number = batch.column(0).to_numpy()
            yield rows(number, np.random.default_rng(seed + int(number[0])))

    return make


def rows(number: np.ndarray[Any, Any], chance: np.random.Generator) -> pa.RecordBatch:
    count = len(number)
    topic = [f"{a}.{b}" for a, b in zip(*(chance.integers(1, n + 1, count).tolist() for n in TOPICS), strict=True)]
    published = START + chance.integers(0, DAYS * 24 * HOUR, count)
    time_ = pa.timestamp("us", "UTC")

    def table_of(names: list[str], kind: pa.DataType, values: pa.Array) -> pa.Array:
        offsets = np.arange(count + 1, dtype=np.int32) * len(names)
        return pa.MapArray.from_arrays(
            pa.array(offsets), pa.array(names * count, pa.string()), values, type=pa.map_(pa.string(), kind)
        )

    columns: dict[str, pa.Array] = {
        name: pa.nulls(count, PUBLICATIONS.field(name).type) for name in PUBLICATIONS.names
    } | {name: table_of([], kind, pa.array([], kind)) for name, kind in MAPS.items()}
    columns |= {
        "path": pa.array([order_text(each) for each in topic]),
        "published_at": pa.array(published).view(time_),
        "arrived_at": pa.array(published).view(time_),
        "partition": pa.array((number % 4).astype(np.int32)),
        "offset": pa.array(number // 4),
        "publication_id": pa.array([f"p{each}" for each in number.tolist()]),
        "topic": pa.array(topic),
        "self_join": pa.array(np.zeros(count, bool)),
        "integers": table_of(INTEGERS, pa.int64(), pa.array(chance.integers(0, 1_000, 5 * count))),
        "floats": table_of(["f0", "f1"], pa.float64(), pa.array(chance.random(2 * count))),
        "strings": table_of(
            ["kind", "name"],
            pa.string(),
            pa.array(KINDS + [f"name-{n}" for n in range(1_000)]).take(
                pa.array((chance.random((count, 2)) * [20, 1_000] + [0, 20]).astype(np.int64).reshape(-1))
            ),
        ),
        "booleans": table_of(["open"], pa.bool_(), pa.array(chance.random(count) < 0.5)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in PUBLICATIONS.names], schema=PUBLICATIONS)


def write_table(spark: Any, places: Places, count: int, files: int) -> None:
    ensure_publications(spark, places)
    made = spark.range(0, count, 1, files).mapInArrow(generate(count), spark_schema(PUBLICATIONS))
    made.write.format("delta").mode("append").save(places.publications)


def requests(count: int) -> list[Open]:
    """A twentieth of the topics, two ranges of a tenth, one of twenty kinds: one publication in 40,000."""
    choose = random.Random(1)
    found = []
    for number in range(count):
        low, other = choose.randrange(900), choose.randrange(900)
        where = f"a0 BETWEEN {low} AND {low + 99} AND a1 BETWEEN {other} AND {other + 99} AND kind = '{choose.choice(KINDS)}'"
        topic = str(choose.randint(1, TOPICS[0]))
        subscription = CanonicalSubscription(
            f"s{number}", "someone", Version(0, 0, number), topic, "overlap", START, None, "published",
            Condition.parse(where).disjuncts,
        )  # fmt: skip
        partition = Directory(1, "dewey", 4).make().of_topic(topic)[0]  # type: ignore[attr-defined]
        request = BackfillRequest(subscription, partition, 1 << 60, 0, 1, dict.fromkeys(range(4), 1 << 60))
        found.append(Open(f"s{number}".encode(), number, request))
    return found


def as_sql(where: str) -> str:
    """The same condition, as somebody would write it on the table."""
    text = where
    for name in ("a0", "a1"):
        text = text.replace(f"{name} ", f"integers['{name}'] ")
    return text.replace("kind = ", "strings['kind'] = ")


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# ------------------------------------------------------------------------------- the figures


def measure_ingest(spark: Any, settings: Settings, count: int, figures: Figures, console: Console) -> None:
    chance = random.Random(2)
    bodies = [
        encode(
            Publication(
                topic=f"{chance.randint(1, 20)}.{chance.randint(1, 50)}",
                published_at=START + number,
                attributes={
                    **{name: chance.randrange(1_000) for name in INTEGERS},
                    "f0": chance.random(),
                    "f1": chance.random(),
                    "kind": chance.choice(KINDS),
                    "name": "n",
                    "open": True,
                },
            )
        )
        for number in range(5_000)
    ]
    topic = topics.Topics(settings.topic_prefix).publications

    def send(many: int) -> None:
        client._send(topic, ((f"{n}", bodies[n % len(bodies)]) for n in range(many)))

    with Client(settings=settings) as client, console.status(f"publishing {count:,}"):
        send(20_000)
        ingest(spark, settings, quiet=True)  # start-up: classes, workers, kernels
        send(count)
    with console.status("ingesting"):
        took = seconds(lambda: ingest(spark, settings, quiet=True))
    rate = count / took
    figures.facts["ingest_rate"] = rate
    figures.add(
        f"ingest, {count:,} Avro publications of 10 attributes", f"{rate:,.0f} a second", "80,000", rate >= 80_000
    )


def measure_backfill(
    spark: Any, settings: Settings, count: int, asked: int, figures: Figures, console: Console
) -> None:
    places = Places(settings.history)
    open_requests = requests(asked)
    with console.status(f"writing {count:,} publications"):
        write_table(spark, places, count, max(4, count // 500_000))
    history = read_publications(spark, places)
    ensure_outbox(places)
    directory = Directory(1, "dewey", 4)

    def run(many: list[Open]) -> None:
        from pyspark.sql import functions as f

        pairs = answers(history, spark, settings, many, {}, directory).withColumn(
            "earlier_ids", f.lit(None).cast("array<string>")
        )
        write_run(spark, places, pairs, Encoder(f"{time.time_ns()}", tuple(many), "avro", MakeRegistry.of(settings)))

    with console.status("answering"):
        run(open_requests[:10])  # start-up
        together = seconds(lambda: run(open_requests))
    single = open_requests[:SINGLE]

    def each() -> None:
        for one in single:
            s = one.request.subscription
            where = as_sql(str(Condition(s.where)))
            history.where(reachable([Subscription(topic=s.topic)])).where(where).select("publication_id").count()

    with console.status("one by one"):
        apart = seconds(each) / len(single)
    ratio = apart * asked / together
    figures.facts |= {"backfill_seconds": together, "query_seconds": apart, "backfill_ratio": ratio}
    figures.add(f"backfill, {asked:,} requests over {count:,}", f"{together:,.0f} s", "180 s", together <= 180)
    figures.add("against a query for each", f"{ratio:,.0f} times faster", "50", ratio >= 50)


def bytes_selected(rows_: Any) -> int:
    """The size of the files that Spark's scan reads after pruning, from its own metrics."""
    rows_.collect()
    plan = rows_._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    return sum(int(leaves.apply(i).metrics().apply("filesSize").value()) for i in range(leaves.size()))


def narrow(spark: Any, places: Places) -> Any:
    topic, hour = "7.21", START + 17 * 24 * HOUR
    asked = Subscription(topic=topic, scope="subtree", starts_at=hour, ends_at=hour + HOUR)
    # whole rows: what a search reads
    return (
        read_publications(spark, places).where(reachable([asked])).selectExpr("publication_id", "integers", "strings")
    )


def measure_compaction(spark: Any, settings: Settings, count: int, figures: Figures, console: Console) -> None:
    places = Places(settings.history)
    with console.status("writing 1,000 small files"):
        write_table(spark, places, count, 1_000)

    def read() -> float:
        return min(seconds(lambda: narrow(spark, places).collect()) for _ in range(3))

    before = read()
    facts: dict[str, Any] = {}
    with console.status("compacting"):
        facts |= compact(spark, settings, vacuum_hours=None, quiet=True).facts
    after = read()
    fewer, faster = facts["files_before"] / facts["files_after"], before / after
    figures.facts |= {"compact_fewer": fewer, "compact_faster": faster, "compact_seconds": facts["seconds"]}
    figures.add("compaction of 1,000 small files", f"{fewer:,.0f} times fewer", "20", fewer >= 20)
    figures.add("narrow reads after it", f"{faster:.1f} times faster", "3", faster >= 3)


def measure_narrow(spark: Any, settings: Settings, count: int, figures: Figures, console: Console) -> None:
    places = Places(settings.history)
    with console.status("writing and compacting"):
        write_table(spark, places, count, max(4, count // 500_000))
        size = compact(spark, settings, vacuum_hours=None, quiet=True).facts["bytes_after"]
    share = bytes_selected(narrow(spark, places)) / size
    figures.facts["narrow_share"] = share
    figures.add(f"a narrow topic, one hour of 30 days, {count:,}", f"{share:.1%} of the bytes", "2 %", share <= 0.02)


def draw(path: Path, facts: dict[str, float]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    left.bar(["ingest", "wanted"], [facts.get("ingest_rate", 0), 80_000])
    left.set_title("publications a second", fontsize=9)
    middle.bar(
        ["one pass", "a query each"],
        [facts.get("backfill_seconds", 0), facts.get("backfill_ratio", 0) * facts.get("backfill_seconds", 0)],
    )
    middle.set_yscale("log")
    middle.set_title("backfill, seconds", fontsize=9)
    right.bar(["read", "wanted"], [100 * facts.get("narrow_share", 0), 2])
    right.set_title("narrow read, % of the bytes", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="The history against the clock.")
    parser.add_argument("--scale", type=float, default=1.0, help="1: the full size; 0.01: to see that it runs")
    parser.add_argument("--only", choices=ALL, action="append")
    parser.add_argument("--jars-dir", default=".jars")
    chosen = parser.parse_args()
    console = Console(stderr=True)
    wanted = chosen.only or ALL
    directory = Path(tempfile.mkdtemp(prefix="pastforward-bench-"))
    settings = load({"data_dir": directory, "jars_dir": chosen.jars_dir, "partitions": 4}, environment={})
    figures = Figures()
    spark = make_session(settings, CORES)
    running = None
    try:
        if "ingest" in wanted:
            running = broker.start(settings)
            topics.ensure(settings, topics.connect(settings, running.bootstrap))
            of_ingest = replace(settings, history=str(directory / "ingested"))
            measure_ingest(spark, of_ingest, int(2_000_000 * chosen.scale), figures, console)
        if "backfill" in wanted:
            of_backfill = replace(settings, history=str(directory / "asked"))
            count, asked = int(10_000_000 * chosen.scale), max(int(10_000 * min(1.0, 10 * chosen.scale)), SINGLE)
            measure_backfill(spark, of_backfill, count, asked, figures, console)
        if "compaction" in wanted:
            of_compaction = replace(settings, history=str(directory / "small"))
            measure_compaction(spark, of_compaction, int(1_000_000 * chosen.scale), figures, console)
        if "narrow" in wanted:
            of_narrow = replace(settings, history=str(directory / "narrow"))
            measure_narrow(spark, of_narrow, int(10_000_000 * chosen.scale), figures, console)
        heap = spark._jvm.java.lang.Runtime.getRuntime()
        figures.add("driver memory", f"{heap.maxMemory() / 2**30:.1f} GB", "2 GB", heap.maxMemory() <= 2 << 30)
    finally:
        spark.stop()
        if running is not None:
            running.stop()
        shutil.rmtree(directory, ignore_errors=True)
    table = Table("load", "found", "wanted", "")
    for load_, found, limit, holds in figures.rows:
        table.add_row(load_, found, limit, "holds" if holds else "does not hold")
    Console().print(table)
    os.makedirs("results", exist_ok=True)
    Path("results/history.json").write_text(json.dumps({"scale": chosen.scale, **figures.facts}, indent=1))
    draw(Path("docs/img/history.svg"), figures.facts)
    sys.exit(0)


if __name__ == "__main__":
    main()
