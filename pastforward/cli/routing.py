"""`pastforward routing …`: which scheme, and its change on a running system."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from pastforward.broker import bootstrap_of
from pastforward.cli.options import CONNECTION, with_settings
from pastforward.cli.suggest import Commands
from pastforward.errors import UserError
from pastforward.schemas import SchemaError, Withdrawal, decode_publication, decode_subscription
from pastforward.settings import Settings

NAMES: Final = ("dewey", "ferry", "pan", "pav", "hybrid", "iim", "constraints")

if TYPE_CHECKING:
    from pastforward.streams.routing import Directory, Publication, Subscription
    from pastforward.streams.routing.change import View
    from pastforward.streams.worker.routing_change import Step


@click.group(cls=Commands)
def routing() -> None:
    """Compare routing schemes, and change the one in force."""


@routing.command()
@click.option("--subscriptions", type=click.File("rb"), required=True, help="A sample, JSON lines.")
@click.option("--publications", type=click.File("rb"), required=True, help="A sample, JSON lines.")
@click.option(
    "--partitions", type=click.IntRange(1, 4096), default=4, show_default=True, help="Of the rendezvous topic."
)
@click.option("--catalog", type=click.Path(path_type=Path), help="A catalog to use; else one is inferred.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the costs into this file.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def propose(
    subscriptions: IO[bytes],
    publications: IO[bytes],
    partitions: int,
    catalog: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Predict what each scheme would cost on samples of subscriptions and publications.

    \b
    Example: pastforward routing propose --subscriptions subs.jsonl --publications pubs.jsonl --partitions 16
    """
    from pastforward.streams.routing.catalog import CatalogError
    from pastforward.streams.routing.directory import read_catalog
    from pastforward.streams.routing.propose import propose as estimate

    try:
        known = None if catalog is None else read_catalog(catalog.read_text("utf-8"), "iim", partitions)
    except (CatalogError, OSError) as error:
        raise UserError(f"{catalog}: {error}") from error
    found = estimate(list(_subscriptions(subscriptions)), list(_publications(publications)), partitions, known)
    if plot is not None:
        found.plot(plot)
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    console = Console()
    console.print(found.table())
    console.print(found.advice())


def _subscriptions(file: IO[bytes]) -> Iterator[Subscription]:
    from pastforward.schemas.acceptance import normal_form
    from pastforward.streams.routing import Subscription

    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = decode_subscription(None, line)
            if not isinstance(record, Withdrawal):
                yield Subscription(
                    record.subscription_id,
                    record.topic,
                    record.scope,
                    normal_form(record.where),
                    record.semantics,
                    record.self_join,
                )
        except SchemaError as error:
            raise UserError(f"{file.name}, line {number}: {error.reason}") from error


def _publications(file: IO[bytes]) -> Iterator[Publication]:
    from pastforward.schemas.acceptance import normal_form
    from pastforward.streams.routing import Publication

    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = decode_publication(None, line)
            where = None if record.where is None else normal_form(record.where)
        except SchemaError as error:
            raise UserError(f"{file.name}, line {number}: {error.reason}") from error
        yield Publication(record.publication_id or str(number), record.topic, record.attributes, where)


@routing.command()
@click.option("--scheme", type=click.Choice(NAMES), help="The scheme; else that which is in force.")
@click.option("--depth", type=click.IntRange(1, 64), help="Components of a topic that decide its partition (dewey).")
@click.option("--catalog", type=click.Path(path_type=Path), help="TOML: attributes, kinds, domains, interval numbers.")
@click.option("--partitions", type=click.IntRange(1, 4096), help="Of the rendezvous topic.")
@click.option("--drop-auctions", is_flag=True, help="Give up open auctions that the new routing cannot hold.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION, "hot_window")
def apply(
    settings: Settings,
    scheme: str | None,
    depth: int | None,
    catalog: Path | None,
    partitions: int | None,
    drop_auctions: bool,
    as_json: bool,
) -> None:
    """Change scheme, catalog or partitions while traffic goes on. Without options: finish a change that was cut off.

    \b
    Example: pastforward routing apply --scheme pan --catalog catalog.toml --partitions 16
    """
    from pastforward.streams.worker.routing_change import Change

    started = time.monotonic()
    with _progress(as_json) as report:
        change = Change(settings, bootstrap_of(settings), report)
        try:
            if any(option is not None for option in (scheme, depth, catalog, partitions)):
                wanted = _wanted(change.view(), scheme, depth, catalog, partitions)
                change.begin(wanted, drop_auctions=drop_auctions)
            version = change.finish()
            entry = change.view().versions[version]
        finally:
            change.close()
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        result = {"version": version, "scheme": entry.scheme, "partitions": entry.partitions, "seconds": seconds}
        click.echo(json.dumps(result))
        return
    Console().print(f"version {version} is in force: {entry.scheme}, {entry.partitions} partitions; {seconds} s")


@routing.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION)
def abort(settings: Settings, as_json: bool) -> None:
    """Drop a change that is under way: the version in force stays. Possible until the new version begins to take over.

    \b
    Example: pastforward routing abort
    """
    from pastforward.streams.worker.routing_change import Change

    change = Change(settings, bootstrap_of(settings), lambda _: None)
    try:
        dropped = change.abort()
        in_force = change.view().current().in_force
    finally:
        change.close()
    if as_json:
        click.echo(json.dumps({"dropped": dropped, "version": in_force}))
        return
    Console().print(f"version {dropped} is dropped; version {in_force} stays in force")


def _wanted(
    view: View, scheme: str | None, depth: int | None, catalog: Path | None, partitions: int | None
) -> Directory:
    """What is in force, with what the options change."""
    from pastforward.streams.routing import CatalogError, Directory, read_catalog

    now = view.versions[view.current().in_force]
    name, count = scheme or now.scheme, partitions or now.partitions
    try:
        known = now.catalog if catalog is None else read_catalog(catalog.read_text("utf-8"), name, count)
    except (CatalogError, OSError) as error:
        raise UserError(f"{catalog}: {error}; what is in force stays") from error
    return Directory(0, name, count, depth or now.depth, known)


@contextmanager
def _progress(silent: bool) -> Iterator[Callable[[Step], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), disable=silent) as bars:

        def report(step: Step) -> None:
            if step.name not in tasks:
                tasks[step.name] = bars.add_task(step.name, total=step.total)
            bars.update(tasks[step.name], completed=step.total - step.left, total=step.total)

        yield report
