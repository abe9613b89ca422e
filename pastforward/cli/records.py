"""Commands that a user of the topics needs: subscribe, unsubscribe, publish, watch, explain."""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import IO, Any, cast

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from pastforward.cli.options import CONNECTION, open_client, with_settings
from pastforward.cli.output import called, console
from pastforward.client import Client, Instant, Moment, Notification, micros
from pastforward.client.fields import record_fields
from pastforward.columns.times import datetime_of
from pastforward.columns.vocabulary import (
    DELIVERIES,
    SCOPES,
    SEMANTICS,
    TIME_BASES,
    Deliver,
    Scope,
    Semantics,
    TimeBasis,
)
from pastforward.errors import UserError
from pastforward.matching.conditions.printing import name_text, value_text
from pastforward.matching.conditions.values import Circle, Point, Value
from pastforward.names import is_name
from pastforward.schemas import Best, BestOffer, Content, Publication, SchemaError, decode_publication
from pastforward.schemas.records import Prefer
from pastforward.schemas.times import micros_of_text
from pastforward.settings import Settings, parse_duration

SHOWN = 80  # characters of a value, at most
PHASES = {"past": "yellow", "live": "green", "backfill": "magenta", "best": "cyan"}


class MomentType(click.ParamType):
    """`-10m` and `+1h` are relative to now; RFC 3339 and integer microseconds are absolute."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        text = str(value)
        try:
            if text[:1] in "+-" and not text[1:].isdigit():
                micros = parse_duration(text[1:])
                return timedelta(microseconds=-micros if text[0] == "-" else micros)
            if text.lstrip("-").isdigit():
                return Instant.of(int(text))
            return Instant.of(micros_of_text(text, "the time"))
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is no time; write -10m, +1h, 2026-01-31T12:00:00Z or integer microseconds", param, ctx)


class SomeText(click.ParamType):
    """Not an empty one: that comes of a variable which is not set."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("it is empty; write a value, or leave the option out", param, ctx)
        return str(value)


class Place(click.ParamType):
    """Numbers with commas between them, such as 8.54,47.37,500."""

    name = "place"

    def __init__(self, kind: type[Point | Circle], example: str) -> None:
        self._kind, self._example = kind, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._kind(*(float(number) for number in str(value).split(",")))
        except (ValueError, TypeError):
            self.fail(f"{value!r} is no place; write {self._example}", param, ctx)


MOMENT = MomentType()
NEAR = Place(Circle, "longitude, latitude and metres, such as 8.54,47.37,500")
PLACE = Place(Point, "longitude and latitude, such as 8.54,47.37")
TOPIC = "Path such as 1.4.2, or names such as roads/I-95; the root if left out."
SOME = SomeText()


@click.command()
@click.option("--where", help="Condition, as in SQL.", metavar="CONDITION")
@click.option("--topic", "topics", multiple=True, help=f"{TOPIC} Up to eight times.")
@click.option("--near", type=NEAR, metavar="LON,LAT,METRES", help="Of what is published with --place in that circle.")
@click.option("--scope", type=click.Choice(SCOPES), default="overlap")
@click.option("--from", "starts_at", type=MOMENT, help="Begin of the window: -10m reaches ten minutes back.")
@click.option("--to", "ends_at", type=MOMENT, help="End of the window; none if left out.")
@click.option("--id", "subscription_id", type=SOME, help="The same id again replaces; a new one if left out.")
@click.option("--subscriber", type=SOME, help="Who is notified; your user name if left out.")
@click.option("--time", type=click.Choice(TIME_BASES), default="published")
@click.option("--semantics", type=click.Choice(SEMANTICS), default="classical")
@click.option("--self-join", is_flag=True, help="Only what no earlier subscription of the subscriber matches.")
@click.option("--deliver", type=click.Choice(DELIVERIES), default="content", help="What notifications carry.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION)
def subscribe(
    settings: Settings,
    where: str | None,
    topics: tuple[str, ...],
    near: Circle | None,
    scope: str,
    starts_at: Moment,
    ends_at: Moment,
    subscription_id: str | None,
    subscriber: str | None,
    time: str,
    semantics: str,
    self_join: bool,
    deliver: str,
    as_json: bool,
) -> None:
    """Send a subscription.

    \b
    Example: pastforward subscribe --topic 1.4 --from -10m --where "kind = 'accident' AND severity >= 3"
    """
    _check(where)
    with open_client(settings) as client:
        handle = client.subscribe(
            where,
            subscriber_id=subscriber or getpass.getuser(),
            subscription_id=subscription_id,
            topic=topics or "",
            near=near,
            scope=cast(Scope, scope),
            starts_at=starts_at,
            ends_at=ends_at,
            time=cast(TimeBasis, time),
            semantics=cast(Semantics, semantics),
            self_join=self_join,
            deliver=cast(Deliver, deliver),
        )
    record = handle.subscription
    if as_json:
        click.echo(json.dumps({"subscription_id": record.subscription_id, "subscriber_id": record.subscriber_id}))
    else:
        click.echo(
            f"subscription {record.subscription_id} at {_place(record.topic, topics, near)}, for subscriber {record.subscriber_id!r}"
        )


def _check(where: str | None) -> None:
    """A wrong condition would become a dead letter; here its writer is still at the keyboard."""
    from pastforward.matching import Condition, ConditionError

    try:
        if where is not None:
            Condition.parse(where)
    except ConditionError as error:
        raise UserError(f"the condition cannot be taken: {error}") from error


def _check_ahead(option: str, moment: Moment, so: str) -> None:
    """A time that is over helps nobody, and is mostly a slip: -1m for +1m."""
    at = micros(moment)
    if at is not None and at <= time.time_ns() // 1000:
        shown = datetime_of(at).isoformat(timespec="milliseconds")
        raise UserError(f"{option} is {shown}, which is past: {so}; write +10m for ten minutes from now")


def _place(path: str, topics: tuple[str, ...], near: Circle | None) -> str:
    """As it was asked for: cells of a map and numbers of names tell nobody anything."""
    if near is not None:
        below = f" below {topics[0]}" if any(topics) else ""
        return f"{path.count(',') + 1} cells around {near.lon:g}, {near.lat:g}{below}"
    if not path:
        return "the root topic"
    return f"topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"


@click.command()
@click.argument("subscription_ids", nargs=-1, required=True)
@with_settings(*CONNECTION)
def unsubscribe(settings: Settings, subscription_ids: tuple[str, ...]) -> None:
    """Withdraw subscriptions.

    \b
    Example: pastforward unsubscribe 4f1c2b
    """
    with open_client(settings) as client:
        unknown = [name for name in subscription_ids if client.subscription(name) is None]
        for name in subscription_ids:
            if name not in unknown:
                client.unsubscribe(name)
                click.echo(f"withdrawn {name}")
    if unknown:
        raise UserError(
            f"there is no subscription {', '.join(map(repr, unknown))}: withdrawn before, or never sent; "
            f"`pastforward subscriptions list` shows those that stand"
        )


@click.command()
@click.argument("attributes", nargs=-1)
@click.option("--file", type=click.File("rb"), help="JSON lines, a publication each; - for standard input.")
@click.option("--topic", default="", help=TOPIC)
@click.option(
    "--place", type=PLACE, metavar="LON,LAT", help="Where it happened: its topic is a cell there, below --topic."
)
@click.option("--id", "publication_id", type=SOME, help="A new one if left out.")
@click.option("--publisher", type=SOME, help="Who is notified of matches as well.")
@click.option("--at", "published_at", type=MOMENT, help="When it happened; its arrival if left out.")
@click.option("--expires", "expires_at", type=MOMENT, help="+10m: for ten minutes; never if left out.")
@click.option("--where", help="A published condition, as in SQL.", metavar="CONDITION")
@click.option("--best", "best_attribute", help="Whose best offer is looked for, until it expires.", metavar="ATTRIBUTE")
@click.option("--prefer", type=click.Choice(["highest", "lowest"]), default="highest", help="Which offer is best.")
@click.option("--self-join", is_flag=True, help="Carry the ids of earlier publications on this topic.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION)
def publish(
    settings: Settings,
    attributes: tuple[str, ...],
    file: IO[bytes] | None,
    topic: str,
    place: Point | None,
    publication_id: str | None,
    publisher: str | None,
    published_at: Moment,
    expires_at: Moment,
    where: str | None,
    best_attribute: str | None,
    prefer: str,
    self_join: bool,
    as_json: bool,
) -> None:
    """Send one publication, its attributes as name=value, or many from a file of JSON lines.

    A value is JSON (3, true, {"lon": 8.5, "lat": 47.4}); what is no JSON is a text.

    \b
    Example: pastforward publish --topic 1.4.2 kind=accident severity=4
             pastforward publish --place 8.54,47.37 kind=ice
             pastforward publish --file publications.jsonl
             pastforward publish --topic 7.1 --where "price >= 100" --best price --expires +10m lot=painting
    """
    if file is not None:
        if attributes:
            raise UserError("give either attributes or --file, not both")
        with open_client(settings) as client:
            count = client.publish_many(_lines(file, client))
        if not count:
            raise UserError(f"nothing to publish: {file.name} has no line; write a JSON object on each")
        click.echo(json.dumps({"published": count}) if as_json else f"published {count}")
        return
    if not attributes and where is None and place is None:
        raise UserError(
            "nothing to publish: write attributes as name=value, a condition with --where, or --file with JSON lines"
        )
    content = _attributes(attributes)
    _check(where)
    _check_ahead("--expires", expires_at, "nobody would be notified")
    with open_client(settings) as client:
        name = client.publish(
            content,
            topic=topic,
            at=place,
            publication_id=publication_id,
            publisher_id=publisher,
            published_at=published_at,
            expires_at=expires_at,
            where=where,
            best=Best(best_attribute, cast(Prefer, prefer)) if best_attribute else None,
            self_join=self_join,
        )
    click.echo(json.dumps({"publication_id": name}) if as_json else f"publication {name}")


def _attributes(texts: tuple[str, ...]) -> dict[str, Value]:
    fields = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{text!r} is no attribute; write name=value")
        if name in fields:
            raise UserError(f"{name} is there twice; an attribute has one value")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    record = decode_publication(None, json.dumps({"attributes": fields}).encode())
    return record.attributes


def _lines(file: IO[bytes], client: Client) -> Iterator[Publication]:
    try:
        size = os.fstat(file.fileno()).st_size or None  # a pipe has none, and then no time left
    except OSError:
        size = None
    bar = Progress(
        SpinnerColumn(),
        BarColumn(),
        TextColumn("{task.fields[done]:,} publications, {task.fields[rate]:,.0f} a second"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("publishing", total=size, rate=0.0, done=0)
        started, read = time.monotonic(), 0
        for number, line in enumerate(file, 1):
            read += len(line)
            if not line.strip():
                continue
            try:
                yield decode_publication(None, _with_path(line, client))
            except SchemaError as error:
                raise UserError(f"line {number}: {error.reason}") from error
            if number % 1000 == 0:
                rate = number / (time.monotonic() - started)
                bar.update(task, completed=read, rate=rate, done=number)


def _with_path(line: bytes, client: Client) -> bytes:
    """The line with a path where its topic is a name."""
    if b"/" not in line:
        return line
    try:
        fields = json.loads(line)
    except ValueError:
        return line
    if not isinstance(fields, dict) or not is_name(fields.get("topic")):
        return line
    return json.dumps({**fields, "topic": client.names.topic(fields["topic"])}).encode()


@click.command()
@click.option("--recipient", type=SOME, help="Only the notifications of this subscriber or publisher.")
@click.option("--since", type=MOMENT, help="-10m: also what was notified in the last ten minutes.")
@click.option("--best", "of_best", is_flag=True, help="Best offers instead: who holds each, and every change.")
@click.option("--count", type=click.IntRange(1), help="End after so many.")
@click.option("--timeout", type=click.FloatRange(0), help="End after so many seconds without any.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
@with_settings(*CONNECTION)
def watch(
    settings: Settings,
    recipient: str | None,
    since: Moment,
    of_best: bool,
    count: int | None,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Print notifications as they come.

    \b
    Example: pastforward watch --recipient anna --since -1h
             pastforward watch --best
    """
    if of_best and (recipient or since is not None):
        raise UserError("--best shows all best offers as they stand: leave out --recipient and --since")
    out = console()
    with open_client(settings) as client:
        seen: Iterator[Notification | BestOffer] = (
            client.best_offers(timeout=timeout)
            if of_best
            else client.notifications(recipient, since=since, timeout=timeout)
        )
        for number, record in enumerate(seen, 1):
            if as_json:
                click.echo(json.dumps(record_fields(record), default=str))
                sys.stdout.flush()
            else:
                out.print(
                    _offer_line(record) if isinstance(record, BestOffer) else _line(record, client), soft_wrap=True
                )
            if count and number >= count:
                return


def _offer_line(offer: BestOffer) -> Text:
    line = Text()
    line.append(datetime_of(offer.changed_at).strftime("%H:%M:%S.%f")[:-3], "dim")
    line.append(" final " if offer.final else " best  ", PHASES["best"])
    line.append(offer.publication_id, "bold")
    line.append(f" at {offer.topic} ", "dim")
    if offer.subscription_id is None:
        line.append("has no offer")
    else:
        line.append(f"{offer.value} ", "bold")
        line.append(f"by {offer.subscriber_id} ({offer.subscription_id})")
    return line


def _line(notification: Notification, client: Client) -> Text:
    line = Text()
    line.append(notification.matched_at.strftime("%H:%M:%S.%f")[:-3], "dim")
    line.append(f" {notification.phase:8}", PHASES[notification.phase])
    line.append(f" {notification.recipient_id} ")
    line.append(notification.subscription_id, "bold")
    line.append(" ← ")
    line.append(notification.publication_id, "bold")
    line.append(f" at {called(notification.topic, client)}", "dim")
    if notification.phase == "best":
        line.append(" none any more" if notification.value is None else f" {notification.value}", "cyan")
    if notification.content is not None:
        for name, text in _shown(notification.content):
            line.append(f"  {name} ", "dim")
            line.append(text)
    return line


def _shown(content: Content) -> Iterator[tuple[str, str]]:
    """Attributes as a condition would write them, and what else was published, cut to a line's length."""
    for name, value in content.attributes.items():
        yield name_text(name), _cut(value_text(value))
    if content.where is not None:
        yield "where", _cut(content.where)
    if content.body is not None:
        yield "body", f"{len(content.body):,} bytes"
    if content.publisher_id is not None:
        yield "by", content.publisher_id
    if content.expires_at is not None:
        yield "until", datetime_of(content.expires_at).isoformat()


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


@click.command()
@click.argument("subscription_id")
@click.argument("publication_id")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION, "hot_window", "routing", "routing_depth")
def explain(settings: Settings, subscription_id: str, publication_id: str, as_json: bool) -> None:
    """Tell why a subscription and a publication did or did not match.

    Give the same hot window and routing as the workers have. Exit code 0: they matched; 3: they did not, or not yet.

    \b
    Example: pastforward explain 4f1c2b 77ab01
    """
    from pastforward.streams.explain import Explainer  # the streams take a second to import

    with open_client(settings) as client, Console(stderr=True).status("reading") as status:
        explainer = Explainer(
            settings,
            client.bootstrap_servers,
            client.registry,
            lambda what, done, total: status.update(f"{what}: {done:,} of {total:,}") if done % 10_000 == 0 else None,
        )
        verdict = explainer.explain(subscription_id, publication_id)
    if as_json:
        click.echo(json.dumps(asdict(verdict)))
    else:
        click.secho(verdict.outcome, fg="green" if verdict.outcome == "matched" else "yellow", bold=True)
        for reason in verdict.reasons:
            click.echo(f"  {reason}")
    if verdict.outcome != "matched":
        sys.exit(3)
