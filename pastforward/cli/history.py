"""`pastforward history …`: the batch layer."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import click
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from pastforward import topics
from pastforward.broker import bootstrap_of
from pastforward.cli.interrupts import interruptible
from pastforward.cli.options import CONNECTION, with_settings
from pastforward.cli.records import MOMENT
from pastforward.cli.suggest import Commands
from pastforward.client import Moment, micros
from pastforward.columns.vocabulary import SCOPES, SEMANTICS, TIME_BASES
from pastforward.errors import UserError
from pastforward.settings import Settings, parse_duration

STORED = ("history", "jars_dir", "maven_repository")
KAFKA = (*CONNECTION, *STORED)
ROUTED = (*KAFKA, "hot_window", "routing", "routing_depth", "catalog", "notification_format")
SHOWN = 50  # rows of a table, if nobody says otherwise

as_json = click.option("--json", "as_json", is_flag=True, help="For scripts.")
cores = click.option("--cores", type=click.IntRange(1), help="Cores of a local run; all, if left out.")


@click.group(cls=Commands)
def history() -> None:
    """Keep, compact, understand and search the history."""


@contextmanager
def _spark(settings: Settings, cores: int | None, *, kafka: bool = False) -> Iterator[Any]:
    """A session for one command. Its jars, and the broker if one is needed, are looked for before its JVM is started."""
    from pastforward.spark_batch.session import make_session

    if kafka:
        topics.connect(settings, bootstrap_of(settings))

    handler = RichHandler(console=Console(stderr=True), show_path=False)
    # what Spark's connection logs is in the error that it raises; of an interrupt it would show a traceback
    handler.addFilter(lambda record: "py4j" not in record.pathname)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    console = Console(stderr=True)
    with interruptible():
        with console.status("starting Spark"):
            session = make_session(settings, cores)
        try:
            yield session
        finally:
            session.stop()


def _duration(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@history.command()
@click.option("--follow", is_flag=True, help="Go on until interrupted.")
@click.option("--allow-loss", is_flag=True, help="Go on although Kafka has deleted what was not ingested yet.")
@cores
@as_json
@with_settings(*KAFKA)
def ingest(settings: Settings, follow: bool, allow_loss: bool, cores: int | None, as_json: bool) -> None:
    """Keep what was published: from the topic into the history table.

    Exactly once: it may be killed and started again at any moment.

    \b
    Example: pastforward history ingest
             pastforward history ingest --follow
    """
    from pastforward.spark_batch.ingest import ingest as run

    with _spark(settings, cores, kafka=True) as spark:
        run(spark, settings, follow=follow, allow_loss=allow_loss, quiet=as_json).print(as_json)


@history.command()
@click.option("--retain", callback=_duration, help="Remove publications older than this, such as 90d.", metavar="…")
@click.option("--drop-expired", callback=_duration, help="Remove what expired longer ago than this.", metavar="…")
@click.option(
    "--vacuum",
    "vacuum_hours",
    type=click.IntRange(0),
    default=168,
    show_default=True,
    help="Hours that old files stay.",
)
@click.option("--no-vacuum", is_flag=True, help="Leave old files where they are.")
@cores
@as_json
@with_settings(*KAFKA, "hot_window")
def compact(
    settings: Settings,
    retain: int | None,
    drop_expired: int | None,
    vacuum_hours: int,
    no_vacuum: bool,
    cores: int | None,
    as_json: bool,
) -> None:
    """Merge small files, cluster them by topic and time, remove repeats and what is over.

    Nothing is removed that an open backfill request may still see. Ingest may run beside it.

    \b
    Example: pastforward history compact --retain 90d --drop-expired 7d
    """
    from pastforward.spark_batch.compact import compact as run

    with _spark(settings, cores, kafka=True) as spark:
        run(
            spark,
            settings,
            retain=retain,
            drop_expired=drop_expired,
            vacuum_hours=None if no_vacuum else vacuum_hours,
            quiet=as_json,
        ).print(as_json)


@history.command()
@click.option("--write", "catalog", type=click.Path(path_type=Path), default="catalog.toml", show_default=True)
@click.option("--page", type=click.Path(path_type=Path), help="HTML with plots.")
@click.option("--without-kafka", is_flag=True, help="Do not ask how subscriptions use the attributes.")
@cores
@as_json
@with_settings(*KAFKA)
def statistics(
    settings: Settings, catalog: Path, page: Path | None, without_kafka: bool, cores: int | None, as_json: bool
) -> None:
    """Learn what publications and subscriptions look like; write a catalog for routing.

    \b
    Example: pastforward history statistics --write catalog.toml --page statistics.html
    """
    from pastforward.spark_batch.statistics import statistics as run

    with _spark(settings, cores, kafka=not without_kafka) as spark:
        run(spark, settings, catalog=catalog, page=page, without_kafka=without_kafka, quiet=as_json).print(as_json)


def asking(command: Any) -> Any:
    """What is looked for: the options of a subscription."""
    for option in (
        click.option("--semantics", type=click.Choice(SEMANTICS), default="classical"),
        click.option("--time", type=click.Choice(TIME_BASES), default="published"),
        click.option("--to", "ends_at", type=MOMENT, help="End of the window."),
        click.option("--from", "starts_at", type=MOMENT, help="Begin of the window: -30d reaches thirty days back."),
        click.option("--scope", type=click.Choice(SCOPES), default="overlap"),
        click.option("--topic", help="Dewey path such as 1.4.2; the root if left out."),
        click.option("--where", help="Condition, as in SQL.", metavar="CONDITION"),
    ):
        command = option(command)
    return command


def _asked(
    where: str | None, topic: str | None, scope: str, starts_at: Moment, ends_at: Moment, time_: str, semantics: str
) -> Any:
    from pastforward.columns.vocabulary import Scope, Semantics, TimeBasis
    from pastforward.matching import Condition, ConditionError
    from pastforward.matching.conditions.oracle import Subscription
    from pastforward.schemas.dewey_text import check_path

    now = time.time_ns() // 1000
    try:
        condition = Condition() if where is None else Condition.parse(where)
    except ConditionError as error:
        raise UserError(f"the condition cannot be taken: {error}") from error
    return Subscription(
        condition.disjuncts,
        check_path(topic or ""),
        cast(Scope, scope),
        micros(starts_at, now),
        micros(ends_at, now),
        cast(TimeBasis, time_),
        cast(Semantics, semantics),
    )


@history.command()
@asking
@click.option("--replay", is_flag=True, help="Only count what would have matched, by day; Kafka is not touched.")
@click.option("--file", type=click.File("rb"), help="With --replay: subscriptions as JSON lines; - for standard input.")
@cores
@as_json
@with_settings(*ROUTED)
def backfill(
    settings: Settings,
    where: str | None,
    topic: str | None,
    scope: str,
    starts_at: Moment,
    ends_at: Moment,
    time: str,
    semantics: str,
    replay: bool,
    file: IO[bytes] | None,
    cores: int | None,
    as_json: bool,
) -> None:
    """Answer the part of subscriptions that lies before the hot window.

    Without options: all open requests, in one pass. With --where, --topic, --from or --to: one question, printed. With --replay: what
    subscriptions would have matched, counted by day.

    \b
    Example: pastforward history backfill
             pastforward history backfill --topic 1.4 --from -30d --where "severity >= 3"
             pastforward history backfill --replay --file subscriptions.jsonl --from -30d
    """
    single = any(each is not None for each in (where, topic, starts_at, ends_at))
    asked = _asked(where, topic, scope, starts_at, ends_at, time, semantics)
    if replay:
        subscriptions = {"asked": asked} if file is None else dict(_replayed(file, asked))
        with _spark(settings, cores) as spark:
            _replay(spark, settings, subscriptions, as_json)
        return
    if file is not None:
        raise UserError("--file needs --replay: only what is counted offline is read from a file")
    with _spark(settings, cores, kafka=not single) as spark:
        if single:
            _query(spark, settings, asked, "json" if as_json else "table", SHOWN, None)
            return
        from pastforward.spark_batch.backfill import backfill as run

        run(spark, settings, quiet=as_json).print(as_json)


def _replay(spark: Any, settings: Settings, subscriptions: dict[str, Any], as_json: bool) -> None:
    from pastforward.spark_batch.replay import chart, replay

    summary, counts = replay(spark, settings, subscriptions, quiet=as_json)
    if not as_json:
        for line in chart(counts):
            click.echo(line)
    summary.print(as_json)


def _replayed(file: IO[bytes], window: Any) -> Iterator[tuple[str, Any]]:
    """Subscriptions as the input topic takes them; the window given on the command line narrows each."""
    from pastforward.matching import Condition, ConditionError
    from pastforward.matching.conditions.oracle import Subscription as Asked
    from pastforward.schemas import SchemaError, Subscription, decode_subscription
    from pastforward.schemas.codec import time_basis

    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = decode_subscription(None, line)
            if not isinstance(record, Subscription) or not (record.where is None or isinstance(record.where, str)):
                raise UserError(f"line {number}: write a subscription whose condition is a text")
            condition = Condition() if record.where is None else Condition.parse(record.where)
        except (SchemaError, ConditionError) as error:
            raise UserError(f"line {number}: {error}") from error
        starts = [at for at in (record.starts_at, window.starts_at) if at is not None]
        ends = [at for at in (record.ends_at, window.ends_at) if at is not None]
        yield (
            record.subscription_id,
            Asked(
                condition.disjuncts,
                record.topic,
                record.scope,
                max(starts, default=None),
                min(ends, default=None),
                time_basis(record),
                record.semantics,
            ),
        )


@history.command()
@asking
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table")
@click.option("--parquet", help="Write all rows there, a path or URL, instead of printing them.")
@click.option("--limit", type=click.IntRange(0), help=f"Rows to print; {SHOWN} for a table, 0 for all.")
@cores
@as_json
@with_settings(*STORED, "data_dir")
def query(
    settings: Settings,
    where: str | None,
    topic: str | None,
    scope: str,
    starts_at: Moment,
    ends_at: Moment,
    time: str,
    semantics: str,
    form: str,
    parquet: str | None,
    limit: int | None,
    cores: int | None,
    as_json: bool,
) -> None:
    """Search the history: rows as a table, as JSON lines, or into Parquet.

    \b
    Example: pastforward history query --topic 1.4 --from -30d --where "kind = 'accident' AND severity >= 3"
             pastforward history query --where "severity >= 3" --json --limit 0
    """
    asked = _asked(where, topic, scope, starts_at, ends_at, time, semantics)
    form = "json" if as_json else form
    with _spark(settings, cores) as spark:
        _query(spark, settings, asked, form, SHOWN if limit is None and form == "table" else limit, parquet)


def _query(spark: Any, settings: Settings, asked: Any, form: str, limit: int | None, parquet: str | None) -> None:
    from pastforward.spark_batch.query import query, to_line

    table = Table("published", "topic", "publication", "attributes", box=None, header_style="bold")

    def show(row: dict[str, Any]) -> None:
        if form == "json":
            click.echo(to_line(row))
        else:
            content = " ".join(f"{name}={json.dumps(value)}" for name, value in sorted(row["attributes"].items()))
            table.add_row(row["published_at"], row["topic"], row["publication_id"], content)

    summary = query(spark, settings, asked, limit=limit or None, parquet=parquet, show=show)
    if form == "table" and table.row_count:
        Console().print(table)
    # the rows are what a script reads: the summary goes beside them
    click.echo(summary.line, err=form == "json" and parquet is None)
