"""`pastforward history …`: the batch layer."""

from __future__ import annotations

import click

from pastforward.cli.later import not_built

JOBS = {
    "ingest": "Keep what was published: from the topic into the history table.",
    "compact": "Merge small files, remove what is over.",
    "statistics": "Learn what publications and subscriptions look like.",
    "backfill": "Answer the part of subscriptions that lies before the hot window.",
    "query": "Search the history.",
}


@click.group()
def history() -> None:
    """Keep, compact, understand and search the history."""


def _add(name: str, text: str) -> None:
    @history.command(name, help=f"{text}\n\n\\b\nExample: pastforward history {name}")
    def job() -> None:
        not_built(f"history {name}")


for _name, _text in JOBS.items():
    _add(_name, _text)
