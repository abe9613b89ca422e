"""`pastforward subscriptions …`: what stands on the topics."""

from __future__ import annotations

import json

import click
from rich.table import Table

from pastforward.cli.options import CONNECTION, open_client, with_settings
from pastforward.cli.output import all_called, console
from pastforward.cli.suggest import Commands
from pastforward.client import Instant
from pastforward.client.fields import condition_of, subscription_fields
from pastforward.errors import UserError
from pastforward.settings import Settings

SHOWN = 100  # rows of a table, if nobody says otherwise
WIDE = 60  # characters of a condition in a table


@click.group(cls=Commands)
def subscriptions() -> None:
    """List, show, pause and resume the subscriptions that stand."""


@subscriptions.command("list")
@click.option("--subscriber", help="Only those of this subscriber.")
@click.option("--state", type=click.Choice(["live", "paused", "ended"]), help="Only those in this state.")
@click.option("--limit", type=click.IntRange(0), help=f"Rows to print; {SHOWN} for a table, 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
@with_settings(*CONNECTION)
def list_(settings: Settings, subscriber: str | None, state: str | None, limit: int | None, as_json: bool) -> None:
    """List subscriptions: id, subscriber, topic, window, condition.

    \b
    Example: pastforward subscriptions list --subscriber anna
    """
    with open_client(settings) as client:
        found = client.subscriptions(subscriber)
        found = [each for each in found if state is None or each.state == state]
        most = limit if limit is not None else (0 if as_json else SHOWN)
        shown = found[:most] if most else found
        places = [] if as_json else [all_called(each.record.topic, client) for each in shown]
    if as_json:
        for each in shown:
            click.echo(json.dumps(subscription_fields(each)))
        return
    table = Table("subscription", "subscriber", "topic", "from", "to", "condition", box=None, header_style="bold")
    for each, topic in zip(shown, places, strict=True):
        to = "" if each.ends_at is None else _time(each.ends_at)
        if each.state != "live":
            to = f"{to} ({each.state})".lstrip()
        table.add_row(
            each.subscription_id,
            each.subscriber_id,
            topic,
            _time(each.starts_at),
            to,
            _short(condition_of(each)),
        )
    if shown:
        console().print(table)
    rest = f", {len(found) - len(shown)} more: --limit 0 shows all" if len(found) > len(shown) else ""
    click.echo(f"{len(found)} subscription{'' if len(found) == 1 else 's'}{rest}")


@subscriptions.command()
@click.argument("subscription_id")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION)
def show(settings: Settings, subscription_id: str, as_json: bool) -> None:
    """Show one subscription as it stands.

    \b
    Example: pastforward subscriptions show 4f1c2b
    """
    with open_client(settings) as client:
        found = client.subscription(subscription_id)
        place = "" if found is None else all_called(found.record.topic, client)
    if found is None:
        raise UserError(f"there is no subscription {subscription_id!r}: withdrawn, or never sent")
    if as_json:
        click.echo(json.dumps(subscription_fields(found)))
        return
    table = Table(show_header=False, box=None)
    for name, value in subscription_fields(found).items():
        table.add_row(name, place if name == "topic" else str(value))
    console().print(table)


@subscriptions.command()
@click.argument("subscription_ids", nargs=-1, required=True)
@with_settings(*CONNECTION)
def pause(settings: Settings, subscription_ids: tuple[str, ...]) -> None:
    """Let subscriptions match nothing until they are resumed. They stay listed.

    \b
    Example: pastforward subscriptions pause 4f1c2b
    """
    with open_client(settings) as client:
        for name in subscription_ids:
            client.pause(name)
            click.echo(f"paused {name}")


@subscriptions.command()
@click.argument("subscription_ids", nargs=-1, required=True)
@with_settings(*CONNECTION)
def resume(settings: Settings, subscription_ids: tuple[str, ...]) -> None:
    """Resume paused subscriptions: what came meanwhile and lies in their window is notified, then what comes.

    \b
    Example: pastforward subscriptions resume 4f1c2b
    """
    with open_client(settings) as client:
        for name in subscription_ids:
            client.resume(name)
            click.echo(f"resumed {name}")


def _time(moment: Instant) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def _short(text: str) -> str:
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"
