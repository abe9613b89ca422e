"""`pastforward try`: what a condition would have matched, before anybody subscribes."""

from __future__ import annotations

import json
from typing import cast

import click
from rich.console import Console

from pastforward.cli.options import CONNECTION, open_client, with_settings
from pastforward.cli.records import MOMENT, NEAR, TOPIC
from pastforward.client import Moment
from pastforward.client.fields import content_text, trial_fields
from pastforward.client.trial import Miss, Trial
from pastforward.columns.vocabulary import Scope, Semantics
from pastforward.matching.conditions.printing import value_text
from pastforward.matching.conditions.values import Circle
from pastforward.settings import Settings

MISSES = 5  # predicates that are shown


@click.command("try")
@click.argument("condition")
@click.option("--topic", "topics", multiple=True, help=f"{TOPIC} Up to eight times.")
@click.option("--near", type=NEAR, metavar="LON,LAT,METRES", help="Of what is published with --place in that circle.")
@click.option("--scope", type=click.Choice(["overlap", "subtree"]), default="overlap")
@click.option("--semantics", type=click.Choice(["classical", "symmetric", "intersect"]), default="classical")
@click.option(
    "--since", type=MOMENT, help="How far to look back, such as -1d; the hot window if left out, a week at most."
)
@click.option("--examples", type=click.IntRange(0), default=5, show_default=True, help="Latest matches to show.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@with_settings(*CONNECTION, "hot_window")
def trial(
    settings: Settings,
    condition: str,
    topics: tuple[str, ...],
    near: Circle | None,
    scope: str,
    semantics: str,
    since: Moment,
    examples: int,
    as_json: bool,
) -> None:
    """Show what a condition would have matched: how often, what, what it missed by how much, and how dear it is.

    What is older than the topic keeps is in the history: `pastforward history backfill --replay` counts it there.

    \b
    Example: pastforward try "kind = 'accident' AND severity >= 3" --topic 1.4 --since -1d
    """
    with open_client(settings) as client, Console(stderr=True).status("reading"):
        found = client.try_condition(
            condition,
            topic=topics or "",
            near=near,
            scope=cast(Scope, scope),
            semantics=cast(Semantics, semantics),
            since=since,
            examples=examples,
        )
    if as_json:
        click.echo(json.dumps(trial_fields(found), default=str))
        return
    _print(found)


def _print(found: Trial) -> None:
    say = Console(highlight=False, soft_wrap=True).print
    share = f" ({found.matched / found.seen:.1%})" if found.seen else ""
    say(
        f"since {found.since.isoformat(timespec='seconds')}: {found.matched:,} of {found.seen:,} publications there match{share}"
    )
    say(f"a day: {found.a_day:,.0f}, if it goes on so")
    for example in found.examples:
        say(f"  {example.publication_id} at {example.topic or 'the root'}  {content_text(example)}", markup=False)
    if found.misses:
        say("missed by one predicate alone:")
    for miss in found.misses[:MISSES]:
        say(f"  {_missed(miss)}", markup=False)
    cost = found.cost
    dear = (
        ""
        if not cost.unselective
        else f", {cost.unselective} without anything to look it up by: tried for every publication"
    )
    parts = (_count(cost.disjuncts, "alternative"), _count(cost.predicates, "predicate"))
    say(f"cost: {', '.join(parts)}{dear}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _missed(miss: Miss) -> str:
    met = "the attribute is absent" if miss.value is None else f"nearest {value_text(miss.value)}"
    by = "" if miss.distance is None else f", by {miss.distance:g}"
    nearest = "" if miss.nearest is None else f" ({miss.nearest.publication_id})"
    return f"{miss.predicate}: {_times(miss.count)}; {met}{by}{nearest}"
