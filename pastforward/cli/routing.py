"""`pastforward routing …`: which scheme, and its change on a running system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
from rich.console import Console

from pastforward.cli.later import not_built
from pastforward.errors import UserError
from schemas import SchemaError, Withdrawal, decode_publication, decode_subscription

if TYPE_CHECKING:
    from streams.routing import Publication, Subscription


@click.group()
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
    from streams.routing.catalog import CatalogError
    from streams.routing.directory import read_catalog
    from streams.routing.propose import propose as estimate

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
    from streams.router import normal_form
    from streams.routing import Subscription

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
    from streams.router import normal_form
    from streams.routing import Publication

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
def apply() -> None:
    """Change scheme, catalog or partitions while traffic goes on.

    \b
    Example: pastforward routing apply
    """
    not_built("routing apply")
