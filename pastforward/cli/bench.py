"""`pastforward bench …`: the figures that the documents state."""

from __future__ import annotations

import click


@click.group()
def bench() -> None:
    """Measure. Each figure is a table and a plot.

    \b
    Example: pastforward bench codecs
    """
