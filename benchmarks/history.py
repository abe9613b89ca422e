"""The history against the clock: ingest, backfill, narrow reads, compaction. Two cores, 2 GB for the driver.

    python -m pastforward.benchmarks.history                 all of it, in full size
    python -m pastforward.benchmarks.history --scale 0.01    the same with less of everything: minutes, to see that it runs
    python -m pastforward.benchmarks.history --only ingest   one of them; with --data, tables are kept for the next run

What is compared is measured in one run. Results go to `results/history.json`, where those of several runs of one scale come together, the
figure to `docs/img/history.svg`.
"""

from __future__ import annotations

import argparse
import json
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

from pastforward import broker, topics
from pastforward.benchmarks.options import IMAGES, RESULTS, settings_for, share
from pastforward.client import Client
from pastforward.columns.times import HOUR
from pastforward.matching import Condition
from pastforward.matching.conditions.oracle import Subscription
from pastforward.schemas import BackfillRequest, CanonicalSubscription, Publication, Version, encode
from pastforward.settings import Settings
from pastforward.spark_batch.backfill import answers, carried_content, with_content
from pastforward.spark_batch.commit import Commit
from pastforward.spark_batch.compact import compact
from pastforward.spark_batch.files import WRITTEN, File
from pastforward.spark_batch.ingest import ingest
from pastforward.spark_batch.kafka import MakeRegistry
from pastforward.spark_batch.order import order_text
from pastforward.spark_batch.outbox import Encoder, write_run
from pastforward.spark_batch.prune import reachable
from pastforward.spark_batch.requests import Open
from pastforward.spark_batch.session import make_session
from pastforward.spark_batch.tables import (
    PUBLICATIONS,
    Places,
    ensure_outbox,
    ensure_publications,
    exists,
    read_publications,
    spark_schema,
)
from pastforward.streams.routing import Directory

DAYS: Final = 30
START: Final = 1_700_000_000_000_000
KINDS: Final = [f"kind-{number}" for number in range(20)]
INTEGERS: Final = [f"a{number}" for number in range(5)]  # of 10 attributes, five are integers up to 1,000
TOPICS: Final = (20, 50)  # first and second components: 1,000 topics
SINGLE: Final = 20  # requests that are also asked one by one
CORES: Final = 2
ALL: Final = ("ingest", "backfill", "compaction", "narrow")


KEPT: Final = RESULTS / "history.json"


@dataclass
class Figures:
    """What was found, by load; kept at once, so that a run that fails later has not measured in vain."""

    scale: float
    rows: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, scale: float) -> Figures:
        known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        if known.get("scale") != scale:
            return cls(scale)
        return cls(scale, {load_: tuple(row) for load_, row in known["rows"].items()}, known["facts"])

    def add(self, load_: str, found: str, wanted: str, holds: bool) -> None:
        self.rows[load_] = (found, wanted, holds)
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps({"scale": self.scale, "rows": self.rows, "facts": self.facts}, indent=1))
        print(f"{load_}: {found} ({wanted} wanted)", file=sys.stderr, flush=True)


def generate(seed: int, table: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Files of the table from numbers, as an ingest writes them: 10 attributes, spread over 30 days and 1,000 topics."""

    def make(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = File(table)
        for batch in batches:
            number = batch.column(0).to_numpy()
            file.add(rows(number, np.random.default_rng(seed + int(number[0]))))
        yield pa.RecordBatch.from_pylist([{"add": file.close(), "rows": 0, "unreadable": 0}], schema=WRITTEN)

    return make


def rows(number: np.ndarray[Any, Any], chance: np.random.Generator) -> pa.RecordBatch:
    count = len(number)
    topics_ = [f"{a}.{b}" for a in range(1, TOPICS[0] + 1) for b in range(1, TOPICS[1] + 1)]
    topic = pa.array(chance.integers(0, len(topics_), count))
    published = START + chance.integers(0, DAYS * 24 * HOUR, count)
    time_ = pa.timestamp("us", "UTC")

    def table_of(names: list[str], kind: pa.DataType, values: pa.Array) -> pa.Array:
        offsets = np.arange(count + 1, dtype=np.int32) * len(names)
        return pa.MapArray.from_arrays(
            pa.array(offsets),
            pa.array(names).take(pa.array(np.tile(np.arange(len(names)), count))),
            values,
            type=pa.map_(pa.string(), kind),
        )

    columns: dict[str, pa.Array] = {name: pa.nulls(count, PUBLICATIONS.field(name).type) for name in PUBLICATIONS.names}
    columns |= {
        "path": pa.array([order_text(each) for each in topics_]).take(topic),
        "published_at": pa.array(published).view(time_),
        "arrived_at": pa.array(published).view(time_),
        "partition": pa.array((number % 4).astype(np.int32)),
        "offset": pa.array(number // 4),
        "publication_id": pa.array(number).cast(pa.string()),
        "topic": pa.array(topics_).take(topic),
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
    if exists(spark, places.publications):
        return  # kept from an earlier run
    ensure_publications(spark, places)
    made = spark.range(0, count, 1, files).mapInArrow(generate(count, places.publications), spark_schema(WRITTEN))
    Commit(spark, places, "benchmark", 0).commit([row["add"] for row in made.collect()])


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


def measure_ingest(spark: Any, settings: Settings, figures: Figures, console: Console) -> None:
    running = broker.start(settings)
    try:
        topics.ensure(settings, topics.connect(settings, running.bootstrap))
        _ingest(spark, settings, int(2_000_000 * figures.scale), figures, console)
    finally:
        running.stop()


def _ingest(spark: Any, settings: Settings, count: int, figures: Figures, console: Console) -> None:
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


def measure_backfill(spark: Any, settings: Settings, figures: Figures, console: Console) -> None:
    places = Places(settings.history)
    count = int(10_000_000 * figures.scale)
    asked = max(int(10_000 * min(1.0, 10 * figures.scale)), SINGLE)
    open_requests = requests(asked)
    with console.status(f"writing {count:,} publications"):
        write_table(spark, places, count, max(4, count // 500_000))
    history = read_publications(spark, places)
    ensure_outbox(places)
    directory = Directory(1, "dewey", 4)

    def run(many: list[Open]) -> None:
        from pyspark.sql import functions as f

        pairs = answers(history, spark, settings, many, directory).withColumn(
            "earlier_ids", f.lit(None).cast("array<string>")
        )
        pairs = with_content(pairs, carried_content(history, pairs, many, directory, small=True))
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
    figures.facts |= {"backfill_seconds": together, "backfill_requests": asked, "query_seconds": apart}
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


def measure_compaction(spark: Any, settings: Settings, figures: Figures, console: Console) -> None:
    places = Places(settings.history)
    with console.status("writing 1,000 small files"):
        write_table(spark, places, int(1_000_000 * figures.scale), 1_000)

    def read() -> float:
        return min(seconds(lambda: narrow(spark, places).collect()) for _ in range(3))

    before = read()
    facts: dict[str, Any] = {}
    with console.status("compacting"):
        facts |= compact(spark, settings, vacuum_hours=None, quiet=True).facts
    after = read()
    fewer, faster = facts["files_before"] / facts["files_after"], before / after
    figures.facts |= {"small_read": before, "compact_read": after, "compact_seconds": facts["seconds"]}
    figures.add("compaction of 1,000 small files", f"{fewer:,.0f} times fewer", "20", fewer >= 20)
    figures.add("narrow reads after it", f"{faster:.1f} times faster", "3", faster >= 3)


def measure_narrow(spark: Any, settings: Settings, figures: Figures, console: Console) -> None:
    places = Places(settings.history)
    count = int(10_000_000 * figures.scale)
    with console.status("writing and compacting"):
        write_table(spark, places, count, max(4, count // 500_000))
        size = compact(spark, settings, vacuum_hours=None, quiet=True).facts["bytes_after"]
    share = bytes_selected(narrow(spark, places)) / size
    figures.facts["narrow_share"] = share
    figures.add(f"a narrow topic, one hour of 30 days, {count:,}", f"{share:.1%} of the bytes", "2 %", share <= 0.02)


MEASURES: Final = {
    "ingest": measure_ingest,
    "backfill": measure_backfill,
    "compaction": measure_compaction,
    "narrow": measure_narrow,
}
# backfill and narrow reads share a table: 10,000,000 rows take minutes to write
LARGE: Final = "large"
PLACES: Final = {"ingest": "ingested", "backfill": LARGE, "compaction": "small", "narrow": LARGE}


def draw(path: Path, facts: dict[str, float]) -> None:
    from matplotlib.figure import Figure

    apart = facts.get("query_seconds", 0) * facts.get("backfill_requests", 0)
    bars = (
        ("ingest, thousands a second", ("found", "wanted"), (facts.get("ingest_rate", 0) / 1000, 80)),
        ("backfill, seconds", ("one pass", "a query each"), (facts.get("backfill_seconds", 0), apart)),
        ("narrow read, % of the bytes", ("found", "allowed"), (100 * facts.get("narrow_share", 0), 2)),
        (
            "narrow read, seconds",
            ("1,000 files", "compacted"),
            (facts.get("small_read", 0), facts.get("compact_read", 0)),
        ),
    )
    figure = Figure(figsize=(10, 2.4), layout="constrained")
    for axes, (title, names, values) in zip(figure.subplots(1, len(bars)), bars, strict=True):
        axes.bar(names, values, color=("tab:blue", "lightgrey"))
        axes.set_title(title, fontsize=9)
        if title.startswith("backfill"):
            axes.set_yscale("log")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description="The history against the clock.")
    parser.add_argument("--scale", type=share, default=1.0, help="1: the full size; 0.01: to see that it runs")
    parser.add_argument("--only", choices=ALL, action="append")
    parser.add_argument("--data", type=Path, help="keep the large table there, and use the one that is there")
    chosen = parser.parse_args()
    console = Console(stderr=True)
    directory = Path(tempfile.mkdtemp(prefix="pastforward-bench-"))
    settings = settings_for(directory, partitions=4)
    figures = Figures.of(chosen.scale)
    spark = make_session(settings, CORES)
    try:
        for name in chosen.only or ALL:
            root = chosen.data if chosen.data and PLACES[name] == LARGE else directory
            MEASURES[name](spark, replace(settings, history=str(root / PLACES[name])), figures, console)
        most = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()
        figures.add("driver memory", f"{most / 2**30:.1f} GB", "2 GB", most <= 2 << 30)
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)
    table = Table("load", "found", "wanted", "")
    for load_, (found, limit, holds) in figures.rows.items():
        table.add_row(load_, found, limit, "holds" if holds else "does not hold")
    Console().print(table)
    draw(IMAGES / "history.svg", figures.facts)


if __name__ == "__main__":
    main()
