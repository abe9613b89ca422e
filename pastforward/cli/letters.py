"""`pastforward dead-letters …`: what the workers could not take, and why."""

from __future__ import annotations

import json

import click
from rich.table import Table

from pastforward.cli.options import CONNECTION, open_client, with_settings
from pastforward.cli.output import console
from pastforward.cli.records import MOMENT
from pastforward.cli.suggest import Commands
from pastforward.client import Client, Moment, Refusal
from pastforward.client.fields import letter_fields
from pastforward.errors import UserError
from pastforward.settings import Settings

SHOWN = 100  # rows of a table, if nobody says otherwise

since_option = click.option(
    "--since", type=MOMENT, help="-1h: only those of the last hour; all that are kept if left out."
)
kind_option = click.option("--kind", help="Only those of this kind, such as bad_condition.")


@click.group("dead-letters", cls=Commands)
def letters() -> None:
    """List, show and send again what could not be taken."""


@letters.command("list")
@since_option
@kind_option
@click.option("--limit", type=click.IntRange(0), help=f"Latest ones to print; {SHOWN} for a table, 0 for all.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
@with_settings(*CONNECTION)
def list_(settings: Settings, since: Moment, kind: str | None, limit: int | None, as_json: bool) -> None:
    """List dead letters: place, time, record, reason.

    \b
    Example: pastforward dead-letters list --since -1h
    """
    with open_client(settings) as client:
        found = _find(client, since, kind)
    most = limit if limit is not None else (0 if as_json else SHOWN)
    shown = found[-most:] if most else found
    if as_json:
        for each in shown:
            click.echo(json.dumps(letter_fields(each, settings)))
        return
    table = Table("letter", "arrived", "record", "kind", "reason", box=None, header_style="bold")
    for each in shown:
        fields = letter_fields(each, settings)
        arrived = each.arrived_at.strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(each.place, arrived, f"{fields['of']} {fields['id'] or '-'}", each.kind, each.reason)
    if shown:
        console().print(table)
    rest = f", {len(found) - len(shown)} earlier: --limit 0 shows all" if len(found) > len(shown) else ""
    click.echo(f"{len(found)} dead letter{'' if len(found) == 1 else 's'}{rest}")


@letters.command()
@click.argument("letter")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION)
def show(settings: Settings, letter: str, as_json: bool) -> None:
    """Show one dead letter with its record. LETTER is its place, as `list` shows it.

    \b
    Example: pastforward dead-letters show 2-17
    """
    with open_client(settings) as client:
        (found,) = _named(client, (letter,))
        again = client.fault(found)
    fields = letter_fields(found, settings)
    value = found.letter.value
    fields["value"] = None if value is None else value.decode("utf-8", "backslashreplace")
    fields["sent again it would be"] = "taken" if again is None else f"refused: {again}"
    if as_json:
        click.echo(json.dumps(fields))
        return
    table = Table(show_header=False, box=None)
    for name, text in fields.items():
        table.add_row(name, "-" if text is None else str(text))
    console().print(table)


@letters.command()
@click.argument("places", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that --since and --kind choose.")
@since_option
@kind_option
@click.option("--dry-run", is_flag=True, help="Only say what would be sent, and what would be refused again.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION)
def resend(
    settings: Settings,
    places: tuple[str, ...],
    everything: bool,
    since: Moment,
    kind: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send records again as they were, once what refused them has been put right.

    What would be refused again is not sent; then the exit code is 1.

    \b
    Example: pastforward dead-letters resend 2-17 --dry-run
             pastforward dead-letters resend --all --since -1h --kind bad_value
    """
    if bool(places) == everything:
        raise UserError("name the letters to send again, as `pastforward dead-letters list` shows them, or give --all")
    outcome: list[dict[str, str]] = []
    with open_client(settings) as client:
        for each in _find(client, since, kind) if everything else _named(client, places):
            said = _resend(client, each, dry_run)
            outcome.append({"letter": each.place, "outcome": said})
            if not as_json:
                click.echo(f"{each.place} {each.name or '-'}: {said}")
    refused = sum(not line["outcome"].startswith(("sent", "would be sent")) for line in outcome)
    if as_json:
        click.echo(json.dumps(outcome))
    if refused:
        raise UserError(f"{refused} of {len(outcome)} {'would be' if dry_run else 'were'} left out")


def _resend(client: Client, refusal: Refusal, dry_run: bool) -> str:
    try:
        again = client.fault(refusal)
        if again is not None:
            return f"would be refused again: {again}"
        if dry_run:
            client.check_sendable(refusal)
            return "would be sent"
        client.resend(refusal)
    except UserError as error:
        return f"cannot be sent: {error}"
    return "sent"


def _find(client: Client, since: Moment, kind: str | None) -> list[Refusal]:
    found = [each for each in client.dead_letters(since) if kind is None or each.kind == kind]
    return sorted(found, key=lambda each: (each.letter.arrived_at, each.partition, each.offset))


def _named(client: Client, places: tuple[str, ...]) -> list[Refusal]:
    found = {each.place: each for each in client.dead_letters()}
    for place in places:
        if place not in found:
            raise UserError(
                f"there is no dead letter {place!r}; `pastforward dead-letters list` shows those that are kept"
            )
    return [found[place] for place in places]
