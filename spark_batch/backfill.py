"""Answers the part of subscriptions that lies before the hot window: all open requests together, in one pass over the history.

The order of things is what makes it exactly once. The publisher is made first, which ends whatever an earlier one had begun. Then the open
requests are read, and what an earlier run left in the outbox is sent. Then the requests that are still open are answered into the
outbox, in one commit, and sent.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pastforward import topics
from pastforward.errors import UserError
from pastforward.matching.conditions.normal_form import PREVIOUS
from pastforward.schemas import SchemaError
from pastforward.schemas.codec import Format
from pastforward.settings import Settings
from pastforward.spark_batch import duplicates
from pastforward.spark_batch.blame import Note, Tally, in_halves, not_noted
from pastforward.spark_batch.earlier import earlier_ids, with_previous
from pastforward.spark_batch.kafka import MakeRegistry, bootstrap_of
from pastforward.spark_batch.outbox import Encoder, remove_runs, runs, write_run
from pastforward.spark_batch.pairs import find_pairs, make_index
from pastforward.spark_batch.position import ingested
from pastforward.spark_batch.prune import all_of, held_before, reachable
from pastforward.spark_batch.publisher import Publisher, Sent
from pastforward.spark_batch.refused import learn, read_taken, refusals, without_refused
from pastforward.spark_batch.report import make_report
from pastforward.spark_batch.requests import Open, is_behind, is_over, read_requests, standing
from pastforward.spark_batch.shown import Summary, watched
from pastforward.spark_batch.tables import CONTENT, PUBLICATIONS, Places, ensure_outbox, exists, spark_schema
from pastforward.streams.routing import Directory
from pastforward.streams.routing.change import State, View
from pastforward.streams.worker.directory import first_entry, read_directory
from pastforward.topics import Topics

log = logging.getLogger("pastforward.history")

FEW: Final = 1_000_000  # pairs whose places every task may hold


@dataclass(slots=True)
class _Sorted:
    """Open requests by what is to become of them."""

    ready: list[Open] = field(default_factory=list)
    waiting: list[Open] = field(default_factory=list)
    over: list[bytes] = field(default_factory=list)


def backfill(spark: Any, settings: Settings, *, quiet: bool = False) -> Summary:
    started = time.monotonic()
    tally = Tally(spark)
    bootstrap = bootstrap_of(settings)
    places = Places(settings.history)
    ensure_outbox(places)
    registry = MakeRegistry.of(settings)()
    publisher = Publisher(settings, bootstrap)
    try:
        left = runs(places)
        requests = read_requests(settings, bootstrap, registry)
        view = directories(settings, bootstrap)
        versions = standing(settings, bootstrap, view, requests.open)
        sent = publisher.publish(places, left, requests, versions)
        if left:
            requests = read_requests(settings, bootstrap, registry)
        position = ingested(spark, places, Topics(settings.topic_prefix).publications)
        # after the requests: what a partition refused before it wrote one is among the letters now
        learn(spark, settings, bootstrap, places, registry)
        requests.refuse(unanswerable(requests.open, view))
        for reason in requests.refused.values():
            log.warning("a backfill request cannot be answered and is closed: %s", reason)
        by_fate = _sort(requests.open, versions, position)
        publisher.drop([*by_fate.over, *requests.refused])
        for version in sorted({each.request.routing_version for each in by_fate.ready}):
            run = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"
            ready = [each for each in by_fate.ready if each.request.routing_version == version]
            with watched(spark, f"answering {len(ready)} requests", quiet):
                answer(spark, settings, ready, view.versions[version], run, tally.note)
            more = publisher.publish(places, [run], requests, standing(settings, bootstrap, view, requests.open))
            sent = Sent(sent.requests + more.requests, sent.notifications + more.notifications)
            left.append(run)
        if left:
            remove_runs(places, left)
    finally:
        publisher.close()
    return _summary(sent, by_fate, len(requests.refused), time.monotonic() - started, tally)


def _sort(open_requests: list[Open], versions: Any, position: dict[int, int]) -> _Sorted:
    found = _Sorted()
    for each in open_requests:
        if is_over(each.request, versions):
            found.over.append(each.key)
        elif is_behind(each.request, position):
            found.waiting.append(each)
        else:
            found.ready.append(each)
    return found


def unanswerable(requests: list[Open], view: View) -> dict[bytes, str]:
    """Requests that no pass over the history could answer, and why: what one of them asks must not keep the others from an answer."""
    found: dict[bytes, str] = {}
    for version in {each.request.routing_version for each in requests}:
        these = [each for each in requests if each.request.routing_version == version]

        def prepare(begin: int, end: int, these: list[Open] = these, version: int = version) -> None:
            if version not in view.versions:
                raise SchemaError("bad_value", f"the directory has no version {version} of the routing")
            subscriptions, _ = make_report(these[begin:end], view.versions[version])
            make_index(subscriptions)

        def refuse(row: int, error: SchemaError, these: list[Open] = these) -> None:
            found[these[row].key] = error.reason

        in_halves(0, len(these), prepare, refuse)
    return found


def directories(settings: Settings, bootstrap: str) -> View:
    """How the workers route, under every version there was; before any worker has run, what the settings say."""
    view = read_directory(settings, bootstrap)
    if view.state is None:
        name = Topics(settings.topic_prefix).rendezvous
        there = topics.existing(topics.connect(settings, bootstrap))
        if name not in there:
            raise UserError(f"topic {name} is not there; run `pastforward topics` or start a worker first")
        view = View({1: first_entry(settings, there[name])}, State(1))
    return view


def answer(
    spark: Any, settings: Settings, requests: list[Open], directory: Directory, run: str, note: Note = not_noted
) -> None:
    """Writes the answers to some requests, all of one version of the routing, into the outbox."""
    from pyspark.storagelevel import StorageLevel

    places = Places(settings.history)
    encoder = Encoder(run, tuple(requests), cast(Format, settings.notification_format), MakeRegistry.of(settings))
    if not exists(spark, places.publications):
        # a cut without any offset: nothing had been published
        write_run(spark, places, _no_pairs(spark), encoder)
        return
    history = read_taken(spark, places)
    pairs = answers(history, spark, settings, requests, directory, note)
    pairs = without_refused(spark, pairs, requests, refusals(spark, places)).persist(StorageLevel.DISK_ONLY)
    try:
        offsets = duplicates.resolved(spark, places, settings.hot_window)
        doubtful, self_joining, count = _look(pairs, offsets)
        found = pairs
        if doubtful:
            found = duplicates.without_duplicates(pairs, history, offsets, settings.hot_window)
        found = _with_earlier_ids(found, history, settings.hot_window, self_joining)
        carried = None
        if any(each.request.subscription.deliver == "content" for each in requests):
            carried = carried_content(history, pairs, requests, directory, small=count <= FEW)
        write_run(spark, places, with_content(found, carried), encoder)
    finally:
        pairs.unpersist()


def answers(
    history: Any, spark: Any, settings: Settings, requests: list[Open], directory: Directory, note: Note = not_noted
) -> Any:
    """A DataFrame of pairs, `asked` being the number of the request. Repeats are still among them."""
    subscriptions, report = make_report(requests, directory)
    asks_back = any(
        name.startswith(PREVIOUS) for s in subscriptions for disjunct in s.disjuncts for name, _ in disjunct
    )
    rows = history
    if asks_back:
        # what came before a publication may lie before every window
        topics_only = reachable([_everywhen(s) for s in subscriptions])
        rows = with_previous(history if topics_only is None else history.where(topics_only), settings.hot_window)
    horizon = max(each.request.horizon for each in requests)
    whole = directory.scheme != "dewey"
    return find_pairs(spark, rows, subscriptions, report, also=held_before(horizon), whole=whole, note=note)


def _everywhen(s: Any) -> Any:
    from dataclasses import replace

    return replace(s, starts_at=None, ends_at=None)


def _look(pairs: Any, offsets: dict[int, int]) -> tuple[bool, bool, int]:
    """Whether any pair may be of a repeat, or is of a self-joining publication, and how many there are. Computes the pairs, once."""
    from pyspark.sql import functions as f

    row = pairs.agg(f.bool_or(duplicates.beyond(offsets)), f.bool_or("self_join"), f.count("*")).first()
    return bool(row[0]), bool(row[1]), int(row[2])


def carried_content(history: Any, pairs: Any, requests: list[Open], directory: Directory, *, small: bool) -> Any:
    """The content of the publications that were found, read once more: to carry it through the pass would cost as much for each that
    was not."""
    from pyspark.sql import functions as f

    subscriptions, _ = make_report(requests, directory)
    wanted = all_of([reachable(subscriptions), held_before(max(each.request.horizon for each in requests))])
    keys = pairs.select("partition", "offset").distinct()
    rows = history.where(wanted).select("partition", "offset", *CONTENT)
    return rows.join(f.broadcast(keys) if small else keys, ["partition", "offset"], "leftsemi")


def with_content(pairs: Any, carried: Any) -> Any:
    from pyspark.sql import functions as f

    if carried is not None:
        return pairs.join(carried, ["partition", "offset"], "left")
    types = {field.name: field.dataType for field in spark_schema(PUBLICATIONS)}
    return pairs.withColumns({name: f.lit(None).cast(types[name]) for name in CONTENT})


def _with_earlier_ids(pairs: Any, history: Any, hot_window: int, self_joining: bool) -> Any:
    from pyspark.sql import functions as f

    nothing = f.lit(None).cast("array<string>")
    if not self_joining:
        return pairs.withColumn("earlier_ids", nothing)
    topics_named = pairs.where("self_join").select("topic").distinct()
    ids = earlier_ids(history.join(topics_named, "topic", "leftsemi"), hot_window)
    joined = pairs.where("self_join").join(ids, ["partition", "offset"], "left")
    return pairs.where("not self_join").withColumn("earlier_ids", nothing).unionByName(joined)


def _no_pairs(spark: Any) -> Any:
    from pyspark.sql import functions as f

    from pastforward.spark_batch.pairs import PAIRS

    none = spark.createDataFrame([], spark_schema(PAIRS)).withColumn("earlier_ids", f.lit(None).cast("array<string>"))
    return with_content(none, None)


def _summary(sent: Sent, by_fate: _Sorted, refused: int, seconds: float, tally: Tally) -> Summary:
    facts = {
        "answered": sent.requests,
        "notifications": sent.notifications,
        "waiting": len(by_fate.waiting),
        "over": len(by_fate.over),
        "refused": refused,
        "seconds": round(seconds, 1),
    }
    line = f"answered {sent.requests:,} requests with {sent.notifications:,} notifications in {seconds:.1f} s"
    if by_fate.waiting:
        line += f"; {len(by_fate.waiting):,} wait for `history ingest`"
    if by_fate.over:
        line += f"; {len(by_fate.over):,} were withdrawn or replaced"
    if refused:
        line += f"; {refused:,} could not be read"
    return Summary(tally.report(facts, line), facts)
