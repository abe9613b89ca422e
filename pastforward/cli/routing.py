"""`pastforward routing …`: which scheme, and its change on a running system."""

from __future__ import annotations

import click

from pastforward.cli.later import not_built


@click.group()
def routing() -> None:
    """Compare routing schemes, and change the one in force."""


@routing.command()
def propose() -> None:
    """Predict what each scheme would cost on samples of subscriptions and publications.

    \b
    Example: pastforward routing propose
    """
    not_built("routing propose")


@routing.command()
def apply() -> None:
    """Change scheme, catalog or partitions while traffic goes on.

    \b
    Example: pastforward routing apply
    """
    not_built("routing apply")
